"""The transaction of a session, local or XA (G), and what becomes of it when the link is lost (J4).

A local transaction begins with the first send or the first message consumed, and is decided by `commit` or `roll_back`.
Sends go out as they come; what was consumed is acknowledged just before the decision. After a reconnect the broker has
forgotten the transaction: it is begun again and its sends are repeated. What it consumed must come again, too; until
everything has, it cannot commit.

A commit whose answer was lost is in doubt. Our broker remembers what it committed, so it is asked again, and only if it
says no the work is repeated. Another broker cannot tell: the application gets an error that says that it is in doubt.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from ackwire.client.core.connection import ConnectionCore
from ackwire.client.core.delivery import Delivery
from ackwire.client.core.reply import Reply, settled
from ackwire.client.core.requests import Request
from ackwire.client.errors import (
    ConnectionFailedError,
    IllegalStateError,
    JMSError,
    RequestTimedOutError,
    TransactionInDoubtError,
    TransactionInProgressError,
    TransactionRolledBackError,
    XAError,
)
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.commands import TransactionType
from ackwire.wire.openwire.frame_builder import OutgoingMessage
from ackwire.wire.openwire.structures import Structure

XA_OK: Final = 0
XA_READ_ONLY: Final = 3
XAER_NOTA: Final = -4
XAER_INVAL: Final = -5
XAER_PROTO: Final = -6
XAER_RMFAIL: Final = -7
XA_ROLLED_BACK: Final = range(100, 108)
XA_RBCOMMFAIL: Final = 101
TM_JOIN: Final = 0x200000
TM_SUSPEND: Final = 0x2000000
TM_SUCCESS: Final = 0x4000000
TM_RESUME: Final = 0x8000000
TM_FAIL: Final = 0x20000000
XA_CODE: Final = re.compile(r"xaErrorCode:\s*(-?\d+)")

Done = Reply[None]
Send = tuple[OutgoingMessage, Reply[Structure] | None]
"""A message, and the answer that somebody waits for."""


class Participant(Protocol):
    """A consumer, as the transactions that consume from it see it."""

    @property
    def has_consumed(self) -> bool:
        """Whether the open transaction has consumed something here."""

    def missing_redeliveries(self) -> int:
        """How much of what the transaction consumed has not come again on the new link."""

    def acknowledge(self) -> object:
        """Acknowledge what the transaction consumed."""

    def committed(self) -> None: ...

    def roll_back(self, cause: BaseException | None = None) -> None: ...

    def hand_over(self) -> list[Delivery]:
        """What was delivered now belongs to an XA transaction that will be decided later."""

    def decided(self, delivered: list[Delivery], *, committed: bool) -> None:
        """The end of what was handed over."""

    def interrupted(self) -> None: ...

    def leave(self) -> object:
        """Tell the broker that this consumer is no more."""


class Owner(Protocol):
    """A session, as its transactions see it."""

    @property
    def consumers(self) -> Sequence[Participant]: ...

    @property
    def is_transacted(self) -> bool: ...

    def wake(self) -> None: ...


class Transactions:
    """The transaction that a session is in, and how it ends."""

    def __init__(self, session: Owner, connection: ConnectionCore) -> None:
        self._session = session
        self._connection = connection
        self._link = connection.link
        self._requests = connection.requests
        self.transaction_id: commands.TransactionId | None = None
        self._sends: list[Send] = []
        """Of the local transaction, to be repeated after a reconnect."""
        self._has_consumed = False
        self._leaving: list[Participant] = []
        self.deciding: Done | None = None
        """The decision that is being made, if one is."""
        self._is_in_doubt = False
        self._ended: dict[commands.TransactionId, list[tuple[Participant, list[Delivery]]]] = {}
        """XA branches that are not decided, and what they consumed here."""
        self._staying: dict[commands.TransactionId, list[Participant]] = {}
        """Consumers that were closed in such a branch, and leave when it is decided."""
        self._lost: dict[commands.TransactionId, None] = {}
        """XA branches whose link was lost before they were prepared."""

    @property
    def is_active(self) -> bool:
        return self.transaction_id is not None

    @property
    def is_in_xa(self) -> bool:
        return isinstance(self.transaction_id, commands.XATransactionId)

    # ---- local -------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Something happens that belongs to a transaction."""
        if self.transaction_id is None:
            self.transaction_id = self._connection.new_transaction_id()
            self._tell(TransactionType.BEGIN)

    def keep(self, message: OutgoingMessage, reply: Reply[Structure] | None = None) -> None:
        """*message* was sent in the transaction, and perhaps somebody waits for *reply*."""
        if self._connection.is_failover:
            self._sends.append((message, reply))

    def missing_redeliveries(self) -> int:
        """Messages consumed on an earlier link that have not come again."""
        return sum(consumer.missing_redeliveries() for consumer in self.consumers())

    def consumers(self) -> list[Participant]:
        """Those of the session, and those that leave when the transaction is decided."""
        return [*self._session.consumers, *self._leaving]

    def commit(self) -> Done:
        """Make everything visible, or nothing (G1); answered when that is decided."""
        self._check_local("commit")
        if self.transaction_id is None:
            return settled(None)
        for consumer in self.consumers():
            self._has_consumed |= consumer.has_consumed
            consumer.acknowledge()
        self.deciding = Reply()
        if self._link.is_up:
            self._ask_to_commit()
        return self.deciding

    def _ask_to_commit(self) -> None:
        self._request(TransactionType.COMMIT_ONE_PHASE).then(self._commit_answered)

    def _commit_answered(self, reply: Reply[Structure]) -> None:
        if self.deciding is None or self.deciding.is_done:
            return
        error = reply.error
        if error is None:
            self._committed()
        elif self._link.is_closed:
            self._in_doubt("the connection was closed during the commit", error)
        elif not isinstance(error, ConnectionFailedError):
            self._rolled_back(f"the broker has not committed: {error}", error)
        elif self._link.failure is None:
            self._is_in_doubt = True
        else:
            self._in_doubt("the connection was lost during the commit", error)

    def _committed(self) -> None:
        deciding = self._forget(None)
        for consumer in self.consumers():
            consumer.committed()
        self._let_leave()
        deciding.settle(None)

    def _rolled_back(self, text: str, cause: BaseException | None) -> None:
        self._ended_with(TransactionRolledBackError(text), cause)

    def _in_doubt(self, text: str, cause: BaseException | None) -> None:
        self._ended_with(TransactionInDoubtError(f"{text}: it may have been committed or not"), cause)

    def _ended_with(self, error: JMSError, cause: BaseException | None) -> None:
        deciding = self._forget(error)
        for consumer in self.consumers():
            consumer.roll_back(cause)
        self._let_leave()
        error.__cause__ = cause
        deciding.fail(error)

    def _forget(self, error: JMSError | None) -> Done:
        """It is over: committed, or for the reason *error*. Calls that wait for a send of it get *error*."""
        deciding, self.deciding = self.deciding, None
        self.transaction_id = None
        sends, self._sends = self._sends, []
        self._has_consumed = self._is_in_doubt = False
        for _, request in self._waiting(sends):
            if request is not None:
                self._requests.answer(request, error)
        self._session.wake()  # consumers may go on
        return deciding or Reply()

    def _waiting(self, sends: list[Send]) -> Iterator[tuple[OutgoingMessage, Request | None]]:
        """The messages, each with the request that is not answered yet, if there is one."""
        is_needed = any(reply is not None and not reply.is_done for _, reply in sends)
        unanswered = self._requests.unanswered() if is_needed else {}
        return ((message, None if reply is None else unanswered.get(reply)) for message, reply in sends)

    def roll_back(self, cause: BaseException | None = None) -> Done:
        """Undo everything, and give out again what was consumed; *cause* is what a dead letter names."""
        self._check_local("roll back")
        if self.transaction_id is None:
            return settled(None)
        done: Done = Reply()
        self.deciding = done
        if self._link.is_up:
            self._request(TransactionType.ROLLBACK).then(lambda reply: self._roll_back_answered(reply, cause))
        else:
            self._undone(cause)  # the broker has forgotten it together with the link
        return done

    def _roll_back_answered(self, reply: Reply[Structure], cause: BaseException | None) -> None:
        if self.deciding is None or self.deciding.is_done:
            return
        if reply.error is not None and not isinstance(reply.error, ConnectionFailedError):
            self._requests.report(reply)
        self._undone(cause)

    def _undone(self, cause: BaseException | None) -> None:
        deciding = self._forget(_undone())
        for consumer in self.consumers():
            consumer.roll_back(cause)
        self._let_leave()
        deciding.settle(None)

    def abandon(self) -> Reply[Structure] | None:
        """The session closes: undo, and give out nothing again here. Without a link the broker has undone it."""
        assert self.transaction_id is not None
        reply = self._request(TransactionType.ROLLBACK) if self._link.is_up else None
        self._forget(_undone())
        self._let_leave()
        return reply

    def _check_local(self, what: str) -> None:
        if self.is_in_xa:
            raise TransactionInProgressError(f"an XA transaction is in progress: its manager decides, not {what}")
        if not self._session.is_transacted:
            raise IllegalStateError(f"the session is not transacted: there is nothing to {what}")

    def leave_at_end(self, consumer: Participant) -> None:
        """*consumer* is closed, and leaves when the transaction that consumed from it is decided."""
        self._leaving.append(consumer)

    def _let_leave(self) -> None:
        leaving, self._leaving = self._leaving, []
        for consumer in leaving:
            consumer.leave()

    def _tell(self, kind: TransactionType) -> None:
        self._link.one_way(self._info(kind))

    def _request(self, kind: TransactionType) -> Reply[Structure]:
        return self._requests.request(self._info(kind), survives=False)

    def _info(
        self, kind: TransactionType, transaction_id: commands.TransactionId | None = None
    ) -> commands.TransactionInfo:
        return commands.TransactionInfo(
            connection_id=self._connection.connection_id,
            transaction_id=transaction_id or self.transaction_id,
            type=kind,
        )

    # ---- links -------------------------------------------------------------------------------------------------

    def restore(self) -> None:
        """On a new link: everything again, or first the question how it ended (J4)."""
        if self.transaction_id is None:
            return
        if self.is_in_xa:
            self._lost[self.transaction_id] = None
        elif self._is_in_doubt:
            self._resolve_doubt()
        elif self.deciding is not None and self._has_consumed:
            self._rolled_back("the connection was lost before the commit, and what was consumed comes again", None)
        else:
            self._repeat()

    def _repeat(self) -> None:
        self._tell(TransactionType.BEGIN)
        for message, request in self._waiting(self._sends):
            if request is None:
                self._link.send_message(message, in_transaction=True)
            else:
                self._requests.write(request)
        if self.deciding is not None:
            self._ask_to_commit()

    def _resolve_doubt(self) -> None:
        self._is_in_doubt = False
        if not self._link.is_our_broker:
            self._in_doubt("the connection was lost during the commit, and this broker cannot say how it ended", None)
            return
        self._request(TransactionType.COMMIT_ONE_PHASE).then(self._doubt_answered)

    def _doubt_answered(self, reply: Reply[Structure]) -> None:
        if self.deciding is None or self.deciding.is_done:
            return
        if reply.error is None or isinstance(reply.error, ConnectionFailedError):
            self._commit_answered(reply)
        elif self._has_consumed:
            self._rolled_back("the connection was lost during the commit, which had not happened", reply.error)
        else:
            self._repeat()

    def failed(self) -> None:
        """The connection is lost for good."""
        if self.deciding is not None and self._is_in_doubt:
            self._in_doubt("the connection was lost during the commit", self._link.failure)
        elif self.deciding is not None:
            self._rolled_back("the connection was lost before the commit", self._link.failure)

    # ---- XA ----------------------------------------------------------------------------------------------------

    def xa_start(self, xid: commands.XATransactionId, flags: int = 0) -> None:
        """Work from now on belongs to *xid* (G3). The broker knows whether that is new, joined or resumed."""
        _check_flags(flags, (0, TM_JOIN, TM_RESUME), "start")
        if self.transaction_id is not None:
            raise XAError("the session is in a transaction already", XAER_PROTO)
        self.transaction_id = xid
        self._tell(TransactionType.BEGIN)

    def xa_end(self, xid: commands.XATransactionId, flags: int = TM_SUCCESS) -> Reply[Structure]:
        """Work from now on belongs to *xid* no longer. That it failed is said by its rollback."""
        _check_flags(flags, (0, TM_SUCCESS, TM_SUSPEND, TM_FAIL), "end")
        if self.transaction_id != xid:
            raise XAError(f"{xid} is not the transaction that this session is in", XAER_PROTO)
        consumed = self._ended.setdefault(xid, [])
        for consumer in self.consumers():
            consumer.acknowledge()
            consumed.append((consumer, consumer.hand_over()))
        reply = self._request(TransactionType.END)
        self.transaction_id = None
        if self._leaving:
            self._staying.setdefault(xid, []).extend(self._leaving)
            self._leaving = []
        return reply

    def xa_decide(self, xid: commands.XATransactionId, kind: TransactionType) -> Reply[Structure]:
        """Prepare, commit, roll back or forget *xid*."""
        if self.transaction_id == xid:
            if kind is not TransactionType.ROLLBACK:
                raise XAError(f"{xid} must be ended before it can be decided", XAER_PROTO)
            self.xa_end(xid)
        if xid in self._lost and kind in (TransactionType.PREPARE, TransactionType.COMMIT_ONE_PHASE):
            raise XAError("the connection was lost before the transaction was prepared", XA_RBCOMMFAIL)
        reply = self._requests.request(self._info(kind, xid))
        reply.then(lambda answer: self._xa_answered(xid, kind, answer))
        return reply

    def _xa_answered(self, xid: commands.XATransactionId, kind: TransactionType, reply: Reply[Structure]) -> None:
        is_unknown = isinstance(reply.error, RequestTimedOutError | ConnectionFailedError)
        if is_unknown or (reply.error is not None and kind is TransactionType.COMMIT_TWO_PHASE):
            return  # its manager will ask again: what was prepared stays so
        if kind in (TransactionType.PREPARE, TransactionType.FORGET):
            answer = None if reply.error is not None else reply.result()
            is_read_only = isinstance(answer, commands.IntegerResponse) and answer.result == XA_READ_ONLY
            if not is_read_only and not _is_rolled_back(reply):
                return
            kind = TransactionType.COMMIT_ONE_PHASE
        self._connection.members.xa_decided(xid, committed=kind is not TransactionType.ROLLBACK and reply.error is None)

    def xa_decided(self, xid: commands.XATransactionId, *, committed: bool) -> None:
        """*xid* has ended, here or in another session that had joined it."""
        self._lost.pop(xid, None)
        for consumer, consumed in self._ended.pop(xid, []):
            consumer.decided(consumed, committed=committed)
        for consumer in self._staying.pop(xid, []):
            consumer.leave()

    def xa_recover(self) -> Reply[Structure]:
        """Ask for the transactions that are prepared and not decided."""
        info = commands.TransactionInfo(connection_id=self._connection.connection_id, type=TransactionType.RECOVER)
        return self._requests.request(info)


def _check_flags(flags: int, known: tuple[int, ...], verb: str) -> None:
    if flags not in known:
        raise XAError(f"{verb} knows the flags {', '.join(map(hex, known))}, not {flags:#x}", XAER_INVAL)


def _is_rolled_back(reply: Reply[Structure]) -> bool:
    """Whether the broker has answered that the branch is rolled back: then its manager does not ask for that again."""
    return isinstance(reply.error, JMSError) and xa_error(reply.error).code in XA_ROLLED_BACK


def _undone() -> JMSError:
    return TransactionRolledBackError("the transaction was rolled back")


def xa_error(error: JMSError) -> XAError:
    """What the broker reported about an XA transaction, with its code."""
    code = XA_CODE.search(str(error))
    found = XAError(str(error), int(code[1]) if code else XAER_RMFAIL)
    found.__cause__ = error
    return found

# generated from src/ackwire/client/aio/xa.py by tools/async_to_sync.py; change that
"""Distributed transactions: sessions whose work a transaction manager decides about (G3)."""

from typing import Final

from ackwire.client.core.reply import Reply
from ackwire.client.core.session import SessionCore
from ackwire.client.core.transaction import (
    TM_FAIL,
    TM_JOIN,
    TM_RESUME,
    TM_SUCCESS,
    TM_SUSPEND,
    XA_OK,
    XA_READ_ONLY,
    xa_error,
)
from ackwire.client.errors import JMSError, RequestTimedOutError, TransactionInProgressError, XAError
from ackwire.client.sync.owners import OwningConnection
from ackwire.client.sync.session import Session
from ackwire.client.xid import Xid
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.commands import TransactionType
from ackwire.wire.openwire.structures import Structure


class XASession(Session):
    """A session for distributed transactions; outside of one it works in AUTO mode, or as jms.xaAckMode says."""

    def __init__(self, connection: OwningConnection, core: SessionCore) -> None:
        super().__init__(connection, core)
        self.xa = XAResource(self)

    def commit(self) -> None:
        raise TransactionInProgressError("a transaction manager commits the work of this session, through `xa`")

    def rollback(self, cause: BaseException | None = None) -> None:
        del cause
        raise TransactionInProgressError("a transaction manager rolls the work of this session back, through `xa`")


class XAResource:
    """What a transaction manager sees of a session. Its methods raise `XAError`."""

    TMNOFLAGS: Final = 0
    TMJOIN: Final = TM_JOIN
    TMRESUME: Final = TM_RESUME
    TMSUCCESS: Final = TM_SUCCESS
    TMSUSPEND: Final = TM_SUSPEND
    TMFAIL: Final = TM_FAIL
    XA_OK: Final = XA_OK
    XA_RDONLY: Final = XA_READ_ONLY

    def __init__(self, session: XASession) -> None:
        self._session = session

    def is_same_rm(self, other: "XAResource") -> bool:
        """Whether both belong to one connection: then the second may join the branch of the first."""
        return self._session.connection is other._session.connection

    def start(self, xid: Xid, flags: int = TMNOFLAGS) -> None:
        """Work of the session belongs to *xid* from now on: a new branch, or one joined or resumed."""
        session = self._session
        with session._guard:
            session._core.check_open()
            session._core.transactions.xa_start(xid.to_wire(), flags)

    def end(self, xid: Xid, flags: int = TMSUCCESS) -> None:
        """And from now on it does not."""
        session = self._session
        with session._guard:
            session._core.check_open()
            self._answer(session._core.transactions.xa_end(xid.to_wire(), flags), "the end of the work")

    def prepare(self, xid: Xid) -> int:
        """Promise that *xid* can be committed, whatever happens: 0, or 3 if it did nothing and is done."""
        response = self._decide(xid, TransactionType.PREPARE)
        return response.result if isinstance(response, commands.IntegerResponse) else XA_OK

    def commit(self, xid: Xid, one_phase: bool = False) -> None:
        """Commit *xid*, which was prepared, or in *one_phase*."""
        kind = TransactionType.COMMIT_ONE_PHASE if one_phase else TransactionType.COMMIT_TWO_PHASE
        self._decide(xid, kind)

    def rollback(self, xid: Xid) -> None:
        """Undo the work of *xid*."""
        self._decide(xid, TransactionType.ROLLBACK)

    def forget(self, xid: Xid) -> None:
        """Forget how *xid* ended."""
        self._decide(xid, TransactionType.FORGET)

    def recover(self) -> list[Xid]:
        """The transactions that are prepared and not decided, of all clients."""
        session = self._session
        with session._guard:
            session._core.check_open()
            response = self._answer(session._core.transactions.xa_recover(), "the list of transactions")
        data = response.data if isinstance(response, commands.DataArrayResponse) else None
        return [Xid.from_wire(xid) for xid in data or () if isinstance(xid, commands.XATransactionId)]

    def _decide(self, xid: Xid, kind: TransactionType) -> Structure:
        session = self._session
        with session._guard:
            session._core.check_open()
            reply = session._core.transactions.xa_decide(xid.to_wire(), kind)
            return self._answer(reply, f"the {kind.name.lower().replace('_', ' ')} of a transaction")

    def _answer(self, reply: Reply[Structure], what: str) -> Structure:
        try:
            return self._session._answer(reply, what)
        except (XAError, RequestTimedOutError):
            raise
        except JMSError as error:
            raise xa_error(error) from error

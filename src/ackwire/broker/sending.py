"""How a message comes in, from top to bottom (SEMANTICS B, G1, J4).

A `Send` passes these steps, each a method below, in this order:

    check      may the client send there, and is its clock right?
    repeated?  a client that came back repeats what was not answered: what the broker has is only answered
    admit      is there space? Otherwise the send is blocked until there is
    count      remember the number that the producer gave the message (`duplicates.py`)
    route      find the queue; what is meant for later goes to the scheduler, topics and composites to the publisher
    stamp      give it its place in the broker's order, and its time to live
    record     in the store
    enqueue    offer it to a consumer: at once, or when it is durable (`early_dispatch.py`, `dispatch_gate.py`)
    answer     the sender: when the message is durable, or consumed before that

A message of a transaction is kept with the transaction after it is admitted; its commit does the rest.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, final

from ackwire.broker.advisory import Advisories
from ackwire.broker.auditing import Audit
from ackwire.broker.dispatch_gate import DispatchGate
from ackwire.broker.duplicates import Duplicates
from ackwire.broker.early_dispatch import EarlyDispatch, Leave
from ackwire.broker.limits import BlockedSend, FlowControl
from ackwire.broker.live_settings import LiveSettings
from ackwire.broker.permissions import Action, Permissions
from ackwire.broker.publishing import Publisher
from ackwire.broker.queue import Queue
from ackwire.broker.registry import Registry
from ackwire.broker.routing import Routing
from ackwire.broker.scheduler import LATEST_MS
from ackwire.broker.session import Connection
from ackwire.broker.transaction_manager import TransactionManager
from ackwire.errors import BrokerError
from ackwire.jms.destinations import Destination
from ackwire.jms.message import HAS_LEFT_EARLY, MAY_LEAVE_EARLY, WAITS_FOR_STORE, Message
from ackwire.jms.message_editor import MessageEditor
from ackwire.store.contract import Store
from ackwire.util.clock import Clock

_PERMITTED_MAX: Final = 1000
"""Destinations of one connection that it is remembered to be permitted to send to."""

_TIME_TO_LIVE_SHARE_TOLERATED: Final = 0.1
"""What a message may lose of its time to live to a clock that is behind."""


@final
class Send:
    """A message that a client sends, and who is to be answered."""

    __slots__ = ("connection", "message", "on_refused", "on_stored")

    def __init__(
        self,
        connection: Connection,
        message: Message,
        on_stored: Callable[[], None] | None,
        on_refused: Callable[[Message, BrokerError], None] | None,
    ) -> None:
        self.connection = connection
        self.message = message
        self.on_stored = on_stored
        """Called when the message is as durable as it asked to be; None if the sender does not wait."""
        self.on_refused = on_refused
        """Called if it is refused after `Sending.send` has returned."""

    @property
    def on_failed(self) -> Callable[[BrokerError], None] | None:
        """What the store calls if it fails."""
        return None if self.on_refused is None else partial(self.on_refused, self.message)


@final
class Sending:
    """Takes messages from clients."""

    def __init__(
        self,
        *,
        clock: Clock,
        store: Store,
        editor: MessageEditor,
        settings: LiveSettings,
        flow: FlowControl,
        early_dispatch: EarlyDispatch,
        gate: DispatchGate,
        registry: Registry,
        advisories: Advisories,
        duplicates: Duplicates,
        publisher: Publisher,
        routing: Routing,
        transactions: TransactionManager,
        permissions: Permissions,
        audit: Audit | None,
    ) -> None:
        self._clock = clock
        self._store = store
        self._editor = editor
        self._settings = settings
        self._flow = flow
        self._early_dispatch = early_dispatch
        self._gate = gate
        self._registry = registry
        self._advisories = advisories
        self._duplicates = duplicates
        self._publisher = publisher
        self._routing = routing
        self._transactions = transactions
        self._permissions = permissions
        self._is_audited = audit is not None

    def send(
        self,
        connection: Connection,
        message: Message,
        on_stored: Callable[[], None] | None,
        on_refused: Callable[[Message, BrokerError], None] | None,
    ) -> None:
        """Take *message*, or block the send until there is space. Raises `BrokerError` if it is refused."""
        send = Send(connection, message, on_stored, on_refused)
        try:
            if message.destination is not connection.sends_to:
                self._check_permission(connection, message.destination)
            if message.expiration:
                self._correct_clock_difference(message)
            if connection.is_reconnect and self._is_repeated(send):
                self._answer(send)  # it has its space already
            elif self._is_admitted(send):
                self._take(send)
            else:
                self._block(send)
        except BrokerError:
            self._duplicates.refused(message)
            raise

    # ---- check -------------------------------------------------------------------------------------------------

    def _check_permission(self, connection: Connection, where: Destination) -> None:
        """Raise `NotAuthorised` unless *connection* may send to *where*; decided once for each destination."""
        if where not in connection.may_send_to:
            self._permissions.permit(connection.principal, Action.SEND, where)
            if len(connection.may_send_to) >= _PERMITTED_MAX:
                connection.may_send_to.clear()
            connection.may_send_to.add(where)
        connection.sends_to = where

    def _correct_clock_difference(self, message: Message) -> None:
        """Count the time to live from now where the producer's clock is not ours: good messages must not expire (N1).

        On arrival and not in `Publisher.settle_expiration`, because a transaction or a full memory may delay the
        message, and that time is part of its life.
        """
        clocks = self._settings.current.clocks
        time_to_live_ms = message.expiration - message.timestamp
        if clocks.correction == "off" or message.timestamp <= 0 or time_to_live_ms <= 0:
            return
        now_ms = self._clock.now_ms()
        behind_ms = now_ms - message.timestamp
        tolerated_ms = min(clocks.tolerance_seconds * 1000, time_to_live_ms * _TIME_TO_LIVE_SHARE_TOLERATED)
        if behind_ms > tolerated_ms or (clocks.correction == "both" and -behind_ms > tolerated_ms):
            self._editor.with_expiration(message, min(now_ms + time_to_live_ms, LATEST_MS), now_ms)

    def _is_repeated(self, send: Send) -> bool:
        """Whether the broker has the message from before the client lost its connection."""
        message = send.message
        return message.origin.transaction is None and self._duplicates.includes(send.connection, message)

    # ---- admit -------------------------------------------------------------------------------------------------

    def _is_admitted(self, send: Send) -> bool:
        """Whether there is space for the message, or it may do without."""
        message, flow = send.message, self._flow
        if flow.has_space(message) and not self._registry.has_memory_limits:
            return True
        if not flow.must_wait(send.connection, message) and self._no_space(message) is None:
            return True
        return self._continues_transaction(message)

    def _no_space(self, message: Message) -> str | None:
        """Why *message* has to wait: the broker's limit, or that of the queue it is for; None if it need not."""
        reason = self._flow.no_space(message)
        registry = self._registry
        if reason is not None or not registry.has_memory_limits:
            return reason
        return next(filter(None, map(self._is_full, message.destination.parts())), None)

    def _is_full(self, where: Destination) -> str | None:
        target = self._registry.router.get(where)
        limit = target.policy.memory_bytes_max if isinstance(target, Queue) else None
        if limit is None or not isinstance(target, Queue) or target.size_bytes < limit:
            return None
        return f"{where!r} is full: {target.size_bytes} of {limit} bytes (its policy's memory_bytes_max)"

    def _excess_bytes(self, message: Message) -> int:
        """How far the queue that *message* is for is above its own limit; the most of them for a composite."""
        queues = map(self._registry.router.get, message.destination.parts())
        limited = [it for it in queues if isinstance(it, Queue) and it.policy.memory_bytes_max is not None]
        return max((it.size_bytes - (it.policy.memory_bytes_max or 0) for it in limited), default=0)

    def _continues_transaction(self, message: Message) -> bool:
        """A transaction waits for space before its first work, and not half way: its end is what makes space."""
        transaction_id = message.origin.transaction
        if transaction_id is None or not self._transactions.has_begun_work(transaction_id):
            return False
        self._flow.admit(transaction_id)  # an earlier send may still be blocked, from before it began with an ack
        return True

    def _block(self, send: Send) -> None:
        """Keep the send until there is space."""
        connection, message, flow = send.connection, send.message, self._flow
        policy = self._registry.policy_for(message.destination)
        reason = partial(self._no_space, message)
        if policy.advise_full and not flow.must_wait(connection, message):
            self._advisories.full(message.destination, reason() or "")
        blocked = BlockedSend(
            message,
            self._clock.now_ms(),
            reason,
            proceed=partial(self._proceed, send),
            refuse=partial(self._refuse, send),
            policy=policy,
            excess_bytes=partial(self._excess_bytes, message),
        )
        flow.block(connection, blocked)

    def _proceed(self, send: Send) -> None:
        """There is space for a send that was blocked."""
        try:
            self._take(send)
        except BrokerError as error:
            self._duplicates.refused(send.message)
            if send.on_refused is None:
                raise
            send.on_refused(send.message, error)

    def _refuse(self, send: Send, error: BrokerError) -> None:
        """A send that was blocked is given up."""
        message = send.message
        self._duplicates.refused(message)
        if message.origin.transaction is not None:
            self._transactions.fail(send.connection, message.origin.transaction, str(error))
        if send.on_refused is not None:
            send.on_refused(message, error)

    # ---- take: what is admitted --------------------------------------------------------------------------------

    def _take(self, send: Send) -> None:
        connection, message = send.connection, send.message
        message.redelivery_counter = 0  # new here, whatever its sender counted
        if message.origin.transaction is not None:
            self._transactions.add_send(message.origin.transaction, connection, message)
            self._answer(send)
        elif not message.persistent:
            self._count_and_route(send)
            self._answer(send)
        elif send.on_stored is None:
            connection.sender.only_sends = False
            self._count_and_route(send)
        elif message.destination.is_plain_queue:
            self._take_awaited(send)
        else:
            self._take_awaited_copies(send)

    def _take_awaited(self, send: Send) -> None:
        """The sender waits until the message is durable. A consumer need not always (`early_dispatch.py`)."""
        connection, message, early_dispatch = send.connection, send.message, self._early_dispatch
        sender = connection.sender
        leave = early_dispatch.may_leave(sender)
        message.departure = WAITS_FOR_STORE if leave is Leave.WHEN_DURABLE else MAY_LEAVE_EARLY
        is_flagged = connection.is_reconnect and early_dispatch.flag_repeated(
            sender, message, len(connection.producers)
        )
        self._count_and_route(send)
        if is_flagged:
            early_dispatch.was_repeated(sender, message)
        sender.awaited_sequence = message.sequence
        if message.departure == HAS_LEFT_EARLY and early_dispatch.answers_by_ack(sender):
            assert send.on_stored is not None
            early_dispatch.answer_by_ack(sender, message, leave, send.on_stored, send.on_failed)
            return
        if message.departure == MAY_LEAVE_EARLY:  # no consumer was there
            message.departure = WAITS_FOR_STORE
        self._answer(send)

    def _take_awaited_copies(self, send: Send) -> None:
        """The same for topics and composites: no copy leaves before all of them are durable."""
        sender = send.connection.sender
        self._early_dispatch.may_leave(sender)  # the sender may send on before it is answered
        self._gate.begin_group()
        try:
            self._count_and_route(send)
            sender.awaited_sequence = send.message.sequence
            self._answer(send)
        finally:
            self._gate.end_group()

    # ---- count, route, stamp, record, enqueue ------------------------------------------------------------------

    def _count_and_route(self, send: Send) -> None:
        message, duplicates = send.message, self._duplicates
        if duplicates.is_wanted_again(send.connection, message):
            with self._store.atomically():  # stored, and no longer refused
                duplicates.no_longer_wanted(message)
                self._route(send)
        else:
            self._route(send)
        duplicates.taken(message)

    def _route(self, send: Send) -> None:
        """One queue, now, is the usual case; anything else goes the general way."""
        message = send.message
        where = message.destination
        if not where.is_plain_queue or (message.properties_offset and self._routing.is_scheduled(message)):
            self._routing.route(send.connection, message)
            return
        queue = self._registry.get_or_make(where, send.connection)
        assert isinstance(queue, Queue)
        message.is_send_unaudited = self._is_audited
        publisher = self._publisher
        publisher.stamp(message)
        publisher.settle_expiration(message, queue.policy)
        if message.persistent and queue.is_stored:
            self._store.append(message, (queue.place,))
        if queue.advises_arrivals:
            publisher.enqueue_with_advisories(queue, message)
        else:
            queue.accept(message)

    # ---- answer ------------------------------------------------------------------------------------------------

    def _answer(self, send: Send) -> None:
        """Answer the sender, if it waits: what it sent is durable, or need not be."""
        on_stored, message = send.on_stored, send.message
        if on_stored is None:
            return
        if message.persistent and message.origin.transaction is None:
            self._store.when_durable(on_stored, send.on_failed)
        else:
            on_stored()

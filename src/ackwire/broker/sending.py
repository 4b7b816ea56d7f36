"""How a message comes in: space, duplicates, transaction, the answer to its sender (SEMANTICS B, G1)."""

from collections.abc import Callable
from functools import partial
from typing import Final, final

from ackwire.broker.advisory import Advisories
from ackwire.broker.auditing import Audit
from ackwire.broker.duplicates import Repetitions
from ackwire.broker.handover import Desk
from ackwire.broker.limits import FlowControl, HeldSend
from ackwire.broker.live_settings import LiveSettings
from ackwire.broker.permissions import Action, Permissions
from ackwire.broker.queue import Queue
from ackwire.broker.registry import Registry
from ackwire.broker.routing import Routing
from ackwire.broker.scheduler import LATEST_MS
from ackwire.broker.session import Connection
from ackwire.broker.transaction_manager import Transactor
from ackwire.errors import BrokerError
from ackwire.jms.destinations import Destination, Kind
from ackwire.jms.message import Message
from ackwire.jms.message_editor import MessageEditor
from ackwire.store.contract import Store
from ackwire.util.clock import Clock, Turns

_PERMITTED_MAX: Final = 1000
"""Destinations of one connection that it is remembered to be permitted to send to."""

_TIME_TO_LIVE_SHARE_TOLERATED: Final = 0.1
"""What a message may lose of its time to live to a clock that is behind."""


@final
class Intake:
    """Takes messages from clients."""

    def __init__(
        self,
        *,
        clock: Clock,
        turns: Turns,
        store: Store,
        editor: MessageEditor,
        settings: LiveSettings,
        flow: FlowControl,
        desk: Desk,
        registry: Registry,
        advisories: Advisories,
        repetitions: Repetitions,
        routing: Routing,
        transactor: Transactor,
        permissions: Permissions,
        audit: Audit | None,
    ) -> None:
        self._clock = clock
        self._turns = turns
        self._store = store
        self._editor = editor
        self._settings = settings
        self._stores_first = settings.current.store.store_first
        self._flow = flow
        self._desk = desk
        self._registry = registry
        self._advisories = advisories
        self._repetitions = repetitions
        self._routing = routing
        self._transactor = transactor
        self._permissions = permissions
        self._audit = audit

    def send(
        self,
        connection: Connection,
        message: Message,
        on_stored: Callable[[], None] | None,
        on_refused: Callable[[Message, BrokerError], None] | None,
    ) -> None:
        """Take *message*, or hold it until there is space."""
        if message.destination is not connection.sends_to:
            self._ask(connection, message)
        if message.expiration:
            self._settle_clock_difference(message)
        if (
            connection.is_reconnect
            and message.origin.transaction is None
            and self._repetitions.includes(connection, message)
        ):
            self._answer(message, on_stored, on_refused)  # it has its space already
            return
        try:
            self._send(connection, message, on_stored, on_refused)
        except BrokerError:
            self._repetitions.refused(message)
            raise

    def _ask(self, connection: Connection, message: Message) -> None:
        """Raise `NotAuthorised` unless *connection* may send where *message* goes; asked once for each destination."""
        where = message.destination
        if where not in connection.may_send_to:
            try:
                self._permissions.permit(connection.principal, Action.SEND, where)
            except BrokerError:
                self._repetitions.refused(message)
                raise
            if len(connection.may_send_to) >= _PERMITTED_MAX:
                connection.may_send_to.clear()
            connection.may_send_to.add(where)
        connection.sends_to = where

    def _send(
        self,
        connection: Connection,
        message: Message,
        on_stored: Callable[[], None] | None,
        on_refused: Callable[[Message, BrokerError], None] | None,
    ) -> None:
        if self._flow.has_space(message) and not self._registry.has_memory_limits:
            self._take(connection, message, on_stored, on_refused)
            return
        waits = self._flow.must_wait(connection, message) or self._no_space(message)
        if waits and not self._continues_transaction(message):
            self._hold(connection, message, on_stored, on_refused)
        else:
            self._take(connection, message, on_stored, on_refused)

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
        if transaction_id is None or not self._transactor.has_begun_work(transaction_id):
            return False
        self._flow.admit(transaction_id)  # an earlier send may still wait, from before it began with an ack
        return True

    def _hold(
        self,
        connection: Connection,
        message: Message,
        on_stored: Callable[[], None] | None,
        on_refused: Callable[[Message, BrokerError], None] | None,
    ) -> None:
        flow = self._flow

        def proceed() -> None:
            try:
                self._take(connection, message, on_stored, on_refused)
            except BrokerError as error:
                self._repetitions.refused(message)
                if on_refused is None:
                    raise
                on_refused(message, error)

        def refuse(error: BrokerError) -> None:
            self._repetitions.refused(message)
            if message.origin.transaction is not None:
                self._transactor.fail(connection, message.origin.transaction, str(error))
            if on_refused is not None:
                on_refused(message, error)

        policy = self._registry.policy_for(message.destination)
        reason = partial(self._no_space, message)
        if policy.advise_full and not flow.must_wait(connection, message):
            self._advisories.full(message.destination, reason() or "")
        excess = partial(self._excess_bytes, message)
        flow.hold(connection, HeldSend(message, self._clock.now_ms(), reason, proceed, refuse, policy, excess))

    def _take(
        self,
        connection: Connection,
        message: Message,
        on_stored: Callable[[], None] | None,
        on_refused: Callable[[Message, BrokerError], None] | None,
    ) -> None:
        message.redelivery_counter = 0  # new here, whatever its sender counted
        transaction_id = message.origin.transaction
        if transaction_id is not None:
            self._transactor.add_send(transaction_id, connection, message)
        elif on_stored is not None and message.persistent:
            if connection.awaited_sequence > max(self._store.durable_sequence, connection.forgone_sequence):
                connection.has_loose_ends = True
            # What was answered for must be in the audit after a crash, and what came before it in the store.
            acks_answer = self._audit is None and not connection.has_loose_ends
            has_left = self._take_awaited(connection, message, acks_answer=acks_answer)
            connection.awaited_sequence = message.sequence
            if has_left and acks_answer:
                on_failed = None if on_refused is None else partial(on_refused, message)
                self._desk.answer_when_done(connection, message, on_stored, on_failed)
                return
        else:
            if message.persistent:
                connection.has_loose_ends = True
            self._route_new(connection, message)
        self._answer(message, on_stored, on_refused)

    def _take_awaited(self, connection: Connection, message: Message, *, acks_answer: bool) -> bool:
        """The sender waits until *message* is on disk; a consumer need not always, except for copies of it. Whether
        one has it already."""
        may_have_left = (
            connection.is_reconnect
            and _is_for_one_queue(message)
            and self._repetitions.may_have_left(connection, message)
        )
        if may_have_left:
            message.redelivery_counter = 1
        desk = self._desk
        after_pause = self._turns.after_pause
        if not self._stores_first and desk.may_go_ahead(connection, after_pause=after_pause, acks_answer=acks_answer):
            desk.ahead = message
        desk.has_left = False
        self._store.expect()
        try:
            self._route_new(connection, message)
        finally:
            desk.ahead = None
        if may_have_left:
            self._repetitions.settled(connection, message)
        return desk.has_left

    def _route_new(self, connection: Connection, message: Message) -> None:
        if self._repetitions.is_wanted_again(connection, message):
            with self._store.atomically():  # stored, and no longer refused
                self._repetitions.no_longer_wanted(message)
                self._routing.route(connection, message)
        else:
            self._routing.route(connection, message)
        self._repetitions.taken(message)

    def _answer(
        self,
        message: Message,
        on_stored: Callable[[], None] | None,
        on_refused: Callable[[Message, BrokerError], None] | None,
    ) -> None:
        if on_stored is None:
            return
        if message.persistent and message.origin.transaction is None:
            self._store.when_durable(on_stored, None if on_refused is None else partial(on_refused, message))
        else:
            on_stored()

    def _settle_clock_difference(self, message: Message) -> None:
        """Count the time to live from now where the producer's clock is not ours: good messages must not expire (N1).

        On arrival and not in `settle_expiration`, because a transaction or a full memory may hold the message up, and
        that time is its own.
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


def _is_for_one_queue(message: Message) -> bool:
    where = message.destination
    return where.kind is Kind.QUEUE and not where.is_composite

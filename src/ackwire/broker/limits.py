"""Limits of memory and disk, and producer flow control when they are reached (SEMANTICS B6).

Pending messages are paged out when memory gets tight (`paging.py`). So a persistent message needs room in the store, if
that is one that pages, and any other message needs room in memory or in the temp store.

A send that finds no space is blocked, with its answer, until there is some; or refused, at once or after a time, as
configured. Only sends are ever blocked: acks, consumers and heartbeats go on, so a full broker can always drain. A
connection whose blocked sends pass a limit of their own is not read from any more, unless it has messages in flight:
then its acks may be what makes space, and further sends are refused instead. So there is no deadlock.

All blocked sends together have a limit, `blocked_bytes_max`. Once it is reached, a connection whose send has to wait is
not read from after it, whatever its size, and the broker receives no large frames while it is full; at twice as much
sends are refused. So blocked sends stay below twice the limit and one frame.

Blocked sends that can wait no longer, because their client leaves or their transaction ends, are taken without space,
but only until what they need is `blocked_bytes_max` above its limit. Sends beyond that are refused, which for a client
that has left means that they are dropped: none of them was answered.
"""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

from ackwire.broker.placing import Placing
from ackwire.broker.session import Connection
from ackwire.broker.slices import Budget, Slices
from ackwire.config import LimitSettings
from ackwire.config.policy import DestinationPolicy, WhenFull
from ackwire.errors import AckwireError, BrokerError, ResourceLimit
from ackwire.jms.message import Message
from ackwire.store.contract import Spill, Store
from ackwire.util.clock import Clock, Timer

_TIGHT_PERCENT: Final = 70
"""The share of memory above which what waits is paged out; the rest is for what is in flight and about to be."""


@dataclass(slots=True)
class BlockedSend:
    """A send that waits for space."""

    message: Message
    since_ms: int
    reason: Callable[[], str | None]
    """Why it cannot go on now; None when it can."""
    proceed: Callable[[], None]
    refuse: Callable[[BrokerError], None]
    policy: DestinationPolicy
    """What its destination says about waiting."""
    excess_bytes: Callable[[], int]
    """How far its queue is above its own limit."""
    timer: Timer | None = None

    @property
    def session(self) -> bytes:
        """Which session sent it: only within one is there an order to keep."""
        return _session_of(self.message)


def _proceed(connection: Connection, send: BlockedSend) -> None:
    """Let *send* go on; what is wrong with it is its sender's business, in whosever turn this runs."""
    try:
        send.proceed()
    except AckwireError as error:
        connection.port.close(f"a send that waited for space failed: {error}")


def _session_of(message: Message) -> bytes:
    producer = message.origin.producer_key
    return producer[:-16] + producer[-8:]  # without the number of the producer in its session


@final
class FlowControl:
    """Counts bytes and holds back producers."""

    def __init__(
        self,
        clock: Clock,
        settings: LimitSettings,
        store: Store,
        temp: Spill | None = None,
        has_undecided_acks: Callable[[Connection], bool] = lambda _: False,
        placing: Placing | None = None,
        slices: Slices | None = None,
    ) -> None:
        self._clock = clock
        self._has_undecided_acks = has_undecided_acks
        self._settings = settings
        self._store = store
        self.temp = temp
        self.memory_bytes_max = settings.memory_bytes_max
        self._tight_above_bytes = settings.memory_bytes_max * _TIGHT_PERCENT // 100
        self._blocked: dict[Connection, deque[BlockedSend]] = {}
        self._blocked_bytes: dict[Connection, int] = {}
        self._blocked_sessions: dict[Connection, Counter[bytes]] = {}
        """For each connection how many sends each of its sessions has waiting."""
        self._unread: set[Connection] = set()
        """Connections that are not read from until their blocked sends have gone on."""
        self.blocked_bytes = 0
        """Bytes of all sends that wait."""
        self.blocked_bytes_max = settings.blocked_bytes_max
        self._stops_producers = False
        self._on_stop: Callable[[bool], None] = lambda _: None
        self._excess_bytes = 0
        """What was taken without space since the store, or the audit, became full."""
        self.dropped_sends = 0
        """Sends of clients that left, for which there was no space."""
        self._is_releasing = False
        self._placing = placing or Placing()
        self._is_deferred = False
        self._slices = Slices(clock) if slices is None else slices  # an empty one is false
        self._round: deque[Connection] = deque()
        """Connections whose sends have yet to be looked at, in this round."""
        self._has_progress = False
        """Whether there has to be another round."""
        self._is_continuing = False
        """Whether a slice is due that goes on."""
        self.used_bytes = 0
        """Bytes of messages in memory: what is paged out takes none."""
        self.uncommitted_bytes = 0
        """The part of them that was sent in open transactions."""
        self._audit_is_full: str | None = None
        store.on_room(self._on_room)

    def on_stop(self, callback: Callable[[bool], None]) -> None:
        """Have *callback* told when no more large frames should be received, and when they should again."""
        self._on_stop = callback

    def _on_room(self) -> None:
        self._excess_bytes = 0
        self.release()

    def use(self, settings: LimitSettings) -> None:
        """Go by other limits from now on; what waits may have room now."""
        self._settings = settings
        self.memory_bytes_max = settings.memory_bytes_max
        self.blocked_bytes_max = settings.blocked_bytes_max
        self._tight_above_bytes = settings.memory_bytes_max * _TIGHT_PERCENT // 100
        self.release()

    @property
    def is_tight(self) -> bool:
        """Whether what waits should leave memory."""
        return self.used_bytes > self._tight_above_bytes

    def memory_is_full(self, size_bytes: int = 1) -> str | None:
        """The sentence that says so, or None: also if *size_bytes* more could be spilled.

        Only what consumers can drain counts: a send that waited for the end of a transaction might wait for one whose
        commit stands behind it.
        """
        if self.used_bytes - self.uncommitted_bytes < self.memory_bytes_max:
            return None
        temp = self.temp
        if temp is not None and temp.has_room(size_bytes):
            return None
        full = f"memory is full: {self.used_bytes} of {self.memory_bytes_max} bytes (limits.memory_bytes_max)"
        if temp is None:
            return full
        return f"{full}, and so is the temp store: {temp.used_bytes} of {temp.bytes_max} bytes (limits.temp_bytes_max)"

    def store_is_full(self) -> str | None:
        """The store's own sentence, or None."""
        return self._store.full()

    def is_full(self) -> str | None:
        """Why nothing of any kind should be added now, or None."""
        return self._audit_is_full or self._store.full() or self.memory_is_full()

    def on_audit_full(self, why: str | None) -> None:
        """The audit has no room for what would happen next, or has it again: None."""
        self._audit_is_full = why
        if why is None:
            self._on_room()

    def no_space(self, message: Message) -> str | None:
        """Why there is no space for *message*, as a sentence with the limit; None if there is."""
        if self._audit_is_full is not None:
            return self._audit_is_full
        if message.persistent and not message.destination.kind.is_temporary:
            full = self._store.full()
            if full is not None or self._store.pages:
                return full
        return self.memory_is_full(message.size_bytes)

    def has_space(self, message: Message) -> bool:
        """Whether *message* can go on at once: no send waits, and none of the limits that it needs is reached."""
        return (
            not self._blocked
            and self._audit_is_full is None
            and self.used_bytes - self.uncommitted_bytes < self.memory_bytes_max
            and (not message.persistent or self._store.full() is None)
        )

    def must_wait(self, connection: Connection, message: Message) -> bool:
        """Whether earlier sends of the same session are still held: order is kept."""
        held = self._blocked.get(connection)
        return held is not None and _session_of(message) in self._blocked_sessions[connection]

    def check_uncommitted(self, size_bytes: int) -> None:
        """Raise `ResourceLimit` if open transactions hold too much: only their ends make space, so none may wait."""
        uncommitted = self.uncommitted_bytes + size_bytes
        limit = self._settings.memory_bytes_max
        if uncommitted > limit:
            raise ResourceLimit(
                f"open transactions hold {uncommitted} of {limit} bytes (limits.memory_bytes_max): commit more often"
            )

    def admit(self, transaction_id: object) -> None:
        """A transaction ends: its sends that still wait go on, with those before them, as far as the bound allows."""
        for connection in list(self._blocked):
            while any(send.message.origin.transaction == transaction_id for send in self._blocked.get(connection, ())):
                send = self._take_first(connection)
                if not self._try_without_space(connection, send):
                    send.refuse(self._no_bound_left(send))

    def block(self, connection: Connection, send: BlockedSend) -> None:
        """Keep *send* until there is space. Raises `ResourceLimit` where the configuration refuses instead."""
        reason = send.reason() or "earlier sends of this connection wait for space"
        if self._fails_when_full(send.policy):
            raise ResourceLimit(f"{send.message.destination!r}: {reason}")
        held_bytes = self._blocked_bytes.get(connection, 0) + send.message.size_bytes
        if held_bytes > self._settings.held_bytes_max and self.is_needed_to_drain(connection):
            raise ResourceLimit(
                f"{send.message.destination!r}: {reason}, and {held_bytes} bytes of this connection's sends wait "
                f"already (limits.held_bytes_max); it has messages in flight, so it is not held up"
            )
        if self._blocked and self.blocked_bytes >= 2 * self.blocked_bytes_max:  # one send may always wait
            raise ResourceLimit(
                f"{send.message.destination!r}: {reason}, and {self.blocked_bytes} bytes of sends wait already "
                f"(twice limits.blocked_bytes_max): send it again when consumers have made space"
            )
        self._blocked.setdefault(connection, deque()).append(send)
        self._blocked_bytes[connection] = held_bytes
        self.blocked_bytes += send.message.size_bytes
        self._blocked_sessions.setdefault(connection, Counter())[send.session] += 1
        timeout_seconds = self._timeout_seconds(send.policy)
        if timeout_seconds > 0:
            send.timer = self._clock.call_later(timeout_seconds, lambda: self._time_out(connection, send))
        if held_bytes > self._settings.held_bytes_max or (
            self.blocked_bytes > self.blocked_bytes_max and not self.is_needed_to_drain(connection)
        ):
            self._unread.add(connection)
            connection.port.hold(True)
        self._settle_stop()

    def _settle_stop(self) -> None:
        """Large frames are not received while they could only add to what waits: the broker itself is full.

        A queue that is full by its own limit holds up its own producers only.
        """
        stops = self.blocked_bytes > self.blocked_bytes_max and self.is_full() is not None
        if stops != self._stops_producers:
            self._stops_producers = stops
            self._on_stop(stops)

    def _fails_when_full(self, policy: DestinationPolicy) -> bool:
        if policy.when_full is WhenFull.INHERIT:
            return self._settings.when_full == WhenFull.FAIL.value
        return policy.when_full is WhenFull.FAIL

    def _timeout_seconds(self, policy: DestinationPolicy) -> float:
        own = policy.block_timeout_seconds
        return self._settings.block_timeout_seconds if own is None else own

    def is_needed_to_drain(self, connection: Connection) -> bool:
        """Whether what *connection* says next may make space: it has messages that it has not acknowledged."""
        if any(subscription.dispatched for subscription in connection.subscriptions.values()):
            return True
        return self._has_undecided_acks(connection)

    def _time_out(self, connection: Connection, send: BlockedSend) -> None:
        held = self._blocked.get(connection)
        if held is None or send not in held:
            return
        held.remove(send)
        self._account_for_leaving(connection, send)
        waited = self._timeout_seconds(send.policy)
        reason = send.reason() or "there was no space"
        send.refuse(ResourceLimit(f"{send.message.destination!r}: {reason}; gave up after {waited:g} s"))
        self.release()  # those behind it may be for a queue that has space

    def _account_for_leaving(self, connection: Connection, send: BlockedSend) -> None:
        if send.timer is not None:
            send.timer.cancel()
        sessions = self._blocked_sessions[connection]
        sessions[send.session] -= 1
        if not sessions[send.session]:
            del sessions[send.session]
        self.blocked_bytes -= send.message.size_bytes
        left = self._blocked_bytes[connection] - send.message.size_bytes
        self._blocked_bytes[connection] = left
        if not self._blocked[connection]:
            del self._blocked[connection]
            del self._blocked_bytes[connection]
            del self._blocked_sessions[connection]
        if left <= self._settings.held_bytes_max and (not left or self.blocked_bytes <= self.blocked_bytes_max):
            self._unread.discard(connection)
            connection.port.hold(False)
        if self._stops_producers:
            self._settle_stop()

    def release(self) -> None:
        """There may be space: let held sends go on, each connection's in their order. Many do so in slices."""
        if self._is_releasing or not self._blocked:
            return
        if self._placing.is_under_way:  # a send that goes on now would overtake the message that makes space
            if not self._is_deferred:
                self._is_deferred = True
                self._placing.defer(self._release_deferred)
            return
        self._has_progress = True
        if not self._is_continuing:
            self._release_some(self._slices.budget())

    def _release_some(self, budget: Budget) -> None:
        """Go on with the round, and with the next one if a send could go on."""
        self._is_releasing = True
        try:
            while self._blocked and not budget.is_spent and self._next_round():
                while self._round:
                    self._has_progress = self._release_first(self._round.popleft()) or self._has_progress
                    if budget.spend():
                        break
        finally:
            self._is_releasing = False
        if not self._blocked:
            self._round.clear()
        elif self._round or self._has_progress:
            self._is_continuing = True
            self._slices.start(self._continue)
        if self._stops_producers:
            self._settle_stop()  # there may be space, and none of those that wait needs it

    def _next_round(self) -> bool:
        """Whether there is a connection to look at."""
        if not self._round and self._has_progress:
            self._has_progress = False
            self._round.extend(self._blocked)
        return bool(self._round)

    def _continue(self, budget: Budget) -> bool:
        """One more slice; it asks for the next one itself."""
        self._is_continuing = False
        self._release_some(budget)
        return False

    def _release_deferred(self) -> None:
        self._is_deferred = False
        self.release()

    def _release_first(self, connection: Connection) -> bool:
        """Let the first send go on that can, of a session that has no earlier one."""
        blocked: set[bytes] = set()
        for send in self._blocked.get(connection, ()):
            if send.session not in blocked and send.reason() is None:
                self._blocked[connection].remove(send)
                self._account_for_leaving(connection, send)
                _proceed(connection, send)
                return True
            blocked.add(send.session)
            if len(blocked) == len(self._blocked_sessions[connection]):
                return False  # every session waits for its first
        return False

    def _take_first(self, connection: Connection) -> BlockedSend:
        send = self._blocked[connection].popleft()
        self._account_for_leaving(connection, send)
        return send

    def _try_without_space(self, connection: Connection, send: BlockedSend) -> bool:
        """Let *send* go on, though it may have no space; False if what it needs is too far above its limit."""
        if send.reason() is not None:
            above_limit = self.used_bytes - self.uncommitted_bytes - self.memory_bytes_max
            store_is_full = (self._audit_is_full or self._store.full()) is not None
            if not store_is_full:
                self._excess_bytes = 0
            if max(above_limit, self._excess_bytes, send.excess_bytes()) >= self.blocked_bytes_max:
                return False
            if store_is_full:
                self._excess_bytes += send.message.size_bytes
        _proceed(connection, send)
        return True

    def _no_bound_left(self, send: BlockedSend) -> ResourceLimit:
        return ResourceLimit(
            f"{send.message.destination!r}: {send.reason()}, by more than limits.blocked_bytes_max "
            f"({self.blocked_bytes_max} bytes), up to which sends are taken that can wait no longer"
        )

    def end(self, connection: Connection) -> list[BlockedSend]:
        """The connection goes: its held sends are not lost by that, as far as the bound allows. Returns the others.

        They are the last of their session each: what is taken has no gaps.
        """
        dropped: list[BlockedSend] = []
        cut_off: set[bytes] = set()
        while connection in self._blocked:
            send = self._take_first(connection)
            if send.message.origin.transaction is not None:
                _proceed(connection, send)  # to be rolled back; or to be refused by its transaction
            elif send.session in cut_off or not self._try_without_space(connection, send):
                cut_off.add(send.session)
                dropped.append(send)
        self.dropped_sends += len(dropped)
        for send in dropped:
            send.refuse(self._no_bound_left(send))
        return dropped

    def is_read(self, connection: Connection) -> bool:
        """Whether *connection* is read from, as far as its blocked sends decide that."""
        return connection not in self._unread

    def blocked(self) -> list[tuple[Connection, BlockedSend]]:
        """For each connection with held sends, the one that waits longest."""
        return [(connection, sends[0]) for connection, sends in self._blocked.items()]

    def held(self) -> list[tuple[Connection, BlockedSend]]:
        """Every send that waits, each connection's in their order."""
        return [(connection, send) for connection, sends in self._blocked.items() for send in sends]

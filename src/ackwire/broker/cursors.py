"""Cursors: named, durable reading positions that can be read again (for Spark and other bulk readers).

How it works. A cursor takes messages from its queue and numbers them from 1 on. What it has taken is its own: no one
else gets it, whether or not its reader is connected, and after a restart it is the cursor's again, under the same
numbers. The reader asks how far it may read (`latest`), reads ranges as often as it likes (`rows`), and commits; only
then messages are forgotten. The messages stay in the place of their queue in the store; the cursor's state record says
which are its own, so taking a hundred thousand costs one record.

A cursor of a topic reads from a durable subscription of its own, which is filled from the moment it is opened.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, final

from ackwire.broker.auditing import Event
from ackwire.broker.fetching import Fetch, job_of
from ackwire.broker.live_settings import LiveSettings
from ackwire.broker.queue import Queue
from ackwire.broker.registry import Registry
from ackwire.broker.reservations import Reservation
from ackwire.broker.reserved_names import refuse_reserved
from ackwire.broker.slices import Slices
from ackwire.errors import (
    BrokerError,
    Conflict,
    InvalidDestination,
    InvalidSelector,
    RangeGone,
    ResourceLimit,
    StoreFailed,
    UnknownResource,
)
from ackwire.jms.destinations import Destination
from ackwire.jms.message import Message
from ackwire.selector import Selector
from ackwire.store.contract import CursorRecord, DurableKey, DurableRecord, Place, Store, WaitingMessage
from ackwire.util.clock import Clock
from ackwire.util.sequence_runs import runs_of, sequences_of

ROWS_PER_TURN: Final = 256
"""What a reader should ask for at once, so that others get their turn."""

CURSOR_CLIENT_ID: Final = "ackwire.cursor"
"""Whose the durable subscriptions of cursors are; no client may call itself that."""

_FORGOTTEN_PER_TURN: Final = 2000
_UNITS_PER_READ: Final = 256
"""Units of a slice for one read of a cursor that is closed: as many as messages, about 2 µs each."""
_NAME_LENGTH_MAX: Final = 255
_CLOSED: Final = "the cursor of a topic was closed"

Failed = Callable[[BrokerError], None]


Row = tuple[int, bytes, int]
"""A message for those who read in bulk: its number, its bytes, and how often it was delivered before."""


@dataclass(frozen=True, slots=True)
class CursorInfo:
    """The state of a cursor."""

    name: str
    destination: Destination
    selector: str | None
    committed: int
    assigned: int
    """The number of the last message that it has been given."""
    waiting: int
    """Messages that wait in its queue for anybody: with a selector it may get fewer."""

    @property
    def lag(self) -> int:
        return self.assigned - self.committed + self.waiting


_log = logging.getLogger(__name__)


@final
class Cursor:
    """One cursor."""

    __slots__ = (
        "committed",
        "destination",
        "is_closed",
        "lane",
        "name",
        "promised",
        "queue",
        "removed",
        "reserved",
        "selector",
    )

    def __init__(
        self, name: str, destination: Destination, selector: str | None, queue: Queue, wanted: Selector | None
    ) -> None:
        """*wanted* is the *selector*, compiled, if it has still to be applied."""
        self.name = name
        self.destination = destination
        self.selector = selector
        lane = queue.reservations.add_reader(wanted)
        self.queue = queue
        self.lane = lane
        self.reserved = Reservation()
        self.removed = 0
        """The number of the last message that has left the queue; `reserved` begins behind it."""
        self.committed = 0
        self.promised = 0
        """How far its reader may read: that is durable."""
        self.is_closed = False

    def __repr__(self) -> str:
        return f"cursor {self.name} of {self.destination!r}"

    @property
    def assigned(self) -> int:
        return self.removed + len(self.reserved)

    def told_count(self, _place: Place) -> int:
        return len(self.reserved)

    def tell(self, event: Event, start: int, end: int | None = None, cause: str | None = None) -> None:
        """Let the audit know what happens to what it has reserved from *start* on, up to *end*."""
        if self.queue.audit is not None:
            self.queue.audit.cursor(event, self.queue, self.reserved.sequences(start, end), self.name, cause)

    def note(self) -> CursorRecord:
        return CursorRecord(
            self.name,
            self.queue.place,
            self.destination,
            self.selector,
            self.committed,
            self.removed,
            self.reserved.runs(),
            runs_of(sorted(self.reserved.unsafe)),
        )


@final
class Cursors:
    """The cursors there are, and what can be done with them."""

    def __init__(
        self, *, clock: Clock, slices: Slices, store: Store, settings: LiveSettings, registry: Registry
    ) -> None:
        self._clock = clock
        self._slices = slices
        self._store = store
        self._settings = settings
        self._registry = registry
        self._cursors: dict[str, Cursor] = {}
        self._is_stopped = False

    def stop(self) -> None:
        """The store is about to close: what is to be forgotten yet, the next run forgets."""
        self._is_stopped = True

    # ---- opening and closing -----------------------------------------------------------------------------------

    def open(
        self, name: str, destination: Destination, selector: str | None = None, *, create: bool = True
    ) -> CursorInfo:
        """The cursor of that name, made if it is not there; its destination is made too, if it may be."""
        refuse_reserved(destination, "open a cursor on")
        selector = selector or None
        known = self._cursors.get(name)
        if known is not None:
            if known.is_closed:
                raise Conflict(f"{known!r} is being closed: open it again in a moment")
            if (known.destination, known.selector) != (destination, selector):
                raise Conflict(
                    f"{known!r} has selector {known.selector!r}; it cannot become one of {destination!r} with "
                    f"{selector!r}: close it first, or choose another name"
                )
            return self._info(known)
        self._check_new(name, destination, create=create)
        with self._store.atomically():
            wanted = self._wanted(destination, selector)
            cursor = Cursor(name, destination, selector, self._queue_of(name, destination, selector), wanted)
            self._add(cursor)
            self._store.put_state_record(cursor.note())
        return self._info(cursor)

    def _wanted(self, destination: Destination, selector: str | None) -> Selector | None:
        """The selector, unless it is for a topic: its durable subscription has selected already."""
        return self._settings.compile_selector(selector) if selector and destination.kind.is_queue else None

    def _add(self, cursor: Cursor) -> None:
        self._cursors[cursor.name] = cursor
        cursor.queue.reservations.holders[cursor] = cursor.reserved.sequences

    def _check_new(self, name: str, destination: Destination, *, create: bool) -> None:
        limit = self._settings.current.limits.cursors_max
        if not name or len(name) > _NAME_LENGTH_MAX or not name.isprintable():
            raise Conflict(f"{name!r} cannot be a cursor's name: that has 1 to {_NAME_LENGTH_MAX} printable characters")
        if destination.is_wildcard or destination.is_composite or destination.kind.is_temporary:
            raise InvalidDestination(f"{destination!r} cannot have a cursor: it is no single, lasting queue or topic")
        if len(self._cursors) >= limit:
            raise ResourceLimit(f"{limit} cursors exist (limits.cursors_max): close one that is not needed any more")
        if not create and self._registry.router.get(destination) is None:
            raise UnknownResource(f"{destination!r} does not exist: it has had no message and no consumer")

    def _queue_of(self, name: str, destination: Destination, selector: str | None) -> Queue:
        if destination.kind.is_queue:
            queue = self._registry.get_or_make(destination)
            assert isinstance(queue, Queue)
            return queue
        key = DurableKey(CURSOR_CLIENT_ID, name)
        return self._registry.durable(DurableRecord(key, destination, selector, no_local=False)).queue

    def close(self, name: str, on_done: Callable[[], None], on_failed: Failed) -> None:
        """End a cursor. What it has not committed goes back to its queue; what a topic's has, ends with it."""
        cursor = self._cursor(name)
        cursor.is_closed = True
        if cursor.destination.kind.is_queue and cursor.reserved.unsafe:
            self._slices.start(job_of(self._closing(cursor, on_done, on_failed), self._slices, _UNITS_PER_READ))
            return
        self._end(cursor, [])
        self._store.when_durable(on_done, on_failed)

    def _closing(self, cursor: Cursor, on_done: Callable[[], None], on_failed: Failed) -> Iterator[Fetch | None]:
        """Read what was not persistent, which goes back into memory; then end *cursor*."""
        try:
            unsafe = yield from cursor.queue.reservations.read_unsafe(cursor.reserved)
            if self._is_stopped:
                return
            self._end(cursor, unsafe)
        except BrokerError as error:
            on_failed(error)
        else:
            self._store.when_durable(on_done, on_failed)

    def _end(self, cursor: Cursor, unsafe: list[Message]) -> None:
        """Let go what *cursor* has; *unsafe* are its messages that were not persistent."""
        reservations = cursor.queue.reservations
        with self._store.atomically():
            self._forget(cursor, cursor.committed - cursor.removed)
            if cursor.destination.kind.is_queue:
                cursor.tell(Event.RETURNED, 0)
                reservations.give_back(cursor.reserved, unsafe)
            else:
                cursor.tell(Event.DISCARDED, 0, cause=_CLOSED)
            reservations.remove_reader(cursor.lane)
            del reservations.holders[cursor]
            self._store.drop_state_record(cursor.note().key)
            del self._cursors[cursor.name]
            durable = self._registry.durables.get(DurableKey(CURSOR_CLIENT_ID, cursor.name))
            if durable is not None:
                self._registry.end_durable(durable)

    def _cursor(self, name: str) -> Cursor:
        cursor = self._cursors.get(name)
        if cursor is None:
            raise UnknownResource(f"cursor {name} does not exist: open it first")
        if cursor.is_closed:
            raise _closed(cursor)
        return cursor

    # ---- how they stand ----------------------------------------------------------------------------------------

    def all(self) -> list[CursorInfo]:
        return [self._info(cursor) for cursor in self._cursors.values()]

    def destination_of(self, name: str) -> Destination:
        """The destination of the cursor of that name."""
        return self._cursor(name).destination

    def info(self, name: str) -> CursorInfo:
        return self._info(self._cursor(name))

    def _info(self, cursor: Cursor) -> CursorInfo:
        return CursorInfo(
            cursor.name,
            cursor.destination,
            cursor.selector,
            cursor.committed,
            cursor.assigned,
            cursor.queue.view.pending_count,
        )

    def oldest(self, name: str) -> Fetch:
        """The oldest message that a cursor has not committed; no message if there is none."""
        cursor = self._cursor(name)
        first = cursor.committed - cursor.removed
        return cursor.queue.contents.pages.fetch_stored(cursor.reserved.sequences(first, first + 1))

    # ---- reading -----------------------------------------------------------------------------------------------

    def latest(self, name: str, after: int, limit: int, on_done: Callable[[int], None], on_failed: Failed) -> None:
        """Tell how far the cursor may be read, at most *limit* behind *after*; it is given messages if need be."""
        cursor = self._cursor(name)
        if not 0 <= after <= cursor.promised:
            raise Conflict(
                f"{cursor!r} has been read up to {cursor.promised}, and its reader says {after}: it is not the same "
                "cursor any more; start with a new checkpoint and a new cursor"
            )
        reserved_max = self._settings.current.limits.cursor_messages_max
        wanted = min(after + max(0, limit), cursor.committed + reserved_max)
        self._give(cursor, wanted, on_done, on_failed, after)

    def _give(self, cursor: Cursor, wanted: int, on_done: Callable[[int], None], on_failed: Failed, after: int) -> None:
        """Give *cursor* messages up to the number *wanted*, some in each turn, then say so."""
        if cursor.is_closed:
            on_failed(_closed(cursor))
            return
        before = len(cursor.reserved)
        unstored, fetch = cursor.queue.reservations.reserve(cursor.lane, wanted - cursor.assigned, cursor.reserved)
        cursor.tell(Event.DISPATCHED, before)
        try:
            if unstored:  # others see it again after a crash unless the note is there with it, so both or none
                with self._store.atomically():
                    cursor.queue.reservations.store(unstored)
                    self._store.put_state_record(cursor.note())
            if fetch is not None:
                go_on = partial(self._give, cursor, wanted, on_done, on_failed, after)
                fetch.when_arrived(lambda: self._call_soon(go_on))
                return
            if cursor.assigned > cursor.promised:
                self._store.put_state_record(cursor.note())
        except StoreFailed as error:
            on_failed(error)
            return
        up_to = max(after, min(cursor.assigned, wanted))
        self._store.when_durable(partial(self._promise, cursor, up_to, on_done), on_failed)

    def _call_soon(self, callback: Callable[[], None]) -> None:
        self._clock.call_later(0, callback)

    def _promise(self, cursor: Cursor, up_to: int, on_done: Callable[[int], None]) -> None:
        cursor.promised = max(cursor.promised, up_to)
        on_done(up_to)

    def rows(self, name: str, after: int, to: int, on_done: Callable[[list[Row]], None], on_failed: Failed) -> None:
        """Read the messages with numbers behind *after*, up to *to*: *on_done* gets all, or there is an error."""
        cursor = self._cursor(name)
        self._check_range(cursor, after, to)
        sequences = cursor.reserved.sequences(after - cursor.removed, to - cursor.removed)
        fetch = cursor.queue.contents.pages.fetch_stored(sequences)

        def arrived() -> None:
            try:
                rows = self._rows(cursor, after, sequences, fetch.messages)
            except BrokerError as error:
                on_failed(error)
            else:
                on_done(rows)

        fetch.when_arrived(arrived)

    def _check_range(self, cursor: Cursor, after: int, to: int) -> None:
        if after < cursor.committed:
            raise RangeGone(
                f"messages {after + 1} to {min(to, cursor.committed)} of {cursor!r} were committed and are gone: the "
                "reader's checkpoint is older than the cursor; start with a new checkpoint and a new cursor, or go on "
                f"behind {cursor.committed}"
            )
        if not after <= to <= cursor.promised:
            raise Conflict(f"{cursor!r} can be read up to {cursor.promised}, and {after + 1} to {to} was asked for")

    def _rows(self, cursor: Cursor, after: int, sequences: list[int], messages: list[Message | None]) -> list[Row]:
        """The rows of *messages*, which were read for *sequences*; what the cursor has done meanwhile counts."""
        if cursor.is_closed:
            raise _closed(cursor)
        lost = [after + 1 + index for index, it in enumerate(messages) if it is None]
        if lost:
            self._check_range(cursor, after, after + len(sequences))  # they may be committed by now
            raise RangeGone(
                f"messages {_named(lost)} of {cursor!r} are lost: their bytes are damaged (the log and quarantine/ "
                "tell where); commit beyond them to go on without them"
            )
        counted = cursor.reserved.redeliveries
        return [
            (number, message.frame, counted.get(message.sequence, message.redelivery_counter))
            for number, message in enumerate(messages, after + 1)
            if message is not None
        ]

    # ---- committing --------------------------------------------------------------------------------------------

    def commit(self, name: str, to: int, on_done: Callable[[int], None], on_failed: Failed) -> None:
        """The messages up to number *to* are not needed any more. Less than before changes nothing."""
        cursor = self._cursor(name)
        if to > cursor.promised:
            raise Conflict(f"{cursor!r} was given out up to {cursor.promised}: {to} cannot be committed")
        if to > cursor.committed:
            cursor.committed = to
            self._store.put_state_record(cursor.note())
            self._clock.call_later(0, partial(self._forget_on, cursor))
        committed = cursor.committed
        self._store.when_durable(lambda: on_done(committed), on_failed)

    def _forget_on(self, cursor: Cursor) -> None:
        """Let what is committed leave the queue, some in each turn."""
        count = min(cursor.committed - cursor.removed, _FORGOTTEN_PER_TURN)
        if cursor.is_closed or count <= 0 or self._is_stopped:
            return
        with suppress(StoreFailed):  # the next run goes on with it
            self._forget(cursor, count)
            if cursor.removed == cursor.committed:
                self._store.put_state_record(cursor.note())
            else:
                self._clock.call_later(0, partial(self._forget_on, cursor))

    def _forget(self, cursor: Cursor, count: int) -> None:
        cursor.tell(Event.ACKED, 0, count)
        cursor.queue.reservations.finish(cursor.reserved, count)
        cursor.removed += count

    # ---- after a restart ---------------------------------------------------------------------------------------

    def restore(self, note: CursorRecord, kept: Mapping[int, WaitingMessage], untold: str | None) -> None:
        """A cursor of an earlier run; *kept* is what the store has of its messages, which may be *untold*."""
        try:
            wanted = self._wanted(note.destination, note.selector)
        except InvalidSelector as error:  # the settings are others now
            _log.error("cursor %s gets no more messages: its selector is not accepted any more: %s", note.name, error)
            wanted = self._settings.compile_selector("FALSE")
        cursor = Cursor(note.name, note.destination, note.selector, self._restored_queue(note.place), wanted)
        cursor.removed, cursor.committed = note.removed, note.committed
        cursor.queue.reservations.restore(cursor.reserved, note.held, kept)
        if untold is not None:
            cursor.queue.restart.tell_restored(cursor.reserved.sequences(), untold)
        cursor.reserved.unsafe.update(sequences_of(note.unsafe))
        cursor.promised = cursor.assigned
        self._add(cursor)

    def start(self) -> None:
        """Everything is there: what an earlier run was about to forget goes now."""
        for cursor in list(self._cursors.values()):
            self._forget_on(cursor)

    def _restored_queue(self, place: Place) -> Queue:
        if isinstance(place, DurableKey):
            return self._registry.durables[place].queue
        return self._registry.needed_queue(place)


def _closed(cursor: Cursor) -> UnknownResource:
    return UnknownResource(f"cursor {cursor.name} was closed meanwhile")


def _named(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return str(numbers[0])
    return (
        f"{numbers[0]} to {numbers[-1]}"
        if len(numbers) == numbers[-1] - numbers[0] + 1
        else ", ".join(map(str, numbers[:10]))
    )

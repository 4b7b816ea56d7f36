"""Reservations: messages of a queue that only one cursor or staged batch may have.

A cursor reserves the messages that it reads, until it commits them. The messages of a staged batch are reserved until
the batch is committed. There may be millions, so only numbers are kept. The store has the messages.
"""

from array import array
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Final, Protocol, final

from ackwire.broker.dispatch import EXAMINED_PER_TURN, Dispatcher
from ackwire.broker.fetching import Fetch
from ackwire.broker.lanes import Lane
from ackwire.broker.queue_consumers import QueueConsumers
from ackwire.broker.queue_contents import QueueContents
from ackwire.jms.message import Message
from ackwire.selector import Selector
from ackwire.store.contract import Place, WaitingMessage
from ackwire.util.clock import Clock
from ackwire.util.sequence_runs import Runs, runs_of, sequences_of

_RESERVED_PER_TURN: Final = 20_000
"""Messages reserved for a cursor before others get their turn, where they need not be examined."""
_READ_AT_ONCE: Final = 256
"""Messages read at once for a cursor that is closed: to make them of their bytes takes about 0.5 ms."""


class Holder(Protocol):
    """A cursor or a staged batch, which has reserved messages of a queue."""

    def told_count(self, place: Place) -> int:
        """How many messages of *place* it has reserved that the audit knows of."""
        ...


@final
class Reservation:
    """The reserved messages of one holder in order: it grows at its end and is consumed from its front."""

    __slots__ = ("_expirations", "_priorities", "_sequences", "_sizes", "redeliveries", "unsafe")

    def __init__(self) -> None:
        self._sequences = array("q")
        self._expirations = array("q")
        self._priorities = array("b")
        self._sizes = array("I")
        self.redeliveries: dict[int, int] = {}
        """By sequence: how often those were delivered to others before, which the store does not know."""
        self.unsafe: set[int] = set()
        """The sequences of those that were not persistent, and are in the store only because they are reserved."""

    def __len__(self) -> int:
        return len(self._sequences)

    def add(self, message: WaitingMessage) -> None:
        self._sequences.append(message.sequence)
        self._expirations.append(message.expiration)
        self._priorities.append(message.priority)
        self._sizes.append(message.size_bytes)

    def add_many(self, sequences: "array[int]", priority: int, sizes: "array[int]") -> None:
        """Messages of one priority that never expire."""
        self._sequences.extend(sequences)
        self._expirations.frombytes(bytes(8 * len(sequences)))
        self._priorities.extend([priority] * len(sequences))
        self._sizes.extend(sizes)

    def sequences(self, start: int = 0, end: int | None = None) -> list[int]:
        return self._sequences[start:end].tolist()

    def messages(self) -> list[WaitingMessage]:
        columns = (self._sequences, self._expirations, self._priorities, self._sizes)
        return [WaitingMessage(*it) for it in zip(*columns, strict=True)]

    def first_bytes(self, count: int) -> int:
        """What the first *count* take."""
        return sum(self._sizes[:count])

    def drop_first(self, count: int) -> None:
        """Forget the first *count*."""
        if self.redeliveries or self.unsafe:
            for sequence in self.sequences(0, count):
                self.redeliveries.pop(sequence, None)
                self.unsafe.discard(sequence)
        for column in (self._sequences, self._expirations, self._priorities, self._sizes):
            del column[:count]

    def runs(self) -> Runs:
        return runs_of(self._sequences)


@final
class Reservations:
    """The reserved messages of one queue."""

    def __init__(
        self, contents: QueueContents, consumers: QueueConsumers, dispatcher: Dispatcher, clock: Clock
    ) -> None:
        self._contents = contents
        self._consumers = consumers
        self._dispatcher = dispatcher
        self._clock = clock
        self._store = contents.store
        self._flow = contents.flow
        self._pages = contents.pages
        self.holders: dict[Holder, Callable[[], Iterable[int]]] = {}
        """Cursors and staged batches that have reserved messages, and the sequences of these."""

    @property
    def told_count(self) -> int:
        """How many messages are reserved that the audit knows of."""
        return sum(holder.told_count(self._contents.place) for holder in self.holders)

    def sequences(self) -> set[int]:
        """The sequences of all reserved messages."""
        return {it for reserved in self.holders.values() for it in reserved()}

    def add_reader(self, selector: Selector | None) -> Lane:
        """A cursor will `reserve` messages, those that *selector* matches."""
        return self._consumers.add_reader(selector)

    def remove_reader(self, lane: Lane) -> None:
        self._consumers.remove_reader(lane)

    # ---- reserving ---------------------------------------------------------------------------------------------

    def reserve(self, lane: Lane, count: int, reserved: Reservation) -> tuple[list[Message], Fetch | None]:
        """Move up to *count* messages that wait into *reserved*.

        Returns those of them that the store does not have; and, if that is not all for now, what to wait for before
        the next call: a long look is cut into turns, and messages that must be examined are paged in.
        """
        unstored: list[Message] = []
        if self._dispatcher.is_paused or self._consumers.exclusive is not None:
            return unstored, None
        next_turn = Fetch()
        next_turn.arrive([])
        budget = EXAMINED_PER_TURN if lane.selector is not None else _RESERVED_PER_TURN
        levels = self._contents.levels
        for level in range(len(levels) - 1, -1, -1):
            while count > 0 and budget > 0:
                found = levels[level].next_from(lane.positions[level])
                if found is None:
                    break
                taken = self._reserve_run(lane, level, found[0], min(count, budget), reserved, unstored)
                if not taken:
                    budget -= lane.cost
                    fetch = self._page_in_to_examine(lane, level, *found)
                    if fetch is not None:
                        if not fetch.has_arrived:
                            return unstored, fetch
                        continue  # it is looked at again, now that it is in memory
                    taken = int(self._reserve_at(lane, level, *found, reserved, unstored))
                budget -= taken
                count -= taken
            self._dispatcher.close_gaps(level, levels[level])
        return unstored, None if count <= 0 or budget > 0 else next_turn

    def _reserve_run(
        self, lane: Lane, level: int, position: int, count: int, reserved: Reservation, unstored: list[Message]
    ) -> int:
        """Reserve neighbours from *position* on, if they need not be examined; return how many."""
        if lane.selector is not None or len(self._consumers.groups):
            return 0
        taken, sequences, sizes = self._contents.levels[level].take_run(position, count)
        for entry in taken:
            if isinstance(entry, Message):
                self._reserve_message(entry, reserved, unstored)
        reserved.add_many(sequences, level, sizes)
        lane.positions[level] = position + len(taken)
        return len(taken)

    def _page_in_to_examine(self, lane: Lane, level: int, position: int, entry: Message | int) -> Fetch | None:
        """Page the entry at *position* in, if it is out of memory and must be examined; None if it need not be."""
        if isinstance(entry, Message):
            return None
        pending = self._contents.levels[level]
        expiration = pending.info_at(position).expiration
        has_expired = 0 < expiration <= self._clock.now_ms()
        if entry or has_expired or lane.selector is not None or len(self._consumers.groups):
            return self._pages.page_in(pending, position)
        return None

    def _reserve_at(
        self,
        lane: Lane,
        level: int,
        position: int,
        entry: Message | int,
        reserved: Reservation,
        unstored: list[Message],
    ) -> bool:
        """Reserve the entry at *position*, if *lane* may have it."""
        pending = self._contents.levels[level]
        info = pending.info_at(position)
        if isinstance(entry, Message):
            if 0 < info.expiration <= self._clock.now_ms():
                pending.take(position)
                self._contents.expire(entry)
                return False
            lane.positions[level] = position + 1
            if not self._dispatcher.is_for(lane, entry):
                if self._flow.is_tight:
                    self._pages.page_out(pending, position, entry)
                return False
            self._reserve_message(entry, reserved, unstored)
        pending.take(position)
        reserved.add(WaitingMessage(info.sequence, info.expiration, level, info.size_bytes))
        return True

    def _reserve_message(self, message: Message, reserved: Reservation, unstored: list[Message]) -> None:
        if message.redelivery_counter:
            reserved.redeliveries[message.sequence] = message.redelivery_counter
        if not message.persistent:
            reserved.unsafe.add(message.sequence)
            unstored.append(message)
        elif self._store.pages:
            self._flow.used_bytes -= message.size_bytes

    def store(self, messages: list[Message]) -> None:
        """Record reserved messages that were not persistent: their reader may read them again after a crash."""
        for message in messages:
            self._store.append(message, (self._contents.place,))
            if message.ticket:
                self._pages.free((message.ticket,))
                message.ticket = 0
            if self._store.pages:
                self._flow.used_bytes -= message.size_bytes

    def restore(self, reserved: Reservation, runs: Runs, kept: Mapping[int, WaitingMessage]) -> None:
        """Fill *reserved* with what was reserved in an earlier run, of which the store has *kept*."""
        for sequence in sequences_of(runs):
            message = kept.get(sequence) or WaitingMessage(sequence, 0, 0, 0)  # lost: reading it is an error
            reserved.add(message)
            self._contents.size_bytes += message.size_bytes
            if not self._store.pages:
                self._flow.used_bytes += message.size_bytes

    # ---- the end of a reservation ------------------------------------------------------------------------------

    def finish(self, reserved: Reservation, count: int) -> None:
        """The first *count* of *reserved* are consumed: delete them here and in the store."""
        contents = self._contents
        size_bytes = reserved.first_bytes(count)
        self._store.remove_many(contents.place, reserved.sequences(0, count))
        reserved.drop_first(count)
        contents.dequeued += count
        contents.size_bytes -= size_bytes
        if not self._store.pages:
            self._flow.used_bytes -= size_bytes
        self._flow.release()

    def read_unsafe(self, reserved: Reservation) -> Generator[Fetch | None, None, list[Message]]:
        """The messages of *reserved* that were not persistent, without those that are lost, read in steps."""
        sequences = sorted(reserved.unsafe)
        found: list[Message] = []
        for first in range(0, len(sequences), _READ_AT_ONCE):
            fetch = self._pages.fetch_stored(sequences[first : first + _READ_AT_ONCE])
            yield fetch
            found += [message for message in fetch.messages if message is not None]
        return found

    def give_back(self, reserved: Reservation, unsafe: list[Message]) -> None:
        """Put all of *reserved* back in their places; *unsafe* are those of them that were not persistent."""
        self._return_stored([it for it in reserved.messages() if it.sequence not in reserved.unsafe])
        self._store.remove_many(self._contents.place, reserved.unsafe)
        if self._store.pages:
            self._flow.used_bytes += sum(message.size_bytes for message in unsafe)
        self._dispatcher.return_messages(unsafe)

    def show(self, messages: list[WaitingMessage]) -> None:
        """Offer new messages, which the store has, to consumers from now on."""
        self._contents.enqueued += len(messages)
        self._contents.size_bytes += sum(it.size_bytes for it in messages)
        self._return_stored(messages)
        self._dispatcher.dispatch()

    def _return_stored(self, messages: list[WaitingMessage]) -> None:
        """Put messages in line that the store has; they stay out of memory if they may."""
        if not self._store.pages:
            fetch = self._pages.fetch_stored([it.sequence for it in messages])
            assert fetch.has_arrived, "a store that does not page has all messages in memory"
            self._dispatcher.return_messages([it for it in fetch.messages if it is not None])
            return
        contents = self._contents
        for level, pending in enumerate(contents.levels):
            mine = [it for it in messages if contents.level_of(it) == level]
            self._consumers.look_again_from(level, pending.insert(sorted(mine)))

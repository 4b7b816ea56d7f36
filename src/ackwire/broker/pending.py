"""Messages that wait in a queue, in order, with gaps where some were taken out of turn.

Positions count from the first message ever appended, so they stay valid while the list is consumed from the front. A
message that is taken leaves a gap; if it comes back it goes into its gap, in front of all that came later (H1). The
list of sequences beside the messages is what makes finding a gap a binary search.

A message that is paged out (`paging.py`) leaves a number in its place: its ticket in the temp store, or 0 for what the
store has. Beside it stand its sequence, its expiration and its size, so that nothing is read to order, to expire or to
count: some 30 bytes for each, so that millions may wait.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice, repeat
from operator import itemgetter
from typing import Final, NamedTuple, final

from ackwire.jms.message import Message
from ackwire.store.contract import WaitingMessage, WaitingMessages

_COMPACT_FROM: Final = 1024
"""Gaps at the front are given back when there are more of them than this, and more than messages."""
_WINDOW: Final = 4
"""How far a look for paged-out messages goes, in multiples of what it is to find."""
_NEVER: Final = (1 << 63) - 1
_SEQUENCE, _EXPIRATION, _SIZE = (WaitingMessage._fields.index(it) for it in ("sequence", "expiration", "size_bytes"))

NO_LIMIT: Final = 1 << 62

Entry = Message | int
"""A message, or the number that stands for one that is paged out."""


class PagedOut(NamedTuple):
    """The data kept in memory of a message that is paged out and in no list."""

    sequence: int
    expiration: int
    priority: int
    size_bytes: int
    ticket: int


class Listed(NamedTuple):
    """An entry of a list, with what the list knows of it."""

    position: int
    sequence: int
    entry: Entry
    size_bytes: int


class Cleared(NamedTuple):
    """The former content of a list that was cleared."""

    messages: int
    size_bytes: int
    in_memory_bytes: int
    last_sequence: int
    tickets: list[int]


@final
class PendingList:
    """An ordered list with cheap ends, gaps, and positions."""

    __slots__ = (
        "_base",
        "_count",
        "_earliest",
        "_earliest_since",
        "_expirations",
        "_head",
        "_items",
        "_sequences",
        "_sizes",
        "paged_bytes",
        "paged_count",
    )

    def __init__(self) -> None:
        self._items: list[Entry | None] = []
        self._sequences = array("q")
        self._expirations = array("q")
        self._sizes = array("I")
        self._base = 0
        self._head = 0
        self._count = 0
        self._earliest = _NEVER
        """Nothing here expires before this."""
        self._earliest_since = _NEVER
        """The same for what came since the last look for what is due began."""
        self.paged_count = 0
        self.paged_bytes = 0

    def __len__(self) -> int:
        return self._count

    def in_memory(self) -> list[Message]:
        """The messages that are not paged out, in order."""
        return [entry for entry in self._items[self._head :] if isinstance(entry, Message)]

    def sequences(self) -> list[int]:
        """Of all that are here, in order."""
        return [it for it, entry in zip(self._sequences, self._items, strict=True) if entry is not None]

    def entries(self) -> Iterator[tuple[Entry, int]]:
        """Everything that is here, in order, each with its sequence."""
        for entry, sequence in islice(zip(self._items, self._sequences, strict=True), self._head, None):
            if entry is not None:
                yield entry, sequence

    @property
    def first_position(self) -> int:
        return self._base + self._head

    @property
    def last_sequence(self) -> int:
        """The highest sequence that is here or has left a gap; 0 if nothing is."""
        return self._sequences[-1] if self._sequences else 0

    # ---- coming and going --------------------------------------------------------------------------------------

    def append(self, message: Message) -> None:
        """Add the newest message; its sequence is above all others."""
        sequence, expiration = message.sequence, message.expiration
        assert not self._sequences or sequence > self._sequences[-1], "messages arrive in order"
        self._items.append(message)
        self._sequences.append(sequence)
        self._expirations.append(expiration)
        self._sizes.append(message.size_bytes)
        self._count += 1
        if expiration > 0:
            self._note_expiration(expiration)

    def _note_expiration(self, expiration: int) -> None:
        if expiration < self._earliest:
            self._earliest = expiration
        if expiration < self._earliest_since:
            self._earliest_since = expiration

    def restore(self, waiting: WaitingMessages) -> None:
        """Add messages of an earlier run, which the store has, in their order, behind all that are here."""
        # No object for each and no loop in Python: there may be millions, and clients wait for the start.
        self._sequences.extend(waiting.sequences)
        self._expirations.extend(waiting.expirations)
        self._sizes.extend(waiting.sizes)
        self._items.extend(repeat(0, len(waiting)))
        self._count += len(waiting)
        self.paged_count += len(waiting)
        self.paged_bytes += sum(waiting.sizes)
        if any(waiting.expirations):
            self._note_expiration(min(filter(_is_time, waiting.expirations)))

    def insert(self, waiting: Sequence[WaitingMessage]) -> int:
        """Add messages that the store has, in their order, between those that are here, and return the first
        position that changed."""
        if not waiting:
            return self._base + len(self._items)
        first = bisect_left(self._sequences, waiting[0].sequence)
        behind = [index for index in range(first, len(self._items)) if self._items[index] is not None]
        moved = [WaitingMessage(self._sequences[it], self._expirations[it], 0, self._sizes[it]) for it in behind]
        entries = {self._sequences[index]: self._items[index] for index in behind}
        merged = sorted([*moved, *waiting], key=itemgetter(_SEQUENCE)) if moved else waiting
        del self._items[first:], self._sequences[first:], self._expirations[first:], self._sizes[first:]
        self._sequences.extend(map(itemgetter(_SEQUENCE), merged))
        self._expirations.extend(map(itemgetter(_EXPIRATION), merged))
        self._sizes.extend(map(itemgetter(_SIZE), merged))
        self._items.extend(entries.get(it.sequence, 0) for it in merged)
        self._count += len(waiting)
        self.paged_count += len(waiting)
        self.paged_bytes += sum(map(itemgetter(_SIZE), waiting))
        earliest = min(filter(_is_time, map(itemgetter(_EXPIRATION), waiting)), default=_NEVER)
        self._note_expiration(earliest)
        self._head = min(self._head, first)
        return self._base + first

    def info_at(self, position: int) -> PagedOut:
        """What is known of the entry at *position* without its message; of its priority that is nothing."""
        index = position - self._base
        entry = self._items[index]
        ticket = entry if isinstance(entry, int) else 0
        return PagedOut(self._sequences[index], self._expirations[index], 0, self._sizes[index], ticket)

    def next_from(self, position: int) -> tuple[int, Entry] | None:
        """The first entry at or behind *position*, and where it is."""
        items = self._items
        index = max(position - self._base, self._head)
        while index < len(items):
            entry = items[index]
            if entry is not None:
                return self._base + index, entry
            index += 1
        return None

    def take(self, position: int) -> Entry:
        """Remove the entry at *position*, leaving a gap."""
        index = position - self._base
        entry = self._items[index]
        assert entry is not None, "there is an entry at every position that next_from returned"
        if isinstance(entry, int):
            self.paged_count -= 1
            self.paged_bytes -= self._sizes[index]
        self._items[index] = None
        self._count -= 1
        if index == self._head:
            self._advance_head()
        return entry

    def take_run(self, position: int, count: int) -> tuple[list[Entry], "array[int]", "array[int]"]:
        """Remove up to *count* entries from *position* on, as long as they stand together, never expire and are not in
        the temp store: entries, sequences and sizes."""
        start = position - self._base
        taken: list[Entry] = []
        for entry, expiration in zip(
            islice(self._items, start, start + count), self._expirations[start : start + count], strict=True
        ):
            if entry is None or expiration or (isinstance(entry, int) and entry):
                break
            taken.append(entry)
        end = start + len(taken)
        sequences, sizes = self._sequences[start:end], self._sizes[start:end]
        self._items[start:end] = repeat(None, len(taken))
        paged_bytes = [size for entry, size in zip(taken, sizes, strict=True) if isinstance(entry, int)]
        self.paged_count -= len(paged_bytes)
        self.paged_bytes -= sum(paged_bytes)
        self._count -= len(taken)
        if start == self._head:
            self._advance_head()
        return taken, sequences, sizes

    def _advance_head(self) -> None:
        items, head = self._items, self._head
        while head < len(items) and items[head] is None:
            head += 1
        self._head = head
        if head == len(items) or (head > _COMPACT_FROM and head * 2 > len(items)):
            self._cut_front(head)

    def _cut_front(self, count: int) -> None:
        del self._items[:count]
        del self._sequences[:count]
        del self._expirations[:count]
        del self._sizes[:count]
        self._base += count
        self._head = 0

    def put_back(self, returned: Sequence[Message | PagedOut]) -> int:
        """Put messages back in their places, and return the first position that changed."""
        ordered = returned
        sequences = [it.sequence for it in returned]
        if sequences != sorted(sequences):
            ordered = sorted(returned, key=_sequence_of)
            sequences.sort()
        # One look at each message: very many are not in the processor's cache.
        items: list[Entry | None] = []
        expirations: list[int] = []
        sizes: list[int] = []
        for it in ordered:
            expiration, size_bytes = it.expiration, it.size_bytes
            if expiration > 0:
                self._note_expiration(expiration)
            if isinstance(it, PagedOut):
                items.append(it.ticket)
                self.paged_count += 1
                self.paged_bytes += size_bytes
            else:
                items.append(it)
            expirations.append(expiration)
            sizes.append(size_bytes)
        front = bisect_left(sequences, self._sequences[0]) if self._sequences else len(ordered)
        foremost = self._base + len(self._items)
        if front:
            self._items[:0] = items[:front]
            self._sequences[:0] = array("q", sequences[:front])
            self._expirations[:0] = array("q", expirations[:front])
            self._sizes[:0] = array("I", sizes[:front])
            self._base -= front
            self._head = 0
            foremost = self._base
        for index in range(front, len(ordered)):
            foremost = min(foremost, self._fill_gap(ordered[index]))
        self._count += len(ordered)
        return foremost

    def _fill_gap(self, returned: Message | PagedOut) -> int:
        sequence = returned.sequence
        index = bisect_left(self._sequences, sequence)
        if index < len(self._sequences) and self._sequences[index] == sequence:
            assert self._items[index] is None, "a message is in one place only"
            self._items[index] = _entry_of(returned)
            self._expirations[index] = returned.expiration
            self._sizes[index] = returned.size_bytes  # other bytes may have taken its place
        else:
            self._items.insert(index, _entry_of(returned))
            self._sequences.insert(index, sequence)
            self._expirations.insert(index, returned.expiration)
            self._sizes.insert(index, returned.size_bytes)
        self._head = min(self._head, index)
        return self._base + index

    # ---- finding -----------------------------------------------------------------------------------------------

    def position_of(self, sequence: int) -> int | None:
        """The position of the message with that sequence; None if it is not here."""
        index = bisect_left(self._sequences, sequence)
        if index < len(self._items) and self._sequences[index] == sequence and self._items[index] is not None:
            return self._base + index
        return None

    def at(self, position: int) -> Entry | None:
        """The entry at *position*."""
        index = position - self._base
        return self._items[index] if 0 <= index < len(self._items) else None

    def between(self, after: int, last: int, count_max: int, bytes_max: int) -> list[Listed]:
        """The entries with sequences above *after*, up to *last*: at most *count_max*, and *bytes_max* in sum."""
        start = max(bisect_right(self._sequences, after), self._head)
        found: list[Listed] = []
        for index in range(start, bisect_right(self._sequences, last)):
            entry = self._items[index]
            if entry is None:
                continue
            size_bytes = self._sizes[index]
            bytes_max -= size_bytes
            if found and (bytes_max < 0 or len(found) >= count_max):
                break
            found.append(Listed(self._base + index, self._sequences[index], entry, size_bytes))
        return found

    def may_be_due(self, now_ms: int) -> bool:
        """Whether something may have expired by now; a look through the list, with `due`, is worth it."""
        return now_ms >= self._earliest

    def begin_look(self) -> None:
        """A look for what is due begins."""
        self._earliest_since = _NEVER

    def due(self, after: int, now_ms: int, looks: int) -> tuple[list[int], int | None, int]:
        """Look at the next entries behind the sequence *after*, so many: the sequences of those whose time is over, the
        sequence that this has come to, or None at the end, and when the next of those expires whose time is not."""
        start = max(bisect_right(self._sequences, after), self._head)
        end = min(start + looks, len(self._items))
        earliest = _NEVER
        found: list[int] = []
        expirations = self._expirations[start:end]
        if any(expirations):
            for index, expiration in enumerate(expirations, start):
                if expiration > 0 and self._items[index] is not None:
                    if expiration <= now_ms:
                        found.append(self._sequences[index])
                    elif expiration < earliest:
                        earliest = expiration
        return found, self._sequences[end - 1] if end < len(self._items) else None, earliest

    def end_look(self, earliest: int) -> None:
        """The look is at its end, and what was found is gone: nothing expires before *earliest* of what it passed."""
        self._earliest = min(earliest, self._earliest_since)

    # ---- paging ------------------------------------------------------------------------------------------------

    def page_out(self, position: int, ticket: int) -> None:
        """*ticket* takes the place of the message at *position*."""
        index = position - self._base
        assert isinstance(self._items[index], Message), "only what is in memory can be paged out"
        self._items[index] = ticket
        self.paged_count += 1
        self.paged_bytes += self._sizes[index]

    def page_in(self, position: int, message: Message) -> None:
        """*message* is in its place at *position* again."""
        index = position - self._base
        assert isinstance(self._items[index], int), "only what was paged out can be paged in"
        self._items[index] = message
        self.paged_count -= 1
        self.paged_bytes -= self._sizes[index]

    def paged_from(self, position: int, count_max: int, bytes_max: int) -> list[Listed]:
        """Paged-out entries from *position* on, where there is one: at most *count_max*, and *bytes_max* in sum."""
        start = position - self._base
        found: list[Listed] = []
        for index in range(start, min(start + _WINDOW * count_max, len(self._items))):
            entry = self._items[index]
            if not isinstance(entry, int):
                continue
            size_bytes = self._sizes[index]
            bytes_max -= size_bytes
            if found and (bytes_max < 0 or len(found) >= count_max):
                break
            found.append(Listed(self._base + index, self._sequences[index], entry, size_bytes))
        return found

    # ---- tidying -----------------------------------------------------------------------------------------------

    @property
    def is_sparse(self) -> bool:
        """Whether there are many gaps between the messages, and more than messages: time for `compact`."""
        gaps = len(self._items) - self._head - self._count
        return gaps > _COMPACT_FROM and gaps > self._count

    def compact(self, positions: list[int]) -> list[int]:
        """Close all gaps, and return the new position of each of *positions*."""
        kept = [index for index, entry in enumerate(self._items) if entry is not None]
        moved = [self._base + bisect_left(kept, position - self._base) for position in positions]
        self._items = [self._items[index] for index in kept]
        self._sequences = array("q", [self._sequences[index] for index in kept])
        self._expirations = array("q", [self._expirations[index] for index in kept])
        self._sizes = array("I", [self._sizes[index] for index in kept])
        self._head = 0
        return moved

    def drop_last(self, count: int) -> tuple[list[int], Cleared]:
        """Remove the entries at the last *count* positions, and return their sequences and the entries."""
        start = max(0, len(self._items) - count)
        listed = [
            (entry, sequence, size)
            for entry, sequence, size in zip(
                self._items[start:], self._sequences[start:], self._sizes[start:], strict=True
            )
            if entry is not None
        ]
        last_sequence = self.last_sequence
        del self._items[start:], self._sequences[start:], self._expirations[start:], self._sizes[start:]
        self._head = min(self._head, start)
        paged = [(entry, size) for entry, _, size in listed if isinstance(entry, int)]
        messages = [entry for entry, _, _ in listed if isinstance(entry, Message)]
        paged_bytes = sum([size for _, size in paged])
        in_memory_bytes = sum([message.size_bytes for message in messages])
        self._count -= len(listed)
        self.paged_count -= len(paged)
        self.paged_bytes -= paged_bytes
        tickets = [entry for entry, _ in paged if entry] + [it.ticket for it in messages if it.ticket]
        cleared = Cleared(len(listed), paged_bytes + in_memory_bytes, in_memory_bytes, last_sequence, tickets)
        return [sequence for _, sequence, _ in listed], cleared

    def last_entries(self, count: int) -> list[tuple[Entry, int]]:
        """The entries at the last *count* positions, each with its sequence."""
        start = max(0, len(self._items) - count)
        found = zip(self._items[start:], self._sequences[start:], strict=True)
        return [(entry, sequence) for entry, sequence in found if entry is not None]

    def detach(self) -> "PendingList":
        """Move everything to another list, at once however much it is, and return that. Positions stay valid here."""
        other = PendingList()
        other._items, other._sequences = self._items, self._sequences
        other._expirations, other._sizes = self._expirations, self._sizes
        other._base, other._head, other._count = self._base, self._head, self._count
        other.paged_count, other.paged_bytes = self.paged_count, self.paged_bytes
        self._base += len(self._items)
        self._items, self._sequences = [], array("q")
        self._expirations, self._sizes = array("q"), array("I")
        self._head = self._count = self.paged_count = self.paged_bytes = 0
        return other


def _is_time(expiration: int) -> bool:
    return expiration > 0


def _sequence_of(it: Message | PagedOut) -> int:
    return it.sequence


def _entry_of(it: Message | PagedOut) -> Entry:
    return it.ticket if isinstance(it, PagedOut) else it

"""Records that wait to be written, in the order in which they were recorded.

A message that leaves its last place while it is here is dropped: it never reaches the disk. Records of one group are
written together, and nothing is dropped out of a group from outside it.
"""

from collections.abc import Callable, Collection
from itertools import count, islice
from pathlib import Path
from typing import Final, final

from ackwire.jms.message import Message
from ackwire.store.catalog import Catalog, PlaceInfo
from ackwire.store.journal.pending_records import (
    MovedMessage,
    PendingCounts,
    PendingMessage,
    PendingPayload,
    PendingRecord,
    PendingRemovals,
)
from ackwire.store.journal.record import Flag, RecordKind, pack_numbers

BUFFER_BYTES_MAX: Final = 1 << 20
"""Records are written at once when there are this many bytes of messages, even if no caller waits."""

BUFFER_BYTES_FULL: Final = 64 << 20
"""Producers wait when this much is to be written and a slow sync is in the way."""

_GOES_ON: Final = int(Flag.GOES_ON)
_CONTINUES: Final = int(Flag.CONTINUES)


@final
class RecordBuffer:
    """The records, the messages among them by sequence, and the group that is being recorded."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.on_first: Callable[[], None] | None = None
        """Called when a record comes into the empty buffer."""
        self.on_many: Callable[[], None] | None = None
        """Called with each record that comes while there are more than `BUFFER_BYTES_MAX`."""
        self.records: list[PendingRecord] = []
        self.size_bytes = 0
        """Of the frames of messages."""
        self.full_bytes = BUFFER_BYTES_FULL
        """Tests have fewer."""
        self.full_above = self.full_bytes
        """Producers wait when `size_bytes` is more. Once they do, it is 0 until everything is written: a buffer that
        they fill up again as soon as there is some room would never be empty."""
        self.messages: dict[int, list[PendingMessage | MovedMessage]] = {}
        """By sequence."""
        self._recorded_sequence = 0
        """The highest of a message that a record of this run tells."""
        self._groups = count(1)
        self._group = 0
        """The number of the group that is being recorded; 0 for none."""
        self.group_started_at = 0
        """How many records were here when it began."""
        self.depth = 0
        """How many calls that record a group are nested."""

    # ---- coming ------------------------------------------------------------------------------------------------

    def add(self, record: PendingRecord) -> None:
        """Put *record* behind all others."""
        record.group = self._group
        records = self.records
        if not records and self.on_first is not None:
            self.on_first()
        records.append(record)
        if self.size_bytes > BUFFER_BYTES_MAX and self.on_many is not None:
            self.on_many()

    def add_message(self, record: PendingMessage, sequence: int, frame_bytes: int) -> None:
        """The same for a message."""
        there = self.messages.get(sequence)
        if there is None:
            self.messages[sequence] = [record]
        else:
            there.append(record)
        self.size_bytes += frame_bytes
        self.add(record)

    def add_moved(self, record: MovedMessage, sequence: int) -> None:
        """Write a message once more. One that is here already is not moved: it will not be where it was."""
        there = self.messages.setdefault(sequence, [])
        record.places = [it for it in record.places if not any(it in other.places for other in there)]
        if record.places:
            there.append(record)
            self.add(record)

    def removals(self) -> PendingRemovals:
        """The record that collects what is removed now: the last one, or a new one."""
        last = self.records[-1] if self.records else None
        if not isinstance(last, PendingRemovals) or last.group != self._group:
            last = PendingRemovals(self._catalog)
            self.add(last)
        return last

    def count(self, producer_key: bytes, count: int) -> None:
        """Record how far a producer has counted, without a message of it."""
        last = self.records[-1] if self.records else None
        if not isinstance(last, PendingCounts) or last.group != self._group:
            last = PendingCounts(self._catalog)
            self.add(last)
        last.counts[producer_key] = max(last.counts.pop(producer_key, count), count)  # at the end: heard of last

    def count_message(self, message: Message) -> None:
        """Remember its producer although the message is not written: it may be sent again (J4)."""
        self.count(message.origin.producer_key, message.producer_count)

    # ---- groups ------------------------------------------------------------------------------------------------

    def begin_group(self) -> None:
        """Begin a group: records added until `end_group` take effect together. Nested groups are part of it."""
        self.depth += 1
        if self.depth == 1:
            self.group_started_at = len(self.records)
            self._group = next(self._groups)

    @property
    def group_has_records(self) -> bool:
        return len(self.records) > self.group_started_at

    def leave_group(self) -> bool:
        """Whether the outermost call that records the group ends; then `end_group` is due."""
        self.depth -= 1
        return not self.depth

    def end_group(self) -> None:
        self._group = 0

    def must_write_before_removal(self, info: PlaceInfo, sequence: int | None = None) -> bool:
        """Whether messages of another group than this one have to be written before they are removed.

        A group is there as a whole or not at all. So nothing is dropped out of one, and what a group removes is there
        if the group is not.
        """
        if sequence is None:
            records = [it for its in self.messages.values() for it in its]
        else:
            records = self.messages.get(sequence, [])
        return any(it.group != self._group and info in it.places for it in records)

    # ---- leaving before it is written --------------------------------------------------------------------------

    def message_in(self, info: PlaceInfo, sequence: int) -> PendingMessage | MovedMessage | None:
        """The record that waits of a message for a place."""
        for record in self.messages.get(sequence, ()):
            if info in record.places:
                return record
        return None

    def drop(self, record: PendingMessage | MovedMessage, sequence: int, info: PlaceInfo) -> None:
        """*record* need not be written for that place; nor at all, if that was its last one."""
        record.places = [it for it in record.places if it is not info]
        if record.places:
            return
        there = self.messages[sequence]
        there.remove(record)
        if not there:
            del self.messages[sequence]
        if isinstance(record, PendingMessage):
            if self.records[-1] is record:  # a quick consumer has it: there may be many, and a slow disk
                self.records.pop()
                self.size_bytes = max(0, self.size_bytes - len(record.message.frame))
            self.count_message(record.message)

    def drop_place(self, info: PlaceInfo, last_sequence: int | None = None, kept: Collection[int] = ()) -> None:
        """Drop all messages of a place, or those up to *last_sequence* but for *kept*."""
        for sequence, records in list(self.messages.items()):
            if (last_sequence is None or sequence <= last_sequence) and sequence not in kept:
                for record in [it for it in records if info in it.places]:
                    self.drop(record, sequence, info)

    # ---- leaving to be written ---------------------------------------------------------------------------------

    def full_because(self, data: Path) -> str:
        """Why producers have to wait, now that there is more than `full_above`."""
        self.full_above = 0
        return f"the disk of {data} is slow: {self.size_bytes} bytes wait to be written"

    def record_last_sequence(self, first: int | None, now_ms: Callable[[], int]) -> None:
        """All records, or the *first* so many, are about to be written. A message that is not written had a sequence
        all the same, and no other may have it."""
        last_sequence = self._catalog.last_sequence
        self._recorded_sequence = max(self._recorded_sequence, self._last_message_sequence(first))
        if first is None and self.records and self._recorded_sequence < last_sequence:
            self._recorded_sequence = last_sequence
            self.records.append(PendingPayload(RecordKind.OPENED, pack_numbers((now_ms(), last_sequence))))

    def _last_message_sequence(self, first: int | None) -> int:
        """The highest sequence of a message among all records, or the *first* so many; 0 if there is none."""
        highest = 0
        for record in self.records if first is None else self.records[:first]:
            if isinstance(record, PendingMessage) and record.places:
                sequence = record.message.sequence
                if sequence > highest:
                    highest = sequence
        return highest

    def portion(self, records_max: int, bytes_max: int) -> int | None:
        """How many of the first records are about *records_max* or *bytes_max* of messages; None if all of them are.
        Ends between groups, so it may be more by the rest of one."""
        records = self.records
        if len(records) <= records_max and self.size_bytes <= bytes_max:
            return None
        size_bytes = end = 0
        for record in islice(records, records_max):
            if size_bytes >= bytes_max:
                break
            end += 1
            if isinstance(record, PendingMessage):
                size_bytes += len(record.message.frame)
        while end < len(records) and records[end].group and records[end].group == records[end - 1].group:
            end += 1
        return None if end == len(records) else end

    def take(self, first: int | None) -> list[PendingRecord]:
        """All records, or the *first* so many, as they are to be written: without those that were dropped."""
        if first is None:
            taken, self.records, self.size_bytes = self.records, [], 0
        else:
            taken = self.records[:first]
            del self.records[:first]
            size_bytes = sum([len(it.message.frame) for it in taken if isinstance(it, PendingMessage)])
            self.size_bytes = max(0, self.size_bytes - size_bytes)
        records = [it for it in taken if not isinstance(it, (PendingMessage, MovedMessage)) or it.places]
        _mark_groups(records)
        return records

    def are_written(self, taken: list[PendingRecord]) -> None:
        """What `take` returned is written: it tells the catalog. The other records are still pending."""
        if not self.records:
            self.messages.clear()
        else:
            self._let_go(taken)
        for record in taken:
            record.written()

    def _let_go(self, taken: list[PendingRecord]) -> None:
        for record in taken:
            if isinstance(record, (PendingMessage, MovedMessage)):
                there = self.messages[record.sequence]
                there.remove(record)
                if not there:
                    del self.messages[record.sequence]


def _mark_groups(records: list[PendingRecord]) -> None:
    """Set the flags of records that take effect together."""
    previous: PendingRecord | None = None
    for record in records:
        if record.group and previous is not None and record.group == previous.group:
            previous.flags |= _GOES_ON
            record.flags |= _CONTINUES
        previous = record

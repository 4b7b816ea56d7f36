"""Bits that change on the medium: noticed, reported, and everything else is served (K2).

A store with some of everything is closed well, one bit is flipped, and it is opened again: with its index, and with an
index that has to be made anew. Nothing is ever served that was not stored, and what is missing was reported.
"""

import logging
from collections.abc import Iterator
from random import Random

import pytest

from ackwire.store.index import Table
from ackwire.store.journal.journal_store import JournalStore
from ackwire.store.journal.record import HEADER_BYTES, RecordKind
from ackwire.store.journal.segment import SEGMENT_HEADER_BYTES, Damage, SegmentScan
from tests.helpers.journal import DATA, JournalFactory
from tests.helpers.memory_index import IndexMedium
from tests.helpers.reference import Reference
from tests.helpers.store_history import KINDS, Happenings
from tests.helpers.stored import Kept, difference, kept

JOURNAL = DATA / "journal"
STORED = [*KINDS, *["append"] * 15, *KINDS, *["append"] * 5]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class Damaged:
    """A store that was closed well, and then something happened to its files."""

    def __init__(self) -> None:
        self.factory, self.state, happenings, random = JournalFactory(), Reference(), Happenings(), Random(12)
        self.disk = self.factory.disk
        store = self.factory.open()
        for kind in STORED:
            for verb in happenings.make(kind, self.state, random):
                verb(store)
                verb(self.state)
            store.when_durable(lambda: None)
            self.factory.step()
        self.factory.close()
        self.expected = self.state.kept()
        self.segments = [path for path in self.disk.paths() if path.suffix == ".log"]
        assert len(self.segments) > 2

    def records(self, segment: int) -> list[tuple[int, int, int]]:
        """Kind, offset and size of the records of one of the segments."""
        store = self.factory.open()
        assert isinstance(store, JournalStore)
        seed = store.journal.writer.seed
        self.factory.close()
        file = self.disk.open(self.segments[segment], writable=False)
        scan = SegmentScan(file, segment, seed, last_number=0, last_epoch=0)
        found = [(it.kind, it.offset, it.size_bytes) for it in scan if not isinstance(it, Damage)]
        file.close()
        return found

    def look(self) -> tuple[Kept, list[str]]:
        """What is served, and what was reported."""
        store = self.factory.open()
        assert isinstance(store, JournalStore)
        found = kept(store)
        report = JOURNAL.parent / "quarantine" / "report.jsonl"
        lines = self.disk.contents(report).decode().splitlines() if self.disk.exists(report) else []
        return found, lines

    def expect_honest(self) -> Kept:
        """What is served was stored, and if anything is not as it was, that was reported. Answers what is served."""
        found, reported = self.look()
        problem = difference(found, self.expected)
        assert not problem or reported, f"not reported:\n{problem}"
        stored = {it for messages in self.expected.messages.values() for it in messages}
        for messages in found.messages.values():
            strangers = [it for it in messages if it is not None and it not in stored]
            assert not strangers or reported, f"{len(strangers)} messages were never stored like this"
        return found


def lost(found: Kept, expected: Kept) -> int:
    """How many messages should be served and are not."""
    served = {(place, it) for place, messages in found.messages.items() for it in messages}
    return sum((place, it) not in served for place, messages in expected.messages.items() for it in messages)


@pytest.mark.parametrize("segment", range(3))
@pytest.mark.parametrize("with_index", [True, False])
def test_any_bit_of_a_segment(segment: int, with_index: bool) -> None:
    """K2."""
    for seed in range(40):
        damaged = Damaged()
        random = Random(seed)
        used = len(damaged.disk.contents(damaged.segments[segment]).rstrip(b"\0"))
        damaged.disk.flip_bit(damaged.segments[segment], random.randrange(used), random.randrange(8))
        if not with_index:
            damaged.factory.lose_index()
        damaged.expect_honest()


@pytest.mark.parametrize("with_index", [True, False])
def test_header_of_a_segment(with_index: bool) -> None:
    """K2: the records behind it are as good as before."""
    for offset in range(0, SEGMENT_HEADER_BYTES, 3):
        damaged = Damaged()
        damaged.disk.flip_bit(damaged.segments[1], offset)
        if not with_index:
            damaged.factory.lose_index()
        found, reported = damaged.look()
        assert difference(found, damaged.expected) == ""
        assert reported


@pytest.mark.parametrize("place", ["header", "payload"])
@pytest.mark.parametrize("with_index", [True, False])
def test_record_of_a_message_costs_that_message_alone(place: str, with_index: bool) -> None:
    """K2: the neighbours are served, and nobody gets other bytes than were sent."""
    messages = [it for it in Damaged().records(1) if it[0] == RecordKind.MESSAGE]
    for _, offset, size in messages:
        damaged = Damaged()
        damaged.disk.flip_bit(damaged.segments[1], offset + (4 if place == "header" else HEADER_BYTES + size // 2))
        if not with_index:
            damaged.factory.lose_index()
        found = damaged.expect_honest()
        assert lost(found, damaged.expected) <= 4, "one message, which may wait in four places"


@pytest.mark.parametrize("table", Table)
def test_any_entry_of_the_index(table: Table) -> None:
    """K2: the journal is the truth; an index that is not what was written is made anew."""
    count = len(Damaged().factory.medium.tables[table])
    for nth in range(count):
        for bit in (0, 13, 37, 105, 210, 329):
            damaged = Damaged()
            medium: IndexMedium = damaged.factory.medium
            medium.flip_bit(table, nth, bit)
            found, _ = damaged.look()
            assert difference(found, damaged.expected) == "", f"{table}, entry {nth}, bit {bit}"


def test_segment_that_is_gone_is_reported() -> None:
    """K2."""
    for with_index in (True, False):
        damaged = Damaged()
        damaged.disk.lose(damaged.segments[1])
        if not with_index:
            damaged.factory.lose_index()
        assert damaged.expect_honest().waiting

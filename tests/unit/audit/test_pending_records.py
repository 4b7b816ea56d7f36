"""Messages that follow a record come back as if each had a record of its own."""

import random
from dataclasses import dataclass
from typing import Any

import pytest

from ackwire.audit.chunks import Section
from ackwire.audit.parquet_files import section_table
from ackwire.audit.pending_records import Taken, Unwritten
from ackwire.audit.records import (
    DELAY_NS_MAX,
    OFFSET_MAX,
    Block,
    ConsumerText,
    OriginText,
    Run,
    Texts,
    block_at,
    encoded,
)
from ackwire.broker.auditing import Event
from ackwire.jms.destinations import Kind, destination
from ackwire.jms.message import Message, Origin

ORIGINS = [
    Origin(
        prefix=b"",
        destination=destination(Kind.QUEUE, "orders"),
        transaction=None,
        connection_id=None,
        producer_key=b"%d" % number,
        id_end=0,
    )
    for number in range(2)
]
TEXTS = Texts(
    ["queue://orders", "queue://bills"],
    [OriginText(f"ID:{number}", "queue://orders", None, None) for number in range(2)],
    [ConsumerText(f"consumer {number}", None, None) for number in range(3)],
    [],
)
START_NS = 1_700_000_000_000_000_000


@dataclass(frozen=True)
class Telling:
    """What `Unwritten` is told once."""

    origin: int = 0
    kind: int = Event.ACKED
    place: int = 1
    consumer: int = 1
    size: int = 100
    count: int = 1
    sequence: int = 1
    timestamp: int = 1_700_000_000_000
    persistent: bool = False
    priority: int = 4
    redeliveries: int = 0
    time_ns: int = START_NS

    def tell(self, unwritten: Unwritten) -> None:
        message = Message(
            frame=bytes(self.size),
            key=b"key" + self.count.to_bytes(8, signed=True),
            origin=ORIGINS[self.origin],
            persistent=self.persistent,
            priority=self.priority,
            expiration=0,
            timestamp=self.timestamp,
            properties_offset=0,
            tail_offset=0,
        )
        message.sequence = self.sequence
        message.redelivery_counter = self.redeliveries
        events = 3 if self.kind == _ARRIVED else 1
        unwritten.tell(events, self.kind, self.place, message, self.origin + 1, self.consumer, self.time_ns)


_ARRIVED = Event.SENT | Event.STORED | Event.DISPATCHED


def table_of(taken: Taken) -> list[dict[str, Any]]:
    data = encoded(Block(1, taken.events, taken.messages, b"", taken.records, taken.followers))
    found = block_at(data, 0)
    assert found is not None
    rows: list[dict[str, Any]] = section_table(Run("run", "broker"), Section(TEXTS, [found[0]])).to_pylist()
    return rows


def together(tellings: list[Telling]) -> tuple[Taken, list[dict[str, Any]]]:
    unwritten = Unwritten()
    for it in tellings:
        it.tell(unwritten)
    taken = unwritten.take()
    rows = table_of(taken)
    assert (taken.messages, taken.events) == (len(tellings), len(rows))
    return taken, rows


def one_by_one(tellings: list[Telling]) -> list[dict[str, Any]]:
    """Each in a block of its own, so that none follows another."""
    rows: list[dict[str, Any]] = []
    for it in tellings:
        rows += [{**row, "number": len(rows) + row["number"]} for row in together([it])[1]]
    return rows


def varied(randomness: random.Random) -> Telling:
    """Mostly like the one before."""
    sequence = randomness.choice((5, 6, 7, 7, 1000))
    return Telling(
        origin=randomness.choice((0, 0, 0, 1)),
        kind=randomness.choice((Event.ACKED, Event.ACKED, _ARRIVED)),
        place=randomness.choice((1, 1, 1, 2)),
        consumer=randomness.choice((1, 1, 2, 3)),
        size=randomness.choice((100, 100, 101)),
        sequence=sequence,
        count=sequence + randomness.choice((0, 0, 0, -9)),
        timestamp=1_700_000_000_000 + randomness.choice((0, 0, 0, 1)),
        persistent=randomness.random() < 0.1,
        priority=randomness.choice((4, 4, 4, 5)),
        redeliveries=randomness.choice((0, 0, 0, 1)),
        time_ns=START_NS + randomness.choice((0, 0, 1_000, 2_000_000)),
    )


@pytest.mark.parametrize("seed", range(20))
def test_whatever_differs_is_told(seed: int) -> None:
    randomness = random.Random(seed)
    tellings: list[Telling] = []
    for _ in range(40):
        it = varied(randomness)
        for step in range(randomness.choice((1, 2, 5))):
            tellings.append(Telling(**{**vars(it), "sequence": it.sequence + step, "count": it.count + step}))
    assert together(tellings)[1] == one_by_one(tellings)


def test_messages_in_a_row_take_no_more_room_than_two() -> None:
    few, many = ([Telling(sequence=n, count=n) for n in range(1, count)] for count in (3, 1000))
    assert len(together(many)[0].followers) == len(together(few)[0].followers)
    assert len(together(many)[0].records) == len(together(few)[0].records)
    assert together(many)[1] == one_by_one(many)


@pytest.mark.parametrize("offset", [-OFFSET_MAX - 1, -OFFSET_MAX, -1, 0, OFFSET_MAX, OFFSET_MAX + 1])
def test_a_message_far_away(offset: int) -> None:
    base = 1 << 40
    tellings = [Telling(sequence=base, count=base), Telling(sequence=base + offset, count=base + offset)]
    taken, rows = together(tellings)
    assert rows == one_by_one(tellings)
    assert bool(taken.followers) is (abs(offset) <= OFFSET_MAX)


@pytest.mark.parametrize("delay_ns", [-1_000_000, DELAY_NS_MAX, DELAY_NS_MAX + 1])
def test_a_message_much_later_or_before(delay_ns: int) -> None:
    tellings = [Telling(), Telling(sequence=2, count=2, time_ns=START_NS + delay_ns)]
    taken, rows = together(tellings)
    assert rows == one_by_one(tellings)
    assert bool(taken.followers) is (0 <= delay_ns <= DELAY_NS_MAX)


def test_blocks_that_follow_each_other() -> None:
    blocks, number = list[Block](), 1
    for first in (1, 10, 100):
        taken, _ = together([Telling(sequence=n, count=n) for n in range(first, first + 5)])
        data = encoded(Block(number, taken.events, taken.messages, b"", taken.records, taken.followers))
        found = block_at(data, 0)
        assert found is not None
        blocks.append(found[0])
        number += taken.events
    rows = section_table(Run("run", "broker"), Section(TEXTS, blocks)).to_pylist()
    assert [row["sequence"] for row in rows] == [*range(1, 6), *range(10, 15), *range(100, 105)]
    assert [row["number"] for row in rows] == list(range(1, 16))


def test_a_record_between_others_keeps_its_place() -> None:
    unwritten, other = Unwritten(), Unwritten()
    Telling(sequence=7, count=7, place=2).tell(other)
    Telling(sequence=1, count=1).tell(unwritten)
    Telling(sequence=2, count=2).tell(unwritten)
    unwritten.add(other.take().records)
    Telling(sequence=3, count=3).tell(unwritten)
    assert [row["sequence"] for row in table_of(unwritten.take())] == [1, 2, 7, 3]


def test_what_was_taken_is_not_taken_again() -> None:
    unwritten = Unwritten()
    Telling().tell(unwritten)
    unwritten.take()
    assert unwritten.take() == Taken(b"", b"", 0, 0)
    Telling(sequence=2, count=2).tell(unwritten)
    assert len(table_of(unwritten.take())) == 1


@pytest.mark.parametrize("lost", ["records", "followers"])
def test_a_block_that_contradicts_itself_is_refused(lost: str) -> None:
    taken, _ = together([Telling(sequence=n, count=n) for n in range(1, 4)])
    with pytest.raises(ValueError, match="a block of 3 messages tells of"):
        table_of(taken._replace(**{lost: getattr(taken, lost) * 2}))

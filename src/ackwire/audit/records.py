"""The format of events in the spool: records of one size, and texts that they refer to by number.

A record is about one message, and about one to three events of it at once; its first byte says how many. Most of the
time the same happens to the next messages of its producer. So a record may have followers: messages with the same
events, except for the fields that a follower has. Texts (places, producers,
consumers, transactions, causes) are written once in each chunk, in front of the first record that names them: a chunk
explains itself.

A chunk is a file: a line of JSON (which run of which broker), then blocks. A block is what one write brought, with a
checksum: header, definitions (a line of JSON each), records, the followers of all records in their order.
"""

import json
import zlib
from struct import Struct
from typing import Final, NamedTuple

RECORD: Final = Struct("<BBBBhxxIIIIIII8sqqq")
"""Events, kind, ack kind, persistent (2: unknown), priority; place, origin, consumer, size, redeliveries, transaction,
cause; the producer's count (as it stands in a message's key: big-endian); sequence, JMSTimestamp in ms, time in ns."""

RECORD_FIELDS: Final = (
    ("events", "u1"),
    ("kind", "u1"),
    ("ack", "u1"),
    ("persistent", "u1"),
    ("priority", "<i2"),
    ("followers", "<u2"),
    ("place", "<u4"),
    ("origin", "<u4"),
    ("consumer", "<u4"),
    ("size", "<u4"),
    ("redeliveries", "<u4"),
    ("transaction", "<u4"),
    ("cause", "<u4"),
    ("count", ">i8"),
    ("sequence", "<i8"),
    ("sent_ms", "<i8"),
    ("time_ns", "<i8"),
)
"""The same for numpy."""

HOT: Final = Struct("<BBxBhHIIIII8x8sqqq")
"""A record with followers (how many stands behind the priority), and without ack kind, transaction and cause."""

FOLLOWER_FIELDS: Final = (
    ("size", "<u4"),
    ("offset", "<i4"),
    ("delay_ns", "<u4"),
    ("consumer", "<u4"),
    ("messages", "<i8"),
)
"""Messages in a row that differ in nothing but sequence and count, which go up by one. The size and the consumer of
each; by how much sequence and count of the first, and the time, are beyond those of the record. The recorder writes
three numbers: `offset << 32 | size`, `consumer << 32 | delay_ns`, `messages`."""
FOLLOWER_BYTES: Final = 24
OFFSET_MAX: Final = (1 << 31) - 1
DELAY_NS_MAX: Final = (1 << 32) - 1

FORMAT: Final = 2
"""Of chunks; the first one had no followers."""

NONE: Final = 0
"""The index of no text. For a place: the destination of the message, as for subscribers of topics."""
UNKNOWN: Final = 2
NO_ACK: Final = 255
ACK_OF_CURSOR: Final = 100
"""Beside the kinds of acks that clients send."""

BLOCK: Final = Struct("<4sIIIIIQI")
"""Mark, bytes of definitions, records, followers, messages, events, number of the first event; checksum of that and of
all that comes behind it."""
BLOCK_MARK: Final = b"AUD2"
_BLOCK_CHECKED: Final = BLOCK.size - 4
_FIRST_NUMBER: Final = 6  # its place in the header
HEADER_BYTES_MAX: Final = 4096
BLOCK_BYTES_MAX: Final = 64 << 20
"""No block is as large: the recorder writes long before."""


class Run(NamedTuple):
    """One run of a broker."""

    run: str
    broker: str


class Texts(NamedTuple):
    """What the numbers of a chunk's records stand for; index 0 is nothing."""

    places: list[str]
    origins: "list[OriginText]"
    consumers: "list[ConsumerText]"
    words: list[str]
    """Transactions and causes."""


class OriginText(NamedTuple):
    """What messages of one producer to one destination have in common."""

    producer: str | None
    """What its message ids begin with, if that is known."""
    destination: str
    transaction: str | None
    connection: str | None


class ConsumerText(NamedTuple):
    """Who consumes."""

    consumer: str
    connection: str | None
    client_id: str | None


def chunk_header(run: Run, first_number: int) -> bytes:
    """The first line of a chunk."""
    facts = {"format": FORMAT, "run": run.run, "broker": run.broker, "first_number": first_number}
    return json.dumps(facts).encode("ascii") + b"\n"


def definition(table: str, index: int, *values: object) -> bytes:
    """One text of *table* (p, o, c, w); indices count up from 1 in each chunk."""
    return json.dumps((table, index, *values), separators=(",", ":")).encode("ascii") + b"\n"


class Block(NamedTuple):
    """The records of one write."""

    first_number: int
    events: int
    messages: int
    """Records and their followers: each is about one message."""
    definitions: bytes
    records: bytes | memoryview
    followers: bytes | memoryview


def encoded(block: Block) -> bytes:
    """*block* as it stands in a chunk."""
    definitions, records, followers = block.definitions, block.records, block.followers
    counts = (len(definitions), len(records) // RECORD.size, len(followers) // FOLLOWER_BYTES)
    head = BLOCK.pack(BLOCK_MARK, *counts, block.messages, block.events, block.first_number, 0)[:_BLOCK_CHECKED]
    checksum = _checksum(head, block)
    return b"".join((head, checksum.to_bytes(4, "little"), definitions, records, followers))


def block_at(data: bytes, position: int) -> tuple[Block, int] | None:
    """The block at *position* and where it ends; None if it is not whole."""
    start = position + BLOCK.size
    if start > len(data):
        return None
    mark, definition_bytes, records, followers, messages, events, first_number, checksum = BLOCK.unpack_from(
        data, position
    )
    records_at = start + definition_bytes
    followers_at = records_at + records * RECORD.size
    end = followers_at + followers * FOLLOWER_BYTES
    if mark != BLOCK_MARK or end - start > BLOCK_BYTES_MAX or end > len(data):
        return None
    view = memoryview(data)
    parts = (data[start:records_at], view[records_at:followers_at], view[followers_at:end])
    block = Block(first_number, events, messages, *parts)
    return (block, end) if _checksum(data[position : position + _BLOCK_CHECKED], block) == checksum else None


def first_number_of(encoded_block: bytes) -> int:
    """The number of the first event that it tells of."""
    number: int = BLOCK.unpack_from(encoded_block)[_FIRST_NUMBER]
    return number


def _checksum(head: bytes, block: Block) -> int:
    """The checksum of a block, which tells a complete block from a torn one."""
    return zlib.crc32(block.followers, zlib.crc32(block.records, zlib.crc32(block.definitions, zlib.crc32(head))))

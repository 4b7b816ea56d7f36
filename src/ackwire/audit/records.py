"""How events look in the spool: records of one size, and the texts that they name by number.

A record tells of one message, and of one to three things that happened to it at once; its first byte says how many, so
that events can be counted without looking further. Texts (places, producers, consumers, transactions, causes) are
written once in each chunk, in front of the first record that names them: a chunk explains itself.

A chunk is a file: a line of JSON (which run of which broker), then blocks. A block is what one write brought, with a
checksum: header, definitions (a line of JSON each), records.
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
    ("unused", "<u2"),
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

HOT: Final = Struct("<BBxBhxxIIIII8x8sqqq")
"""A record without ack kind, transaction and cause."""

NONE: Final = 0
"""The index of no text. For a place: the destination of the message, as for subscribers of topics."""
UNKNOWN: Final = 2
NO_ACK: Final = 255
ACK_OF_CURSOR: Final = 100
"""Beside the kinds of acks that clients send."""

BLOCK: Final = Struct("<4sIIQI")
"""Mark, bytes of definitions, records, number of the first event (at 12), checksum of what follows."""
BLOCK_MARK: Final = b"AUD1"
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
    facts = {"format": 1, "run": run.run, "broker": run.broker, "first_number": first_number}
    return json.dumps(facts).encode("ascii") + b"\n"


def definition(table: str, index: int, *values: object) -> bytes:
    """One text of *table* (p, o, c, w); indices count up from 1 in each chunk."""
    return json.dumps((table, index, *values), separators=(",", ":")).encode("ascii") + b"\n"


def block(definitions: bytes, records: bytes, first_number: int) -> bytes:
    """Definitions and records as they stand in a chunk."""
    count = len(records) // RECORD.size
    checksum = block_checksum(definitions, records, first_number)
    return BLOCK.pack(BLOCK_MARK, len(definitions), count, first_number, checksum) + definitions + records


def count_events(records: bytes | memoryview) -> int:
    """How many events *records* tell of."""
    return sum(bytes(records[:: RECORD.size]))


def block_checksum(definitions: bytes | memoryview, records: bytes | memoryview, first_number: int) -> int:
    """What tells a whole block from a torn one."""
    return zlib.crc32(records, zlib.crc32(definitions, first_number & 0xFFFFFFFF))

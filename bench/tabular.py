"""How much does one row cost, between the bytes of a message and an Arrow table? CPU µs each, in batches as the broker
makes them.

    .venv/bin/python -m bench.tabular
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from ackwire.jms.destinations import parse_destination
from ackwire.tabular.reading import RowReader
from ackwire.tabular.writing import batch_to_messages
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.primitives import encode_map
from bench import samples
from bench.measure import Figure, cpu_microseconds_each, present

COUNT: Final = 5_000
READ_BATCH: Final = 256
"""Rows that the broker hands out in one turn of its loop."""
WRITE_BATCH: Final = 1_000
TEXT: Final = "x" * samples.TEXT_BYTES
DESTINATION: Final = parse_destination("queue://bench.orders")
MAP: Final = pa.map_(pa.string(), pa.string())
EXPECTED: Final = "< 6"


def main(arguments: Sequence[str]) -> None:
    figures = [*reading(), *writing()]
    present("tabular: CPU per row, without sockets and broker", figures, arguments)


# ---- reading ---------------------------------------------------------------------------------------------------


def stored(number: int) -> commands.ActiveMQTextMessage:
    """As the broker keeps it: persistent and stamped."""
    message = samples.text_message(number)
    message_id = replace(samples.message_id(number), broker_sequence_id=number)
    return replace(message, persistent=True, message_id=message_id, broker_in_time=samples.TIMESTAMP_MS + number)


def with_properties(number: int) -> commands.ActiveMQTextMessage:
    properties = encode_map({"customer": f"C-{number}", "attempt": number % 5, "urgent": number % 2 == 0})
    return replace(stored(number), marshalled_properties=properties)


def small_bytes(number: int) -> commands.ActiveMQBytesMessage:
    message = stored(number)
    return commands.ActiveMQBytesMessage(
        producer_id=message.producer_id,
        destination=message.destination,
        message_id=message.message_id,
        persistent=True,
        priority=4,
        timestamp=message.timestamp,
        broker_in_time=message.broker_in_time,
        content=b"x" * 100,
    )


def request(number: int) -> commands.ActiveMQTextMessage:
    reply_to = commands.ActiveMQTempQueue(f"{samples.PRODUCER_CONNECTION}:1")
    return replace(stored(number), correlation_id=f"request-{number}", reply_to=reply_to)


def reading() -> Iterator[Figure]:
    kinds: dict[str, tuple[Callable[[int], commands.Message], str]] = {
        "1 KiB text": (stored, EXPECTED),
        "1 KiB text, 3 properties": (with_properties, EXPECTED),
        "100 B bytes": (small_bytes, EXPECTED),
        "1 KiB text, correlation id and reply-to": (request, ""),
    }
    for name, (make, expected) in kinds.items():
        frames = samples.frames([make(number) for number in range(1, COUNT + 1)])
        rows = [(number, frame, 0) for number, frame in enumerate(frames)]
        yield Figure(f"read: {name}", "µs", cpu_microseconds_each(lambda rows=rows: read(rows), COUNT), expected)  # type: ignore[misc]


def read(rows: Sequence[tuple[int, bytes, int]]) -> None:
    reader = RowReader()
    for start in range(0, len(rows), READ_BATCH):
        reader.batch(rows[start : start + READ_BATCH])


# ---- writing ---------------------------------------------------------------------------------------------------


def writing() -> Iterator[Figure]:
    numbers = range(WRITE_BATCH)
    texts = pa.array([TEXT] * WRITE_BATCH)
    pairs = [[("customer", f"C-{number}"), ("region", "north"), ("attempt", str(number % 5))] for number in numbers]
    kinds: dict[str, tuple[dict[str, Any], str]] = {
        "1 KiB text": ({"text": texts}, EXPECTED),
        "1 KiB text, 3 properties in a map": ({"text": texts, "properties": pa.array(pairs, MAP)}, EXPECTED),
        "1 KiB text, 3 typed properties": (
            {
                "text": texts,
                "property:customer": [f"C-{number}" for number in numbers],
                "property:attempt": pa.array([number % 5 for number in numbers], pa.int32()),
                "property:urgent": [number % 2 == 0 for number in numbers],
            },
            EXPECTED,
        ),
        "100 B bytes": ({"bytes": [b"x" * 100] * WRITE_BATCH}, EXPECTED),
        "1 KiB text, correlation id": ({"text": texts, "correlation_id": [f"c-{number}" for number in numbers]}, ""),
    }
    for name, (columns, expected) in kinds.items():
        batch = pa.RecordBatch.from_pydict(columns)
        yield Figure(f"write: {name}", "µs", cpu_microseconds_each(lambda batch=batch: write(batch), COUNT), expected)  # type: ignore[misc]


def write(batch: Any) -> None:
    for start in range(0, COUNT, WRITE_BATCH):
        batch_to_messages(
            batch,
            producer="bench",
            default_destination=DESTINATION,
            first_sequence=start + 1,
            now_ms=samples.TIMESTAMP_MS,
        )


if __name__ == "__main__":
    main(sys.argv[1:])

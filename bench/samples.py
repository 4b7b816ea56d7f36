"""Frames as the ActiveMQ Java client sends them, for all benchmarks: 1 KiB of text, non-persistent, asynchronous."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ackwire.jms.types import Value
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.codec_fast import CANONICAL
from ackwire.wire.openwire.marshal import Codec, WireFormat
from ackwire.wire.openwire.primitives import encode_map
from ackwire.wire.openwire.structures import Structure

TEXT_BYTES: Final = 1024
PREFETCH: Final = 1000  # the Java client's default for queues
SIZE_PREFIX_BYTES: Final = 4

QUEUE: Final = commands.ActiveMQQueue("bench.orders")
TOPIC: Final = commands.ActiveMQTopic("bench.prices")
PRODUCER_CONNECTION: Final = "ID:bench-machine-41234-1763172000000-1:1"
CONSUMER_CONNECTION: Final = "ID:bench-machine-41235-1763172000001-1:1"
PRODUCER_ID: Final = commands.ProducerId(PRODUCER_CONNECTION, 1, 1)
CONSUMER_ID: Final = commands.ConsumerId(CONSUMER_CONNECTION, 1, 1)
TIMESTAMP_MS: Final = 1_763_172_000_000

LOOSE: Final = CANONICAL
TIGHT: Final = WireFormat(tight=True)


def text_message(sequence: int) -> commands.ActiveMQTextMessage:
    """The producer's message number *sequence*, with no optional field."""
    text = b"x" * TEXT_BYTES
    return commands.ActiveMQTextMessage(
        command_id=sequence + 4,
        producer_id=PRODUCER_ID,
        destination=QUEUE,
        message_id=message_id(sequence),
        priority=4,
        timestamp=TIMESTAMP_MS + sequence,
        content=len(text).to_bytes(4, "big") + text,
    )


def message_with_properties(sequence: int) -> commands.ActiveMQTextMessage:
    """The same with a handful of application properties."""
    properties: dict[str, Value] = {
        "customer": "C-4711",
        "region": "north",
        "attempt": 1,
        "urgent": True,
        "weight": 12.5,
    }
    return replace(text_message(sequence), marshalled_properties=encode_map(properties))


def request_message(sequence: int) -> commands.ActiveMQTextMessage:
    """The same with a correlation id and a reply-to."""
    reply_to = commands.ActiveMQTempQueue(f"{PRODUCER_CONNECTION}:1")
    return replace(text_message(sequence), correlation_id=f"request-{sequence}", reply_to=reply_to)


def message_id(sequence: int) -> commands.MessageId:
    return commands.MessageId(producer_id=PRODUCER_ID, producer_sequence_id=sequence)


def ack(sequence: int, count: int = 1) -> commands.MessageAck:
    """What a consumer in AUTO_ACKNOWLEDGE sends for the *count* messages that end with *sequence*."""
    return commands.MessageAck(
        command_id=sequence + 4,
        destination=QUEUE,
        consumer_id=CONSUMER_ID,
        ack_type=commands.AckType.STANDARD,
        first_message_id=message_id(sequence - count + 1),
        last_message_id=message_id(sequence),
        message_count=count,
    )


def producer_login(destination: commands.ActiveMQDestination = QUEUE) -> list[commands.BaseCommand]:
    """The commands with which a producer introduces itself."""
    return [
        *_connection(PRODUCER_CONNECTION),
        commands.ProducerInfo(command_id=3, response_required=True, producer_id=PRODUCER_ID, destination=destination),
    ]


def consumer_login(
    consumer_id: commands.ConsumerId = CONSUMER_ID,
    destination: commands.ActiveMQDestination = QUEUE,
    selector: str | None = None,
) -> list[commands.BaseCommand]:
    """The commands with which a consumer introduces itself."""
    assert consumer_id.connection_id is not None
    return [
        *_connection(consumer_id.connection_id),
        commands.ConsumerInfo(
            command_id=3,
            response_required=True,
            consumer_id=consumer_id,
            destination=destination,
            prefetch_size=PREFETCH,
            selector=selector,
        ),
    ]


def _connection(connection_id: str) -> list[commands.BaseCommand]:
    return [
        commands.ConnectionInfo(
            command_id=1,
            response_required=True,
            connection_id=commands.ConnectionId(connection_id),
            client_id=connection_id,
        ),
        commands.SessionInfo(command_id=2, session_id=commands.SessionId(connection_id, 1)),
    ]


def frames(structures: Sequence[Structure], wire_format: WireFormat = LOOSE) -> list[bytes]:
    """Each structure encoded, without its size prefix, as decoders take it."""
    codec = Codec(wire_format)
    return [codec.encode(structure)[SIZE_PREFIX_BYTES:] for structure in structures]

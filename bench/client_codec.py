"""How much does one message cost in the client, between the application's object and the bytes on the wire? CPU µs
each, without sockets; beside it what the plain codec takes, which the fast path must agree with.

    .venv/bin/python -m bench.client_codec
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from ackwire.client.message_headers import DeliveryMode
from ackwire.client.messages import Message, TextMessage, message_from
from ackwire.jms.destinations import Kind, destination
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.client_decode import Dispatch, DispatchDecoder, EndOfMessages
from ackwire.wire.openwire.client_encode import AckTemplate, encoded_id
from ackwire.wire.openwire.client_protocol import ClientProtocol
from ackwire.wire.openwire.frame_builder import FrameBuilder, OutgoingMessage
from ackwire.wire.openwire.marshal import Codec
from ackwire.wire.openwire.negotiation import Preferences, offer
from bench import samples
from bench.codec import each
from bench.measure import Figure, cpu_microseconds_each, present

COUNT: Final = 5_000
SLOW_COUNT: Final = 1_000
BATCH: Final = 50
"""Dispatches that arrive in one portion."""

TEXT: Final = "x" * samples.TEXT_BYTES
TEMPLATE: Final = FrameBuilder(samples.PRODUCER_ID, destination(Kind.QUEUE, "bench.orders"))
ACKS: Final = AckTemplate(samples.CONSUMER_ID, samples.QUEUE)


def main(arguments: Sequence[str]) -> None:
    figures = [*sending(), *acknowledging(), *receiving(), *plain_codec()]
    present("client codec: CPU per message of 1 KiB, without sockets", figures, arguments)


def protocol() -> ClientProtocol:
    """A connection that has agreed on the fast format."""
    client = ClientProtocol(Preferences())
    client.receive_data(Codec(samples.LOOSE).encode(offer(Preferences())))
    list(client.events())
    client.login_finished()
    client.data_to_send()
    return client


# ---- sending ---------------------------------------------------------------------------------------------------


def sent(message: Message, sequence: int) -> OutgoingMessage:
    """What a producer does to a message."""
    message.stamp(
        TEMPLATE,
        sequence,
        delivery_mode=DeliveryMode.PERSISTENT,
        priority=4,
        timestamp=samples.TIMESTAMP_MS,
        expiration=0,
    )
    return message.to_outgoing(TEMPLATE, sequence)


def sending() -> Iterator[Figure]:
    numbers = range(1, COUNT + 1)
    client = protocol()

    def send_text(number: int) -> None:
        client.send_message(sent(TextMessage(TEXT), number), number, True)
        client.data_to_send()

    def send_request(number: int) -> None:
        message = TextMessage(TEXT)
        message.correlation_id, message.reply_to = "request", "temp-queue://ID:bench:1"
        client.send_message(sent(message, number), number, True)
        client.data_to_send()

    def send_with_properties(number: int) -> None:
        message = TextMessage(TEXT)
        message.properties.update({"customer": "C-4711", "attempt": 1})
        client.send_message(sent(message, number), number, True)
        client.data_to_send()

    yield Figure("make and send a TextMessage, to bytes", "µs", each(send_text, numbers), "< 8")
    yield Figure("the same with correlation id and reply-to", "µs", each(send_request, numbers))
    yield Figure("the same with two properties", "µs", each(send_with_properties, numbers))
    contents = [b"\0\0\4\0" + TEXT.encode()] * COUNT
    yield Figure("fast encode, message", "µs", each(TEMPLATE.message, [28] * COUNT, numbers, contents))
    transactions = [commands.LocalTransactionId(number, commands.ConnectionId("ID:bench")) for number in numbers]
    yield Figure("template for one more transaction", "µs", each(TEMPLATE.in_transaction, transactions))


def acknowledging() -> Iterator[Figure]:
    client = protocol()
    ids = [encoded_id(samples.message_id(number)) for number in range(1, COUNT + 1)]

    def acknowledge(number: int, message_id: bytes) -> None:
        client.send_ack(ACKS, number, commands.AckType.STANDARD, message_id, message_id, 1)
        client.data_to_send()

    yield Figure("send an ack, to bytes", "µs", each(acknowledge, range(1, COUNT + 1), ids))


# ---- receiving -------------------------------------------------------------------------------------------------


def dispatch(number: int, message: commands.Message) -> commands.MessageDispatch:
    message.message_id = replace(samples.message_id(number), broker_sequence_id=number)
    message.broker_in_time = message.broker_out_time = samples.TIMESTAMP_MS
    return commands.MessageDispatch(consumer_id=samples.CONSUMER_ID, destination=samples.QUEUE, message=message)


def receiving() -> Iterator[Figure]:
    kinds = {
        "plain": samples.text_message,
        "with properties": samples.message_with_properties,
        "with correlation id and reply-to": samples.request_message,
    }
    for name, make in kinds.items():
        frames = samples.frames([dispatch(number, make(number)) for number in range(1, COUNT + 1)])
        yield Figure(f"fast decode, dispatch {name}", "µs", each(DispatchDecoder().dispatch, frames))
    frames = samples.frames([dispatch(number, samples.text_message(number)) for number in range(1, COUNT + 1)])
    dispatches = [*map(DispatchDecoder().dispatch, frames)]
    yield Figure("message from a dispatch", "µs", each(message_from, dispatches))
    yield Figure("message from a dispatch, and its text", "µs", each(text_of, dispatches), "< 5")
    yield Figure("id for an ack, and key", "µs", each(identify, dispatches))
    portions = [
        b"".join(len(frame).to_bytes(4) + frame for frame in frames[at : at + BATCH]) for at in range(0, COUNT, BATCH)
    ]
    yield Figure("bytes to text, through the protocol", "µs", cpu_microseconds_each(lambda: receive(portions), COUNT))


def text_of(event: Dispatch | EndOfMessages) -> str | None:
    assert isinstance(event, Dispatch)
    message = message_from(event)
    assert isinstance(message, TextMessage)
    return message.text


def identify(event: Dispatch | EndOfMessages) -> tuple[bytes, bytes]:
    assert isinstance(event, Dispatch)
    return event.encoded_id, event.message_key


def receive(portions: Sequence[bytes]) -> None:
    client = protocol()
    for portion in portions:
        client.receive_data(portion)
        for event in client.events():
            text_of(event)  # type: ignore[arg-type]


def plain_codec() -> Iterator[Figure]:
    numbers = range(1, SLOW_COUNT + 1)
    messages = [samples.text_message(number) for number in numbers]
    codec = Codec(samples.LOOSE)
    yield Figure("plain encode, message", "µs", each(codec.encode, messages))
    yield Figure("plain encode, ack", "µs", each(codec.encode, [samples.ack(number) for number in numbers]))
    frames = samples.frames([dispatch(number, samples.text_message(number)) for number in numbers])
    yield Figure("plain decode, dispatch", "µs", each(codec.decode, frames))


if __name__ == "__main__":
    main(sys.argv[1:])

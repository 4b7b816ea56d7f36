"""How much does one message, ack, dispatch or response cost on the wire's side? CPU µs each, on the fast path and on
the plain codec that it must agree with.

    .venv/bin/python -m bench.codec
"""

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from ackwire.jms.message import Message
from ackwire.wire.openwire.cached_encode import Consumer, put_dispatch
from ackwire.wire.openwire.codec_fast import (
    FastDecoder,
    response_frame,
    stamp,
)
from ackwire.wire.openwire.marshal import Codec, WireFormat
from ackwire.wire.openwire.structures import Structure
from bench import samples
from bench.measure import Figure, cpu_microseconds_each, present

COUNT = 5_000
SLOW_COUNT = 1_000
PARSE_EXPECTED = "1.2 pure, 0.63 with mypyc"
NAIVE_EXPECTED = "9.5–14.7 (naive parse)"


def main(arguments: Sequence[str]) -> None:
    figures = [*fast_decoding(), *stamping_and_sending(), *plain_codec()]
    present("codec: CPU per message of 1 KiB, without sockets and broker", figures, arguments)


def each(action: Callable[..., object], *inputs: Sequence[object]) -> tuple[float, ...]:
    """CPU µs of one call of *action*, over all *inputs* in step; the loop around it runs in C."""
    return cpu_microseconds_each(lambda: deque(map(action, *inputs), maxlen=0), len(inputs[0]))


def fast_decoding() -> Iterator[Figure]:
    numbers = range(1, COUNT + 1)
    kinds = {
        "plain": (samples.text_message, PARSE_EXPECTED),
        "with properties": (samples.message_with_properties, ""),
        "with correlation id and reply-to": (samples.request_message, ""),
    }
    for name, (make, expected) in kinds.items():
        frames = samples.frames([make(number) for number in numbers])
        yield Figure(f"fast decode, message {name}", "µs", each(FastDecoder().message, frames), expected)
    acks = samples.frames([samples.ack(number) for number in numbers])
    yield Figure("fast decode, ack", "µs", each(FastDecoder().ack, acks))


def stamping_and_sending() -> Iterator[Figure]:
    numbers = range(1, COUNT + 1)
    times = [samples.TIMESTAMP_MS] * COUNT
    messages = decoded_messages()
    yield Figure("stamp sequence and time", "µs", each(stamp, messages, numbers, times))
    consumer = Consumer(samples.CONSUMER_ID)
    out: list[bytes] = []

    def splice(message: Message, time_ms: int) -> object:
        out.clear()
        return put_dispatch(out, consumer, message, time_ms, False)

    yield Figure("splice a dispatch", "µs", each(splice, messages, times))
    yield Figure("response", "µs", each(response_frame, numbers))


def decoded_messages() -> list[Message]:
    decoder = FastDecoder()
    return [decoder.message(frame) for frame in samples.frames([*map(samples.text_message, range(1, COUNT + 1))])]


def plain_codec() -> Iterator[Figure]:
    messages = [samples.text_message(number) for number in range(1, SLOW_COUNT + 1)]
    acks = [samples.ack(number) for number in range(1, SLOW_COUNT + 1)]
    for name, wire_format in (("loose", samples.LOOSE), ("tight", samples.TIGHT)):
        yield Figure(f"plain decode, {name}, message", "µs", decoding(messages, wire_format), NAIVE_EXPECTED)
        yield Figure(f"plain encode, {name}, message", "µs", each(Codec(wire_format).encode, messages))
        yield Figure(f"plain decode, {name}, ack", "µs", decoding(acks, wire_format))
        yield Figure(f"plain encode, {name}, ack", "µs", each(Codec(wire_format).encode, acks))


def decoding(structures: Sequence[Structure], wire_format: WireFormat) -> tuple[float, ...]:
    return each(Codec(wire_format).decode, samples.frames(structures, wire_format))


if __name__ == "__main__":
    main(sys.argv[1:])

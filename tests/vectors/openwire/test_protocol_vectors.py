"""ActiveMQ's own frames as they come over a connection: whole, one byte at a time, and with a tail."""

from collections.abc import Iterable
from typing import Final

import pytest

from ackwire.errors import RemoteProtocolError
from ackwire.jms.message import Message
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.codec_fast import CANONICAL, Ack, message_key
from ackwire.wire.openwire.marshal import Codec, WireFormat
from ackwire.wire.openwire.negotiation import Agreement, Preferences, offer
from ackwire.wire.openwire.protocol import Event, OpenWireProtocol
from ackwire.wire.openwire.structures import Structure
from tests.unit.wire.openwire.vectors import CacheSequence, Vector, cache_sequences, vectors

START: Final = Codec(WireFormat())
"""What every connection speaks before the handshake."""

KEEP_ALIVE: Final = commands.KeepAliveInfo(77, True)

by_vector = pytest.mark.parametrize(
    "vector",
    [vector for vector in vectors() if not isinstance(vector.command, commands.WireFormatInfo)],
    ids=lambda vector: vector.name,
)
by_encoding = pytest.mark.parametrize("tight", [False, True], ids=["loose", "tight"])
by_sequence = pytest.mark.parametrize("sequence", cache_sequences(), ids=lambda sequence: sequence.name)


def protocol_that_agreed_on(wire_format: WireFormat) -> OpenWireProtocol:
    """One side of a connection, the handshake behind it."""
    wants = Preferences(
        version=wire_format.version,
        tight=wire_format.tight,
        cache=wire_format.cache_size is not None,
        stack_traces=wire_format.stack_traces,
        size_prefix_disabled=not wire_format.size_prefix,
    )
    protocol = OpenWireProtocol(wants)
    protocol.receive_data(START.encode(offer(wants)))
    [agreement] = protocol.events()
    assert isinstance(agreement, Agreement)
    assert agreement.wire_format == wire_format
    protocol.login_finished()
    return protocol


def received(protocol: OpenWireProtocol, portions: Iterable[bytes]) -> list[Event]:
    events: list[Event] = []
    for portion in portions:
        protocol.receive_data(portion)
        events += protocol.events()
    return events


def byte_by_byte(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


def assert_says(event: Event, command: Structure) -> None:
    """*event* is what *command* becomes."""
    if isinstance(event, Message):
        assert Codec(CANONICAL).decode(event.frame) == command
    elif isinstance(event, Ack):
        assert isinstance(command, commands.MessageAck)
        assert event.consumer_id == command.consumer_id
        assert event.ack_type == command.ack_type
        assert event.first_key == message_key(command.first_message_id)
        assert event.last_key == message_key(command.last_message_id)
        assert (event.command_id, event.count) == (command.command_id, command.message_count)
    else:
        assert event == command


def assert_received(events: list[Event], expected: Iterable[Structure | None]) -> None:
    """The null command is no event."""
    for event, command in zip(events, [command for command in expected if command is not None], strict=True):
        assert_says(event, command)


@by_vector
@by_encoding
def test_frame_read_whole_byte_by_byte_and_with_a_tail(vector: Vector, tight: bool) -> None:
    wire_format = vector.wire_format(tight=tight)
    data = vector.data(tight=tight)
    following = Codec(wire_format).encode(KEEP_ALIVE)
    protocol = protocol_that_agreed_on(wire_format)
    assert_received(received(protocol, [data]), [vector.command])
    if len(data) < 2000:
        assert_received(received(protocol, byte_by_byte(data)), [vector.command])
    assert_received(received(protocol, [data + following[:5]]), [vector.command])
    assert received(protocol, [following[5:]]) == [KEEP_ALIVE]
    assert_received(received(protocol, [data + data]), [vector.command] * 2)


@by_sequence
def test_cached_sequence_read_whole_and_byte_by_byte(sequence: CacheSequence) -> None:
    data = b"".join(frame for frame, _ in sequence.frames)
    for portions in ([data], byte_by_byte(data), [data[:150], data[150:]]):
        events = received(protocol_that_agreed_on(sequence.wire_format), portions)
        assert_received(events, [command for _, command in sequence.frames])


@by_encoding
@pytest.mark.parametrize("cached", [False, True], ids=["plain", "cached"])
def test_frames_without_size_read_whole_and_byte_by_byte(tight: bool, cached: bool) -> None:
    wire_format = WireFormat(tight=tight, cache_size=1024 if cached else None, size_prefix=False)
    sender = Codec(wire_format)
    small = [
        vector
        for vector in vectors()
        if vector.version == wire_format.version
        and not vector.stack_traces
        and len(vector.loose) < 150
        and not isinstance(vector.command, commands.WireFormatInfo)
    ]
    data = b"".join(sender.encode(vector.command) for vector in small)
    for portions in ([data], byte_by_byte(data), [data[:1000], data[1000:]]):
        events = received(protocol_that_agreed_on(wire_format), portions)
        assert_received(events, [vector.command for vector in small])


@pytest.mark.parametrize(
    "vector",
    [vector for vector in vectors() if isinstance(vector.command, commands.WireFormatInfo)],
    ids=lambda vector: vector.name,
)
def test_handshake_of_the_vectors_read_whole_byte_by_byte_and_with_a_tail(vector: Vector) -> None:
    assert isinstance(vector.command, commands.WireFormatInfo)
    following = START.encode(KEEP_ALIVE)
    for portions in (
        [vector.loose, following],
        byte_by_byte(vector.loose + following),
        [vector.loose + following[:3], following[3:]],
    ):
        protocol = OpenWireProtocol(Preferences())
        agreement, keep_alive = received(protocol, portions)
        assert isinstance(agreement, Agreement)
        assert agreement.wire_format == WireFormat(vector.command.version)
        assert keep_alive == KEEP_ALIVE
        with pytest.raises(RemoteProtocolError, match="no place after the handshake"):
            received(protocol, [vector.loose])

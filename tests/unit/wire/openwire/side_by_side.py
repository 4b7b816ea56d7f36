"""A connection with a cache, read and written twice: by the short ways for slots, and by the plain codec alone.

Shared by the tests and the differential fuzzer.
"""

from dataclasses import replace
from typing import Final

from ackwire.errors import RemoteProtocolError
from ackwire.jms.message import Message
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.cached_encode import Consumer
from ackwire.wire.openwire.codec_fast import Ack, stamp
from ackwire.wire.openwire.limits import WireLimits
from ackwire.wire.openwire.marshal import Codec, WireFormat
from ackwire.wire.openwire.negotiation import Preferences, offer
from ackwire.wire.openwire.protocol import Event, OpenWireProtocol, Undeliverable
from tests.helpers.compilation import attributes_of
from tests.unit.wire.openwire.agreement import PLAIN, assert_agrees

SIZE_BYTES: Final = 4
SEQUENCE: Final = 2**40 + 7
IN_TIME_MS: Final = 1_700_000_000_123
LIMITS: Final = WireLimits(cache_bytes_max=1 << 16)


class PlainProtocol(OpenWireProtocol):
    """Takes no short way."""

    def _has_short_ways(self, _wire_format: WireFormat) -> bool:
        return False


class SideBySide:
    """Both, and for each the consumer's end: a plain codec that reads what is dispatched."""

    def __init__(self, cache_size: int) -> None:
        wants = Preferences(cache=True, cache_size=cache_size)
        wire_format = WireFormat(cache_size=cache_size)
        self.protocols: Final = (OpenWireProtocol(wants, LIMITS), PlainProtocol(wants, LIMITS))
        self._readers: Final = (Codec(wire_format), Codec(wire_format))
        self._consumers: dict[str, Consumer] = {}
        for protocol in self.protocols:
            protocol.receive_data(Codec(WireFormat()).encode(offer(wants)))
            [agreement] = protocol.events()
            assert agreement == protocol.agreement
            protocol.login_finished()
            protocol.data_to_send()

    def receive(self, frame: bytes) -> list[Message] | None:
        """What both make of *frame*, the messages in it; None where both refuse it."""
        data = len(frame).to_bytes(SIZE_BYTES, "big") + frame
        short, plain = (_events(protocol, data) for protocol in self.protocols)
        if plain is None or short is None:
            assert short is plain
            return None
        assert [_comparable(event) for event in short] == [_comparable(event) for event in plain]
        assert _slots(self.protocols[0]) == _slots(self.protocols[1])
        return [event for event in short if isinstance(event, Message)]

    def dispatch(self, message: Message, consumer: str, out_time_ms: int = 5, group_first: bool = False) -> None:
        """Both send *message*, and what arrives is the same."""
        end = self._consumers.setdefault(consumer, Consumer(commands.ConsumerId(consumer, -1, 2**40)))
        short, plain = (
            _arrived(protocol, reader, end, message, out_time_ms, group_first)
            for protocol, reader in zip(self.protocols, self._readers, strict=True)
        )
        assert short == plain


def _slots(protocol: OpenWireProtocol) -> list[object]:
    """What a protocol has in its slots, and what it counts for them."""
    cache = protocol._codec.receive_cache
    assert cache is not None
    return [getattr(cache, name) for name in ("_values", "_sizes", "_bytes", "_staged")]


def stamped(message: Message) -> Message:
    stamp(message, SEQUENCE, IN_TIME_MS)
    return message


def _events(protocol: OpenWireProtocol, data: bytes) -> list[Event] | None:
    protocol.receive_data(data)
    try:
        return list(protocol.events())
    except RemoteProtocolError:
        return None


def _comparable(event: Event) -> object:
    if isinstance(event, Message):
        command = PLAIN.decode(event.frame)
        assert isinstance(command, commands.Message)
        assert_agrees(event, event.frame, command)
        values = {name: getattr(event, name) for name in attributes_of(Message) if name not in _APART}
        origin = (event.origin.transaction, event.origin.connection_id, event.origin.producer_key)
        return values, origin, command
    if isinstance(event, Ack):
        return {name: getattr(event, name) for name in attributes_of(Ack)}
    if isinstance(event, Undeliverable):
        return event.command_id, event.response_required, str(event.error)
    return event


_APART: Final = {"frame", "origin", "properties_offset", "tail_offset"}
"""Of a message: where things stand differs where a writer had other forms than Java's."""


def _arrived(
    protocol: OpenWireProtocol, reader: Codec, end: Consumer, message: Message, out_time_ms: int, group_first: bool
) -> commands.MessageDispatch:
    protocol.send_dispatch(end, message, out_time_ms, group_first)
    waiting_bytes = protocol.waiting_bytes
    data = b"".join(protocol.data_to_send())
    assert len(data) == waiting_bytes
    assert int.from_bytes(data[:SIZE_BYTES], "big") == len(data) - SIZE_BYTES
    command = reader.decode(data[SIZE_BYTES:])
    assert isinstance(command, commands.MessageDispatch)
    assert command.message is not None
    # Of the message in it, command id and response flag concern nobody any more.
    return replace(command, message=replace(command.message, command_id=0, response_required=False))

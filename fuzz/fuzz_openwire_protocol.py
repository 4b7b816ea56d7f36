"""Fuzzes a whole connection: what the peer sends, in any portions, gives events or raises `RemoteProtocolError`.

Input: our preferences, the size of the portions, then the peer's bytes. Read whole and in portions, they must say the
same; what comes as a message must be possible to dispatch.
"""

import sys
from typing import Final

import atheris

with atheris.instrument_imports(include=["ackwire"]):
    from ackwire.errors import RemoteProtocolError
    from ackwire.jms.message import Message
    from ackwire.wire.openwire.cached_encode import Consumer
    from ackwire.wire.openwire.codec_fast import CANONICAL, Ack, stamp
    from ackwire.wire.openwire.commands import ConsumerId
    from ackwire.wire.openwire.limits import WireLimits
    from ackwire.wire.openwire.marshal import Codec
    from ackwire.wire.openwire.negotiation import Agreement, Preferences
    from ackwire.wire.openwire.protocol import Event, OpenWireProtocol
    from tests.helpers.compilation import attributes_of

LIMITS: Final = WireLimits(frame_bytes_max=1 << 16, cache_bytes_max=1 << 16, nesting_max=16)


def preferences_from(settings: int) -> Preferences:
    return Preferences(
        tight=bool(settings & 1),
        cache=bool(settings & 2),
        stack_traces=bool(settings & 4),
        size_prefix_disabled=bool(settings & 8),
        frame_bytes_max=LIMITS.frame_bytes_max,
    )


def comparable(event: Event) -> object:
    if isinstance(event, Message):
        return event.frame, event.key
    if isinstance(event, Ack):
        return tuple(getattr(event, name) for name in attributes_of(Ack))
    return event


def dispatch(protocol: OpenWireProtocol, message: Message) -> None:
    """Stamp *message* and send it back, in whatever format was agreed on."""
    stamp(message, 1, 2)
    protocol.send_dispatch(Consumer(ConsumerId("c", 1, 1)), message, 3)
    assert Codec(CANONICAL).decode(message.frame) is not None
    data = protocol.data_to_send()
    assert data


def converse(preferences: Preferences, portions: list[bytes]) -> list[object]:
    """What the peer's bytes say, with how it ended."""
    protocol = OpenWireProtocol(preferences, LIMITS)
    said: list[object] = []
    try:
        for portion in portions:
            protocol.receive_data(portion)
            for event in protocol.events():
                said.append(comparable(event))
                if isinstance(event, Agreement):
                    protocol.login_finished()
                elif isinstance(event, Message):
                    dispatch(protocol, event)
    except RemoteProtocolError:
        said.append("refused")
    return said


def test_one_input(data: bytes) -> None:
    if len(data) < 2:
        return
    preferences = preferences_from(data[0])
    step = 1 + data[1]
    stream = data[2:]
    portions = [stream[at : at + step] for at in range(0, len(stream), step)]
    assert converse(preferences, portions) == converse(preferences, [stream])


if __name__ == "__main__":
    atheris.Setup(sys.argv, test_one_input)
    atheris.Fuzz()

"""Which protocol the first bytes speak, on `auto` listeners."""

import pytest

from ackwire.errors import RemoteProtocolError
from ackwire.server.adapters.openwire_factory import OpenWireFactory
from ackwire.wire.detect import detect as detect_served
from ackwire.wire.openwire.negotiation import Preferences
from ackwire.wire.openwire.protocol import OpenWireProtocol

FACTORY = OpenWireFactory()
OPENWIRE = b"".join(OpenWireProtocol(Preferences()).data_to_send())

OTHERS = {
    "AMQP 1.0": (b"AMQP\x00\x01\x00\x00", "AMQP"),
    "AMQP with SASL": (b"AMQP\x03\x01\x00\x00", "AMQP"),
    "STOMP 1.0": (b"CONNECT\naccept-version:1.2\n\n\0", "STOMP"),
    "STOMP with CR LF": (b"CONNECT\r\naccept-version:1.2\r\n\r\n\0", "STOMP"),
    "STOMP 1.2": (b"STOMP\naccept-version:1.2\n\n\0", "STOMP"),
    "MQTT 3.1.1": (b"\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04test", "MQTT"),
    "HTTP": (b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n", "HTTP or WebSocket"),
    "HTTP POST": (b"POST / HTTP/1.1\r\nHost: broker\r\n\r\n", "HTTP"),
    "TLS 1.2 or later": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS"),
}


def detect(first_bytes: bytes) -> OpenWireFactory | None:
    return detect_served(first_bytes, [FACTORY])


def test_openwire_is_known_by_its_first_13_bytes() -> None:
    assert detect(OPENWIRE) is FACTORY
    assert detect(OPENWIRE[:13]) is FACTORY
    for length in range(1, 13):
        assert detect(OPENWIRE[:length]) is None


@pytest.mark.parametrize("name", OTHERS)
def test_other_protocol_is_named_in_the_refusal(name: str) -> None:
    first_bytes, said = OTHERS[name]
    with pytest.raises(RemoteProtocolError, match=f"^the peer speaks {said}, which this listener does not serve$"):
        detect(first_bytes)


@pytest.mark.parametrize("name", OTHERS)
def test_other_protocol_is_named_however_its_bytes_arrive(name: str) -> None:
    first_bytes, said = OTHERS[name]
    length = 1
    while len(first_bytes) > length and _needs_more(first_bytes[:length]):
        length += 1
    with pytest.raises(RemoteProtocolError, match=f"^the peer speaks {said}, "):
        detect(first_bytes[:length])


def _needs_more(first_bytes: bytes) -> bool:
    try:
        return detect(first_bytes) is None
    except RemoteProtocolError:
        return False


@pytest.mark.parametrize("first_bytes", [b"SSH-2.0-OpenSSH_9.2", b"\0" * 16, b"\xff" * 16, b"CONNECTED to nothing"])
def test_unknown_bytes_are_shown_in_the_refusal(first_bytes: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="belong to no known protocol") as refusal:
        detect(first_bytes)
    assert first_bytes[:16].hex(" ") in str(refusal.value)


@pytest.mark.parametrize("first_bytes", [b"SSH-2.0-OpenSSH_9.2", b"\0" * 16, b"\xff" * 16])
def test_decision_never_needs_more_than_13_bytes(first_bytes: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        detect(first_bytes[:13])

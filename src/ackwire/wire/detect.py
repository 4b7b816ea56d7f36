"""Which protocol the first bytes of a connection speak, for `auto` listeners (SEMANTICS J1)."""

from enum import Enum
from typing import Final

from ackwire.errors import RemoteProtocolError


class Spoken(Enum):
    """The protocols that share an `auto` port."""

    OPENWIRE = "OpenWire"


_OPENWIRE_MAGIC: Final = b"\x01ActiveMQ"
_MAGIC_AT: Final = 4
"""OpenWire starts with the size of its first frame, a WireFormatInfo."""

_OTHERS: Final[dict[bytes, str]] = {
    b"AMQP": "AMQP",
    b"CONNECT\n": "STOMP",
    b"CONNECT\r": "STOMP",
    b"STOMP": "STOMP",
    b"GET ": "HTTP or WebSocket",
    b"POST": "HTTP",
    b"\x16\x03": "TLS",
    b"\x10": "MQTT",
}


def detect(first_bytes: bytes) -> Spoken | None:
    """The protocol, or None while more bytes are needed. Raises `RemoteProtocolError` for any other."""
    for start, name in _OTHERS.items():
        if first_bytes.startswith(start):
            raise RemoteProtocolError(f"the peer speaks {name}, which this listener does not serve")
    if any(start.startswith(first_bytes) for start in _OTHERS):
        return None
    seen = first_bytes[_MAGIC_AT : _MAGIC_AT + len(_OPENWIRE_MAGIC)]
    if not _OPENWIRE_MAGIC.startswith(seen):
        raise RemoteProtocolError(f"the first bytes {first_bytes[:16].hex(' ')} belong to no known protocol")
    return Spoken.OPENWIRE if seen == _OPENWIRE_MAGIC else None

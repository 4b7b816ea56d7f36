"""Which protocol the first bytes of a connection speak, for `auto` listeners (SEMANTICS J1).

The protocols that a listener serves are tried in their order, and the first one that does not refuse the bytes decides,
so the result does not depend on how the bytes arrive. Some other protocols are recognised too, to name them in the
refusal.
"""

from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

from ackwire.errors import RemoteProtocolError

FIRST_BYTES_MAX: Final = 64
"""So many bytes are enough for every protocol to decide."""

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


class Recogniser(Protocol):
    """A protocol, as far as its first bytes go."""

    @property
    def name(self) -> str: ...

    def recognises(self, first_bytes: bytes) -> bool | None:
        """Whether a client of this protocol begins so; None if that takes more bytes."""


_R = TypeVar("_R", bound=Recogniser)


def detect(first_bytes: bytes, served: Sequence[_R]) -> _R | None:
    """The protocol of *served*, or None while more bytes are needed. Raises `RemoteProtocolError` for any other."""
    is_undecided = False
    for protocol in served:
        is_it = protocol.recognises(first_bytes)
        if is_it:
            return protocol
        if is_it is None:
            is_undecided = True
            break
    names = {protocol.name for protocol in served}
    others = {start: name for start, name in _OTHERS.items() if name not in names}
    for start, name in others.items():
        if first_bytes.startswith(start):
            raise RemoteProtocolError(f"the peer speaks {name}, which this listener does not serve")
    is_undecided = is_undecided or any(start.startswith(first_bytes) for start in others)
    if not is_undecided or len(first_bytes) >= FIRST_BYTES_MAX:
        raise RemoteProtocolError(f"the first bytes {first_bytes[:16].hex(' ')} belong to no known protocol")
    return None

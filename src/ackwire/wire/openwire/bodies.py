"""Message bodies: what `content` holds for each kind of message, compressed or not (openwire.md §7).

The broker never calls this: it passes bodies on as they came. Clients, other protocols and tools do.
"""

import zlib
from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Final

from ackwire.errors import RemoteProtocolError
from ackwire.jms.types import Value
from ackwire.wire.openwire.limits import DEFAULT_LIMITS, WireLimits
from ackwire.wire.openwire.primitives import decode_map, decode_stream, encode_map, encode_stream
from ackwire.wire.openwire.text import decode_modified_utf8, encode_modified_utf8

_INT: Final = Struct(">i")


def encode_text(text: str | None, *, compressed: bool = False) -> bytes | None:
    """Content of a TextMessage; None for no text at all."""
    if text is None:
        return None
    data = encode_modified_utf8(text)
    content = _INT.pack(len(data)) + data
    return _deflated(content, compressed) if compressed else content


def decode_text(content: bytes | None, *, compressed: bool = False, limits: WireLimits = DEFAULT_LIMITS) -> str | None:
    """Text of a TextMessage; None where it has none."""
    if content is None:
        return None
    data = _inflated(content, compressed, limits) if compressed else content
    if len(data) < _INT.size:
        raise RemoteProtocolError(f"a text body of {len(data)} bytes has no length")
    count: int = _INT.unpack_from(data)[0]
    if count == -1:
        return None
    if count != len(data) - _INT.size:
        raise RemoteProtocolError(f"a text body says {count} bytes and has {len(data) - _INT.size}")
    return decode_modified_utf8(data[_INT.size :])


def encode_map_body(entries: Mapping[str, Value], *, compressed: bool = False) -> bytes | None:
    """Content of a MapMessage."""
    return _deflated(encode_map(entries), compressed) if entries else None


def decode_map_body(
    content: bytes | None, *, compressed: bool = False, limits: WireLimits = DEFAULT_LIMITS
) -> dict[str, Value]:
    """Entries of a MapMessage."""
    return decode_map(_inflated(content, compressed, limits), limits) if content else {}


def encode_stream_body(values: Sequence[Value], *, compressed: bool = False) -> bytes | None:
    """Content of a StreamMessage."""
    return _deflated(encode_stream(values), compressed) if values else None


def decode_stream_body(
    content: bytes | None, *, compressed: bool = False, limits: WireLimits = DEFAULT_LIMITS
) -> list[Value]:
    """Values of a StreamMessage."""
    return decode_stream(_inflated(content, compressed, limits), limits) if content else []


def encode_object_body(serialised: bytes | None, *, compressed: bool = False) -> bytes | None:
    """Content of an ObjectMessage: bytes that are opaque to Ackwire."""
    return None if serialised is None else _deflated(serialised, compressed)


def decode_object_body(
    content: bytes | None, *, compressed: bool = False, limits: WireLimits = DEFAULT_LIMITS
) -> bytes | None:
    """The opaque bytes of an ObjectMessage. They are never deserialised here."""
    return None if content is None else _inflated(content, compressed, limits)


def encode_bytes(data: bytes, *, compressed: bool = False) -> bytes | None:
    """Content of a BytesMessage. Unlike the others, a compressed one says its length in the clear."""
    if not data:
        return None
    return _INT.pack(len(data)) + zlib.compress(data) if compressed else data


def decode_bytes(content: bytes | None, *, compressed: bool = False, limits: WireLimits = DEFAULT_LIMITS) -> bytes:
    """Bytes of a BytesMessage."""
    if not content:
        return b""
    if not compressed:
        return content
    if len(content) < _INT.size:
        raise RemoteProtocolError(f"a compressed body of {len(content)} bytes has no length")
    count: int = _INT.unpack_from(content)[0]
    if not 0 <= count <= limits.inflated_bytes_max:
        raise RemoteProtocolError(
            f"a compressed body says it inflates to {count} bytes: the limit is {limits.inflated_bytes_max}"
        )
    # Java deflates the unused rest of its buffer too: only the first `count` bytes are the body.
    data = _inflate(content[_INT.size :], count)
    if len(data) < count:
        raise RemoteProtocolError(f"a compressed body says {count} bytes and inflates to {len(data)}")
    return data


def _deflated(data: bytes, compressed: bool) -> bytes:
    return zlib.compress(data) if compressed else data


def _inflated(content: bytes, compressed: bool, limits: WireLimits) -> bytes:
    if not compressed:
        return content
    data = _inflate(content, limits.inflated_bytes_max + 1)
    if len(data) > limits.inflated_bytes_max:
        raise RemoteProtocolError(f"a compressed body inflates to over {limits.inflated_bytes_max} bytes")
    return data


def _inflate(stream: bytes, at_most: int) -> bytes:
    if at_most == 0:
        return b""  # zlib takes 0 for "no limit"
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(stream, at_most)
    except zlib.error as error:
        raise RemoteProtocolError(f"a compressed body does not inflate: {error}") from None
    if len(data) < at_most and not inflater.eof:
        raise RemoteProtocolError(f"a compressed body ends early, after {len(data)} inflated bytes")
    return data

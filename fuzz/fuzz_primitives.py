"""Fuzzes property maps, streams and message bodies, compressed or not.

Input: which decoder, then its bytes. What decodes must encode, and decode to the same again.
"""

import sys
import zlib
from collections.abc import Callable
from typing import Any, Final

import atheris

with atheris.instrument_imports(include=["ackwire"]):
    from ackwire.errors import RemoteProtocolError
    from ackwire.wire.openwire import bodies
    from ackwire.wire.openwire.limits import WireLimits
    from ackwire.wire.openwire.primitives import decode_map, decode_stream, encode_map, encode_stream

LIMITS: Final = WireLimits(inflated_bytes_max=1 << 16, entries_max=1000, nesting_max=16)

PAIRS: Final[list[tuple[Callable[..., Any], Callable[..., Any]]]] = [
    (bodies.decode_text, bodies.encode_text),
    (bodies.decode_map_body, bodies.encode_map_body),
    (bodies.decode_stream_body, bodies.encode_stream_body),
    (bodies.decode_object_body, bodies.encode_object_body),
    (bodies.decode_bytes, bodies.encode_bytes),
]


def check_values(data: bytes) -> None:
    try:
        entries = decode_map(data, LIMITS)
        assert repr(decode_map(encode_map(entries))) == repr(entries)  # repr, because NaN is not itself
    except RemoteProtocolError:
        pass
    try:
        values = decode_stream(data, LIMITS)
        assert repr(decode_stream(encode_stream(values))) == repr(values)
    except RemoteProtocolError:
        pass


def check_body(choice: int, content: bytes) -> None:
    decode, encode = PAIRS[choice % len(PAIRS)]
    compressed = bool(choice & 0x40)
    if choice & 0x20:  # let the fuzzer choose what is inside, too
        content = content[:4] + zlib.compress(content[4:]) if decode is bodies.decode_bytes else zlib.compress(content)
    try:
        body = decode(content, compressed=compressed, limits=LIMITS)
    except RemoteProtocolError:
        return
    again = decode(encode(body, compressed=compressed), compressed=compressed, limits=LIMITS)
    assert repr(again) == repr(body)


def test_one_input(data: bytes) -> None:
    if not data:
        return
    if data[0] & 0x80:
        check_values(data[1:])
    else:
        check_body(data[0], data[1:])


if __name__ == "__main__":
    atheris.Setup(sys.argv, test_one_input)
    atheris.Fuzz()

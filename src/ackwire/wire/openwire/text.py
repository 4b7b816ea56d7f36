"""Modified UTF-8, the way Java's DataOutput writes text.

NUL is two bytes (`c0 80`), and a character beyond the BMP is a pair of surrogates of three bytes each. Readers here
also take what other writers send in its place: a plain NUL and four-byte sequences. Lone surrogates, which Java
strings may hold, survive in both directions.
"""

import re
from typing import Final

from ackwire.errors import LocalProtocolError, RemoteProtocolError

_ASTRAL: Final = re.compile("[\U00010000-\U0010ffff]")


def encode_modified_utf8(text: str) -> bytes:
    """The modified UTF-8 form of *text*."""
    if text.isascii():
        data = text.encode("ascii")
    else:
        data = _ASTRAL.sub(_as_surrogates, text).encode("utf-8", "surrogatepass")
    return data.replace(b"\0", b"\xc0\x80") if b"\0" in data else data


def decode_modified_utf8(data: bytes) -> str:
    """The text of *data*. Raises `RemoteProtocolError` for bytes that are not text."""
    if data.isascii():
        return data.decode("ascii")
    try:
        text = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
        # Pairs of surrogates become the one character they stand for.
        return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
    except UnicodeError as error:
        raise RemoteProtocolError(f"a string of {len(data)} bytes is not modified UTF-8: {error}") from None


def encode_plain_utf8(text: str) -> bytes:
    """Plain UTF-8, which Java expects for the values of properties and map entries.

    A lone surrogate has no plain form and is written as Java writes it.
    """
    return text.encode("utf-8", "surrogatepass")


def check_string_length(data: bytes, limit: int = 65535) -> bytes:
    """*data* if a 16-bit length can count it; `LocalProtocolError` otherwise."""
    if len(data) > limit:
        raise LocalProtocolError(f"a string of {len(data)} encoded bytes is over the wire's limit of {limit}")
    return data


def _as_surrogates(match: re.Match[str]) -> str:
    offset = ord(match.group()) - 0x10000
    return chr(0xD800 + (offset >> 10)) + chr(0xDC00 + (offset & 0x3FF))

"""Modified UTF-8 and its traps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwire.errors import LocalProtocolError, RemoteProtocolError
from ackwire.wire.openwire.text import (
    check_string_length,
    decode_modified_utf8,
    encode_modified_utf8,
    encode_plain_utf8,
)
from tests.unit.wire.effort import effort
from tests.unit.wire.openwire.strategies import normalised

ANY_TEXT = st.text(st.characters(codec=None, categories=None), max_size=20)

JAVA_FORMS = [
    ("", ""),
    ("A", "41"),
    ("\0", "c080"),
    ("a\0b", "61c08062"),
    ("\x7f", "7f"),
    ("\x80", "c280"),
    ("\u07ff", "dfbf"),
    ("\u0800", "e0a080"),
    ("\uffff", "efbfbf"),
    ("\U00010000", "eda080edb080"),
    ("\U0001f600", "eda0bdedb880"),
    ("\U0010ffff", "edafbfedbfbf"),
    ("\ud800", "eda080"),
    ("\udfff", "edbfbf"),
    ("\udc00\ud800", "edb080eda080"),
    ("é\0€\U0001f600", "c3a9c080e282aceda0bdedb880"),
]


@pytest.mark.parametrize(("text", "hexadecimal"), JAVA_FORMS)
def test_text_has_the_bytes_that_java_writes(text: str, hexadecimal: str) -> None:
    assert encode_modified_utf8(text).hex() == hexadecimal
    assert decode_modified_utf8(bytes.fromhex(hexadecimal)) == text


@effort(100)
@given(ANY_TEXT)
def test_any_text_survives(text: str) -> None:
    data = encode_modified_utf8(text)
    assert b"\0" not in data
    assert not any(byte >= 0xF0 for byte in data), "no four-byte sequences"
    assert decode_modified_utf8(data) == normalised(text)
    assert encode_modified_utf8(decode_modified_utf8(data)) == data


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\0", "\0"),
        (b"a\0b", "a\0b"),
        (b"\xf0\x9f\x98\x80", "\U0001f600"),
        (b"\xf4\x8f\xbf\xbf", "\U0010ffff"),
        (b"\xf0\x9f\x98\x80\xc0\x80\xed\xa0\xbd\xed\xb8\x80", "\U0001f600\0\U0001f600"),
        # A lone surrogate in front of a pair, and in front of a four-byte sequence.
        (b"\xed\xa0\x80\xed\xa0\xbd\xed\xb8\x80", "\ud800\U0001f600"),
        (b"\xed\xa0\x80\xf0\x9f\x98\x80", "\ud800\U0001f600"),
    ],
)
def test_forms_of_other_writers_are_read(data: bytes, text: str) -> None:
    assert decode_modified_utf8(data) == text


@pytest.mark.parametrize(
    "data",
    [
        b"\xc0",
        b"a\xc3",
        b"\xe2\x82",
        b"\xed\xa0",
        b"\xf0\x9f\x98",
        b"\x80",
        b"\xff",
        b"\xfe",
        b"\xc3(",
        b"\xe2(\xa1",
        b"\xc1\xbf",  # a longer form than needed, and not that of NUL
        b"\xe0\x80\x80",
        b"\xf0\x80\x80\x80",
        b"\xf4\x90\x80\x80",  # beyond U+10FFFF
        b"\xf8\x88\x80\x80\x80",
        b"\xe0\xc0\x80",  # NUL's form inside another sequence
    ],
)
def test_bytes_that_are_no_text_are_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match=f"a string of {len(data)} bytes is not modified UTF-8"):
        decode_modified_utf8(data)


@effort(100)
@given(st.binary(max_size=30))
def test_any_bytes_are_text_or_refused(data: bytes) -> None:
    try:
        text = decode_modified_utf8(data)
    except RemoteProtocolError:
        return
    assert decode_modified_utf8(encode_modified_utf8(text)) == text


@pytest.mark.parametrize(
    ("text", "data"),
    [("\0", b"\0"), ("\U0001f600", b"\xf0\x9f\x98\x80"), ("é", b"\xc3\xa9"), ("\ud800", b"\xed\xa0\x80")],
)
def test_plain_form_differs_in_nul_and_astral_characters(text: str, data: bytes) -> None:
    assert encode_plain_utf8(text) == data
    assert decode_modified_utf8(data) == text


def test_string_length_is_limited_in_bytes_not_characters() -> None:
    assert check_string_length(encode_modified_utf8("a" * 65535))
    with pytest.raises(LocalProtocolError, match="65536 encoded bytes is over the wire's limit of 65535"):
        check_string_length(encode_modified_utf8("é" * 32768))
    with pytest.raises(LocalProtocolError, match="limit of 10"):
        check_string_length(b"elf ist zu viel", 10)

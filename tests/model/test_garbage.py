"""Whatever the bytes, decoding returns a structure or raises `RemoteProtocolError`: nothing else, ever."""

import itertools
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwire.errors import RemoteProtocolError
from ackwire.wire.openwire.marshal import Codec, WireFormat
from ackwire.wire.openwire.structures import REGISTRY, VERSION_MAX, VERSION_MIN, Structure
from tests.unit.wire.effort import effort
from tests.unit.wire.openwire.mutations import mutated
from tests.unit.wire.openwire.strategies import exists_in
from tests.unit.wire.openwire.vectors import SIZE_PREFIX_BYTES, CacheSequence, cache_sequences, vectors

WIRE_FORMATS: Final = [
    WireFormat(version, tight, cache_size, stack_traces)
    for version, tight, cache_size, stack_traces in itertools.product(
        range(VERSION_MIN, VERSION_MAX + 1), (False, True), (None, 100, 0), (False, True)
    )
]
by_encoding = pytest.mark.parametrize("tight", [False, True], ids=["loose", "tight"])

type_ids = st.sampled_from(sorted(REGISTRY)) | st.integers(0, 255)


def assert_decodes_or_refuses(codec: Codec, data: bytes) -> None:
    """What is accepted can be sent on: it encodes, and decodes to the same again."""
    try:
        command = codec.decode(data)
    except RemoteProtocolError:
        return
    if command is None:
        assert data == b"\0"
        return
    assert isinstance(command, Structure)
    assert exists_in(codec.wire_format.version, command)
    fresh = WireFormat(codec.wire_format.version, stack_traces=codec.wire_format.stack_traces)
    assert Codec(fresh).decode(Codec(fresh).encode(command)[SIZE_PREFIX_BYTES:]) == command


@effort(200)
@given(st.sampled_from(WIRE_FORMATS), type_ids, st.binary(max_size=120))
def test_arbitrary_bytes(wire_format: WireFormat, type_id: int, data: bytes) -> None:
    assert_decodes_or_refuses(Codec(wire_format), bytes((type_id,)) + data)


@effort(100)
@given(st.sampled_from(WIRE_FORMATS), type_ids, st.lists(st.sampled_from(b"\0\1\2\x64\x6e\x78\x7b\xff"), max_size=200))
def test_bytes_that_look_like_flags_and_ids(wire_format: WireFormat, type_id: int, data: list[int]) -> None:
    assert_decodes_or_refuses(Codec(wire_format), bytes((type_id, *data)))


def test_no_bytes_at_all() -> None:
    for wire_format in WIRE_FORMATS:
        with pytest.raises(RemoteProtocolError):
            Codec(wire_format).decode(b"")


@by_encoding
def test_mutations_of_vectors(tight: bool) -> None:
    for vector in vectors():
        frame = vector.data(tight=tight)[SIZE_PREFIX_BYTES:]
        codec = Codec(vector.wire_format(tight=tight))
        for seed in range(5):
            assert_decodes_or_refuses(codec, mutated(frame, seed))


@by_encoding
def test_vectors_in_every_other_wire_format(tight: bool) -> None:
    """Read with the wrong settings, a frame is refused or misread, never worse."""
    for number, vector in enumerate(vectors()):
        frame = vector.data(tight=tight)[SIZE_PREFIX_BYTES:]
        for wire_format in WIRE_FORMATS[number % 11 :: 11]:
            assert_decodes_or_refuses(Codec(wire_format), frame)


@pytest.mark.parametrize("sequence", cache_sequences(), ids=lambda sequence: sequence.name)
@effort(60)
@given(st.integers(0, 2**32))
def test_mutated_sequences_with_cache(sequence: CacheSequence, seed: int) -> None:
    """A connection would end at the first error; going on regardless must not do harm either."""
    codec = Codec(sequence.wire_format)
    for number, (data, _) in enumerate(sequence.frames):
        frame = data[SIZE_PREFIX_BYTES:]
        assert_decodes_or_refuses(codec, mutated(frame, seed + number) if seed >> number & 1 else frame)

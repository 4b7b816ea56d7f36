"""ActiveMQ's own frames, read and written again byte for byte."""

import pytest

from ackwire.wire.openwire import commands
from ackwire.wire.openwire.marshal import Codec, WireFormat
from ackwire.wire.openwire.primitives import decode_map, encode_map
from tests.unit.wire.openwire.vectors import (
    SIZE_PREFIX_BYTES,
    CacheSequence,
    Vector,
    cache_sequences,
    read_json,
    structure_from_json,
    vectors,
)

by_vector = pytest.mark.parametrize("vector", vectors(), ids=lambda vector: vector.name)
by_encoding = pytest.mark.parametrize("tight", [False, True], ids=["loose", "tight"])
by_sequence = pytest.mark.parametrize("sequence", cache_sequences(), ids=lambda sequence: sequence.name)


def typed(value: object) -> object:
    """*value* with the types of everything in it, so that `Short(1)` is not `1`."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    return type(value), value


def test_all_vectors_are_there() -> None:
    assert len(vectors()) == 138
    assert len(cache_sequences()) == 2


@by_vector
@by_encoding
def test_frame_decodes_to_the_recorded_fields_and_they_encode_to_the_same_bytes(vector: Vector, tight: bool) -> None:
    codec = Codec(vector.wire_format(tight=tight))
    data = vector.data(tight=tight)
    frame = data[SIZE_PREFIX_BYTES:]
    assert codec.decode(frame) == vector.command
    assert codec.decode_first(frame + b"\xa5tail") == (vector.command, len(frame))
    assert codec.encode(vector.command).hex() == data.hex()


def test_frame_without_size_prefix() -> None:
    entry = read_json("openwire-vectors.json")["size_prefix_disabled"]
    data = bytes.fromhex(entry["loose"])
    command = structure_from_json(entry["type"], entry["fields"])
    codec = Codec(WireFormat(entry["version"], size_prefix=False))
    assert codec.decode(data) == command
    assert codec.encode(command) == data


@by_sequence
def test_cached_sequence_decodes_to_the_recorded_fields_and_they_encode_to_the_same_bytes(
    sequence: CacheSequence,
) -> None:
    codec = Codec(sequence.wire_format)
    for data, command in sequence.frames:
        assert codec.decode(data[SIZE_PREFIX_BYTES:]) == command
        assert codec.encode(command).hex() == data.hex()


@pytest.mark.parametrize("vector", [v for v in vectors() if v.properties is not None], ids=lambda vector: vector.name)
def test_properties_decode_with_their_types_and_encode_to_the_same_bytes(vector: Vector) -> None:
    assert isinstance(vector.command, commands.Message | commands.WireFormatInfo)
    data = vector.command.marshalled_properties
    assert data is not None
    properties = decode_map(data)
    assert list(properties) == list(vector.properties or {})
    assert typed(properties) == typed(vector.properties)
    assert encode_map(properties) == data

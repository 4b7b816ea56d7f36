"""What is encoded decodes to the same, in every version and every wire format, whatever the structure."""

import itertools
import random
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwire.errors import LocalProtocolError
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.marshal import Codec, Truncated, WireFormat
from ackwire.wire.openwire.structures import REGISTRY, VERSION_MAX, VERSION_MIN, Structure
from tests.unit.wire.effort import effort
from tests.unit.wire.openwire.strategies import as_seen_in, exists_in, structures
from tests.unit.wire.openwire.vectors import SIZE_PREFIX_BYTES

VERSIONS: Final = range(VERSION_MIN, VERSION_MAX + 1)
CACHE_SIZES: Final = (None, 100, 1024, 0)

by_structure = pytest.mark.parametrize(
    "cls", [REGISTRY[type_id] for type_id in sorted(REGISTRY)], ids=lambda cls: cls.__name__
)
by_encoding = pytest.mark.parametrize("tight", [False, True], ids=["loose", "tight"])


def frame_of(codec: Codec, command: Structure) -> bytes:
    """The encoded *command* without the size that may stand in front."""
    data = codec.encode(command)
    if not codec.wire_format.size_prefix:
        return data
    assert int.from_bytes(data[:SIZE_PREFIX_BYTES]) == len(data) - SIZE_PREFIX_BYTES
    return data[SIZE_PREFIX_BYTES:]


def assert_survives(wire_format: WireFormat, command: Structure) -> None:
    """*command*, sent twice so that the second may be a reference to the first, arrives twice."""
    sender, receiver = Codec(wire_format), Codec(wire_format)
    if not exists_in(wire_format.version, command):
        with pytest.raises(LocalProtocolError, match=r"does not exist in OpenWire"):
            sender.encode(command)
        return
    expected = as_seen_in(wire_format.version, wire_format.stack_traces, command)
    assert receiver.decode(frame_of(sender, command)) == expected
    if wire_format.cache_size is not None:
        assert receiver.decode(frame_of(sender, command)) == expected


@by_structure
@effort(3)
@given(data=st.data())
def test_any_structure_survives_in_every_version(cls: type[Structure], data: st.DataObject) -> None:
    command = data.draw(structures(cls))
    cache_size = data.draw(st.sampled_from(CACHE_SIZES))
    stack_traces = data.draw(st.booleans())
    size_prefix = data.draw(st.booleans())
    for version, tight in itertools.product(VERSIONS, (False, True)):
        assert_survives(WireFormat(version, tight, cache_size, stack_traces, size_prefix), command)


@pytest.mark.parametrize("version", VERSIONS)
@by_encoding
def test_new_structures_survive_in_every_wire_format(version: int, tight: bool) -> None:
    for cache_size in CACHE_SIZES:
        usual = cache_size in (None, 100)
        wire_format = WireFormat(version, tight, cache_size, stack_traces=not usual, size_prefix=usual)
        for cls in REGISTRY.values():
            assert_survives(wire_format, cls())


@by_encoding
@effort(20)
@given(data=st.data())
def test_incomplete_frame_says_how_much_it_needs_at_least(tight: bool, data: st.DataObject) -> None:
    codec = Codec(WireFormat(tight=tight, size_prefix=False, cache_size=1024))
    cls = data.draw(st.sampled_from(sorted(REGISTRY.values(), key=lambda cls: cls.TYPE_ID)))
    frame = codec.encode(data.draw(structures(cls, 1)))
    receiver = Codec(codec.wire_format)
    length = data.draw(st.integers(0, len(frame) - 1))
    with pytest.raises(Truncated) as caught:
        receiver.decode_first(frame[:length])
    assert length < caught.value.needed <= len(frame)
    assert receiver.decode_first(frame)[1] == len(frame), "what was read in vain leaves no traces in the cache"


# ---- many frames through one pair of codecs --------------------------------------------------------------------


class Traffic:
    """Commands over a pool of ids larger than the cache, with favourites so that references happen."""

    def __init__(self, seed: int, ids: int) -> None:
        self._random = random.Random(seed)
        self._ids = ids

    def _number(self) -> int:
        return self._random.randrange(2 if self._random.random() < 0.7 else self._ids)

    def _text(self) -> str:
        return f"ID:host-40001-1700000000000-{self._number()}:1"

    def _connection(self) -> commands.ConnectionId:
        return commands.ConnectionId(self._text())

    def _producer(self) -> commands.ProducerId:
        return commands.ProducerId(self._text(), self._number())

    def _consumer(self) -> commands.ConsumerId:
        return commands.ConsumerId(self._text(), 1, self._number())

    def _destination(self) -> commands.ActiveMQDestination | None:
        cls = self._random.choice((commands.ActiveMQQueue, commands.ActiveMQTopic, None))
        return cls(f"name.{self._number()}") if cls else None

    def _transaction(self) -> commands.TransactionId | None:
        match self._random.randrange(3):
            case 0:
                return commands.LocalTransactionId(self._number(), self._connection())
            case 1:
                return commands.XATransactionId(self._number(), b"global", b"branch")
            case _:
                return None

    def _message(self) -> commands.Message:
        producer = self._producer()
        return commands.ActiveMQTextMessage(
            producer_id=producer,
            destination=self._destination(),
            transaction_id=self._transaction(),
            original_destination=self._destination(),
            message_id=commands.MessageId(None, producer, self._number()),
            target_consumer_id=self._consumer(),
        )

    def _producer_info(self) -> Structure:
        return commands.ProducerInfo(1, producer_id=self._producer(), destination=self._destination())

    def _transaction_info(self) -> Structure:
        return commands.TransactionInfo(2, connection_id=self._connection(), transaction_id=self._transaction())

    def _dispatch(self) -> Structure:
        return commands.MessageDispatch(
            consumer_id=self._consumer(), destination=self._destination(), message=self._message()
        )

    def _remove(self) -> Structure:
        # Not a value: never put into the cache, though it stands where a cached value may.
        return commands.RemoveInfo(object_id=self._random.choice((self._connection, self._message))())

    def _many_messages(self) -> Structure:
        """More new values in one frame than a small cache has slots."""
        return commands.DataArrayResponse(data=tuple(self._message() for _ in range(40)))

    def command(self) -> Structure:
        makers: Any = (
            self._message,
            self._producer_info,
            self._transaction_info,
            self._dispatch,
            self._remove,
        )
        if self._random.random() < 0.03:
            return self._many_messages()
        made: Structure = self._random.choice(makers)()
        return made


class Direction:
    """One sender and its receiver, with and without cache."""

    def __init__(self, wire_format: WireFormat, traffic: Traffic) -> None:
        plain_format = WireFormat(wire_format.version, wire_format.tight)
        self._sender, self._receiver = Codec(wire_format), Codec(wire_format)
        self._plain = Codec(plain_format)
        self._traffic = traffic
        self.bytes_sent = 0
        self.bytes_without_cache = 0

    def exchange_with(self, other: "Direction") -> None:
        """Send one command, encoded by our sender, decoded by the other side's receiver."""
        command = self._traffic.command()
        frame = frame_of(self._sender, command)
        plain = frame_of(self._plain, command)
        assert other._receiver.decode(frame) == self._plain.decode(plain)
        self.bytes_sent += len(frame)
        self.bytes_without_cache += len(plain)


@by_encoding
@pytest.mark.parametrize("cache_size", [100, 110, 140])
@pytest.mark.parametrize("version", [1, 12])
def test_small_cache_with_many_values_says_the_same_as_no_cache(version: int, cache_size: int, tight: bool) -> None:
    wire_format = WireFormat(version, tight, cache_size)
    seed = version * 1000 + cache_size
    here = Direction(wire_format, Traffic(seed, ids=400))
    there = Direction(wire_format, Traffic(seed + 1, ids=400))
    for _ in range(40):
        here.exchange_with(there)
        there.exchange_with(here)
    if cache_size > 100:  # with 100 slots nothing outlives its frame
        assert here.bytes_sent < here.bytes_without_cache

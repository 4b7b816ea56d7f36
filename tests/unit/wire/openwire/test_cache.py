"""The marshalling cache: who numbers the slots, what is evicted, what is kept, and for how long."""

import pytest

from ackwire.errors import LocalProtocolError, RemoteProtocolError
from ackwire.wire.openwire.cache import (
    FREE_SLOTS,
    NOT_CACHED,
    SLOTS_WHEN_ZERO,
    ReceiveCache,
    SendCache,
    slot_count,
)
from ackwire.wire.openwire.commands import (
    ActiveMQQueue,
    ActiveMQTopic,
    BrokerInfo,
    ConnectionId,
    ConsumerControl,
    ConsumerInfo,
    LocalTransactionId,
    ProducerInfo,
    RemoveInfo,
    SessionId,
    SessionInfo,
    TransactionInfo,
)
from ackwire.wire.openwire.limits import DEFAULT_LIMITS, WireLimits
from ackwire.wire.openwire.marshal import Codec, Truncated, WireFormat
from ackwire.wire.openwire.structures import Structure

by_encoding = pytest.mark.parametrize("tight", [False, True], ids=["loose", "tight"])


def queue(number: int) -> ActiveMQQueue:
    return ActiveMQQueue(f"q{number}")


@pytest.mark.parametrize(
    ("negotiated", "slots"), [(1024, 1024), (100, 100), (1, 1), (0, SLOTS_WHEN_ZERO), (-1, SLOTS_WHEN_ZERO)]
)
def test_cache_size_of_zero_stands_for_the_most_slots(negotiated: int, slots: int) -> None:
    assert slot_count(negotiated) == slots


# ---- sending ---------------------------------------------------------------------------------------------------


def test_slots_are_handed_out_in_order_and_found_by_value() -> None:
    cache = SendCache(200)
    assert [cache.add(queue(number)) for number in range(3)] == [0, 1, 2]
    assert cache.slot_of(queue(1)) == 1
    assert cache.slot_of(queue(3)) is None
    assert cache.slot_of(ActiveMQTopic("q1")) is None, "a topic is not the queue of the same name"


def test_null_is_cached_like_any_value() -> None:
    cache = SendCache(200)
    assert cache.slot_of(None) is None
    assert cache.add(None) == 0
    assert cache.slot_of(None) == 0


def test_structure_that_is_no_value_is_not_cached() -> None:
    cache = SendCache(200)
    assert cache.add(ConsumerInfo()) == NOT_CACHED
    assert cache.slot_of(ConsumerInfo()) is None
    assert cache.add(queue(0)) == 0


def test_all_is_forgotten_when_there_may_be_no_room_for_one_more_frame() -> None:
    cache = SendCache(FREE_SLOTS + 5)
    for number in range(5):
        cache.add(queue(number))
    cache.make_room()
    assert [cache.slot_of(queue(number)) for number in range(6)] == [0, 1, 2, 3, 4, None]
    before = cache.generation
    assert cache.add(queue(5)) == 5
    assert cache.generation == before
    cache.make_room()
    assert [cache.slot_of(queue(number)) for number in range(6)] == [None] * 6
    assert cache.generation != before
    assert cache.add(queue(5)) == 0


def test_value_known_by_its_bytes_is_written_once_and_then_named() -> None:
    cache = SendCache(FREE_SLOTS)
    assert cache.field(b"\1id") == b"\1\0\0\1id"
    assert cache.has_added
    assert cache.field(b"\0") == b"\1\0\1\0"
    assert cache.field(b"\1id") == b"\0\0\0"
    cache.roll_back()
    assert cache.field(b"\0") == b"\1\0\0\0", "the peer has not heard of what was rolled back"


def test_value_for_which_there_is_no_slot_is_written_each_time() -> None:
    cache = SendCache(1)
    assert cache.field(b"\0") == b"\1\0\0\0"
    assert [cache.field(b"\1id") for _ in range(2)] == [b"\1\xff\xff\1id"] * 2


@pytest.mark.parametrize("slots", [1, 3, 99, 100])
def test_frame_with_more_values_than_slots_leaves_the_rest_uncached(slots: int) -> None:
    cache = SendCache(slots)
    for _ in range(3):
        cache.make_room()
        given = [cache.add(queue(number)) for number in range(slots + 2)]
        assert sorted(given) == [NOT_CACHED, NOT_CACHED, *range(slots)]
        assert given[-2:] == [NOT_CACHED, NOT_CACHED]


@by_encoding
def test_frame_that_could_not_be_encoded_leaves_no_slots_behind(tight: bool) -> None:
    """The peer never saw it: a reference to what it held would name a slot that was never filled."""
    sender, receiver = (Codec(WireFormat(tight=tight, cache_size=110)) for _ in range(2))
    for number in range(30):
        command = ProducerInfo(number, destination=queue(number))
        with pytest.raises(LocalProtocolError):
            sender.encode(BrokerInfo(broker_id=None, broker_name="x" * 70_000))
        with pytest.raises(LocalProtocolError):
            sender.encode(ConsumerInfo(destination=queue(number), selector="x" * 70_000))
        assert receiver.decode(sender.encode(command)[4:]) == command


# ---- receiving -------------------------------------------------------------------------------------------------


def filled(slots: int, values: dict[int, Structure | None], limits: WireLimits = DEFAULT_LIMITS) -> ReceiveCache:
    cache = ReceiveCache(slots, limits)
    for slot, value in values.items():
        cache.stage(slot, value, 10)
    cache.commit()
    return cache


def test_slot_holds_what_was_stored_last() -> None:
    cache = filled(10, {0: queue(1), 9: None})
    assert cache.get(0) == queue(1)
    assert cache.get(9) is None
    cache.stage(0, queue(2), 10)
    assert cache.get(0) == queue(2), "known within its own frame already"
    cache.commit()
    assert cache.get(0) == queue(2)


@pytest.mark.parametrize("slot", [1, -1, -2, 10, 32767])
def test_slot_that_was_never_filled_is_refused(slot: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"cache slot {slot} was never filled"):
        filled(10, {0: queue(1)}).get(slot)


@pytest.mark.parametrize("slot", [-2, -32768, 10, 32767])
def test_slot_outside_the_negotiated_ones_is_refused(slot: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"cache slot {slot} is outside the negotiated 10 slots"):
        ReceiveCache(10, DEFAULT_LIMITS).stage(slot, queue(1), 10)


def test_value_marked_as_not_cached_is_forgotten() -> None:
    cache = filled(10, {NOT_CACHED: queue(1)})
    with pytest.raises(RemoteProtocolError, match="never filled"):
        cache.get(NOT_CACHED)


def test_values_of_an_incomplete_frame_are_taken_back() -> None:
    cache = filled(10, {0: queue(1)})
    cache.stage(0, queue(2), 10)
    cache.stage(1, queue(3), 10)
    cache.roll_back()
    assert cache.get(0) == queue(1)
    with pytest.raises(RemoteProtocolError):
        cache.get(1)


def test_bytes_are_limited_and_overwritten_ones_no_longer_count() -> None:
    cache = ReceiveCache(10, WireLimits(cache_bytes_max=100))
    for _ in range(50):
        cache.stage(0, queue(1), 90)
        cache.commit()
    cache.stage(1, queue(2), 11)
    with pytest.raises(RemoteProtocolError, match="the marshalling cache holds 101 bytes: the limit is 100"):
        cache.commit()


# ---- on the wire -----------------------------------------------------------------------------------------------


@by_encoding
def test_reference_to_an_unknown_slot_is_refused(tight: bool) -> None:
    wire_format = WireFormat(tight=tight, cache_size=1024)
    sender = Codec(wire_format)
    sender.encode(SessionInfo(session_id=SessionId("a", 1)))
    with pytest.raises(RemoteProtocolError, match="cache slot 0 was never filled"):
        Codec(wire_format).decode(sender.encode(SessionInfo(session_id=SessionId("a", 1)))[4:])


@by_encoding
def test_reference_to_a_value_of_the_wrong_type_is_refused(tight: bool) -> None:
    wire_format = WireFormat(tight=tight, cache_size=1024)
    sender, receiver = Codec(wire_format), Codec(wire_format)
    receiver.decode(sender.encode(SessionInfo(session_id=SessionId("a", 1)))[4:])
    frame = sender.encode(RemoveInfo(object_id=SessionId("a", 1)))[4:]
    # RemoveInfo and ProducerInfo begin alike: the same slot where a producer id must stand.
    forged = bytes((6,)) + frame[1:]
    with pytest.raises(RemoteProtocolError, match="field producer_id holds a SessionId, not a ProducerId"):
        receiver.decode(forged)


@by_encoding
def test_incomplete_frame_fills_no_slot(tight: bool) -> None:
    wire_format = WireFormat(tight=tight, cache_size=1024, size_prefix=False)
    sender, receiver = Codec(wire_format), Codec(wire_format)
    command = TransactionInfo(1, False, ConnectionId("c"), LocalTransactionId(5, ConnectionId("c")), 2)
    frame = sender.encode(command)
    for length in range(len(frame)):
        with pytest.raises(Truncated):
            receiver.decode_first(frame[:length])
    reference = sender.encode(command)
    with pytest.raises(RemoteProtocolError, match="never filled"):
        receiver.decode_first(reference)
    assert receiver.decode(frame) == command
    assert receiver.decode(reference) == command


@pytest.mark.parametrize(("tight", "outer", "inner"), [(False, 0, 1), (True, 1, 0)], ids=["loose", "tight"])
def test_slots_of_nested_values_are_given_in_the_order_of_java(tight: bool, outer: int, inner: int) -> None:
    """Loose gives the outer value its slot first, tight the inner one (openwire.md §4)."""
    codec = Codec(WireFormat(tight=tight, cache_size=1024))
    codec.encode(RemoveInfo(object_id=LocalTransactionId(5, ConnectionId("c"))))
    for value, slot in ((LocalTransactionId(5, ConnectionId("c")), outer), (ConnectionId("c"), inner)):
        reference = codec.encode(RemoveInfo(object_id=value, last_delivered_sequence_id=0))[4:]
        assert reference[7:9] == slot.to_bytes(2)


@by_encoding
def test_directions_are_independent(tight: bool) -> None:
    wire_format = WireFormat(tight=tight, cache_size=1024)
    here, there = Codec(wire_format), Codec(wire_format)
    for number in range(5):
        ours = ProducerInfo(1, destination=queue(number))
        theirs = ProducerInfo(2, destination=queue(100 - number))
        assert there.decode(here.encode(ours)[4:]) == ours
        assert here.decode(there.encode(theirs)[4:]) == theirs


@by_encoding
def test_fields_that_are_merely_nested_bypass_the_cache(tight: bool) -> None:
    codec = Codec(WireFormat(tight=tight, cache_size=1024))
    command = ConsumerControl(destination=queue(1))
    assert codec.encode(command) == codec.encode(command) == Codec(WireFormat(tight=tight)).encode(command)


def generous(wire_format: WireFormat) -> Codec:
    """A peer that gives slots to values of any length."""
    sender = Codec(wire_format)
    sender.send_cache = SendCache(1024, value_bytes_max=65_535)
    return sender


@by_encoding
def test_long_values_get_no_slot(tight: bool) -> None:
    """What one client sends goes into the caches of others."""
    sender, receiver = (Codec(WireFormat(tight=tight, cache_size=0)) for _ in range(2))
    for name in ("x" * 1024, "x" * 1025):
        command = ProducerInfo(destination=ActiveMQQueue(name))
        first, second = sender.encode(command), sender.encode(command)
        assert receiver.decode(first[4:]) == receiver.decode(second[4:]) == command
        assert (len(second) < len(first) - 1000) == (len(name) <= 1024)


def test_we_use_256_slots_at_most_whatever_the_peer_would_take() -> None:
    cache = Codec(WireFormat(cache_size=0)).send_cache
    assert cache is not None
    assert [cache.add(queue(number)) for number in range(258)] == [*range(256), NOT_CACHED, NOT_CACHED]


@by_encoding
def test_peer_cannot_make_us_keep_more_than_the_limit(tight: bool) -> None:
    limits = WireLimits(cache_bytes_max=50_000)
    sender = generous(WireFormat(tight=tight, cache_size=0))
    receiver = Codec(WireFormat(tight=tight, cache_size=0), limits)
    for number in range(4):
        receiver.decode(sender.encode(ProducerInfo(destination=ActiveMQQueue(f"{number}" * 10_000)))[4:])
    with pytest.raises(RemoteProtocolError, match="the marshalling cache holds"):
        receiver.decode(sender.encode(ProducerInfo(destination=ActiveMQQueue("4" * 10_000)))[4:])


@by_encoding
def test_values_kept_alive_by_a_reference_count_towards_the_limit(tight: bool) -> None:
    """A cached value may refer to another; overwriting the other's slot does not free it."""
    wire_format = WireFormat(tight=tight, cache_size=0)
    receiver = Codec(wire_format, WireLimits(cache_bytes_max=50_000))

    def fill(slot: int, number: int) -> None:
        """A transaction of its own connection, which always takes slot 0."""
        sender = generous(wire_format)
        connection = ConnectionId(f"{number}" * 10_000)
        receiver.decode(sender.encode(RemoveInfo(object_id=connection))[4:])
        frame = bytearray(sender.encode(RemoveInfo(object_id=LocalTransactionId(number, connection)))[4:])
        frame[7:9] = slot.to_bytes(2)  # in place of the one that the sender chose; both encodings have it there
        receiver.decode(bytes(frame))

    for number in range(3):
        fill(slot=number + 1, number=number)
    with pytest.raises(RemoteProtocolError, match="the marshalling cache holds"):
        fill(slot=4, number=4)

"""The fast path says what the plain codec says and accepts what it accepts: vectors, generated and mutated frames."""

from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwire.errors import RemoteProtocolError
from ackwire.jms.destinations import Destination, Kind, destination
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.codec_fast import (
    FAST_VERSION_MIN,
    Ack,
    FastDecoder,
    destination_from_wire,
    destination_to_wire,
    message_key,
    response_frame,
    stamp,
)
from ackwire.wire.openwire.layout import ACK_TYPE, BLOB_TYPE, MESSAGE_TYPES
from ackwire.wire.openwire.marshal import Codec, WireFormat
from ackwire.wire.openwire.structures import REGISTRY, VERSION_MAX, Structure
from tests.unit.wire.effort import effort
from tests.unit.wire.openwire.agreement import (
    PLAIN,
    assert_ack_agrees,
    assert_message_agrees,
    canonical,
    plain_ack,
)
from tests.unit.wire.openwire.mutations import mutated
from tests.unit.wire.openwire.strategies import structures
from tests.unit.wire.openwire.traffic import MESSAGE_CLASSES, acks, everyday_messages, messages
from tests.unit.wire.openwire.vectors import vectors


def vector_frames(kind: type[Structure]) -> list[tuple[str, bytes]]:
    """Every vector of that kind, those of other versions turned into the canonical form first."""
    return [(vector.name, canonical(vector.command)) for vector in vectors() if isinstance(vector.command, kind)]


MESSAGE_VECTORS: Final = vector_frames(commands.Message)
ACK_VECTORS: Final = vector_frames(commands.MessageAck)
FULL_MESSAGE: Final = dict(MESSAGE_VECTORS)["text-everything"]
PLAIN_MESSAGE: Final = dict(MESSAGE_VECTORS)["text-ascii"]
PLAIN_ACK: Final = dict(ACK_VECTORS)["messageack-type-2"]


# ---- vectors ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(FAST_VERSION_MIN, VERSION_MAX + 1))
def test_messages_and_acks_look_the_same_in_all_fast_versions(version: int) -> None:
    codec = Codec(WireFormat(version))
    for _, frame in MESSAGE_VECTORS + ACK_VECTORS:
        assert codec.encode(PLAIN.decode(frame))[4:] == frame


@pytest.mark.parametrize("frame", [frame for _, frame in MESSAGE_VECTORS], ids=[name for name, _ in MESSAGE_VECTORS])
def test_message_vectors(frame: bytes) -> None:
    decoder = FastDecoder()
    assert assert_message_agrees(decoder, frame)
    assert assert_message_agrees(decoder, frame), "and again, now that its origin is known"


@pytest.mark.parametrize("frame", [frame for _, frame in ACK_VECTORS], ids=[name for name, _ in ACK_VECTORS])
def test_ack_vectors(frame: bytes) -> None:
    decoder = FastDecoder()
    assert assert_ack_agrees(decoder, frame)
    assert assert_ack_agrees(decoder, frame), "and again, now that its consumer is known"


def test_vectors_one_after_another_through_one_decoder() -> None:
    decoder = FastDecoder()
    for _ in range(2):
        for _, frame in MESSAGE_VECTORS:
            assert assert_message_agrees(decoder, frame)
        for _, frame in ACK_VECTORS:
            assert assert_ack_agrees(decoder, frame)


@pytest.mark.parametrize("frame", [frame for _, frame in MESSAGE_VECTORS], ids=[name for name, _ in MESSAGE_VECTORS])
def test_stamped_vector_differs_from_the_original_in_the_stamped_fields_only(frame: bytes) -> None:
    message = FastDecoder().message(frame)
    stamp(message, 0, 0)
    command = PLAIN.decode(frame)
    assert isinstance(command, commands.Message)
    assert command.message_id is not None
    unstamped = replace(command, message_id=replace(command.message_id, broker_sequence_id=0), broker_in_time=0)
    assert message.frame == canonical(unstamped)


def test_key_of_a_message_is_the_key_of_its_ack() -> None:
    """Also where a writer put a plain NUL into an id, which the ack then has in Java's form."""
    producer = commands.ProducerId("ID:nul\0here", 1, 2)
    message_id = commands.MessageId(None, producer, 5)
    message = canonical(
        commands.ActiveMQTextMessage(
            producer_id=producer, destination=commands.ActiveMQQueue("q"), message_id=message_id, content=b""
        )
    )
    ack = canonical(
        commands.MessageAck(
            consumer_id=commands.ConsumerId("c", 1, 1),
            destination=commands.ActiveMQQueue("q"),
            first_message_id=message_id,
            last_message_id=message_id,
        )
    )
    decoder = FastDecoder()
    keys = set()
    for original, foreign in ((b"", b""), (b"\0\x0cID:nul\xc0\x80here", b"\0\x0bID:nul\0here")):
        keys.add(decoder.message(message.replace(original, foreign)).key)
        for _ in range(2):
            received = decoder.ack(ack.replace(original, foreign))
            assert isinstance(received, Ack)
            assert received.first_key is not None
            keys |= {received.first_key, received.last_key}
    assert keys == {message_key(message_id)}


@pytest.mark.parametrize("field", ["group_id", "correlation_id", "reply_to", "type", "user_id"])
def test_bytes_that_are_no_text_are_refused_where_the_fast_path_only_walks_over_them(field: str) -> None:
    command = PLAIN.decode(PLAIN_MESSAGE)
    assert isinstance(command, commands.Message)
    setattr(command, field, commands.ActiveMQQueue("#text#") if field == "reply_to" else "#text#")
    frame = canonical(command)
    decoder = FastDecoder()
    assert assert_message_agrees(decoder, frame)
    assert assert_message_agrees(decoder, frame.replace(b"#text#", b"\xf0\x9f\x98\x80\0\0"))
    assert not assert_message_agrees(decoder, frame.replace(b"#text#", b"#tex\xff#"))


def test_blob_message_with_text_in_foreign_form_keeps_its_properties() -> None:
    """The properties are found by their offset: stamping must not move them."""
    producer = commands.ProducerId("ID:\U0001f600", 1, 2)
    frame = canonical(
        commands.ActiveMQBlobMessage(
            producer_id=producer,
            destination=commands.ActiveMQQueue("q"),
            message_id=commands.MessageId(None, producer, 5),
            marshalled_properties=b"\0\0\0\0",
            remote_blob_url="http://\U0001f600/",
        )
    )
    foreign = frame.replace(b"\0\x09ID:\xed\xa0\xbd\xed\xb8\x80", b"\0\x07ID:\xf0\x9f\x98\x80")
    assert len(foreign) == len(frame) - 4
    assert assert_message_agrees(FastDecoder(), foreign)


# ---- generated -------------------------------------------------------------------------------------------------


@effort(25)
@given(st.lists(messages() | everyday_messages(), min_size=1, max_size=2))
def test_generated_messages(generated: list[commands.Message]) -> None:
    decoder = FastDecoder()
    for command in generated + generated:
        assert assert_message_agrees(decoder, canonical(command))


@effort(15)
@given(st.sampled_from(MESSAGE_CLASSES).flatmap(structures))
def test_generated_messages_that_may_lack_what_the_broker_needs(command: commands.Message) -> None:
    assert_message_agrees(FastDecoder(), canonical(command))


@effort(20)
@given(st.lists(acks(), min_size=1, max_size=3))
def test_generated_acks(generated: list[commands.MessageAck]) -> None:
    decoder = FastDecoder()
    for command in generated + generated:
        assert_ack_agrees(decoder, canonical(command))


@effort(15)
@given(everyday_messages(), st.integers(0, 2**32))
def test_mutations_of_generated_messages(command: commands.Message, seed: int) -> None:
    frame = canonical(command)
    decoder = FastDecoder()
    decoder.message(frame)
    for offset in range(8):
        changed = mutated(frame, seed + offset)
        if changed and changed[0] in MESSAGE_TYPES:
            assert_message_agrees(decoder, changed)
            assert_message_agrees(FastDecoder(), changed)


@effort(20)
@given(acks(), st.integers(0, 2**32))
def test_mutations_of_generated_acks(command: commands.MessageAck, seed: int) -> None:
    frame = canonical(command)
    decoder = FastDecoder()
    if plain_ack(frame):
        decoder.ack(frame)
    for offset in range(8):
        changed = mutated(frame, seed + offset)
        if changed and changed[0] == ACK_TYPE:
            assert_ack_agrees(decoder, changed)
            assert_ack_agrees(FastDecoder(), changed)


@pytest.mark.parametrize("number", range(len(MESSAGE_VECTORS)), ids=[name for name, _ in MESSAGE_VECTORS])
def test_mutations_of_message_vectors(number: int) -> None:
    frame = MESSAGE_VECTORS[number][1]
    decoder = FastDecoder()
    for seed in range(40):
        decoder.message(frame)
        changed = mutated(frame, seed)
        if changed and changed[0] in MESSAGE_TYPES:
            assert_message_agrees(decoder, changed)


@pytest.mark.parametrize("number", range(len(ACK_VECTORS)), ids=[name for name, _ in ACK_VECTORS])
def test_mutations_of_ack_vectors(number: int) -> None:
    frame = ACK_VECTORS[number][1]
    decoder = FastDecoder()
    for seed in range(60):
        decoder.ack(frame)
        changed = mutated(frame, seed)
        if changed and changed[0] == ACK_TYPE:
            assert_ack_agrees(decoder, changed)


@pytest.mark.parametrize("frame", [PLAIN_MESSAGE, FULL_MESSAGE], ids=["ascii", "everything"])
@pytest.mark.parametrize("value", [0, 1, 0xFF])
def test_every_byte_of_a_message_matters_to_both_alike(frame: bytes, value: int) -> None:
    decoder = FastDecoder()
    for position in range(1, len(frame), 1 if frame is PLAIN_MESSAGE else 5):
        decoder.message(frame)
        changed = frame[:position] + bytes((value,)) + frame[position + 1 :]
        assert_message_agrees(decoder, changed)


@pytest.mark.parametrize("value", [0, 1, 0xFF])
def test_every_byte_of_an_ack_matters_to_both_alike(value: int) -> None:
    decoder = FastDecoder()
    for position in range(1, len(PLAIN_ACK)):
        decoder.ack(PLAIN_ACK)
        assert_ack_agrees(decoder, PLAIN_ACK[:position] + bytes((value,)) + PLAIN_ACK[position + 1 :])


def test_every_shorter_or_longer_form_is_refused() -> None:
    decoder = FastDecoder()
    for frame in (PLAIN_MESSAGE, FULL_MESSAGE):
        for length in range(len(frame)):
            with pytest.raises(RemoteProtocolError):
                decoder.message(frame[:length])
        with pytest.raises(RemoteProtocolError):
            decoder.message(frame + b"\0")
    decoder.ack(PLAIN_ACK)
    for length in range(len(PLAIN_ACK)):
        with pytest.raises(RemoteProtocolError):
            decoder.ack(PLAIN_ACK[:length])
    with pytest.raises(RemoteProtocolError):
        decoder.ack(PLAIN_ACK + b"\0")


# ---- what repeats ----------------------------------------------------------------------------------------------


def everyday(number: int, target: commands.ActiveMQDestination | None = None) -> bytes:
    producer = commands.ProducerId(f"ID:{number}", 1, 1)
    return canonical(
        commands.ActiveMQTextMessage(
            producer_id=producer,
            destination=target or commands.ActiveMQQueue(f"queue.{number}"),
            message_id=commands.MessageId(None, producer, number),
            content=b"",
        )
    )


def test_messages_of_one_producer_share_their_origin() -> None:
    decoder = FastDecoder()
    first, other, again = (decoder.message(everyday(number)) for number in (1, 2, 1))
    assert first.origin is again.origin
    assert first.origin is not other.origin


def test_more_producers_than_are_remembered_are_still_told_apart() -> None:
    decoder = FastDecoder()
    for number in [*range(600), *range(0, 600, 7)]:
        assert decoder.message(everyday(number)).destination == destination(Kind.QUEUE, f"queue.{number}")


def test_remembered_origins_take_little_memory() -> None:
    decoder = FastDecoder()
    for number in range(600):
        decoder.message(everyday(number, commands.ActiveMQQueue("x" * 3000)))
    assert sum(len(prefix) for prefix in decoder._origins) < 600_000
    assert len(decoder._origins) <= 256


@pytest.mark.parametrize("name", [None, "", "x" * 4097])
def test_message_to_an_unusable_destination_is_refused(name: str | None) -> None:
    with pytest.raises(RemoteProtocolError):
        FastDecoder().message(everyday(1, commands.ActiveMQQueue(name)))


# ---- small frames ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("correlation_id", [0, 1, -1, 2**31 - 1, -(2**31)])
def test_response(correlation_id: int) -> None:
    assert response_frame(correlation_id) == PLAIN.encode(commands.Response(correlation_id=correlation_id))


@pytest.mark.parametrize("kind", Kind)
def test_destinations_survive(kind: Kind) -> None:
    value = Destination(kind, "a.€")
    wire = destination_to_wire(value)
    assert destination_from_wire(wire) == value
    assert PLAIN.decode(canonical(wire)) == wire


def test_types_are_those_of_the_registry() -> None:
    assert {cls.TYPE_ID for cls in REGISTRY.values() if issubclass(cls, commands.Message)} == MESSAGE_TYPES
    assert commands.ActiveMQBlobMessage.TYPE_ID == BLOB_TYPE
    assert commands.MessageAck.TYPE_ID == ACK_TYPE

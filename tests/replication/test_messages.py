"""Frames between nodes: each message comes back as it was, and whatever bytes come raise one kind of error."""

import contextlib
from collections.abc import Iterable
from random import Random

import pytest
from crc32c import crc32c

from ackwire.errors import RemoteProtocolError
from ackwire.replication.log import Chunk, LogEnd, SnapshotSegment
from ackwire.replication.messages import (
    Ack,
    Answer,
    Append,
    Bye,
    Challenge,
    Commit,
    Decoder,
    Heartbeat,
    Hello,
    Message,
    Proof,
    Reason,
    RefillAck,
    RefillBegin,
    RefillEnd,
    RefillPiece,
    Truncate,
    Type,
    Vote,
    Welcome,
    encoded,
)

HELLO = Hello(
    version=1,
    replicas=3,
    store_format=1,
    epoch=7,
    end=LogEnd(6, 100),
    committed=90,
    may_vote=True,
    wants_refill=False,
    incarnation=1 << 60,
    group_id="the group",
    store_id=bytes(range(16)),
    node_id="nödé",
    disk_id="d1",
    address="[::1]:61619",
    epochs=((1, 1), (3, 20), (6, 95)),
)
MESSAGES: tuple[Message, ...] = (
    Challenge(1, bytes(32), True),
    Answer(1, bytes(range(32)), bytes(32), False),
    Proof(bytes(range(32))),
    HELLO,
    Welcome(Reason.OTHER_GROUP, 7, b"", "a", "another group"),
    Truncate(99),
    Append(95, Chunk(3, 0, 8192, 96, LogEnd(7, 99), b"records" * 30)),
    Ack(LogEnd(7, 99), 98, True),
    Commit(1 << 63),
    RefillBegin(LogEnd(7, 99), 95, bytes(16), (SnapshotSegment(1, 8192, 8000, 1), SnapshotSegment(3, 4096, 70, 50))),
    RefillPiece(3, 4000, bytes(1000)),
    RefillEnd(0xFFFFFFFF),
    RefillAck(12345),
    Vote(95),
    Heartbeat(95),
    Bye(Reason.STOPPING, "the node stops"),
)


def proved() -> Decoder:
    decoder = Decoder()
    decoder.is_proved = True
    return decoder


def received(decoder: Decoder, portions: Iterable[bytes]) -> list[Message]:
    return [message for portion in portions for message in decoder.receive(portion)]


def test_there_is_an_example_of_every_type() -> None:
    assert len(MESSAGES) == len(Type)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda it: type(it).__name__)
def test_a_message_comes_back_whole_byte_by_byte_and_with_a_tail(message: Message) -> None:
    data = encoded(message)
    assert received(proved(), [data]) == [message]
    assert received(proved(), [data[i : i + 1] for i in range(len(data))]) == [message]
    decoder = proved()
    assert received(decoder, [data + data[:5]]) == [message]
    assert received(decoder, [data[5:]]) == [message]
    assert not decoder.waiting_bytes


def test_all_messages_come_in_one_portion() -> None:
    assert received(proved(), [b"".join(map(encoded, MESSAGES))]) == list(MESSAGES)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda it: type(it).__name__)
def test_a_flipped_bit_is_noticed(message: Message) -> None:
    data = encoded(message)
    for position in range(4, min(len(data), 400)):
        damaged = bytearray(data)
        damaged[position] ^= 1 << position % 8
        with pytest.raises(RemoteProtocolError):
            received(proved(), [bytes(damaged)])


@pytest.mark.parametrize("seed", range(300))
def test_whatever_bytes_come_raise_one_kind_of_error_or_nothing(seed: int) -> None:
    random = Random(seed)
    data = bytearray(b"".join(encoded(it) for it in random.sample(MESSAGES, 4)))
    for _ in range(random.randrange(1, 6)):
        match random.randrange(4):
            case 0:
                data[random.randrange(len(data))] = random.randrange(256)
            case 1:
                at = random.randrange(len(data))
                del data[at : at + random.randrange(1, 9)]
            case 2:
                at = random.randrange(len(data))
                data[at:at] = random.randbytes(random.randrange(1, 9))
            case _:
                data += random.randbytes(30)
    decoder = proved()
    decoder.is_proved = random.random() < 0.8
    with contextlib.suppress(RemoteProtocolError):
        received(decoder, [bytes(data[i : i + 50]) for i in range(0, len(data), 50)])


@pytest.mark.parametrize("seed", range(100))
def test_payloads_with_a_right_checksum_and_wrong_fields_raise_that_error_too(seed: int) -> None:
    random = Random(seed)
    message = random.choice(MESSAGES)
    data = bytearray(encoded(message))
    kind, payload = data[4], data[9:]
    for _ in range(random.randrange(1, 4)):
        if payload:
            payload[random.randrange(len(payload))] = random.randrange(256)
    if random.random() < 0.3:
        payload = payload[: random.randrange(len(payload) + 1)]
    frame = (5 + len(payload)).to_bytes(4) + bytes((kind,)) + crc32c(payload, crc32c(bytes((kind,)))).to_bytes(4)
    with contextlib.suppress(RemoteProtocolError):
        received(proved(), [frame + bytes(payload)])


@pytest.mark.parametrize("kind", list(Type))
def test_a_length_beyond_its_type_is_refused_before_anything_is_kept(kind: Type) -> None:
    decoder = proved()
    frame = (0xFFFF_FFF0).to_bytes(4) + bytes((kind,)) + bytes(4)
    with pytest.raises(RemoteProtocolError, match="the limit is"):
        received(decoder, [frame])


@pytest.mark.parametrize("message", MESSAGES, ids=lambda it: type(it).__name__)
def test_a_stranger_may_send_a_handshake_and_nothing_else(message: Message) -> None:
    if isinstance(message, Challenge | Answer | Proof | Bye):
        assert received(Decoder(), [encoded(message)]) == [message]
    else:
        with pytest.raises(RemoteProtocolError, match="has not proved the secret"):
            received(Decoder(), [encoded(message)])

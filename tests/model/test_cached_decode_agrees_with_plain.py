"""With a cache, the short ways say what the plain codec says: generated traffic, mutations, any cache size (J2)."""

import random
import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwire.jms.message import Message
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.cache import SendCache
from ackwire.wire.openwire.cached_decode import SlotReader
from ackwire.wire.openwire.cached_encode import Consumer, SlotWriter
from ackwire.wire.openwire.codec_fast import FastDecoder
from ackwire.wire.openwire.marshal import Codec, WireFormat
from ackwire.wire.openwire.structures import Structure, fields_of
from tests.unit.wire.effort import effort
from tests.unit.wire.openwire.agreement import canonical
from tests.unit.wire.openwire.mutations import mutated
from tests.unit.wire.openwire.side_by_side import SIZE_BYTES, SideBySide, stamped
from tests.unit.wire.openwire.traffic import acks, everyday_messages, messages
from tests.unit.wire.openwire.vectors import CacheSequence, cache_sequences, vectors

CACHE_SIZES: Final = st.sampled_from([1, 3, 100, 103, 110, 256, 1024, 0])
"""With up to 100, nothing outlives its frame; with a few more, everything is soon forgotten."""

LOCAL: Final = commands.LocalTransactionId(7, commands.ConnectionId("ID:a-1:1"))
XA: Final = commands.XATransactionId(7, b"global", b"branch")
QUEUE: Final = commands.ActiveMQQueue("orders.new")


def text_message(number: int, producer: str = "ID:a-1:1", **fields: object) -> commands.ActiveMQTextMessage:
    producer_id = commands.ProducerId(producer, 1, 2)
    message = commands.ActiveMQTextMessage(
        command_id=number,
        response_required=number % 3 == 0,
        producer_id=producer_id,
        destination=QUEUE,
        message_id=commands.MessageId(None, producer_id, number),
        content=b"body" * number,
        marshalled_properties=b"\0\0\0\0" if number % 2 else None,
    )
    return replace(message, **fields)  # type: ignore[arg-type]


def ack(number: int, producer: str = "ID:a-1:1", **fields: object) -> commands.MessageAck:
    message_id = commands.MessageId(None, commands.ProducerId(producer, 1, 2), number, number)
    message_ack = commands.MessageAck(
        command_id=number,
        destination=QUEUE,
        consumer_id=commands.ConsumerId("ID:c-1:1", 1, number % 2),
        ack_type=2,
        first_message_id=message_id if number % 2 else None,
        last_message_id=message_id,
        message_count=1,
    )
    return replace(message_ack, **fields)  # type: ignore[arg-type]


def frames_of(sender: Codec, structures: Sequence[Structure]) -> list[bytes]:
    return [sender.encode(structure)[SIZE_BYTES:] for structure in structures]


def send_on(both: SideBySide, messages_in: list[Message] | None) -> None:
    """To two consumers, and once more: the first time fills slots, the next ones name them."""
    for message in messages_in or []:
        stamped(message)
        for consumer, time_ms, group_first in (("a", 1, False), ("b", 1, True), ("a", 2, False), ("b€", 2, False)):
            both.dispatch(message, consumer, time_ms, group_first)


# ---- generated -------------------------------------------------------------------------------------------------


@effort(60)
@given(CACHE_SIZES, st.lists(messages() | everyday_messages() | acks(), min_size=1, max_size=4))
def test_generated_traffic(cache_size: int, generated: list[Structure]) -> None:
    both = SideBySide(cache_size)
    sender = Codec(WireFormat(cache_size=cache_size))
    for frame in frames_of(sender, generated * 3):
        received = both.receive(frame)
        if received is None:
            return
        send_on(both, received)


@effort(60)
@given(CACHE_SIZES, st.lists(everyday_messages() | acks(), min_size=1, max_size=3), st.integers(0, 2**32))
def test_mutations_of_generated_traffic(cache_size: int, generated: list[Structure], seed: int) -> None:
    frames = frames_of(Codec(WireFormat(cache_size=cache_size)), generated * 3)
    for spoilt in range(1, len(frames)):
        both = SideBySide(cache_size)
        for frame in [*frames[:spoilt], mutated(frames[spoilt], seed + spoilt), *frames[spoilt + 1 :]]:
            if not frame or both.receive(frame) is None:
                break


@pytest.mark.parametrize("value", [0, 1, 2, 0xFF])
@pytest.mark.parametrize("kind", [text_message, ack])
def test_every_byte_matters_to_both_alike(kind: type, value: int) -> None:
    for fills in (0, 2):  # a frame that fills slots, and one that only names them
        frames = frames_of(Codec(WireFormat(cache_size=1024)), [kind(number) for number in (1, 3, 5)])
        spoilt = frames[fills]
        for position in range(1, len(spoilt)):
            both = SideBySide(1024)
            for frame in frames[:fills]:
                both.receive(frame)
            if both.receive(spoilt[:position] + bytes((value,)) + spoilt[position + 1 :]) is not None:
                both.receive(frames[-1])


@pytest.mark.parametrize("kind", [text_message, ack])
def test_every_shorter_or_longer_form_is_refused(kind: type) -> None:
    frames = frames_of(Codec(WireFormat(cache_size=1024)), [kind(number) for number in (1, 3, 5)])
    for fills in (0, 2):
        spoilt = frames[fills]
        for changed in [*(spoilt[:length] for length in range(1, len(spoilt))), spoilt + b"\0"]:
            both = SideBySide(1024)
            for frame in frames[:fills]:
                both.receive(frame)
            assert both.receive(changed) is None


# ---- what Java and others send -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sequence",
    [it for it in cache_sequences() if not it.wire_format.tight],
    ids=lambda sequence: sequence.name,
)
def test_sequence_of_the_vectors(sequence: CacheSequence) -> None:
    both = SideBySide(1024)
    for frame, _ in sequence.frames:
        assert both.receive(frame[SIZE_BYTES:]) is not None


def test_vectors_through_one_connection() -> None:
    hot = [it.command for it in vectors() if isinstance(it.command, commands.Message | commands.MessageAck)]
    both = SideBySide(110)
    for frame in frames_of(Codec(WireFormat(cache_size=110)), hot * 2):
        received = both.receive(frame)
        assert received is not None
        send_on(both, received)


@pytest.mark.parametrize(
    "fields",
    [
        {"transaction_id": LOCAL},
        {"transaction_id": XA},
        {"original_destination": commands.ActiveMQTopic("from")},
        {"original_transaction_id": XA},
        {"original_transaction_id": LOCAL},
        {"original_transaction_id": commands.LocalTransactionId(7, None)},
        {"target_consumer_id": commands.ConsumerId("c", 1, 1)},
        {"data_structure": commands.ConnectionId("x")},
        {"user_id": "user"},
        {"user_id": ""},
        {"broker_path": (commands.BrokerId("b"),)},
        {"correlation_id": "c", "reply_to": QUEUE, "type": "t", "group_id": "g", "group_sequence": 3},
        {"content": None},
        {"message_id": commands.MessageId("foreign", commands.ProducerId("ID:a-1:1", 1, 2), 5)},
        {"producer_id": commands.ProducerId(None, 1, 2)},
        {"destination": commands.ActiveMQTempQueue("\U0001f600\0")},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_rare_fields_between_usual_messages(fields: dict[str, object]) -> None:
    both = SideBySide(256)
    rare = [replace(text_message(number), **fields) for number in (2, 4)]  # type: ignore[arg-type]
    sent = [text_message(1), rare[0], text_message(3), rare[1], text_message(5)]
    for frame in frames_of(Codec(WireFormat(cache_size=256)), sent):
        received = both.receive(frame)
        assert received is not None
        send_on(both, received)


def test_message_to_a_destination_that_cannot_be_still_fills_its_slots() -> None:
    both = SideBySide(256)
    bad = commands.ActiveMQQueue("x" * 5000)
    sent = [text_message(1, destination=bad), text_message(2), text_message(3, destination=bad), text_message(4)]
    received = [both.receive(frame) for frame in frames_of(Codec(WireFormat(cache_size=256)), sent)]
    assert [len(it or []) for it in received] == [0, 1, 0, 1]


@pytest.mark.parametrize("cache_size", [101, 104, 110, 120, 1024])
@pytest.mark.parametrize("seed", range(4))
def test_long_conversation_in_which_slots_get_other_values(cache_size: int, seed: int) -> None:
    choices = random.Random(seed)
    both = SideBySide(cache_size)
    sender = Codec(WireFormat(cache_size=cache_size))

    def some_message() -> commands.Message:
        kind = choices.choice([commands.ActiveMQTextMessage, commands.ActiveMQBytesMessage])
        fields = {field.name: getattr(usual, field.name) for field in fields_of(type(usual))}
        return kind(**fields | {"destination": commands.ActiveMQQueue(choices.choice("qrs"))})

    for number in range(1, 300):
        producer = f"ID:{choices.randrange(6)}"
        usual = text_message(1 + number % 2, producer)
        info = commands.ProducerInfo(producer_id=usual.producer_id, destination=usual.destination)
        step = choices.choice([some_message(), some_message(), ack(number, producer), info])
        [frame] = frames_of(sender, [step])
        received = both.receive(frame)
        assert received is not None
        for message in received:
            both.dispatch(stamped(message), choices.choice("abc"))


def test_too_much_in_the_cache_is_refused_by_both() -> None:
    """As a stranger would try: a slot is filled by a frame that needs none of the plain codec's help."""
    both = SideBySide(1024)
    sender = Codec(WireFormat(cache_size=1024))
    sender.send_cache = SendCache(1024, value_bytes_max=10_000)
    refused = [
        both.receive(frame) is None
        for frame in frames_of(sender, [text_message(n, "x" * 3000 + str(n)) for n in range(1, 30)])
    ]
    assert refused.index(True) > 5


# ---- the short ways are taken ------------------------------------------------------------------------------------


def reader_with(sender: Codec) -> SlotReader:
    cache = Codec(sender.wire_format).receive_cache
    assert cache is not None
    return SlotReader(cache, FastDecoder())


@pytest.mark.parametrize("producers", [1, 3, 400])
def test_usual_messages_and_acks_never_need_the_plain_codec(producers: int) -> None:
    sender = Codec(WireFormat(cache_size=256))
    reader = reader_with(sender)
    for number in range(1, 900):
        [message, message_ack] = frames_of(
            sender, [text_message(number, f"ID:{number % producers}"), ack(number, f"ID:{number % producers}")]
        )
        assert reader.message(message) is not None
        assert reader.ack(message_ack) is not None


def test_messages_of_one_producer_share_their_origin() -> None:
    sender = Codec(WireFormat(cache_size=256))
    reader = reader_with(sender)
    messages_in = [reader.message(frame) for frame in frames_of(sender, [text_message(n) for n in range(1, 9)])]
    assert len({id(message.origin) for message in messages_in if message is not None}) == 1


def test_what_is_remembered_of_long_ids_takes_little_memory() -> None:
    """To name them costs a peer a few bytes."""
    both = SideBySide(1024)
    sender = Codec(WireFormat(cache_size=1024))
    sender.send_cache = SendCache(1024, value_bytes_max=1 << 20)
    long = commands.XATransactionId(1, b"x" * 20_000)
    sent = [text_message(n, f"ID:{n}", transaction_id=it) for n in range(9) for it in (None, long)]
    for frame in frames_of(sender, sent * 3):
        assert both.receive(frame)
    reader = both.protocols[0]._slot_reader
    assert reader is not None
    assert [len(origin.prefix) < 2048 for origin in reader._origins.values()] == [True] * 9


def writer_and_consumer() -> tuple[SlotWriter, Consumer]:
    cache = Codec(WireFormat(cache_size=256)).send_cache
    assert cache is not None
    return SlotWriter(cache), Consumer(commands.ConsumerId("c", 1, 1))


@pytest.mark.parametrize("transaction_id", [None, LOCAL, XA])
def test_dispatches_soon_name_slots_only(transaction_id: commands.TransactionId | None) -> None:
    writer, consumer = writer_and_consumer()
    message = FastDecoder().message(canonical(text_message(1, transaction_id=transaction_id)))
    sizes = [writer.put([], consumer, message, 5, False) for _ in range(3)]
    assert sizes[0] > sizes[1] == sizes[2]
    assert len(consumer.fronts) == 1


def test_consumer_remembers_a_bounded_number_of_producers() -> None:
    writer, consumer = writer_and_consumer()
    decoder = FastDecoder()
    for number in range(500):
        message = decoder.message(canonical(text_message(number, f"ID:{number % 300}")))
        for _ in range(2):
            writer.put([], consumer, message, 5, False)
        assert len(consumer.fronts) <= 64


@pytest.mark.parametrize("fields", [{}, {"user_id": "", "data_structure": LOCAL}], ids=["usual", "independent"])
def test_message_that_cannot_be_written_leaves_nothing_behind(fields: dict[str, object]) -> None:
    writer, consumer = writer_and_consumer()
    message = FastDecoder().message(canonical(replace(text_message(1), **fields)))  # type: ignore[arg-type]
    message.redelivery_counter = 1 << 31
    out: list[bytes] = []
    with pytest.raises(struct.error):
        writer.put(out, consumer, message, 5, False)
    assert out == []
    message.redelivery_counter = 0
    reader = Codec(WireFormat(cache_size=256))
    for _ in range(3):
        writer.put(out, consumer, message, 5, False)
        assert isinstance(reader.decode(b"".join(out)[SIZE_BYTES:]), commands.MessageDispatch)
        out.clear()

"""What it means that fast path and plain codec agree: shared by the tests and the differential fuzzer.

Both accept the same frames and say the same about them. Beyond that the fast path asks for what the broker needs: a
message has a message id, both producer ids and a destination with a usable name; an ack has a consumer id and the id of
its last message, with producer.
"""

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from ackwire.errors import InvalidDestination, RemoteProtocolError
from ackwire.jms.message import Message
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.cached_encode import Consumer, put_dispatch
from ackwire.wire.openwire.codec_fast import (
    CANONICAL,
    Ack,
    FastDecoder,
    destination_from_wire,
    destination_to_wire,
    message_key,
    stamp,
)
from ackwire.wire.openwire.limits import DEFAULT_LIMITS
from ackwire.wire.openwire.marshal import Codec, LooseReader
from ackwire.wire.openwire.structures import REGISTRY, Field, Structure, fields_of

PLAIN: Final = Codec(CANONICAL)


def canonical(command: Structure | None) -> bytes:
    """The frame of *command* in canonical form, without its size."""
    return PLAIN.encode(command)[4:]


def _refuses(decode: Callable[[bytes], object], frame: bytes) -> bool:
    try:
        decode(frame)
    except RemoteProtocolError:
        return True
    return False


def plain_message(frame: bytes) -> commands.Message | None:
    """What the plain codec makes of *frame*; None where it, or a documented rule of the fast path, refuses it."""
    try:
        command = PLAIN.decode(frame)
        assert isinstance(command, commands.Message)
        destination_from_wire(command.destination)
    except (RemoteProtocolError, InvalidDestination):
        return None
    complete = command.producer_id and command.message_id and command.message_id.producer_id
    return command if complete else None


def plain_ack(frame: bytes) -> commands.MessageAck | None:
    try:
        command = PLAIN.decode(frame)
    except RemoteProtocolError:
        return None
    assert isinstance(command, commands.MessageAck)
    first, last = command.first_message_id, command.last_message_id
    if command.consumer_id is None or last is None or last.producer_id is None:
        return None
    short = command.transaction_id is None and command.poison_cause is None
    return None if short and first is not None and first.producer_id is None else command


def assert_agrees(message: Message, frame: bytes, command: commands.Message) -> None:
    """Every field of *message* is what *command* says."""
    assert message.frame == frame
    assert message.key == message_key(command.message_id)
    assert message.destination is message.origin.destination
    assert message.destination == destination_from_wire(command.destination)
    assert message.origin.transaction == command.transaction_id
    assert message.persistent is command.persistent
    assert message.priority == command.priority
    assert message.expiration == command.expiration
    assert message.timestamp == command.timestamp
    assert message.group_id == command.group_id
    assert message.group_sequence == command.group_sequence
    assert message.redelivery_counter == command.redelivery_counter
    assert properties_in(message) == command.marshalled_properties
    assert tail_of(message) == [getattr(command, field.name) for field in _tail_fields(command)]


def properties_in(message: Message) -> bytes | None:
    """The encoded properties, found by their offset as a selector would find them."""
    offset = message.properties_offset
    if not offset:
        return None
    length: int = struct.unpack_from(">i", message.frame, offset - 4)[0]
    return message.frame[offset : offset + length]


def tail_of(message: Message) -> list[object]:
    """The fields behind the properties, found by their offset."""
    reader = LooseReader(message.frame, CANONICAL, DEFAULT_LIMITS, None)
    reader.position = message.tail_offset
    values = [reader.read(field) for field in _tail_fields(REGISTRY[message.frame[0]]())]
    assert reader.position == len(message.frame)
    return values


def _tail_fields(command: Structure) -> tuple[Field, ...]:
    fields = fields_of(type(command))
    return fields[[field.name for field in fields].index("data_structure") :]


def assert_message_agrees(decoder: FastDecoder, frame: bytes) -> bool:
    """Fast and plain both accept *frame*, and agree on it, or both refuse it."""
    command = plain_message(frame)
    if command is None:
        assert _refuses(decoder.message, frame)
        return False
    message = decoder.message(frame)
    assert_agrees(message, frame, command)
    assert_dispatch_agrees(message, command)
    return True


def assert_dispatch_agrees(message: Message, command: commands.Message) -> None:
    """Stamped and spliced, the frame decodes to what the plain encoder would have been given."""
    assert command.message_id is not None
    sequence, in_time_ms = 2**40 + 7, 1_700_000_000_123
    stamp(message, sequence, in_time_ms)
    stamped = replace(
        command,
        message_id=replace(command.message_id, broker_sequence_id=sequence),
        broker_in_time=in_time_ms,
    )
    assert message.sequence == sequence
    assert_agrees(message, message.frame, stamped)
    assert PLAIN.decode(message.frame) == stamped
    # Others at the same time, and then with one thing changed after the other: what was cut is not taken for another.
    for name, out_time_ms, group_first, redeliveries in (
        ("ID:consumer\0€", -(2**62), False, 3),
        ("ID:another", -(2**62), False, 3),
        ("ID:another", -(2**62), True, 3),
        ("ID:another", in_time_ms, True, 3),
        ("ID:another", in_time_ms, True, 0),
        ("ID:another", in_time_ms, True, 0),
    ):
        message.redelivery_counter = redeliveries
        consumer_id = commands.ConsumerId(name, -1, 2**40)
        out: list[bytes] = []
        written = put_dispatch(out, Consumer(consumer_id), message, out_time_ms, group_first)
        data = b"".join(out)
        assert written == len(data)
        assert int.from_bytes(data[:4]) == len(data) - 4
        expected = replace(stamped, broker_out_time=out_time_ms, group_first_for_consumer=group_first)
        assert PLAIN.decode(data[4:]) == commands.MessageDispatch(
            consumer_id=consumer_id,
            destination=destination_to_wire(message.destination),
            message=expected,
            redelivery_counter=redeliveries,
        )


def assert_ack_agrees(decoder: FastDecoder, frame: bytes) -> bool:
    command = plain_ack(frame)
    if command is None:
        assert _refuses(decoder.ack, frame)
        return False
    ack = decoder.ack(frame)
    if command.transaction_id is not None or command.poison_cause is not None:
        assert ack == command
        return True
    assert isinstance(ack, Ack)
    assert ack.command_id == command.command_id
    assert ack.response_required is command.response_required
    assert ack.consumer_id == command.consumer_id
    assert ack.ack_type == command.ack_type & 0xFF
    assert ack.first_key == message_key(command.first_message_id)
    assert ack.last_key == message_key(command.last_message_id)
    assert ack.count == command.message_count
    return True

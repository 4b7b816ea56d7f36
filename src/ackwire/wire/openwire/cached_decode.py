"""Decodes messages and acks of a peer with a cache, in loose encoding: their ids and destinations are slots.

How it works. The usual message has slots at its beginning, which repeat from message to message, and two empty slots
further on. With the bytes of the values in place of the slots it is a canonical frame, for the fast path. Where a
message fills a slot, the value is kept as a structure, for the plain codec, and as bytes.

What makes it safe is what makes `codec_fast.py` safe: for anything unusual the functions here return None, and the
plain codec reads the frame from its beginning. The end of a message is recognised by its bytes; the fast path, which
walks there from the beginning, checks that. `tests/model/test_cached_decode_agrees_with_plain.py` compares this module
with the plain codec.
"""

from struct import error as StructError
from typing import Final, final

from ackwire.errors import RemoteProtocolError
from ackwire.jms.message import Message, Origin
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.cache import ReceiveCache
from ackwire.wire.openwire.codec_fast import PREFIX_BYTES_MAX, Ack, FastDecoder, int_at, long_at, nested
from ackwire.wire.openwire.layout import (
    ABSENT,
    ABSENT_BYTES,
    ACK_CAUSE_AT,
    ACK_END_BYTES,
    BLOB_TYPE,
    COMMAND_ID_AT,
    CONSUMER_ID_TYPE,
    COUNT_BYTES,
    COUNTS_BYTES,
    FIELDS_AT,
    FIRST_DESTINATION_TYPE,
    LAST_DESTINATION_TYPE,
    LONG_BYTES,
    MESSAGE_ID_HEAD,
    MESSAGE_ID_HEAD_BYTES,
    NAME_AT,
    PRODUCER_ID_TYPE,
    RESOURCE_NUMBERS_BYTES,
    RESPONSE_REQUIRED_AT,
    TAIL_BYTES,
    TARGET_CONSUMER_AT,
    TEXT_AT,
)
from ackwire.wire.openwire.structures import REGISTRY, Structure
from ackwire.wire.openwire.text import decode_modified_utf8
from ackwire.wire.openwire.walking import Unusual, after_destination

_FRONTS_MAX: Final = 256
"""Remembered per connection: the slots of so many origins, and as many consumers."""

_SLOT_BYTES: Final = 3
"""A field that names a slot."""
# A message all of whose slots were filled before: producer, destination, transaction, original destination, the
# beginning of the id, its producer; the counts; the original transaction.
_COUNTS_AT: Final = FIELDS_AT + 4 * _SLOT_BYTES + MESSAGE_ID_HEAD_BYTES + _SLOT_BYTES
_ORIGINAL_TRANSACTION_AT: Final = _COUNTS_AT + COUNTS_BYTES
_BEHIND_ORIGINAL_TRANSACTION: Final = _ORIGINAL_TRANSACTION_AT + _SLOT_BYTES
_TAIL_WITH_SLOT_BYTES: Final = TAIL_BYTES - ABSENT_BYTES + _SLOT_BYTES
_SHORTEST: Final = _BEHIND_ORIGINAL_TRANSACTION + _TAIL_WITH_SLOT_BYTES

# An ack: destination, transaction, consumer; the type follows.
_ACK_TYPE_AT: Final = FIELDS_AT + 3 * _SLOT_BYTES


@final
class SlotReader:
    """Reads usual messages and acks; one per connection."""

    __slots__ = ("_absent", "_cache", "_consumers", "_decoder", "_generation", "_origins")

    def __init__(self, cache: ReceiveCache, decoder: FastDecoder) -> None:
        self._cache = cache
        self._decoder = decoder
        self._generation = cache.generation
        self._origins: dict[bytes, Origin] = {}
        """What the slots at the beginning of messages stand for."""
        self._absent = b""
        """The slot for nothing, in the last of these."""
        self._consumers: dict[bytes, commands.ConsumerId] = {}
        """What those at the beginning of acks stand for."""

    # ---- messages ----------------------------------------------------------------------------------------------

    def message(self, frame: bytes) -> Message | None:
        """The message in *frame*, if it is a usual one."""
        if len(frame) < _SHORTEST or frame[0] == BLOB_TYPE:
            return None
        if self._cache.generation != self._generation:
            self._forget()
        origin = self._origins.get(frame[FIELDS_AT:_COUNTS_AT])
        tail_at = len(frame) - _TAIL_WITH_SLOT_BYTES
        absent = self._absent
        if (
            origin is None
            or frame[_ORIGINAL_TRANSACTION_AT:_BEHIND_ORIGINAL_TRANSACTION] != absent
            or frame[tail_at + TARGET_CONSUMER_AT : tail_at + TARGET_CONSUMER_AT + _SLOT_BYTES] != absent
        ):
            return self._learn_message(frame)
        return self._decoder.usual(
            _canonical(frame, origin.prefix, _COUNTS_AT, _BEHIND_ORIGINAL_TRANSACTION, tail_at), origin
        )

    def _learn_message(self, frame: bytes) -> Message | None:
        try:
            message = self._message_with_any_slots(frame)
        except (Unusual, RemoteProtocolError, StructError, IndexError):
            message = None
        if message is None:
            self._cache.roll_back()
            return None
        self._cache.commit()
        return message

    def _message_with_any_slots(self, frame: bytes) -> Message | None:
        """The same for slots that are filled on the way."""
        producer, at = self._field(frame, FIELDS_AT)
        target, at = self._field(frame, at)
        transaction, at = self._field(frame, at)
        original_target, at = self._field(frame, at)
        id_producer, counts_at = self._field(frame, _behind_id_head(frame, at))
        original_transaction_at = counts_at + COUNTS_BYTES
        original_transaction, rest_at = self._field(frame, original_transaction_at)
        tail_at = len(frame) - _TAIL_WITH_SLOT_BYTES
        target_consumer, tail_end = self._field(frame, tail_at + TARGET_CONSUMER_AT)
        if (
            original_transaction != ABSENT
            or tail_at < rest_at
            or target_consumer != ABSENT
            or tail_end != tail_at + TARGET_CONSUMER_AT + _SLOT_BYTES
        ):
            return None
        prefix = b"".join((producer, target, transaction, original_target, MESSAGE_ID_HEAD, id_producer))
        canonical = _canonical(frame, prefix, counts_at, rest_at, tail_at)
        origin = self._decoder.origin_of(canonical)
        if rest_at == _BEHIND_ORIGINAL_TRANSACTION and counts_at == _COUNTS_AT:
            self._remember(frame, origin)
        return self._decoder.usual(canonical, origin)

    def _remember(self, frame: bytes, origin: Origin) -> None:
        if len(origin.prefix) > PREFIX_BYTES_MAX:  # named by a few bytes, it would cost the peer nothing
            return
        if len(self._origins) >= _FRONTS_MAX:
            self._origins.clear()
        self._origins[frame[FIELDS_AT:_COUNTS_AT]] = origin
        self._absent = frame[_ORIGINAL_TRANSACTION_AT:_BEHIND_ORIGINAL_TRANSACTION]

    # ---- acks --------------------------------------------------------------------------------------------------

    def ack(self, frame: bytes) -> Ack | None:
        """The ack in *frame*, if it is a usual one: outside of transactions, and without a cause."""
        if self._cache.generation != self._generation:
            self._forget()
        try:
            ack = self._usual_ack(frame)
        except (Unusual, RemoteProtocolError, StructError, IndexError):
            self._cache.roll_back()
            return None
        self._cache.commit()
        return ack

    def _usual_ack(self, frame: bytes) -> Ack:
        consumer = self._consumers.get(frame[FIELDS_AT:_ACK_TYPE_AT])
        at = _ACK_TYPE_AT
        if consumer is None:
            consumer, at = self._learn_consumer(frame)
        ack_type = frame[at]
        first_key: bytes | None = None
        if frame[at + 1]:
            first_key, at = self._key(frame, at + 1)
        else:
            at += 2
        last_key, at = self._key(frame, at)
        if len(frame) != at + ACK_END_BYTES or frame[at + ACK_CAUSE_AT]:
            raise Unusual
        return Ack(
            int_at(frame, COMMAND_ID_AT),
            frame[RESPONSE_REQUIRED_AT] != 0,
            consumer,
            ack_type,
            first_key,
            last_key,
            int_at(frame, at),
        )

    def _learn_consumer(self, frame: bytes) -> tuple[commands.ConsumerId, int]:
        """The consumer of an ack, and where the ack's type stands."""
        target, at = self._field(frame, FIELDS_AT)
        transaction, consumer_at = self._field(frame, at)
        _, at = self._field(frame, consumer_at)
        consumer = self._cache.get(_slot_at(frame, consumer_at))
        if not _is_destination(target) or transaction != ABSENT or not isinstance(consumer, commands.ConsumerId):
            raise Unusual
        if at == _ACK_TYPE_AT:  # none was filled on the way
            if len(self._consumers) >= _FRONTS_MAX:
                self._consumers.clear()
            self._consumers[frame[FIELDS_AT:at]] = consumer
        return consumer, at

    def _key(self, frame: bytes, at: int) -> tuple[bytes, int]:
        """The key of the message id at *at*, and where it ends."""
        producer, counts_at = self._field(frame, _behind_id_head(frame, at))
        if len(producer) < 2 or producer[1] != PRODUCER_ID_TYPE:
            raise Unusual
        return producer + frame[counts_at : counts_at + COUNT_BYTES], counts_at + COUNTS_BYTES

    # ---- slots -------------------------------------------------------------------------------------------------

    def _field(self, frame: bytes, at: int) -> tuple[bytes, int]:
        """What the field at *at* stands for, in canonical form, and where it ends."""
        slot = _slot_at(frame, at)
        value_at = at + _SLOT_BYTES
        if not frame[at]:
            encoded = self._cache.encoded(slot)
            return (self._encode(slot) if encoded is None else encoded), value_at
        value: Structure | None = None
        end = value_at + 1
        if frame[value_at]:
            value, end = _value_at(frame, value_at)
        filled = frame[value_at:end]
        self._cache.stage(slot, value, len(filled), filled)
        return filled, end

    def _encode(self, slot: int) -> bytes:
        """What the plain codec has read, for the first message that names it."""
        encoded = nested(self._cache.get(slot))
        self._cache.keep_encoded(slot, encoded)
        return encoded

    def _forget(self) -> None:
        """Slots have other values."""
        self._generation = self._cache.generation
        self._origins.clear()
        self._consumers.clear()


def _slot_at(frame: bytes, at: int) -> int:
    slot = frame[at + 1] << 8 | frame[at + 2]
    return slot - (1 << 16) if slot >> 15 else slot


def _behind_id_head(frame: bytes, at: int) -> int:
    end = at + MESSAGE_ID_HEAD_BYTES
    if frame[at:end] != MESSAGE_ID_HEAD:
        raise Unusual
    return end


def _is_destination(encoded: bytes) -> bool:
    return encoded == ABSENT or FIRST_DESTINATION_TYPE <= encoded[1] <= LAST_DESTINATION_TYPE


def _canonical(frame: bytes, prefix: bytes, counts_at: int, rest_at: int, tail_at: int) -> bytes:
    """*frame* with *prefix* for the slots in front of the counts, and nothing for those that stand for nothing."""
    return b"".join(
        (
            frame[:FIELDS_AT],
            prefix,
            frame[counts_at : counts_at + COUNTS_BYTES],
            ABSENT,
            frame[rest_at : tail_at + TARGET_CONSUMER_AT],
            ABSENT,
            frame[tail_at + TARGET_CONSUMER_AT + _SLOT_BYTES :],
        )
    )


def _value_at(frame: bytes, at: int) -> tuple[Structure, int]:
    """The id of a producer or consumer, or the destination, that stands in canonical form at *at*, and its end."""
    kind = frame[at + 1]
    if frame[at] != 1 or frame[at + NAME_AT] != 1:
        raise Unusual
    length_at = at + NAME_AT + 1
    text_at = at + NAME_AT + TEXT_AT
    if kind in (PRODUCER_ID_TYPE, CONSUMER_ID_TYPE):
        text_end = text_at + (frame[length_at] << 8 | frame[length_at + 1])
        text = frame[text_at:text_end]
        if not text.isascii() or b"\0" in text:  # in a key, NUL stands in Java's form
            raise Unusual
        make = commands.ProducerId if kind == PRODUCER_ID_TYPE else commands.ConsumerId
        value = make(text.decode("ascii"), long_at(frame, text_end), long_at(frame, text_end + LONG_BYTES))
        return value, text_end + RESOURCE_NUMBERS_BYTES
    end = after_destination(frame, at)
    return REGISTRY[kind](decode_modified_utf8(frame[text_at:end])), end  # type: ignore[call-arg]

"""Dispatches, spliced from the bytes in which their messages came, never encoded again.

Without a cache, a dispatch is the consumer's header, the message's frame, and a short tail. With one, ids and
destinations are slots (`cache.py`). Slots are only in front of the counts of a message's id; that part is the same for
all messages of an `Origin`. The part behind them has no slot, and is the same for all connections.

`tests/model/test_codec_fast_agrees_with_plain.py` and `test_cached_decode_agrees_with_plain.py` hold this against the
plain codec.
"""

from typing import Final, final

from ackwire.jms.destinations import Destination
from ackwire.jms.message import Message
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.cache import UNCACHED_FIELD, SendCache
from ackwire.wire.openwire.codec_fast import (
    CANONICAL,
    PREFIX_BYTES_MAX,
    destination_to_wire,
    end_of_common_fields,
    nested,
)
from ackwire.wire.openwire.layout import (
    ABSENT,
    ABSENT_BYTES,
    BLOB_TYPE,
    COUNT_BYTES,
    COUNTS_BYTES,
    DISPATCH_END,
    DISPATCH_HEAD,
    FIELDS_AT,
    LOCAL_TRANSACTION_CONNECTION_AT,
    LOCAL_TRANSACTION_TYPE,
    MESSAGE_ID_HEAD,
    MESSAGE_ID_HEAD_BYTES,
    MESSAGE_TYPES,
    OUT_TIME_FROM_END,
    PRESENT,
    PRODUCER_HEAD,
    REDELIVERY_COUNTER_BYTES,
    SIZE_BYTES,
    TARGET_CONSUMER_AT,
)
from ackwire.wire.openwire.marshal import Codec, LooseWriter, write_structure
from ackwire.wire.openwire.walking import Unusual, after_destination, end_of_resource_id, end_of_transaction

_CUT_BYTES_MAX: Final = 1024 * 1024
"""Bytes of a message that is remembered, as it was cut, for the next consumer."""

_FRONTS_MAX: Final = 64
"""Remembered for each consumer: at most so many origins."""

_MESSAGE_HEADS: Final = {type_id: bytes((type_id,)).ljust(FIELDS_AT, b"\0") for type_id in MESSAGE_TYPES}
"""The type of the nested message; its command id and response flag have no meaning in a dispatch."""
_NOTHING: Final = UNCACHED_FIELD + ABSENT
_PLAIN: Final = Codec(CANONICAL)


@final
class Consumer:
    """The wire's end of a subscription: what stands in front of each dispatch to it."""

    __slots__ = ("_frame_bytes", "_front", "_headers", "_target", "consumer_id", "encoded_id", "fronts", "generation")

    def __init__(self, consumer_id: commands.ConsumerId) -> None:
        self.consumer_id = consumer_id
        self.encoded_id = nested(consumer_id)
        self._headers: dict[Destination, bytes] = {}
        # Of the last message: the next one often comes from there too, and has the same size.
        self._target: Destination | None = None
        self._frame_bytes = 0
        self._front = b""
        # Where there are slots.
        self.fronts: dict[bytes, tuple[bytes, bytes]] = {}
        """For prefixes of origins: what precedes the type of the message, and what precedes its counts."""
        self.generation = 0
        """Of the slots in them."""

    def front(self, target: Destination, frame_bytes: int) -> bytes:
        """What precedes a message of that size from *target*."""
        if target is not self._target or frame_bytes != self._frame_bytes:
            header = self.header(target, b"")
            self._front = (len(header) + frame_bytes + REDELIVERY_COUNTER_BYTES).to_bytes(SIZE_BYTES, "big") + header
            self._target = target
            self._frame_bytes = frame_bytes
        return self._front

    def header(self, target: Destination, before_values: bytes) -> bytes:
        """The same without the size; *before_values* depends on the connection alone."""
        header = self._headers.get(target)
        if header is None:
            encoded_target = nested(destination_to_wire(target))
            header = b"".join((DISPATCH_HEAD, before_values, self.encoded_id, before_values, encoded_target, PRESENT))
            self._headers[target] = header
        return header


@final
class _Last:
    """What was written last, in tuples that change as a whole, so that brokers in several threads may share this."""

    __slots__ = ("cut", "independent", "size", "slotted_cut", "tail")

    def __init__(self) -> None:
        self.cut = (b"", b"")
        """A frame, and what of it a dispatch begins with: a message that many get is cut once."""
        self.slotted_cut = (b"", b"")
        """The same from the counts on, for connections with slots."""
        self.independent = (b"", b"")
        """A frame, and all of it without a slot."""
        self.size = (0, bytes(SIZE_BYTES))
        """The size of a dispatch, and its bytes."""
        self.tail = (0, False, 0, DISPATCH_END.pack(0, False, 0))
        """Time, whether it is the first of its group, redeliveries; and the bytes that say so: often the same."""


_LAST: Final = _Last()


def put_dispatch(out: list[bytes], consumer: Consumer, message: Message, out_time_ms: int, group_first: bool) -> int:
    """Append the pieces of a dispatch to *out*, and return how many bytes they have."""
    frame = message.frame
    tail = _tail(out_time_ms, group_first, message.redelivery_counter)
    front = consumer.front(message.destination, len(frame))
    if frame[0] == BLOB_TYPE:
        body, tail = _around_out_time(frame, frame, tail)
    else:
        last_frame, body = _LAST.cut
        if frame is not last_frame:
            body = frame[:-OUT_TIME_FROM_END]
            if len(frame) <= _CUT_BYTES_MAX:
                _LAST.cut = (frame, body)
    out.append(front)
    out.append(body)
    out.append(tail)
    return len(front) + len(body) + len(tail)


def _tail(out_time_ms: int, group_first: bool, redelivery_counter: int) -> bytes:
    last_time_ms, last_group_first, last_redelivery_counter, tail = _LAST.tail
    if out_time_ms != last_time_ms or group_first != last_group_first or redelivery_counter != last_redelivery_counter:
        tail = DISPATCH_END.pack(out_time_ms, group_first, redelivery_counter)
        _LAST.tail = (out_time_ms, group_first, redelivery_counter, tail)
    return tail


def _around_out_time(encoded: bytes, frame: bytes, tail: bytes) -> tuple[bytes, bytes]:
    """What of *encoded*, the message in *frame*, precedes the time that *tail* begins with; and the whole tail.

    A blob message has fields of its own between its time and the dispatch's counter."""
    own = frame[end_of_common_fields(frame) :] if frame[0] == BLOB_TYPE else b""
    body = encoded[: len(encoded) - len(own) - OUT_TIME_FROM_END]
    return body, tail[:-REDELIVERY_COUNTER_BYTES] + own + tail[-REDELIVERY_COUNTER_BYTES:]


# ---- with slots ------------------------------------------------------------------------------------------------


@final
class SlotWriter:
    """Writes dispatches for a connection with a cache."""

    __slots__ = ("_cache",)

    def __init__(self, cache: SendCache) -> None:
        self._cache = cache

    def put(self, out: list[bytes], consumer: Consumer, message: Message, out_time_ms: int, group_first: bool) -> int:
        """As `put_dispatch`."""
        tail = _tail(out_time_ms, group_first, message.redelivery_counter)
        frame, prefix = message.frame, message.origin.prefix
        try:
            last_frame, cut = _LAST.slotted_cut
            if frame is not last_frame:
                cut = _cut(message)
                if len(frame) <= _CUT_BYTES_MAX:
                    _LAST.slotted_cut = (frame, cut)
            front = consumer.fronts.get(prefix) if consumer.generation == self._cache.generation else None
            if front is None:
                front = self._learn_front(consumer, prefix)
        except Unusual:
            return _put_independent(out, consumer, message, tail)
        header, middle = front
        size = len(header) + FIELDS_AT + len(middle) + len(cut) + len(tail)
        out.append(_size(size))
        out.append(header)
        out.append(_MESSAGE_HEADS[frame[0]])
        out.append(middle)
        out.append(cut)
        out.append(tail)
        return SIZE_BYTES + size

    def _learn_front(self, consumer: Consumer, prefix: bytes) -> tuple[bytes, bytes]:
        producer_end = end_of_resource_id(prefix, 0, PRODUCER_HEAD)
        target_end = after_destination(prefix, producer_end)
        transaction_end = end_of_transaction(prefix, target_end)
        original_end = after_destination(prefix, transaction_end)
        id_producer_at = original_end + MESSAGE_ID_HEAD_BYTES
        if prefix[original_end:id_producer_at] != MESSAGE_ID_HEAD:
            raise Unusual
        end_of_resource_id(prefix, id_producer_at, PRODUCER_HEAD)
        target, original = prefix[producer_end:target_end], prefix[transaction_end:original_end]
        cache = self._cache
        cache.make_room()
        # In the order in which it is read: a slot is filled before it is named.
        header = b"".join((DISPATCH_HEAD, cache.field(consumer.encoded_id), cache.field(target), PRESENT))
        middle = b"".join(
            (
                cache.field(prefix[:producer_end]),
                cache.field(target),
                _transaction(prefix[target_end:transaction_end]),
                _NOTHING if original == ABSENT else cache.field(original),
                MESSAGE_ID_HEAD,
                cache.field(prefix[id_producer_at:]),
            )
        )
        if not cache.has_added and len(prefix) <= PREFIX_BYTES_MAX:
            if consumer.generation != cache.generation or len(consumer.fronts) >= _FRONTS_MAX:
                consumer.fronts.clear()
                consumer.generation = cache.generation
            consumer.fronts[prefix] = (header, middle)
        return header, middle


def _cut(message: Message) -> bytes:
    """*message* from its counts to its time of leaving, without a slot. Raises `Unusual` for rare fields."""
    frame, tail_at = message.frame, message.tail_offset
    sequence_end = message.origin.id_end + COUNT_BYTES
    has_data_structure, has_target = frame[tail_at], frame[tail_at + TARGET_CONSUMER_AT]
    if frame[0] == BLOB_TYPE or has_data_structure or has_target:
        raise Unusual
    body_at = end_of_transaction(frame, sequence_end)
    return b"".join(
        (
            frame[sequence_end - COUNTS_BYTES : sequence_end],
            _transaction(frame[sequence_end:body_at]),
            frame[body_at : tail_at + TARGET_CONSUMER_AT],
            _NOTHING,
            frame[tail_at + TARGET_CONSUMER_AT + ABSENT_BYTES : -OUT_TIME_FROM_END],
        )
    )


def _transaction(encoded: bytes) -> bytes:
    """Each is named by a few messages only, and then never again: it gets no slot."""
    if encoded == ABSENT:
        return _NOTHING
    if encoded[1] != LOCAL_TRANSACTION_TYPE:
        return UNCACHED_FIELD + encoded
    connection = UNCACHED_FIELD + encoded[LOCAL_TRANSACTION_CONNECTION_AT:]
    return UNCACHED_FIELD + encoded[:LOCAL_TRANSACTION_CONNECTION_AT] + connection


def _put_independent(out: list[bytes], consumer: Consumer, message: Message, tail: bytes) -> int:
    """A message that has to be decoded and encoded again, without a slot, and so once for all who get it."""
    frame = message.frame
    last_frame, encoded = _LAST.independent
    if frame is not last_frame:
        encoded = _independent(frame)
        if len(frame) <= _CUT_BYTES_MAX:
            _LAST.independent = (frame, encoded)
    header = consumer.header(message.destination, UNCACHED_FIELD)
    body, tail = _around_out_time(encoded, frame, tail)
    size = len(header) + len(body) + len(tail)
    out += (_size(size), header, body, tail)
    return SIZE_BYTES + size


def _independent(frame: bytes) -> bytes:
    command = _PLAIN.decode(frame)
    assert command is not None
    writer = LooseWriter(CANONICAL, SendCache(0))
    write_structure(writer, command)
    return frame[:1] + writer.finish()


def _size(size: int) -> bytes:
    last_size, written = _LAST.size
    if size != last_size:
        written = size.to_bytes(SIZE_BYTES, "big")
        _LAST.size = (size, written)
    return written

"""Dispatches, spliced from the bytes in which their messages came, never encoded again.

Without a cache, a dispatch is the consumer's header, the message's frame, and a short tail. With one, ids and
destinations are slots (`cache.py`): they stand at the beginning of the message, where they are the same for all
messages of an `Origin`, and twice further on, where the usual message has nothing.

`tests/model/test_fast_agrees_with_plain.py` and `test_slots_agree_with_plain.py` hold this against the plain codec.
"""

from struct import Struct
from typing import Final, final

from ackwire.destinations import Destination
from ackwire.message import Message, Origin
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.cache import UNCACHED_FIELD, SendCache
from ackwire.wire.openwire.fast import (
    ABSENT,
    BLOB_TYPE,
    COUNT_BYTES,
    FIELDS_AT,
    MESSAGE_ID_HEAD,
    OUT_TIME_FROM_END,
    Unusual,
    after_destination,
    after_producer,
    after_transaction,
    destination_to_wire,
    end_of_common_fields,
    nested,
)

_CUT_BYTES_MAX: Final = 1024 * 1024
"""Bytes of a message that is remembered, as it was cut, for the next consumer."""

_MIDDLES_MAX: Final = 256
_MIDDLE_BYTES_MAX: Final = 2048
"""Remembered per connection: at most so many origins with slots, of this size."""

_TAIL: Final = Struct(">q?i")
_SIZE_BYTES: Final = 4
_DISPATCH_HEAD: Final = bytes((21, 0, 0, 0, 0, 0))
"""MessageDispatch, command id and response flag."""
_MESSAGE_HEAD_REST: Final = bytes(FIELDS_AT - 1)
"""Command id and response flag of the message in it, which concern nobody any more."""
_LOCAL_TRANSACTION: Final = 0x6F
_LOCAL_TRANSACTION_BYTES: Final = 10
"""Of a local transaction's id, up to the id of its connection."""


@final
class _Front:
    """What precedes the counts of a message, for one consumer, and what follows them, where there are slots."""

    __slots__ = ("absent", "absent_again", "data", "frame_bytes", "generation", "origin", "size_bytes", "type_id")

    def __init__(
        self,
        origin: Origin,
        type_id: int,
        frame_bytes: int,
        generation: int,
        fields: bytes,
        absent: bytes,
        absent_again: bytes,
    ) -> None:
        self.origin = origin
        self.type_id = type_id
        self.frame_bytes = frame_bytes
        self.generation = generation
        self.absent = absent
        """For the original transaction."""
        self.absent_again = absent_again
        """For the target consumer."""
        behind = frame_bytes - FIELDS_AT - len(origin.prefix) - 2 * len(ABSENT) + len(absent) + len(absent_again)
        size = len(fields) + behind + _SIZE_BYTES  # the redelivery counter is as long as the size
        self.data = size.to_bytes(_SIZE_BYTES, "big") + fields
        self.size_bytes = _SIZE_BYTES + size


@final
class Consumer:
    """The wire's end of a subscription: what stands in front of each dispatch to it."""

    __slots__ = ("_frame_bytes", "_front", "_headers", "_target", "consumer_id", "encoded_id", "slotted")

    def __init__(self, consumer_id: commands.ConsumerId) -> None:
        self.consumer_id = consumer_id
        self.encoded_id = nested(consumer_id)
        self._headers: dict[Destination, bytes] = {}
        # Of the last message: the next one often comes from there too, and has the same size.
        self._target: Destination | None = None
        self._frame_bytes = 0
        self._front = b""
        self.slotted: _Front | None = None
        """The same for a connection with slots."""

    def front(self, target: Destination, frame_bytes: int) -> bytes:
        """What precedes a message of that size from *target*."""
        if target is not self._target or frame_bytes != self._frame_bytes:
            header = self._headers.get(target)
            if header is None:
                header = self._headers[target] = self._header(target)
            # The redelivery counter is as long as the size.
            self._front = (len(header) + frame_bytes + _SIZE_BYTES).to_bytes(_SIZE_BYTES, "big") + header
            self._target = target
            self._frame_bytes = frame_bytes
        return self._front

    def _header(self, target: Destination) -> bytes:
        return _DISPATCH_HEAD + self.encoded_id + nested(destination_to_wire(target)) + b"\1"


@final
class _Last:
    """What was written last, in tuples that change as a whole, so that brokers in several threads may share this."""

    __slots__ = ("cut", "slotted_cut", "tail")

    def __init__(self) -> None:
        self.cut = (b"", b"")
        """A frame, and what of it a dispatch begins with: a message that many get is cut once."""
        self.slotted_cut = (b"", b"", b"", b"")
        """A frame, and the three pieces of it that stand between slots."""
        self.tail = (0, False, 0, _TAIL.pack(0, False, 0))
        """Time, whether it is the first of its group, redeliveries; and the bytes that say so: often the same."""


_LAST: Final = _Last()


def put_dispatch(out: list[bytes], consumer: Consumer, message: Message, out_time_ms: int, group_first: bool) -> int:
    """Append the pieces of a dispatch to *out*; the answer is how many bytes they have."""
    frame = message.frame
    front = consumer.front(message.destination, len(frame))
    tail = _tail(out_time_ms, group_first, message.redelivery_counter)
    if frame[0] == BLOB_TYPE:
        end = end_of_common_fields(frame)
        body = frame[: end - OUT_TIME_FROM_END]
        tail = tail[:-_SIZE_BYTES] + frame[end:] + tail[-_SIZE_BYTES:]
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
        tail = _TAIL.pack(out_time_ms, group_first, redelivery_counter)
        _LAST.tail = (out_time_ms, group_first, redelivery_counter, tail)
    return tail


@final
class SlotWriter:
    """Writes dispatches for a connection with a cache."""

    __slots__ = ("_cache", "_generation", "_middles")

    def __init__(self, cache: SendCache) -> None:
        self._cache = cache
        self._generation = cache.generation
        self._middles: dict[bytes, bytes] = {}
        """For prefixes of origins, as far as all of their slots are filled: the same with slots."""

    def put(self, out: list[bytes], consumer: Consumer, message: Message, out_time_ms: int, group_first: bool) -> int:
        """As `put_dispatch`; the answer is 0, and nothing is done, for a message that the plain codec has to encode."""
        frame, origin, tail_at = message.frame, message.origin, message.tail_offset
        id_end = origin.id_end
        # Without original transaction, data structure and target consumer.
        if frame[0] == BLOB_TYPE or frame[id_end + COUNT_BYTES] or frame[tail_at] or frame[tail_at + 1]:
            return 0
        front = consumer.slotted
        if (
            front is None
            or front.origin is not origin
            or front.frame_bytes != len(frame)
            or front.type_id != frame[0]
            or front.generation != self._cache.generation
        ):
            self._cache.make_room()
            try:
                front = self._front(consumer, origin, frame[0], len(frame))
            except Unusual:
                self._cache.roll_back()
                return 0
        last_frame, counts, body, end = _LAST.slotted_cut
        if frame is not last_frame:
            counts = frame[id_end - COUNT_BYTES : id_end + COUNT_BYTES]
            body = frame[id_end + COUNT_BYTES + 1 : tail_at + 1]
            end = frame[tail_at + 2 : -OUT_TIME_FROM_END]
            if len(frame) <= _CUT_BYTES_MAX:
                _LAST.slotted_cut = (frame, counts, body, end)
        out.append(front.data)
        out.append(counts)
        out.append(front.absent)
        out.append(body)
        out.append(front.absent_again)
        out.append(end)
        out.append(_tail(out_time_ms, group_first, message.redelivery_counter))
        return front.size_bytes

    def _front(self, consumer: Consumer, origin: Origin, type_id: int, frame_bytes: int) -> _Front:
        """In the order in which it is read: a slot is filled before it is named."""
        cache = self._cache
        prefix = origin.prefix
        producer_end = after_producer(prefix, 0)
        target_end = after_destination(prefix, producer_end)
        fields = b"".join(
            (
                _DISPATCH_HEAD,
                cache.field(consumer.encoded_id),
                cache.field(prefix[producer_end:target_end]),
                b"\1",
                type_id.to_bytes(1, "big"),
                _MESSAGE_HEAD_REST,
                self._middle(prefix, producer_end, target_end),
            )
        )
        absent = cache.field(ABSENT)
        absent_again = cache.field(ABSENT)
        front = _Front(origin, type_id, frame_bytes, cache.generation, fields, absent, absent_again)
        consumer.slotted = None if cache.has_added else front
        return front

    def _middle(self, prefix: bytes, producer_end: int, target_end: int) -> bytes:
        """*prefix* with slots."""
        cache = self._cache
        if cache.generation != self._generation:
            self._middles.clear()
            self._generation = cache.generation
        middle = self._middles.get(prefix)
        if middle is not None:
            return middle
        transaction_end = after_transaction(prefix, target_end)
        original_end = after_destination(prefix, transaction_end)
        id_producer_at = original_end + len(MESSAGE_ID_HEAD)
        if prefix[original_end:id_producer_at] != MESSAGE_ID_HEAD:
            raise Unusual
        after_producer(prefix, id_producer_at)
        middle = b"".join(
            (
                cache.field(prefix[:producer_end]),
                cache.field(prefix[producer_end:target_end]),
                self._transaction(prefix[target_end:transaction_end]),
                cache.field(prefix[transaction_end:original_end]),
                MESSAGE_ID_HEAD,
                cache.field(prefix[id_producer_at:]),
            )
        )
        if not cache.has_added and len(prefix) <= _MIDDLE_BYTES_MAX:
            if len(self._middles) >= _MIDDLES_MAX:
                self._middles.clear()
            self._middles[prefix] = middle
        return middle

    def _transaction(self, encoded: bytes) -> bytes:
        """Each is named by a few messages only, and then never again: it gets no slot."""
        if encoded == ABSENT:
            return self._cache.field(encoded)
        if encoded[1] != _LOCAL_TRANSACTION:
            return UNCACHED_FIELD + encoded
        connection = self._cache.field(encoded[_LOCAL_TRANSACTION_BYTES:])
        return UNCACHED_FIELD + encoded[:_LOCAL_TRANSACTION_BYTES] + connection

"""The records of the journal, byte by byte as `docs/formats/journal.md` says.

`Kind` is the type of a record; the functions below it pack and unpack payloads. Whatever cannot be unpacked raises
`Damaged`: a checksum that fits vouches for the bytes, not for the program that wrote them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum, IntFlag
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from crc32c import crc32c

from ackwire.jms.destinations import Destination, Kind, derived_destination
from ackwire.jms.message import Message
from ackwire.store.contract import DurableKey, DurableRecord, Place

ALIGNMENT: Final = 8
MARKER: Final = b"\xac\x57"
HEADER: Final = Struct(">2sBBIIQQ")
CHECKSUM: Final = Struct(">I")
HEADER_BYTES: Final = HEADER.size + CHECKSUM.size
PAYLOAD_BYTES_MAX: Final = 0xFFFF_FFFF - 64


class RecordKind(IntEnum):
    """The type of a record."""

    OPENED = 1
    CLOSED = 2
    PLACE = 3
    PLACE_GONE = 4
    MESSAGE = 5
    REMOVED = 6
    PURGED = 7
    DURABLE = 8
    JOB = 9
    JOB_DUE = 10
    JOB_GONE = 11
    PREPARED = 12
    DECIDED = 13
    COMMITTED = 14
    COUNTS = 15
    GAPS = 16
    STATE_RECORD = 17
    STATE_RECORD_GONE = 18


class Flag(IntFlag):
    """How a record is joined to its neighbours."""

    NONE = 0
    GOES_ON = 1
    CONTINUES = 2


class Damaged(Exception):
    """Bytes that are not what the format says."""


class Record(NamedTuple):
    """A record as it was read."""

    kind: int
    flags: int
    epoch: int
    number: int
    synced: int
    payload: "memoryview"  # mypyc knows no such name when it makes the class
    segment: int
    offset: int
    size_bytes: int
    """With header and padding."""


def padded(size_bytes: int) -> int:
    """*size_bytes*, rounded up to where the next record may begin."""
    return (size_bytes + ALIGNMENT - 1) & -ALIGNMENT


def record_bytes(payload_bytes: int) -> int:
    """The size of a record with a payload of that length."""
    return padded(HEADER_BYTES + payload_bytes)


_SHORT_BYTES: Final = 1024
_PADDING: Final = [bytes(-length % ALIGNMENT) for length in range(ALIGNMENT)]


def seed_of(store_id: bytes) -> int:
    """The initial value of a store's checksums. Clients do not know it, so they cannot forge a record."""
    return crc32c(store_id)


def pack_record(
    kind: int, flags: int, epoch: int, number: int, synced: int, pieces: Sequence[bytes | memoryview], seed: int
) -> list[bytes | memoryview]:
    """The bytes of a record, in pieces."""
    length = 0
    for piece in pieces:
        length += len(piece)
    assert length <= PAYLOAD_BYTES_MAX, "the wire lets no frame in that is longer"
    header = HEADER.pack(MARKER, kind, flags, length, epoch, number, synced)
    first = pieces[0]
    if isinstance(first, bytes) and len(first) < _SHORT_BYTES:  # to copy it costs less than a second call
        checksum = crc32c(header + first, seed)
    else:
        checksum = crc32c(first, crc32c(header, seed))
    for piece in pieces[1:]:
        checksum = crc32c(piece, checksum)
    return [header, CHECKSUM.pack(checksum), *pieces, _PADDING[(HEADER_BYTES + length) % ALIGNMENT]]


def read_record(data: memoryview, base: int, offset: int, segment: int, seed: int) -> Record | None:
    """The record at *offset* of a segment of which *data* is the part from *base* on; None if there is no good one."""
    start = offset - base
    if start < 0 or len(data) - start < HEADER_BYTES:
        return None
    marker, kind, flags, length, epoch, number, synced = HEADER.unpack_from(data, start)
    if marker != MARKER or length > len(data) - start - HEADER_BYTES:
        return None
    payload = data[start + HEADER_BYTES : start + HEADER_BYTES + length]
    checksum = crc32c(payload, crc32c(data[start : start + HEADER.size], seed))
    if checksum != CHECKSUM.unpack_from(data, start + HEADER.size)[0]:
        return None
    info = (kind, flags, epoch, number, synced, payload, segment, offset, record_bytes(length))
    return tuple.__new__(Record, info)  # a restart makes many


# ---- texts and bytes -------------------------------------------------------------------------------------------

_LENGTH: Final = Struct(">I")
_U64: Final = Struct(">Q")
_I64: Final = Struct(">q")
_U32: Final = Struct(">I")
_U16: Final = Struct(">H")


def pack_bytes(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data


def pack_text(text: str) -> bytes:
    # Names that clients invent may hold half a surrogate pair, which UTF-8 alone does not know.
    return pack_bytes(text.encode("utf-8", "surrogatepass"))


class Reader:
    """Reads a payload from its start; raises `Damaged` where it ends too early."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._position = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._position

    def unpack(self, struct: Struct) -> tuple[int, ...]:
        try:
            values = struct.unpack_from(self._data, self._position)
        except StructError:
            raise Damaged(f"a payload ends at {len(self._data)}, in the middle of a value") from None
        self._position += struct.size
        return values

    def u64(self) -> int:
        return self.unpack(_U64)[0]

    def i64(self) -> int:
        return self.unpack(_I64)[0]

    def u32(self) -> int:
        return self.unpack(_U32)[0]

    def u8(self) -> int:
        return self.take(1)[0]

    def take(self, length: int) -> bytes:
        if length > self.left:
            raise Damaged(f"a payload ends at {len(self._data)}, {length} bytes from {self._position} on were expected")
        self._position += length
        return bytes(self._data[self._position - length : self._position])

    def bytes(self) -> bytes:
        return self.take(self.u32())

    def text(self) -> str:
        try:
            return self.bytes().decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise Damaged("a text is not UTF-8") from None

    def place_name(self) -> Place:
        kind, first, second = self.u8(), self.text(), self.text()
        return DurableKey(first, second) if kind == _DURABLE_PLACE else _destination(first, second)


# ---- messages --------------------------------------------------------------------------------------------------

_MESSAGE: Final = Struct(">QqIIHbH")
_REMOVED: Final = Struct(">IQI")
_PLACE_IDS: Final = [Struct(f">{count}I") for count in range(17)]


def message_overhead(place_count: int) -> int:
    """Payload bytes in front of a message's frame."""
    return _MESSAGE.size + place_count * _U32.size


def pack_message_head(message: Message, place_ids: Sequence[int]) -> bytes:
    """The payload of a message record before its frame."""
    count = len(place_ids)
    ids = _PLACE_IDS[count] if count < len(_PLACE_IDS) else Struct(f">{count}I")
    return _MESSAGE.pack(
        message.sequence,
        message.expiration,
        message.redelivery_counter,
        message.origin.id_end,
        len(message.key),
        message.priority,
        count,
    ) + ids.pack(*place_ids)


def repack_message_head(payload: memoryview, place_ids: Sequence[int]) -> bytes:
    """The same head for fewer places."""
    count = len(place_ids)
    return bytes(payload[: _MESSAGE.size - 2]) + _U16.pack(count) + Struct(f">{count}I").pack(*place_ids)


class StoredMessage(NamedTuple):
    """A message record, unpacked."""

    sequence: int
    expiration: int
    redeliveries: int
    producer_key: bytes
    producer_count: int
    priority: int
    place_ids: tuple[int, ...]
    frame: "memoryview"


def unpack_message(payload: memoryview) -> StoredMessage:
    try:
        sequence, expiration, redeliveries, key_end, key_bytes, priority, count = _MESSAGE.unpack_from(payload, 0)
        ids = _PLACE_IDS[count] if count < len(_PLACE_IDS) else Struct(f">{count}I")
        place_ids = ids.unpack_from(payload, _MESSAGE.size)
    except StructError:
        raise Damaged("a message record is too short") from None
    frame = payload[_MESSAGE.size + ids.size :]
    if not _I64.size <= key_bytes <= key_end <= len(frame):
        raise Damaged("a message record names a key that is not in its frame")
    key = bytes(frame[key_end - key_bytes : key_end])
    count = int.from_bytes(key[-_I64.size :], signed=True)
    info = (sequence, expiration, redeliveries, key[: -_I64.size], count, priority, place_ids, frame)
    return tuple.__new__(StoredMessage, info)


def message_at(data: memoryview, start: int, sequence: int, seed: int) -> tuple[bytes, int]:
    """Frame and redeliveries of the message whose record begins at *start* of *data*: `read_record` and
    `unpack_message` in one, for those who read many."""
    try:
        marker, _, _, length, _, _, _ = HEADER.unpack_from(data, start)
        payload, end = start + HEADER_BYTES, start + HEADER_BYTES + length
        checksum = crc32c(data[payload:end], crc32c(data[start : start + HEADER.size], seed))
        if marker != MARKER or end > len(data) or checksum != CHECKSUM.unpack_from(data, start + HEADER.size)[0]:
            raise Damaged("its checksum is wrong")
        found, _, redeliveries, _, _, _, count = _MESSAGE.unpack_from(data, payload)
    except StructError:
        raise Damaged("its record is cut off") from None
    if found != sequence:
        raise Damaged(f"message {found} is in its place")
    return bytes(data[payload + _MESSAGE.size + count * _U32.size : end]), redeliveries


def read_message_at(
    read: Callable[[int, int], bytes], offset: int, record_bytes: int, sequence: int, seed: int
) -> tuple[bytes, int]:
    """`message_at` for a large record of a file: *read* reads its frame by itself, so that it is never copied.

    A copy of 32 MiB takes 70 ms or more, in which no other thread of Python runs.
    """
    try:
        head = read(offset, HEADER_BYTES + _MESSAGE.size)
        marker, _, _, length, _, _, _ = HEADER.unpack_from(head)
        found, _, redeliveries, _, _, _, count = _MESSAGE.unpack_from(head, HEADER_BYTES)
        head_bytes, end = len(head) + count * _U32.size, HEADER_BYTES + length
        if marker != MARKER or not head_bytes <= end <= record_bytes:
            raise Damaged("its checksum is wrong")
        head += read(offset + len(head), count * _U32.size)
        frame = read(offset + head_bytes, end - head_bytes)
        checksum = crc32c(frame, crc32c(head[HEADER_BYTES:], crc32c(head[: HEADER.size], seed)))
        if checksum != CHECKSUM.unpack_from(head, HEADER.size)[0]:
            raise Damaged("its checksum is wrong")
    except StructError:
        raise Damaged("its record is cut off") from None
    if found != sequence:
        raise Damaged(f"message {found} is in its place")
    return frame, redeliveries


def pack_removed(place_id: int, sequence: int, segment: int) -> bytes:
    return _REMOVED.pack(place_id, sequence, segment)


def unpack_removed(payload: memoryview) -> Iterable[tuple[int, int, int]]:
    """Place id, sequence and segment of each."""
    if len(payload) % _REMOVED.size:
        raise Damaged("a record of removals has an odd length")
    return _REMOVED.iter_unpack(payload)


def pack_purged(place_id: int, last_sequence: int, kept: Iterable[int]) -> bytes:
    return b"".join((_U32.pack(place_id), _U64.pack(last_sequence), *map(_U64.pack, sorted(kept))))


def unpack_purged(payload: memoryview) -> tuple[int, int, frozenset[int]]:
    """Place id, last sequence, what stays."""
    reader = Reader(payload)
    place_id, last_sequence = reader.u32(), reader.u64()
    return place_id, last_sequence, frozenset(unpack_numbers(payload[12:]))


def pack_numbers(numbers: Iterable[int]) -> bytes:
    return b"".join(map(_U64.pack, numbers))


def unpack_numbers(payload: memoryview) -> list[int]:
    if len(payload) % _U64.size:
        raise Damaged("a list of numbers has an odd length")
    return [number for (number,) in _U64.iter_unpack(payload)]


# ---- places and subscriptions ----------------------------------------------------------------------------------

_DESTINATION_PLACE: Final = 0
_DURABLE_PLACE: Final = 1


def pack_place_name(place: Place) -> bytes:
    """A place by its name, for what must outlive its number."""
    if isinstance(place, DurableKey):
        kind, first, second = _DURABLE_PLACE, place.client_id, place.name
    else:
        kind, first, second = _DESTINATION_PLACE, place.kind.value, place.name
    return bytes((kind,)) + pack_text(first) + pack_text(second)


def pack_place(place_id: int, place: Place, dispatched_up_to: int) -> bytes:
    return _U32.pack(place_id) + pack_place_name(place) + _U64.pack(dispatched_up_to)


def unpack_place(payload: memoryview) -> tuple[int, Place, int]:
    """Its id, the place, and up to which sequence its messages were handed out."""
    reader = Reader(payload)
    place_id, place = reader.u32(), reader.place_name()
    return place_id, place, reader.u64() if reader.left else 0  # the first brokers did not write it


def _destination(kind: str, name: str) -> Destination:
    try:
        return derived_destination(Kind(kind), name)
    except ValueError:
        raise Damaged(f"{kind!r} is no kind of destination") from None


def pack_place_gone(place_id: int) -> bytes:
    return _U32.pack(place_id)


def unpack_place_gone(payload: memoryview) -> int:
    return Reader(payload).u32()


def pack_durable(place_id: int, record: DurableRecord) -> bytes:
    key, where = record.key, record.destination
    selector = b"\0" if record.selector is None else b"\1" + pack_text(record.selector)
    texts = map(pack_text, (key.client_id, key.name, where.kind.value, where.name))
    return b"".join((_U32.pack(place_id), *texts, selector, bytes((record.no_local,))))


def unpack_durable(payload: memoryview) -> tuple[int, DurableRecord]:
    """Its place's id, and the subscription."""
    reader = Reader(payload)
    place_id, key = reader.u32(), DurableKey(reader.text(), reader.text())
    where = _destination(reader.text(), reader.text())
    selector = reader.text() if reader.u8() else None
    return place_id, DurableRecord(key, where, selector, bool(reader.u8()))


# ---- what is remembered of producers ---------------------------------------------------------------------------


def pack_counts(counts: Iterable[tuple[bytes, int]]) -> bytes:
    return b"".join(pack_bytes(producer) + _I64.pack(count) for producer, count in counts)


def unpack_counts(payload: memoryview) -> Iterator[tuple[bytes, int]]:
    reader = Reader(payload)
    while reader.left:
        yield reader.bytes(), reader.i64()

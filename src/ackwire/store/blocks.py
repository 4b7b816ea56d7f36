"""How the index holds messages: in blocks, each for so many sequences of one place (`docs/formats/journal.md`, Index).

Neighbours come and go together, so a block costs a checkpoint, a look or a restart hardly more than one message would.
The fields of its messages are in columns, because a caller that needs one field mostly needs it of all messages.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import accumulate, chain
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from ackwire.store.contract import WaitingMessages
from ackwire.store.index import DamagedIndex
from ackwire.store.journal.record import ALIGNMENT, HEADER_BYTES, message_overhead

BLOCK_BITS: Final = 7
BLOCK_MESSAGES: Final = 1 << BLOCK_BITS
"""Sequences that share a block: with so many it fits into a page."""

_LOW_BITS: Final = BLOCK_MESSAGES - 1
_KEY: Final = Struct(">IQ")
_CHECKSUM: Final = Struct(">I")
_RECORD_OVERHEAD: Final = HEADER_BYTES + message_overhead(0)
_COLUMNS: Final = ("B", "I", "I", "I", "H", "b", "q")
"""The lower bits of the sequence, and the fields of an `Entry`."""


class Entry(NamedTuple):
    """Where a message's record is, and what a restart needs to know of it."""

    segment: int
    offset: int
    frame_bytes: int
    place_count: int
    priority: int
    expiration: int

    @property
    def record_bytes(self) -> int:
        return record_bytes(self)

    @property
    def share_bytes(self) -> int:
        """The share of the record's bytes that each of its places keeps alive."""
        return share_bytes(self)


def record_bytes(entry: Entry) -> int:
    """What the record of a message takes, with header and padding; asked for every message that ends."""
    return (_RECORD_OVERHEAD + 4 * entry[3] + entry[2] + ALIGNMENT - 1) & -ALIGNMENT


def share_bytes(entry: Entry) -> int:
    """The share of the record's bytes that each of its places keeps alive."""
    return record_bytes(entry) // entry[3]


Block = dict[int, Entry]
"""By sequence, in order."""

_new_entry: Final = partial(tuple.__new__, Entry)
_ENTRY_BYTES: Final = Struct(">" + "".join(_COLUMNS)).size
_BLOCKS: Final = [Struct(">" + "".join(f"{count}{it}" for it in _COLUMNS)) for count in range(BLOCK_MESSAGES + 1)]
"""By how many messages there are."""
_FIELD_STRUCTS: Final = [Struct(f">{it}") for it in _COLUMNS]
_FIELDS: Final = list(zip(_FIELD_STRUCTS, accumulate((it.size for it in _FIELD_STRUCTS), initial=0), strict=False))[1:]
"""Each field of an `Entry`, and how many bytes of columns stand before it for each message."""


def block_key(place_id: int, sequence: int) -> bytes:
    """Of the block that *sequence* belongs to."""
    return _KEY.pack(place_id, sequence >> BLOCK_BITS)


def sealed(key: bytes, value: bytes) -> bytes:
    """*value* as it stands in the index under *key*: with a checksum of both, because LMDB has none."""
    return value + _CHECKSUM.pack(crc32c(value, crc32c(key)))


def unsealed(key: bytes, data: bytes) -> bytes:
    """Raises `DamagedIndex` if the index has changed what it was given."""
    value = data[: -_CHECKSUM.size]
    if len(data) < _CHECKSUM.size or crc32c(value, crc32c(key)) != int.from_bytes(data[-_CHECKSUM.size :]):
        raise DamagedIndex("the checksum of an entry of the index is wrong")
    return value


def pack_block(key: bytes, block: Block) -> bytes:
    """*block*, which need not be in order, sealed."""
    sequences = sorted(block)
    columns = zip(*map(block.__getitem__, sequences), strict=True)
    values = chain(map(_LOW_BITS.__and__, sequences), chain.from_iterable(columns))
    return sealed(key, _BLOCKS[len(sequences)].pack(*values))


def unpack_block(key: bytes, data: bytes) -> Block:
    """Raises `DamagedIndex` if it is not what was packed."""
    columns = _columns(key, data)
    entries: Iterator[Entry] = map(_new_entry, zip(*columns[1:], strict=True))
    return dict(zip(columns[0], entries, strict=True))


def _columns(key: bytes, data: bytes) -> list[tuple[int, ...]]:
    """Of the block under *key*; the sequences are whole."""
    value, count, first = _checked(key, data)
    values = _BLOCKS[count].unpack(value)
    columns = [values[start : start + count] for start in range(0, len(values), count)]
    columns[0] = tuple(map(first.__or__, columns[0]))
    return columns


def _checked(key: bytes, data: bytes) -> tuple[bytes, int, int]:
    """The columns of a block, how many messages it has, and the first sequence that belongs to it."""
    value = unsealed(key, data)
    count, rest = divmod(len(value), _ENTRY_BYTES)
    if rest or not 0 < count <= BLOCK_MESSAGES or len(key) != _KEY.size:
        raise DamagedIndex(f"a block of the index has {len(data)} bytes under a key of {len(key)}")
    return value, count, _KEY.unpack(key)[1] << BLOCK_BITS


def entry_of(key: bytes, data: bytes, sequence: int) -> Entry | None:
    """One message of the block under *key*, for which not all are unpacked; None if it has none such."""
    value, count, _ = _checked(key, data)
    index = value.find(sequence & _LOW_BITS, 0, count)
    if index < 0:
        return None
    return Entry(*(it.unpack_from(value, count * before + index * it.size)[0] for it, before in _FIELDS))


def segment_counts(key: bytes, data: bytes) -> Iterable[tuple[int, int]]:
    """How many messages the block under *key* has in each segment."""
    value, count, _ = _checked(key, data)
    segments = value[count : 5 * count]
    if segments == segments[:4] * count:  # nearly always
        return ((int.from_bytes(segments[:4]), count),)
    return Counter(_columns(key, data)[1]).items()


def waiting_of(blocks: Iterable[tuple[bytes, bytes]]) -> WaitingMessages:
    """What a restart needs to know of the messages of *blocks*: whole columns are copied."""
    found = WaitingMessages()
    sequences, expirations, priorities, sizes = found.sequences, found.expirations, found.priorities, found.sizes
    for key, data in blocks:
        value, count, first = _checked(key, data)
        sequences.extend(map(first.__or__, value[:count]))
        sizes.frombytes(value[9 * count : 13 * count])
        priorities.frombytes(value[15 * count : 16 * count])
        expirations.frombytes(value[16 * count :])
    if sys.byteorder == "little":
        sizes.byteswap()
        expirations.byteswap()
    return found

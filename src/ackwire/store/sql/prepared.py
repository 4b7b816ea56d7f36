"""What `ACKWIRE_RECORDS` keeps of a prepared transaction: what ActiveMQ's tables cannot tell."""

from struct import Struct
from typing import Final, NamedTuple

from ackwire.store.contract import Place
from ackwire.store.journal.record import Reader, pack_bytes, pack_place_name, pack_text

_COUNT: Final = Struct(">I")
_SEQUENCE: Final = Struct(">q")


class PreparedRecord(NamedTuple):
    """A prepared transaction, but for what is in `ACTIVEMQ_MSGS`."""

    transaction: bytes
    user: str
    frames: tuple[bytes, ...]
    """Its sends, if they are not in ActiveMQ's table."""
    acks: tuple[tuple[Place, int], ...]
    shared_sends: int
    """Sends that are in ActiveMQ's table. If none is there any more, ActiveMQ has decided the transaction."""


def pack_prepared(record: PreparedRecord) -> bytes:
    return b"".join(
        (
            pack_bytes(record.transaction),
            pack_text(record.user),
            _COUNT.pack(record.shared_sends),
            _COUNT.pack(len(record.frames)),
            *map(pack_bytes, record.frames),
            _COUNT.pack(len(record.acks)),
            *(pack_place_name(place) + _SEQUENCE.pack(sequence) for place, sequence in record.acks),
        )
    )


def unpack_prepared(data: bytes) -> PreparedRecord:
    reader = Reader(memoryview(data))
    transaction, user, shared_sends = reader.bytes(), reader.text(), reader.u32()
    frames = tuple(reader.bytes() for _ in range(reader.u32()))
    acks = tuple((reader.place_name(), reader.i64()) for _ in range(reader.u32()))
    return PreparedRecord(transaction, user, frames, acks, shared_sends)

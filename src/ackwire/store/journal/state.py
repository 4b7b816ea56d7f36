"""Jobs and prepared transactions as payloads: they hold messages, and ids that only the wire can read."""

from struct import Struct
from typing import Final, NamedTuple

from ackwire.errors import AckwireError
from ackwire.message import Message
from ackwire.store.contract import ScheduledJob, StoredForm
from ackwire.store.journal.record import Damaged, Reader, pack_bytes, pack_text

_TIMES: Final = Struct(">qqqqq")
_COUNT: Final = Struct(">I")
_ACK: Final = Struct(">IQ")


def pack_job(job: ScheduledJob, *, with_message: bool) -> bytes:
    """A whole job, or when a known one is due next."""
    return b"".join(
        (
            pack_text(job.job_id),
            _TIMES.pack(job.start_ms, job.due_ms, job.delay_ms, job.period_ms, job.repeats_left),
            pack_text(job.cron),
            bytes((job.fresh_ids,)),
            pack_bytes(job.message.frame if with_message else b""),
        )
    )


def unpack_job(payload: memoryview, form: StoredForm, known: ScheduledJob | None) -> ScheduledJob:
    """A job; *known* is what was known of it, and has its message if the payload has not."""
    reader = Reader(payload)
    job_id = reader.text()
    start_ms, due_ms, delay_ms, period_ms, repeats_left = reader.unpack(_TIMES)
    cron, fresh_ids, frame = reader.text(), bool(reader.u8()), reader.bytes()
    if frame:
        message = read_message(form, frame)
    elif known is not None:
        message = known.message
    else:
        raise Damaged(f"job {job_id} is due, and its message is not known")
    return ScheduledJob(job_id, message, start_ms, due_ms, delay_ms, period_ms, repeats_left, cron, fresh_ids)


def job_id_of(payload: memoryview) -> str:
    return Reader(payload).text()


class PreparedRecord(NamedTuple):
    """A prepared transaction, as it is stored."""

    transaction: bytes
    frames: tuple[bytes, ...]
    acks: tuple[tuple[int, int], ...]
    """Place ids and sequences."""


def pack_prepared(prepared: PreparedRecord) -> bytes:
    return b"".join(
        (
            pack_bytes(prepared.transaction),
            _COUNT.pack(len(prepared.frames)),
            *map(pack_bytes, prepared.frames),
            _COUNT.pack(len(prepared.acks)),
            *(_ACK.pack(place_id, sequence) for place_id, sequence in prepared.acks),
        )
    )


def unpack_prepared(payload: memoryview) -> PreparedRecord:
    reader = Reader(payload)
    transaction = reader.bytes()
    frames = tuple(reader.bytes() for _ in range(reader.u32()))
    acks = [reader.unpack(_ACK) for _ in range(reader.u32())]
    return PreparedRecord(transaction, frames, tuple((place_id, sequence) for place_id, sequence in acks))


def read_message(form: StoredForm, frame: bytes) -> Message:
    """The message in a frame whose checksum was right; raises `Damaged` if it is none all the same."""
    try:
        return form.message(frame)
    except AckwireError as error:
        raise Damaged(f"a stored message cannot be read: {error}") from None

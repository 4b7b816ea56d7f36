"""Jobs, prepared transactions and state records as payloads."""

import sys
from array import array
from struct import Struct
from typing import Final, NamedTuple

from ackwire.errors import AckwireError
from ackwire.jms.destinations import Destination
from ackwire.jms.message import Message
from ackwire.store.contract import BatchRecord, CursorRecord, ScheduledJob, StagedRecord, StateRecord, StoredForm
from ackwire.store.journal.record import Damaged, Reader, pack_bytes, pack_place_name, pack_text
from ackwire.util.sequence_runs import Runs

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
    user: str = ""


def pack_prepared(prepared: PreparedRecord) -> bytes:
    return b"".join(
        (
            pack_bytes(prepared.transaction),
            _COUNT.pack(len(prepared.frames)),
            *map(pack_bytes, prepared.frames),
            _COUNT.pack(len(prepared.acks)),
            *(_ACK.pack(place_id, sequence) for place_id, sequence in prepared.acks),
            pack_text(prepared.user) if prepared.user else b"",
        )
    )


def unpack_prepared(payload: memoryview) -> PreparedRecord:
    reader = Reader(payload)
    transaction = reader.bytes()
    frames = tuple(reader.bytes() for _ in range(reader.u32()))
    acks = [reader.unpack(_ACK) for _ in range(reader.u32())]
    user = reader.text() if reader.left else ""  # older records end before it
    return PreparedRecord(transaction, frames, tuple((place_id, sequence) for place_id, sequence in acks), user)


# ---- state records ---------------------------------------------------------------------------------------------

_CURSOR, _STAGED, _BATCH = 1, 2, 3
_I64: Final = Struct(">q")


def pack_state_record(note: StateRecord) -> bytes:
    """A state record with its key in front, so that it can be found without reading the rest."""
    return pack_text(note.key) + _pack_note(note)


def _pack_note(note: StateRecord) -> bytes:
    match note:
        case CursorRecord():
            selector = b"\0" if note.selector is None else b"\1" + pack_text(note.selector)
            terms = pack_text(note.name) + pack_place_name(note.place) + pack_place_name(note.destination) + selector
            numbers = _I64.pack(note.committed) + _I64.pack(note.removed)
            runs = pack_bytes(_pack_runs(note.held)) + pack_bytes(_pack_runs(note.unsafe))
            return bytes((_CURSOR,)) + terms + numbers + runs
        case StagedRecord():
            head = pack_text(note.producer) + pack_text(note.part) + _I64.pack(note.batch) + _I64.pack(note.since_ms)
            held = (pack_place_name(place) + pack_bytes(_pack_runs(runs)) for place, runs in note.held)
            return bytes((_STAGED, *head, note.committed)) + _COUNT.pack(len(note.held)) + b"".join(held)
        case BatchRecord():
            return bytes((_BATCH,)) + pack_text(note.producer) + _I64.pack(note.batch) + _I64.pack(note.committed_ms)


def unpack_state_record(payload: memoryview) -> StateRecord:
    reader = Reader(payload)
    reader.text()
    match reader.u8():
        case 1:
            name, place, destination = reader.text(), reader.place_name(), reader.place_name()
            if not isinstance(destination, Destination):
                raise Damaged(f"cursor {name} reads {destination!r}, which is no destination")
            selector = reader.text() if reader.u8() else None
            committed, removed = reader.i64(), reader.i64()
            held, unsafe = _unpack_runs(reader.bytes()), _unpack_runs(reader.bytes())
            return CursorRecord(name, place, destination, selector, committed, removed, held, unsafe)
        case 2:
            producer, part, batch, since_ms = reader.text(), reader.text(), reader.i64(), reader.i64()
            committed = bool(reader.u8())
            places = [(reader.place_name(), _unpack_runs(reader.bytes())) for _ in range(reader.u32())]
            return StagedRecord(producer, part, batch, since_ms, committed, tuple(places))
        case 3:
            return BatchRecord(reader.text(), reader.i64(), reader.i64())
        case kind:
            raise Damaged(f"notes of kind {kind} are not known")


def state_record_key_of(payload: memoryview) -> str:
    return Reader(payload).text()


def _pack_runs(runs: Runs) -> bytes:
    packed = array("Q", runs)  # there may be a hundred thousand
    if sys.byteorder == "little":
        packed.byteswap()
    return packed.tobytes()


def _unpack_runs(data: bytes) -> Runs:
    if len(data) % 16:
        raise Damaged("a list of runs has an odd length")
    runs = array("Q", data)
    if sys.byteorder == "little":
        runs.byteswap()
    return tuple(runs)


def read_message(form: StoredForm, frame: bytes) -> Message:
    """The message in a frame whose checksum was right; raises `Damaged` if it is none all the same."""
    try:
        return form.message(frame)
    except AckwireError as error:
        raise Damaged(f"a stored message cannot be read: {error}") from None

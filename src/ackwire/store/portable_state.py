"""How each kind of state travels: one rule for all that a store keeps besides messages, producers and commits.

`RULES` is the list. An export that meets state without a rule fails, and so does the test that compares the list with
`StateValue`; `CARRIED` says the same of every type of record. So a new kind of state cannot be left out in silence.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from ackwire.errors import AckwireError
from ackwire.jms.message import Message
from ackwire.store.contract import (
    BatchRecord,
    CursorRecord,
    DurableKey,
    DurableRecord,
    Place,
    PreparedTransaction,
    ScheduledJob,
    StagedRecord,
    Store,
    StoredForm,
)
from ackwire.store.journal.record import RecordKind
from ackwire.store.journal.state import PreparedRecord
from ackwire.store.portable_rows import (
    BadRow,
    Row,
    as_bytes,
    bytes_of,
    destination_of,
    list_of,
    number_of,
    optional_text_of,
    place_from_row,
    place_to_row,
    runs_from_row,
    text_of,
)
from ackwire.util.sequence_runs import Runs

CARRIED: Final[Mapping[RecordKind, str]] = {
    RecordKind.OPENED: "the first row has the last sequence",
    RecordKind.CLOSED: "the first row has the last sequence",
    RecordKind.PLACE: "rows of kind place",
    RecordKind.PLACE_GONE: "the place has no row",
    RecordKind.MESSAGE: "rows of kind message; its producer's count: rows of kind producer",
    RecordKind.REMOVED: "the message's row does not name the place",
    RecordKind.PURGED: "the messages have no rows",
    RecordKind.DURABLE: "rows of kind durable",
    RecordKind.JOB: "rows of kind job",
    RecordKind.JOB_DUE: "rows of kind job",
    RecordKind.JOB_GONE: "the job has no row",
    RecordKind.PREPARED: "rows of kind prepared",
    RecordKind.DECIDED: "the transaction has no row",
    RecordKind.COMMITTED: "rows of kind commit",
    RecordKind.COUNTS: "rows of kind producer, and of kind crash",
    RecordKind.GAPS: "nothing: the files of the new store are its own",
    RecordKind.STATE_RECORD: "rows of kind cursor, staged and batch",
    RecordKind.STATE_RECORD_GONE: "the note has no row",
}
"""In what way an export carries what each type of record tells."""


class Exporting(Protocol):
    """What a rule may ask while it writes rows."""

    def place_of(self, place_id: int) -> Place | None:
        """The place with that id."""
        ...

    def portray(self, message: Message) -> Mapping[str, Any]:
        """What readers want to know of a message."""
        ...


class Renumbering(Protocol):
    """What a rule may ask while it records: messages may have got other sequences on the way."""

    def new_sequence(self, sequence: int) -> int: ...

    def new_runs(self, runs: Runs) -> Runs: ...

    def acknowledged(self, place: Place, sequence: int) -> Message:
        """What a store needs of a message that has that sequence in the rows, and is acknowledged."""
        ...


class Decoding(Protocol):
    """What a rule may ask while it reads rows."""

    @property
    def form(self) -> StoredForm: ...

    def decoded(self, frame: bytes) -> Message:
        """The message in *frame*. Raises `BadRow`."""
        ...

    def numbered(self, sequence: int) -> Message: ...


@dataclass(frozen=True, slots=True)
class StateRule:
    """How one kind of state becomes rows, and rows that state again."""

    kind: str
    """Of its rows."""
    stored: type
    """What it is in the catalog."""
    order: Callable[[Any], Any]
    """In which its rows stand, whatever the order was in which they were recorded."""
    to_row: Callable[[Exporting, Any], Row]
    from_row: Callable[[Decoding, Row], Any]
    identity: Callable[[Any], Hashable]
    """Of what `from_row` gives: two with the same cannot both be there."""
    existing: Callable[[Store], Mapping[Hashable, Any]]
    """What a store has of this kind, by identity."""
    record: Callable[[Store, Renumbering, Any], None]
    may_be_repeated: bool = False
    """Whether one that is there already may be imported again, if it is the same."""


# ---- durable subscriptions -------------------------------------------------------------------------------------


def _durable_to_row(_: Exporting, record: DurableRecord) -> Row:
    return {
        **place_to_row(record.key),
        "destination": repr(record.destination),
        "selector": record.selector,
        "no_local": record.no_local,
    }


def _durable_from_row(_: Decoding, row: Row) -> DurableRecord:
    selector = row.get("selector")
    return DurableRecord(
        DurableKey(text_of(row, "client_id"), text_of(row, "subscription")),
        destination_of(row.get("destination")),
        selector if isinstance(selector, str) else None,
        bool(row.get("no_local")),
    )


# ---- jobs ------------------------------------------------------------------------------------------------------


def _job_to_row(exporting: Exporting, job: ScheduledJob) -> Row:
    return {
        "job_id": job.job_id,
        "start_ms": job.start_ms,
        "due_ms": job.due_ms,
        "delay_ms": job.delay_ms,
        "period_ms": job.period_ms,
        "repeats_left": job.repeats_left,
        "cron": job.cron,
        "fresh_ids": job.fresh_ids,
        **exporting.portray(job.message),
        "frame": job.message.frame,
    }


def _job_from_row(decoding: Decoding, row: Row) -> ScheduledJob:
    return ScheduledJob(
        text_of(row, "job_id"),
        decoding.decoded(bytes_of(row, "frame")),
        start_ms=number_of(row, "start_ms"),
        due_ms=number_of(row, "due_ms"),
        delay_ms=number_of(row, "delay_ms"),
        period_ms=number_of(row, "period_ms"),
        repeats_left=number_of(row, "repeats_left"),
        cron=text_of(row, "cron"),
        fresh_ids=bool(row.get("fresh_ids")),
    )


# ---- prepared transactions -------------------------------------------------------------------------------------


def _prepared_to_row(exporting: Exporting, prepared: PreparedRecord) -> Row:
    acks = ((exporting.place_of(place_id), sequence) for place_id, sequence in prepared.acks)
    return {
        "transaction": prepared.transaction,
        "sends": list(prepared.frames),
        "acks": [{**place_to_row(place), "sequence": sequence} for place, sequence in acks if place is not None],
        "user": prepared.user or None,
    }


def _prepared_from_row(decoding: Decoding, row: Row) -> PreparedTransaction:
    try:
        transaction = decoding.form.transaction_from_bytes(bytes_of(row, "transaction"))
    except AckwireError as error:
        raise BadRow(f"its transaction id cannot be read: {error}") from None
    sends = tuple(decoding.decoded(as_bytes(frame)) for frame in list_of(row, "sends"))
    acks = tuple((place_from_row(it), decoding.numbered(number_of(it, "sequence"))) for it in list_of(row, "acks"))
    return PreparedTransaction(transaction, sends, acks, optional_text_of(row, "user") or "")


def _prepare(store: Store, renumbering: Renumbering, prepared: PreparedTransaction) -> None:
    acks = ((place, renumbering.acknowledged(place, it.sequence)) for place, it in prepared.acks)
    store.prepare(replace(prepared, acks=tuple(acks)))


# ---- cursors and batches ---------------------------------------------------------------------------------------


def _cursor_to_row(_: Exporting, note: CursorRecord) -> Row:
    return {
        "cursor": note.name,
        "places": [place_to_row(note.place)],
        "destination": repr(note.destination),
        "selector": note.selector,
        "committed": note.committed,
        "removed": note.removed,
        "held": list(note.held),
        "unsafe": list(note.unsafe),
    }


def _cursor_from_row(_: Decoding, row: Row) -> CursorRecord:
    places = list_of(row, "places")
    if len(places) != 1:
        raise BadRow(f"a cursor is in one place, and not in {len(places)}")
    return CursorRecord(
        text_of(row, "cursor"),
        place_from_row(places[0]),
        destination_of(row.get("destination")),
        optional_text_of(row, "selector"),
        number_of(row, "committed"),
        number_of(row, "removed"),
        runs_from_row(row, "held"),
        runs_from_row(row, "unsafe"),
    )


def _put_cursor(store: Store, renumbering: Renumbering, note: CursorRecord) -> None:
    store.put_state_record(
        replace(note, held=renumbering.new_runs(note.held), unsafe=renumbering.new_runs(note.unsafe))
    )


def _staged_to_row(_: Exporting, note: StagedRecord) -> Row:
    return {
        "batch_producer": note.producer,
        "part": note.part,
        "batch": note.batch,
        "since_ms": note.since_ms,
        "is_committed": note.committed,
        "held_in": [{**place_to_row(place), "held": list(runs)} for place, runs in note.held],
    }


def _staged_from_row(_: Decoding, row: Row) -> StagedRecord:
    return StagedRecord(
        text_of(row, "batch_producer"),
        text_of(row, "part"),
        number_of(row, "batch"),
        number_of(row, "since_ms"),
        bool(row.get("is_committed")),
        tuple((place_from_row(it), runs_from_row(it, "held")) for it in list_of(row, "held_in")),
    )


def _put_staged(store: Store, renumbering: Renumbering, note: StagedRecord) -> None:
    store.put_state_record(replace(note, held=tuple((place, renumbering.new_runs(runs)) for place, runs in note.held)))


def _batch_to_row(_: Exporting, note: BatchRecord) -> Row:
    return {"batch_producer": note.producer, "batch": note.batch, "committed_ms": note.committed_ms}


def _batch_from_row(_: Decoding, row: Row) -> BatchRecord:
    return BatchRecord(text_of(row, "batch_producer"), number_of(row, "batch"), number_of(row, "committed_ms"))


def _notes(store: Store) -> Mapping[Hashable, Any]:
    return {note.key: note for note in store.state_records()}


RULES: Final = (
    StateRule(
        "durable",
        DurableRecord,
        order=lambda it: (it.key.client_id, it.key.name),
        to_row=_durable_to_row,
        from_row=_durable_from_row,
        identity=lambda it: it.key,
        existing=lambda store: {it.key: it for it in store.durables()},
        record=lambda store, _, it: store.add_durable(it),
        may_be_repeated=True,
    ),
    StateRule(
        "job",
        ScheduledJob,
        order=lambda it: it.job_id,
        to_row=_job_to_row,
        from_row=_job_from_row,
        identity=lambda it: it.job_id,
        existing=lambda store: {it.job_id: it for it in store.jobs()},
        record=lambda store, _, it: store.add_job(it),
    ),
    StateRule(
        "prepared",
        PreparedRecord,
        order=lambda it: it.transaction,
        to_row=_prepared_to_row,
        from_row=_prepared_from_row,
        identity=lambda it: it.transaction_id,
        existing=lambda store: {it.transaction_id: it for it in store.prepared()},
        record=_prepare,
    ),
    StateRule(
        "cursor",
        CursorRecord,
        order=lambda it: it.key,
        to_row=_cursor_to_row,
        from_row=_cursor_from_row,
        identity=lambda it: it.key,
        existing=_notes,
        record=_put_cursor,
    ),
    StateRule(
        "staged",
        StagedRecord,
        order=lambda it: it.key,
        to_row=_staged_to_row,
        from_row=_staged_from_row,
        identity=lambda it: it.key,
        existing=_notes,
        record=_put_staged,
    ),
    StateRule(
        "batch",
        BatchRecord,
        order=lambda it: it.key,
        to_row=_batch_to_row,
        from_row=_batch_from_row,
        identity=lambda it: it.key,
        existing=_notes,
        record=lambda store, _, it: store.put_state_record(it),
    ),
)

RULE_OF_KIND: Final = {rule.kind: rule for rule in RULES}
RULE_OF_VALUE: Final[Mapping[type, StateRule]] = {rule.stored: rule for rule in RULES}
NOT_CARRIED: Final = frozenset({tuple})
"""Types of state that an export leaves out: the list of gaps between the files, which are not the new store's."""

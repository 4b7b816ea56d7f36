"""A store as rows, and rows as a store: what `ackwire store export` and `import` write and read (SEMANTICS K2).

A row is a dictionary. Its `kind` says what it is: `ackwire-export` first, then `durable`, `message`, `job`, `prepared`,
`producer` and `commit`, and `end` last, with the number of rows before it, so that a file that was cut off is noticed.
A message is its canonical frame; the other fields of its row are for readers, but for places, sequence and redelivery
count, which the frame does not have. Bytes are `bytes` here, and base64 in JSON.

Messages come in order of sequence, once each, with all places where they wait.
"""

import heapq
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, NamedTuple, final

from ackwire.destinations import Destination, parse_destination
from ackwire.errors import AckwireError
from ackwire.message import Message, Origin
from ackwire.runs import sequences_of
from ackwire.store.blocks import Entry
from ackwire.store.catalog import Catalog
from ackwire.store.contract import (
    DurableKey,
    DurableRecord,
    Place,
    PreparedTransaction,
    ScheduledJob,
    StagedNote,
    StoredForm,
)
from ackwire.store.engine import JournalStore
from ackwire.store.journal.record import Damaged
from ackwire.store.journal.state import PreparedRecord
from ackwire.store.journal.unwritten import UnwrittenCounts
from ackwire.store.look import StoreLook
from ackwire.store.workshop import OpenedStore

HEADER_KIND: Final = "ackwire-export"
END_KIND: Final = "end"
VERSION: Final = 1
BYTES_FIELDS: Final = frozenset({"frame", "transaction", "producer"})
"""Fields that hold bytes; `sends` holds a list of them."""

_NOBODY: Final = Origin(
    prefix=b"",
    destination=parse_destination("queue://nobody"),
    transaction=None,
    connection_id=None,
    producer_key=b"",
    id_end=0,
)
_SETTLE_BYTES: Final = 8 << 20
"""What is imported before it is synced."""

Row = dict[str, Any]
Portray = Callable[[Message], Mapping[str, Any]]
Restamp = Callable[[Message, int], Message]


class BadRow(Exception):
    """A row that cannot be imported."""


# ---- places ----------------------------------------------------------------------------------------------------


def place_to_row(place: Place) -> Row:
    if isinstance(place, DurableKey):
        return {"client_id": place.client_id, "subscription": place.name}
    return {"destination": repr(place)}


def place_from_row(row: Mapping[str, Any]) -> Place:
    destination = row.get("destination")
    if destination is not None:
        return _destination(destination)
    return DurableKey(_text(row, "client_id"), _text(row, "subscription"))


def _destination(text: object) -> Destination:
    if not isinstance(text, str) or "://" not in text:
        raise BadRow(f"{text!r} is not a destination such as queue://orders")
    try:
        return parse_destination(text)
    except AckwireError as error:
        raise BadRow(str(error)) from None


# ---- export ----------------------------------------------------------------------------------------------------


@final
class Export:
    """The rows of a store, and what could not be read on the way."""

    def __init__(self, look: StoreLook, portray: Portray) -> None:
        self._look = look
        self._portray = portray
        self._catalog: Catalog = look.started().catalog
        self.unreadable: list[str] = []
        self.rows_written = 0
        self.messages = 0

    def rows(self) -> Iterator[Row]:
        """Everything, in order."""
        yield {"kind": HEADER_KIND, "version": VERSION}
        for row in self._content():
            self.rows_written += 1
            yield row
        yield {"kind": END_KIND, "rows": self.rows_written}

    def _content(self) -> Iterator[Row]:
        values = [item.value for item in self._catalog.state.values()]
        durables = [it for it in values if isinstance(it, DurableRecord)]
        yield from map(_durable_row, sorted(durables, key=lambda it: (it.key.client_id, it.key.name)))
        yield from self._messages()
        jobs = [it for it in values if isinstance(it, ScheduledJob)]
        yield from map(self._job_row, sorted(jobs, key=lambda it: it.job_id))
        prepared = [it for it in values if isinstance(it, PreparedRecord)]
        yield from map(self._prepared_row, sorted(prepared))
        for producer, (count, _) in self._catalog.counts.items():
            yield {"kind": "producer", "producer": producer, "count": count}
        for transaction in self._catalog.commits:
            yield {"kind": "commit", "transaction": transaction}

    def _messages(self) -> Iterator[Row]:
        done_bytes, all_bytes = 0, self._catalog.live_bytes
        for sequence, entry, places in self._located():
            done_bytes += entry.record_bytes
            self._look.progress("exporting messages", min(done_bytes, all_bytes), all_bytes)
            try:
                message = self._look.reader.read(entry, sequence)
            except Damaged as error:
                where = ", ".join(map(repr, places))
                self.unreadable.append(
                    f"message {sequence} of {where}, at {entry.offset} of segment {entry.segment}, is left out: {error}"
                )
                continue
            self.messages += 1
            yield {
                "kind": "message",
                "places": [place_to_row(place) for place in sorted(places, key=repr)],
                "sequence": sequence,
                "redelivery_count": max(message.redelivery_counter, self._was_handed_out(sequence, places)),
                **self._portray(message),
                "frame": message.frame,
            }

    def _was_handed_out(self, sequence: int, places: list[Place]) -> bool:
        """Whether a consumer may have had it, in any of its *places*: one mark too many is better than none."""
        return any(sequence <= self._catalog.places[place].handed_out for place in places)

    def _located(self) -> Iterator[tuple[int, Entry, list[Place]]]:
        """Each message once, in order of sequence."""

        def of_place(place: Place) -> Iterator[tuple[int, Entry, Place]]:
            facts = self._catalog.places[place]
            return ((sequence, entry, place) for sequence, entry in self._catalog.waiting(facts))

        merged = heapq.merge(*map(of_place, self._catalog.places), key=lambda it: it[:2])
        staged = self._staged()
        for (sequence, entry), group in groupby(merged, key=lambda it: it[:2]):
            places = [place for _, _, place in group if (place, sequence) not in staged]
            if places:
                yield sequence, entry, places

    def _staged(self) -> set[tuple[Place, int]]:
        """What belongs to batches that nobody has committed: it is not there yet."""
        notes = (item.value for item in self._catalog.state.values())
        parts = [note for note in notes if isinstance(note, StagedNote)]
        return {(place, it) for part in parts for place, runs in part.held for it in sequences_of(runs)}

    def _job_row(self, job: ScheduledJob) -> Row:
        return {
            "kind": "job",
            "job_id": job.job_id,
            "start_ms": job.start_ms,
            "due_ms": job.due_ms,
            "delay_ms": job.delay_ms,
            "period_ms": job.period_ms,
            "repeats_left": job.repeats_left,
            "cron": job.cron,
            "fresh_ids": job.fresh_ids,
            **self._portray(job.message),
            "frame": job.message.frame,
        }

    def _prepared_row(self, prepared: PreparedRecord) -> Row:
        acks = ((self._catalog.place_of(place_id), sequence) for place_id, sequence in prepared.acks)
        return {
            "kind": "prepared",
            "transaction": prepared.transaction,
            "sends": list(prepared.frames),
            "acks": [{**place_to_row(place), "sequence": sequence} for place, sequence in acks if place is not None],
        }


def _durable_row(record: DurableRecord) -> Row:
    return {
        "kind": "durable",
        **place_to_row(record.key),
        "destination": repr(record.destination),
        "selector": record.selector,
        "no_local": record.no_local,
    }


# ---- import ----------------------------------------------------------------------------------------------------


class Placed(NamedTuple):
    """A message and where it waits."""

    message: Message
    places: list[Place]


class Counted(NamedTuple):
    """How far a producer has counted."""

    producer: bytes
    last_count: int


class Given(NamedTuple):
    """What a row says, understood."""

    kind: str
    value: DurableRecord | ScheduledJob | PreparedTransaction | Placed | Counted | bytes
    size_bytes: int = 0


@dataclass(slots=True)
class ImportReport:
    """What was imported."""

    counts: dict[str, int] = field(default_factory=dict)
    reassigned: int = 0
    """Messages that got another sequence, because theirs was taken."""


@final
class RowReader:
    """Understands rows, and makes sure that they are a whole export. Use one for each reading."""

    def __init__(self, form: StoredForm) -> None:
        self._form = form

    def read(self, rows: Iterable[Row]) -> Iterator[Given]:
        """What the rows say. Raises `BadRow`, with the number of the row."""
        number, ended = 0, False
        for number, row in enumerate(rows, 1):
            try:
                if ended:
                    raise BadRow("something follows the end")
                if number == 1:
                    self._check_header(row)
                elif row.get("kind") == END_KIND:
                    ended = True
                    if row.get("rows") != number - 2:
                        raise BadRow(f"{row.get('rows')} rows were written before it, and {number - 2} are here")
                else:
                    yield self._given(row)
            except BadRow as error:
                raise BadRow(f"row {number}: {error}") from None
        if not ended:
            raise BadRow(f"it was cut off: after {number} rows there is no end")

    def _check_header(self, row: Row) -> None:
        if row.get("kind") != HEADER_KIND:
            raise BadRow("this is not an export of Ackwire")
        if row.get("version") != VERSION:
            raise BadRow(f"it has version {row.get('version')}, and this program knows {VERSION}")

    def _given(self, row: Row) -> Given:
        kind = row.get("kind")
        match kind:
            case "message":
                return self._message(row)
            case "durable":
                return Given(kind, _durable(row))
            case "job":
                return self._job(row)
            case "prepared":
                return self._prepared(row)
            case "producer":
                return Given(kind, Counted(_bytes(row, "producer"), _number(row, "count")))
            case "commit":
                return Given(kind, _bytes(row, "transaction"))
        raise BadRow(f"rows of kind {kind!r} are not known")

    def _message(self, row: Row) -> Given:
        frame = _bytes(row, "frame")
        message = self._decoded(frame)
        sequence = _number(row, "sequence")
        if message.sequence != sequence:
            raise BadRow(f"its frame has the sequence {message.sequence}, and the row says {sequence}")
        message.redelivery_counter = _number(row, "redelivery_count")
        if not 0 <= message.redelivery_counter < 1 << 31:
            raise BadRow(f"a redelivery count of {message.redelivery_counter}, which no client could be told")
        places = [place_from_row(place) for place in row.get("places") or ()]
        if not places:
            raise BadRow("the message is in no place")
        return Given("message", Placed(message, places), len(frame))

    def _job(self, row: Row) -> Given:
        frame = _bytes(row, "frame")
        job = ScheduledJob(
            _text(row, "job_id"),
            self._decoded(frame),
            start_ms=_number(row, "start_ms"),
            due_ms=_number(row, "due_ms"),
            delay_ms=_number(row, "delay_ms"),
            period_ms=_number(row, "period_ms"),
            repeats_left=_number(row, "repeats_left"),
            cron=_text(row, "cron"),
            fresh_ids=bool(row.get("fresh_ids")),
        )
        return Given("job", job, len(frame))

    def _prepared(self, row: Row) -> Given:
        try:
            transaction = self._form.transaction_from_bytes(_bytes(row, "transaction"))
        except AckwireError as error:
            raise BadRow(f"its transaction id cannot be read: {error}") from None
        sends = tuple(self._decoded(_as_bytes(frame)) for frame in row.get("sends") or ())
        acks = tuple((place_from_row(ack), numbered(_number(ack, "sequence"))) for ack in row.get("acks") or ())
        return Given("prepared", PreparedTransaction(transaction, sends, acks), sum(len(it.frame) for it in sends))

    def _decoded(self, frame: bytes) -> Message:
        try:
            return self._form.message(frame)
        except AckwireError as error:
            raise BadRow(f"its frame cannot be read: {error}") from None


def _durable(row: Row) -> DurableRecord:
    selector = row.get("selector")
    return DurableRecord(
        DurableKey(_text(row, "client_id"), _text(row, "subscription")),
        _destination(row.get("destination")),
        selector if isinstance(selector, str) else None,
        bool(row.get("no_local")),
    )


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str):
        raise BadRow(f"{name} must be a text, and is {value!r}")
    return value


def _number(row: Mapping[str, Any], name: str) -> int:
    value = row.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not -(1 << 63) <= value < 1 << 63:
        raise BadRow(f"{name} must be a number of 64 bits, and is {value!r}")
    return value


def _bytes(row: Mapping[str, Any], name: str) -> bytes:
    return _as_bytes(row.get(name))


def _as_bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise BadRow("bytes are missing")
    return value


def numbered(sequence: int) -> Message:
    """What the store needs of a message that is acknowledged, or cannot be read: its sequence."""
    message = Message(
        frame=b"",
        key=b"",
        origin=_NOBODY,
        persistent=True,
        priority=0,
        expiration=0,
        timestamp=0,
        properties_offset=0,
        tail_offset=0,
    )
    message.sequence = sequence
    return message


def refuse_what_is_there(store: JournalStore, given: Iterable[Given]) -> int:
    """Raise `BadRow` if one of *given* would change what *store* holds; the answer is the bytes to come."""
    durables = {record.key: record for record in store.durables()}
    jobs = {job.job_id for job in store.jobs()}
    prepared = {transaction.transaction_id for transaction in store.prepared()}
    size_bytes = 0
    for it in given:
        size_bytes += it.size_bytes
        match it.value:
            case DurableRecord(key=key) if durables.get(key, it.value) != it.value:
                raise BadRow(f"{key!r} is there already, with another topic or selector")
            case ScheduledJob(job_id=job_id) if job_id in jobs:
                raise BadRow(f"job {job_id} is there already")
            case PreparedTransaction(transaction_id=transaction_id) if transaction_id in prepared:
                raise BadRow(f"prepared transaction {transaction_id} is there already")
    return size_bytes


def is_empty(store: JournalStore) -> bool:
    """Whether nothing is kept here: what a producer once counted does not count."""
    has_messages = any(facts.message_count for facts in store.catalog.places.values())
    return not has_messages and not store.durables() and not store.jobs() and not store.prepared()


class Full(Exception):
    """The store has no room for more."""


@final
class Import:
    """Writes what was given into a store."""

    def __init__(self, opened: OpenedStore, restamp: Restamp) -> None:
        self._opened = opened
        self._store = opened.store
        self._restamp = restamp
        self._new_sequences: dict[int, int] = {}
        self._unsettled_bytes = 0
        self._counts = UnwrittenCounts(opened.store.catalog)
        self.report = ImportReport()

    def run(self, given: Iterable[Given], on_bytes: Callable[[int], None] = lambda _: None) -> None:
        """Import all. Raises `Full` and `StoreFailed`; what was imported until then stays, and is whole."""
        for it in given:
            self._take(it)
            self.report.counts[it.kind] = self.report.counts.get(it.kind, 0) + 1
            self._unsettled_bytes += it.size_bytes
            if self._unsettled_bytes > _SETTLE_BYTES:
                self._settle()
            on_bytes(it.size_bytes)
        if self._counts.counts:  # behind the messages, which may say less
            self._store.record_again(self._counts)
        self._settle()

    def _settle(self) -> None:
        self._opened.settle()
        self._unsettled_bytes = 0
        self._store.check_space()
        full = self._store.full()
        if full is not None:
            raise Full(full)

    def _take(self, given: Given) -> None:
        match given.value:
            case DurableRecord() as record:
                self._store.add_durable(record)
            case ScheduledJob() as job:
                self._store.add_job(job)
            case PreparedTransaction() as transaction:
                acks = tuple((place, numbered(self._new(it.sequence))) for place, it in transaction.acks)
                self._store.prepare(PreparedTransaction(transaction.transaction_id, transaction.sends, acks))
            case Placed(message, places):
                self._append(message, places)
            case Counted(producer, count):
                self._counts.counts[producer] = count
            case bytes() as transaction_bytes:
                self._store.record_commit(transaction_bytes)

    def _append(self, message: Message, places: list[Place]) -> None:
        sequence = message.sequence
        taken = self._store.last_sequence()
        if sequence <= taken:
            redeliveries = message.redelivery_counter
            message = self._restamp(message, taken + 1)
            message.redelivery_counter = redeliveries
            self._new_sequences[sequence] = message.sequence
            self.report.reassigned += 1
        self._store.append(message, places)

    def _new(self, sequence: int) -> int:
        return self._new_sequences.get(sequence, sequence)


# ---- JSON ------------------------------------------------------------------------------------------------------


def to_json(row: Row) -> Row:
    """*row* with base64 in place of bytes."""
    names = BYTES_FIELDS | {"sends"}
    return {name: _to_base64(value) if name in names else value for name, value in row.items()}


def _to_base64(value: bytes | list[bytes]) -> str | list[str]:
    if isinstance(value, list):
        return [b64encode(item).decode("ascii") for item in value]
    return b64encode(value).decode("ascii")


def from_json(row: object) -> Row:
    """A row as it was before `to_json`. Raises `BadRow`."""
    if not isinstance(row, dict):
        raise BadRow("a row is a JSON object")
    try:
        for name in BYTES_FIELDS & row.keys():
            row[name] = b64decode(row[name], validate=True)
        if "sends" in row:
            row["sends"] = [b64decode(item, validate=True) for item in row["sends"]]
    except (Base64Error, TypeError, ValueError):
        raise BadRow("what should be base64 is not") from None
    return row

"""Turns a chunk of the spool into a file of Parquet (`tabular/audit_schema.py` has the columns).

A file has a name that follows from its first event, is written under another name, synced and renamed: a reader of
the directory sees whole files only, and a conversion that is done again after a crash replaces its file by the same.
"""

import logging
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ackwire.audit.chunks import Chunk, Section
from ackwire.audit.records import ACK_OF_CURSOR, FOLLOWER_FIELDS, RECORD_FIELDS, UNKNOWN, Block, Run
from ackwire.audit.spool import EVENTS
from ackwire.broker.auditing import Event
from ackwire.broker.in_flight import AckKind
from ackwire.tabular.audit_schema import AUDIT

_RECORD: Final = np.dtype(list(RECORD_FIELDS))
_FOLLOWER: Final = np.dtype(list(FOLLOWER_FIELDS))
_FIELD_TYPES: Final = {
    name: np.dtype(np.int32) if kind == "<u4" else np.dtype(kind).newbyteorder("=")
    for name, kind in RECORD_FIELDS
    if name != "followers"
}
"""Numbers of texts are small, and Arrow has signed ones."""
_COMBINED: Final = 8
"""Kinds below this are bits."""
_EVENT_NAMES: Final = [event.name.lower() for event in Event]
_ACK_NAMES: Final = ("standard", "individual", "unmatched", "topic", "cursor")
_ACKS_OF: Final = np.zeros(256, np.int8)
"""For each kind of ack the index of its name; records without one are of the usual kind."""
_ACKS_OF[[AckKind.INDIVIDUAL, AckKind.UNMATCHED, ACK_OF_CURSOR]] = (1, 2, 4)
_DELTA: Final = dict.fromkeys(("time", "number", "sequence", "sent_time", "count"), "DELTA_BINARY_PACKED")
_WITH_DICTIONARY: Final = [
    it.name for it in AUDIT if it.name not in _DELTA and it.name != "message_id" and it.type != pa.bool_()
]
_TEXT: Final = pa.dictionary(pa.int32(), pa.string())
_AS_WRITTEN: Final = pa.schema(
    [(it.name, _TEXT if it.type == pa.string() and it.name != "message_id" else it.type) for it in AUDIT]
)
"""Texts that repeat are handed over as numbers; in the file they are plain strings, as `AUDIT` says."""
_MS: Final = 1000

_log = logging.getLogger(__name__)

Array = np.ndarray[Any, Any]


def _event_table() -> Array:
    """For each kind of record and each position in it, which event that is, as an index of the names."""
    table = np.zeros((max(Event) + 1, 3), np.int8)
    order = list(Event)
    for kind in range(max(Event) + 1):
        bits = [order.index(bit) for bit in (Event.SENT, Event.STORED, Event.DISPATCHED) if kind & bit]
        found = bits if kind < _COMBINED else [order.index(Event(kind))]
        table[kind, : len(found)] = found
    return table


_EVENTS_OF: Final = _event_table()
_SENT, _STORED, _DISPATCHED, _ACKED, _CENSUS, _DURABLE = (
    list(Event).index(it)
    for it in (Event.SENT, Event.STORED, Event.DISPATCHED, Event.ACKED, Event.CENSUS, Event.DURABLE)
)


def convert(path: Path, directory: Path, warn: Callable[[str], None] = _log.warning) -> Path | None:
    """Make the Parquet file of the chunk at *path*, below *directory*; None if nothing was in it.

    Raises `OSError` if the disk refuses, and `ValueError` if the chunk makes no sense. The chunk stays.
    """
    chunk = Chunk(path)
    writer: _File | None = None
    try:
        for section in chunk.sections():
            if writer is None:
                writer = _File(directory, chunk, section)
            writer.write(section_table(chunk.run, section))
        if chunk.unread_bytes:
            warn(f"{path} ends in the middle of a block: {chunk.unread_bytes} bytes are left out")
        return None if writer is None else writer.finish()
    except BaseException:
        if writer is not None:
            writer.abandon()
        raise


@final
class _File:
    """A file of Parquet that is being written."""

    def __init__(self, directory: Path, chunk: Chunk, first: Section) -> None:
        time_ns = int(np.frombuffer(first.blocks[0].records, _RECORD, 1)["time_ns"][0])
        begun = datetime.fromtimestamp(time_ns / 1e9, UTC)
        folder = directory / EVENTS / f"date={begun:%Y-%m-%d}" / f"hour={begun:%H}"
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{chunk.run.run}-{chunk.first_number:015}.parquet"
        self._temporary = folder / f".{self._path.name}.tmp"
        self._writer = pq.ParquetWriter(
            self._temporary,
            _AS_WRITTEN,
            compression="snappy",  # in CPU it costs half of zstd here, and most of it repeats anyway
            use_dictionary=_WITH_DICTIONARY,
            column_encoding={**_DELTA, "message_id": "PLAIN"},
            store_schema=False,  # dictionaries here, plain strings for every reader
            write_statistics=["time", "number", "sequence"],
        )

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table, row_group_size=len(table))

    def finish(self) -> Path:
        """On the medium, under its name."""
        self._writer.close()
        _sync(self._temporary)
        os.replace(self._temporary, self._path)
        _sync(self._path.parent)
        return self._path

    def abandon(self) -> None:
        self._writer.close()
        self._temporary.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _by_field(blocks: Sequence[Block]) -> dict[str, Array]:
    """The fields of all records and their followers, one row for each; each field is one array.
    Block by block, because one fits into the processor's cache."""
    length = sum(block.messages for block in blocks)
    fields = {name: np.empty(length, _FIELD_TYPES[name]) for name in _FIELD_TYPES}
    start = 0
    for block in blocks:
        end = start + block.messages
        _fill({name: values[start:end] for name, values in fields.items()}, block)
        start = end
    return fields


def _fill(fields: dict[str, Array], block: Block) -> None:
    records = np.frombuffer(block.records, _RECORD)
    if not block.followers:
        for name, values in fields.items():
            values[:] = records[name]
        return
    followers = np.frombuffer(block.followers, _FOLLOWER)
    messages = followers["messages"]
    told = len(records) + messages.sum()
    if records["followers"].sum() != len(followers) or told != block.messages:
        raise ValueError(f"a block of {block.messages} messages tells of {told}")
    record_of = np.repeat(np.arange(len(records)), records["followers"])
    rows = np.bincount(record_of, messages, len(records)).astype(np.int64) + 1
    for name, values in fields.items():
        values[:] = np.repeat(records[name], rows)
    follows = np.ones(block.messages, np.bool_)
    follows[np.cumsum(rows) - rows] = False
    begins = np.cumsum(messages) - messages
    offset = np.repeat(followers["offset"] - begins, messages) + np.arange(messages.sum())
    fields["size"][follows] = np.repeat(followers["size"], messages)
    fields["consumer"][follows] = np.repeat(followers["consumer"], messages)
    fields["sequence"][follows] += offset
    fields["count"][follows] += offset
    fields["time_ns"][follows] += np.repeat(followers["delay_ns"], messages)


def section_table(run: Run, section: Section) -> pa.Table:
    """The events of a section as a table with the columns of `AUDIT`."""
    return _Columns(run, section).table()


@final
class _Columns:
    """Records, one row for each event, and how each column follows from them."""

    def __init__(self, run: Run, section: Section) -> None:
        self._run = run
        self._texts = section.texts
        self._first_number = section.blocks[0].first_number
        self._records = _by_field(section.blocks)
        counts = self._records["events"]
        self._rows = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
        """For each event its record."""
        self._length = len(self._rows)
        self._fields: dict[str, Array] = {}
        ends = np.cumsum(counts, dtype=np.int32)
        position = np.arange(self._length, dtype=np.int32) - np.repeat(ends - counts, counts)
        self._event = _EVENTS_OF[self._field("kind"), position]
        self._comes_in = self._event <= _STORED
        """Sent or stored: it has to do with a producer and with no consumer."""
        self._is_count = (self._event == _CENSUS) | (self._event == _DURABLE)
        """Its sequence is a number of something else."""

    def _field(self, name: str) -> Array:
        """A field of the records, as small as it may be, once for each event."""
        values = self._fields.get(name)
        if values is None:
            values = self._fields[name] = self._records[name].take(self._rows)
        return values

    def table(self) -> pa.Table:
        texts, is_message = self._texts, self._field("persistent") != UNKNOWN
        consumer = np.where(self._comes_in, np.int32(0), self._field("consumer"))
        columns: dict[str, pa.Array] = {
            "time": _times(self._field("time_ns") // _MS),
            "event": _texts(_EVENT_NAMES, self._event),
            "run": self._constant(self._run.run),
            "number": pa.array(np.arange(self._first_number, self._first_number + self._length)),
            "broker": self._constant(self._run.broker),
            "place": self._place(),
            "destination": _texts([it.destination for it in texts.origins], self._field("origin") - 1),
            "sequence": self._where(self._field("sequence"), (self._field("sequence") != 0) & ~self._is_count),
            "message_id": self._message_id(),
            "consumer": _texts([it.consumer for it in texts.consumers], consumer - 1),
            "connection": self._of_either([it.connection for it in texts.consumers], "consumer", "connection"),
            "client_id": _texts([it.client_id for it in texts.consumers], consumer - 1),
            "sent_time": _times(self._field("sent_ms") * _MS, self._field("sent_ms") != 0),
            "size": self._where(self._field("size"), self._field("size") != 0),
            "priority": self._where(self._field("priority").astype(np.int32), is_message),
            "persistent": self._where(self._field("persistent") == 1, is_message),
            "redelivery_count": self._where(self._field("redeliveries"), is_message),
            "transaction": self._of_either(texts.words, "transaction", "transaction"),
            "ack_type": self._ack_type(),
            "cause": _texts(texts.words, self._field("cause") - 1),
            "count": self._where(self._field("sequence"), self._is_count),
        }
        return pa.table([columns[name] for name in AUDIT.names], schema=_AS_WRITTEN)

    def _constant(self, text: str) -> pa.Array:
        return _texts([text], np.zeros(self._length, np.int32))

    def _where(self, values: Array, is_there: Array) -> pa.Array:
        return pa.array(values) if is_there.all() else pa.array(values, mask=~is_there)

    def _place(self) -> pa.Array:
        """Its own, or for subscribers of topics the destination of the message."""
        places = self._texts.places
        place = self._field("place")
        is_topic = place == 0
        if is_topic.any():
            origin = self._field("origin")
            place = np.where(is_topic & (origin > 0), origin + np.int32(len(places)), place)
        place = np.where((self._event == _SENT) | (self._event > _CENSUS), np.int32(0), place)
        return _texts([*places, *(it.destination for it in self._texts.origins)], place - 1)

    def _of_either(self, of_others: Sequence[str | None], field: str, of_origin: str) -> pa.Array:
        """The producer's value for events of sends, and the value of *field* for all others."""
        of_producers = [getattr(it, of_origin) for it in self._texts.origins]
        if not any(of_others) and not any(of_producers):
            return pa.nulls(self._length, _TEXT)
        origin = self._field("origin")
        of_producer = np.where(origin > 0, origin + np.int32(len(of_others)), np.int32(0))
        return _texts([*of_others, *of_producers], np.where(self._comes_in, of_producer, self._field(field)) - 1)

    def _ack_type(self) -> pa.Array:
        ack = self._field("ack")
        name = _ACKS_OF[ack]
        name = np.where(self._field("place") == 0, np.int8(_ACK_NAMES.index("topic")), name)
        return _texts(_ACK_NAMES, np.where(self._event == _ACKED, name, np.int8(-1)))

    def _message_id(self) -> pa.Array:
        """The producer's id and the message's count, once for each record."""
        origins = self._texts.origins
        producer = _texts([it.producer for it in origins], self._records["origin"] - 1)
        counts = pa.array(self._records["count"]).cast(pa.string())
        ids = pc.binary_join_element_wise(producer.cast(pa.string()), counts, ":")
        return ids.take(pa.array(self._rows))


def _times(values_us: Array, is_there: Array | None = None) -> pa.Array:
    mask = None if is_there is None or is_there.all() else ~is_there
    return pa.array(values_us, mask=mask).view(pa.timestamp("us", tz="UTC"))


def _texts(texts: Sequence[str | None], which: Array) -> pa.Array:
    """For each index in *which* its text; null for a negative one, and for a text that is None."""
    clean = [None if it is None else it.encode("utf-8", "replace").decode() for it in texts]
    numbers = {text: number for number, text in enumerate(dict.fromkeys(it for it in clean if it is not None))}
    if not numbers:
        return pa.nulls(len(which), _TEXT)
    moved = np.array([*(-1 if it is None else numbers[it] for it in clean), -1], np.int32)
    index = moved.take(which)  # -1 is the last one
    is_null = index < 0
    indices = pa.array(index, mask=is_null if is_null.any() else None)
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(numbers), pa.string()))

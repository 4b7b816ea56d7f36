"""Writing: rows are staged at the broker by the tasks, and one commit makes all of them messages.

Each request of a task stages a part of its own with a fresh name. A task that runs twice, or a request whose answer was
lost, leaves parts behind that are never committed; the broker drops them. The commit names producer, batch and parts.
The broker remembers a producer's last batch: Spark repeats the last one after a crash, and that changes nothing.

A stream's producer is its query, which the checkpoint identifies. The option `producer` gives it a name, which belongs
to the first query that uses it. A query with another checkpoint counts its batches from 0 again, and the broker would
take them for duplicates. So a query claims the name before its first commit, and a query that finds it claimed fails
instead of losing messages.
"""

import logging
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from ackwire.spark.columns import WritePlan
from ackwire.spark.errors import BrokerAway, ConnectorError, Refused
from ackwire.spark.http import BrokerApi
from ackwire.spark.options import Options

REQUEST_BYTES_MAX: Final = 8 * 2**20
"""Rows staged with one request; a row that is larger goes alone."""

_BATCH_OF_A_JOB: Final = 0

_log: Final = logging.getLogger("ackwire.spark")


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """What a task has staged."""

    producer: str
    query: str
    batch: int
    parts: tuple[str, ...]
    refusal: str | None = None
    """What the broker said if it would not take rows of that batch: it has it already."""


# ---- on executors --------------------------------------------------------------------------------------------------


def stage_rows(
    options: Options, plan: WritePlan, batches: Iterable[pa.RecordBatch], *, producer: str, query: str, batch: int
) -> Staged:
    """Stage all rows of a task."""
    destination = None if options.destination is None else repr(options.destination)
    api = BrokerApi(options)
    parts: list[str] = []
    try:
        for body in request_bodies(plan, batches):
            parts.append(api.stage(producer, batch, body, destination, _new_part))
    except Refused as error:
        if error.status == 409:
            return Staged(producer, query, batch, (), refusal=str(error))
        _drop(api, producer, parts)
        raise
    finally:
        api.close()
    return Staged(producer, query, batch, tuple(parts))


def request_bodies(plan: WritePlan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Buffer]:
    """Arrow streams of at most `REQUEST_BYTES_MAX` or so."""
    waiting: list[pa.RecordBatch] = []
    waiting_bytes = 0
    for batch in batches:
        for piece in _pieces(plan.convert(batch)):
            if waiting and waiting_bytes + piece.nbytes > REQUEST_BYTES_MAX:
                yield _stream_of(plan, waiting)
                waiting, waiting_bytes = [], 0
            waiting.append(piece)
            waiting_bytes += piece.nbytes
    if waiting:
        yield _stream_of(plan, waiting)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Halves, and halves of halves, until they are small enough: rows may be of very different sizes."""
    if batch.num_rows == 0:
        return
    if batch.nbytes <= REQUEST_BYTES_MAX or batch.num_rows == 1:
        yield batch
        return
    middle = batch.num_rows // 2
    yield from _pieces(batch.slice(0, middle))
    yield from _pieces(batch.slice(middle))


def _stream_of(plan: WritePlan, batches: Sequence[pa.RecordBatch]) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, plan.schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return sink.getvalue()


def _new_part() -> str:
    return str(uuid.uuid4())


# ---- on the driver -------------------------------------------------------------------------------------------------


def _collected(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    staged = [message for message in messages if isinstance(message, Staged)]
    if len(staged) != len(messages):
        raise ConnectorError(
            f"{len(messages) - len(staged)} of {len(messages)} tasks did not say what they have written"
        )
    return staged


def commit_staged(options: Options, staged: Sequence[Staged]) -> None:
    """Make everything visible that the tasks have staged, at once, unless that was done before."""
    if not staged:
        return
    first = staged[0]
    api = BrokerApi(options)
    try:
        _claim(api, options, first)
        refusal = next((one.refusal for one in staged if one.refusal is not None), None)
        parts = [part for one in staged for part in one.parts]
        if refusal is None and api.commit_batch(first.producer, first.batch, parts):
            return
        last = api.last_batch(first.producer)
        if last != first.batch:
            raise _out_of_order(first, last, refusal)
        _log.warning(
            "batch %d of producer %s was written before; nothing is written twice", first.batch, first.producer
        )
    finally:
        api.close()


def abort_staged(options: Options, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Forget what the tasks have staged. What cannot be dropped now expires at the broker."""
    staged = [message for message in messages if isinstance(message, Staged)]
    api = BrokerApi(options)
    try:
        for one in staged:
            _drop(api, one.producer, one.parts)
    finally:
        api.close()


def _drop(api: BrokerApi, producer: str, parts: Iterable[str]) -> None:
    try:
        for part in parts:
            api.drop_part(producer, part)
    except (BrokerAway, Refused) as error:
        _log.warning("could not drop what was staged, it will expire: %s", error)


def _claim(api: BrokerApi, options: Options, staged: Staged) -> None:
    """Make sure that a producer with a name of its own belongs to this query."""
    if options.producer is None or not staged.query:
        return
    claim = f"{staged.producer}:{staged.query}"
    if api.last_batch(claim) is not None:
        return
    last = api.last_batch(staged.producer)
    if last is not None and last >= staged.batch:
        raise ConnectorError(
            f"producer {staged.producer!r} belongs to another query, which has written batches to {last}; this one, "
            f"with another checkpoint, is at batch {staged.batch}, and its rows would be taken for a repetition: give "
            "option producer another name, or use the checkpoint of before"
        )
    api.commit_batch(claim, 0, [])


def _out_of_order(staged: Staged, last: int | None, refusal: str | None) -> ConnectorError:
    return ConnectorError(
        f"the broker did not take batch {staged.batch} of producer {staged.producer!r}, whose last batch is {last}: "
        f"{refusal or 'it has that batch already'}. If the checkpoint is an old copy, start with a new one, or give "
        "option producer a new name"
    )


# ---- Spark's classes -----------------------------------------------------------------------------------------------


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame: all of its rows become messages at once, or none."""

    def __init__(self, options: Options, plan: WritePlan) -> None:
        self._options = options
        self._plan = plan
        self._producer = str(uuid.uuid4())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return stage_rows(self._options, self._plan, iterator, producer=self._producer, query="", batch=_BATCH_OF_A_JOB)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        commit_staged(self._options, _collected(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        abort_staged(self._options, messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes a stream: each batch becomes messages once, whatever is repeated."""

    def __init__(self, options: Options, plan: WritePlan) -> None:
        self._options = options
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        query = _task_property("sql.streaming.queryId")
        batch = int(_task_property("streaming.sql.batchId"))
        producer = self._options.producer or query
        return stage_rows(self._options, self._plan, iterator, producer=producer, query=query, batch=batch)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        staged = _collected(messages)
        assert all(one.batch == batchId for one in staged)
        commit_staged(self._options, staged)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002 - Spark's
        abort_staged(self._options, messages)


def _task_property(name: str) -> str:
    context: Any = TaskContext.get()
    value = None if context is None else context.getLocalProperty(name)
    if value is None:
        raise ConnectorError(f"Spark does not say which query and batch it writes (no {name}); is it version 4.3?")
    return str(value)

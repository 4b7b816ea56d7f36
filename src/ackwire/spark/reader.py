"""Reading: a queue's content or a cursor's range as a batch, a cursor as a stream.

Rows come from the broker as Arrow batches and go to Spark as they are. A reader never gets too few: a range of a
cursor must hold each number exactly once, a stream must have its end, and a connection that breaks is made again and
goes on behind the last row that arrived.

A stream's messages stay with the broker until Spark has written down that their batch is done. Spark says so late
(`commit` comes with the next batch that has rows), but it asks for a next batch only when the one before is in its
commit log: that is when the cursor is committed, so that no message is kept in a quiet system.
"""

import http.client
import logging
from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.parse import quote

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from ackwire.jms.destinations import Destination, parse_destination
from ackwire.spark.errors import BadAnswer, BadOption, DataLoss, Refused
from ackwire.spark.http import BrokerApi, CursorInfo
from ackwire.spark.offsets import Offset, RangePartition, read_offset, split_range
from ackwire.spark.options import Options, Reading
from ackwire.spark.session import cores

_ARROW_END: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""The last bytes of a complete Arrow stream."""

_NUMBERED_AT_ONCE_MAX: Final = 10_000_000
"""How many messages one request may make a cursor number."""

_log: Final = logging.getLogger("ackwire.spark")


# ---- one range -----------------------------------------------------------------------------------------------------


class _Body:
    """An answer's body for Arrow to read from; remembers its last bytes, to tell an end from a break."""

    closed = False

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response
        self._tail = b""

    def read(self, size: int = -1) -> bytes:
        data = self._response.read(None if size < 0 else size)
        self._tail = (
            (self._tail + data)[-len(_ARROW_END) :] if len(data) < len(_ARROW_END) else data[-len(_ARROW_END) :]
        )
        return data

    def finish(self) -> None:
        """Raises unless the stream is complete."""
        self.read()
        if self._tail != _ARROW_END:
            raise http.client.IncompleteRead(self._tail)


def read_rows(
    options: Options, partition: RangePartition, columns: Sequence[str], *, is_dense: bool
) -> Iterator[pa.RecordBatch]:
    """The rows of a range, as they arrive; with *is_dense* each number in it must come.

    Raises `BadAnswer` rather than giving too few, `Refused` if the range is gone, `BrokerAway`.
    """
    api = BrokerApi(options)
    position = partition.after
    patience = api.patience("GET", partition.path)
    try:
        while True:
            try:
                for batch in _batches(api, partition, position, patience):
                    patience.over()
                    position = _checked_end(batch, position, partition, is_dense=is_dense)
                    yield batch if tuple(batch.schema.names) == tuple(columns) else batch.select(list(columns))
            except (OSError, http.client.HTTPException, pa.ArrowInvalid) as error:
                # Also what Arrow says of a stream that breaks off: the rest is asked for again.
                api.on_failure(error, patience)
                continue
            break
    finally:
        api.close()
    if is_dense and position != partition.to:
        raise BadAnswer(
            f"{api.url}{partition.path} ended at {position}, and was asked for everything to {partition.to}"
        )


def _batches(api: BrokerApi, partition: RangePartition, after: int, patience: Any) -> Iterator[pa.RecordBatch]:
    """The batches of one request."""
    if after == partition.to:
        return  # all rows had come when the connection broke
    while True:
        response = api.request("GET", partition.path, {"after": after, "to": partition.to})
        if response.status == 200:
            break
        api.check(response, response.read(), "GET", partition.path, patience)
    body = _Body(response)
    with pa.ipc.open_stream(body) as stream:
        yield from stream
    body.finish()


def _checked_end(batch: pa.RecordBatch, position: int, partition: RangePartition, *, is_dense: bool) -> int:
    """The last number in *batch*, which goes on where the one before ended."""
    rows = batch.num_rows
    if rows == 0:
        return position
    numbers = batch.column("sequence").to_numpy(zero_copy_only=False)
    if is_dense:
        is_right = np.array_equal(numbers, np.arange(position + 1, position + 1 + rows))
    else:
        is_right = bool(numbers[0] > position and (np.diff(numbers) > 0).all())
    if not is_right or numbers[-1] > partition.to:
        raise BadAnswer(
            f"{partition.path} sent rows {numbers[0]} to {numbers[-1]} ({rows} of them) after {position}, asked for "
            f"those to {partition.to}: some are missing or come twice"
        )
    return int(numbers[-1])


def _cursor_path(name: str) -> str:
    return f"/v1/cursors/{quote(name, safe='')}/messages"


def _queue_path(queue: Destination) -> str:
    return f"/v1/queues/{quote(queue.name, safe='')}/messages"


# ---- batches -------------------------------------------------------------------------------------------------------


class BatchReader(DataSourceReader):
    """Reads without consuming: a queue, dead letters, or a range of a cursor."""

    def __init__(self, options: Options, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        with BrokerApi(self._options) as api:
            match self._options.read:
                case Reading.CURSOR:
                    return self._cursor_partitions(api)
                case Reading.DEAD_LETTERS:
                    queues = [parse_destination(queue) for queue in api.dead_letter_queues()]
                    return [part for queue in queues for part in self._queue_partitions(api, queue)]
                case _:
                    assert self._options.destination is not None
                    return self._queue_partitions(api, self._options.destination)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, RangePartition):
            return  # Spark makes one of nothing if there are none
        options = self._options
        is_cursor = options.read is Reading.CURSOR
        wanted = options.destination if options.read is Reading.DEAD_LETTERS else None
        columns = self._columns if wanted is None else (*self._columns, "original_destination")
        for batch in read_rows(options, partition, columns, is_dense=is_cursor):
            yield batch if wanted is None else _from(batch, wanted).select(list(range(len(self._columns))))

    def _queue_partitions(self, api: BrokerApi, queue: Destination) -> list[InputPartition]:
        ranges = api.queue_ranges(queue.name, self._options.partitions or cores())
        return [RangePartition(_queue_path(queue), after, to) for after, to in ranges if after < to]

    def _cursor_partitions(self, api: BrokerApi) -> list[InputPartition]:
        name = self._options.cursor
        assert name is not None
        info = api.cursor(name)
        after = info.committed if self._options.after is None else self._options.after
        to = info.assigned if self._options.to is None else self._options.to
        if after < info.committed or to > info.assigned:
            raise BadOption(
                f"cursor {name!r} holds the messages after {info.committed} to {info.assigned}; options after and to "
                f"ask for those after {after} to {to}"
            )
        ranges = split_range(after, to, self._options.partitions or cores())
        return [RangePartition(_cursor_path(name), low, high) for low, high in ranges]


def _from(batch: pa.RecordBatch, destination: Destination) -> pa.RecordBatch:
    """Those dead letters that once were on *destination*."""
    origin = batch.column(batch.num_columns - 1)
    return batch.filter(pa.compute.equal(origin, repr(destination)))


# ---- streams -------------------------------------------------------------------------------------------------------


class CursorReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a queue or a topic through a cursor, each message in exactly one batch."""

    def __init__(self, options: Options, columns: tuple[str, ...]) -> None:
        assert options.cursor is not None
        self._options = options
        self._columns = columns
        self._cursor = options.cursor
        self._api: BrokerApi | None = None
        self._info: CursorInfo | None = None
        self._committed = 0
        self._assigned = 0
        self._target: int | None = None
        """Where a query with Trigger.AvailableNow ends."""

    # ---- where to read -----------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        return Offset(self._cursor, self._opened().committed).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.max_messages_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        self._opened()
        self._target = self._broker().cursor(self._cursor).end

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        position = read_offset(start, self._cursor).number
        after = self._available_start(position)
        self._commit(after)  # asked for more, Spark has written down that all before is done
        latest = self._latest(after, after + self._room(after, limit))
        self._assigned = max(self._assigned, latest)
        if latest == position:
            return start
        return Offset(self._cursor, latest, None if after == position else after).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return Offset(self._cursor, self._broker().cursor(self._cursor).end).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        last = read_offset(end, self._cursor)
        begin = read_offset(start, self._cursor).number if last.starts_after is None else last.starts_after
        after = self._available_start(begin)
        ranges = split_range(min(after, last.number), last.number, self._options.partitions or cores())
        return [RangePartition(_cursor_path(self._cursor), low, high) for low, high in ranges]

    def commit(self, end: dict[str, Any]) -> None:
        self._commit(read_offset(end, self._cursor).number)

    def stop(self) -> None:
        if self._api is not None:
            self._api.close()

    # ---- reading, on executors ---------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        try:
            yield from read_rows(self._options, partition, self._columns, is_dense=True)
        except Refused as error:
            if error.status != 410:
                raise
            raise DataLoss(f"{error}. {_what_to_do(self._cursor)}") from None

    # ---- the cursor --------------------------------------------------------------------------------------------

    def _broker(self) -> BrokerApi:
        if self._api is None:
            self._api = BrokerApi(self._options)
        return self._api

    def _opened(self) -> CursorInfo:
        """The cursor as it was when this query first asked; made if there is none."""
        if self._info is None:
            where = self._options.destination
            if where is None:
                self._info = self._existing()
            else:
                self._info = self._broker().open_cursor(self._cursor, repr(where), self._options.selector)
            self._committed = self._info.committed
            self._assigned = self._info.assigned
        return self._info

    def _existing(self) -> CursorInfo:
        try:
            return self._broker().cursor(self._cursor)
        except Refused as error:
            if error.status != 404:
                raise
            raise BadOption(
                f"there is no cursor {self._cursor!r} yet; give option destination to make it ({error})"
            ) from None

    def _room(self, after: int, limit: ReadLimit) -> int:
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else self._broker().cursor(self._cursor).end - after
        if self._target is not None:
            rows = min(rows, self._target - after)
        return max(rows, 0)

    def _latest(self, after: int, wanted: int) -> int:
        """The last number of the cursor that can be read, up to *wanted*."""
        latest, is_more = after, True
        while is_more and latest < wanted:
            limit = min(wanted - latest, _NUMBERED_AT_ONCE_MAX)
            before, latest = latest, self._broker().latest(self._cursor, latest, limit)
            is_more = latest - before == limit
        return latest

    def _commit(self, to: int) -> None:
        self._opened()
        if self._committed < to <= self._assigned:  # beyond: an offset from before a gap that was accepted
            self._committed = self._broker().commit_cursor(self._cursor, to)

    def _available_start(self, number: int) -> int:
        """*number*, if what comes after it is still there; else fails, or goes on where the cursor is."""
        self._opened()
        if number > self._assigned:
            self._assigned = self._broker().cursor(self._cursor).assigned
        if self._committed <= number <= self._assigned:
            return number
        problem = _loss(self._cursor, number, self._committed, self._assigned)
        if self._options.fail_on_data_loss:
            raise DataLoss(f"{problem}. {_what_to_do(self._cursor)}")
        _log.warning("%s; going on after %d, because failOnDataLoss is false", problem, self._committed)
        return self._committed


def _loss(cursor: str, number: int, committed: int, assigned: int) -> str:
    has_read = f"the checkpoint has read cursor {cursor!r} to {number}, and"
    if number > assigned:
        return f"{has_read} the broker's goes only to {assigned}: it was deleted and made again, or the broker lost it"
    return (
        f"{has_read} messages to {committed} were committed and are gone: the checkpoint is an old copy, or another "
        "query uses the same cursor"
    )


def _what_to_do(cursor: str) -> str:
    return (
        "Use the checkpoint that belongs to it, or give each query a cursor of its own; to go on without those, set "
        "option failOnDataLoss to false, or start with a new checkpointLocation, which begins where cursor "
        f"{cursor!r} is"
    )

"""The same source for a real ActiveMQ, which has neither cursors nor staged batches: at least once, by the client.

Reading a stream: the driver's process consumes in a transaction and hands the messages to Spark. It commits when Spark
asks for the next batch, and so has written down that the one before is done. If the driver dies before that, the broker
delivers those messages again, and they come in a later batch: nothing is lost, some may come twice.

Writing: a transaction per task. A task that is repeated sends its rows again. Rows are handled one by one here; what is
quick is in reader.py and writer.py.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    InputPartition,
    SimpleDataSourceStreamReader,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

import ackwire
from ackwire.jms.types import Byte, Float, Int, Long, Short
from ackwire.spark.columns import PROPERTY_PREFIX, WritePlan
from ackwire.spark.errors import ConnectorError
from ackwire.spark.http import Patience
from ackwire.spark.options import Options
from ackwire.tabular.reading import rows_to_batch
from ackwire.wire.openwire.codec_fast import CANONICAL
from ackwire.wire.openwire.marshal import Codec

BROWSED_AT_ONCE: Final = 1000
FIRST_WAIT_SECONDS: Final = 1.0
"""For the first message after a consumer was opened: the broker has to be asked."""
NEXT_WAIT_SECONDS: Final = 0.1
"""For one more of the same batch."""

_SIZE_BYTES: Final = 4
_AT_LEAST_ONCE: Final = (
    "%s is spoken to as an ActiveMQ, which has no cursors and no staged batches: each message comes at least once, and "
    "after a failure some come twice. The HTTP address of an Ackwire gives exactly once"
)

_log: Final = logging.getLogger("ackwire.spark")
_codec: Final = Codec(CANONICAL)


def _connect(options: Options) -> ackwire.Connection:
    """A connection; a broker that is away is waited for as over HTTP."""
    url = options.urls[0]
    patience = Patience(url, options.retry_timeout_seconds)
    while True:
        try:
            connection = ackwire.connect(url, user_name=options.username, password=options.password)
        except ackwire.ConnectionFailedError as error:
            patience.wait(str(error))
        else:
            patience.over()
            return connection


def _batch_of(messages: Sequence[ackwire.Message], after: int, columns: Sequence[str]) -> pa.RecordBatch:
    """Messages as rows, numbered from *after* + 1."""
    rows = [
        (after + index, _codec.encode(message.to_command())[_SIZE_BYTES:], message.delivery_count - 1)
        for index, message in enumerate(messages, 1)
    ]
    return rows_to_batch(rows).select(list(columns))


# ---- reading -------------------------------------------------------------------------------------------------------


class BrowsingReader(DataSourceReader):
    """A look at a queue, in one task."""

    def __init__(self, options: Options, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        _log.warning(
            "%s is spoken to as an ActiveMQ: a browser of ActiveMQ may show no more than the broker's "
            "maxBrowsePageSize messages (400 unless set), and messages come and go while it looks",
            self._options.urls[0],
        )
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 - there is only one
        assert self._options.destination is not None
        seen = 0
        with _connect(self._options) as connection, connection.session() as session:
            messages: list[ackwire.Message] = []
            for message in session.browser(self._options.destination):
                messages.append(message)
                if len(messages) == BROWSED_AT_ONCE:
                    yield _batch_of(messages, seen, self._columns)
                    seen += len(messages)
                    messages = []
            if messages:
                yield _batch_of(messages, seen, self._columns)


class ConsumingReader(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):
    """Consumes a queue. Offsets count the messages that this query was given."""

    def __init__(self, options: Options, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._connection: ackwire.Connection | None = None
        self._session: Any = None
        self._consumer: Any = None
        self._unfinished: int | None = None
        """The offset after which the open transaction can be committed."""
        self._ends_when_empty = False
        self._has_ended = False

    def initialOffset(self) -> dict[str, Any]:
        return {"number": 0}

    def prepareForTriggerAvailableNow(self) -> None:
        self._ends_when_empty = True

    def read(self, start: dict[str, Any]) -> tuple[Iterator[Any], dict[str, Any]]:
        self._finish(start)  # asked for more, Spark has written down that all before is done
        messages = [] if self._has_ended else self._receive()
        if not messages:
            self._has_ended = self._ends_when_empty
            return iter([]), start
        end = {"number": start["number"] + len(messages)}
        self._unfinished = end["number"]
        return iter([_batch_of(messages, start["number"], self._columns)]), end

    def readBetweenOffsets(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[Any]:
        _log.warning(
            "messages %d to %d were read before a failure and not finished; the broker delivers them again, in a later "
            "batch",
            start["number"] + 1,
            end["number"],
        )
        return iter([])

    def commit(self, end: dict[str, Any]) -> None:
        self._finish(end)

    def _finish(self, done: Mapping[str, Any]) -> None:
        """Commit the transaction if all that it holds is *done*."""
        if self._unfinished is None or done["number"] < self._unfinished:
            return
        self._unfinished = None
        try:
            self._session.commit()
        except ackwire.JMSError as error:
            _log.warning("messages to %d may come again: %s", done["number"], error)
            self._disconnect()

    def _receive(self) -> list[ackwire.Message]:
        try:
            wait_seconds = self._open()
            messages: list[ackwire.Message] = []
            while len(messages) < self._options.max_messages_per_trigger:
                message = self._consumer.receive(NEXT_WAIT_SECONDS if messages else wait_seconds)
                if message is None:
                    break
                messages.append(message)
        except ackwire.ConnectionFailedError as error:
            # What was received in this transaction comes again; the next trigger connects anew.
            _log.warning("%s: %s", self._options.urls[0], error)
            self._disconnect()
            return []
        return messages

    def _open(self) -> float:
        """See that there is a consumer; says how long to wait for its first message."""
        if self._consumer is not None:
            return NEXT_WAIT_SECONDS
        _log.warning(_AT_LEAST_ONCE, self._options.urls[0])
        self._connection = _connect(self._options)
        self._session = self._connection.session(transacted=True)
        assert self._options.destination is not None
        self._consumer = self._session.consumer(self._options.destination, self._options.selector)
        return FIRST_WAIT_SECONDS

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = self._session = self._consumer = None


# ---- writing -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sent(WriterCommitMessage):
    """What a task has sent."""

    messages: int


def send_rows(options: Options, plan: WritePlan, batches: Iterable[pa.RecordBatch]) -> Sent:
    """Send all rows of a task in one transaction."""
    sent = 0
    with _connect(options) as connection, connection.session(transacted=True) as session:
        producer = session.producer()
        for batch in batches:
            for row in plan.convert(batch).to_pylist():
                _send(producer, plan, row, options)
                sent += 1
        session.commit()
    return Sent(sent)


def _send(producer: Any, plan: WritePlan, row: Mapping[str, Any], options: Options) -> None:
    destination = row.get("destination") or options.destination
    if destination is None:
        raise ConnectorError("a row has no destination, and there is no option destination")
    headers = {name: row[name] for name in _HEADERS if row.get(name) is not None}
    producer.send(
        _body(row),
        destination=destination,
        priority=row.get("priority"),
        time_to_live_ms=_time_to_live_ms(row),
        properties=_properties(plan, row),
        **headers,
    )


_HEADERS: Final = ("correlation_id", "reply_to", "type", "group_id", "group_sequence")
_TYPED: Final[Mapping[pa.DataType, Any]] = {
    pa.int8(): Byte,
    pa.int16(): Short,
    pa.int32(): Int,
    pa.int64(): Long,
    pa.float32(): Float,
}


def _body(row: Mapping[str, Any]) -> Any:
    bodies = [row[name] for name in ("text", "bytes", "map", "value") if row.get(name) is not None]
    if len(bodies) > 1:
        raise ConnectorError("a row has several bodies; only one of text, bytes, map and value may be set")
    return dict(bodies[0]) if bodies and isinstance(bodies[0], list) else bodies[0] if bodies else None


def _properties(plan: WritePlan, row: Mapping[str, Any]) -> dict[str, Any]:
    properties = dict(row.get("properties") or ())
    for column in plan.columns:
        value = row[column.name] if column.name.startswith(PROPERTY_PREFIX) else None
        if value is not None:
            properties[column.name.removeprefix(PROPERTY_PREFIX)] = _TYPED.get(column.type, lambda plain: plain)(value)
    return properties


def _time_to_live_ms(row: Mapping[str, Any]) -> int | None:
    expiration: datetime | None = row.get("expiration")
    if expiration is None:
        return row.get("time_to_live_ms")
    return max(1, int(expiration.timestamp() * 1000) - int(time.time() * 1000))


class SendingWriter(DataSourceArrowWriter):
    """Sends the rows of a DataFrame, a transaction per task."""

    def __init__(self, options: Options, plan: WritePlan) -> None:
        self._options = options
        self._plan = plan
        _log.warning(_AT_LEAST_ONCE, options.urls[0])

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return send_rows(self._options, self._plan, iterator)


class SendingStreamWriter(DataSourceStreamArrowWriter):
    """Sends the rows of a stream, a transaction per task."""

    def __init__(self, options: Options, plan: WritePlan) -> None:
        self._options = options
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return send_rows(self._options, self._plan, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002 - Spark's
        if batchId == 0:
            _log.warning(_AT_LEAST_ONCE, self._options.urls[0])

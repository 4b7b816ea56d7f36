"""From the frames of messages to Arrow: `rows_to_batch`, and `RowReader` for those who read many.

What a frame says is found out by `wire/openwire/columnar.py`, column by column; here columns become arrays. No frame
can make this fail: one that cannot be decoded is a row of kind "undecodable".
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, final

import pyarrow as pa

from ackwire.tabular.schema import MESSAGE
from ackwire.wire.openwire.columnar import MapColumn, RowColumns, RowDecoder
from ackwire.wire.openwire.limits import DEFAULT_LIMITS, WireLimits

Row = tuple[int, bytes, int]
"""Number, canonical frame, how often it was redelivered."""

BATCH_BYTES_USUAL: Final = 16 * 1024 * 1024
_BATCH_BYTES_MAX: Final = 2**31 - 1
"""Arrow counts the bytes of one column in 31 bits."""

_TIME: Final = pa.timestamp("us", tz="UTC")
_MAP: Final = pa.map_(pa.string(), pa.string())


def rows_to_batch(rows: Sequence[Row], limits: WireLimits = DEFAULT_LIMITS) -> Any:
    """*rows* as a `pyarrow.RecordBatch` with the schema `MESSAGE`.

    Raises `ValueError` for more than two gigabytes: `RowReader.batches` cuts those.
    """
    return RowReader(limits).batch(rows)


@final
class RowReader:
    """Makes batches, and remembers what repeats from one to the next: for one stream of rows."""

    def __init__(
        self, limits: WireLimits = DEFAULT_LIMITS, *, bytes_max: int = BATCH_BYTES_USUAL, rows_max: int = 1 << 31
    ) -> None:
        """Batches that `add` makes have about *bytes_max* bytes, a row more at most, or *rows_max* rows."""
        self._decoder = RowDecoder(limits)
        self._bytes_max = bytes_max
        self._rows_max = rows_max
        self._columns = self._decoder.columns()
        self._rows: list[Row] = []

    def batch(self, rows: Sequence[Row]) -> Any:
        """As `rows_to_batch`."""
        columns = self._decoder.columns()
        add = columns.add
        for _, frame, _ in rows:
            add(frame)
            if columns.size_bytes > _BATCH_BYTES_MAX:
                raise ValueError(
                    f"{len(rows)} messages do not fit into one batch of Arrow, which holds {_BATCH_BYTES_MAX} bytes: "
                    "ask for fewer at a time"
                )
        return _batch(rows, columns)

    def add(self, rows: Iterable[Row]) -> Iterator[Any]:
        """Take more rows; the batches that are full now. What is compressed counts as what it becomes."""
        columns, taken = self._columns, self._rows
        for row in rows:
            columns.add(row[1])
            taken.append(row)
            if columns.size_bytes >= self._bytes_max or len(taken) >= self._rows_max:
                yield self.rest()
                columns, taken = self._columns, self._rows

    def rest(self) -> Any | None:
        """A batch of what is in none yet; None if there is nothing."""
        if not self._rows:
            return None
        batch = _batch(self._rows, self._columns)
        self._columns, self._rows = self._decoder.columns(), []
        return batch


def _batch(rows: Sequence[Row], columns: RowColumns) -> Any:
    # First of all: where a text is none, other columns of its row change.
    text = _texts(columns)
    properties, property_types = _maps(columns.properties, columns.properties.values, columns.properties.types)
    redeliveries = [row[2] for row in rows]
    arrays = {
        "sequence": pa.array([row[0] for row in rows], pa.int64()),
        "message_id": pa.array(columns.message_ids, pa.string()),
        "destination": _repeating(columns.destinations, pa.string()),
        "timestamp": pa.array(columns.timestamps, _TIME),
        "broker_in_time": pa.array(columns.in_times, _TIME),
        "expiration": _repeating(columns.expirations, _TIME),
        "persistent": _repeating(columns.persistent, pa.bool_()),
        "priority": _repeating(columns.priorities, pa.int32()),
        "redelivered": _repeating([count > 0 for count in redeliveries], pa.bool_()),
        "redelivery_count": _repeating(redeliveries, pa.int32()),
        "properties": properties,
        "property_types": property_types,
        "body_kind": _repeating(columns.kinds, pa.string()),
        "text": text,
        "bytes": _repeating(columns.bodies, pa.binary()),
        "map": _maps(columns.maps, columns.maps.values)[0],
    }
    return pa.RecordBatch.from_arrays(
        [arrays[field.name] if field.name in arrays else _rare(columns, field) for field in MESSAGE], schema=MESSAGE
    )


def _texts(columns: RowColumns) -> Any:
    try:
        return pa.array(columns.texts, pa.string())
    except pa.ArrowInvalid:  # Java's form of UTF-8 in one of them, or no text at all
        columns.decode_texts()
        return pa.array(columns.texts, pa.string())


def _repeating(values: Sequence[object], type_: Any) -> Any:
    """The array of *values*, which are often all the same."""
    if not values or values.count(values[0]) < len(values):
        return pa.array(values, type_)
    return pa.nulls(len(values), type_) if values[0] is None else pa.repeat(pa.scalar(values[0], type_), len(values))


def _rare(columns: RowColumns, field: Any) -> Any:
    known = columns.rare.get(field.name)
    if known is None:
        return pa.nulls(len(columns), field.type)
    values: list[str | int | None] = [None] * len(columns)
    for row, value in known.items():
        values[row] = value
    return pa.array(values, field.type)


def _maps(column: MapColumn, *values: Sequence[str | None]) -> list[Any]:
    """An array of maps for each of the lists of *values*, all with the names of *column*."""
    starts = column.starts
    if not column.names and starts.count(None) == len(starts):
        return [pa.nulls(len(starts), _MAP)] * len(values)
    offsets = pa.array([*starts, len(column.names)], pa.int32())
    names = pa.array(column.names, pa.string())
    return [pa.MapArray.from_arrays(offsets, names, pa.array(texts, pa.string())) for texts in values]

"""Columns: those of a message as Spark sees it, and how the columns of a DataFrame become messages.

Mistakes that the types show are reported before a query starts: `plan_write` says for each column what it becomes, or
raises an error with its name, its type and what would be possible. Values are converted a batch at a time, and a value
that does not fit (a priority of 3 billion) is an error too, never another value.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from ackwire.spark.errors import BadOption, ConnectorError
from ackwire.spark.options import Options
from ackwire.tabular.schema import MESSAGE

PROPERTY_PREFIX: Final = "property:"

_TEXT_MAP: Final = pa.map_(pa.string(), pa.string())
_MOMENT: Final = pa.timestamp("us", tz="UTC")


def message_columns() -> StructType:
    """The columns of a message."""
    columns: StructType = from_arrow_schema(MESSAGE)
    return columns


def chosen_columns(schema: StructType) -> tuple[str, ...]:
    """The names of the columns that the user wants; raises for those that no message has."""
    known = message_columns()
    for field in schema.fields:
        if field.name not in known.fieldNames():
            raise BadOption(f"messages have no column {field.name!r}; they have {', '.join(known.fieldNames())}")
        if field.dataType != known[field.name].dataType:
            possible = known[field.name].dataType.simpleString()
            raise BadOption(
                f"column {field.name!r} is read as {possible}, not as {field.dataType.simpleString()}; cast it when it "
                "is read"
            )
    return tuple(schema.fieldNames())


# ---- writing -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Kind:
    """The possible types of a column."""

    possible: str
    target: Callable[[pa.DataType], pa.DataType | None]
    """The type that is sent for a column's type; None if there is none."""


def _to(wanted: pa.DataType, *accepts: Callable[[pa.DataType], bool]) -> Callable[[pa.DataType], pa.DataType | None]:
    return lambda given: wanted if any(accept(given) for accept in (*accepts, pa.types.is_null)) else None


def _is_text(given: pa.DataType) -> bool:
    return bool(pa.types.is_string(given) or pa.types.is_large_string(given))


def _is_bytes(given: pa.DataType) -> bool:
    return bool(pa.types.is_binary(given) or pa.types.is_large_binary(given))


def _is_moment(given: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(given) and given.tz is not None)


def _is_text_map(given: pa.DataType) -> bool:
    return bool(pa.types.is_map(given) and _is_text(given.key_type) and _is_text(given.item_type))


def _value_type(given: pa.DataType) -> pa.DataType | None:
    return pa.string() if _is_text(given) else pa.binary() if _is_bytes(given) else None


def _property_type(given: pa.DataType) -> pa.DataType | None:
    if _is_text(given) or pa.types.is_null(given):
        return pa.string()
    is_plain = pa.types.is_boolean(given) or pa.types.is_signed_integer(given)
    return given if is_plain or pa.types.is_float32(given) or pa.types.is_float64(given) else None


_TEXT: Final = _Kind("string", _to(pa.string(), _is_text))
_BYTES: Final = _Kind("binary", _to(pa.binary(), _is_bytes))
_INT: Final = _Kind("int (or any other whole number)", _to(pa.int32(), pa.types.is_signed_integer))
_LONG: Final = _Kind("bigint (or any other whole number)", _to(pa.int64(), pa.types.is_signed_integer))
_TIME: Final = _Kind("timestamp", _to(_MOMENT, _is_moment))
_MAP: Final = _Kind("map<string,string>", _to(_TEXT_MAP, _is_text_map))
_VALUE: Final = _Kind("string or binary", _value_type)
_PROPERTY: Final = _Kind("boolean, tinyint, smallint, int, bigint, float, double or string", _property_type)

WRITE_COLUMNS: Final = {
    "destination": _TEXT,
    "text": _TEXT,
    "bytes": _BYTES,
    "map": _MAP,
    "value": _VALUE,
    "correlation_id": _TEXT,
    "reply_to": _TEXT,
    "type": _TEXT,
    "priority": _INT,
    "expiration": _TIME,
    "time_to_live_ms": _LONG,
    "group_id": _TEXT,
    "group_sequence": _INT,
    "properties": _MAP,
}
"""What a DataFrame may have, besides `property:<name>`."""


@dataclass(frozen=True, slots=True)
class WriteColumn:
    """One column: its name in the DataFrame, its name and type in what is sent."""

    source: str
    name: str
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class WritePlan:
    """How the batches of one DataFrame are converted."""

    columns: tuple[WriteColumn, ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(column.name, column.type) for column in self.columns])

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows as they are sent. Raises if a value does not fit."""
        arrays = [_converted(array, column) for array, column in zip(batch.columns, self.columns, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def plan_write(schema: StructType, options: Options) -> WritePlan:
    """Decide what becomes of each column. Raises `BadOption` for one that cannot be written."""
    names = schema.fieldNames()
    for name in options.property_columns:
        if name not in names:
            raise BadOption(f"option propertyColumns names {name!r}; the DataFrame has {', '.join(names)}")
    if "destination" not in names and options.destination is None:
        raise BadOption('where to? Give option destination, .option("destination", "orders"), or a column destination')
    arrow = to_arrow_schema(schema, timezone="UTC")
    columns = tuple(
        _plan_column(field.name, field.dataType.simpleString(), arrow.field(index).type, options)
        for index, field in enumerate(schema.fields)
    )
    _refuse_repeated([column.name for column in columns])
    return WritePlan(columns)


def _plan_column(name: str, shown_type: str, given: pa.DataType, options: Options) -> WriteColumn:
    is_property = name in options.property_columns or name.startswith(PROPERTY_PREFIX)
    target = f"{PROPERTY_PREFIX}{name}" if name in options.property_columns else name
    if is_property and len(target) == len(PROPERTY_PREFIX):
        raise BadOption(f"column {name!r} has no name of a property after the colon")
    kind = _PROPERTY if is_property else WRITE_COLUMNS.get(name)
    if kind is None:
        raise BadOption(
            f"a message has no column {name!r} that can be written. There are {', '.join(WRITE_COLUMNS)}, and "
            f'{PROPERTY_PREFIX}<name>; make it a property with .option("propertyColumns", "{name}"), or leave '
            f'it out with .drop("{name}")'
        )
    sent = kind.target(given)
    if sent is None:
        raise BadOption(f"column {name!r} is {shown_type}, and must be {kind.possible}; cast it before writing")
    return WriteColumn(name, target, sent)


def _refuse_repeated(names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise BadOption(f"column {name!r} would be written twice; drop or rename one of them")


def _converted(array: Any, column: WriteColumn) -> Any:
    if array.type == column.type:
        return array
    try:
        return array.cast(column.type)
    except pa.ArrowInvalid as error:
        raise ConnectorError(f"column {column.source!r} has a value that does not fit {column.type}: {error}") from None

"""The files of `ackwire store export` and `import`: JSON lines, and Parquet where pyarrow is installed.

Parquet has one column for each field of any row (`ackwire.store.portable`). A row with a text that is no UTF-8, such as
half of a surrogate pair, has its JSON in the column `exact` beside what can be shown of it.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Final

from ackwire.errors import ConfigError
from ackwire.store.portable_rows import BadRow, Row, from_json, to_json

FORMATS: Final = ("jsonl", "parquet")
_BATCH_ROWS: Final = 1000
_BATCH_BYTES: Final = 32 << 20

# fmt: off
_TEXTS: Final = (
    "kind", "destination", "client_id", "subscription", "message_id", "correlation_id", "reply_to", "type", "group_id",
    "body", "text", "selector", "job_id", "cron", "cursor", "batch_producer", "part", "exact",
    "user",
)
_NUMBERS: Final = (
    "version", "rows", "sequence", "redelivery_count", "timestamp_ms", "arrived_ms", "expiration_ms", "priority",
    "group_sequence", "start_ms", "due_ms", "delay_ms", "period_ms", "repeats_left", "count", "last_sequence",
    "dispatched_to", "at_ms", "committed", "removed", "batch", "since_ms", "committed_ms",
)
# fmt: on
_FLAGS: Final = ("persistent", "no_local", "fresh_ids", "is_committed")
_BYTES: Final = ("frame", "transaction", "producer")


def format_of(path: str, given: str | None) -> str:
    """The format that was asked for, or that the name of the file says."""
    return given or ("parquet" if path.endswith(".parquet") else "jsonl")


# ---- JSON lines ------------------------------------------------------------------------------------------------


def write_lines(rows: Iterable[Row], out: IO[str]) -> None:
    for row in rows:
        out.write(json_line(row))
        out.write("\n")


def json_line(row: Row) -> str:
    # ASCII only: half a surrogate pair survives as an escape.
    return json.dumps(to_json(row), allow_nan=False, separators=(",", ":"))


def read_lines(path: Path) -> Iterator[Row]:
    """Raises `BadRow` for a line that is no row."""
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            try:
                yield from_json(json.loads(line))
            except (ValueError, RecursionError):
                raise BadRow(f"row {number}: it is not JSON") from None
            except BadRow as error:
                raise BadRow(f"row {number}: {error}") from None


# ---- Parquet ---------------------------------------------------------------------------------------------------


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise ConfigError("Parquet needs pyarrow: pip install 'ackwire[export]'") from None
    return pyarrow


def _schema(pa: Any) -> Any:
    place = [("destination", pa.string()), ("client_id", pa.string()), ("subscription", pa.string())]
    fields = [(name, pa.string()) for name in _TEXTS]
    fields += [(name, pa.int64()) for name in _NUMBERS]
    fields += [(name, pa.bool_()) for name in _FLAGS]
    fields += [(name, pa.binary()) for name in _BYTES]
    fields += [
        ("properties", pa.string()),  # typed JSON
        ("places", pa.list_(pa.struct(place))),
        ("sends", pa.list_(pa.binary())),
        ("acks", pa.list_(pa.struct([*place, ("sequence", pa.int64())]))),
        ("held", pa.list_(pa.int64())),
        ("unsafe", pa.list_(pa.int64())),
        ("held_in", pa.list_(pa.struct([*place, ("held", pa.list_(pa.int64()))]))),
    ]
    return pa.schema(fields)


def write_parquet(rows: Iterable[Row], path: Path) -> None:
    pa = _pyarrow()
    schema = _schema(pa)
    columns = frozenset(schema.names)
    with pa.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in _batches(_for_parquet(row, columns) for row in rows):
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    size_bytes = 0
    for row in rows:
        batch.append(row)
        size_bytes += len(row.get("frame") or b"")
        if len(batch) >= _BATCH_ROWS or size_bytes >= _BATCH_BYTES:
            yield batch
            batch, size_bytes = [], 0
    if batch:
        yield batch


def _for_parquet(row: Row, names: frozenset[str]) -> Row:
    if not row.keys() <= names:
        raise AssertionError(f"rows of kind {row['kind']} have fields without a column: {row.keys() - names}")
    columns = dict(row)
    if columns.get("properties") is not None:
        columns["properties"] = json.dumps(columns["properties"], allow_nan=False)
    shown = _printable(columns)
    return columns if shown == columns else {**shown, "exact": json_line(row)}


def _printable(value: Any) -> Any:
    """*value* with texts that UTF-8 can hold."""
    match value:
        case str():
            return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
        case dict():
            return {name: _printable(item) for name, item in value.items()}
        case list():
            return [_printable(item) for item in value]
    return value


def read_parquet(path: Path) -> Iterator[Row]:
    pa = _pyarrow()
    try:
        with pa.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_BATCH_ROWS):
                for row in batch.to_pylist():
                    yield _from_parquet(row)
    except pa.ArrowException as error:
        raise BadRow(f"it is not a Parquet file that can be read: {str(error).splitlines()[0]}") from None


def _from_parquet(columns: Row) -> Row:
    exact = columns.get("exact")
    if exact is not None:
        try:
            return from_json(json.loads(exact))
        except (ValueError, RecursionError):
            raise BadRow("what stands in the column exact is not JSON") from None
    return {name: value for name, value in columns.items() if value is not None}

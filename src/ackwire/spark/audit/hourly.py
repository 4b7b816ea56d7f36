"""Counts of `ackwire audit follow` as Parquet: a file per hour, one row per minute, place and kind of event.

A micro-batch adds its counts to the files of the hours that its events belong to, late ones included. Each file says
which micro-batch of which query it holds last, so that a micro-batch that is done again after a crash adds nothing.
"""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

_MARK: Final = b"ackwire.follow"
_KEY: Final = ["minute", "broker", "place", "event"]
_SCHEMA: Final = pa.schema(
    [
        ("minute", pa.timestamp("us", "UTC")),
        ("broker", pa.string()),
        ("place", pa.string()),
        ("event", pa.string()),
        ("count", pa.int64()),
    ]
)


class Count(NamedTuple):
    """One row; the minute is counted from 1970."""

    minute: int
    broker: str
    place: str
    event: str
    events: int


class HourlyCounts:
    """The files below *folder*, as far as the query *query* has written them."""

    def __init__(self, folder: Path, query: str) -> None:
        self.folder = folder
        self._query = query

    def add(self, batch: int, counts: Iterable[Count]) -> None:
        """Add the counts of a micro-batch, unless they are in already."""
        by_hour: dict[int, list[Count]] = {}
        for it in counts:
            by_hour.setdefault(it.minute // 60, []).append(it)
        for hour, its in sorted(by_hour.items()):
            self._add(self._path(hour), batch, its)

    def _path(self, hour: int) -> Path:
        begin = datetime.fromtimestamp(hour * 3600, UTC)
        return self.folder / f"date={begin:%Y-%m-%d}" / f"hour={begin:%H}" / "counts.parquet"

    def _add(self, path: Path, batch: int, counts: list[Count]) -> None:
        new = _table(counts)
        known = self._known(path)
        if known is not None:
            if _mark(known)["batch"] >= batch:
                return
            new = pa.concat_tables([known.select(_SCHEMA.names).cast(_SCHEMA), new])
        sums = (
            new.group_by(_KEY)
            .aggregate([("count", "sum")])
            .rename_columns([*_KEY, "count"])
            .sort_by([(it, "ascending") for it in _KEY])
        )
        mark = json.dumps({"query": self._query, "batch": batch}).encode()
        temporary = path.with_name(f".{path.name}.tmp")
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(sums.cast(_SCHEMA).replace_schema_metadata({_MARK: mark}), temporary, compression="zstd")
        temporary.rename(path)

    def _known(self, path: Path) -> pa.Table | None:
        """The counts that this query has written; those of another query over the same events are replaced."""
        try:
            table = pq.ParquetFile(path).read()
        except FileNotFoundError:
            return None
        return table if _mark(table).get("query") == self._query else None


def _mark(table: pa.Table) -> dict[str, Any]:
    found = (table.schema.metadata or {}).get(_MARK)
    mark: dict[str, Any] = json.loads(found) if found else {}
    return mark


def _table(counts: list[Count]) -> pa.Table:
    columns = list(zip(*counts, strict=True))
    times = pa.array([it * 60_000_000 for it in columns[0]], pa.int64()).cast(_SCHEMA.field("minute").type)
    arrays = [times, *(pa.array(its, kind) for its, kind in zip(columns[1:], _SCHEMA.types[1:], strict=True))]
    return pa.Table.from_arrays(arrays, schema=_SCHEMA)

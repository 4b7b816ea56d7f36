"""Offsets of a stream, and how a range of messages is divided among tasks.

An offset is a cursor's number: everything up to it has been read. The cursor's name goes with it, so that a checkpoint
is not used with another cursor. `from` is set only where the stream went on behind a gap (failOnDataLoss = false): the
batch that ends there begins at that number and not where the one before ended. Dividing depends on nothing but the
numbers, so a batch that is run again after a crash reads the same messages.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from pyspark.sql.datasource import InputPartition

from ackwire.spark.errors import BadOption, ConnectorError

ROWS_PER_PARTITION_MIN: Final = 5000
"""Fewer are not worth a task, which takes some milliseconds."""


@dataclass(frozen=True, slots=True)
class Offset:
    """How far a stream has read."""

    cursor: str
    number: int
    starts_after: int | None = None

    def to_json(self) -> dict[str, Any]:
        plain: dict[str, Any] = {"cursor": self.cursor, "number": self.number}
        return plain if self.starts_after is None else {**plain, "from": self.starts_after}


def read_offset(plain: Mapping[str, Any], cursor: str) -> Offset:
    """The offset in a checkpoint. Raises if it is another cursor's, or none of ours."""
    try:
        offset = Offset(str(plain["cursor"]), int(plain["number"]), plain.get("from"))
    except (KeyError, TypeError, ValueError):
        raise ConnectorError(f"the checkpoint has an offset that is not of this source: {plain!r}") from None
    if offset.cursor != cursor:
        raise BadOption(
            f"the checkpoint is one of cursor {offset.cursor!r}, and option cursor is {cursor!r}: give that name, or "
            "start with a new checkpointLocation"
        )
    return offset


class RangePartition(InputPartition):
    """What one task reads: the messages *after* … *to* of a cursor or a queue, by the address they are at."""

    def __init__(self, path: str, after: int, to: int) -> None:
        super().__init__((path, after, to))
        self.path = path
        self.after = after
        self.to = to


def split_range(after: int, to: int, parts: int) -> list[tuple[int, int]]:
    """Divide *after* … *to* into at most *parts* ranges of about the same size, none of them tiny or empty."""
    rows = to - after
    count = max(1, min(parts, rows // ROWS_PER_PARTITION_MIN))
    bounds = [after + rows * index // count for index in range(count + 1)]
    return [(low, high) for low, high in pairwise(bounds) if low < high]

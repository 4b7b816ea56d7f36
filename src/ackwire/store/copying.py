"""Copies a store into another of any kind, and compares the two (SEMANTICS K2).

The rows of an export (`portable_export.py`) go from one to the other without a file between. A `Summary` counts them
and has a checksum for each kind, so two stores that hold the same have the same summary, whatever they are made of.
What is remembered of producers is compared apart: a store learns it from messages too, so the copy may know more.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, final

from ackwire.jms.message import Message
from ackwire.store.contract import StoredForm
from ackwire.store.portable import Import, Restamp, RowReader, Source, Target
from ackwire.store.portable_export import Export
from ackwire.store.portable_rows import END_KIND, HEADER_KIND, Row, to_json

OnRow = Callable[[Row], None]


class TooLarge(Exception):
    """A message that the target does not take."""


@final
@dataclass(slots=True)
class Summary:
    """How many rows of each kind a store has, and their checksums."""

    counts: dict[str, int] = field(default_factory=dict)
    message_bytes: int = 0
    largest_bytes: int = 0
    """The largest message."""
    producers: dict[bytes, int] = field(default_factory=dict)
    """Up to `PRODUCERS_REMEMBERED`."""
    _digests: dict[str, Any] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)
    """Messages that are left out."""

    def add(self, row: Row) -> None:
        kind = row["kind"]
        if kind == END_KIND:
            return
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if kind == "producer":
            self.producers[row["producer"]] = row["count"]
            return
        if kind == "message":
            size_bytes = len(row["frame"])
            self.message_bytes += size_bytes
            self.largest_bytes = max(self.largest_bytes, size_bytes)
        text = json.dumps(to_json(row), sort_keys=True, separators=(",", ":"))
        self._digests.setdefault(kind, hashlib.sha256()).update(text.encode("ascii") + b"\n")

    @property
    def is_empty(self) -> bool:
        """Whether the store was never used."""
        return not self.counts.keys() - {HEADER_KIND, "crash"}

    @property
    def messages(self) -> int:
        return self.counts.get("message", 0)

    def digest(self, kind: str) -> str:
        """The checksum of all rows of one kind; empty if there are none."""
        found = self._digests.get(kind)
        return "" if found is None else str(found.hexdigest())

    @property
    def checksum(self) -> str:
        """SHA-256 of everything but producers."""
        text = "\n".join(f"{kind} {self.counts[kind]} {self.digest(kind)}" for kind in sorted(self._digests))
        return hashlib.sha256(text.encode("ascii")).hexdigest()

    def differences(self, copy: "Summary") -> Iterator[str]:
        """Sentences about what *copy* does not have as this store has it."""
        for kind in sorted(self._digests.keys() | copy._digests.keys()):
            here, there = self.counts.get(kind, 0), copy.counts.get(kind, 0)
            if here != there:
                yield f"{here} of kind {kind} in the original, and {there} in the copy"
            elif self.digest(kind) != copy.digest(kind):
                yield f"the checksums of kind {kind} are not the same"
        behind = sum(1 for key, count in self.producers.items() if copy.producers.get(key, -1) < count)
        if behind:
            yield f"the copy knows less of {behind} of {len(self.producers)} producers"


def _nothing(_: Message) -> dict[str, Any]:
    return {}


def _nothing_to_do(_: Row) -> None:
    """For those who do not watch."""


def _rows(source: Source, summary: Summary, on_row: OnRow) -> Iterator[Row]:
    export = Export(source, _nothing)
    for row in export.rows():
        summary.add(row)
        on_row(row)
        yield row
    summary.unreadable += export.unreadable


def summary_of(source: Source, on_row: OnRow = _nothing_to_do) -> Summary:
    """Read everything."""
    summary = Summary()
    for _ in _rows(source, summary, on_row):
        pass
    return summary


def copy(source: Source, target: Target, form: StoredForm, restamp: Restamp, on_row: OnRow = _nothing_to_do) -> Summary:
    """Write all of *source* to *target*, which is empty; return what was read. Raises `Full`, `StoreFailed`, `BadRow`
    and `TooLarge`."""
    limit = target.store.message_bytes_max

    def check(row: Row) -> None:
        if limit is not None and row["kind"] == "message" and len(row["frame"]) > limit:
            raise TooLarge(
                f"message {row['sequence']} has {len(row['frame'])} bytes, and the database takes up to {limit}; raise "
                "its max_allowed_packet to more than twice that"
            )
        on_row(row)

    summary = Summary()
    work = Import(target, restamp)
    work.run(RowReader(form).read(_rows(source, summary, check)))
    assert not work.report.reassigned, "sequences of an empty store are free"
    return summary

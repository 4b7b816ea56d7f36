"""What recovery found: a report for the log, and a quarantine for bytes that could not be used."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, final

from ackwire.store.files import Files
from ackwire.util.plurals import counted

_REPORT_NAME: Final = "report.jsonl"
_REPORT_BYTES_MAX: Final = 1 << 20


class UnusableStore(Exception):
    """The files of a store cannot be used; the text says why and what to do."""


@dataclass(slots=True)
class Report:
    """What recovery found and did."""

    replayed: int = 0
    """Records read from the journal."""
    is_rebuilt: bool = False
    """The index was made anew, from the whole journal."""
    cut_bytes: int = 0
    """The torn end of the last write."""
    damages: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        source = "the index made anew from the whole journal" if self.is_rebuilt else "the index was good"
        cut = counted(self.cut_bytes, "unfinished byte")
        return f"{source}, {counted(self.replayed, 'record')} replayed, {cut} cut off"


@final
class Quarantine:
    """Where damaged bytes go, with a line that says what they were."""

    def __init__(self, files: Files, directory: Path, report: Report, now_ms: Callable[[], int]) -> None:
        self._files = files
        self._directory = directory
        self._report = report
        self._now_ms = now_ms
        self._lines: list[str] = []

    def put(self, what: str, name: str, data: bytes = b"") -> None:
        """Report *what*, and keep *data* under *name* if there is any. The report is written by `flush`."""
        self._report.damages.append(what)
        if data:
            self._files.make_directory(self._directory)
            self._files.replace(self._directory / name, data)
        self._lines.append(json.dumps({"at_ms": self._now_ms(), "what": what, "file": name if data else None}))

    def flush(self) -> None:
        """Write the lines that are new, as long as the report is not too long to be of use."""
        lines, self._lines = self._lines, []
        if not lines:
            return
        path = self._directory / _REPORT_NAME
        self._files.make_directory(self._directory)
        old = self._files.read(path) if self._files.exists(path) else b""
        if len(old) < _REPORT_BYTES_MAX:
            self._files.replace(path, old + "".join(f"{line}\n" for line in lines).encode())

"""An audit on real files for tests, and how to read what it has written."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ackwire.audit.events import AuditLog, run_name
from ackwire.audit.parquet_files import convert
from ackwire.audit.records import Run
from ackwire.audit.spool import EVENTS, Spool
from ackwire.config import AuditSettings
from ackwire.util.clock import ManualClock, Turns
from ackwire.wire.openwire.id_text import producer_text, transaction_text


class FileAudit:
    """A recorder, its spool, and the chunks that have ended, which are converted when a test says so."""

    def __init__(
        self, directory: Path, *, clock: ManualClock | None = None, turns: Turns | None = None, **settings: Any
    ) -> None:
        self.directory = directory
        self.clock = clock or ManualClock()
        self.chunks: list[Path] = []
        self.run = Run(run_name("rig", self.clock.now_ms()), "rig")
        self.settings = AuditSettings(**{"free_bytes_min": 0, **settings})
        self.spool = Spool(
            directory, self.run, self.settings, clock=self.clock, holder="a test", on_chunk=self.chunks.append
        )
        self.log = AuditLog(
            self.spool,
            clock=self.clock,
            now_ns=lambda: self.clock.now_ms() * 1_000_000,
            turns=turns,
            producer_text=producer_text,
            transaction_text=transaction_text,
        )

    def convert(self) -> list[Path]:
        """Turn the chunks that have ended into files, as the thread does; the answer is the files."""
        made = []
        while self.chunks:
            chunk = self.chunks.pop(0)
            made.append(convert(chunk, self.directory))
            chunk.unlink()
        return [file for file in made if file is not None]

    def close(self) -> None:
        self.log.close()
        self.spool.release()

    def finish(self) -> list[dict[str, Any]]:
        """End the audit; the answer is all events."""
        self.close()
        self.convert()
        return events(self.directory)


def events(directory: Path, where: Callable[[dict[str, Any]], bool] = lambda _: True) -> list[dict[str, Any]]:
    """Everything in the files below *directory*, in the order in which it happened."""
    files = sorted((directory / EVENTS).rglob("*.parquet"))
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    return [row for row in sorted(rows, key=lambda row: (row["run"], row["number"])) if where(row)]

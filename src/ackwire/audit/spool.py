"""The spool: events on disk that are not Parquet yet, in chunks that are written once.

Whatever was given to `write` survives the end of the process, however it ends: it is with the operating system. Only
a loss of power can take the last of it. A chunk that is closed goes to the converter to Parquet (`converter.py`),
which deletes it then; chunks of an earlier run that ended without doing so are handed on at the start.

When the disk takes no more, events stay in memory up to a limit, and the broker blocks producers if
`when_full = "block"`. Beyond the limit events are dropped. They have their numbers all the same, so that
readers of the events see the gap, and the spool counts and reports it.
"""

import json
import logging
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, final

from ackwire.audit.pending_records import Taken
from ackwire.audit.records import Block, Run, chunk_header, encoded, first_number_of
from ackwire.config import AuditSettings
from ackwire.store.files import Lock, LockHeld, OsFiles
from ackwire.util.clock import Clock

EVENTS: Final = "events"
"""Where the Parquet files are."""
SPOOL: Final = "spool"
CHUNK_SUFFIX: Final = ".spool"
_CLEAN_STOP: Final = "clean-stop.json"
_CLEAN_STOP_BYTES_MAX: Final = 4096
_LOOK_SECONDS: Final = 1.0
"""How often the disk's free space is looked at, and a write that failed is tried again."""

_ROLL_EVENTS: Final = 1_000_000
"""A chunk ends with so many: messages in a row take next to nothing of the spool, but their share of Parquet."""

_log = logging.getLogger(__name__)


def leftover_chunks(directory: Path) -> list[Path]:
    """The chunks below *directory* that are not Parquet yet, oldest first."""
    return sorted((directory / SPOOL).glob(f"*{CHUNK_SUFFIX}"), key=lambda it: it.stat().st_mtime_ns)


class AuditUnusable(Exception):
    """The directory of the audit cannot be used; the text says why."""


@final
class Spool:
    """The chunks of one run."""

    def __init__(
        self,
        directory: Path,
        run: Run,
        settings: AuditSettings,
        *,
        clock: Clock,
        holder: str,
        on_chunk: Callable[[Path], None],
    ) -> None:
        """Raises `AuditUnusable` if *directory* cannot be written, or another broker uses it."""
        self._directory = directory
        self._run = run
        self._settings = settings
        self._clock = clock
        self._on_chunk = on_chunk
        self.on_full: Callable[[str | None], None] = lambda _: None
        """Told why producers should wait, and None when they need not any more."""
        self.number = 1
        """Of the next event."""
        self.dropped = 0
        """Events that were lost because neither disk nor memory had room."""
        self._full: str | None = None
        self._trouble: str | None = None
        self._descriptor: int | None = None
        self._path = directory
        self._size = 0
        self._first_number = 0
        self._begun_at = 0.0
        self._looked_at = 0.0
        self._unwritten: deque[bytes] = deque()
        self._unwritten_bytes = 0
        self._lock = self._open(holder)

    def _open(self, holder: str) -> Lock:
        try:
            (self._directory / SPOOL).mkdir(parents=True, exist_ok=True)
            lock = OsFiles().lock(self._directory / "lock", holder)
        except LockHeld as held:
            raise AuditUnusable(f"{self._directory} is in use by {held.holder or 'another process'}") from None
        except OSError as error:
            raise AuditUnusable(f"{self._directory} cannot be used for audit events: {error}") from None
        left = leftover_chunks(self._directory)
        self._is_new = not left and not (self._directory / EVENTS).exists()
        for chunk in left:
            self._on_chunk(chunk)
        return lock

    # ---- how the last run ended --------------------------------------------------------------------------------

    def why_unknown(self, last_sequence: int) -> str | None:
        """Why the events so far do not tell what the store has now; None if they do."""
        path = self._directory / _CLEAN_STOP
        try:
            with path.open("rb") as file:
                facts = json.loads(file.read(_CLEAN_STOP_BYTES_MAX))
            path.unlink()
        except FileNotFoundError:
            return "not audited before" if self._is_new else "the last run ended without a stop"
        except (OSError, ValueError) as error:
            return f"how the last run ended cannot be read: {error}"
        known = facts.get("last_sequence") if isinstance(facts, dict) else None
        return None if known == last_sequence else "the broker ran without an audit"

    def note_clean_stop(self, last_sequence: int) -> None:
        """All that is in the store was told of."""
        facts = {"run": self._run.run, "last_sequence": last_sequence, "last_number": self.number - 1}
        if not self._unwritten:
            with suppress(OSError):  # then the next start looks at everything, which is only more work
                OsFiles().replace(self._directory / _CLEAN_STOP, json.dumps(facts).encode("ascii"))

    # ---- writing -----------------------------------------------------------------------------------------------

    def write(self, definitions: bytes, taken: Taken) -> bool:
        """Write events; False if they had to be dropped, and what they define with them."""
        events = taken.events
        data = encoded(Block(self.number, events, taken.messages, definitions, taken.records, taken.followers))
        self.number += events
        if self._unwritten_bytes + len(data) > self._settings.buffer_bytes_max:
            self._drop(events)
            return False
        self._unwritten.append(data)
        self._unwritten_bytes += len(data)
        if self._trouble is None:
            self._write_waiting()
        return True

    def _drop(self, events: int) -> None:
        if not self.dropped:
            _log.error(
                "audit events are dropped: %d bytes wait in memory (audit.buffer_bytes_max), %s",
                self._unwritten_bytes,
                self._trouble,
            )
        self.dropped += events

    def _write_waiting(self) -> None:
        try:
            while self._unwritten:
                self._write(self._unwritten[0])
                self._unwritten_bytes -= len(self._unwritten.popleft())
        except OSError as error:
            if self._trouble is None:
                _log.error("audit events cannot be written to %s, they are kept in memory: %s", self._path, error)
            self._trouble = f"{self._path} cannot be written: {error.strerror or error}"
            self._settle_full()
        else:
            if self._trouble is not None:
                _log.warning("audit events are written again; %d were dropped in this run", self.dropped)
                self._trouble = None
                self._settle_full()

    def _write(self, data: bytes) -> None:
        """All of it or nothing: a torn block would hide those behind it."""
        if self._descriptor is None:
            self._begin()
        assert self._descriptor is not None
        try:
            self._write_all(self._descriptor, data)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(data)

    def _write_all(self, descriptor: int, data: bytes) -> None:
        written = os.pwrite(descriptor, data, self._size)
        while written < len(data):
            more = os.pwrite(descriptor, memoryview(data)[written:], self._size + written)
            if more == 0:
                raise OSError("nothing was written")
            written += more

    def _begin(self) -> None:
        # The name is the number of the first event that is still to be written.
        first = first_number_of(self._unwritten[0])
        self._path = self._directory / SPOOL / f"{self._run.run}-{first:015}{CHUNK_SUFFIX}"
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
        self._size = 0
        self._first_number = first
        self._begun_at = self._clock.monotonic()
        header = chunk_header(self._run, first)
        try:
            self._write_all(self._descriptor, header)
        except OSError:  # without its header it cannot be read: the next attempt creates it again
            os.close(self._descriptor)
            self._descriptor = None
            raise
        self._size = len(header)

    # ---- rolling -----------------------------------------------------------------------------------------------

    @property
    def is_due(self) -> bool:
        """Whether the next chunk should begin."""
        if self._descriptor is None or self._unwritten:
            return False
        if self._size >= self._settings.roll_bytes or self.number - self._first_number >= _ROLL_EVENTS:
            return True
        return self._clock.monotonic() - self._begun_at >= self._settings.roll_seconds

    def roll(self) -> None:
        """End the chunk: it is to become a file of Parquet. The next one begins with the next event."""
        if self._descriptor is not None and not self._unwritten:
            os.close(self._descriptor)
            self._descriptor = None
            self._on_chunk(self._path)

    # ---- room --------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Called several times a second: try again what failed, and see whether there is room."""
        now = self._clock.monotonic()
        if now - self._looked_at >= _LOOK_SECONDS:
            self._looked_at = now
            if self._unwritten:
                self._write_waiting()
            self._settle_full()

    def _settle_full(self) -> None:
        full = self._why_full() if self._settings.when_full == "block" else None
        if full != self._full and (full is None or self._full is None):
            self._full = full
            self.on_full(full)

    def _why_full(self) -> str | None:
        if self._trouble is not None:
            return f"audit events wait for the disk: {self._trouble} (audit.when_full)"
        free = OsFiles().free_bytes(self._directory)
        if free < self._settings.free_bytes_min:
            return (
                f"the disk of the audit, {self._directory}, has {free} bytes left, "
                f"less than {self._settings.free_bytes_min} (audit.free_bytes_min)"
            )
        return None

    def close(self) -> None:
        """End the last chunk and release the directory."""
        if self._unwritten:
            self._write_waiting()
        if self._unwritten:
            _log.error("%d bytes of audit events are lost: %s", self._unwritten_bytes, self._trouble)
            self._unwritten.clear()
        self.roll()

    def release(self) -> None:
        """Another broker may use the directory."""
        self._lock.release()

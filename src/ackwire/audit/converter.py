"""The thread that has closed chunks of the spool into Parquet files, one after the other, and then deletes them.

A chunk whose conversion fails because of the disk stays and is tried again; one that makes no sense is put aside under
another name and reported. So the spool grows while the disk is in trouble, and nothing is lost by it.
"""

import logging
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

RETRY_SECONDS: Final = 5.0
_ASIDE: Final = ".unreadable"

_log = logging.getLogger(__name__)

Convert = Callable[[Path, Path], Path | None]


@final
class Converter:
    """Converts chunks into files below *directory*."""

    def __init__(self, directory: Path, convert: Convert) -> None:
        self._directory = directory
        self._convert = convert
        self._chunks: queue.SimpleQueue[Path | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def add(self, chunk: Path) -> None:
        """Queue *chunk*, which is complete, for conversion."""
        self._chunks.put(chunk)

    def stop(self, timeout_seconds: float) -> None:
        """Convert what is there and end; what takes longer than *timeout_seconds* is left to the next start."""
        self._stopping.set()
        self._chunks.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout_seconds)
        if self._thread.is_alive():
            _log.warning("audit events are left in the spool of %s: the next start converts them", self._directory)

    def _run(self) -> None:
        while (chunk := self._chunks.get()) is not None:
            while not self._done(chunk):
                if self._stopping.wait(RETRY_SECONDS):
                    return

    def _done(self, chunk: Path) -> bool:
        """Convert *chunk*; False if it should be tried again."""
        try:
            self._convert(chunk, self._directory)
            chunk.unlink()
        except OSError as error:
            _log.error("%s cannot be turned into Parquet now: %s", chunk, error)
            return False
        except Exception:
            _log.exception("%s cannot be turned into Parquet; it is kept as %s%s", chunk, chunk.name, _ASIDE)
            chunk.rename(chunk.with_name(chunk.name + _ASIDE))
        return True

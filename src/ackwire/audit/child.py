"""Makes Parquet files in a process of its own, so that the broker's loop shares no interpreter lock with that work.

The parent writes the path of a chunk as a line of JSON and reads a line back. The child ends when the parent has gone,
however it went. It has a low priority: what it does may be late, the broker should not.
"""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, final

_NICENESS: Final = 19
_LINE_BYTES_MAX: Final = 65_536
_STOP_SECONDS: Final = 10.0
_READY: Final = "ready"

_log = logging.getLogger(__name__)


class ChildFailed(OSError):
    """The child has ended, or says nothing that makes sense; a new one may do better."""


@final
class ConvertingChild:
    """Converts chunks as `parquet_files.convert` does, elsewhere. For one thread."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the child and wait until it can work. Raises `ChildFailed` with what it said last."""
        argv = [sys.executable, "-m", "ackwire.audit.child"]
        # A session of its own: signals for the broker's group are not for it, it has its last files to finish.
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter and our own module
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        answer = self._read()
        if answer != _READY:
            raise self._failed(f"it did not start: {answer}")

    def convert(self, chunk: Path, directory: Path) -> Path | None:
        """Make the Parquet file of *chunk*. Raises `OSError`, or `ValueError` if the chunk makes no sense."""
        if self._process is None:
            self.start()
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps((str(chunk), str(directory))).encode() + b"\n")
            self._process.stdin.flush()
            answer = self._read()
        except OSError as error:
            raise self._failed(str(error)) from None
        match answer:
            case ["made", path, *warnings]:
                for warning in warnings:
                    _log.warning("%s", warning)
                return Path(path) if isinstance(path, str) else None
            case ["refused", str() as why]:
                raise OSError(why)
            case ["senseless", str() as why]:
                raise ValueError(why)
            case _:
                raise self._failed(f"it answered {answer!r}")

    def stop(self) -> None:
        """Let the child end; it has nothing to do."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(OSError, subprocess.TimeoutExpired):
                process.communicate(timeout=_STOP_SECONDS)

    def _failed(self, why: str) -> ChildFailed:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()
        return ChildFailed(f"the process that makes Parquet files has failed: {why}")

    def _read(self) -> object:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline(_LINE_BYTES_MAX)
        try:
            return json.loads(line) if line else None
        except ValueError:
            return line


def _answer(convert: Callable[..., Path | None], chunk: str, directory: str) -> tuple[str | None, ...]:
    warnings: list[str] = []
    try:
        made = convert(Path(chunk), Path(directory), warnings.append)
    except OSError as error:
        return "refused", str(error)
    except Exception as error:
        return "senseless", f"{type(error).__name__}: {error}"
    return "made", None if made is None else str(made), *warnings


def _tell(out: IO[bytes], answer: object) -> None:
    out.write(json.dumps(answer).encode() + b"\n")
    out.flush()


def main() -> None:
    """The main loop of the child process."""
    try:
        from ackwire.audit.parquet_files import convert
    except ImportError as error:
        _tell(sys.stdout.buffer, str(error))
        return
    os.nice(_NICENESS)
    with suppress(AttributeError, OSError):  # Linux: only idle CPU time; the spool waits on disk meanwhile
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    _tell(sys.stdout.buffer, _READY)
    while line := sys.stdin.buffer.readline(_LINE_BYTES_MAX):
        chunk, directory = json.loads(line)
        _tell(sys.stdout.buffer, _answer(convert, chunk, directory))


if __name__ == "__main__":
    main()

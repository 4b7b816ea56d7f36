"""Processes that tests start: brokers and clients, each with its output kept in a file.

A process is watched through its output: `wait_for_line` returns when the line appears, or raises with
everything printed so far when the process ends or the deadline passes. Processes are signalled by their own
pid and nothing else, and are gone when the `with` block ends.
"""

import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

READY_TIMEOUT_SECONDS = 30.0  # a start takes one or two; more means it hangs
STOP_TIMEOUT_SECONDS = 15.0
READY_LINE = re.compile(r"\bready: (?P<addresses>\S.*)$")
LOG_TAIL_BYTES = 8000  # enough for two Java stack traces


class ProcessFailed(Exception):
    """A process ended, or kept silent, when it should have been working; the text shows its output."""


class ManagedProcess:
    """A running subprocess; lines of its output go to *log_path* and to those who wait for them."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        log_path: Path,
        on_line: Callable[[str | None], None] | None = None,
        separate_stderr: bool = False,
    ) -> None:
        """Start *argv*. *on_line* is given each output line, which then is not logged, and None at the end.

        With *separate_stderr* only standard output is read as lines; standard error goes straight to the log.
        """
        self.log_path = log_path
        self._log = log_path.open("ab", buffering=0)
        self._on_line = on_line
        self._lines: list[str] = []
        self._ended = False
        self._changed = threading.Condition()
        self._popen = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log if separate_stderr else subprocess.STDOUT,
        )
        self._reader = threading.Thread(target=self._read_output, name=f"output of {argv[0]}", daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def is_running(self) -> bool:
        return self._popen.poll() is None

    def write_line(self, line: str) -> None:
        """Write *line* to the process's standard input; raises `ProcessFailed` if nobody reads it."""
        assert self._popen.stdin is not None
        try:
            self._popen.stdin.write(line.encode("ascii") + b"\n")
            self._popen.stdin.flush()
        except BrokenPipeError:
            raise self.failure("does not read its input") from None

    def wait_for_line(self, pattern: re.Pattern[str], timeout_seconds: float) -> re.Match[str]:
        """Return the first match of *pattern* in a line of output, waiting for it if need be."""
        deadline = time.monotonic() + timeout_seconds
        seen = 0
        with self._changed:
            while True:
                for line in self._lines[seen:]:
                    if match := pattern.search(line):
                        return match
                seen = len(self._lines)
                if self._ended:
                    raise self.failure(f"ended before printing {pattern.pattern!r}")
                if not self._changed.wait(max(0.0, deadline - time.monotonic())):
                    raise self.failure(f"did not print {pattern.pattern!r} within {timeout_seconds} s")

    def has_line(self, pattern: re.Pattern[str]) -> bool:
        """Whether a line of output matches so far."""
        with self._changed:
            return any(pattern.search(line) for line in self._lines)

    def terminate(self, timeout_seconds: float = STOP_TIMEOUT_SECONDS) -> int:
        """Ask the process to end (SIGTERM) and return its exit code; kills it if it does not listen."""
        if self.is_running:
            self._popen.terminate()
        try:
            return self._popen.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise self.failure(f"did not end within {timeout_seconds} s of SIGTERM") from None
        finally:
            self._release()

    def wait(self) -> int:
        """Wait until it ends by itself, and return its exit code."""
        try:
            return self._popen.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise self.failure(f"did not end by itself within {STOP_TIMEOUT_SECONDS} s") from None
        finally:
            self._release()

    def kill(self) -> None:
        """End the process with SIGKILL: no farewell, as in a crash."""
        self._popen.kill()
        self._popen.wait()
        self._release()

    def stop(self) -> None:
        """End the process if it still runs, however it likes to."""
        if self.is_running:
            self.terminate()
        self._release()

    def send_signal(self, number: int) -> None:
        self._popen.send_signal(number)

    def output(self) -> str:
        """The end of what the process has logged so far."""
        return self.log_path.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")

    def failure(self, what: str) -> ProcessFailed:
        """An exception that says *what* happened, the exit code and the log's end."""
        code = self._popen.poll()
        state = "still running" if code is None else f"exit code {code}"
        return ProcessFailed(f"{self._popen.args!r} {what} ({state}); its output:\n{self.output()}")

    def _read_output(self) -> None:
        assert self._popen.stdout is not None
        for raw in self._popen.stdout:
            line = raw.decode(errors="replace").rstrip("\n")
            if self._on_line is not None:
                self._on_line(line)
                continue
            self._log.write(raw)
            with self._changed:
                self._lines.append(line)
                self._changed.notify_all()
        if self._on_line is not None:
            self._on_line(None)
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _release(self) -> None:
        self._reader.join(STOP_TIMEOUT_SECONDS)
        for stream in (self._popen.stdin, self._popen.stdout, self._log):
            if stream is not None:
                stream.close()


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """A broker that accepts connections on *ports*, in the order its listeners were given."""

    process: ManagedProcess
    ports: tuple[int, ...]


def wait_until_ready(
    process: ManagedProcess, listeners: int, timeout_seconds: float = READY_TIMEOUT_SECONDS
) -> RunningBroker:
    """Wait for the ready line and take the port of each of the *listeners* from it."""
    addresses = process.wait_for_line(READY_LINE, timeout_seconds)["addresses"]
    ports = tuple(int(port) for port in re.findall(r"://[^\s,?]*:(\d+)", addresses))
    if len(ports) != listeners:
        raise process.failure(f"announced {addresses!r}, not {listeners} addresses")
    return RunningBroker(process, ports)


@contextmanager
def running_broker(
    listeners: Sequence[str], *, log_path: Path, options: Sequence[str] = ("--store", "memory")
) -> Iterator[RunningBroker]:
    """Run `ackwire serve` on the *listeners* (URIs; port 0: a free one); it must end with exit code 0.

    What it stores is beside its log unless the *options* say where: tests beside this one have brokers of their own.
    """
    data = log_path.with_suffix(".data")
    argv = [str(ackwire_program()), "serve", "--data", str(data), *options]
    for listener in listeners:
        argv += ["--listen", listener]
    with ManagedProcess(argv, log_path=log_path) as process:
        yield wait_until_ready(process, len(listeners))
        if not process.is_running:
            raise process.failure("ended by itself")
        if process.terminate() != 0:
            raise process.failure("did not end well after SIGTERM")


class RestartableBroker:
    """`ackwire serve` on a journal that outlives it: stopped, killed and started again on the same port."""

    def __init__(self, folder: Path, options: Sequence[str] = (), program: Sequence[str] = ()) -> None:
        self._folder = folder
        self._options = tuple(options)
        self._program = tuple(program) or (str(ackwire_program()),)
        self.data = folder / "data"
        self._process: ManagedProcess | None = None
        self.port = 0

    @property
    def process(self) -> ManagedProcess:
        assert self._process is not None, "the broker was not started"
        return self._process

    @property
    def url(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def start(self) -> None:
        listen = ("--listen", f"tcp://127.0.0.1:{self.port}")
        argv = [*self._program, "serve", "--data", str(self.data), *listen, *self._options]
        self._process = ManagedProcess(argv, log_path=self._folder / "broker.log")
        self.port = wait_until_ready(self._process, 1).ports[0]

    def restart(self, *, kill: bool) -> None:
        """End it, as it should or as in a crash, and start it again."""
        if kill:
            self.process.kill()
        elif self.process.terminate() != 0:
            raise self.process.failure("did not end well after SIGTERM")
        self.start()

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def ackwire_program() -> Path:
    """The `ackwire` command of the environment that runs the tests."""
    return Path(sys.executable).with_name("ackwire")

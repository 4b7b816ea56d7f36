"""The JVM with the clients (`java/load`): commands go in, the journal of what they tried and saw comes out."""

import queue
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from tests.helpers.java import CLIENT_JARS, JVM_OPTIONS, classpath, compiled
from tests.helpers.processes import ManagedProcess

SOURCES = Path(__file__).parent / "java/load"
_SILENCE_MAX_SECONDS = 90.0  # the clients give up before


class Clients:
    """The clients' process. Its journal is kept in *folder* too; clients named in *leave_out* do not work."""

    def __init__(self, port: int, seed: int, folder: Path, java_cache: Path, leave_out: Iterable[str] = ()) -> None:
        classes = compiled(SOURCES, CLIENT_JARS, java_cache)
        command = ["java", *JVM_OPTIONS, "-cp", classpath(CLIENT_JARS, classes), "CrashLoad"]
        command += [str(port), str(seed), *leave_out]
        self.broker_is_meant_to_live = False
        self.left_early: list[str] = []
        """Clients whose connection broke though nobody had killed the broker."""
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._journal: TextIO = (folder / "journal.txt").open("w")
        self._process = ManagedProcess(
            command, log_path=folder / "clients.log", on_line=self._on_line, separate_stderr=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._journal.close()

    def tell(self, command: str) -> None:
        self._note(f"> {command}")
        self._process.write_line(command)

    def ask(self, command: str, answer: str) -> Iterator[str]:
        """Give *command*, and return all lines of the journal up to the *answer*."""
        self.tell(command)
        while True:
            try:
                line = self._lines.get(timeout=_SILENCE_MAX_SECONDS)
            except queue.Empty:
                raise self._process.failure(f"did not answer {command!r}") from None
            if line is None:
                raise self._process.failure(f"ended during {command!r}")
            if line in (answer, f"{command.split()[0]} failed"):
                return
            yield line

    def note(self, comments: Sequence[str]) -> None:
        """Write *comments* into the kept journal."""
        for comment in comments:
            self._note(f"# {comment}")

    def _note(self, line: str) -> None:
        self._journal.write(f"{line}\n")
        self._journal.flush()

    def _on_line(self, line: str | None) -> None:
        """Called in the thread that reads, so that a connection that broke before the kill is known as such."""
        if line is not None:
            if self.broker_is_meant_to_live and line.startswith("gone "):
                self.left_early.append(line)
            self._note(line)
        self._lines.put(line)

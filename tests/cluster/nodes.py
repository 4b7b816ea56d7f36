"""Brokers of a group for tests: `ackwire serve` on fixed ports, killed, paused and waited for by what they print."""

import json
import re
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.helpers.databases import free_port
from tests.helpers.processes import ManagedProcess, ackwire_program

ROLE_SECONDS: Final = 60.0
"""For a role that a broker should get: a lease of a second, and a machine that is busy."""

_READY: Final = re.compile(r"\bready: ")


class Node:
    """One broker of a group."""

    def __init__(self, name: str, folder: Path, settings: Mapping[str, Mapping[str, object]]) -> None:
        self.name = name
        self.port, self.http_port = free_port(), free_port()
        self._folder = folder / name
        self._folder.mkdir()
        self.settings = settings
        self._process: ManagedProcess | None = None

    @property
    def url(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    @property
    def config(self) -> Path:
        """The file with its settings."""
        return self._folder / "ackwire.toml"

    @property
    def process(self) -> ManagedProcess:
        assert self._process is not None, "it was not started"
        return self._process

    def start(self, members: Sequence[str] = ()) -> Self:
        tables: dict[str, dict[str, object]] = {
            "broker": {"name": self.name},
            "listen": {"uris": [self.url]},
            "http": {"listen": f"127.0.0.1:{self.http_port}", "token_file": str(self._folder / "http.token")},
            "cluster": {"members": list(members)} if members else {},
            "limits": {"store_bytes_max": 1 << 30},
        }
        for table, values in self.settings.items():
            tables.setdefault(table, {}).update(values)
        config = self.config
        config.write_text("".join(_table(name, values) for name, values in tables.items()))
        argv = [str(ackwire_program()), "serve", "--config", str(config)]
        self._process = ManagedProcess(argv, log_path=self._folder / "broker.log")
        return self

    def wait_until_master(self) -> Self:
        self.process.wait_for_line(_READY, ROLE_SECONDS)
        return self

    @staticmethod
    def first_ready(nodes: "Sequence[Node]") -> "Node":
        """The one of *nodes* that becomes master first."""
        deadline = time.monotonic() + ROLE_SECONDS
        while True:
            for node in nodes:
                if node.process.has_line(_READY):
                    return node
                if not node.process.is_running:
                    raise node.process.failure("ended")
            if time.monotonic() > deadline:
                raise AssertionError("\n\n".join(it.process.output() for it in nodes))
            time.sleep(0.05)

    def wait_until_waiting(self, why: str = "") -> str:
        """Return why it waits, once that matches the pattern *why*."""
        return self.process.wait_for_line(re.compile(f"\\bwaiting: (?P<why>.*{why}.*)$"), ROLE_SECONDS)["why"]

    def wait_for_log(self, pattern: str) -> None:
        self.process.wait_for_line(re.compile(pattern), ROLE_SECONDS)

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it as an operator would."""
        if self.process.terminate() != 0:
            raise self.process.failure("did not end well after SIGTERM")

    def get(self, path: str) -> tuple[int, Any]:
        """Status and JSON of its HTTP port."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}{path}", timeout=10) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        if process is not None:
            if process.is_running:
                process.send_signal(signal.SIGCONT)
            process.stop()


def failover(*nodes: Node, **options: object) -> str:
    """A URI for clients of all *nodes*."""
    query = "&".join(f"{name}={value}" for name, value in {"maxReconnectDelay": 200, **options}.items())
    return f"failover:({','.join(node.url for node in nodes)})?{query}"


def _table(name: str, values: Mapping[str, object]) -> str:
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
    return f"[{name}]\n{lines}\n"

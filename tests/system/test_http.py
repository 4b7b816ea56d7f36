"""The HTTP port of `ackwire serve`, asked as a program of an operator asks it."""

import http.client
import json
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import ackwire
from tests.helpers.processes import ManagedProcess
from tests.helpers.prometheus import Labels, parse

pytestmark = pytest.mark.system

COMMAND = (sys.executable, "-m", "ackwire")
READY = re.compile(r"^ackwire \S+ ready: (?P<tcp>tcp://\S+), http://(?P<http>127\.0\.0\.1:[0-9]+)$")
TIMEOUT_SECONDS = 20.0


@dataclass(frozen=True)
class Served:
    """A broker with an HTTP port."""

    process: ManagedProcess
    url: str
    address: str
    data: Path

    @property
    def token(self) -> str:
        return (self.data / "http.token").read_text().strip()

    def ask(self, method: str, target: str, *, token: str | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.address, timeout=TIMEOUT_SECONDS)
        try:
            connection.request(method, target, headers={"Authorization": f"Bearer {token}"} if token else {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def metrics(self) -> dict[str, dict[Labels, float]]:
        status, body = self.ask("GET", "/metrics", token=self.token)
        assert status == 200
        return parse(body.decode())


@contextmanager
def serving(tmp_path: Path, *arguments: str) -> Iterator[Served]:
    data = tmp_path / "data"
    argv = (
        *COMMAND,
        "serve",
        "--data",
        str(data),
        "--listen",
        "tcp://127.0.0.1:0",
        "--http",
        "127.0.0.1:0",
        *arguments,
    )
    with ManagedProcess(argv, log_path=tmp_path / "serve.log", separate_stderr=True) as process:
        match = process.wait_for_line(READY, TIMEOUT_SECONDS)
        yield Served(process, match["tcp"], match["http"], data)
        assert process.terminate() == 0
        assert "Traceback" not in process.output()


def test_health_needs_no_token_and_the_rest_does(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        status, body = served.ask("GET", "/health")
        facts: Any = json.loads(body)
        assert (status, facts["status"], facts["store"]) == (200, "ok", "journal")
        assert served.ask("GET", "/metrics")[0] == 401
        assert served.ask("GET", "/metrics", token="not-the-token")[0] == 401
        assert served.ask("GET", "/metrics", token=served.token)[0] == 200
        assert stat.S_IMODE((served.data / "http.token").stat().st_mode) == 0o600
        assert served.token not in served.process.output()


def test_metrics_follow_the_messages(tmp_path: Path) -> None:
    orders = frozenset({("destination", "queue://orders")})
    with serving(tmp_path) as served:
        with ackwire.connect(served.url) as connection, connection.session() as session:
            producer = session.producer("orders")
            for number in range(3):
                producer.send(f"order {number}")
            assert served.metrics()["ackwire_connections"][frozenset()] == 1
            consumer = session.consumer("orders")
            assert consumer.receive(TIMEOUT_SECONDS) is not None
            consumer.close()
        found = served.metrics()
        assert found["ackwire_destination_enqueued_total"][orders] == 3
        assert found["ackwire_destination_dequeued_total"][orders] == 1
        assert found["ackwire_destination_pending"][orders] == 2
        assert found["ackwire_store_used_bytes"][frozenset()] > 0
        listed: Any = json.loads(served.ask("GET", "/v1/destinations", token=served.token)[1])
        assert [it["pending"] for it in listed if it["destination"] == "queue://orders"] == [2]


def test_connection_that_is_kept_open_does_not_delay_the_end(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        connection = http.client.HTTPConnection(served.address, timeout=TIMEOUT_SECONDS)
        connection.request("GET", "/health")
        assert connection.getresponse().read()
        assert served.process.terminate() == 0
        assert "were not finished" not in served.process.output()
        connection.close()


def test_token_of_the_operator_counts(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-token-of-the-operator\n")
    (tmp_path / "token").chmod(0o600)
    (tmp_path / "ackwire.toml").write_text(f"[http]\ntoken_file = {json.dumps(str(tmp_path / 'token'))}\n")
    with serving(tmp_path, "--config", str(tmp_path / "ackwire.toml")) as served:
        assert served.ask("GET", "/metrics", token="a-token-of-the-operator")[0] == 200
        assert not (served.data / "http.token").exists()

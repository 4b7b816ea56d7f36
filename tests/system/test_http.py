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

pa = pytest.importorskip("pyarrow")
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

    def ask(
        self, method: str, target: str, *, token: str | None = None, body: bytes | None = None
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.address, timeout=TIMEOUT_SECONDS)
        try:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            connection.request(method, target, body=body, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def post(self, target: str, value: object) -> Any:
        """The answer to JSON."""
        status, body = self.ask("POST", target, token=self.token, body=json.dumps(value).encode())
        assert status == 200, body
        return json.loads(body)

    def rows(self, target: str) -> Any:
        """The table that an Arrow stream is."""
        status, body = self.ask("GET", target, token=self.token)
        assert status == 200, body
        return pa.ipc.open_stream(body).read_all()

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
        if process.is_running:
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


def stream(rows: dict[str, Any]) -> bytes:
    batch = pa.record_batch(rows)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def test_batch_that_was_written_over_http_reaches_a_consumer_once(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        rows = {"text": [f"order {number}" for number in range(3)], "property:customer": [7, 8, 9]}
        target = "/v1/producers/job/parts/p1?batch=1&destination=orders"
        status, body = served.ask("POST", target, token=served.token, body=stream(rows))
        assert (status, json.loads(body)) == (200, {"messages": 3})
        commit = {"batch": 1, "parts": ["p1"]}
        with ackwire.connect(served.url) as connection, connection.session() as session:
            consumer = session.consumer("orders")
            assert consumer.receive_no_wait() is None
            assert served.post("/v1/producers/job/commit", commit)["committed"] is True
            assert served.post("/v1/producers/job/commit", commit)["committed"] is False
            received = [consumer.receive(TIMEOUT_SECONDS) for _ in range(3)]
            assert [message and message.body for message in received] == ["order 0", "order 1", "order 2"]
            assert [message and message.properties["customer"] for message in received] == [7, 8, 9]
            assert consumer.receive_no_wait() is None


def test_range_of_a_cursor_is_the_same_after_a_crash_until_it_is_committed(tmp_path: Path) -> None:
    target = "/v1/cursors/lake/messages?after=0&to=5"
    with serving(tmp_path) as served:
        served.post("/v1/cursors", {"name": "lake", "destination": "queue://orders"})
        with ackwire.connect(served.url) as connection, connection.session() as session:
            producer = session.producer("orders")
            for number in range(5):
                producer.send(f"order {number}")
        assert served.post("/v1/cursors/lake/latest", {"after": 0, "limit": 100}) == {"latest": 5}
        before = served.rows(target)
        served.process.kill()
    with serving(tmp_path) as served:
        after = served.rows(target)
        assert after["text"].to_pylist() == [f"order {number}" for number in range(5)]
        for column in ("sequence", "message_id", "text"):
            assert after[column] == before[column]
        assert served.post("/v1/cursors/lake/commit", {"to": 3}) == {"committed": 3}
        status, body = served.ask("GET", target, token=served.token)
        assert (status, json.loads(body)["code"]) == (410, "gone")
        assert served.rows("/v1/cursors/lake/messages?after=3&to=5")["sequence"].to_pylist() == [4, 5]

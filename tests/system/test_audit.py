"""`ackwire serve --audit`: what is in the files after stops and kills is what has happened."""

import threading
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.openwire_client import OpenWireClient, PeerClosed, queue
from tests.helpers.processes import RestartableBroker
from tests.unit.audit.rigs import events

pytestmark = pytest.mark.system

PLACE = "queue://orders"
ENDS = ("acked", "dead_lettered", "expired", "purged", "discarded")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RestartableBroker]:
    options = ("--audit", str(tmp_path / "audit"), "--log-level", "warning")
    with RestartableBroker(tmp_path, options) as running:
        yield running


def rows_after_stop(broker: RestartableBroker, tmp_path: Path) -> list[dict[str, Any]]:
    """All events, when the broker has stopped in peace."""
    assert broker.process.terminate() == 0
    assert not list((tmp_path / "audit" / "spool").iterdir()), "everything was turned into Parquet"
    return events(tmp_path / "audit")


def by_run(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The rows of each run, in their order."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        runs.setdefault(row["run"], []).append(row)
    return list(runs.values())


def sequences(rows: list[dict[str, Any]], *names: str) -> set[int]:
    return {row["sequence"] for row in rows if row["event"] in names and row["place"] == PLACE}


def send(client: OpenWireClient, count: int, *, persistent: bool = True) -> None:
    client.send_text(queue("orders"), *(f"text {number}" for number in range(count)), persistent=persistent)


def test_K1_after_a_stop_in_peace_the_files_tell_all_and_nothing_twice(
    broker: RestartableBroker, tmp_path: Path
) -> None:
    """K1: what is kept is counted at the stop and at the next start, and is the same; what is not kept is discarded."""
    with OpenWireClient.logged_in(broker.port) as client:
        send(client, 30)
        send(client, 5, persistent=False)
        consumer = client.subscribe(queue("orders"))
        for _ in range(10):
            client.ack(client.receive(consumer))
        client.ping()
    broker.restart(kill=False)
    first, second = by_run(rows_after_stop(broker, tmp_path))
    for run in (first, second):
        assert [row["number"] for row in run] == list(range(1, len(run) + 1))
        assert (run[0]["event"], run[-1]["event"]) == ("started", "stopped")
    counts = Counter(row["event"] for row in first if row["place"] == PLACE)
    assert (counts["stored"], counts["acked"], counts["discarded"]) == (35, 10, 5)
    assert not sequences(second, "restored")
    last = [row["count"] for row in first if row["event"] == "census" and row["place"] == PLACE][-1]
    next_one = next(row["count"] for row in second if row["event"] == "census" and row["place"] == PLACE)
    assert last == next_one == 20


def test_K1_a_kill_loses_no_event_whose_effect_survives(broker: RestartableBroker, tmp_path: Path) -> None:
    """K1: whatever the store has after a kill was told of, and whatever is gone from it was told of, too."""
    for _ in range(4):
        _kill_at_work(broker)
        broker.start()
    runs = by_run(rows_after_stop(broker, tmp_path))
    assert len(runs) == 5
    for run in runs:
        assert [row["number"] for row in run] == list(range(1, len(run) + 1))
    for before, after in pairwise(runs):
        there = sequences(before, "restored", "stored")
        restored = sequences(after, "restored")
        assert restored <= there, "what the store has was told of"
        assert there - restored <= sequences(before, *ENDS) | _unanswered(before), "what it lacks was told to go"
        census = next(row for row in after if row["event"] == "census" and row["place"] == PLACE)
        assert census["count"] == len(restored)


def _unanswered(run: list[dict[str, Any]]) -> set[int]:
    """The last messages of a run: their records may not have been written when it was killed."""
    stored = [row["sequence"] for row in run if row["event"] == "stored"]
    return set(stored[-200:])


def _kill_at_work(broker: RestartableBroker) -> None:
    """Kill the broker while one client sends and another consumes."""
    enough = threading.Event()
    workers = [threading.Thread(target=work, args=(broker.port, enough)) for work in (_produce, _consume)]
    for worker in workers:
        worker.start()
    assert enough.wait(30), "the clients did not get to work"
    broker.process.kill()
    for worker in workers:
        worker.join(30)
        assert not worker.is_alive()


def _produce(port: int, enough: threading.Event) -> None:
    try:
        with OpenWireClient.logged_in(port) as client:
            for number in range(100_000):
                client.send_text(queue("orders"), *(["x" * 100] * 20), persistent=True)
                if number == 20:
                    enough.set()
    except (PeerClosed, OSError):
        return


def _consume(port: int, enough: threading.Event) -> None:
    del enough
    try:
        with OpenWireClient.logged_in(port) as client:
            consumer = client.subscribe(queue("orders"))
            while True:
                client.ack(client.receive(consumer))
    except (PeerClosed, OSError):
        return

"""`ackwire queue` and `ackwire message` against a running broker."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.helpers.openwire_client import OpenWireClient, queue
from tests.helpers.processes import RunningBroker, running_broker

pytestmark = pytest.mark.system
ACKWIRE = Path(sys.executable).with_name("ackwire")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(["tcp://127.0.0.1:0"], log_path=tmp_path / "broker.log") as running:
        with OpenWireClient.logged_in(running.ports[0]) as client:
            for number in range(4):
                client.send_text(queue("orders"), f"m{number}")
        yield running


def run(*arguments: str) -> tuple[int, str]:
    done = subprocess.run([ACKWIRE, *arguments], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, (done.stdout + done.stderr).strip()


def ackwire(broker: RunningBroker, *arguments: str) -> tuple[int, str]:
    """Exit code and output of a command."""
    return run(*arguments, "--url", f"tcp://127.0.0.1:{broker.ports[0]}")


def waiting(broker: RunningBroker) -> dict[str, int]:
    """Messages that wait, by queue."""
    code, text = ackwire(broker, "queue", "list", "--json")
    assert code == 0, text
    return {row["name"]: row["waiting"] for row in json.loads(text)}


def test_queue_list_tells_how_each_queue_stands(broker: RunningBroker) -> None:
    code, text = ackwire(broker, "queue", "list")
    head, row = text.splitlines()
    assert code == 0
    assert head.split() == [
        "queue",
        "waiting",
        "in",
        "flight",
        "consumers",
        "producers",
        "enqueued",
        "dequeued",
        "bytes",
    ]
    assert row.split()[:5] == ["orders", "4", "0", "0", "0"]


def test_K4_a_checkpoint_is_begun_on_demand(broker: RunningBroker) -> None:
    assert ackwire(broker, "checkpoint") == (0, "a checkpoint has begun")


def test_queues_are_created_paused_resumed_purged_and_deleted(broker: RunningBroker) -> None:
    assert ackwire(broker, "queue", "create", "new") == (0, "queue://new: created")
    assert ackwire(broker, "queue", "create", "new") == (0, "queue://new: it exists already")
    assert waiting(broker) == {"new": 0, "orders": 4}
    assert ackwire(broker, "queue", "pause", "orders")[0] == 0
    assert "paused" in ackwire(broker, "queue", "list", "orders")[1]
    assert ackwire(broker, "queue", "resume", "orders") == (0, "queue://orders: resumed")
    assert ackwire(broker, "queue", "recall", "orders") == (0, "queue://orders: 0 messages recalled from consumers")
    code, text = ackwire(broker, "queue", "purge", "orders", "--json")
    assert (code, json.loads(text)) == (0, {"action": "purge", "queue": "queue://orders", "count": 4})
    assert ackwire(broker, "queue", "delete", "orders") == (0, "queue://orders: deleted, with 0 messages")
    assert waiting(broker) == {"new": 0}


def test_messages_are_moved_copied_and_deleted(broker: RunningBroker) -> None:
    assert ackwire(broker, "message", "move", "orders", "--all", "--to", "aside", "--dry-run") == (
        0,
        "queue://orders: 4 messages are meant; nothing was done",
    )
    moved = ackwire(broker, "message", "move", "orders", "--selector", "JMSPriority = 4", "--to", "aside")
    assert moved == (0, "queue://orders: 4 messages moved to queue://aside")
    copied = ackwire(broker, "message", "copy", "aside", "--all", "--to", "orders")
    assert copied == (0, "queue://aside: 4 messages copied to queue://orders")
    code, text = ackwire(broker, "message", "delete", "aside", "--selector", "JMSPriority = 4", "--json")
    assert (code, json.loads(text)["count"]) == (0, 4)
    assert waiting(broker) == {"aside": 0, "orders": 4}


def test_dead_letters_are_sent_back(tmp_path: Path) -> None:
    log_path = tmp_path / "broker.log"
    with running_broker(["tcp://127.0.0.1:0"], log_path=log_path) as running:
        url = f"tcp://127.0.0.1:{running.ports[0]}"
        assert run("send", url, "orders", "late", "--ttl", "1ms")[0] == 0
        run("receive", url, "orders", "--timeout", "200ms")  # which finds it expired
        assert waiting(running) == {"ActiveMQ.DLQ": 1, "orders": 0}
        retried = ackwire(running, "message", "retry", "ActiveMQ.DLQ", "--all")
        assert retried == (0, "queue://ActiveMQ.DLQ: 1 message sent back to where it came from")
        assert waiting(running) == {"ActiveMQ.DLQ": 0, "orders": 1}


def test_what_does_not_exist_and_what_is_refused_have_exit_codes_of_their_own(broker: RunningBroker) -> None:
    code, text = ackwire(broker, "queue", "purge", "nowhere")
    assert (code, "queue://nowhere does not exist; `ackwire queue list` prints" in text) == (4, True), text
    code, text = ackwire(broker, "message", "delete", "orders", "ID:x")
    assert (code, "no message that waits in queue://orders is meant" in text) == (4, True), text
    code, text = ackwire(broker, "message", "delete", "orders", "--selector", "n >")
    assert (code, "invalid selector" in text) == (1, True), text
    for wrong in (
        ["queue", "purge"],
        ["message", "move", "orders", "--all"],
        ["message", "delete", "orders"],
        ["message", "delete", "orders", "--all", "ID:x"],
        ["message", "retry", "orders", "--all", "--to", "q"],
    ):
        code, text = ackwire(broker, *wrong)
        assert (code, text.count("\n")) == (2, 0), text


@pytest.mark.parametrize("how", ["ssl", "failover"])
def test_operators_connect_as_any_client_does(tmp_path: Path, how: str) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    listener = f"ssl://127.0.0.1:0?certFile={tmp_path}/server.pem"
    with running_broker([listener], log_path=tmp_path / "broker.log") as running:
        secure = f"ssl://127.0.0.1:{running.ports[0]}?caFile={tmp_path}/ca.pem"
        url = secure if how == "ssl" else f"failover:(tcp://127.0.0.1:1,{secure})"
        assert run("queue", "create", "q", "--url", url) == (0, "queue://q: created")

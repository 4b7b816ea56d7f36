"""Several brokers on one folder or file: one serves, the others wait (L1)."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import ackwire
from tests.cluster.nodes import Node, failover
from tests.helpers.processes import ManagedProcess

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

RECEIVE_SECONDS = 30.0

JAVA_LIKE = """
import fcntl, sys
file = open(sys.argv[1], "r+b" if sys.argv[2] == "try" else "a+b")
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
except OSError:
    print("excluded", flush=True)
else:
    print("locked", flush=True)
    sys.stdin.read()
"""
"""Locks as Java's FileChannel.tryLock does: by fcntl, and for its process."""


@pytest.fixture(params=["journal", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, object]:
    settings: dict[str, object] = {"shared": True, "data": str(tmp_path / "data")}
    return settings | ({} if request.param == "journal" else {"kind": f"sqlite:///{tmp_path / 'shared.db'}"})


def lock_file(store: dict[str, object]) -> Path:
    kind = str(store.get("kind", ""))
    return Path(f"{kind.removeprefix('sqlite:///')}.lock") if kind else Path(str(store["data"])) / "lock"


@pytest.fixture
def pair(store: dict[str, object], tmp_path: Path) -> Iterator[tuple[Node, Node]]:
    with ExitStack() as stack:
        made = [stack.enter_context(Node(name, tmp_path, {"store": store})) for name in ("a", "b")]
        yield made[0], made[1]


def test_L1_a_slave_names_the_master_and_takes_over_when_that_is_killed(pair: tuple[Node, Node]) -> None:
    a, b = pair
    a.start().wait_until_master()
    assert b.start().wait_until_waiting("locked by broker a, process").endswith(f"at {a.url}")
    assert b.get("/health")[0] == 503
    assert b.get("/live")[1]["role"] == "slave"
    with ackwire.connect(failover(b, a)) as connection, connection.session() as session:
        session.send("queue://orders", "one")
        a.kill()
        b.wait_until_master()
        session.send("queue://orders", "two")
        with session.consumer("queue://orders") as consumer:
            assert [received(consumer) for _ in range(2)] == ["one", "two"]
    status, health = b.get("/health")
    assert (status, health["role"], health["status"]) == (200, "master", "ok")


def test_L1_a_clean_stop_hands_over_and_the_first_one_waits_when_it_comes_back(pair: tuple[Node, Node]) -> None:
    a, b = pair
    a.start().wait_until_master()
    b.start().wait_until_waiting("locked by broker a")
    a.stop()
    b.wait_until_master()
    a.start().wait_until_waiting("locked by broker b")


def test_L1_a_master_whose_lock_file_was_replaced_steps_down_and_waits(
    pair: tuple[Node, Node], store: dict[str, object], tmp_path: Path
) -> None:
    a, _ = pair
    a.start().wait_until_master()
    with ackwire.connect(failover(a)) as connection, connection.session() as session:
        session.send("queue://orders", "one")
        with (tmp_path / "other").open("w") as other:
            fcntl.lockf(other, fcntl.LOCK_EX)
            os.replace(other.name, lock_file(store))
            a.wait_until_waiting(f"locked by another program, process {os.getpid()}")
            assert a.get("/live")[1]["role"] == "slave"
        a.wait_for_log("recovering, epoch")
        with session.consumer("queue://orders") as consumer:
            assert received(consumer) == "one"
    assert a.process.is_running


def test_L1_a_program_that_locks_as_java_does_excludes_a_broker_and_is_excluded(
    pair: tuple[Node, Node], store: dict[str, object], tmp_path: Path
) -> None:
    a, _ = pair
    path = lock_file(store)
    path.parent.mkdir(exist_ok=True)
    argv = [sys.executable, "-c", JAVA_LIKE, str(path)]
    with ManagedProcess([*argv, "hold"], log_path=tmp_path / "java.log") as other:
        a.start().wait_until_waiting(f"locked by another program, process {other.pid}")
        other.kill()
    a.wait_until_master()
    done = subprocess.run([*argv, "try"], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
    assert done.stdout == "excluded\n"


def test_L1_a_broker_that_does_not_share_its_store_does_not_wait(pair: tuple[Node, Node], tmp_path: Path) -> None:
    a, _ = pair
    a.start().wait_until_master()
    with Node("c", tmp_path, {"store": {**a.settings["store"], "shared": False}}) as c:
        c.start()
        assert c.process.wait() == 2
        assert "in use by broker a, process" in c.process.output()


def received(consumer: ackwire.Consumer) -> object:
    message = consumer.receive(RECEIVE_SECONDS)
    assert message is not None
    return message.body


def test_the_lock_of_earlier_versions_counts_too(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with Node("a", tmp_path, {"store": {"shared": True, "data": str(tmp_path)}}) as a:
            a.start().wait_until_waiting("is locked by another program")


def test_L1_a_killed_master_that_waits_again_hands_on_its_audit(tmp_path: Path) -> None:
    """Its audit is open only while it is the master; what the kill has left must not wait for that."""
    store = {"store": {"shared": True, "data": str(tmp_path / "data")}}
    spool = tmp_path / "audit" / "spool"
    with (
        Node("a", tmp_path, store | {"audit": {"directory": str(tmp_path / "audit")}}) as a,
        Node("b", tmp_path, store) as b,
    ):
        a.start().wait_until_master()
        b.start().wait_until_waiting("locked by broker a, process")
        with ackwire.connect(a.url) as connection, connection.session() as session:
            session.send("queue://orders", "one")
        a.kill()
        assert list(spool.iterdir())
        b.wait_until_master()
        a.start().wait_until_waiting("locked by broker b, process")
        assert not list(spool.iterdir())
        assert list((tmp_path / "audit" / "events").rglob("*.parquet"))

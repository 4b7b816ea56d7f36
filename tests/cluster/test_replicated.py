"""Three brokers with copies of one journal, elected by a real ZooKeeper (L2)."""

import itertools
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

import ackwire
from tests.cluster.nodes import Node, failover
from tests.helpers.databases import free_port
from tests.helpers.processes import ackwire_program
from tests.helpers.zookeeper import zookeeper

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

QUEUE = "queue://orders"
RECEIVE_SECONDS = 60.0

_paths = itertools.count(1)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[dict[str, Node]]:
    """Three nodes that are not started."""
    path = f"/replicated/group-{next(_paths)}"
    with ExitStack() as stack:
        made = {}
        for name in ("a", "b", "c"):
            settings: dict[str, dict[str, object]] = {
                "store": {"kind": "replicated", "data": str(tmp_path / f"data-{name}"), "segment_bytes": 1 << 20},
                "replication": {
                    "zk_address": zookeeper().address,
                    "zk_path": path,
                    "zk_session_timeout_seconds": 2,
                    "bind": f"tcp://127.0.0.1:{free_port()}",
                },
            }
            made[name] = stack.enter_context(Node(name, tmp_path, settings))
        yield made


def wait_for_master(nodes: list[Node]) -> Node:
    """The one of them that becomes master first."""
    return Node.first_ready(nodes)


def received(consumer: ackwire.Consumer) -> object:
    message = consumer.receive(RECEIVE_SECONDS)
    assert message is not None
    return message.body


def test_L2_a_quorum_elects_serves_and_another_takes_over_when_the_master_is_killed(nodes: dict[str, Node]) -> None:
    for node in nodes.values():
        node.start()
    first = wait_for_master(list(nodes.values()))
    others = [it for it in nodes.values() if it is not first]
    with ackwire.connect(failover(*nodes.values())) as connection, connection.session() as session:
        for number in range(20):
            session.send(QUEUE, str(number))
        first.kill()
        second = wait_for_master(others)
        session.send(QUEUE, "20")
        with session.consumer(QUEUE) as consumer:
            assert [received(consumer) for _ in range(21)] == [str(it) for it in range(21)]
    assert second.get("/health")[1]["epoch"] > 1


def cli(node: Node, *arguments: str) -> tuple[int, str, str]:
    """A command that asks this node."""
    done = subprocess.run(
        [str(ackwire_program()), *arguments, "--config", str(node.config)], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_L2_mastership_is_transferred_and_the_group_tells_how_it_stands(nodes: dict[str, Node]) -> None:
    for node in nodes.values():
        node.start()
    first = wait_for_master(list(nodes.values()))
    others = [it for it in nodes.values() if it is not first]
    await_outlook(first, "1 more node may fail")
    assert cli(first, "status")[0] == 0
    code, out, _ = cli(others[0], "status")
    assert code == 3
    assert out.startswith("slave, epoch ")
    with ackwire.connect(failover(*nodes.values())) as connection, connection.session() as session:
        session.send(QUEUE, "before")
        code, _, err = cli(others[0], "cluster", "transfer", others[1].name)
        assert (code, err) == (1, "ackwire: this node is not the master\n")
        assert cli(first, "cluster", "transfer", others[0].name)[0] == 0
        others[0].wait_until_master()
        session.send(QUEUE, "after")
        with session.consumer(QUEUE) as consumer:
            assert [received(consumer) for _ in range(2)] == ["before", "after"]
    first.wait_for_log("slave, epoch 1")
    await_outlook(others[0], "1 more node may fail")
    others[1].kill()
    await_outlook(others[0], f"no further failure would be survived: 2 of 3 nodes are there; missing: {others[1].name}")


def test_L2_without_a_quorum_nothing_is_acknowledged_until_it_is_back(nodes: dict[str, Node]) -> None:
    for node in nodes.values():
        node.start()
    first = wait_for_master(list(nodes.values()))
    others = [it for it in nodes.values() if it is not first]
    await_outlook(first, "1 more node may fail")
    with ackwire.connect(failover(*nodes.values())) as connection, connection.session() as session:
        session.send(QUEUE, "one")
        for node in others:
            node.pause()
        with ThreadPoolExecutor(1) as thread:
            sending = thread.submit(session.send, QUEUE, "two")
            first.wait_for_log("stepping-down, epoch 1")
            assert not sending.done()
            for node in others:
                node.resume()
            sending.result(RECEIVE_SECONDS)
        with session.consumer(QUEUE) as consumer:
            assert [received(consumer) for _ in range(2)] == ["one", "two"]
            assert consumer.receive(0.2) is None


def test_L2_a_master_that_was_paused_steps_down_when_it_wakes(nodes: dict[str, Node]) -> None:
    for node in nodes.values():
        node.start()
    first = wait_for_master(list(nodes.values()))
    others = [it for it in nodes.values() if it is not first]
    await_outlook(first, "1 more node may fail")
    with ackwire.connect(failover(*nodes.values())) as connection, connection.session() as session:
        session.send(QUEUE, "one")
        first.pause()
        second = wait_for_master(others)
        first.resume()
        first.wait_for_log("stepping-down, epoch 1")
        session.send(QUEUE, "two")
        with session.consumer(QUEUE) as consumer:
            assert [received(consumer) for _ in range(2)] == ["one", "two"]
    await_outlook(second, "1 more node may fail")


def test_L2_a_node_with_an_empty_disk_is_filled_and_counts_again(nodes: dict[str, Node], tmp_path: Path) -> None:
    for node in nodes.values():
        node.start()
    first = wait_for_master(list(nodes.values()))
    others = [it for it in nodes.values() if it is not first]
    await_outlook(first, "1 more node may fail")
    with ackwire.connect(failover(*nodes.values())) as connection, connection.session() as session:
        for number in range(20):
            session.send(QUEUE, str(number))
        others[0].kill()
        shutil.rmtree(tmp_path / f"data-{others[0].name}")
        session.send(QUEUE, "20")
        others[0].start()
        await_outlook(first, "1 more node may fail")
        first.kill()
        wait_for_master(others)
        with session.consumer(QUEUE) as consumer:
            assert [received(consumer) for _ in range(21)] == [str(it) for it in range(21)]


def await_outlook(node: Node, outlook: str) -> None:
    """Return when the group stands like that, as *node* tells."""
    deadline = time.monotonic() + RECEIVE_SECONDS
    while True:
        facts = json.loads(cli(node, "cluster", "status", "--json")[1])
        if facts["outlook"] == outlook:
            return
        assert time.monotonic() < deadline, facts
        time.sleep(0.1)

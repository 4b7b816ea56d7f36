"""Three brokers with copies of one journal, elected by a real ZooKeeper (L2)."""

import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import ackwire
from tests.cluster.nodes import Node, failover
from tests.helpers.databases import free_port
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

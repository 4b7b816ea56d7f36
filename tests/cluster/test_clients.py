"""Clients of a group: they find the master, whichever broker they know, and lose nothing when it is killed (L1, J4)."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import ackwire
from ackwire.client import JMSError
from tests.cluster.nodes import Node, failover
from tests.conformance.jms import Jms, text, texts
from tests.helpers.java import JavaError

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(240)]

SENT = 300
KILLED_AFTER = 40
WAIT_MS = 30_000
QUEUE = "queue://orders"


@pytest.fixture
def pair(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Node, Node]]:
    """A master, and a slave that waits; they know each other."""
    store = {"shared": True, "data": str(tmp_path / "data")}
    cluster = {"refuse_clients": True} if "refus" in request.node.name else {}
    with ExitStack() as stack:
        made = [stack.enter_context(Node(it, tmp_path, {"store": store, "cluster": cluster})) for it in ("a", "b")]
        members = [node.url for node in made]
        made[0].start(members).wait_until_master()
        made[1].start(members).wait_until_waiting("locked by broker a")
        yield made[0], made[1]


def test_L1_a_java_client_that_knows_the_master_only_goes_on_with_the_slave(pair: tuple[Node, Node], jms: Jms) -> None:
    a, b = pair
    with jms.connect(failover(a)) as connection:
        session = connection.session()
        producer, consumer = session.producer(QUEUE), session.consumer(QUEUE)
        producer.send(text("one"))
        assert consumer.receive_one().body == "one"
        a.kill()
        b.wait_until_master()
        producer.begin_send(text("two")).result()
        received = consumer.receive(WAIT_MS)
        assert received is not None
        assert received.body == "two"


def test_L1_a_python_client_that_knows_the_master_only_goes_on_with_the_slave(pair: tuple[Node, Node]) -> None:
    a, b = pair
    with ackwire.connect(failover(a)) as connection, connection.session() as session:
        session.send(QUEUE, "one")
        a.kill()
        b.wait_until_master()
        session.send(QUEUE, "two")
        with session.consumer(QUEUE) as consumer:
            assert [it.body for it in (consumer.receive(30), consumer.receive(30)) if it is not None] == ["one", "two"]


def test_L1_nothing_that_a_java_client_was_answered_is_lost_or_doubled_when_the_master_is_killed(
    pair: tuple[Node, Node], jms: Jms
) -> None:
    a, b = pair
    with jms.connect(failover(a, b)) as sending, jms.connect(failover(a, b)) as receiving:
        consumer = receiving.session().consumer(QUEUE)
        sends = sending.session().producer(QUEUE).begin_send(*texts(SENT))
        seen: dict[str, int] = {}
        while len(seen) < SENT:
            received = consumer.receive(WAIT_MS)
            assert received is not None, f"{len(seen)} of {SENT} came"
            assert received.redelivered or received.body not in seen, f"{received.body} came again, without a flag"
            seen[received.body] = seen.get(received.body, 0) + 1
            if len(seen) == KILLED_AFTER and a.process.is_running:
                a.kill()
        sends.result()
        b.wait_until_master()
        rest = consumer.receive(300)
        assert rest is None or (rest.redelivered and rest.body in seen)


def test_L1_a_slave_that_refuses_clients_names_the_master(pair: tuple[Node, Node], jms: Jms) -> None:
    a, b = pair
    with pytest.raises(JMSError, match=f"broker b is a slave: .* locked by broker a, process .* at {a.url}"):
        ackwire.connect(b.url)
    with pytest.raises(JavaError, match=r"broker b is a slave: .* locked by broker a, process"):
        jms.connect(b.url)


def test_L1_failover_clients_pass_over_a_slave_that_refuses_them(pair: tuple[Node, Node], jms: Jms) -> None:
    """Even if it is the only one that they know."""
    _, b = pair
    with jms.connect(failover(b)) as connection:
        connection.session().producer(QUEUE).send(text("one"))
    with (
        ackwire.connect(failover(b)) as ours,
        ours.session() as session,
        session.consumer(QUEUE) as consumer,
    ):
        received = consumer.receive(30)
        assert received is not None
        assert received.body == "one"
    assert jms.reset() == []

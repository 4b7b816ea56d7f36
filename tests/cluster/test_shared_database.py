"""Several brokers on one database: a lease decides which one serves (L1)."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

import ackwire
from ackwire.client import JMSError
from tests.cluster.nodes import Node, failover
from tests.helpers.databases import DatabaseServer, MariadbServer, mariadb, postgresql
from tests.helpers.java import JVM_OPTIONS, classpath, compiled
from tests.helpers.java_cache import java_cache_or_skip
from tests.helpers.processes import ManagedProcess, wait_until_ready
from tests.system.test_take_over import JARS, SOURCES, await_waiting, short_lock_waits

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

SERVERS = {"postgresql": postgresql, "mariadb": mariadb}
RECEIVE_SECONDS = 30.0
ACTIVEMQ_SECONDS = 90.0
LEASE = {"lease_seconds": 2}


@pytest.fixture(params=list(SERVERS))
def server(request: pytest.FixtureRequest) -> DatabaseServer:
    return SERVERS[request.param]()


@pytest.fixture
def uri(server: DatabaseServer) -> str:
    return server.new_database()


@pytest.fixture
def pair(uri: str, tmp_path: Path) -> Iterator[tuple[Node, Node]]:
    with ExitStack() as stack:
        made = []
        for name in ("a", "b"):
            store = {"kind": uri, "shared": True, "data": str(tmp_path / f"data-{name}")}
            made.append(stack.enter_context(Node(name, tmp_path, {"store": store, "cluster": LEASE})))
        yield made[0], made[1]


def received(consumer: ackwire.Consumer) -> object:
    message = consumer.receive(RECEIVE_SECONDS)
    assert message is not None
    return message.body


def test_L1_a_slave_waits_for_the_lease_and_takes_over_when_the_master_is_killed(pair: tuple[Node, Node]) -> None:
    a, b = pair
    a.start().wait_until_master()
    why = b.start().wait_until_waiting("broker a, process")
    assert f"at {a.url} has the lease of" in why
    with ackwire.connect(failover(b, a)) as connection, connection.session() as session:
        session.send("queue://orders", "one")
        first = a.get("/health")[1]["epoch"]
        a.kill()
        b.wait_until_master()
        session.send("queue://orders", "two")
        with session.consumer("queue://orders") as consumer:
            assert [received(consumer) for _ in range(2)] == ["one", "two"]
    assert b.get("/health")[1]["epoch"] > first


def test_L1_a_paused_master_cannot_write_after_it_wakes(pair: tuple[Node, Node]) -> None:
    """Its sessions are open at the server, with their locks, and a client of it sends while it sleeps."""
    a, b = pair
    a.start().wait_until_master()
    b.start().wait_until_waiting("broker a, process")
    with ackwire.connect(a.url) as stale, stale.session() as session:
        session.send("queue://orders", "one")
        a.pause()
        b.wait_until_master()
        with ThreadPoolExecutor(1) as thread:
            sending = thread.submit(session.send, "queue://orders", "lost")
            a.resume()
            with pytest.raises(JMSError):
                sending.result()
    a.wait_until_waiting("broker b, process")
    with ackwire.connect(b.url) as connection, connection.session() as session:
        session.send("queue://orders", "two")
        with session.consumer("queue://orders") as consumer:
            assert [received(consumer) for _ in range(2)] == ["one", "two"]
            assert consumer.receive(0.2) is None


def test_L1_a_clean_stop_gives_the_lease_back(pair: tuple[Node, Node]) -> None:
    a, b = pair
    a.start().wait_until_master()
    b.start().wait_until_waiting("broker a, process")
    a.stop()
    b.wait_until_master()


def test_L1_a_master_without_its_database_steps_down_and_comes_back(
    server: DatabaseServer, pair: tuple[Node, Node]
) -> None:
    a, _ = pair
    a.start().wait_until_master()
    server.pause()
    try:
        a.wait_for_log("stepping-down, epoch 1: the lease of .* is over")
        a.wait_until_waiting()
    finally:
        server.resume()
    a.wait_for_log("master, epoch [2-9]")


# ---- ActiveMQ ------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["lock", "lease"])
def activemq(
    server: DatabaseServer, uri: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Callable[[], ManagedProcess]:
    """A real one with its DefaultDatabaseLocker or its LeaseDatabaseLocker."""
    classes = compiled(SOURCES, JARS, java_cache_or_skip(request.config, JARS))
    kind, user = ("mariadb", "root") if isinstance(server, MariadbServer) else ("postgresql", "ackwire")
    url = f"jdbc:{kind}://127.0.0.1:{server.port}/{uri.rpartition('/')[2]}"
    arguments = [url, user, "tcp://127.0.0.1:0", str(tmp_path / "activemq-data"), request.param]
    argv = ["java", *JVM_OPTIONS, "-cp", classpath(JARS, classes), "JdbcBroker", *arguments]
    return lambda: ManagedProcess(argv, log_path=tmp_path / "activemq.log")


@pytest.mark.conformance
def test_L1_activemq_and_ackwire_take_turns_with_a_database(
    server: DatabaseServer, uri: str, pair: tuple[Node, Node], activemq: Callable[[], ManagedProcess]
) -> None:
    """In both orders, and after a kill of each: never both."""
    a, _ = pair
    with ExitStack() as stack:
        if isinstance(server, MariadbServer):
            stack.enter_context(short_lock_waits(server))
        take_turns(uri, a, activemq)


def take_turns(uri: str, a: Node, activemq: Callable[[], ManagedProcess]) -> None:
    with activemq() as theirs:
        port = wait_until_ready(theirs, 1, ACTIVEMQ_SECONDS).ports[0]
        with ackwire.connect(f"tcp://127.0.0.1:{port}") as connection, connection.session() as session:
            session.send("queue://orders", "one")
            a.start().wait_until_waiting("in use by ActiveMQ")
            session.send("queue://orders", "two")
        theirs.kill()
        a.wait_until_master()
        with ackwire.connect(a.url) as connection, connection.session() as session:
            session.send("queue://orders", "three")
            with activemq() as again:
                await_waiting(uri)
                session.send("queue://orders", "four")
                a.kill()
                port = wait_until_ready(again, 1, ACTIVEMQ_SECONDS).ports[0]
                url = f"tcp://127.0.0.1:{port}"
                with (
                    ackwire.connect(url) as other,
                    other.session() as their_session,
                    their_session.consumer("queue://orders") as consumer,
                ):
                    assert [received(consumer) for _ in range(4)] == ["one", "two", "three", "four"]

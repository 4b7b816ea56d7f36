"""A database changes hands between ActiveMQ's JDBC store and ours, in both directions (K3)."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

import ackwire
from ackwire.client.xid import Xid
from tests.helpers.databases import DatabaseServer, MariadbServer, mariadb, postgresql
from tests.helpers.java import JVM_OPTIONS, KAHADB_JARS, classpath, compiled
from tests.helpers.java_cache import java_cache_or_skip
from tests.helpers.processes import ManagedProcess, RestartableBroker, wait_until_ready

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(240)]

JARS: Final = (
    *KAHADB_JARS,
    "activemq-jdbc-store.jar",
    "jaxb-api.jar",  # for its Base64; Java 11 and later have none
    "postgresql.jar",
    "mariadb-java-client.jar",
)
SOURCES: Final = Path(__file__).parents[1] / "conformance" / "java" / "jdbc"
SERVERS: Final = {"postgresql": postgresql, "mariadb": mariadb}
MESSAGES: Final = 300
RECEIVE_SECONDS: Final = 30.0
XID: Final = Xid(4711, b"global", b"branch")
LARGE: Final = "x" * 1_000_000

_numbers = itertools.count(1)

Broker = Callable[[], AbstractContextManager[str]]
"""Starts a broker on the database, and gives its URL."""


@pytest.fixture(params=list(SERVERS))
def server(request: pytest.FixtureRequest) -> DatabaseServer:
    return SERVERS[request.param]()


@pytest.fixture
def database(server: DatabaseServer) -> str:
    """A new, empty database on the server."""
    name = f"take_over_{next(_numbers)}"
    with server.connect() as connection:
        connection.cursor().execute(f"CREATE DATABASE {name}")
    return name


@pytest.fixture
def activemq(server: DatabaseServer, database: str, tmp_path: Path, request: pytest.FixtureRequest) -> Broker:
    classes = compiled(SOURCES, JARS, java_cache_or_skip(request.config, JARS))
    kind, user = ("mariadb", "root") if isinstance(server, MariadbServer) else ("postgresql", "ackwire")
    url = f"jdbc:{kind}://127.0.0.1:{server.port}/{database}"
    arguments = [url, user, "tcp://127.0.0.1:0", str(tmp_path / "activemq-data")]
    argv = ["java", *JVM_OPTIONS, "-cp", classpath(JARS, classes), "JdbcBroker", *arguments]

    @contextmanager
    def run() -> Iterator[str]:
        with ManagedProcess(argv, log_path=tmp_path / "activemq.log") as process:
            yield f"tcp://127.0.0.1:{wait_until_ready(process, 1).ports[0]}"

    return run


@pytest.fixture
def ours(server: DatabaseServer, database: str, tmp_path: Path) -> Broker:
    uri = f"{server.uri.rpartition('/')[0]}/{database}"

    @contextmanager
    def run() -> Iterator[str]:
        with RestartableBroker(tmp_path, ("--store", uri)) as broker:
            yield broker.url

    return run


def fill(url: str) -> None:
    """Queues, durable subscriptions with partial acks, priorities, expiries, a large body, and a prepared branch."""
    with ackwire.connect(url, client_id="c") as connection:
        with connection.session() as session:
            for name in ("all", "some"):
                session.durable_subscriber("prices", name, "n > 5" if name == "some" else None).close()
        with connection.session(ackwire.AckMode.SESSION_TRANSACTED) as session:
            orders, prices = session.producer("queue://orders"), session.producer("topic://prices")
            for number in range(MESSAGES):
                properties = {"n": number, "name": f"ä {number}", "half": 0.5, "yes": True}
                orders.send(f"order {number}", priority=number % 10, properties=properties, type="order")
            for number in range(10):
                prices.send(f"price {number}", properties={"n": number}, time_to_live_ms=3_600_000)
            session.producer("queue://large").send(LARGE, correlation_id="large")
            session.commit()
        with connection.session() as session, session.durable_subscriber("prices", "all") as subscriber:
            assert [received(subscriber).body for _ in range(3)] == ["price 0", "price 1", "price 2"]
        xa = connection.xa_session()
        xa.xa.start(XID)
        xa.send("queue://branch", "prepared")
        xa.xa.end(XID)
        xa.xa.prepare(XID)


def check(url: str) -> None:
    """Everything is there once, with all headers and properties; the branch can be committed."""
    with ackwire.connect(url, client_id="c") as connection:
        with connection.session() as session:
            with session.consumer("queue://orders") as consumer:
                for number in range(MESSAGES):
                    message = received(consumer)
                    assert message.body == f"order {number}"
                    expected: dict[str, Any] = {"n": number, "name": f"ä {number}", "half": 0.5, "yes": True}
                    assert {name: message.properties[name] for name in expected} == expected
                    assert (message.priority, message.type) == (number % 10, "order")
                assert consumer.receive(0.2) is None
            with session.consumer("queue://large") as consumer:
                large = received(consumer)
                assert (large.body, large.correlation_id) == (LARGE, "large")
            with session.durable_subscriber("prices", "all") as subscriber:
                messages = [received(subscriber) for _ in range(7)]
                assert [it.body for it in messages] == [f"price {number}" for number in range(3, 10)]
                assert all(it.expiration for it in messages)
                assert subscriber.receive(0.2) is None
            with session.durable_subscriber("prices", "some", "n > 5") as subscriber:
                assert [received(subscriber).body for _ in range(4)] == [f"price {number}" for number in range(6, 10)]
                assert subscriber.receive(0.2) is None
        with connection.session() as session, session.consumer("queue://branch") as consumer:
            assert consumer.receive(0.2) is None
            xa = connection.xa_session()
            assert XID in xa.xa.recover()
            xa.xa.commit(XID)
            assert received(consumer).body == "prepared"


def received(consumer: ackwire.Consumer) -> ackwire.Message:
    message = consumer.receive(RECEIVE_SECONDS)
    assert message is not None
    return message


def test_K3_a_database_of_activemq_is_taken_over(activemq: Broker, ours: Broker) -> None:
    with activemq() as url:
        fill(url)
    with ours() as url:
        check(url)


def test_K3_a_database_is_given_back_to_activemq(activemq: Broker, ours: Broker) -> None:
    with ours() as url:
        fill(url)
    with activemq() as url:
        check(url)

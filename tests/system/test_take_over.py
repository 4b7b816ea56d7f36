"""A database changes hands between ActiveMQ's JDBC store and ours, in both directions (K3)."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

import ackwire
from ackwire.client.xid import Xid
from ackwire.config.store_uri import parse_store_uri
from ackwire.store.sql.driver import Row
from ackwire.store.sql.drivers import driver_for
from tests.helpers.databases import DatabaseServer, MariadbServer, mariadb, postgresql
from tests.helpers.java import JVM_OPTIONS, KAHADB_JARS, classpath, compiled
from tests.helpers.java_cache import java_cache_or_skip
from tests.helpers.processes import ManagedProcess, RestartableBroker, ackwire_program, wait_until_ready

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
QUEUES: Final = 4
IN_EACH_QUEUE: Final = 2000
IN_TOPIC: Final = 2000
"""10,000 messages altogether, and a few in special places."""
ACKED: Final = 700
"""Of the topic, by one of its durable subscribers."""
SELECTOR: Final = "number > 1500"
AT_ONCE: Final = 500
"""Messages in one transaction."""
RECEIVE_SECONDS: Final = 30.0
XID: Final = Xid(4711, b"global", b"branch")
LARGE: Final[tuple[Any, ...]] = ("x" * 1_000_000, bytes(range(256)) * 12_000, {"large": "ä" * 700_000})

Broker = Callable[[], AbstractContextManager[str]]
"""Starts a broker on the database, and gives its URL."""


@pytest.fixture(params=list(SERVERS))
def server(request: pytest.FixtureRequest) -> DatabaseServer:
    return SERVERS[request.param]()


@pytest.fixture
def uri(server: DatabaseServer) -> str:
    """Of a new, empty database on the server."""
    return server.new_database()


@pytest.fixture
def start_activemq(
    server: DatabaseServer, uri: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Callable[[], ManagedProcess]:
    classes = compiled(SOURCES, JARS, java_cache_or_skip(request.config, JARS))
    kind, user = ("mariadb", "root") if isinstance(server, MariadbServer) else ("postgresql", "ackwire")
    url = f"jdbc:{kind}://127.0.0.1:{server.port}/{uri.rpartition('/')[2]}"
    arguments = [url, user, "tcp://127.0.0.1:0", str(tmp_path / "activemq-data")]
    argv = ["java", *JVM_OPTIONS, "-cp", classpath(JARS, classes), "JdbcBroker", *arguments]

    return lambda: ManagedProcess(argv, log_path=tmp_path / "activemq.log")


@pytest.fixture
def activemq(start_activemq: Callable[[], ManagedProcess]) -> Broker:
    @contextmanager
    def run() -> Iterator[str]:
        with start_activemq() as process:
            yield f"tcp://127.0.0.1:{wait_until_ready(process, 1).ports[0]}"

    return run


@pytest.fixture
def ours(uri: str, tmp_path: Path) -> Broker:
    config = tmp_path / "ackwire.toml"
    config.write_text('[clocks]\ncorrection = "off"\n')  # a message that is long on its way keeps its times, too

    @contextmanager
    def run() -> Iterator[str]:
        with RestartableBroker(tmp_path, ("--store", uri, "--config", str(config))) as broker:
            yield broker.url

    return run


Facts = dict[str, object]


def facts(message: ackwire.Message) -> Facts:
    """All that an application sees of a message: headers, properties, body."""
    return {
        "kind": type(message).__name__,
        "id": message.message_id,
        "timestamp": message.timestamp,
        "expiration": message.expiration,
        "priority": message.priority,
        "delivery mode": message.delivery_mode,
        "destination": repr(message.destination),
        "correlation": message.correlation_id,
        "reply to": repr(message.reply_to),
        "type": message.type,
        "group": (message.group_id, message.group_sequence),
        "redelivered": message.redelivered,
        "properties": {name: message.properties[name] for name in message.properties if name != "JMSXDeliveryCount"},
        "body": message.body,
    }


def headers(number: int) -> dict[str, Any]:
    """The arguments of a send: every header and every type of property, in changing combinations."""
    properties: dict[str, Any] = {
        "number": number,
        "name": f"ä {number}",
        "half": number / 2,
        "even": number % 2 == 0,
        "large": (1 << 40) + number,
        "empty": "",
        "nothing": None,
    }
    made: dict[str, Any] = {"properties": properties, "priority": number % 10}
    if number % 2:
        made |= {"correlation_id": f"correlation {number}", "type": "order"}
    if number % 3 == 0:
        made |= {"reply_to": "queue://answers", "time_to_live_ms": 3_600_000}
    if number % 5 == 0:
        made |= {"group_id": f"group {number % 7}", "group_sequence": number}
    return made


def body(number: int) -> Any:
    return (f"text {number}", f"bytes {number}".encode(), {"number": number, "text": "ä"}, None)[number % 4]


@dataclass
class Sent:
    """What was sent to each place, and is to be delivered."""

    queues: dict[str, list[Facts]] = field(default_factory=dict)
    topic: list[Facts] = field(default_factory=list)
    branch: list[Facts] = field(default_factory=list)
    """By the prepared branch."""
    expiration_ms: int = 0
    """When the last of the messages expires that nobody must receive."""


def fill(url: str) -> Sent:
    """Queues, durable subscriptions with partial acks, priorities, expiries, large bodies, and a prepared branch."""
    sent = Sent()
    with ackwire.connect(url, client_id="c") as connection:
        with connection.session() as session:
            session.durable_subscriber("prices", "all").close()
            session.durable_subscriber("prices", "some", SELECTOR).close()
        with connection.session(ackwire.AckMode.SESSION_TRANSACTED) as session:
            for number in range(QUEUES):
                name = f"queue://orders.{number}"
                sent.queues[name] = send_many(session, name, IN_EACH_QUEUE)
            sent.topic = send_many(session, "topic://prices", IN_TOPIC)
            sent.queues["queue://input"] = send_many(session, "queue://input", 5)
            with session.producer("queue://large") as producer:
                sent.queues["queue://large"] = [facts(producer.send(it, correlation_id="large")) for it in LARGE]
            with session.producer("queue://brief") as producer:
                sent.expiration_ms = max(producer.send("brief", time_to_live_ms=500).expiration for _ in range(5))
            session.commit()
        with connection.session() as session, session.durable_subscriber("prices", "all") as subscriber:
            assert [facts(received(subscriber)) for _ in range(ACKED)] == sent.topic[:ACKED]
        prepare(connection, sent)
    return sent


def send_many(session: ackwire.Session, where: str, count: int) -> list[Facts]:
    made = []
    with session.producer(where) as producer:
        for number in range(count):
            made.append(facts(producer.send(body(number), **headers(number))))
            if number % AT_ONCE == AT_ONCE - 1:
                session.commit()
    session.commit()
    return made


def prepare(connection: ackwire.Connection, sent: Sent) -> None:
    """A branch that takes two messages of a queue and sends three to another."""
    xa = connection.xa_session()
    xa.xa.start(XID)
    with xa.consumer("queue://input") as consumer, xa.producer("queue://branch") as producer:
        for expected in sent.queues["queue://input"][:2]:
            assert received(consumer).message_id == expected["id"]
        sent.branch = [facts(producer.send(body(it), **headers(it))) for it in range(3)]
        xa.xa.end(XID)
        xa.xa.prepare(XID)


def check(url: str, sent: Sent) -> None:
    """Everything is there once, in order, with all headers and properties; the branch can be committed."""
    pause = threading.Event()
    while time.time() * 1000 <= sent.expiration_ms:
        pause.wait(0.01)
    with ackwire.connect(url, client_id="c") as connection:
        with connection.session() as session:
            for name, expected in sent.queues.items():
                if name != "queue://input":
                    with session.consumer(name) as consumer:
                        assert_delivered(consumer, expected)
            with session.durable_subscriber("prices", "all") as subscriber:
                assert_delivered(subscriber, sent.topic[ACKED:])
            with session.durable_subscriber("prices", "some", SELECTOR) as subscriber:
                assert_delivered(subscriber, sent.topic[1501:])
        check_branch(connection, sent)


def check_branch(connection: ackwire.Connection, sent: Sent) -> None:
    """What the prepared branch has sent is not there before it is committed, and what it has taken never comes."""
    with connection.session() as session:
        for name in ("queue://brief", "queue://branch"):
            with session.consumer(name) as consumer:
                assert consumer.receive(0.2) is None
        with session.consumer("queue://input") as consumer:
            left = [received(consumer).message_id for _ in range(3)]
            assert left == [it["id"] for it in sent.queues["queue://input"][2:]]
            assert consumer.receive(0.2) is None, "the branch has taken it"
            xa = connection.xa_session()
            assert xa.xa.recover() == [XID]
            xa.xa.commit(XID)
            with session.consumer("queue://branch") as branch:
                assert_delivered(branch, sent.branch)
            assert consumer.receive(0.2) is None
            assert xa.xa.recover() == []


def assert_delivered(consumer: ackwire.Consumer, expected: list[Facts]) -> None:
    """It gets what is *expected*, and nothing else."""
    for number, it in enumerate(expected):
        assert facts(received(consumer)) == it, number
    assert consumer.receive(0.2) is None


def received(consumer: ackwire.Consumer) -> ackwire.Message:
    message = consumer.receive(RECEIVE_SECONDS)
    assert message is not None
    return message


def test_K3_a_database_of_activemq_is_taken_over(activemq: Broker, ours: Broker) -> None:
    with activemq() as url:
        sent = fill(url)
    with ours() as url:
        check(url, sent)


def test_K3_a_database_is_given_back_to_activemq(activemq: Broker, ours: Broker) -> None:
    with ours() as url:
        sent = fill(url)
    with activemq() as url:
        check(url, sent)


# ---- only one of the two at a time -----------------------------------------------------------------------------


def columns(uri: str) -> list[Row]:
    """Of all tables."""
    driver = driver_for(parse_store_uri(uri), None)
    session = driver.connect(is_writer=False)
    try:
        return sorted(session.select(driver.dialect.columns))
    finally:
        session.close()


def test_K3_a_database_that_activemq_uses_is_refused_and_nothing_is_changed(
    uri: str, activemq: Broker, tmp_path: Path
) -> None:
    argv = [str(ackwire_program()), "serve", "--store", uri, "--data", str(tmp_path / "other")]
    with activemq() as url, ackwire.connect(url) as connection, connection.session() as session:
        session.send("queue://orders", "one")
        before = columns(uri)
        with ManagedProcess([*argv, "--listen", "tcp://127.0.0.1:0"], log_path=tmp_path / "refused.log") as process:
            assert process.wait() == 2
            said = process.output()
        assert "in use by ActiveMQ, which has locked ACTIVEMQ_LOCK; stop that one first" in said
        assert columns(uri) == before
        session.send("queue://orders", "two")


def test_K3_activemq_waits_while_ackwire_uses_the_database(
    server: DatabaseServer, uri: str, ours: Broker, start_activemq: Callable[[], ManagedProcess]
) -> None:
    with ExitStack() as started:
        if isinstance(server, MariadbServer):
            started.enter_context(short_lock_waits(server))
        with ours() as url, ackwire.connect(url) as connection, connection.session() as session:
            session.send("queue://orders", "one")
            process = started.enter_context(start_activemq())
            await_waiting(uri)
            session.send("queue://orders", "two")
            assert "ready:" not in process.output()
        other = f"tcp://127.0.0.1:{wait_until_ready(process, 1, ACTIVEMQ_SECONDS).ports[0]}"
        with (
            ackwire.connect(other) as connection,
            connection.session() as session,
            session.consumer("queue://orders") as consumer,
        ):
            assert [received(consumer).body for _ in range(2)] == ["one", "two"]


ACTIVEMQ_SECONDS: Final = 60.0
"""Its locker sleeps for 10 s between attempts."""


@contextmanager
def short_lock_waits(server: MariadbServer) -> Iterator[None]:
    """MariaDB makes each attempt wait for 50 s, and ActiveMQ makes several before it logs that it waits."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET GLOBAL innodb_lock_wait_timeout = 1")
        try:
            yield
        finally:
            cursor.execute("SET GLOBAL innodb_lock_wait_timeout = DEFAULT")


WAITING: Final = {
    "postgresql": "SELECT COUNT(*) FROM pg_locks WHERE NOT granted",
    "mariadb": "SELECT COUNT(*) FROM information_schema.innodb_lock_waits",
}


def await_waiting(uri: str) -> None:
    """Return when a transaction waits for a lock."""
    where = parse_store_uri(uri)
    session = driver_for(where, None).connect(is_writer=False)
    pause = threading.Event()
    while session.select(WAITING[where.scheme]) == [(0,)]:
        pause.wait(0.2)  # MariaDB's view is brought up to date only if it was not read for 0.1 s
    session.close()

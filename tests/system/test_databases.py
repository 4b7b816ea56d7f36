"""A broker whose messages are in a database: restarts of the broker, and a database that goes away (K3, K7)."""

import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

import ackwire
from ackwire.cli.serve import EXIT_STORE_FAILED
from ackwire.config.store_uri import parse_store_uri
from ackwire.store.sql.driver import Statement
from ackwire.store.sql.drivers import driver_for
from tests.helpers.databases import DatabaseServer, mariadb, postgresql
from tests.helpers.openwire_client import OpenWireClient, queue
from tests.helpers.processes import ManagedProcess, RestartableBroker, ackwire_program
from tests.helpers.sql_factories import wipe

pytestmark = pytest.mark.system

SERVERS: Final = {"postgresql": postgresql, "mariadb": mariadb}
RECEIVE_SECONDS: Final = 20.0


@pytest.fixture(params=["sqlite", *SERVERS])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'messages.db'}"
    return empty(SERVERS[request.param]())


@pytest.fixture(params=list(SERVERS))
def server(request: pytest.FixtureRequest) -> Iterator[DatabaseServer]:
    server = SERVERS[request.param]()
    empty(server)
    yield server
    server.resume()
    if not server.is_running:
        server.start()


def empty(server: DatabaseServer) -> str:
    wipe(driver_for(parse_store_uri(server.uri), None))
    return server.uri


def broker_on(folder: Path, uri: str, *options: str) -> RestartableBroker:
    return RestartableBroker(folder, ("--store", uri, *options))


def settings(folder: Path, text: str) -> tuple[str, str]:
    file = folder / "ackwire.toml"
    file.write_text(text)
    return "--config", str(file)


def received(session: ackwire.Session, where: str, count: int) -> list[ackwire.Message]:
    messages: list[ackwire.Message] = []
    with session.consumer(where) as consumer:
        for _ in range(count):
            message = consumer.receive(RECEIVE_SECONDS)
            assert message is not None, f"{len(messages)} of {count} came"
            messages.append(message)
    return messages


def bodies(messages: Sequence[ackwire.Message]) -> list[object]:
    return [it.body for it in messages]


@pytest.mark.parametrize("kill", [True, False])
def test_K3_queues_and_durable_subscriptions_outlive_the_broker(tmp_path: Path, uri: str, *, kill: bool) -> None:
    with broker_on(tmp_path, uri) as broker:
        with ackwire.connect(broker.url, client_id="c") as connection, connection.session() as session:
            with session.durable_subscriber("prices", "all"), session.durable_subscriber("prices", "some", "n > 2"):
                pass
            for number in range(5):
                session.send("queue://orders", f"order {number}", priority=number, properties={"n": number})
                session.send("topic://prices", f"price {number}", properties={"n": number})
            assert bodies(received(session, "queue://orders", 2)) == ["order 0", "order 1"]
            with session.durable_subscriber("prices", "all") as subscriber:
                first = subscriber.receive(RECEIVE_SECONDS)
                assert first is not None
                assert first.body == "price 0"
        broker.restart(kill=kill)
        with ackwire.connect(broker.url, client_id="c") as connection, connection.session() as session:
            left = received(session, "queue://orders", 3)
            assert [(it.body, it.priority, it.properties["n"]) for it in left] == [
                (f"order {number}", number, number) for number in (2, 3, 4)
            ]
            with session.durable_subscriber("prices", "all") as everything:
                prices = [everything.receive(RECEIVE_SECONDS) for _ in range(4)]
            with session.durable_subscriber("prices", "some", "n > 2") as some:
                selected = [some.receive(RECEIVE_SECONDS) for _ in range(2)]
                assert some.receive(0.1) is None
        assert [it and it.body for it in prices] == [f"price {number}" for number in range(1, 5)]
        assert [it and it.body for it in selected] == ["price 3", "price 4"]


@pytest.mark.timeout(180)
def test_K3_K7_a_killed_database_loses_and_doubles_nothing(tmp_path: Path, server: DatabaseServer) -> None:
    """Producers wait while it is away; what was committed before the connection broke is not written again."""
    sent: list[str] = []
    stop = threading.Event()

    def produce(url: str) -> None:
        with ackwire.connect(url) as connection, connection.session() as session:
            producer = session.producer("queue://orders")
            while not stop.is_set():
                producer.send(f"order {len(sent)}")
                sent.append(f"order {len(sent)}")

    with broker_on(tmp_path, server.uri) as broker:
        producer = threading.Thread(target=produce, args=(broker.url,))
        producer.start()
        for _ in range(3):
            await_more(sent, 20)
            server.kill()
            server.start()
        await_more(sent, 20)
        stop.set()
        producer.join()
        assert "trying again" in broker.process.output()
        broker.restart(kill=True)
        with ackwire.connect(broker.url) as connection, connection.session() as session:
            assert bodies(received(session, "queue://orders", len(sent))) == sent
            with session.consumer("queue://orders") as consumer:
                assert consumer.receive(0.2) is None


def has_input(client: OpenWireClient) -> bool:
    try:
        return client.read_some(0.01)
    except TimeoutError:
        return False


def await_more(sent: list[str], count: int) -> None:
    """Return when *count* more messages were confirmed."""
    wanted = len(sent) + count
    pause = threading.Event()
    while len(sent) < wanted:
        pause.wait(0.01)


def test_K7_producers_wait_for_a_paused_database_and_other_traffic_goes_on(
    tmp_path: Path, server: DatabaseServer
) -> None:
    with (
        broker_on(tmp_path, server.uri) as broker,
        OpenWireClient.logged_in(broker.port) as waiting,
        ackwire.connect(broker.url) as connection,
        connection.session() as session,
        session.consumer("queue://fast") as consumer,
        session.producer("queue://fast") as producer,
    ):
        waiting.request(waiting.text_message(queue("orders"), "before", persistent=True))
        server.pause()
        try:
            asked = waiting.post(waiting.text_message(queue("orders"), "meanwhile", persistent=True))
            for number in range(20):
                producer.send(f"{number}", delivery_mode=ackwire.DeliveryMode.NON_PERSISTENT)
                message = consumer.receive(RECEIVE_SECONDS)
                assert message is not None
                assert message.body == f"{number}"
            assert not has_input(waiting), "answered before it was stored"
        finally:
            server.resume()
        waiting.answer(asked)
    with broker_on(tmp_path, server.uri) as broker, ackwire.connect(broker.url) as again, again.session() as session:
        assert bodies(received(session, "queue://orders", 2)) == ["before", "meanwhile"]


def test_K7_a_database_that_stays_away_ends_the_broker(tmp_path: Path, server: DatabaseServer) -> None:
    options = settings(tmp_path, "[sql]\nreconnect_seconds_max = 0.5\n")
    with broker_on(tmp_path, server.uri, *options) as broker:
        with OpenWireClient.logged_in(broker.port) as client:
            client.request(client.text_message(queue("orders"), "kept", persistent=True))
            server.kill()
            refused = client.refused(client.text_message(queue("orders"), "never kept", persistent=True))
        assert "Nothing more is acknowledged" in str(refused)
        assert broker.process.wait() == EXIT_STORE_FAILED
        assert "sql.reconnect_seconds_max is 0.5" in broker.process.output()
        server.start()
        broker.start()
        with ackwire.connect(broker.url) as connection, connection.session() as session:
            assert bodies(received(session, "queue://orders", 1)) == ["kept"]


def test_K3_K7_a_broker_that_was_replaced_writes_nothing_more(tmp_path: Path, server: DatabaseServer) -> None:
    """Another broker has begun a run while this one was cut off: the guard of its next transaction fails."""
    with broker_on(tmp_path, server.uri) as broker, OpenWireClient.logged_in(broker.port) as client:
        client.request(client.text_message(queue("orders"), "mine", persistent=True))
        driver = driver_for(parse_store_uri(server.uri), None)
        session = driver.connect(is_writer=False)
        session.transact([Statement("UPDATE ACKWIRE_STATE SET RUN_ID = 'another'", [()])])
        refused = client.refused(client.text_message(queue("orders"), "too late", persistent=True))
        assert "another broker has taken over" in str(refused)
        assert broker.process.wait() == EXIT_STORE_FAILED
        assert session.select("SELECT COUNT(*) FROM ACTIVEMQ_MSGS") == [(1,)]
        session.close()


def test_K3_a_message_that_the_database_cannot_take_is_not_let_in(tmp_path: Path) -> None:
    """MariaDB's max_allowed_packet: without this, its connection would break again and again."""
    uri = empty(mariadb())
    with broker_on(tmp_path, uri) as broker:
        assert "so wire.frame_bytes_max is lowered" in broker.process.output()
        with ackwire.connect(broker.url) as connection, connection.session() as session:
            body = bytes(20_000_000)  # each of them takes two bytes on its way
            session.send("queue://large", body)
            [message] = received(session, "queue://large", 1)
            assert message.body == body


# ---- starts that cannot be -------------------------------------------------------------------------------------


def refusal(folder: Path, uri: str, *options: str) -> str:
    """What a broker says that does not start."""
    argv = [str(ackwire_program()), "serve", "--store", uri, "--data", str(folder / "other"), *options]
    with ManagedProcess([*argv, "--listen", "tcp://127.0.0.1:0"], log_path=folder / "refused.log") as process:
        assert process.wait() == 2
        return process.output()


def test_K3_a_second_broker_is_refused(tmp_path: Path, uri: str) -> None:
    with broker_on(tmp_path, uri):
        assert "in use by" in refusal(tmp_path, uri)


def test_K3_an_unknown_database_is_named(tmp_path: Path, server: DatabaseServer) -> None:
    unknown = server.uri.rpartition("/")[0] + "/nowhere"
    said = refusal(tmp_path, unknown)
    assert "nowhere" in said
    assert "check that the server runs" in said


def test_K3_missing_tables_are_named_where_they_must_not_be_created(tmp_path: Path, uri: str) -> None:
    options = settings(tmp_path, '[sql]\ncreate_tables = false\ntable_prefix = "OTHER_"\n')
    said = refusal(tmp_path, uri, *options)
    assert "missing tables: OTHER_ACTIVEMQ_MSGS" in said
    assert "ackwire store schema" in said


def test_K3_the_printed_schema_is_the_one_that_a_start_needs(tmp_path: Path, uri: str) -> None:
    """An administrator runs the statements; the broker may not create tables."""
    kind, prefix = uri.partition(":")[0], "BYHAND_"
    argv = [str(ackwire_program()), "store", "schema", kind, "--table-prefix", prefix]
    printed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    session = driver_for(parse_store_uri(uri), None).connect(is_writer=False)
    for statement in printed.split(";\n")[:-1]:
        session.transact([Statement(statement, [()])])
    session.close()
    options = settings(tmp_path, f'[sql]\ncreate_tables = false\ntable_prefix = "{prefix}"\n')
    with (
        broker_on(tmp_path, uri, *options) as broker,
        ackwire.connect(broker.url) as connection,
        connection.session() as client,
    ):
        client.send("queue://orders", "one")
        assert bodies(received(client, "queue://orders", 1)) == ["one"]

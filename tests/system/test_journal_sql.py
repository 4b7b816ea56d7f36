"""A broker with a journal in front of a real database: what reaches it, and what goes on while it is away (K4)."""

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

import ackwire
from ackwire.config.store_uri import parse_store_uri
from ackwire.store.sql.driver import Row
from ackwire.store.sql.drivers import driver_for
from tests.helpers.databases import DatabaseServer, mariadb, postgresql
from tests.helpers.processes import RestartableBroker, ackwire_program
from tests.helpers.sql_factories import wipe

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]

SERVERS: Final = {"postgresql": postgresql, "mariadb": mariadb}
RECEIVE_SECONDS: Final = 20.0
WAIT_SECONDS_MAX: Final = 60.0
POLL_SECONDS: Final = 0.05


@pytest.fixture(params=list(SERVERS))
def server(request: pytest.FixtureRequest) -> Iterator[DatabaseServer]:
    server = SERVERS[request.param]()
    wipe(driver_for(parse_store_uri(server.uri), None))
    yield server
    server.resume()
    if not server.is_running:
        server.start()


def broker_on(folder: Path, server: DatabaseServer, settings: str = "checkpoint_seconds = 3600") -> RestartableBroker:
    file = folder / "ackwire.toml"
    file.write_text(f"[store]\n{settings}\n")
    return RestartableBroker(folder, ("--store", f"journal+{server.uri}", "--config", str(file)))


def rows(server: DatabaseServer, query: str) -> list[Row]:
    session = driver_for(parse_store_uri(server.uri), None).connect(is_writer=False)
    try:
        return session.select(query)
    finally:
        session.close()


def messages_in(server: DatabaseServer) -> int:
    return int(rows(server, "SELECT COUNT(*) FROM ACTIVEMQ_MSGS")[0][0])


def checkpoint(broker: RestartableBroker) -> None:
    argv = [str(ackwire_program()), "checkpoint", "--url", broker.url]
    subprocess.run(argv, check=True, capture_output=True, timeout=60)


def send(session: ackwire.Session, count: int, name: str = "order") -> None:
    producer = session.producer("queue://orders")
    for number in range(count):
        producer.send(f"{name} {number}")


def receive(session: ackwire.Session, count: int) -> list[object]:
    with session.consumer("queue://orders") as consumer:
        received = [consumer.receive(RECEIVE_SECONDS) for _ in range(count)]
    return [it and it.body for it in received]


def wait_until(is_so: Callable[[], bool]) -> None:
    """Return when *is_so*; a database takes a moment."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline, "it does not come true"
        time.sleep(POLL_SECONDS)


def inserted_into(server: DatabaseServer) -> int:
    """How many rows were ever inserted into ActiveMQ's table: PostgreSQL counts them itself."""
    [(count,)] = rows(server, "SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 'activemq_msgs'")
    return int(count)


def test_K4_of_1000_messages_of_which_900_are_consumed_100_rows_are_inserted(tmp_path: Path) -> None:
    server = postgresql()
    wipe(driver_for(parse_store_uri(server.uri), None))
    with broker_on(tmp_path, server) as broker:
        before = inserted_into(server)
        with ackwire.connect(broker.url) as connection, connection.session() as session:
            send(session, 1000)
            assert receive(session, 900) == [f"order {number}" for number in range(900)]
            assert messages_in(server) == 0
            checkpoint(broker)
            wait_until(lambda: messages_in(server) == 100)
            assert receive(session, 100) == [f"order {number}" for number in range(900, 1000)]
            checkpoint(broker)
            wait_until(lambda: messages_in(server) == 0)
        broker.restart(kill=False)  # and a session that ends reports its statistics
        wait_until(lambda: inserted_into(server) - before >= 100)
        assert inserted_into(server) - before == 100


def test_K4_a_broker_goes_on_while_its_database_is_away(tmp_path: Path, server: DatabaseServer) -> None:
    with broker_on(tmp_path, server, "checkpoint_seconds = 0.2") as broker:
        with ackwire.connect(broker.url) as connection, connection.session() as session:
            send(session, 50, "before")
            wait_until(lambda: messages_in(server) == 50)
            server.kill()
            send(session, 100, "meanwhile")
            with session.consumer("queue://others") as consumer:
                session.send("queue://others", "quick")
                answer = consumer.receive(RECEIVE_SECONDS)
            assert answer is not None
            assert answer.body == "quick"
            server.start()
            wait_until(lambda: messages_in(server) == 150)
            expected = [f"before {number}" for number in range(50)] + [f"meanwhile {number}" for number in range(100)]
            assert receive(session, 150) == expected
        wait_until(lambda: messages_in(server) == 0)


def test_K4_what_only_the_journal_has_outlives_a_kill(tmp_path: Path, server: DatabaseServer) -> None:
    with broker_on(tmp_path, server) as broker:
        with ackwire.connect(broker.url) as connection, connection.session() as session:
            send(session, 10)
            checkpoint(broker)
            wait_until(lambda: messages_in(server) == 10)
            assert receive(session, 3) == [f"order {number}" for number in range(3)]
            send(session, 5, "later")
        assert messages_in(server) == 10
        broker.restart(kill=True)
        expected = [f"order {number}" for number in range(3, 10)] + [f"later {number}" for number in range(5)]
        with ackwire.connect(broker.url) as connection, connection.session() as session:
            assert receive(session, 12) == expected


def test_K4_a_broker_without_the_journal_is_refused_with_one_sentence(tmp_path: Path, server: DatabaseServer) -> None:
    with broker_on(tmp_path, server) as broker:
        with ackwire.connect(broker.url) as connection, connection.session() as session:
            send(session, 1)
        broker.process.kill()
        program, data = str(ackwire_program()), str(tmp_path / "other")
        for uri in (server.uri, f"journal+{server.uri}"):
            argv = [program, "serve", "--store", uri, "--data", data, "--listen", "tcp://127.0.0.1:0"]
            done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=60)
            assert done.returncode == 2
            [line] = [it for it in done.stderr.splitlines() if it.startswith("ackwire: ")]
            assert f"belongs to the journal in {broker.data / 'sql-journal'}" in line
        broker.start()
        with ackwire.connect(broker.url) as connection, connection.session() as session:
            assert receive(session, 1) == ["order 0"]

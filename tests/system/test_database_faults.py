"""Databases that keep silent, refuse, or belong to others: nothing is answered that is not committed (K3, K7)."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg
import pymysql
import pytest

import ackwire
from ackwire.cli.serve import EXIT_STORE_FAILED
from tests.helpers.databases import DatabaseServer, MariadbServer, PostgresqlServer, mariadb, postgresql
from tests.helpers.openwire_client import OpenWireClient, queue
from tests.helpers.processes import ManagedProcess, RestartableBroker, ackwire_program
from tests.system.test_http import Served, serving
from tests.system.test_store_cli import ackwire as ackwire_command

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

RECEIVE_SECONDS: Final = 20.0
CLOSE_SECONDS_MAX: Final = 40.0
"""A broker that stops while its database is silent waits for a quarter of it."""


@dataclass(frozen=True, slots=True)
class Database:
    """A new, empty database on a server."""

    server: DatabaseServer
    uri: str

    @property
    def name(self) -> str:
        return self.uri.rpartition("/")[2]

    def run(self, *statements: str) -> list[tuple[object, ...]]:
        """Execute statements; the rows of the last one, if it has any."""
        with self.server.connect(self.name) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    def tables(self) -> set[str]:
        schema = "DATABASE()" if isinstance(self.server, MariadbServer) else "current_schema()"
        query = "SELECT table_name FROM information_schema.tables WHERE table_schema = "
        rows = self.run(query + schema)
        return {str(name).upper() for (name,) in rows}

    def bodies(self, folder: Path) -> list[object]:
        """What a new broker delivers from the queue `orders`."""
        with (
            running(folder, self) as broker,
            ackwire.connect(broker.url) as connection,
            connection.session() as session,
            session.consumer("queue://orders") as consumer,
        ):
            bodies = []
            session.send("queue://orders", "the end")
            while (message := consumer.receive(RECEIVE_SECONDS)) is not None and message.body != "the end":
                bodies.append(message.body)
            return bodies

    def fail_inserts(self, sqlstate: str, errno: int, times: int) -> None:
        """Let the next so many inserts of a message fail: with that SQLSTATE on PostgreSQL, that error on MariaDB."""
        if isinstance(self.server, MariadbServer):
            self.run(
                "CREATE SEQUENCE trouble",
                "CREATE TRIGGER trouble BEFORE INSERT ON ACTIVEMQ_MSGS FOR EACH ROW BEGIN "
                f"IF NEXTVAL(trouble) <= {times} THEN SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = {errno}, "
                "MESSAGE_TEXT = 'made by a test'; END IF; END",
            )
        else:
            self.run(
                "CREATE SEQUENCE trouble",
                "CREATE FUNCTION trouble() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                f"IF nextval('trouble') <= {times} THEN RAISE EXCEPTION 'made by a test' USING ERRCODE = '{sqlstate}'; "
                "END IF; RETURN NEW; END $$",
                "CREATE TRIGGER trouble BEFORE INSERT ON ACTIVEMQ_MSGS FOR EACH ROW EXECUTE FUNCTION trouble()",
            )

    def grant(self, user: str, statements: str, tables: set[str]) -> None:
        for table in tables:
            self.run(f"GRANT {statements} ON {table} TO {user}")

    def uri_of(self, user: str) -> str:
        return f"{self.uri.partition('://')[0]}://{user}@{self.uri.partition('@')[2]}"


@pytest.fixture(params=[postgresql, mariadb], ids=["postgresql", "mariadb"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    server: DatabaseServer = request.param()
    yield Database(server, server.new_database())
    server.resume()


@contextmanager
def running(folder: Path, database: Database, settings: str = "") -> Iterator[RestartableBroker]:
    config = folder / "ackwire.toml"
    config.write_text(f"[sql]\n{settings}\n")
    with RestartableBroker(folder, ("--store", database.uri, "--config", str(config))) as broker:
        yield broker


def refusal(folder: Path, uri: str, settings: str = "") -> str:
    """What a broker says that does not start."""
    config = folder / "refused.toml"
    config.write_text(f"[sql]\n{settings}\n")
    argv = [str(ackwire_program()), "serve", "--store", uri, "--config", str(config), "--data", str(folder / "other")]
    with ManagedProcess([*argv, "--listen", "tcp://127.0.0.1:0"], log_path=folder / "refused.log") as process:
        assert process.wait() == 2
        return process.output()


def has_input(client: OpenWireClient) -> bool:
    try:
        return client.read_some(0.01)
    except TimeoutError:
        return False


def await_log(broker: RestartableBroker, text: str) -> None:
    broker.process.wait_for_line(re.compile(re.escape(text)), RECEIVE_SECONDS)


# ---- a server that keeps silent, with its sockets open ---------------------------------------------------------


def test_K7_a_silent_database_is_noticed_and_everything_resumes(tmp_path: Path, database: Database) -> None:
    """Producers wait, other traffic goes on; after the pause each message is there once."""
    with (
        running(tmp_path, database, "answer_seconds_max = 2") as broker,
        OpenWireClient.logged_in(broker.port) as waiting,
        ackwire.connect(broker.url) as connection,
        connection.session() as session,
        session.consumer("queue://fast") as consumer,
        session.producer("queue://fast") as producer,
    ):
        waiting.request(waiting.text_message(queue("orders"), "before", persistent=True))
        database.server.pause()
        asked = waiting.post(waiting.text_message(queue("orders"), "meanwhile", persistent=True))
        await_log(broker, "no answer for")
        for number in range(20):
            producer.send(f"{number}", delivery_mode=ackwire.DeliveryMode.NON_PERSISTENT)
            message = consumer.receive(RECEIVE_SECONDS)
            assert message is not None
            assert message.body == f"{number}"
        assert not has_input(waiting), "answered before it was stored"
        database.server.resume()
        waiting.answer(asked)
        waiting.request(waiting.text_message(queue("orders"), "after", persistent=True))
    assert database.bodies(tmp_path) == ["before", "meanwhile", "after"]


def test_K7_a_database_that_stays_silent_ends_the_broker(tmp_path: Path, database: Database) -> None:
    with running(tmp_path, database, "answer_seconds_max = 2\nreconnect_seconds_max = 0.5") as broker:
        with OpenWireClient.logged_in(broker.port) as client:
            client.request(client.text_message(queue("orders"), "kept", persistent=True))
            database.server.pause()
            refused = client.refused(client.text_message(queue("orders"), "never answered", persistent=True))
        assert "Nothing more is acknowledged" in str(refused)
        assert broker.process.wait() == EXIT_STORE_FAILED
        assert "sql.reconnect_seconds_max is 0.5" in broker.process.output()
        database.server.resume()
    assert database.bodies(tmp_path)[0] == "kept"


def test_K7_a_broker_stops_while_its_database_is_silent(tmp_path: Path, database: Database) -> None:
    with running(tmp_path, database) as broker, OpenWireClient.logged_in(broker.port) as client:
        client.request(client.text_message(queue("orders"), "kept", persistent=True))
        database.server.pause()
        client.post(client.text_message(queue("orders"), "never answered", persistent=True))
        client.request(client.text_message(queue("other"), "the broker has read all", persistent=False))
        broker.process.terminate(CLOSE_SECONDS_MAX)
        database.server.resume()
    assert database.bodies(tmp_path)[0] == "kept"


def test_K3_a_start_on_a_silent_database_is_refused(tmp_path: Path, database: Database) -> None:
    database.server.pause()
    said = refusal(tmp_path, database.uri, "answer_seconds_max = 2")
    assert "cannot be used" in said
    assert "check that the server runs" in said


@pytest.mark.parametrize("how", ["killed", "silent"])
def test_K7_metrics_and_why_say_that_the_database_is_away(tmp_path: Path, database: Database, how: str) -> None:
    server = database.server
    with (
        serving(tmp_path, "--store", database.uri) as served,
        OpenWireClient.logged_in(int(served.url.rpartition(":")[2])) as client,
    ):
        client.request(client.text_message(queue("orders"), "before", persistent=True))
        assert (metric(served, "reachable"), metric(served, "away_seconds")) == (1, 0)
        assert "which can be used" in ackwire_command("why", "store", "--url", served.url).out
        committed = metric(served, "transactions_total")
        try:
            server.kill() if how == "killed" else server.pause()
            asked = client.post(client.text_message(queue("orders"), "meanwhile", persistent=True))
            await_metric(served, "reachable", 0)
            assert metric(served, "away_seconds") > 0
            assert "which has been away for" in ackwire_command("why", "store", "--url", served.url).out
            waits = ackwire_command("why", "producer", client.connection_id, "--url", served.url).out
            assert "takes nothing at the moment" in waits or "has not answered for" in waits
            assert metric(served, "transactions_total") == committed
        finally:
            server.start() if how == "killed" else server.resume()
        client.answer(asked)
        await_metric(served, "reachable", 1)
        assert metric(served, "reconnects_total") >= (how == "killed")
        assert metric(served, "transactions_total") > committed
    assert database.bodies(tmp_path) == ["before", "meanwhile"]


def metric(served: Served, name: str) -> float:
    return served.metrics()[f"ackwire_store_{name}"][frozenset()]


def await_metric(served: Served, name: str, value: float) -> None:
    deadline = time.monotonic() + RECEIVE_SECONDS
    while metric(served, name) != value:
        assert time.monotonic() < deadline
        time.sleep(0.05)


# ---- transactions that fail ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sqlstate", "errno"),
    [
        pytest.param("40P01", 1213, id="deadlock"),
        pytest.param("40001", 1020, id="serialization"),
        pytest.param("55P03", 1205, id="lock wait"),
        pytest.param("53100", 1021, id="disk full"),
        pytest.param("53100", 1114, id="table full"),
    ],
)
def test_K7_a_transaction_that_may_succeed_later_is_repeated(
    tmp_path: Path, database: Database, sqlstate: str, errno: int
) -> None:
    with running(tmp_path, database) as broker:
        database.fail_inserts(sqlstate, errno, times=3)
        with OpenWireClient.logged_in(broker.port) as client:
            client.request(client.text_message(queue("orders"), "one", persistent=True))
            client.request(client.text_message(queue("orders"), "two", persistent=True))
        await_log(broker, "made by a test; trying again")
    assert database.bodies(tmp_path) == ["one", "two"]


def test_K7_a_deadlock_of_two_clients_of_the_server_is_repeated(tmp_path: Path, database: Database) -> None:
    """A real one, in which the broker's transaction is the one that the server gives up."""
    if isinstance(database.server, PostgresqlServer):
        # The first that has waited for so long looks for a deadlock, and is given up if there is one.
        database.run(f"ALTER DATABASE {database.name} SET deadlock_timeout = '2s'")
        begin, weight = "SET deadlock_timeout = '1h'", "SELECT 1"
    else:  # InnoDB gives up the one that has changed less
        database.run("CREATE TABLE heavy (n INT)")
        begin, weight = "SELECT 1", "INSERT INTO heavy SELECT seq FROM seq_1_to_1000"
    sent = ["the first"]
    with running(tmp_path, database) as broker, OpenWireClient.logged_in(broker.port) as client:
        client.request(client.text_message(queue("orders"), sent[0], persistent=True))
        while "trying again" not in broker.process.output():  # a machine that is busy may let the broker's wait pass
            with database.server.connect(database.name) as other, other.cursor() as cursor:
                for statement in (begin, "BEGIN", weight, "SELECT * FROM ACKWIRE_STATE FOR UPDATE"):
                    cursor.execute(statement)
                sent.append(f"number {len(sent)}")
                asked = client.post(client.text_message(queue("orders"), sent[-1], persistent=True))
                await_waiting(database)
                with suppress(psycopg.Error, pymysql.Error):  # this one may be the one that waits for too long
                    cursor.execute(lock_timeout(database))
                    cursor.execute("UPDATE ACKWIRE_COUNTS SET HEARD = HEARD")
                cursor.execute("ROLLBACK")
            client.answer(asked)
        assert re.search("deadlock (detected|found).*; trying again", broker.process.output(), re.IGNORECASE)
    assert database.bodies(tmp_path) == sent


def lock_timeout(database: Database) -> str:
    is_mariadb = isinstance(database.server, MariadbServer)
    return "SET innodb_lock_wait_timeout = 20" if is_mariadb else "SET lock_timeout = '20s'"


def await_waiting(database: Database) -> None:
    """Wait until a transaction waits for a lock of another."""
    if isinstance(database.server, MariadbServer):
        query = "SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
    else:
        query = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    deadline = time.monotonic() + RECEIVE_SECONDS
    while not database.run(query):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_K7_a_transaction_that_cannot_be_serialized_is_repeated(tmp_path: Path) -> None:
    """An administrator may have made that the default of a database."""
    server = postgresql()
    database = Database(server, server.new_database())
    database.run(f"ALTER DATABASE {database.name} SET default_transaction_isolation = 'serializable'")
    with running(tmp_path, database) as broker, OpenWireClient.logged_in(broker.port) as client:
        client.request(client.text_message(queue("orders"), "one", persistent=True))
        with database.server.connect(database.name) as other, other.cursor() as cursor:
            cursor.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
            cursor.execute("UPDATE ACKWIRE_STATE SET IS_OPEN = IS_OPEN")
            asked = client.post(client.text_message(queue("orders"), "two", persistent=True))
            await_waiting(database)
            cursor.execute("COMMIT")
        client.answer(asked)
        await_log(broker, "could not serialize access due to concurrent update; trying again")
    assert database.bodies(tmp_path) == ["one", "two"]


class SmallDisk:
    """A file system in memory, which only root can mount."""

    def __init__(self, path: Path, user: str) -> None:
        self._filler = path / "filler"
        self._path = path
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "none", str(path)], check=True)
        shutil.chown(path, user)

    def fill(self) -> None:
        with suppress(OSError), self._filler.open("wb", buffering=0) as filler:
            while filler.write(bytes(1 << 12)):
                pass

    def make_room(self) -> None:
        self._filler.unlink()

    def remove(self) -> None:
        subprocess.run(["umount", "--lazy", str(self._path)], check=True)


def disk_of(database: Database) -> SmallDisk:
    """A small disk for the tables of a database of PostgreSQL."""
    server, name = database.server, database.name
    path = server.folder / name
    path.mkdir()
    disk = SmallDisk(path, server.user)
    (path / "space").mkdir()
    shutil.chown(path / "space", server.user)
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLESPACE {name} LOCATION '{path / 'space'}'")
        cursor.execute(f"ALTER DATABASE {name} SET TABLESPACE {name}")
    return disk


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_K7_producers_wait_while_the_disk_of_the_database_is_full(tmp_path: Path) -> None:
    """A disk that is really full. (MariaDB 10.11 crashes on one: its broker sees a connection that is lost.)"""
    server = PostgresqlServer()
    database = Database(server, server.new_database())
    disk = disk_of(database)
    bodies = [f"{number} {'x' * 400_000}" for number in range(10)]
    try:
        with running(tmp_path, database) as broker, OpenWireClient.logged_in(broker.port) as client:
            client.request(client.text_message(queue("orders"), "before", persistent=True))
            disk.fill()
            asked = [client.post(client.text_message(queue("orders"), it, persistent=True)) for it in bodies]
            await_log(broker, "; trying again")
            assert "No space left" in broker.process.output()
            disk.make_room()
            for it in asked:
                client.answer(it)
        assert database.bodies(tmp_path) == ["before", *bodies]
    finally:
        server.remove()
        disk.remove()
        shutil.rmtree(server.folder, ignore_errors=True)


def test_K7_a_disk_that_stays_full_ends_the_broker_with_advice(tmp_path: Path, database: Database) -> None:
    with running(tmp_path, database, "reconnect_seconds_max = 0.5") as broker:
        database.fail_inserts("53100", 1021, times=1_000_000)
        with OpenWireClient.logged_in(broker.port) as client:
            client.refused(client.text_message(queue("orders"), "one", persistent=True))
        assert broker.process.wait() == EXIT_STORE_FAILED
        assert "free space on the disk of the database" in broker.process.output()
    assert database.run("SELECT COUNT(*) FROM ACTIVEMQ_MSGS") == [(0,)]


def test_K3_a_row_that_the_server_takes_no_longer_is_explained(tmp_path: Path) -> None:
    """`max_allowed_packet` was lowered while the broker ran, and its connections were cut."""
    server = mariadb()
    database = Database(server, server.new_database())
    before = database.run("SELECT @@GLOBAL.max_allowed_packet")[0][0]
    try:
        with running(tmp_path, database) as broker, OpenWireClient.logged_in(broker.port) as client:
            client.request(client.text_message(queue("orders"), "small", persistent=True))
            database.run("SET GLOBAL max_allowed_packet = 1048576")
            for number in connections(database):
                server.end_connection(number)
            client.refused(client.text_message(queue("orders"), "x" * 900_000, persistent=True))
            assert broker.process.wait() == EXIT_STORE_FAILED
            assert "max_allowed_packet was lowered since the start; raise it" in broker.process.output()
    finally:
        database.run(f"SET GLOBAL max_allowed_packet = {before}")
    assert database.bodies(tmp_path) == ["small"]


def connections(database: Database) -> list[int]:
    query = "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"
    return [int(str(number)) for (number,) in database.run(query)]


# ---- privileges, credentials and schemas -----------------------------------------------------------------------


def make_user(database: Database) -> str:
    """A user who may do nothing with the tables that are there."""
    name = f"user_{database.name}"
    if isinstance(database.server, MariadbServer):
        database.run(f"CREATE USER {name}", f"GRANT SELECT ON {database.name}.* TO {name}")
    else:
        database.run(f"CREATE ROLE {name} LOGIN")
    return name


@pytest.mark.parametrize("missing", ["INSERT", "UPDATE", "DELETE"])
def test_K3_a_missing_privilege_is_found_at_the_start(tmp_path: Path, database: Database, missing: str) -> None:
    with running(tmp_path, database):
        pass
    user, tables = make_user(database), database.tables()
    run_before = database.run("SELECT * FROM ACKWIRE_STATE")
    allowed = ", ".join(it for it in ("SELECT", "INSERT", "UPDATE", "DELETE") if it != missing)
    database.grant(user, "SELECT, INSERT, UPDATE, DELETE", tables - {"ACTIVEMQ_MSGS"})
    database.grant(user, allowed, {"ACTIVEMQ_MSGS"})
    said = refusal(tmp_path, database.uri_of(user))
    assert "denied" in said
    assert "grant SELECT, INSERT, UPDATE and DELETE on all ACTIVEMQ_ and ACKWIRE_ tables" in said
    assert database.run("SELECT * FROM ACKWIRE_STATE") == run_before
    database.grant(user, missing, {"ACTIVEMQ_MSGS"})
    assert Database(database.server, database.uri_of(user)).bodies(tmp_path) == []


def test_K7_a_privilege_that_is_taken_away_ends_the_broker_with_advice(tmp_path: Path, database: Database) -> None:
    with running(tmp_path, database):
        pass
    user = make_user(database)
    database.grant(user, "SELECT, INSERT, UPDATE, DELETE", database.tables())
    with running(tmp_path, Database(database.server, database.uri_of(user))) as broker:
        with OpenWireClient.logged_in(broker.port) as client:
            client.request(client.text_message(queue("orders"), "kept", persistent=True))
            database.run(f"REVOKE INSERT ON ACTIVEMQ_MSGS FROM {user}")
            refused = client.refused(client.text_message(queue("orders"), "never kept", persistent=True))
        assert "grant SELECT, INSERT, UPDATE and DELETE" in str(refused)
        assert broker.process.wait() == EXIT_STORE_FAILED
    assert database.bodies(tmp_path) == ["kept"]


def test_K3_wrong_credentials_are_explained(
    tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = database.server.make_user_with_password("right")
    monkeypatch.setenv("ACKWIRE_STORE_PASSWORD", "not-this-one")
    said = refusal(tmp_path, database.uri_of(user))
    assert user in said
    assert "check that the server runs, and address, database, user, password" in said
    assert "not-this-one" not in said
    assert database.tables() == set()


def test_K3_a_foreign_or_newer_schema_is_refused_and_nothing_is_changed(tmp_path: Path, database: Database) -> None:
    database.run("CREATE TABLE ACTIVEMQ_MSGS (ID BIGINT PRIMARY KEY, SOMETHING VARCHAR(10))")
    said = refusal(tmp_path, database.uri)
    assert "table ACTIVEMQ_MSGS has no column CONTAINER" in said
    assert "choose another database or sql.table_prefix" in said
    assert database.tables() == {"ACTIVEMQ_MSGS"}
    database.run("DROP TABLE ACTIVEMQ_MSGS")
    with running(tmp_path, database):
        pass
    database.run("UPDATE ACKWIRE_STATE SET SCHEMA_VERSION = 99")
    state = database.run("SELECT * FROM ACKWIRE_STATE")
    said = refusal(tmp_path, database.uri)
    assert "the schema has version 99" in said
    assert "use the later version of Ackwire that has written it" in said
    assert database.run("SELECT * FROM ACKWIRE_STATE") == state


# ---- the lock of ActiveMQ --------------------------------------------------------------------------------------


def test_K3_the_lock_that_activemq_waits_for_is_kept(tmp_path: Path, database: Database) -> None:
    """Also after its connection was cut: the next transaction takes it again, or is not written."""
    with running(tmp_path, database) as broker, OpenWireClient.logged_in(broker.port) as client:
        client.request(client.text_message(queue("orders"), "one", persistent=True))
        assert not is_lock_free(database)
        with database.server.connect(database.name) as other, other.cursor() as cursor:
            [holder] = lock_holders(database)
            database.server.end_connection(holder)
            cursor.execute("BEGIN")
            cursor.execute("SELECT ID FROM ACTIVEMQ_LOCK FOR UPDATE")  # waits until the server has noticed
            asked = client.post(client.text_message(queue("orders"), "two", persistent=True))
            await_log(broker, "in use by ActiveMQ, which has locked ACTIVEMQ_LOCK")
            assert not has_input(client)
            assert database.run("SELECT COUNT(*) FROM ACTIVEMQ_MSGS") == [(1,)]
            cursor.execute("ROLLBACK")
        client.answer(asked)
        assert not is_lock_free(database)
    assert database.bodies(tmp_path) == ["one", "two"]


def is_lock_free(database: Database) -> bool:
    """Whether ActiveMQ would get its lock."""
    is_mariadb = isinstance(database.server, MariadbServer)
    limit = "SET innodb_lock_wait_timeout = 1" if is_mariadb else "SET lock_timeout = '1s'"
    try:
        database.run(limit, "SELECT ID FROM ACTIVEMQ_LOCK FOR UPDATE")
    except (psycopg.errors.LockNotAvailable, pymysql.OperationalError):
        return False
    return True


def lock_holders(database: Database) -> list[int]:
    """The connections of the broker with an open transaction: the one that holds the lock."""
    if isinstance(database.server, PostgresqlServer):
        query = "SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction' AND datname = current_database()"
    else:
        query = (
            "SELECT p.id FROM information_schema.processlist p JOIN information_schema.innodb_trx t "
            "ON p.id = t.trx_mysql_thread_id WHERE p.db = DATABASE()"
        )
    return [int(str(number)) for (number,) in database.run(query)]

"""The SQL store on SQLite: rows as ActiveMQ has them, schemas that cannot be used, and a database that goes away."""

import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest

from ackwire.errors import StoreFailed
from ackwire.jms.destinations import parse_destination
from ackwire.jms.message import Message
from ackwire.store.background import OnTheSpot
from ackwire.store.contract import PreparedTransaction
from ackwire.store.sql import restore
from ackwire.store.sql.dialect import MARIADB, POSTGRESQL, SQLITE, Dialect
from ackwire.store.sql.driver import NoHold, Row, Session, Statement
from ackwire.store.sql.errors import Diagnosis, Trouble, UnusableDatabase
from ackwire.store.sql.schema import SCHEMA_VERSION, STEPS, Step, Tables, ddl, prepare_schema
from ackwire.store.sql.sql_store import SqlOptions, SqlStore, SqlSurroundings
from ackwire.store.sql.sqlite import SqliteDriver
from ackwire.util.clock import ManualClock
from ackwire.wire.openwire.jdbc_rows import JdbcRows
from tests.helpers.background import ControlledBackground
from tests.helpers.compilation import pure_only
from tests.helpers.sql_factories import MemoryDriver
from tests.helpers.stored import D, E, Messages, Q, T, durable, xa_id


def opened(driver: "SqliteDriver | MemoryDriver | FlakyDriver", run_id: str = "run", **options: object) -> SqlStore:
    surroundings = SqlSurroundings(JdbcRows, ManualClock(), writing=OnTheSpot(), reading=OnTheSpot())
    return SqlStore.open(driver, surroundings, SqlOptions(run_id, **options))  # type: ignore[arg-type]


def rows(driver: "MemoryDriver | FlakyDriver", query: str) -> list[Row]:
    return driver.connect(is_writer=False).select(query)


def sync(store: SqlStore) -> None:
    told: list[str] = []
    store.when_durable(lambda: told.append("durable"))
    assert told == ["durable"]


# ---- rows ------------------------------------------------------------------------------------------------------


def test_K3_a_queue_message_is_a_row_as_activemq_writes_it() -> None:
    driver, messages = MemoryDriver(), Messages()
    store = opened(driver)
    message = messages.make(Q, "hello", priority=7, expiration=1_900_000_000_000)
    message.redelivery_counter = 2
    store.append(message, [Q])
    sync(store)
    [row] = rows(driver, "SELECT ID, CONTAINER, MSGID_PROD, MSGID_SEQ, EXPIRATION, PRIORITY, XID FROM ACTIVEMQ_MSGS")
    producer = JdbcRows().producer(message)
    assert row == (message.sequence, repr(Q), producer, message.producer_count, 1_900_000_000_000, 7, None)
    [(data,)] = rows(driver, "SELECT MSG FROM ACTIVEMQ_MSGS")
    assert int.from_bytes(data[:4]) == len(data) - 4 == len(message.frame)
    assert data[4:] != message.frame, "the redelivery counter stands in it"
    [loaded] = opened(driver, "again").load(Q, [message.sequence])
    assert loaded is not None
    assert (loaded.frame, loaded.redelivery_counter) == (message.frame, 2)


def test_K3_a_topic_message_is_one_row_for_all_subscribers() -> None:
    driver, messages = MemoryDriver(), Messages()
    store = opened(driver)
    store.add_durable(durable(D))
    store.add_durable(durable(E))
    made = [messages.make(T) for _ in range(4)]
    for message in made:
        store.append(message, [D, E])
    store.remove(D, made[0])
    store.remove(D, made[2])
    sync(store)
    acked = (
        "SELECT CLIENT_ID, SUB_NAME, LAST_ACKED_ID, CONTAINER, SUB_DEST, PRIORITY FROM ACTIVEMQ_ACKS ORDER BY SUB_NAME"
    )
    assert rows(driver, acked) == [
        (D.client_id, D.name, 1, repr(T), repr(T), 0),
        (E.client_id, E.name, 0, repr(T), repr(T), 0),
    ]
    assert rows(driver, "SELECT ID, PRIORITY FROM ACTIVEMQ_MSGS") == [(it.sequence, 0) for it in made]
    assert rows(driver, "SELECT FIRST_ID, LAST_ID FROM ACKWIRE_DONE") == [(3, 3)]
    for message in made:
        store.remove(D, message)
        store.remove(E, message)
    sync(store)
    assert rows(driver, "SELECT COUNT(*) FROM ACTIVEMQ_MSGS") == [(0,)]
    assert rows(driver, "SELECT LAST_ACKED_ID FROM ACTIVEMQ_ACKS") == [(4,), (4,)]
    assert rows(driver, "SELECT COUNT(*) FROM ACKWIRE_DONE") == [(0,)]


def test_K3_a_message_that_is_replaced_for_one_subscriber_stays_as_it_is_for_the_other() -> None:
    """They share a row until then."""
    driver, messages = MemoryDriver(), Messages()
    store = opened(driver)
    store.add_durable(durable(D))
    store.add_durable(durable(E))
    message = messages.make(T)
    store.append(message, [D, E])
    sync(store)
    again = messages.replacement(message)
    store.remove(D, message)
    store.append(again, [D])
    sync(store)
    for it in (store, opened(driver, "again")):
        loaded = [it.load(place, [message.sequence])[0] for place in (D, E)]
        assert [found and found.frame for found in loaded] == [again.frame, message.frame]
    store = opened(driver, "and again")
    store.remove(E, message)
    store.remove(D, again)
    sync(store)
    assert rows(driver, "SELECT COUNT(*) FROM ACTIVEMQ_MSGS") == rows(driver, "SELECT COUNT(*) FROM ACKWIRE_MSGS")
    assert [list(store.waiting(place)) for place in (D, E)] == [[], []]


def test_K3_what_is_consumed_before_the_transaction_is_never_written() -> None:
    driver, messages = MemoryDriver(), Messages()
    store = opened(driver)
    short, long = messages.make(Q), messages.make(Q)
    store.append(short, [Q])
    store.append(long, [Q])
    store.remove(Q, short)
    sync(store)
    assert rows(driver, "SELECT ID FROM ACTIVEMQ_MSGS") == [(long.sequence,)]


def test_K3_a_prepared_branch_stands_where_activemq_looks_for_it() -> None:
    driver, messages = MemoryDriver(), Messages()
    store = opened(driver)
    acked = messages.make(Q)
    store.append(acked, [Q])
    store.prepare(PreparedTransaction(xa_id(1), (messages.unstamped(Q),), ((Q, acked),)))
    sync(store)
    found = rows(driver, "SELECT ID, SUBSTR(XID, 1, 2) FROM ACTIVEMQ_MSGS ORDER BY ID")
    assert found == [(-1, "Kw"), (acked.sequence, "LQ")]
    store.decide(xa_id(1))
    sync(store)
    assert rows(driver, "SELECT ID, XID FROM ACTIVEMQ_MSGS") == [(acked.sequence, None)]


def test_K3_a_row_of_activemq_is_delivered_in_the_order_of_its_id() -> None:
    """Its messages have a sequence of their own."""
    driver, messages = MemoryDriver(), Messages()
    store = opened(driver)
    message = messages.make(Q, "from activemq")
    store.append(message, [Q])
    sync(store)
    session = driver.connect(is_writer=True)
    session.transact([Statement("UPDATE ACTIVEMQ_MSGS SET ID = 4711, PRIORITY = 0", [()])])
    store = opened(driver, "again")
    [waiting] = store.waiting(Q)
    assert (waiting.sequence, waiting.priority) == (4711, message.priority)
    [loaded] = store.load(Q, [4711])
    assert loaded is not None
    assert (loaded.sequence, store.last_sequence()) == (4711, 4711)


def test_K3_a_subscription_that_activemq_has_ended_is_gone() -> None:
    driver = MemoryDriver()
    store = opened(driver)
    store.add_durable(durable(D))
    store.add_durable(durable(E))
    store.close()
    driver.connect(is_writer=True).transact([Statement("DELETE FROM ACTIVEMQ_ACKS WHERE SUB_NAME = ?", [(D.name,)])])
    assert [it.key for it in opened(driver, "again").durables()] == [E]


@pytest.mark.parametrize("name", ["x" * 300, "ends in a space ", "nul \0"])
def test_K3_what_fits_no_column_is_kept_all_the_same(name: str) -> None:
    driver, messages = MemoryDriver(), Messages()
    store = opened(driver)
    where = parse_destination(f"queue://{name}")
    message = messages.make(f"queue://{name}")
    store.append(message, [where])
    store.close()
    assert [it.sequence for it in opened(driver, "again").waiting(where)] == [message.sequence]
    assert rows(driver, "SELECT COUNT(*) FROM ACTIVEMQ_MSGS") == [(0,)]


# ---- schemas ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", [SQLITE, POSTGRESQL, MARIADB], ids=lambda it: it.name)
def test_K3_the_schema_has_the_tables_of_activemq(dialect: Dialect) -> None:
    text = "\n".join(ddl(dialect, Tables("P_")))
    for name in ("ACTIVEMQ_MSGS", "ACTIVEMQ_ACKS", "ACTIVEMQ_LOCK", "ACKWIRE_STATE"):
        assert f"CREATE TABLE P_{name} (" in text
    for index in ("MSGS_MIDX", "MSGS_CIDX", "MSGS_EIDX", "MSGS_PIDX", "MSGS_XIDX", "MSGS_IIDX", "ACKS_XIDX"):
        assert f"CREATE INDEX P_ACTIVEMQ_{index} ON" in text
    assert "PRIMARY KEY (CONTAINER, CLIENT_ID, SUB_NAME, PRIORITY)" in text


def test_K3_a_foreign_table_is_refused_and_nothing_is_changed(tmp_path: Path) -> None:
    path = tmp_path / "foreign"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE ACTIVEMQ_MSGS (ID INTEGER)")
    connection.close()
    with pytest.raises(UnusableDatabase, match="table ACTIVEMQ_MSGS has no column CONTAINER"):
        opened(SqliteDriver(path))
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("ACTIVEMQ_MSGS",)]
    connection.close()


def test_K3_a_newer_schema_is_refused() -> None:
    driver = MemoryDriver()
    opened(driver).close()
    driver.connect(is_writer=True).transact([Statement("UPDATE ACKWIRE_STATE SET SCHEMA_VERSION = 99", [()])])
    with pytest.raises(UnusableDatabase, match="the schema has version 99"):
        opened(driver)


def test_K3_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("no database at all, but text of some length " * 100)
    with pytest.raises(UnusableDatabase, match="must be a SQLite database"):
        opened(SqliteDriver(path))


def test_K3_a_long_start_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    driver, messages = MemoryDriver(), Messages()
    store = opened(driver)
    for _ in range(7):
        store.append(messages.make(Q), [Q])
    store.close()
    monkeypatch.setattr(restore, "PORTION", 2)
    clock = ManualClock()
    surroundings = SqlSurroundings(JdbcRows, clock, writing=OnTheSpot(), reading=OnTheSpot())
    again = SqlStore.open(driver, surroundings, SqlOptions("again"))
    caplog.set_level(logging.INFO)
    for _ in again.waiting_portions(Q):
        clock.advance(2)  # seconds
    said = [it.getMessage() for it in caplog.records if "so far" in it.getMessage()]
    assert said == ["6 messages were read from the database so far"]


# ---- earlier schemas -------------------------------------------------------------------------------------------


def test_K3_an_earlier_schema_is_brought_up_to_date_one_step_after_the_other() -> None:
    """The broker has one version so far: the steps are made for this test."""

    def add(column: str) -> Callable[[Dialect, Tables], list[str]]:
        return lambda _dialect, names: [f"ALTER TABLE {names.state} ADD COLUMN {column} BIGINT"]

    driver = MemoryDriver()
    opened(driver).close()
    steps = {1: Step(2, "a test", add("FIRST_NEW")), 2: Step(3, "a test", add("SECOND_NEW"))}
    session = driver.connect(is_writer=True)
    state = "SELECT SCHEMA_VERSION, FIRST_NEW, SECOND_NEW FROM ACKWIRE_STATE"
    with pytest.raises(UnusableDatabase, match=r"2 versions older than this broker; sql\.create_tables is false"):
        prepare_schema(driver, session, Tables(), NoHold, create_tables=False, steps=steps)
    assert rows(driver, "SELECT SCHEMA_VERSION FROM ACKWIRE_STATE") == [(1,)]
    for _ in range(2):  # the second one has nothing to do
        prepare_schema(driver, session, Tables(), NoHold, create_tables=True, steps=steps)
        assert rows(driver, state) == [(3, None, None)]
    with pytest.raises(UnusableDatabase, match="the schema has version 3, and this is a broker for version 1"):
        opened(driver)


def test_K3_a_step_that_fails_leaves_the_version_before_it() -> None:
    driver = MemoryDriver()
    opened(driver).close()
    session = driver.connect(is_writer=True)
    good = Step(2, "a test", lambda _, names: [f"ALTER TABLE {names.state} ADD COLUMN NEW BIGINT"])
    bad = Step(3, "a test", lambda _, names: [f"ALTER TABLE {names.state} ADD COLUMN LOST BIGINT", "NO SQL"])
    with pytest.raises(sqlite3.OperationalError):
        prepare_schema(driver, session, Tables(), NoHold, create_tables=True, steps={1: good, 2: bad})
    assert rows(driver, "SELECT SCHEMA_VERSION, NEW FROM ACKWIRE_STATE") == [(2, None)]
    assert "LOST" not in {column for _, column in rows(driver, SQLITE.columns)}


def test_K3_there_is_a_step_from_every_earlier_version() -> None:
    assert {before: step.version for before, step in STEPS.items()} == {it: it + 1 for it in range(1, SCHEMA_VERSION)}


# ---- reading ---------------------------------------------------------------------------------------------------


def fetching_store() -> tuple[SqlStore, ControlledBackground, Message]:
    """A store with one message that is committed, whose reads are under control."""
    reading, messages = ControlledBackground(Random(0)), Messages()
    surroundings = SqlSurroundings(JdbcRows, ManualClock(), writing=OnTheSpot(), reading=reading)
    store = SqlStore.open(MemoryDriver(), surroundings, SqlOptions("run"))
    message = messages.make(Q)
    store.append(message, [Q])
    sync(store)
    return store, reading, message


@pure_only
def test_K7_a_fetch_whose_end_fails_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """For want of memory, for example: that says nothing about the message, which can be fetched again."""
    store, reading, message = fetching_store()
    results: list[object] = []
    store.fetch(Q, [message.sequence], results.append, lambda: results.append("failed"))

    def end(_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(store._reads, "end", end)
        reading.run_all()
    assert results == ["failed"]
    store.fetch(Q, [message.sequence], lambda it: results.extend(m and m.sequence for m in it))
    reading.run_all()
    assert results == ["failed", message.sequence]
    assert store.failure is None


@pure_only
def test_K7_a_fetch_that_the_database_refuses_fails_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then neither callback is called."""
    store, reading, message = fetching_store()
    results: list[object] = []
    store.fetch(Q, [message.sequence], results.append, lambda: results.append("failed"))

    def refuse(*_: object) -> None:
        raise sqlite3.OperationalError("no such table")

    monkeypatch.setattr(store._reads, "run", refuse)
    reading.run_all()
    assert results == []
    assert "no such table" in str(store.failure)


# ---- a database that goes away ---------------------------------------------------------------------------------


class FlakyDriver(MemoryDriver):
    """A driver whose sessions do what *script* says before and after each commit."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[], None] = lambda: None
        self.after: Callable[[], None] = lambda: None
        self.commits = 0

    def connect(self, *, is_writer: bool) -> Session:
        return FlakySession(super().connect(is_writer=is_writer), self)

    def diagnose(self, error: Exception) -> Diagnosis:
        if isinstance(error, ConnectionError):
            return Diagnosis(Trouble.LOST, str(error))
        return super().diagnose(error)


class FlakySession:
    def __init__(self, session: Session, driver: FlakyDriver) -> None:
        self._session = session
        self._driver = driver

    def select(self, sql: str, values: Row = ()) -> list[Row]:
        return self._session.select(sql, values)

    def transact(self, statements: Sequence[Statement]) -> None:
        self._driver.before()
        self._session.transact(statements)
        self._driver.commits += 1
        self._driver.after()

    def rollback(self) -> None:
        self._session.rollback()

    def close(self) -> None:
        self._session.close()


def lose_once(driver: FlakyDriver) -> Callable[[], None]:
    def lose() -> None:
        driver.before = driver.after = lambda: None
        raise ConnectionError("the connection is cut")

    return lose


@pytest.mark.parametrize("when", ["before", "after"])
def test_K7_a_transaction_is_committed_once_wherever_the_connection_is_lost(when: str) -> None:
    driver, messages = FlakyDriver(), Messages()
    store = opened(driver)
    commits = driver.commits
    setattr(driver, when, lose_once(driver))
    message = messages.make(Q)
    store.append(message, [Q])
    sync(store)
    assert driver.commits == commits + 1
    assert rows(driver, "SELECT ID FROM ACTIVEMQ_MSGS") == [(message.sequence,)]
    assert store.full() is None


def test_K7_a_transaction_that_had_committed_is_not_repeated_whatever_the_error_says() -> None:
    """A deadlock, reported for a transaction that is there: its number is asked for before each repetition."""
    driver, messages = FlakyDriver(), Messages()
    store = opened(driver)
    commits = driver.commits

    def deny() -> None:
        driver.after = lambda: None
        error = sqlite3.OperationalError("a deadlock")
        error.sqlite_errorcode = sqlite3.SQLITE_BUSY
        raise error

    driver.after = deny
    store.append(messages.make(Q), [Q])
    sync(store)
    assert driver.commits == commits + 1


def test_K7_a_refused_transaction_fails_the_store_with_the_reason() -> None:
    driver, messages = FlakyDriver(), Messages()
    store = opened(driver)

    def refuse() -> None:
        raise sqlite3.OperationalError("no such table: ACTIVEMQ_MSGS")

    driver.before = refuse
    store.append(messages.make(Q), [Q])
    failures: list[StoreFailed] = []
    store.when_durable(lambda: pytest.fail("answered"), failures.append)
    assert "has refused a transaction: no such table: ACTIVEMQ_MSGS" in str(failures[0])


def test_K7_a_database_that_stays_away_fails_the_store() -> None:
    driver, messages = FlakyDriver(), Messages()
    store = opened(driver, reconnect_seconds_max=0)

    def lose() -> None:
        raise ConnectionError("the connection is cut")

    driver.before = lose
    store.append(messages.make(Q), [Q])
    failures: list[StoreFailed] = []
    store.when_durable(lambda: pytest.fail("answered"), failures.append)
    assert "sql.reconnect_seconds_max is 0): the connection is cut" in str(failures[0])
    with pytest.raises(StoreFailed):
        store.append(messages.make(Q), [Q])


def test_K7_a_run_ends_when_another_broker_has_begun_one() -> None:
    driver, messages = MemoryDriver(), Messages()
    first, message = opened(driver, "first"), messages.make(Q)
    opened(driver, "second")
    first.append(message, [Q])
    failures: list[StoreFailed] = []
    first.when_durable(lambda: pytest.fail("answered"), failures.append)
    assert "another broker has taken over" in str(failures[0])
    assert rows(driver, "SELECT COUNT(*) FROM ACTIVEMQ_MSGS") == [(0,)]


def test_K7_producers_are_told_why_they_wait() -> None:
    """The writer is in a thread of its own: the loop asks while it tries again."""
    driver, messages = FlakyDriver(), Messages()
    store = opened(driver)
    has_asked, said, rooms = threading.Event(), list[str | None](), list[str]()
    store.on_room(lambda: rooms.append("room"))

    def lose() -> None:
        said.append(store.full())
        if len(said) == 3:
            driver.before = lambda: None
            has_asked.set()
        else:
            raise ConnectionError("the connection is cut")

    driver.before = lose
    store.append(messages.make(Q), [Q])
    sync(store)
    assert has_asked.is_set()
    assert said[0] is None
    assert "takes nothing at the moment: the connection is cut" in str(said[1])
    assert (store.full(), rooms) == (None, ["room"])

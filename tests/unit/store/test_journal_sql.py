"""A journal in front of a database: what reaches the database and when, starts, and whose journal it is (K4)."""

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from ackwire.errors import StoreFailed
from ackwire.jms.message import Message
from ackwire.store.background import OnTheSpot
from ackwire.store.contract import PreparedTransaction, Store
from ackwire.store.files import OsFiles
from ackwire.store.journal.options import JournalOptions
from ackwire.store.journal_sql.journal_sql_store import JournalSqlStore
from ackwire.store.journal_sql.journaled_commit import CheckpointOptions
from ackwire.store.journal_sql.journaled_message import JournalFrame
from ackwire.store.sql.driver import Row, Session, Statement
from ackwire.store.sql.errors import Diagnosis, Trouble, UnusableDatabase
from ackwire.store.sql.journal_mark import JournalMark, unpack_mark
from ackwire.store.sql.sql_store import SqlOptions, SqlStore, SqlSurroundings
from ackwire.util.clock import ManualClock
from ackwire.wire.openwire.jdbc_rows import JdbcRows
from tests.helpers.journal import SMALL
from tests.helpers.journal_sql import JournalSqlFactory, open_journal_sql
from tests.helpers.simulated_disk import SimulatedDisk, Stopped
from tests.helpers.sql_factories import MemoryDriver
from tests.helpers.stored import D, E, Messages, Q, R, T, durable, kept, xa_id
from tests.helpers.stores import Crash

SELDOM = CheckpointOptions(seconds=3600, journal_bytes=1 << 30)
"""Checkpoints only when a test asks for one."""
DATA = Path("/data")


class GatedDriver(MemoryDriver):
    """A database in memory that is away while `trouble` is set. Triggers count every row that was ever inserted."""

    def __init__(self) -> None:
        super().__init__()
        self.trouble: Exception | None = None
        self.transactions: list[list[Statement]] = []

    def connect(self, *, is_writer: bool) -> Session:
        return _GatedSession(super().connect(is_writer=is_writer), self)

    def diagnose(self, error: Exception) -> Diagnosis:
        return Diagnosis(Trouble.LOST, str(error)) if isinstance(error, ConnectionError) else super().diagnose(error)

    def rows(self, query: str) -> list[Row]:
        return super().connect(is_writer=False).select(query)

    def run(self, sql: str) -> None:
        super().connect(is_writer=False).transact([Statement(sql, [()])])

    def count_inserts(self) -> None:
        self.run("CREATE TABLE INSERTED (ID BIGINT)")
        self.run("CREATE TRIGGER COUNTED AFTER INSERT ON ACTIVEMQ_MSGS BEGIN INSERT INTO INSERTED VALUES (NEW.ID); END")

    @property
    def inserted(self) -> int:
        return int(self.rows("SELECT COUNT(*) FROM INSERTED")[0][0])

    @property
    def messages(self) -> list[int]:
        return [it for (it,) in self.rows("SELECT ID FROM ACTIVEMQ_MSGS ORDER BY ID")]

    @property
    def mark(self) -> JournalMark:
        [(data,)] = self.rows("SELECT DATA FROM ACKWIRE_RECORDS WHERE RECORD_ID = 0")
        return unpack_mark(data, "the database")


class _GatedSession:
    def __init__(self, session: Session, driver: GatedDriver) -> None:
        self._session = session
        self._driver = driver

    def _pass(self) -> None:
        if self._driver.trouble is not None:
            raise self._driver.trouble

    def select(self, sql: str, values: Row = ()) -> list[Row]:
        self._pass()
        return self._session.select(sql, values)

    def transact(self, statements: Sequence[Statement]) -> None:
        self._pass()
        self._session.transact(statements)
        self._driver.transactions.append(list(statements))

    def rollback(self) -> None:
        self._session.rollback()

    def close(self) -> None:
        self._session.close()


class Rig:
    """A store on a simulated disk and a database in memory, through its lives. Everything is done on the spot."""

    def __init__(self, checkpoints: CheckpointOptions = SELDOM, options: JournalOptions = SMALL) -> None:
        self.disk = SimulatedDisk()
        self.driver = GatedDriver()
        self.clock = ManualClock()
        self.checkpoints = checkpoints
        self.options = options
        self.messages = Messages()
        self.ids = iter(range(1, 100))
        self.failures: list[StoreFailed] = []

    def open(self, data: Path = DATA) -> JournalSqlStore:
        self.clock = ManualClock()
        return open_journal_sql(
            self.disk,
            data,
            self.driver,
            self.clock,
            options=self.options,
            checkpoints=self.checkpoints,
            new_id=lambda: bytes([next(self.ids)]) * 16,
            on_failed=self.failures.append,
        )

    def crash(self) -> JournalSqlStore:
        self.disk.power_cut()
        return self.open()

    def send(self, store: Store, count: int, text: str = "x") -> list[Message]:
        made = [self.messages.make(Q, text) for _ in range(count)]
        for message in made:
            store.append(message, [Q])
        self.promise(store)
        return made

    def promise(self, store: Store) -> None:
        """Have everything that was recorded promised."""
        told: list[str] = []
        store.when_durable(lambda: told.append("durable"))
        self.clock.advance(0)
        assert told == ["durable"]

    def segments(self, data: Path = DATA) -> list[str]:
        return sorted(it for it in self.disk.names(data / "journal") if it.endswith(".log"))


@pytest.fixture
def rig() -> Rig:
    return Rig()


def plain(driver: GatedDriver) -> SqlStore:
    """The same database without its journal."""
    surroundings = SqlSurroundings(JdbcRows, ManualClock(), writing=OnTheSpot(), reading=OnTheSpot())
    return SqlStore.open(driver, surroundings, SqlOptions("without a journal"))


def waiting(store: Store) -> list[int]:
    return [it.sequence for it in store.waiting(Q)]


# ---- what reaches the database ---------------------------------------------------------------------------------


def test_K4_of_what_is_consumed_before_the_checkpoint_nothing_reaches_the_database(rig: Rig) -> None:
    """1,000 messages, of which 90 % are consumed: 100 rows are inserted, all in one transaction."""
    store = rig.open()
    rig.driver.count_inserts()
    made = rig.send(store, 1000)
    for message in made:
        if message.sequence % 10:
            store.remove(Q, message)
    rig.promise(store)
    assert rig.driver.inserted == 0, "the journal answers"
    before = len(rig.driver.transactions)
    store.checkpoint()
    assert rig.driver.inserted == 100
    assert rig.driver.messages == [it.sequence for it in made if not it.sequence % 10]
    assert len(rig.driver.transactions) == before + 1
    for message in made:
        store.remove(Q, message)
    store.close()
    assert (rig.driver.inserted, rig.driver.messages) == (100, [])


def test_K4_a_checkpoint_comes_after_a_time_and_after_so_many_bytes() -> None:
    rig = Rig(CheckpointOptions(seconds=5, journal_bytes=20_000))
    store = rig.open()
    rig.send(store, 1)
    rig.clock.advance(3)
    assert rig.driver.messages == []
    rig.clock.advance(3)
    assert rig.driver.messages == [1]
    rig.send(store, 30, "x" * 1000)
    assert len(rig.driver.messages) == 1
    rig.clock.advance(1)
    assert len(rig.driver.messages) == 31


def test_K4_the_mark_is_in_the_same_transaction_and_segments_before_it_go(rig: Rig) -> None:
    store = rig.open()
    before = rig.driver.mark
    rig.send(store, 30, "x" * 1000)
    segments = rig.segments()
    assert len(segments) > 3
    store.checkpoint()
    [*_, last] = rig.driver.transactions
    tables = [it.sql.split()[2] for it in last if it.sql.startswith("INSERT")]
    assert {"ACTIVEMQ_MSGS", "ACKWIRE_RECORDS"} <= set(tables)
    mark = rig.driver.mark
    assert (mark.journal_id, mark.epoch, mark.is_drained) == (before.journal_id, 1, False)
    assert (mark.segment, mark.number) > (before.segment, before.number)
    assert rig.segments() == [it for it in segments if int(it.removesuffix(".log")) >= mark.segment]
    assert len(rig.segments()) < len(segments)


def test_K4_the_bytes_of_messages_that_wait_are_not_in_memory(rig: Rig) -> None:
    store = rig.open()
    made = rig.send(store, 20, "x" * 1000)
    frames = [row.frame for row in store._commit.filling.rows.values()]
    assert [isinstance(it, JournalFrame) and it.data is None for it in frames] == [True] * 20
    loaded = store.load(Q, [it.sequence for it in made])
    assert [it and it.frame for it in loaded] == [it.frame for it in made]


# ---- a database that is away -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "trouble", [ConnectionError("the connection is cut"), sqlite3.OperationalError("disk I/O error")], ids=str
)
def test_K4_a_batch_that_fails_is_kept_and_repeated(rig: Rig, trouble: Exception) -> None:
    store = rig.open()
    first = rig.send(store, 10)
    rig.driver.trouble = trouble
    store.checkpoint()
    assert rig.driver.rows("SELECT COUNT(*) FROM ACTIVEMQ_MSGS") == [(0,)]
    second = rig.send(store, 10)  # answered meanwhile
    store.remove(Q, first[0])
    assert (store.failure, store.full()) == (None, None)
    rig.clock.advance(3)  # repeated, in vain
    rig.driver.trouble = None
    rig.clock.advance(1)
    assert rig.driver.messages == [it.sequence for it in first], "the batch as it was"
    store.checkpoint()
    assert rig.driver.messages == [it.sequence for it in (*first[1:], *second)]


def test_K4_what_waits_for_a_database_that_is_away_outlives_a_crash(rig: Rig) -> None:
    store = rig.open()
    first = rig.send(store, 10)
    rig.driver.trouble = ConnectionError("the connection is cut")
    store.checkpoint()
    second = rig.send(store, 10)
    store.remove(Q, first[0])
    rig.promise(store)
    rig.driver.trouble = None
    store = rig.crash()
    assert waiting(store) == [it.sequence for it in (*first[1:], *second)]


def test_K4_producers_wait_when_the_journal_is_full_and_are_told_both_reasons() -> None:
    rig = Rig(
        CheckpointOptions(seconds=1, journal_bytes=20_000),
        JournalOptions(segment_bytes=8192, bytes_max=50_000, free_bytes_min=0),
    )
    store = rig.open()
    rooms: list[str] = []
    store.on_room(lambda: rooms.append("room"))
    rig.driver.trouble = ConnectionError("the connection is cut")
    sent = 0
    while store.full() is None:
        rig.send(store, 5, "x" * 1000)
        sent += 5
        rig.clock.advance(1)
        assert sent < 100
    assert sent > 20
    assert "limits.store_bytes_max" in str(store.full())
    assert "the connection is cut" in str(store.full())
    assert (store.failure, rooms) == (None, [])
    rig.driver.trouble = None
    rig.clock.advance(3)
    assert (store.full(), bool(rooms)) == (None, True)
    assert len(rig.driver.messages) == sent


def test_K4_a_message_that_only_the_database_has_is_read_when_that_is_back(rig: Rig) -> None:
    store = rig.open()
    [old] = rig.send(store, 1)
    store.checkpoint()
    [new] = rig.send(store, 1)
    rig.driver.trouble = ConnectionError("the connection is cut")
    given: list[list[int]] = []

    def fetch(message: Message) -> None:
        store.fetch(Q, [message.sequence], lambda them: given.append([it.sequence for it in them if it]))

    fetch(old)
    fetch(new)
    assert given == [[new.sequence]], "the journal has it"
    rig.clock.advance(2)
    rig.driver.trouble = None
    rig.clock.advance(2)
    assert given == [[new.sequence], [old.sequence]]
    assert store.failure is None


def test_K4_a_segment_stays_while_a_fetch_reads_from_it() -> None:
    factory = JournalSqlFactory(MemoryDriver())
    store, messages = factory.open(), Messages()
    made = [messages.make(Q, "x" * 40_000) for _ in range(10)]
    for message in made:
        store.append(message, [Q])
    factory.settle()
    given: list[list[bytes]] = []
    store.fetch(Q, [it.sequence for it in made], lambda them: given.append([it.frame for it in them if it]))
    assert not given, "it is too much to read on the loop"
    store.checkpoint()
    factory.writing.run_all()
    factory.database.run_all()
    factory.housekeeping.run_all()
    factory.settle()
    assert given == [[it.frame for it in made]]
    factory.wait(2)
    factory.close()


def test_K4_K7_a_run_ends_when_another_broker_has_taken_the_database(rig: Rig) -> None:
    store = rig.open()
    rig.send(store, 1)
    rig.driver.run("UPDATE ACKWIRE_STATE SET RUN_ID = 'another'")
    store.checkpoint()
    assert "another broker has taken over" in str(store.failure)
    assert [str(it) for it in rig.failures] == [str(store.failure)]
    assert rig.driver.messages == []


# ---- starts ----------------------------------------------------------------------------------------------------


def _something_of_everything(store: Store, messages: Messages) -> None:
    store.add_durable(durable(D))
    store.add_durable(durable(E, "n > 1"))
    made = [messages.make(Q, f"{it}") for it in range(6)]
    for message in made:
        store.append(message, [Q])
    published = [messages.make(T) for _ in range(4)]
    for number, message in enumerate(published):
        store.append(message, [D, E] if number % 2 else [D])
    store.remove(Q, made[0])
    store.remove(D, published[1])
    store.append(messages.replacement(made[1]), [Q])
    store.add_job(messages.job("one"))
    store.add_job(messages.job("two"))
    store.add_job(messages.job("two", due_ms=9000))
    store.remove_job("one")
    store.mark_dispatched(Q, made[2].sequence)
    store.prepare(PreparedTransaction(xa_id(1), (messages.unstamped(R),), ((Q, made[3]),), "user"))
    store.prepare(PreparedTransaction(xa_id(2), (messages.unstamped(R),), ()))
    with store.atomically():
        store.decide(xa_id(2))
        store.append(messages.make(R), [R])
        store.committed(xa_id(2))
    store.purge(R, messages.make(R).sequence - 1, ())
    store.append(messages.make(R), [R])


def _lived(factory: JournalSqlFactory, checkpoint_after: str) -> Store:
    """A store that has recorded something of everything, and promised it; some of it is in the database."""
    store, messages = factory.open(), Messages()
    if checkpoint_after == "half":
        _something_of_everything(store, messages)
        store.checkpoint()
        factory.settle()
        store.remove_place(R)
        store.remove_place(D)
        store.decide(xa_id(1))
    _something_of_everything(store, messages)
    if checkpoint_after == "everything":
        store.checkpoint()
    told: list[str] = []
    store.when_durable(lambda: told.append("durable"))
    factory.settle()
    assert told == ["durable"]
    return store


@pytest.mark.parametrize("crash", list(Crash))
@pytest.mark.parametrize("checkpoint_after", ["nothing", "half", "everything"])
def test_K4_a_start_knows_everything_from_the_database_and_the_journal(crash: Crash, checkpoint_after: str) -> None:
    expected = kept(_lived(JournalSqlFactory(MemoryDriver()), checkpoint_after))  # another one: it makes a checkpoint
    factory = JournalSqlFactory(MemoryDriver())
    _lived(factory, checkpoint_after)
    again = kept(factory.crash(crash))
    assert again.dispatched_up_to[Q]
    assert replace(again, dispatched_up_to={}) == replace(expected, dispatched_up_to={})


def test_K4_a_start_gives_no_number_to_a_queue_that_the_journal_has_given_to_another(rig: Rig) -> None:
    """The database has a send of a prepared transaction to a queue that does not exist yet."""
    store = rig.open()
    store.prepare(PreparedTransaction(xa_id(1), (rig.messages.unstamped(R),), ()))
    store.checkpoint()
    made = rig.send(store, 2)
    store = rig.crash()
    assert waiting(store) == [it.sequence for it in made]
    assert list(store.waiting(R)) == []


def test_K4_each_record_is_replayed_at_most_once(rig: Rig) -> None:
    """A start after a crash ends with a checkpoint, so the next one has nothing to replay."""
    store = rig.open()
    made = rig.send(store, 10)
    store.checkpoint()
    rig.send(store, 5)
    store.remove(Q, made[0])
    rig.promise(store)
    assert rig.crash().report.replayed == 6, "five messages and a removal"
    store = rig.crash()
    assert store.report.replayed == 0
    assert len(waiting(store)) == 14


def test_K4_a_removal_is_durable_when_the_journal_has_it_although_the_message_is_in_the_database(rig: Rig) -> None:
    store = rig.open()
    made = rig.send(store, 3)
    store.checkpoint()
    store.append(rig.messages.replacement(made[1]), [Q])  # in the buffer, and in the database
    for message in made[:2]:
        store.remove(Q, message)
    rig.promise(store)
    assert waiting(rig.crash()) == [made[2].sequence]


def test_K4_a_clean_stop_moves_everything_and_the_database_can_be_used_alone(rig: Rig) -> None:
    store = rig.open()
    made = rig.send(store, 10)
    store.close()
    assert rig.driver.mark.is_drained
    alone = plain(rig.driver)
    assert waiting(alone) == [it.sequence for it in made]
    alone.remove(Q, made[0])
    alone.close()
    store = rig.open()
    assert waiting(store) == [it.sequence for it in made[1:]]
    assert not rig.driver.mark.is_drained


def test_K4_a_stop_while_the_database_is_away_leaves_the_journal_to_the_next_start(rig: Rig) -> None:
    store = rig.open()
    made = rig.send(store, 10)
    rig.driver.trouble = ConnectionError("the connection is cut")
    store.close()
    rig.driver.trouble = None
    assert rig.driver.messages == []
    assert waiting(rig.open()) == [it.sequence for it in made]


# ---- whose journal it is ---------------------------------------------------------------------------------------


def copied(disk: SimulatedDisk, source: Path, target: Path) -> None:
    """Copy a journal, as a backup does."""
    disk.make_directory(target / "journal")
    for name in disk.names(source / "journal"):
        disk.replace(target / "journal" / name, disk.read(source / "journal" / name))


def test_K4_a_database_whose_journal_has_more_is_refused_without_it(rig: Rig) -> None:
    store = rig.open()
    rig.send(store, 1)
    rig.disk.power_cut()
    with pytest.raises(UnusableDatabase, match=r"belongs to the journal in /data, .* start that broker with \"journal"):
        plain(rig.driver)
    with pytest.raises(UnusableDatabase, match=r"belongs to the journal in /data, .* start with the data"):
        rig.open(Path("/other"))
    assert waiting(rig.open()) == [1]


def test_K4_a_journal_is_refused_with_another_database(rig: Rig) -> None:
    store = rig.open()
    rig.send(store, 1)
    rig.disk.power_cut()
    own, rig.driver = rig.driver, GatedDriver()
    with pytest.raises(UnusableDatabase, match="the journal in /data belongs to another database"):
        rig.open()
    rig.driver = own
    assert waiting(rig.open()) == [1]


def test_K4_a_journal_and_a_database_of_different_times_are_refused(rig: Rig) -> None:
    store = rig.open()
    rig.send(store, 1)
    store.close()
    copied(rig.disk, DATA, Path("/backup"))
    store = rig.open()
    rig.send(store, 30, "x" * 1000)
    store.close()
    with pytest.raises(UnusableDatabase, match="do not fit together"):
        rig.open(Path("/backup"))
    assert len(waiting(rig.open())) == 31


def test_K4_a_database_that_another_broker_has_written_to_is_refused(rig: Rig) -> None:
    store = rig.open()
    [message] = rig.send(store, 1)
    store.checkpoint()
    rig.send(store, 1)
    rig.disk.power_cut()
    assert message.sequence == 1
    rig.driver.run("UPDATE ACTIVEMQ_MSGS SET ID = 4711 WHERE ID = 1")  # as ActiveMQ numbers its own
    with pytest.raises(UnusableDatabase, match="was written to by another broker since the journal in /data"):
        rig.open()
    rig.driver.run("UPDATE ACTIVEMQ_MSGS SET ID = 1 WHERE ID = 4711")
    rig.driver.run("UPDATE ACKWIRE_STATE SET RUN_ID = 'another'")
    with pytest.raises(UnusableDatabase, match="was written to by another broker since the journal in /data"):
        rig.open()


def test_K4_a_first_start_that_was_cut_off_is_begun_again(rig: Rig) -> None:
    rig.driver.trouble = ConnectionError("the connection is cut")
    with pytest.raises(UnusableDatabase):
        rig.open()
    rig.driver.trouble = None
    disk, calls = rig.disk, len(rig.disk.calls)
    rig.open()
    needed = len(disk.calls) - calls
    for number in range(1, needed + 1):
        again = Rig()
        again.disk.stop_at(number)
        with suppress(Stopped):
            again.open()
        again.disk.power_cut()
        again.disk.repair()
        store = again.open()
        again.send(store, 1)


def test_K4_what_fits_on_real_files_is_refused_while_another_process_has_it(tmp_path: Path) -> None:
    driver = GatedDriver()
    store = open_journal_sql(OsFiles(), tmp_path, driver, ManualClock())
    with pytest.raises(Exception, match="is in use by a test"):
        open_journal_sql(OsFiles(), tmp_path, driver, ManualClock())
    store.close()
    open_journal_sql(OsFiles(), tmp_path, driver, ManualClock()).close()

"""Databases for tools: opened for reading, or to be written to by an import or a copy (SEMANTICS K2, K3).

A tool holds the lock that excludes brokers as long as it works. What it writes is written on the spot, without threads.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, final

from ackwire.errors import StoreFailed
from ackwire.jms.message import Message
from ackwire.store.background import OnTheSpot
from ackwire.store.catalog import CRASH_KEY
from ackwire.store.contract import Place
from ackwire.store.inspect import Progress, no_progress
from ackwire.store.numbered import numbered
from ackwire.store.portable_export import Export
from ackwire.store.portable_rows import END_KIND, HEADER_KIND
from ackwire.store.sql.driver import Driver, Session, Statement
from ackwire.store.sql.errors import MissingTables, UnfinishedCopy, UnusableDatabase
from ackwire.store.sql.inspection import SqlInspection
from ackwire.store.sql.locking import wait_for_lock
from ackwire.store.sql.row_form import RowForm
from ackwire.store.sql.schema import SCHEMA_VERSION, UNFINISHED_COPY, Tables, check_schema, tables_of
from ackwire.store.sql.sql_store import SqlOptions, SqlStore, SqlSurroundings
from ackwire.store.sql.statements import Statements
from ackwire.util.clock import ManualClock, SystemClock

_OF_UNUSED: Final = frozenset((HEADER_KIND, "crash", END_KIND))
"""Kinds of rows that a store has which was never used."""


@final
@dataclass(frozen=True, slots=True)
class OfflineDatabase:
    """A database that a tool uses in the place of a broker."""

    driver: Driver
    make_form: Callable[[], RowForm]
    now_ms: Callable[[], int]
    run_id: str
    """Of the tool, if it writes."""
    table_prefix: str = ""
    create_tables: bool = True
    progress: Progress = no_progress

    @property
    def names(self) -> Tables:
        return Tables(self.table_prefix)

    @contextmanager
    def _session(self, *, is_writer: bool) -> Iterator[Session]:
        """A session; errors of the driver become `UnusableDatabase`."""
        session: Session | None = None
        try:
            session = wait_for_lock(lambda: self.driver.connect(is_writer=is_writer), SystemClock())
            yield session
        except Exception as error:
            diagnosis = self.driver.diagnose(error)
            if isinstance(error, UnusableDatabase | StoreFailed) or diagnosis.is_unforeseen:
                raise
            raise UnusableDatabase(f"{self.driver.description} cannot be used: {diagnosis.sentence}") from error
        finally:
            if session is not None:
                with suppress(Exception):
                    session.close()

    @contextmanager
    def inspect(self, *, is_copy_checked: bool = False) -> Iterator[SqlInspection]:
        """The database as it is; it does not change. Raises `UnusableDatabase`."""
        with self._session(is_writer=True) as session:
            yield SqlInspection(
                self.driver,
                session,
                self.names,
                self.make_form(),
                self.now_ms,
                self.progress,
                is_copy_checked=is_copy_checked,
            )

    @contextmanager
    def opened(self) -> Iterator["SqlTarget"]:
        """The database, opened as at a start; closed in good order at the end. Raises `UnusableDatabase`."""
        clock = ManualClock(self.now_ms())
        surroundings = SqlSurroundings(self.make_form, clock, writing=OnTheSpot(), reading=OnTheSpot())
        options = SqlOptions(self.run_id, self.table_prefix, self.create_tables, reconnect_seconds_max=0)
        store = SqlStore.open(self.driver, surroundings, options)
        try:
            with self._session(is_writer=False) as session:
                yield SqlTarget(store, session, Statements(self.driver.dialect, self.names), self.make_form())
        finally:
            store.close()

    def is_used(self) -> bool:
        """Whether it holds, or has held, anything but an unfinished copy. Changes nothing. Raises
        `UnusableDatabase`."""
        try:
            with self.inspect() as inspection:
                kinds = (row["kind"] for row in Export(inspection, lambda _: {}).rows())
                return inspection.last_sequence > 0 or any(it not in _OF_UNUSED for it in kinds)
        except (UnfinishedCopy, MissingTables):
            return False

    def release(self) -> None:
        """Let brokers use a copy that is complete."""
        with self._session(is_writer=True) as session:
            statement = Statements(self.driver.dialect, self.names).set_version
            session.transact([Statement(statement, [(SCHEMA_VERSION,)])])

    def clear_unfinished(self) -> bool:
        """Remove what an interrupted copy has left; whether there was one. What is not of a copy stays."""
        with self._session(is_writer=True) as session:
            try:
                check_schema(self.driver, session, self.names, create_tables=self.create_tables)
            except UnfinishedCopy:
                self._clear(session)
                return True
        return False

    def _clear(self, session: Session) -> None:
        """Empty all tables, in one transaction; of ActiveMQ's lock the row stays."""
        names = self.names
        tables = [it for it in tables_of(self.driver.dialect, names) if it.name != names.lock]
        made = [Statement(f"DELETE FROM {it.name}", [()]) for it in tables]  # noqa: S608 - names of our tables
        anew = [Statement(text, [()]) for it in tables if it.name == names.state for text in it.then]
        session.transact([*made, *anew])


@final
class SqlTarget:
    """A database that a tool writes to. Implements `portable.Target`."""

    def __init__(self, store: SqlStore, session: Session, statements: Statements, form: RowForm) -> None:
        self.store = store
        self._session = session
        self._statements = statements
        self._form = form

    # ---- for imports -----------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """See `Target`."""
        failures: list[StoreFailed] = []
        self.store.when_durable(lambda: None, failures.append)
        if failures:
            raise failures[0]

    def full(self) -> str | None:
        """See `Target`."""
        return self.store.full()

    def append_beside(self, message: Message, places: Sequence[Place]) -> None:
        """See `Target`."""
        self.store.append_beside(message, places)

    def acknowledged(self, place: Place, sequence: int) -> Message:
        """See `Target`: the row of the message gets the transaction's id, so the store asks for its destination."""
        [message] = self.store.load(place, [sequence])
        return message or numbered(sequence)

    def remember_counts(self, counts: Mapping[bytes, int]) -> None:
        """See `Target`."""
        for producer, count in counts.items():
            if producer != CRASH_KEY:
                self.store.remember_count(producer, count)
        if CRASH_KEY in counts:
            self.settle()
            self._session.transact([Statement(self._statements.set_crash, [(counts[CRASH_KEY],)])])

    def remember_commit(self, transaction: bytes) -> None:
        """See `Target`."""
        self.store.committed(self._form.transaction_from_bytes(transaction))

    def skip_to(self, sequence: int) -> None:
        """See `Target`."""
        self.store.skip_to(sequence)

    # ---- for copies ------------------------------------------------------------------------------------------------

    def withhold(self) -> None:
        """Have every broker refuse this database until `OfflineDatabase.release`."""
        self._session.transact([Statement(self._statements.set_version, [(UNFINISHED_COPY,)])])

"""The tables: ActiveMQ's three, and those of Ackwire. Created in one step, versioned, never changed unasked.

ActiveMQ's tables have its columns, keys and indexes (its class Statements, after the last of its ALTER statements).
`docs/adr/0017-messages-in-activemq-s-own-tables.md` says what is in them.
"""

# ruff: noqa: S608 - all parts of a statement are constants and table names

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from ackwire.store.sql.dialect import Dialect
from ackwire.store.sql.driver import Driver, Hold, Session, Statement
from ackwire.store.sql.errors import MissingTables, Trouble, UnfinishedCopy, UnusableDatabase
from ackwire.store.sql.locking import wait_for_lock
from ackwire.util.clock import SystemClock
from ackwire.util.plurals import counted

_log = logging.getLogger(__name__)

SCHEMA_VERSION: Final = 1
"""Of the tables of Ackwire; one that is higher was made by a later version."""

UNFINISHED_COPY: Final = 1_000_000_000
"""The version while a store is copied here. Every broker refuses it: later than any version that there will be."""

NAME_LENGTH_MAX: Final = 250
"""Characters of a name in a column: ActiveMQ's figure."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The names of all tables, with their prefix."""

    prefix: str = ""

    @property
    def msgs(self) -> str:
        return f"{self.prefix}ACTIVEMQ_MSGS"

    @property
    def acks(self) -> str:
        return f"{self.prefix}ACTIVEMQ_ACKS"

    @property
    def lock(self) -> str:
        return f"{self.prefix}ACTIVEMQ_LOCK"

    @property
    def state(self) -> str:
        return f"{self.prefix}ACKWIRE_STATE"

    @property
    def places(self) -> str:
        return f"{self.prefix}ACKWIRE_PLACES"

    @property
    def extra(self) -> str:
        return f"{self.prefix}ACKWIRE_MSGS"

    @property
    def done(self) -> str:
        return f"{self.prefix}ACKWIRE_DONE"

    @property
    def records(self) -> str:
        return f"{self.prefix}ACKWIRE_RECORDS"

    @property
    def counts(self) -> str:
        return f"{self.prefix}ACKWIRE_COUNTS"

    @property
    def lease(self) -> str:
        """Of brokers that share the database: made by the first of them."""
        return f"{self.prefix}ACKWIRE_LEASE"

    @property
    def commits(self) -> str:
        return f"{self.prefix}ACKWIRE_COMMITS"


@dataclass(frozen=True, slots=True)
class Table:
    """One table: its columns with their types, its key, and what follows its creation."""

    name: str
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    then: tuple[str, ...] = ()

    def ddl(self, dialect: Dialect) -> list[str]:
        columns = ", ".join(f"{name} {type_}" for name, type_ in self.columns)
        create = f"CREATE TABLE {self.name} ({columns}, PRIMARY KEY ({', '.join(self.key)})){dialect.table_options}"
        return [create, *self.then]


def tables_of(dialect: Dialect, names: Tables) -> list[Table]:
    """Every table of the schema."""
    return [*_tables_of_activemq(dialect, names), *_tables_of_ackwire(dialect, names)]


def _tables_of_activemq(dialect: Dialect, names: Tables) -> list[Table]:
    text, blob, key = dialect.text, dialect.blob, dialect.key

    def index(table: str, suffix: str, columns: str) -> str:
        return f"CREATE INDEX {table}_{suffix} ON {table} ({columns})"

    msgs, acks = names.msgs, names.acks
    return [
        Table(
            msgs,
            (
                ("ID", f"{key} NOT NULL"),
                ("CONTAINER", f"{text} NOT NULL"),
                ("MSGID_PROD", text),
                ("MSGID_SEQ", "BIGINT"),
                ("EXPIRATION", "BIGINT"),
                ("MSG", blob),
                ("PRIORITY", "BIGINT"),
                ("XID", text),
            ),
            ("ID",),
            (
                index(msgs, "MIDX", "MSGID_PROD, MSGID_SEQ"),
                index(msgs, "CIDX", "CONTAINER"),
                index(msgs, "EIDX", "EXPIRATION"),
                index(msgs, "PIDX", "PRIORITY"),
                index(msgs, "XIDX", "XID"),
                index(msgs, "IIDX", "ID ASC, XID, CONTAINER"),
            ),
        ),
        Table(
            acks,
            (
                ("CONTAINER", f"{text} NOT NULL"),
                ("SUB_DEST", text),
                ("CLIENT_ID", f"{text} NOT NULL"),
                ("SUB_NAME", f"{text} NOT NULL"),
                ("SELECTOR", text),
                ("LAST_ACKED_ID", "BIGINT"),
                ("PRIORITY", "BIGINT DEFAULT 5 NOT NULL"),
                ("XID", text),
            ),
            ("CONTAINER", "CLIENT_ID", "SUB_NAME", "PRIORITY"),
            (index(acks, "XIDX", "XID"),),
        ),
        Table(
            names.lock,
            (("ID", "BIGINT NOT NULL"), ("TIME", "BIGINT"), ("BROKER_NAME", text)),
            ("ID",),
            (f"INSERT INTO {names.lock} (ID) VALUES (1)",),
        ),
    ]


def _tables_of_ackwire(dialect: Dialect, names: Tables) -> list[Table]:
    number, blob = "BIGINT NOT NULL", f"{dialect.blob} NOT NULL"
    return [
        Table(
            names.places,
            (("PLACE_ID", number), ("NAME", blob), ("DISPATCHED", number), ("TERMS", dialect.blob)),
            ("PLACE_ID",),
        ),
        Table(
            names.extra,
            (
                ("PLACE_ID", number),
                ("SEQUENCE", number),
                ("EXPIRATION", number),
                ("PRIORITY", number),
                ("MSG", blob),
            ),
            ("PLACE_ID", "SEQUENCE"),
        ),
        Table(
            names.done,
            (
                ("PLACE_ID", number),
                ("CONTAINER", f"{dialect.text} NOT NULL"),
                ("FIRST_ID", number),
                ("LAST_ID", number),
            ),
            ("PLACE_ID", "CONTAINER", "FIRST_ID"),
        ),
        Table(names.records, (("RECORD_ID", number), ("KIND", number), ("DATA", blob)), ("RECORD_ID",)),
        Table(
            names.counts,
            (("SLOT", number), ("PRODUCER", blob), ("LAST_COUNT", number), ("HEARD", number)),
            ("SLOT",),
        ),
        Table(names.commits, (("HEARD", number), ("TRANSACTION_ID", blob)), ("HEARD",)),
        Table(  # the last one: where it is, all are
            names.state,
            (
                ("ID", number),
                ("SCHEMA_VERSION", number),
                ("RUN_ID", f"{dialect.text} NOT NULL"),
                ("TRANSACTION_NUMBER", number),
                ("LAST_SEQUENCE", number),
                ("IS_OPEN", number),
                ("CRASHED_MS", "BIGINT"),
            ),
            ("ID",),
            (f"INSERT INTO {names.state} VALUES (1, {SCHEMA_VERSION}, '', 0, 0, 0, NULL)",),
        ),
    ]


@dataclass(frozen=True, slots=True)
class Step:
    """Brings the tables of Ackwire from one version to the next."""

    version: int
    """That it leads to."""
    reason: str
    statements: Callable[[Dialect, Tables], Sequence[str]]
    """To be written so that they can be repeated (IF NOT EXISTS): MariaDB commits each one by itself."""


STEPS: Final[Mapping[int, Step]] = {}
"""By the version that they start from: one for each version before `SCHEMA_VERSION`."""


def lease_table(dialect: Dialect, names: Tables) -> Table:
    """The table that only brokers which share a database need."""
    number, text = "BIGINT NOT NULL", f"{dialect.text} NOT NULL"
    return Table(
        names.lease,
        (("ID", number), ("EPOCH", number), ("HOLDER", text), ("NAME", text), ("URI", text), ("ENDS_MS", number)),
        ("ID",),
        (f"INSERT INTO {names.lease} VALUES (1, 0, '', '', '', 0)",),
    )


def ddl(dialect: Dialect, names: Tables) -> list[str]:
    """All statements that create the schema, for those who run them by hand."""
    tables = [*tables_of(dialect, names), lease_table(dialect, names)]
    return [statement for table in tables for statement in table.ddl(dialect)]


def prepare_schema(
    driver: Driver,
    session: Session,
    names: Tables,
    hold: Callable[[], Hold],
    *,
    create_tables: bool,
    steps: Mapping[int, Step] = STEPS,
) -> Hold:
    """See that the schema is there and can be used: bring an earlier version up to date, create what is missing. *hold*
    takes the lock of ActiveMQ, before anything is changed if its tables are there. Raises `UnusableDatabase`."""
    found = _found_columns(driver, session)
    _check_tables(driver, _tables_of_activemq(driver.dialect, names), found)
    version = _version(driver, session, names) if names.state.upper() in found else None
    newest = max(steps, default=0) + 1
    if version is not None and version > newest:
        raise UnusableDatabase(
            f"{driver.description}: the schema has version {version}, and this is a broker for version "
            f"{newest}; use the later version of Ackwire that has written it"
        )
    held = hold() if names.lock.upper() in found else None
    if version is not None and version < newest:
        _migrate(driver, session, names, [steps[it] for it in range(version, newest)], may_change=create_tables)
        found = _found_columns(driver, session)
    tables = tables_of(driver.dialect, names)
    _check_tables(driver, tables, found)
    missing = [table for table in tables if table.name.upper() not in found]
    if missing:
        _create(driver, session, missing, create_tables=create_tables)
    if driver.dialect.has_privileges:
        _check_privileges(session, [table for table in tables if table.name != names.lock])
    return held or hold()


def check_schema(driver: Driver, session: Session, names: Tables, *, create_tables: bool) -> None:
    """`prepare_schema` for a tool. Refuses a database that an ActiveMQ uses now. Raises `UnusableDatabase`."""
    with ExitStack() as held:

        def hold() -> Hold:
            taken = wait_for_lock(lambda: driver.hold(names.lock), SystemClock())
            held.callback(taken.close)
            return taken

        prepare_schema(driver, session, names, hold, create_tables=create_tables)


def _check_tables(driver: Driver, tables: Sequence[Table], found: Mapping[str, set[str]]) -> None:
    for table in tables:
        columns = found.get(table.name.upper())
        if columns is not None:
            _check_columns(driver, table, columns)


def _check_privileges(session: Session, tables: Sequence[Table]) -> None:
    """Execute what needs each privilege, on no rows: the driver's error says which one is missing."""
    statements = []
    for table in tables:
        columns = ", ".join(name for name, _ in table.columns)
        statements += [
            f"INSERT INTO {table.name} ({columns}) SELECT {columns} FROM {table.name} WHERE 1 = 0",
            f"UPDATE {table.name} SET {table.key[0]} = {table.key[0]} WHERE 1 = 0",
            f"DELETE FROM {table.name} WHERE 1 = 0",
        ]
    session.transact([Statement(it, [()]) for it in statements])


def _migrate(driver: Driver, session: Session, names: Tables, steps: Sequence[Step], *, may_change: bool) -> None:
    """Take one step after the other, each in a transaction where the database can do that."""
    if not may_change:
        raise UnusableDatabase(
            f"{driver.description}: the schema is {counted(len(steps), 'version')} older than this broker; "
            "sql.create_tables is false, so let one start change it with a user who may"
        )
    for step in steps:
        statements = [
            *step.statements(driver.dialect, names),
            f"UPDATE {names.state} SET SCHEMA_VERSION = {step.version}",
        ]
        _log.info("%s: the schema gets version %d: %s", driver.description, step.version, step.reason)
        session.transact([Statement(it, [()]) for it in statements])


def _found_columns(driver: Driver, session: Session) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for table, column in session.select(driver.dialect.columns):
        found.setdefault(str(table).upper(), set()).add(str(column).upper())
    return found


def _check_columns(driver: Driver, table: Table, columns: set[str]) -> None:
    lacking = [name for name, _ in table.columns if name not in columns]
    if lacking:
        raise UnusableDatabase(
            f"{driver.description}: table {table.name} has no column {lacking[0]}, so it is neither that of "
            "ActiveMQ 5.6 or later nor ours; choose another database or sql.table_prefix"
        )


def _version(driver: Driver, session: Session, names: Tables) -> int:
    rows = session.select(f"SELECT SCHEMA_VERSION FROM {names.state} WHERE ID = 1")
    if not rows:
        raise UnusableDatabase(
            f"{driver.description}: table {names.state} is empty; it was changed by hand, or a backup is incomplete"
        )
    version = int(rows[0][0])
    if version == UNFINISHED_COPY:
        raise UnfinishedCopy(driver.description)
    return version


def _create(driver: Driver, session: Session, missing: list[Table], *, create_tables: bool) -> None:
    names = ", ".join(table.name for table in missing)
    if not create_tables:
        raise MissingTables(
            f"{driver.description}: missing tables: {names}; sql.create_tables is false, so create them "
            'yourself: "ackwire store schema" prints the statements'
        )
    statements = [Statement(text, [()]) for table in missing for text in table.ddl(driver.dialect)]
    try:
        session.transact(statements)
    except Exception as error:
        diagnosis = driver.diagnose(error)
        if diagnosis.trouble is Trouble.LOST or diagnosis.is_unforeseen:
            raise
        session.rollback()
        raise UnusableDatabase(
            f"{driver.description}: the tables {names} cannot be created: {diagnosis.sentence}; grant the right to "
            f'create tables and indexes, or have them created: "ackwire store schema" prints the statements'
        ) from None

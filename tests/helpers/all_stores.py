"""Every store that the contract suite, the store model and the fault tests run on."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from ackwire.store.index_files import IndexKind
from tests.helpers.journal import JournalFactory, JournalOnFilesFactory
from tests.helpers.journal_sql import (
    JournalSqlFactory,
    JournalSqliteOnFilesFactory,
    journal_sqlite_factory,
)
from tests.helpers.replica import MasterFactory
from tests.helpers.sql_factories import (
    SqlFactory,
    SqliteOnFilesFactory,
    on_mariadb,
    on_postgresql,
    sqlite_factory,
)
from tests.helpers.stores import MemoryFactory, StoreFactory, toy_factory

STORES: Final[dict[str, Callable[[Path], StoreFactory]]] = {
    "memory": lambda _: MemoryFactory(),
    "toy": lambda _: toy_factory(),  # shows that a red test is the fault of the store that it is red for
    "journal": lambda _: JournalFactory(),
    "journal, slow disk": lambda _: JournalFactory(1),  # odd seeds are slow: a thread does the syncs
    "journal, LMDB": lambda _: JournalFactory(index=IndexKind.LMDB),
    "journal, LevelDB": lambda _: JournalFactory(index=IndexKind.LEVELDB),
    "journal, taken over": lambda _: MasterFactory(),
    "journal, real files": JournalOnFilesFactory,
    "journal, real files, LevelDB": lambda folder: JournalOnFilesFactory(folder, index=IndexKind.LEVELDB),
    "sqlite": lambda _: sqlite_factory(),
    "sqlite, real files": SqliteOnFilesFactory,
    "postgresql": on_postgresql(SqlFactory),
    "mariadb": on_mariadb(SqlFactory),
    "journal+sqlite": lambda _: journal_sqlite_factory(),
    "journal+sqlite, slow disk": lambda _: journal_sqlite_factory(1),
    "journal+sqlite, real files": JournalSqliteOnFilesFactory,
    "journal+postgresql": on_postgresql(JournalSqlFactory),
    "journal+mariadb": on_mariadb(JournalSqlFactory),
}
"""By name; each is given a folder of its own."""

DURABLE_STORES: Final = (
    "toy",
    "journal",
    "journal, slow disk",
    "journal, LMDB",
    "journal, LevelDB",
    "journal, taken over",
    "sqlite",
    "postgresql",
    "mariadb",
    "journal+sqlite",
    "journal+sqlite, slow disk",
    "journal+postgresql",
    "journal+mariadb",
)
"""Those whose disk can fail and lose power."""

SIMULATED_STORES: Final[dict[str, Callable[[int], StoreFactory]]] = {
    "toy": lambda seed: toy_factory(seed=seed),
    "journal": lambda seed: JournalFactory(2 * seed),
    "journal, slow disk": lambda seed: JournalFactory(2 * seed + 1),
    "journal, LevelDB": lambda seed: JournalFactory(seed, index=IndexKind.LEVELDB),
    "journal, taken over": MasterFactory,
    "sqlite": sqlite_factory,
    "journal+sqlite": lambda seed: journal_sqlite_factory(2 * seed),
    "journal+sqlite, slow disk": lambda seed: journal_sqlite_factory(2 * seed + 1),
}
"""Those in which everything, also time and chance, comes from one seed."""

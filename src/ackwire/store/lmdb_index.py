"""`Index` on LMDB."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, final

import lmdb

from ackwire.store.index import Changes, DamagedIndex, Edit, IndexTrouble, Table, UnavailableIndex
from ackwire.store.index_files import IndexKind, Seal, identity, remove_index, require_kind

_MAP_BYTES: Final = 1 << 40
"""Address space for the index; only what is used takes memory or disk. A hundred million messages need 8 GB."""

_PUTS_AT_ONCE: Final = 4096
"""Entries handed over in one call, during which no other thread runs."""


_DAMAGE: Final = (
    lmdb.BadValsizeError,
    lmdb.CorruptedError,
    lmdb.IncompatibleError,
    lmdb.InvalidError,
    lmdb.InvalidParameterError,
    lmdb.NotFoundError,
    lmdb.PageNotFoundError,
    lmdb.VersionMismatchError,
)
"""What LMDB raises because of what it has read. Every other error is about the system, and says nothing of the file."""


def _trouble(what: str, error: lmdb.Error) -> IndexTrouble:
    if isinstance(error, _DAMAGE):
        return DamagedIndex(f"LMDB cannot {what} it: {error}")
    advice = ""
    if isinstance(error, lmdb.MemoryError):
        advice = f"; it needs {_MAP_BYTES >> 30} GiB of address space, not of memory (ulimit -v, RLIMIT_AS)"
    return UnavailableIndex(f"LMDB cannot {what} the index: {error}{advice}")


@final
class LmdbIndex:
    """Implements `Index` with LMDB.

    LMDB's pages have no checksums, so `close` seals the file (`index_files.Seal`). The first change removes the seal: a
    start that fails has changed nothing. LMDB writes its file itself, not through `store/files.py`: a checkpoint is one
    transaction, which LMDB syncs before it names it in the file's header.
    """

    def __init__(self, directory: Path, *, fresh: bool = False) -> None:
        """Raises `OtherIndex` if it is none of LMDB, `DamagedIndex` if the files are not what was written, and
        `UnavailableIndex` if they cannot be opened; *fresh* begins with none."""
        self._data = directory / "data.mdb"
        if fresh:
            remove_index(directory)
        require_kind(directory, IndexKind.LMDB)
        self._seal = Seal(directory)
        self.is_vouched_for: bool = self._seal.is_good
        directory.mkdir(exist_ok=True)
        try:
            self._open(directory)
        except lmdb.Error as error:
            raise _trouble("open", error) from None
        self._identity = identity(self._data)

    @property
    def seal_damage(self) -> str | None:
        return self._seal.damage

    def _check_size(self) -> None:
        """Whether the file is as long as its pages say: LMDB reads behind its end, and dies of it."""
        needed = (self._environment.info()["last_pgno"] + 1) * self._environment.stat()["psize"]
        if self._data.stat().st_size < needed:
            raise DamagedIndex(f"its file has {self._data.stat().st_size} bytes, and should have {needed}")

    def _check_counts(self) -> None:
        """Whether all rows can be found; those of messages are counted by who knows how many there must be."""
        for table, database in self._tables.items():
            if table is not Table.MESSAGES:
                found = sum(1 for _ in self.items(table))
                if found != self._reading.stat(database)["entries"]:
                    raise DamagedIndex(f"it has {found} rows in {table.name}, and counted others")

    def _open(self, directory: Path) -> None:
        self._environment = lmdb.open(
            str(directory),
            map_size=_MAP_BYTES,
            max_dbs=len(Table),
            subdir=True,
            metasync=True,
            sync=True,
            readahead=False,
        )
        self._check_size()
        self._tables = {table: self._environment.open_db(table.value) for table in Table}
        self._reading = self._environment.begin()
        if not self.is_vouched_for:
            self._check_counts()

    def get(self, table: Table, key: bytes) -> bytes | None:
        try:
            return self._reading.get(key, db=self._tables[table])
        except lmdb.Error as error:
            raise _trouble("read", error) from None

    def items(self, table: Table, first: bytes = b"", last: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        try:
            with self._reading.cursor(self._tables[table]) as cursor:
                if not (cursor.set_range(first) if first else cursor.first()):
                    return
                for item in cursor.iternext(keys=True, values=True):
                    if last is not None and item[0] > last:
                        return
                    yield item
        except lmdb.Error as error:
            raise _trouble("read", error) from None

    def commit(self, changes: Changes) -> None:
        self._seal.remove()
        with self._environment.begin(write=True) as transaction:
            for table, first, last, kept in changes.ranges:
                _delete_range(transaction, self._tables[table], first, last, kept)
            for table, keys in changes.deletes.items():
                for key in keys:
                    transaction.delete(key, db=self._tables[table])
            for table, edits in changes.edits.items():
                for key, edit in edits:
                    _edit(transaction, self._tables[table], key, edit)
            for table, items in changes.puts.items():
                with transaction.cursor(self._tables[table]) as cursor:
                    _put_all(cursor, items)

    def refresh(self) -> None:
        self._reading.abort()
        self._reading = self._environment.begin()

    def clear(self) -> None:
        self._seal.remove()
        self._reading.abort()
        with self._environment.begin(write=True) as transaction:
            for table in self._tables.values():
                transaction.drop(table, delete=False)
        self._reading = self._environment.begin()

    @property
    def size_bytes(self) -> int:
        """Of the pages in use: those that are free are used again before the file grows."""
        pages = 0
        for table in self._tables.values():
            info = self._reading.stat(table)
            pages += info["branch_pages"] + info["leaf_pages"] + info["overflow_pages"]
        return int(pages * self._environment.stat()["psize"])

    @property
    def misplaced(self) -> str | None:
        return None if identity(self._data) == self._identity else f"{self._data} is gone, or was replaced"

    def close(self) -> None:
        self.abandon()
        self._seal.write()

    def abandon(self) -> None:
        self._reading.abort()
        self._environment.close()


def _delete_range(
    transaction: "lmdb.Transaction[bytes]", table: "lmdb._Database", first: bytes, last: bytes, kept: frozenset[bytes]
) -> None:
    with transaction.cursor(table) as cursor:
        found = cursor.set_range(first)
        while found and cursor.key() <= last:
            found = cursor.next() if cursor.key() in kept else cursor.delete()


def _edit(transaction: "lmdb.Transaction[bytes]", table: "lmdb._Database", key: bytes, edit: Edit) -> None:
    old = transaction.get(key, db=table)
    new = edit(old)
    if new is not None:
        transaction.put(key, new, db=table)
    elif old is not None:
        transaction.delete(key, db=table)


def _put_all(cursor: "lmdb.Cursor[bytes]", items: Iterable[tuple[bytes, bytes]]) -> None:
    batch: list[tuple[bytes, bytes]] = []
    for item in items:
        batch.append(item)
        if len(batch) == _PUTS_AT_ONCE:
            cursor.putmulti(batch)
            batch = []
    cursor.putmulti(batch)

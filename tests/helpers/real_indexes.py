"""Indexes of LMDB and LevelDB in real files, beside a simulated disk that says when their commits fail and stop."""

import shutil
import weakref
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

from ackwire.store.index import Changes, DamagedIndex, Index, Table
from ackwire.store.index_files import IndexKind, remove_index
from ackwire.store.indexes import open_index
from tests.helpers.simulated_disk import SimulatedDisk

_PATH = Path("/index")
_IN_MEMORY = Path("/dev/shm")  # there are hundreds of commits in a second, and each syncs three times


class RealIndexes:
    """One index through its lives."""

    def __init__(self, disk: SimulatedDisk, kind: IndexKind) -> None:
        self._disk = disk
        self._kind = kind
        folder = mkdtemp(prefix="ackwire-index-", dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None)
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._path = Path(folder) / "index"
        self._index: Index | None = None

    def open(self, *, fresh: bool) -> Index:
        self.crash()  # what a start that failed has left open
        self._index = open_index(self._kind, self._path, fresh=fresh)
        return _OnSimulatedDisk(self._disk, self._index)

    def crash(self) -> None:
        """The process is gone: nothing more is written, and nothing is sealed."""
        if self._index is not None:
            self._index.abandon()
        self._index = None

    def lose(self) -> None:
        """The files are deleted, while no store has them open."""
        self.crash()
        remove_index(self._path)


class _OnSimulatedDisk:
    """Implements `Index`: a real one, dead after a crash of the disk."""

    def __init__(self, disk: SimulatedDisk, index: Index) -> None:
        self._disk = disk
        self._index = index
        self._generation = disk.generation

    def get(self, table: Table, key: bytes) -> bytes | None:
        self._check()
        return self._index.get(table, key)

    def items(self, table: Table, first: bytes = b"", last: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        self._check()
        return self._index.items(table, first, last)

    def commit(self, changes: Changes) -> None:
        self._check()
        once = Changes(
            {table: list(it) for table, it in changes.puts.items()},
            {table: list(it) for table, it in changes.deletes.items()},
            changes.ranges,
            {table: list(it) for table, it in changes.edits.items()},
        )

        def put() -> None:
            self._index.commit(once)

        self._disk.call("commit", _PATH, put)
        put()

    def refresh(self) -> None:
        self._check()
        self._index.refresh()

    def clear(self) -> None:
        self._check()
        self._index.clear()

    @property
    def is_vouched_for(self) -> bool:
        return self._index.is_vouched_for

    @property
    def seal_damage(self) -> str | None:
        return self._index.seal_damage

    @property
    def misplaced(self) -> str | None:
        return self._index.misplaced

    @property
    def size_bytes(self) -> int:
        return self._index.size_bytes

    def close(self) -> None:
        self._check()
        self._index.close()

    def abandon(self) -> None:
        self._check()
        self._index.abandon()

    def _check(self) -> None:
        if self._generation != self._disk.generation:
            raise DamagedIndex("the process of this index has gone")

"""`Index` on LevelDB, by plyvel.

LevelDB writes its files itself, not through `store/files.py`, and what it makes of damage is not enough for an index
that must not be believed when it is wrong: it drops records of its log that are torn or zero, and does not miss a log
that was deleted. So the index has two marks of its own (`docs/formats/journal.md`, Index):

* a row `total`, written in the same batch as every change: how many commits there were, how many rows there are, and
  the sum of their hashes. After a crash all rows are read and compared with it.
* a file `commits` beside LevelDB's own, replaced after each commit: how many commits were durable. An index with fewer
  has lost something.

**Sync.** A checkpoint is one batch, written with LevelDB's `sync`: it returns after `fdatasync` of LevelDB's log. Then
`commits` is replaced, and the directory is synced, which makes the name of a new log durable, too. LevelDB merges its
files in a thread of its own, and loses nothing by being stopped in it.
"""

import os
import threading
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from typing import Any, Final, NamedTuple, final

import plyvel

from ackwire.store.blocks import sealed, unsealed
from ackwire.store.index import Changes, DamagedIndex, IndexTrouble, Table, UnavailableIndex
from ackwire.store.index_files import IndexKind, Seal, content_bytes, identity, remove_index, require_kind

_PREFIXES: Final = {table: table.value + b"/" for table in Table}
"""What the keys of a table begin with; no name of a table is the beginning of another's with the slash."""
_TOTAL_KEY: Final = b"total"
_TOTAL: Final = Struct(">QQQ")
_LENGTH: Final = Struct(">I")
_HASH_BYTES: Final = 8
"""One in 2^64 changes of rows goes unnoticed by their sum; each value has a checksum besides."""
_HASHES: Final = 1 << 64
_COMMITS: Final = "commits"

_BUFFER_BYTES: Final = 8 << 20
"""LevelDB's memory for what is not sorted yet, up to twice that; a checkpoint of 100,000 messages fits. LevelDB's own
figure is 4 MiB, which makes twice as many files to merge."""
_FILE_BYTES: Final = 8 << 20
"""The size of LevelDB's sorted files; its own figure of 2 MiB makes 1,400 of them for 100 million messages."""
_CACHE_BYTES: Final = 8 << 20
"""Blocks kept unpacked: as much as 300,000 messages of the index."""
_FILTER_BITS: Final = 10
"""For each key, so that one in a hundred reads of a block that is not there touches a file. LevelDB's advice."""

_ROWS_AT_FIRST: Final = 16
_ROWS_AT_ONCE: Final = 1024
"""Rows read in one go, during which LevelDB cannot be opened again."""

_DAMAGE: Final = ("Corruption:", "NotFound:", "Invalid argument:")
"""What LevelDB's message begins with if it speaks of what was read."""
_BEHIND_THE_END: Final = ": Invalid argument"
"""What it ends with where a file is shorter than LevelDB knows it; no disk and no memory is the reason of that."""


_ERRORS: Final = (plyvel.Error, OSError, MemoryError, RuntimeError)
"""What plyvel and the files raise; `RuntimeError` is about a LevelDB that is closed, because it could not be opened
again."""


class _Total(NamedTuple):
    """What was committed so far."""

    commits: int
    rows: int
    checksum: int


def _trouble(what: str, error: Exception) -> IndexTrouble:
    text = str(error.args[0].decode(errors="replace") if error.args and isinstance(error.args[0], bytes) else error)
    if text.startswith(_DAMAGE) or text.endswith(_BEHIND_THE_END):
        return DamagedIndex(f"LevelDB cannot {what} it: {text}")
    return UnavailableIndex(f"LevelDB cannot {what} the index: {text or type(error).__name__}")


@final
class LeveldbIndex:
    """Implements `Index` with LevelDB.

    Opening a LevelDB changes its files. So the seal is removed before, and put back if LevelDB cannot be opened.

    After a write that failed LevelDB refuses every other one. The next commit opens it again, in the thread that
    commits, once the disk takes as much as that may write; readers are locked out meanwhile. Whether the failed batch
    is there then or not, `Changes` can be repeated.
    """

    def __init__(self, directory: Path, *, fresh: bool = False) -> None:
        """Raises `OtherIndex` if it is none of LevelDB, `DamagedIndex` if the files are not what was written, and
        `UnavailableIndex` if they cannot be opened; *fresh* begins with none."""
        self._directory = directory
        self._lock = threading.Lock()
        """Held while LevelDB is read from, and while it is opened again."""
        self._is_broken = False
        """A write has failed."""
        if fresh:
            remove_index(directory)
        require_kind(directory, IndexKind.LEVELDB)
        self._seal = Seal(directory)
        self.is_vouched_for: bool = self._seal.is_good
        self._seal.remove()
        directory.mkdir(exist_ok=True)
        try:
            self._open()
        except UnavailableIndex:
            self._seal.put_back()
            raise

    @property
    def seal_damage(self) -> str | None:
        return self._seal.damage

    # ---- opening -----------------------------------------------------------------------------------------------

    def _open(self) -> None:
        try:
            self._db: Any = self._opened(paranoid=True)
        except DamagedIndex:
            if self.is_vouched_for:
                raise
            # The end of a log may be torn, of a commit that was never durable. Then LevelDB goes back to the one
            # before, which the total and the mark confirm; and what is there then passes the strict checks, too.
            self._db = self._opened(paranoid=False)
            self._checked(is_sound=False)
            self._db.close()
            self._db = self._opened(paranoid=True)
        self._total = self._checked(is_sound=self.is_vouched_for)
        self._reading: Any = self._db.snapshot()
        self._identity = identity(self._directory / "LOCK")
        self._size_bytes = content_bytes(self._directory)

    def _opened(self, *, paranoid: bool) -> Any:
        try:
            return plyvel.DB(
                str(self._directory),
                create_if_missing=True,
                paranoid_checks=paranoid,
                write_buffer_size=_BUFFER_BYTES,
                max_file_size=_FILE_BYTES,
                lru_cache_size=_CACHE_BYTES,
                bloom_filter_bits=_FILTER_BITS,
            )
        except _ERRORS as error:
            raise _trouble("open", error) from None

    def _checked(self, *, is_sound: bool) -> _Total:
        """The total, compared with the mark and, unless the index is known to be sound, with all rows."""
        try:
            total = self._read_total()
            if total.commits < self._read_mark():
                raise DamagedIndex("the last commits are missing")
            if not is_sound and (total.rows, total.checksum) != self._count_rows():
                raise DamagedIndex("it has other rows than it counted")
            return total
        except BaseException as error:
            self._db.close()  # another can be opened in its place
            if isinstance(error, _ERRORS):
                raise _trouble("read", error) from None
            raise

    def _read_total(self) -> _Total:
        data = self._db.get(_TOTAL_KEY, verify_checksums=True)
        return _Total(0, 0, 0) if data is None else _Total(*_TOTAL.unpack(unsealed(_TOTAL_KEY, data)))

    def _count_rows(self) -> tuple[int, int]:
        rows, checksum = 0, 0
        for key, value in self._db.iterator(verify_checksums=True, fill_cache=False):
            if key != _TOTAL_KEY:
                rows += 1
                checksum += _hash(key, value)
        return rows, checksum % _HASHES

    # ---- the mark ----------------------------------------------------------------------------------------------

    def _read_mark(self) -> int:
        try:
            data = (self._directory / _COMMITS).read_bytes()
        except FileNotFoundError:
            return 0
        try:
            return int(unsealed(_COMMITS.encode(), data))
        except (DamagedIndex, ValueError):
            raise DamagedIndex(f"its file {_COMMITS} is damaged") from None

    def _write_mark(self, commits: int) -> None:
        new = self._directory / f"{_COMMITS}.new"
        with new.open("wb") as file:
            file.write(sealed(_COMMITS.encode(), b"%d" % commits))
            file.flush()
            os.fdatasync(file.fileno())
        new.rename(self._directory / _COMMITS)
        descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    # ---- reading -----------------------------------------------------------------------------------------------

    def get(self, table: Table, key: bytes) -> bytes | None:
        try:
            with self._lock:
                value: bytes | None = self._reading.get(_PREFIXES[table] + key, verify_checksums=True)
        except _ERRORS as error:
            raise _trouble("read", error) from None
        return value

    def items(self, table: Table, first: bytes = b"", last: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        prefix = _PREFIXES[table]
        start, stop = prefix + first, _end_of(prefix) if last is None else prefix + last + b"\0"
        count = _ROWS_AT_FIRST
        while True:
            rows = self._rows(start, stop, count)
            for key, value in rows:
                yield key[len(prefix) :], value
            if len(rows) < count:
                return
            start, count = rows[-1][0] + b"\0", min(4 * count, _ROWS_AT_ONCE)

    def _rows(self, start: bytes, stop: bytes, count: int) -> list[tuple[bytes, bytes]]:
        rows: list[tuple[bytes, bytes]] = []
        try:
            with self._lock, self._reading.iterator(start=start, stop=stop, verify_checksums=True) as found:
                for row in found:
                    rows.append(row)
                    if len(rows) == count:
                        break
        except _ERRORS as error:
            raise _trouble("read", error) from None
        return rows

    def refresh(self) -> None:
        with self._lock:
            self._reading.close()
            self._reading = self._db.snapshot()
        self._size_bytes = content_bytes(self._directory)

    @property
    def size_bytes(self) -> int:
        """Of the files, as of the last `refresh`."""
        return self._size_bytes

    @property
    def misplaced(self) -> str | None:
        lock = self._directory / "LOCK"
        return None if identity(lock) == self._identity else f"{lock} is gone, or was replaced"

    # ---- writing -----------------------------------------------------------------------------------------------

    def commit(self, changes: Changes) -> None:
        if self._is_broken:
            self._open_again()
        try:
            batch = _Batch(self._db, changes)
            total = batch.total_after(self._total)
            batch.write(total)
        except _ERRORS as error:
            self._is_broken = True
            trouble = _trouble("write", error)
            if isinstance(trouble, DamagedIndex):
                raise trouble from None
            raise
        self._total = total
        self._write_mark(total.commits)

    def _open_again(self) -> None:
        """After a failed write. Raises `OSError` while the disk takes nothing, and then the next commit tries again."""
        self._try_to_write()
        with self._lock:
            self._let_go()
            self.is_vouched_for = False  # what the failed write has left is to be looked at
            self._open()
            self._is_broken = False

    def _try_to_write(self) -> None:
        """LevelDB cannot be opened on a disk that is full: until there is space, the one that is open can be read."""
        trial = self._directory / "trial"
        try:
            with trial.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, 2 * _BUFFER_BYTES)
        finally:
            trial.unlink(missing_ok=True)

    def clear(self) -> None:
        with self._lock:
            self._let_go()
            remove_index(self._directory)
            self._directory.mkdir()
            self._open()

    # ---- the end -----------------------------------------------------------------------------------------------

    def close(self) -> None:
        self.abandon()
        if not self._is_broken:
            self._seal.write()

    def abandon(self) -> None:
        with self._lock:
            self._let_go()

    def _let_go(self) -> None:
        self._reading.close()
        self._db.close()


@final
class _Batch:
    """What a checkpoint writes, with what was there before: both are needed for the total."""

    def __init__(self, db: Any, changes: Changes) -> None:
        self._db = db
        self._old: dict[bytes, bytes | None] = {}
        self._new: dict[bytes, bytes | None] = {}
        for table, first, last, kept in changes.ranges:
            self._delete_range(_PREFIXES[table], first, last, kept)
        for table, keys in changes.deletes.items():
            prefix = _PREFIXES[table]
            for key in keys:
                self._new[prefix + key] = None
        for table, edits in changes.edits.items():
            prefix = _PREFIXES[table]
            for key, edit in edits:
                self._new[prefix + key] = edit(self._current(prefix + key))
        for table, items in changes.puts.items():
            prefix = _PREFIXES[table]
            for key, value in items:
                self._new[prefix + key] = value

    def _delete_range(self, prefix: bytes, first: bytes, last: bytes, kept: frozenset[bytes]) -> None:
        found = self._db.iterator(
            start=prefix + first, stop=prefix + last + b"\0", verify_checksums=True, fill_cache=False
        )
        for key, value in found:
            if key[len(prefix) :] not in kept:
                self._old[key] = value
                self._new[key] = None

    def _current(self, key: bytes) -> bytes | None:
        """The value as the batch has it so far."""
        return self._new[key] if key in self._new else self._before(key)

    def _before(self, key: bytes) -> bytes | None:
        if key not in self._old:
            self._old[key] = self._db.get(key, verify_checksums=True)
        return self._old[key]

    def total_after(self, total: _Total) -> _Total:
        """*total* as it is after this batch."""
        rows, checksum = total.rows, total.checksum
        for key, value in self._new.items():
            old = self._before(key)
            if old is not None:
                rows -= 1
                checksum -= _hash(key, old)
            if value is not None:
                rows += 1
                checksum += _hash(key, value)
        return _Total(total.commits + 1, rows, checksum % _HASHES)

    def write(self, total: _Total) -> None:
        """Write it; it is durable when this returns."""
        with self._db.write_batch(transaction=True, sync=True) as batch:
            for key, value in self._new.items():
                if value is None:
                    batch.delete(key)
                else:
                    batch.put(key, value)
            batch.put(_TOTAL_KEY, sealed(_TOTAL_KEY, _TOTAL.pack(*total)))


def _hash(key: bytes, value: bytes) -> int:
    return int.from_bytes(blake2b(_LENGTH.pack(len(key)) + key + value, digest_size=_HASH_BYTES).digest())


def _end_of(prefix: bytes) -> bytes:
    """Behind every key that begins with *prefix*."""
    return prefix[:-1] + bytes((prefix[-1] + 1,))

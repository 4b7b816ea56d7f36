"""A disk in memory that loses power, fails, and fills up, as its seed says: implements `ackwire.store.files.Files`.

    disk = SimulatedDisk(seed=7)
    store = open_store(disk)
    disk.fail("sync", 3, error=EIO)      # the third sync from now on
    disk.stop_at(20)                     # everything stops in the middle of the 20th call from now on: `Stopped`
    disk.power_cut()                     # or process_kill(): the handles are dead, the locks are free
    store = open_store(disk)             # what a new process finds

What is written is in the cache until it is synced. A power cut keeps a prefix of the unsynced writes of each file, the
last of them torn; with `reordered=True`, any sectors of them, as a real cache writes them back. A killed process
loses nothing, but what it had not synced still is not. A failed sync drops what it was to write, as Linux does: the
bytes can be read until the power goes, and no later sync brings them to the medium.

`calls` names every call that can fail, so that a test can run a scenario once to count them, and then once for each.
"""

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from random import Random
from typing import Any, Final, Literal, TypeAlias, final

from ackwire.store.files import DataFile, Directory, Identity, Lock, LockHeld

SECTOR_BYTES: Final = 512
"""What a medium writes as a whole, or not at all; file systems and controllers promise less."""

Operation: TypeAlias = Literal[
    "names",
    "make_directory",
    "create",
    "open",
    "read",
    "write",
    "sync",
    "replace",
    "rename",
    "remove",
    "free_bytes",
    "lock",
    "commit",
    "any",
]

EIO: Final = errno.EIO
ENOSPC: Final = errno.ENOSPC


class Stopped(BaseException):
    """The machine stands still in the middle of a call: nothing that a store does can catch or outlive this."""


class Effect(Enum):
    """What a failed call has done before it failed."""

    NOTHING = "nothing"
    PARTLY = "partly"
    """A write or a sync did some of it; a change of the directory is there, and a power cut may undo it."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call that could have failed."""

    number: int
    operation: Operation
    path: Path

    def __str__(self) -> str:
        return f"{self.number}-{self.operation}-{self.path.name}"


@dataclass(slots=True)
class _Fault:
    operation: Operation
    skip: int
    """Calls of this operation that still pass."""
    error: int
    effect: Effect
    times: int


@dataclass(frozen=True, slots=True)
class _Write:
    offset: int
    data: bytes


@dataclass(slots=True)
class _Inode:
    """A file's bytes, whatever its name is and whether it still has one."""

    medium: bytearray
    """What is there after a power cut, but for `dirty`."""
    cache: bytearray
    """What a read sees."""
    dirty: list[_Write] = field(default_factory=list)
    """What is in the cache and may or may not be on the medium."""


class _Names(dict[Path, _Inode]):
    """Files by their paths; counts the changes."""

    changes = 0

    def __setitem__(self, path: Path, inode: _Inode) -> None:
        self.changes += 1
        super().__setitem__(path, inode)

    def __delitem__(self, path: Path) -> None:
        self.changes += 1
        super().__delitem__(path)

    def pop(self, path: Path, *default: Any) -> Any:
        self.changes += 1
        return super().pop(path, *default)


@final
class _SimulatedDirectory:
    """Implements `Directory`."""

    def __init__(self, names: _Names) -> None:
        self._names = names

    def changed_ns(self) -> tuple[int, int]:
        return self._names.changes, 0

    def close(self) -> None:
        """Nothing to do."""


class SimulatedDisk:
    """A file system in memory."""

    def __init__(self, seed: int = 0, *, capacity_bytes: int = 1 << 40) -> None:
        self.capacity_bytes = capacity_bytes
        self.calls: list[Call] = []
        """Every call that could have failed, since the disk was made."""
        self.failed_calls = 0
        """How many of them did."""
        self.generation = 0
        """Counts the crashes: handles of an earlier generation are dead."""
        self.has_cache = False
        """Whether what is read is found in memory."""
        self._random = Random(seed)
        self._files = _Names()
        self._directories: set[Path] = {Path("/")}
        self._locked: set[Path] = set()
        self._handles: set[_SimulatedFile] = set()
        self._faults: list[_Fault] = []
        self._stop_in: int | None = None
        self._is_stopped = False
        self._undo: list[Callable[[], None]] = []
        """Directory changes that a failed call left unsynced, each as what takes it back."""

    # ---- what goes wrong ---------------------------------------------------------------------------------------

    def fail(
        self,
        operation: Operation,
        nth: int = 1,
        *,
        error: int = EIO,
        effect: Effect = Effect.NOTHING,
        times: int = 1,
    ) -> None:
        """Have the *nth* call of *operation* from now on raise, and *times* - 1 more after it."""
        self._faults.append(_Fault(operation, nth - 1, error, effect, times))

    def reseed(self, seed: int) -> None:
        """Have chance decide otherwise from now on."""
        self._random = Random(seed)

    def break_down(self, error: int = EIO) -> None:
        """Nothing can be written from now on; what is there can be read."""
        for operation in ("write", "sync", "create", "replace", "rename", "remove"):
            self.fail(operation, error=error, times=1 << 60)

    def repair(self) -> None:
        """Faults that have not happened yet never will."""
        self._faults.clear()
        self._stop_in = None

    def stop_at(self, nth: int) -> None:
        """Raise `Stopped` in the middle of the *nth* call from now on, and in all that follow until the crash."""
        self._stop_in = nth

    @property
    def will_stop(self) -> bool:
        return self._stop_in is not None

    def flip_bit(self, path: Path, offset: int, bit: int = 0) -> None:
        """Damage a byte, on the medium and in the cache."""
        inode = self._files[path]
        for place in (inode.medium, inode.cache):
            if offset < len(place):
                place[offset] ^= 1 << bit

    def overwrite(self, path: Path, offset: int, data: bytes) -> None:
        """Damage many."""
        inode = self._files[path]
        _put(inode.medium, offset, data)
        _put(inode.cache, offset, data)

    def lose(self, path: Path) -> None:
        """A file is gone."""
        del self._files[path]

    # ---- crashes -----------------------------------------------------------------------------------------------

    def power_cut(self, *, reordered: bool = False) -> None:
        """The machine goes off: of what was not synced, some is there."""
        for undo in reversed(self._undo):
            if self._random.random() < 0.5:
                undo()
        for inode in self._files.values():
            survivors = self._scattered(inode.dirty) if reordered else self._prefix(inode.dirty)
            _settle(inode, survivors)
        self._start_over()

    def process_kill(self) -> None:
        """The process ends: everything written is in the cache still, and no more synced than before."""
        for inode in self._files.values():
            if self._random.random() < 0.5:  # clean pages may leave the cache at any time: a failed sync has made some
                inode.cache[:] = inode.medium
                for write in inode.dirty:
                    _put(inode.cache, write.offset, write.data)
        self._start_over()

    def _start_over(self) -> None:
        self.generation += 1
        self._handles.clear()
        self._locked.clear()
        self._faults.clear()
        self._undo.clear()
        self._stop_in = None
        self._is_stopped = False

    def _prefix(self, writes: list[_Write]) -> list[_Write]:
        """The first of *writes*, the last of them torn."""
        count = self._random.randrange(len(writes) + 1)
        survivors = writes[:count]
        if survivors and self._random.random() < 0.7:
            survivors[-1] = self._torn(survivors[-1])
        return survivors

    def _torn(self, write: _Write) -> _Write:
        """The beginning of *write*, up to any byte, or up to the end of a sector."""
        end = self._random.randrange(len(write.data) + 1)
        if self._random.random() < 0.5:
            end -= (write.offset + end) % SECTOR_BYTES
        return _Write(write.offset, write.data[: max(end, 0)])

    def _scattered(self, writes: list[_Write]) -> list[_Write]:
        """For each sector of the file, what some of the first of *writes* made of it."""
        chance = self._random.choice((0.1, 0.5, 0.9))
        by_sector: dict[int, list[_Write]] = {}
        for piece in (piece for write in writes for piece in _sectors(write)):
            by_sector.setdefault(piece.offset // SECTOR_BYTES, []).append(piece)
        survivors: list[_Write] = []
        for pieces in by_sector.values():
            whole = self._random.random() < chance
            survivors += pieces if whole else pieces[: self._random.randrange(len(pieces))]
        return survivors

    # ---- what a test looks at ----------------------------------------------------------------------------------

    def contents(self, path: Path) -> bytes:
        """What a read would see, without one."""
        return bytes(self._files[path].cache)

    def paths(self) -> list[Path]:
        """Every file, sorted."""
        return sorted(self._files)

    @property
    def open_paths(self) -> list[Path]:
        """For each open handle the name that its file had when it was opened, sorted."""
        return sorted(handle.path for handle in self._handles)

    @property
    def locked_paths(self) -> list[Path]:
        return sorted(self._locked)

    @property
    def used_bytes(self) -> int:
        return sum(len(inode.cache) for inode in self._files.values())

    @property
    def unsynced_bytes(self) -> int:
        return sum(len(write.data) for inode in self._files.values() for write in inode.dirty)

    # ---- Files: directories ------------------------------------------------------------------------------------

    def names(self, directory: Path) -> list[str]:
        self.call("names", directory)
        return sorted(path.name for path in (*self._files, *self._directories) if path.parent == directory != path)

    def make_directory(self, directory: Path) -> None:
        self.call("make_directory", directory)
        if directory in self._files:
            raise FileExistsError(errno.EEXIST, "a file is there", str(directory))
        self._directories |= {directory, *directory.parents}

    def exists(self, path: Path) -> bool:
        self._refuse_if_stopped()
        return path in self._files or path in self._directories

    def identity(self, path: Path) -> Identity | None:
        self._refuse_if_stopped()
        if path in self._directories:
            return Identity(0, 0)
        inode = self._files.get(path)
        return None if inode is None else Identity(0, id(inode))

    def watch(self, directory: Path) -> Directory:  # noqa: ARG002 - all of them change together
        return _SimulatedDirectory(self._files)

    def touch(self, directory: Path) -> None:
        """What is watched here is a list of names, which has no times."""

    def inodes(self, directory: Path) -> dict[str, int]:
        self._refuse_if_stopped()
        return {path.name: id(inode) for path, inode in self._files.items() if path.parent == directory}

    def free_bytes(self, directory: Path) -> int:
        self.call("free_bytes", directory)
        return max(self.capacity_bytes - self.used_bytes, 0)

    # ---- Files: whole files ------------------------------------------------------------------------------------

    def create(self, path: Path, size_bytes: int) -> DataFile:
        if path in self._files:
            raise FileExistsError(errno.EEXIST, "the file exists", str(path))
        self._in_directory(path)

        def half_made() -> None:
            if self._is_stopped:  # a call that only fails removes it again
                size = self._random.choice((0, size_bytes))
                self._files[path] = _Inode(bytearray(size), bytearray(size))

        self.call("create", path, half_made)
        self.take_space(size_bytes)
        self._files[path] = _Inode(bytearray(size_bytes), bytearray(size_bytes))
        return self._handle(path, writable=True)

    def open(self, path: Path, *, writable: bool = True) -> DataFile:
        self.call("open", path)
        self._existing(path)
        return self._handle(path, writable=writable)

    def read(self, path: Path) -> bytes:
        self.call("read", path)
        return bytes(self._existing(path).cache)

    def replace(self, path: Path, data: bytes) -> None:
        self._in_directory(path)
        new = path.with_name(path.name + ".new")
        written = _Inode(bytearray(data), bytearray(data))

        def left_behind() -> None:
            part = data[: self._random.randrange(len(data) + 1)]
            self._files[new] = _Inode(bytearray(part), bytearray(part))

        self.call("replace", path, left_behind)
        self.take_space(len(data))
        self._files[path] = written
        self._files.pop(new, None)

    def rename(self, old: Path, new: Path) -> None:
        inode = self._files.get(old)
        replaced = self._files.get(new)

        def undo() -> None:
            if inode is not None:
                self._files[old] = inode
            if replaced is None:
                self._files.pop(new, None)
            else:
                self._files[new] = replaced

        def do() -> None:
            self._existing(old)
            self._in_directory(new)
            self._files[new] = self._files.pop(old)

        self._change("rename", old, do, undo)

    def remove(self, path: Path) -> None:
        inode = self._files.get(path)

        def undo() -> None:
            if inode is not None:
                self._files[path] = inode

        def do() -> None:
            self._existing(path)
            del self._files[path]

        self._change("remove", path, do, undo)

    def lock(self, path: Path, holder: str) -> Lock:
        self.call("lock", path)
        self._in_directory(path)
        if path in self._locked:
            raise LockHeld(self.contents(path).decode())
        self._files[path] = _Inode(bytearray(holder.encode()), bytearray(holder.encode()))
        self._locked.add(path)
        return _SimulatedLock(self, path)

    def unlock(self, path: Path) -> None:
        """For locks of this disk."""
        self._refuse_if_stopped()
        self._locked.discard(path)
        self._files[path] = _Inode(bytearray(), bytearray())

    def _handle(self, path: Path, *, writable: bool) -> DataFile:
        handle = _SimulatedFile(self, path, self._files[path], writable=writable)
        self._handles.add(handle)
        return handle

    def _existing(self, path: Path) -> _Inode:
        inode = self._files.get(path)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        return inode

    def _in_directory(self, path: Path) -> None:
        if path.parent not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", str(path.parent))

    # ---- for the handles ---------------------------------------------------------------------------------------

    def write(self, path: Path, inode: _Inode, write: _Write) -> None:
        """Write into the cache."""

        def short() -> None:
            self._into_cache(inode, _Write(write.offset, write.data[: self._random.randrange(len(write.data) + 1)]))

        self.call("write", path, short)
        self.take_space(write.offset + len(write.data) - len(inode.cache))
        self._into_cache(inode, write)

    def _into_cache(self, inode: _Inode, write: _Write) -> None:
        if write.data:
            _put(inode.cache, write.offset, write.data)
            inode.dirty.append(write)

    def read_at(self, path: Path, inode: _Inode, offset: int, length: int) -> bytes:
        """Read from the cache."""
        self.call("read", path)
        return bytes(inode.cache[offset : offset + length])

    def sync(self, path: Path, inode: _Inode) -> None:
        """Bring the file from the cache to the medium."""

        def drop() -> None:
            if self._is_stopped:
                return  # the power cut or the kill says what becomes of them
            for write in self._prefix(inode.dirty):
                _put(inode.medium, write.offset, write.data)
            inode.dirty.clear()

        self.call("sync", path, drop)
        for write in inode.dirty:
            _put(inode.medium, write.offset, write.data)
        inode.dirty.clear()

    def closed(self, handle: "_SimulatedFile") -> None:
        """A handle has been closed."""
        self._handles.discard(handle)

    def take_space(self, more_bytes: int) -> None:
        """Raise ENOSPC if there are not *more_bytes*."""
        if more_bytes > 0 and self.used_bytes + more_bytes > self.capacity_bytes:
            raise OSError(errno.ENOSPC, f"the disk of {self.capacity_bytes} bytes is full")

    # ---- faults ------------------------------------------------------------------------------------------------

    def _change(self, operation: Operation, path: Path, do: Callable[[], None], undo: Callable[[], None]) -> None:
        """A change of the directory: one that failed when it was to be synced may be undone by a power cut."""

        def unsynced() -> None:
            do()
            self._undo.append(undo)

        self.call(operation, path, unsynced)
        do()

    def call(self, operation: Operation, path: Path, part: Callable[[], None] | None = None) -> None:
        """Write down the call, then fail if it is to. *part* is what a call that fails in the middle has done.

        Also for what is beside the disk and shall fail and stop with it: "commit" is a commit of an index.
        """
        self._refuse_if_stopped()
        call = Call(len(self.calls) + 1, operation, path)
        self.calls.append(call)
        self._stop_if_due(part)
        for fault in self._faults:
            if fault.operation not in (operation, "any"):
                continue
            if fault.skip:
                fault.skip -= 1
            elif fault.times:
                fault.times -= 1
                self.failed_calls += 1
                if fault.effect is Effect.PARTLY and part is not None:
                    part()
                raise OSError(fault.error, f"simulated {errno.errorcode[fault.error]} in call {call}", str(path))

    def _stop_if_due(self, part: Callable[[], None] | None) -> None:
        if self._stop_in is None:
            return
        self._stop_in -= 1
        if self._stop_in > 0:
            return
        self._stop_in = None
        self._is_stopped = True
        if part is not None and self._random.random() < 0.5:
            part()
        raise Stopped

    def _refuse_if_stopped(self) -> None:
        if self._is_stopped:
            raise Stopped


@final
class _SimulatedFile:
    """Implements `DataFile`; dead after a crash."""

    def __init__(self, disk: SimulatedDisk, path: Path, inode: _Inode, *, writable: bool) -> None:
        self._disk = disk
        self.path = path
        self._inode = inode
        self._writable = writable
        self._generation = disk.generation
        self._is_closed = False

    def write(self, data: bytes, offset: int) -> None:
        self._check()
        if not self._writable:
            raise OSError(errno.EBADF, "the file is open for reading only", str(self.path))
        self._disk.write(self.path, self._inode, _Write(offset, bytes(data)))

    def read(self, offset: int, length: int) -> bytes:
        self._check()
        return self._disk.read_at(self.path, self._inode, offset, length)

    def read_cached(self, offset: int, length: int) -> bytes | None:
        self._check()
        return self._disk.read_at(self.path, self._inode, offset, length) if self._disk.has_cache else None

    def expect_read(self, offset: int, length: int) -> None:  # noqa: ARG002 - a hint
        self._check()

    def sync(self) -> None:
        self._check()
        self._disk.sync(self.path, self._inode)

    @property
    def size_bytes(self) -> int:
        self._check()
        return len(self._inode.cache)

    def close(self) -> None:
        if self._generation != self._disk.generation:
            return  # the process it belonged to has gone
        if self._is_closed:
            raise OSError(errno.EBADF, "the file is closed already", str(self.path))
        self._is_closed = True
        self._disk.closed(self)

    def _check(self) -> None:
        if self._generation != self._disk.generation:
            raise OSError(errno.EBADF, "the process of this handle has gone", str(self.path))
        if self._is_closed:
            raise OSError(errno.EBADF, "the file is closed", str(self.path))


@final
class _SimulatedLock:
    """Implements `Lock`."""

    def __init__(self, disk: SimulatedDisk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._generation = disk.generation

    def release(self) -> None:
        if self._generation == self._disk.generation:
            self._disk.unlock(self._path)


def _settle(inode: _Inode, survivors: list[_Write]) -> None:
    for write in survivors:
        _put(inode.medium, write.offset, write.data)
    inode.dirty.clear()
    inode.cache[:] = inode.medium


def _put(place: bytearray, offset: int, data: bytes) -> None:
    if len(place) < offset:
        place.extend(bytes(offset - len(place)))
    place[offset : offset + len(data)] = data


def _sectors(write: _Write) -> list[_Write]:
    """*write*, cut where sectors of the file end."""
    pieces = []
    offset, end = write.offset, write.offset + len(write.data)
    while offset < end:
        stop = min(offset - offset % SECTOR_BYTES + SECTOR_BYTES, end)
        pieces.append(_Write(offset, write.data[offset - write.offset : stop - write.offset]))
        offset = stop
    return pieces

"""Every file call of a store, behind one seam: tests swap in a disk that fails, loses power, or is full.

What is promised: `DataFile.write` writes everything or raises; `sync` returns when the file's bytes are on the medium;
`create`, `rename`, `remove` and `replace` return when the change of the directory is there too. Errors are `OSError`.
"""

import errno
import fcntl
import os
import struct
import sys
from pathlib import Path
from typing import Final, NamedTuple, Protocol, final

_MODE = 0o640
_FLOCK: Final = "hhqqi0q"
"""`struct flock` of Linux, with 64-bit offsets."""


class DataFile(Protocol):
    """An open file with fixed positions."""

    def write(self, data: bytes, offset: int) -> None:
        """Write all of *data* at *offset*."""
        ...

    def read(self, offset: int, length: int) -> bytes:
        """Up to *length* bytes from *offset*; fewer at the end of the file only."""
        ...

    def read_cached(self, offset: int, length: int) -> bytes | None:
        """*length* bytes from *offset*, if they are in memory; None if they must be read from the medium, or that is
        not known."""
        ...

    def expect_read(self, offset: int, length: int) -> None:
        """These bytes will be read soon: a hint."""
        ...

    def sync(self) -> None:
        """Return when all that was written is on the medium."""
        ...

    @property
    def size_bytes(self) -> int: ...

    def close(self) -> None: ...


class Lock(Protocol):
    """A lock that is held."""

    def release(self) -> None: ...


class LockHeld(Exception):
    """Somebody else holds the lock. *written* is what the holder wrote about itself: a line for people, and perhaps
    one with the URI where its clients connect."""

    def __init__(self, written: str) -> None:
        holder, _, uri = written.partition("\n")
        super().__init__(holder)
        self.holder = holder
        self.uri = uri.strip()


class Identity(NamedTuple):
    """The identity of a file or directory: device and inode."""

    device: int
    inode: int


class Directory(Protocol):
    """A directory that is watched for changes of its names."""

    def changed_ns(self) -> tuple[int, int]:
        """When a name was last added, removed or replaced in it, and when it was itself renamed or removed. Cheap:
        asked with each sync."""
        ...

    def close(self) -> None: ...


class Files(Protocol):
    """A file system."""

    def names(self, directory: Path) -> list[str]:
        """What is in *directory*, sorted; nothing if it does not exist."""
        ...

    def make_directory(self, directory: Path) -> None:
        """Make *directory* and its parents; it may exist."""
        ...

    def create(self, path: Path, size_bytes: int) -> DataFile:
        """A new file of *size_bytes* zeros whose space is taken. Refused if it exists."""
        ...

    def open(self, path: Path, *, writable: bool = True) -> DataFile: ...

    def read(self, path: Path) -> bytes:
        """A whole small file."""
        ...

    def replace(self, path: Path, data: bytes) -> None:
        """Replace the content of a small file: readers see the old bytes or the new ones."""
        ...

    def rename(self, old: Path, new: Path) -> None: ...

    def remove(self, path: Path) -> None: ...

    def exists(self, path: Path) -> bool: ...

    def identity(self, path: Path) -> Identity | None:
        """What is at *path* now; None if there is nothing, or it cannot be reached."""
        ...

    def watch(self, directory: Path) -> Directory:
        """*directory*, to be asked whether it has changed."""
        ...

    def touch(self, directory: Path) -> None:
        """Let those who watch *directory* see a change."""
        ...

    def inodes(self, directory: Path) -> dict[str, int]:
        """The files in *directory*, each with a number that no other file has at the same time."""
        ...

    def free_bytes(self, directory: Path) -> int:
        """The free bytes of the file system."""
        ...

    def lock(self, path: Path, holder: str) -> Lock:
        """Lock *path* for this process, and write *holder* into it. Raises `LockHeld`."""
        ...


@final
class _OsFile:
    """Implements `DataFile` with positions of its own, so that a thread may write while another reads."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, data: bytes, offset: int) -> None:
        written = os.pwrite(self._descriptor, data, offset)
        if written == len(data):
            return
        view = memoryview(data)
        while written < len(data):
            more = os.pwrite(self._descriptor, view[written:], offset + written)
            if more == 0:
                raise OSError(errno.EIO, "nothing was written")
            written += more

    def read(self, offset: int, length: int) -> bytes:
        data = os.pread(self._descriptor, length, offset)
        while len(data) < length:
            more = os.pread(self._descriptor, length - len(data), offset + len(data))
            if not more:
                break
            data += more
        return data

    def read_cached(self, offset: int, length: int) -> bytes | None:
        data = bytearray(length)
        try:
            count = os.preadv(self._descriptor, [data], offset, os.RWF_NOWAIT)
        except OSError:  # not in memory, or the file system cannot tell
            return None
        return bytes(data) if count == length else None

    def expect_read(self, offset: int, length: int) -> None:
        os.posix_fadvise(self._descriptor, offset, length, os.POSIX_FADV_WILLNEED)

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    @property
    def size_bytes(self) -> int:
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        os.close(self._descriptor)


@final
class _OsDirectory:
    """Implements `Directory`: file systems set the second time when a directory is renamed or removed."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def changed_ns(self) -> tuple[int, int]:
        info = os.fstat(self._descriptor)
        return info.st_mtime_ns, info.st_ctime_ns

    def close(self) -> None:
        os.close(self._descriptor)


@final
class HeldElsewhere:
    """Implements `Lock` for a store whose lock somebody else of this process holds, and keeps when the store is
    closed."""

    def release(self) -> None:
        """It is not the store's to give back."""


@final
class OsLock:
    """A lock on a file, which belongs to one open descriptor (F_OFD_SETLK).

    It excludes programs that lock by fcntl, as Java does, and is excluded by them. Unlike theirs it is not lost when
    this process opens and closes the same file again. Earlier versions locked by flock, which is another kind of lock,
    so both are taken.
    """

    __slots__ = ("_descriptor", "_path", "_written")

    def __init__(self, descriptor: int, path: Path, written: bytes) -> None:
        self._descriptor = descriptor
        self._path = path.absolute()
        self._written = written

    def trouble(self) -> str | None:
        """What is wrong with the lock; None while it excludes others. To be asked now and then: a lock file may be
        removed or replaced, and a file server may forget a lock."""
        try:
            if not _is_at(self._path, self._descriptor):
                return f"{self._path} is gone, or was replaced"
            if not _lock_range(self._descriptor):
                return f"another program has locked {self._path}"
            if os.pread(self._descriptor, len(self._written) + 1, 0) != self._written:
                return f"another program has written to {self._path}"
        except OSError as error:
            return f"{self._path}: {(error.strerror or str(error)).lower()}"
        return None

    def release(self) -> None:
        try:
            if self.trouble() is None:  # else the file may be another program's
                os.ftruncate(self._descriptor, 0)
        finally:
            os.close(self._descriptor)


@final
class OsFiles:
    """The real file system."""

    def names(self, directory: Path) -> list[str]:
        try:
            return sorted(os.listdir(directory))
        except FileNotFoundError:
            return []

    def make_directory(self, directory: Path) -> None:
        missing = [it for it in (directory, *directory.parents) if not it.exists()]
        directory.mkdir(parents=True, exist_ok=True)
        for made in reversed(missing):
            _sync_directory(made.parent)

    def create(self, path: Path, size_bytes: int) -> DataFile:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
        try:
            if size_bytes:
                os.posix_fallocate(descriptor, 0, size_bytes)
            os.fsync(descriptor)
            _sync_directory(path.parent)
        except OSError:
            os.close(descriptor)
            os.unlink(path)
            raise
        return _OsFile(descriptor)

    def open(self, path: Path, *, writable: bool = True) -> DataFile:
        return _OsFile(os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC))

    def read(self, path: Path) -> bytes:
        return path.read_bytes()

    def replace(self, path: Path, data: bytes) -> None:
        new = path.with_name(path.name + ".new")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _MODE)
        file = _OsFile(descriptor)
        try:
            file.write(data, 0)
            os.fsync(descriptor)
        finally:
            file.close()
        self.rename(new, path)

    def rename(self, old: Path, new: Path) -> None:
        os.rename(old, new)
        _sync_directory(new.parent)

    def remove(self, path: Path) -> None:
        os.unlink(path)
        _sync_directory(path.parent)

    def exists(self, path: Path) -> bool:
        return path.exists()

    def identity(self, path: Path) -> Identity | None:
        try:
            info = os.stat(path)
        except OSError:
            return None
        return Identity(info.st_dev, info.st_ino)

    def watch(self, directory: Path) -> Directory:
        return _OsDirectory(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))

    def touch(self, directory: Path) -> None:
        os.utime(directory)

    def inodes(self, directory: Path) -> dict[str, int]:
        with os.scandir(directory) as entries:
            return {entry.name: entry.inode() for entry in entries}

    def free_bytes(self, directory: Path) -> int:
        info = os.statvfs(directory)
        return info.f_bavail * info.f_frsize

    def lock(self, path: Path, holder: str) -> OsLock:
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
            try:
                if not _try_lock(descriptor):
                    raise LockHeld(_written_by_holder(descriptor))
                if _is_at(path, descriptor):  # else it was removed or replaced since it was opened
                    written = holder.encode()
                    os.ftruncate(descriptor, 0)
                    os.pwrite(descriptor, written, 0)
                    return OsLock(descriptor, path, written)
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return _lock_range(descriptor)


def _lock_range(descriptor: int) -> bool:
    """Lock the whole file by fcntl, or find that this descriptor has that lock already."""
    if sys.platform != "linux":
        return True
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _flock(fcntl.F_WRLCK))
    except (BlockingIOError, PermissionError):  # EAGAIN or EACCES, as the file system likes
        return False
    return True


def _flock(kind: int, pid: int = 0) -> bytes:
    """`struct flock` for a whole file: type, whence, start, length, process."""
    return struct.pack(_FLOCK, kind, os.SEEK_SET, 0, 0, pid)


def _written_by_holder(descriptor: int) -> str:
    """What the holder of a lock has written about itself, or what the system knows of it."""
    written = os.pread(descriptor, 4096, 0)
    if written and written[0]:
        return written.decode(errors="replace").strip()
    pid = 0
    if sys.platform == "linux":  # ActiveMQ writes the time, as 8 bytes
        found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _flock(fcntl.F_WRLCK))
        kind, _, _, _, pid = struct.unpack(_FLOCK, found)
        pid = pid if kind != fcntl.F_UNLCK else 0
    kind_of_program = "ActiveMQ" if written else "another program"
    return f"{kind_of_program}, process {pid}" if pid > 0 else kind_of_program


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether the open file is what is at *path* now."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""`DiskBuffer`: a buffer whose messages are still there when the process is not. docs/formats/buffer.md has the bytes.

A folder with numbered files that only grow, and a small one that says up to where everything has arrived. An entry is
in the file before `append` returns: a killed process loses nothing. With *fsync* it is on the medium, so that a loss of
power loses nothing either. Removing is lazy: after a crash some entries that had arrived may be there again, never the
other way round.

What is found at the start decides by one rule. The beginning of a record whose end is missing is a write that never
finished: it is cut off. Anything else that is wrong is damage: it is copied to a file beside, said in the log, and
skipped.
"""

import fcntl
import logging
import os
import threading
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from io import FileIO
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from ackwire.client.buffers import ENTRY_BYTES, BufferFull, Entry, first_of
from ackwire.client.errors import IllegalStateError

_log = logging.getLogger(__name__)

DISK_BYTES_MAX: Final = 1024 * 1024 * 1024
FILE_BYTES: Final = 8 * 1024 * 1024
"""A file that is larger is not written to any more; it goes when all in it has arrived."""
EMPTY_FILE_BYTES: Final = 1024 * 1024
"""A file of this size is left for a new one as soon as all in it has arrived."""

MAGIC: Final = b"ACKWIREB\x00\x01"
RECORD: Final = Struct(">IQII")  # length of the data, when it was sent, checksum of the data; checksum of those
POSITION: Final = Struct(">QQQI")  # generation, file, offset; checksum of those
_CHECKED: Final = RECORD.size - 4
_MODE: Final = 0o600  # only the user who sends may read the messages

assert RECORD.size == ENTRY_BYTES


class _Place(NamedTuple):
    """Where a record begins."""

    file: int
    offset: int


class _Record(NamedTuple):
    sent_ms: int
    data: bytes
    end: int


class DiskBuffer:
    """Implements `MessageBuffer` in *folder*, which one buffer of one process uses at a time."""

    survives = True

    def __init__(
        self,
        folder: str | os.PathLike[str],
        bytes_max: int = DISK_BYTES_MAX,
        *,
        fsync: bool = False,
        file_bytes: int = FILE_BYTES,
    ) -> None:
        self.bytes_max = bytes_max
        self.waits_for_disk = fsync
        self._folder = Path(folder)
        self._fsync = fsync
        self._file_bytes = file_bytes
        self._lock = threading.Lock()
        self._files: dict[int, FileIO] = {}
        self._ends: dict[int, int] = {}
        """Up to where each file can be read."""
        self._skips: dict[_Place, int] = {}
        """Damage: where it begins and where it ends."""
        self._arrived: set[int] = set()
        """Entries behind the first one that were removed before it."""
        self._count = self._size_bytes = 0
        self._head_sequence = 0
        self._generation = 0
        self._closed = False
        self._oldest_at_end: int | None = None
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock_file = _locked(self._folder)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    @property
    def where(self) -> str:
        return str(self._folder)

    @property
    def count(self) -> int:
        return self._count - len(self._arrived)

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    @property
    def oldest_ms(self) -> int | None:
        with self._lock:
            return self._oldest_ms()

    def append(self, data: bytes, sent_ms: int) -> None:
        with self._lock:
            self._check_open()
            if self._size_bytes + len(data) + ENTRY_BYTES > self.bytes_max:
                raise BufferFull
            try:
                if self._ends[self._last] >= self._file_bytes:
                    self._begin_file()
                self._write(_record(data, sent_ms))
            except OSError as error:
                raise BufferFull(error) from error
            self._count += 1
            self._size_bytes += len(data) + ENTRY_BYTES

    def first(self, count_max: int, bytes_max: int) -> list[Entry]:
        with self._lock:
            self._check_open()
            return first_of((entry for _, entry in self._walk()), count_max, bytes_max)

    def remove(self, sequences: Iterable[int]) -> None:
        with self._lock:
            self._check_open()
            self._arrived.update(sequence for sequence in sequences if sequence >= self._head_sequence)
            head = self._head
            while self._head_sequence in self._arrived:
                self._drop_first()
            if self._head != head:
                self._write_position()
                self._drop_files()

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            with suppress(Exception):  # only for people to see
                self._oldest_at_end = self._oldest_ms()
            self._closed = True
            for file in self._files.values():
                file.close()
            with suppress(AttributeError):  # opening failed before there was one
                self._position_file.close()
            self._lock_file.truncate(0)
            self._lock_file.close()

    # ---- opening -------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        descriptor = os.open(self._folder / "position", os.O_RDWR | os.O_CREAT, _MODE)
        self._position_file = FileIO(descriptor, "r+")
        position = self._read_position()
        numbers = sorted(int(path.stem) for path in self._folder.glob("*.buffer") if path.stem.isdecimal())
        self._last = max([position.file, *numbers])
        self._head = position
        for number in numbers:
            self._open_file(number, position)
        self._begin_file()
        self._head = self._settled(self._head)
        self._drop_files()

    def _open_file(self, number: int, position: _Place) -> None:
        if number < position.file:  # it had arrived, and the crash came before it was deleted
            self._path(number).unlink()
            return
        file = self._files[number] = FileIO(self._path(number), "r+")
        start = position.offset if number == position.file else len(MAGIC)
        if self._head.file < number and self._head.file not in self._files:
            self._head = _Place(number, start)
        self._ends[number] = self._scan(number, file, max(start, len(MAGIC)))

    def _scan(self, number: int, file: FileIO, start: int) -> int:
        """Count what is in *file* from *start* on; its end, behind the last record that is whole."""
        size = os.fstat(file.fileno()).st_size
        head = os.pread(file.fileno(), len(MAGIC), 0)
        if head != MAGIC:
            if not MAGIC.startswith(head):
                self._set_aside(number, 0, size)
            return 0
        offset = start
        while offset < size:
            record = _read(file, offset)
            if isinstance(record, _Record):
                self._count += 1
                self._size_bytes += record.end - offset
                offset = record.end
            elif record > size or size - offset < RECORD.size:
                _log.info("%s: the last %d bytes were never finished: cut", self._path(number), size - offset)
                os.ftruncate(file.fileno(), offset)
                return offset
            else:
                end = record or size
                self._set_aside(number, offset, end)
                self._skips[_Place(number, offset)] = end
                offset = end
        return offset

    def _set_aside(self, number: int, start: int, end: int) -> None:
        aside = self._folder / f"{number:010d}-{start}.damaged"
        aside.write_bytes(os.pread(self._files[number].fileno(), end - start, start))
        _log.error(
            "%s: bytes %d to %d are damaged; the messages in them are not sent, the bytes are in %s",
            self._path(number),
            start,
            end,
            aside,
        )

    # ---- reading -------------------------------------------------------------------------------------------------

    def _settled(self, place: _Place) -> _Place:
        """Where the next record is that can be read, from *place* on; the end of the last file if there is none."""
        while True:
            if place in self._skips:
                place = _Place(place.file, self._skips[place])
            elif place.file != self._last and place.offset >= self._ends.get(place.file, 0):
                following = min(number for number in self._files if number > place.file)
                place = _Place(following, len(MAGIC))
            else:
                return place

    def _walk(self) -> Iterator[tuple[_Place, Entry]]:
        """Every entry that has not arrived, with the place behind it."""
        place, sequence = self._settled(self._head), self._head_sequence
        while place.offset < self._ends[place.file]:
            record = _read(self._files[place.file], place.offset)
            if not isinstance(record, _Record):
                raise OSError(
                    f"{self._path(place.file)}: the record at {place.offset} has changed since it was written"
                )
            place = self._settled(_Place(place.file, record.end))
            if sequence not in self._arrived:
                yield place, Entry(sequence, record.sent_ms, record.data)
            sequence += 1

    def _oldest_ms(self) -> int | None:
        return self._oldest_at_end if self._closed else next((entry.sent_ms for _, entry in self._walk()), None)

    def _drop_first(self) -> None:
        length = RECORD.unpack(os.pread(self._files[self._head.file].fileno(), RECORD.size, self._head.offset))[0]
        self._arrived.remove(self._head_sequence)
        self._head_sequence += 1
        self._head = self._settled(_Place(self._head.file, self._head.offset + RECORD.size + length))
        self._count -= 1
        self._size_bytes -= RECORD.size + length

    def _drop_files(self) -> None:
        """Delete files in which everything has arrived."""
        if self._count == 0 and self._ends[self._last] >= EMPTY_FILE_BYTES:
            with suppress(OSError):  # a full disk: it goes on with the old one
                self._begin_file()
                self._head = self._settled(self._head)
        for number in [number for number in self._files if number < self._head.file]:
            self._files.pop(number).close()
            self._ends.pop(number)
            self._path(number).unlink()

    # ---- writing -------------------------------------------------------------------------------------------------

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:010d}.buffer"

    def _begin_file(self) -> None:
        """Numbers are never used again: an old position cannot point into a new file."""
        number = self._last + 1
        descriptor = os.open(self._path(number), os.O_RDWR | os.O_CREAT | os.O_EXCL, _MODE)
        file = FileIO(descriptor, "r+")
        try:
            _write_all(file, MAGIC, 0)
            if self._fsync:
                os.fdatasync(descriptor)
                _sync_folder(self._folder)
        except OSError:
            file.close()
            self._path(number).unlink()
            raise
        self._last = number
        self._files[number] = file
        self._ends[number] = len(MAGIC)
        if self._count == 0:
            self._head = _Place(number, len(MAGIC))

    def _write(self, record: bytes) -> None:
        file, end = self._files[self._last], self._ends[self._last]
        try:
            _write_all(file, record, end)
            if self._fsync:
                os.fdatasync(file.fileno())
        except OSError:
            # Part of it may be there: nothing may come behind it, and it must not be taken for a message later.
            os.ftruncate(file.fileno(), end)
            raise
        self._ends[self._last] = end + len(record)

    def _check_open(self) -> None:
        if self._closed:
            raise IllegalStateError(f"the buffer in {self._folder} is closed")

    # ---- the position --------------------------------------------------------------------------------------------

    def _read_position(self) -> _Place:
        """The newer of the two slots; a torn one is none."""
        newest = _Place(0, len(MAGIC))
        for slot in range(2):
            data = os.pread(self._position_file.fileno(), POSITION.size, slot * POSITION.size)
            if len(data) == POSITION.size and zlib.crc32(data[:-4]) == POSITION.unpack(data)[3]:
                generation, file, offset, _ = POSITION.unpack(data)
                if generation > self._generation:
                    self._generation = generation
                    newest = _Place(file, offset)
        return newest

    def _write_position(self) -> None:
        self._generation += 1
        slot = self._generation % 2
        fields = POSITION.pack(self._generation, *self._head, 0)[:-4]
        with suppress(OSError):  # then some that have arrived are sent again after a crash
            _write_all(self._position_file, fields + zlib.crc32(fields).to_bytes(4, "big"), slot * POSITION.size)


def _record(data: bytes, sent_ms: int) -> bytes:
    head = RECORD.pack(len(data), sent_ms, zlib.crc32(data), 0)[:_CHECKED]
    return head + zlib.crc32(head).to_bytes(4, "big") + data


def _read(file: FileIO, offset: int) -> "_Record | int":
    """The record at *offset*; where it should end, if its data is not what it was; 0, if that is not known either."""
    head = os.pread(file.fileno(), RECORD.size, offset)
    if len(head) < RECORD.size or zlib.crc32(head[:_CHECKED]) != RECORD.unpack(head)[3]:
        return 0
    length, sent_ms, checksum, _ = RECORD.unpack(head)
    end: int = offset + RECORD.size + length
    data = os.pread(file.fileno(), length, offset + RECORD.size)
    return _Record(sent_ms, data, end) if len(data) == length and zlib.crc32(data) == checksum else end


def _write_all(file: FileIO, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file.fileno(), view, offset)
        view = view[written:]
        offset += written


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _locked(folder: Path) -> FileIO:
    file = FileIO(os.open(folder / "lock", os.O_RDWR | os.O_CREAT, _MODE), "r+")
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(file.fileno(), 64, 0).decode(errors="replace").strip() or "unknown"
        file.close()
        raise IllegalStateError(f"{folder} is in use by another buffer, of process {holder}") from None
    os.ftruncate(file.fileno(), 0)
    os.pwrite(file.fileno(), str(os.getpid()).encode(), 0)
    return file

"""The temp store: non-persistent messages that memory has no room for, spilled to disk (SEMANTICS B6, B7).

Frames are appended to files of some 32 MiB, each behind its length and checksum; a ticket is the number of the file and
the place in it. A file goes when nothing in it is needed any more. Nothing is synced: after a crash it is not read.
"""

import logging
import re
from pathlib import Path
from struct import Struct
from typing import Final, final

from crc32c import crc32c

from ackwire.config.types import MIB
from ackwire.store.contract import SpillDamaged
from ackwire.store.files import DataFile, Files

FILE_BYTES: Final = 32 * MIB
"""When a file has this size the next one is begun; one long frame may take it beyond."""
_FILES_MAX: Final = 256
"""Files open at once: where the limit needs more of them, they are larger instead."""

_HEAD: Final = Struct(">II")
"""Length and checksum of the frame behind it."""
_READ_BYTES: Final = 4096
"""Read at once: head and frame of most messages."""
_OURS: Final = re.compile(r"spill-[0-9]+\.tmp")
_OFFSET_BITS: Final = 40
_OFFSET_MASK: Final = (1 << _OFFSET_BITS) - 1
_CALLS_BEFORE_RETRY: Final = 256
"""After the disk has refused, so many calls of `append` are answered without asking it again."""

_log = logging.getLogger(__name__)


@final
class _SpillFile:
    __slots__ = ("end", "file", "live", "number", "path")

    def __init__(self, number: int, path: Path, file: DataFile) -> None:
        self.number = number
        self.path = path
        self.file = file
        self.end = 0
        self.live = 0
        """Tickets that are not freed."""


@final
class TempStore:
    """Implements `Spill` in one directory, of which it owns the files that bear its name."""

    def __init__(self, files: Files, directory: Path, bytes_max: int, *, file_bytes: int = FILE_BYTES) -> None:
        self._files = files
        self._directory = directory
        self._bytes_max = bytes_max
        self._file_bytes = max(file_bytes, bytes_max // _FILES_MAX)
        self._spills: dict[int, _SpillFile] = {}
        self._writing: _SpillFile | None = None
        self._last_number = 0
        self._used_bytes = 0
        self._calls_before_retry = 0
        """Above 0: the disk has refused."""
        self._is_refusal_known = False
        files.make_directory(directory)
        for name in files.names(directory):
            if _OURS.fullmatch(name):
                files.remove(directory / name)

    @property
    def used_bytes(self) -> int:
        """Bytes in files, those of freed frames beside others included."""
        return self._used_bytes

    @property
    def bytes_max(self) -> int:
        return self._bytes_max

    def has_room(self, size_bytes: int) -> bool:
        """Whether a frame of that size fits below the limit, and the disk has not refused lately."""
        return not self._calls_before_retry and self._used_bytes + _HEAD.size + size_bytes <= self._bytes_max

    def append(self, frame: bytes) -> int | None:
        """Write *frame*; None if it is over the limit or the disk refuses it."""
        size_bytes = _HEAD.size + len(frame)
        if self._used_bytes + size_bytes > self._bytes_max or self._is_refused():
            return None
        try:
            spill = self._file_to_write()
            spill.file.write(_HEAD.pack(len(frame), crc32c(frame)) + frame, spill.end)
        except OSError as error:
            self._refuse(error)
            return None
        ticket = (spill.number << _OFFSET_BITS) + spill.end + 1
        spill.end += size_bytes
        spill.live += 1
        self._used_bytes += size_bytes
        self._is_refusal_known = False
        return ticket

    def _is_refused(self) -> bool:
        if self._calls_before_retry:
            self._calls_before_retry -= 1
        return self._calls_before_retry > 0

    def _refuse(self, error: OSError) -> None:
        self._calls_before_retry = _CALLS_BEFORE_RETRY
        if not self._is_refusal_known:
            self._is_refusal_known = True
            _log.error("%s takes no more spilled messages: %s", self._directory, error.strerror or error)

    def _file_to_write(self) -> _SpillFile:
        spill = self._writing
        if spill is None or spill.end >= self._file_bytes:
            number = self._last_number + 1
            path = self._directory / f"spill-{number:08}.tmp"
            spill = _SpillFile(number, path, self._files.create(path, 0))
            self._last_number = number
            self._spills[number] = self._writing = spill
        return spill

    def read(self, ticket: int) -> bytes:
        spill = self._spills[ticket >> _OFFSET_BITS]
        start = (ticket & _OFFSET_MASK) - 1
        try:
            data = spill.file.read(start, min(_READ_BYTES, spill.end - start))
            if len(data) < _HEAD.size:
                raise SpillDamaged(f"{spill.path} ends before {start}, where a message was written")
            length, checksum = _HEAD.unpack_from(data)
            missing = start + _HEAD.size + length
            if missing > spill.end:
                raise SpillDamaged(f"{spill.path} is damaged at {start}: a message would end at {missing}")
            frame = data[_HEAD.size : _HEAD.size + length]
            if len(frame) < length:
                frame += spill.file.read(start + len(data), length - len(frame))
        except OSError as error:
            raise SpillDamaged(f"{spill.path} cannot be read at {start}: {error.strerror or error}") from None
        if len(frame) != length or crc32c(frame) != checksum:
            raise SpillDamaged(f"{spill.path} is damaged at {start}: the checksum of {length} bytes is wrong")
        return frame

    def free(self, ticket: int) -> None:
        """Forget a frame, and its file with the last one in it. That may be room for a disk that had none."""
        spill = self._spills[ticket >> _OFFSET_BITS]
        spill.live -= 1
        self._calls_before_retry = 0
        if spill.live:
            return
        self._used_bytes -= spill.end
        if spill is self._writing and spill.end < self._file_bytes:
            spill.end = 0  # written again from its beginning
            return
        if spill is self._writing:
            self._writing = None
        del self._spills[spill.number]
        self._drop(spill)

    def _drop(self, spill: _SpillFile) -> None:
        try:
            spill.file.close()
            self._files.remove(spill.path)
        except OSError as error:
            _log.warning("%s stays behind until the next start: %s", spill.path, error.strerror or error)

    def close(self) -> None:
        for spill in self._spills.values():
            self._drop(spill)
        self._spills.clear()
        self._writing = None
        self._used_bytes = 0

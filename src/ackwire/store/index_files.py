"""The files of an index, whatever wrote them: which kind it is, what belongs to it, its seal, and how it is removed.

An index of either kind is in `DATA/index`, and its seal in `DATA/index.sum`. So there is never more than one, and none
is left behind that a later start could believe.
"""

import re
import shutil
from enum import Enum
from pathlib import Path
from typing import Final, final

from crc32c import crc32c

from ackwire.store.index import DamagedIndex, OtherIndex, UnavailableIndex


class IndexKind(Enum):
    """What an index is written with; the values are those of the setting `store.index`."""

    LMDB = "lmdb"
    LEVELDB = "leveldb"

    @property
    def title(self) -> str:
        """Its proper name."""
        return _TITLES[self]


_TITLES: Final = {IndexKind.LMDB: "LMDB", IndexKind.LEVELDB: "LevelDB"}
_MARKERS: Final = {IndexKind.LMDB: "data.mdb", IndexKind.LEVELDB: "CURRENT"}
"""The file without which there is no index of that kind."""
_LEVELDB_NOT_CONTENT: Final = frozenset(("LOCK", "LOG", "LOG.old"))
"""Files in which LevelDB keeps nothing that a start needs: its lock, and the text of what it did."""
_READ_BYTES: Final = 1 << 20
"""How much of a file is read at once for its checksum."""


def kind_of(directory: Path) -> IndexKind | None:
    """The kind of the index in *directory*; None if there is none. LMDB, if there are files of both."""
    return next((kind for kind, marker in _MARKERS.items() if (directory / marker).exists()), None)


def require_kind(directory: Path, kind: IndexKind) -> None:
    """Raises `OtherIndex` if *directory* has files of an index that is not of this *kind*."""
    for other, marker in _MARKERS.items():
        if other is not kind and (directory / marker).exists():
            raise OtherIndex(f"it is an index of {other.title}, and not of {kind.title}")


def content_files(directory: Path) -> list[Path]:
    """The files that hold what an index holds."""
    kind = kind_of(directory)
    if kind is None:
        return []
    if kind is IndexKind.LMDB:
        return [directory / _MARKERS[kind]]
    return sorted(it for it in directory.iterdir() if it.is_file() and it.name not in _LEVELDB_NOT_CONTENT)


def content_bytes(directory: Path) -> int:
    """The size of those files."""
    return sum(_size_bytes(it) for it in content_files(directory))


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # LevelDB has merged it into another meanwhile
        return 0


def seal_path(directory: Path) -> Path:
    return directory.with_name(directory.name + ".sum")


def copy_index(source: Path, target: Path) -> None:
    """Copy the index in *source*, and its seal, if they are there."""
    files = content_files(source)
    if files:
        target.mkdir()
    for path in files:
        shutil.copyfile(path, target / path.name)
    if seal_path(source).exists():
        shutil.copyfile(seal_path(source), seal_path(target))


def remove_index(directory: Path) -> None:
    """Remove an index of any kind. Raises `UnavailableIndex` if that cannot be done.

    The seal goes first, and then what makes it an index: a crash leaves nothing that could be believed.
    """
    try:
        seal_path(directory).unlink(missing_ok=True)
        for marker in _MARKERS.values():
            (directory / marker).unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UnavailableIndex(f"the index in {directory} cannot be removed: {reason}") from None
    shutil.rmtree(directory, ignore_errors=True)


def identity(path: Path) -> tuple[int, int] | None:
    """Device and inode; None if there is no such file."""
    try:
        info = path.stat()
    except OSError:
        return None
    return info.st_dev, info.st_ino


# ---- the seal --------------------------------------------------------------------------------------------------

_SEAL: Final = re.compile(rb"(crc32c [0-9a-f]{8})(?: ([0-9a-f]{8}))?\n")
"""The checksum of the files, and the checksum of that; older versions left out the second."""


@final
class Seal:
    """The checksum of an index's files, which a clean stop leaves beside them and the next start compares.

    It is removed before the files change. After a crash there is none, and the content of the index has to be checked;
    so also if the seal itself is damaged.
    """

    def __init__(self, directory: Path) -> None:
        """Raises `DamagedIndex` if there is a seal, and the files in *directory* are not those that it was made for."""
        self._directory = directory
        self._path = seal_path(directory)
        self.damage: str | None = None
        """What is wrong with the seal, if there is one that cannot be read."""
        self._is_there = self._path.exists()
        self._text = self._path.read_bytes() if self._is_there else b""
        self.is_good = self._is_there and self._is_readable() and self._fits()

    def _is_readable(self) -> bool:
        match = _SEAL.fullmatch(self._text)
        if match is not None and match[2] in (None, _check_of(match[1])):
            return True
        self.damage = f"{self._path.name} is damaged ({self._text[:40]!r}): every entry of the index is checked"
        return False

    def _fits(self) -> bool:
        match = _SEAL.fullmatch(self._text)
        if match is None or match[1] != _checksum(self._directory):
            raise DamagedIndex("its file has changed since the last stop")
        return True

    def remove(self) -> None:
        """The files are about to change."""
        if self._is_there:
            self._path.unlink(missing_ok=True)
            self._is_there = False

    def put_back(self) -> None:
        """The change did not come about: if the files are still the same, the seal is, too."""
        if self._text and (not self.is_good or self._text.startswith(_checksum(self._directory))):
            self._path.write_bytes(self._text)

    def write(self) -> None:
        """Vouch for the files as they are now."""
        checksum = _checksum(self._directory)
        self._path.write_bytes(checksum + b" " + _check_of(checksum) + b"\n")


def _check_of(checksum: bytes) -> bytes:
    return b"%08x" % crc32c(checksum)


def _checksum(directory: Path) -> bytes:
    """Of the content of an index: of LMDB's file, or of all of LevelDB's with their names and sizes."""
    checksum = 0
    has_names = kind_of(directory) is IndexKind.LEVELDB
    for path in content_files(directory):
        if has_names:
            checksum = crc32c(f"{path.name} {path.stat().st_size}\n".encode(), checksum)
        with path.open("rb") as file:
            while chunk := file.read(_READ_BYTES):
                checksum = crc32c(chunk, checksum)
    return b"crc32c %08x" % checksum

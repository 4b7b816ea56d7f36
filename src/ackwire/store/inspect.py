"""Inspects a store that no broker uses, without changing it (SEMANTICS K2): what a start would find, and what the
journal alone says.

`StoreInspection` runs the very recovery that a start runs, on files that swallow every change and on an index that is
a copy, or new, in a directory for scratch. So a tool cannot judge otherwise than a start would. The caller holds the
store's lock.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, final

from ackwire.jms.message import Message
from ackwire.store.blocks import Entry
from ackwire.store.catalog import Catalog
from ackwire.store.checkpoint import Checkpoint, Position
from ackwire.store.contract import Kept, StoredForm
from ackwire.store.files import DataFile, Directory, Files, Identity, Lock
from ackwire.store.index import DamagedIndex, Index, UnavailableIndex
from ackwire.store.index_files import IndexKind, copy_index, kind_of, seal_path
from ackwire.store.indexes import open_index
from ackwire.store.journal.record import Damaged, read_record, seed_of, unpack_message
from ackwire.store.journal.recovery import Recovery
from ackwire.store.journal.recovery_report import UnusableStore
from ackwire.store.journal.segment import segment_numbers, segment_path
from ackwire.store.journal.state import read_message
from ackwire.store.probe import probe

QUARANTINE: Final = "quarantine"
REPORT: Final = "report.jsonl"
_LOCATED: Final = re.compile(r"([0-9]{10,20})-(?:([0-9]+)|header)(?:-tail)?\.bin")

Progress = Callable[[str, int, int], None]
"""Told what is being done, how many bytes of it are, and of how many."""


def no_progress(_what: str, _done: int, _all: int) -> None:
    """For those who do not wait."""


@final
class _ReadOnlyFile:
    """Implements `DataFile` on a file that is open for reading: writes go nowhere."""

    def __init__(self, file: DataFile) -> None:
        self._file = file
        self.read = file.read
        self.read_cached = file.read_cached
        self.expect_read = file.expect_read
        self.close = file.close

    def write(self, data: bytes, offset: int) -> None:
        """Not done."""

    def sync(self) -> None:
        """Nothing to do."""

    @property
    def size_bytes(self) -> int:
        return self._file.size_bytes


@final
class ReadOnlyFiles:
    """Implements `Files`: what would go to the quarantine goes to *scratch*, every other change goes nowhere."""

    def __init__(self, files: Files, data: Path, scratch: Path) -> None:
        self._files = files
        self._quarantine = data / QUARANTINE
        self._scratch = scratch

    def _there(self, path: Path) -> Path:
        return self._scratch / path.name if path.parent == self._quarantine else path

    def names(self, directory: Path) -> list[str]:
        return self._files.names(directory)

    def make_directory(self, directory: Path) -> None:
        """Not done: the quarantine is elsewhere, and there."""

    def create(self, path: Path, size_bytes: int) -> DataFile:
        raise AssertionError(f"an inspection makes no file of {size_bytes} bytes: {path}")

    def open(self, path: Path, *, writable: bool = True) -> DataFile:
        file = self._files.open(self._there(path), writable=False)
        return _ReadOnlyFile(file) if writable else file

    def read(self, path: Path) -> bytes:
        return self._files.read(self._there(path))

    def replace(self, path: Path, data: bytes) -> None:
        if path.parent == self._quarantine:
            self._files.replace(self._there(path), data)

    def rename(self, old: Path, new: Path) -> None:
        """Not done."""

    def remove(self, path: Path) -> None:
        """Not done."""

    def exists(self, path: Path) -> bool:
        return self._files.exists(self._there(path))

    def identity(self, path: Path) -> Identity | None:
        return self._files.identity(self._there(path))

    def watch(self, directory: Path) -> Directory:
        return self._files.watch(directory)

    def touch(self, directory: Path) -> None:
        """Nothing changes."""

    def inodes(self, directory: Path) -> dict[str, int]:
        return self._files.inodes(directory)

    def free_bytes(self, directory: Path) -> int:
        return self._files.free_bytes(directory)

    def lock(self, path: Path, holder: str) -> Lock:
        raise AssertionError(f"the lock {path} is held already, not to be taken by {holder}")


class Damage(NamedTuple):
    """One thing that recovery would put into the quarantine."""

    what: str
    file: str | None
    """The name of its bytes there."""

    @property
    def segment(self) -> int | None:
        match = _LOCATED.fullmatch(self.file or "")
        return None if match is None else int(match[1])

    @property
    def offset(self) -> int | None:
        match = _LOCATED.fullmatch(self.file or "")
        return None if match is None else int(match[2] or 0)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result of one recovery."""

    recovery: Recovery
    damages: tuple[Damage, ...]
    quarantine: Path
    """Where the damaged bytes are, in the scratch directory."""

    @property
    def catalog(self) -> Catalog:
        return self.recovery.catalog


def read_damages(files: Files, quarantine: Path) -> Iterator[Damage]:
    """What a quarantine's report says; lines that are none are left out."""
    path = quarantine / REPORT
    if not files.exists(path):
        return
    for line in files.read(path).splitlines():
        try:
            values = json.loads(line)
            yield Damage(str(values["what"]), values.get("file"))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue


Rehearse = Callable[["StoreInspection"], list[tuple[Kept, str]]]
"""What a start would not bring back, and a sentence that says why."""


@final
@dataclass(slots=True)
class StoreInspection:
    """A store in *data*, as it is. *scratch* is an empty directory that belongs to this inspection."""

    files: Files
    data: Path
    form: StoredForm
    now_ms: Callable[[], int]
    scratch: Path
    progress: Progress = no_progress
    rehearse: "Rehearse | None" = None
    """Says what a start would not bring back; the store itself does not know."""
    index_damage: str | None = None
    """Why the index cannot be used at all; known after `started`."""
    _alone: Judgement | None = None
    _started: Judgement | None = None
    _indexes: list[Index] = field(default_factory=list)
    _reader: "MessageReader | None" = None

    @property
    def segments(self) -> list[int]:
        return segment_numbers(self.files, self.data / "journal")

    @property
    def size_bytes(self) -> int:
        """Of all segments."""
        return sum((self.data / "journal" / f"{number:010}.log").stat().st_size for number in self.segments)

    @property
    def index_is_missing(self) -> bool:
        return kind_of(self.data / "index") is None

    @property
    def index_kind(self) -> IndexKind:
        """The kind of the index that is there, or LMDB."""
        return kind_of(self.data / "index") or IndexKind.LMDB

    @property
    def is_sealed(self) -> bool:
        """Whether the last stop was a clean one."""
        return self.files.exists(seal_path(self.data / "index"))

    def alone(self) -> Judgement:
        """What the journal says, without its index. Raises `UnusableStore`."""
        if self._alone is None:
            index = self._fresh_index("alone")
            # The store's id is all that the index may tell: where no segment's header can be read, nothing else does.
            # A checkpoint in segment 0, which never is, is one that recovery does not go by.
            _write_position(index, Position(self.started().recovery.store_id, 0, 0, 0, 0, 0))
            judged = self._judge("alone", index)
            damages = tuple(it for it in judged.damages if not it.what.startswith("the index"))
            self._alone = Judgement(judged.recovery, damages, judged.quarantine)
        return self._alone

    def started(self) -> Judgement:
        """What a start would find: the index, and the journal behind its checkpoint. Raises `UnusableStore`."""
        if self._started is None:
            try:
                self._started = self._judge("started", self._copied_index())
            except (UnusableStore, OSError):
                raise
            except (UnavailableIndex, MemoryError) as error:  # which say nothing about the files
                raise UnusableStore(str(error) or "there is too little memory to look at it") from None
            except Exception as error:  # a damaged index may raise anything; if the journal does, it does so again
                self.index_damage = f"a start fails on it with {type(error).__name__}: {error}"
                self._started = self._judge("restarted", self._fresh_index("restarted"))
        return self._started

    @property
    def index_is_trusted(self) -> bool:
        """Whether a start would go by the index."""
        return not self.started().recovery.report.is_rebuilt

    def _copied_index(self) -> Index:
        """The index as it is, to be changed at will."""
        copy, kind = self.scratch / "started", self.index_kind
        copy_index(self.data / "index", copy)
        try:
            if not self.index_is_missing and not self.is_sealed:
                probe(kind, copy)
            return self._keep(open_index(kind, copy))
        except DamagedIndex as error:
            self.index_damage = str(error)
            return self._keep(open_index(kind, copy, fresh=True))

    def _fresh_index(self, name: str) -> Index:
        try:
            return self._keep(open_index(self.index_kind, self.scratch / name, fresh=True))
        except UnavailableIndex as error:
            raise UnusableStore(str(error)) from None

    def _keep(self, index: Index) -> Index:
        self._indexes.append(index)
        return index

    def _judge(self, name: str, index: Index) -> Judgement:
        quarantine = self.scratch / f"{name}-{QUARANTINE}"
        self.files.make_directory(quarantine)
        files = ReadOnlyFiles(self.files, self.data, quarantine)
        catalog, size_bytes = Catalog(index), self.size_bytes

        def progress(done: int, all_: int) -> None:
            self.progress(f"reading the journal ({name})", size_bytes * done // max(1, all_), size_bytes)

        recovery = Recovery(files, self.data, catalog, self.form, self.now_ms, progress=progress)
        recovery.run()
        return Judgement(recovery, tuple(read_damages(self.files, quarantine)), quarantine)

    @property
    def reader(self) -> "MessageReader":
        if self._reader is None:
            self._reader = MessageReader(self.files, self.data / "journal", self.form, self._store_id())
        return self._reader

    def _store_id(self) -> bytes:
        return (self._started or self._alone or self.started()).recovery.store_id

    def close(self) -> None:
        """Let go of the copies; the scratch directory can be removed."""
        if self._reader is not None:
            self._reader.close()
        for index in self._indexes:
            index.abandon()
        self._indexes.clear()


def _write_position(index: Index, position: Position) -> None:
    index.commit(Checkpoint(Catalog(index), position).changes())
    index.refresh()


@final
class MessageReader:
    """Reads messages of a journal that does not change."""

    def __init__(self, files: Files, directory: Path, form: StoredForm, store_id: bytes) -> None:
        self._files = files
        self._directory = directory
        self._form = form
        self._seed = seed_of(store_id)
        self._open: tuple[int, DataFile] | None = None

    def read(self, entry: Entry, sequence: int) -> Message:
        """The message whose record is at *entry*. Raises `Damaged`."""
        try:
            data = self._file(entry.segment).read(entry.offset, entry.record_bytes)
        except OSError as error:
            raise Damaged(f"its file cannot be read: {error.strerror or error}") from None
        record = read_record(memoryview(data), entry.offset, entry.offset, entry.segment, self._seed)
        if record is None:
            raise Damaged("its checksum is wrong")
        stored = unpack_message(record.payload)
        message = read_message(self._form, bytes(stored.frame))
        if not sequence == stored.sequence == message.sequence:
            raise Damaged(f"message {stored.sequence} is in its place, which calls itself {message.sequence}")
        message.redelivery_counter = stored.redeliveries
        return message

    def sent_ms(self, entry: Entry, sequence: int) -> int | None:
        """When a message was sent; None if it cannot be read."""
        try:
            return self.read(entry, sequence).timestamp
        except Damaged:
            return None

    def _file(self, segment: int) -> DataFile:
        # Messages are mostly asked for in the order of the journal: one open file is enough.
        if self._open is None or self._open[0] != segment:
            self.close()
            self._open = (segment, self._files.open(segment_path(self._directory, segment), writable=False))
        return self._open[1]

    def close(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None


__all__ = [
    "Damage",
    "Judgement",
    "MessageReader",
    "Progress",
    "ReadOnlyFiles",
    "StoreInspection",
    "UnusableStore",
    "no_progress",
    "read_damages",
]

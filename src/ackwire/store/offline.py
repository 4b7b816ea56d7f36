"""Offline access for tools: locks a store, inspects it, or opens and changes it (SEMANTICS K2).

A tool takes the lock once and keeps it from the first inspection to the last change. What it opens works on the spot,
without threads, on a clock that moves only when the tool says so: so nothing happens that the tool did not ask for.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final, final

from ackwire.errors import StoreFailed
from ackwire.jms.message import Message
from ackwire.store.background import OnTheSpot
from ackwire.store.contract import Place, StoredForm
from ackwire.store.files import DataFile, Files, Lock, LockHeld
from ackwire.store.index_files import IndexKind, kind_of
from ackwire.store.indexes import open_index
from ackwire.store.inspect import Progress, Rehearse, StoreInspection, no_progress
from ackwire.store.journal.journal_store import JournalStore
from ackwire.store.journal.options import JournalOptions
from ackwire.store.journal.pending_records import PendingCounts
from ackwire.store.journal.recovery_report import UnusableStore
from ackwire.store.numbered import numbered
from ackwire.util.clock import ManualClock

FREE_BYTES_MIN: Final = 64 << 20
"""A tool leaves this much of the disk to others."""


@final
class _NotReleased:
    def release(self) -> None:
        """`OfflineStore` holds it on."""


@final
class _LockedFiles:
    """Implements `Files`: the lock is taken already."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.names = files.names
        self.make_directory = files.make_directory
        self.read = files.read
        self.replace = files.replace
        self.rename = files.rename
        self.remove = files.remove
        self.exists = files.exists
        self.identity = files.identity
        self.watch = files.watch
        self.touch = files.touch
        self.inodes = files.inodes
        self.free_bytes = files.free_bytes

    def create(self, path: Path, size_bytes: int) -> DataFile:
        return self._files.create(path, size_bytes)

    def open(self, path: Path, *, writable: bool = True) -> DataFile:
        return self._files.open(path, writable=writable)

    def lock(self, path: Path, holder: str) -> Lock:  # noqa: ARG002 - it is held, and says by whom
        return _NotReleased()


@final
class OfflineStore:
    """One store, locked. *scratch* is a directory for what is needed meanwhile."""

    def __init__(
        self,
        files: Files,
        data: Path,
        *,
        form: StoredForm,
        now_ms: Callable[[], int],
        new_id: Callable[[], bytes],
        scratch: Path,
        progress: Progress = no_progress,
        rehearse: Rehearse | None = None,
    ) -> None:
        self.files = files
        self.data = data
        self.form = form
        self.now_ms = now_ms
        self.progress = progress
        self._rehearse = rehearse
        self._new_id = new_id
        self._scratch = scratch
        self._numbers = count(1)

    @property
    def index_kind(self) -> IndexKind:
        """The kind of the index that is there, so that a broker finds the one that it had; LMDB if there is none."""
        return kind_of(self.data / "index") or IndexKind.LMDB

    @contextmanager
    def inspect(self) -> Iterator[StoreInspection]:
        """The store as it is; it does not change."""
        scratch = self._scratch / f"inspection-{next(self._numbers)}"
        self.files.make_directory(scratch)
        inspection = StoreInspection(
            self.files, self.data, self.form, self.now_ms, scratch, self.progress, self._rehearse
        )
        try:
            yield inspection
        finally:
            inspection.close()

    @contextmanager
    def opened(self, *, fresh_index: IndexKind | None = None) -> Iterator["OpenedStore"]:
        """The store, recovered as at a start; closed in good order at the end. *fresh_index* makes the index anew, of
        that kind. Raises `UnusableStore`."""
        clock = ManualClock(self.now_ms())
        index = self.data / "index"
        is_fresh, kind = fresh_index is not None, fresh_index or self.index_kind
        store = JournalStore.open(
            _LockedFiles(self.files),
            self.data,
            form=self.form,
            clock=clock,
            open_index=lambda fresh: open_index(kind, index, fresh=fresh or is_fresh),
            options=JournalOptions(free_bytes_min=FREE_BYTES_MIN),
            writing=OnTheSpot(),
            indexing=OnTheSpot(),
            new_id=self._new_id,
            holder="",
            on_failed=lambda _: None,
        )
        try:
            yield OpenedStore(store, clock)
        finally:
            store.close()


@final
class OpenedStore:
    """A journal that a tool writes to. Implements `portable.Target`."""

    def __init__(self, store: JournalStore, clock: ManualClock) -> None:
        self.store = store
        self._clock = clock

    def settle(self) -> None:
        """Return when everything recorded so far is on the medium. Raises `StoreFailed`."""
        failures: list[StoreFailed] = []
        self.store.when_durable(lambda: None, failures.append)
        self._clock.advance(0)
        if failures:
            raise failures[0]

    # ---- for imports -------------------------------------------------------------------------------------------

    def full(self) -> str | None:
        """See `Target`."""
        self.store.space.check()
        return self.store.full()

    def append_beside(self, message: Message, places: Sequence[Place]) -> None:
        """See `Target`: a journal has a record for each."""
        self.store.append(message, places)

    def acknowledged(self, place: Place, sequence: int) -> Message:  # noqa: ARG002 - a journal names it by number
        """See `Target`."""
        return numbered(sequence)

    def remember_counts(self, counts: Mapping[bytes, int]) -> None:
        """See `Target`."""
        record = PendingCounts(self.store.journal.catalog)
        record.counts.update(counts)
        self.store.buffer.add(record)

    def remember_commit(self, transaction: bytes) -> None:
        """See `Target`."""
        self.store.states.record_commit(transaction)

    def skip_to(self, sequence: int) -> None:
        """See `Target`."""
        self.store.skip_to(sequence)


@contextmanager
def locked(files: Files, data: Path, holder: str) -> Iterator[None]:
    """Hold the lock of the store in *data*. Raises `UnusableStore`, saying who holds it."""
    try:
        lock = files.lock(data / "lock", holder)
    except LockHeld as held:
        raise UnusableStore(f"{data} is in use by {held.holder or 'another process'}: stop it first") from None
    except OSError as error:
        raise UnusableStore(f"{data} cannot be locked: {error.strerror or error}") from None
    try:
        yield
    finally:
        lock.release()

"""Opens a journal: takes its lock, recovers what it holds, and stands at its end, ready to write (SEMANTICS K2)."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from ackwire.store.catalog import Catalog
from ackwire.store.contract import StoredForm
from ackwire.store.files import Files, Lock, LockHeld
from ackwire.store.index import DamagedIndex, Index, OtherIndex, UnavailableIndex
from ackwire.store.journal.options import JournalOptions
from ackwire.store.journal.pins import Pins
from ackwire.store.journal.presence import Presence
from ackwire.store.journal.record import seed_of
from ackwire.store.journal.recovery import Recovery
from ackwire.store.journal.recovery_report import Quarantine, Report, UnusableStore
from ackwire.store.journal.writer import JournalWriter

_SEGMENTS_PER_REPORT: Final = 50

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class OpenJournal:
    """A journal that was recovered, and whose lock is held."""

    files: Files
    data: Path
    form: StoredForm
    lock: Lock
    catalog: Catalog
    writer: JournalWriter
    presence: Presence
    store_id: bytes
    report: Report
    """What recovery found and did."""
    quarantine: Quarantine
    was_cut_off: bool
    """Whether the last run ended without a clean stop."""
    pins: Pins = field(default_factory=Pins)
    """Segments that are being copied, and must stay."""

    def set_store_id(self, store_id: bytes) -> None:
        """The id of a new store, which has no record yet."""
        self.store_id = self.writer.store_id = store_id
        self.writer.seed = seed_of(store_id)

    def report_damage(self, what: str) -> None:
        """Say loudly that something is lost, and leave a line beside the data."""
        _log.error("%s", what)
        try:
            self.quarantine.put(what, "")
            self.quarantine.flush()
        except OSError as error:
            _log.error("and the report cannot be written: %s", error)

    def close(self, *, clean: bool) -> None:
        """Let go of the index and the segments; vouch for the index only after a *clean* stop."""
        if clean:
            self.catalog.index.close()
        else:
            self.catalog.index.abandon()
        self.writer.close()
        self.presence.close()


@dataclass(frozen=True, slots=True)
class JournalSource:
    """Where a journal is, and what is needed to read it."""

    files: Files
    data: Path
    form: StoredForm
    open_index: Callable[[bool], Index]
    """Opens the index, or with True a new one."""
    now_ms: Callable[[], int]
    new_id: Callable[[], bytes]
    """Makes the id of a new store."""
    holder: str
    """Written into the lock."""
    lock: Lock | None = None
    """A lock that is held already, if the store need not take it."""


NODE_NAME: Final = "node"
"""The file by which the folder of a node of a replicated group is known."""


def refuse_node(files: Files, data: Path) -> None:
    """Raises `UnusableStore` for the folder of a node: a broker alone must not write to a copy."""
    if files.exists(data / NODE_NAME):
        raise UnusableStore(
            f"{data} belongs to a node of a replicated group: start it as such (store.kind), or remove the file "
            f"{NODE_NAME} there if the group is gone for good"
        )


def open_journal(source: JournalSource, options: JournalOptions) -> OpenJournal:
    """Raises `UnusableStore` if the files cannot be used, or another broker uses them."""
    lock = take_lock(source)
    try:
        # A broker that still runs although its lock was removed sees this with its next sync, and answers no more.
        source.files.touch(source.data / "journal")
        return _recovered(source, options, lock)
    except BaseException:
        lock.release()
        raise


def take_lock(source: JournalSource) -> Lock:
    """Make the directory, and exclude other brokers from it. Raises `UnusableStore`."""
    source.files.make_directory(source.data / "journal")
    if source.lock is not None:
        return source.lock
    try:
        return source.files.lock(source.data / "lock", source.holder)
    except LockHeld as held:
        raise UnusableStore(f"{source.data} is in use by {held.holder or 'another process'}") from None


def _recovered(source: JournalSource, options: JournalOptions, lock: Lock) -> OpenJournal:
    recovery = _recover(source)
    # A power cut may bring the index's seal back, and then the journal goes on behind the index.
    was_closed = recovery.catalog.index.is_vouched_for and not recovery.report.replayed
    return stand_at_end(source, options, lock, recovery, was_cut_off=bool(recovery.store_id) and not was_closed)


class RecoveredJournal(Protocol):
    """What a recovery has found: the end of the journal, and what is known of it."""

    catalog: Catalog
    report: Report
    quarantine: Quarantine
    epoch: int
    number: int
    segment: int
    offset: int
    last_segment: int

    @property
    def store_id(self) -> bytes: ...

    @property
    def can_resume(self) -> bool: ...


def stand_at_end(
    source: JournalSource, options: JournalOptions, lock: Lock, recovery: RecoveredJournal, *, was_cut_off: bool
) -> OpenJournal:
    """The journal that *recovery* has read, ready to be written to."""
    catalog = recovery.catalog
    store_id = recovery.store_id or source.new_id()
    writer = JournalWriter(
        source.files,
        source.data / "journal",
        store_id=store_id,
        seed=seed_of(store_id),
        epoch=recovery.epoch + 1,
        segment_bytes=options.segment_bytes,
        next_segment=max(recovery.last_segment, recovery.segment) + 1,
        next_number=recovery.number + 1,
        on_segment=catalog.add_segment,
    )
    if recovery.can_resume:
        writer.resume(recovery.segment, recovery.offset)
    writer.last_sequence = catalog.last_sequence
    presence = Presence(
        source.files,
        source.data,
        segments=lambda: catalog.segments,
        active=lambda: writer.segment,
        index_trouble=lambda: catalog.index.misplaced,
        now_ms=source.now_ms,
    )
    return OpenJournal(
        source.files,
        source.data,
        source.form,
        lock,
        catalog,
        writer,
        presence,
        store_id,
        recovery.report,
        recovery.quarantine,
        was_cut_off=was_cut_off,
    )


def _recover(source: JournalSource) -> Recovery:
    index, damage = opened_index(source)
    recovery = Recovery(
        source.files, source.data, Catalog(index), source.form, source.now_ms, progress=_progress(source.data)
    )
    if damage is not None:
        recovery.quarantine.put(f"the index is made anew: {damage}", "")
    if index.seal_damage is not None:
        recovery.quarantine.put(index.seal_damage, "")
    try:
        recovery.run()
    except BaseException as error:
        recovery.catalog.index.abandon()
        if isinstance(error, (UnavailableIndex, MemoryError)):
            reason = str(error) or "there is too little memory to read the journal"
            raise UnusableStore(f"{reason}. Nothing was lost in {source.data}") from None
        raise
    return recovery


def opened_index(source: JournalSource) -> tuple[Index, str | None]:
    """The index, and what is wrong with the one that had to be replaced."""
    try:
        try:
            return source.open_index(False), None
        except OtherIndex as other:  # no damage: the setting has changed
            _log.info("the index in %s is made anew: %s", source.data, other)
            return source.open_index(True), None
        except DamagedIndex as damaged:
            return source.open_index(True), str(damaged)
    except UnavailableIndex as unavailable:  # it may be as good as ever: nothing is changed
        raise UnusableStore(f"{unavailable}. Nothing was changed in {source.data}") from None


def _progress(data: Path) -> Callable[[int, int], None]:
    def tell(done: int, count: int) -> None:
        if done and done % _SEGMENTS_PER_REPORT == 0:
            _log.info("reading the journal in %s: %d of %d segments", data, done, count)

    return tell

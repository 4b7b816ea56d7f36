"""Reads messages from the journal: from the buffer while they wait there, else from their segments."""

import errno
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, final

from ackwire.errors import StoreFailed
from ackwire.jms.message import Message
from ackwire.store.background import Background
from ackwire.store.blocks import Entry
from ackwire.store.catalog import PlaceInfo
from ackwire.store.contract import OnLoaded, Place, StoredFrame
from ackwire.store.files import DataFile
from ackwire.store.index import IndexTrouble
from ackwire.store.journal.failure import FailureState
from ackwire.store.journal.opening import OpenJournal
from ackwire.store.journal.pending_records import PendingMessage
from ackwire.store.journal.record import Damaged, message_at, read_message_at
from ackwire.store.journal.record_buffer import RecordBuffer
from ackwire.store.journal.state import read_message
from ackwire.store.journal.writer import JournalWriter

_log = logging.getLogger(__name__)

_GAP_BYTES_MAX: Final = 4096
_READ_BYTES: Final = 1 << 20
"""Neighbouring messages are read together, up to this size."""

_INLINE_BYTES_MAX: Final = 256 * 1024
"""A fetch of so much is read on the loop if it is in the system's cache, in about 0.2 ms: a thread takes as long."""

Located = tuple[Entry, int]
"""Where a message is, and its sequence."""


@final
class Reads:
    """Reads messages of any place."""

    def __init__(self, journal: OpenJournal, buffer: RecordBuffer, state: FailureState, background: Background) -> None:
        self._journal = journal
        self._catalog = journal.catalog
        self._writer = journal.writer
        self._form = journal.form
        self._buffer = buffer
        self._state = state
        self._background = background

    def load(self, place: Place, sequences: Sequence[int]) -> list[Message | None]:
        """See `Reader`."""
        stored = self.read(place, sequences)
        return [self._message(place, it, frame) for it, frame in zip(sequences, stored, strict=True)]

    def _message(self, place: Place, sequence: int, stored: StoredFrame | None) -> Message | None:
        if stored is None:
            return None
        try:
            message = read_message(self._form, stored[0])
        except Damaged as error:
            self._journal.report_damage(f"message {sequence} of {place!r} is lost: {error}")
            return None
        message.redelivery_counter = stored[1]
        return message

    def read(self, place: Place, sequences: Sequence[int]) -> list[StoredFrame | None]:
        """See `Reader`."""
        info = self._catalog.places.get(place)
        if info is None:
            return [None] * len(sequences)
        found: dict[int, StoredFrame] = {}
        written = sequences
        if self._buffer.messages:
            written = []
            for sequence in sequences:
                pending = self._buffer.message_in(info, sequence)
                if isinstance(pending, PendingMessage):
                    found[sequence] = (pending.message.frame, pending.message.redelivery_counter)
                else:
                    written.append(sequence)
        for run in _runs(self._located(info, written)):
            self._read_run(place, run, found, info.dispatched_before)
        return [found.get(sequence) for sequence in sequences]

    def _located(self, info: PlaceInfo, sequences: Sequence[int]) -> list[Located]:
        """Where messages are, in the order of the journal."""
        try:
            return sorted([(entry, it) for it, entry in self._catalog.find_many(info, sequences)])
        except IndexTrouble as error:
            raise self._state.fail("trust the index of", error) from None

    def fetch(
        self,
        place: Place,
        sequences: Sequence[int],
        on_loaded: OnLoaded,
        on_failed: Callable[[], None] | None = None,
    ) -> None:
        """See `Reader`."""
        info = self._catalog.places.get(place)
        located = [] if info is None else self._located(info, sequences)
        beside = _ReadBeside(self._writer, located)
        if sum([entry.record_bytes for entry, _ in located]) <= _INLINE_BYTES_MAX and beside.read_cached():
            on_loaded(self._loaded(place, info, sequences, beside))
            return

        def done(_error: Exception | None) -> None:
            if self._state.failure is not None:
                return
            try:
                loaded = self._loaded(place, info, sequences, beside)
            except Exception as error:
                if on_failed is None or isinstance(error, StoreFailed):
                    raise
                _log.exception("a read of %r has failed", place)
                on_failed()
            else:
                on_loaded(loaded)

        self._background.submit(beside.read, done)

    def _loaded(
        self, place: Place, info: PlaceInfo | None, sequences: Sequence[int], beside: "_ReadBeside"
    ) -> list[Message | None]:
        """What was read beside the loop, where it still holds; all else is read now: what was not on disk yet, was
        moved or replaced meanwhile, or cannot be read, which `read` reports."""
        found: dict[int, StoredFrame] = {}
        if info is not None and self._catalog.places.get(place) is info and beside.found:
            for entry, sequence in self._located(info, list(beside.found)):
                if entry == beside.entries[sequence]:
                    found[sequence] = _marked(beside.found[sequence], sequence, info.dispatched_before)
        others = [it for it in sequences if it not in found]
        if others:
            for sequence, stored in zip(others, self.read(place, others), strict=True):
                if stored is not None:
                    found[sequence] = stored
        return [self._message(place, it, found.get(it)) for it in sequences]

    def _read_run(
        self, place: Place, run: list[Located], found: dict[int, StoredFrame], dispatched_before: int
    ) -> None:
        """Read neighbouring messages at once."""
        first, last = run[0][0], run[-1][0]
        length = last.offset + last.record_bytes - first.offset
        try:
            file = self._writer.file(first.segment)
            data = memoryview(file.read(first.offset, length))
            file.expect_read(first.offset + length, _READ_BYTES)
        except OSError as error:
            if error.errno not in (errno.EIO, errno.ENOENT):
                raise self._state.fail("read", error) from None  # they are there, and may be read after a new start
            self._report_unreadable(place, run, str(error))
            return
        base, seed = first.offset, self._writer.seed
        for entry, sequence in run:
            try:
                stored = message_at(data, entry[1] - base, sequence, seed)
            except Damaged as damaged:
                self._report_unreadable(place, [(entry, sequence)], str(damaged))
                continue
            found[sequence] = _marked(stored, sequence, dispatched_before)

    def _report_unreadable(self, place: Place, run: list[Located], reason: str) -> None:
        for entry, sequence in run:
            self._journal.report_damage(
                f"message {sequence} of {place!r}, at {entry.offset} of segment {entry.segment}, is lost: {reason}"
            )

    def sent_ms(self, place: Place, sequence: int, _: Entry) -> int | None:
        """When a message was sent; None if it cannot be read."""
        message = self.load(place, [sequence])[0]
        return None if message is None else message.timestamp


@final
class _ReadBeside:
    """Reads messages in another thread, through files of its own: segments may go and messages move meanwhile."""

    def __init__(self, writer: JournalWriter, located: list[Located]) -> None:
        self._writer = writer
        self._runs = list(_runs(located))
        self.entries = {sequence: entry for entry, sequence in located}
        self.found: dict[int, StoredFrame] = {}

    def read_cached(self) -> bool:
        """Read everything on the loop, if it is in memory."""
        for run in self._runs:
            first, last = run[0][0], run[-1][0]
            try:
                file = self._writer.file(first.segment)
            except OSError:  # the thread tries again
                return False
            data = file.read_cached(first.offset, last.offset + last.record_bytes - first.offset)
            if data is None:
                return False
            self._cut(run, memoryview(data))
        return True

    def read(self) -> None:
        for run in self._runs:
            with suppress(OSError):  # on the loop it is tried again, and reported
                self._read_run(run)

    def _read_run(self, run: list[Located]) -> None:
        first, last = run[0][0], run[-1][0]
        file = self._writer.open_to_scan(first.segment)
        try:
            if first.record_bytes > _INLINE_BYTES_MAX:
                self._read_large(file, run)
                return
            data = memoryview(file.read(first.offset, last.offset + last.record_bytes - first.offset))
        finally:
            file.close()
        self._cut(run, data)

    def _read_large(self, file: DataFile, run: list[Located]) -> None:
        for entry, sequence in run:
            with suppress(Damaged):
                self.found[sequence] = read_message_at(
                    file.read, entry.offset, entry.record_bytes, sequence, self._writer.seed
                )

    def _cut(self, run: list[Located], data: memoryview) -> None:
        base, seed = run[0][0].offset, self._writer.seed
        for entry, sequence in run:
            with suppress(Damaged):
                self.found[sequence] = message_at(data, entry[1] - base, sequence, seed)


def _marked(stored: StoredFrame, sequence: int, dispatched_before: int) -> StoredFrame:
    """A message that may have reached a consumer before this start was delivered once at least."""
    return (stored[0], 1) if sequence <= dispatched_before and not stored[1] else stored


def _runs(entries: list[Located]) -> Iterator[list[Located]]:
    """*entries*, sorted by their place, cut where they are not neighbours or there are too many bytes."""
    run: list[Located] = []
    segment = start = end = -1
    for item in entries:
        entry = item[0]
        offset, size_bytes = entry[1], entry.record_bytes
        is_neighbour = entry[0] == segment and offset - end <= _GAP_BYTES_MAX
        if run and (not is_neighbour or offset + size_bytes - start > _READ_BYTES):
            yield run
            run = []
        if not run:
            segment, start = entry[0], offset
        end = offset + size_bytes
        run.append(item)
    if run:
        yield run

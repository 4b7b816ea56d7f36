"""How much a store may take: limits, the segment that is made ahead, and the callbacks for when there is room again."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol, final

from ackwire.store.background import Background
from ackwire.store.files import DataFile
from ackwire.store.journal.failure import FailureState, is_disk_full
from ackwire.store.journal.opening import OpenJournal
from ackwire.store.journal.options import JournalOptions

_log = logging.getLogger(__name__)


class Checkpoints(Protocol):
    """What makes room by and by."""

    @property
    def full_because(self) -> str | None:
        """Why nothing more should be sent until they have gone on."""
        ...


@final
class Space:
    """The disk space of one store."""

    def __init__(
        self,
        journal: OpenJournal,
        checkpointing: Checkpoints,
        state: FailureState,
        *,
        options: JournalOptions,
        background: Background,
    ) -> None:
        self._files = journal.files
        self._data = journal.data
        self._catalog = journal.catalog
        self._writer = journal.writer
        self._checkpointing = checkpointing
        self._state = state
        self._options = options
        self._background = background
        self.full_because: str | None = None
        """Why nothing more should be sent, as of the last check."""
        self._on_room: list[Callable[[], None]] = []
        self._is_making_spare = False
        self._spare_failed = False
        """The disk had no space for another segment: the next tick tries again."""

    # ---- limits ------------------------------------------------------------------------------------------------

    @property
    def used_bytes(self) -> int:
        """What the store takes on disk."""
        segments = sum(segment.size_bytes for segment in self._catalog.segments.values())
        spare = self._options.segment_bytes if self._writer.has_spare or self._is_making_spare else 0
        return segments + spare + self._catalog.index.size_bytes

    def check(self) -> None:
        """See whether there is room, and tell those who wait for it."""
        was_full, self.full_because = self.full_because, self._why_full()
        if self.full_because is not None and was_full is None:
            _log.warning("%s: producers of persistent messages wait until there is space", self.full_because)
        elif self.full_because is None and was_full is not None:
            _log.info("the store in %s has space again", self._data)
            self.tell_of_room()

    def _why_full(self) -> str | None:
        used, limit = self.used_bytes, self._options.bytes_max
        if used >= limit:
            return f"the store is full: {used} of {limit} bytes in {self._data} (limits.store_bytes_max)"
        try:
            free = self._files.free_bytes(self._data)
        except OSError as error:
            return f"the disk of {self._data} does not tell how much space it has: {error}"
        if free < self._options.free_bytes_min:
            return f"the disk of {self._data} has {free} bytes left, less than {self._options.free_bytes_min}"
        if self._checkpointing.full_because is not None:
            return self._checkpointing.full_because
        if self._spare_failed:
            return f"the disk of {self._data} has no space for another file of {self._options.segment_bytes} bytes"
        return None

    def on_room(self, callback: Callable[[], None]) -> None:
        """Have *callback* called whenever there may be room again."""
        self._on_room.append(callback)

    def tell_of_room(self) -> None:
        for callback in self._on_room:
            callback()

    # ---- the segment that is made ahead ------------------------------------------------------------------------

    def wrote(self) -> None:
        """Something was written: the next segment may be due."""
        if not self._spare_failed:
            self.make_spare()

    def make_spare(self) -> None:
        """Take the space of the next segment, and write zeros to it when that one is soon to come."""
        writer = self._writer
        if self._is_making_spare or (writer.has_spare and not (writer.wants_zeros and self._can_do_without_spare())):
            return
        self._is_making_spare = True
        if writer.has_spare:
            file = writer.take_spare()
            self._background.submit(partial(writer.fill, file), partial(self._spare_filled, file))
        else:
            made: list[DataFile] = []
            self._background.submit(lambda: made.append(writer.make_spare()), partial(self._spare_made, made))

    def _can_do_without_spare(self) -> bool:
        """Whether another segment could be made on the spot, while the spare one is being filled."""
        try:
            return self._files.free_bytes(self._data) > self._options.segment_bytes
        except OSError:
            return False

    def _spare_made(self, made: list[DataFile], error: Exception | None) -> None:
        self._is_making_spare = False
        if error is None:
            self._writer.keep_spare(made[0])
            self._spare_failed = False
        elif is_disk_full(error):
            self._spare_failed = True
        else:
            self._state.fail("make another segment of", error)
            return
        self.check()

    def _spare_filled(self, file: DataFile, error: Exception | None) -> None:
        self._is_making_spare = False
        self._writer.keep_spare(file, is_filled=True)
        if error is not None:
            self._state.fail("write to", error)

"""This node's own copy of the log: what of it is durable, and what is being done to it.

It outlives links and masters. One change at a time (truncation, refill) is under way, and a link that ends in the
middle of one does not end it: `when_idle` tells when the copy may be spoken of again.

A sync vouches for what was there when it began. One that began before a truncation says nothing about the records that
were written in the place of those that were dropped, although they have the same numbers.
"""

from collections.abc import Callable, Sequence
from typing import Final

from ackwire.replication.log import Chunk, LogEnd, Refill, RefusedChunk, ReplicaLog, SnapshotSegment

_REFUSALS_MAX: Final = 3
"""After so many attempts a log that takes nothing from the master is given up."""


class CopyLog:
    """Wraps a `ReplicaLog`. *on_failed* is told when the disk fails: nothing is acknowledged any more after that."""

    def __init__(self, log: ReplicaLog, on_failed: Callable[[Exception], None]) -> None:
        self.log = log
        self._on_failed = on_failed
        self.durable = log.durable().number
        self.failure: Exception | None = None
        self.on_durable: Callable[[], None] | None = None
        """Called when a sync has ended."""
        self._refusals = 0
        """Of chunks in a row."""
        self._truncations = 0
        self._is_syncing = False
        self._wants_sync = False
        self._changes = 0
        """Truncations and refills under way."""
        self._idle_callbacks: list[Callable[[], None]] = []

    # ---- records -----------------------------------------------------------------------------------------------

    @property
    def end(self) -> LogEnd:
        return self.log.end()

    def append(self, chunk: Chunk) -> None:
        """Raises `RefusedChunk`; `OSError` or `StoreFailed` if the disk has failed."""
        assert self.is_idle, "records come while the copy is being changed"
        self._refusals += 1
        self.log.append(chunk)
        self._refusals = 0

    @property
    def wants_refill(self) -> bool:
        """Whether only another log helps: what is here cannot be used, or nothing fits behind it."""
        return self.log.needs_refill is not None or self._refusals >= _REFUSALS_MAX

    def sync(self) -> None:
        """Bring all that is there to the medium; `on_durable` follows. One at a time, and none during a change."""
        self._wants_sync = True
        if self._is_syncing or self.failure is not None or not self.is_idle:
            return
        self._is_syncing = True
        self._wants_sync = False
        end, truncations = self.end.number, self._truncations
        self.log.sync(lambda error: self._synced(end, truncations, error))

    def _synced(self, end: int, truncations: int, error: Exception | None) -> None:
        self._is_syncing = False
        if error is not None:
            self.fail(error)
            return
        if self._vouches(truncations):
            self.durable = max(self.durable, end)
        if self.is_idle and self.on_durable is not None:
            self.on_durable()
        if self._wants_sync:
            self.sync()

    def _vouches(self, truncations: int) -> bool:
        """Whether a sync that began after so many truncations was of the records that are there now."""
        return truncations == self._truncations

    def commit(self, number: int) -> None:
        """Records up to *number* are committed."""
        if number > self.log.committed():
            self.log.commit(number)

    # ---- changes -----------------------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        return not self._changes

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call *callback* when no change is under way; at once if none is. Never, if the disk has failed."""
        if self.failure is not None:
            return
        if self.is_idle:
            callback()
        else:
            self._idle_callbacks.append(callback)

    def truncate_after(self, number: int, done: Callable[[], None]) -> None:
        """Drop what is behind *number*; *done* when that is durable."""
        self._truncations += 1
        self.durable = min(self.durable, number)
        self._changes += 1
        self.log.truncate_after(number, lambda error: self._changed(error, done))

    def begin_refill(self, store_id: bytes, end: LogEnd, segments: Sequence[SnapshotSegment]) -> Refill:
        """Make place for another log. It replaces this one when `finish_refill` is done, and not before; it ends with
        that, or with `abandon_refill`."""
        refill = self.log.begin_refill(store_id, end, segments)
        self._changes += 1
        return refill

    def abandon_refill(self, refill: Refill) -> None:
        """The log stays as it is."""
        refill.abandon(lambda error: self._changed(error, lambda: None))

    def finish_refill(self, refill: Refill, done: Callable[[], None], on_refused: Callable[[Exception], None]) -> None:
        """Put *refill* in the place of the log, durably, then call *done*. If it is damaged, the log stays as it is."""

        def finished(error: Exception | None) -> None:
            if isinstance(error, RefusedChunk):
                self._end_change()
                on_refused(error)
                return
            if error is None:
                self._truncations += 1
                self._refusals = 0
                self.durable = self.end.number
            self._changed(error, done)

        refill.finish(finished)

    def _changed(self, error: Exception | None, done: Callable[[], None]) -> None:
        if error is not None:
            self.fail(error)
            return
        done()
        self._end_change()

    def _end_change(self) -> None:
        self._changes -= 1
        if self.is_idle:
            if self._wants_sync:
                self.sync()
            callbacks, self._idle_callbacks = self._idle_callbacks, []
            for callback in callbacks:
                self.when_idle(callback)

    def fail(self, error: Exception) -> None:
        """The disk has failed: what it has is not known any more, so nothing is said of it until the next start."""
        if self.failure is None:
            self.failure = error
            self._idle_callbacks.clear()
            self._on_failed(error)

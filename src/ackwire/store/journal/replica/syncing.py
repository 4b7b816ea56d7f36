"""The syncs of a copy, one at a time, and the moments between them in which its files may be closed.

Where syncs are quick they are done on the loop, as the master does (`group_commit`): a lone producer waits for a copy,
and going to a thread and back takes as long as the sync.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, final

from ackwire.store.background import Background
from ackwire.store.files import DataFile
from ackwire.store.journal.opening import OpenJournal
from ackwire.store.journal.presence import Misplaced
from ackwire.store.journal.shipping import EMPTY, Done, LogEnd
from ackwire.util.clock import Clock

_QUICK_SYNC_SECONDS: Final = 0.0005
"""Syncs that take less on average are done on the loop."""
_FIRST_GUESS_SECONDS: Final = 0.002
"""What a sync takes is not known at first, so a thread does it."""

_log = logging.getLogger(__name__)


@final
class CopySyncing:
    """Brings what was appended to the medium."""

    def __init__(
        self,
        background: Background,
        clock: Clock,
        *,
        end: Callable[[], LogEnd],
        fail: Callable[[str, Exception], Exception],
    ) -> None:
        """*end* is what was appended so far; *fail* ends the service of the copy, and returns what to tell."""
        self._background = background
        self._clock = clock
        self._sync_seconds = _FIRST_GUESS_SECONDS
        self._end = end
        self._fail = fail
        self.durable = EMPTY
        self._journal: OpenJournal | None = None
        """None while the files are closed."""
        self._waiters: list[Done] = []
        self._is_syncing = False
        self._is_making_spare = False
        self._when_quiet: list[Callable[[], None]] = []

    def attach(self, journal: OpenJournal, durable: LogEnd) -> None:
        """The files of *journal* are open, and durable up to there."""
        self._journal, self.durable = journal, durable
        self._begin()

    def detach(self) -> None:
        """The files are about to be closed: syncs wait."""
        self._journal = None

    # ---- syncs -------------------------------------------------------------------------------------------------

    def sync(self, done: Done) -> None:
        """See `ReplicaLog`."""
        self._waiters.append(done)
        self._begin()

    def when_durable(self, number: int, callback: Callable[[], None]) -> None:
        """Call *callback* when everything up to *number* is on the medium."""
        if self.durable.number >= number:
            callback()
        else:
            self.sync(lambda error: callback() if error is None else None)

    def _begin(self) -> None:
        if self._is_syncing or self._journal is None or not self._waiters:
            return
        waiters, self._waiters = self._waiters, []
        work = partial(self._timed_sync, self._journal.writer.unsynced())
        done = partial(self._synced, self._journal, self._end(), waiters)
        self._is_syncing = True
        if self._is_quick:
            _on_the_spot(work, done)
        else:
            self._background.submit(work, done)

    @property
    def _is_quick(self) -> bool:
        return self._sync_seconds < _QUICK_SYNC_SECONDS

    def _timed_sync(self, files: list[DataFile]) -> None:
        before = self._clock.monotonic()
        for file in files:
            file.sync()
        took = self._clock.monotonic() - before
        if took:  # a clock that stands still measures nothing
            self._sync_seconds += (took - self._sync_seconds) / 8

    def _synced(self, journal: OpenJournal, end: LogEnd, waiters: list[Done], error: Exception | None) -> None:
        self._is_syncing = False
        error = error or misplaced(journal)
        if error is not None:
            error = self._fail("sync", error)
        else:
            journal.writer.synced_up_to(end.number)
            self.durable = max(self.durable, end)
            journal.writer.close_idle()
        for done in waiters:
            done(error)
        if not self._when_quiet:
            self._begin()
        self._run_quiet()

    def tell_all(self, failure: Exception) -> None:
        """Nothing will be synced any more; those that a sync is under way for hear of its outcome."""
        waiters, self._waiters = self._waiters, []
        for done in waiters:
            done(failure)

    # ---- between them ------------------------------------------------------------------------------------------

    def when_quiet(self, callback: Callable[[], None]) -> None:
        """Call *callback* when no sync is under way: files may be closed then."""
        self._when_quiet.append(callback)
        self._run_quiet()

    def _run_quiet(self) -> None:
        while self._when_quiet and not (self._is_syncing or self._is_making_spare):
            self._when_quiet.pop(0)()
        self._begin()

    def make_spare(self) -> None:
        """Take the space of the next segment, when it is soon to come."""
        assert self._journal is not None
        writer, data = self._journal.writer, self._journal.data
        if self._is_making_spare or writer.has_spare or writer.offset <= writer.segment_size_bytes // 2:
            return
        self._is_making_spare = True
        made: list[DataFile] = []

        def done(error: Exception | None) -> None:
            self._is_making_spare = False
            if error is None:
                writer.keep_spare(made[0])
            else:  # the segment is made when it comes, or that fails
                _log.warning("no segment could be made ahead in %s: %s", data, error)
            self._run_quiet()

        self._background.submit(lambda: made.append(writer.make_spare()), done)


def _on_the_spot(work: Callable[[], None], done: Done) -> None:
    error = None
    try:
        work()
    except Exception as raised:  # whatever it is: nothing is known of the records any more
        error = raised
    done(error)


def misplaced(journal: OpenJournal, *, everything: bool = False) -> Exception | None:
    """What is not where the next start will look for it; *everything* also looks at what is seldom checked."""
    try:
        if everything:
            journal.presence.check_all()
        else:
            journal.presence.check()
    except Misplaced as error:
        return error
    return None

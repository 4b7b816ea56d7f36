"""Turns a copy into the store of a master.

The node remembers first that it leads the epoch. Then what is committed is applied, and the tail that is there, whose
fate the new master decides by keeping it; a group at the end whose last record is missing never happened, and is cut
off. Nothing is read anew: catalog, index and files pass on as they are. The store then writes the first record of its
epoch and syncs it; it may serve when the quorum has that.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from ackwire.errors import StoreFailed
from ackwire.store.background import Background
from ackwire.store.journal.answers import AtTurnEnd
from ackwire.store.journal.failure import FailureState
from ackwire.store.journal.group_commit import Quorum
from ackwire.store.journal.journal_store import JournalStore
from ackwire.store.journal.options import SyncPolicy
from ackwire.store.journal.replica.log_reader import LogReader
from ackwire.store.journal.replica.node_state import store_id_of
from ackwire.store.journal.replica.replica_journal import ReplicaJournal
from ackwire.store.journal.shipping import LogEnd
from ackwire.util.clock import Clock

_log = logging.getLogger(__name__)

_ALREADY: Final = "the copy becomes the master's store"


class Mastered(NamedTuple):
    """A store whose epoch is about to begin."""

    store: JournalStore
    source: LogReader


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a store needs besides its files, as in `JournalStore.open`."""

    clock: Clock
    writing: Background
    indexing: Background
    reading: Background
    on_failed: Callable[[StoreFailed], None]
    at_turn_end: AtTurnEnd | None = None


class NotTakenOver(Exception):
    """A copy cannot become the master's store; it is a copy as before."""


def take_over(
    copy: ReplicaJournal,
    epoch: int,
    quorum: Quorum,
    around: Surroundings,
    *,
    ready: Callable[[Mastered | None, Exception | None], None],
    begun: Callable[[], None],
) -> None:
    """Make *copy* the store of the master of *epoch*.

    *ready* gets the store and its log when they stand at the end, before the first record of the epoch is written, so
    that it can be shipped; or why it did not come to that. *begun* is called when the quorum has that record.
    """
    if epoch <= copy.end().epoch or copy.needs_refill is not None or copy.options.sync is not SyncPolicy.ALWAYS:
        why = copy.needs_refill or f"epoch {epoch} with {copy.options.sync} is not above {copy.end().epoch}"
        ready(None, NotTakenOver(why))
        return
    copy.begin(_ALREADY)
    copy.applying.holds_index = True

    def led(error: Exception | None) -> None:
        if error is not None:
            copy.applying.holds_index = False
            copy.end_busy()
            ready(None, error)
            return
        copy.applying.commit(copy.end().number)
        copy.applying.when_idle(applied)

    def applied() -> None:
        whole = copy.applying.applied.number
        if whole == copy.end().number:
            copy.syncing.when_quiet(become)
            return
        _log.info("records %d to %d are of a group that never ended: they are cut off", whole + 1, copy.end().number)
        copy.cut_group(whole, cut)

    def cut(error: Exception | None) -> None:
        if error is not None:
            ready(None, error)
        else:
            copy.begin(_ALREADY)
            copy.syncing.when_quiet(become)

    def become() -> None:
        if copy.state.failure is not None:
            ready(None, copy.state.failure)
            return
        if not copy.applying.is_idle:
            copy.applying.when_idle(applied)
            return
        mastered = _mastered(copy, epoch, quorum, around)
        ready(mastered, None)
        mastered.store.begin_epoch(begun)

    copy.node.lead(epoch, led)


def _mastered(copy: ReplicaJournal, epoch: int, quorum: Quorum, around: Surroundings) -> Mastered:
    copy.let_go()
    copy.applying.settle()
    journal = copy.journal
    journal.writer.epoch = epoch
    journal.was_cut_off = journal.was_cut_off or copy.end().number > 0  # the term before ended like a crash
    if not journal.store_id:
        group_id = copy.node.group_id
        journal.set_store_id(store_id_of(group_id) if group_id else copy.source.new_id())
    for damage in journal.report.damages:
        _log.error("%s: %s", journal.data, damage)
    store = JournalStore(
        journal,
        FailureState(journal.data, around.on_failed),
        options=copy.options,
        clock=around.clock,
        at_turn_end=around.at_turn_end,
        writing=around.writing,
        indexing=around.indexing,
        reading=around.reading,
        quorum=quorum,
    )
    writer = journal.writer
    store.on_checkpoint = lambda: copy.node.note_durable(LogEnd(epoch, writer.synced_number))
    reader = LogReader(journal, copy.log, clock=around.clock, background=around.reading)
    return Mastered(store, reader)

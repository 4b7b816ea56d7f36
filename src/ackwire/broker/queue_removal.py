"""Removes all messages of one queue: purge, and the end of the queue."""

from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from typing import Final, final

from ackwire.broker.auditing import Event
from ackwire.broker.pending import Cleared, PagedOut, PendingList
from ackwire.broker.queue_consumers import QueueConsumers
from ackwire.broker.queue_contents import QueueContents
from ackwire.broker.queue_view import QueueView
from ackwire.broker.reservations import Reservations
from ackwire.broker.slices import Budget, Slices
from ackwire.jms.message import Message

_DROPPED_AT_ONCE: Final = 64
"""Messages of a purged or deleted queue between two looks at the clock: about 50 µs of work."""
DELETED: Final = "its queue or subscription was deleted"


@final
class QueueRemoval:
    """Purges and closes one queue."""

    def __init__(
        self,
        contents: QueueContents,
        consumers: QueueConsumers,
        reservations: Reservations,
        view: QueueView,
        slices: Slices,
        undecided: Callable[[], Iterator[Message]],
    ) -> None:
        self._contents = contents
        self._consumers = consumers
        self._reservations = reservations
        self._view = view
        self._slices = slices
        self._undecided = undecided
        """The messages of the queue whose acks wait for the end of a transaction."""

    def purge(self) -> Generator[None, None, int]:
        """Delete all messages that are pending now, in steps, and return how many. Nothing is read.

        They are out of reach at once. The store gets one record for all of them, and they leave memory afterwards; but
        with an audit each step reports its messages and removes them, because what is reported must be so after a
        crash.
        """
        contents = self._contents
        levels = [level.detach() for level in contents.levels]
        alone: list[Message | PagedOut] = []
        for subscription in self._consumers:
            alone += [entry for entry, _ in subscription.waiting_in.pop(contents.place, ())]
        count = sum(map(len, levels)) + len(alone)
        is_one_record = contents.is_stored and contents.store.pages and contents.audit is None
        if count and is_one_record:
            last_sequence = max([level.last_sequence for level in levels] + [entry.sequence for entry in alone])
            contents.store.purge(contents.place, last_sequence, self._not_pending())
        for level in levels:
            while level:
                self._purge_last(level, is_removed=is_one_record)
                yield None
        for first in range(0, len(alone), _DROPPED_AT_ONCE):
            self._purge_alone(alone[first : first + _DROPPED_AT_ONCE], is_removed=is_one_record)
            yield None
        contents.flow.release()
        return count

    def _purge_last(self, level: PendingList, *, is_removed: bool) -> None:
        """Let some of the last messages in *level* go; the store too, unless they *are removed* from it."""
        self._tell_purged(level.last_entries(_DROPPED_AT_ONCE))
        sequences, cleared = level.drop_last(_DROPPED_AT_ONCE)
        self._purged(sequences, cleared, is_removed=is_removed)

    def _purge_alone(self, entries: list[Message | PagedOut], *, is_removed: bool) -> None:
        """The same for messages that waited for one consumer."""
        self._tell_purged([(it.ticket if isinstance(it, PagedOut) else it, it.sequence) for it in entries])
        self._purged([it.sequence for it in entries], _cleared(entries), is_removed=is_removed)

    def _purged(self, sequences: list[int], cleared: Cleared, *, is_removed: bool) -> None:
        contents = self._contents
        if contents.is_stored and not is_removed:
            contents.store.remove_many(contents.place, sequences)
        contents.count_cleared(cleared)
        contents.flow.release()

    def _tell_purged(self, entries: Iterable[tuple[Message | int, int]]) -> None:
        """Report that messages leave; *entries* are these, or tickets that stand for them, with their sequences."""
        contents = self._contents
        audit = contents.audit
        if audit is None:
            return
        event, why = (Event.DISCARDED, DELETED) if contents.is_gone else (Event.PURGED, None)
        paged: list[int] = []
        for entry, sequence in entries:
            if isinstance(entry, Message):
                audit.happened(event, contents.audited, entry, None, why)
            else:
                paged.append(sequence)
        if paged:
            audit.happened_to(event, contents.audited, paged, why)

    def _not_pending(self) -> set[int]:
        """The sequences of messages that stay: in flight, acknowledged in open transactions, set aside, reserved."""
        contents = self._contents
        in_flight = {it.sequence for s in self._consumers for it in s.in_flight if contents.owns(it)}
        undecided = {message.sequence for message in self._undecided()}
        return in_flight | undecided | contents.set_aside | self._reservations.sequences()

    def close(self, on_emptied: Callable[[], None]) -> bool:
        """End the queue; what is undecided, in transactions or awaiting redelivery, ends when it is decided.

        The queue is empty at once for all others. Its messages leave memory in slices, because there may be millions.
        Returns True if the store is to remove the queue now; otherwise *on_emptied* is called when the store has none
        of its messages any more.
        """
        contents = self._contents
        contents.is_gone = contents.pages.is_gone = True
        self._tell_purged(self._view.waiting_entries())
        for subscription in self._consumers:
            contents.count_cleared(_cleared([it for it, _ in subscription.waiting_in.pop(contents.place, ())]))
        levels = contents.levels[:]
        contents.levels[:] = [PendingList() for _ in levels]
        if not self._drop_some(levels, self._slices.budget()):
            return True
        is_removed_first = contents.store.pages or not contents.is_stored
        self._slices.start(partial(self._drop_more, levels, None if is_removed_first else on_emptied))
        return is_removed_first

    def _drop_more(self, levels: list[PendingList], on_emptied: Callable[[], None] | None, budget: Budget) -> bool:
        if self._drop_some(levels, budget):
            return True
        if on_emptied is not None:
            on_emptied()
        return False

    def _drop_some(self, levels: list[PendingList], budget: Budget) -> bool:
        """Drop some of what is in *levels*; whether there is more. A store in memory drops it as well."""
        contents = self._contents
        for level in levels:
            while level:
                sequences, cleared = level.drop_last(_DROPPED_AT_ONCE)
                if contents.is_stored and not contents.store.pages:
                    contents.store.remove_many(contents.place, sequences)
                contents.count_cleared(cleared)
                if budget.spend(_DROPPED_AT_ONCE):
                    contents.flow.release()
                    return any(levels)
        contents.flow.release()
        return False


def _cleared(entries: list[Message | PagedOut]) -> Cleared:
    """The same as `PendingList.clear` returns, for messages that waited for one consumer."""
    in_memory_bytes = sum(it.size_bytes for it in entries if isinstance(it, Message))
    return Cleared(
        len(entries),
        sum(it.size_bytes for it in entries),
        in_memory_bytes,
        max((it.sequence for it in entries), default=0),
        [it.ticket for it in entries if it.ticket],
    )

"""How far a durable subscription is with the messages of one topic.

All messages of the topic up to `acked` are done for it. Above that, a message is pending unless it is in one of the
`done` ranges: acknowledged out of order, or never meant for this subscription. Between two neighbouring pending
messages, and behind the last, there is at most one such range, because a range may cover sequences that the topic does
not have.
"""

from typing import final

from ackwire.store.sql.sequence_set import SequenceSet


@final
class Progress:
    """The state of one subscription on one topic, and what of it the database does not know yet."""

    __slots__ = ("_gaps", "_lasts", "acked", "changed_ranges", "is_changed", "is_stored", "pending")

    def __init__(self, acked: int, *, is_stored: bool) -> None:
        self.acked = acked
        self.pending = SequenceSet()
        self._lasts: dict[int, int] = {}
        """The done ranges: first sequence → last."""
        self._gaps: dict[int, int] = {}
        """The pending message in front of a range → the first sequence of the range."""
        self.is_stored = is_stored
        """Whether the database has a row for it."""
        self.is_changed = not is_stored
        self.changed_ranges: dict[int, int | None] = {}
        """By their first sequence: what the database is to know; None for what is gone."""

    def restore(self, sequence: int) -> None:
        """Add a pending message that the database has, in order."""
        self.pending.add(sequence)

    def restore_range(self, first: int, last: int) -> None:
        """Add a range that the database has, after all pending messages."""
        before = self.pending.before(first)
        if before is None or before in self._gaps or first <= self.acked:  # one that says nothing any more
            self.changed_ranges[first] = None
            if before is not None and before in self._gaps:
                self._set(before, self._gaps[before], max(last, self._lasts[self._gaps[before]]))
            return
        self._lasts[first] = last
        self._gaps[before] = first

    def _set(self, before: int, first: int, last: int) -> None:
        """Have the gap behind the pending message *before* be done from *first* to *last*."""
        self._drop(before)
        self._lasts[first] = last
        self._gaps[before] = first
        self.changed_ranges[first] = last

    def _drop(self, before: int) -> tuple[int, int] | None:
        """Forget the range behind the pending message *before*, and return it."""
        first = self._gaps.pop(before, None)
        if first is None:
            return None
        self.changed_ranges[first] = None
        return first, self._lasts.pop(first)

    def _advance(self, acked: int) -> None:
        if acked != self.acked:
            self.acked = acked
            self.is_changed = True

    def take(self, sequence: int) -> None:
        """The message is pending."""
        before = self.pending.before(sequence)
        if not self.pending.add(sequence):
            return
        if sequence <= self.acked:  # it comes late
            last = self.acked
            self._advance(sequence - 1)
            if sequence < last:
                self._set(sequence, sequence + 1, last)
        elif before is not None and before in self._gaps:
            self._split(before, sequence)

    def _split(self, before: int, sequence: int) -> None:
        """A message has become pending in the gap behind *before*."""
        first = self._gaps[before]
        last = self._lasts[first]
        if last < sequence:
            return
        self._drop(before)
        if first < sequence:
            self._set(before, first, sequence - 1)
        if sequence < last:
            self._set(sequence, max(first, sequence + 1), last)

    def skip(self, sequence: int) -> None:
        """A message of the topic is not for this subscription."""
        if sequence <= self.acked or sequence in self.pending:
            return
        before = self.pending.before(sequence)
        if before is None:
            self._advance(sequence)
            return
        first = self._gaps.get(before)
        if first is None:
            self._set(before, sequence, sequence)
        else:
            last = self._lasts[first]
            if not first <= sequence <= last:
                self._set(before, min(first, sequence), max(last, sequence))

    def finish(self, sequence: int) -> bool:
        """The message is done; False if it was not pending."""
        if not self.pending.remove(sequence):
            return False
        before = self.pending.before(sequence)
        behind = self._drop(sequence)
        last = sequence if behind is None else behind[1]
        if before is None:
            self._advance(max(self.acked, last))
            return True
        in_front = self._drop(before)
        self._set(before, sequence if in_front is None else in_front[0], last)
        return True

"""What one queue takes over from an earlier run of the broker, and leaves to the next one."""

from collections.abc import Iterable
from typing import final

from ackwire.broker.auditing import Event
from ackwire.broker.dispatch_gate import QueueGate
from ackwire.broker.queue_contents import QueueContents
from ackwire.broker.queue_view import QueueView
from ackwire.broker.reservations import Reservations
from ackwire.jms.message import Message
from ackwire.store.contract import WaitingMessages


@final
class QueueRestart:
    """Restores one queue at a start, and says at a stop what it leaves."""

    def __init__(self, contents: QueueContents, reservations: Reservations, view: QueueView, gate: QueueGate) -> None:
        self._contents = contents
        self._reservations = reservations
        self._view = view
        self._gate = gate

    def restore(self, waiting: WaitingMessages) -> None:
        """Add messages of an earlier run, in their order: the store has them; there are no consumers yet."""
        contents = self._contents
        levels = contents.levels
        before = sum(level.paged_bytes for level in levels)
        for number, level in enumerate(levels):
            if len(levels) == 1:
                level.restore(waiting)
            else:
                level.restore(WaitingMessages(it for it in waiting if contents.level_of(it) == number))
        contents.size_bytes += sum(level.paged_bytes for level in levels) - before

    def restore_dispatched(self, sequence: int) -> None:
        """Messages up to *sequence* may have reached consumers in an earlier run."""
        self._gate.restore(sequence)

    def tell_restored(self, sequences: Iterable[int], why: str) -> None:
        """Tell the audit of messages of an earlier run that it may not know."""
        if self._contents.audit is not None:
            self._contents.audit.happened_to(Event.RESTORED, self._contents.audited, sequences, why)

    def tell_not_kept(self, why: str, *, keeps_persistent: bool) -> int:
        """The broker ends: tell the audit which messages end with it. Returns how many messages are kept."""
        contents = self._contents
        audit = contents.audit
        assert audit is not None
        kept = 0
        for entry, sequence in self._view.waiting_entries():
            is_persistent = entry.persistent if isinstance(entry, Message) else not entry
            if is_persistent and keeps_persistent and contents.is_stored:
                kept += 1
            elif isinstance(entry, Message):
                audit.happened(Event.DISCARDED, contents.audited, entry, None, why)
            else:
                audit.happened_to(Event.DISCARDED, contents.audited, (sequence,), why)
        return kept + len(contents.set_aside) + self._reservations.told_count

    def stop(self) -> None:
        """The broker ends in peace, and everything that waits is in its place again: record what consumers saw."""
        levels = self._contents.levels
        seen = (it.sequence for level in levels for it in level.in_memory() if it.redelivery_counter)
        self._gate.stop(max(seen, default=0), has_all=not any(level.paged_count for level in levels))

"""The messages of one queue: those that wait, and the counts of all of them.

A message waits in one of the pending lists: one list, or ten by priority where the policy says so. Other parts of a
queue take messages out of the lists (`dispatch.py`, `reservations.py`); this part removes messages for good, here and
in the store, and keeps the counts of bytes.
"""

from collections.abc import Callable
from typing import Final, final

from ackwire.broker.auditing import Audit, AuditedPlace, Event
from ackwire.broker.paging import Pager, QueuePages
from ackwire.broker.pending import Cleared, PagedOut, PendingList
from ackwire.jms.destinations import Destination
from ackwire.jms.message import Message
from ackwire.store.contract import Place, Store, WaitingMessage

_PRIORITY_LEVELS: Final = 10
_REMOVED_EACH: Final = 8
"""Messages that are removed from the store one by one; for more of them one call is cheaper."""
_UNREADABLE: Final = "lost: it cannot be read again"


@final
class QueueContents:
    """The pending lists of one queue, and its counts."""

    def __init__(
        self,
        place: Place,
        audited: AuditedPlace,
        *,
        store: Store,
        pager: Pager,
        prioritized: bool,
        audit: Audit | None,
        on_expired: Callable[[Message], None],
    ) -> None:
        self.place = place
        self.audited = audited
        """The queue, for the audit."""
        self.audit = audit
        self.store = store
        self.flow = pager.flow
        self._on_expired = on_expired
        """Called for each message that leaves because its time is over."""
        self.is_stored = not (isinstance(place, Destination) and place.kind.is_temporary)
        """Temporary queues end with their connection, so nothing of them is kept."""
        self.levels = [PendingList() for _ in range(_PRIORITY_LEVELS if prioritized else 1)]
        """The messages that wait for any consumer, by priority."""
        self.pages = QueuePages(place, pager, is_stored=self.is_stored, on_lost=self._lose)
        self.set_aside: set[int] = set()
        """Sequences of messages that neither wait nor are in flight: they will be offered again, or removed."""
        self.is_gone = False
        """The queue was deleted; what transactions have of it ends with them."""
        self.size_bytes = 0
        self.enqueued = 0
        self.dequeued = 0
        self.expired = 0
        self.lost = 0
        """Messages that could not be read again."""

    @property
    def has_pending(self) -> bool:
        """Whether anything waits that is not one consumer's alone."""
        levels = self.levels
        return len(levels[0]) > 0 if len(levels) == 1 else any(levels)

    def level_of(self, message: Message | PagedOut | WaitingMessage) -> int:
        return min(max(message.priority, 0), _PRIORITY_LEVELS - 1) if len(self.levels) > 1 else 0

    def owns(self, message: Message) -> bool:
        """Whether a message in flight to a consumer of several queues came from this one."""
        place = self.place
        return message.destination is place or not isinstance(place, Destination) or message.destination == place

    def count_restored(self, message: Message) -> None:
        """*message* takes space again, here or in a transaction that will decide about it."""
        self.size_bytes += message.size_bytes
        self.flow.used_bytes += message.size_bytes

    def page_out(self, message: Message, *, spill: bool = True) -> None:
        """Memory is tight, or the queue long: page *message* out if it still waits for any consumer."""
        pending = self.levels[self.level_of(message)]
        position = pending.position_of(message.sequence)
        if position is not None and pending.at(position) is message:
            self.pages.page_out(pending, position, message, spill=spill)

    # ---- messages end ------------------------------------------------------------------------------------------

    def remove(self, messages: list[Message]) -> None:
        """Delete *messages*, which are in no list, here and in the store."""
        removes_each = self.is_stored
        store = self.store
        if removes_each and len(messages) > _REMOVED_EACH:
            removes_each = False
            store.remove_many(self.place, [message.sequence for message in messages if message.persistent])
        flow = self.flow
        for message in messages:
            size_bytes = message.size_bytes
            self.size_bytes -= size_bytes
            flow.used_bytes -= size_bytes
            if removes_each and message.persistent:
                store.remove(self.place, message)
            if message.ticket:
                self.pages.free((message.ticket,))
        flow.release()

    def expire(self, message: Message) -> None:
        """Delete *message*, which is in no list: its time is over."""
        self.expired += 1
        if self.audit is not None:
            self.audit.happened(Event.EXPIRED, self.audited, message)
        with self.store.atomically():  # the dead letter is there before the message has gone
            self._on_expired(message)
            self.remove([message])

    def replace(self, old: Message, new: Message) -> None:
        """Put *new*, which has the same key and other bytes, in the place of *old*, which is set aside from now on."""
        self.set_aside.add(new.sequence)
        if old.ticket:
            self.pages.free((old.ticket,))
        growth = new.size_bytes - old.size_bytes
        self.size_bytes += growth
        self.flow.used_bytes += growth
        if old.persistent and self.is_stored:
            with self.store.atomically():
                self.store.remove(self.place, old)
                self.store.append(new, (self.place,))

    def count_cleared(self, cleared: Cleared) -> None:
        """Count out what has left a list; the caller removes it from the store."""
        self.size_bytes -= cleared.size_bytes
        self.flow.used_bytes -= cleared.in_memory_bytes
        self.pages.free(cleared.tickets)

    def _lose(self, sequence: int, size_bytes: int) -> None:
        """A message that waited cannot be read any more; the store has reported why."""
        if self.audit is not None:
            self.audit.happened_to(Event.DISCARDED, self.audited, (sequence,), _UNREADABLE)
        self.lost += 1
        self.size_bytes -= size_bytes

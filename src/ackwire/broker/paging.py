"""Messages that wait leave memory when it gets tight, and come back when their turn comes (SEMANTICS B6, N2).

A persistent message costs nothing to let go: a store that pages has its bytes; at the end of a long queue it goes even
if there is room. Another one is written to the temp store first, if there is one with room. Only what was never
delivered goes: what a consumer has seen differs from what was stored. Messages come back in batches, ahead of the one
that is wanted, as far as memory has room for them.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, final

from ackwire.broker.limits import FlowControl
from ackwire.broker.pending import NO_LIMIT, Listed, PagedOut, PendingList
from ackwire.broker.slices import SLICE_SECONDS
from ackwire.errors import RemoteProtocolError
from ackwire.jms.message import Message
from ackwire.jms.message_editor import MessageEditor
from ackwire.store.contract import DurableKey, Place, Spill, SpillDamaged, Store, StoredFrame
from ackwire.util.clock import Clock

BATCH_MESSAGES: Final = 256
BATCH_BYTES: Final = 1024 * 1024
"""What is read at once, at most; one message always is."""

KEPT_BYTES: Final = 128 * 1024 * 1024
"""What a queue keeps in memory, however much is free, of messages that the store has: the others are not due soon."""

_READ_AHEAD_PERCENT: Final = 90
"""Above this share of memory only what is wanted now is read, and nothing ahead of it."""

_log = logging.getLogger(__name__)

Reference = tuple[int, int]
"""What finds a message again: its sequence, and its ticket in the temp store or 0."""


@final
class Pager:
    """Takes messages out of memory and brings them back, for all queues."""

    def __init__(
        self, store: Store, editor: MessageEditor, flow: FlowControl, temp: Spill | None, clock: Clock
    ) -> None:
        self._store = store
        self._clock = clock
        self.batch_messages = BATCH_MESSAGES
        """How many are read at once: fewer while the disk is slow, because all clients wait for it."""
        self._editor = editor
        self._temp = temp
        self.flow = flow

    @property
    def is_tight(self) -> bool:
        """Whether what waits should leave memory."""
        return self.flow.is_tight

    @property
    def read_ahead_bytes(self) -> int:
        """How much more than the next message may be read."""
        room = self.flow.memory_bytes_max * _READ_AHEAD_PERCENT // 100 - self.flow.used_bytes
        return max(0, min(room, BATCH_BYTES))

    def ticket_for(self, message: Message, *, is_stored: bool) -> int | None:
        """What stands for *message* once it is out of memory; None if it has to stay."""
        if message.redelivery_counter or message.dispatched_ms:
            return None
        if message.persistent and is_stored:
            return 0 if self._store.pages else None
        if message.ticket:
            return message.ticket
        return None if self._temp is None else self._temp.append(message.frame)

    def load(self, place: Place, references: Sequence[Reference]) -> list[Message | None]:
        """The messages again, one for each of *references*; None for what is lost, which has been reported."""
        began = self._clock.monotonic()
        stored = [sequence for sequence, ticket in references if not ticket]
        from_store = iter(self._load_stored(place, stored))
        loaded = [self._load_spilled(place, ticket) if ticket else next(from_store) for _, ticket in references]
        self._adapt(len(loaded), self._clock.monotonic() - began)
        return loaded

    def _adapt(self, count: int, seconds: float) -> None:
        """Half as many the next time if these took too long, and twice as many if they were quick."""
        if seconds > SLICE_SECONDS:
            self.batch_messages = max(1, min(count, self.batch_messages) // 2)
        elif seconds < SLICE_SECONDS / 4 and count >= self.batch_messages:
            self.batch_messages = min(BATCH_MESSAGES, 2 * self.batch_messages)

    def _load_stored(self, place: Place, sequences: list[int]) -> list[Message | None]:
        messages = self._store.load(place, sequences) if sequences else []
        if isinstance(place, DurableKey) and not self._store.pages:
            # Durable subscriptions share what such a store has, and count redeliveries each for itself.
            return [None if message is None else message.copy() for message in messages]
        return messages

    def _load_spilled(self, place: Place, ticket: int) -> Message | None:
        assert self._temp is not None, "only a temp store gives tickets"
        try:
            message = self._editor.restored(self._temp.read(ticket))
        except (SpillDamaged, RemoteProtocolError) as error:
            _log.error("a spilled message of %r is lost: %s", place, error)
            return None
        message.ticket = ticket
        return message

    def frames(self, place: Place, references: Sequence[Reference]) -> list[StoredFrame | None]:
        """The same, unread."""
        stored = iter(self._store.read(place, [sequence for sequence, ticket in references if not ticket]))
        return [self._spilled_frame(place, ticket) if ticket else next(stored) for _, ticket in references]

    def _spilled_frame(self, place: Place, ticket: int) -> StoredFrame | None:
        message = self._load_spilled(place, ticket)
        return None if message is None else (message.frame, 0)

    def free(self, tickets: Iterable[int]) -> None:
        """These messages have gone for good."""
        for ticket in tickets:
            assert self._temp is not None, "only a temp store gives tickets"
            self._temp.free(ticket)


@final
class QueuePages:
    """What one queue has out of memory, and how it gets it back."""

    def __init__(self, place: Place, pager: Pager, *, is_stored: bool, on_lost: Callable[[int, int], None]) -> None:
        self._place = place
        self._pager = pager
        self._flow = pager.flow
        self._is_stored = is_stored
        self._on_lost = on_lost
        """Told sequence and size of a message that cannot be brought back."""

    @property
    def is_tight(self) -> bool:
        return self._pager.is_tight

    # ---- out of memory -----------------------------------------------------------------------------------------

    def page_out(self, pending: PendingList, position: int, message: Message, *, spill: bool = True) -> None:
        """Let *message* at *position* go, if it can; without *spill*, only if the store has it."""
        if not spill and not (message.persistent and self._is_stored):
            return
        ticket = self._pager.ticket_for(message, is_stored=self._is_stored)
        if ticket is not None:
            pending.page_out(position, ticket)
            self._flow.used_bytes -= message.size_bytes
            self._flow.release()

    def shelved(self, message: Message) -> Message | PagedOut:
        """*message*, which waits in no list, or what is left of it if memory is tight."""
        ticket = self._pager.ticket_for(message, is_stored=self._is_stored) if self.is_tight else None
        if ticket is None:
            return message
        self._flow.used_bytes -= message.size_bytes
        return PagedOut(message.sequence, message.expiration, message.priority, message.size_bytes, ticket)

    # ---- back into memory --------------------------------------------------------------------------------------

    def page_in(self, pending: PendingList, position: int) -> int:
        """Bring back what is paged out at *position* and a batch behind it; the answer is how many were read."""
        wanted = pending.paged_from(position, self._pager.batch_messages, self._pager.read_ahead_bytes)
        self.page_in_these(pending, wanted)
        return len(wanted)

    def page_in_these(self, pending: PendingList, wanted: list[Listed]) -> None:
        """Bring back *wanted*, all paged out; what is lost leaves the list."""
        for listed, message in zip(wanted, self._load(map(_reference, wanted)), strict=True):
            if message is None:
                pending.take(listed.position)
                self._lose(listed.sequence, listed.size_bytes, listed.entry)
            else:
                pending.page_in(listed.position, message)
                self._flow.used_bytes += message.size_bytes

    def unshelve(self, waiting: deque[tuple[Message | PagedOut, bool]], room: int) -> None:
        """Bring back the first of *waiting*, and more for as much *room* as there is."""
        bytes_left = self._pager.read_ahead_bytes
        paged: list[tuple[int, PagedOut]] = []
        for index in range(min(len(waiting), max(1, room), self._pager.batch_messages)):
            entry, _ = waiting[index]
            if isinstance(entry, PagedOut):
                bytes_left -= entry.size_bytes
                if paged and bytes_left < 0:
                    break
                paged.append((index, entry))
        messages = self._load((entry.sequence, entry.ticket) for _, entry in paged)
        for (index, entry), message in zip(reversed(paged), reversed(messages), strict=True):
            if message is None:
                del waiting[index]
                self._lose(entry.sequence, entry.size_bytes, entry.ticket)
            else:
                waiting[index] = (message, waiting[index][1])
                self._flow.used_bytes += message.size_bytes

    def unshelved(self, entry: PagedOut) -> Message | None:
        """One message that is wanted for itself; None if it is lost."""
        [message] = self._load([(entry.sequence, entry.ticket)])
        if message is None:
            self._lose(entry.sequence, entry.size_bytes, entry.ticket)
        else:
            self._flow.used_bytes += message.size_bytes
        return message

    def frames(self, references: Iterable[Reference]) -> list[StoredFrame | None]:
        """The bytes of messages that are out of memory; None for what is lost, which has been reported."""
        return self._pager.frames(self._place, list(references))

    def stored(self, sequences: list[int]) -> list[Message]:
        """Messages that are in no list, as the store has them; without those that are lost."""
        return [it for it in self._load((sequence, 0) for sequence in sequences) if it is not None]

    def _load(self, references: Iterable[Reference]) -> list[Message | None]:
        return self._pager.load(self._place, list(references))

    def _lose(self, sequence: int, size_bytes: int, ticket: object) -> None:
        _log.error("message %d of %r is lost: it cannot be read again", sequence, self._place)
        if isinstance(ticket, int) and ticket:
            self._pager.free([ticket])
        self._on_lost(sequence, size_bytes)

    # ---- a look at what is there -------------------------------------------------------------------------------

    def look(self, pending: PendingList, after: int, last: int = NO_LIMIT) -> tuple[list[Message], int]:
        """A batch of messages with sequences above *after*, up to *last*, and how far that has come.

        Nothing comes into memory for longer than the caller keeps it, and what cannot be read is left out.
        """
        listed = pending.between(after, last, self._pager.batch_messages, BATCH_BYTES)
        paged = [it for it in listed if isinstance(it.entry, int)]
        loaded = dict(zip((it.sequence for it in paged), self._load(map(_reference, paged)), strict=True))
        found = [loaded[it.sequence] if isinstance(it.entry, int) else it.entry for it in listed]
        return [message for message in found if message is not None], listed[-1].sequence if listed else last

    def peek(self, entries: Iterable[Message | PagedOut]) -> Iterator[Message]:
        """The messages that *entries* stand for, as `look` shows them."""
        for entry in entries:
            message = self._load([(entry.sequence, entry.ticket)])[0] if isinstance(entry, PagedOut) else entry
            if message is not None:
                yield message

    # ---- gone --------------------------------------------------------------------------------------------------

    def free(self, tickets: Iterable[int]) -> None:
        """These messages have gone for good."""
        self._pager.free(tickets)


def _reference(listed: Listed) -> Reference:
    assert isinstance(listed.entry, int)
    return listed.sequence, listed.entry

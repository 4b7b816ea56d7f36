"""Pages messages that wait out of memory when it gets tight, and in when their turn comes (SEMANTICS B6, N2).

A persistent message costs nothing to page out: a store that pages has its bytes; at the end of a long queue it goes
even if there is room. Another one is written to the temp store first, if there is one with room. Only messages that
were never delivered go: what a consumer has seen differs from what was stored.

Messages are paged in in batches, ahead of the one that is wanted, as far as memory has room for them. The loop does not
wait for the store: a page-in is a `Fetch`, and until it has arrived anything may happen to the entries. So a message
that arrives goes to its entry only if that is still there and still paged out.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, final

from ackwire.broker.fetching import Fetch
from ackwire.broker.limits import FlowControl
from ackwire.broker.pending import NO_LIMIT, Listed, PagedOut, PendingList
from ackwire.broker.slices import SLICE_SECONDS
from ackwire.errors import RemoteProtocolError, StoreFailed
from ackwire.jms.message import Message
from ackwire.jms.message_editor import MessageEditor
from ackwire.store.contract import DurableKey, OnLoaded, Place, Spill, SpillDamaged, Store
from ackwire.util.clock import Clock

BATCH_MESSAGES: Final = 256
BATCH_BYTES: Final = 1024 * 1024
"""What is read at once, at most; one message always is."""

KEPT_BYTES: Final = 128 * 1024 * 1024
"""What a queue keeps in memory, however much is free, of messages that the store has: the others are not due soon."""

_READ_AHEAD_PERCENT: Final = 90
"""Above this share of memory only what is wanted now is read, and nothing ahead of it."""

_RETRY_SECONDS: Final = 1.0
"""Between two tries to read messages: what fails, of want of memory or threads, may take a while to pass."""

_log = logging.getLogger(__name__)

Reference = tuple[int, int]
"""What finds a message again: its sequence, and its ticket in the temp store or 0."""

Shown = Listed | Message | PagedOut
"""A message or what stands for it, for those who look at a queue."""

Waiting = dict[Place, deque[tuple[Message | PagedOut, bool]]]
"""`QueueSubscription.waiting_in`."""


@final
class Pager:
    """Takes messages out of memory and brings them back, for all queues."""

    def __init__(
        self, store: Store, editor: MessageEditor, flow: FlowControl, temp: Spill | None, clock: Clock
    ) -> None:
        self._store = store
        self._clock = clock
        self.batch_messages = BATCH_MESSAGES
        """How many are read at once: fewer while reads on the loop are slow, because all clients wait for them."""
        self._editor = editor
        self._temp = temp
        self.flow = flow
        self.under_way_bytes = 0
        """Bytes of messages that are being paged in: they take memory when they arrive."""

    @property
    def is_tight(self) -> bool:
        """Whether what waits should leave memory."""
        return self.flow.is_tight

    @property
    def read_ahead_bytes(self) -> int:
        """How much more than the next message may be read."""
        room = self.flow.memory_bytes_max * _READ_AHEAD_PERCENT // 100 - self.flow.used_bytes
        return max(0, min(room - self.under_way_bytes, BATCH_BYTES))

    def ticket_for(self, message: Message, *, is_stored: bool) -> int | None:
        """What stands for *message* once it is out of memory; None if it has to stay."""
        if message.redelivery_counter or message.dispatched_ms:
            return None
        if message.persistent and is_stored:
            return 0 if self._store.pages else None
        if message.ticket:
            return message.ticket
        return None if self._temp is None else self._temp.append(message.frame)

    def fetch(self, place: Place, references: Sequence[Reference], on_loaded: OnLoaded) -> None:
        """Call *on_loaded* with the messages, one for each of *references*; None for what is lost, which has been
        reported. It may be called before this returns; the loop does not wait."""
        spilled = self._spilled(place, references)  # now: their tickets may be freed before the store answers
        stored = [sequence for sequence, ticket in references if not ticket]
        if not stored:
            on_loaded(_in_order(references, [], spilled))
            return

        def loaded(messages: list[Message | None]) -> None:
            on_loaded(_in_order(references, self._own_copies(place, messages), spilled))

        self._fetch_stored(place, stored, loaded)

    def _fetch_stored(self, place: Place, sequences: list[int], on_loaded: OnLoaded) -> None:
        """Call *on_loaded* with what the store has; a fetch that fails is tried again, because what it was for waits
        for it."""
        began = self._clock.monotonic()
        is_on_loop = True

        def loaded(messages: list[Message | None]) -> None:
            self._adapt(len(messages), self._clock.monotonic() - began if is_on_loop else 0.0)
            on_loaded(messages)

        self._store.fetch(place, sequences, loaded, partial(self._retry_later, place, sequences, on_loaded))
        is_on_loop = False

    def _retry_later(self, place: Place, sequences: list[int], on_loaded: OnLoaded) -> None:
        self._clock.call_later(_RETRY_SECONDS, partial(self._retry, place, sequences, on_loaded))

    def _retry(self, place: Place, sequences: list[int], on_loaded: OnLoaded) -> None:
        """Ask the store again; where that fails at once, no caller would learn it."""
        has_loaded = False

        def loaded(messages: list[Message | None]) -> None:
            nonlocal has_loaded
            has_loaded = True
            on_loaded(messages)

        try:
            self._fetch_stored(place, sequences, loaded)
        except StoreFailed:
            raise
        except Exception:
            _log.exception("messages of %r could not be read again", place)
            if not has_loaded:
                self._retry_later(place, sequences, on_loaded)

    def _spilled(self, place: Place, references: Sequence[Reference]) -> dict[int, Message | None]:
        return {ticket: self._load_spilled(place, ticket) for _, ticket in references if ticket}

    def _adapt(self, count: int, seconds: float) -> None:
        """Half as many the next time if these held up the loop for too long, and twice as many if they did not."""
        if seconds > SLICE_SECONDS:
            self.batch_messages = max(1, min(count, self.batch_messages) // 2)
        elif seconds < SLICE_SECONDS / 4 and count >= self.batch_messages:
            self.batch_messages = min(BATCH_MESSAGES, 2 * self.batch_messages)

    def _own_copies(self, place: Place, messages: list[Message | None]) -> list[Message | None]:
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

    def free(self, tickets: Iterable[int]) -> None:
        """These messages have gone for good."""
        for ticket in tickets:
            assert self._temp is not None, "only a temp store gives tickets"
            self._temp.free(ticket)


@final
class QueuePages:
    """What one queue has out of memory, and how it gets it back."""

    def __init__(self, place: Place, pager: Pager, *, is_stored: bool, on_lost: Callable[[int, int], None]) -> None:
        self.is_gone = False
        """The queue was deleted: what arrives now is dropped, and what is missing is not lost."""
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

    def page_in(self, pending: PendingList, position: int) -> Fetch:
        """Bring back what is paged out at *position* and a batch behind it."""
        return self.page_in_these(
            pending, pending.paged_from(position, self._pager.batch_messages, self._pager.read_ahead_bytes)
        )

    def page_in_these(self, pending: PendingList, wanted: list[Listed]) -> Fetch:
        """Bring back *wanted*, all paged out; what is lost leaves the list."""
        fetch = Fetch()

        def loaded(messages: list[Message | None]) -> None:
            try:
                for listed, message in zip(wanted, messages, strict=True):
                    self._put_in_list(pending, listed, message)
            finally:
                fetch.arrive(messages)

        self._fetch([_reference(it) for it in wanted], sum([it.size_bytes for it in wanted]), loaded)
        return fetch

    def _fetch(self, references: list[Reference], size_bytes: int, on_loaded: OnLoaded) -> None:
        """Ask for messages that will stay in memory, *size_bytes* in sum. They count as under way until they are there:
        the page-ins of many queues share what room there is."""
        pager = self._pager
        has_ended = False

        def end() -> None:
            nonlocal has_ended
            if not has_ended:
                has_ended = True
                pager.under_way_bytes -= size_bytes

        def loaded(messages: list[Message | None]) -> None:
            end()
            on_loaded(messages)

        pager.under_way_bytes += size_bytes
        try:
            pager.fetch(self._place, references, loaded)
        except Exception:
            end()
            raise

    def _put_in_list(self, pending: PendingList, listed: Listed, message: Message | None) -> None:
        """Put *message* in its place, unless its entry was taken, purged or paged in while it was read."""
        if self.is_gone:
            return
        position = pending.position_of(listed.sequence)
        entry = None if position is None else pending.at(position)
        if position is None or not isinstance(entry, int) or entry != listed.entry:
            return
        if message is None:
            pending.take(position)
            self._lose(listed.sequence, listed.size_bytes, entry)
        else:
            pending.page_in(position, message)
            self._flow.used_bytes += message.size_bytes

    def unshelve(self, waiting_in: Waiting, room: int) -> Fetch:
        """Bring back the first messages that wait for one consumer: one, and more for as much *room* as it has."""
        waiting = waiting_in[self._place]
        bytes_left = self._pager.read_ahead_bytes
        paged: list[PagedOut] = []
        for index in range(min(len(waiting), max(1, room), self._pager.batch_messages)):
            entry, _ = waiting[index]
            if isinstance(entry, PagedOut):
                bytes_left -= entry.size_bytes
                if paged and bytes_left < 0:
                    break
                paged.append(entry)
        return self.unshelve_these(waiting_in, paged)

    def unshelve_these(self, waiting_in: Waiting, paged: list[PagedOut]) -> Fetch:
        """Bring back *paged*, which wait for one consumer alone."""
        fetch = Fetch()

        def loaded(messages: list[Message | None]) -> None:
            try:
                self._put_in_line(waiting_in, dict(zip(paged, messages, strict=True)))
            finally:
                fetch.arrive(messages)

        self._fetch([(it.sequence, it.ticket) for it in paged], sum([it.size_bytes for it in paged]), loaded)
        return fetch

    def _put_in_line(self, waiting_in: Waiting, loaded: dict[PagedOut, Message | None]) -> None:
        """Put messages in the places of their entries, as far as these still wait for the same consumer."""
        waiting = waiting_in.get(self._place)
        if waiting is None or self.is_gone:
            return
        left = len(loaded)
        kept: list[tuple[Message | PagedOut, bool]] = []
        while waiting and left:
            entry, is_first = waiting.popleft()
            if isinstance(entry, PagedOut) and entry in loaded:
                left -= 1
                message = loaded[entry]
                if message is None:
                    self._lose(entry.sequence, entry.size_bytes, entry.ticket)
                    continue
                self._flow.used_bytes += message.size_bytes
                entry = message
            kept.append((entry, is_first))
        waiting.extendleft(reversed(kept))
        if not waiting:
            del waiting_in[self._place]

    def fetch_stored(self, sequences: Sequence[int]) -> Fetch:
        """Messages that are in no list, as the store has them."""
        fetch = Fetch()
        self._pager.fetch(self._place, [(sequence, 0) for sequence in sequences], fetch.arrive)
        return fetch

    def _lose(self, sequence: int, size_bytes: int, ticket: object) -> None:
        _log.error("message %d of %r is lost: it cannot be read again", sequence, self._place)
        if isinstance(ticket, int) and ticket:
            self._pager.free([ticket])
        self._on_lost(sequence, size_bytes)

    # ---- a look at what is there -------------------------------------------------------------------------------

    def listed(self, pending: PendingList, after: int, last: int = NO_LIMIT) -> list[Listed]:
        """The entries of a batch of messages with sequences above *after*, up to *last*."""
        return pending.between(after, last, self._pager.batch_messages, BATCH_BYTES)

    def first_batch(self, entries: Sequence[Shown]) -> Sequence[Shown]:
        """The first of *entries*, as many as are read at once; one at least, if there is any."""
        bytes_left = BATCH_BYTES
        for index, it in enumerate(entries[: self._pager.batch_messages]):
            bytes_left -= it.size_bytes
            if index and bytes_left < 0:
                return entries[:index]
        return entries[: self._pager.batch_messages]

    def read(self, entries: Sequence[Shown]) -> Fetch:
        """The messages of *entries*, in order; those that are paged out are read, and stay out."""
        here = [it.entry if isinstance(it, Listed) else it for it in entries]
        sequences = [it.sequence for it in entries]
        paged = [index for index, it in enumerate(here) if not isinstance(it, Message)]
        fetch = Fetch()

        def loaded(messages: list[Message | None]) -> None:
            found: list[Message | None] = [it if isinstance(it, Message) else None for it in here]
            for index, message in zip(paged, messages, strict=True):
                found[index] = message
            fetch.arrive(found)

        if paged:
            references = [(sequences[index], _ticket(here[index])) for index in paged]
            self._pager.fetch(self._place, references, loaded)
        else:
            loaded([])
        return fetch

    # ---- gone --------------------------------------------------------------------------------------------------

    def free(self, tickets: Iterable[int]) -> None:
        """These messages have gone for good."""
        self._pager.free(tickets)


def _in_order(
    references: Sequence[Reference], stored: list[Message | None], spilled: dict[int, Message | None]
) -> list[Message | None]:
    """One message for each of *references*: of the store, in order, and of the temp store by ticket."""
    from_store = iter(stored)
    return [spilled[ticket] if ticket else next(from_store) for _, ticket in references]


def _ticket(entry: Message | PagedOut | int) -> int:
    assert not isinstance(entry, Message)
    return entry.ticket if isinstance(entry, PagedOut) else entry


def _reference(listed: Listed) -> Reference:
    assert isinstance(listed.entry, int)
    return listed.sequence, listed.entry

"""A queue: messages in order, each to exactly one consumer (SEMANTICS A2, C, H).

The parts of a queue are in modules of their own: its messages (`queue_contents.py`), its consumers
(`queue_consumers.py`), dispatch (`dispatch.py`), messages reserved for cursors and staged batches (`reservations.py`),
expiry (`queue_expiry.py`), purge and deletion (`queue_removal.py`), what a restart brings back (`queue_restart.py`) and
what operators, browsers and the audit see (`queue_view.py`). This module is what happens to single messages: they come,
are finished, come back.

When memory gets tight, messages that wait are paged out (`paging.py`). A message is offered to consumers before that.

The same class serves durable subscriptions: each is a queue with at most one consumer.
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol, final
from urllib.parse import quote

from ackwire.broker.auditing import Audit, Event
from ackwire.broker.dispatch import Dispatcher
from ackwire.broker.dispatch_gate import DispatchGate, QueueGate
from ackwire.broker.paging import KEPT_BYTES, Pager
from ackwire.broker.pending import PagedOut
from ackwire.broker.queue_consumers import QueueConsumers
from ackwire.broker.queue_contents import QueueContents
from ackwire.broker.queue_expiry import QueueExpiry
from ackwire.broker.queue_removal import DELETED, QueueRemoval
from ackwire.broker.queue_restart import QueueRestart
from ackwire.broker.queue_view import QueueView
from ackwire.broker.reservations import Reservations
from ackwire.broker.slices import Slices
from ackwire.broker.subscription import QueueSubscription
from ackwire.config.policy import DestinationPolicy
from ackwire.jms.destinations import Destination
from ackwire.jms.message import Message
from ackwire.jms.message_editor import MessageEditor
from ackwire.store.contract import Place, Store
from ackwire.util.clock import Clock


class QueueEvents(Protocol):
    """The events of a queue, for the broker."""

    def on_expired(self, queue: "Queue", message: Message) -> None:
        """*message* has left the queue because its time is over."""
        ...

    def on_consumed(self, queue: "Queue", messages: list[Message]) -> None:
        """*messages* were acknowledged."""
        ...

    def on_slow(self, queue: "Queue", subscription: QueueSubscription) -> None:
        """*subscription* is full, and there is more for it."""
        ...

    def undecided(self, queue: "Queue") -> Iterator[Message]:
        """The messages of *queue* whose acks wait for the end of a transaction."""
        ...


@final
class Queue:
    """One queue and its consumers."""

    def __init__(
        self,
        place: Place,
        *,
        store: Store,
        clock: Clock,
        editor: MessageEditor,
        policy: DestinationPolicy,
        events: QueueEvents,
        pager: Pager,
        gate: DispatchGate,
        audit: Audit | None = None,
        slices: Slices | None = None,
    ) -> None:
        slices = Slices(clock) if slices is None else slices  # an empty one is false
        self.place = place
        self.policy = policy
        self.advises_arrivals = policy.advise_no_consumers or policy.advise_delivered
        self._advises_consumed = policy.advise_consumed
        self._events = events
        self._flow = pager.flow
        self.contents = QueueContents(
            place,
            self,
            store=store,
            pager=pager,
            prioritized=policy.prioritized,
            audit=audit,
            on_expired=partial(events.on_expired, self),
        )
        self.is_stored = self.contents.is_stored
        self.consumers = QueueConsumers(place, policy, len(self.contents.levels))
        queue_gate = QueueGate(place, store, gate, is_stored=self.is_stored)
        self.dispatcher = Dispatcher(
            self.contents,
            self.consumers,
            queue_gate,
            clock=clock,
            editor=editor,
            slices=slices,
            policy=policy,
            on_slow=partial(events.on_slow, self),
        )
        self.reservations = Reservations(self.contents, self.consumers, self.dispatcher, clock)
        self.view = QueueView(self.contents, self.consumers, self.reservations)
        self.expiry = QueueExpiry(self.contents, self.consumers, self.dispatcher)
        self.restart = QueueRestart(self.contents, self.reservations, self.view, queue_gate)
        self.removal = QueueRemoval(
            self.contents, self.consumers, self.reservations, self.view, slices, partial(events.undecided, self)
        )

    def __repr__(self) -> str:
        return f"{self.place!r}"

    def use(self, policy: DestinationPolicy) -> None:
        """Go by another policy from now on. Its order (prioritized) and groups_max stay what they were made with."""
        self.policy = policy
        self.advises_arrivals = policy.advise_no_consumers or policy.advise_delivered
        self._advises_consumed = policy.advise_consumed
        self.consumers.use(policy)
        self.dispatcher.use(policy)

    # ---- what is there -----------------------------------------------------------------------------------------

    @property
    def audit(self) -> Audit | None:
        """Where the life of its messages is recorded, if it is."""
        return self.contents.audit

    @property
    def audit_name(self) -> str:
        if isinstance(self.place, Destination):
            return repr(self.place)
        return f"durable://{quote(self.place.client_id, safe=' :@')}/{self.place.name}"

    @property
    def is_gone(self) -> bool:
        """It was deleted; what transactions have of it ends with them."""
        return self.contents.is_gone

    @property
    def size_bytes(self) -> int:
        """The size of all its messages, in memory or not."""
        return self.contents.size_bytes

    @property
    def consumer_count(self) -> int:
        return self.consumers.count

    def owns(self, message: Message) -> bool:
        """Whether a message in flight to a consumer of several queues came from this one."""
        return self.contents.owns(message)

    # ---- messages come in --------------------------------------------------------------------------------------

    def accept(self, message: Message) -> None:
        """Take a new message, which the caller has recorded in the store; offer it to a consumer at once."""
        contents = self.contents
        flow = self._flow
        contents.enqueued += 1
        size_bytes = message.size_bytes
        contents.size_bytes += size_bytes
        flow.used_bytes += size_bytes
        if message.group_id is None and message.expiration == 0 and self.dispatcher.deliver_directly(message):
            return
        if contents.audit is not None:
            contents.audit.stored(self, message)
        pending = contents.levels[contents.level_of(message)]
        pending.append(message)
        self.dispatcher.dispatch()
        if flow.is_tight:
            contents.page_out(message)
        elif contents.size_bytes - pending.paged_bytes > KEPT_BYTES:
            contents.page_out(message, spill=False)

    def accept_in_place(self, messages: list[Message]) -> None:
        """Take new messages whose sequences were reserved before others came: each goes to its place in the order."""
        contents = self.contents
        for message in messages:
            contents.enqueued += 1
            contents.count_restored(message)
            if contents.audit is not None:
                contents.audit.stored(self, message)
        self.dispatcher.return_messages(messages)

    # ---- consumers come and go ---------------------------------------------------------------------------------

    def add(self, subscription: QueueSubscription) -> None:
        """A consumer arrives, and is served at once."""
        self.consumers.add(subscription)
        self.dispatcher.count_consumers()
        self.dispatcher.dispatch()

    def remove(self, subscription: QueueSubscription, was_delivered: Callable[[Message], bool]) -> None:
        """A consumer leaves: what it had not finished goes back, marked as redelivered where it was seen (D7)."""
        self.consumers.remove(subscription)
        audit = self.contents.audit
        owns = self.contents.owns
        in_flight = [message for message in subscription.in_flight if owns(message)]
        if len(in_flight) == len(subscription.in_flight):
            subscription.in_flight.take_all()
        else:
            for message in in_flight:
                subscription.in_flight.take_one(message.key)
        for message in in_flight:
            is_seen = was_delivered(message)
            if is_seen:
                message.redelivery_counter += 1
            if audit is not None:
                audit.happened(Event.REDELIVERED if is_seen else Event.RETURNED, self, message, subscription)
        returned = in_flight + [entry for entry, _ in subscription.waiting_in.pop(self.place, ())]
        if subscription is self.consumers.exclusive:
            self.consumers.choose_exclusive()
        self.consumers.look_at_all_again()  # groups it owned are free for other lanes now
        self.dispatcher.return_messages(returned)

    # ---- messages end or come back -----------------------------------------------------------------------------

    def finish(self, messages: list[Message]) -> None:
        """*messages*, taken out of flight by the caller, are consumed: delete them here and in the store."""
        contents = self.contents
        contents.dequeued += len(messages)
        contents.remove(messages)
        if self._advises_consumed:
            self._events.on_consumed(self, messages)

    def expire(self, messages: list[Message]) -> None:
        """*messages*, taken out of flight by the caller, were found too old."""
        for message in messages:
            self.contents.expire(message)

    def put_back(self, messages: list[Message]) -> None:
        """*messages*, which were in flight or set aside, return to their places and are offered again."""
        contents = self.contents
        contents.set_aside.difference_update(message.sequence for message in messages)
        if not contents.is_gone:
            self.dispatcher.return_messages(messages)
            return
        if contents.audit is not None:
            for message in messages:
                contents.audit.happened(Event.DISCARDED, self, message, None, DELETED)
        contents.remove(messages)

    # ---- operators take messages out ---------------------------------------------------------------------------

    def withdraw(self, message: Message) -> Message | None:
        """Set *message*, which may have been read a while ago, aside and return it as it is now, to `drop` it or
        `put_back`; None if it does not wait any more."""
        contents = self.contents
        number = contents.level_of(message)
        pending = contents.levels[number]
        position = pending.position_of(message.sequence)
        if position is not None:
            entry: Message | PagedOut | int = pending.take(position)
            self.dispatcher.close_gaps(number, pending)
        else:
            waiting = self._take_waiting(message.sequence)
            if waiting is None:
                return None
            entry = waiting
        contents.set_aside.add(message.sequence)
        if isinstance(entry, Message):
            return entry
        message.ticket = entry.ticket if isinstance(entry, PagedOut) else entry
        self._flow.used_bytes += message.size_bytes
        return message

    def _take_waiting(self, sequence: int) -> Message | PagedOut | None:
        """Take out the entry of that sequence, if it waits for one consumer alone."""
        for subscription in self.consumers:
            waiting = subscription.waiting_in.get(self.place, deque())
            for index, (entry, _) in enumerate(waiting):
                if entry.sequence == sequence:
                    del waiting[index]
                    if not waiting:
                        del subscription.waiting_in[self.place]
                    return entry
        return None

    def drop(self, message: Message) -> None:
        """Delete *message*, which was withdrawn, here and in the store."""
        contents = self.contents
        contents.set_aside.discard(message.sequence)
        contents.dequeued += 1
        contents.remove([message])

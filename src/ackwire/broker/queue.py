"""A queue: messages in order, each to exactly one consumer (SEMANTICS A2, C, H).

How it works. A message waits in one of the pending lists: one list, or ten by priority where the policy says so.
Consumers are grouped into lanes by selector (`dispatch.py`); each lane remembers how far it has looked, so a message is
held against a selector once, and a match is found however deep it lies. Long scans are cut into turns, so they hold up
nobody. What a consumer gives back goes to its old place.

When memory gets tight, what waits leaves it (`paging.py`) and only a number stays in the list; who meets the number
brings the message back. A message is offered to consumers before it is let go.

The same class serves durable subscriptions: each is a queue with at most one consumer.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, final
from urllib.parse import quote

from ackwire.broker.auditing import Audit, Event
from ackwire.broker.browsing import Snapshot
from ackwire.broker.dispatch import Lane
from ackwire.broker.dispatch_gate import DispatchGate, QueueGate
from ackwire.broker.groups import MessageGroups
from ackwire.broker.held import Held
from ackwire.broker.paging import KEPT_BYTES, Pager, QueuePages
from ackwire.broker.pending import NO_LIMIT, Cleared, PagedOut, PendingList
from ackwire.broker.slices import Budget, Slices
from ackwire.broker.subscription import QueueSubscription
from ackwire.config.policy import DestinationPolicy
from ackwire.jms.destinations import Destination
from ackwire.jms.message import Message
from ackwire.jms.message_editor import MessageEditor
from ackwire.jms.types import Value
from ackwire.selector import Selector
from ackwire.store.contract import Place, Store, WaitingMessage, WaitingMessages
from ackwire.util.clock import Clock, Timer
from ackwire.util.sequence_runs import Runs, sequences_of

_PRIORITY_LEVELS: Final = 10
_NO_LIMIT: Final = 1 << 62
_EXAMINED_PER_TURN: Final = 2000
"""Messages held against selectors, sent, or brought back into memory, before others get their turn."""
_EXAMINED_PER_LOOK: Final = 8
"""Messages between two looks at the clock: a slice is over when its time is, too."""
_RESERVED_PER_TURN: Final = 20_000
"""Messages given to a cursor before others get their turn, where nobody has to look at them."""
_EXPIRED_AT_ONCE: Final = 16
"""Expired messages that are brought back into memory together."""
_LET_GO_AT_ONCE: Final = 64
"""Messages of a deleted queue between two looks at the clock."""
_REMOVED_EACH: Final = 8
"""Messages that the store is told of one by one; more of them are cheaper together."""
_LOOKS_FOR_EXPIRED: Final = 2000
"""Messages whose time is looked at in one step."""
_DELETED: Final = "its queue or subscription was deleted"
_UNREADABLE: Final = "lost: it cannot be read again"


class QueueEvents(Protocol):
    """What a queue tells the broker."""

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


class Holder(Protocol):
    """Who has messages of a queue that nobody else may have."""

    def told_count(self, place: Place) -> int:
        """How many messages of *place* it has, as far as anybody was told that they are there."""
        ...


def _nothing(_name: str) -> Value:
    return None


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
        self.place = place
        self._slices = Slices(clock) if slices is None else slices  # an empty one is false
        self.audit = audit
        self.policy = policy
        self.advises_arrivals = policy.advise_no_consumers or policy.advise_delivered
        self._advises_consumed = policy.advise_consumed
        self._store = store
        self._clock = clock
        self._editor = editor
        self._last_looked_up: Message | None = None
        self._last_frame = b""
        self._lookup: Callable[[str], Value] = _nothing
        self._events = events
        self._flow = pager.flow
        levels = _PRIORITY_LEVELS if policy.prioritized else 1
        self._levels = [PendingList() for _ in range(levels)]
        self._lanes: dict[str | None, Lane] = {}
        self._in_turn: list[Lane] = []
        """The same in their order, those first that were served longest ago; made anew with each change."""
        self._readers: list[Lane] = []
        """Those of cursors: nobody is in them who could be sent a message."""
        self._groups = MessageGroups(policy.groups_max)
        self._exclusive: QueueSubscription | None = None
        self._is_continuing = False
        self._slice: Budget | None = None
        """Of the time of a dispatch that takes long."""
        self._is_paused = False
        self._changes = 0
        self.is_stored = not (isinstance(place, Destination) and place.kind.is_temporary)
        """Temporary queues end with their connection, so nothing of them is kept."""
        self._gate = QueueGate(place, store, gate, is_stored=self.is_stored)
        self._pages = QueuePages(place, pager, is_stored=self.is_stored, on_lost=self._lose)
        self._set_aside: set[int] = set()
        """Sequences of messages that are to be offered again later, and are in nobody's hands until then."""
        self.holders: dict[Holder, Callable[[], Iterable[int]]] = {}
        """Who has messages here that nobody else may have, and which: cursors, staged batches."""
        self._has_enough_consumers = policy.consumers_before_dispatch <= 1
        self._wait_for_consumers: Timer | None = None
        self._is_gone = False
        self.consumer_count = 0
        self.size_bytes = 0
        self.enqueued = 0
        self.dequeued = 0
        self.expired = 0
        self.lost = 0
        """Messages that could not be read again."""

    def __repr__(self) -> str:
        return f"{self.place!r}"

    def use(self, policy: DestinationPolicy) -> None:
        """Go by another policy from now on. Its order (prioritized) and groups_max stay what they were made with."""
        self.policy = policy
        self.advises_arrivals = policy.advise_no_consumers or policy.advise_delivered
        self._advises_consumed = policy.advise_consumed

    # ---- what is there -----------------------------------------------------------------------------------------

    @property
    def audit_name(self) -> str:
        if isinstance(self.place, Destination):
            return repr(self.place)
        return f"durable://{quote(self.place.client_id, safe=' :@')}/{self.place.name}"

    @property
    def is_gone(self) -> bool:
        """It was deleted; what transactions have of it ends with them."""
        return self._is_gone

    @property
    def held_count(self) -> int:
        """All its messages, those aside that wait for the end of a transaction."""
        in_flight = sum(
            sum(map(self.owns, s.in_flight)) if s.has_several_queues else len(s.in_flight) for s in self.subscriptions()
        )
        held = sum(holder.told_count(self.place) for holder in self.holders)
        return self.pending_count + in_flight + len(self._set_aside) + held

    @property
    def pending_count(self) -> int:
        """Messages that wait for a consumer."""
        return sum(map(len, self._levels)) + sum(len(s.waiting_in.get(self.place, ())) for s in self.subscriptions())

    @property
    def paged_count(self) -> int:
        """Those of them that are not in memory."""
        waiting = (entry for s in self.subscriptions() for entry, _ in s.waiting_in.get(self.place, ()))
        return sum(level.paged_count for level in self._levels) + sum(isinstance(it, PagedOut) for it in waiting)

    @property
    def in_flight_count(self) -> int:
        return sum(1 for subscription in self.subscriptions() for m in subscription.in_flight if self.owns(m))

    @property
    def exclusive_consumer(self) -> QueueSubscription | None:
        return self._exclusive

    @property
    def group_count(self) -> int:
        return len(self._groups)

    @property
    def is_paused(self) -> bool:
        return self._is_paused

    def group_owner(self, group_id: str) -> QueueSubscription | None:
        """The consumer that a message group is bound to."""
        return self._groups.holder(group_id)

    def pending(self) -> Iterator[Message]:
        """The messages that wait for any consumer, in the order in which they are dispatched; those that are paged out
        are read for the caller, a batch at a time, and stay out."""
        for level in reversed(self._levels):
            after = 0
            while after < level.last_sequence:
                messages, after = self._pages.look(level, after)
                yield from messages

    def kept_for(self, subscription: QueueSubscription) -> Iterator[Message]:
        """The messages of this queue that wait for *subscription* alone."""
        return self._pages.peek([entry for entry, _ in subscription.waiting_in.get(self.place, ())])

    def subscriptions(self) -> Iterator[QueueSubscription]:
        for lane in self._lanes.values():
            yield from lane.rotation.subscriptions

    def owns(self, message: Message) -> bool:
        """Whether a message held by a consumer of several queues came from this one."""
        return not isinstance(self.place, Destination) or message.destination == self.place

    def browse(self) -> Iterator[list[Message]]:
        """Every message that is here now, in order, those in flight included: what a browser sees, in batches."""
        return Snapshot(self._levels, self._pages, self._in_hand).batches()

    def _in_hand(self, level: int) -> list[Message | PagedOut]:
        """What consumers have of a level, or what waits for one of them alone."""
        found: list[Message | PagedOut] = []
        for subscription in self.subscriptions():
            found += [entry for entry, _ in subscription.waiting_in.get(self.place, ())]
            found += [message for message in subscription.in_flight if self.owns(message)]
        return [entry for entry in found if self._level_of(entry) == level]

    def _level_of(self, message: Message | PagedOut | WaitingMessage) -> int:
        return min(max(message.priority, 0), _PRIORITY_LEVELS - 1) if len(self._levels) > 1 else 0

    # ---- messages come back after a restart --------------------------------------------------------------------

    def restore(self, waiting: WaitingMessages) -> None:
        """Messages of an earlier run, in their order: the store has them; no consumer is here yet."""
        before = sum(level.paged_bytes for level in self._levels)
        for number, level in enumerate(self._levels):
            if len(self._levels) == 1:
                level.restore(waiting)
            else:
                level.restore(WaitingMessages(it for it in waiting if self._level_of(it) == number))
        self.size_bytes += sum(level.paged_bytes for level in self._levels) - before

    def tell_restored(self, sequences: Iterable[int], why: str) -> None:
        """Let the audit know what an earlier run has left, as far as it may not know."""
        if self.audit is not None:
            self.audit.happened_to(Event.RESTORED, self, sequences, why)

    def tell_not_kept(self, why: str, *, keeps_persistent: bool) -> int:
        """The broker ends: let the audit know what ends with it. The answer is how many messages are kept."""
        assert self.audit is not None
        kept = 0
        for entry, sequence in self._waiting_entries():
            is_persistent = entry.persistent if isinstance(entry, Message) else not entry
            if is_persistent and keeps_persistent and self.is_stored:
                kept += 1
            elif isinstance(entry, Message):
                self.audit.happened(Event.DISCARDED, self, entry, None, why)
            else:
                self.audit.happened_to(Event.DISCARDED, self, (sequence,), why)
        return kept + len(self._set_aside) + sum(holder.told_count(self.place) for holder in self.holders)

    def _waiting_entries(self) -> Iterator[tuple[Message | int, int]]:
        """Everything that waits, with its sequence; a ticket stands for what is paged out."""
        for level in self._levels:
            yield from level.entries()
        for subscription in self.subscriptions():
            for it, _ in subscription.waiting_in.get(self.place, ()):
                yield (it.ticket if isinstance(it, PagedOut) else it), it.sequence

    def restore_handed_out(self, sequence: int) -> None:
        """Messages up to *sequence* may have reached consumers in an earlier run."""
        self._gate.restore(sequence)

    def stop(self) -> None:
        """The broker ends in peace, with all that waits in its place again: say what of it was seen."""
        seen = (it.sequence for level in self._levels for it in level.in_memory() if it.redelivery_counter)
        self._gate.stop(max(seen, default=0), has_all=not any(level.paged_count for level in self._levels))

    def count_restored(self, message: Message) -> None:
        """*message* takes space again, here or in a transaction that will decide about it."""
        self.size_bytes += message.size_bytes
        self._flow.used_bytes += message.size_bytes

    # ---- messages come in --------------------------------------------------------------------------------------

    def accept(self, message: Message) -> None:
        """Take a new message, which the caller has recorded in the store; offer it to a consumer at once."""
        self.enqueued += 1
        size_bytes = message.size_bytes
        self.size_bytes += size_bytes
        self._flow.used_bytes += size_bytes
        if message.group_id is None and message.expiration == 0 and self._deliver_directly(message):
            return
        if self.audit is not None:
            self.audit.stored(self, message)
        pending = self._levels[self._level_of(message)]
        pending.append(message)
        self.dispatch()
        if self._flow.is_tight:
            self._let_go(message)
        elif self.size_bytes - pending.paged_bytes > KEPT_BYTES:
            self._let_go(message, spill=False)

    def accept_in_place(self, messages: list[Message]) -> None:
        """Take new messages whose sequences were reserved before others came: each goes to its place in the order."""
        for message in messages:
            self.enqueued += 1
            self.count_restored(message)
            if self.audit is not None:
                self.audit.stored(self, message)
        self._return(messages)

    def _let_go(self, message: Message, *, spill: bool = True) -> None:
        """Memory is tight, or the queue long: if *message* still waits, for nobody in particular, it leaves memory."""
        pending = self._levels[self._level_of(message)]
        position = pending.position_of(message.sequence)
        if position is not None and pending.at(position) is message:
            self._pages.page_out(pending, position, message, spill=spill)

    def _deliver_directly(self, message: Message) -> bool:
        """The usual case needs no list: nothing waits, and someone who wants *message*, of no group, has room."""
        if self._exclusive is not None or self._holds_back or self._has_pending:
            return False
        for lane in self._lanes_in_turn():
            if lane.selector is not None and not lane.selector.matches(self._looked_up(message)):
                continue
            subscription = lane.rotation.next(self.place)
            if subscription is None:
                continue
            if message.key in subscription.in_flight:
                return False
            self._was_served(lane)
            if self.audit is not None:
                self.audit.arrived(self, message, subscription)
            subscription.in_flight.add(message)
            self._gate.dispatch(subscription, message, False)
            return True
        return False

    # ---- messages go out ---------------------------------------------------------------------------------------

    def dispatch(self) -> None:
        """Send pending messages to consumers as long as one has room."""
        if self._holds_back:
            return
        lanes = self._lanes_to_serve()
        if len(lanes) == 1:
            budget, _ = self._serve(lanes[0], _EXAMINED_PER_TURN)
        else:
            budget = self._share(_EXAMINED_PER_TURN)
        if budget <= 0 and not self._is_continuing:
            self._is_continuing = True
            self._slices.start(self._continue)
        self._slice = None

    def _continue(self, budget: Budget) -> bool:
        """One more slice; it asks for the next one itself."""
        self._is_continuing = False
        self._slice = budget
        self.dispatch()
        return False

    def _left(self, budget: int) -> int:
        """What is left of *budget*: nothing when the time of this slice is over. It begins with the first question."""
        if self._slice is None:
            self._slice = self._slices.new_budget()
        return 0 if self._slice.is_spent else budget

    def _lanes_to_serve(self) -> list[Lane]:
        if self._exclusive is not None:
            return [self._lane_of(self._exclusive)]
        return self._in_turn

    def _share(self, budget: int) -> int:
        """Lanes take turns, a message each, those with consumers of higher priority first (A2, H2)."""
        served = True
        while served and budget > 0:
            served = False
            for lane in self._lanes_in_turn():
                budget, handed_over = self._serve(lane, budget, at_most=1)
                if handed_over:
                    self._was_served(lane)
                    served = True
                    break
        return budget

    def _lanes_in_turn(self) -> list[Lane]:
        """Those with the most important consumers first, and among equals those that were served longest ago."""
        lanes = self._in_turn
        if len(lanes) > 1:
            priority = lanes[0].rotation.priority
            for lane in lanes:
                if lane.rotation.priority != priority:
                    return sorted(lanes, key=_by_priority)
        return lanes

    def _was_served(self, lane: Lane) -> None:
        """Next time it comes behind its equals."""
        if len(self._lanes) > 1:
            self._lanes[lane.text] = self._lanes.pop(lane.text)
            self._lanes_have_changed()

    def _lanes_have_changed(self) -> None:
        self._in_turn = list(self._lanes.values())

    def _serve(self, lane: Lane, budget: int, at_most: int = _NO_LIMIT) -> tuple[int, int]:
        """Send what is for *lane*, highest priority first; the answer is the budget left, and how many were sent."""
        handed_over = 0
        for level in range(len(self._levels) - 1, -1, -1):
            if self._levels[level] and handed_over < at_most:
                budget, more = self._serve_level(lane, level, budget, at_most - handed_over)
                handed_over += more
        return budget, handed_over

    def _serve_level(self, lane: Lane, level: int, budget: int, at_most: int) -> tuple[int, int]:
        """Send what is for *lane* until it is full or there is no more."""
        pending = self._levels[level]
        now_ms = self._clock.now_ms()
        handed_over = examined = 0
        while budget > 0 and handed_over < at_most:
            found = pending.next_from(lane.positions[level])
            if found is None:
                break
            position, message = found
            subscription = None
            if isinstance(message, int):
                subscription = self._whose_turn(lane)
                if subscription is None:  # it is brought back for someone, or not at all
                    self._mark_slow(lane)
                    break
                budget = self._left(budget - self._pages.page_in(pending, position))
                loaded = pending.at(position)
                if not isinstance(loaded, Message):
                    continue
                message = loaded
            if 0 < message.expiration <= now_ms:
                pending.take(position)
                self._expire(message)
                continue
            if subscription is None:
                subscription = self._whose_turn(lane)
                if subscription is None:
                    self._mark_slow(lane)
                    break
            lane.positions[level] = position + 1
            budget -= 1
            examined += 1
            if not examined % _EXAMINED_PER_LOOK:
                budget = self._left(budget)
            if not self._is_for(lane, message):
                budget -= lane.cost
                if self._flow.is_tight:
                    self._pages.page_out(pending, position, message)
                continue
            pending.take(position)
            self._hand_over(message, lane, subscription, now_ms)
            handed_over += 1
        self._close_gaps(level)
        return budget, handed_over

    def _close_gaps(self, level: int) -> None:
        pending = self._levels[level]
        if pending.is_sparse:
            lanes = [*self._lanes.values(), *self._readers]
            for lane, moved in zip(lanes, pending.compact([it.positions[level] for it in lanes]), strict=True):
                lane.positions[level] = moved

    def _whose_turn(self, lane: Lane) -> QueueSubscription | None:
        exclusive = self._exclusive
        if exclusive is None:
            return lane.rotation.next(self.place)
        if exclusive.has_room and self.place not in exclusive.waiting_in:
            return exclusive
        exclusive.passed_over[self.place] = None
        return None

    def _is_for(self, lane: Lane, message: Message) -> bool:
        """Whether somebody in *lane* may have *message*."""
        if lane.selector is not None and not lane.selector.matches(self._looked_up(message)):
            return False
        if message.group_id is None:
            return True
        owner = self._groups.owner(message.group_id)
        return owner is None or self._lane_of(owner) is lane

    def _looked_up(self, message: Message) -> Callable[[str], Value]:
        """What selectors see of *message*; a new one is held against those of all lanes, and decoded once."""
        if message is not self._last_looked_up or message.frame is not self._last_frame:
            self._lookup = self._editor.lookup(message)
            self._last_looked_up, self._last_frame = message, message.frame
        return self._lookup

    def _hand_over(self, message: Message, lane: Lane, subscription: QueueSubscription, now_ms: int) -> None:
        """Send *message* to *subscription*, whose turn it is in *lane*, or to the owner of its group (H3)."""
        owner, first = subscription, False
        if message.group_id is not None:
            holder = self._groups.owner(message.group_id)
            if holder is None:
                first = True
                if subscription is not self._exclusive:
                    owner = lane.rotation.for_new_group(subscription, self.place, self._groups)
                self._assign_group(message.group_id, owner)
            else:
                owner = holder
        # A copy of a message that it holds from another queue waits: acks could not tell the two apart.
        if owner.has_room and self.place not in owner.waiting_in and message.key not in owner.in_flight:
            self._deliver(message, owner, first, now_ms)
        else:
            owner.waiting_in.setdefault(self.place, deque()).append((self._pages.shelved(message), first))
            owner.passed_over[self.place] = None
            self._flow.release()

    def _deliver(self, message: Message, owner: QueueSubscription, first: bool, now_ms: int) -> None:
        message.dispatched_ms = now_ms
        if message.group_id is not None:
            if self._groups.holder(message.group_id) is None:  # it was closed while this one waited
                first = True
                self._assign_group(message.group_id, owner)
            if message.group_sequence < 0:
                self._groups.close(message.group_id)
                self._look_at_all_again()
        if self.audit is not None:
            self.audit.dispatched(self, message, owner)
        owner.in_flight.add(message)
        self._gate.dispatch(owner, message, first)

    def _assign_group(self, group_id: str, owner: QueueSubscription) -> None:
        if self._groups.assign(group_id, owner):
            self._look_at_all_again()

    def _look_at_all_again(self) -> None:
        """A group is free: lanes that passed over its messages may have them now."""
        for lane in (*self._lanes.values(), *self._readers):
            lane.look_at_all_again()

    def _deliver_waiting(self, subscription: QueueSubscription) -> None:
        """Send what waits for *subscription* alone, as far as it can take it."""
        waiting = subscription.waiting_in.get(self.place)
        if waiting is None:
            return
        now_ms = self._clock.now_ms()
        while waiting and subscription.has_room:
            message, first = waiting[0]
            if isinstance(message, PagedOut):
                self._pages.unshelve(waiting, room=subscription.room)
                continue
            if message.key in subscription.in_flight:
                break
            waiting.popleft()
            if 0 < message.expiration <= now_ms:
                self._expire(message)
            else:
                self._deliver(message, subscription, first, now_ms)
        if not waiting:
            del subscription.waiting_in[self.place]

    def _mark_slow(self, lane: Lane) -> None:
        full = lane.rotation.take_full() if self._exclusive is None else (self._exclusive,)
        for subscription in full:
            if not subscription.is_slow and not subscription.is_pull and not subscription.has_room:
                subscription.is_slow = True
                self._events.on_slow(self, subscription)

    # ---- consumers come and go ---------------------------------------------------------------------------------

    def add(self, subscription: QueueSubscription) -> None:
        """A consumer arrives, and is served at once."""
        text = None if subscription.selector is None else subscription.selector.text
        lane = self._lanes.get(text)
        if lane is None:
            lane = self._lanes[text] = Lane(subscription.selector, len(self._levels))
            self._lanes_have_changed()
        lane.rotation.add(subscription)
        self.consumer_count += 1
        if subscription.request.exclusive or self.policy.exclusive_by_default:
            self._choose_exclusive()
        self._count_consumers()
        self.dispatch()

    def remove(self, subscription: QueueSubscription, was_delivered: Callable[[Message], bool]) -> None:
        """A consumer leaves: what it had not finished goes back, marked as redelivered where it was seen (D7)."""
        lane = self._lane_of(subscription)
        lane.rotation.remove(subscription)
        self.consumer_count -= 1
        if not lane.rotation.subscriptions:
            del self._lanes[lane.text]
            self._lanes_have_changed()
        self._groups.release(subscription)
        in_flight = [message for message in subscription.in_flight if self.owns(message)]
        for message in in_flight:
            subscription.in_flight.take_one(message.key)
            is_seen = was_delivered(message)
            if is_seen:
                message.redelivery_counter += 1
            if self.audit is not None:
                self.audit.happened(Event.REDELIVERED if is_seen else Event.RETURNED, self, message, subscription)
        returned = in_flight + [entry for entry, _ in subscription.waiting_in.pop(self.place, ())]
        if subscription is self._exclusive:
            self._choose_exclusive()
        self._look_at_all_again()  # groups it owned are free for other lanes now
        self._return(returned)

    def put_back(self, messages: list[Message]) -> None:
        """Messages return to their places and are offered again."""
        self._set_aside.difference_update(message.sequence for message in messages)
        if not self._is_gone:
            self._return(messages)
            return
        if self.audit is not None:
            for message in messages:
                self.audit.happened(Event.DISCARDED, self, message, None, _DELETED)
        self._forget(messages)

    def _return(self, messages: Sequence[Message | PagedOut]) -> None:
        for level, pending in enumerate(self._levels):
            mine = [message for message in messages if self._level_of(message) == level]
            if mine:
                self._changed_from(level, pending.put_back(mine))
        self.dispatch()
        for message in messages:
            if isinstance(message, Message) and self._flow.is_tight:
                self._let_go(message)

    def _changed_from(self, level: int, position: int) -> None:
        for lane in (*self._lanes.values(), *self._readers):
            lane.look_again_from(level, position)

    def _choose_exclusive(self) -> None:
        """The one of highest priority that came first; None if nobody asked to be alone (H2)."""
        candidates = [s for s in self.subscriptions() if s.request.exclusive or self.policy.exclusive_by_default]
        best = max((s.priority for s in candidates), default=0)
        if self._exclusive is not None and self._exclusive in candidates and self._exclusive.priority == best:
            return
        self._exclusive = next((s for s in candidates if s.priority == best), None)
        if self._exclusive is not None:
            self._groups.clear()  # it alone gets all that comes from now on
            self._look_at_all_again()  # and what others' groups had kept from its lane

    def _lane_of(self, subscription: QueueSubscription) -> Lane:
        return self._lanes[None if subscription.selector is None else subscription.selector.text]

    def resume(self, subscription: QueueSubscription) -> None:
        """*subscription* may have room again: first what waits for it alone, then its share of the rest."""
        if subscription.waiting_in and not self._is_paused:
            self._deliver_waiting(subscription)
        self._lane_of(subscription).rotation.offer(subscription)
        if self._has_pending:
            self.dispatch()

    @property
    def _has_pending(self) -> bool:
        """Whether anything waits that is not one consumer's alone."""
        levels = self._levels
        return len(levels[0]) > 0 if len(levels) == 1 else any(levels)

    @property
    def _holds_back(self) -> bool:
        return self._is_paused or self._changes > 0 or not self._has_enough_consumers

    def begin_change(self) -> None:
        """Several consumers come or go: wait until `end_change` before anything is sent."""
        self._changes += 1

    def end_change(self) -> None:
        self._changes -= 1
        self.dispatch()

    def _count_consumers(self) -> None:
        """Begin to dispatch when there are as many consumers as the policy wants, or it has waited long enough."""
        if self._has_enough_consumers:
            return
        if self.consumer_count >= self.policy.consumers_before_dispatch:
            self._begin_dispatch()
        elif self._wait_for_consumers is None:
            self._wait_for_consumers = self._clock.call_later(
                self.policy.dispatch_wait_seconds_max, self._begin_dispatch
            )

    def _begin_dispatch(self) -> None:
        self._has_enough_consumers = True
        if self._wait_for_consumers is not None:
            self._wait_for_consumers.cancel()
            self._wait_for_consumers = None
        self.dispatch()

    def pause(self) -> None:
        """Deliver nothing until `unpause`; messages are still accepted."""
        self._is_paused = True

    def unpause(self) -> None:
        """Deliver again, what waits for one consumer alone first."""
        self._is_paused = False
        for subscription in [it for it in self.subscriptions() if it.waiting_in]:
            self._deliver_waiting(subscription)
        self.dispatch()

    # ---- operators take messages out ---------------------------------------------------------------------------

    def waiting_batches(self) -> Iterator[list[Message]]:
        """The messages that wait now, in order and in batches; those that are paged out are read, and stay out."""
        ends = [level.last_sequence for level in self._levels]
        for number in range(len(self._levels) - 1, -1, -1):
            after = 0
            while after < ends[number]:
                messages, after = self._pages.look(self._levels[number], after, ends[number])
                yield messages
        for subscription in list(self.subscriptions()):
            yield list(self.kept_for(subscription))

    def withdraw(self, message: Message) -> bool:
        """Take *message* out of everybody's reach, to `drop` it or `put_back`; False if it does not wait any more."""
        number = self._level_of(message)
        pending = self._levels[number]
        position = pending.position_of(message.sequence)
        if position is not None:
            is_paged = isinstance(pending.take(position), int)
            self._close_gaps(number)
        else:
            entry = self._take_kept(message.sequence)
            if entry is None:
                return False
            is_paged = isinstance(entry, PagedOut)
        if is_paged:
            self._flow.used_bytes += message.size_bytes
        self._set_aside.add(message.sequence)
        return True

    def _take_kept(self, sequence: int) -> Message | PagedOut | None:
        """The entry of that sequence that waits for one consumer alone, and does not any more."""
        for subscription in self.subscriptions():
            waiting = subscription.waiting_in.get(self.place, deque())
            for index, (entry, _) in enumerate(waiting):
                if entry.sequence == sequence:
                    del waiting[index]
                    if not waiting:
                        del subscription.waiting_in[self.place]
                    return entry
        return None

    def drop(self, message: Message) -> None:
        """*message*, which was withdrawn, is deleted here and in the store."""
        self._set_aside.discard(message.sequence)
        self.dequeued += 1
        self._forget([message])

    # ---- a look at what is there -------------------------------------------------------------------------------

    def sequences(self) -> list[int]:
        """Of all that wait here or are in flight, in order."""
        found = [it.sequence for level in range(len(self._levels)) for it in self._in_hand(level)]
        for level in self._levels:
            found += level.sequences()
        return sorted(found)

    def look(self, after: int, to: int, limit: int) -> list[tuple[int, bytes, int]]:
        """Sequence, bytes and redeliveries of the next messages behind *after*, up to *to*, at most *limit*; none means
        that there are no more. What cannot be read is left out, and has been reported."""
        while True:
            rows, last = self._look(after, to, limit)
            if rows or last is None:
                return rows
            after = last

    def _look(self, after: int, to: int, limit: int) -> tuple[list[tuple[int, bytes, int]], int | None]:
        found: dict[int, Message | PagedOut | int] = {}
        for number, level in enumerate(self._levels):
            found.update((it.sequence, it.entry) for it in level.between(after, to, limit, NO_LIMIT))
            found.update((it.sequence, it) for it in self._in_hand(number) if after < it.sequence <= to)
        shown = sorted(found)[:limit]
        unread = [it for it in shown if not isinstance(found[it], Message)]
        stored = self._pages.frames((it, _ticket(found[it])) for it in unread)
        read = dict(zip(unread, stored, strict=True))
        rows: list[tuple[int, bytes, int]] = []
        for sequence in shown:
            entry = found[sequence]
            if isinstance(entry, Message):
                rows.append((sequence, entry.frame, entry.redelivery_counter))
            elif (frame := read[sequence]) is not None:
                rows.append((sequence, *frame))
        return rows, shown[-1] if shown else None

    # ---- cursors and staged batches ----------------------------------------------------------------------------

    def add_reader(self, selector: Selector | None) -> Lane:
        """A cursor will `reserve` messages, those that *selector* matches."""
        lane = Lane(selector, len(self._levels))
        self._readers.append(lane)
        return lane

    def remove_reader(self, lane: Lane) -> None:
        self._readers.remove(lane)

    def reserve(self, lane: Lane, count: int, held: Held) -> tuple[list[Message], bool]:
        """Take up to *count* messages that wait out of everybody's reach, into *held*.

        The answer is those of them that the store does not have, and whether that is all for now: a long look is cut
        into turns.
        """
        unstored: list[Message] = []
        if self._is_paused or self._exclusive is not None:
            return unstored, True
        budget = _EXAMINED_PER_TURN if lane.selector is not None else _RESERVED_PER_TURN
        for level in range(len(self._levels) - 1, -1, -1):
            while count > 0 and budget > 0:
                found = self._levels[level].next_from(lane.positions[level])
                if found is None:
                    break
                taken = self._reserve_run(lane, level, found[0], min(count, budget), held, unstored)
                if not taken:
                    budget -= lane.cost
                    taken = int(self._reserve_at(lane, level, *found, held, unstored))
                budget -= taken
                count -= taken
            self._close_gaps(level)
        return unstored, count <= 0 or budget > 0

    def _reserve_run(
        self, lane: Lane, level: int, position: int, count: int, held: Held, unstored: list[Message]
    ) -> int:
        """Reserve what stands together from *position* on, if nobody has to look at it; the answer is how many."""
        if lane.selector is not None or len(self._groups):
            return 0
        taken, sequences, sizes = self._levels[level].take_run(position, count)
        for entry in taken:
            if isinstance(entry, Message):
                self._reserve_message(entry, held, unstored)
        held.add_many(sequences, level, sizes)
        lane.positions[level] = position + len(taken)
        return len(taken)

    def _reserve_at(
        self, lane: Lane, level: int, position: int, entry: Message | int, held: Held, unstored: list[Message]
    ) -> bool:
        """Reserve the entry at *position*, if *lane* may have it."""
        pending = self._levels[level]
        facts = pending.facts_at(position)
        has_expired = 0 < facts.expiration <= self._clock.now_ms()
        if isinstance(entry, int) and (entry or has_expired or lane.selector is not None or len(self._groups)):
            self._pages.page_in(pending, position)
            return False  # it is looked at again, now that it is here
        if isinstance(entry, Message):
            if has_expired:
                pending.take(position)
                self._expire(entry)
                return False
            lane.positions[level] = position + 1
            if not self._is_for(lane, entry):
                return False
            self._reserve_message(entry, held, unstored)
        pending.take(position)
        held.add(WaitingMessage(facts.sequence, facts.expiration, level, facts.size_bytes))
        return True

    def _reserve_message(self, message: Message, held: Held, unstored: list[Message]) -> None:
        if message.redelivery_counter:
            held.redeliveries[message.sequence] = message.redelivery_counter
        if not message.persistent:
            held.unsafe.add(message.sequence)
            unstored.append(message)
        elif self._store.pages:
            self._flow.used_bytes -= message.size_bytes

    def store_held(self, messages: list[Message]) -> None:
        """Record reserved messages that were not persistent: their reader may read them again after a crash."""
        for message in messages:
            self._store.append(message, (self.place,))
            if message.ticket:
                self._pages.free((message.ticket,))
                message.ticket = 0
            if self._store.pages:
                self._flow.used_bytes -= message.size_bytes

    def restore_held(self, held: Held, runs: Runs, kept: Mapping[int, WaitingMessage]) -> None:
        """What was reserved in an earlier run, of which the store has *kept*."""
        for sequence in sequences_of(runs):
            message = kept.get(sequence) or WaitingMessage(sequence, 0, 0, 0)  # lost: whoever reads it is told
            held.add(message)
            self.size_bytes += message.size_bytes
            if not self._store.pages:
                self._flow.used_bytes += message.size_bytes

    def finish_held(self, held: Held, count: int) -> None:
        """The first *count* of *held* are consumed: deleted here and in the store."""
        size_bytes = held.first_bytes(count)
        self._store.remove_many(self.place, held.sequences(0, count))
        held.drop_first(count)
        self.dequeued += count
        self.size_bytes -= size_bytes
        if not self._store.pages:
            self._flow.used_bytes -= size_bytes
        self._flow.release()

    def give_back(self, held: Held) -> None:
        """All of *held* wait in their places again."""
        self._return_stored([it for it in held.messages() if it.sequence not in held.unsafe])
        unsafe = self._pages.stored(sorted(held.unsafe))
        self._store.remove_many(self.place, held.unsafe)
        if self._store.pages:
            self._flow.used_bytes += sum(message.size_bytes for message in unsafe)
        self._return(unsafe)

    def show(self, messages: list[WaitingMessage]) -> None:
        """New messages, which the store has already, are there for consumers from now on."""
        self.enqueued += len(messages)
        self.size_bytes += sum(it.size_bytes for it in messages)
        self._return_stored(messages)
        self.dispatch()

    def _return_stored(self, messages: list[WaitingMessage]) -> None:
        """Put messages in line that the store has, without bringing them into memory where they need not be there."""
        if not self._store.pages:
            self._return(self._pages.stored([it.sequence for it in messages]))
            return
        for level, pending in enumerate(self._levels):
            mine = [it for it in messages if self._level_of(it) == level]
            self._changed_from(level, pending.insert(sorted(mine)))

    # ---- messages end ------------------------------------------------------------------------------------------

    def finish(self, messages: list[Message]) -> None:
        """*messages*, taken out of flight by the caller, are consumed: deleted here and in the store."""
        self.dequeued += len(messages)
        self._forget(messages)
        if self._advises_consumed:
            self._events.on_consumed(self, messages)

    def _forget(self, messages: list[Message]) -> None:
        removes_each = self.is_stored
        if removes_each and len(messages) > _REMOVED_EACH:
            removes_each = False
            self._store.remove_many(self.place, [message.sequence for message in messages if message.persistent])
        for message in messages:
            size_bytes = message.size_bytes
            self.size_bytes -= size_bytes
            self._flow.used_bytes -= size_bytes
            if removes_each and message.persistent:
                self._store.remove(self.place, message)
            if message.ticket:
                self._pages.free((message.ticket,))
        self._flow.release()

    def _lose(self, sequence: int, size_bytes: int) -> None:
        """A message that waited cannot be read any more; the store has said why."""
        if self.audit is not None:
            self.audit.happened_to(Event.DISCARDED, self, (sequence,), _UNREADABLE)
        self.lost += 1
        self.size_bytes -= size_bytes

    def replace(self, old: Message, new: Message) -> None:
        """*new* takes the place of *old*, which is in nobody's hands: it has the same key and other bytes. It is to be
        `put_back` later."""
        self._set_aside.add(new.sequence)
        if old.ticket:
            self._pages.free((old.ticket,))
        growth = new.size_bytes - old.size_bytes
        self.size_bytes += growth
        self._flow.used_bytes += growth
        if old.persistent and self.is_stored:
            with self._store.atomically():
                self._store.remove(self.place, old)
                self._store.append(new, (self.place,))

    def _expire(self, message: Message) -> None:
        self.expired += 1
        if self.audit is not None:
            self.audit.happened(Event.EXPIRED, self, message)
        with self._store.atomically():  # the dead letter is there before the message has gone
            self._events.on_expired(self, message)
            self._forget([message])

    def expire(self, messages: list[Message]) -> None:
        """*messages*, taken out of flight by the caller, were found too old."""
        for message in messages:
            self._expire(message)

    def expire_due(self, now_ms: int) -> Iterator[None]:
        """Remove the pending messages whose time is over (A6), one with each step or after a look at many."""
        for level in self._levels:
            if level.may_be_due(now_ms):
                yield from self._expire_level(level, now_ms)
        for subscription in [it for it in self.subscriptions() if it.waiting_in]:
            self._expire_waiting(subscription, now_ms)

    def _expire_level(self, level: PendingList, now_ms: int) -> Iterator[None]:
        level.begin_look()
        after: int | None = 0
        earliest = NO_LIMIT
        while after is not None and not self._is_gone:
            due, after, next_due = level.due(after, now_ms, _LOOKS_FOR_EXPIRED)
            earliest = min(earliest, next_due)
            yield
            for start in range(0, len(due), _EXPIRED_AT_ONCE):
                batch = due[start : start + _EXPIRED_AT_ONCE]
                self._bring_back(level, batch)
                for sequence in batch:
                    self._expire_one(level, sequence)
                    yield
        level.end_look(earliest)

    def _expire_one(self, level: PendingList, sequence: int) -> None:
        position = level.position_of(sequence)
        message = None if position is None else level.at(position)
        if position is not None and isinstance(message, int):  # paged out again meanwhile
            self._bring_back(level, [sequence])
            message = level.at(position)
        if position is not None and isinstance(message, Message):  # nobody has found it first
            level.take(position)
            self._expire(message)

    def _bring_back(self, level: PendingList, sequences: list[int]) -> None:
        listed = [it for sequence in sequences for it in level.between(sequence - 1, sequence, 1, 0)]
        self._pages.page_in_these(level, [it for it in listed if isinstance(it.entry, int)])

    def _expire_waiting(self, subscription: QueueSubscription, now_ms: int) -> None:
        waiting = subscription.waiting_in.get(self.place, deque())
        due = [entry for entry, _ in waiting if 0 < entry.expiration <= now_ms]
        if not due:
            return
        kept = [entry for entry in waiting if not 0 < entry[0].expiration <= now_ms]
        waiting.clear()
        waiting.extend(kept)
        for entry in due:
            message = self._pages.unshelved(entry) if isinstance(entry, PagedOut) else entry
            if message is not None:
                self._expire(message)
        self.resume(subscription)

    def purge(self) -> int:
        """Delete all pending messages; the answer is how many. Nothing is read, and the store writes it down once."""
        if self.audit is not None:
            self._tell_purged(self.audit)
        cleared = [level.clear() for level in self._levels]
        for subscription in self.subscriptions():
            cleared.append(_cleared([entry for entry, _ in subscription.waiting_in.pop(self.place, ())]))
        count = sum(it.messages for it in cleared)
        self.size_bytes -= sum(it.size_bytes for it in cleared)
        self._flow.used_bytes -= sum(it.in_memory_bytes for it in cleared)
        if count and self.is_stored:
            self._store.purge(self.place, max(it.last_sequence for it in cleared), self._out_of_reach())
        for it in cleared:
            self._pages.free(it.tickets)
        self._flow.release()
        return count

    def _tell_purged(self, audit: Audit) -> None:
        event, why = (Event.DISCARDED, _DELETED) if self._is_gone else (Event.PURGED, None)
        for entry, sequence in self._waiting_entries():
            if isinstance(entry, Message):
                audit.happened(event, self, entry, None, why)
            else:
                audit.happened_to(event, self, (sequence,), why)

    def _out_of_reach(self) -> set[int]:
        """The sequences of what does not wait: in flight, acknowledged in open transactions, to be offered later."""
        in_flight = {message.sequence for s in self.subscriptions() for message in s.in_flight if self.owns(message)}
        undecided = {message.sequence for message in self._events.undecided(self)}
        return in_flight | undecided | self._set_aside | {it for held in self.holders.values() for it in held()}

    def close(self, on_emptied: Callable[[], None]) -> bool:
        """The queue ceases to exist; what is undecided, in transactions or awaiting redelivery, ends when it is.

        Nothing is found here any more. What waited leaves memory in slices, because there may be millions. True if the
        store is to forget the queue now; otherwise *on_emptied* is called when it has nothing of it any more.
        """
        self._is_gone = True
        if self.audit is not None:
            self._tell_purged(self.audit)
        for subscription in self.subscriptions():
            self._count_cleared(_cleared([entry for entry, _ in subscription.waiting_in.pop(self.place, ())]))
        levels, self._levels = self._levels, [PendingList() for _ in self._levels]
        if not self._let_go_of(levels, self._slices.budget()):
            return True
        is_forgotten_first = self._store.pages or not self.is_stored
        self._slices.start(partial(self._go_on_letting_go, levels, None if is_forgotten_first else on_emptied))
        return is_forgotten_first

    def _go_on_letting_go(
        self, levels: list[PendingList], on_emptied: Callable[[], None] | None, budget: Budget
    ) -> bool:
        if self._let_go_of(levels, budget):
            return True
        if on_emptied is not None:
            on_emptied()
        return False

    def _let_go_of(self, levels: list[PendingList], budget: Budget) -> bool:
        """Let go of some of what is in *levels*; whether there is more. A store in memory lets go of it as well."""
        for level in levels:
            while level:
                sequences, cleared = level.drop_last(_LET_GO_AT_ONCE)
                if self.is_stored and not self._store.pages:
                    self._store.remove_many(self.place, sequences)
                self._count_cleared(cleared)
                if budget.spend(_LET_GO_AT_ONCE):
                    self._flow.release()
                    return any(levels)
        self._flow.release()
        return False

    def _count_cleared(self, cleared: Cleared) -> None:
        self.size_bytes -= cleared.size_bytes
        self._flow.used_bytes -= cleared.in_memory_bytes
        self._pages.free(cleared.tickets)


def _cleared(entries: list[Message | PagedOut]) -> Cleared:
    """What `PendingList.clear` says of a list, for what waited for one consumer."""
    in_memory_bytes = sum(it.size_bytes for it in entries if isinstance(it, Message))
    return Cleared(
        len(entries),
        sum(it.size_bytes for it in entries),
        in_memory_bytes,
        max((it.sequence for it in entries), default=0),
        [it.ticket for it in entries if it.ticket],
    )


def _ticket(entry: Message | PagedOut | int) -> int:
    """Where a message is that is out of memory."""
    assert not isinstance(entry, Message)
    return entry.ticket if isinstance(entry, PagedOut) else entry


def _by_priority(lane: Lane) -> int:
    return -lane.rotation.priority

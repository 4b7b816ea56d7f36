"""Dispatch: sends the pending messages of one queue to its consumers (SEMANTICS A2, C, H).

Consumers are grouped into lanes by selector (`lanes.py`); each lane remembers how far it has looked, so a message is
compared with a selector once, and a match is found at any depth. Long scans are cut into slices. A message for the
owner of a group waits for that consumer alone while it is full (`QueueSubscription.waiting_in`).

When the next message of a lane is paged out, a batch is asked of the store, and the lane waits; dispatch goes on when
the batch has arrived (`paging.py`). Other lanes, sends and acks go on meanwhile.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, final

from ackwire.broker.dispatch_gate import QueueGate
from ackwire.broker.fetching import Fetch
from ackwire.broker.lanes import Lane
from ackwire.broker.pending import PagedOut, PendingList
from ackwire.broker.queue_consumers import QueueConsumers
from ackwire.broker.queue_contents import QueueContents
from ackwire.broker.slices import Budget, Slices
from ackwire.broker.subscription import QueueSubscription
from ackwire.config.policy import DestinationPolicy
from ackwire.jms.message import Message
from ackwire.jms.message_editor import MessageEditor
from ackwire.jms.types import Value
from ackwire.util.clock import Clock, Timer

EXAMINED_PER_TURN: Final = 2000
"""Messages compared with selectors, sent, or paged in, before others get their turn."""
_EXAMINED_PER_LOOK: Final = 8
"""Messages between two looks at the clock: a slice is over when its time is, too."""
_NO_LIMIT: Final = 1 << 62


def _nothing(_name: str) -> Value:
    return None


@final
class Dispatcher:
    """Sends the messages of one queue to its consumers."""

    def __init__(
        self,
        contents: QueueContents,
        consumers: QueueConsumers,
        gate: QueueGate,
        *,
        clock: Clock,
        editor: MessageEditor,
        slices: Slices,
        policy: DestinationPolicy,
        on_slow: Callable[[QueueSubscription], None],
    ) -> None:
        self._contents = contents
        self._consumers = consumers
        self._gate = gate
        self._clock = clock
        self._editor = editor
        self._slices = slices
        self._on_slow = on_slow
        """Called for a consumer that is full while there is more for it."""
        self._place = contents.place
        self._flow = contents.flow
        self._pages = contents.pages
        self._last_looked_up: Message | None = None
        self._last_frame = b""
        self._lookup: Callable[[str], Value] = _nothing
        self.is_continuing = False
        """Whether a slice is due that goes on with the dispatch."""
        self.page_in: Fetch | None = None
        """The page-in that lanes wait for. There is one at a time: memory has little room when messages are out."""
        self.unshelving: dict[QueueSubscription, Fetch] = {}
        """For each consumer, the page-in of messages that wait for it alone."""
        self._slice: Budget | None = None
        """Of the time of a dispatch that takes long."""
        self.is_paused = False
        self._changes = 0
        self._consumers_wanted = policy.consumers_before_dispatch
        self._wait_seconds_max = policy.dispatch_wait_seconds_max
        self._has_enough_consumers = policy.consumers_before_dispatch <= 1
        self._wait_for_consumers: Timer | None = None

    def use(self, policy: DestinationPolicy) -> None:
        """Go by another policy from now on."""
        self._consumers_wanted = policy.consumers_before_dispatch
        self._wait_seconds_max = policy.dispatch_wait_seconds_max

    # ---- when to dispatch --------------------------------------------------------------------------------------

    @property
    def _is_suspended(self) -> bool:
        return self.is_paused or self._changes > 0 or not self._has_enough_consumers

    def begin_change(self) -> None:
        """Several consumers come or go: send nothing until `end_change`."""
        self._changes += 1

    def end_change(self) -> None:
        self._changes -= 1
        self.dispatch()

    def count_consumers(self) -> None:
        """Begin to dispatch when there are as many consumers as the policy wants, or it has waited long enough."""
        if self._has_enough_consumers:
            return
        if self._consumers.count >= self._consumers_wanted:
            self._begin()
        elif self._wait_for_consumers is None:
            self._wait_for_consumers = self._clock.call_later(self._wait_seconds_max, self._begin)

    def _begin(self) -> None:
        self._has_enough_consumers = True
        if self._wait_for_consumers is not None:
            self._wait_for_consumers.cancel()
            self._wait_for_consumers = None
        self.dispatch()

    def pause(self) -> None:
        """Deliver nothing until `unpause`; messages are still accepted."""
        self.is_paused = True

    def unpause(self) -> None:
        """Deliver again, first the messages that wait for one consumer alone."""
        self.is_paused = False
        for subscription in [it for it in self._consumers if it.waiting_in]:
            self._deliver_waiting(subscription)
        self.dispatch()

    def resume(self, subscription: QueueSubscription) -> None:
        """*subscription* may have room again: send what waits for it alone, then its share of the rest."""
        if subscription.waiting_in and not self.is_paused:
            self._deliver_waiting(subscription)
        self._consumers.lane_of(subscription).rotation.offer(subscription)
        if self._contents.has_pending:
            self.dispatch()

    def return_messages(self, messages: Sequence[Message | PagedOut]) -> None:
        """Put *messages* back in their places, and offer them again."""
        contents = self._contents
        levels = contents.levels
        for level, pending in enumerate(levels):
            mine = messages if len(levels) == 1 else [it for it in messages if contents.level_of(it) == level]
            if mine:
                self._consumers.look_again_from(level, pending.put_back(mine))
        self.dispatch()
        if self._flow.is_tight:  # what was seen differs from what is stored, and stays
            returned = [it for it in messages if isinstance(it, Message) and not it.redelivery_counter]
            page_out = partial(self._page_out, deque(returned))
            if page_out(self._slices.budget()):
                self._slices.start(page_out)

    def _page_out(self, returned: deque[Message], budget: Budget) -> bool:
        """Page out messages that came back and wait, as long as memory is tight; whether there are more."""
        while returned and self._flow.is_tight:
            self._contents.page_out(returned.popleft())
            if budget.spend():
                break
        return bool(returned) and self._flow.is_tight

    # ---- a new message -----------------------------------------------------------------------------------------

    def deliver_directly(self, message: Message) -> bool:
        """Send a new message, of no group, that needs no list: nothing waits, and a consumer of it has room."""
        consumers, contents = self._consumers, self._contents
        if consumers.exclusive is not None or self._is_suspended or contents.has_pending:
            return False
        for lane in consumers.lanes_in_turn():
            if lane.selector is not None and not lane.selector.matches(self._looked_up(message)):
                continue
            subscription = lane.rotation.next(self._place)
            if subscription is None:
                continue
            if message.key in subscription.in_flight:
                return False
            consumers.was_served(lane)
            if contents.audit is not None:
                contents.audit.arrived(contents.audited, message, subscription)
            subscription.in_flight.add(message)
            self._gate.dispatch(subscription, message, False)
            return True
        return False

    # ---- pending messages --------------------------------------------------------------------------------------

    def dispatch(self) -> None:
        """Send pending messages to consumers as long as one has room."""
        if self._is_suspended:
            return
        exclusive = self._consumers.exclusive
        lanes = self._consumers.lane_list if exclusive is None else [self._consumers.lane_of(exclusive)]
        if len(lanes) == 1:
            budget, _ = self._serve(lanes[0], EXAMINED_PER_TURN)
        else:
            budget = self._share(EXAMINED_PER_TURN)
        if budget <= 0 and not self.is_continuing:
            self.is_continuing = True
            self._slices.start(self._continue)
        self._slice = None

    def _continue(self, budget: Budget) -> bool:
        """One more slice; it asks for the next one itself."""
        self.is_continuing = False
        self._slice = budget
        self.dispatch()
        return False

    def _left(self, budget: int) -> int:
        """What is left of *budget*: nothing when the time of this slice is over. It begins with the first question."""
        if self._slice is None:
            self._slice = self._slices.new_budget()
        return 0 if self._slice.is_spent else budget

    def _share(self, budget: int) -> int:
        """Lanes take turns, a message each, those with consumers of higher priority first (A2, H2)."""
        served = True
        while served and budget > 0:
            served = False
            for lane in self._consumers.lanes_in_turn():
                budget, dispatched = self._serve(lane, budget, at_most=1)
                if dispatched:
                    self._consumers.was_served(lane)
                    served = True
                    break
        return budget

    def _serve(self, lane: Lane, budget: int, at_most: int = _NO_LIMIT) -> tuple[int, int]:
        """Send what is for *lane*, highest priority first; return the budget left, and how many were sent."""
        dispatched = 0
        levels = self._contents.levels
        for level in range(len(levels) - 1, -1, -1):
            if levels[level] and dispatched < at_most:
                budget, more, must_wait = self._serve_level(lane, level, budget, at_most - dispatched)
                dispatched += more
                if must_wait:  # what has a lower priority waits, too
                    break
        return budget, dispatched

    def _serve_level(self, lane: Lane, level: int, budget: int, at_most: int) -> tuple[int, int, bool]:
        """Send what is for *lane* until it is full or there is no more; return the budget left, how many were sent, and
        whether the next message has yet to be paged in."""
        pending = self._contents.levels[level]
        now_ms = self._clock.now_ms()
        dispatched = examined = 0
        must_wait = False
        while budget > 0 and dispatched < at_most:
            found = pending.next_from(lane.positions[level])
            if found is None:
                break
            position, message = found
            subscription = None
            if isinstance(message, int):
                subscription = self._consumers.next_in(lane)
                if subscription is None:  # it is paged in for a consumer, or not at all
                    self._mark_slow(lane)
                    break
                count = self._page_in(pending, position)
                if count is None:
                    must_wait = True
                    break
                budget = self._left(budget - count)
                loaded = pending.at(position)
                if not isinstance(loaded, Message):
                    continue
                message = loaded
            if 0 < message.expiration <= now_ms:
                pending.take(position)
                self._contents.expire(message)
                continue
            if subscription is None:
                subscription = self._consumers.next_in(lane)
                if subscription is None:
                    self._mark_slow(lane)
                    break
            lane.positions[level] = position + 1
            budget -= 1
            examined += 1
            if not examined % _EXAMINED_PER_LOOK:
                budget = self._left(budget)
            if not self.is_for(lane, message):
                budget -= lane.cost
                if self._flow.is_tight:
                    self._pages.page_out(pending, position, message)
                continue
            pending.take(position)
            self._send(message, lane, subscription, now_ms)
            dispatched += 1
        self.close_gaps(level, pending)
        return budget, dispatched, must_wait

    def _page_in(self, pending: PendingList, position: int) -> int | None:
        """Page in a batch from *position* on and return how many were read; None if they arrive later. The dispatch
        goes on then."""
        if self.page_in is not None:
            return None
        fetch = self._pages.page_in(pending, position)
        if fetch.has_arrived:
            return len(fetch.messages)
        self.page_in = fetch
        fetch.when_arrived(partial(self._paged_in, fetch))
        return None

    def page_in_for(self, subscription: QueueSubscription) -> Fetch | None:
        """The page-in that *subscription*, which has room, waits for: of messages for it alone, or for its lane."""
        if self.page_in is None or subscription in self.unshelving:
            return self.unshelving.get(subscription)
        if self._consumers.exclusive is not None and self._consumers.exclusive is not subscription:
            return None
        positions = self._consumers.lane_of(subscription).positions
        for pending, position in zip(self._contents.levels, positions, strict=True):
            found = pending.next_from(position)
            if found is not None and isinstance(found[1], int):
                return self.page_in
        return None

    def _paged_in(self, fetch: Fetch) -> None:
        self.page_in = None
        self.dispatch()
        if self._flow.is_tight and not self._consumers.count:  # the consumer that wanted them has left
            for message in fetch.messages:
                if message is not None:
                    self._contents.page_out(message)

    def close_gaps(self, level: int, pending: PendingList) -> None:
        """Give back the room of gaps in a list, once there are many."""
        if pending.is_sparse:
            lanes = self._consumers.all_lanes()
            for lane, moved in zip(lanes, pending.compact([it.positions[level] for it in lanes]), strict=True):
                lane.positions[level] = moved

    def is_for(self, lane: Lane, message: Message) -> bool:
        """Whether a consumer in *lane* may have *message*."""
        if lane.selector is not None and not lane.selector.matches(self._looked_up(message)):
            return False
        if message.group_id is None:
            return True
        owner = self._consumers.groups.owner(message.group_id)
        return owner is None or self._consumers.lane_of(owner) is lane

    def _looked_up(self, message: Message) -> Callable[[str], Value]:
        """What selectors see of *message*; it is decoded once for the selectors of all lanes."""
        if message is not self._last_looked_up or message.frame is not self._last_frame:
            self._lookup = self._editor.lookup(message)
            self._last_looked_up, self._last_frame = message, message.frame
        return self._lookup

    def _send(self, message: Message, lane: Lane, subscription: QueueSubscription, now_ms: int) -> None:
        """Send *message* to *subscription*, whose turn it is in *lane*, or to the owner of its group (H3)."""
        owner, first = subscription, False
        if message.group_id is not None:
            consumers = self._consumers
            known = consumers.groups.owner(message.group_id)
            if known is None:
                first = True
                if subscription is not consumers.exclusive:
                    owner = lane.rotation.for_new_group(subscription, self._place, consumers.groups)
                consumers.assign_group(message.group_id, owner)
            else:
                owner = known
        # A copy of a message that it has from another queue waits: acks could not tell the two apart.
        if owner.has_room and self._place not in owner.waiting_in and message.key not in owner.in_flight:
            self._deliver(message, owner, first, now_ms)
        else:
            owner.waiting_in.setdefault(self._place, deque()).append((self._pages.shelved(message), first))
            owner.passed_over[self._place] = None
            self._flow.release()

    def _deliver(self, message: Message, owner: QueueSubscription, first: bool, now_ms: int) -> None:
        message.dispatched_ms = now_ms
        if message.group_id is not None:
            if self._consumers.groups.holder(message.group_id) is None:  # it was closed while this one waited
                first = True
                self._consumers.assign_group(message.group_id, owner)
            if message.group_sequence < 0:
                self._consumers.close_group(message.group_id)
        audit = self._contents.audit
        if audit is not None:
            audit.dispatched(self._contents.audited, message, owner)
        owner.in_flight.add(message)
        self._gate.dispatch(owner, message, first)

    def _deliver_waiting(self, subscription: QueueSubscription) -> None:
        """Send what waits for *subscription* alone, as far as it can take it."""
        waiting = subscription.waiting_in.get(self._place)
        if waiting is None:
            return
        now_ms = self._clock.now_ms()
        while waiting and subscription.has_room:
            message, first = waiting[0]
            if isinstance(message, PagedOut):
                if not self._unshelve(subscription):
                    return
                continue
            if message.key in subscription.in_flight:
                break
            waiting.popleft()
            if 0 < message.expiration <= now_ms:
                self._contents.expire(message)
            else:
                self._deliver(message, subscription, first, now_ms)
        if not waiting:
            subscription.waiting_in.pop(self._place, None)

    def _unshelve(self, subscription: QueueSubscription) -> bool:
        """Page in what waits for *subscription* alone; False if it arrives later. The delivery goes on then."""
        if subscription in self.unshelving:
            return False
        fetch = self._pages.unshelve(subscription.waiting_in, room=subscription.room)
        if fetch.has_arrived:
            return True
        self.unshelving[subscription] = fetch
        fetch.when_arrived(partial(self._unshelved, subscription))
        return False

    def _unshelved(self, subscription: QueueSubscription) -> None:
        del self.unshelving[subscription]
        if subscription in self._consumers.lane_subscriptions(subscription):
            self.resume(subscription)

    def _mark_slow(self, lane: Lane) -> None:
        exclusive = self._consumers.exclusive
        full = lane.rotation.take_full() if exclusive is None else (exclusive,)
        for subscription in full:
            if not subscription.is_slow and not subscription.is_pull and not subscription.has_room:
                subscription.is_slow = True
                self._on_slow(subscription)

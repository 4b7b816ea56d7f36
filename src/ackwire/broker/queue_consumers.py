"""The consumers of one queue: lanes by selector, message groups, and the exclusive consumer (SEMANTICS A2, H2, H3)."""

from collections.abc import Iterator
from typing import final

from ackwire.broker.groups import MessageGroups
from ackwire.broker.lanes import Lane
from ackwire.broker.subscription import QueueSubscription
from ackwire.config.policy import DestinationPolicy
from ackwire.selector import Selector
from ackwire.store.contract import Place


@final
class QueueConsumers:
    """Knows who consumes from one queue, and whose turn it is."""

    def __init__(self, place: Place, policy: DestinationPolicy, levels: int) -> None:
        self._place = place
        self._levels = levels
        self.lanes: dict[str | None, Lane] = {}
        """By the text of their selector, those first that were served longest ago."""
        self.lane_list: list[Lane] = []
        """The same as a list, which is made anew with each change."""
        self.readers: list[Lane] = []
        """The lanes of cursors, which have no consumers."""
        self.groups = MessageGroups(policy.groups_max)
        self.exclusive: QueueSubscription | None = None
        """The only consumer that gets messages, if one asked for that or the policy does."""
        self._exclusive_by_default = policy.exclusive_by_default
        self.count = 0

    def use(self, policy: DestinationPolicy) -> None:
        """Go by another policy for consumers that come from now on."""
        self._exclusive_by_default = policy.exclusive_by_default

    def __iter__(self) -> Iterator[QueueSubscription]:
        for lane in self.lanes.values():
            yield from lane.rotation.subscriptions

    # ---- coming and going --------------------------------------------------------------------------------------

    def add(self, subscription: QueueSubscription) -> None:
        text = None if subscription.selector is None else subscription.selector.text
        lane = self.lanes.get(text)
        if lane is None:
            lane = self.lanes[text] = Lane(subscription.selector, self._levels)
            self.lane_list = list(self.lanes.values())
        lane.rotation.add(subscription)
        self.count += 1
        if subscription.request.exclusive or self._exclusive_by_default:
            self.choose_exclusive()

    def remove(self, subscription: QueueSubscription) -> None:
        """*subscription* leaves; its groups are free. `choose_exclusive` follows when its messages are taken back."""
        lane = self.lane_of(subscription)
        lane.rotation.remove(subscription)
        self.count -= 1
        if not lane.rotation.subscriptions:
            del self.lanes[lane.text]
            self.lane_list = list(self.lanes.values())
        self.groups.release(subscription)

    def choose_exclusive(self) -> None:
        """The one of highest priority that came first; None if no consumer asked to be alone (H2)."""
        candidates = [it for it in self if it.request.exclusive or self._exclusive_by_default]
        best = max((it.priority for it in candidates), default=0)
        if self.exclusive is not None and self.exclusive in candidates and self.exclusive.priority == best:
            return
        self.exclusive = next((it for it in candidates if it.priority == best), None)
        if self.exclusive is not None:
            self.groups.clear()  # it alone gets all that comes from now on
            self.look_at_all_again()  # and what others' groups had kept from its lane

    def add_reader(self, selector: Selector | None) -> Lane:
        """A lane for a cursor, which reserves the messages that *selector* matches."""
        lane = Lane(selector, self._levels)
        self.readers.append(lane)
        return lane

    def remove_reader(self, lane: Lane) -> None:
        self.readers.remove(lane)

    # ---- whose turn it is --------------------------------------------------------------------------------------

    def lane_of(self, subscription: QueueSubscription) -> Lane:
        return self.lanes[None if subscription.selector is None else subscription.selector.text]

    def lane_subscriptions(self, subscription: QueueSubscription) -> list[QueueSubscription]:
        """The consumers with the selector of *subscription*, which may have left."""
        lane = self.lanes.get(None if subscription.selector is None else subscription.selector.text)
        return [] if lane is None else lane.rotation.subscriptions

    def lanes_in_turn(self) -> list[Lane]:
        """Those with the most important consumers first, and among equals those that were served longest ago."""
        lanes = self.lane_list
        if len(lanes) > 1:
            priority = lanes[0].rotation.priority
            for lane in lanes:
                if lane.rotation.priority != priority:
                    return sorted(lanes, key=_by_priority)
        return lanes

    def was_served(self, lane: Lane) -> None:
        """*lane* got a message: next time it comes behind its equals."""
        if len(self.lanes) > 1:
            self.lanes[lane.text] = self.lanes.pop(lane.text)
            self.lane_list = list(self.lanes.values())

    def next_in(self, lane: Lane) -> QueueSubscription | None:
        """The consumer of *lane* whose turn it is, or None if all are full."""
        exclusive = self.exclusive
        if exclusive is None:
            return lane.rotation.next(self._place)
        if exclusive.has_room and self._place not in exclusive.waiting_in:
            return exclusive
        exclusive.passed_over[self._place] = None
        return None

    # ---- what lanes have looked at -----------------------------------------------------------------------------

    def look_at_all_again(self) -> None:
        """A group is free: lanes that passed over its messages may have them now."""
        for lane in (*self.lanes.values(), *self.readers):
            lane.look_at_all_again()

    def look_again_from(self, level: int, position: int) -> None:
        """A message came back at *position*."""
        for lane in (*self.lanes.values(), *self.readers):
            lane.look_again_from(level, position)

    def all_lanes(self) -> list[Lane]:
        """Those of consumers and of cursors."""
        return [*self.lanes.values(), *self.readers]

    def assign_group(self, group_id: str, owner: QueueSubscription) -> None:
        """*owner* gets the messages of a group from now on."""
        if self.groups.assign(group_id, owner):
            self.look_at_all_again()

    def close_group(self, group_id: str) -> None:
        """A group has ended: any consumer may get its next message."""
        self.groups.close(group_id)
        self.look_at_all_again()


def _by_priority(lane: Lane) -> int:
    return -lane.rotation.priority

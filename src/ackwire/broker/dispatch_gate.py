"""Holds messages back until the store knows that they may have been delivered (SEMANTICS A2, J4; ADR 5, 16).

A message that a consumer may have seen must be flagged as redelivered when it is delivered again, after a crash too.
The queue first records the highest sequence it may dispatch (`Recorder.mark_dispatched`), a block at a time. Messages
above it wait. A message whose sender waits for the disk is held, too: after a crash it would be sent again, and come
twice without the redelivered flag. This costs no extra sync. A message that waits at the gate is in flight like any
other. `early_dispatch.py` decides which message need not wait.
"""

from collections import deque
from contextlib import suppress
from functools import partial
from typing import Final, final

from ackwire.broker.subscription import QueueSubscription
from ackwire.compilation import mypyc_attr
from ackwire.errors import StoreFailed
from ackwire.jms.message import HAS_LEFT_EARLY, LEAVES_FREELY, MAY_LEAVE_EARLY, Message
from ackwire.store.contract import Place, Store

BLOCK_SEQUENCES: Final = 1000
"""How far ahead of dispatch a queue records its mark. After a crash so many messages that no consumer has seen may be
flagged: as many as when the connection of one consumer with the default prefetch breaks."""


@mypyc_attr(allow_interpreted_subclasses=True)  # the simulation has one
class DispatchGate:
    """Where messages wait for the store on their way to consumers, in the order in which they came."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: deque[tuple[QueueSubscription, Message, bool, bool]] = deque()
        """Consumer, message, whether it is the first of its group, and whether it waits for the store itself or only
        behind others."""
        self.groups = 0
        """How many groups of messages are being put on queues that leave only when all of the group is durable."""

    def begin_group(self) -> None:
        """No message that is not durable leaves until `end_group`, which follows behind the group's `when_durable`."""
        self.groups += 1

    def end_group(self) -> None:
        self.groups -= 1

    def wait(self, subscription: QueueSubscription, message: Message, group_first: bool, *, for_store: bool) -> None:
        """Deliver *message* when all that is recorded so far is durable, or when those before it have gone."""
        subscription.waiting_at_gate += 1
        subscription.count_delivery()
        self._waiting.append((subscription, message, group_first, for_store))
        if for_store:
            self._store.when_durable(self._release)

    def _release(self) -> None:
        """The first message is durable: deliver it, and those behind it that wait for nothing else."""
        self._release_one()
        while self._waiting and not self._waiting[0][3]:
            self._release_one()

    def _release_one(self) -> None:
        subscription, message, group_first, _ = self._waiting.popleft()
        subscription.waiting_at_gate -= 1
        if subscription.in_flight.has(message):  # the consumer may have left meanwhile, and its messages with it
            subscription.port.deliver(message, group_first)


@final
class QueueGate:
    """How far the messages of one queue have gone, and may go."""

    __slots__ = (
        "_announced",
        "_durability",
        "_gate",
        "_is_stored",
        "_known",
        "_place",
        "_reached",
        "_restored",
        "_store",
    )

    def __init__(self, place: Place, store: Store, gate: DispatchGate, *, is_stored: bool) -> None:
        self._place = place
        self._store = store
        self._durability = store.durability
        self._gate = gate
        self._is_stored = is_stored
        self._reached = 0
        """The highest sequence that was dispatched."""
        self._restored = 0
        """That of an earlier run, as far as it is known."""
        self._announced = 0
        """What the store was told."""
        self._known = 0
        """What it will know after a crash, too."""

    def restore(self, sequence: int) -> None:
        """Messages up to *sequence* may have been dispatched before."""
        self._reached = self._announced = self._known = self._restored = sequence

    def dispatch(self, subscription: QueueSubscription, message: Message, group_first: bool) -> None:
        """Deliver *message*, which is in flight to *subscription*, as soon as it may leave."""
        must_wait = message.persistent and self._is_stored and not self._may_leave(message)
        if must_wait or subscription.waiting_at_gate:
            self._gate.wait(subscription, message, group_first, for_store=must_wait)
        else:
            subscription.deliver(message, group_first)

    def _may_leave(self, message: Message) -> bool:
        sequence = message.sequence
        if sequence > self._reached:
            self._reached = sequence
            if sequence + BLOCK_SEQUENCES // 2 > self._announced:  # in time, for all that comes in this turn
                self._announce(sequence + BLOCK_SEQUENCES)
        if sequence > self._known:
            return False
        durability = self._durability
        if sequence <= durability.durable_sequence:
            return True
        if message.departure == MAY_LEAVE_EARLY:
            message.departure = HAS_LEFT_EARLY
            return True
        return message.departure == LEAVES_FREELY and not durability.has_waiters and not self._gate.groups

    def _announce(self, sequence: int) -> None:
        self._announced = sequence
        with suppress(StoreFailed):  # then nothing leaves any more
            self._store.mark_dispatched(self._place, sequence)
            self._store.when_durable(partial(self._is_known, sequence))

    def _is_known(self, sequence: int) -> None:
        self._known = sequence

    def stop(self, seen: int, *, has_all: bool) -> None:
        """Consumers have seen nothing of what waits behind *seen*; unless memory *has_all*, in this run."""
        if not has_all:
            seen = max(seen, self._restored)
        if self._is_stored and seen < self._announced:
            self._store.unmark_dispatched(self._place, seen)

"""From the queue to the consumer: what leaves is remembered through a crash (SEMANTICS A2, J4).

A message that has reached a consumer, and comes again after a crash, must say so. And one that has reached a consumer
must be there after a crash, if its sender, who was not answered, will repeat it: as a new one it would say nothing.

So a queue tells the store ahead of time how far messages may go (`Store.mark_dispatched`), a block of sequences at
once, and nothing behind that leaves. And while a sender waits for the store, so do the consumers of what it sent:
none waits for longer than the sync that is due anyway. What cannot leave yet waits at the `Desk`; it is in flight like
any other.

One message may leave ahead of its sync: that of a sender who waits alone, after a pause, or if its consumers are quick.
After a crash it is what that sender repeats first, and it is called redelivered then (`duplicates.py`, ADR 12).

Its sender is answered by whatever comes first, the sync or the consumer's ack: what is done with need not be on disk
(ADR 13). Then the next message may leave, also while that sync goes on, if the sender has got its answer: so it still
is the only one that this sender can repeat. If acks always come first, the disk is left out of it (`bets.py`, ADR 14).
"""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple, final

from ackwire.broker.session import Connection
from ackwire.broker.subscription import QueueSubscription
from ackwire.compilation import mypyc_attr
from ackwire.errors import StoreFailed
from ackwire.jms.message import Message
from ackwire.store.contract import Place, Store

BLOCK_SEQUENCES: Final = 1000
"""How far ahead the store is told. After a crash so many messages that nobody has seen may be called redelivered: as
many as when the connection of one consumer breaks, with the prefetch that is the default."""


class AwaitedAck(NamedTuple):
    """A message that has left ahead of its sync, and what its sender waits for."""

    message: Message
    connection: Connection
    answer: Callable[[], None]
    stored: Callable[[], None]
    """What the store calls, unless the ack comes first."""


@mypyc_attr(allow_interpreted_subclasses=True)  # the simulation watches one
class Desk:
    """Where messages wait for the store on their way to consumers, in the order in which they came."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: deque[tuple[QueueSubscription, Message, bool, bool]] = deque()
        """Consumer, message, whether it is the first of its group, and whether it waits for the store itself or only
        behind others."""
        self.ahead: Message | None = None
        """What need not wait for the store, although its sender does."""
        self.has_left = False
        """Whether it has gone to a consumer."""
        self._awaited: AwaitedAck | None = None
        """The one that has, until its sender is answered."""
        self._is_bet = False
        """Whether it has because its consumer is taken for quick, and for no other reason."""

    def may_go_ahead(self, connection: Connection, *, after_pause: bool, acks_answer: bool) -> bool:
        """Whether a message of *connection* may leave before it is on disk.

        Only if nobody else waits for the disk, and nothing else that the disk does not have yet can be repeated by the
        same sender; and if that is no slower for it: because it comes *after_pause*, and so is in no hurry to go on, or
        because it would have to wait for two syncs, or because *acks_answer* and come soon.
        """
        store = self._store
        if store.is_awaited:
            return False
        self._is_bet = not (after_pause or store.is_syncing)
        if self._is_bet and not (acks_answer and connection.bets.may_try()):
            return False
        return connection.forgone_sequence <= store.durable_sequence or connection.port.has_heard

    def leaves_ahead(self, message: Message) -> bool:
        """Whether *message* need not wait for the store; then it goes now."""
        if message is not self.ahead:
            return False
        self.has_left = True
        return True

    def answer_when_done(
        self,
        connection: Connection,
        message: Message,
        answer: Callable[[], None],
        on_failed: Callable[[StoreFailed], None] | None,
    ) -> None:
        """*message* has left ahead: answer its sender when it is on disk or consumed, whatever comes first."""
        bets = connection.bets
        can_wait = bets.is_sure
        is_bet = can_wait or self._is_bet

        def stored() -> None:
            self._awaited = None
            if is_bet:
                bets.lost()
            answer()

        self._awaited = AwaitedAck(message, connection, answer, stored)
        self._store.when_durable(stored, on_failed, is_cancellable=True, can_wait=can_wait)

    def acked(self, messages: list[Message]) -> None:
        """*messages* are consumed, and recorded as such: who waits for one of them need not wait for the disk."""
        awaited = self._awaited
        if awaited is not None and any(it is awaited.message for it in messages) and self._store.cancel(awaited.stored):
            self._awaited = None
            awaited.connection.forgone_sequence = awaited.message.sequence
            awaited.connection.bets.won()
            awaited.answer()

    def hold(self, subscription: QueueSubscription, message: Message, group_first: bool, *, for_store: bool) -> None:
        """Deliver *message* when all that is recorded so far is durable, or when those before it have gone."""
        subscription.held += 1
        subscription.count_delivery()
        self._waiting.append((subscription, message, group_first, for_store))
        if for_store:
            self._store.when_durable(self._release)

    def _release(self) -> None:
        """What waits longest is durable; it goes, and whatever waits for nothing else than its turn."""
        self._release_one()
        while self._waiting and not self._waiting[0][3]:
            self._release_one()

    def _release_one(self) -> None:
        subscription, message, group_first, _ = self._waiting.popleft()
        subscription.held -= 1
        if subscription.in_flight.has(message):  # it may have left meanwhile, and its messages with it
            subscription.port.deliver(message, group_first)


@final
class Handover:
    """How far the messages of one queue have come, and may come."""

    __slots__ = ("_announced", "_desk", "_is_stored", "_known", "_place", "_reached", "_restored", "_store")

    def __init__(self, place: Place, store: Store, desk: Desk, *, is_stored: bool) -> None:
        self._place = place
        self._store = store
        self._desk = desk
        self._is_stored = is_stored
        self._reached = 0
        """The highest sequence that has been handed over."""
        self._restored = 0
        """That of an earlier run, as far as it is known."""
        self._announced = 0
        """What the store was told."""
        self._known = 0
        """What it will know after a crash, too."""

    def restore(self, sequence: int) -> None:
        """Messages up to *sequence* may have been handed over before."""
        self._reached = self._announced = self._known = self._restored = sequence

    def hand_over(self, subscription: QueueSubscription, message: Message, group_first: bool) -> None:
        """Deliver *message*, which is in flight to *subscription*, as soon as it may leave."""
        must_wait = message.persistent and self._is_stored and not self._may_leave(message)
        if must_wait or subscription.held:
            self._desk.hold(subscription, message, group_first, for_store=must_wait)
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
        store = self._store
        return not store.is_awaited or sequence <= store.durable_sequence or self._desk.leaves_ahead(message)

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

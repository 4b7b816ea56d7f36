"""An audit that keeps what it is told in memory, and holds it against what can be.

It follows every message through its life, place by place: a message is stored before anything else happens to it,
it is with one consumer at most, and it ends once. What contradicts that is kept as `violation`, because whoever calls
may catch everything. `check` compares what should be there by what was told with what is there.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ackwire.broker.auditing import ENDS, Audit, AuditedPlace, Copy, Event
from ackwire.broker.broker import Broker
from ackwire.broker.in_flight import AckKind
from ackwire.broker.queue import Queue
from ackwire.broker.subscription import Subscription
from ackwire.jms.message import Message
from ackwire.store.contract import WaitingMessage


class State(Enum):
    """Where a message is, as far as was told."""

    WAITING = "waiting"
    DISPATCHED = "dispatched"


BEFORE: dict[Event, tuple[State, ...]] = {
    Event.DISPATCHED: (State.WAITING,),
    Event.ACKED: (State.DISPATCHED,),
    Event.REDELIVERED: (State.DISPATCHED,),
    Event.RETURNED: (State.DISPATCHED,),
    Event.DEAD_LETTERED: (State.DISPATCHED,),
    Event.EXPIRED: (State.WAITING, State.DISPATCHED),
    Event.PURGED: (State.WAITING,),
    Event.DISCARDED: (State.WAITING, State.DISPATCHED),
}
"""What must be true of a message before each event."""


@dataclass(frozen=True, slots=True)
class Told:
    """One event."""

    event: Event
    place: str | None = None
    sequence: int = 0
    key: bytes | None = None
    consumer: str | None = None
    redeliveries: int = 0
    cause: str | None = None
    transaction: Hashable | None = None
    ack: AckKind | None = None
    count: int = 0


def tee(first: Audit, second: Audit) -> Audit:
    """An audit that tells two others the same."""

    def telling(name: str) -> Callable[..., Any]:
        def tell(_: Audit, *arguments: Any) -> Any:
            messages = [it for it in arguments if isinstance(it, Message)]
            unaudited = [it.is_send_unaudited for it in messages]
            answer = getattr(first, name)(*arguments)
            for message, is_send_unaudited in zip(messages, unaudited, strict=True):
                message.is_send_unaudited = is_send_unaudited
            getattr(second, name)(*arguments)
            return answer

        return tell

    names = [name for name in vars(Audit) if not name.startswith("_")]
    made: type[Audit] = type("Tee", (Audit,), {name: telling(name) for name in names})
    return made()


class RecordedAudit(Audit):
    """Keeps what it is told."""

    def __init__(self, *, untold: str | None = "not audited before", ids_are_unique: bool = False) -> None:
        """*ids_are_unique*: no producer uses a message id twice, so nothing may be sent twice."""
        super().__init__()
        self.events: list[Told] = []
        self.violation: str | None = None
        self._untold = untold
        self._states: dict[tuple[str, int], State] = {}
        self._holders: dict[tuple[str, int], str] = {}
        self._copies: Counter[tuple[str, int, str]] = Counter()
        self._ids_are_unique = ids_are_unique
        self._sent: set[tuple[bytes, str]] = set()

    def names(self, place: str | None = None) -> list[str]:
        """The events so far, by name; those of *place* only, if one is given."""
        return [it.event.name.lower() for it in self.events if place is None or it.place == place]

    def of(self, event: Event) -> list[Told]:
        return [it for it in self.events if it.event is event]

    # ---- what is told ------------------------------------------------------------------------------------------

    def sent(self, message: Message) -> None:
        message.is_send_unaudited = False
        sent = (message.key, repr(message.destination))
        if self._ids_are_unique and sent in self._sent:
            self._refuse(f"{message!r} was sent twice")
        self._sent.add(sent)
        self.events.append(Told(Event.SENT, sequence=message.sequence, key=message.key))

    def stored(self, place: AuditedPlace, message: Message) -> None:
        if message.is_send_unaudited:
            self.sent(message)
        self._begin(Told(Event.STORED, place.audit_name, message.sequence, message.key))

    def arrived(self, place: AuditedPlace, message: Message, subscription: Subscription) -> None:
        self.stored(place, message)
        self.dispatched(place, message, subscription)

    def dispatched(self, place: AuditedPlace, message: Message, subscription: Subscription) -> None:
        self._follow(_told(Event.DISPATCHED, place, message, subscription))

    def published(self, message: Message, subscription: Subscription) -> None:
        place = repr(message.destination)
        self._copies[place, message.sequence, subscription.consumer_id] += 1
        self.events.append(Told(Event.DISPATCHED, place, message.sequence, message.key, subscription.consumer_id))

    def acked(self, place: AuditedPlace, message: Message, subscription: Subscription) -> None:
        self.acked_all(place, [message], subscription, AckKind.STANDARD, None)

    def acked_all(
        self,
        place: AuditedPlace,
        messages: Iterable[Message],
        subscription: Subscription | None,
        kind: AckKind,
        transaction: Hashable | None,
    ) -> None:
        for message in messages:
            self._follow(_told(Event.ACKED, place, message, subscription, ack=kind, transaction=transaction))

    def copies_acked(self, copies: Iterable[Copy], subscription: Subscription) -> None:
        for origin, key, sequence in copies:
            copy = (repr(origin.destination), sequence, subscription.consumer_id)
            if not self._copies[copy]:
                self._refuse(f"copy {copy} was acknowledged and never sent")
            self._copies[copy] -= 1
            self.events.append(Told(Event.ACKED, copy[0], sequence, key, copy[2], ack=AckKind.STANDARD))

    def happened(
        self,
        event: Event,
        place: AuditedPlace,
        message: Message,
        subscription: Subscription | None = None,
        cause: str | None = None,
    ) -> None:
        told = _told(event, place, message, subscription, cause=cause)
        if isinstance(place, Queue):
            self._follow(told)
        else:
            self.events.append(told)

    def happened_to(self, event: Event, place: AuditedPlace, sequences: Iterable[int], cause: str | None) -> None:
        for sequence in sequences:
            told = Told(event, place.audit_name, sequence, cause=cause)
            if event is Event.RESTORED:
                self._begin(told)
            else:
                self._follow(told)

    def cursor(
        self, event: Event, place: AuditedPlace, sequences: Iterable[int], name: str, cause: str | None = None
    ) -> None:
        for sequence in sequences:
            self._follow(Told(event, place.audit_name, sequence, consumer=f"{_CURSOR}{name}", cause=cause))

    def batch(self, place: AuditedPlace, messages: Iterable[WaitingMessage], producer_key: bytes | None) -> None:
        del producer_key
        for it in messages:
            self.events.append(Told(Event.SENT, sequence=it.sequence))
            self._begin(Told(Event.STORED, place.audit_name, it.sequence))

    def census(self, place: AuditedPlace, count: int) -> None:
        name = place.audit_name
        if count != self.present(name):
            self._refuse(f"{name} has {count} messages by count, and {self.present(name)} by what was told")
        self.events.append(Told(Event.CENSUS, name, count=count))

    def started(self, last_sequence: int) -> str | None:
        del last_sequence
        self.events.append(Told(Event.STARTED))
        return self._untold

    def stopped(self, last_sequence: int) -> None:
        del last_sequence
        self.events.append(Told(Event.STOPPED))

    # ---- what can be -------------------------------------------------------------------------------------------

    def _refuse(self, why: str) -> None:
        self.violation = self.violation or f"event {len(self.events) + 1}: {why}"

    def _begin(self, told: Told) -> None:
        assert told.place is not None
        if (told.place, told.sequence) in self._states:
            self._refuse(f"{told} is there already")
        self._states[told.place, told.sequence] = State.WAITING
        self.events.append(told)

    def _follow(self, told: Told) -> None:
        assert told.place is not None
        copy = (told.place, told.sequence)
        state = self._states.get(copy)
        # What a prepared transaction of an earlier run had acknowledged, or a cursor had, was dispatched then.
        is_decided = told.consumer is None and told.event in _DECIDED
        is_of_cursor = told.consumer is not None and told.consumer.startswith(_CURSOR)
        of_earlier_run = state is State.WAITING and (is_decided or is_of_cursor)
        if state not in BEFORE[told.event] and not of_earlier_run:
            self._refuse(f"{told}, and before it was {state}")
        if state is State.DISPATCHED and told.consumer is not None and self._holders[copy] != told.consumer:
            self._refuse(f"{told}, and {self._holders[copy]} had it")
        if told.event in ENDS:
            self._states.pop(copy, None)
        elif told.event is Event.DISPATCHED:
            self._states[copy] = State.DISPATCHED
            self._holders[copy] = told.consumer or ""
        else:
            self._states[copy] = State.WAITING
        self.events.append(told)

    def present(self, place: str) -> int:
        """How many messages should be on *place*."""
        return sum(1 for name, _ in self._states if name == place)

    def check(self, broker: Broker) -> None:
        """Raise `AssertionError` if something was told that cannot be, or the broker has other messages."""
        assert self.violation is None, self.violation
        if self.events and self.events[-1].event is Event.STOPPED:
            return  # what the broker still has in memory is no more
        there = {copy for queue in broker.registry.queues() if queue.audit is not None for copy in _there(queue)}
        # What transactions have of a deleted queue ends with them.
        gone = {
            (queue.audit_name, message.sequence)
            for transaction in broker.transaction_manager.transactions
            for acked in transaction.acks
            for queue, messages in acked.by_queue
            if queue.is_gone
            for message in messages
        }
        told = set(self._states)
        assert told - there <= gone, f"told of, and not there: {sorted(told - there - gone)}"
        assert there <= told, f"there, and not told of: {sorted(there - told)}"


_CURSOR = "cursor:"
_DECIDED = (Event.ACKED, Event.REDELIVERED)


def _told(
    event: Event,
    place: AuditedPlace,
    message: Message,
    subscription: Subscription | None,
    *,
    cause: str | None = None,
    transaction: Hashable | None = None,
    ack: AckKind | None = None,
) -> Told:
    consumer = None if subscription is None else subscription.consumer_id
    return Told(
        event,
        place.audit_name,
        message.sequence,
        message.key,
        consumer,
        message.redelivery_counter,
        cause,
        transaction,
        ack,
    )


def _there(queue: Queue) -> Iterator[tuple[str, int]]:
    name = queue.audit_name
    sequences = [sequence for _, sequence in queue.view.waiting_entries()]
    sequences += [it.sequence for s in queue.consumers for it in s.in_flight if queue.owns(it)]
    sequences += [it.sequence for it in queue._events.undecided(queue)]
    sequences += queue.contents.set_aside
    for holder, held in queue.reservations.holders.items():
        sequences += held() if holder.told_count(queue.place) else ()
    assert len(set(sequences)) == len(sequences), f"{name}: a message is in two places: {sorted(sequences)}"
    return ((name, sequence) for sequence in sequences)

"""What the clients of a simulation said and heard, and what must follow from it.

A `Deed` is something that happens as a whole: a single send or ack, or a transaction. The ledger knows of each whether
it was decided, and holds against that what the broker dispatches, what clients see, and what is left at the end.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum

from ackwire.broker.acks import AckKind
from ackwire.message import Message
from tests.simulation.audit import Violation

DEAD_LETTERS = "queue://ActiveMQ.DLQ"

Copy = tuple[str, bytes]
"""A message in one place: the name of the queue or durable subscription, and the message's key."""


class Outcome(Enum):
    """Whether something has happened."""

    OPEN = "not yet decided: it must not have happened"
    SENT = "asked for: it may have happened"
    DONE = "confirmed: it has happened"
    VOID = "refused, rolled back or never asked for: it cannot happen"


@dataclass(eq=False)
class Deed:
    """A unit of work and its outcome."""

    name: str
    outcome: Outcome
    sends: list[bytes] = field(default_factory=list)
    acks: list[Copy] = field(default_factory=list)
    is_prepared: bool = False
    """An XA transaction whose prepare was confirmed."""
    asked_at: int = 0
    """The step at which it was asked for."""

    def may_have_happened(self) -> bool:
        return self.outcome in (Outcome.SENT, Outcome.DONE)


@dataclass
class Sent:
    """A message that a client sent."""

    key: bytes
    text: str
    places: tuple[str, ...]
    """The queues it goes to; empty for a topic."""
    topic: str | None
    number: int
    """The property that selectors ask for."""
    expiration: int
    persistent: bool
    deed: Deed


@dataclass
class Durable:
    """A durable subscription that must get what is sent from step *since* on."""

    place: str
    topic: str
    wants: Callable[[int], bool]
    since: int


class Ledger:
    """Remembers and judges."""

    def __init__(self) -> None:
        self.sent: dict[bytes, Sent] = {}
        self.acks: dict[Copy, list[tuple[AckKind, Deed]]] = {}
        self.seen: set[Copy] = set()
        """What an application has been given."""
        self.deeds: list[Deed] = []
        self.durables: dict[str, Durable] = {}
        self.drained: dict[Copy, int] = {}
        self.dead: dict[bytes, set[str]] = {}
        """Dead letters found at the end: for each message the destinations it died in."""
        self._sequences: dict[Copy, int] = {}
        self._newest: dict[tuple[str, str, bytes], int] = {}

    def deed(self, name: str, outcome: Outcome) -> Deed:
        deed = Deed(name, outcome)
        self.deeds.append(deed)
        return deed

    # ---- what clients do ---------------------------------------------------------------------------------------

    def sending(self, sent: Sent) -> None:
        self.sent[sent.key] = sent
        sent.deed.sends.append(sent.key)

    def acking(self, copy: Copy, kind: AckKind, deed: Deed) -> None:
        self.acks.setdefault(copy, []).append((kind, deed))
        deed.acks.append(copy)

    def consumed(self, copy: Copy, redelivery_counter: int) -> None:
        """An application is given a message."""
        if redelivery_counter == 0 and copy in self.seen:
            raise Violation(f"{self.text(copy)} is given to an application again, without the redelivered flag")
        self.seen.add(copy)

    # ---- what the broker does ----------------------------------------------------------------------------------

    def dispatched(
        self, copy: Copy, message: Message, consumer: str, *, now_ms: int, ordered: bool, order_holds: bool
    ) -> None:
        """The broker hands a message of a queue or durable subscription to a consumer."""
        self.shown(message)
        if copy[0] == DEAD_LETTERS:
            return
        if 0 < message.expiration <= now_ms:
            raise Violation(f"{self.text(copy)} expired at {message.expiration} and is dispatched at {now_ms}")
        if not order_holds:
            raise Violation(f"{self.text(copy)} is dispatched before older ones that {consumer} may have")
        if any(deed.outcome is Outcome.DONE for _, deed in self.acks.get(copy, ())):
            raise Violation(f"{self.text(copy)} is dispatched again, and its ack was confirmed")
        if copy in self.seen and message.redelivery_counter == 0:
            raise Violation(f"{self.text(copy)} was seen, and is dispatched without the redelivered flag")
        known = self._sequences.get(copy)
        if known is None:
            self._sequences[copy] = message.sequence
            self._first_dispatch(copy, message, consumer, ordered=ordered)
        elif known != message.sequence:
            raise Violation(f"{self.text(copy)} exists twice, as {known} and as {message.sequence}")

    def _first_dispatch(self, copy: Copy, message: Message, consumer: str, *, ordered: bool) -> None:
        count = int.from_bytes(message.key[-8:], signed=True)
        if len(self.sent[message.key].places) > 1:
            return  # it may have been another consumer's alone: the one that held its twin
        stream = (consumer, copy[0], message.origin.producer_key)
        if ordered and count < self._newest.get(stream, -1):
            raise Violation(f"{self.text(copy)} reaches {consumer} after a later one of its producer")
        self._newest[stream] = count

    def shown(self, message: Message) -> Sent:
        """Somebody gets to see *message*: it must have been sent, and its transaction not be open."""
        sent = self.sent.get(message.key)
        if sent is None:
            raise Violation(f"{message!r} was never sent")
        if not sent.deed.may_have_happened():
            raise Violation(f"message {sent.text} is visible, and {sent.deed.name} is {sent.deed.outcome.value}")
        return sent

    def text(self, copy: Copy) -> str:
        sent = self.sent.get(copy[1])
        return f"message {sent.text if sent else copy[1].hex()} in {copy[0]}"

    # ---- the end -----------------------------------------------------------------------------------------------

    def settle(self, now_ms: int) -> None:
        """Everything was drained: is all accounted for?"""
        for sent in self.sent.values():
            for place in self._places(sent):
                self._settle_copy(sent, (place, sent.key), now_ms)

    def _places(self, sent: Sent) -> Iterable[str]:
        yield from sent.places
        for durable in self.durables.values():
            if durable.topic == sent.topic and durable.since < sent.deed.asked_at and durable.wants(sent.number):
                yield durable.place

    def _settle_copy(self, sent: Sent, copy: Copy, now_ms: int) -> None:
        acks = self.acks.get(copy, [])
        confirmed = {kind for kind, deed in acks if deed.outcome is Outcome.DONE}
        possible = {kind for kind, deed in acks if deed.outcome is Outcome.SENT}
        drained = self.drained.get(copy, 0)
        origin = copy[0] if copy[0] in sent.places else sent.topic
        is_dead = origin in self.dead.get(sent.key, ())
        if drained + (1 if is_dead and copy[0] in sent.places else 0) > 1:
            raise Violation(f"{self.text(copy)} was found {drained} times at the end, dead letter: {is_dead}")
        if sent.deed.outcome is Outcome.VOID and (drained or is_dead):
            raise Violation(f"{self.text(copy)} is there, and {sent.deed.name} did not happen")
        if confirmed:
            if drained:
                raise Violation(f"{self.text(copy)} is still there, and its ack was confirmed")
            if AckKind.POISON in confirmed and sent.persistent and not is_dead:
                raise Violation(f"{self.text(copy)} was poisoned and is not among the dead letters")
            return
        if sent.deed.outcome is Outcome.DONE and not (drained or is_dead or possible):
            if 0 < sent.expiration <= now_ms and not sent.persistent:
                return
            raise Violation(f"{self.text(copy)} is lost: its send was confirmed ({sent.deed.name})")

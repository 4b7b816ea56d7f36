"""What the clients of a simulation said and heard, and what must follow from it.

A `Deed` is something that happens as a whole: a single send or ack, or a transaction. The ledger knows of each whether
it was decided, and holds against that what the broker dispatches, what clients see, and what is left at the end.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from functools import cache

from ackwire.broker.in_flight import AckKind
from ackwire.jms.message import Message
from ackwire.jms.message_editor import Advisory, AdvisoryKind
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
    not_before_ms: int = 0
    """When it is due, if it was sent to be delivered later."""
    may_be_lost: bool = False
    """A broker has ended that had it in memory only."""

    def has_twin(self, place: str) -> bool:
        """Whether a consumer of *place* may also have its copy of another place."""
        return sum(family(it) == family(place) for it in self.places) > 1

    def has_expired(self, now_ms: int) -> bool:
        return 0 < self.expiration <= now_ms


@dataclass(frozen=True)
class Found:
    """What a broker that starts again finds in its store."""

    present: dict[Copy, int]
    """What waits, and its sequence."""
    dead: set[bytes]
    """The keys of dead letters."""
    later: set[bytes]
    """The keys of messages that are to be delivered later."""
    last_sequence: int


@dataclass
class Durable:
    """A durable subscription that must get what is sent from step *since* on."""

    place: str
    topic: str
    """Its topic, or a pattern for topics."""
    wants: Callable[[int], bool]
    since: int

    def must_have(self, sent: Sent) -> bool:
        is_heard = sent.topic is not None and stands_for(self.topic, sent.topic)
        return is_heard and self.since < sent.deed.asked_at and self.wants(sent.number)


@dataclass
class Temporary:
    """A temporary destination, as its owner knows it."""

    name: str
    asked_at: int
    """The step at which its owner asked for it."""
    made_at: int | None = None
    """The step at which its owner was told that it exists."""
    ended_at: int | None = None
    """The step at which its owner lost its connection, or asked to have it deleted: it may be gone from there on."""
    is_gone: bool = False
    """Its owner has been told that it is deleted."""

    def is_there_since(self, step: int) -> bool:
        return self.made_at is not None and self.made_at < step and self.ended_at is None


@cache
def stands_for(pattern: str, name: str) -> bool:
    """Whether the destination *name* is one of *pattern*, which may be a name; known without the broker's help (A8)."""
    kind, _, parts = pattern.partition("://")
    if not name.startswith(f"{kind}://"):
        return False
    words = name.removeprefix(f"{kind}://").split(".")
    for number, part in enumerate(parts.split(".")):
        if part == ">":
            return number <= len(words)
        if number >= len(words) or part not in ("*", words[number]):
            return False
    return len(parts.split(".")) == len(words)


def is_behind(queue: str, topic: str) -> bool:
    """Whether a `Consumer.NAME.VirtualTopic.X` has a copy of what is published on *topic*."""
    return stands_for(f"topic://{queue.split('.', 2)[2]}", topic)


@cache
def family(place: str) -> str:
    """What queues have in common that one consumer may consume from at once, by a pattern or a composite name."""
    words = place.split(".")
    return ".".join(words[:2]) if words[0] == "queue://Consumer" else words[0]


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
        self.temporaries: dict[str, Temporary] = {}
        self.told: set[tuple[AdvisoryKind, str]] = set()
        """Advisories about destinations."""
        self._sequences: dict[Copy, int] = {}
        self._owners: dict[int, bytes] = {}
        """Which message has had a sequence."""
        self._newest: dict[tuple[str, str, bytes], int] = {}

    def deed(self, name: str, outcome: Outcome) -> Deed:
        deed = Deed(name, outcome)
        self.deeds.append(deed)
        return deed

    # ---- what clients do ---------------------------------------------------------------------------------------

    def sending(self, sent: Sent) -> None:
        self.sent[sent.key] = sent
        sent.deed.sends.append(sent.key)

    def publishing(self, advisory: Advisory, message: Message, step: int, *, is_waited_for: bool) -> None:
        """The broker itself publishes *message*: all who listen must get it, or one late joiner alone."""
        topic = None if advisory.target_consumer_id is not None else repr(advisory.topic)
        text = f"advisory {advisory.kind.name} {advisory.destination!r} on {advisory.topic!r}"
        deed = Deed("the broker", Outcome.DONE, asked_at=step)
        self.sent[message.key] = Sent(
            message.key, text, (), topic, -1, 0, persistent=False, deed=deed, may_be_lost=not is_waited_for
        )
        if topic is not None:
            self.told.add((advisory.kind, repr(advisory.destination)))

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
        chosen_ms = message.dispatched_ms or now_ms  # it may have waited for the store since
        if 0 < message.expiration <= chosen_ms:
            raise Violation(f"{self.text(copy)} expired at {message.expiration} and is dispatched at {chosen_ms}")
        if not order_holds:
            raise Violation(f"{self.text(copy)} is dispatched before older ones that {consumer} may have")
        if any(deed.outcome is Outcome.DONE for _, deed in self.acks.get(copy, ())):
            raise Violation(f"{self.text(copy)} is dispatched again, and its ack was confirmed")
        if copy in self.seen and message.redelivery_counter == 0:
            raise Violation(f"{self.text(copy)} was seen, and is dispatched without the redelivered flag")
        if self._owners.setdefault(message.sequence, message.key) != message.key:
            raise Violation(f"{self.text(copy)} has the sequence {message.sequence}, which another message has had")
        if now_ms < self.sent[message.key].not_before_ms:
            raise Violation(f"{self.text(copy)} is dispatched before it is due")
        self.chosen(copy, message, consumer, ordered=ordered)

    def chosen(self, copy: Copy, message: Message, consumer: str, *, ordered: bool) -> None:
        """The broker gives a message to a consumer, although it may leave later."""
        known = self._sequences.get(copy)
        if known is None:
            self._sequences[copy] = message.sequence
            self._first_dispatch(copy, message, consumer, ordered=ordered)
        elif known != message.sequence:
            raise Violation(f"{self.text(copy)} exists twice, as {known} and as {message.sequence}")

    def _first_dispatch(self, copy: Copy, message: Message, consumer: str, *, ordered: bool) -> None:
        count = int.from_bytes(message.key[-8:], signed=True)
        sent = self.sent[message.key]
        if sent.not_before_ms:
            return  # those that were sent after it need not wait for it
        if sent.has_twin(copy[0]):
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

    # ---- the broker ends and starts again ----------------------------------------------------------------------

    def restarted(self, found: Found, now_ms: int) -> None:
        """A new broker is about to begin with *found*: does it have all that was promised, and nothing else?"""
        for sent in self.sent.values():
            if sent.persistent:
                for place in self._places(sent):
                    self._check_kept(sent, (place, sent.key), found, now_ms)
            else:
                sent.may_be_lost = True
        for deed in self.deeds:
            if deed.outcome is Outcome.SENT and len(deed.sends) + len(deed.acks) > 1:
                self._check_whole(deed, found, now_ms)
        self._check_sequences(found)
        self._forget_memory(found)

    def _check_kept(self, sent: Sent, copy: Copy, found: Found, now_ms: int) -> None:
        outcomes = {deed.outcome for _, deed in self.acks.get(copy, ())}
        if copy in found.present:
            if Outcome.DONE in outcomes:
                raise Violation(f"{self.text(copy)} is there again after a restart, and its ack was confirmed")
            if sent.deed.outcome is Outcome.VOID:
                raise Violation(f"{self.text(copy)} is there after a restart, and {sent.deed.name} did not happen")
            return
        may_be_gone = outcomes & {Outcome.DONE, Outcome.SENT} or copy in self.drained or sent.has_expired(now_ms)
        elsewhere = sent.key in found.dead or sent.key in found.later or sent.key in self.dead
        if sent.deed.outcome is Outcome.DONE and not (may_be_gone or elsewhere):
            raise Violation(f"{self.text(copy)} is lost in a restart: its send was confirmed ({sent.deed.name})")

    def _check_whole(self, deed: Deed, found: Found, now_ms: int) -> None:
        """What was asked for and not answered has happened as a whole, or not at all."""
        there, missing = [], []
        for sent in (self.sent[key] for key in deed.sends):
            for copy in ((place, sent.key) for place in self._places(sent)):
                if copy in found.present or sent.key in found.later:
                    there.append(f"{self.text(copy)} is there")
                elif sent.persistent and not (copy in self.acks or sent.has_expired(now_ms) or sent.key in found.dead):
                    missing.append(f"{self.text(copy)} is not there")
        missing += [f"{self.text(copy)} is not consumed" for copy in deed.acks if copy in found.present]
        if there and missing:
            raise Violation(f"half of {deed.name} has happened: {there[0]}, {missing[0]}")

    def _check_sequences(self, found: Found) -> None:
        """A sequence that was on the medium is never used again; those that were in memory only may be."""
        for sequence in [it for it in self._owners if it > found.last_sequence]:
            sent = self.sent[self._owners.pop(sequence)]
            if sent.persistent and not sent.not_before_ms and sent.deed.outcome is Outcome.DONE:
                raise Violation(f"message {sent.text} had the sequence {sequence}, and the store has forgotten that")

    def _forget_memory(self, found: Found) -> None:
        """What only the old broker knew: all about non-persistent messages."""
        self.seen = {copy for copy in self.seen if self.sent[copy[1]].persistent}
        self._newest.clear()
        self.acks = {copy: acks for copy, acks in self.acks.items() if self.sent[copy[1]].persistent}
        self._sequences = {copy: it for copy, it in self._sequences.items() if found.present.get(copy) == it}

    # ---- the end -----------------------------------------------------------------------------------------------

    def settle(self, now_ms: int) -> None:
        """Everything was drained: is all accounted for?"""
        for sent in self.sent.values():
            for place in self._places(sent):
                self._settle_copy(sent, (place, sent.key), now_ms)
        for durable in self.durables.values():
            self._settle_advisories(durable)

    def _settle_advisories(self, durable: Durable) -> None:
        """Who listens to what happens to temporary destinations: was all of it told?"""
        for temporary in self.temporaries.values():
            kind = "TempQueue" if temporary.name.startswith("temp-queue") else "TempTopic"
            is_heard = durable.wants(-1) and stands_for(durable.topic, f"topic://ActiveMQ.Advisory.{kind}")
            if not is_heard or temporary.asked_at <= durable.since:
                continue
            if temporary.made_at is not None and (AdvisoryKind.DESTINATION_ADDED, temporary.name) not in self.told:
                raise Violation(f"{durable.place} was not told that {temporary.name} was made")
            if temporary.is_gone and (AdvisoryKind.DESTINATION_REMOVED, temporary.name) not in self.told:
                raise Violation(f"{durable.place} was not told that {temporary.name} was deleted")

    def _places(self, sent: Sent) -> Iterable[str]:
        yield from sent.places
        for durable in self.durables.values():
            if durable.must_have(sent):
                yield durable.place

    def _may_have_ended(self, sent: Sent, place: str) -> bool:
        """Whether *place* is a temporary queue that may have gone since *sent* was sent, with all that was in it.

        It may be there again: who comes back under the same connection id makes it again.
        """
        temporary = self.temporaries.get(place)
        return temporary is not None and not temporary.is_there_since(sent.deed.asked_at)

    def _settle_copy(self, sent: Sent, copy: Copy, now_ms: int) -> None:
        acks = self.acks.get(copy, [])
        confirmed = {kind for kind, deed in acks if deed.outcome is Outcome.DONE}
        possible = {kind for kind, deed in acks if deed.outcome is Outcome.SENT}
        drained = self.drained.get(copy, 0)
        origin = copy[0] if copy[0] in sent.places else sent.topic
        is_dead = origin in self.dead.get(sent.key, ())
        died_elsewhere = sent.key in self.dead  # all copies that die are one dead letter
        if drained + (1 if is_dead and copy[0] in sent.places else 0) > 1:
            raise Violation(f"{self.text(copy)} was found {drained} times at the end, dead letter: {is_dead}")
        if sent.deed.outcome is Outcome.VOID and (drained or is_dead):
            raise Violation(f"{self.text(copy)} is there, and {sent.deed.name} did not happen")
        if confirmed:
            if drained:
                raise Violation(f"{self.text(copy)} is still there, and its ack was confirmed")
            if AckKind.POISON in confirmed and sent.persistent and not died_elsewhere:
                raise Violation(f"{self.text(copy)} was poisoned and is not among the dead letters")
            return
        if sent.deed.outcome is Outcome.DONE and not (drained or is_dead or possible):
            if (
                sent.may_be_lost
                or self._may_have_ended(sent, copy[0])
                or (sent.has_expired(now_ms) and (died_elsewhere or not sent.persistent))
            ):
                return
            raise Violation(f"{self.text(copy)} is lost: its send was confirmed ({sent.deed.name})")

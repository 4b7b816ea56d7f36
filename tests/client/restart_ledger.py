"""What clients sent, were told and were given, through restarts of the broker, and what must not have happened.

A *unit* is what takes effect together: one send, or one transaction with all it sent and consumed. A message may reach
an application more than once, but the second time it says so (the redelivered flag). What a transaction has consumed
and committed never comes again. At the end, `settle` is given what is left in the queues: whatever was confirmed has
been consumed for good, or is there, once.

Clients call from their own threads.
"""

import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

KINDS = ("lost", "torn", "returned", "unflagged", "stored twice", "uncommitted", "problem")
_SHOWN_PER_KIND = 5


class Fate(Enum):
    """How a unit ended, or a delivery."""

    OPEN = "open"
    DONE = "done"
    ACKNOWLEDGED = "acknowledged"
    """With an ack that nobody answers: it may be lost, and the message come again."""
    VOID = "void"
    UNKNOWN = "unknown"


@dataclass(slots=True, eq=False)
class Unit:
    """A send, or a transaction."""

    name: str
    sends: list[str] = field(default_factory=list)
    takes: "list[Delivery]" = field(default_factory=list)
    fate: Fate = Fate.OPEN
    is_asked_for: bool = True
    """Whether it may have happened: a transaction only once its commit was called."""


@dataclass(slots=True, eq=False)
class Delivery:
    """A message that an application was given."""

    message: str
    consumer: str
    round: int
    sequence: int
    """Its place in the broker's order: a message that is stored twice has two."""
    is_flagged: bool
    fate: Fate = Fate.OPEN

    def __str__(self) -> str:
        flag = ", flagged" if self.is_flagged else ""
        return f"{self.consumer} in round {self.round} as {self.sequence}{flag}: {self.fate.value}"


class Ledger:
    """Remembers and judges; `violations` grows when something contradicts what came before."""

    def __init__(self, *, may_leave_ahead: bool = False) -> None:
        """Messages that *may_leave_ahead* of their sync come again under another number after a crash, if their
        senders repeat them."""
        self._may_leave_ahead = may_leave_ahead
        self.violations: list[tuple[str, str]] = []
        self.round = 0
        """How often the broker was restarted so far."""
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._units: dict[str, Unit] = {}
        self._deliveries: dict[str, list[Delivery]] = {}

    # ---- sending -----------------------------------------------------------------------------------------------

    def begin(self, name: str, sends: Iterable[str] = (), *, is_asked_for: bool = True) -> Unit:
        """A unit begins; its messages have ids of their own, which nobody else uses."""
        unit = Unit(name, list(sends), is_asked_for=is_asked_for)
        with self._lock:
            for message in unit.sends:
                self._units[message] = unit
        return unit

    def count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1

    def end(self, unit: Unit, fate: Fate, deliveries: Iterable[Delivery] = ()) -> None:
        """The client was told what became of *unit*, and of the *deliveries* it consumed."""
        with self._lock:
            unit.fate = fate
            unit.takes = list(deliveries)
            self.counts["confirmed messages"] += len(unit.sends) if fate is Fate.DONE else 0
            self._conclude(fate, unit.takes)

    def conclude(self, fate: Fate, deliveries: Iterable[Delivery]) -> None:
        """Deliveries were acknowledged, or are to come again."""
        with self._lock:
            self._conclude(fate, deliveries)

    def _conclude(self, fate: Fate, deliveries: Iterable[Delivery]) -> None:
        for delivery in deliveries:
            delivery.fate = fate

    # ---- receiving ---------------------------------------------------------------------------------------------

    def received(self, consumer: str, message: str, *, sequence: int, is_flagged: bool) -> Delivery:
        """An application is given a message."""
        with self._lock:
            delivery = Delivery(message, consumer, self.round, sequence, is_flagged)
            before = self._deliveries.setdefault(message, [])
            self._judge(delivery, before)
            before.append(delivery)
            return delivery

    def _judge(self, delivery: Delivery, before: list[Delivery]) -> None:
        self.counts["deliveries"] += 1
        unit = self._units.get(delivery.message)
        if unit is None or unit.fate is Fate.VOID or not unit.is_asked_for:
            self._violate("uncommitted", delivery)
        if not before:
            self.counts["first deliveries with the flag"] += delivery.is_flagged
            return
        if any(it.fate is Fate.DONE for it in before):
            self._violate("returned", delivery)
        is_repeated = self._may_leave_ahead and delivery.is_flagged
        if any(it.sequence != delivery.sequence for it in before) and not is_repeated:
            self._violate("stored twice", delivery)
        if not delivery.is_flagged:
            # One delivery may be without the flag: the first that the broker made. On a busy machine its consumer may
            # look at it, in a connection that is dead without its knowing, after another one was given it again.
            if all(it.is_flagged and it.consumer != delivery.consumer for it in before):
                self.counts["first deliveries seen late"] += 1
            else:
                self._violate("unflagged", delivery)
        elif before[-1].consumer == delivery.consumer:
            self.counts["duplicates with the flag, same consumer"] += 1
        else:
            self.counts["duplicates with the flag, other consumer"] += 1

    def _is_consumed(self, message: str) -> bool:
        return any(it.fate in (Fate.DONE, Fate.ACKNOWLEDGED) for it in self._deliveries.get(message, ()))

    # ---- the end -----------------------------------------------------------------------------------------------

    def problem(self, text: str) -> None:
        """A client was told something that it should never hear."""
        with self._lock:
            self.violations.append(("problem", f"{text} [round {self.round}]"))

    def settle(self) -> None:
        """Everything was consumed: what was confirmed is among it, and what was not is there as a whole or not."""
        with self._lock:
            units = set(self._units.values())
            for unit in units:
                self._decide(unit)
            for message, deliveries in self._deliveries.items():
                if sum(it.fate is Fate.DONE for it in deliveries) > 1:
                    self.violations.append(("torn", f"consumed twice: {self._story(message)}"))
            for unit in units:
                missing = [message for message in unit.sends if not self._is_consumed(message)]
                if unit.fate is Fate.DONE:
                    self.violations += [("lost", self._story(it)) for it in missing if not self._may_be_consumed(it)]
                elif missing and len(missing) < len(unit.sends):
                    self.violations.append(("torn", f"{unit.name} without {missing}"))

    def _decide(self, unit: Unit) -> None:
        """A transaction whose end is not known has consumed what it was given if what it sent is there, or has not."""
        if unit.fate is Fate.UNKNOWN and unit.sends:
            has_happened = any(self._is_consumed(message) for message in unit.sends)
            self._conclude(Fate.DONE if has_happened else Fate.VOID, unit.takes)

    def _may_be_consumed(self, message: str) -> bool:
        return any(it.fate is Fate.UNKNOWN for it in self._deliveries.get(message, ()))

    def _violate(self, kind: str, delivery: Delivery) -> None:
        self.violations.append((kind, f"{self._story(delivery.message)}; now {delivery}"))

    def _story(self, message: str) -> str:
        unit = self._units.get(message)
        sender = "sent by nobody" if unit is None else f"sent by {unit.name} ({unit.fate.value})"
        return f"{message}, {sender}, " + ("; ".join(map(str, self._deliveries.get(message, ()))) or "never seen")

    def lines(self) -> Iterable[str]:
        """For people: some of the violations of each kind, then figures."""
        by_kind = Counter(kind for kind, _ in self.violations)
        for kind in KINDS:
            shown = [text for it, text in self.violations if it == kind][:_SHOWN_PER_KIND]
            yield from (f"{kind}: {text}" for text in shown)
            if by_kind[kind] > len(shown):
                yield f"{kind}: and {by_kind[kind] - len(shown)} more"
        yield ", ".join(f"{count} {what}" for what, count in sorted(self.counts.items()))
        yield "violations: " + ", ".join(f"{kind} {by_kind[kind]}" for kind in KINDS)

"""What clients tried and what the broker answered, and from that what the broker must hold, may hold, must not hold.

A *unit* is what takes effect together: one send, one acknowledgement, one transaction. Its effects are messages that
appear in places and messages taken from them; a place is a queue or a durable subscription. A unit is

- *open* from the attempt to the answer,
- *done* once it was answered: its effects must be seen by all, for ever,
- *unknown* if the broker died before the answer: all of its effects or none,
- *void* if it did not happen,
- *prepared* if it is half of a distributed transaction: no effect yet, and what it took is withheld from others.

The ledger is fed the lines that the clients print. After each restart, while nobody works, everything that the broker
holds is listed; `settle` compares the list with the ledger and thereby decides every unknown unit: a unit of which one
effect is there and another is not is torn. So before each round everything is known exactly.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum

Key = tuple[str, str]
"""Place and id of a message."""

SCHEDULED_PLACE = "later"
"""What was sent there may be absent without being lost: it is not due."""
UNORDERED_PLACES = frozenset({SCHEDULED_PLACE, "xa.in", "xa.out"})
"""Where transactions or timers decide about the order, not the producer."""


class Fate(Enum):
    OPEN = "open"
    DONE = "done"
    UNKNOWN = "unknown"
    VOID = "void"
    PREPARED = "prepared"


@dataclass(slots=True, eq=False)
class Unit:
    kind: str
    name: str
    round: int
    sends: list[Key] = field(default_factory=list)
    takes: list[Key] = field(default_factory=list)
    fate: Fate = Fate.OPEN
    due_ms: int = 0
    decision: str = ""
    """Of a distributed transaction: what its manager told the broker, without an answer so far."""


@dataclass(slots=True, eq=False)
class Message:
    sender: Unit
    takers: list[Unit] = field(default_factory=list)
    holder: str = ""
    """The client that has it and has neither consumed nor returned it."""

    def has_taker(self, *fates: Fate) -> bool:
        return any(unit.fate in fates for unit in self.takers)


@dataclass(frozen=True, slots=True)
class Violation:
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


class Ledger:
    """Fed by `feed`; `violations` grows when a line or a listing contradicts what came before."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self.sends_acknowledged = 0
        self.transactions_committed = 0
        self.round = 0
        self.moment = ""
        """When this is, for people: after which kill."""
        self._units: dict[str, Unit] = {}
        self._messages: dict[Key, Message] = {}
        self._old_units: dict[str, Unit] = {}
        self._old_messages: dict[Key, Message] = {}
        """Those whose story is over, apart, so that a long run does not become slow."""
        self._listing: dict[str, list[str]] = defaultdict(list)
        self._recovered: set[str] = set()
        self._last_seen: dict[tuple[str, str, str], int] = {}
        """The highest number of each producer that a client saw in a place, since it connected."""
        self._readers: dict[str, Callable[[list[str]], None]] = {
            "try": self._on_try,
            "done": self._on_done,
            "fail": self._on_fail,
            "saw": self._on_saw,
            "undo": self._on_undo,
            "at": self._on_at,
            "recovered": self._on_recovered,
            "xa-try": self._on_try,
            "xa-prepared": self._on_prepared,
            "xa-decide": self._on_decide,
            "xa-decided": self._on_decided,
            "xa-doubt": self._on_doubt,
            "problem": self._on_problem,
            "gone": self._on_gone,
        }

    def feed(self, line: str) -> None:
        """Take note of a line of the clients' journal."""
        kind, *words = line.split(" ")
        self._readers[kind](words)

    def begin_round(self, number: int) -> None:
        """Clients connect anew: what they had received and not consumed will come again."""
        self.round = number
        self._last_seen.clear()
        for message in self._messages.values():
            message.holder = ""

    def waiting_for_their_time(self) -> list[str]:
        """Ids of scheduled messages that must still come."""
        return [
            name
            for (place, name), message in self._messages.items()
            if place == SCHEDULED_PLACE
            and message.sender.fate is Fate.DONE
            and not message.has_taker(Fate.DONE, Fate.UNKNOWN)
        ]

    # ---- what clients do ---------------------------------------------------------------------------------------

    def _on_try(self, words: list[str]) -> None:
        kind, name, *effects = words
        unit = self._units[name] = Unit(kind, name, self.round)
        for effect in effects:
            if effect[0] == "@":
                unit.due_ms = int(effect[1:])
                continue
            place, _, message_id = effect[1:].partition("/")
            key = (place, message_id)
            if effect[0] == "+":
                unit.sends.append(key)
                self._messages[key] = Message(unit)
            else:
                unit.takes.append(key)
                if key in self._messages:  # else it should not exist, which was noted when it was seen
                    self._messages[key].takers.append(unit)

    def _on_done(self, words: list[str]) -> None:
        self._set_done(self._units[words[0]])

    def _set_done(self, unit: Unit) -> None:
        unit.fate = Fate.DONE
        self.sends_acknowledged += len({message_id for _, message_id in unit.sends})
        if unit.kind in ("tx", "xa"):
            self.transactions_committed += 1

    def _on_fail(self, words: list[str]) -> None:
        self._units[words[0]].fate = Fate.UNKNOWN

    def _on_saw(self, words: list[str]) -> None:
        worker, place, message_id, time_ms = words
        message = self._message((place, message_id))
        where = f"{message_id} in {place}, seen by {worker}"
        if message is None or _is_invisible(message.sender):
            self._violate("uncommitted", f"{where}, though {self._story(message)}")
            return
        if message.has_taker(Fate.DONE, Fate.PREPARED):
            self._violate("returned", f"{where}, though {self._story(message)}")
        elif message.holder:
            self._violate("duplicate", f"{where}, while {message.holder} has it; {self._story(message)}")
        if int(time_ms) < message.sender.due_ms:
            self._violate("early", f"{where} at {time_ms}, due {message.sender.due_ms}")
        message.holder = worker
        self._check_order(worker, place, message_id)

    def _message(self, key: Key) -> Message | None:
        return self._messages.get(key) or self._old_messages.get(key)

    def _check_order(self, worker: str, place: str, message_id: str) -> None:
        if place in UNORDERED_PLACES:
            return
        producer, number = _producer_and_number(message_id)
        last = self._last_seen.get((worker, place, producer), 0)
        if number <= last:
            self._violate("disorder", f"{worker} saw {message_id} in {place} after {producer}-{last}")
        self._last_seen[worker, place, producer] = number

    def _on_undo(self, words: list[str]) -> None:
        """A client gave back all it had: a rollback, or the end of a connection."""
        (worker,) = words
        for message in self._messages.values():
            if message.holder == worker:
                message.holder = ""
        for key in [key for key in self._last_seen if key[0] == worker]:
            del self._last_seen[key]

    def _on_gone(self, words: list[str]) -> None:
        """A connection broke, as it must when the broker is killed."""

    def _on_problem(self, words: list[str]) -> None:
        self._violate("problem", " ".join(words))

    # ---- distributed transactions ------------------------------------------------------------------------------

    def _on_prepared(self, words: list[str]) -> None:
        self._units[words[0]].fate = Fate.PREPARED

    def _on_decide(self, words: list[str]) -> None:
        unit = self._units[words[0]]
        unit.decision = words[1]
        unit.fate = Fate.OPEN  # from now on its messages may be seen, or be seen again
        if unit.decision == "rollback":
            for key in unit.takes:
                if key in self._messages:
                    self._messages[key].holder = ""

    def _on_decided(self, words: list[str]) -> None:
        self._apply_decision(self._units[words[0]])

    def _apply_decision(self, unit: Unit) -> None:
        if unit.decision == "commit":
            self._set_done(unit)
        else:
            unit.fate = Fate.VOID

    def _on_doubt(self, words: list[str]) -> None:
        self._units[words[0]].fate = Fate.UNKNOWN

    # ---- what the broker holds ---------------------------------------------------------------------------------

    def _on_at(self, words: list[str]) -> None:
        place, message_id = words
        self._listing[place].append(message_id)

    def _on_recovered(self, words: list[str]) -> None:
        self._recovered.add(words[0])

    def settle(self, *, all_due: bool = False) -> None:
        """Compare the listing, which is complete, with the ledger, and decide what was unknown.

        With *all_due* nothing is waiting for its time any more.
        """
        self._settle_prepared()
        self._check_listing()
        present = {(place, message_id) for place, ids in self._listing.items() for message_id in ids}
        self._decide_unknown(present, frozenset() if all_due else frozenset({SCHEDULED_PLACE}))
        for key, message in self._messages.items():
            if key in present:
                self._check_present(key, message)
            elif key[0] != SCHEDULED_PLACE or all_due:
                self._check_absent(key, message)
        for place, message_id in present - self._messages.keys():
            old = self._old_messages.get((place, message_id))
            kind = "returned" if old and old.has_taker(Fate.DONE) else "uncommitted"
            self._violate(kind, f"{message_id} in {place}, though {self._story(old)}")
        self._listing.clear()
        self._recovered.clear()
        self._put_away()

    def _put_away(self) -> None:
        """Keep at hand only what can change."""
        over = [key for key, message in self._messages.items() if _is_over(message)]
        for key in over:
            self._old_messages[key] = self._messages.pop(key)
        for name in [name for name, unit in self._units.items() if unit.fate in (Fate.DONE, Fate.VOID)]:
            self._old_units[name] = self._units.pop(name)

    def _settle_prepared(self) -> None:
        for unit in self._units.values():
            if unit.kind == "xa":
                self._settle_prepared_unit(unit, is_listed=unit.name in self._recovered)
        for name in self._recovered - self._units.keys():
            if name in self._old_units:
                self._violate("returned", f"{_unit(self._old_units[name])} is listed as prepared")
            else:
                self._violate("uncommitted", f"transaction {name} is listed as prepared, but no prepare was tried")

    def _settle_prepared_unit(self, unit: Unit, *, is_listed: bool) -> None:
        if unit.fate is Fate.PREPARED and not is_listed:
            self._violate("lost", f"prepared transaction {_unit(unit)} is not listed")
        elif unit.fate in (Fate.DONE, Fate.VOID) and is_listed:
            self._violate("returned", f"{_unit(unit)} is listed as prepared")
        elif unit.fate is Fate.UNKNOWN and is_listed:
            unit.fate = Fate.PREPARED
        elif unit.fate is Fate.UNKNOWN and unit.decision:
            self._apply_decision(unit)
        elif unit.fate is Fate.UNKNOWN:
            unit.fate = Fate.VOID

    def _check_listing(self) -> None:
        """No message twice in one place, each producer's in order."""
        for place, ids in self._listing.items():
            for message_id, count in Counter(ids).items():
                if count > 1:
                    story = self._story(self._message((place, message_id)))
                    self._violate("duplicate", f"{message_id} is {count} times in {place}; {story}")
            last: dict[str, int] = {}
            for message_id in () if place in UNORDERED_PLACES else ids:
                producer, number = _producer_and_number(message_id)
                if number < last.get(producer, 0):
                    self._violate("disorder", f"{message_id} is after {producer}-{last[producer]} in {place}")
                last[producer] = number

    def _decide_unknown(self, present: set[Key], silent: frozenset[str]) -> None:
        """Decide every unknown unit from its effects; absence from a *silent* place says nothing.

        Evidence about one unit can be evidence about another, so this goes on until nothing new is found. What is
        unknown then has left no trace, and never may: it is taken as done, and so are those who took from it.
        """
        unknown = [unit for unit in self._units.values() if unit.fate is Fate.UNKNOWN]
        decided = True
        while decided:
            decided = False
            for unit in unknown:
                if unit.fate is Fate.UNKNOWN and self._decide(unit, present, silent):
                    decided = True
        for unit in unknown:
            if unit.fate is Fate.UNKNOWN and not any(place in silent for place, _ in unit.sends + unit.takes):
                unit.fate = Fate.DONE

    def _decide(self, unit: Unit, present: set[Key], silent: frozenset[str]) -> bool:
        applied: list[Key] = []
        missing: list[Key] = []
        for key, is_send in [(key, True) for key in unit.sends] + [(key, False) for key in unit.takes]:
            if key not in self._messages or (key not in present and key[0] in silent):
                continue
            evidence = self._send_happened if is_send else self._take_happened
            happened = evidence(unit, self._messages[key], key in present)
            if happened is not None:
                (applied if happened else missing).append(key)
        if applied and missing:
            self._violate(
                "torn",
                f"{unit.name} of round {unit.round}, which was not answered: happened {_keys(applied)}, "
                f"did not happen {_keys(missing)}",
            )
        if applied or missing:
            unit.fate = Fate.DONE if applied else Fate.VOID
        return bool(applied or missing)

    @staticmethod
    def _send_happened(unit: Unit, message: Message, is_present: bool) -> bool | None:  # noqa: ARG004
        if is_present or message.has_taker(Fate.DONE, Fate.PREPARED):
            return True
        return None if message.has_taker(Fate.UNKNOWN) else False

    @staticmethod
    def _take_happened(unit: Unit, message: Message, is_present: bool) -> bool | None:
        others = {taker.fate for taker in message.takers if taker is not unit}
        if is_present or Fate.DONE in others or Fate.PREPARED in others:
            return False
        if message.sender.fate is Fate.PREPARED:  # it was seen while the commit was under way, which did not last
            return False
        return True if message.sender.fate is Fate.DONE and Fate.UNKNOWN not in others else None

    def _check_present(self, key: Key, message: Message) -> None:
        place, message_id = key
        if message.sender.fate is not Fate.DONE:
            self._violate("uncommitted", f"{message_id} in {place}, though {self._story(message)}")
        elif message.has_taker(Fate.DONE, Fate.PREPARED):
            self._violate("returned", f"{message_id} in {place}, though {self._story(message)}")

    def _check_absent(self, key: Key, message: Message) -> None:
        place, message_id = key
        if message.sender.fate is Fate.DONE and not message.has_taker(Fate.DONE, Fate.PREPARED):
            self._violate("lost", f"{message_id} is not in {place}; {self._story(message)}")

    # ---- telling -----------------------------------------------------------------------------------------------

    def _violate(self, kind: str, text: str) -> None:
        self.violations.append(Violation(kind, f"{text} [{self.moment}]"))

    @staticmethod
    def _story(message: Message | None) -> str:
        if message is None:
            return "no send or commit of it was tried"
        told = [f"sent by {_unit(message.sender)}"]
        told += [f"taken by {_unit(taker)}" for taker in message.takers]
        return ", ".join(told)


def _is_invisible(unit: Unit) -> bool:
    """Whether what *unit* sends must not be seen: a distributed transaction shows nothing before its decision."""
    return unit.fate in (Fate.VOID, Fate.PREPARED) or (
        unit.kind == "xa" and unit.fate is Fate.OPEN and not unit.decision
    )


def _is_over(message: Message) -> bool:
    return message.sender.fate is Fate.VOID or message.has_taker(Fate.DONE)


def _unit(unit: Unit) -> str:
    return f"{unit.name} ({unit.fate.value}, round {unit.round})"


def _keys(keys: Iterable[Key]) -> str:
    return ", ".join(f"{place}/{message_id}" for place, message_id in keys)


def _producer_and_number(message_id: str) -> tuple[str, int]:
    producer, _, number = message_id.rpartition("-")
    return producer, int(number)

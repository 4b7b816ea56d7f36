"""The state of `ackwire audit follow` between two micro-batches, and its alerts. Plain Python, no Spark.

A micro-batch comes in as `BatchCounts`, its events counted. `Watch` adds them up: totals of every place, rates of the
last minutes, the backlog (the newest census of the place, and all changes since) and the messages in flight to each
consumer. `take` returns the alerts of a micro-batch; `look` returns those that are due to the passing of time. Dead
letters and expired messages raise an alert whenever there are new ones, every other condition when it begins. The
whole state fits in a JSON file: `to_json` and `from_json`.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from ackwire.spark.audit.runs import Run, Runs, holes, size

ENDS: Final = ("acked", "dead_lettered", "expired", "purged", "discarded")
COUNTED: Final = ("sent", "stored", "dispatched", "redelivered", *ENDS)
"""Events that are counted."""
HANDLED: Final = frozenset(("acked", "redelivered", "returned", "dead_lettered", "expired", "purged", "discarded"))
"""With these a consumer has a message no longer in hand."""

OTHER_PLACES: Final = "other places"
PLACES_MAX: Final = 10_000
"""Places that are counted each; later ones are counted together as `OTHER_PLACES`."""
CONSUMERS_MAX: Final = 10_000
"""Consumers that are watched; beyond it those that have done nothing for longest are forgotten."""
ALERTS_MAX: Final = 100
"""Alerts of one micro-batch that are written; beyond that one alert says how many there were."""

MINUTE_US: Final = 60_000_000
RECENT_MINUTES: Final = 10
LATE_MINUTES: Final = 5
"""Events this much older than the newest are counted as late; they count in their own minute all the same."""
_GROWING_MINUTES: Final = 3
_CAUSES_SHOWN: Final = 3

Key = tuple[str, str]
"""Broker and place."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When an alert is raised."""

    redelivered_share: float = 0.1
    """Redeliveries per dispatch in the last two minutes."""
    redelivered_min: int = 10
    """Fewer redeliveries in two minutes raise none."""
    backlog_min: int = 100
    """A smaller backlog may grow without an alert."""
    stopped_after_seconds: int = 30
    """A consumer that has messages and has handled none of them for this long has stopped."""
    missing_after_seconds: int = 60
    """Files may come in another order than the broker wrote them; numbers that are missing for longer are an alert."""


class EventCount(NamedTuple):
    """How many events of one kind there were at a place in a minute, by one consumer, of one cause."""

    broker: str
    place: str
    event: str
    minute: int
    """Minutes since 1970."""
    consumer: str | None
    cause: str | None
    events: int
    moving: int
    """How many of them change what the place holds now: they are of the broker's present run, and came after the
    newest census of the place in the same micro-batch."""
    first_us: int
    last_us: int


@dataclass(frozen=True, slots=True)
class BatchCounts:
    """A micro-batch, counted."""

    batch: int
    events: list[EventCount]
    census: dict[Key, int]
    """The newest count of each place that was counted."""
    runs: Runs
    """All runs that are known now."""
    repeated: int = 0
    newest_us: dict[str, int] = field(default_factory=dict)
    """The time of the newest event of each broker."""


@dataclass(frozen=True, slots=True)
class Alert:
    """A condition that needs attention."""

    kind: str
    broker: str
    place: str | None
    time: datetime
    text: str
    details: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        when = self.time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        common = {"alert": self.kind, "time": when, "broker": self.broker, "place": self.place}
        return {**common, **self.details, "text": self.text}


@dataclass(slots=True)
class InHand:
    """The messages in flight to a consumer."""

    messages: int = 0
    since_us: int = 0
    """When it last handled one, or got its first since it had none."""
    seen_us: int = 0


@dataclass(slots=True)
class Watch:
    """Everything that is known so far; `batch` is the last micro-batch that is in it."""

    batch: int = -1
    runs: Runs = field(default_factory=Runs)
    totals: dict[Key, Counter[str]] = field(default_factory=dict)
    recent: dict[Key, dict[int, Counter[str]]] = field(default_factory=dict)
    backlog: Counter[Key] = field(default_factory=Counter)
    consumers: dict[tuple[str, str, str], InHand] = field(default_factory=dict)
    newest_us: dict[str, int] = field(default_factory=dict)
    late: int = 0
    repeated: int = 0
    raised: set[tuple[str, ...]] = field(default_factory=set)
    missing: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Runs with missing numbers: since when, and how many of them were told."""

    # ---- a micro-batch

    def take(self, counts: BatchCounts, thresholds: Thresholds) -> list[Alert]:
        """Add a micro-batch, and say what is worth an alert."""
        self._restart(counts.runs)
        self.repeated += counts.repeated
        alerts = list(self._ended_badly(counts))
        for count in counts.events:
            self._count(count)
        self._hold(counts)
        for count in sorted(counts.events, key=lambda it: it.first_us):
            self._hand(count)
        for broker, newest in counts.newest_us.items():
            self.newest_us[broker] = max(newest, self.newest_us.get(broker, 0))
        self._forget()
        self.batch = counts.batch
        return _bounded(alerts + self.look(self.newest_us, thresholds))

    def _restart(self, runs: Runs) -> None:
        """A broker that has started again reports all that it holds, and its consumers have new names."""
        before, now = present_runs(self.runs), present_runs(runs)
        restarted = {it for it, run in now.items() if before.get(it) != run}
        self.consumers = {key: it for key, it in self.consumers.items() if key[0] not in restarted}
        self.backlog = Counter({key: it for key, it in self.backlog.items() if key[0] not in restarted})
        self.runs = runs

    def _key(self, count: EventCount) -> Key:
        key = (count.broker, count.place)
        return key if key in self.totals or len(self.totals) < PLACES_MAX else (count.broker, OTHER_PLACES)

    def _count(self, count: EventCount) -> None:
        if count.event not in COUNTED:
            return
        key = self._key(count)
        self.totals.setdefault(key, Counter())[count.event] += count.events
        newest_minute = self.newest_us.get(count.broker, 0) // MINUTE_US
        if count.minute < newest_minute - LATE_MINUTES:
            self.late += count.events
        if count.minute > newest_minute - RECENT_MINUTES:
            self.recent.setdefault(key, {}).setdefault(count.minute, Counter())[count.event] += count.events

    def _hold(self, counts: BatchCounts) -> None:
        """The backlog of each place: by its census, if there was one, and by what happened since."""
        for key, count in counts.census.items():
            self.backlog[key] = count
        for entry in counts.events:
            change = 1 if entry.event == "stored" else -1 if entry.event in ENDS else 0
            if change and not entry.place.startswith("topic://"):
                self.backlog[self._key(entry)] += change * entry.moving

    def _hand(self, count: EventCount) -> None:
        if count.consumer is None:
            return
        change = 1 if count.event == "dispatched" else -1 if count.event in HANDLED else 0
        key = (*self._key(count), count.consumer)
        its = self.consumers.setdefault(key, InHand())
        if change > 0 and its.messages <= 0:
            its.since_us = max(its.since_us, count.first_us)
        if change < 0:
            its.since_us = max(its.since_us, count.last_us)
        its.messages += change * count.events
        its.seen_us = max(its.seen_us, count.last_us)

    def _forget(self) -> None:
        """Forget old minutes and idle consumers, so that memory stays bounded."""
        for (broker, place), minutes in list(self.recent.items()):
            oldest = self.newest_us.get(broker, 0) // MINUTE_US - RECENT_MINUTES
            kept = {minute: its for minute, its in minutes.items() if minute > oldest}
            if kept:
                self.recent[broker, place] = kept
            else:
                del self.recent[broker, place]
        for key, its in list(self.consumers.items()):
            if its.messages <= 0 and its.seen_us < self.newest_us.get(key[0], 0) - RECENT_MINUTES * MINUTE_US:
                del self.consumers[key]
        if len(self.consumers) > CONSUMERS_MAX:
            newest_first = sorted(self.consumers.items(), key=lambda it: it[1].seen_us, reverse=True)
            self.consumers = dict(newest_first[:CONSUMERS_MAX])

    # ---- alerts

    def look(self, now_us: dict[str, int], thresholds: Thresholds) -> list[Alert]:
        """The alerts that are due at this time, by broker, and were not raised yet."""
        found: dict[tuple[str, ...], Alert] = {}
        for broker, now in now_us.items():
            found |= self._redeliveries(broker, now, thresholds)
            found |= self._growing(broker, now, thresholds)
            if not self._has_holes(broker):  # what is missing may be its acks
                found |= self._stopped(broker, now, thresholds)
        new = [alert for key, alert in found.items() if key not in self.raised]
        self.raised = {it for it in self.raised if it[1] not in now_us} | set(found)
        return new + [it for broker, now in now_us.items() for it in self._missing(broker, now, thresholds)]

    def _ended_badly(self, counts: BatchCounts) -> Iterator[Alert]:
        for kind, event, words in (
            ("dead_letters", "dead_lettered", "became dead letters"),
            ("expired", "expired", "expired"),
        ):
            by_place: dict[Key, list[EventCount]] = {}
            for entry in counts.events:
                if entry.event == event:
                    by_place.setdefault(self._key(entry), []).append(entry)
            for key, its in by_place.items():
                count = sum(it.events for it in its)
                causes: Counter[str] = Counter()
                for it in its:
                    causes[it.cause or ""] += it.events
                shown = dict((causes - Counter({"": count})).most_common(_CAUSES_SHOWN))
                why = ": " + "; ".join(f"{number} × {cause}" for cause, number in shown.items()) if shown else ""
                values: dict[str, Any] = {"count": count} | ({"causes": shown} if shown else {})
                yield _alert(kind, key, max(it.last_us for it in its), f"{_messages(count)} {words}{why}", values)

    def _redeliveries(self, broker: str, now: int, thresholds: Thresholds) -> dict[tuple[str, ...], Alert]:
        found: dict[tuple[str, ...], Alert] = {}
        for key in (it for it in self.recent if it[0] == broker):
            its = self._last_minutes(key, now, 2)
            back, out = its["redelivered"], its["dispatched"]
            if back >= thresholds.redelivered_min and back > thresholds.redelivered_share * out:
                text = f"{back:,} redeliveries for {out:,} dispatches in two minutes"
                values = {"redelivered": back, "dispatched": out}
                found["redeliveries", *key] = _alert("redeliveries", key, now, text, values)
        return found

    def _last_minutes(self, key: Key, now: int, minutes: int) -> Counter[str]:
        newest = now // MINUTE_US
        found: Counter[str] = Counter()
        for minute, its in self.recent[key].items():
            if minute > newest - minutes:
                found.update(its)
        return found

    def _growing(self, broker: str, now: int, thresholds: Thresholds) -> dict[tuple[str, ...], Alert]:
        """More came than went, in each of the last whole minutes."""
        found: dict[tuple[str, ...], Alert] = {}
        newest = now // MINUTE_US
        for key in (it for it in self.recent if it[0] == broker and self.backlog[it] >= thresholds.backlog_min):
            minutes = [self.recent[key].get(newest - it, Counter()) for it in range(1, _GROWING_MINUTES + 1)]
            changes = [its["stored"] - sum(its[end] for end in ENDS) for its in minutes]
            if min(changes) > 0:
                backlog = self.backlog[key]
                text = f"{_messages(backlog)} wait, {sum(changes):,} more than {_GROWING_MINUTES} minutes before"
                found["backlog", *key] = _alert(
                    "growing_backlog", key, now, text, {"backlog": backlog, "growth": sum(changes)}
                )
        return found

    def _stopped(self, broker: str, now: int, thresholds: Thresholds) -> dict[tuple[str, ...], Alert]:
        found: dict[tuple[str, ...], Alert] = {}
        for (its_broker, place, name), its in self.consumers.items():
            seconds = (now - its.since_us) // 1_000_000
            if its_broker == broker and its.messages > 0 and seconds >= thresholds.stopped_after_seconds:
                text = f"consumer {name} has {_messages(its.messages)} and has handled none for {seconds} s"
                values = {"consumer": name, "messages": its.messages, "seconds": seconds}
                found["stopped", broker, place, name] = _alert("consumer_stopped", (broker, place), now, text, values)
        return found

    def _has_holes(self, broker: str) -> bool:
        run = self.runs.by_name.get(present_runs(self.runs).get(broker, ""))
        return run is not None and bool(holes(run.seen, run.seen))

    def _missing(self, broker: str, now: int, thresholds: Thresholds) -> Iterator[Alert]:
        for run in (it for it in self.runs.by_name.values() if it.broker == broker):
            gaps = holes(run.seen, run.seen)
            count = size(gaps)
            since, told = self.missing.get(run.name, (now, 0))
            if count == 0:
                if self.missing.pop(run.name, None) is not None and told:
                    text = f"the missing events of run {run.name} have come"
                    yield _alert("missing_events_came", (broker, None), now, text, {"run": run.name})
                continue
            if count != told and now - since >= thresholds.missing_after_seconds * 1_000_000:
                told = count
                first, last = gaps[0]
                text = f"{count:,} events of run {run.name} are missing, first {first} to {last}"
                values = {"run": run.name, "count": count, "first": first, "last": last}
                yield _alert("missing_events", (broker, None), now, text, values)
            self.missing[run.name] = (since, told)

    # ---- as a file

    def to_json(self) -> dict[str, Any]:
        return {
            "batch": self.batch,
            "runs": [it.to_json() for it in self.runs.by_name.values()],
            "totals": [[*key, its] for key, its in self.totals.items()],
            "recent": [[*key, minute, its] for key, minutes in self.recent.items() for minute, its in minutes.items()],
            "backlog": [[*key, count] for key, count in self.backlog.items()],
            "consumers": [[*key, it.messages, it.since_us, it.seen_us] for key, it in self.consumers.items()],
            "newest_us": self.newest_us,
            "late": self.late,
            "repeated": self.repeated,
            "raised": [list(it) for it in self.raised],
            "missing": self.missing,
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Watch":
        watch = cls(
            batch=values["batch"],
            runs=Runs({it["name"]: Run.from_json(it) for it in values["runs"]}),
            totals={(broker, place): Counter(its) for broker, place, its in values["totals"]},
            backlog=Counter({(broker, place): count for broker, place, count in values["backlog"]}),
            consumers={(one, two, name): InHand(*its) for one, two, name, *its in values["consumers"]},
            newest_us=values["newest_us"],
            late=values["late"],
            repeated=values["repeated"],
            raised={tuple(it) for it in values["raised"]},
            missing={run: (since, told) for run, (since, told) in values["missing"].items()},
        )
        for broker, place, minute, its in values["recent"]:
            watch.recent.setdefault((broker, place), {})[minute] = Counter(its)
        return watch


def present_runs(runs: Runs) -> dict[str, str]:
    """The name of the newest run of each broker."""
    return {it.broker: it.name for it in sorted(runs.by_name.values(), key=lambda it: it.started_us)}


def _alert(kind: str, key: tuple[str, str | None], time_us: int, text: str, values: dict[str, Any]) -> Alert:
    broker, place = key
    time = datetime.fromtimestamp(time_us / 1_000_000, UTC)
    return Alert(kind, broker, place, time, f"{place}: {text}" if place else text, values)


def _bounded(alerts: list[Alert]) -> list[Alert]:
    if len(alerts) <= ALERTS_MAX:
        return alerts
    last = alerts[-1]
    text = f"{len(alerts) - ALERTS_MAX} more alerts at the same time"
    return [*alerts[:ALERTS_MAX], Alert("more_alerts", last.broker, None, last.time, text, {"count": len(alerts)})]


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count:,} messages"

"""Compares two catalogs of one store: that of the journal alone, and that of a start with the index.

They must agree to the last message and counter; wherever they do not, the index or the journal is damaged. Catalogs are
walked in order, side by side, so that memory does not grow with the backlog.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ackwire.store.blocks import Entry
from ackwire.store.catalog import Catalog, PlaceInfo, StateKey, StateValue
from ackwire.store.contract import BatchRecord, CursorRecord, DurableRecord, Place, ScheduledJob, StagedRecord
from ackwire.store.journal.record import RecordKind
from ackwire.store.journal.state import PreparedRecord
from ackwire.util.lru import COMMITS_REMEMBERED, PRODUCERS_REMEMBERED
from ackwire.util.plurals import agree, counted


class Located(NamedTuple):
    """A message in a place."""

    place_id: int
    place: Place
    sequence: int
    entry: Entry

    def __str__(self) -> str:
        return f"message {self.sequence} of {self.place!r}, at {self.entry.offset} of segment {self.entry.segment}"


@dataclass(slots=True)
class Differences:
    """Where the journal alone and a start with the index do not agree."""

    lost: list[Located] = field(default_factory=list)
    """The index has it, the journal has not."""
    back: list[Located] = field(default_factory=list)
    """The journal has it, the index says that it is gone, or does not know it."""
    moved: list[tuple[Located, Entry]] = field(default_factory=list)
    """Both have it, at different places: where the journal has it, and where the index says."""
    places_lost: list[PlaceInfo] = field(default_factory=list)
    places_back: list[PlaceInfo] = field(default_factory=list)
    state_lost: list[StateKey] = field(default_factory=list)
    state_back: list[StateKey] = field(default_factory=list)
    state_changed: list[StateKey] = field(default_factory=list)
    counters: list[str] = field(default_factory=list)
    """Sums that are wrong, as sentences."""

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__slots__)


def compare(alone: Catalog, started: Catalog) -> Differences:
    """What the two do not agree on."""
    found = Differences()
    for place_id in sorted({*alone.place_by_id, *started.place_by_id}):
        _compare_place(place_id, alone, started, found)
    _compare_state(alone, started, found)
    _compare_sums(alone, started, found)
    return found


def _compare_place(place_id: int, alone: Catalog, started: Catalog, found: Differences) -> None:
    here, there = alone.place_by_id.get(place_id), started.place_by_id.get(place_id)
    if there is None and here is not None:
        found.places_back.append(here)
    elif there is not None and (here is None or here.place != there.place):
        found.places_lost.append(there)
    recounted: list[dict[int, list[int]]] = [{}, {}]
    for sequence, first, second in _side_by_side(_waiting(alone, here), _waiting(started, there)):
        for entry, held in zip((first, second), recounted, strict=True):
            _count(held, entry)
        if second is None and first is not None and here is not None:
            found.back.append(Located(place_id, here.place, sequence, first))
        elif first is None and second is not None and there is not None:
            found.lost.append(Located(place_id, there.place, sequence, second))
        elif first is not None and second is not None and first != second and here is not None:
            found.moved.append((Located(place_id, here.place, sequence, first), second))
    if here is not None and there is not None and here.segment != there.segment:
        found.counters.append(
            f"the record of {here!r} is in segment {here.segment}, and the index says {there.segment}"
        )
    if here is not None and there is not None and here.dispatched_up_to != there.dispatched_up_to:
        found.counters.append(
            f"{here!r} was dispatched up to {here.dispatched_up_to}, and the index says {there.dispatched_up_to}"
        )
    for info, held, source in ((here, recounted[0], "journal"), (there, recounted[1], "index")):
        if info is not None and info.held != held:
            found.counters.append(_held_text(source, info, held))


def _waiting(catalog: Catalog, info: PlaceInfo | None) -> Iterator[tuple[int, Entry]]:
    return iter(()) if info is None else catalog.waiting(info)


def _side_by_side(
    first: Iterator[tuple[int, Entry]], second: Iterator[tuple[int, Entry]]
) -> Iterator[tuple[int, Entry | None, Entry | None]]:
    """Both in order of sequence, with None where one has none."""
    left, right = next(first, None), next(second, None)
    while left is not None or right is not None:
        if right is None or (left is not None and left[0] < right[0]):
            assert left is not None
            yield left[0], left[1], None
            left = next(first, None)
        elif left is None or right[0] < left[0]:
            yield right[0], None, right[1]
            right = next(second, None)
        else:
            yield left[0], left[1], right[1]
            left, right = next(first, None), next(second, None)


def _count(held: dict[int, list[int]], entry: Entry | None) -> None:
    if entry is not None:
        counts = held.setdefault(entry.segment, [0, 0])
        counts[0] += 1
        counts[1] += entry.share_bytes


def _held_text(source: str, info: PlaceInfo, held: dict[int, list[int]]) -> str:
    number = min(it for it in {*info.held, *held} if info.held.get(it) != held.get(it))
    said, counted = info.held.get(number, [0, 0]), held.get(number, [0, 0])
    return (
        f"{info.place!r} holds {counted[0]} messages ({counted[1]} bytes) of segment {number}, and the counter of the "
        f"{source} says {said[0]} ({said[1]} bytes)"
    )


def _compare_state(alone: Catalog, started: Catalog, found: Differences) -> None:
    for key in sorted({*alone.state, *started.state}):
        here, there = alone.state.get(key), started.state.get(key)
        if there is None:
            found.state_back.append(key)
        elif here is None:
            found.state_lost.append(key)
        elif here.value != there.value and not _is_same_job(here.value, there.value):
            found.state_changed.append(key)
        elif here.segments != there.segments:
            found.counters.append(
                f"{state_text(alone, key)} is recorded in segments {sorted(here.segments)}, and the index says "
                f"{sorted(there.segments)}"
            )


def _is_same_job(here: StateValue, there: StateValue) -> bool:
    """Messages are equal if they are one object; those of two readings are not."""
    if not isinstance(here, ScheduledJob) or not isinstance(there, ScheduledJob):
        return False
    names = (name for name in ScheduledJob.__slots__ if name != "message")
    same = all(getattr(here, name) == getattr(there, name) for name in names)
    return same and here.message.frame == there.message.frame


def _compare_sums(alone: Catalog, started: Catalog, found: Differences) -> None:
    for number in sorted({*alone.segments} & {*started.segments}):
        here, there = alone.segments[number], started.segments[number]
        said, is_so = (there.live_messages, there.live_bytes), (here.live_messages, here.live_bytes)
        if said != is_so and not (found.lost or found.back or found.moved):  # then they cannot agree
            found.counters.append(
                f"segment {number} holds {is_so[0]} messages ({is_so[1]} bytes) alive, and the index says {said[0]} "
                f"({said[1]} bytes)"
            )
        if here.removals != there.removals:
            found.counters.append(
                f"segment {number} tells of {here.removals.total()} removals in older ones, and the index says "
                f"{there.removals.total()}"
            )
    if alone.last_sequence > started.last_sequence:
        found.counters.append(
            f"the journal has messages up to {alone.last_sequence}, and the index says {started.last_sequence}"
        )
    if alone.next_place_id > started.next_place_id:
        found.counters.append(
            f"place {alone.next_place_id - 1} is in use, and the index would give {started.next_place_id} to a new one"
        )
    _compare_memories(alone, started, found)


def _compare_memories(alone: Catalog, started: Catalog, found: Differences) -> None:
    # When the memory is full, which of the oldest are forgotten depends on where reading began.
    counts = {producer: count for producer, (count, _) in alone.counts.items()}
    said = {producer: count for producer, (count, _) in started.counts.items()}
    if counts != said and max(len(counts), len(said)) < PRODUCERS_REMEMBERED:
        wrong = sum(1 for it in {*counts, *said} if counts.get(it) != said.get(it))
        found.counters.append(f"the journal and the index know different last counts of {counted(wrong, 'producer')}")
    segments = {it: segment for it, (_, segment) in alone.counts.items()}
    named = {it: segment for it, (_, segment) in started.counts.items()}
    found.counters += _elsewhere("producers", segments, named)
    found.counters += _elsewhere("committed transactions", dict(alone.commits.items()), dict(started.commits.items()))
    commits = set(alone.commits) ^ set(started.commits)
    if commits and max(len(alone.commits), len(started.commits)) < COMMITS_REMEMBERED:
        found.counters.append(
            f"only one of journal and index knows that {counted(len(commits), 'transaction')} "
            f"{agree(len(commits), 'has', 'have')} committed"
        )


def _elsewhere(what: str, here: Mapping[bytes, int], there: Mapping[bytes, int]) -> Iterator[str]:
    wrong = sum(1 for it, segment in there.items() if here.get(it, segment) != segment)
    if wrong:  # when that segment goes they would be forgotten
        yield f"{wrong} {what} are told of by other segments than the index says"


def state_text(catalog: Catalog, key: StateKey) -> str:
    """A durable subscription, a job, a prepared transaction, for people."""
    item = catalog.state.get(key)
    match None if item is None else item.value:
        case DurableRecord(key=name):
            return repr(name)
        case ScheduledJob(job_id=job_id):
            return f"job {job_id}"
        case PreparedRecord(transaction=transaction):
            return f"prepared transaction {transaction.hex()}"
        case CursorRecord() | StagedRecord() | BatchRecord() as note:
            return note.key
    return "the list of removed segments" if key[0] == RecordKind.GAPS else f"a record of type {key[0]}"

"""A store as rows (`portable.py`): what a store gives to an export, and the rows that follow from it.

Rows depend on nothing but what a store holds, and not on the kind of store: an export of a journal and one of the
database that it was copied to are the same, byte by byte, but for what is remembered of producers.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple, Protocol, final

from ackwire.jms.message import Message
from ackwire.store.blocks import Entry
from ackwire.store.catalog import CRASH_KEY, Catalog
from ackwire.store.contract import DurableKey, Place
from ackwire.store.inspect import StoreInspection
from ackwire.store.journal.record import Damaged
from ackwire.store.portable_rows import END_KIND, HEADER_KIND, VERSION, Row, place_to_row
from ackwire.store.portable_state import NOT_CARRIED, RULE_OF_VALUE, RULES, StateRule

Portray = Callable[[Message], Mapping[str, Any]]


class Found(NamedTuple):
    """A message with its redelivery count, and places where it waits."""

    sequence: int
    places: list[Place]
    message: Message


class Unreadable(NamedTuple):
    """A message that cannot be read."""

    sequence: int
    why: str
    """A sentence."""


class Source(Protocol):
    """What a store holds, for an export."""

    @property
    def last_sequence(self) -> int: ...

    @property
    def crashed_ms(self) -> int | None:
        """When a run was noticed to have ended in a crash; None if none did."""
        ...

    def state(self) -> Iterable[object]:
        """Values that have a rule in `RULE_OF_VALUE`, in any order; those of `NOT_CARRIED` are left out."""
        ...

    def place_of(self, place_id: int) -> Place | None:
        """The place that a value names by its id."""
        ...

    def places(self) -> Iterable[tuple[Place, int]]:
        """Each place, and the sequence up to which its messages may have reached consumers."""
        ...

    def messages(self) -> Iterator[Found | Unreadable]:
        """The messages in order of sequence. One that waits in several places may come several times."""
        ...

    def counts(self) -> Iterable[tuple[bytes, int]]:
        """The last count of each producer, the longest unheard first."""
        ...

    def commits(self) -> Iterable[bytes]:
        """The transactions that are known to have committed, oldest first."""
        ...


@final
class Export:
    """The rows of a store, and what could not be read on the way."""

    def __init__(self, source: Source, portray: Portray) -> None:
        self._source = source
        self.portray = portray
        self.place_of = source.place_of
        self.unreadable: list[str] = []
        self.rows_written = 0
        self.messages = 0

    def rows(self) -> Iterator[Row]:
        """Everything, in order."""
        yield {"kind": HEADER_KIND, "version": VERSION, "last_sequence": self._source.last_sequence}
        for row in self._content():
            self.rows_written += 1
            yield row
        yield {"kind": END_KIND, "rows": self.rows_written}

    def _content(self) -> Iterator[Row]:
        state = self._state()
        durables, *others = RULES
        yield from self._state_rows(durables, state)
        yield from self._places()
        yield from self._messages()
        for rule in others:
            yield from self._state_rows(rule, state)
        if self._source.crashed_ms is not None:
            yield {"kind": "crash", "at_ms": self._source.crashed_ms}
        for producer, count in self._source.counts():
            yield {"kind": "producer", "producer": producer, "count": count}
        for transaction in self._source.commits():
            yield {"kind": "commit", "transaction": transaction}

    def _state(self) -> dict[StateRule, list[Any]]:
        found: dict[StateRule, list[Any]] = {rule: [] for rule in RULES}
        for value in self._source.state():
            if type(value) in NOT_CARRIED:
                continue
            rule = RULE_OF_VALUE.get(type(value))
            if rule is None:
                raise AssertionError(f"there is no rule for how {type(value).__name__} is exported")
            found[rule].append(value)
        return found

    def _state_rows(self, rule: StateRule, state: dict[StateRule, list[Any]]) -> Iterator[Row]:
        for value in sorted(state[rule], key=rule.order):
            yield {"kind": rule.kind, **rule.to_row(self, value)}

    def _places(self) -> Iterator[Row]:
        """Destinations that exist, and how far messages may have reached consumers."""
        for place, dispatched_up_to in sorted(self._source.places(), key=lambda it: repr(it[0])):
            if dispatched_up_to or not isinstance(place, DurableKey):
                yield {"kind": "place", **place_to_row(place), "dispatched_to": dispatched_up_to}

    def _messages(self) -> Iterator[Row]:
        """A row for each message; one that was changed for some of its places has a row for each form of it."""
        for sequence, group in groupby(self._readable(), key=lambda it: it.sequence):
            forms: dict[tuple[bytes, int], Found] = {}
            for it in group:
                message = it.message
                form = forms.setdefault((message.frame, message.redelivery_counter), Found(sequence, [], message))
                form.places.extend(it.places)
            for form in forms.values():
                form.places.sort(key=repr)
            for form in sorted(forms.values(), key=lambda it: repr(it.places[0])):
                self.messages += 1
                yield self._message_row(form)

    def _readable(self) -> Iterator[Found]:
        for it in self._source.messages():
            if isinstance(it, Unreadable):
                self.unreadable.append(it.why)
            else:
                yield it

    def _message_row(self, found: Found) -> Row:
        message = found.message
        return {
            "kind": "message",
            "places": [place_to_row(place) for place in found.places],
            "sequence": found.sequence,
            "redelivery_count": message.redelivery_counter,
            **self.portray(message),
            "frame": message.frame,
        }


# ---- the journal -----------------------------------------------------------------------------------------------


@final
class JournalSource:
    """Implements `Source` on the files of a journal."""

    def __init__(self, inspection: StoreInspection) -> None:
        self._inspection = inspection
        self._catalog: Catalog = inspection.started().catalog
        self.last_sequence = self._catalog.last_sequence

    @property
    def crashed_ms(self) -> int | None:
        crash = self._catalog.counts.get(CRASH_KEY)
        return None if crash is None else crash[0]

    def state(self) -> Iterator[object]:
        return (item.value for item in self._catalog.state.values())

    def place_of(self, place_id: int) -> Place | None:
        return self._catalog.place_of(place_id)

    def places(self) -> Iterator[tuple[Place, int]]:
        return ((info.place, info.dispatched_up_to) for info in self._catalog.places.values())

    def messages(self) -> Iterator[Found | Unreadable]:
        done_bytes, all_bytes = 0, self._catalog.live_bytes
        for sequence, entry, places in self._located():
            done_bytes += entry.record_bytes
            self._inspection.progress("exporting messages", min(done_bytes, all_bytes), all_bytes)
            try:
                yield Found(sequence, places, self._inspection.reader.read(entry, sequence))
            except Damaged as error:
                where = ", ".join(map(repr, places))
                at = f"at {entry.offset} of segment {entry.segment}"
                yield Unreadable(sequence, f"message {sequence} of {where}, {at}, is left out: {error}")

    def _located(self) -> Iterator[tuple[int, Entry, list[Place]]]:
        """Each record of a message once, in order of sequence."""

        def of_place(place: Place) -> Iterator[tuple[int, Entry, Place]]:
            info = self._catalog.places[place]
            return ((sequence, entry, place) for sequence, entry in self._catalog.waiting(info))

        merged = heapq.merge(*map(of_place, self._catalog.places), key=lambda it: it[:2])
        for (sequence, entry), group in groupby(merged, key=lambda it: it[:2]):
            yield sequence, entry, [place for _, _, place in group]

    def counts(self) -> Iterator[tuple[bytes, int]]:
        return ((it, count) for it, (count, _) in self._catalog.counts.items() if it != CRASH_KEY)

    def commits(self) -> Iterator[bytes]:
        return iter(self._catalog.commits)

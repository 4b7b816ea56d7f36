"""A store as rows, and rows as a store: what `ackwire store export` and `import` write and read (SEMANTICS K2).

A row is a dictionary. Its `kind` says what it is: `ackwire-export` first, then durable subscriptions, places, messages
and all other state (`portable_state.RULES`), producers, commits, and `end` last, with the number of rows before it, so
that a file that was cut off is noticed. A message is its canonical frame; the other fields of its row are for readers,
but for places, sequence and redelivery count, which the frame does not have.

Messages come in order of sequence, once each, with all places where they wait. The rows depend on nothing but what the
store holds: an export of what was imported is the same, byte by byte.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, final

from ackwire.errors import AckwireError
from ackwire.jms.message import Message
from ackwire.store.catalog import CRASH_KEY
from ackwire.store.contract import DurableKey, Place, Store, StoredForm
from ackwire.store.numbered import numbered
from ackwire.store.portable_export import Export, JournalSource, Source
from ackwire.store.portable_rows import (
    END_KIND,
    HEADER_KIND,
    VERSION,
    BadRow,
    Row,
    bytes_of,
    from_json,
    list_of,
    number_of,
    place_from_row,
    place_to_row,
    to_json,
)
from ackwire.store.portable_state import RULE_OF_KIND, RULES, StateRule
from ackwire.util.plurals import counted
from ackwire.util.sequence_runs import Runs, runs_of, sequences_of

_VERSIONS_READ: Final = (1, 2)

_SETTLE_BYTES: Final = 8 << 20
"""What is imported before it is synced."""

Restamp = Callable[[Message, int], Message]


# ---- import ----------------------------------------------------------------------------------------------------


class Placed(NamedTuple):
    """A message and where it waits."""

    message: Message
    places: list[Place]


class Dispatched(NamedTuple):
    """A place, and the sequence up to which its messages may have reached consumers."""

    place: Place
    sequence: int


class Counted(NamedTuple):
    """The last count of a producer."""

    producer: bytes
    last_count: int


class Sequenced(NamedTuple):
    """The last sequence that any message had."""

    sequence: int


class Kept(NamedTuple):
    """State, and the rule that it follows."""

    rule: StateRule
    value: Any


class Given(NamedTuple):
    """The parsed content of a row."""

    kind: str
    value: Placed | Dispatched | Counted | Sequenced | Kept | bytes
    size_bytes: int = 0


@dataclass(slots=True)
class ImportReport:
    """What was imported."""

    counts: dict[str, int] = field(default_factory=dict)
    reassigned: int = 0
    """Messages that got another sequence, because theirs was taken."""


@final
class RowReader:
    """Understands rows, and makes sure that they are a whole export. Use one for each reading."""

    def __init__(self, form: StoredForm) -> None:
        self.form = form
        self._version = VERSION

    def read(self, rows: Iterable[Row]) -> Iterator[Given]:
        """Parse the rows. Raises `BadRow`, with the number of the row."""
        number, ended = 0, False
        for number, row in enumerate(rows, 1):
            try:
                if ended:
                    raise BadRow("something follows the end")
                if number == 1:
                    yield from self._header(row)
                elif row.get("kind") == END_KIND:
                    ended = True
                    if row.get("rows") != number - 2:
                        raise BadRow(f"{row.get('rows')} rows were written before it, and here are {number - 2}")
                else:
                    yield self._given(row)
            except BadRow as error:
                raise BadRow(f"row {number}: {error}") from None
        if not ended:
            raise BadRow(f"it was cut off: after {counted(number, 'row')} there is no end")

    def _header(self, row: Row) -> Iterator[Given]:
        if row.get("kind") != HEADER_KIND:
            raise BadRow("this is not an export of Ackwire")
        version = row.get("version")
        if version not in _VERSIONS_READ:
            raise BadRow(f"it has version {version}, and this program knows 1 to {VERSION}")
        self._version = version
        if version > 1:
            sequence = number_of(row, "last_sequence")
            if sequence < 0:
                raise BadRow(f"a last sequence of {sequence}")
            yield Given(HEADER_KIND, Sequenced(sequence))

    def _given(self, row: Row) -> Given:
        kind = row.get("kind")
        rule = RULE_OF_KIND.get(kind) if isinstance(kind, str) else None
        if rule is not None:
            return self._kept(rule, row)
        match kind:
            case "message":
                return self._message(row)
            case "place":
                return Given(kind, Dispatched(place_from_row(row), number_of(row, "dispatched_to")))
            case "producer":
                return Given(kind, Counted(bytes_of(row, "producer"), number_of(row, "count")))
            case "crash":
                return Given(kind, Counted(CRASH_KEY, number_of(row, "at_ms")))
            case "commit":
                return Given(kind, bytes_of(row, "transaction"))
        raise BadRow(f"rows of kind {kind!r} are not known")

    def _kept(self, rule: StateRule, row: Row) -> Given:
        value = rule.from_row(self, row)
        frames = [row.get("frame"), *list_of(row, "sends")]
        return Given(rule.kind, Kept(rule, value), sum(len(it) for it in frames if isinstance(it, bytes)))

    def _message(self, row: Row) -> Given:
        frame = bytes_of(row, "frame")
        message = self.decoded(frame)
        sequence = number_of(row, "sequence")
        if message.sequence != sequence:
            raise BadRow(f"its frame has the sequence {message.sequence}, and the row says {sequence}")
        message.redelivery_counter = self._redelivery_count(row)
        if not 0 <= message.redelivery_counter < 1 << 31:
            raise BadRow(f"a redelivery count of {message.redelivery_counter}, which no client could be told")
        places = [place_from_row(place) for place in list_of(row, "places")]
        if not places:
            raise BadRow("the message is in no place")
        return Given("message", Placed(message, places), len(frame))

    def _redelivery_count(self, row: Row) -> int:
        count = row.get("redelivery_count")
        if self._version == 1 and isinstance(count, bool):  # so the first version told of a dispatch
            return int(count)
        return number_of(row, "redelivery_count")

    def decoded(self, frame: bytes) -> Message:
        """The message in *frame*. Raises `BadRow`."""
        try:
            return self.form.message(frame)
        except AckwireError as error:
            raise BadRow(f"its frame cannot be read: {error}") from None

    def numbered(self, sequence: int) -> Message:
        return numbered(sequence)


def refuse_what_is_there(store: Store, given: Iterable[Given]) -> int:
    """Raise `BadRow` if one of *given* would change what *store* holds; return the bytes to come."""
    existing = {rule: rule.existing(store) for rule in RULES}
    size_bytes = 0
    for it in given:
        size_bytes += it.size_bytes
        if isinstance(it.value, Kept):
            rule, value = it.value
            there = existing[rule].get(rule.identity(value))
            if there is not None and not (rule.may_be_repeated and there == value):
                raise BadRow(f"{rule.kind} {rule.identity(value)} is there already")
    return size_bytes


def _places_with_messages(store: Store) -> Iterator[Place]:
    return (place for place in store.places() if next(iter(store.waiting(place)), None) is not None)


def is_empty(store: Store) -> bool:
    """Whether nothing is kept here: what a producer once counted does not count, nor does an empty queue."""
    has_messages = next(_places_with_messages(store), None) is not None
    return not has_messages and not any(rule.existing(store) for rule in RULES)


class Full(Exception):
    """The store has no room for more."""


class Target(Protocol):
    """A store that is written to, and what an import asks of it beyond the contract."""

    @property
    def store(self) -> Store: ...

    def settle(self) -> None:
        """Return when everything recorded so far is on the medium. Raises `StoreFailed`."""
        ...

    def full(self) -> str | None:
        """Why nothing more should be recorded, looked up now; None if there is room."""
        ...

    def append_beside(self, message: Message, places: Sequence[Place]) -> None:
        """Like `Recorder.append`, for another form of a message that was appended just before: the same sequence, other
        bytes or another redelivery count, other places."""
        ...

    def acknowledged(self, place: Place, sequence: int) -> Message:
        """What the store needs of a message that a prepared transaction has acknowledged."""
        ...

    def remember_counts(self, counts: Mapping[bytes, int]) -> None:
        """Record how far producers have counted, whatever messages say; `CRASH_KEY` stands for the last crash."""
        ...

    def remember_commit(self, transaction: bytes) -> None:
        """Record that a local transaction has committed."""
        ...

    def skip_to(self, sequence: int) -> None:
        """Have no message get a sequence up to this one."""
        ...


@final
class Import:
    """Writes what was given into a store."""

    def __init__(self, target: Target, restamp: Restamp) -> None:
        self._target = target
        self._store = target.store
        self._restamp = restamp
        self._new_sequences: dict[int, int] = {}
        self._unsettled_bytes = 0
        self._counts: dict[bytes, int] = {}
        self._last_sequence = 0
        self._last_imported = self._last_given = 0
        self._dispatched: dict[Place, int] = {}
        """As the rows tell it."""
        self._marks: dict[Place, int] = {}
        """The same for what was imported so far, by the sequences that the messages have here."""
        self._shared = frozenset(_places_with_messages(target.store))
        """Places with messages of their own, which a mark would speak of too."""
        self.report = ImportReport()

    def run(self, given: Iterable[Given], on_bytes: Callable[[int], None] = lambda _: None) -> None:
        """Import all. Raises `Full` and `StoreFailed`; what was imported until then stays, and is whole."""
        for it in given:
            self._take(it)
            if it.kind != HEADER_KIND:
                self.report.counts[it.kind] = self.report.counts.get(it.kind, 0) + 1
            self._unsettled_bytes += it.size_bytes
            if self._unsettled_bytes > _SETTLE_BYTES:
                self._settle()
            on_bytes(it.size_bytes)
        if not self.report.reassigned:
            self._marks |= {place: mark for place, mark in self._dispatched.items() if place not in self._shared}
        if self._counts:  # behind the messages, which may say less
            self._target.remember_counts(self._counts)
        self._target.skip_to(self._last_sequence)
        self._settle()

    def _settle(self) -> None:
        known = frozenset(self._store.places()) if self._marks else frozenset()
        for place, mark in self._marks.items():
            if place in known:
                self._store.mark_dispatched(place, mark)
        self._target.settle()
        self._unsettled_bytes = 0
        full = self._target.full()
        if full is not None:
            raise Full(full)

    def _take(self, given: Given) -> None:
        match given.value:
            case Kept(rule, value):
                rule.record(self._store, self, value)
            case Placed(message, places):
                self._append(message, places)
            case Dispatched(place, sequence):
                self._dispatched[place] = sequence
                if not isinstance(place, DurableKey):  # which exists by its own row
                    self._store.add_destination(place)
            case Counted(producer, count):
                self._counts[producer] = count
            case Sequenced(sequence):
                self._last_sequence = sequence
            case bytes() as transaction_bytes:
                self._target.remember_commit(transaction_bytes)

    def _append(self, message: Message, places: list[Place]) -> None:
        sequence = message.sequence
        was_dispatched = [place for place in places if sequence <= self._dispatched.get(place, 0)]
        redeliveries = message.redelivery_counter
        if not self._shared.isdisjoint(was_dispatched):
            redeliveries = max(1, redeliveries)
        is_repeated = sequence == self._last_imported
        new_sequence = self._free_sequence(sequence)
        if new_sequence != sequence:
            message = self._restamp(message, new_sequence)
            self._new_sequences[sequence] = new_sequence
            self.report.reassigned += 1
        message.redelivery_counter = redeliveries
        (self._target.append_beside if is_repeated else self._store.append)(message, places)
        self._marks |= {place: message.sequence for place in was_dispatched if place not in self._shared}

    def _free_sequence(self, sequence: int) -> int:
        """Its own, unless that was given to another message here. A message that was changed for one of its places has
        two rows, one behind the other."""
        if sequence != self._last_imported:
            self._last_imported = sequence
            taken = self._store.last_sequence()
            self._last_given = sequence if sequence > taken else taken + 1
        return self._last_given

    def new_sequence(self, sequence: int) -> int:
        """Of a message that has been imported."""
        return self._new_sequences.get(sequence, sequence)

    def new_runs(self, runs: Runs) -> Runs:
        return runs_of(map(self.new_sequence, sequences_of(runs))) if self._new_sequences else runs

    def acknowledged(self, place: Place, sequence: int) -> Message:
        """What the store needs of a message that has been imported, and acknowledged in a prepared transaction."""
        return self._target.acknowledged(place, self.new_sequence(sequence))


__all__ = [
    "BadRow",
    "Export",
    "Full",
    "Given",
    "Import",
    "JournalSource",
    "Row",
    "RowReader",
    "Source",
    "Target",
    "from_json",
    "is_empty",
    "place_to_row",
    "refuse_what_is_there",
    "to_json",
]

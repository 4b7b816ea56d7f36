"""A part of a staged batch or a large transaction: messages that are not visible yet (`staging.py`)."""

from collections.abc import Callable
from dataclasses import dataclass, field

from ackwire.store.contract import Place, StagedRecord, WaitingMessage
from ackwire.util.sequence_runs import drop_first, pairs, runs_of


@dataclass(eq=False, slots=True)
class Part:
    """Messages of a batch that were staged by one writer."""

    producer: str
    name: str
    batch: int
    since_ms: int
    is_committed: bool = False
    producer_key: bytes | None = None
    """The producer in its messages' ids (`Origin.producer_key`), if each has its sequence as its count there."""
    messages: dict[Place, list[WaitingMessage]] = field(default_factory=dict)
    _runs: dict[Place, list[int]] = field(default_factory=dict)
    """The same as runs of sequences."""
    is_prepared: bool = False
    """It belongs to a prepared transaction, which will decide about it."""
    on_shown: list[Callable[[], None]] = field(default_factory=list)
    """Called when all of it is visible, if an earlier run has committed it."""

    def __repr__(self) -> str:
        return f"part {self.name} of batch {self.batch} of producer {self.producer}"

    def add(self, place: Place, messages: list[WaitingMessage]) -> None:
        self.messages.setdefault(place, []).extend(messages)
        runs = self._runs.setdefault(place, [])
        for first, count in pairs(runs_of(it.sequence for it in messages)):
            if runs and sum(runs[-2:]) == first:
                runs[-1] += count
            else:
                runs += (first, count)

    def take(self, place: Place, count: int) -> list[WaitingMessage]:
        """The first *count* of a place, which are in it no more."""
        messages, runs = self.messages[place], self._runs[place]
        taken = messages[:count]
        del messages[:count]
        drop_first(runs, len(taken))
        if not messages:
            del self.messages[place], self._runs[place]
        return taken

    @property
    def count(self) -> int:
        return sum(map(len, self.messages.values()))

    def sequences(self, place: Place) -> list[int]:
        return [message.sequence for message in self.messages.get(place, ())]

    def told_count(self, place: Place) -> int:
        return len(self.messages.get(place, ())) if self.is_committed else 0

    def note(self) -> StagedRecord:
        held = tuple((place, tuple(runs)) for place, runs in self._runs.items())
        return StagedRecord(self.producer, self.name, self.batch, self.since_ms, self.is_committed, held)

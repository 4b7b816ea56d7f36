"""What operators may ask of a store. Serving messages needs none of it.

An export needs nothing of its own: `Restore` and `Reader` give everything that a store has kept.
"""

from dataclasses import dataclass
from typing import Protocol

from ackwire.store.contract.values import Place


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One file of a store, and what keeps it there."""

    number: int
    size_bytes: int
    live_messages: int
    """A message counts once for each place where it waits."""
    live_bytes: int
    places: tuple[tuple[Place, int, int], ...]
    """Whose messages are in it: place, messages, bytes."""
    state: tuple[tuple[str, int], ...]
    """What else it tells of: what, and how many."""
    removals: tuple[tuple[int, int], ...]
    """For each older file, how many messages of it this one says are gone."""
    oldest_ms: int | None
    """When the oldest message in it was sent, if that is known."""
    why: str
    """All that as a sentence."""


@dataclass(frozen=True, slots=True)
class DatabaseState:
    """How the database of a store stands, for metrics and for the reasons that clients are told."""

    name: str
    """As logs name it, without credentials."""
    away_seconds: float
    """How long it has not answered, or answered with errors only; 0 while it can be used."""
    reconnects: int
    """New connections since the start, after a lost one."""
    transactions: int
    """Transactions committed since the start."""
    rows_written: int
    """Rows that these have inserted, changed or deleted, as far as they were named one by one."""

    @property
    def is_reachable(self) -> bool:
        return self.away_seconds <= 0


class Administration(Protocol):
    """How much a store takes, what keeps it, and a checkpoint on demand."""

    @property
    def message_bytes_max(self) -> int | None:
        """The largest message that the store takes; None if it has no limit of its own."""
        ...

    def database(self) -> DatabaseState | None:
        """How the database stands that has the messages; None for a store without one."""
        ...

    @property
    def used_bytes(self) -> int:
        """What the store takes on disk; 0 where there is none."""
        ...

    @property
    def bytes_max(self) -> int:
        """The limit of `used_bytes`; 0 for none."""
        ...

    def files(self) -> list[FileInfo]:
        """The files there are, oldest first, with what keeps each; none where there are no files to explain."""
        ...

    def checkpoint(self) -> None:
        """Begin now what the store otherwise does from time to time, so that its next start is quick."""
        ...

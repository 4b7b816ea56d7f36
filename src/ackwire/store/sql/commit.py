"""What the parts of a SQL store ask of the one that makes changes durable.

`group_commit.py` does so with a transaction for each group; with a journal in front of the database
(`store/journal_sql/`) the journal does, and transactions follow from time to time.
"""

from collections.abc import Callable
from typing import Protocol

from ackwire.errors import StoreFailed
from ackwire.store.contract import DurabilityState, Sync
from ackwire.store.sql.changes import Changes


def failure_of(error: Exception) -> StoreFailed:
    """What the callers of a store get that *error* has ended."""
    if isinstance(error, StoreFailed):
        return error
    return StoreFailed(f"the database cannot be used any more: {error}. Nothing more is acknowledged")


class Commit(Protocol):
    """Collects changes, writes them to the database, and answers callers that wait for them."""

    filling: Changes
    """What the next transaction will do."""
    in_flight: Changes | None
    """What the transaction under way does."""
    appended_sequence: int
    """The highest sequence of a message that was appended."""
    depth: int
    """How many `atomically` blocks are open."""

    @property
    def durability(self) -> DurabilityState: ...

    @property
    def failure(self) -> StoreFailed | None: ...

    def require_good(self) -> None:
        """Raise `StoreFailed` once the store has failed."""
        ...

    def record(self) -> Changes:
        """The changes that a verb adds to. Raises `StoreFailed` once the store has failed."""
        ...

    def begin_if_large(self) -> None:
        """Begin a transaction if it has become large."""
        ...

    def leave_group(self) -> None:
        """An `atomically` block ends."""
        ...

    def when_durable(
        self, callback: Callable[[], None], on_failed: Callable[[StoreFailed], None] | None, sync: Sync
    ) -> None: ...

    def cancel(self, callback: Callable[[], None]) -> bool: ...

    def full(self) -> str | None: ...

    @property
    def silent_seconds(self) -> float:
        """How long the database has not answered, if that is too long; else 0."""
        ...

    def when_room(self, callback: Callable[[], None]) -> None: ...

    def observe_writes(self, before_write: Callable[[], int], on_durable: Callable[[int], None]) -> None: ...

    def fail(self, error: Exception) -> None:
        """Promise nothing more (K7)."""
        ...

    def finish(self) -> None:
        """Return when the database has everything recorded so far, or the store has failed."""
        ...

    def stop_timer(self) -> None: ...

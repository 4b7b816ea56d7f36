"""Rows with messages, made when a driver asks for them: all at once may be more than memory has."""

from collections.abc import Callable, Sequence
from typing import TypeVar, final, overload

from ackwire.store.sql.changes import PendingRow
from ackwire.store.sql.driver import Row

_K = TypeVar("_K")


@final
class MadeRows(Sequence[Row]):
    """One row for each of *pending*, by *make*. Not compiled: it is a `Sequence` (ADR 7)."""

    def __init__(self, pending: Sequence[tuple[_K, PendingRow]], make: Callable[[_K, PendingRow], Row]) -> None:
        self._pending = pending
        self._make: Callable[..., Row] = make

    def __len__(self) -> int:
        return len(self._pending)

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...

    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        if isinstance(index, slice):
            return MadeRows(self._pending[index], self._make)
        return self._make(*self._pending[index])

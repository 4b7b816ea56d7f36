"""Frees large tables a portion in each turn of the loop.

A checkpoint and the end of a place leave tables with an entry for each message behind. To free a million entries at
once takes 200 ms, in which no client is served.
"""

from typing import Final, final

from ackwire.store.blocks import Entry
from ackwire.store.catalog import Delta
from ackwire.util.clock import Clock

PORTION: Final = 4000
"""Entries freed in one turn: that takes about 1 ms."""

_Table = dict[int, Entry | None] | set[int]


@final
class GradualRelease:
    """Frees what its callers do not use any more."""

    def __init__(self, clock: Clock, portion: int = PORTION) -> None:
        self._clock = clock
        self._portion = portion
        self._tables: list[_Table] = []

    @property
    def count(self) -> int:
        """Entries that are still to be freed."""
        return sum(map(len, self._tables))

    def add(self, delta: Delta) -> None:
        """Free *delta*, which is not used any more; a small one goes with its last reference."""
        for table in (delta.fresh, delta.gone, delta.moved):
            self.add_table(table)

    def add_table(self, table: _Table) -> None:
        """The same for one table."""
        if len(table) <= self._portion:
            return
        self._tables.append(table)
        if len(self._tables) == 1:
            self._clock.call_later(0, self._free)

    def _free(self) -> None:
        table = self._tables[-1]
        for _ in range(min(self._portion, len(table))):
            if isinstance(table, dict):
                table.popitem()
            else:
                table.pop()
        if not table:
            self._tables.pop()
        if self._tables:
            self._clock.call_later(0, self._free)

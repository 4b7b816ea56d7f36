"""An index in memory, beside a simulated disk: what was committed outlives crashes, and commits fail or are cut off."""

from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path

from ackwire.store.index import Changes, DamagedIndex, Table
from tests.helpers.simulated_disk import SimulatedDisk

_PATH = Path("/index")

Tables = dict[Table, dict[bytes, bytes]]


class IndexMedium:
    """Where the tables are while nobody has them open."""

    def __init__(self) -> None:
        self.tables: Tables = {table: {} for table in Table}
        self.is_open = False
        self.is_sealed = False

    def flip_bit(self, table: Table, nth: int, bit: int = 0) -> None:
        """Damage the value of the *nth* key."""
        keys = sorted(self.tables[table])
        value = bytearray(self.tables[table][keys[nth]])
        value[bit // 8 % len(value)] ^= 1 << bit % 8
        self.tables[table] = {**self.tables[table], keys[nth]: bytes(value)}
        self.is_sealed = False


class MemoryIndex:
    """Implements `Index`."""

    def __init__(self, disk: SimulatedDisk, medium: IndexMedium, *, fresh: bool = False) -> None:
        if fresh:
            medium.tables = {table: {} for table in Table}
        self.is_vouched_for = medium.is_sealed and not fresh
        self.seal_damage: str | None = None
        self.misplaced: str | None = None
        medium.is_sealed = False
        self._disk = disk
        self._medium = medium
        self._generation = disk.generation
        self._reading = medium.tables
        medium.is_open = True

    def get(self, table: Table, key: bytes) -> bytes | None:
        self._check()
        return self._reading[table].get(key)

    def items(self, table: Table, first: bytes = b"", last: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        self._check()
        there = self._reading[table]
        keys = sorted(there)
        for key in keys[bisect_left(keys, first) :]:
            if last is not None and key > last:
                return
            yield key, there[key]

    def commit(self, changes: Changes) -> None:
        self._check()
        new = _changed(self._medium.tables, changes)

        def put() -> None:
            self._medium.tables = new

        self._disk.call("commit", _PATH, put)
        put()

    def refresh(self) -> None:
        self._check()
        self._reading = self._medium.tables

    def clear(self) -> None:
        self._check()
        self._medium.tables = self._reading = {table: {} for table in Table}

    @property
    def size_bytes(self) -> int:
        return sum(len(key) + len(value) for table in self._reading.values() for key, value in table.items())

    def close(self) -> None:
        self.abandon()
        self._medium.is_sealed = True

    def abandon(self) -> None:
        self._check()
        self._medium.is_open = False

    def _check(self) -> None:
        if self._generation != self._disk.generation:
            raise DamagedIndex("the process of this index has gone")


def _changed(tables: Tables, changes: Changes) -> Tables:
    new = {table: dict(content) for table, content in tables.items()}
    for table, first, last, kept in changes.ranges:
        for key in [key for key in new[table] if first <= key <= last and key not in kept]:
            del new[table][key]
    for table, keys in changes.deletes.items():
        for key in keys:
            new[table].pop(key, None)
    for table, edits in changes.edits.items():
        for key, edit in edits:
            value = edit(new[table].pop(key, None))
            if value is not None:
                new[table][key] = value
    for table, items in changes.puts.items():
        new[table].update(items)
    return new

"""The journal's index: sorted tables that change only at checkpoints, each whole or not at all.

`lmdb_index.py` and `leveldb_index.py` implement it; `indexes.py` opens the one that `store.index` names. The journal is
the truth, so an index that is lost or damaged is made anew; what must not happen is that a damaged one is believed
(`docs/formats/journal.md`), or that a good one is thrown away because there is too little memory to open it.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

Edit = Callable[[bytes | None], bytes | None]
"""What becomes of a value, from what it was; None is one that is not there."""


class IndexTrouble(Exception):
    """The index cannot be used."""


class DamagedIndex(IndexTrouble):
    """The index holds something that it was never given: it is to be made anew."""


class OtherIndex(IndexTrouble):
    """The index is good as far as is known, and of another kind than the one asked for: it is to be made anew."""


class UnavailableIndex(IndexTrouble):
    """The system does not let us use the index, which may be as good as ever: memory, permissions, the disk."""


class Table(Enum):
    """The tables."""

    META = b"meta"
    MESSAGES = b"messages"
    PLACES = b"places"
    COUNTERS = b"counters"
    REMOVALS = b"removals"
    STATE = b"state"
    COUNTS = b"counts"
    COMMITS = b"commits"


@dataclass(slots=True)
class Changes:
    """What a checkpoint writes."""

    puts: dict[Table, Iterable[tuple[bytes, bytes]]] = field(default_factory=dict)
    deletes: dict[Table, Iterable[bytes]] = field(default_factory=dict)
    ranges: list[tuple[Table, bytes, bytes, frozenset[bytes]]] = field(default_factory=list)
    """First key, last key, keys that stay: everything else between them goes."""
    edits: dict[Table, Iterable[tuple[bytes, Edit]]] = field(default_factory=dict)
    """Ranges first, then deletes, then edits, then puts."""


class Index(Protocol):
    """Sorted tables of bytes. What is found to be wrong with them is `DamagedIndex`; if the system does not let them be
    read, it is `UnavailableIndex`."""

    def get(self, table: Table, key: bytes) -> bytes | None:
        """As of the last `refresh`."""
        ...

    def items(self, table: Table, first: bytes = b"", last: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """From *first* to *last*, in order; as of the last `refresh`."""
        ...

    def commit(self, changes: Changes) -> None:
        """Carry out all of *changes*, or none; durable when it returns. May run in another thread than the rest."""
        ...

    def refresh(self) -> None:
        """Let `get` and `items` see what was committed."""
        ...

    def clear(self) -> None:
        """Remove everything: it will be made anew."""
        ...

    @property
    def is_vouched_for(self) -> bool:
        """Whether a seal shows that the index is unchanged since the last clean stop."""
        ...

    @property
    def seal_damage(self) -> str | None:
        """What is wrong with the seal, if there is one that cannot be read."""
        ...

    @property
    def misplaced(self) -> str | None:
        """The file of the index that was moved or removed, so that the next start would not find it; None if none."""
        ...

    @property
    def size_bytes(self) -> int: ...

    def close(self) -> None:
        """Let go of it, and vouch for what it holds."""
        ...

    def abandon(self) -> None:
        """Close it. After a failure its content is not to be trusted."""
        ...

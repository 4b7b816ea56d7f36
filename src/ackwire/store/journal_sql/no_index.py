"""The index of a journal in front of a database: none. The database knows what is before the mark."""

from collections.abc import Iterator
from typing import final

from ackwire.store.index import Changes, Table


@final
class NoIndex:
    """Implements `Index` without keeping anything."""

    is_vouched_for = False
    seal_damage: str | None = None
    misplaced: str | None = None
    size_bytes = 0

    def get(self, table: Table, key: bytes) -> bytes | None:  # noqa: ARG002 - see `Index`
        return None

    def items(
        self,
        table: Table,  # noqa: ARG002 - see `Index`
        first: bytes = b"",  # noqa: ARG002
        last: bytes | None = None,  # noqa: ARG002
    ) -> Iterator[tuple[bytes, bytes]]:
        return iter(())

    def commit(self, changes: Changes) -> None:
        """Nothing is kept."""

    def refresh(self) -> None:
        """Nothing is kept."""

    def clear(self) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing is open."""

    def abandon(self) -> None:
        """Nothing is open."""

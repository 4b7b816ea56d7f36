"""Room beside memory for messages that need not outlive the process."""

from typing import Protocol

from ackwire.errors import AckwireError


class SpillDamaged(AckwireError):
    """Spilled bytes cannot be read, or are not the ones that were written."""


class Spill(Protocol):
    """Disk space for non-persistent messages that memory has no room for (SEMANTICS B6, B7)."""

    def append(self, frame: bytes) -> int | None:
        """Keep *frame* and return its ticket, a number above 0; None if there is no room."""
        ...

    def read(self, ticket: int) -> bytes:
        """The frame of a ticket. Raises `SpillDamaged`; the caller frees the ticket in either case."""
        ...

    def free(self, ticket: int) -> None:
        """The frame is not needed any more. Each ticket is freed once."""
        ...

    def has_room(self, size_bytes: int) -> bool:
        """Whether a frame of that size would be taken now, as far as is known."""
        ...

    @property
    def used_bytes(self) -> int: ...

    @property
    def bytes_max(self) -> int: ...

    def close(self) -> None:
        """Forget everything."""
        ...

"""Room beside memory for messages that need not outlive the process."""

from typing import Protocol

from ackwire.errors import AckwireError


class SpillDamaged(AckwireError):
    """Spilled bytes cannot be read, or are not the ones that were written."""


class Spill(Protocol):
    """Room beside memory for messages that nobody expects to find after a restart (SEMANTICS B6, B7)."""

    def append(self, frame: bytes) -> int | None:
        """Keep *frame*; the answer is a ticket above 0, or None if there is no room."""
        ...

    def read(self, ticket: int) -> bytes:
        """What was kept. Raises `SpillDamaged`; the ticket is to be freed all the same."""
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

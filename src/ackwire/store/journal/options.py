"""How a journal store behaves."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

MIB: Final = 1 << 20


class SyncPolicy(Enum):
    """When a producer is answered."""

    ALWAYS = "always"
    """When its message is on the medium."""
    PERIODIC = "periodic"
    """When the operating system has it; it is synced from time to time. Lost power loses what came since."""
    NEVER = "never"
    """When the operating system has it, which writes it when it likes."""


@dataclass(frozen=True, slots=True)
class JournalOptions:
    """What an operator may choose."""

    sync: SyncPolicy = SyncPolicy.ALWAYS
    sync_interval_seconds: float = 1.0
    segment_bytes: int = 32 * MIB
    bytes_max: int = 1 << 62
    free_bytes_min: int = 256 * MIB
    checkpoint_seconds: float = 5.0
    checkpoint_bytes: int = 32 * MIB

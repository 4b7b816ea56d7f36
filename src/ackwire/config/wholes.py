"""The amounts that percentages refer to: the machine's memory, and the disk of the data directory."""

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, final

from ackwire.config.memory import memory_bytes
from ackwire.config.types import GIB, Whole

DEFAULT_DATA: Final = "ackwire-data"
"""The data directory where none is configured."""

_UNKNOWN_DISK_BYTES: Final = GIB
"""Assumed where the system does not tell."""


@final
@dataclass(frozen=True, slots=True)
class Wholes:
    """The amounts that percentages refer to."""

    memory_bytes: int
    disk_bytes: int

    def of(self, whole: Whole) -> int:
        return self.memory_bytes if whole is Whole.MEMORY else self.disk_bytes


def wholes_of_this_machine(data: object = None, *, memory: int | None = None) -> Wholes:
    """What this machine has; the disk is the one that holds, or would hold, the directory *data*."""
    directory = data if isinstance(data, str) and data else DEFAULT_DATA
    return Wholes(memory_bytes() if memory is None else memory, disk_bytes(directory))


@cache
def disk_bytes(directory: str) -> int:
    """The size of the disk that holds *directory*, or the nearest directory above it if it does not exist yet."""
    path = Path(directory).absolute()
    for existing in (path, *path.parents):
        try:
            facts = os.statvfs(existing)
        except (OSError, ValueError):  # not there, not to be looked at, or no path at all
            continue
        return facts.f_blocks * facts.f_frsize or _UNKNOWN_DISK_BYTES  # /proc and the like have no size
    return _UNKNOWN_DISK_BYTES

"""How much memory this machine, or its container, has for the broker."""

import os
from functools import cache
from pathlib import Path
from typing import Final

from ackwire.config.types import GIB

_UNKNOWN_BYTES: Final = GIB
"""Assumed where the system does not tell: little enough for nearly every machine."""


@cache
def memory_bytes() -> int:
    """The machine's memory, or what the control group (the container) allows if that is less."""
    return min([_physical_bytes(), *_cgroup_limits(Path("/"))])


def _physical_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return _UNKNOWN_BYTES


def _cgroup_limits(root: Path) -> list[int]:
    """The limits of our control group and of those above it, for both versions of control groups."""
    try:
        groups = (root / "proc/self/cgroup").read_text()
    except OSError:
        return []
    limits = []
    for line in groups.splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            limits += _limits_up(root / "sys/fs/cgroup", group, "memory.max")
        elif "memory" in controllers.split(","):
            limits += _limits_up(root / "sys/fs/cgroup/memory", group, "memory.limit_in_bytes")
    return limits


def _limits_up(mount: Path, group: str, name: str) -> list[int]:
    # Inside a container the group may be named as the host sees it; its own limit is then that of the mount.
    below = Path(group.lstrip("/"))
    texts = [_read(mount / part / name) for part in (below, *below.parents)]
    return [int(text) for text in texts if text.isdecimal()]


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""

"""What a running broker can take over from new settings, and what has to wait for its next start.

The list has the settings that are read each time they are needed, or for each new connection. A setting that is not in
the list needs a restart, so a new setting is never reported as applied by mistake.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ackwire.config.fields import options_of
from ackwire.config.settings import POLICY, TABLES, Settings

RELOADABLE: Final[Mapping[str, frozenset[str]]] = {
    "log": frozenset({"format", "level"}),
    "limits": frozenset(
        {
            "memory_bytes_max",
            "when_full",
            "block_timeout_seconds",
            "held_bytes_max",
            "blocked_bytes_max",
            "cursors_max",
            "cursor_messages_max",
            "staged_messages_max",
            "staged_seconds_max",
        }
    ),
    "destinations": frozenset({"count_max", "topic_pending_bytes_max", "expiry_sweep_seconds"}),
    "scheduler": frozenset({"jobs_max", "job_bytes_max", "connection_jobs_max", "connection_bytes_max"}),
    "clocks": frozenset({"correction", "tolerance_seconds"}),
    "connection": frozenset(
        {
            "write_pause_bytes",
            "read_pause_bytes",
            "max_inactivity_duration_seconds",
            "max_inactivity_initial_delay_seconds",
            "sessions_max",
            "producers_max",
            "consumers_max",
            "destinations_max",
        }
    ),
    "handshake": frozenset({"frame_bytes_max", "wire_format_timeout_seconds", "login_timeout_seconds"}),
    "shutdown": frozenset({"drain_timeout_seconds"}),
}


@dataclass(frozen=True, slots=True)
class Reload:
    """The settings in force after a reload, and what differs from those before."""

    settings: Settings
    changed: tuple[str, ...]
    """What is in force now: `limits.memory_bytes_max`, `policy`."""
    waiting: tuple[str, ...]
    """What differs in the file and needs a restart; *settings* has the old values."""


def plan_reload(old: Settings, new: Settings) -> Reload:
    """The settings of *new* that a broker with the settings *old* can apply while it runs."""
    changed: list[str] = []
    waiting: list[str] = []
    tables: dict[str, Any] = {}
    for table, section in TABLES.items():
        before, after = getattr(old, table), getattr(new, table)
        taken: dict[str, Any] = {}
        for key in options_of(section):
            value = getattr(after, key)
            if value == getattr(before, key):
                continue
            if key in RELOADABLE.get(table, ()):
                taken[key] = value
                changed.append(f"{table}.{key}")
            else:
                waiting.append(f"{table}.{key}")
        tables[table] = replace(before, **taken)
    if new.policies != old.policies:
        changed.append(POLICY)
    return Reload(Settings(**tables, policies=new.policies), tuple(changed), tuple(waiting))

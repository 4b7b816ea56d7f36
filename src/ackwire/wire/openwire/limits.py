"""How much one peer may ask for: every length is checked against these before anything is allocated."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class WireLimits:
    """Limits of one connection; going over one is a `RemoteProtocolError`."""

    frame_bytes_max: int = 100 * 1024 * 1024
    """One frame. ActiveMQ's shipped configuration has the same figure."""

    entries_max: int = 65_536
    """Entries in one property map, MapMessage or StreamMessage, those of nested maps and lists included."""

    array_items_max: int = 32_767
    """Structures in the arrays of one frame, and lines in its stack traces; the wire counts each in a short."""

    nesting_max: int = 32
    """Structures, maps, lists or causes inside one another."""

    inflated_bytes_max: int = 100 * 1024 * 1024
    """A compressed body after inflation."""

    cache_bytes_max: int = 4 * 1024 * 1024
    """What the peer may make us remember in the marshalling cache."""


DEFAULT_LIMITS: Final = WireLimits()

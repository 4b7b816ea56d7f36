"""Segments that stay although nothing in them is needed any more: other nodes are copying them."""

import sys
from typing import Final, final

PINNED_BYTES_MAX: Final = 4 << 30
"""How much the journal may grow while a pin keeps compaction from making room."""


@final
class Pin:
    """Keeps a segment and all behind it, until it is released, or the journal has grown too much."""

    __slots__ = ("_pins", "first", "since_bytes", "until")

    def __init__(self, pins: "Pins", first: int, since_bytes: int, until: float) -> None:
        self._pins = pins
        self.first = first
        self.since_bytes = since_bytes
        """The size of the journal when the pin was set."""
        self.until = until

    @property
    def holds(self) -> bool:
        return self in self._pins.pins

    def release(self) -> None:
        """The segments may go."""
        if self.holds:
            self._pins.pins.remove(self)


@final
class Pins:
    """The pins of one journal."""

    def __init__(self, bytes_max: int = PINNED_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.pins: list[Pin] = []

    def __bool__(self) -> bool:
        return bool(self.pins)

    def pin(self, first: int, used_bytes: int, until: float = float("inf")) -> Pin:
        """Keep *first* and all segments behind it. *used_bytes* is the size of the journal now."""
        pin = Pin(self, first, used_bytes, until)
        self.pins.append(pin)
        return pin

    def first(self, used_bytes: int, now: float) -> int:
        """The first segment that must stay now that the journal has *used_bytes*; pins that cost too much end."""
        self.pins = [it for it in self.pins if it.until > now and used_bytes - it.since_bytes <= self.bytes_max]
        return min((it.first for it in self.pins), default=sys.maxsize)

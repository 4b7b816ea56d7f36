"""The marshalling cache: ids and destinations sent once and then named by a slot (openwire.md §4).

Each direction has its own. The sender numbers the slots; the receiver only stores what it is told to.
"""

from typing import Final

from ackwire.errors import RemoteProtocolError
from ackwire.wire.openwire.limits import WireLimits
from ackwire.wire.openwire.structures import Structure

NOT_CACHED: Final = -1
"""The slot number that says: read it, and forget it."""

SLOTS_WHEN_ZERO: Final = 16_383
"""How many slots a negotiated cache size of 0 stands for."""

FREE_SLOTS: Final = 100
"""Slots kept free for one frame, as Java does; a smaller cache makes a Java peer spin for ever."""


def slot_count(negotiated_size: int) -> int:
    """The number of slots for a negotiated `CacheSize`."""
    return negotiated_size if negotiated_size > 0 else SLOTS_WHEN_ZERO


class SendCache:
    """Slots we hand out, in a ring; the oldest go first."""

    __slots__ = ("_added", "_next", "_oldest", "_slots", "_values")

    def __init__(self, slots: int) -> None:
        self._values: list[Structure | None] = [None] * slots
        self._slots: dict[Structure | None, int] = {}
        self._next = 0
        self._oldest = 0
        self._added = 0
        """Slots handed out for the present frame."""

    def make_room(self) -> None:
        """Forget the oldest values; called before each frame."""
        while len(self._slots) > max(0, len(self._values) - FREE_SLOTS):
            del self._slots[self._values[self._oldest]]
            self._oldest = (self._oldest + 1) % len(self._values)
        self._added = 0

    def roll_back(self) -> None:
        """The frame was not finished, so the peer will not learn what stands in its slots."""
        for _ in range(self._added):
            self._next = (self._next - 1) % len(self._values)
            del self._slots[self._values[self._next]]
        self._added = 0

    def slot_of(self, value: Structure | None) -> int | None:
        return self._slots.get(value) if _is_cacheable(value) else None

    def add(self, value: Structure | None) -> int:
        """The slot for a new value, or `NOT_CACHED` when there is none for it."""
        if not _is_cacheable(value) or len(self._slots) >= len(self._values):
            return NOT_CACHED
        slot = self._next
        self._next = (slot + 1) % len(self._values)
        self._values[slot] = value
        self._slots[value] = slot
        self._added += 1
        return slot


class ReceiveCache:
    """Slots the peer hands out. What it makes us keep is bounded in bytes.

    Values of a frame that is still being read are staged: a frame without a size prefix may turn out to be
    incomplete, and is then read again from its start.
    """

    __slots__ = ("_bytes", "_limit", "_sizes", "_slots", "_staged", "_values")

    def __init__(self, slots: int, limits: WireLimits) -> None:
        self._slots = slots
        self._limit = limits.cache_bytes_max
        self._values: dict[int, Structure | None] = {}
        self._sizes: dict[int, int] = {}
        self._bytes = 0
        self._staged: dict[int, tuple[Structure | None, int]] = {}

    def get(self, slot: int) -> Structure | None:
        if slot in self._staged:
            return self._staged[slot][0]
        try:
            return self._values[slot]
        except KeyError:
            raise RemoteProtocolError(f"cache slot {slot} was never filled") from None

    def size_of(self, slot: int) -> int:
        """The bytes that the value in *slot* took on the wire, those of values it refers to included."""
        return self._staged[slot][1] if slot in self._staged else self._sizes[slot]

    def stage(self, slot: int, value: Structure | None, size_bytes: int) -> None:
        """Keep *value*, which took *size_bytes* on the wire, once the frame is complete."""
        if slot == NOT_CACHED:
            return
        if not 0 <= slot < self._slots:
            raise RemoteProtocolError(f"cache slot {slot} is outside the negotiated {self._slots} slots")
        self._staged[slot] = (value, size_bytes)

    def commit(self) -> None:
        """The frame is whole: what it staged is remembered."""
        for slot, (value, size_bytes) in self._staged.items():
            self._bytes += size_bytes - self._sizes.get(slot, 0)
            self._values[slot] = value
            self._sizes[slot] = size_bytes
        self._staged.clear()
        if self._bytes > self._limit:
            raise RemoteProtocolError(f"the marshalling cache holds {self._bytes} bytes: the limit is {self._limit}")

    def roll_back(self) -> None:
        """The frame is not whole yet."""
        self._staged.clear()


def _is_cacheable(value: Structure | None) -> bool:
    return value is None or value.IS_VALUE

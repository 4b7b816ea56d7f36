"""The marshalling cache: ids and destinations sent once and then named by a slot (openwire.md §4).

Each direction has its own. The sender numbers the slots; the receiver only stores what the sender puts there.
"""

from typing import Final, final

from ackwire.errors import RemoteProtocolError
from ackwire.wire.openwire.limits import WireLimits
from ackwire.wire.openwire.structures import Structure, fields_of

NOT_CACHED: Final = -1
"""The slot number that says: read it, and forget it."""

UNCACHED_FIELD: Final = b"\1\xff\xff"
"""How a field begins whose value has no slot, in loose encoding; the value follows."""

SLOTS_WHEN_ZERO: Final = 16_383
"""How many slots a negotiated cache size of 0 stands for."""

SEND_SLOTS_MAX: Final = 256
VALUE_BYTES_MAX: Final = 1024
"""We use no more slots than these, whatever the peer would take, and none for longer values: what one client sends goes
into the caches of others."""

FREE_SLOTS: Final = 100
"""Slots kept free for one frame, as Java does; a smaller cache makes a Java peer spin for ever."""


def slot_count(negotiated_size: int) -> int:
    """The number of slots for a negotiated `CacheSize`."""
    return negotiated_size if negotiated_size > 0 else SLOTS_WHEN_ZERO


@final
class SendCache:
    """Slots we hand out, one after the other. When they are used up, all are forgotten, and it begins again.

    Values are known by their structure, or by their bytes in canonical form (`cached_encode.py`); one that comes both
    ways has two slots. None at all makes frames that depend on nothing that was sent before.
    """

    __slots__ = ("_added", "_count", "_slots", "_value_bytes_max", "generation")

    def __init__(self, slots: int, value_bytes_max: int = VALUE_BYTES_MAX) -> None:
        self._count = slots
        self._value_bytes_max = value_bytes_max
        self._slots: dict[Structure | bytes | None, int] = {}
        self._added: list[Structure | bytes | None] = []
        """Values that got a slot in the present frame."""
        self.generation = 0
        """Another number when slots that were handed out mean nothing any more."""

    def make_room(self) -> None:
        """Called before each frame."""
        if len(self._slots) > max(0, self._count - FREE_SLOTS):
            self._slots.clear()
            self.generation += 1
        self._added.clear()

    def roll_back(self) -> None:
        """The frame was not finished, so the peer will not learn what stands in its slots."""
        for value in self._added:
            del self._slots[value]
        self._added.clear()

    @property
    def has_added(self) -> bool:
        """Whether the present frame fills slots."""
        return bool(self._added)

    def slot_of(self, value: Structure | None) -> int | None:
        return self._slots.get(value) if self._is_cacheable(value) else None

    def add(self, value: Structure | None) -> int:
        """The slot for a new value, or `NOT_CACHED` when there is none for it."""
        if not self._is_cacheable(value) or len(self._slots) >= self._count:
            return NOT_CACHED
        return self._next_slot(value)

    def field(self, encoded: bytes) -> bytes:
        """What a field of loose encoding holds for a value that is *encoded* in canonical form."""
        slot = self._slots.get(encoded)
        if slot is not None:
            return b"\0" + slot.to_bytes(2, "big")
        if len(self._slots) >= self._count or len(encoded) > self._value_bytes_max:
            return UNCACHED_FIELD + encoded
        return b"\1" + self._next_slot(encoded).to_bytes(2, "big") + encoded

    def _is_cacheable(self, value: Structure | None) -> bool:
        if value is None or not value.IS_VALUE:
            return value is None
        values = [getattr(value, field.name) for field in fields_of(type(value))]
        return all(len(it) <= self._value_bytes_max for it in values if isinstance(it, str | bytes))

    def _next_slot(self, value: Structure | bytes | None) -> int:
        slot = len(self._slots)
        self._slots[value] = slot
        self._added.append(value)
        return slot


@final
class ReceiveCache:
    """Slots the peer hands out. What it makes us keep is bounded in bytes.

    Values of a frame that is still being read are staged: a frame without a size prefix may turn out to be
    incomplete, and is then read again from its start.
    """

    __slots__ = ("_bytes", "_encoded", "_limit", "_sizes", "_slots", "_staged", "_values", "generation")

    def __init__(self, slots: int, limits: WireLimits) -> None:
        self._slots = slots
        self._limit = limits.cache_bytes_max
        self._values: dict[int, Structure | None] = {}
        self._sizes: dict[int, int] = {}
        self._encoded: dict[int, bytes] = {}
        """Values in canonical form, as far as they were asked for."""
        self._bytes = 0
        self._staged: dict[int, tuple[Structure | None, int, bytes | None]] = {}
        self.generation = 0
        """Another number when a slot may have another value."""

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

    def encoded(self, slot: int) -> bytes | None:
        """The value in *slot* in canonical form, if it was given with it or by `keep_encoded`."""
        return self._staged[slot][2] if slot in self._staged else self._encoded.get(slot)

    def keep_encoded(self, slot: int, encoded: bytes) -> None:
        """Remember how the value in *slot* looks in canonical form."""
        if slot not in self._staged:
            self._encoded[slot] = encoded

    def stage(self, slot: int, value: Structure | None, size_bytes: int, encoded: bytes | None = None) -> None:
        """Keep *value*, which took *size_bytes* on the wire, once the frame is complete."""
        if slot == NOT_CACHED:
            return
        if not 0 <= slot < self._slots:
            raise RemoteProtocolError(f"cache slot {slot} is outside the negotiated {self._slots} slots")
        self._staged[slot] = (value, size_bytes, encoded)

    def commit(self) -> None:
        """The frame is whole: what it staged is remembered."""
        if not self._staged:
            return
        self.generation += 1
        for slot, (value, size_bytes, encoded) in self._staged.items():
            self._bytes += size_bytes - self._sizes.get(slot, 0)
            self._values[slot] = value
            self._sizes[slot] = size_bytes
            self._encoded.pop(slot, None)
            if encoded is not None:
                self._encoded[slot] = encoded
        self._staged.clear()
        if self._bytes > self._limit:
            raise RemoteProtocolError(f"the marshalling cache holds {self._bytes} bytes: the limit is {self._limit}")

    def roll_back(self) -> None:
        """The frame is not whole yet."""
        self._staged.clear()

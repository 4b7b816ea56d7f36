"""Records that wait to be written to the journal. Once one is written, it tells the catalog where it stands."""

from collections import Counter
from collections.abc import Callable
from typing import final

from ackwire.jms.message import Message
from ackwire.store.blocks import Entry
from ackwire.store.catalog import Catalog, PlaceInfo
from ackwire.store.journal.record import (
    RecordKind,
    StoredMessage,
    message_overhead,
    pack_counts,
    pack_message_head,
    pack_removed,
    repack_message_head,
)

_REMOVED_BYTES = len(pack_removed(0, 0, 0))


class PendingRecord:
    """A record that waits to be written; afterwards it knows where it is."""

    __slots__ = ("flags", "group", "kind", "offset", "segment")

    def __init__(self, kind: RecordKind) -> None:
        self.kind = kind
        self.flags = 0
        self.group = 0
        """Records with the same number, if it is not 0, take effect together."""
        self.segment = 0
        self.offset = 0

    @property
    def payload_bytes(self) -> int:
        raise NotImplementedError

    def pieces(self) -> tuple[bytes | memoryview, ...]:
        """The payload."""
        raise NotImplementedError

    def written(self) -> None:
        """The record is in the file now."""


class PendingMessage(PendingRecord):
    """A message for some places; those that it leaves before it is written are taken out again."""

    __slots__ = ("_catalog", "message", "places")

    def __init__(self, catalog: Catalog, message: Message, places: list[PlaceInfo]) -> None:
        super().__init__(RecordKind.MESSAGE)
        self._catalog = catalog
        self.message = message
        self.places = places

    @property
    def sequence(self) -> int:
        return self.message.sequence

    @property
    def payload_bytes(self) -> int:
        return message_overhead(len(self.places)) + len(self.message.frame)

    def pieces(self) -> tuple[bytes, ...]:
        return pack_message_head(self.message, [it.place_id for it in self.places]), self.message.frame

    def written(self) -> None:
        message, catalog, places = self.message, self._catalog, self.places
        info = (self.segment, self.offset, len(message.frame), len(places), message.priority, message.expiration)
        entry = tuple.__new__(Entry, info)
        for place in places:
            catalog.put(place, message.sequence, entry)
        catalog.set_count(message.origin.producer_key, message.producer_count, self.segment)


@final
class MovedMessage(PendingRecord):
    """A message that is written again, because the segment that holds it goes."""

    __slots__ = ("_catalog", "_payload", "_stored", "places")

    def __init__(self, catalog: Catalog, payload: memoryview, stored: StoredMessage, places: list[PlaceInfo]) -> None:
        super().__init__(RecordKind.MESSAGE)
        self._catalog = catalog
        self._payload = payload
        self._stored = stored
        self.places = places

    @property
    def sequence(self) -> int:
        return self._stored.sequence

    @property
    def payload_bytes(self) -> int:
        return message_overhead(len(self.places)) + len(self._stored.frame)

    def pieces(self) -> tuple[bytes | memoryview, ...]:
        return repack_message_head(self._payload, [it.place_id for it in self.places]), self._stored.frame

    def written(self) -> None:
        stored = self._stored
        entry = Entry(
            self.segment, self.offset, len(stored.frame), len(self.places), stored.priority, stored.expiration
        )
        for info in self.places:
            self._catalog.move(info, stored.sequence, entry)
        self._catalog.set_count(stored.producer_key, stored.producer_count, self.segment)  # as a replay would have it


@final
class PendingRemovals(PendingRecord):
    """Messages that are gone from their places."""

    __slots__ = ("_catalog", "_counts", "_removed")

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(RecordKind.REMOVED)
        self._catalog = catalog
        self._removed: list[bytes] = []
        self._counts: dict[int, int] = {}
        """By segment that holds them."""

    def add(self, place_id: int, sequence: int, segment: int) -> None:
        self._removed.append(pack_removed(place_id, sequence, segment))
        self._counts[segment] = self._counts.get(segment, 0) + 1

    def add_many(self, place_id: int, located: list[tuple[int, Entry]]) -> None:
        """The same for all of *located*."""
        for sequence, entry in located:
            self._removed.append(pack_removed(place_id, sequence, entry[0]))
        for segment, count in Counter([entry[0] for _, entry in located]).items():
            self._counts[segment] = self._counts.get(segment, 0) + count

    @property
    def payload_bytes(self) -> int:
        return len(self._removed) * _REMOVED_BYTES

    def pieces(self) -> tuple[bytes, ...]:
        return (b"".join(self._removed),)

    def written(self) -> None:
        for segment, count in self._counts.items():
            self._catalog.note_removals(self.segment, segment, count)


@final
class PendingCounts(PendingRecord):
    """The last counts of producers whose messages are not written yet."""

    __slots__ = ("_catalog", "_packed", "counts")

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(RecordKind.COUNTS)
        self._catalog = catalog
        self.counts: dict[bytes, int] = {}
        self._packed: bytes | None = None

    @property
    def payload_bytes(self) -> int:
        if self._packed is None:
            self._packed = pack_counts(self.counts.items())
        return len(self._packed)

    def pieces(self) -> tuple[bytes, ...]:
        assert self._packed is not None
        return (self._packed,)

    def written(self) -> None:
        for producer, count in self.counts.items():
            self._catalog.set_count(producer, count, self.segment)


@final
class PendingPayload(PendingRecord):
    """Anything else; *on_written* gets the segment."""

    __slots__ = ("_on_written", "_payload")

    def __init__(self, kind: RecordKind, payload: bytes, on_written: Callable[[int], None] | None = None) -> None:
        super().__init__(kind)
        self._payload = payload
        self._on_written = on_written

    @property
    def payload_bytes(self) -> int:
        return len(self._payload)

    def pieces(self) -> tuple[bytes, ...]:
        return (self._payload,)

    def written(self) -> None:
        if self._on_written is not None:
            self._on_written(self.segment)

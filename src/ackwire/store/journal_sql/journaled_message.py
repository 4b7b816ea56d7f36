"""A message on its way through the journal to the database: its bytes leave memory when its record is written."""

from typing import final

from ackwire.jms.message import Message
from ackwire.store.catalog import Catalog, PlaceInfo
from ackwire.store.journal.pending_records import PendingMessage
from ackwire.store.journal.record import record_bytes


@final
class JournalFrame:
    """The bytes of a message: in memory until its record is written, in the journal afterwards."""

    __slots__ = ("data", "offset", "record_bytes", "segment", "sequence", "size_bytes")

    def __init__(self, data: bytes | None, size_bytes: int, sequence: int) -> None:
        self.data = data
        self.size_bytes = size_bytes
        self.sequence = sequence
        self.segment = 0
        self.offset = 0
        self.record_bytes = 0
        """The size of the record that begins at `offset`."""

    def is_at(self, segment: int, offset: int, size_bytes: int) -> None:
        """Its record of *size_bytes* is in the journal. Other threads may be about to read it."""
        self.segment, self.offset, self.record_bytes = segment, offset, size_bytes
        self.data = None


@final
class JournaledMessage(PendingMessage):
    """The record of a message. The catalog of the journal knows nothing of it: a row of the database's changes does."""

    __slots__ = ("frame",)

    def __init__(self, catalog: Catalog, message: Message, places: list[PlaceInfo], frame: JournalFrame) -> None:
        super().__init__(catalog, message, places)
        self.frame = frame

    def written(self) -> None:
        self.frame.is_at(self.segment, self.offset, record_bytes(self.payload_bytes))

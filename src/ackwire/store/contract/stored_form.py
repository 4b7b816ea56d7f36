"""How values that only the wire knows become bytes: stores keep the bytes and know no protocol."""

from collections.abc import Hashable
from typing import Protocol

from ackwire.jms.message import Message


class StoredForm(Protocol):
    """How values that only the wire knows become bytes and come back; stores keep the bytes."""

    def message(self, frame: bytes) -> Message:
        """The message whose canonical bytes were kept, with its sequence, never redelivered."""
        ...

    def transaction_to_bytes(self, transaction_id: Hashable) -> bytes:
        """A transaction's id as bytes."""
        ...

    def transaction_from_bytes(self, data: bytes) -> Hashable:
        """The id that `transaction_to_bytes` was given; equal to it, and with the same hash."""
        ...

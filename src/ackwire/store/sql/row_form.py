"""How messages and transaction ids stand in ActiveMQ's tables: only the wire knows these bytes."""

from collections.abc import Callable, Hashable
from typing import Protocol

from ackwire.jms.message import Message
from ackwire.jms.types import Value
from ackwire.store.contract import StoredForm


class RowForm(StoredForm, Protocol):
    """Translates between messages and the columns `MSG`, `MSGID_PROD` and `XID`."""

    def pack(self, frame: bytes, tail_offset: int, redeliveries: int) -> bytes:
        """The bytes of `MSG` for a canonical *frame*."""
        ...

    def unpack(self, data: bytes, sequence: int | None) -> Message:
        """The message in `MSG`, with its redelivery counter; with *sequence* in place of its own, unless that is None.
        Raises `AckwireError` for what is none."""
        ...

    def priority(self, head: bytes) -> int | None:
        """The priority of a message of which `MSG` begins with *head*; None if more bytes are needed."""
        ...

    def lookup(self, message: Message) -> Callable[[str], Value]:
        """What a selector sees of a message."""
        ...

    def producer(self, message: Message) -> str:
        """`MSGID_PROD`: the producer in the message's id, as ActiveMQ writes it."""
        ...

    def xid(self, transaction_id: Hashable) -> bytes | None:
        """What follows the sign in `XID`; None for a transaction that is not XA."""
        ...

    def transaction(self, xid: bytes) -> Hashable:
        """The transaction id for what follows the sign in `XID`."""
        ...

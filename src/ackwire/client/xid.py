"""Names of distributed transactions."""

from dataclasses import dataclass
from typing import Final

from ackwire.client.errors import IllegalArgumentError
from ackwire.wire.openwire.commands import XATransactionId

PART_BYTES_MAX: Final = 64
"""Of each of the two parts, as XA says."""


@dataclass(frozen=True, slots=True)
class Xid:
    """A branch of a distributed transaction, as its manager names it."""

    format_id: int
    global_transaction_id: bytes
    branch_qualifier: bytes = b""

    def __post_init__(self) -> None:
        if not 1 <= len(self.global_transaction_id) <= PART_BYTES_MAX:
            raise IllegalArgumentError(f"a global transaction id has 1 to {PART_BYTES_MAX} bytes")
        if len(self.branch_qualifier) > PART_BYTES_MAX:
            raise IllegalArgumentError(f"a branch qualifier has at most {PART_BYTES_MAX} bytes")

    def to_wire(self) -> XATransactionId:
        return XATransactionId(self.format_id, self.global_transaction_id, self.branch_qualifier)

    @classmethod
    def from_wire(cls, wire: XATransactionId) -> "Xid":
        """As another manager named it: one whose parts are too long can be decided, too."""
        xid = object.__new__(cls)
        object.__setattr__(xid, "format_id", wire.format_id)
        object.__setattr__(xid, "global_transaction_id", wire.global_transaction_id or b"")
        object.__setattr__(xid, "branch_qualifier", wire.branch_qualifier or b"")
        return xid

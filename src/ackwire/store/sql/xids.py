"""The column `XID` of ActiveMQ's tables: a sign, a sequence, a priority and the XA id, in Base64."""

import base64
import binascii
from typing import Final

SENT: Final = b"+"
ACKNOWLEDGED: Final = b"-"
"""The signs: what a prepared transaction sends, and what it acknowledges."""


def signed_xid(sign: bytes, xid: bytes) -> str:
    """The column for what `RowForm.xid` gives."""
    return base64.b64encode(sign + xid).decode()


def read_xid(text: str) -> tuple[bytes, bytes]:
    """Sign, and what follows it; the sign is empty for a text that is none."""
    try:
        data = base64.b64decode(text)
    except binascii.Error:
        return b"", b""
    return data[:1], data[1:]

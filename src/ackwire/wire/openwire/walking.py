"""Steps over the fields of a canonical frame: what stands at a place, and where it ends.

The shortcuts of the codec (`codec_fast.py`, `cached_decode.py`, `cached_encode.py`, `client_decode.py`, `columnar.py`)
and the editor share them. Two kinds: functions named `after_…` and `…_at` check the field as the plain codec does;
those named `end_of_…` find the end and leave the check to others, for bytes that are only compared with bytes that were
checked before. Either kind raises `Unusual`, `IndexError` or `struct.error` for a shape that it does not know: the
plain codec decides.
"""

from functools import lru_cache
from struct import error as StructError
from typing import Final, cast

from ackwire.errors import RemoteProtocolError
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.layout import (
    BYTES_AT,
    CONNECTION_HEAD,
    DESTINATION_TYPES,
    FIELDS_AT,
    FIRST_DESTINATION_TYPE,
    LAST_DESTINATION_TYPE,
    LOCAL_TRANSACTION_CONNECTION_AT,
    LOCAL_TRANSACTION_HEAD,
    MESSAGE_ID_HEAD,
    MESSAGE_ID_HEAD_BYTES,
    NAME_AT,
    PRODUCER_HEAD,
    RESOURCE_BYTES,
    TEXT_AT,
    UINT,
    USHORT,
    XA_TRANSACTION_HEAD,
    XA_TRANSACTION_PARTS_AT,
)
from ackwire.wire.openwire.marshal import STRING_BYTES_MAX
from ackwire.wire.openwire.structures import REGISTRY
from ackwire.wire.openwire.text import decode_modified_utf8

_HEAD_BYTES: Final = 3
"""Of `PRODUCER_HEAD` and `CONSUMER_HEAD`; the length of the connection id follows."""


class Unusual(Exception):
    """Not what the shortcut knows: the plain codec decides."""


# ---- fields, checked -------------------------------------------------------------------------------------------


def after_string(frame: bytes, at: int) -> int:
    """Where the optional text at *at* ends."""
    if not frame[at]:
        return at + 1
    end: int = at + TEXT_AT + USHORT.unpack_from(frame, at + 1)[0]
    text = frame[at + TEXT_AT : end]
    if len(text) > STRING_BYTES_MAX // 2:
        raise Unusual
    if not text.isascii():
        try:
            decode_modified_utf8(text)
        except RemoteProtocolError:
            raise Unusual from None
    return end


def after_destination(frame: bytes, at: int) -> int:
    """Where the optional destination at *at* ends."""
    if not frame[at]:
        return at + 1
    if not FIRST_DESTINATION_TYPE <= frame[at + 1] <= LAST_DESTINATION_TYPE:
        raise Unusual
    return after_string(frame, at + NAME_AT)


def text_at(frame: bytes, at: int) -> tuple[str | None, int]:
    """The text that is said to be at *at*, and where it ends."""
    length = USHORT.unpack_from(frame, at + 1)[0]
    end = at + TEXT_AT + length
    if length > STRING_BYTES_MAX // 2 or end > len(frame):
        raise Unusual
    return decode_modified_utf8(frame[at + TEXT_AT : end]), end


def bytes_at(frame: bytes, at: int) -> tuple[bytes | None, int]:
    """The bytes that are said to be at *at*, and where they end."""
    end = at + BYTES_AT + UINT.unpack_from(frame, at + 1)[0]
    if end > len(frame):
        raise Unusual
    return frame[at + BYTES_AT : end], end


def destination_at(frame: bytes, at: int) -> tuple[commands.ActiveMQDestination | None, int]:
    """The destination that is said to be at *at*, and where it ends."""
    name_at = at + NAME_AT
    name, end = text_at(frame, name_at) if frame[name_at] else (None, name_at + 1)
    return _wire_destination(frame[at + 1], name), end


@lru_cache(maxsize=64)
def _wire_destination(type_id: int, name: str | None) -> commands.ActiveMQDestination:
    """Remembered, because many requests name the same destination for their answers."""
    if type_id not in DESTINATION_TYPES:
        raise Unusual
    return cast(type[commands.ActiveMQDestination], REGISTRY[type_id])(name)


# ---- ends of fields, not checked -------------------------------------------------------------------------------


def end_of_resource_id(frame: bytes, at: int, head: bytes) -> int:
    """Where the id of a producer or consumer ends that begins with *head*."""
    if frame[at : at + _HEAD_BYTES] != head:
        raise Unusual
    end: int = at + RESOURCE_BYTES + USHORT.unpack_from(frame, at + _HEAD_BYTES)[0]
    return end


def end_of_string(frame: bytes, at: int) -> int:
    """Where the optional text at *at* ends."""
    return at + TEXT_AT + (frame[at + 1] << 8 | frame[at + 2]) if frame[at] else at + 1


def end_of_destination(frame: bytes, at: int) -> int:
    """Where the optional destination at *at* ends."""
    if not frame[at]:
        return at + 1
    if frame[at + 1] not in DESTINATION_TYPES:
        raise Unusual
    return end_of_string(frame, at + NAME_AT)


def end_of_bytes(frame: bytes, at: int) -> int:
    """Where the optional bytes at *at* end."""
    return at + BYTES_AT + int(UINT.unpack_from(frame, at + 1)[0]) if frame[at] else at + 1


def end_of_transaction(frame: bytes, at: int) -> int:
    """Where the optional transaction id at *at* ends."""
    if not frame[at]:
        return at + 1
    if frame[at : at + 2] == XA_TRANSACTION_HEAD:
        return end_of_bytes(frame, end_of_bytes(frame, at + XA_TRANSACTION_PARTS_AT))
    name_at = _connection_name_at(frame, at)
    if frame[name_at] != 1:
        raise Unusual
    return end_of_string(frame, name_at)


def after_local_transaction(frame: bytes, at: int) -> int:
    """Where the optional id of a local transaction at *at* ends; this one is checked."""
    if not frame[at]:
        return at + 1
    name_at = _connection_name_at(frame, at)
    return text_at(frame, name_at)[1] if frame[name_at] else name_at + 1


def _connection_name_at(frame: bytes, at: int) -> int:
    """Where the text of a connection id stands in the id of a local transaction."""
    connection_at = at + LOCAL_TRANSACTION_CONNECTION_AT
    is_local = frame[at : at + 2] == LOCAL_TRANSACTION_HEAD
    if not is_local or frame[connection_at : connection_at + 2] != CONNECTION_HEAD:
        raise Unusual
    return connection_at + NAME_AT


# ---- the front of a message ------------------------------------------------------------------------------------


def front_end(frame: bytes) -> int:
    """Where the front of a message ends; 0 where it has an unusual shape.

    Used to look a front up, so it needs no checks: a known front was checked when it was learned.
    """
    try:
        at = end_of_resource_id(frame, FIELDS_AT, PRODUCER_HEAD)
        at = after_destination(frame, at)
        at = end_of_transaction(frame, at)
        at = after_destination(frame, at)
        if frame[at : at + MESSAGE_ID_HEAD_BYTES] != MESSAGE_ID_HEAD:
            return 0
        return end_of_resource_id(frame, at + MESSAGE_ID_HEAD_BYTES, PRODUCER_HEAD)
    except (Unusual, StructError, IndexError):
        return 0


def front_span(frame: bytes, at: int) -> tuple[int, int, int] | None:
    """Where the transaction in the front at *at* begins and ends, and where the front ends; None if unusual.

    For receivers that remember fronts without their transaction, which changes often and means nothing to them. So it
    is checked here.
    """
    try:
        transaction_at = end_of_destination(frame, end_of_resource_id(frame, at, PRODUCER_HEAD))
        transaction_end = after_local_transaction(frame, transaction_at)
        at = end_of_destination(frame, transaction_end)
        if frame[at : at + MESSAGE_ID_HEAD_BYTES] != MESSAGE_ID_HEAD:
            return None
        return transaction_at, transaction_end, end_of_resource_id(frame, at + MESSAGE_ID_HEAD_BYTES, PRODUCER_HEAD)
    except (Unusual, RemoteProtocolError, StructError, IndexError):
        return None

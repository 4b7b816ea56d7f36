"""Messages as ActiveMQ's JDBC store writes them: `ackwire.store.sql.row_form.RowForm`.

`MSG` is a frame with its size in front: OpenWire 11 in loose encoding, which is the same as version 12 for messages, so
a canonical frame is in it as it is. Only the redelivery counter is written into its field, where ActiveMQ looks for it.
"""

from collections.abc import Callable, Hashable
from functools import lru_cache
from struct import Struct
from struct import error as StructError
from typing import Final, cast, final

from ackwire.errors import RemoteProtocolError
from ackwire.jms.message import Message
from ackwire.jms.types import Value
from ackwire.util.clock import SystemClock
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.codec_fast import CANONICAL
from ackwire.wire.openwire.editor import OpenWireEditor
from ackwire.wire.openwire.layout import COUNT_BYTES, INT, LONG, SIZE_BYTES, UINT
from ackwire.wire.openwire.limits import DEFAULT_LIMITS, WireLimits
from ackwire.wire.openwire.marshal import LooseReader
from ackwire.wire.openwire.stored import OpenWireStoredForm
from ackwire.wire.openwire.structures import fields_of

_COUNTER_AT: Final = 3
"""Where the redelivery counter stands in a tail without data structure and target consumer."""

_XID_HEAD: Final = Struct(">9xih")
"""Behind the sign: a sequence and a priority, which only acks of durable subscribers use; format, length of the global
id."""

_PRODUCERS_REMEMBERED: Final = 1024
"""Texts of producer ids: many messages come from the same one."""

_FIELDS: Final = fields_of(commands.Message)


@final
class JdbcRows(OpenWireStoredForm):
    """Implements `RowForm`. Used by one thread at a time."""

    __slots__ = ("_editor", "_limits", "_producer")

    def __init__(self, limits: WireLimits = DEFAULT_LIMITS) -> None:
        super().__init__(limits)
        self._limits = limits
        self._editor = OpenWireEditor(
            "store", "store", SystemClock(), limits
        )  # reads only, so neither id nor time matter
        self._producer = lru_cache(_PRODUCERS_REMEMBERED)(self._producer_text)

    # ---- rows ------------------------------------------------------------------------------------------------------

    def pack(self, frame: bytes, tail_offset: int, redeliveries: int) -> bytes:
        size = UINT.pack(len(frame))
        if not redeliveries:
            return size + frame
        at = self._counter_at(frame, tail_offset)
        return b"".join((size, frame[:at], INT.pack(redeliveries), frame[at + INT.size :]))

    def unpack(self, data: bytes, sequence: int | None) -> Message:
        frame = bytes(data[SIZE_BYTES:])
        if len(data) < SIZE_BYTES or UINT.unpack_from(data)[0] != len(frame):
            raise RemoteProtocolError(f"a stored message of {len(data)} bytes does not begin with its size")
        message = self._decoder.message(frame)
        id_end = message.origin.id_end
        own: int = LONG.unpack_from(frame, id_end)[0]
        if sequence is None:
            sequence = own
        elif own != sequence:  # ActiveMQ's rows have another order than its messages
            frame = frame[:id_end] + LONG.pack(sequence) + frame[id_end + COUNT_BYTES :]
        if message.redelivery_counter:
            at = self._counter_at(frame, message.tail_offset)
            frame = frame[:at] + bytes(INT.size) + frame[at + INT.size :]
        message.frame = frame
        message.sequence = sequence
        return message

    def _counter_at(self, frame: bytes, tail_offset: int) -> int:
        """Where the redelivery counter stands."""
        if not frame[tail_offset] and not frame[tail_offset + 1]:
            return tail_offset + _COUNTER_AT
        reader = LooseReader(frame, CANONICAL, self._limits, None)
        for field in _FIELDS:
            if field.name == "redelivery_counter":
                break
            reader.read(field)
        return reader.position

    def priority(self, head: bytes) -> int | None:
        reader = LooseReader(bytes(head[SIZE_BYTES:]), CANONICAL, self._limits, None)
        try:
            for field in _FIELDS:
                value = reader.read(field)
                if field.name == "priority":
                    return cast(int, value)
        except (RemoteProtocolError, StructError, IndexError):
            return None
        return None

    def producer(self, message: Message) -> str:
        return self._producer(message.origin.producer_key)

    def _producer_text(self, producer_key: bytes) -> str:
        return str(self._plain.decode(producer_key[1:]))

    def lookup(self, message: Message) -> Callable[[str], Value]:
        return self._editor.lookup(message)

    # ---- transactions ----------------------------------------------------------------------------------------------

    def xid(self, transaction_id: Hashable) -> bytes | None:
        if not isinstance(transaction_id, commands.XATransactionId):
            return None
        global_id, branch = transaction_id.global_transaction_id or b"", transaction_id.branch_qualifier or b""
        return _XID_HEAD.pack(transaction_id.format_id, len(global_id)) + global_id + branch

    def transaction(self, xid: bytes) -> Hashable:
        try:
            format_id, length = _XID_HEAD.unpack_from(xid)
        except StructError:
            raise RemoteProtocolError(f"{xid!r} is no XA transaction id") from None
        rest = xid[_XID_HEAD.size :]
        return cast(Hashable, commands.XATransactionId(format_id, rest[:length], rest[length:]))

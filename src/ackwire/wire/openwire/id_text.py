"""Ids as text: those that the broker and applications name, as values of the wire, and the other way round."""

import re
from typing import Final

from ackwire.errors import LocalProtocolError
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.codec_fast import CANONICAL
from ackwire.wire.openwire.marshal import Codec

_PLAIN: Final = Codec(CANONICAL)
_NUMBER: Final = re.compile(r"-?[0-9]{1,19}")
_LONG_RANGE: Final = range(-(2**63), 2**63)


def consumer_id_of(text: str | None) -> commands.ConsumerId:
    return commands.ConsumerId(*_resource_id(text))


def producer_id_of(text: str | None) -> commands.ProducerId:
    connection_id, session_id, number = _resource_id(text)
    return commands.ProducerId(connection_id, number, session_id)


def producer_text(producer_key: bytes) -> str:
    """What the message ids of a producer begin with (`Origin.producer_key`); the count of the message follows."""
    return str(_PLAIN.decode(producer_key[1:]))


def transaction_text(transaction_id: object) -> str:
    """A transaction's id as JMSXProducerTXID has it."""
    known = transaction_id if isinstance(transaction_id, commands.TransactionId) else None
    return transaction_id_text(known) or str(transaction_id)


def transaction_id_text(transaction_id: commands.TransactionId | None) -> str | None:
    match transaction_id:
        case commands.LocalTransactionId(value, connection_id):
            return f"TX:{connection_id}:{value}"
        case commands.XATransactionId(format_id, global_id, branch):
            return f"XID:[{format_id},globalId={_java_hex(global_id)},branchId={_java_hex(branch)}]"
        case _:
            return None


def _resource_id(text: str | None) -> tuple[str, int, int]:
    """Connection id, session and number."""
    parts = None if text is None else _numbered(text, 2)
    if parts is None:
        raise LocalProtocolError(f"{text!r} is not an id of the form connection:session:number")
    connection_id, (session_id, number) = parts
    return connection_id, session_id, number


def _numbered(text: str, count: int) -> tuple[str, list[int]] | None:
    """What stands before the last *count* numbers of *text*, and the numbers. Connection ids contain colons too."""
    connection_id, *numerals = text.rsplit(":", count)
    if len(numerals) != count or not all(_NUMBER.fullmatch(numeral) for numeral in numerals):
        return None
    numbers = [int(numeral) for numeral in numerals]
    return (connection_id, numbers) if all(number in _LONG_RANGE for number in numbers) else None


def _java_hex(data: bytes | None) -> str:
    """Each byte as Java's Integer.toHexString has it: without leading zeros, and negative from 0x80 on."""
    return "".join(f"{byte if byte < 0x80 else byte - 0x100 & 0xFFFFFFFF:x}" for byte in data or b"")

"""Describes a stored message for people and programs: headers, typed properties, text.

`portrait` describes, and never refuses: what cannot be decoded is left out, since the frame itself goes with it.
`restamped` gives a message another place in the order of a broker.
"""

import math
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final

from ackwire.errors import AckwireError
from ackwire.jms.message import Message
from ackwire.jms.types import Byte, Char, Float, Int, Long, Short, Value
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.bodies import decode_text
from ackwire.wire.openwire.codec_fast import CANONICAL, destination_from_wire, stamp
from ackwire.wire.openwire.marshal import Codec
from ackwire.wire.openwire.primitives import decode_map

_PLAIN: Final = Codec(CANONICAL)
_BODIES: Final[dict[type[commands.Message], str]] = {
    commands.ActiveMQMessage: "none",
    commands.ActiveMQBytesMessage: "bytes",
    commands.ActiveMQMapMessage: "map",
    commands.ActiveMQObjectMessage: "object",
    commands.ActiveMQStreamMessage: "stream",
    commands.ActiveMQTextMessage: "text",
    commands.ActiveMQBlobMessage: "blob",
}


def portrait(message: Message) -> dict[str, Any]:
    """The fields of *message* that JSON can hold, by name; what is absent is None."""
    command = _command(message.frame)
    return {
        "message_id": None if command is None else str(command.message_id),
        "destination": repr(message.destination),
        "timestamp_ms": message.timestamp,
        "arrived_ms": None if command is None else command.broker_in_time,
        "expiration_ms": message.expiration,
        "priority": message.priority,
        "persistent": message.persistent,
        "correlation_id": None if command is None else command.correlation_id,
        "reply_to": None if command is None else _destination(command.reply_to),
        "type": None if command is None else command.type,
        "group_id": message.group_id,
        "group_sequence": message.group_sequence,
        "properties": None if command is None else _properties(command),
        "body": None if command is None else _BODIES[type(command)],
        "text": None if command is None else _text(command),
    }


def restamped(message: Message, sequence: int) -> Message:
    """*message* with another sequence, in its bytes too; when it arrived stays."""
    command = _command(message.frame)
    stamp(message, sequence, 0 if command is None else command.broker_in_time)
    return message


def _command(frame: bytes) -> commands.Message | None:
    try:
        command = _PLAIN.decode(frame)
    except AckwireError:
        return None
    return command if isinstance(command, commands.Message) else None


def _destination(wire: commands.ActiveMQDestination | None) -> str | None:
    try:
        return None if wire is None else repr(destination_from_wire(wire))
    except AckwireError:
        return None


def _properties(command: commands.Message) -> dict[str, Any] | None:
    try:
        return {name: typed(value) for name, value in decode_map(command.marshalled_properties or b"\0\0\0\0").items()}
    except AckwireError:
        return None


def _text(command: commands.Message) -> str | None:
    if not isinstance(command, commands.ActiveMQTextMessage):
        return None
    try:
        return decode_text(command.content, compressed=command.compressed)
    except AckwireError:
        return None


def typed(value: Value) -> dict[str, Any] | None:
    """A value with the name of its JMS type: `{"short": 7}`; None for null."""
    match value:
        case None:
            return None
        case bool():
            return {"boolean": value}
        case int():
            return {_integer_name(value): int(value)}
        case float():
            number = float(value)
            # JSON knows no infinity and no NaN.
            return {"float" if isinstance(value, Float) else "double": number if math.isfinite(number) else str(number)}
        case Char():
            return {"char": str(value)}
        case str():
            return {"string": value}
        case bytes():
            return {"bytes": b64encode(value).decode("ascii")}
        case Mapping():
            return {"map": {name: typed(item) for name, item in value.items()}}
    return {"list": [typed(item) for item in value]}


def _integer_name(value: int) -> str:
    match value:
        case Byte():
            return "byte"
        case Short():
            return "short"
        case Long():
            return "long"
        case Int():
            return "int"
    return "int" if -(2**31) <= value < 2**31 else "long"

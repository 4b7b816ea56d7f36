"""A message as a JSON object: what `--jsonl` writes and reads, so that a queue can be copied through a file.

    {"text": "hello",
     "headers": {"correlation_id": "c1", "priority": 4, "persistent": true},
     "properties": {"n": {"int": 7}, "who": "me"}}

The body is one of `text`, `bytes` and `object` (base64), `map`, `stream` (a list), or `body`: whatever JSON has for it,
null for a message without one. Values of properties, maps and streams name their JMS type as in exports
(docs/formats/export.md), and may be plain when read: 7 is an int, 7.5 a double. An object with one field that is called
like a type is a typed value, any other a nested map; written are typed ones only, so nothing is guessed there.
"""

import json
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ackwire.client import conversions
from ackwire.client.errors import JMSError
from ackwire.client.messages import (
    BytesMessage,
    DeliveryMode,
    MapMessage,
    Message,
    ObjectMessage,
    StreamMessage,
    TextMessage,
)
from ackwire.config.fields import did_you_mean
from ackwire.errors import AckwireError
from ackwire.jms.types import Value
from ackwire.wire.openwire.portrait import typed

_BODIES: Final = ("text", "bytes", "map", "stream", "object", "body")
_FIELDS: Final = (*_BODIES, "headers", "properties")
_TEXT_HEADERS: Final = ("correlation_id", "reply_to", "type", "group_id")
_SENDING: Final = ("priority", "persistent", "expiration_ms")
"""Headers that a producer sets from the arguments of a send."""
_NEW_ON_SENDING: Final = (
    "message_id",
    "destination",
    "original_destination",
    "timestamp_ms",
    "user_id",
    "redelivered",
    "delivery_count",
)
"""Headers that are written for readers: a message that is sent again gets its own."""
_HEADERS: Final = (*_TEXT_HEADERS, "group_sequence", *_SENDING, *_NEW_ON_SENDING)
_SHOWN_MAX: Final = 40


class BadMessage(AckwireError):
    """A JSON object that describes no message; says what is wrong with it."""


@dataclass(slots=True)
class Outgoing:
    """A message to send, and the options of its producer; None where none were given."""

    message: Message
    persistent: bool | None = None
    priority: int | None = None
    expiration_ms: int | None = None
    """A moment since 1970, 0 for never."""
    ttl_ms: int | None = None
    """A time from now; goes before the moment."""
    size_bytes: int = 0
    """About so much memory does the body take."""


# ---- writing ---------------------------------------------------------------------------------------------------


def to_json_line(message: Message) -> str:
    """*message* in one line of ASCII. Raises `JMSError` for a body or properties that cannot be read."""
    row = {**_body(message), "headers": headers_of(message), "properties": _typed_entries(message.properties.own())}
    # ASCII only: half a surrogate pair survives as an escape.
    return json.dumps(row, allow_nan=False, separators=(",", ":"))


def headers_of(message: Message) -> dict[str, Any]:
    """The headers that have something to say, by the names that `send --jsonl` reads."""
    headers: dict[str, Any] = {
        "message_id": message.message_id,
        "destination": _text(message.destination),
        "timestamp_ms": message.timestamp,
        "expiration_ms": message.expiration,
        "priority": message.priority,
        "persistent": message.delivery_mode is DeliveryMode.PERSISTENT,
        "correlation_id": message.correlation_id,
        "reply_to": _text(message.reply_to),
        "type": message.type,
        "group_id": message.group_id,
        "group_sequence": message.group_sequence if message.group_id is not None else None,
        "user_id": message.user_id,
        "original_destination": _text(message.original_destination),
    }
    if message.redelivered:
        headers |= {"redelivered": True, "delivery_count": message.delivery_count}
    return {name: value for name, value in headers.items() if value is not None}


def _text(destination: object) -> str | None:
    return None if destination is None else repr(destination)


def _typed_entries(entries: Mapping[str, Value]) -> dict[str, Any]:
    return {name: typed(value) for name, value in entries.items()}


def _body(message: Message) -> dict[str, Any]:
    match message:
        case TextMessage():
            return {"text": message.text}
        case BytesMessage():
            return {"bytes": _base64(message.data)}
        case MapMessage():
            return {"map": _typed_entries(message.entries)}
        case StreamMessage():
            return {"stream": [typed(value) for value in message.values]}
        case ObjectMessage():
            return {"object": None if message.data is None else _base64(message.data)}
    return {"body": None}


def _base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def plain_body(message: Message) -> bytes:
    """The body alone, for people and files: text in UTF-8, bytes as they are, maps and streams as plain JSON."""
    match message:
        case TextMessage():
            return (message.text or "").encode("utf-8", "surrogatepass")
        case BytesMessage():
            return message.data
        case MapMessage():
            return _plain_json(dict(message.entries))
        case StreamMessage():
            return _plain_json(message.values)
        case ObjectMessage():
            return message.data or b""
    return b""


def _plain_json(value: Value) -> bytes:
    text = json.dumps(_plain(value), ensure_ascii=False, separators=(", ", ": "))
    return text.encode("utf-8", "surrogatepass")


def _plain(value: Value) -> Any:
    match value:
        case bytes():
            return _base64(value)
        case Mapping():
            return {name: _plain(item) for name, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
    return value


# ---- reading ---------------------------------------------------------------------------------------------------


def from_json_line(line: str | bytes) -> Outgoing:
    """The message that *line* describes. Raises `BadMessage`."""
    row = _parsed(line)
    if not isinstance(row, dict):
        raise BadMessage('a message is a JSON object, such as {"text": "hello"}')
    _check_names("field", row, _FIELDS)
    headers, properties = _object(row, "headers"), _object(row, "properties")
    _check_names("header", headers, _HEADERS)
    try:
        outgoing = Outgoing(_message(row), size_bytes=len(line))
        _set_headers(outgoing, headers)
        values = {name: value_from_json(value) for name, value in properties.items()}
    except JMSError as error:
        raise BadMessage(str(error)) from None
    if values:
        # As received ones: other clients and protocols use names that ours would not let an application write.
        outgoing.message.properties.receive(lambda: values)
    return outgoing


def map_from_json(text: str | bytes) -> MapMessage:
    """A MapMessage from a JSON object. Raises `BadMessage`."""
    entries = _parsed(text)
    if not isinstance(entries, dict):
        raise BadMessage('the body of a map message is a JSON object, such as {"id": 7}')
    try:
        return MapMessage({name: value_from_json(value) for name, value in entries.items()})
    except JMSError as error:
        raise BadMessage(str(error)) from None


def _parsed(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadMessage(f"it is not JSON: {_shown(text)}") from None


def _shown(text: str | bytes) -> str:
    start = text[: _SHOWN_MAX + 1]
    shown = start.decode("utf-8", "replace") if isinstance(start, bytes) else start
    return repr(shown if len(shown) <= _SHOWN_MAX else f"{shown[:_SHOWN_MAX]}…")


def _check_names(what: str, given: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            raise BadMessage(f"unknown {what} {_shown(name)}{did_you_mean(name, known)}")


def _object(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = row.get(name) or {}
    if not isinstance(value, dict):
        raise BadMessage(f"{name} must be a JSON object")
    return value


def _message(row: Mapping[str, Any]) -> Message:
    given = [name for name in _BODIES if name in row]
    if len(given) != 1:
        found = "none is there" if not given else f"{' and '.join(given)} are there"
        raise BadMessage(f"a message has one of {', '.join(_BODIES)}, and {found}")
    return _MAKERS[given[0]](row[given[0]])


def _text_message(value: Any) -> Message:
    return TextMessage(conversions.string_of(value))


def _bytes_message(value: Any) -> Message:
    return BytesMessage(_unbase64(value))


def _map_message(value: Any) -> Message:
    if not isinstance(value, dict):
        raise BadMessage("map must be a JSON object")
    return MapMessage({name: value_from_json(item) for name, item in value.items()})


def _stream_message(value: Any) -> Message:
    if not isinstance(value, list):
        raise BadMessage("stream must be a list")
    return StreamMessage([value_from_json(item) for item in value])


def _object_message(value: Any) -> Message:
    return ObjectMessage(None if value is None else _unbase64(value))


def _any_message(value: Any) -> Message:
    match value:
        case None:
            return Message()
        case str():
            return _text_message(value)
        case dict():
            return _map_message(value)
        case list():
            return _stream_message(value)
    raise BadMessage("body must be text, an object, a list or null")


_MAKERS: Final[dict[str, Callable[[Any], Message]]] = {
    "text": _text_message,
    "bytes": _bytes_message,
    "map": _map_message,
    "stream": _stream_message,
    "object": _object_message,
    "body": _any_message,
}


def _unbase64(value: Any) -> bytes:
    if not isinstance(value, str):
        raise BadMessage(f"bytes are written in base64, and this is {_shown(json.dumps(value))}")
    try:
        return b64decode(value, validate=True)
    except (Base64Error, ValueError):
        raise BadMessage(f"{_shown(value)} is not base64") from None


def _set_headers(outgoing: Outgoing, headers: Mapping[str, Any]) -> None:
    message = outgoing.message
    for name in _TEXT_HEADERS:
        if headers.get(name) is not None:
            if not isinstance(headers[name], str):
                raise BadMessage(f"the header {name} is text")
            setattr(message, name, headers[name])
    message.group_sequence = _whole(headers, "group_sequence") or 0
    outgoing.priority = _whole(headers, "priority")
    if outgoing.priority is not None and not 0 <= outgoing.priority <= 9:
        raise BadMessage("the header priority goes from 0 to 9")
    outgoing.expiration_ms = _whole(headers, "expiration_ms")
    outgoing.persistent = headers.get("persistent")
    if not isinstance(outgoing.persistent, bool | None):
        raise BadMessage("the header persistent is true or false")


def _whole(headers: Mapping[str, Any], name: str) -> int | None:
    value = headers.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise BadMessage(f"the header {name} is a whole number")
    return value


# ---- values ----------------------------------------------------------------------------------------------------


def value_from_json(value: Any) -> Value:
    """A plain or typed value. Raises `BadMessage`, or `JMSError` for one that does not fit its type."""
    match value:
        case list():
            return [value_from_json(item) for item in value]
        case dict() if len(value) == 1 and next(iter(value)) in _TYPES:
            ((name, item),) = value.items()
            return _TYPES[name](item)
        case dict():
            return {name: value_from_json(item) for name, item in value.items()}
    return conversions.typed(value)


def _real(value: Any) -> Any:
    # JSON has no infinity and no NaN: they are written as text.
    return float(value) if value in ("nan", "inf", "-inf") else value


def _nested_map(value: Any) -> Value:
    if not isinstance(value, dict):
        raise BadMessage("a value of type map must be a JSON object")
    return {name: value_from_json(item) for name, item in value.items()}


def _nested_list(value: Any) -> Value:
    if not isinstance(value, list):
        raise BadMessage("a value of type list must be a list")
    return [value_from_json(item) for item in value]


_TYPES: Final[dict[str, Callable[[Any], Value]]] = {
    "boolean": conversions.boolean_of,
    "byte": lambda value: conversions.integer_of(value, "byte"),
    "short": lambda value: conversions.integer_of(value, "short"),
    "int": lambda value: conversions.integer_of(value, "int"),
    "long": lambda value: conversions.integer_of(value, "long"),
    "float": lambda value: conversions.float_of(_real(value)),
    "double": lambda value: conversions.double_of(_real(value)),
    "char": conversions.char_of,
    "string": conversions.string_of,
    "bytes": _unbase64,
    "map": _nested_map,
    "list": _nested_list,
}

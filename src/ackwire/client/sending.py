"""What is given to `send`: a body, which is a message or becomes one, and headers by name.

It is the same for every producer, whether it sends at once or keeps messages in a buffer.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from ackwire.client.errors import MessageFormatError
from ackwire.client.message import Message
from ackwire.client.messages import BytesMessage, MapMessage, TextMessage

Body = Message | str | bytes | Mapping[str, Any] | None
"""What can be sent: a message, or what becomes the body of one."""

_HEADERS: Final = frozenset(("correlation_id", "group_id", "group_sequence", "reply_to", "type"))


def message_of(body: Body) -> Message:
    """The message that *body* is or becomes: text a TextMessage, bytes a BytesMessage, a mapping a MapMessage."""
    if isinstance(body, Message):
        return body
    if body is None:
        return Message()
    if isinstance(body, str):
        return TextMessage(body)
    if isinstance(body, bytes | bytearray | memoryview):
        return BytesMessage(body)
    if isinstance(body, Mapping):
        return MapMessage(body)
    raise MessageFormatError(f"a body is a message, text, bytes, a mapping or None, not {type(body).__name__}")


def json_message(value: Any) -> TextMessage:
    """A TextMessage whose text is *value* as JSON (RFC 8259, so without NaN and Infinity)."""
    try:
        return TextMessage(json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")))
    except (TypeError, ValueError, RecursionError) as error:
        raise MessageFormatError(f"this {type(value).__name__} cannot be written as JSON: {error}") from error


def set_headers(message: Message, headers: Mapping[str, Any]) -> None:
    """Set what was given by name, `properties` among it."""
    for name, value in headers.items():
        if name == "properties":
            message.properties.update(value)
        elif name in _HEADERS:
            setattr(message, name, value)
        else:
            names = ", ".join(sorted(_HEADERS))
            raise TypeError(f"no header is named {name!r}: there are {names} and properties")

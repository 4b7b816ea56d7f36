"""Properties of a message for selectors: common types only, decoded once for all selectors.

It runs for every message that is tested against selectors, and so it is compiled. Headers, and properties that are
not common, are left to its caller (`editor.py`), which decodes the whole message.
"""

from collections.abc import Callable
from struct import error as StructError
from typing import Final, final

from ackwire.jms.message import Message
from ackwire.jms.types import Int, Long, Value
from ackwire.wire.openwire.layout import DOUBLE, INT, LONG

_HEADER_PREFIX: Final = "JMS"


@final
class QuickLookup:
    """Gives the values of one message, None where it has none."""

    __slots__ = ("_entries_max", "_is_unusual", "_message", "_plain", "_plain_lookup", "_properties")

    def __init__(
        self, message: Message, entries_max: int, plain_lookup: Callable[[Message], Callable[[str], Value]]
    ) -> None:
        self._message = message
        self._entries_max = entries_max
        self._plain_lookup = plain_lookup
        self._plain: Callable[[str], Value] | None = None
        self._properties: dict[str, Value] | None = None
        self._is_unusual = False

    def __call__(self, name: str) -> Value:
        if self._is_unusual or name.startswith(_HEADER_PREFIX):
            return self._plain_value(name)
        properties = self._properties
        if properties is None:
            properties = self._properties = quick_properties_of(self._message, self._entries_max)
            if properties is None:
                self._is_unusual = True
                return self._plain_value(name)
        return properties.get(name)

    def _plain_value(self, name: str) -> Value:
        if self._plain is None:
            self._plain = self._plain_lookup(self._message)
        return self._plain(name)


def quick_properties_of(message: Message, entries_max: int) -> dict[str, Value] | None:
    """The properties of *message* if they are of common types and ASCII only, otherwise None."""
    start = message.properties_offset
    if not start:
        return {}
    frame = message.frame
    return quick_properties(frame, start, start + int(INT.unpack_from(frame, start - 4)[0]), entries_max)


def quick_properties(frame: bytes, position: int, end: int, entries_max: int) -> dict[str, Value] | None:
    """The property map between *position* and *end* if it has common types and ASCII only, otherwise None.

    Lengths are not checked one by one: a wrong one leads anywhere but exactly to *end*.
    """
    properties: dict[str, Value] = {}
    try:
        count = int(INT.unpack_from(frame, position)[0])
        if not 0 <= count <= entries_max:
            return None
        position += 4
        for _ in range(count):
            start = position + 2
            position = start + (frame[position] << 8 | frame[position + 1])
            name = frame[start:position].decode("ascii")
            code = frame[position]
            if code == 9:
                start = position + 3
                position = start + (frame[position + 1] << 8 | frame[position + 2])
                properties[name] = frame[start:position].decode("ascii")
            elif code == 5:
                properties[name] = Int(INT.unpack_from(frame, position + 1)[0])
                position += 5
            elif code == 6:
                properties[name] = Long(LONG.unpack_from(frame, position + 1)[0])
                position += 9
            elif code == 1:
                properties[name] = frame[position + 1] != 0
                position += 2
            elif code == 7:
                properties[name] = DOUBLE.unpack_from(frame, position + 1)[0]
                position += 9
            else:
                return None
    except (IndexError, StructError, UnicodeDecodeError):
        return None
    return properties if position == end else None

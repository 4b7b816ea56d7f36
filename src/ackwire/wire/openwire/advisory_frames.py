"""Advisories about destinations, spliced from parts: a new subscriber may be shown a hundred thousand of them.

The frame of such an advisory is made once with marks in the places that differ, by the plain codec; from then on the
marks are replaced. A test holds the two ways against each other.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple, final

from ackwire.jms.destinations import Destination, Kind, destination
from ackwire.jms.message import Message
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.codec_fast import FastDecoder, destination_to_wire, nested
from ackwire.wire.openwire.layout import ABSENT, DESTINATION_HEAD, LONG
from ackwire.wire.openwire.text import encode_modified_utf8

_SEQUENCE_MARK: Final = 0x5EC0_DE5E_C0DE_5EC0
_TIMESTAMP_MARK: Final = 0x71ED_A7E7_1EDA_7E71
_TARGET_MARK: Final = commands.ConsumerId("\x02mark of the target\x02", 1, 1)
_OWNER_MARK: Final = commands.ConnectionId("\x02mark of the owner\x02")
_SUBJECT_MARK: Final = destination(Kind.QUEUE, "\x02mark of the subject\x02")

_TEMPLATES_MAX: Final = 64
_FIELDS_MAX: Final = 1024


class DestinationEvent(NamedTuple):
    """What an advisory says of a destination."""

    topic: Destination
    operation: commands.DestinationOperation
    where: Destination
    connection_id: str | None
    """Of the owner of a temporary one."""
    target: commands.ConsumerId | None
    sequence: int
    timestamp: int


_remembered_field: Final = lru_cache(maxsize=_FIELDS_MAX)(nested)
"""For consumer and connection ids, which come again and again."""

_TYPE_IDS: Final = {kind: destination_to_wire(destination(kind, "x")).TYPE_ID for kind in Kind}


def _destination_field(where: Destination) -> bytes:
    """As `nested`; there are too many of them to remember, so it is written out."""
    name = encode_modified_utf8(where.name)
    return DESTINATION_HEAD.pack(1, _TYPE_IDS[where.kind], 1, len(name)) + name


class _Template(NamedTuple):
    """What all advisories about the same topic and operation have in common."""

    parts: list[bytes]
    """The parts of the frame between the marks."""
    sample: Message


@final
class DestinationAdvisories:
    """Makes advisories about destinations."""

    def __init__(self, plain: Callable[[DestinationEvent], bytes], decoder: FastDecoder) -> None:
        """*plain* makes the frames of such advisories, slowly."""
        self._plain = plain
        self._decoder = decoder
        self._templates: dict[tuple[Destination, commands.DestinationOperation], _Template] = {}

    def message(self, event: DestinationEvent) -> Message:
        """The message whose frame *plain* would make of *event*."""
        key = (event.topic, event.operation)
        template = self._templates.get(key)
        if template is None:
            if len(self._templates) >= _TEMPLATES_MAX:
                self._templates.clear()
            template = self._templates[key] = self._template(event)
        parts, sample = template
        sequence, owner = LONG.pack(event.sequence), event.connection_id
        frame = b"".join(
            (
                parts[0],
                sequence,
                parts[1],
                LONG.pack(event.timestamp),
                parts[2],
                ABSENT if owner is None else _remembered_field(commands.ConnectionId(owner)),
                parts[3],
                _destination_field(event.where),
                parts[4],
                ABSENT if event.target is None else _remembered_field(event.target),
                parts[5],
            )
        )
        # What differs stands behind all that a message remembers the place of.
        return Message(
            frame=frame,
            key=sample.origin.producer_key + sequence,
            origin=sample.origin,
            persistent=sample.persistent,
            priority=sample.priority,
            expiration=sample.expiration,
            timestamp=event.timestamp,
            properties_offset=sample.properties_offset,
            tail_offset=sample.tail_offset,
        )

    def _template(self, event: DestinationEvent) -> _Template:
        marked = event._replace(
            where=_SUBJECT_MARK,
            connection_id=_OWNER_MARK.value,
            target=_TARGET_MARK,
            sequence=_SEQUENCE_MARK,
            timestamp=_TIMESTAMP_MARK,
        )
        frame = rest = self._plain(marked)
        parts: list[bytes] = []
        for mark in (
            LONG.pack(_SEQUENCE_MARK),
            LONG.pack(_TIMESTAMP_MARK),
            nested(_OWNER_MARK),
            nested(destination_to_wire(_SUBJECT_MARK)),
            nested(_TARGET_MARK),
        ):
            part, found, rest = rest.partition(mark)
            assert found, "every mark stands in the frame, in this order"
            parts.append(part)
        return _Template([*parts, rest], self._decoder.message(frame))

"""A message of which only the sequence is known."""

from typing import Final

from ackwire.jms.destinations import parse_destination
from ackwire.jms.message import Message, Origin

_PLACEHOLDER: Final = Origin(
    prefix=b"",
    destination=parse_destination("queue://placeholder"),
    transaction=None,
    connection_id=None,
    producer_key=b"",
    id_end=0,
)


def numbered(sequence: int) -> Message:
    """What the store needs of a message that is acknowledged, or cannot be read: its sequence."""
    message = Message(
        frame=b"",
        key=b"",
        origin=_PLACEHOLDER,
        persistent=True,
        priority=0,
        expiration=0,
        timestamp=0,
        properties_offset=0,
        tail_offset=0,
    )
    message.sequence = sequence
    return message

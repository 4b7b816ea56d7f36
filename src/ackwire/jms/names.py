"""Which names a property can have (JMS 1.1 §3.5.1): those that a selector can say, and that are no header's."""

import unicodedata
from functools import lru_cache
from typing import Final

_START: Final = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc"})
_PART: Final = _START | {"Nd", "Mn", "Mc", "Cf"}
_SELECTOR_WORDS: Final = frozenset(
    {"NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE"}
)
BODY: Final = "JMS body"
"""What those ask for who want the body of a text message, as if it were a header; no name, for its blank."""
BODY_BYTES_MAX: Final = 1024 * 1024
"""Longer bodies are not given so: they would be decoded in one go."""

HEADERS: Final = {
    "JMSCorrelationID": "correlation_id",
    "JMSDeliveryMode": "delivery_mode",
    "JMSDestination": "destination",
    "JMSExpiration": "expiration",
    "JMSMessageID": "message_id",
    "JMSPriority": "priority",
    "JMSRedelivered": "redelivered",
    "JMSReplyTo": "reply_to",
    "JMSTimestamp": "timestamp",
    "JMSType": "type",
}
"""Names that selectors have for headers, and ours for the same."""


@lru_cache(maxsize=256)
def can_stand_in_selectors(name: str) -> bool:
    """Whether *name*, which is not empty, is a Java identifier and no word of selectors.

    Applications use the same few names over and over.
    """
    categories = [unicodedata.category(character) for character in name]
    return categories[0] in _START and _PART.issuperset(categories) and name.upper() not in _SELECTOR_WORDS

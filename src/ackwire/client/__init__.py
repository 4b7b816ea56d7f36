"""JMS in Python. So far: messages (`TextMessage` and its like) and exceptions (`errors`); no connection yet.

Standard library only.
"""

from ackwire.client.messages import (
    BytesMessage,
    DeliveryMode,
    MapMessage,
    Message,
    ObjectMessage,
    StreamMessage,
    TextMessage,
)

__all__ = ["BytesMessage", "DeliveryMode", "MapMessage", "Message", "ObjectMessage", "StreamMessage", "TextMessage"]

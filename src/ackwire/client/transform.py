"""The hook through which an application changes messages on their way (B3)."""

from typing import Any, Protocol

from ackwire.client.message import Message


class MessageTransformer(Protocol):
    """Sees each message before it is sent and before it is given out; None leaves it as it is."""

    def producer_transform(self, session: Any, producer: Any, message: Message) -> Message | None: ...

    def consumer_transform(self, session: Any, consumer: Any, message: Message) -> Message | None: ...

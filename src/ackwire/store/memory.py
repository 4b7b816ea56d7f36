"""The memory store: durable until the process ends, which is all that `--store memory` promises (SEMANTICS K6).

It keeps what the contract says must be kept, so it is also the reference that other stores are compared with.
"""

from collections.abc import Callable

from ackwire.destinations import Destination
from ackwire.message import Message


class MemoryStore:
    """Implements `Store` without a disk."""

    def __init__(self) -> None:
        self._queues: dict[Destination, dict[bytes, Message]] = {}

    def append(self, queue: Destination, message: Message) -> None:
        self._queues.setdefault(queue, {})[message.key] = message

    def remove(self, queue: Destination, message: Message) -> None:
        self._queues[queue].pop(message.key, None)

    def remove_queue(self, queue: Destination) -> None:
        self._queues.pop(queue, None)

    def when_durable(self, callback: Callable[[], None]) -> None:
        callback()

    def close(self) -> None:
        self._queues.clear()

    def messages(self, queue: Destination) -> list[Message]:
        """What is on *queue*, in the order in which it came."""
        return list(self._queues.get(queue, {}).values())

"""A message on its way from the broker to the application, and where such messages wait."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol, final

from ackwire.client.message import Message
from ackwire.client.messages import message_from
from ackwire.errors import RemoteProtocolError
from ackwire.wire.openwire.client_decode import Dispatch
from ackwire.wire.openwire.commands import ActiveMQDestination, ActiveMQQueue, ActiveMQTempQueue, ConsumerId
from ackwire.wire.openwire.limits import DEFAULT_LIMITS, WireLimits
from ackwire.wire.openwire.primitives import decode_map

_PRIORITIES: Final = 10
_BROKER_DELAY: Final = "redeliveryDelay"
"""The property that a broker gives to messages that it redelivers itself."""


Key = tuple[ActiveMQDestination | None, bytes, ConsumerId | None]


@final
class Delivery:
    """A message that the broker gave to one consumer, on one link."""

    __slots__ = ("arrival", "dispatch", "epoch", "redelivery_counter")

    def __init__(self, dispatch: Dispatch, epoch: int, arrival: int = 0) -> None:
        self.dispatch = dispatch
        self.epoch = epoch
        self.arrival = arrival
        """Its place among what the consumer was given, whatever the order in which it is consumed."""
        self.redelivery_counter = dispatch.redelivery_counter

    @property
    def is_redelivered_here(self) -> bool:
        """Whether the application had it before, from this consumer."""
        return self.redelivery_counter != self.dispatch.redelivery_counter

    @property
    def key(self) -> Key:
        """The same for the same message, whenever it comes; a copy of it in another destination is another message.

        Of a topic every subscriber has a copy of its own; a queue's message is the same to whomever it goes.
        """
        dispatch = self.dispatch
        is_shared = isinstance(dispatch.destination, ActiveMQQueue | ActiveMQTempQueue)
        return dispatch.destination, dispatch.message_key, None if is_shared else dispatch.consumer_id

    def is_expired(self, now_ms: int) -> bool:
        return 0 < self.dispatch.expiration <= now_ms

    @property
    def is_resent_by_broker(self) -> bool:
        """Whether redelivery is the broker's business, which counts for itself (F3)."""
        try:
            return _BROKER_DELAY in decode_map(self.dispatch.properties or b"", DEFAULT_LIMITS)
        except RemoteProtocolError:
            return False

    def new_message(self, acknowledger: Callable[[Message], object], limits: WireLimits) -> Message:
        """The message for the application, unread; a redelivery gets a fresh one."""
        message = message_from(self.dispatch, acknowledger, limits)
        if self.is_redelivered_here:
            message.delivery_count = self.redelivery_counter + 1
        return message


class Channel(Protocol):
    """Where messages wait for their consumer (C6)."""

    def put(self, delivery: Delivery) -> None: ...

    def put_back(self, deliveries: Iterable[Delivery]) -> None:
        """In front of the others, in their order."""

    def take(self) -> Delivery: ...

    def take_all(self) -> list[Delivery]: ...

    def __len__(self) -> int: ...


@final
class Fifo(deque[Delivery]):
    """First come, first served."""

    __slots__ = ()
    put = deque.append
    take = deque.popleft

    def put_back(self, deliveries: Iterable[Delivery]) -> None:
        self.extendleft(reversed(list(deliveries)))

    def take_all(self) -> list[Delivery]:
        taken = list(self)
        self.clear()
        return taken


@final
class ByPriority:
    """The highest priority first; within one, first come, first served."""

    def __init__(self) -> None:
        self._levels = [deque[Delivery]() for _ in range(_PRIORITIES)]

    def _level(self, delivery: Delivery) -> deque[Delivery]:
        return self._levels[min(max(delivery.dispatch.priority, 0), _PRIORITIES - 1)]

    def put(self, delivery: Delivery) -> None:
        self._level(delivery).append(delivery)

    def put_back(self, deliveries: Iterable[Delivery]) -> None:
        for delivery in reversed(list(deliveries)):
            self._level(delivery).appendleft(delivery)

    def _waiting(self) -> Iterator[deque[Delivery]]:
        return (level for level in reversed(self._levels) if level)

    def take(self) -> Delivery:
        return next(self._waiting()).popleft()

    def take_all(self) -> list[Delivery]:
        taken = [delivery for level in self._waiting() for delivery in level]
        for level in self._levels:
            level.clear()
        return taken

    def __len__(self) -> int:
        return sum(map(len, self._levels))

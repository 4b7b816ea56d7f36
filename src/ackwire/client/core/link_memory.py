"""What a consumer remembers of the links that it lost, so that no message is processed twice (J4).

The broker delivers again every message whose acknowledgement it did not receive. `LinkMemory` knows which of them the
application has acknowledged, which it still has, which belong to the open transaction, and how often each was
redelivered.
"""

from collections.abc import Iterable
from typing import Final

from ackwire.client.core.connection import ConnectionCore
from ackwire.client.core.delivery import Delivery, Key
from ackwire.util.lru import Recent

_COUNTERS_MAX: Final = 100_000
"""Messages that a consumer may have had when a link was lost: more than the largest prefetch."""


class LinkMemory:
    """The messages of one consumer that may come again on another link."""

    def __init__(self, connection: ConnectionCore) -> None:
        self._connection = connection
        self._with_application: dict[Key, Delivery] = {}
        """Given to the application on an earlier link, and not acknowledged."""
        self._counters: Recent[Key, int] = Recent(_COUNTERS_MAX)
        """Redelivery counters: a broker that was restarted does not know that the application has seen a message."""
        self._in_transaction: dict[Key, bool] = {}
        """Consumed by the open transaction on an earlier link: whether it has come again."""

    # ---- acknowledged ------------------------------------------------------------------------------------------

    def has_acknowledged(self, delivery: Delivery) -> bool:
        """Whether the application acknowledged it before, and the broker may not know."""
        acknowledged = self._connection.acknowledged
        return acknowledged is not None and delivery.key in acknowledged

    def remember_acknowledged(self, deliveries: list[Delivery]) -> None:
        acknowledged = self._connection.acknowledged
        if acknowledged is not None:
            for delivery in deliveries:
                acknowledged[delivery.key] = None

    # ---- with the application ----------------------------------------------------------------------------------

    def keep_with_application(self, deliveries: Iterable[Delivery]) -> None:
        """The application has *deliveries* of a link that is lost."""
        self._with_application.update((delivery.key, delivery) for delivery in deliveries)

    def acknowledge_one(self, delivery: Delivery) -> None:
        """The application is done with *delivery* of an earlier link."""
        kept = self._with_application.pop(delivery.key, None)
        if kept is not None:
            self.remember_acknowledged([kept])

    def acknowledge_all(self) -> None:
        """The application is done with everything that it has of earlier links."""
        if self._with_application:
            self.remember_acknowledged(list(self._with_application.values()))
            self._with_application.clear()

    # ---- redelivery counters -----------------------------------------------------------------------------------

    def remember_counters(self, deliveries: list[Delivery], *, increment: int = 0) -> None:
        """Keep the counters of *deliveries*, which come again if the link is lost."""
        self._counters.update((it.key, it.redelivery_counter + increment) for it in deliveries)

    def restore_counter(self, delivery: Delivery) -> None:
        """Give *delivery* the counter that it had on an earlier link, if that was higher."""
        delivery.redelivery_counter = max(delivery.redelivery_counter, self._counters.pop(delivery.key) or 0)

    # ---- the open transaction ----------------------------------------------------------------------------------

    @property
    def awaits_redeliveries(self) -> bool:
        """Whether the open transaction consumed something on an earlier link."""
        return bool(self._in_transaction)

    def expect_again(self, deliveries: Iterable[Delivery]) -> None:
        """The link is lost: what the transaction consumed must come again before it can commit."""
        keys = (*self._in_transaction, *(delivery.key for delivery in deliveries))
        self._in_transaction = dict.fromkeys(keys, False)

    def came_again(self, delivery: Delivery) -> bool:
        """Note that *delivery* has come; False if the transaction does not expect it."""
        if delivery.key not in self._in_transaction:
            return False
        self._in_transaction[delivery.key] = True
        return True

    def missing_redeliveries(self) -> int:
        """How much of what the transaction consumed has not come again."""
        return sum(not has_come for has_come in self._in_transaction.values())

    def end_transaction(self) -> None:
        self._in_transaction.clear()

    def clear(self) -> None:
        """The transaction is decided, or everything is given again: nothing of earlier links counts."""
        self._in_transaction.clear()
        self._with_application.clear()

"""Redelivery of one consumer's messages: after which delay, how often, and when to give up (F)."""

from collections.abc import Callable
from random import Random
from typing import Final

from ackwire.client.core.ack_sender import AckSender
from ackwire.client.core.connection import ConnectionCore
from ackwire.client.core.delivery import Channel, Delivery
from ackwire.client.core.link_memory import LinkMemory
from ackwire.client.options import RedeliveryPolicy
from ackwire.util.clock import Timer
from ackwire.wire.openwire.commands import AckType
from ackwire.wire.openwire.structures import Throwable

UNLIMITED: Final = -1
_THROWABLE: Final = "java.lang.Throwable"


class Redelivery:
    """Puts the messages of one consumer back into its channel, or gives up on them."""

    def __init__(
        self,
        policy: RedeliveryPolicy,
        channel: Channel,
        acks: AckSender,
        memory: LinkMemory,
        connection: ConnectionCore,
        random: Random,
        wake: Callable[[], None],
    ) -> None:
        self.policy = policy
        self._channel = channel
        self._acks = acks
        self._memory = memory
        self._clock = connection.clock
        self._is_failover = connection.is_failover
        self._is_non_blocking = connection.options.non_blocking_redelivery
        self._random = random
        self._wake = wake
        self._delay_ms = 0
        self.delay_timer: Timer | None = None
        """Runs while nothing may be delivered, so that order holds (H1)."""
        self._put_aside: list[tuple[Timer, list[Delivery]]] = []
        """Waiting for their redelivery beside the others (nonBlockingRedelivery)."""

    def redeliver(
        self, delivered: list[Delivery], cause: BaseException | None, *, others_in_flight: bool = False
    ) -> None:
        """Give *delivered* again after the policy's delay; give up on those that came too often.

        *others_in_flight*: the application has more messages, which are not behind these in the broker's order.
        """
        was_redelivered = delivered[-1].redelivery_counter > 0
        self._delay_ms = next_delay_ms(self.policy, self._delay_ms, is_first=not was_redelivered, random=self._random)
        for delivery in delivered:
            delivery.redelivery_counter += 1
        delivered = self._without_exceeded(delivered, cause)
        if not delivered:
            self._delay_ms = 0
            return
        if was_redelivered:
            self._acks.send_all(AckType.REDELIVERED, delivered)
        if self._is_non_blocking:
            self._redeliver_beside(delivered)
        else:
            self._acks.is_shuffled |= others_in_flight
            self._channel.put_back(delivered)
            self._pause()

    def _without_exceeded(self, delivered: list[Delivery], cause: BaseException | None) -> list[Delivery]:
        """Give up on those that came too often, and return the others."""
        exceeded = [delivery for delivery in delivered if is_exceeded(self.policy, delivery.redelivery_counter)]
        if not exceeded:
            return delivered
        reason = f"exceeded redelivery policy limit of {self.policy.redeliveries_max}"
        for group in [exceeded] if len(exceeded) == len(delivered) else [[delivery] for delivery in exceeded]:
            self.give_up(group, reason, cause)
        return [delivery for delivery in delivered if delivery not in exceeded]

    def came_too_often(self, delivery: Delivery) -> bool:
        """Whether to give *delivery* up before the application sees it."""
        return (
            self.policy.pre_dispatch_check
            and is_exceeded(self.policy, delivery.redelivery_counter)
            and not delivery.is_resent_by_broker
        )

    def give_up(self, deliveries: list[Delivery], reason: str, cause: BaseException | None = None) -> None:
        """Have the broker make them dead letters (F3)."""
        self.remember_counters(deliveries)
        text = f"{reason}, cause: {cause!r}" if cause is not None else reason
        for group in self._acks.groups(deliveries):
            self._acks.send(AckType.POISON, group, cause=Throwable(_THROWABLE, text))

    def remember_counters(self, deliveries: list[Delivery]) -> None:
        """If the acks of *deliveries* are lost with the link, the messages come again."""
        if self._is_failover:
            self._memory.remember_counters([delivery for delivery in deliveries if delivery.redelivery_counter])

    # ---- delays ------------------------------------------------------------------------------------------------

    def reset_delay(self) -> None:
        """Messages were consumed: the next redelivery is a first one."""
        self._delay_ms = 0

    def _pause(self) -> None:
        self._cancel_delay()
        if self._delay_ms > 0:
            self.delay_timer = self._clock.call_later(self._delay_ms / 1000, self._resume)
        else:
            self._wake()

    def _resume(self) -> None:
        self.delay_timer = None
        self._wake()

    def _cancel_delay(self) -> None:
        if self.delay_timer is not None:
            self.delay_timer.cancel()
            self.delay_timer = None

    def _redeliver_beside(self, delivered: list[Delivery]) -> None:
        entry: list[tuple[Timer, list[Delivery]]] = []

        def due() -> None:
            if entry and entry[0] in self._put_aside:
                self._put_aside.remove(entry[0])
                for delivery in delivered:
                    self._channel.put(delivery)
                self._wake()

        entry.append((self._clock.call_later(self._delay_ms / 1000, due), delivered))
        self._put_aside.append(entry[0])

    def cancel(self) -> list[Delivery]:
        """End every delay; returns the messages that waited beside the channel."""
        self._cancel_delay()
        waiting: list[Delivery] = []
        for timer, deliveries in self._put_aside:
            timer.cancel()
            waiting += deliveries
        self._put_aside.clear()
        return waiting


def next_delay_ms(policy: RedeliveryPolicy, previous_ms: int, *, is_first: bool, random: Random) -> int:
    """The delay before the next redelivery, after one of *previous_ms*."""
    if is_first:
        return policy.initial_redelivery_delay_ms
    delay = float(policy.redelivery_delay_ms)
    if policy.use_exponential_back_off and previous_ms > 0 and policy.back_off_multiplier > 1:
        delay = previous_ms * policy.back_off_multiplier
        if policy.redelivery_delay_ms_max != UNLIMITED:
            delay = min(delay, policy.redelivery_delay_ms_max)
    if policy.use_collision_avoidance:
        share = policy.collision_avoidance_percent / 100
        delay *= 1 + share * random.uniform(-1, 1)
    return max(0, int(delay))


def is_exceeded(policy: RedeliveryPolicy, redelivery_counter: int) -> bool:
    """Whether a message that came again *redelivery_counter* times is one too many (F3)."""
    return policy.redeliveries_max != UNLIMITED and redelivery_counter > policy.redeliveries_max

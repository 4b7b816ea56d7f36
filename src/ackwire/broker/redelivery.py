"""Dead letters, and redelivery by the broker for clients that do none (SEMANTICS F)."""

from dataclasses import dataclass
from typing import Final

from ackwire.config.policy import DeadLetterPolicy, DestinationPolicy
from ackwire.jms.destinations import Destination, Kind, derived_destination
from ackwire.jms.message import Message

CAUSE_PROPERTY: Final = "dlqDeliveryFailureCause"
DELAY_PROPERTY: Final = "redeliveryDelay"
ORIGINAL_EXPIRATION_PROPERTY: Final = "originalExpiration"
ORIGINAL_DELIVERY_MODE_PROPERTY: Final = "originalDeliveryMode"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome for a message that could not be consumed."""

    queue: Destination | None
    """The dead-letter queue, or None: it is discarded."""
    reason: str


def judge(policy: DestinationPolicy, message: Message, *, is_topic: bool, expired: bool, cause: str) -> Verdict:
    """Where *message* goes, and why."""
    if policy.dead_letters is DeadLetterPolicy.DISCARD:
        return Verdict(None, f"{cause}; the policy for {policy.match} discards dead letters")
    if expired and not policy.dead_letter_expired:
        return Verdict(None, f"{cause}; the policy for {policy.match} drops expired messages")
    if not message.persistent and not policy.dead_letter_non_persistent:
        return Verdict(None, f"{cause}; the policy for {policy.match} drops non-persistent messages")
    return Verdict(_dead_letter_queue(policy, message.destination, is_topic=is_topic), cause)


def _dead_letter_queue(policy: DestinationPolicy, where: Destination, *, is_topic: bool) -> Destination:
    if policy.dead_letters is DeadLetterPolicy.SHARED:
        return derived_destination(Kind.QUEUE, policy.dead_letter_queue)
    prefix = policy.dead_letter_topic_prefix if is_topic else policy.dead_letter_queue_prefix
    return derived_destination(Kind.QUEUE, prefix + where.name)


def redelivery_delay_seconds(policy: DestinationPolicy, redeliveries: int) -> float | None:
    """How long a rejected message waits before the broker offers it again; None: the last attempt was made."""
    if not policy.broker_redelivery:
        return None
    if policy.redeliveries_max >= 0 and redeliveries >= policy.redeliveries_max:
        return None
    delay = policy.redelivery_delay_seconds
    for _ in range(redeliveries):
        if delay >= policy.redelivery_delay_seconds_max:
            break
        delay *= policy.redelivery_back_off_multiplier
    return min(delay, policy.redelivery_delay_seconds_max)

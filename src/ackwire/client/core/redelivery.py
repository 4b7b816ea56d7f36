"""How long until a message comes again (F2)."""

from random import Random

from ackwire.client.options import RedeliveryPolicy

UNLIMITED = -1


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

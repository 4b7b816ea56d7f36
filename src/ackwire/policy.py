"""What applies to a destination: dead letters, redelivery, limits, order, eviction; by name or wildcard.

A policy names destinations (`queue://orders.>`, `topic://prices.*`, or a bare pattern for both kinds); the most
specific one that matches applies, and `DestinationPolicy()` is what applies where none does. Defaults are ActiveMQ's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ackwire.destinations import Destination, Kind, matches_pattern


class DeadLetters(Enum):
    """Where messages go that nobody could consume (SEMANTICS F4)."""

    SHARED = "shared"
    """All into one queue."""
    INDIVIDUAL = "individual"
    """One queue for each destination: the prefix, then the destination's name."""
    DISCARD = "discard"
    """Nowhere: they are dropped, and counted."""


class Eviction(Enum):
    """Which message a slow non-durable subscriber loses first."""

    OLDEST = "oldest"
    LOWEST_PRIORITY = "lowest-priority"


@dataclass(frozen=True, slots=True)
class DestinationPolicy:
    """The rules for the destinations that match."""

    match: str = ">"
    prioritized: bool = False
    """Dispatch by JMSPriority, highest first; otherwise in order of arrival."""
    exclusive_by_default: bool = False
    prefetch_max: int | None = None
    """Caps what consumers ask for; None leaves it to them."""
    dead_letters: DeadLetters = DeadLetters.SHARED
    dead_letter_queue: str = "ActiveMQ.DLQ"
    dead_letter_queue_prefix: str = "ActiveMQ.DLQ.Queue."
    dead_letter_topic_prefix: str = "ActiveMQ.DLQ.Topic."
    dead_letter_expired: bool = True
    dead_letter_non_persistent: bool = False
    broker_redelivery: bool = False
    """A rejected message comes back from the broker after a delay, for clients that do not redeliver themselves."""
    redeliveries_max: int = 6
    """-1: no limit."""
    redelivery_delay_seconds: float = 1.0
    redelivery_back_off_multiplier: float = 1.0
    redelivery_delay_seconds_max: float = 3600.0
    memory_bytes_max: int | None = None
    """Bytes of messages this destination may hold before its producers wait; None: only the broker's limit counts."""
    topic_pending_messages_max: int | None = None
    """Messages that wait for one slow non-durable subscriber; None: only the limit in bytes counts."""
    eviction: Eviction = Eviction.OLDEST
    retained_messages_max: int = 0
    """Messages a topic keeps for retroactive consumers."""
    expiration_ceiling_seconds: float = 0.0
    """Messages live no longer than this; 0: no ceiling."""
    groups_max: int = 65_536
    """Message groups a queue remembers the owners of."""
    advise_slow_consumers: bool = False
    advise_full: bool = False
    advise_no_consumers: bool = False


DEFAULT_POLICY: Final = DestinationPolicy()


class Policies:
    """Finds the policy for a destination."""

    def __init__(self, policies: Sequence[DestinationPolicy] = ()) -> None:
        self._policies = sorted(policies, key=lambda policy: _specificity(policy.match), reverse=True)

    def for_destination(self, destination: Destination) -> DestinationPolicy:
        """The most specific policy that matches, or the default."""
        for policy in self._policies:
            if _applies(policy.match, destination):
                return policy
        return DEFAULT_POLICY


def _applies(match: str, destination: Destination) -> bool:
    prefix, separator, pattern = match.partition("://")
    if not separator:
        return matches_pattern(match, destination.name)
    kind = Kind.QUEUE if destination.kind.is_queue else Kind.TOPIC
    return prefix == kind.value and matches_pattern(pattern, destination.name)


def _specificity(match: str) -> tuple[int, int, int]:
    """Exact names before `*`, `*` before `>`; longer before shorter; with a kind before without."""
    name = match.rpartition("://")[2]
    levels = name.split(".")
    wildness = 2 if ">" in levels else 1 if "*" in levels else 0
    return (-wildness, len(levels), 1 if "://" in match else 0)

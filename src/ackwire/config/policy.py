"""What applies to a destination: dead letters, redelivery, limits, order, eviction; by name or wildcard.

A policy names destinations (`queue://orders.>`, `topic://prices.*`, or a bare pattern for both kinds); the most
specific one that matches applies alone, and `DestinationPolicy()` is what applies where none does. Defaults are
ActiveMQ's.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ackwire.config import fields
from ackwire.config.fields import QUEUE_NAME_LENGTH_MAX, Option
from ackwire.config.types import GIB, KIB, Refused, Text, quoted
from ackwire.jms.destinations import NAME_LENGTH_MAX, Destination, Kind, matches_pattern


class DeadLetterPolicy(Enum):
    """Where dead letters go: messages that expired or failed too often (SEMANTICS F4)."""

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


class WhenFull(Enum):
    """How a send is treated when there is no space for its message (SEMANTICS B6)."""

    INHERIT = "inherit"
    """What `limits.when_full` says."""
    BLOCK = "block"
    FAIL = "fail"


def check_match(match: str) -> None:
    """Raise `Refused` if *match* is no name and no pattern that a policy can be for."""
    prefix, separator, rest = match.partition("://")
    pattern = rest if separator else match
    if separator and prefix not in (Kind.QUEUE.value, Kind.TOPIC.value):
        raise Refused(f'must begin with queue:// or topic:// or neither, not with "{prefix}://"')
    if not pattern or pattern != pattern.strip():
        raise Refused("must be a name or a pattern, with nothing missing and no spaces around it")
    if len(pattern) > NAME_LENGTH_MAX:
        raise Refused(f"must have at most {NAME_LENGTH_MAX} characters, and has {len(pattern)}")
    if "," in pattern or "?" in pattern:
        raise Refused("must be one name or pattern without options; write a table for each of several")
    levels = pattern.split(".")
    for position, level in enumerate(levels, start=1):
        if level not in ("*", ">") and ("*" in level or ">" in level):
            raise Refused(f'a wildcard must be a whole level, as in orders.* or orders.>, not part of "{level}"')
        if level == ">" and position < len(levels):
            raise Refused("a > stands for all the rest, so it must be the last level; * is for one in between")


def _queue_name(default: str, *, reason: str) -> str:
    return fields.option(default, Option(Text(QUEUE_NAME_LENGTH_MAX, check=_check_queue, what="queue name"), reason))


def _check_queue(name: str) -> None:
    if name != name.strip() or re.search(r"[,?*>]|://", name):
        raise Refused(f"must be a queue name without prefix, wildcards, options and commas, and is {quoted(name)}")


@dataclass(frozen=True, slots=True)
class DestinationPolicy:
    """The settings of all destinations that match. Only the most specific pattern applies: a setting that is not in its
    table has its default, whatever wider patterns say."""

    match: str = fields.option(
        ">",
        Option(
            Text(check=check_match, what="destination pattern"),
            "Which destinations: a name, or a pattern in which * is one level and > at the end all the rest. With "
            "queue:// or topic:// in front it is for that kind only. Temporary destinations match by name too.",
        ),
    )
    prefetch_max: int | None = fields.count(
        None,
        highest=32_767,
        reason="Caps the prefetch that consumers of a queue ask for, so that a slow one cannot hoard messages; unless "
        "set, it is left to them. 32767 is the highest that ActiveMQ's clients use.",
    )
    prioritized: bool = fields.switch(
        False,
        reason="A queue dispatches by JMSPriority, highest first; otherwise in the order of arrival, which is faster.",
    )
    exclusive_by_default: bool = fields.switch(
        False, reason="Every consumer of a queue is exclusive, as if it had asked with consumer.exclusive=true."
    )
    consumers_before_dispatch: int = fields.count(
        1,
        highest=10_000,
        reason="A queue waits for this many consumers before it dispatches, so that the first one does not get all.",
    )
    dispatch_wait_seconds_max: float = fields.seconds(
        10, lowest=0, highest=3600, reason="It waits no longer than this for them, counted from the first consumer."
    )
    groups_max: int = fields.count(
        65_536,
        highest=16_777_216,
        reason="Message groups (JMSXGroupID) of one queue whose owners are known; beyond it the longest unused ones "
        "are forgotten, and may get another owner.",
    )
    memory_bytes_max: int | None = fields.size(
        None,
        lowest=4 * KIB,
        highest=1024 * GIB,
        reason="Bytes of messages one queue may hold before its producers wait, so that it cannot fill the broker "
        "alone; unless set, only limits.memory_bytes_max counts.",
    )
    when_full: WhenFull = fields.member(
        WhenFull.INHERIT,
        reason="What a send to a full destination feels. block: it waits for space. fail: it gets an error. "
        "inherit: as limits.when_full says.",
    )
    block_timeout_seconds: float | None = fields.seconds(
        None,
        lowest=0,
        highest=86_400,
        reason="A blocked send gets an error after this long; 0: it waits as long as it takes. Unless set, "
        "limits.block_timeout_seconds counts.",
    )
    topic_pending_messages_max: int | None = fields.count(
        None,
        lowest=0,
        highest=16_777_216,
        reason="Messages that wait for one slow non-durable subscriber of a topic; beyond it some are dropped. Unless "
        "set, only destinations.topic_pending_bytes_max counts.",
    )
    eviction: Eviction = fields.member(Eviction.OLDEST, reason="Which message such a slow subscriber loses first.")
    retained_messages_max: int = fields.count(
        0,
        lowest=0,
        highest=1_000_000,
        reason="Messages a topic keeps for retroactive consumers (consumer.retroactive=true) that come later. A "
        "durable one gets them when nothing else waits for it.",
    )
    retroactive_by_default: bool = fields.switch(
        False,
        reason="Every consumer of a topic that is not durable is retroactive, as if it had asked with "
        "consumer.retroactive=true.",
    )
    expiration_default_seconds: float = fields.seconds(
        0,
        lowest=0,
        highest=10 * 365 * 86_400,
        reason="The time to live of messages that would live for ever; 0: they do.",
    )
    expiration_ceiling_seconds: float = fields.seconds(
        0,
        lowest=0,
        highest=10 * 365 * 86_400,
        reason="Messages live no longer than this, also those that would live for ever; 0: as long as the producer "
        "says.",
    )
    dead_letters: DeadLetterPolicy = fields.member(
        DeadLetterPolicy.SHARED,
        reason="Where messages go that could not be consumed. shared: all into dead_letter_queue. individual: a "
        "queue for each destination, its name behind a prefix. discard: nowhere, they are dropped.",
    )
    dead_letter_queue: str = _queue_name("ActiveMQ.DLQ", reason="The shared queue for dead letters.")
    dead_letter_queue_prefix: str = _queue_name(
        "ActiveMQ.DLQ.Queue.", reason="Individual dead letters of a queue go to this and the queue's name."
    )
    dead_letter_topic_prefix: str = _queue_name(
        "ActiveMQ.DLQ.Topic.",
        reason="Individual dead letters of a durable subscription go to this and the topic's name; always a queue.",
    )
    dead_letter_expired: bool = fields.switch(
        True, reason="Expired messages become dead letters; otherwise they are dropped."
    )
    dead_letter_once: bool = fields.switch(
        True,
        reason="A message that expires or is rejected for several durable subscribers, or in several queues of a "
        "virtual topic, is one dead letter; otherwise one for each. ActiveMQ's enableAudit, with the same default.",
    )
    dead_letter_non_persistent: bool = fields.switch(
        False, reason="Non-persistent messages become dead letters too; otherwise they are dropped."
    )
    broker_redelivery: bool = fields.switch(
        False,
        reason="A rejected message comes back from the broker after a delay, for clients that do not redeliver "
        "themselves; otherwise it is a dead letter at once. The Java client's own redeliveries come first.",
    )
    redeliveries_max: int = fields.count(
        6, lowest=-1, highest=1_000_000, reason="How often the broker tries again before it gives up; -1: without end."
    )
    redelivery_delay_seconds: float = fields.seconds(
        1, lowest=0, highest=86_400, reason="How long the broker waits before the first redelivery."
    )
    redelivery_back_off_multiplier: float = fields.factor(
        1, lowest=1, highest=100, reason="Each further delay is this many times the one before; 1: all are the same."
    )
    redelivery_delay_seconds_max: float = fields.seconds(
        3600, lowest=0, highest=86_400, reason="No delay gets longer than this, however often it was multiplied."
    )
    remove_inactive: bool = fields.switch(
        False,
        reason="A queue or topic that is empty, and has neither consumers, producers nor durable subscriptions, is "
        "removed after a while; otherwise it stays, through restarts too, until a client or an operator removes it. "
        "Needs destinations.inactive_sweep_seconds. ActiveMQ's gcInactiveDestinations.",
    )
    inactive_seconds_min: float = fields.seconds(
        60,
        lowest=0,
        highest=10 * 365 * 86_400,
        reason="How long it must have been empty and unused before it is removed, counted from the first sweep that "
        "found it so. ActiveMQ's inactiveTimeoutBeforeGC.",
    )
    advise_slow_consumers: bool = fields.switch(
        False, reason="Publish on ActiveMQ.Advisory.SlowConsumer.* when a consumer cannot keep up."
    )
    advise_full: bool = fields.switch(False, reason="Publish on ActiveMQ.Advisory.FULL.* when producers have to wait.")
    advise_no_consumers: bool = fields.switch(
        False,
        reason="Publish on ActiveMQ.Advisory.NoConsumer.* the non-persistent messages that are sent while no one "
        "listens.",
    )
    advise_delivered: bool = fields.switch(
        False, reason="Publish on ActiveMQ.Advisory.MessageDelivered.* that a message has reached a queue."
    )
    advise_consumed: bool = fields.switch(
        False, reason="Publish on ActiveMQ.Advisory.MessageConsumed.* that a message was acknowledged."
    )


DEFAULT_POLICY: Final = DestinationPolicy()


class Policies:
    """Finds the policy for a destination."""

    def __init__(self, policies: Sequence[DestinationPolicy] = ()) -> None:
        self._policies = sorted(policies, key=lambda policy: _specificity(policy.match), reverse=True)

    @property
    def limit_memory(self) -> bool:
        """Whether any policy limits the memory of a queue."""
        return any(policy.memory_bytes_max is not None for policy in self._policies)

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


def _specificity(match: str) -> tuple[tuple[int, ...], bool]:
    """Level by level from the left: a name before `*`, `*` before `>`; then with a kind before without."""
    prefix, separator, rest = match.partition("://")
    levels = (rest if separator else prefix).split(".")
    ranks = tuple({">": 0, "*": 1}.get(level, 2) for level in levels)
    # a.> stands for a as well, so the end of a pattern counts more than any further level.
    return (*ranks, 3), bool(separator)

"""Remembers which messages are in a dead-letter queue, so that each goes there once (SEMANTICS F4).

A message that was published to five hundred durable subscribers expires five hundred times, and the copies of a virtual
topic or of a composite are one message, too. As in ActiveMQ the memory belongs to the policy, or to each destination
where dead letters have a queue for each; it is bounded, and gone after a restart. Unlike ActiveMQ's it is exact: what
was never a dead letter is never taken for one. What it forgets may be there twice.
"""

from array import array
from bisect import bisect_right
from collections import OrderedDict
from typing import Final, final

from ackwire.config.policy import DeadLetterPolicy, DestinationPolicy
from ackwire.jms.destinations import Destination
from ackwire.jms.message import Message

_PRODUCERS_MAX: Final = 1024
"""Producers that one memory knows; the longest unheard is forgotten."""
_RUNS_MAX: Final = 2048
"""Runs of consecutive messages of one producer; beyond it the oldest half is forgotten."""
_MEMORIES_MAX: Final = 10_000
"""Memories in all, as many as there are policies, or destinations with a dead-letter queue of their own."""


@final
class Counts:
    """A set of numbers that mostly follow each other: runs in order."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self) -> None:
        self._firsts = array("q")
        self._lasts = array("q")

    def add(self, count: int) -> bool:
        """Whether *count* was not in it yet."""
        firsts, lasts = self._firsts, self._lasts
        index = bisect_right(firsts, count)  # of the run behind it
        if index and count <= lasts[index - 1]:
            return False
        joins_former = index > 0 and lasts[index - 1] == count - 1
        joins_next = index < len(firsts) and firsts[index] == count + 1
        if joins_former and joins_next:
            lasts[index - 1] = lasts[index]
            del firsts[index], lasts[index]
        elif joins_former:
            lasts[index - 1] = count
        elif joins_next:
            firsts[index] = count
        else:
            firsts.insert(index, count)
            lasts.insert(index, count)
            if len(firsts) > _RUNS_MAX:
                del firsts[: _RUNS_MAX // 2], lasts[: _RUNS_MAX // 2]
        return True

    def discard(self, count: int) -> None:
        """*count* is not in it any more."""
        firsts, lasts = self._firsts, self._lasts
        index = bisect_right(firsts, count) - 1
        if index < 0 or count > lasts[index]:
            return
        first, last = firsts[index], lasts[index]
        left = [(a, b) for a, b in ((first, count - 1), (count + 1, last)) if a <= b]
        firsts[index : index + 1] = array("q", [a for a, _ in left])
        lasts[index : index + 1] = array("q", [b for _, b in left])


@final
class DeadLetterMemory:
    """The dead letters of all policies."""

    def __init__(self) -> None:
        self._memories: OrderedDict[tuple[int, Destination | None], OrderedDict[bytes, Counts]] = OrderedDict()
        self._policies: dict[int, DestinationPolicy] = {}
        """Keeps alive what the keys above stand for."""

    def is_first(self, policy: DestinationPolicy, message: Message) -> bool:
        """Whether *message* is to be kept: it was not before, as far as is known."""
        if not policy.dead_letter_once:
            return True
        producers = self._producers(policy, message.destination)
        producer = message.origin.producer_key
        counts = producers.get(producer)
        if counts is None:
            counts = producers[producer] = Counts()
            if len(producers) > _PRODUCERS_MAX:
                producers.popitem(last=False)
        else:
            producers.move_to_end(producer)
        return counts.add(message.producer_count)

    def forget(self, policy: DestinationPolicy, message: Message) -> None:
        """*message* has left the dead-letter queue and is on its way again: it may come back there."""
        if policy.dead_letter_once:
            counts = self._producers(policy, message.destination).get(message.origin.producer_key)
            if counts is not None:
                counts.discard(message.producer_count)

    def _producers(self, policy: DestinationPolicy, where: Destination) -> OrderedDict[bytes, Counts]:
        self._policies[id(policy)] = policy
        key = (id(policy), where if policy.dead_letters is DeadLetterPolicy.INDIVIDUAL else None)
        producers = self._memories.get(key)
        if producers is None:
            producers = self._memories[key] = OrderedDict()
            if len(self._memories) > _MEMORIES_MAX:
                self._memories.popitem(last=False)
        else:
            self._memories.move_to_end(key)
        return producers

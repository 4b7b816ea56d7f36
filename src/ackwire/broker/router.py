"""From names to destinations: patterns, composites, virtual topics (SEMANTICS A8)."""

from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar, final

from ackwire.broker.numbered_set import NumberedSet
from ackwire.broker.patterns import PatternTree
from ackwire.jms.destinations import Destination, Kind, matches_pattern

_VIRTUAL_TOPIC: Final = "VirtualTopic"
_VIRTUAL_TOPIC_PREFIX: Final = "VirtualTopic."
_CONSUMER_PREFIX: Final = "Consumer."

_LOOKS: Final = 8
"""Names that are looked at before a search lets its caller see whether it is time to stop."""

T = TypeVar("T")


@final
class Router(Generic[T]):
    """Every destination by name, and who is interested in names that are still to come."""

    def __init__(self) -> None:
        self._known: dict[Destination, T] = {}
        self._numbered_by_kind: dict[Kind, NumberedSet[Destination]] = {it: NumberedSet() for it in Kind}
        self._watchers: dict[Kind, PatternTree[Callable[[Destination, T], None]]] = {it: PatternTree() for it in Kind}
        self._virtual_queues: dict[str, list[Destination]] = {}
        """For each virtual topic, the queues that name it."""
        self._virtual_patterns: PatternTree[Destination] = PatternTree()
        """The queues that name virtual topics by a pattern, such as `Consumer.A.VirtualTopic.X.>`."""
        self._pattern_numbers: dict[Destination, int] = {}
        """Of those queues, where the tree has them."""

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._known.values()))

    def names(self) -> list[Destination]:
        return list(self._known)

    def numbered(self, kind: Kind) -> NumberedSet[Destination]:
        """The names of that kind in the order of their making."""
        return self._numbered_by_kind[kind]

    def get(self, destination: Destination) -> T | None:
        return self._known.get(destination)

    def add(self, destination: Destination, made: T) -> None:
        """Make *made* known, and tell those whose pattern it matches."""
        self._known[destination] = made
        self._numbered_by_kind[destination.kind].add(destination)
        topics = _virtual_topics_of(destination)
        if topics is not None and destination.is_wildcard:
            # A queue of its own, though its name is a pattern: it is for consumers of this very name.
            self._pattern_numbers[destination] = self._virtual_patterns.add(topics, destination)
            return
        if topics is not None:
            self._virtual_queues.setdefault(topics, []).append(destination)
        for on_match in self._watchers[destination.kind].matching(destination.name):
            on_match(destination, made)

    def remove(self, destination: Destination) -> None:
        del self._known[destination]
        self._numbered_by_kind[destination.kind].discard(destination)
        topics = _virtual_topics_of(destination)
        if topics is None:
            return
        if destination in self._pattern_numbers:
            self._virtual_patterns.remove(topics, self._pattern_numbers.pop(destination))
            return
        queues = self._virtual_queues[topics]
        queues.remove(destination)
        if not queues:
            del self._virtual_queues[topics]

    def matching(self, pattern: Destination) -> Iterator[tuple[Destination, T] | None]:
        """The known destinations that *pattern* stands for, as they are found; None after a look at others.

        The caller may stop in between, and go on later: a destination that is removed meanwhile is not found, and one
        that is made meanwhile is not either (`watch` tells of it).
        """
        numbered = self._numbered_by_kind[pattern.kind]
        after, last = 0, numbered.last_number
        while portion := numbered.between(after, last, _LOOKS):
            for number, known in portion:
                after = number
                if matches_pattern(pattern.name, known.name) and known not in self._pattern_numbers:
                    made = self._known.get(known)
                    if made is not None and numbered.number_of(known) == number:
                        yield known, made
            yield None

    def watch(self, pattern: Destination, on_match: Callable[[Destination, T], None]) -> Callable[[], None]:
        """Call *on_match* for every destination made from now on that *pattern* stands for; returns how to stop."""
        watchers = self._watchers[pattern.kind]
        number = watchers.add(pattern.name, on_match)
        return lambda: watchers.remove(pattern.name, number)

    def is_watched(self, destination: Destination) -> bool:
        """Whether a pattern that is watched matches the name."""
        return self._watchers[destination.kind].has_match(destination.name)

    def virtual_queues(self, topic: Destination) -> list[Destination]:
        """The queues behind a virtual topic: `Consumer.NAME.VirtualTopic.X` for `VirtualTopic.X`, and those whose name
        is a pattern for it."""
        queues = list(self._virtual_queues.get(topic.name, ()))
        if self._pattern_numbers:
            queues += self._virtual_patterns.matching(topic.name)
        return queues


def is_virtual_topic(topic: Destination) -> bool:
    """Whether what is published on *topic* goes to queues as well (A8)."""
    name = topic.name
    return topic.kind is Kind.TOPIC and (name.startswith(_VIRTUAL_TOPIC_PREFIX) or name == _VIRTUAL_TOPIC)


def is_virtual_pattern(where: Destination) -> bool:
    """Whether *where*, though its name is a pattern, is a queue: of consumers of several virtual topics.

    As in ActiveMQ, `Consumer.A.VirtualTopic.X.>` has a copy of all that is published on `VirtualTopic.X` and below.
    """
    return where.is_wildcard and _virtual_topics_of(where) is not None


def _virtual_topics_of(queue: Destination) -> str | None:
    """The virtual topic, or the pattern for some, that *queue* is a consumer queue of, if its name says so."""
    if queue.kind is not Kind.QUEUE or not queue.name.startswith(_CONSUMER_PREFIX):
        return None
    group, _, topics = queue.name[len(_CONSUMER_PREFIX) :].partition(".")
    if group == ">":
        return ">"
    return topics if topics.partition(".")[0] in (_VIRTUAL_TOPIC, "*", ">") else None

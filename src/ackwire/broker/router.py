"""From names to destinations: patterns, composites, virtual topics (SEMANTICS A8)."""

from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar, final

from ackwire.broker.patterns import PatternTree
from ackwire.destinations import Destination, Kind, matches_pattern

VIRTUAL_TOPIC_PREFIX: Final = "VirtualTopic."
_CONSUMER_PREFIX: Final = "Consumer."

_LOOKS: Final = 8
"""Names that are looked at in vain before a search lets its caller see whether it is time to stop."""

T = TypeVar("T")


@final
class Router(Generic[T]):
    """Every destination by name, and who is interested in names that are still to come."""

    def __init__(self) -> None:
        self._known: dict[Destination, T] = {}
        self._watchers: dict[Kind, PatternTree[Callable[[Destination, T], None]]] = {it: PatternTree() for it in Kind}
        self._virtual_queues: dict[str, list[Destination]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._known.values()))

    def names(self) -> list[Destination]:
        return list(self._known)

    def get(self, destination: Destination) -> T | None:
        return self._known.get(destination)

    def add(self, destination: Destination, made: T) -> None:
        """Make *made* known, and tell those whose pattern it matches."""
        self._known[destination] = made
        topic_name = _virtual_topic_of(destination)
        if topic_name is not None:
            self._virtual_queues.setdefault(topic_name, []).append(destination)
        for on_match in self._watchers[destination.kind].matching(destination.name):
            on_match(destination, made)

    def remove(self, destination: Destination) -> None:
        del self._known[destination]
        topic_name = _virtual_topic_of(destination)
        if topic_name is not None:
            queues = self._virtual_queues[topic_name]
            queues.remove(destination)
            if not queues:
                del self._virtual_queues[topic_name]

    def matching(self, pattern: Destination) -> Iterator[tuple[Destination, T] | None]:
        """The known destinations that *pattern* stands for, as they are found; None after a look at others.

        The caller may stop in between, and go on later: a destination that is removed meanwhile is not found, and one
        that is made meanwhile is not either (`watch` tells of it).
        """
        for number, (known, made) in enumerate(list(self._known.items())):
            if _stands_for(pattern, known):
                if self._known.get(known) is made:
                    yield known, made
            elif number % _LOOKS == 0:
                yield None

    def watch(self, pattern: Destination, on_match: Callable[[Destination, T], None]) -> Callable[[], None]:
        """Call *on_match* for every destination made from now on that *pattern* stands for; returns how to stop."""
        watchers = self._watchers[pattern.kind]
        number = watchers.add(pattern.name, on_match)
        return lambda: watchers.remove(pattern.name, number)

    def is_watched(self, destination: Destination) -> bool:
        """Whether somebody waits for destinations of such a name."""
        return self._watchers[destination.kind].has_match(destination.name)

    def virtual_queues(self, topic: Destination) -> list[Destination]:
        """The queues behind a virtual topic: `Consumer.NAME.VirtualTopic.X` for `VirtualTopic.X`."""
        return list(self._virtual_queues.get(topic.name, ()))


def _stands_for(pattern: Destination, destination: Destination) -> bool:
    return pattern.kind is destination.kind and matches_pattern(pattern.name, destination.name)


def _virtual_topic_of(destination: Destination) -> str | None:
    """The virtual topic that *destination* is a consumer queue of, if its name says so."""
    if destination.kind is not Kind.QUEUE or not destination.name.startswith(_CONSUMER_PREFIX):
        return None
    topic_name = destination.name[len(_CONSUMER_PREFIX) :].partition(".")[2]
    return topic_name if topic_name.startswith(VIRTUAL_TOPIC_PREFIX) else None

"""What is known in memory of a database: its places, and how far durable subscriptions are. No messages."""

from collections.abc import Collection
from typing import Final, final

from ackwire.jms.destinations import Destination, Kind, is_unicode
from ackwire.store.contract import DurableKey, DurableRecord, Place
from ackwire.store.sql.progress import Progress
from ackwire.store.sql.schema import NAME_LENGTH_MAX


def fits(text: str) -> bool:
    """Whether a name can stand in a column of ActiveMQ's tables, in every database, and be told from other names:
    MariaDB takes no account of spaces at the end, PostgreSQL knows no NUL."""
    return len(text) <= NAME_LENGTH_MAX and is_unicode(text) and "\0" not in text and not text.endswith(" ")


def container_of(destination: Destination) -> str | None:
    """`CONTAINER` for a queue or topic; None if ActiveMQ's tables cannot have it."""
    if destination.kind.is_temporary:
        return None
    name = repr(destination)
    return name if fits(name) else None


@final
class PlaceInfo:
    """What is known of one place."""

    __slots__ = ("container", "dispatched", "dispatched_before", "has_extra", "place", "place_id", "progress", "terms")

    def __init__(self, place_id: int, place: Place, dispatched: int = 0, terms: DurableRecord | None = None) -> None:
        self.place_id = place_id
        self.place = place
        self.dispatched = self.dispatched_before = dispatched
        self.terms = terms
        is_queue = isinstance(place, Destination) and place.kind is Kind.QUEUE
        self.container = container_of(place) if is_queue and isinstance(place, Destination) else None
        """Of a queue whose messages are in ActiveMQ's table."""
        self.has_extra = False
        """Whether messages of it may be in `ACKWIRE_MSGS`."""
        self.progress: dict[str, Progress] = {}
        """Of a durable subscription, by topic."""

    @property
    def is_shared(self) -> bool:
        """Whether it is a subscription that ActiveMQ's tables can have."""
        key, terms = self.place, self.terms
        if terms is None or not isinstance(key, DurableKey):
            return False
        texts = (key.client_id, key.name, repr(terms.destination), terms.selector or "")
        return terms.destination.kind is Kind.TOPIC and all(map(fits, texts))


_FEW_SUBSCRIPTIONS: Final = 16
"""Up to so many subscriptions of a topic are asked whether they still need a message that one of them has finished."""


@final
class Catalog:
    """All places, and who waits for the messages of which topic."""

    def __init__(self) -> None:
        self.places: dict[Place, PlaceInfo] = {}
        self.topics: dict[str, dict[int, PlaceInfo]] = {}
        """For each topic its subscriptions, by place."""
        self.touched: dict[int, PlaceInfo] = {}
        """Subscriptions that may be further than the database knows."""
        self.last_sequence = 0
        self._next_id = 1

    def add(self, info: PlaceInfo) -> PlaceInfo:
        self.places[info.place] = info
        self._next_id = max(self._next_id, info.place_id + 1)
        return info

    def make(self, place: Place) -> PlaceInfo:
        return self.add(PlaceInfo(self._next_id, place))

    def forget(self, info: PlaceInfo) -> list[str]:
        """Forget a place; return the topics that it had subscribed to."""
        del self.places[info.place]
        self.touched.pop(info.place_id, None)
        topics = list(info.progress)
        for container in topics:
            subscriptions = self.topics[container]
            del subscriptions[info.place_id]
            if not subscriptions:
                del self.topics[container]
        return topics

    def subscribe(self, info: PlaceInfo, container: str, progress: Progress) -> Progress:
        info.progress[container] = progress
        self.topics.setdefault(container, {})[info.place_id] = info
        return progress

    def use_sequence(self, sequence: int) -> None:
        if sequence > self.last_sequence:
            self.last_sequence = sequence

    # ---- which messages of a topic are needed ----------------------------------------------------------------------

    def skip(self, container: str, takers: set[int], sequence: int) -> None:
        """Note that only *takers* of the subscriptions of a topic get a message."""
        for place_id, info in self.topics.get(container, {}).items():
            if place_id not in takers:
                info.progress[container].skip(sequence)
                self.touched[place_id] = info

    def has_few_subscriptions(self, container: str) -> bool:
        return len(self.topics.get(container, ())) <= _FEW_SUBSCRIPTIONS

    def is_needed(self, container: str, sequence: int) -> bool:
        """Whether a subscription waits for a message of a topic."""
        return any(sequence in info.progress[container].pending for info in self.topics.get(container, {}).values())

    def is_needed_by_others(self, container: str, sequence: int, places: Collection[Place]) -> bool:
        """The same for subscriptions that are not in *places*."""
        subscriptions = self.topics.get(container, {}).values()
        return any(sequence in it.progress[container].pending for it in subscriptions if it.place not in places)

    def floor(self, container: str) -> int | None:
        """Up to which sequence no subscription needs the messages of a topic; None: there is no subscription."""
        subscriptions = self.topics.get(container)
        return min(it.progress[container].acked for it in subscriptions.values()) if subscriptions else None

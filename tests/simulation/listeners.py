"""Clients of a simulation that listen to more than one topic, and to what the broker tells of itself.

The ledger knows each advisory from the moment the broker writes it, so that it must reach all whose pattern it matches,
and each temporary destination from its owner, so that it must have been told of.
"""

from collections import Counter
from typing import TYPE_CHECKING

from ackwire.wire.openwire import commands
from ackwire.wire.openwire.codec_fast import message_key
from ackwire.wire.openwire.commands import DestinationOperation
from tests.simulation.audit import Violation
from tests.simulation.client import destination_name
from tests.simulation.consumers import DurableSubscriber
from tests.simulation.ledger import DEAD_LETTERS, stands_for
from tests.simulation.subscribers import Subscriber

if TYPE_CHECKING:
    from tests.simulation.world import World

DURABLE_PATTERNS = (
    "topic://>",
    "topic://t.*",
    "topic://*.x",
    "topic://VirtualTopic.>",
    "topic://ActiveMQ.Advisory.>",
    "topic://ActiveMQ.Advisory.TempQueue",
    "topic://ActiveMQ.Advisory.Connection",
)

_ADVISORIES = "topic://ActiveMQ.Advisory."
_DESTINATIONS = tuple(f"{_ADVISORIES}{kind}" for kind in ("Queue", "TempQueue", "TempTopic"))
WATCHED = (
    f"{_ADVISORIES}>",
    f"{_ADVISORIES}Connection",
    f"{_ADVISORIES}Queue",
    f"{_ADVISORIES}TempQueue",
    f"{_ADVISORIES}TempTopic",
    f"{_ADVISORIES}Consumer.Queue.>",
)


class WideDurableSubscriber(DurableSubscriber):
    """A durable subscriber to all topics that a pattern stands for, or to an advisory topic."""

    def __init__(self, world: "World", name: str) -> None:
        super().__init__(world, name)
        self.where = self.random.choice(DURABLE_PATTERNS)
        self.selector = self.random.choice((None, None, None, "n = 1"))

    def unsubscribe(self) -> None:
        """End the subscription: what happens from now on is not kept for it."""
        self.note("ends its subscription")
        self.request(
            commands.RemoveSubscriptionInfo(
                connection_id=commands.ConnectionId(self.connection_id),
                subscription_name=self.subscription_name,
                client_id=self.name,
            )
        )
        del self.world.ledger.durables[self._place]


class WideSubscriber(Subscriber):
    """A subscriber that is not durable, to all topics that a pattern stands for."""

    def __init__(self, world: "World", name: str) -> None:
        super().__init__(world, name)
        self.where = self.random.choice(("topic://>", "topic://t.>", "topic://VirtualTopic.*"))


class Watcher(Subscriber):
    """Knows connections, destinations and consumers from advisories alone."""

    def __init__(self, world: "World", name: str) -> None:
        super().__init__(world, name)
        self.where = self.random.choice(WATCHED)
        self.selector = None
        self._known: dict[str, set[str]] = {}
        """What exists, by the subject of the advisory topic."""
        self._added: Counter[str] = Counter()
        """How often each temporary destination was made."""

    def on_lost(self) -> None:
        super().on_lost()
        self._known.clear()
        self._added.clear()

    def on_dispatch(self, dispatch: commands.MessageDispatch) -> None:
        super().on_dispatch(dispatch)
        message = dispatch.message
        assert message is not None
        assert message.destination is not None
        key = message_key(message.message_id)
        assert key is not None
        self.note(f"hears {self.world.ledger.sent[key].text}")
        topic = destination_name(message.destination)
        match message.data_structure:
            case commands.DestinationInfo(destination=where, operation_type=DestinationOperation.ADD):
                assert where is not None
                self._added[destination_name(where)] += 1
                self._learn(topic, destination_name(where))
            case commands.DestinationInfo(destination=where):
                assert where is not None
                self._forget(topic, destination_name(where))
            case commands.ConnectionInfo(connection_id=connection):
                assert connection is not None
                self._learn(topic, str(connection.value))
            case commands.ConsumerInfo(consumer_id=consumer) if topic.startswith(f"{_ADVISORIES}Consumer."):
                self._learn(topic, str(consumer))
            case commands.RemoveInfo(object_id=commands.ConnectionId(value=connection_id)):
                self._forget(topic, str(connection_id))
            case commands.RemoveInfo(object_id=commands.ConsumerId() as consumer):
                self._forget(topic, str(consumer))

    def _learn(self, topic: str, what: str) -> None:
        known = self._known.setdefault(topic, set())
        if what in known:
            raise Violation(f"{self.name} is told on {topic} that {what} is new, and knows it already")
        known.add(what)

    def _forget(self, topic: str, what: str) -> None:
        self._known.setdefault(topic, set()).discard(what)  # it may have gone before it was replayed

    def settle(self) -> None:
        """Everybody is at rest: what it knows is what is there."""
        super().settle()
        if self._since is None:
            return
        there = self._what_is_there()
        for topic in filter(lambda it: stands_for(self.where, it), there):
            known = self._known.get(topic, set()) - {DEAD_LETTERS}
            if known != there[topic]:
                wrong = sorted(known ^ there[topic])
                raise Violation(f"{self.name} is told on {topic} of {sorted(known)}; wrong is {wrong}")
        self._settle_temporaries(self._since)

    def _what_is_there(self) -> dict[str, set[str]]:
        """What clients say, by the advisory topic that tells of it."""
        there: dict[str, set[str]] = {it: set() for it in _DESTINATIONS}
        there[f"{_ADVISORIES}Queue"].update(self.world.queues)
        for temporary in self.world.ledger.temporaries.values():
            if temporary.ended_at is None:
                kind = "TempQueue" if temporary.name.startswith("temp-queue") else "TempTopic"
                there[f"{_ADVISORIES}{kind}"].add(temporary.name)
        there[f"{_ADVISORIES}Connection"] = {client.connection_id for client in self.world.everybody()}
        for where, consumer in self.world.drains_of_queues():
            if where.endswith(">"):
                continue  # there is no advisory topic about a pattern
            there.setdefault(f"{_ADVISORIES}Consumer.Queue.{where.removeprefix('queue://')}", set()).add(consumer)
        return there

    def _settle_temporaries(self, since: int) -> None:
        for temporary in self.world.ledger.temporaries.values():
            kind = "TempQueue" if temporary.name.startswith("temp-queue") else "TempTopic"
            is_heard = stands_for(self.where, f"{_ADVISORIES}{kind}") and temporary.asked_at > since
            if is_heard and temporary.made_at is not None and not self._added[temporary.name]:
                raise Violation(f"{self.name} was never told that {temporary.name} was made")

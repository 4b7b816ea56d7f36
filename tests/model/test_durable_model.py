"""Durable subscriptions against a list for each: what is published while one exists waits for it until it is acked."""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ackwire.errors import BrokerError
from ackwire.jms.types import Int
from ackwire.store.contract import DurableKey
from tests.helpers.broker_rig import BrokerRig, RigClient, RigConsumer
from tests.helpers.broker_rig import contents as contents_of
from tests.simulation.audit import audit

TOPICS = ("topic://t", "topic://u")
SELECTORS = {None: range(4), "n = 1": (1,), "n > 1": (2, 3)}
NAMES = ("a", "b")


@dataclass(eq=False)
class Waiting:
    sequence: int
    counter: int = 0


@dataclass(eq=False)
class Reference:
    """What a durable subscription is: terms, and what waits."""

    topic: str
    selector: str | None
    no_local: bool
    waiting: list[Waiting] = field(default_factory=list)


class DurableModel(RuleBasedStateMachine):
    """Two names of one client id; the client may be away."""

    @initialize()
    def start(self) -> None:
        self.rig = BrokerRig()
        self.publisher = self.rig.connect("publisher")
        self.client: RigClient | None = self.rig.connect("client")
        self.terms: dict[str, Reference] = {}
        self.active: dict[str, RigConsumer] = {}

    @rule(topic=st.sampled_from(TOPICS), number=st.integers(0, 3), persistent=st.booleans(), own=st.booleans())
    def publish(self, topic: str, number: int, persistent: bool, own: bool) -> None:
        sender = self.client if own and self.client is not None else self.publisher
        message = sender.send(topic, properties={"n": Int(number)}, persistent=persistent)
        for terms in self.terms.values():
            is_local = terms.no_local and sender is self.client
            if terms.topic == topic and number in SELECTORS[terms.selector] and not is_local:
                terms.waiting.append(Waiting(message.sequence))

    @rule(
        name=st.sampled_from(NAMES),
        topic=st.sampled_from(TOPICS),
        selector=st.sampled_from((None, None, "n = 1", "n > 1")),
        no_local=st.sampled_from((False, False, True)),
        prefetch=st.sampled_from((1, 3, 100)),
    )
    def subscribe(self, name: str, topic: str, selector: str | None, no_local: bool, prefetch: int) -> None:
        if self.client is None:
            return
        old = self.terms.get(name)
        try:
            consumer = self.client.consumer(
                topic, prefetch=prefetch, selector=selector, no_local=no_local, subscription_name=name
            )
        except BrokerError:
            assert name in self.active, "refused, and the subscription has no consumer"
            return
        assert name not in self.active, "a durable subscription has one consumer"
        self.active[name] = consumer
        if old is None or (old.topic, old.selector, old.no_local) != (topic, selector, no_local):
            self.terms[name] = Reference(topic, selector, no_local)

    @rule(name=st.sampled_from(NAMES), share=st.integers(1, 5))
    def ack(self, name: str, share: int) -> None:
        consumer = self.active.get(name)
        in_flight = [] if consumer is None else list(getattr(consumer.subscription, "in_flight"))  # noqa: B009
        if consumer is None or not in_flight:
            return
        count = min(share, len(in_flight))
        consumer.ack(in_flight[count - 1], first=in_flight[0], count=count)
        assert [m.sequence for m in in_flight[:count]] == [w.sequence for w in self.terms[name].waiting[:count]]
        del self.terms[name].waiting[:count]

    @rule(name=st.sampled_from(NAMES), saw_them=st.booleans())
    def close(self, name: str, saw_them: bool) -> None:
        consumer = self.active.pop(name, None)
        if consumer is not None:
            self._given_back(name, consumer, saw_them)
            consumer.close(-2 if saw_them else -1)

    @rule()
    def leave(self) -> None:
        if self.client is None:
            return
        for name, consumer in self.active.items():
            self._given_back(name, consumer, True)
        self.active.clear()
        self.client.disconnect()
        self.client = None

    @rule()
    def come_back(self) -> None:
        if self.client is None:
            self.client = self.rig.connect("client")

    @rule(name=st.sampled_from(NAMES))
    def unsubscribe(self, name: str) -> None:
        try:
            self.rig.broker.remove_durable("client", name)
        except BrokerError:
            assert name in self.active or name not in self.terms
            return
        assert name not in self.active
        del self.terms[name]

    def _given_back(self, name: str, consumer: RigConsumer, saw_them: bool) -> None:
        count = consumer.subscription.dispatched
        for waiting in self.terms[name].waiting[:count]:
            waiting.counter += 1 if saw_them else 0

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "rig"):
            return
        audit(self.rig.broker, self.rig.store)
        self.rig.audit.check(self.rig.broker)
        durables = self.rig.broker.registry.durables
        assert {key.name for key in durables} == set(self.terms)
        for name, terms in self.terms.items():
            contents = contents_of(durables[DurableKey("client", name)].queue)
            assert [m.sequence for m in contents] == [waiting.sequence for waiting in terms.waiting]
            assert [m.redelivery_counter for m in contents] == [waiting.counter for waiting in terms.waiting]
        assert {record.key.name for record in self.rig.store.durables()} == set(self.terms)


TestDurableModel = DurableModel.TestCase
TestDurableModel.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)

"""The broker's queue against a small one written plainly: random commands, and both must agree at every step.

The reference knows what JMS says and nothing of lanes, positions or gaps: a list in order, and for each consumer what
it holds. It does not choose who gets a message, it checks the choice: each delivery must be the first message in the
list that the consumer may have, and afterwards nobody with room may stand beside a message for it.
"""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ackwire.broker.in_flight import AckKind, UnmatchedAck
from ackwire.broker.queue import Queue
from ackwire.config.policy import DestinationPolicy
from ackwire.errors import BrokerError
from ackwire.jms.message import Message
from ackwire.jms.types import Int
from ackwire.wire.openwire import commands
from tests.helpers.broker_rig import BrokerRig, RigClient, RigConsumer, named, paging_rig
from tests.helpers.broker_rig import contents as contents_of
from tests.helpers.operating import purged
from tests.simulation.audit import audit

QUEUE = "queue://q"
SELECTORS = {None: range(4), "n = 1": (1,), "n > 1": (2, 3)}


@dataclass(eq=False)
class Item:
    """A message of the reference queue."""

    sequence: int
    number: int
    priority: int
    expiration: int
    group: str | None
    closes_group: bool
    persistent: bool
    counter: int = 0


@dataclass(eq=False)
class Model:
    """A consumer of the reference queue."""

    client: RigClient
    real: RigConsumer
    selector: str | None
    prefetch: int
    exclusive: bool
    priority: int
    held: list[Item] = field(default_factory=list)
    collected: list[Item] = field(default_factory=list)
    """Acknowledged in the open transaction."""
    transaction: commands.TransactionId | None = None
    extension: int = 0
    taken_over: int = 0
    """How many of the real consumer's deliveries were compared."""

    @property
    def has_room(self) -> bool:
        return len(self.held) < self.prefetch + self.extension

    def wants(self, item: Item) -> bool:
        return item.number in SELECTORS[self.selector]


class QueueModel(RuleBasedStateMachine):
    """Both queues side by side."""

    @initialize(prioritized=st.booleans())
    def start(self, prioritized: bool) -> None:
        self.prioritized = prioritized
        policy = DestinationPolicy(match="q", prioritized=prioritized, groups_max=2)
        self.rig = self._rig(policy)
        self.producer = self.rig.connect("producer")
        made = self.rig.broker.registry.get_or_make(named(QUEUE))
        assert isinstance(made, Queue)
        self.queue = made
        self.pending: list[Item] = []
        self.consumers: list[Model] = []
        self.dead: list[int] = []
        self.transactions = 0
        self.enqueued = self.dequeued = self.expired = self.purged = 0

    def _rig(self, policy: DestinationPolicy) -> BrokerRig:
        return BrokerRig(policies=(policy,))

    # ---- commands ----------------------------------------------------------------------------------------------

    @rule(
        number=st.integers(0, 3),
        priority=st.sampled_from((4, 4, 0, 9)),
        lives_ms=st.sampled_from((0, 0, 0, 500)),
        group=st.sampled_from((None, None, "g", "h", "i")),
        closes=st.booleans(),
        persistent=st.booleans(),
    )
    def send(
        self, number: int, priority: int, lives_ms: int, group: str | None, closes: bool, persistent: bool
    ) -> None:
        expiration = self.rig.clock.now_ms() + lives_ms if lives_ms else 0
        message = self.producer.message(
            QUEUE,
            properties={"n": Int(number)},
            priority=priority,
            expiration=expiration,
            group_id=group,
            group_sequence=-1 if group and closes else 0,
            persistent=persistent,
        )
        self.producer.send_message(message)
        self.enqueued += 1
        item = Item(message.sequence, number, priority, expiration, group, closes, persistent)
        self.pending.append(item)
        self.pending.sort(key=self._order)
        self._take_over()

    def _order(self, item: Item) -> tuple[int, int]:
        return (-item.priority if self.prioritized else 0, item.sequence)

    @rule(
        selector=st.sampled_from((None, None, "n = 1", "n > 1")),
        prefetch=st.sampled_from((1, 2, 5, 100)),
        exclusive=st.sampled_from((False, False, False, True)),
        priority=st.sampled_from((0, 0, 5)),
    )
    def subscribe(self, selector: str | None, prefetch: int, exclusive: bool, priority: int) -> None:
        if len(self.consumers) == 3:
            return
        client = self.rig.connect()
        real = client.consumer(QUEUE, prefetch=prefetch, selector=selector, exclusive=exclusive, priority=priority)
        self.consumers.append(Model(client, real, selector, prefetch, exclusive, priority))
        self._take_over()

    @rule(who=st.integers(0, 2), first=st.integers(0, 9), last=st.integers(0, 9), in_transaction=st.booleans())
    def ack_range(self, who: int, first: int, last: int, in_transaction: bool) -> None:
        consumer = self._consumer(who)
        if consumer is None or not consumer.held:
            return
        start, end = sorted((first % len(consumer.held), last % len(consumer.held)))
        items = consumer.held[start : end + 1]
        transaction = self._transaction(consumer) if in_transaction else None
        messages = self._messages(consumer, items)
        consumer.real.ack(messages[-1], first=messages[0], count=len(items), transaction=transaction)
        self._leave(consumer, items)
        if transaction is None:
            self.dequeued += len(items)
        else:
            consumer.collected += items
        self._take_over()

    @rule(who=st.integers(0, 2), index=st.integers(0, 9), kind=st.sampled_from((AckKind.INDIVIDUAL, AckKind.POISON)))
    def ack_one(self, who: int, index: int, kind: AckKind) -> None:
        consumer = self._consumer(who)
        if consumer is None or not consumer.held:
            return
        item = consumer.held[index % len(consumer.held)]
        message = self._messages(consumer, [item])[0]
        consumer.real.ack(message, first=message, kind=kind)
        self._leave(consumer, [item])
        self.dequeued += 1
        if kind is AckKind.POISON and item.persistent:
            self.dead.append(item.sequence)
        self._take_over()

    @rule(who=st.integers(0, 2), index=st.integers(0, 9))
    def ack_delivered(self, who: int, index: int) -> None:
        consumer = self._consumer(who)
        if consumer is None or not consumer.held:
            return
        position = index % len(consumer.held)
        consumer.real.ack(self._messages(consumer, [consumer.held[position]])[0], kind=AckKind.DELIVERED)
        consumer.extension = max(consumer.extension, position + 1)
        self._take_over()

    @rule(who=st.integers(0, 2), last=st.integers(0, 9))
    def ack_redelivered(self, who: int, last: int) -> None:
        consumer = self._consumer(who)
        if consumer is None or not consumer.held:
            return
        items = consumer.held[: last % len(consumer.held) + 1]
        message = self._messages(consumer, items)[-1]
        consumer.real.ack(message, count=len(items), kind=AckKind.REDELIVERED)
        # As in ActiveMQ nothing follows from it: what the client does not finish is counted when it goes.

    @rule(who=st.integers(0, 2), index=st.integers(0, 9))
    def ack_expired(self, who: int, index: int) -> None:
        consumer = self._consumer(who)
        if consumer is None or not consumer.held:
            return
        item = consumer.held[index % len(consumer.held)]
        message = self._messages(consumer, [item])[0]
        consumer.real.ack(message, first=message, kind=AckKind.EXPIRED)
        self._leave(consumer, [item])
        self._expire(item)
        self._take_over()

    @rule(who=st.integers(0, 2), count=st.integers(-1, 9))
    def ack_nonsense(self, who: int, count: int) -> None:
        """A range that says it is longer or shorter than it is changes nothing."""
        consumer = self._consumer(who)
        if consumer is None or len(consumer.held) < 2 or count == 2:
            return
        first, second = self._messages(consumer, consumer.held[:2])
        try:
            consumer.real.ack(second, first=first, count=count)
        except UnmatchedAck:
            return
        raise AssertionError("an ack of a wrong count was accepted")

    @rule(who=st.integers(0, 2), commits=st.booleans(), repeats=st.booleans())
    def end_transaction(self, who: int, commits: bool, repeats: bool) -> None:
        consumer = self._consumer(who)
        if consumer is None or consumer.transaction is None:
            return
        if commits:
            consumer.client.commit(consumer.transaction)
            if repeats:
                consumer.client.commit(consumer.transaction)
            self.dequeued += len(consumer.collected)
        else:
            consumer.client.roll_back(consumer.transaction)
            consumer.held = consumer.collected + consumer.held
        consumer.collected = []
        consumer.transaction = None
        self._take_over()

    @rule(who=st.integers(0, 2), seen=st.sampled_from(("all", "none", "half")))
    def close(self, who: int, seen: str) -> None:
        consumer = self._consumer(who)
        if consumer is None or consumer.transaction is not None:
            return
        held = sorted(item.sequence for item in consumer.held)
        last = {"all": -2, "none": -1, "half": held[len(held) // 2] if held else -1}[seen]
        self.consumers.remove(consumer)
        for item in consumer.held:
            if last == -2 or item.sequence <= last:
                item.counter += 1
        self._return(consumer.held)
        consumer.real.close(last)
        self._take_over()

    @rule(who=st.integers(0, 2))
    def crash(self, who: int) -> None:
        consumer = self._consumer(who)
        if consumer is None:
            return
        self.consumers.remove(consumer)
        returned = consumer.held + consumer.collected
        for item in returned:
            item.counter += 1
        self._return(returned)
        consumer.client.disconnect()
        self._take_over()

    @rule()
    def purge(self) -> None:
        """What waits goes; what is in flight or acknowledged in a transaction stays, in the store too: `agrees`."""
        assert purged(self.queue) == len(self.pending)
        self.purged += len(self.pending)
        self.pending = []

    @rule(seconds=st.sampled_from((0.1, 0.6, 31.0)))
    def time_passes(self, seconds: float) -> None:
        self.rig.clock.advance(seconds)
        self._take_over()

    # ---- comparing ---------------------------------------------------------------------------------------------

    def _consumer(self, who: int) -> Model | None:
        return self.consumers[who % len(self.consumers)] if self.consumers else None

    def _transaction(self, consumer: Model) -> commands.TransactionId:
        if consumer.transaction is None:
            self.transactions += 1
            consumer.transaction = consumer.client.begin(self.transactions)
        return consumer.transaction

    def _messages(self, consumer: Model, items: list[Item]) -> list[Message]:
        by_sequence = {message.sequence: message for message in consumer.real.delivered}
        return [by_sequence[item.sequence] for item in items]

    def _leave(self, consumer: Model, items: list[Item]) -> None:
        consumer.held = [item for item in consumer.held if item not in items]
        consumer.extension = max(0, consumer.extension - len(items))

    def _return(self, items: list[Item]) -> None:
        self.pending = sorted(self.pending + items, key=self._order)

    def _expire(self, item: Item) -> None:
        self.expired += 1
        if item.persistent:
            self.dead.append(item.sequence)

    def _take_over(self) -> None:
        """See what the broker has done, and judge it."""
        self._take_over_expired()
        for consumer in self.consumers:
            new = consumer.real.delivered[consumer.taken_over :]
            consumer.taken_over += len(new)
            newest: dict[int, int] = {}
            for message in new:
                item = next((i for i in self.pending if i.sequence == message.sequence), None)
                assert item is not None, f"{message!r} was delivered and is not pending in the reference"
                assert consumer.wants(item), f"{message!r} does not match {consumer.selector}"
                assert message.redelivery_counter == item.counter, (message, item)
                level = item.priority if self.prioritized else 0
                assert item.sequence > newest.get(level, 0), "what is sent at once is sent in order"
                newest[level] = item.sequence
                self.pending.remove(item)
                consumer.held.append(item)
            self._passed_over_nothing(consumer, newest)

    def _passed_over_nothing(self, consumer: Model, newest: dict[int, int]) -> None:
        """What was delivered just now was the first that the consumer may have."""
        now_ms = self.rig.clock.now_ms()
        for item in self.pending:
            level = item.priority if self.prioritized else 0
            free = item.group is None and not 0 < item.expiration <= now_ms
            assert not (free and consumer.wants(item) and item.sequence < newest.get(level, 0)), item

    def _take_over_expired(self) -> None:
        """Expiry is noticed when a message would be sent, or by the sweep: the broker may be late, never early."""
        there = {message.sequence for message in contents_of(self.queue)}
        now_ms = self.rig.clock.now_ms()
        delivered = {message.sequence for c in self.consumers for message in c.real.delivered[c.taken_over :]}
        for item in list(self.pending):
            if item.sequence not in there:
                assert 0 < item.expiration <= now_ms, f"message {item.sequence} is gone"
                self.pending.remove(item)
                self._expire(item)
            assert not (item.sequence in delivered and 0 < item.expiration <= now_ms), "an expired one was sent"

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "rig"):
            return
        audit(self.rig.broker, self.rig.store)
        self.rig.audit.check(self.rig.broker)
        expected = sorted(self.pending + [i for c in self.consumers for i in c.held], key=self._order)
        contents = contents_of(self.queue)
        assert [message.sequence for message in contents] == [item.sequence for item in expected]
        assert [message.redelivery_counter for message in contents] == [item.counter for item in expected]
        for consumer in self.consumers:
            in_flight = getattr(consumer.real.subscription, "in_flight")  # noqa: B009
            assert [message.sequence for message in in_flight] == [item.sequence for item in consumer.held]
        collected = sum(len(consumer.collected) for consumer in self.consumers)
        counts = (self.queue.view.pending_count, self.queue.view.in_flight_count)
        assert counts == (len(self.pending), len(expected) - len(self.pending))
        assert (self.queue.contents.enqueued, self.queue.contents.dequeued) == (self.enqueued, self.dequeued)
        assert self.queue.contents.expired == self.expired
        assert self.enqueued == self.dequeued + self.expired + self.purged + len(expected) + collected

    @invariant()
    def dead_letters_agree(self) -> None:
        if hasattr(self, "rig"):
            assert self.rig.pending("queue://ActiveMQ.DLQ") == len(self.dead)

    def teardown(self) -> None:
        """Whatever happened: everybody leaves, one consumer comes, and gets exactly what is left, in order."""
        if not hasattr(self, "rig"):
            return
        for consumer in self.consumers:
            consumer.client.disconnect()
        left = [item for item in self._left() if not 0 < item.expiration <= self.rig.clock.now_ms()]
        last = self.rig.consumer(QUEUE)
        assert [m.sequence for m in last.delivered if m.group_id is None] == [
            item.sequence for item in left if item.group is None
        ]
        assert {m.sequence for m in last.delivered} == {item.sequence for item in left}
        last.ack_each()
        last.client.disconnect()
        assert self.queue.size_bytes == 0
        try:
            self.rig.broker.remove_destination(self.producer.connection, named(QUEUE))
        except BrokerError as error:  # pragma: no cover
            raise AssertionError("nobody uses the queue") from error

    def _left(self) -> list[Item]:
        everything = self.pending + [item for c in self.consumers for item in c.held + c.collected]
        return sorted(everything, key=self._order)


class PagedQueueModel(QueueModel):
    """The same with hardly any memory: nearly all that waits is paged out, and the reference does not notice (B6)."""

    def _rig(self, policy: DestinationPolicy) -> BrokerRig:
        rig, _, self.temp = paging_rig(memory_bytes_max=1, temp_bytes_max=1 << 30, policies=(policy,))
        return rig

    @invariant()
    def what_waits_is_paged_out(self) -> None:
        if hasattr(self, "rig"):
            for level in self.queue.contents.levels:
                fresh = [it for it in level.in_memory() if not it.redelivery_counter and not it.dispatched_ms]
                assert not fresh or self.queue.consumer_count, "nobody asked for them"

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "rig"):
            assert self.temp is not None
            assert not self.temp.frames, "what has gone takes no space in the temp store"


TestQueueModel = QueueModel.TestCase
TestPagedQueueModel = PagedQueueModel.TestCase
TestPagedQueueModel.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestQueueModel.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)

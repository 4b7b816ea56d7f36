"""One million messages through one queue: ten consumers, random acks, rollbacks and crashes (issue 3, Must show 3).

On the broker's core, in one process. Each message must be finished exactly once, whatever happened on the way; and when
all is done the broker must be as empty, and the process as small, as before. `ACKWIRE_MILLION` sets another number.
"""

import gc
import os
import random
import time
from itertools import count

import psutil
import pytest

from ackwire.broker.broker import LAST_DELIVERED_UNKNOWN
from ackwire.broker.in_flight import AckKind
from ackwire.broker.queue import Queue
from ackwire.broker.subscription import QueueSubscription, SubscriptionRequest
from ackwire.jms.message import Message
from ackwire.wire.openwire import commands
from tests.helpers.broker_rig import SESSION, BrokerRig, RigClient, named
from tests.simulation.audit import audit

MESSAGES = int(os.environ.get("ACKWIRE_MILLION", "1000000"))
CONSUMERS = 10
BATCH = 200
WARM_UP = 20_000
MEMORY_TOLERANCE_BYTES = 16 * 1024 * 1024
"""What the allocator may keep: less than 17 bytes for each of the million messages."""
QUEUE = named("queue://million")


class _Port:
    """Counts deliveries; the messages themselves are in flight in the broker."""

    def deliver(self, message: Message, group_first: bool) -> None: ...

    def end_of_messages(self) -> None: ...

    def change_prefetch(self, prefetch: int) -> None: ...


class _Consumer:
    """One of the ten: acknowledges in all ways, rolls back, dies and comes back as another."""

    def __init__(self, crowd: "_Crowd", number: int) -> None:
        self._crowd = crowd
        self._random = crowd.random
        self._number = number
        self._transactions = count(1)
        self._connect()

    def _connect(self) -> None:
        rig, crowd_lives = self._crowd.rig, self._crowd.lives
        self._client: RigClient = rig.connect(f"c{self._number}-{next(crowd_lives)}")
        request = SubscriptionRequest(
            f"{self._client.connection.connection_id}:{SESSION}:1",
            SESSION,
            QUEUE,
            prefetch=self._random.choice((10, 50, 100)),
        )
        made = rig.broker.subscribe(self._client.connection, request, _Port())
        assert isinstance(made, QueueSubscription)
        self._subscription = made

    def act(self) -> None:
        held = list(self._subscription.in_flight)
        if not held:
            return
        chance = self._random.random()
        if chance < 0.02:
            self._crash()
        elif chance < 0.55:
            self._ack(held[: self._random.randrange(len(held)) + 1])
        elif chance < 0.7:
            self._ack_individually(self._random.choice(held))
        elif chance < 0.9:
            self._commit(held[: self._random.randrange(len(held)) + 1])
        elif chance < 0.97:
            self._roll_back(held[: self._random.randrange(len(held)) + 1])
        else:
            self._close_and_come_back()

    def finish(self) -> None:
        held = list(self._subscription.in_flight)
        if held:
            self._ack(held)

    def leave(self) -> None:
        self._client.disconnect()

    def _ack(self, messages: list[Message], **options: object) -> None:
        self._crowd.rig.broker.acknowledge(
            self._subscription,
            AckKind.STANDARD,
            messages[0].key,
            messages[-1].key,
            len(messages),
            transaction_id=options.get("transaction"),
        )
        if not options:
            self._crowd.done(messages)

    def _ack_individually(self, message: Message) -> None:
        self._crowd.rig.broker.acknowledge(self._subscription, AckKind.INDIVIDUAL, None, message.key, 1)
        self._crowd.done([message])

    def _begin(self, messages: list[Message]) -> commands.TransactionId:
        transaction = self._client.begin(next(self._transactions))
        self._ack(messages, transaction=transaction)
        return transaction

    def _commit(self, messages: list[Message]) -> None:
        self._client.commit(self._begin(messages))
        self._crowd.done(messages)

    def _roll_back(self, messages: list[Message]) -> None:
        self._client.roll_back(self._begin(messages))
        if self._random.random() < 0.5:
            self._crash()

    def _crash(self) -> None:
        if self._random.random() < 0.3:
            self._begin(list(self._subscription.in_flight)[:5])
        self._client.disconnect()
        self._connect()

    def _close_and_come_back(self) -> None:
        seen = self._random.choice((LAST_DELIVERED_UNKNOWN, -1))
        self._crowd.rig.broker.unsubscribe(self._subscription, seen)
        self._client.disconnect()
        self._connect()


class _Crowd:
    """The queue, its producer, its consumers, and who has finished what."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lives = count(1)
        """Connection ids are never used again, as with real clients."""
        self.rig = BrokerRig(is_audited=False)  # which remembers everything
        self._producer = self.rig.connect("producer")
        self._template = self._producer.message(QUEUE, "x" * 40)
        made = self.rig.broker.registry.get_or_make(QUEUE)
        assert isinstance(made, Queue)
        self.queue = made
        self._count = 0
        self._finished = bytearray()

    def run(self, messages: int) -> None:
        """Send and consume so many, and let everybody leave."""
        consumers = [_Consumer(self, number) for number in range(CONSUMERS)]
        self._finished = bytearray(self._count + messages)
        end = self._count + messages
        while self._count < end:
            self._send(min(BATCH, end - self._count))
            while self.queue.view.pending_count > 5 * BATCH:
                self.random.choice(consumers).act()
            for _ in range(CONSUMERS):
                self.random.choice(consumers).act()
        while self.queue.size_bytes:
            for consumer in consumers:
                consumer.finish()
        for consumer in consumers:
            consumer.leave()
        assert self._finished[-messages:] == b"\x01" * messages, "each message is finished, and once"

    def _send(self, count: int) -> None:
        connection, broker, template = self._producer.connection, self.rig.broker, self._template
        id_end = template.origin.id_end
        for _ in range(count):
            number = self._count.to_bytes(8)
            message = template.copy()
            message.frame = template.frame[: id_end - 8] + number + template.frame[id_end:]
            message.key = template.origin.producer_key + number
            self._count += 1
            broker.send(connection, message)

    def done(self, messages: list[Message]) -> None:
        for message in messages:
            self._finished[int.from_bytes(message.key[-8:])] += 1


def _live_messages() -> int:
    """Messages that something refers to: compiled, they are not among the collector's objects themselves."""
    gc.collect()
    found: set[int] = set()
    for thing in gc.get_objects():
        found.update(id(it) for it in gc.get_referents(thing) if type(it) is Message)
    return len(found)


@pytest.mark.load
@pytest.mark.timeout(600)
def test_a_million_messages_are_each_finished_once_and_leave_nothing_behind() -> None:
    crowd = _Crowd(seed=1)
    crowd.run(WARM_UP)
    live_before = _live_messages()
    process = psutil.Process()
    resident_before = process.memory_info().rss
    started = time.monotonic()
    crowd.run(MESSAGES)
    seconds = time.monotonic() - started
    crowd._finished = bytearray()
    grown = process.memory_info().rss - resident_before
    live = _live_messages()
    print(f"{MESSAGES} messages in {seconds:.1f} s; {live - live_before} messages alive, {grown} bytes more resident")
    audit(crowd.rig.broker, crowd.rig.store)
    assert crowd.rig.broker.flow.used_bytes == 0
    assert crowd.queue.size_bytes == crowd.queue.view.pending_count == crowd.queue.view.in_flight_count == 0
    assert crowd.queue.contents.enqueued == crowd.queue.contents.dequeued == MESSAGES + WARM_UP
    assert list(crowd.rig.store.waiting(QUEUE)) == []
    assert live == live_before
    assert grown < MEMORY_TOLERANCE_BYTES

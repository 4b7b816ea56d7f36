"""Clients of a simulation that look on: topic subscribers that are not durable, and browsers."""

from collections import deque
from typing import TYPE_CHECKING

from ackwire.broker.in_flight import AckKind
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.codec_fast import message_key
from ackwire.wire.openwire.structures import Structure
from tests.simulation.audit import Violation
from tests.simulation.client import Client, wire_destination
from tests.simulation.ledger import Outcome, stands_for

if TYPE_CHECKING:
    from tests.simulation.world import World


class Subscriber(Client):
    """A non-durable topic subscriber."""

    def __init__(self, world: "World", name: str) -> None:
        super().__init__(world, name)
        self.where = self.random.choice(world.topics)
        self.prefetch = self.random.choice((1, 5, 1000))
        self.selector = self.random.choice((None, None, "n = 1", "n > 1"))
        self._since: int | None = None
        self._got: set[bytes] = set()
        self._newest: dict[bytes, int] = {}
        self._unacked: deque[commands.MessageDispatch] = deque()

    def on_connected(self) -> None:
        self._consumer = commands.ConsumerId(self.connection_id, 1, next(self._numbers))
        info = commands.ConsumerInfo(
            consumer_id=self._consumer,
            destination=wire_destination(self.where),
            prefetch_size=self.prefetch,
            selector=self.selector,
        )
        self.request(info, self._subscribed)

    def _subscribed(self, answer: Structure) -> None:
        self._expect_success(answer)
        self._since = self.world.step

    def on_lost(self) -> None:
        self._since = None
        self._got.clear()
        self._newest.clear()
        self._unacked.clear()

    def on_dispatch(self, dispatch: commands.MessageDispatch) -> None:
        assert dispatch.message is not None
        key = message_key(dispatch.message.message_id)
        assert key is not None
        sent = self.world.ledger.sent[key]
        if key in self._got:
            raise Violation(f"{self.name} gets {sent.text} twice from a topic")
        if not self.world.predicate(self.selector)(sent.number):
            raise Violation(f"{self.name} gets {sent.text}, which its selector does not want")
        count = int.from_bytes(key[-8:], signed=True)
        if not sent.not_before_ms:
            if count < self._newest.get(key[:-8], -1):
                raise Violation(f"{self.name} gets {sent.text} after a later one")
            self._newest[key[:-8]] = count
        self._got.add(key)
        self._unacked.append(dispatch)

    def work(self) -> None:
        if self._unacked:
            dispatch = self._unacked.popleft()
            assert dispatch.message is not None
            self.tell(
                commands.MessageAck(
                    destination=dispatch.destination,
                    consumer_id=self._consumer,
                    ack_type=int(AckKind.STANDARD),
                    last_message_id=dispatch.message.message_id,
                    message_count=1,
                )
            )

    @property
    def is_idle(self) -> bool:
        return super().is_idle and not self._unacked

    @property
    def is_quiet(self) -> bool:
        return super().is_quiet and not self._unacked  # its ack may bring more

    def settle(self) -> None:
        """Nothing that was published since it subscribed may be missing, but for what expired while it waited."""
        if self._since is None:
            return
        wants, now_ms = self.world.predicate(self.selector), self.world.clock.now_ms()
        for sent in self.world.ledger.sent.values():
            has_expired = 0 < sent.expiration <= now_ms
            is_heard = sent.topic is not None and stands_for(self.where, sent.topic)
            expected = is_heard and sent.deed.outcome is Outcome.DONE and wants(sent.number)
            if expected and not has_expired and sent.deed.asked_at > self._since and sent.key not in self._got:
                raise Violation(f"{self.name} never got {sent.text}, published after it subscribed")


class Browser(Client):
    """Looks through a queue, again and again, and takes nothing."""

    def __init__(self, world: "World", name: str) -> None:
        super().__init__(world, name)
        self._queue = self.random.choice(world.queues)
        self._consumer: commands.ConsumerId | None = None
        self._last: dict[int, int] = {}
        self._unacked: list[commands.MessageDispatch] = []

    def on_lost(self) -> None:
        self._consumer = None
        self._unacked.clear()

    def on_dispatch(self, dispatch: commands.MessageDispatch) -> None:
        if dispatch.consumer_id != self._consumer:
            return
        if dispatch.message is None:
            self.note("has seen everything")
            self.request(commands.RemoveInfo(object_id=self._consumer))
            self._consumer = None
            return
        assert dispatch.message.message_id is not None
        sequence = dispatch.message.message_id.broker_sequence_id
        level = dispatch.message.priority if self._queue in self.world.prioritized else 0
        if sequence <= self._last.get(level, 0):
            raise Violation(f"{self.name} is shown {sequence} after {self._last[level]}")
        self._last[level] = sequence
        self._unacked.append(dispatch)

    def work(self) -> None:
        if self._waiting:
            return
        if self._consumer is None and not self.is_finishing:
            self._last = {}
            self._unacked.clear()
            self._consumer = commands.ConsumerId(self.connection_id, 1, next(self._numbers))
            self.tell(
                commands.ConsumerInfo(
                    consumer_id=self._consumer,
                    destination=wire_destination(self._queue),
                    prefetch_size=self.random.choice((1, 3, 500)),
                    browser=True,
                )
            )
        elif self._unacked and self._consumer is not None:
            self._acknowledge()

    def _acknowledge(self) -> None:
        count = len(self._unacked)
        dispatch = self._unacked[-1]
        self._unacked.clear()
        assert dispatch.message is not None
        self.tell(
            commands.MessageAck(
                destination=dispatch.destination,
                consumer_id=self._consumer,
                ack_type=int(AckKind.STANDARD),
                last_message_id=dispatch.message.message_id,
                message_count=count,
            )
        )

    @property
    def is_idle(self) -> bool:
        return super().is_idle and self._consumer is None

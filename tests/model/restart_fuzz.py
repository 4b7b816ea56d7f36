"""Clients that do anything legal, at random, on a journal in real files, and a restart after every few commands.

    RestartFuzz(folder, seed=1).run(commands=2000, restarts=20)      # raises `Violation`

Clients speak OpenWire to the broker's own adapter: durable subscriptions on wildcards and advisory topics, virtual
topics with queues named by a pattern, temporary destinations, composites, browsers, local and XA transactions, expiry,
delays, poison, destinations that are made and removed. What waits is consumed about as fast as it comes, so that a run
may be as long as you like. A restart is a clean stop, or the end of the process with whatever was not written; the
index is deleted now and then. After each: the broker starts, every message, queue, topic and subscription that was
answered for is there, what was acknowledged is not, the broker's counters equal its contents, and `store check` finds
nothing.
"""

import itertools
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from ackwire.broker.in_flight import AckKind
from ackwire.jms.destinations import Kind, derived_destination, matches_pattern
from ackwire.jms.types import Int, Long, Value
from ackwire.store.contract import DurableKey, Place
from ackwire.util.clock import ManualClock
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.bodies import encode_text
from ackwire.wire.openwire.codec_fast import message_key
from ackwire.wire.openwire.commands import TransactionType
from ackwire.wire.openwire.primitives import encode_map
from ackwire.wire.openwire.structures import Structure
from tests.helpers.bad_input import Line
from tests.helpers.broker_rig import RIGS, BrokerRig
from tests.helpers.store_on_disk import StoreOnDisk, checked, offline_store
from tests.simulation.audit import Violation, audit

_QUEUES: Final = (
    "a",
    "a.b",
    "a.c",
    "b",
    "Consumer.x.VirtualTopic.v",
    "Consumer.y.VirtualTopic.v",
    "Consumer.x.VirtualTopic.w.z",
)
_VIRTUAL_PATTERNS: Final = ("Consumer.>", "Consumer.z.VirtualTopic.>", "Consumer.z.VirtualTopic.w.*")
"""Queues of their own, although their names are patterns: each has a copy of what is published on its topics (A8)."""
_TOPICS: Final = ("a", "a.b", "t", "VirtualTopic.v", "VirtualTopic.w.z")
_QUEUE_PATTERNS: Final = (">", "a.*", *_VIRTUAL_PATTERNS, "a,b", "a,a.b,b")
_TOPIC_PATTERNS: Final = (">", "*", "a.>", "VirtualTopic.>", "ActiveMQ.Advisory.>", "ActiveMQ.Advisory.*.Queue.>")
_DURABLE_TOPICS: Final = (*_TOPICS, *_TOPIC_PATTERNS, "ActiveMQ.Advisory.Queue", "ActiveMQ.Advisory.Expired.Topic.t")
_CLIENTS: Final = 6
_SEGMENT_BYTES: Final = 64 << 10
_FULL: Final = 40
"""So many messages in one place are enough: somebody comes and consumes them."""

Key = bytes
Copy = tuple[Place, Key]


class _SettledLine(Line):
    """A client whose questions are answered when the journal has been synced."""

    def __init__(self, rig: BrokerRig, settle: Callable[[], None], name: str, number: int) -> None:
        self._settle = settle
        super().__init__(rig, f"ID:{name}-{number}", name)
        self.name = name

    def ask(self, command: Structure) -> commands.Response:
        number = self.tell(command, wants_answer=True)
        self._settle()
        self.read()
        answers = [e for e in self.events if isinstance(e, commands.Response) and e.correlation_id == number]
        if len(answers) != 1:
            raise Violation(f"{command!r} was answered {len(answers)} times")
        self.events.remove(answers[0])
        return answers[0]


@dataclass
class _Work:
    """An open transaction: what it will have done when it commits."""

    transaction: commands.TransactionId
    is_xa: bool
    sends: list[tuple[Key, list[Place]]] = field(default_factory=list)
    acks: list[Copy] = field(default_factory=list)
    is_prepared: bool = False


@dataclass
class _Client:
    """One connection and what it has announced."""

    line: _SettledLine
    consumers: dict[int, DurableKey | None] = field(default_factory=dict)
    """By number; the durable subscription that it is the consumer of."""
    browsers: set[int] = field(default_factory=set)
    temporaries: list[commands.ActiveMQTempQueue] = field(default_factory=list)
    work: _Work | None = None
    sent: int = 0
    """The count of its producer's last message."""


class RestartFuzz:
    """A broker through many lives, its clients, and what must be there."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = Random(seed)
        self.starts = self.commands = 0
        self.must: set[Copy] = set()
        """Messages that were answered for, and not consumed."""
        self.may: set[Copy] = set()
        """Messages that may be there: they expire, are due later, or nobody was answered."""
        self.destinations: set[tuple[str, str]] = set()
        self.durables: dict[DurableKey, tuple[str, str | None]] = {}
        """Topic or pattern, and selector."""
        self.prepared: list[_Work] = []
        self._folder = folder
        self._numbers = itertools.count(1)
        self._clients: dict[str, _Client] = {}
        self._disk = StoreOnDisk(folder / "data", segment_bytes=_SEGMENT_BYTES)
        self._actions: list[tuple[Callable[[], None], int]] = [
            (self._send, 30),
            (self._ack, 22),
            (self._subscribe, 10),
            (self._subscribe_durably, 6),
            (self._unsubscribe, 6),
            (self._remove_durable, 2),
            (self._make_destination, 2),
            (self._remove_destination, 3),
            (self._make_temporary, 2),
            (self._remove_temporary, 1),
            (self._begin, 4),
            (self._end_transaction, 5),
            (self._decide_prepared, 2),
            (self._empty_fullest, 4),
            (self._leave, 2),
            (self._nonsense, 3),
            (self._wait, 6),
        ]
        self._start()

    def run(self, commands: int, restarts: int, *, on_restart: Callable[[int], None] = lambda _: None) -> None:
        """Run so many commands, with so many restarts spread over them."""
        every = max(1, commands // max(1, restarts))
        for number in range(1, commands + 1):
            self._step()
            if number % every == 0 and self.starts <= restarts:
                self._restart()
                on_restart(self.starts - 1)
        self._restart()

    # ---- lives -------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self.starts += 1
        self._disk.clock = ManualClock(self._disk.clock.now_ms() + self.random.choice((0, 1, 1000, 40_000)))
        self._disk.__enter__()
        if self._disk.store.report.damages:
            raise Violation(f"start {self.starts} finds damage: {self._disk.store.report.damages}")
        self._check_contents()
        RIGS.clear()  # earlier lives would stay in memory
        self.rig = BrokerRig(store=self._disk.store, clock=self._disk.clock, is_audited=False)  # type: ignore[arg-type]
        self.rig.broker.answer_questions()
        self._settle()
        self._check_names()
        audit(self.rig.broker, self._disk.store)

    def _restart(self) -> None:
        if self.random.random() < 0.4:
            for name in list(self._clients):
                self._forget_client(name)
            self.rig.broker.stop()
            self._disk.store.close()
        else:
            self._leave_loose_ends()
            self._disk.crash()
            self._clients.clear()
        if self.random.random() < 0.1:
            shutil.rmtree(self._disk.data / "index")
            (self._disk.data / "index.sum").unlink(missing_ok=True)
        else:
            findings = [
                it
                for it in checked(offline_store(self._disk.data, self._folder / "scratch")).findings
                if not it.is_known
            ]
            shutil.rmtree(self._folder / "scratch")
            if findings:
                raise Violation(f"store check after life {self.starts}: {findings[:3]}")
        self._start()

    def _leave_loose_ends(self) -> None:
        """Sends and acks that nobody is answered for, and that may or may not be written."""
        for _ in range(self.random.randrange(4)):
            client = self._some_client()
            if client is None or client.work is not None:
                continue
            place = self._some_queue()
            if place is not None:
                command, key = self._message(client, commands.ActiveMQQueue(place[1]), persistent=True)
                self.may.update((it, key) for it in self._places_of("queue", place[1], 0))
                client.line.tell(command)

    def _settle(self) -> None:
        self._disk.settle()

    def _check_contents(self) -> None:
        """What the journal has: all that must be there, and nothing that must not."""
        store = self._disk.store
        there: set[Copy] = set()
        for place in store.places():
            if not isinstance(place, DurableKey) and place.kind.is_temporary:
                raise Violation(f"{place!r} is temporary, and was stored")
            sequences = [it.sequence for it in store.waiting(place)]
            for message in store.load(place, sequences):
                if message is None:
                    raise Violation(f"a message of {place!r} cannot be read")
                there.add((place, message.key))
        lost = self.must - there
        if lost:
            raise Violation(
                f"start {self.starts}: {len(lost)} messages are lost, of {sorted({repr(it[0]) for it in lost})}"
            )
        known = {*_QUEUES, *_VIRTUAL_PATTERNS}
        back = {it for it in there - self.must - self.may if isinstance(it[0], DurableKey) or it[0].name in known}
        if back:
            raise Violation(
                f"start {self.starts}: {len(back)} messages are there that must not be, in "
                f"{sorted({repr(it[0]) for it in back})}"
            )
        later = {job.message.key for job in store.jobs()} | {key for work in self.prepared for key, _ in work.sends}
        self.may = {it for it in self.may if it in there or it[1] in later}

    def _check_names(self) -> None:
        router = self.rig.broker.registry.router
        missing = [it for it in self.destinations if router.get(derived_destination(Kind(it[0]), it[1])) is None]
        if missing:
            raise Violation(f"start {self.starts}: destinations are forgotten: {missing}")
        if self.rig.broker.registry.durables.keys() != self.durables.keys():
            raise Violation(f"start {self.starts}: other durable subscriptions than {list(self.durables)}")

    # ---- what clients do ---------------------------------------------------------------------------------------

    def _step(self) -> None:
        self.commands += 1
        actions, weights = zip(*self._actions, strict=True)
        self.random.choices(actions, weights)[0]()
        if self.commands % 100 == 0:
            audit(self.rig.broker, self._disk.store)

    def _client(self) -> _Client:
        return self._client_named(f"c{self.random.randrange(_CLIENTS)}")

    def _client_named(self, name: str) -> _Client:
        client = self._clients.get(name)
        if client is None:
            client = _Client(_SettledLine(self.rig, self._settle, name, next(self._numbers)))
            self._clients[name] = client
        return client

    def _some_client(self) -> _Client | None:
        return self.random.choice(list(self._clients.values())) if self._clients else None

    def _some_queue(self) -> tuple[str, str] | None:
        queues = sorted(it for it in self.destinations if it[0] == "queue")
        return self.random.choice(queues) if queues else None

    def _ask(self, client: _Client, command: Structure) -> bool:
        """Whether it was carried out."""
        answer = client.line.ask(command)
        if client.line.peer.closed is not None:
            raise Violation(f"{command!r} cut {client.line.name} off: {client.line.peer.closed}")
        return not isinstance(answer, commands.ExceptionResponse)

    def _message(
        self,
        client: _Client,
        where: commands.ActiveMQDestination,
        *,
        persistent: bool,
        number: int = 0,
        expiration: int = 0,
        timestamp: int | None = None,
        delay_ms: int = 0,
    ) -> tuple[commands.ActiveMQTextMessage, Key]:
        producer = commands.ProducerId(client.line.connection_id, 1, -1)
        client.sent += self.random.choices((1, 2, 1000), (30, 1, 1))[0]  # a few leap
        properties: dict[str, Value] = {"n": Int(number)}
        if delay_ms:
            properties["AMQ_SCHEDULED_DELAY"] = Long(delay_ms)
        command = commands.ActiveMQTextMessage(
            producer_id=producer,
            destination=where,
            transaction_id=None if client.work is None else client.work.transaction,
            message_id=commands.MessageId(None, producer, client.sent),
            persistent=persistent,
            expiration=expiration,
            priority=4,
            timestamp=self.rig.clock.now_ms() if timestamp is None else timestamp,
            content=encode_text("x" * self.random.choice((1, 10, 2000))),
            marshalled_properties=encode_map(properties),
        )
        key = message_key(command.message_id)
        assert key is not None
        return command, key

    def _send(self) -> None:
        client = self._client()
        if client.work is not None and client.work.is_prepared:
            return
        kind, name = self._target(client)
        where = _destination(kind, name)
        number, persistent = self.random.randrange(3), self.random.random() < 0.8
        fate = self.random.choices(("plain", "expired", "soon", "later"), (12, 2, 2, 1))[0]
        now_ms = self.rig.clock.now_ms()
        expiration = {"expired": now_ms - 1, "soon": now_ms + self.random.choice((1, 500, 5000))}.get(fate, 0)
        command, key = self._message(
            client,
            where,
            persistent=persistent,
            number=number,
            expiration=expiration,
            timestamp=0 if fate == "expired" else None,
            delay_ms=self.random.choice((1, 3000, 60_000)) if fate == "later" else 0,
        )
        names = name.split(",") if kind in ("queue", "topic") else []
        made = {(kind, it) for it in names} - self.destinations
        if client.work is None and fate != "later":
            self.destinations |= made  # before it is sent: its places are those that are there then
        places = [place for it in names for place in self._places_of(kind, it, number)]
        if not self._ask(client, command):
            if kind != "temp-queue":
                raise Violation(f"a send to {kind}://{name} was refused")
            return
        if not persistent:
            return
        # A transaction or a schedule may have made a queue behind the topic that no answer has told of.
        self.may.update(
            (place, key) for it in names for place in _behind(it) if kind == "topic" and place not in places
        )
        if client.work is not None:
            client.work.sends.append((key, places if fate == "plain" else []))
        if client.work is not None or fate != "plain":
            self.may.update((place, key) for place in (*places, *self._later_places(kind, names)))
        else:
            self.must.update((place, key) for place in places)

    def _later_places(self, kind: str, names: list[str]) -> list[Place]:
        """Where a message may be once it is due, or its transaction is committed."""
        queues: list[Place] = [
            derived_destination(Kind.QUEUE, it)
            for it in (*_QUEUES, *_VIRTUAL_PATTERNS, *(names if kind == "queue" else ()))
        ]
        return [*queues, *(DurableKey(f"c{number}", f"s{it}") for number in range(_CLIENTS) for it in range(2))]

    def _target(self, client: _Client) -> tuple[str, str]:
        chance = self.random.random()
        if client.temporaries and chance < 0.1:
            return "temp-queue", str(self.random.choice(client.temporaries).physical_name)
        if chance < 0.15:
            return "queue", self.random.choice(("a,b", "a,a.b,b"))
        if chance < 0.5:
            return "topic", self.random.choice(_TOPICS)
        return "queue", self.random.choice(_QUEUES)

    def _places_of(self, kind: str, name: str, number: int) -> list[Place]:
        """Where a message to *name* goes now."""
        if kind == "queue":
            return [derived_destination(Kind.QUEUE, name)]
        places: list[Place] = [
            key
            for key, (pattern, selector) in self.durables.items()
            if matches_pattern(pattern, name) and (selector is None or number == 1)
        ]
        return places + [it for it in _behind(name) if self._exists(it)]

    def _ack(self) -> None:
        client = self._some_client()
        if client is None or (client.work is not None and client.work.is_prepared):
            return
        held = client.line.held()
        if not held:
            return
        dispatch = self.random.choice(held[-20:])
        message, consumer = dispatch.message, dispatch.consumer_id
        assert message is not None
        assert consumer is not None
        client.line.events.remove(dispatch)
        if consumer.value not in client.consumers:
            return
        kind = self.random.choices((AckKind.INDIVIDUAL, AckKind.POISON, AckKind.DELIVERED), (8, 1, 1))[0]
        command = commands.MessageAck(
            destination=dispatch.destination,
            consumer_id=consumer,
            ack_type=int(kind),
            first_message_id=message.message_id,
            last_message_id=message.message_id,
            message_count=1,
            transaction_id=None if client.work is None or kind is not AckKind.INDIVIDUAL else client.work.transaction,
        )
        key = message_key(message.message_id)
        assert key is not None
        durable = client.consumers[consumer.value]
        destination = message.destination
        if not self._ask(client, command) or kind is AckKind.DELIVERED or destination is None:
            return
        if consumer.value in client.browsers:
            return  # it has copies
        place = self._place_of(durable, destination)
        if place is None:
            return
        if command.transaction_id is not None:
            assert client.work is not None
            client.work.acks.append((place, key))
        else:
            self._consumed((place, key))

    def _consumed(self, copy: Copy) -> None:
        self.must.discard(copy)
        self.may.discard(copy)

    def _subscribe(self) -> None:
        client = self._client()
        kind = self.random.choice(("queue", "queue", "topic"))
        name = self.random.choice((*_QUEUES, *_QUEUE_PATTERNS) if kind == "queue" else (*_TOPICS, *_TOPIC_PATTERNS))
        number = next(self._numbers)
        browser = kind == "queue" and not _is_pattern(name) and self.random.random() < 0.15
        info = client.line.consumer_info(
            _destination(kind, name),
            number,
            prefetch_size=self.random.choice((0, 1, 5, 1000)),
            selector=self.random.choice((None, None, "n = 1")),
            browser=browser,
        )
        if self._ask(client, info):
            client.consumers[number] = None
            if browser:
                client.browsers.add(number)
            self.destinations.update((kind, it) for it in name.split(",") if _is_made(it))

    def _subscribe_durably(self) -> None:
        client = self._client()
        key = DurableKey(client.line.name, f"s{self.random.randrange(2)}")
        terms = self.durables.get(key)
        if terms is None or self.random.random() < 0.2:
            terms = (self.random.choice(_DURABLE_TOPICS), self.random.choice((None, None, "n = 1")))
        number = next(self._numbers)
        info = client.line.consumer_info(
            commands.ActiveMQTopic(terms[0]),
            number,
            selector=terms[1],
            subscription_name=key.name,
            prefetch_size=self.random.choice((1, 5, 100)),
        )
        if not self._ask(client, info):
            return
        client.consumers[number] = key
        if self.durables.get(key) != terms:
            self._forget_place(key)
        self.durables[key] = terms
        if _is_made(terms[0]):
            self.destinations.add(("topic", terms[0]))

    def _empty_fullest(self) -> None:
        """Consume, with one ack, all that can be had of the place that has most."""
        store, client = self._disk.store, self._client()
        counts = {place: sum(1 for _ in store.waiting(place)) for place in store.places()}
        place = max(counts, key=counts.__getitem__, default=None)
        if place is None or counts[place] < _FULL:
            return
        number = next(self._numbers)
        if isinstance(place, DurableKey):
            client = self._client_named(place.client_id)
            topic, selector = self.durables[place]
            options = {"selector": selector, "subscription_name": place.name}
            info = client.line.consumer_info(commands.ActiveMQTopic(topic), number, prefetch_size=1000, **options)
        else:
            info = client.line.consumer_info(commands.ActiveMQQueue(place.name), number, prefetch_size=1000)
        if not self._ask(client, info):
            return  # a durable subscription has one consumer at a time
        client.consumers[number] = place if isinstance(place, DurableKey) else None
        self._ack_all(client, number)
        self._remove_consumer(client, number)

    def _ack_all(self, client: _Client, number: int) -> None:
        """Acknowledge what a consumer has been sent."""
        client.line.read()
        held = [it for it in client.line.held() if it.consumer_id is not None and it.consumer_id.value == number]
        messages = [it.message for it in held if it.message is not None]
        if not messages:
            return
        for dispatch in held:
            client.line.events.remove(dispatch)
        command = commands.MessageAck(
            destination=held[0].destination,
            consumer_id=held[0].consumer_id,
            ack_type=int(AckKind.STANDARD),
            first_message_id=messages[0].message_id,
            last_message_id=messages[-1].message_id,
            message_count=len(messages),
        )
        if not self._ask(client, command):
            raise Violation(f"an ack of {len(messages)} messages was refused")
        for message in messages:
            key, place = message_key(message.message_id), self._place_of(client.consumers[number], message.destination)
            assert key is not None
            if place is not None:
                self._consumed((place, key))

    @staticmethod
    def _place_of(durable: DurableKey | None, destination: commands.ActiveMQDestination | None) -> Place | None:
        """Where a message was consumed from, if it waits there for somebody."""
        if durable is not None:
            return durable
        if isinstance(destination, commands.ActiveMQQueue):
            return derived_destination(Kind.QUEUE, str(destination.physical_name))
        return None

    def _forget_place(self, place: Place) -> None:
        self.must = {it for it in self.must if it[0] != place}
        for work in self._open_work():
            work.sends = [(key, [it for it in places if it != place]) for key, places in work.sends]

    def _open_work(self) -> list[_Work]:
        return [*self.prepared, *(it.work for it in self._clients.values() if it.work is not None)]

    def _unsubscribe(self) -> None:
        client = self._some_client()
        if client is None or not client.consumers:
            return
        self._remove_consumer(client, self.random.choice(list(client.consumers)))

    def _remove_consumer(self, client: _Client, number: int) -> None:
        consumer = commands.ConsumerId(client.line.connection_id, -1, number)
        if self._ask(client, commands.RemoveInfo(object_id=consumer, last_delivered_sequence_id=-2)):
            del client.consumers[number]

    def _remove_durable(self) -> None:
        client = self._client()
        key = DurableKey(client.line.name, f"s{self.random.randrange(2)}")
        command = commands.RemoveSubscriptionInfo(
            connection_id=commands.ConnectionId(client.line.connection_id),
            subscription_name=key.name,
            client_id=key.client_id,
        )
        if self._ask(client, command):
            del self.durables[key]
            self._forget_place(key)

    def _make_destination(self) -> None:
        kind = self.random.choice(("queue", "topic"))
        name = self.random.choice(_QUEUES if kind == "queue" else _TOPICS)
        if self._change_destination(self._client(), _destination(kind, name), commands.DestinationOperation.ADD):
            self.destinations.add((kind, name))

    def _remove_destination(self) -> None:
        kind = self.random.choice(("queue", "topic"))
        name = self.random.choice((*_QUEUES, *_VIRTUAL_PATTERNS) if kind == "queue" else _TOPICS)
        if self._change_destination(self._client(), _destination(kind, name), commands.DestinationOperation.REMOVE):
            self.destinations.discard((kind, name))
            self._forget_place(derived_destination(Kind(kind), name))

    def _change_destination(self, client: _Client, where: commands.ActiveMQDestination, operation: int) -> bool:
        return self._ask(
            client,
            commands.DestinationInfo(
                connection_id=commands.ConnectionId(client.line.connection_id),
                destination=where,
                operation_type=int(operation),
            ),
        )

    def _make_temporary(self) -> None:
        client = self._client()
        where = commands.ActiveMQTempQueue(f"{client.line.connection_id}:{next(self._numbers)}")
        if self._change_destination(client, where, commands.DestinationOperation.ADD):
            client.temporaries.append(where)

    def _remove_temporary(self) -> None:
        client = self._some_client()
        if client is not None and client.temporaries:
            where = client.temporaries.pop()
            self._change_destination(client, where, commands.DestinationOperation.REMOVE)

    # ---- transactions ------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        client = self._client()
        if client.work is not None:
            return
        number, is_xa = next(self._numbers), self.random.random() < 0.4
        transaction: commands.TransactionId = (
            commands.XATransactionId(1, b"global %d" % number, b"branch")
            if is_xa
            else commands.LocalTransactionId(number, commands.ConnectionId(client.line.connection_id))
        )
        if self._tell_transaction(client, transaction, TransactionType.BEGIN):
            client.work = _Work(transaction, is_xa)

    def _tell_transaction(self, client: _Client, transaction: commands.TransactionId, kind: TransactionType) -> bool:
        return self._ask(
            client,
            commands.TransactionInfo(
                connection_id=commands.ConnectionId(client.line.connection_id),
                transaction_id=transaction,
                type=int(kind),
            ),
        )

    def _end_transaction(self) -> None:
        client = next((it for it in self._clients.values() if it.work is not None), None)
        if client is None or client.work is None:
            return
        work, client.work = client.work, None
        if work.is_xa:
            self._tell_transaction(client, work.transaction, TransactionType.END)
            if self.random.random() < 0.6:
                if self._tell_transaction(client, work.transaction, TransactionType.PREPARE) and (
                    work.sends or work.acks
                ):
                    self.prepared.append(work)
                return
        if self.random.random() < 0.3:
            self._tell_transaction(client, work.transaction, TransactionType.ROLLBACK)
        elif self._tell_transaction(client, work.transaction, TransactionType.COMMIT_ONE_PHASE):
            self._happened(work)

    def _decide_prepared(self) -> None:
        if not self.prepared:
            return
        work = self.prepared.pop(self.random.randrange(len(self.prepared)))
        client = self._client()
        if self.random.random() < 0.4:
            if not self._tell_transaction(client, work.transaction, TransactionType.ROLLBACK):
                raise Violation("a prepared transaction cannot be rolled back")
        elif self._tell_transaction(client, work.transaction, TransactionType.COMMIT_TWO_PHASE):
            self._happened(work)
        else:
            raise Violation("a prepared transaction cannot be committed")

    def _happened(self, work: _Work) -> None:
        """What was sent may have other places than when it was sent: those that are the same must have it."""
        for key, places in work.sends:
            self.must.update((place, key) for place in places if isinstance(place, DurableKey) or self._exists(place))
        for copy in work.acks:
            self._consumed(copy)

    def _exists(self, place: Place) -> bool:
        return isinstance(place, DurableKey) or (place.kind.value, place.name) in self.destinations

    # ---- the rest ----------------------------------------------------------------------------------------------

    def _leave(self) -> None:
        client = self._some_client()
        if client is not None:
            self._forget_client(client.line.name)

    def _forget_client(self, name: str) -> None:
        client = self._clients.pop(name)
        if self.random.random() < 0.5:
            client.line.tell(commands.RemoveInfo(object_id=commands.ConnectionId(client.line.connection_id)))
        client.line.lose()
        self._settle()

    def _nonsense(self) -> None:
        """What is refused, and changes nothing."""
        client = self._client()
        unknown = commands.ConsumerId(client.line.connection_id, -1, 1 << 40)
        where = commands.ActiveMQQueue("a")
        nonsense: list[Any] = [
            commands.MessageAck(
                destination=where, consumer_id=unknown, ack_type=2, message_count=1, last_message_id=self._unknown_id()
            ),
            commands.RemoveInfo(object_id=unknown),
            commands.MessagePull(consumer_id=unknown, destination=where, timeout=-1),
            commands.RemoveSubscriptionInfo(subscription_name="none", client_id=client.line.name),
            commands.DestinationInfo(destination=commands.ActiveMQQueue("a.>"), operation_type=0),
            client.line.consumer_info(where, next(self._numbers), selector="this is (no"),
            client.line.consumer_info(commands.ActiveMQTempQueue("ID:another:1"), next(self._numbers)),
            client.line.consumer_info(where, next(self._numbers), subscription_name="queue"),
        ]
        if self._ask(client, self.random.choice(nonsense)):
            return  # some are tolerated, as ActiveMQ does

    def _unknown_id(self) -> commands.MessageId:
        return commands.MessageId(None, commands.ProducerId("ID:nobody", 1, 1), 1)

    def _wait(self) -> None:
        seconds = self.random.choice((0.01, 0.1, 1.0, 6.0, 35.0))
        self._disk.clock.advance(seconds)
        self._settle()
        for client in self._clients.values():
            client.line.read()
            del client.line.events[:-500]  # what is not acknowledged by now is left in flight


def _destination(kind: str, name: str) -> commands.ActiveMQDestination:
    makers = {
        "queue": commands.ActiveMQQueue,
        "topic": commands.ActiveMQTopic,
        "temp-queue": commands.ActiveMQTempQueue,
    }
    return makers[kind](name)


def _behind(topic: str) -> list[Place]:
    """The queues that a virtual topic may have."""
    if not topic.startswith("VirtualTopic."):
        return []
    names = [it for it in (*_QUEUES, *_VIRTUAL_PATTERNS) if it.startswith("Consumer.")]
    return [
        derived_destination(Kind.QUEUE, name)
        for name in names
        if matches_pattern(name.split(".", 2)[2] if name.count(".") > 1 else ">", topic)
    ]


def _is_made(name: str) -> bool:
    """Whether a consumer of *name* makes a destination of that name."""
    return name in _VIRTUAL_PATTERNS or not (_is_pattern(name) or _is_advisory(name))


def _is_pattern(name: str) -> bool:
    return "*" in name or ">" in name


def _is_advisory(name: str) -> bool:
    return name.startswith("ActiveMQ.Advisory.")

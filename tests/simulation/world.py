"""A whole system from one seed: a broker, its clients, the network between them, and time.

    World(seed).run()          # raises `Violation`

This is a broker whose store is in memory, and that runs without end; `power.py` has one that crashes.

Everything random comes from the seed, nothing runs in the background, and time is a `ManualClock`, so the same seed is
the same run. After every step the broker is audited; what clients say and see goes through the ledger.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from ackwire.broker.auditing import Audit
from ackwire.broker.broker import Broker
from ackwire.broker.dispatch_gate import DispatchGate
from ackwire.broker.early_dispatch import EarlyDispatch, Leave, Policy, Sender
from ackwire.broker.slices import SLICE_UNITS
from ackwire.broker.subscription import QueueSubscription
from ackwire.config import Settings
from ackwire.config.policy import DestinationPolicy, Policies
from ackwire.jms.destinations import parse_destination
from ackwire.jms.message import Message
from ackwire.jms.message_editor import Advisory, AdvisoryKind
from ackwire.store.contract import Store
from ackwire.store.memory import MemoryStore
from ackwire.util.clock import Clock, ManualClock, Turns
from ackwire.wire.openwire.cached_encode import Consumer as WireConsumer
from ackwire.wire.openwire.editor import OpenWireEditor
from ackwire.wire.openwire.negotiation import Preferences
from tests.helpers.paging_store import FakeSpill, LateStore, PagingStore
from tests.helpers.recorded_audit import RecordedAudit
from tests.helpers.waiting import pending_in
from tests.simulation.audit import Violation, audit
from tests.simulation.client import Client
from tests.simulation.consumers import Consumer, Drain, DurableSubscriber, SelfDraining
from tests.simulation.ledger import DEAD_LETTERS, Ledger, is_behind
from tests.simulation.listeners import Watcher, WideDurableSubscriber, WideSubscriber
from tests.simulation.network import Link, SimulatedPeer
from tests.simulation.producers import Producer
from tests.simulation.subscribers import Browser, Subscriber
from tests.simulation.temporaries import TemporaryProducer, TemporaryQueueOwner, TemporaryTopicOwner

STEPS = 400
VIRTUAL_QUEUE = "queue://Consumer.v.VirtualTopic.v"
WIDE_QUEUE = "queue://Consumer.w.VirtualTopic.>"
"""A queue of its own, with a copy of what is published on any virtual topic, although its name is a pattern (A8)."""
QUEUE_BESIDE = "queue://Consumer.w.VirtualTopic.v"
"""Consumers of the queue above consume from this one, too."""
WIDE_TOPIC = "topic://VirtualTopic.w.z"
_SETTLING_ROUNDS = 3000
"""More than any run needs to come to rest; a run that has not is stuck."""
_SLICE_UNITS = (SLICE_UNITS, 1, 2)
"""Of a seed; beside a small slice a transaction of two or three sends is a large one."""

_WIRES = (
    Preferences(),
    Preferences(tight=True),
    Preferences(cache=True),
    Preferences(tight=True, cache=True, version=9),
)


class _WatchedGate(DispatchGate):
    """The world hears of what is chosen before it waits for the store."""

    def __init__(self, store: Store, world: "World") -> None:
        super().__init__(store)
        self._world = world

    def wait(self, subscription: QueueSubscription, message: Message, group_first: bool, *, for_store: bool) -> None:
        self._world.chosen(subscription, message)
        super().wait(subscription, message, group_first, for_store=for_store)


class _EagerDispatch(EarlyDispatch):
    """In some worlds every sender's consumers are taken for quick."""

    def __init__(self, world: "World", *, is_audited: bool) -> None:
        super().__init__(world.store, world.turns, Policy.ADAPTIVE, is_audited=is_audited)
        self._world = world

    def may_leave(self, sender: Sender) -> Leave:
        while self._world.odds_are_good and not sender.odds.are_good:
            sender.odds.won()
        return super().may_leave(sender)


class _WatchedEditor(OpenWireEditor):  # type: ignore[misc]  # it is not compiled
    """The world hears of every advisory that the broker writes."""

    def __init__(self, world: "World", producer: str) -> None:
        super().__init__(producer, "simulated", world.clock)
        self._world = world

    def advisory(self, advisory: Advisory) -> Message:
        message = super().advisory(advisory)
        self._world.on_advisory(advisory, message)
        return message


class World:
    """Builds everything and runs it."""

    audited_steps = 1
    """The broker is audited after each so many steps."""
    time_steps: tuple[float, ...] = (0.001, 0.01, 0.2, 3.0)
    may_be_wide = True
    can_crash = False
    """Whether the broker may end, and with it what it has not promised."""

    def __init__(self, seed: int, *, pages: bool = False, steps: int = STEPS, record: bool = False) -> None:
        self.seed = seed
        self.pages = pages
        """Whether the store is one that pages, with so little memory that it always does."""
        self.steps = steps
        self.step = 0
        self.history: list[str] | None = [] if record else None
        self.random = random.Random(seed)
        self.ledger = Ledger()
        self.queues = ["queue://q.a", "queue://q.b", "queue://q.c", VIRTUAL_QUEUE]
        self.topics = ["topic://t.x", "topic://VirtualTopic.v"]
        self.targets = [*self.queues[:3], "queue://q.a,q.b", *self.topics]
        self.sources = [*self.queues, "queue://q.a", "queue://q.*", "queue://q.a,q.c"]
        self.clock = ManualClock()
        self._links: list[Link] = []
        self._link_count = 0
        self._lives = 0
        self._violation: Violation | None = None
        self._is_touched = True
        self._audited_at = -1.0
        self._is_closing = False
        """Consumers leave for good: what is told of that need not be heard."""
        self._choose_conditions()
        self.store = self._open_store()
        self._start_broker()
        self._make_queues()
        self._clients = self._make_clients()
        if self.is_wide:
            self._clients += self._make_wide_clients()
        self._drains: list[Drain] = []

    def _choose_conditions(self) -> None:
        chance = self.random.random
        self._fault_rate = self.random.choice((0.0, 0.01, 0.03))
        self.has_limits = chance() < 0.25
        self.grouped = 0.5 if chance() < 0.3 else 0.0
        self.exclusive = 0.5 if chance() < 0.2 else 0.0
        self.prioritized = {"queue://q.c"} if chance() < 0.5 else set[str]()
        self._server_wants = self.random.choice((_WIRES[0], _WIRES[0], _WIRES[3]))
        self.client_preferences = [self.random.choice(_WIRES)]
        self.delayed = 0.15 if chance() < 0.3 else 0.0
        self.turns = Turns()
        apart = random.Random(self.seed)  # nothing else is drawn differently for these
        self.turns.after_pause = apart.random() < 0.5
        self.is_told = apart.random() < 0.5
        """Whether the broker has an audit: then it answers for nothing that is not on disk."""
        self.odds_are_good = apart.random() < 0.5
        """Whether it counts on consumers sooner, and for longer, than they have deserved."""
        self.is_wide = apart.random() < 0.5 and self.may_be_wide
        """Whether there are patterns for topics, advisories to be heard, and temporary destinations."""
        self.fetches_late = apart.random() < 0.5
        """Whether the store answers a page-in later, when anything may have happened to the messages."""
        if self.is_wide:
            self.queues += [WIDE_QUEUE, QUEUE_BESIDE]
            self.topics.append(WIDE_TOPIC)
            self.targets.append(WIDE_TOPIC)
            self.sources += [WIDE_QUEUE, WIDE_QUEUE, QUEUE_BESIDE]
        self._choose_settings()

    def _choose_settings(self) -> None:
        self._temp_bytes_max = self.random.choice((0, 1500, 1 << 30))
        self._tight_above_bytes = self.random.choice((0, 300, 1000))
        self.settings = Settings()
        if self.has_limits:
            limits = replace(
                self.settings.limits,
                memory_bytes_max=self.random.choice((2000, 5000)),
                held_bytes_max=self.random.choice((0, 1000)),
                when_full=self.random.choice(("block", "block", "fail")),
                block_timeout_seconds=self.random.choice((0.0, 0.0, 0.5)),
            )
            self.settings = replace(self.settings, limits=limits)
        self._policies = Policies(self._make_policies())

    def _open_store(self) -> Store:
        if not self.pages:
            return MemoryStore()
        restored = OpenWireEditor("ID:store", "store", self.clock).restored
        return LateStore(restored, self.clock, self.seed) if self.fetches_late else PagingStore(restored)

    def _broker_clock(self) -> Clock:
        return self.clock

    def _start_broker(self) -> None:
        """Begin a life of the broker with what the store has."""
        self.touch()
        self._lives += 1
        self.temp = FakeSpill(self._temp_bytes_max) if self.pages else None
        self.told = RecordedAudit(ids_are_unique=True)
        audit = self._make_audit()
        self.broker = Broker(
            clock=self._broker_clock(),
            store=self.store,
            editor=_WatchedEditor(self, f"ID:simulated-{self._lives}"),
            settings=self.settings,
            policies=self._policies,
            temp=self.temp,
            audit=audit,
            turns=self.turns,
            gate=_WatchedGate(self.store, self),
            early_dispatch=_EagerDispatch(self, is_audited=audit is not None),
            slice_units=_SLICE_UNITS[self.seed % len(_SLICE_UNITS)],
        )
        if self.pages:
            self.broker.flow._tight_above_bytes = self._tight_above_bytes
        self._waited: dict[tuple[str, bytes], bool] = {}
        self._is_starting = True
        self.broker.start()
        self._is_starting = False

    def _make_queues(self) -> None:
        """Have an operator make the queues, once: they are there for good."""
        for name in self.queues:
            self.broker.registry.get_or_make(parse_destination(name))

    def on_advisory(self, about: Advisory, message: Message) -> None:
        """The broker has written an advisory."""
        self.ledger.publishing(about, message, self.step, is_waited_for=not self._is_closing)
        # A start ends by routing what committed transactions have left: of that, a message may have expired.
        if self._is_starting and about.kind is not AdvisoryKind.MESSAGE:
            self._violation = Violation(f"a start is no event, and has an advisory: {about}")

    def _make_audit(self) -> Audit | None:
        """Hears of everything that happens to messages in this life."""
        return self.told if self.is_told else None

    def chosen(self, subscription: QueueSubscription, message: Message) -> None:
        """What waits for the store before it is delivered was in order when it was chosen."""
        name, place = str(subscription.consumer_id), repr(message.destination)
        if subscription.request.subscription_name is None and place != DEAD_LETTERS:
            if not self._is_oldest(subscription, message):
                self._violation = Violation(f"{message!r} is chosen before older ones that its consumer may have")
            with self._kept_in_mind():
                self.ledger.chosen((place, message.key), message, name, ordered=self._keeps_order(place, message))
        self._waited[name, message.key] = True

    def _make_policies(self) -> list[DestinationPolicy]:
        policies = [DestinationPolicy(match=name, prioritized=True) for name in self.prioritized]
        if self.has_limits and self.random.random() < 0.5:
            policies.append(DestinationPolicy(match="queue://q.a", memory_bytes_max=600))
        return policies

    def _make_clients(self) -> list[Client]:
        count = self.random.randrange
        clients: list[Client] = [Producer(self, f"p{n}") for n in range(count(1, 4))]
        clients += [Consumer(self, f"c{n}") for n in range(count(1, 5))]
        clients += [DurableSubscriber(self, f"d{n}") for n in range(count(2))]
        clients += [Subscriber(self, f"s{n}") for n in range(count(2))]
        clients += [Browser(self, f"b{n}") for n in range(count(2))]
        return clients

    def _make_wide_clients(self) -> list[Client]:
        count = self.random.randrange
        clients: list[Client] = [WideDurableSubscriber(self, f"wd{n}") for n in range(count(1, 3))]
        clients += [WideSubscriber(self, f"ws{n}") for n in range(count(2))]
        clients += [Watcher(self, f"w{n}") for n in range(count(1, 3))]
        clients += [TemporaryQueueOwner(self, f"tq{n}") for n in range(count(1, 3))]
        clients += [TemporaryTopicOwner(self, f"tt{n}") for n in range(count(2))]
        clients += [TemporaryProducer(self, "tp")]
        return clients

    def everybody(self) -> list[Client]:
        """All who are connected at the end."""
        return [*self._clients, *self._drains]

    def drains_of_queues(self) -> list[tuple[str, str]]:
        """The queues that are being emptied at the end, and the consumer of each."""
        return [(it.where, it.consumer_id) for it in self._drains]

    # ---- what clients and links ask of it ----------------------------------------------------------------------

    def note(self, text: str) -> None:
        if self.history is not None:
            self.history.append(f"{self.step:5} {self.clock.monotonic():8.3f}  {text}")

    def connect(self, client: Client) -> Link:
        self._link_count += 1
        link = Link(self, client, self._link_count, self._server_wants)
        self._links.append(link)
        return link

    def places_of(self, where: str) -> tuple[str, ...]:
        """The queues that a message for *where* goes to."""
        kind, _, names = where.partition("://")
        if kind == "topic":
            return tuple(it for it in self.queues if it.startswith("queue://Consumer.") and is_behind(it, where))
        return () if kind == "temp-topic" else tuple(f"{kind}://{name}" for name in names.split(","))

    @staticmethod
    def predicate(selector: str | None) -> Callable[[int], bool]:
        """What a selector says of a message, known without the broker's help."""
        return {None: lambda _: True, "n = 1": lambda n: n == 1, "n > 1": lambda n: n > 1}[selector]

    def on_dispatch(self, peer: SimulatedPeer, consumer: WireConsumer, message: Message) -> None:
        """The broker dispatches: is it allowed to?"""
        with self._kept_in_mind():
            self._check_dispatch(peer, consumer, message)

    @contextmanager
    def _kept_in_mind(self) -> Iterator[None]:
        """A violation ends the run: whoever called may catch everything."""
        try:
            yield
        except Violation as violation:
            self._violation = self._violation or violation
            raise

    def _check_dispatch(self, peer: SimulatedPeer, consumer: WireConsumer, message: Message) -> None:
        name = str(consumer.consumer_id)
        connection = peer._adapter.client.connection
        assert connection is not None
        subscription = connection.subscriptions[name]
        if not isinstance(subscription, QueueSubscription):
            self.ledger.shown(message)
            return
        durable = subscription.request.subscription_name is not None
        place = f"durable:{connection.client_id}" if durable else repr(message.destination)
        self.note(f"the broker dispatches {self.ledger.text((place, message.key))} to {name}")
        self.ledger.dispatched(
            (place, message.key),
            message,
            name,
            now_ms=self.clock.now_ms(),
            ordered=self._keeps_order(place, message),
            # What had to wait for the store was chosen earlier: others may have come back since.
            order_holds=self._waited.pop((name, message.key), False) or self._is_oldest(subscription, message),
        )

    def _keeps_order(self, place: str, message: Message) -> bool:
        """A message of a group may have been another consumer's alone until that left."""
        return place not in self.prioritized and message.group_id is None

    def _is_oldest(self, subscription: QueueSubscription, message: Message) -> bool:
        """Whether no older message waits in the same queue that the same consumer might have had (H1)."""
        if message.group_id is not None or self.ledger.sent[message.key].has_twin(repr(message.destination)):
            return True  # it may have waited for this consumer alone, since before the older one came back
        attached = self.broker.queues_of_consumers.of[subscription]
        queue = next(queue for queue in attached.values() if len(attached) == 1 or queue.owns(message))
        now_ms = self.clock.now_ms()
        for older in pending_in(queue):
            if queue.contents.level_of(older) != queue.contents.level_of(message):
                continue
            if older.sequence > message.sequence:
                return True
            usable = older.group_id is None and not 0 < older.expiration <= now_ms
            selector = subscription.selector
            if usable and (selector is None or selector.matches(queue.dispatcher._editor.lookup(older))):
                return False
        return True

    # ---- running -----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run all steps, then bring everything to its end. Raises `Violation`."""
        while self.step < self.steps:
            self.step += 1
            self._one_step()
            self._after_step()
        self._finish()

    def _one_step(self) -> None:
        chance = self.random.random()
        if chance < self._fault_rate:
            self._cut_something()
        elif chance < 0.45:
            self.random.choice(self._clients).act()
        elif chance < 0.95:
            self._deliver_something()
        else:
            seconds = self.random.choice(self.time_steps)
            self.note(f"{seconds} s pass")
            self.clock.advance(seconds)

    def _after_step(self) -> None:
        if self._violation is not None:
            raise self._violation
        for link in self._links:
            link.peer.flush()
        is_between_slices = len(self.broker.slices) > 0 or len(self.broker.transaction_manager.large) > 0
        if self.step % self.audited_steps == 0 and not is_between_slices and self._has_something_happened():
            audit(self.broker, self.store)
            if self.is_told:
                self.told.check(self.broker)

    def _has_something_happened(self) -> bool:
        """Whether the broker may be another than at the last audit: it acts on bytes, and when time passes."""
        now = self.clock.monotonic()
        has_happened, self._is_touched = self._is_touched or now != self._audited_at, False
        self._audited_at = now
        return has_happened

    def touch(self) -> None:
        self._is_touched = True

    def _cut_something(self) -> None:
        links = [link for link in self._links if link._client is not None]
        if links:
            link = self.random.choice(links)
            surviving = self.random.randrange(len(link.up) + 1)
            self.note(f"the network cuts {link.name}, {surviving} of {len(link.up)} bytes arrive")
            link.cut(surviving)

    def _deliver_something(self) -> None:
        ups = [link for link in self._links if link.can_go_up]
        downs = [link for link in self._links if link.can_go_down]
        if not ups and not downs:
            return
        link = self.random.choice(ups + downs)
        share = self.random.choice((1.0, 1.0, 1.0, self.random.random()))
        if link.can_go_up and (not link.can_go_down or self.random.random() < 0.5):
            link.deliver_up(max(1, round(len(link.up) * share)))
        else:
            link.deliver_down(max(1, round(len(link.down) * share)))
        if link.is_done:
            self._links.remove(link)

    # ---- the end -----------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """The network is well from here on: clients end what they began, and everything is consumed."""
        self.note("---- the end begins")
        drains = self._drains = [
            Drain(self, f"drain{n}", where) for n, where in enumerate([*self.queues, DEAD_LETTERS])
        ]
        drain_themselves = [it for it in self._clients if isinstance(it, SelfDraining)]
        for client in self._clients:
            client.is_finishing = True
        self._links_end()
        working = list(self._clients)
        if self.has_limits:  # what is full must be drained, or producers wait for ever
            working += drains
            self._drain(drain_themselves)
        self._run_until(working, lambda: all(client.is_idle for client in self._clients))
        if not self.has_limits:
            self._drain(drain_themselves)
        working = [*self._clients, *drains]
        self._run_until(working, lambda: self._is_quiet(working))
        for client in self._clients:
            if isinstance(client, Subscriber):
                client.settle()
        self.clock.advance(60)
        self._run_until(working, lambda: self._is_quiet(working))
        self._is_closing = True
        for client in drain_themselves:
            client.stop_draining()
        self._run_until(working, lambda: all(client.is_idle for client in self._clients))
        self.ledger.settle(self.clock.now_ms())
        for client in self._clients:
            if isinstance(client, WideDurableSubscriber):
                client.unsubscribe()
        self._run_until(working, lambda: all(client.is_idle for client in self._clients))
        for client in working:
            client.hang_up()
        self._run_until([], lambda: not any(link.can_go_up for link in self._links))
        self._expect_nothing_left()

    def _drain(self, clients: list[SelfDraining]) -> None:
        for client in clients:
            client.drain()

    def _links_end(self) -> None:
        """Ends that are cut learn of it now, so that no old connection stands in the way of a new one."""
        for link in list(self._links):
            if link._client is None and link.can_go_up:
                if link.up:
                    link.deliver_up(1 << 30)
                if link.can_go_up:  # the end, once: a large commit of this client may outlive it for some turns
                    link.deliver_up(1 << 30)
        self._links = [link for link in self._links if not link.is_done]

    def _is_quiet(self, clients: list[Client]) -> bool:
        if len(self.broker.scheduler) or not all(client.is_up and client.is_quiet for client in clients):
            return False
        if self.broker.pager.under_way_bytes:  # messages that the store has not answered for yet
            return False
        return not any(link.can_go_up or link.can_go_down or link.peer.has_output for link in self._links)

    def _run_until(self, clients: list[Client], is_done: Callable[[], bool]) -> None:
        for _ in range(_SETTLING_ROUNDS):
            if is_done():
                return
            self.step += 1
            for client in clients:
                client.act()
            for link in list(self._links):
                if link.can_go_up:
                    link.deliver_up(1 << 30)
                link.peer.flush()
                if link.can_go_down:
                    link.deliver_down(1 << 30)
                if link.is_done:
                    self._links.remove(link)
            self.clock.advance(0.05)
            self._settle_store()
            self._after_step()
        stuck = [client.name for client in self._clients if not client.is_idle]
        raise Violation(f"the system does not come to rest: {stuck} still work")

    def _settle_store(self) -> None:
        """Let a store do all that waits."""

    def _expect_nothing_left(self) -> None:
        broker = self.broker
        left = [repr(queue) for queue in broker.registry.queues() if queue.size_bytes]
        if left or broker.flow.used_bytes:
            raise Violation(f"{broker.flow.used_bytes} bytes are left at the end, in {left}")
        if broker.connections():
            raise Violation(f"connections are left at the end: {broker.connections()}")
        if list(broker.transaction_manager.transactions):
            raise Violation(f"transactions are left at the end: {list(broker.transaction_manager.transactions)}")
        self._expect_empty_store()
        if self.temp is not None and self.temp.frames:
            raise Violation(f"{len(self.temp.frames)} spilled messages are left at the end")

    def _expect_empty_store(self) -> None:
        kept = [place for place in self.store.places() if list(self.store.waiting(place))]
        undone = any(True for _ in self.store.jobs()) or any(True for _ in self.store.prepared())
        if kept or undone:
            raise Violation(f"the store still has messages in {kept}, or jobs or transactions")

"""A world whose broker is on a journal, and ends: by a power cut, a kill, a failed disk, or because it is told to.

    world_for(seed).run()                     # which kind of world is the seed's choice
    world_for(seed, store="journal").run()

Each time, the broker and its connections are gone at once, a new broker begins with what the disk has kept, and the
clients come back as failover clients do. The ledger compares what is there with what was promised.
"""

from collections.abc import Callable
from typing import Final

from ackwire.broker.large_acks import is_acks
from ackwire.broker.staging import SET_ASIDE
from ackwire.errors import StoreFailed
from ackwire.jms.destinations import parse_destination
from ackwire.jms.message import Message
from ackwire.store.contract import DurableKey, Place, StagedRecord, Store
from ackwire.store.journal.recovery_report import UnusableStore
from ackwire.store.sql.errors import UnusableDatabase
from ackwire.util.clock import Clock
from ackwire.util.sequence_runs import sequences_of
from tests.helpers.simulated_disk import Stopped
from tests.helpers.stores import Crash
from tests.simulation.audit import Violation
from tests.simulation.bulk import BulkWorld
from tests.simulation.client import Client
from tests.simulation.consumers import Consumer
from tests.simulation.ledger import DEAD_LETTERS, Copy, Found
from tests.simulation.machine import JournalSqliteMachine, Machine, SqliteMachine
from tests.simulation.producers import Producer
from tests.simulation.python_clients import CoreConsumer, CoreProducer
from tests.simulation.world import STEPS, World

STORES: Final = ("memory", "paging", "journal", "client", "bulk", "quick", "sqlite", "journal+sqlite")
"""What a world can be made with; "client" is a journal, too, and its clients are those of Python; "bulk" is one with
cursors and staged batches, "quick" one that hardly gets to see messages, "sqlite" a database in its place, and
"journal+sqlite" a journal in front of one."""

_CRASHES: Final = (
    (Crash.POWER_CUT,),
    (Crash.REORDERED_POWER_CUT,),
    (Crash.PROCESS_KILL,),
    tuple(Crash),
)

_NEVER_PROMISED: Final = "never promised, and cut off"
"""What the store says of whole records behind a torn one, where a cache was written back in any order."""


class JournalWorld(World):
    """A world with a disk."""

    audited_steps = 8
    can_crash = True

    def __init__(self, seed: int, *, steps: int = STEPS, record: bool = False) -> None:
        self._is_at_end = False
        super().__init__(seed, pages=True, steps=steps, record=record)

    def _choose_conditions(self) -> None:
        super()._choose_conditions()
        self._crashes = self.random.choice(_CRASHES)
        self._trouble_rate = self.random.choice((0.01, 0.03, 0.06))
        self._disk_fault_share = self.random.choice((0.0, 0.0, 0.5))
        self._fault_rate = self.random.choice((0.0, 0.002, 0.01))
        self._burst = self.random.choice((2, 6, 15))
        """How much happens in a step: a disk sees nothing if clients hardly say anything between two crashes."""
        self._machine = self._make_machine()

    def _make_machine(self) -> Machine:
        return Machine(self.seed, self.random, self.clock)

    def _open_store(self) -> Store:
        return self._machine.open()

    def _make_queues(self) -> None:
        super()._make_queues()
        self.store.when_durable(lambda: None, lambda _: None)
        self._machine.settle()

    def _broker_clock(self) -> Clock:
        return self._machine.clock

    # ---- running -----------------------------------------------------------------------------------------------

    def _one_step(self) -> None:
        self._guarded(self._do_something)

    def _after_step(self) -> None:
        if self.store.failure is None:
            self._guarded(super()._after_step)
        elif self.random.random() < 0.3:  # its clients may say more before it is gone
            self.note(f"the broker ends: {self.store.failure}")
            self._crash(self._some_crash())
        else:
            for link in self._links:
                link.down += link.peer.unsent()

    def _guarded(self, do: Callable[[], None]) -> None:
        """Crashes come from inside, whatever is being done."""
        try:
            do()
        except Stopped:
            self.note("everything stops in the middle of a call of the disk")
            self._crash(self._some_crash())
        except StoreFailed:
            if self.store.failure is None:
                raise

    def _do_something(self) -> None:
        if self.random.random() < self._trouble_rate:
            self._make_trouble()
            return
        for _ in range(self._burst):
            if self.random.random() < 0.2:
                self.touch()
                self._machine.step()
            else:
                super()._one_step()

    def _make_trouble(self) -> None:
        if self.random.random() < self._disk_fault_share:
            self.note(f"the disk is to fail: {self._machine.plan_fault()}")
        elif self.random.random() < 0.15:
            self._stop_cleanly()
        elif self.random.random() < 0.5:
            self._machine.plan_stop()
        else:
            self._crash(self._some_crash())

    def _some_crash(self) -> Crash:
        return self.random.choice(self._crashes)

    # ---- the broker ends ---------------------------------------------------------------------------------------

    def _crash(self, crash: Crash) -> None:
        self.note(f"---- {crash.value}")
        self._machine.stop(crash)
        self._break_links(flushed=self.random.random() < 0.5)
        self._start_again()

    def _break_links(self, *, flushed: bool) -> None:
        links, self._links = self._links, []
        for link in links:
            link.server_dies(self.random.choice((0.0, 1.0, 1.0, self.random.random())), flushed=flushed)

    def _stop_cleanly(self) -> None:
        self.note("---- the broker is stopped")
        for link in self._links:
            link.peer.close("the broker stops")
        self.store.close()
        self._break_links(flushed=False)
        if self.store.failure is not None:
            self._machine.stop(Crash.PROCESS_KILL)
        else:
            self._machine.stopped_cleanly()
        self._start_again()

    # ---- and begins again --------------------------------------------------------------------------------------

    def _start_again(self) -> None:
        self.clock.advance(self.random.choice((0.0, 0.0, 0.1, 4.0)))
        if self.random.random() < 0.15:
            self.note("---- the index is deleted")
            self._machine.lose_index()
        while not self._starts():
            pass
        for _ in range(self.random.choice((0, 4, 4))):  # most clients are back before anything else happens
            self._guarded(self._reconnect)

    def _reconnect(self) -> None:
        for client in self._clients:
            if not client.is_up:
                client.act()
        for link in list(self._links):
            if link.can_go_up:
                link.deliver_up(len(link.up))
            link.peer.flush()
            if link.can_go_down:
                link.deliver_down(len(link.down))

    def _starts(self) -> bool:
        """Try to start; that, too, can be cut off, or fail with the disk."""
        disk = self._machine.disk
        if not self._is_at_end:
            self._plan_trouble_at_start()
        failed_before = disk.failed_calls
        try:
            self.store = self._machine.open()
            consumed = _consumed(self.store)
            found = self._look(self.store, consumed)
            self._start_broker()
        except Stopped:
            self.note("---- it stops again while it starts")
            self._machine.stop(self._some_crash())
            return False
        except (OSError, UnusableStore, UnusableDatabase, StoreFailed) as error:
            if disk.failed_calls == failed_before:
                raise Violation(f"the store cannot be opened, and the disk is well: {error}") from error
            self.note(f"---- it cannot start: {error}")
            self._machine.stop(self._some_crash())
            return False
        self.note(f"---- the broker starts again: {self._machine.report}")
        self._check_names()
        self._check_consumed(consumed)
        self.ledger.restarted(found, self.clock.now_ms())
        return True

    def _check_names(self) -> None:
        """Queues, and durable subscriptions that were answered for, are there whether or not they hold a message."""
        registry = self.broker.registry
        forgotten = [it for it in self.queues if registry.router.get(parse_destination(it)) is None]
        durables = {f"durable:{it.client_id}" for it in registry.durables}
        forgotten += [it for it in self.ledger.durables if it not in durables]
        if forgotten:
            raise Violation(f"these are forgotten after a restart: {forgotten}")

    def _check_consumed(self, consumed: dict[Place, set[int]]) -> None:
        """What large transactions had consumed before the start is gone after it."""
        for place, sequences in consumed.items():
            left = sequences.intersection(it.sequence for it in self.store.waiting(place))
            if left:
                raise Violation(f"consumed by a committed transaction, still in {place!r}: {sorted(left)}")

    def _plan_trouble_at_start(self) -> None:
        chance = self.random.random()
        if chance < 0.15:
            self._machine.plan_stop()
        elif chance < 0.15 + 0.2 * self._disk_fault_share:
            self._machine.plan_fault()

    def _look(self, store: Store, consumed: dict[Place, set[int]]) -> Found:
        """What is there, before anything happens to it; without what the start is about to remove."""
        damages = [it for it in self._machine.damages if _NEVER_PROMISED not in it]
        if damages:
            raise Violation(f"the store calls its files damaged, and they are not: {damages}")
        present: dict[Copy, int] = {}
        dead: set[bytes] = set()
        for place in store.places():
            name = _name_of(place)
            if name.startswith("temp"):
                raise Violation(f"{name} is temporary, and was stored")
            for message in self._messages(store, place) if place != SET_ASIDE else ():
                if message.sequence in consumed.get(place, ()):
                    continue
                if name == DEAD_LETTERS:
                    dead.add(message.key)
                elif present.setdefault((name, message.key), message.sequence) != message.sequence:
                    raise Violation(f"{self.ledger.text((name, message.key))} is there twice after a restart")
        later = {job.message.key for job in store.jobs()}
        later.update(it.key for it in self._messages(store, SET_ASIDE) if it.sequence in _decided(store))
        return Found(present, dead, later, store.last_sequence())

    def _messages(self, store: Store, place: Place) -> list[Message]:
        sequences = [it.sequence for it in store.waiting(place)]
        messages = [it for it in store.load(place, sequences) if it is not None]
        if len(messages) < len(sequences):
            raise Violation(f"{len(sequences) - len(messages)} messages of {place!r} cannot be read")
        return messages

    # ---- the end -----------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        self._is_at_end = True
        self._machine.disk.repair()
        self._guarded(self._machine.settle)  # a call that has failed already says so now, and not while all is consumed
        if self.store.failure is not None or self.random.random() < 0.5:
            self._crash(self._some_crash())
        super()._finish()
        self._stop_cleanly()
        self._expect_empty_store()

    def _settle_store(self) -> None:
        self._machine.settle()


def _consumed(store: Store) -> dict[Place, set[int]]:
    """What large transactions have acknowledged that have committed: the start is about to remove it."""
    consumed: dict[Place, set[int]] = {}
    for note in store.state_records():
        if isinstance(note, StagedRecord) and is_acks(note):
            for place, runs in note.held:
                consumed.setdefault(place, set()).update(sequences_of(runs))
    return consumed


def _decided(store: Store) -> set[int]:
    """What large transactions have set aside that have committed: the start is about to route it."""
    parts = [it for it in store.state_records() if isinstance(it, StagedRecord) and it.committed]
    return {it for part in parts for place, runs in part.held if place == SET_ASIDE for it in sequences_of(runs)}


class ClientWorld(JournalWorld):
    """A world whose clients are the Python client's core, most of them, against a broker that crashes."""

    may_be_wide = False

    def _make_clients(self) -> list[Client]:
        count = self.random.randrange
        clients: list[Client] = [CoreProducer(self, f"cp{n}") for n in range(count(1, 4))]
        clients += [CoreConsumer(self, f"cc{n}") for n in range(count(1, 5))]
        clients += [Producer(self, "p"), Consumer(self, "c")][: count(3)]
        return clients

    def _keeps_order(self, place: str, message: Message) -> bool:
        # Several sends are on their way at once: one may be refused, those behind it taken, and it be repeated.
        return not self.has_limits and super()._keeps_order(place, message)


class QuickWorld(JournalWorld):
    """A world with few clients, in which messages are consumed before the disk has them, and then never reach it."""

    may_be_wide = False
    time_steps = (0.0003, 0.0003, 0.001, 3.0)

    def _choose_conditions(self) -> None:
        super()._choose_conditions()
        self.is_told = False  # with an audit everything is stored
        self.odds_are_good = True

    def _make_clients(self) -> list[Client]:
        count = self.random.randrange
        producers = [Producer(self, f"p{n}") for n in range(count(1, 3))]
        for producer in producers:
            producer.only_send_and_wait(self.queues[:1])
        modes = ("auto", "client", "individual")
        consumers = [
            Consumer(self, f"c{n}", mode=self.random.choice(modes), where=self.queues[0]) for n in range(count(1, 3))
        ]
        for consumer in consumers:
            consumer.prefetch, consumer.selector = 100, None
        return [*producers, *consumers]


class SqliteWorld(JournalWorld):
    """A world whose broker is on a database, which crashes and fails as a journal's disk does."""

    def _make_machine(self) -> Machine:
        return SqliteMachine(self.seed, self.random, self.clock)


class JournalSqliteWorld(JournalWorld):
    """A world whose broker has a journal in front of a database."""

    def _make_machine(self) -> Machine:
        return JournalSqliteMachine(self.seed, self.random, self.clock)


def _name_of(place: Place) -> str:
    """The name that the ledger has for it."""
    return f"durable:{place.client_id}" if isinstance(place, DurableKey) else repr(place)


def world_for(seed: int, *, store: str = "any", steps: int = STEPS, record: bool = False) -> World | BulkWorld:
    """The world of a seed, which says what store it has unless *store* does."""
    kind = STORES[seed % 3] if store == "any" else store
    if kind == "bulk":
        return BulkWorld(seed, steps=steps, record=record)
    if kind == "client":
        return ClientWorld(seed, steps=steps, record=record)
    if kind == "quick":
        return QuickWorld(seed, steps=steps, record=record)
    if kind == "sqlite":
        return SqliteWorld(seed, steps=steps, record=record)
    if kind == "journal+sqlite":
        return JournalSqliteWorld(seed, steps=steps, record=record)
    if kind == "journal":
        return JournalWorld(seed, steps=steps, record=record)
    return World(seed, pages=kind == "paging", steps=steps, record=record)


def run_seed(seed: int, store: str = "any") -> None:
    """Run one seed; a failure names it and how to see it again."""
    try:
        world_for(seed, store=store).run()
    except Exception as error:
        raise Violation(
            f"seed {seed}: {error!r}\nreplay: make simulate SEEDS={seed} STORE={store} VERBOSE=1"
        ) from error

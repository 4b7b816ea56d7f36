"""Cursors and staged batches from one seed, on a broker whose disk loses power: what Spark relies on.

    BulkWorld(seed).run()          # raises `Violation`

Producers send, consumers acknowledge, readers go through cursors as Spark's sources do (how far, read, perhaps again,
commit), and a writer stages and commits batches as Spark's sinks do: after a crash the same batch again, in new parts.
Each row has a name, and at the end each that was promised was seen by exactly one: acknowledged, or under one number of
one cursor. What was asked for and not answered has happened as a whole, or not at all.
"""

from collections.abc import Callable
from random import Random
from typing import Final

from ackwire.broker.cursors import Row
from ackwire.broker.in_flight import AckKind
from ackwire.errors import BrokerError, RangeGone, StoreFailed
from ackwire.store.journal.journal_store import JournalStore
from tests.helpers.broker_rig import RIGS, BrokerRig, RigClient, RigConsumer, named, text_of
from tests.helpers.journal import JournalFactory
from tests.helpers.simulated_disk import Stopped
from tests.helpers.stores import Crash
from tests.simulation.audit import Violation

QUEUE: Final = "queue://q"
OTHER: Final = "queue://other"
"""Whose messages make gaps in the sequences of the first."""
TOPIC: Final = "topic://t"
CURSORS: Final = {"one": QUEUE, "two": QUEUE, "news": TOPIC}
_ROUNDS_MAX: Final = 400


class Cursor:
    """What the reader of a cursor knows, durably: it has a checkpoint of its own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows: dict[int, str] = {}
        """What it has read, by number."""
        self.end = 0
        """How far it was told that it may read."""
        self.committed = 0
        """What it has asked to commit."""


class Batch:
    """A batch that the writer wants to be there once."""

    def __init__(self, number: int, rows: list[str]) -> None:
        self.number = number
        self.rows = rows
        self.attempt = 0
        self.parts: list[str] = []
        self.staged = 0
        self.is_asked = False
        """Whether its commit was asked for: then it may be there."""


class BulkWorld:
    """A broker on a journal, its clients, and what they know."""

    def __init__(self, seed: int, *, steps: int = 400, record: bool = False) -> None:
        self.seed = seed
        self.steps = steps
        self.history: list[str] | None = [] if record else None
        self.random = Random(seed)
        self.factory = JournalFactory(seed)
        self.cursors = [Cursor(name) for name in CURSORS]
        self.sent: dict[str, bool] = {}
        """Rows that were sent: whether that was confirmed."""
        self.persistent: set[str] = set()
        self.acked: dict[str, bool] = {}
        """Rows that a consumer has acknowledged: whether that was confirmed."""
        self.batch = Batch(0, [])
        self.batched: dict[str, int] = {}
        """The batch of each row that was written in one."""
        self.done_batches: set[int] = set()
        self._life = 0
        self._crash_rate = self.random.choice((0.0, 0.01, 0.03))
        self._start()

    def note(self, text: str) -> None:
        if self.history is not None:
            self.history.append(text)

    # ---- lives -------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._life += 1
        self.store = self.factory.open()
        RIGS.clear()  # earlier lives would stay in memory
        self.rig = BrokerRig(clock=self.factory.clock, store=self.store)  # type: ignore[arg-type]  # any store will do
        self.producer: RigClient = self.rig.connect(f"p{self._life}")
        self.consumer: RigConsumer = self.rig.connect(f"c{self._life}").consumer(QUEUE, prefetch=3)
        for cursor in self.cursors:
            facts = self.rig.broker.cursors.open(cursor.name, named(CURSORS[cursor.name]))
            if not cursor.committed <= facts.assigned or facts.assigned < cursor.end:
                raise Violation(f"{cursor.name} was told {cursor.end}, and after a restart it has {facts}")
            if facts.committed > cursor.committed:
                raise Violation(f"{cursor.name} has committed {facts.committed}, and was asked for {cursor.committed}")

    def _crash(self, crash: Crash) -> None:
        self.note(f"{crash.value}")
        self.factory.stop(crash)
        if self.batch.rows:  # as Spark does: the same batch, another attempt
            self.batch.attempt += 1
            self.batch.parts, self.batch.staged = [], 0
        self._start()

    def run(self) -> None:
        for _ in range(self.steps):
            self._guarded(self._step)
        self._crash_rate = 0.0
        self._finish()

    def _guarded(self, do: Callable[[], None]) -> None:
        try:
            do()
        except Stopped:
            self._crash(self.random.choice(list(Crash)))
        except StoreFailed:
            self._crash(Crash.PROCESS_KILL)

    def _step(self) -> None:
        if self.random.random() < self._crash_rate:
            self._crash(self.random.choice(list(Crash)))
            return
        actions = (self.factory.step, self._send, self._acknowledge, self._read, self._commit, self._write)
        self.random.choices(actions, (6, 4, 2, 3, 1, 3))[0]()

    # ---- sending and consuming ---------------------------------------------------------------------------------

    def _send(self) -> None:
        for _ in range(self.random.choice((1, 1, 5, 20))):
            where = self.random.choice((QUEUE, QUEUE, QUEUE, OTHER, TOPIC))
            row = f"s{len(self.sent)} {where}"
            persistent = self.random.random() < 0.9
            message = self.producer.message(named(where), row, persistent=persistent)
            self.sent[row] = False
            if persistent:
                self.persistent.add(row)

            def stored(row: str = row, life: int = self._life) -> None:
                if life == self._life:
                    self.sent[row] = True

            self.rig.broker.send(self.producer.connection, message, stored)

    def _acknowledge(self) -> None:
        in_flight = list(self.consumer.subscription.in_flight)  # type: ignore[attr-defined]
        for message in in_flight[: self.random.choice((1, 3))]:
            row = text_of(message)
            assert row is not None
            self._check_visible(row)
            self._check_not_read(row)
            self.acked.setdefault(row, False)

            def done(row: str = row, life: int = self._life) -> None:
                if life == self._life:
                    self.acked[row] = True

            self.consumer.ack(message, kind=AckKind.INDIVIDUAL)
            self.rig.broker.when_durable(done, lambda _: None)

    def _check_visible(self, row: str) -> None:
        batch = self.batched.get(row)
        if (
            batch is not None
            and batch not in self.done_batches
            and not (batch == self.batch.number and self.batch.is_asked)
        ):
            raise Violation(f"{row} is seen, and batch {batch} was not committed")

    def _check_not_read(self, row: str) -> None:
        for cursor in self.cursors:
            if CURSORS[cursor.name] == QUEUE and row in cursor.rows.values():
                raise Violation(f"{row} belongs to cursor {cursor.name}, and a consumer gets it")

    # ---- cursors -----------------------------------------------------------------------------------------------

    def _read(self) -> None:
        cursor, life = self.random.choice(self.cursors), self._life

        def told(end: int) -> None:
            if life == self._life:
                cursor.end = max(cursor.end, end)
                self._read_rows(cursor)

        after = self.random.choice((cursor.committed, cursor.end))
        limit = self.random.choice((1, 5, 50))
        self.rig.broker.cursors.latest(cursor.name, after, limit, told, lambda _: None)

    def _read_rows(self, cursor: Cursor) -> None:
        after = self.random.randint(cursor.committed, cursor.end)
        life = self._life

        def arrived(rows: list[Row]) -> None:
            if life == self._life:
                self._check_rows(cursor, rows)

        self.rig.broker.cursors.rows(cursor.name, after, cursor.end, arrived, self._refused)

    def _refused(self, error: BrokerError) -> None:
        """A range may be committed while it is read; nothing else may go wrong."""
        if not isinstance(error, RangeGone) or "were committed" not in str(error):
            raise Violation(f"rows of a cursor were refused: {error}")

    def _check_rows(self, cursor: Cursor, rows: list[Row]) -> None:
        for row in rows:
            text = text_of(self.rig.editor.restored(row[1]))
            assert text is not None
            self._check_visible(text)
            if cursor.rows.setdefault(row[0], text) != text:
                raise Violation(f"{cursor.name}: number {row[0]} was {cursor.rows[row[0]]}, and now it is {text}")
            if CURSORS[cursor.name] == QUEUE and self.acked.get(text):
                raise Violation(f"{text} was acknowledged, and cursor {cursor.name} gets it")

    def _commit(self) -> None:
        cursor = self.random.choice(self.cursors)
        while cursor.committed < cursor.end and cursor.committed + 1 in cursor.rows:
            cursor.committed += 1
        self.note(f"{cursor.name} commits {cursor.committed}")
        self.rig.broker.cursors.commit(cursor.name, cursor.committed, lambda _: None, lambda _: None)

    # ---- batches -----------------------------------------------------------------------------------------------

    def _write(self) -> None:
        batch = self.batch
        if not batch.rows:
            names = [f"b{batch.number}.{row}" for row in range(self.random.choice((0, 1, 5, 40)))]
            batch.rows = [f"{name} {self.random.choice((QUEUE, QUEUE, TOPIC))}" for name in names] or ["none"]
            self.batched.update((row, batch.number) for row in batch.rows)
        if batch.staged < len(batch.rows):
            self._stage_some(batch)
        else:
            self._commit_batch(batch)

    def _stage_some(self, batch: Batch) -> None:
        part = f"{batch.number}-{batch.attempt}-{self._life}-{self.random.randrange(2)}"
        rows = batch.rows[batch.staged : batch.staged + self.random.choice((1, 7, 30))]
        real = [row for row in rows if row != "none"]
        messages = [self.producer.message(named(row.split()[1]), row) for row in real]
        first = self.rig.broker.staging.next_sequences(len(messages))
        for sequence, message in enumerate(messages, first):
            self.rig.editor.stamper.stamp(message, sequence, self.factory.clock.now_ms())
        try:
            self.rig.broker.staging.stage("w", batch.number, part, messages, lambda: None, lambda _: None)
        except BrokerError as error:
            if "is committed already" not in str(error) or not batch.is_asked:
                raise Violation(f"batch {batch.number} cannot be staged: {error}") from error
        else:
            batch.parts.append(part)
        batch.staged += len(rows)

    def _commit_batch(self, batch: Batch) -> None:
        life = self._life
        batch.is_asked = True

        def done(is_first: bool) -> None:
            if life != self._life or batch is not self.batch:
                return
            self.note(f"batch {batch.number} is committed: {is_first}")
            self.done_batches.add(batch.number)
            self.batch = Batch(batch.number + 1, [])

        self.rig.broker.staging.commit("w", batch.number, batch.parts, done, lambda _: None)

    # ---- the end -----------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        assert isinstance(self.store, JournalStore)
        for _ in range(_ROUNDS_MAX):
            self._guarded(self._finish_some)
            if not self.batch.rows and self._is_at_rest():
                break
        else:
            raise Violation("it does not come to rest")
        self._crash(Crash.PROCESS_KILL)
        for _ in range(_ROUNDS_MAX):
            self._guarded(self._drain_some)
            if self._is_at_rest():
                break
        self._judge()

    def _finish_some(self) -> None:
        if self.batch.rows:
            self._write()
        self._drain_some()

    def _drain_some(self) -> None:
        for cursor in self.cursors:

            def told(end: int, cursor: Cursor = cursor) -> None:
                cursor.end = max(cursor.end, end)

            self.rig.broker.cursors.latest(cursor.name, cursor.end, 500, told, lambda _: None)
        self._acknowledge()
        self.factory.settle()

    def _is_at_rest(self) -> bool:
        return not self.consumer.subscription.dispatched and not self.rig.pending(QUEUE)

    def _judge(self) -> None:
        for cursor in self.cursors:
            found: list[list[Row]] = []
            self.rig.broker.cursors.rows(cursor.name, cursor.committed, cursor.end, found.append, self._refused)
            self.factory.settle()
            [rows] = found
            for it in rows:
                text = text_of(self.rig.editor.restored(it[1]))
                assert text is not None
                if cursor.rows.setdefault(it[0], text) != text:
                    raise Violation(f"{cursor.name}: number {it[0]} has changed to {text} at the end")
            if sorted(cursor.rows) != list(range(1, cursor.end + 1)):
                raise Violation(f"{cursor.name} has gaps in its numbers up to {cursor.end}")
            if len(set(cursor.rows.values())) != len(cursor.rows):
                raise Violation(f"{cursor.name} has got a row twice")
        promised = {row for row, is_confirmed in self.sent.items() if is_confirmed}
        promised |= {row for row, batch in self.batched.items() if batch in self.done_batches and row != "none"}
        for row in {*self.sent, *self.batched}:
            if not row.endswith(OTHER) and row != "none":
                self._judge_row(row, is_promised=row in promised)

    def _judge_row(self, row: str, *, is_promised: bool) -> None:
        is_topic = row.endswith(TOPIC)
        readers = [it.name for it in self.cursors if row in it.rows.values()]
        takers = readers + (["the consumer"] if self.acked.get(row) else [])
        may_be_lost = row in self.sent and row not in self.persistent and self._life > 2
        if is_promised and not takers and not may_be_lost and row not in self.acked:
            raise Violation(f"{row} is lost")
        if len(takers) > 1:
            raise Violation(f"{row} went to {takers}")
        if is_topic and takers and takers != ["news"]:
            raise Violation(f"{row} of a topic went to {takers}")

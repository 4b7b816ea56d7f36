"""What is in the Parquet files is what the broker has told."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ackwire.broker.auditing import Event
from ackwire.broker.in_flight import AckKind
from ackwire.config.policy import DestinationPolicy
from ackwire.util.clock import Turns
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.id_text import producer_text
from tests.helpers.broker_rig import BrokerRig
from tests.helpers.bulk import Reader, Writer
from tests.helpers.operating import purged
from tests.helpers.recorded_audit import RecordedAudit, Told, tee
from tests.simulation.world import World
from tests.unit.audit.rigs import FileAudit


class AuditedRig(BrokerRig):
    """A rig whose audit goes to files, too."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.files = FileAudit(directory, **settings)
        self.recorded = RecordedAudit()
        policy = DestinationPolicy(match="queue://discarding", dead_letter_non_persistent=False)
        super().__init__(clock=self.files.clock, audit=tee(self.recorded, self.files.log), policies=(policy,))

    def rows(self, *names: str) -> list[dict[str, Any]]:
        """All events, or only those of these names."""
        rows = self.files.finish()
        return [row for row in rows if not names or row["event"] in names]


@pytest.fixture
def rig(tmp_path: Path) -> AuditedRig:
    return AuditedRig(tmp_path)


def as_told(row: dict[str, Any]) -> tuple[Any, ...]:
    return (row["event"], row["place"], row["sequence"] or 0, row["message_id"], row["consumer"], row["cause"])


def as_row(told: Told) -> tuple[Any, ...]:
    count = None if told.key is None else int.from_bytes(told.key[-8:], signed=True)
    message_id = None if told.key is None else f"{producer_text(told.key[:-8])}:{count}"
    return (told.event.name.lower(), told.place, told.sequence, message_id, told.consumer, told.cause)


def test_the_life_of_a_message(rig: AuditedRig) -> None:
    consumer = rig.consumer("queue://orders")
    message = rig.connect("p").send("queue://orders", persistent=False, priority=7)
    consumer.ack()
    sent, stored, dispatched, acked = rig.rows("sent", "stored", "dispatched", "acked")
    assert sent["place"] is None
    assert sent["connection"] == "ID:p"
    assert stored["place"] == dispatched["place"] == acked["place"] == "queue://orders"
    assert stored["consumer"] is None
    assert dispatched["consumer"] == acked["consumer"] == consumer.subscription.consumer_id
    assert dispatched["client_id"] == "client-1"
    assert acked["ack_type"] == "standard"
    for row in (sent, stored, dispatched, acked):
        assert row["message_id"] == rig.editor.message_id(message)
        assert row["sequence"] == message.sequence
        assert row["destination"] == "queue://orders"
        assert row["size"] == message.size_bytes
        assert row["priority"] == 7
        assert row["persistent"] is False
        assert row["sent_time"] == row["time"] == datetime.fromtimestamp(rig.clock.now_ms() / 1000, UTC)


def test_numbers_are_dense_from_one(rig: AuditedRig) -> None:
    consumer = rig.consumer("queue://orders", prefetch=3)
    producer = rig.connect("p")
    for _ in range(10):
        producer.send("queue://orders")
        rig.files.log.flush()
    consumer.ack_each()
    rows = rig.rows()
    assert [row["number"] for row in rows] == list(range(1, len(rows) + 1))
    assert {row["run"] for row in rows} == {rig.files.run.run}


def test_a_message_that_nobody_can_process_ends_with_its_cause_and_begins_as_a_dead_letter(rig: AuditedRig) -> None:
    consumer = rig.consumer("queue://orders")
    rig.connect("p").send("queue://orders")
    consumer.ack(kind=AckKind.POISON, cause="too hot")
    rows = rig.rows("dead_lettered", "stored")
    assert [(row["event"], row["place"], row["cause"]) for row in rows] == [
        ("stored", "queue://orders", None),
        ("stored", "queue://ActiveMQ.DLQ", None),
        ("dead_lettered", "queue://orders", "too hot"),
    ]


def test_what_the_policy_drops_is_discarded(rig: AuditedRig) -> None:
    consumer = rig.consumer("queue://discarding")
    rig.connect("p").send("queue://discarding", persistent=False)
    consumer.ack(kind=AckKind.POISON, cause="too hot")
    (row,) = rig.rows("discarded")
    assert row["cause"].startswith("too hot; the policy")


def test_G1_a_transaction_is_named_by_what_was_sent_and_acknowledged_in_it(rig: AuditedRig) -> None:
    client = rig.connect("c")
    consumer = client.consumer("queue://in")
    rig.connect("p").send("queue://in")
    transaction = client.begin(7)
    consumer.ack(transaction=transaction)
    client.send("queue://out", transaction=transaction)
    assert [it.event for it in rig.recorded.events if it.event in (Event.ACKED, Event.SENT)] == [Event.SENT]
    client.commit(transaction)
    rows = rig.rows("sent", "acked")
    assert [(row["event"], row["transaction"]) for row in rows] == [
        ("sent", None),
        ("acked", "TX:ID:c:7"),
        ("sent", "TX:ID:c:7"),
    ]


def test_G1_what_is_rolled_back_was_never_sent(rig: AuditedRig) -> None:
    client = rig.connect("c")
    transaction = client.begin()
    client.send("queue://out", transaction=transaction)
    client.roll_back(transaction)
    assert rig.rows("sent", "stored") == []


def test_D7_a_consumer_that_leaves_gives_back_what_it_saw_and_what_not(rig: AuditedRig) -> None:
    consumer = rig.consumer("queue://orders")
    producer = rig.connect("p")
    seen = producer.send("queue://orders")
    producer.send("queue://orders")
    consumer.close(last_delivered=seen.sequence)
    rows = rig.rows("redelivered", "returned")
    assert [(row["event"], row["redelivery_count"]) for row in rows] == [("redelivered", 1), ("returned", 0)]


def test_subscribers_of_a_topic_have_a_copy_each(rig: AuditedRig) -> None:
    first, second = rig.consumer("topic://news"), rig.consumer("topic://news")
    rig.connect("p").send("topic://news")
    second.ack()
    rows = rig.rows("sent", "stored", "dispatched", "acked")
    assert [(row["event"], row["place"], row["consumer"]) for row in rows] == [
        ("sent", None, None),
        ("dispatched", "topic://news", first.subscription.consumer_id),
        ("dispatched", "topic://news", second.subscription.consumer_id),
        ("acked", "topic://news", second.subscription.consumer_id),
    ]
    assert rows[-1]["ack_type"] == "topic"
    assert rows[-1]["message_id"] == rows[0]["message_id"]


def test_A3_a_durable_subscription_is_a_place_of_its_own(rig: AuditedRig) -> None:
    client = rig.connect("c/1")
    consumer = client.consumer("topic://news", subscription_name="mine")
    rig.connect("p").send("topic://news")
    consumer.ack()
    rows = rig.rows("stored", "dispatched", "acked")
    assert [(row["event"], row["place"]) for row in rows] == [
        ("stored", "durable://c%2F1/mine"),
        ("dispatched", "durable://c%2F1/mine"),
        ("acked", "durable://c%2F1/mine"),
    ]


def test_I1_what_is_scheduled_is_sent_when_it_is_due(rig: AuditedRig) -> None:
    from ackwire.jms.types import Long

    rig.connect("p").send("queue://orders", properties={"AMQ_SCHEDULED_DELAY": Long(1000)})
    assert not rig.recorded.of(Event.SENT)
    rig.clock.advance(2)
    rows = rig.rows("sent", "stored")
    assert [row["event"] for row in rows] == ["sent", "stored"]


def test_what_the_broker_says_about_itself_is_not_told(rig: AuditedRig) -> None:
    watcher = rig.consumer("topic://ActiveMQ.Advisory.>")
    rig.connect("p").send("queue://orders")
    watcher.ack()
    assert {row["destination"] for row in rig.rows() if row["message_id"]} == {"queue://orders"}


def test_a_purge_tells_of_every_message(rig: AuditedRig) -> None:
    producer = rig.connect("p")
    sequences = [producer.send("queue://orders").sequence for _ in range(3)]
    queue: Any = rig.broker.registry.get_or_make(producer.message("queue://orders").destination)
    purged(queue)
    assert [row["sequence"] for row in rig.rows("purged")] == sequences


def test_a_queue_that_is_deleted_discards_what_was_in_it(rig: AuditedRig) -> None:
    client = rig.connect("c")
    where = client.temporary_queue()
    client.send(where)
    client.disconnect()
    (row,) = rig.rows("discarded")
    assert row["cause"] == "its queue or subscription was deleted"


def test_a_census_counts_what_waits_and_what_is_in_flight(rig: AuditedRig) -> None:
    rig.consumer("queue://orders", prefetch=1)
    producer = rig.connect("p")
    for _ in range(3):
        producer.send("queue://orders")
    rig.clock.advance(61)
    rows = [row for row in rig.rows("census") if row["place"] == "queue://orders"]
    assert [(row["count"], row["sequence"]) for row in rows] == [(3, None)]


def test_a_stop_in_peace_tells_what_is_not_kept_and_counts_the_rest(rig: AuditedRig) -> None:
    rig.connect("p").send("queue://orders", persistent=False)
    rig.broker.stop()
    rows = rig.rows("discarded", "census", "stopped")
    assert [row["event"] for row in rows] == ["discarded", "census", "stopped"]
    assert rows[1]["count"] == 0


def test_a_new_chunk_explains_itself(tmp_path: Path) -> None:
    rig = AuditedRig(tmp_path, roll_seconds=0.1)
    consumer = rig.consumer("queue://orders")
    producer = rig.connect("p")
    for _ in range(3):
        producer.send("queue://orders")
        consumer.ack()
        rig.clock.advance(1)
    rows = rig.rows("sent", "acked")
    assert len(list(tmp_path.rglob("*.parquet"))) >= 3
    assert {row["destination"] for row in rows} == {"queue://orders"}
    assert all(row["consumer"] for row in rows if row["event"] == "acked")
    assert len({row["message_id"] for row in rows}) == 3


def test_a_cursor_is_a_consumer(rig: AuditedRig) -> None:
    producer = rig.connect("p")
    sequences = [producer.send("queue://q").sequence for _ in range(3)]
    reader = Reader(rig)
    reader.latest()
    reader.commit(2)
    rig.clock.advance(0)
    rows = rig.rows("dispatched", "acked")
    assert [(row["event"], row["sequence"]) for row in rows] == [
        *(("dispatched", it) for it in sequences),
        *(("acked", it) for it in sequences[:2]),
    ]
    assert {row["consumer"] for row in rows} == {f"cursor:{reader.name}"}
    assert rows[-1]["ack_type"] == "cursor"


def test_a_staged_batch_is_sent_and_stored_when_it_is_committed(rig: AuditedRig) -> None:
    consumer, writer = rig.consumer("queue://q"), Writer(rig)
    writer.stage(["a", "b"])
    assert not rig.recorded.of(Event.SENT)
    writer.commit()
    rows = rig.rows("sent", "stored", "dispatched")
    assert [row["event"] for row in rows] == ["sent", "stored", "sent", "stored", "dispatched", "dispatched"]
    ids = [rig.editor.message_id(message) for message in consumer.delivered]
    assert [row["message_id"] for row in rows] == [ids[0], ids[0], ids[1], ids[1], *ids]


@pytest.mark.parametrize("seed", range(1, 13))
def test_a_simulated_broker_tells_the_files_what_it_tells_the_model(seed: int, tmp_path: Path) -> None:
    files = FileAudit(tmp_path, roll_seconds=0.5)
    world = _AuditedWorld(seed, files)
    world.run()
    rows = files.finish()
    told = [it for it in world.told.events if not (it.place or "").startswith("topic://ActiveMQ.Advisory.")]
    assert [row["number"] for row in rows] == list(range(1, len(told) + 1))
    assert [as_told(row) for row in rows] == [as_row(it) for it in told]
    acks = [it.transaction is not None for it in told if it.event is Event.ACKED]
    assert [row["transaction"] is not None for row in rows if row["event"] == "acked"] == acks
    redeliveries = [it.redeliveries for it in told if it.event is Event.REDELIVERED]
    assert [row["redelivery_count"] for row in rows if row["event"] == "redelivered"] == redeliveries


class _AuditedWorld(World):
    def __init__(self, seed: int, files: FileAudit) -> None:
        self._files = files
        super().__init__(seed, pages=seed % 2 == 0)

    def _make_audit(self) -> Any:
        self.told = RecordedAudit(ids_are_unique=True)
        return tee(self.told, self._files.log)


def test_a_local_transaction_reads_as_clients_see_it() -> None:
    from ackwire.wire.openwire.id_text import transaction_text

    assert transaction_text(commands.LocalTransactionId(3, commands.ConnectionId("ID:a"))) == "TX:ID:a:3"


def test_a_time_is_used_for_few_messages_and_in_one_turn_only(tmp_path: Path) -> None:
    turns = Turns()
    files = FileAudit(tmp_path, turns=turns)
    rig = BrokerRig(clock=files.clock, audit=files.log)
    producer = rig.connect("p")
    for number in range(80):
        producer.send("queue://orders")
        files.clock.advance(0.001)
        if number == 69:
            turns.number += 1
    start = datetime.fromtimestamp(1_700_000_000, UTC)
    rows = [row for row in files.finish() if row["event"] == "sent"]
    milliseconds = [round((row["time"] - start).total_seconds() * 1000) for row in rows]
    assert milliseconds == [0] * 32 + [32] * 32 + [64] * 6 + [70] * 10


def test_times_go_up_with_the_numbers(tmp_path: Path) -> None:
    files = FileAudit(tmp_path, turns=Turns())
    rig = BrokerRig(clock=files.clock, audit=files.log)
    consumer, producer = rig.consumer("queue://orders"), rig.connect("p")
    for _ in range(3):
        producer.send("queue://orders")
        files.clock.advance(0.001)
        consumer.ack(kind=AckKind.POISON, cause="too hot")
    times = [row["time"] for row in files.finish()]
    assert times == sorted(times)
    assert len(set(times)) == 4


def test_what_is_durable_is_told_once_and_at_once(rig: AuditedRig) -> None:
    """The store says how far it has come before it answers anybody."""
    log = rig.files.log
    rig.connect("p").send("queue://orders")
    told = log.flush()
    log.durable(told)
    log.durable(told)
    log.durable(log.flush())  # the mark itself needs none
    rows = rig.files.finish()
    marks = [row for row in rows if row["event"] == "durable"]
    assert [(row["number"], row["count"], row["sequence"]) for row in marks] == [(told + 1, told, None)]
    assert max(row["number"] for row in rows if row["event"] == "stored") <= told

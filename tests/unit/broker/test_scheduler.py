"""Scheduled delivery (SEMANTICS I), on a manual clock."""

from datetime import UTC, datetime
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from ackwire.broker.cron import local_zone, next_time_ms
from ackwire.broker.transactions import TransactionError
from ackwire.config.policy import DestinationPolicy
from ackwire.errors import BrokerError, ResourceLimit
from ackwire.jms.types import Int, Long, Value
from ackwire.store.contract import ScheduledJob
from ackwire.store.memory import MemoryStore
from ackwire.util.clock import ManualClock
from tests.helpers.broker_rig import BrokerRig, RigClient, RigConsumer, command_of, text_of

MANAGEMENT = "topic://ActiveMQ.Scheduler.Management"
JOB_ID = "scheduledJobId"


@pytest.fixture
def rig() -> BrokerRig:
    return BrokerRig(clock=ManualClock(_ms("2024-03-15 12:00:30")))


@pytest.fixture
def producer(rig: BrokerRig) -> RigClient:
    rig.broker.scheduler.zone = UTC
    return rig.connect("producer")


@pytest.fixture
def consumer(rig: BrokerRig) -> RigConsumer:
    return rig.consumer("queue://later", prefetch=10_000)


def _ms(text: str, zone: Any = UTC) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp() * 1000)


def _schedule(client: RigClient, text: str = "x", **properties: Value) -> None:
    """Send to `queue://later` with the properties AMQ_SCHEDULED_…"""
    named = {f"AMQ_SCHEDULED_{name.upper()}": value for name, value in properties.items()}
    client.send("queue://later", text, properties=named)


def _manage(client: RigClient, action: str, *, reply_to: object = None, **properties: Value) -> None:
    client.send(MANAGEMENT, None, properties={"AMQ_SCHEDULER_ACTION": action, **properties}, reply_to=reply_to)


def _times(rig: BrokerRig, consumer: RigConsumer, seconds: float) -> list[float]:
    """When messages came to the queue in the next *seconds*, counted from now."""
    start_ms = rig.clock.now_ms()
    seen = len(consumer.delivered)
    rig.clock.advance(seconds)
    return [(command_of(message).broker_in_time - start_ms) / 1000 for message in consumer.delivered[seen:]]


# ---- delay, period, repeat -------------------------------------------------------------------------------------


def test_I1_a_delayed_message_comes_after_its_delay(rig: BrokerRig, producer: RigClient, consumer: RigConsumer) -> None:
    _schedule(producer, "hello", delay=Long(5000))
    rig.clock.advance(4.999)
    assert consumer.texts == []
    assert producer.stored == 1, "the send is answered at once"
    rig.clock.advance(0.001)
    assert consumer.texts == ["hello"]
    rig.clock.advance(3600)
    assert len(consumer.delivered) == 1
    assert len(rig.broker.scheduler) == rig.broker.scheduler.used_bytes == 0


def test_I1_the_delivered_message_names_its_job_and_loses_the_schedule(
    rig: BrokerRig, producer: RigClient, consumer: RigConsumer
) -> None:
    sent = producer.send("queue://later", properties={"AMQ_SCHEDULED_DELAY": Long(10), "colour": "red"})
    job = rig.broker.scheduler.jobs()[0]
    rig.clock.advance(1)
    assert consumer.properties() == {"colour": "red", JOB_ID: job.job_id}
    assert rig.editor.message_id(consumer.delivered[0]) == rig.editor.message_id(sent), "once: it is the same message"
    assert job.job_id.startswith(producer.producer_id)


@pytest.mark.parametrize("value", [Int(2000), Long(2000), 2000, "2000", "+2000"])
def test_I1_numbers_may_be_text(rig: BrokerRig, producer: RigClient, consumer: RigConsumer, value: Value) -> None:
    _schedule(producer, delay=value)
    assert _times(rig, consumer, 3) == [2.0]


def test_I1_repeat_n_is_n_plus_one_deliveries_with_ids_of_their_own(
    rig: BrokerRig, producer: RigClient, consumer: RigConsumer
) -> None:
    _schedule(producer, delay=1000, period=500, repeat=3)
    assert _times(rig, consumer, 60) == [1.0, 1.5, 2.0, 2.5]
    ids = {rig.editor.message_id(message) for message in consumer.delivered}
    assert len(ids) == 4
    assert len({consumer.properties(index)[JOB_ID] for index in range(4)}) == 1


def test_I1_without_a_delay_the_first_delivery_comes_after_the_period(
    rig: BrokerRig, producer: RigClient, consumer: RigConsumer
) -> None:
    _schedule(producer, period=700, repeat=1)
    assert _times(rig, consumer, 5) == [0.7, 1.4]


def test_I1_a_period_without_repeat_is_a_delay(rig: BrokerRig, producer: RigClient, consumer: RigConsumer) -> None:
    _schedule(producer, period=700)
    assert _times(rig, consumer, 5) == [0.7]


def test_I1_repeat_below_zero_does_not_end(rig: BrokerRig, producer: RigClient, consumer: RigConsumer) -> None:
    _schedule(producer, delay=1000, period=1000, repeat=-1)
    assert _times(rig, consumer, 500) == [float(number) for number in range(1, 501)]


def test_I1_a_series_without_a_period_keeps_a_pace(rig: BrokerRig, producer: RigClient, consumer: RigConsumer) -> None:
    _schedule(producer, delay=1000, repeat=-1)
    assert _times(rig, consumer, 1.35) == [1.0, 1.1, 1.2, 1.3]


def test_I1_repeat_alone_schedules_nothing(producer: RigClient, consumer: RigConsumer) -> None:
    _schedule(producer, repeat=3)
    assert consumer.properties() == {"AMQ_SCHEDULED_REPEAT": 3}


def test_I1_a_message_that_names_a_job_is_not_scheduled_again(producer: RigClient, consumer: RigConsumer) -> None:
    producer.send("queue://later", properties={"AMQ_SCHEDULED_DELAY": 5000, JOB_ID: "x"})
    assert len(consumer.delivered) == 1


@pytest.mark.parametrize("delay", [0, -5, None])
def test_I1_no_time_left_means_now(
    rig: BrokerRig, producer: RigClient, consumer: RigConsumer, delay: int | None
) -> None:
    _schedule(producer, delay=delay)
    rig.clock.advance(0)
    assert len(consumer.delivered) == 1


def test_I1_jobs_due_at_the_same_time_keep_the_order_of_sending(
    rig: BrokerRig, producer: RigClient, consumer: RigConsumer
) -> None:
    for number in range(50):
        _schedule(producer, str(number), delay=1000)
    rig.clock.advance(1)
    assert consumer.texts == [str(number) for number in range(50)]


def test_I1_ordinary_properties_that_look_alike_are_left_alone(producer: RigClient, consumer: RigConsumer) -> None:
    producer.send("queue://later", properties={"note": "set AMQ_SCHEDULED_DELAY to delay"})
    producer.send("queue://later", "AMQ_SCHEDULED_DELAY", properties={"a": 1})
    assert len(consumer.delivered) == 2


def test_I1_a_composite_destination_has_a_job_for_each_part(rig: BrokerRig, producer: RigClient) -> None:
    ones, twos = rig.consumer("queue://one"), rig.consumer("topic://two")
    producer.send("queue://one,topic://two", properties={"AMQ_SCHEDULED_DELAY": 1000})
    assert len(rig.broker.scheduler) == 2
    rig.clock.advance(1)
    assert len(ones.delivered) == len(twos.delivered) == 1


def test_I1_the_delay_does_not_shorten_a_messages_life(
    rig: BrokerRig, producer: RigClient, consumer: RigConsumer
) -> None:
    now_ms = rig.clock.now_ms()
    producer.send("queue://later", properties={"AMQ_SCHEDULED_DELAY": 60_000}, expiration=now_ms + 1000)
    rig.clock.advance(60)
    message = consumer.delivered[0]
    assert (message.timestamp, message.expiration) == (now_ms + 60_000, now_ms + 61_000)


# ---- cron ------------------------------------------------------------------------------------------------------


def test_I1_cron_delivers_at_each_of_its_moments(rig: BrokerRig, producer: RigClient, consumer: RigConsumer) -> None:
    _schedule(producer, cron="*/5 * * * *")
    assert _times(rig, consumer, 900) == [270, 570, 870]
    assert len({rig.editor.message_id(message) for message in consumer.delivered}) == 3


def test_I1_cron_with_a_delay_shifts_the_first_delivery_only(
    rig: BrokerRig, producer: RigClient, consumer: RigConsumer
) -> None:
    _schedule(producer, cron="* * * * *", delay=5000)
    assert _times(rig, consumer, 160) == [35, 90, 150]


def test_I1_cron_with_repeat_starts_a_series_at_each_moment(
    rig: BrokerRig, producer: RigClient, consumer: RigConsumer
) -> None:
    _schedule(producer, cron="0 13 * * *", delay=1000, period=500, repeat=2)
    # The first moment is shifted by the delay, and the delay is waited for again in the series, as in ActiveMQ.
    assert _times(rig, consumer, 3600 + 10)[:4] == pytest.approx([3572, 3572.5, 3573])
    assert len(rig.broker.scheduler) == 1, "the cron job goes on"
    assert rig.broker.scheduler.jobs()[0].due_ms == _ms("2024-03-16 13:00:00")


def test_I1_cron_goes_by_the_local_time_zone(rig: BrokerRig, producer: RigClient) -> None:
    rig.broker.scheduler.zone = ZoneInfo("America/New_York")
    _schedule(producer, cron="30 9 * * *")
    assert rig.broker.scheduler.jobs()[0].due_ms == _ms("2024-03-15 13:30:00")


@pytest.mark.parametrize(
    ("entry", "after", "expected"),
    [
        ("* * * * *", "2024-03-15 12:00:00", "2024-03-15 12:01:00"),
        ("0 12 ? * *", "2024-03-15 12:00:00", "2024-03-16 12:00:00"),
        ("0 0 */5 * *", "2024-03-15 12:00:00", "2024-03-20 00:00:00"),
        ("0 0 1-31/7 * *", "2024-03-15 12:00:00", "2024-03-21 00:00:00"),
        ("10,40 * * * *", "2024-03-15 12:10:00", "2024-03-15 12:40:00"),
        ("0 0 29 2 *", "2024-03-15 12:00:00", "2028-02-29 00:00:00"),
        ("0 9 * * 1-5", "2024-03-15 12:00:00", "2024-03-18 09:00:00"),
        ("0 9 * * MON", "2024-03-15 12:00:00", "2024-03-18 09:00:00"),
    ],
)
def test_I1_cron_entries_read_as_in_activemq(entry: str, after: str, expected: str) -> None:
    assert next_time_ms(entry, _ms(after), UTC) == _ms(expected)


def test_I1_cron_goes_on_through_the_hour_that_comes_twice() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    moment = start = _ms("2024-10-27 00:00:00")
    for _ in range(6):
        moment = next_time_ms("*/30 * * * *", moment, berlin)
    assert moment - start == 3 * 3600 * 1000


@pytest.mark.parametrize(
    "entry",
    [
        "nonsense",
        "* * * *",
        "* * * * * *",
        "61 * * * *",
        "*/0 * * * *",
        "*/x * * * *",
        "0 0 30 2 *",
        "5/70 * * * *",
        "50-70/2 * * * *",
        "0 0 * * 1-9/2",
        "1," * 200 + "1 * * * *",
    ],
)
def test_I1_a_wrong_cron_entry_is_refused(rig: BrokerRig, producer: RigClient, entry: str) -> None:
    with pytest.raises(BrokerError, match="cron entry"):
        _schedule(producer, cron=entry)
    assert len(rig.broker.scheduler) == 0
    assert rig.pending("queue://later") == 0


def test_I1_the_local_zone_is_found_by_name_or_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", ":Europe/Berlin")
    assert local_zone() == ZoneInfo("Europe/Berlin")
    monkeypatch.setenv("TZ", "No/Where")
    assert local_zone() is UTC
    monkeypatch.delenv("TZ")
    assert local_zone().utcoffset(datetime.now()) is not None


# ---- wrong values and limits -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        ({"delay": "soon"}, "AMQ_SCHEDULED_DELAY must be a whole number, not 'soon'"),
        ({"delay": True}, "AMQ_SCHEDULED_DELAY must be a whole number, not True"),
        ({"delay": 1.5}, "AMQ_SCHEDULED_DELAY must be a whole number, not 1.5"),
        ({"delay": 2**62}, "AMQ_SCHEDULED_DELAY is too large"),
        ({"delay": "9" * 5000}, "AMQ_SCHEDULED_DELAY must be a whole number"),
        ({"delay": 1, "period": ""}, "AMQ_SCHEDULED_PERIOD must be a whole number, not ''"),
        ({"delay": 1, "repeat": 1001}, "AMQ_SCHEDULED_REPEAT is too large: 1001; the limit is 1000"),
        ({"cron": 5}, "AMQ_SCHEDULED_CRON must be a text"),
    ],
)
def test_I1_wrong_values_are_refused(
    rig: BrokerRig, producer: RigClient, properties: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(BrokerError, match=complaint):
        _schedule(producer, **properties)
    assert len(rig.broker.scheduler) == 0


def test_I1_properties_that_cannot_be_read_are_refused(producer: RigClient) -> None:
    message = producer.message("queue://later", properties={"AMQ_SCHEDULED_DELAY": Long(1)})
    at = message.frame.index(b"DELAY") + 5
    message.frame = message.frame[:at] + b"\xee" + message.frame[at + 1 :]
    with pytest.raises(BrokerError, match="cannot be read"):
        producer.send_message(message)


def _limited(**limits: int) -> tuple[BrokerRig, RigClient]:
    rig = BrokerRig(settings={"scheduler": limits})
    return rig, rig.connect()


def test_I1_the_number_of_jobs_is_limited() -> None:
    rig, producer = _limited(jobs_max=2)
    consumer = rig.consumer("queue://later")
    _schedule(producer, delay=1000)
    _schedule(producer, delay=1000)
    with pytest.raises(ResourceLimit, match=r"2 jobs wait, the limit is 2 \(scheduler\.jobs_max\)"):
        _schedule(producer, delay=1000)
    rig.clock.advance(1)
    assert len(consumer.delivered) == 2
    _schedule(producer, delay=1000)


def test_I1_the_bytes_of_jobs_are_limited() -> None:
    _, producer = _limited(job_bytes_max=1000)
    _schedule(producer, delay=1000)
    with pytest.raises(ResourceLimit, match=r"bytes of scheduled messages wait, the limit is 1000"):
        _schedule(producer, "x" * 1000, delay=1000)


def test_I1_one_client_cannot_take_all_jobs() -> None:
    rig, greedy = _limited(connection_jobs_max=2)
    _schedule(greedy, delay=1000)
    _schedule(greedy, delay=1000)
    with pytest.raises(ResourceLimit, match=r"2 jobs of connection .* wait, the limit is 2 \(scheduler\.connection_j"):
        _schedule(greedy, delay=1000)
    other = rig.connect()
    _schedule(other, delay=1000)
    assert len(rig.broker.scheduler) == 3
    rig.clock.advance(1)
    _schedule(greedy, delay=1000)
    greedy.disconnect()
    assert len(rig.broker.scheduler) == 1, "what it has scheduled stays"


def test_I1_one_client_cannot_take_all_bytes_of_jobs() -> None:
    rig, greedy = _limited(connection_bytes_max=1000)
    with pytest.raises(ResourceLimit, match=r"scheduler\.connection_bytes_max"):
        _schedule(greedy, "x" * 1000, delay=1000)
    transaction = greedy.begin()
    greedy.send("queue://later", "x" * 1000, properties={"AMQ_SCHEDULED_DELAY": Long(1)}, transaction=transaction)
    with pytest.raises(TransactionError, match=r"scheduler\.connection_bytes_max"):
        greedy.commit(transaction)
    assert len(rig.broker.scheduler) == 0


def test_I1_a_composite_counts_with_all_its_parts() -> None:
    rig, producer = _limited(jobs_max=2)
    with pytest.raises(ResourceLimit, match=r"scheduler\.jobs_max"):
        producer.send("queue://a,b,c", properties={"AMQ_SCHEDULED_DELAY": Long(1)})
    assert len(rig.broker.scheduler) == 0


def test_I1_cron_series_stop_at_the_limit(caplog: pytest.LogCaptureFixture) -> None:
    rig, producer = _limited(jobs_max=3)
    _schedule(producer, cron="* * * * *", period=86_400_000, repeat=-1)
    rig.clock.advance(86_400 * 2)
    assert len(rig.broker.scheduler) == 3
    assert "is left out" in caplog.text


def test_B6_due_jobs_wait_while_memory_is_full(rig: BrokerRig, producer: RigClient) -> None:
    _schedule(producer, delay=1000, period=1000, repeat=-1)
    rig.broker.flow.used_bytes += rig.settings.limits.memory_bytes_max
    rig.clock.advance(60)
    assert rig.pending("queue://later") == 0
    rig.broker.flow.used_bytes -= rig.settings.limits.memory_bytes_max
    rig.clock.advance(0.2)
    assert rig.pending("queue://later") == 1, "what was missed is not made up for"
    rig.clock.advance(2)
    assert rig.pending("queue://later") == 3


def test_A6_what_cannot_be_delivered_is_a_dead_letter(rig: BrokerRig, producer: RigClient) -> None:
    owner = rig.connect("owner")
    temporary = owner.temporary_queue()
    producer.send(temporary, "late", properties={"AMQ_SCHEDULED_DELAY": 1000, "AMQ_SCHEDULED_REPEAT": -1})
    owner.disconnect()
    rig.clock.advance(60)
    dead = rig.consumer("queue://ActiveMQ.DLQ")
    assert dead.texts == ["late"]
    assert "does not exist" in str(dead.properties()["dlqDeliveryFailureCause"])
    assert len(rig.broker.scheduler) == 0


DLQ_ADVISORIES = "topic://ActiveMQ.Advisory.MessageDLQd.Queue.later"


def _rig_with_one_destination() -> BrokerRig:
    """A broker that makes no further destinations, those of its own aside."""
    policy = DestinationPolicy(match=">", dead_letter_non_persistent=True)
    return BrokerRig(policies=(policy,), settings={"destinations": {"count_max": 1}})


def test_A6_F4_a_dead_letter_of_the_scheduler_is_like_any_other() -> None:
    rig = _rig_with_one_destination()
    advisories = rig.consumer(DLQ_ADVISORIES)
    expiration = rig.clock.now_ms() + 60_000
    delayed: dict[str, Value] = {"AMQ_SCHEDULED_DELAY": 1000}
    producer = rig.connect("producer")
    producer.send("queue://later", "late", properties=delayed, expiration=expiration, persistent=False)
    rig.clock.advance(2)
    dead = rig.consumer("queue://ActiveMQ.DLQ")
    assert dead.texts == ["late"]
    assert dead.delivered[0].persistent
    assert dead.delivered[0].expiration == 0
    assert dead.properties()["originalDeliveryMode"] == "NON_PERSISTENT"
    assert isinstance(dead.properties()["originalExpiration"], Long)
    assert len(advisories.delivered) == 1


def test_A6_F4_each_delivery_of_a_series_is_a_dead_letter_of_its_own() -> None:
    rig = _rig_with_one_destination()
    rig.consumer(DLQ_ADVISORIES)
    _schedule(rig.connect("producer"), delay=1000, period=1000, repeat=2)
    rig.clock.advance(60)
    assert len(rig.consumer("queue://ActiveMQ.DLQ").texts) == 3


def test_F4_the_parts_of_a_scheduled_composite_are_one_dead_letter() -> None:
    rig = _rig_with_one_destination()
    rig.consumer(DLQ_ADVISORIES)
    rig.connect("producer").send("queue://a,queue://b", properties={"AMQ_SCHEDULED_DELAY": 1000})
    rig.clock.advance(60)
    assert len(rig.consumer("queue://ActiveMQ.DLQ").texts) == 1


# ---- transactions ----------------------------------------------------------------------------------------------


def test_I1_in_a_transaction_the_delay_begins_at_commit(
    rig: BrokerRig, producer: RigClient, consumer: RigConsumer
) -> None:
    transaction = producer.begin()
    producer.send("queue://later", properties={"AMQ_SCHEDULED_DELAY": 1000}, transaction=transaction)
    rig.clock.advance(10)
    assert len(rig.broker.scheduler) == 0
    producer.commit(transaction)
    assert _times(rig, consumer, 5) == [1.0]


def test_I1_a_rolled_back_transaction_schedules_nothing(rig: BrokerRig, producer: RigClient) -> None:
    transaction = producer.begin()
    producer.send("queue://later", properties={"AMQ_SCHEDULED_DELAY": 1000}, transaction=transaction)
    producer.roll_back(transaction)
    assert len(rig.broker.scheduler) == 0


@pytest.mark.parametrize("wrong", [{"AMQ_SCHEDULED_DELAY": "x"}, {"AMQ_SCHEDULED_CRON": "1 2"}])
def test_I1_a_wrong_value_fails_its_transaction_as_a_whole(
    rig: BrokerRig, producer: RigClient, consumer: RigConsumer, wrong: dict[str, Value]
) -> None:
    transaction = producer.begin()
    producer.send("queue://later", transaction=transaction)
    producer.send("queue://later", properties=wrong, transaction=transaction)
    with pytest.raises(BrokerError, match="rolled back"):
        producer.commit(transaction)
    rig.clock.advance(60)
    assert consumer.delivered == []
    assert len(rig.broker.scheduler) == 0


# ---- the store -------------------------------------------------------------------------------------------------


def test_I2_schedules_survive_a_restart(rig: BrokerRig, producer: RigClient) -> None:
    _schedule(producer, "once", delay=10_000)
    _schedule(producer, "series", delay=1000, period=4000, repeat=5)
    rig.clock.advance(6)  # two of the series are out
    after = rig.restarted(after_seconds=1)
    consumer = after.consumer("queue://later")
    assert consumer.texts == ["series", "series"]
    assert _times(after, consumer, 60) == [2.0, 3.0, 6.0, 10.0, 14.0]
    assert consumer.texts[2:] == ["series", "once", "series", "series", "series"]
    assert after.store.jobs() == []


def test_I2_what_fell_due_while_the_broker_was_down_comes_once(rig: BrokerRig, producer: RigClient) -> None:
    _schedule(producer, "series", delay=1000, period=1000, repeat=100)
    after = rig.restarted(after_seconds=3600)
    consumer = after.consumer("queue://later")
    after.clock.advance(0)
    assert len(consumer.delivered) == 1
    assert _times(after, consumer, 3) == [1.0, 2.0, 3.0]


def test_I2_job_ids_do_not_repeat_after_a_restart(rig: BrokerRig, producer: RigClient) -> None:
    _schedule(producer, delay=1000)
    after = rig.restarted(after_seconds=0.5)
    _schedule(after.connect("producer"), delay=1000)
    assert len({job.job_id for job in after.broker.scheduler.jobs()}) == 2


def test_I2_a_schedule_of_an_earlier_run_stays_when_the_clock_was_set_back(rig: BrokerRig, producer: RigClient) -> None:
    _schedule(producer, "before", delay=1000)
    after = rig.restarted(after_seconds=0)  # the same millisecond once more
    _schedule(after.connect("producer"), "after", delay=1000)
    jobs = after.store.jobs()
    assert len({job.job_id for job in jobs}) == 2
    assert [text_of(job.message) for job in jobs] == ["before", "after"]


class _AtomicStore(MemoryStore):
    """Writes down what is recorded together."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []

    def add_job(self, job: ScheduledJob) -> None:
        self.steps.append("add job")
        super().add_job(job)

    def remove_job(self, job_id: str) -> None:
        self.steps.append("remove job")
        super().remove_job(job_id)

    def append(self, message: Any, places: Any) -> None:
        self.steps.append("append")
        super().append(message, places)

    def atomically(self) -> Any:
        self.steps.append("together")
        return super().atomically()


def test_I2_a_delivery_and_its_job_change_together() -> None:
    store = _AtomicStore()
    rig = BrokerRig(store=store)
    _schedule(rig.connect(), delay=1000, period=1000, repeat=1)
    rig.clock.advance(2)
    assert store.steps == ["together", "add job", "together", "add job", "append", "together", "remove job", "append"]


# ---- management ------------------------------------------------------------------------------------------------


def test_I2_jobs_can_be_listed(rig: BrokerRig, producer: RigClient) -> None:
    _schedule(producer, "b", delay=2000, repeat=2, period=10)
    _schedule(producer, "a", delay=1000)
    reply_to = producer.temporary_queue()
    answers = producer.consumer(reply_to)
    _manage(producer, "BROWSE", reply_to=reply_to)
    assert answers.texts == ["a", "b"]
    jobs = rig.broker.scheduler.jobs()
    assert answers.properties(0) == {"AMQ_SCHEDULED_DELAY": 1000, JOB_ID: jobs[0].job_id}
    assert answers.properties(1) == {
        "AMQ_SCHEDULED_DELAY": 2000,
        "AMQ_SCHEDULED_PERIOD": 10,
        "AMQ_SCHEDULED_REPEAT": 2,
        JOB_ID: jobs[1].job_id,
    }
    command = command_of(answers.delivered[0])
    assert command.original_destination is not None
    assert command.original_destination.physical_name == "later"
    assert not answers.delivered[0].persistent
    assert len(rig.broker.scheduler) == 2


def test_I2_a_list_can_be_limited_to_a_time(rig: BrokerRig, producer: RigClient) -> None:
    now_ms = rig.clock.now_ms()
    for seconds in (1, 2, 3):
        _schedule(producer, str(seconds), delay=seconds * 1000)
    answers = rig.consumer("queue://answers")
    times: dict[str, Value] = {"ACTION_START_TIME": str(now_ms + 2000), "ACTION_END_TIME": Long(now_ms + 2500)}
    _manage(producer, "BROWSE", reply_to="queue://answers", **times)
    assert answers.texts == ["2"]
    _manage(producer, "REMOVEALL", **times)
    _manage(producer, "BROWSE", reply_to="queue://answers")
    assert answers.texts == ["2", "1", "3"]


def test_I2_a_list_shows_messages_whose_own_time_is_over(rig: BrokerRig, producer: RigClient) -> None:
    producer.send("queue://later", properties={"AMQ_SCHEDULED_DELAY": 60_000}, expiration=rig.clock.now_ms() + 10)
    rig.clock.advance(30)
    answers = rig.consumer("queue://answers")
    _manage(producer, "BROWSE", reply_to="queue://answers")
    assert len(answers.delivered) == 1


def test_I2_a_job_can_be_removed(rig: BrokerRig, producer: RigClient, consumer: RigConsumer) -> None:
    _schedule(producer, "a", delay=1000)
    _schedule(producer, "b", delay=1000)
    _manage(producer, "REMOVE", **{JOB_ID: rig.broker.scheduler.jobs()[0].job_id})
    _manage(producer, "REMOVE", **{JOB_ID: "no such job"})
    rig.clock.advance(60)
    assert consumer.texts == ["b"]
    assert rig.store.jobs() == []


def test_I2_all_jobs_can_be_removed(rig: BrokerRig, producer: RigClient, consumer: RigConsumer) -> None:
    for _ in range(1200):
        _schedule(producer, delay=1000)
    _manage(producer, "REMOVEALL")
    rig.clock.advance(60)
    assert consumer.delivered == []
    assert rig.broker.scheduler.used_bytes == 0
    assert rig.store.jobs() == []


def test_I2_what_management_does_not_understand_has_no_effect(rig: BrokerRig, producer: RigClient) -> None:
    watcher = rig.consumer(MANAGEMENT)
    _schedule(producer, delay=1000)
    _manage(producer, "BROWSE")
    _manage(producer, "BROWSE", reply_to="temp-queue://ID:gone:1")
    _manage(producer, "EXPLODE")
    _manage(producer, "REMOVE")
    with pytest.raises(BrokerError, match="ACTION_START_TIME must be a whole number"):
        _manage(producer, "REMOVEALL", ACTION_START_TIME="then", ACTION_END_TIME=5)
    assert len(rig.broker.scheduler) == 1
    assert watcher.delivered == [], "they are for the broker alone"


def test_I2_management_in_a_transaction_waits_for_commit(rig: BrokerRig, producer: RigClient) -> None:
    _schedule(producer, delay=1000)
    transaction = producer.begin()
    producer.send(MANAGEMENT, properties={"AMQ_SCHEDULER_ACTION": "REMOVEALL"}, transaction=transaction)
    assert len(rig.broker.scheduler) == 1
    producer.commit(transaction)
    assert len(rig.broker.scheduler) == 0


def test_I2_a_long_list_comes_in_turns(rig: BrokerRig, producer: RigClient) -> None:
    for _ in range(2500):
        _schedule(producer, delay=60_000)
    answers = rig.consumer("queue://answers", prefetch=10_000)
    _manage(producer, "BROWSE", reply_to="queue://answers")
    assert len(answers.delivered) == 1000
    rig.clock.advance(0)
    assert len(answers.delivered) == 2500


# ---- many ------------------------------------------------------------------------------------------------------


def test_I1_jobs_100_ms_apart_are_all_on_time(rig: BrokerRig, producer: RigClient) -> None:
    """`tests/load` has 20,000 of them."""
    consumer = rig.consumer("queue://later", prefetch=300)
    start_ms = rig.clock.now_ms()
    numbers = list(range(1, 301))
    Random(1).shuffle(numbers)
    for number in numbers:
        _schedule(producer, delay=number * 100)
    rig.clock.advance(31)
    times = [command_of(message).broker_in_time - start_ms for message in consumer.delivered]
    assert times == [number * 100 for number in range(1, 301)]


def test_I1_jobs_that_come_and_go_leave_nothing_behind(rig: BrokerRig, producer: RigClient) -> None:
    scheduler = rig.broker.scheduler
    for _ in range(1500):
        _schedule(producer, delay=3_600_000)
        scheduler.remove(scheduler.jobs()[0].job_id)
    assert len(scheduler._heap) <= 1001


def test_I1_a_clock_that_was_set_forward_is_noticed(rig: BrokerRig, producer: RigClient, consumer: RigConsumer) -> None:
    _schedule(producer, delay=3_600_000)
    rig.clock._start_ms += 3_600_000
    rig.clock.advance(60)
    assert len(consumer.delivered) == 1

"""What retroactive subscribers get of the past (SEMANTICS A3)."""

from typing import Any

import pytest

from ackwire.broker.in_flight import AckKind
from ackwire.broker.retroactive import Recall
from ackwire.config.policy import DestinationPolicy, Policies
from ackwire.jms.types import Int
from ackwire.store.contract import DurableKey
from ackwire.wire.openwire import commands
from tests.helpers.broker_rig import BrokerRig, RigClient, RigConsumer
from tests.simulation.audit import audit
from tests.unit.broker.test_page_in import LateRig

RETAINING = DestinationPolicy(match="topic://retaining.>", retained_messages_max=3)
PRIORITIZED = DestinationPolicy(match="topic://prioritized.>", prioritized=True)


@pytest.fixture
def rig() -> BrokerRig:
    return BrokerRig(policies=(RETAINING, PRIORITIZED))


def _durable(client: RigClient, where: str, name: str = "s", **request: Any) -> RigConsumer:
    return client.consumer(where, subscription_name=name, retroactive=True, **request)


def _kept_for_another(rig: BrokerRig, where: str, count: int, **headers: object) -> None:
    other = rig.connect("other")
    other.consumer(where, subscription_name="other").close()
    other.disconnect()
    producer = rig.connect()
    for n in range(count):
        producer.send(where, f"{n}", **headers)


def test_A3_a_retroactive_durable_gets_what_its_topic_retains(rig: BrokerRig) -> None:
    producer = rig.connect()
    for n in range(5):
        producer.send("topic://retaining.t", f"{n}")
    assert _durable(rig.connect("c"), "topic://retaining.t").texts == ["2", "3", "4"]
    assert rig.connect("d").consumer("topic://retaining.t", subscription_name="s").texts == []
    audit(rig.broker, rig.store)


def test_A3_it_gets_them_when_it_comes_back_and_nothing_else_waits(rig: BrokerRig) -> None:
    producer, client = rig.connect(), rig.connect("c")
    producer.send("topic://retaining.t", "old")
    consumer = _durable(client, "topic://retaining.t")
    consumer.ack()
    consumer.close()
    producer.send("topic://retaining.t", "waits")
    consumer = _durable(client, "topic://retaining.t")
    assert consumer.texts == ["waits"]
    consumer.ack()
    consumer.close()
    assert _durable(client, "topic://retaining.t").texts == ["old", "waits"]


def test_A3_a_new_one_gets_what_still_waits_for_other_durables(rig: BrokerRig) -> None:
    _kept_for_another(rig, "topic://t", 4)
    other = rig.connect("other").consumer("topic://t", subscription_name="other")
    other.ack(other.delivered[0])
    rig.connect().send("topic://t", "volatile", persistent=False)
    client = rig.connect("c")
    consumer = _durable(client, "topic://t")
    rig.connect().send("topic://t", "new")
    assert consumer.texts == ["1", "2", "3", "new"]
    consumer.ack(consumer.delivered[0])
    client.disconnect()
    again = rig.restarted()
    assert _durable(again.connect("c"), "topic://t").texts == ["2", "3", "new"], "the copies are stored"
    audit(again.broker, again.store)


def test_A3_each_message_comes_once_however_many_it_waits_for(rig: BrokerRig) -> None:
    for name in "ab":
        rig.connect(name).consumer("topic://t.*", subscription_name="s").close()
    producer = rig.connect()
    for where in ("topic://t.x", "topic://t.y", "topic://t.x"):
        producer.send(where, where[-1])
    assert _durable(rig.connect("c"), "topic://t.*").texts == ["x", "y", "x"]
    assert _durable(rig.connect("d"), "topic://t.x").texts == ["x", "x"], "and only those of its topic"


def test_A3_selector_and_no_local_hold_for_the_past_too(rig: BrokerRig) -> None:
    rig.connect("other").consumer("topic://retaining.t", subscription_name="other").close()
    client, producer = rig.connect("c"), rig.connect()
    for n in (0, 1):
        client.send("topic://retaining.t", f"own {n}", properties={"n": Int(n)})
        producer.send("topic://retaining.t", f"{n}", properties={"n": Int(n)})
    assert _durable(client, "topic://retaining.t", selector="n = 1", no_local=True).texts == ["1"]
    assert _durable(client, "topic://retaining.t", "t", selector="n = 1").texts == ["own 1", "1"]
    live = client.consumer("topic://retaining.t", retroactive=True, no_local=True)
    assert live.texts == ["0", "1"], "of a subscriber that is not durable as well"


def test_A3_the_past_is_in_order_of_priority_where_the_policy_says_so(rig: BrokerRig) -> None:
    for name in "ab":
        rig.connect(name).consumer("topic://prioritized.t", subscription_name="s").close()
    producer = rig.connect()
    for n, priority in enumerate((1, 9, 5, 9, 1)):
        producer.send("topic://prioritized.t", f"{priority}.{n}", priority=priority)
    assert _durable(rig.connect("c"), "topic://prioritized.t").texts == ["9.1", "9.3", "5.2", "1.0", "1.4"]


def test_A3_a_long_past_is_cut_into_slices_and_what_comes_meanwhile_stands_behind_it(rig: BrokerRig) -> None:
    _kept_for_another(rig, "topic://t", 600)
    consumer = _durable(rig.connect("c"), "topic://t")
    rig.connect().send("topic://t", "new")
    assert consumer.texts == [], "nothing is sent ahead of its turn"
    rig.clock.advance(0)
    rig.clock.advance(0)
    assert consumer.texts == [*map(str, range(600)), "new"]
    audit(rig.broker, rig.store)


def test_A3_a_subscription_that_ends_meanwhile_gets_no_more(rig: BrokerRig) -> None:
    _kept_for_another(rig, "topic://t", 600)
    client = rig.connect("c")
    _durable(client, "topic://t").close()
    rig.broker.remove_durable("c", "s")
    rig.clock.advance(0)
    audit(rig.broker, rig.store)
    assert [record.key.client_id for record in rig.store.durables()] == ["other"]


def _acked_in_a_transaction(client: RigClient, consumer: RigConsumer, *numbers: int) -> commands.TransactionId:
    """A transaction that has acknowledged some of what *consumer* has, which is closed then."""
    transaction = client.begin()
    for n in numbers:
        consumer.ack(consumer.delivered[n], kind=AckKind.INDIVIDUAL, transaction=transaction)
    consumer.close()
    return transaction


def _work_off_slices(rig: BrokerRig) -> None:
    while len(rig.broker.slices):
        rig.clock.advance(0)


def test_A3_what_a_rollback_brings_back_meanwhile_takes_no_place_of_a_new_message(rig: BrokerRig) -> None:
    producer, other = rig.connect(), rig.connect("other")
    consumer = other.consumer("topic://t", prefetch=1000, subscription_name="other")
    for n in range(600):
        producer.send("topic://t", f"{n}")
    transaction = _acked_in_a_transaction(other, consumer, 550, 551, 552)
    late = _durable(rig.connect("c"), "topic://t", prefetch=1000)
    producer.send("topic://t", "new")
    other.roll_back(transaction)
    _work_off_slices(rig)
    assert late.texts == [*map(str, range(600)), "new"]
    audit(rig.broker, rig.store)
    again = rig.restarted().connect("c").consumer("topic://t", prefetch=1000, subscription_name="s")
    assert again.texts == [*map(str, range(600)), "new"], "nothing that was answered is lost"


def test_A3_a_rollback_while_the_past_is_read_takes_no_place_of_a_new_message() -> None:
    late = LateRig()
    late.broker.pager.batch_messages = 1
    one, two = late.rig.connect("one"), late.rig.connect("two")
    consumer = one.consumer("topic://t.1", prefetch=6, subscription_name="s")
    two.consumer("topic://t.2", prefetch=1, subscription_name="s").close()
    for n in range(6):
        late.producer.send("topic://t.1", f"{n}")
    late.broker.flow._tight_above_bytes = 0
    for n in range(6, 9):
        late.producer.send(f"topic://t.{n % 2 + 1}", f"{n}")
    transaction = _acked_in_a_transaction(one, consumer, 3, 4, 5)
    retroactive = _durable(late.rig.connect("c"), "topic://t.*", prefetch=100)
    assert late.store.asked
    one.roll_back(transaction)
    late.producer.send("topic://t.1", "new")
    late.is_audited = False  # the copies of one message for two subscriptions have one size
    late.finish()
    sequences = [message.sequence for message in retroactive.delivered]
    assert sequences == sorted(set(sequences))
    assert retroactive.texts[-1] == "new"


def test_A3_a_past_that_is_longer_than_was_counted_goes_on_behind_new_messages(rig: BrokerRig) -> None:
    _kept_for_another(rig, "topic://t", 600)
    registry, broker = rig.broker.registry, rig.broker
    client = rig.connect("c")
    client.consumer("topic://t", prefetch=1000, subscription_name="s").close()
    taken: list[int] = []

    def take_sequences(count: int) -> int:
        taken.append(count)
        return broker.publisher.take_sequences(count)

    durable = registry.durables[DurableKey("c", "s")]
    recall = Recall(durable, store=rig.store, clock=rig.clock, editor=broker.editor, take_sequences=take_sequences)
    recall.begin([registry.durables[DurableKey("other", "other")]], (), -50, broker.slices)
    rig.connect().send("topic://t", "new")
    _work_off_slices(rig)
    assert taken == [550, *[1] * 50]
    consumer = client.consumer("topic://t", prefetch=1000, subscription_name="s")
    assert consumer.texts == [*map(str, range(550)), "new", *map(str, range(550, 600))]
    audit(rig.broker, rig.store)


def test_A3_the_consumer_is_served_even_if_the_past_cannot_be_copied(
    rig: BrokerRig, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    _kept_for_another(rig, "topic://t", 600)
    consumer = _durable(rig.connect("c"), "topic://t", prefetch=1000)
    append = rig.store.append

    def fail(*_: object) -> None:
        monkeypatch.setattr(rig.store, "append", append)
        raise RuntimeError("no copy")

    monkeypatch.setattr(rig.store, "append", fail)
    _work_off_slices(rig)
    assert "no copy" in caplog.text
    caplog.clear()
    rig.connect().send("topic://t", "new")
    assert consumer.texts[-1] == "new"


def test_A3_what_has_expired_is_not_recalled(rig: BrokerRig) -> None:
    _kept_for_another(rig, "topic://t", 2, expiration=rig.clock.now_ms() + 1000)
    rig.connect().send("topic://t", "lasting")
    rig.clock.advance(1.5)
    assert _durable(rig.connect("c"), "topic://t").texts == ["lasting"]


def test_A3_a_policy_that_comes_later_counts_too(rig: BrokerRig) -> None:
    producer = rig.connect()
    producer.send("topic://t", "forgotten")
    rig.broker.registry.use(Policies((DestinationPolicy(match="topic://t", retained_messages_max=1),)))
    producer.send("topic://t", "kept")
    assert _durable(rig.connect("c"), "topic://t").texts == ["kept"]
    rig.broker.registry.use(Policies())
    assert _durable(rig.connect("d"), "topic://t", "x").texts == ["kept"], "what waits for another one, as ever"

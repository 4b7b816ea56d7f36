"""Queues: who gets what, in which order (SEMANTICS A2, A6, C2–C5, H1, A7)."""

import pytest

from ackwire.broker.queue import Queue
from ackwire.config.policy import DestinationPolicy
from ackwire.errors import BrokerError
from ackwire.jms.types import Int
from tests.helpers.broker_rig import BrokerRig, named
from tests.helpers.operating import purged
from tests.simulation.audit import audit


@pytest.fixture
def rig() -> BrokerRig:
    return BrokerRig()


def _queue(rig: BrokerRig, name: str = "queue://q") -> Queue:
    made = rig.broker.registry.get_or_make(named(name))
    assert isinstance(made, Queue)
    return made


def test_A2_each_message_goes_to_one_consumer_in_turn(rig: BrokerRig) -> None:
    consumers = [rig.consumer("queue://q") for _ in range(3)]
    producer = rig.connect()
    for n in range(7):
        producer.send("queue://q", f"{n}")
    assert [consumer.texts for consumer in consumers] == [["0", "3", "6"], ["1", "4"], ["2", "5"]]


def test_A2_messages_wait_for_a_consumer(rig: BrokerRig) -> None:
    producer = rig.connect()
    for n in range(3):
        producer.send("queue://q", f"{n}", persistent=n == 1)
    assert rig.pending("queue://q") == 3
    assert rig.consumer("queue://q").texts == ["0", "1", "2"]


def test_A2_what_one_had_not_finished_goes_to_another_flagged(rig: BrokerRig) -> None:
    rig.connect().send("queue://q")
    first = rig.consumer("queue://q")
    second = rig.consumer("queue://q")
    first.client.disconnect()
    assert [message.redelivery_counter for message in second.delivered] == [1]


def test_C2_at_most_prefetch_unfinished(rig: BrokerRig) -> None:
    consumer = rig.consumer("queue://q", prefetch=2)
    producer = rig.connect()
    for n in range(4):
        producer.send("queue://q", f"{n}")
    assert consumer.texts == ["0", "1"]
    consumer.ack(consumer.delivered[0])
    assert consumer.texts == ["0", "1", "2"]


def test_C5_a_full_consumer_is_slow_and_the_others_go_on(rig: BrokerRig) -> None:
    slow, quick = rig.consumer("queue://q", prefetch=1), rig.consumer("queue://q", prefetch=1)
    producer = rig.connect()
    for n in range(3):
        producer.send("queue://q", f"{n}")
    assert slow.subscription.is_slow
    quick.ack()
    producer.send("queue://q", "3")
    quick.ack()
    assert quick.texts == ["1", "2", "3"]
    assert not quick.subscription.is_slow


def test_H1_what_comes_back_is_in_front_of_what_is_later(rig: BrokerRig) -> None:
    first = rig.consumer("queue://q", prefetch=2)
    producer = rig.connect()
    for n in range(4):
        producer.send("queue://q", f"{n}")
    first.ack(first.delivered[0])
    first.close()
    assert rig.consumer("queue://q").texts == ["1", "2", "3"]


def test_A7_a_match_is_found_however_deep_it_lies(rig: BrokerRig) -> None:
    """More messages in front than one turn examines: the rest is looked at in later turns."""
    producer = rig.connect()
    for _ in range(4500):
        producer.send("queue://q", properties={"n": Int(0)})
    producer.send("queue://q", "deep", properties={"n": Int(1)})
    consumer = rig.consumer("queue://q", selector="n = 1")
    assert consumer.texts == []
    rig.clock.advance(0)
    rig.clock.advance(0)
    assert consumer.texts == ["deep"]
    audit(rig.broker, rig.store)


def test_A7_each_selector_gets_its_own(rig: BrokerRig) -> None:
    ones, rest = rig.consumer("queue://q", selector="n = 1"), rig.consumer("queue://q", selector="n <> 1")
    producer = rig.connect()
    for n in (1, 2, 1, 3):
        producer.send("queue://q", f"{n}", properties={"n": Int(n)})
    assert (ones.texts, rest.texts) == (["1", "1"], ["2", "3"])


def test_A7_what_comes_back_is_offered_to_selectors_that_had_passed_it(rig: BrokerRig) -> None:
    everything = rig.consumer("queue://q", prefetch=5)
    selective = rig.consumer("queue://q", selector="n = 1")
    producer = rig.connect()
    for n in (1, 2, 1):
        producer.send("queue://q", f"{n}", properties={"n": Int(n)})
    everything.close()
    assert selective.texts == ["1", "1"]


def test_C3_a_pull_that_waits_gets_the_next_message(rig: BrokerRig) -> None:
    consumer = rig.consumer("queue://q", prefetch=0)
    producer = rig.connect()
    producer.send("queue://q", "0")
    assert consumer.texts == []
    consumer.pull()
    assert consumer.texts == ["0"]
    consumer.pull()
    producer.send("queue://q", "1")
    producer.send("queue://q", "2")
    assert consumer.texts == ["0", "1"]
    assert consumer.port.ends == 0


def test_C3_a_pull_without_waiting_is_answered_at_once(rig: BrokerRig) -> None:
    consumer = rig.consumer("queue://q", prefetch=0)
    consumer.pull(-1)
    assert consumer.port.ends == 1
    rig.connect().send("queue://q")
    assert consumer.delivered == []


def test_C3_a_pull_ends_when_its_time_is_over(rig: BrokerRig) -> None:
    consumer = rig.consumer("queue://q", prefetch=0)
    consumer.pull(500)
    rig.clock.advance(0.4)
    assert consumer.port.ends == 0
    rig.clock.advance(0.2)
    assert consumer.port.ends == 1
    rig.connect().send("queue://q")
    assert consumer.delivered == []


def test_C3_a_pull_that_was_answered_does_not_end_later(rig: BrokerRig) -> None:
    consumer = rig.consumer("queue://q", prefetch=0)
    consumer.pull(500)
    rig.connect().send("queue://q")
    rig.clock.advance(1)
    assert (len(consumer.delivered), consumer.port.ends) == (1, 0)


def test_C3_several_pulls_end_each_at_its_own_time(rig: BrokerRig) -> None:
    consumer = rig.consumer("queue://q", prefetch=0)
    consumer.pull(2000)
    consumer.pull(500)
    rig.clock.advance(1)
    assert consumer.port.ends == 1
    rig.clock.advance(5)
    assert consumer.port.ends == 2


def test_C3_only_a_pulling_consumer_pulls(rig: BrokerRig) -> None:
    with pytest.raises(BrokerError):
        rig.consumer("queue://q", prefetch=1).pull()


def test_C3_a_consumer_that_leaves_waits_for_nothing(rig: BrokerRig) -> None:
    consumer = rig.consumer("queue://q", prefetch=0)
    consumer.pull(500)
    consumer.close()
    rig.clock.advance(1)
    assert consumer.port.ends == 0


def test_A6_an_expired_message_is_never_dispatched_and_becomes_a_dead_letter(rig: BrokerRig) -> None:
    producer = rig.connect()
    producer.send("queue://q", "late", expiration=rig.clock.now_ms() + 1000)
    producer.send("queue://q", "good")
    rig.clock.advance(2)
    assert rig.consumer("queue://q").texts == ["good"]
    dead = rig.consumer("queue://ActiveMQ.DLQ")
    assert dead.texts == ["late"]
    assert "Expired" in str(dead.properties()["dlqDeliveryFailureCause"])
    audit(rig.broker, rig.store)


def test_A6_the_sweep_finds_expired_messages_without_consumers(rig: BrokerRig) -> None:
    rig.connect().send("queue://q", expiration=rig.clock.now_ms() + 1000, persistent=False)
    rig.clock.advance(40)
    assert rig.pending("queue://q") == 0
    assert rig.broker.flow.used_bytes == 0


def test_A6_a_message_that_waits_for_the_owner_of_its_group_expires_too(rig: BrokerRig) -> None:
    owner = rig.consumer("queue://q", prefetch=1)
    rig.consumer("queue://q", prefetch=1)
    producer = rig.connect()
    producer.send("queue://q", "0", group_id="g")
    producer.send("queue://q", "1", group_id="g", expiration=rig.clock.now_ms() + 1000)
    producer.send("queue://q", "2", group_id="g")
    rig.clock.advance(2)
    owner.ack()
    assert owner.texts == ["0", "2"]
    audit(rig.broker, rig.store)


def test_C6_priorities_come_first_where_the_policy_says_so() -> None:
    rig = BrokerRig(policies=(DestinationPolicy(match="p", prioritized=True),))
    producer = rig.connect()
    for where in ("queue://p", "queue://q"):
        for priority in (4, 0, 9, 4):
            producer.send(where, f"{priority}", priority=priority)
    assert rig.consumer("queue://p").texts == ["9", "4", "4", "0"]
    assert rig.consumer("queue://q").texts == ["4", "0", "9", "4"]


def test_C6_what_comes_back_keeps_its_priority() -> None:
    rig = BrokerRig(policies=(DestinationPolicy(match=">", prioritized=True),))
    producer = rig.connect()
    first = rig.consumer("queue://q", prefetch=1)
    for priority in (9, 4, 9):
        producer.send("queue://q", f"{priority}", priority=priority)
    first.close()
    again = rig.consumer("queue://q")
    assert again.texts == ["9", "9", "4"]
    assert [message.redelivery_counter for message in again.delivered] == [1, 0, 0]


def test_H2_among_ordinary_consumers_the_higher_priority_is_served_first(rig: BrokerRig) -> None:
    low, high = rig.consumer("queue://q", prefetch=5), rig.consumer("queue://q", prefetch=2, priority=5)
    producer = rig.connect()
    for n in range(4):
        producer.send("queue://q", f"{n}")
    assert (high.texts, low.texts) == (["0", "1"], ["2", "3"])


def test_pause_keeps_and_unpause_sends(rig: BrokerRig) -> None:
    consumer = rig.consumer("queue://q")
    _queue(rig).dispatcher.pause()
    rig.connect().send("queue://q")
    assert consumer.delivered == []
    _queue(rig).dispatcher.unpause()
    assert len(consumer.delivered) == 1


def test_purge_deletes_what_waits_and_counts_it(rig: BrokerRig) -> None:
    producer = rig.connect()
    for _ in range(3):
        producer.send("queue://q")
    assert purged(_queue(rig)) == 3
    assert rig.broker.flow.used_bytes == 0
    audit(rig.broker, rig.store)


def test_a_client_that_does_not_read_gets_no_more_until_it_does(rig: BrokerRig) -> None:
    consumer = rig.consumer("queue://q")
    consumer.client.port.is_ready = False
    rig.connect().send("queue://q")
    assert consumer.delivered == []
    consumer.client.port.is_ready = True
    rig.broker.resume(consumer.client.connection)
    assert len(consumer.delivered) == 1

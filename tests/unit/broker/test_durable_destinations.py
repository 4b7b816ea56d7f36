"""Destinations that clients and operators make are durable; how long an unused one lives is a policy."""

from pathlib import Path

import pytest

from ackwire.config.policy import DestinationPolicy
from ackwire.errors import BrokerError
from ackwire.jms.destinations import Destination
from tests.helpers.broker_rig import BrokerRig, named
from tests.helpers.journal import JournalFactory
from tests.helpers.store_on_disk import StoreOnDisk, checked, offline_store
from tests.helpers.stores import Crash
from tests.unit.broker.test_dispatch_gate import journal_rig

VIRTUAL_QUEUE = "queue://Consumer.B.VirtualTopic.X"


def _names(rig: BrokerRig) -> set[Destination]:
    return set(rig.broker.registry.router.names())


@pytest.mark.parametrize("crash", [None, *Crash])
def test_A8_a_queue_of_a_virtual_topic_that_never_held_a_message_gets_what_is_published_after_a_restart(
    crash: Crash | None,
) -> None:
    factory = JournalFactory()
    rig = journal_rig(factory)
    consumer = rig.connect("b").consumer(VIRTUAL_QUEUE)
    answered: list[bool] = []
    rig.broker.when_durable(lambda: answered.append(True), lambda _: None)
    factory.settle()
    assert answered
    if crash is None:
        consumer.client.disconnect()
        rig.broker.stop()
        factory.close()
    else:
        factory.stop(crash)
    again = journal_rig(factory)
    again.connect("publisher").send("topic://VirtualTopic.X", "hello")
    factory.settle()
    late = again.consumer(VIRTUAL_QUEUE)
    factory.settle()
    assert late.texts == ["hello"]


def test_what_clients_make_is_there_after_a_restart_and_what_is_temporary_is_not() -> None:
    rig = BrokerRig()
    rig.broker.answer_questions()
    client = rig.connect("c")
    client.consumer("queue://consumed")
    client.consumer("topic://heard")
    client.consumer("topic://ActiveMQ.Advisory.Queue")
    client.send("queue://sent", persistent=False)
    client.send("topic://published", persistent=False)
    for name in ("queue://made", "topic://made"):
        rig.broker.add_destination(client.connection, named(name))
    client.temporary_queue()
    rig.broker.add_destination(client.connection, named("queue://gone"))
    rig.broker.remove_destination(client.connection, named("queue://gone"))
    rig.broker.add_destination(client.connection, named("topic://gone"))
    rig.broker.remove_destination(client.connection, named("topic://gone"))
    made = ("queue://consumed", "topic://heard", "queue://sent", "topic://published", "queue://made", "topic://made")
    assert _names(rig.restarted()) == set(map(named, made))


def test_K2_an_empty_queue_outlives_its_file_and_a_lost_index(tmp_path: Path) -> None:
    disk = StoreOnDisk(tmp_path / "data")
    with disk:
        disk.store.add_destination(named("queue://empty"))
        disk.store.add_destination(named("topic://empty"))
        disk.settle()
        first = min(disk.segments())
        for _ in range(40):
            message = disk.send("queue://busy", "x" * 900)
            disk.remove("queue://busy", message)
            disk.clock.advance(6)
        assert not first.exists()
    with disk:
        assert {named("queue://empty"), named("topic://empty")} <= set(disk.store.places())
    disk.lose_index()
    with disk:
        assert {named("queue://empty"), named("topic://empty")} <= set(disk.store.places())
    assert not checked(offline_store(disk.data, tmp_path / "scratch")).findings


def test_an_empty_unused_destination_is_removed_only_where_a_policy_says_so() -> None:
    policies = (
        DestinationPolicy(match="queue://short.>", remove_inactive=True, inactive_seconds_min=30),
        DestinationPolicy(match="topic://short.>", remove_inactive=True, inactive_seconds_min=30),
    )
    rig = BrokerRig(settings={"destinations": {"inactive_sweep_seconds": 10}}, policies=policies)
    client = rig.connect("c")
    for made in ("queue://short.a", "topic://short.a", "queue://long.a", "topic://long.a"):
        rig.broker.add_destination(client.connection, named(made))
    client.consumer("queue://short.consumed")
    client.send("queue://short.full")
    client.consumer("topic://short.durable", subscription_name="s").close()
    rig.clock.advance(39)
    assert named("queue://short.a") in _names(rig)
    rig.clock.advance(2)
    stay = {"queue://long.a", "topic://long.a", "queue://short.consumed", "queue://short.full", "topic://short.durable"}
    assert _names(rig) == set(map(named, stay))
    assert set(map(named, stay)) <= set(rig.store.places()) | {named("topic://short.durable")}
    assert named("queue://short.a") not in rig.store.places()


def test_by_default_an_empty_unused_destination_stays() -> None:
    rig = BrokerRig()
    rig.broker.add_destination(rig.connect("c").connection, named("queue://q"))
    rig.clock.advance(10 * 86_400)
    assert named("queue://q") in _names(rig)


def test_a_topic_for_which_messages_are_staged_is_not_removed() -> None:
    rig = BrokerRig()
    client = rig.connect("c")
    message = client.message("topic://t")
    rig.broker.publisher.stamp(message)
    rig.broker.staging.stage("p", 1, "part", [message], lambda: None, lambda _: None)
    with pytest.raises(BrokerError, match="staged"):
        rig.broker.remove_destination(client.connection, named("topic://t"))

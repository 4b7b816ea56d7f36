"""What one client may take of what all have, and advisory topics that go with what they are about (A8, H1)."""

from collections.abc import Callable

import pytest

from ackwire.broker.transactions import TransactionError
from ackwire.broker.why.limit_usage import broker_use
from ackwire.broker.why.reasons import why_producer
from ackwire.errors import ResourceLimit
from ackwire.jms.destinations import parse_destination
from ackwire.jms.types import Long
from tests.helpers.broker_rig import BrokerRig, RigClient

PREFIX = "ActiveMQ.Advisory."


def _rig(destinations_max: int = 3) -> BrokerRig:
    return BrokerRig(settings={"connection": {"destinations_max": destinations_max}})


def _send(client: RigClient, where: str) -> None:
    client.send(where)


def _subscribe(client: RigClient, where: str) -> None:
    client.consumer(where)


def _advisory_topics(rig: BrokerRig) -> list[str]:
    """Those about one destination each."""
    names = [it.name.removeprefix(PREFIX) for it in rig.broker.registry.router.names() if it.name.startswith(PREFIX)]
    return sorted(name for name in names if name.count(".") > 1)


@pytest.mark.parametrize("make", [_send, _subscribe])
@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_A8_one_client_cannot_take_all_destinations(make: Callable[[RigClient, str], None], kind: str) -> None:
    rig = _rig()
    greedy = rig.connect()
    for number in range(3):
        make(greedy, f"{kind}://{number}")
    with pytest.raises(ResourceLimit, match=r"the limit is 3 \(connection\.destinations_max\)"):
        make(greedy, f"{kind}://more")
    make(greedy, f"{kind}://1")
    make(rig.connect(), f"{kind}://more")


def test_A8_temporary_destinations_count_too_and_make_place_when_they_go() -> None:
    rig = _rig()
    client = rig.connect()
    made = [client.temporary_queue(f"{number}") for number in range(3)]
    with pytest.raises(ResourceLimit, match=r"connection\.destinations_max"):
        client.send("queue://q")
    rig.broker.remove_destination(client.connection, made[0])
    client.send("queue://q")
    rig.broker.remove_destination(client.connection, parse_destination("queue://q"))
    client.temporary_queue("4")


def test_A8_what_a_transaction_would_make_counts() -> None:
    rig = _rig()
    client = rig.connect()
    transaction = client.begin()
    for number in range(4):
        client.send(f"queue://{number}", transaction=transaction)
    with pytest.raises(TransactionError, match=r"connection\.destinations_max"):
        client.commit(transaction)


def test_A8_one_client_cannot_take_all_durable_subscriptions() -> None:
    rig = _rig(4)
    client = rig.connect()
    for number in range(3):
        client.consumer("topic://t", subscription_name=f"{number}").close()
    with pytest.raises(ResourceLimit, match=r"connection\.destinations_max"):
        client.consumer("topic://t", subscription_name="more")
    client.consumer("topic://t", subscription_name="1").close()
    rig.broker.remove_durable(client.connection.client_id, "0")
    client.consumer("topic://t", subscription_name="more")


def test_A8_what_a_client_made_counts_for_nobody_after_it_has_gone() -> None:
    rig = _rig()
    first = rig.connect("a")
    for number in range(3):
        first.send(f"queue://{number}")
    first.disconnect()
    again = rig.connect("a")
    for number in range(3, 6):
        again.send(f"queue://{number}")
    assert not first.connection.made


def test_H1_advisory_topics_go_with_the_temporary_destination_that_they_are_about() -> None:
    rig = BrokerRig()
    watcher = rig.consumer(f"topic://{PREFIX}>")
    count = len(rig.broker.registry.router)
    for number in range(20):
        client = rig.connect(f"c{number}")
        where = client.temporary_queue()
        client.consumer(where)
        other = rig.connect()
        other.send(where)
        client.disconnect()
        other.disconnect()
    assert _advisory_topics(rig) == []
    assert len(rig.broker.registry.router) <= count + 2
    kinds = {message.destination.name.removeprefix(PREFIX).partition(".")[0] for message in watcher.delivered}
    assert {"TempQueue", "Consumer", "Connection"} <= kinds, "all was told"


def test_H1_an_advisory_topic_about_a_producer_that_outlives_its_destination_goes() -> None:
    rig = BrokerRig()
    rig.consumer(f"topic://{PREFIX}>")
    owner, producer = rig.connect(), rig.connect()
    where = owner.temporary_queue()
    producer.produce_for(where)
    owner.disconnect()
    producer.disconnect()
    assert _advisory_topics(rig) == []


def test_H1_an_advisory_topic_that_a_client_subscribes_to_by_name_stays_until_it_leaves() -> None:
    rig = BrokerRig()
    owner, listener = rig.connect(), rig.connect()
    where = owner.temporary_queue()
    topic = f"Consumer.Queue.{where.name}"
    heard = listener.consumer(f"topic://{PREFIX}{topic}")
    owner.consumer(where)
    owner.disconnect()
    assert _advisory_topics(rig) == [topic]
    assert len(heard.delivered) == 2
    listener.disconnect()
    assert _advisory_topics(rig) == []


def test_H1_advisory_topics_take_no_destination_from_clients() -> None:
    rig = BrokerRig(settings={"destinations": {"count_max": 12}})
    rig.consumer(f"topic://{PREFIX}>")
    client = rig.connect()
    for number in range(6):
        client.consumer(f"queue://{number}")
    assert len(_advisory_topics(rig)) == 6


def test_what_a_client_has_taken_is_told() -> None:
    rig = _rig()
    client = rig.connect("a")
    client.send("queue://1")
    client.temporary_queue()
    client.send("queue://1", properties={"AMQ_SCHEDULED_DELAY": Long(60_000)})
    line = why_producer(rig.broker.view, "ID:a")[-1]
    assert "2 of 3 destinations that it made (connection.destinations_max), 1 of 250000 scheduled jobs" in line
    assert any("1 of 1000000 scheduled jobs" in it for it in broker_use(rig.broker.view))

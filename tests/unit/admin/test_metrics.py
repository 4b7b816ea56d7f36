"""The metrics: every figure true, the text exact, the number of labels bounded."""

import asyncio

from ackwire.admin import metrics
from ackwire.admin.metrics import StoreInfo
from ackwire.broker.loop_report import LongTurn, LoopReport
from ackwire.jms.destinations import parse_destination
from tests.helpers.broker_rig import BrokerRig
from tests.helpers.prometheus import Labels, parse

STORE = StoreInfo("journal", lambda: 4096, 1_000_000)


def rendered(rig: BrokerRig) -> dict[str, dict[Labels, float]]:
    return parse(asyncio.run(metrics.render(rig.broker, STORE, 12.5)))


def raise_(error: Exception) -> None:
    raise error


def of(where: str) -> Labels:
    return frozenset({("destination", where)})


def test_figures_of_the_broker_are_there() -> None:
    rig = BrokerRig(settings={"limits": {"memory_bytes_max": 1_000_000}})
    rig.connect().send("queue://orders", "x" * 1000)
    found = rendered(rig)
    assert found["ackwire_uptime_seconds"][frozenset()] == 12.5
    assert found["ackwire_connections"][frozenset()] == 1
    assert 1000 < found["ackwire_memory_used_bytes"][frozenset()] < 2000
    assert found["ackwire_memory_limit_bytes"][frozenset()] == 1_000_000
    assert found["ackwire_store_used_bytes"][frozenset()] == 4096
    assert found["ackwire_held_producers"][frozenset()] == 0
    assert found["ackwire_blocked_bytes"][frozenset()] == 0
    assert found["ackwire_dropped_sends_total"][frozenset()] == 0
    assert found["ackwire_receive_waiting"][frozenset()] == 0
    assert found["ackwire_scheduled_jobs"][frozenset()] == 0
    assert found["ackwire_destinations_limit"][frozenset()] == 100_000
    (identity,) = found["ackwire_info"]
    assert ("store", "journal") in identity


def test_turns_of_the_loop_are_a_histogram_with_the_longest_and_what_it_did() -> None:
    rig = BrokerRig()
    long = LongTurn(0.061, 0.06, 'peer "x"', 0.06, 0)
    rig.broker.view.loop_report = lambda: LoopReport(100, 2.5, (7, 3, 1), long, long, None, 0.5)
    found = rendered(rig)
    buckets = {dict(labels)["le"]: value for labels, value in found["ackwire_loop_turn_seconds_bucket"].items()}
    assert buckets == {"0.005": 93, "0.02": 97, "0.05": 99, "+Inf": 100}
    assert found["ackwire_loop_turn_seconds_sum"][frozenset()] == 2.5
    assert found["ackwire_loop_turn_seconds_count"][frozenset()] == 100
    assert found["ackwire_loop_longest_turn_seconds"] == {frozenset({("doing", 'peer "x"')}): 0.061}
    assert found["ackwire_loop_longest_turn_cpu_seconds"] == {frozenset(): 0.06}
    assert found["ackwire_loop_recent_longest_turn_seconds"] == {frozenset({("doing", "")}): 0}


def test_a_loop_that_is_not_measured_has_no_figures() -> None:
    assert not [name for name in rendered(BrokerRig()) if name.startswith("ackwire_loop")]


def test_figures_of_a_queue_follow_its_messages() -> None:
    rig = BrokerRig()
    producer = rig.connect()
    for _ in range(5):
        producer.send("queue://orders")
    consumer = rig.consumer("queue://orders", prefetch=2)
    consumer.ack()
    found = rendered(rig)
    figures = {
        name.removeprefix("ackwire_destination_"): samples.get(of("queue://orders")) for name, samples in found.items()
    }
    assert figures["pending"] == 2
    assert figures["in_flight"] == 2
    assert figures["consumers"] == 1
    assert figures["enqueued_total"] == 5
    assert figures["dequeued_total"] == 1
    assert figures["expired_total"] == 0


def test_topics_and_durable_subscriptions_have_figures_of_their_own() -> None:
    rig = BrokerRig()
    rig.connect("app").consumer("topic://news", subscription_name="mine", prefetch=0)
    rig.connect().send("topic://news")
    found = rendered(rig)
    assert found["ackwire_destination_enqueued_total"][of("topic://news")] == 1
    assert found["ackwire_destination_pending"][of("durable://app/mine")] == 1


def test_names_are_escaped() -> None:
    rig = BrokerRig()
    name = 'queue://a"b\\c\nd {e="f"} ünï'
    rig.connect().send(name)
    assert rendered(rig)["ackwire_destination_pending"][of(name)] == 1


def test_beyond_a_number_destinations_are_summed() -> None:
    rig = BrokerRig()
    producer = rig.connect()
    for number in range(metrics.LABELLED_MAX + 5):
        producer.send(f"queue://q{number}")
    pending = rendered(rig)["ackwire_destination_pending"]
    assert len(pending) == metrics.LABELLED_MAX + 1
    assert pending[of("queue://q0")] == 1
    assert pending[of("…other")] == 5


def test_temporary_destinations_are_summed() -> None:
    rig = BrokerRig()
    client = rig.connect()
    for number in range(3):
        client.send(client.temporary_queue(str(number)))
    assert rendered(rig)["ackwire_destination_pending"][of("…other")] == 3


def test_cursors_have_figures() -> None:
    rig = BrokerRig()
    cursors = rig.broker.cursors
    cursors.open("lake", parse_destination("queue://orders"))
    for _ in range(8):
        rig.connect().send("queue://orders")
    numbers: list[int] = []
    cursors.latest("lake", 0, 5, numbers.append, raise_)
    cursors.commit("lake", 3, numbers.append, raise_)
    found = rendered(rig)
    labels = frozenset({("cursor", "lake"), ("destination", "queue://orders")})
    assert found["ackwire_cursor_assigned"][labels] == 5
    assert found["ackwire_cursor_committed"][labels] == 3
    assert found["ackwire_cursor_lag"][labels] == 5


def test_staged_messages_are_counted() -> None:
    rig = BrokerRig()
    message = rig.connect().message("queue://orders")
    message.sequence = rig.broker.staging.next_sequences(1)
    rig.broker.staging.stage("job", 1, "p", [message], lambda: None, raise_)
    found = rendered(rig)
    assert found["ackwire_staged_parts"][frozenset()] == 1
    assert found["ackwire_staged_messages"][frozenset()] == 1
    assert found["ackwire_destination_pending"][of("queue://orders")] == 0

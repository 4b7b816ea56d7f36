"""The broker can say why something does not move, in one sentence with the numbers (SEMANTICS B6, A6)."""

import pytest

from ackwire.broker.in_flight import AckKind
from ackwire.broker.why.message_search import why_message
from ackwire.broker.why.reasons import why_consumer, why_file, why_producer, why_queue, why_transaction
from ackwire.errors import NotHere
from ackwire.jms.destinations import Kind, destination
from ackwire.jms.message import Message
from ackwire.wire.openwire import commands
from tests.helpers.broker_rig import BrokerRig, RigClient, named
from tests.helpers.bulk import Reader, Writer
from tests.helpers.waiting import answered

ORDERS = destination(Kind.QUEUE, "orders")


@pytest.fixture
def rig() -> BrokerRig:
    return BrokerRig()


@pytest.fixture
def producer(rig: BrokerRig) -> RigClient:
    return rig.connect("producer")


def _why(rig: BrokerRig, message: Message) -> str:
    """The one sentence about *message*, asked for by its JMSMessageID and by its number."""
    answer = answered(why_message(rig.broker.view, rig.editor.message_id(message)))
    assert len(answer) == 1
    if message.sequence:
        assert answered(why_message(rig.broker.view, str(message.sequence))) == answer
    return answer[0]


# ---- messages --------------------------------------------------------------------------------------------------


def test_A6_a_message_waits_because_nobody_consumes(rig: BrokerRig, producer: RigClient) -> None:
    message = producer.send("queue://orders")
    rig.clock.advance(12.3)
    assert _why(rig, message) == "message 1 of queue://orders waits for 12.3 s: no consumer is connected"


def test_A6_a_message_waits_because_its_consumers_are_full(rig: BrokerRig, producer: RigClient) -> None:
    rig.consumer("queue://orders", prefetch=5)
    rig.consumer("queue://orders", prefetch=5)
    for _ in range(10):
        producer.send("queue://orders")
    rig.clock.advance(2)
    producer.send("queue://orders")
    message = producer.send("queue://orders")
    rig.clock.advance(10)
    assert _why(rig, message) == (
        "message 12 of queue://orders waits for 10.0 s, 1 in front of it: 2 consumers, both full "
        "(prefetch 5 + extension 0, 5 in flight each; oldest for 12.0 s)"
    )


def test_A6_consumers_without_room_for_different_reasons_are_named(rig: BrokerRig, producer: RigClient) -> None:
    full = rig.consumer("queue://orders", prefetch=1)
    pulling = rig.consumer("queue://orders", prefetch=0)
    stuck = rig.consumer("queue://orders", prefetch=5)
    stuck.client.port.is_ready = False
    producer.send("queue://orders")
    message = producer.send("queue://orders")
    assert _why(rig, message) == (
        "message 2 of queue://orders waits for 0.0 s: 3 consumers, none with room: "
        f"{full.subscription.consumer_id} is full (prefetch 1 + extension 0, 1 in flight; oldest for 0.0 s); "
        f"{pulling.subscription.consumer_id} asks for nothing (prefetch 0, and no receive waits); "
        f"{stuck.subscription.consumer_id} is not sent to: its connection has too much output waiting "
        "(connection.write_pause_bytes)"
    )


def test_A6_of_many_consumers_some_are_named(rig: BrokerRig, producer: RigClient) -> None:
    for prefetch in (1, 1, 1, 0, 0):
        rig.consumer("queue://orders", prefetch=prefetch)
    for _ in range(3):
        producer.send("queue://orders")
    assert _why(rig, producer.send("queue://orders")).endswith("; and 2 more")


def test_A6_a_message_waits_because_no_selector_matches(rig: BrokerRig, producer: RigClient) -> None:
    for colour in ("red", "blue", "blue"):
        rig.consumer("queue://orders", selector=f"colour = '{colour}'")
    message = producer.send("queue://orders", properties={"colour": "green"})
    assert _why(rig, message) == (
        "message 1 of queue://orders waits for 0.0 s: no consumer's selector matches "
        "(3 consumers: colour = 'red', colour = 'blue')"
    )


def test_A6_a_message_waits_for_the_consumers_whose_selector_matches(rig: BrokerRig, producer: RigClient) -> None:
    rig.consumer("queue://orders", selector="colour = 'red'", prefetch=1)
    rig.consumer("queue://orders", selector="colour = 'blue'")
    producer.send("queue://orders", properties={"colour": "red"})
    message = producer.send("queue://orders", properties={"colour": "red"})
    assert _why(rig, message).endswith(
        "1 consumer of 2 have a selector that matches, full (prefetch 1 + extension 0, 1 in flight; oldest for 0.0 s)"
    )


def test_A6_a_message_waits_for_the_exclusive_consumer(rig: BrokerRig, producer: RigClient) -> None:
    alone = rig.consumer("queue://orders", prefetch=1, exclusive=True)
    rig.consumer("queue://orders")
    producer.send("queue://orders")
    message = producer.send("queue://orders")
    rig.clock.advance(3)
    assert _why(rig, message) == (
        "message 2 of queue://orders waits for 3.0 s: the queue has an exclusive consumer "
        f"{alone.subscription.consumer_id}, which is full (prefetch 1 + extension 0, 1 in flight; oldest for 3.0 s)"
    )


def test_A6_the_exclusive_consumer_may_not_want_it(rig: BrokerRig, producer: RigClient) -> None:
    rig.consumer("queue://orders", exclusive=True, selector="a = 1")
    rig.consumer("queue://orders")
    assert _why(rig, producer.send("queue://orders")).endswith("whose selector does not match: a = 1")


def test_A6_a_message_waits_for_the_owner_of_its_group(rig: BrokerRig, producer: RigClient) -> None:
    owner = rig.consumer("queue://orders", prefetch=1)
    producer.send("queue://orders", group_id="g")
    rig.consumer("queue://orders", prefetch=5)
    message = producer.send("queue://orders", group_id="g")
    rig.clock.advance(1)
    assert _why(rig, message) == (
        "message 2 of queue://orders waits: it belongs to group g, owned by consumer "
        f"{owner.subscription.consumer_id}, which is full (prefetch 1 + extension 0, 1 in flight; oldest for 1.0 s)"
    )


def test_A6_a_queue_tells_of_a_message_kept_for_one_consumer(rig: BrokerRig, producer: RigClient) -> None:
    rig.consumer("queue://orders", prefetch=1)
    producer.send("queue://orders", group_id="g")
    rig.consumer("queue://orders", prefetch=5)
    producer.send("queue://orders", group_id="g")
    assert answered(why_queue(rig.broker.view, ORDERS))[1].startswith(
        "message 2 of queue://orders waits: it belongs to group g, owned"
    )


def test_A6_a_message_of_a_group_waits_behind_others_too(rig: BrokerRig, producer: RigClient) -> None:
    owner = rig.consumer("queue://orders", prefetch=1)
    producer.send("queue://orders", group_id="g")
    message = producer.send("queue://orders", group_id="g")
    assert f"it belongs to group g owned by consumer {owner.subscription.consumer_id}, which is full" in _why(
        rig, message
    )


def test_A6_a_message_waits_because_the_queue_is_paused(rig: BrokerRig, producer: RigClient) -> None:
    rig.consumer("queue://orders")
    queue = rig.broker.registry.queues()[0]
    queue.dispatcher.pause()
    assert _why(rig, producer.send("queue://orders")).endswith(": the queue is paused")


def test_A6_a_message_whose_time_is_over_goes_soon(rig: BrokerRig, producer: RigClient) -> None:
    message = producer.send("queue://orders", expiration=rig.clock.now_ms() + 1000)
    rig.clock.advance(3)
    assert "it expired 2.0 s ago" in _why(rig, message)


def test_A6_a_message_is_in_flight(rig: BrokerRig, producer: RigClient) -> None:
    message = producer.send("queue://orders")
    rig.clock.advance(60)
    consumer = rig.consumer("queue://orders")
    rig.clock.advance(12.3)
    assert _why(rig, message) == (
        f"message 1 of queue://orders is in flight to consumer {consumer.subscription.consumer_id} of "
        f"connection ID:{consumer.client.connection.client_id} (client {consumer.client.connection.client_id}) "
        "for 12.3 s"
    )


def test_A6_time_in_flight_counts_from_the_last_dispatch(rig: BrokerRig, producer: RigClient) -> None:
    first = rig.consumer("queue://orders")
    message = producer.send("queue://orders")
    rig.clock.advance(5)
    assert "for 5.0 s" in _why(rig, message)
    first.close()
    rig.clock.advance(5)
    rig.consumer("queue://orders")
    rig.clock.advance(2)
    assert _why(rig, message).endswith("for 2.0 s, redelivered 1 time")


def test_A6_a_message_was_acknowledged_in_an_open_transaction(rig: BrokerRig, producer: RigClient) -> None:
    consumer = rig.consumer("queue://orders")
    message = producer.send("queue://orders")
    transaction = consumer.client.begin()
    consumer.ack(message, transaction=transaction)
    rig.clock.advance(7)
    answer = _why(rig, message)
    assert answer.startswith(
        f"message 1 of queue://orders was acknowledged by consumer {consumer.subscription.consumer_id} and goes when "
        f"its transaction commits: transaction {transaction} of connection ID:client-1"
    )
    assert answer.endswith("is active for 7.0 s and holds 1 acknowledged message of queue://orders")


def test_A6_a_message_was_sent_in_an_open_transaction(rig: BrokerRig, producer: RigClient) -> None:
    transaction = producer.begin()
    message = producer.send("queue://orders", transaction=transaction)
    rig.clock.advance(7)
    answer = _why(rig, message)
    assert answer.startswith("a message to queue://orders is invisible until its transaction commits: transaction")
    assert answer.endswith(f"is active for 7.0 s and holds 1 send ({message.size_bytes} bytes)")


def test_A6_a_message_is_scheduled(rig: BrokerRig, producer: RigClient) -> None:
    message = producer.send("queue://orders", properties={"AMQ_SCHEDULED_DELAY": 90_000})
    job = rig.broker.scheduler.jobs()[0]
    rig.clock.advance(1)
    assert _why(rig, message) == f"a message to queue://orders is scheduled: job {job.job_id} is due in 1 min 29 s"
    rig.broker.flow.used_bytes += rig.settings.limits.memory_bytes_max
    rig.clock.advance(120)
    assert f"job {job.job_id} was due 31.0 s ago: memory is full" in _why(rig, message)


def test_A6_every_copy_of_a_message_has_a_sentence(rig: BrokerRig, producer: RigClient) -> None:
    message = producer.send("queue://a,queue://b")
    answer = answered(why_message(rig.broker.view, rig.editor.message_id(message)))
    assert [line.split(" waits")[0] for line in answer] == ["message 1 of queue://a", "message 2 of queue://b"]


def test_A6_a_message_waits_for_a_slow_subscriber(rig: BrokerRig, producer: RigClient) -> None:
    subscriber = rig.consumer("topic://news", prefetch=1)
    producer.send("topic://news")
    message = producer.send("topic://news")
    assert _why(rig, message) == (
        f"message 2 of topic://news waits: consumer {subscriber.subscription.consumer_id} of topic://news "
        "is full (prefetch 1 + extension 0, 1 in flight)"
    )


def test_A6_a_message_waits_for_a_durable_subscriber(rig: BrokerRig, producer: RigClient) -> None:
    rig.consumer("topic://news", subscription_name="s").close()
    message = producer.send("topic://news")
    assert _why(rig, message).endswith("no consumer is connected")


@pytest.mark.parametrize("message_id", ["ID:gone:1:1:1", "999", "ID:foreign", "", ":", "ID:x:99999999999999999999"])
def test_A6_a_message_that_is_gone(rig: BrokerRig, producer: RigClient, message_id: str) -> None:
    producer.send("queue://orders")
    with pytest.raises(NotHere, match=f"message {message_id} is not here: it was consumed, moved, expired"):
        answered(why_message(rig.broker.view, message_id))


# ---- producers -------------------------------------------------------------------------------------------------


def _full_rig() -> BrokerRig:
    return BrokerRig(settings={"limits": {"memory_bytes_max": 1000, "held_bytes_max": 500}})


def test_B6_a_blocked_producer_sees_limit_holder_and_time() -> None:
    rig = _full_rig()
    producer = rig.connect("producer")
    producer.send("queue://small")
    big = producer.send("queue://big", "x" * 2000)
    rig.clock.advance(2)
    held = producer.send("queue://small")
    rig.clock.advance(12.3)
    used_bytes = rig.broker.flow.used_bytes
    assert why_producer(rig.broker.view, producer.producer_id) == [
        f"producer {producer.producer_id} of connection ID:producer (client producer) is blocked for 12.3 s: "
        f"memory is full: {used_bytes} of 1000 bytes (limits.memory_bytes_max); "
        f"largest holder queue://big with {big.size_bytes} bytes; 1 send waiting ({held.size_bytes} bytes)"
    ]
    assert why_producer(rig.broker.view, "ID:producer")[0].startswith(
        "connection ID:producer (client producer) is blocked"
    )
    assert "is not taken yet: connection ID:producer" in _why(rig, held)


def test_B6_a_connection_that_is_not_read_any_more_is_told() -> None:
    rig = _full_rig()
    producer = rig.connect("producer")
    producer.send("queue://big", "x" * 2000)
    for _ in range(4):
        producer.send("queue://big", "x" * 200)
    assert why_producer(rig.broker.view, producer.producer_id)[0].endswith(" bytes), no more is read")


def test_B6_a_connection_is_not_read_beyond_what_all_sends_may_hold_unless_it_has_messages_in_flight() -> None:
    rig = BrokerRig(settings={"limits": {"memory_bytes_max": 1000, "blocked_bytes_max": 500}})
    producer, both = rig.connect("producer"), rig.connect("both")
    producer.send("queue://big", "x" * 2000)
    assert both.consumer("queue://big").texts, "it has a message in flight"
    producer.send("queue://q", "x" * 600)
    both.send("queue://q", "x" * 200)
    assert why_producer(rig.broker.view, producer.producer_id)[0].endswith(" bytes), no more is read")
    (waiting,) = [send.message for held_by, send in rig.broker.flow.held() if held_by is both.connection]
    assert why_producer(rig.broker.view, both.producer_id)[0].endswith(f"1 send waiting ({waiting.size_bytes} bytes)")


def test_B6_a_producer_that_is_not_blocked(rig: BrokerRig, producer: RigClient) -> None:
    assert why_producer(rig.broker.view, producer.producer_id) == [
        f"producer {producer.producer_id} of connection ID:producer (client producer) is not blocked: "
        f"no send of it waits, 0 of {rig.settings.limits.memory_bytes_max} bytes of memory are in use"
    ]


def test_B6_a_producer_that_is_gone(rig: BrokerRig) -> None:
    with pytest.raises(NotHere, match="producer ID:x is not here: it has left or was never announced"):
        why_producer(rig.broker.view, "ID:x")


# ---- consumers -------------------------------------------------------------------------------------------------


def test_C5_why_a_consumer_is_idle(rig: BrokerRig, producer: RigClient) -> None:
    def why() -> str:
        (answer,) = answered(why_consumer(rig.broker.view, consumer.subscription.consumer_id))
        return answer.removeprefix(f"{consumer.subscription!r} ({consumer.client.connection!r}) ")

    consumer = rig.consumer("queue://orders", prefetch=2)
    assert why() == "gets nothing: nothing waits in queue://orders"
    for _ in range(3):
        producer.send("queue://orders")
    rig.clock.advance(4)
    assert why() == "is full (prefetch 2 + extension 0, 2 in flight; oldest for 4.0 s)"
    consumer.ack(consumer.delivered[1], count=2, kind=AckKind.DELIVERED)
    rig.clock.advance(4)
    assert why().startswith("gets nothing: nothing waits")

    consumer = rig.consumer("queue://red", selector="colour = 'red'")
    producer.send("queue://red")
    assert why() == "gets nothing: none of the first 1 message of queue://red match its selector: colour = 'red'"

    alone = rig.consumer("queue://alone", exclusive=True, prefetch=1)
    consumer = rig.consumer("queue://alone")
    producer.send("queue://alone")
    producer.send("queue://alone")
    assert why() == (
        f"gets nothing: queue://alone has another consumer that is exclusive: {alone.subscription.consumer_id}"
    )

    consumer = rig.consumer("queue://pulled", prefetch=0)
    assert why() == "asks for nothing (prefetch 0, and no receive waits)"

    consumer.pull()
    consumer.client.port.is_ready = False
    assert why().startswith("is not sent to: its connection has too much output waiting")

    consumer = rig.consumer("topic://news")
    assert why() == "waits for what is published next: 0 messages wait for it"

    consumer = rig.consumer("queue://none.*")
    assert why() == "gets nothing: no queue matches its pattern"

    consumer = rig.consumer("queue://orders", browser=True)
    assert why() == "has been shown everything"


def test_C5_a_paused_queue_and_groups_keep_consumers_idle(rig: BrokerRig, producer: RigClient) -> None:
    rig.consumer("queue://orders", prefetch=1, selector="JMSPriority > 0")
    for _ in range(3):
        producer.send("queue://orders", group_id="g")
    consumer_id = rig.consumer("queue://orders").subscription.consumer_id
    assert answered(why_consumer(rig.broker.view, consumer_id))[0].endswith(
        "gets nothing: the first 2 messages for it in queue://orders belong to groups of other consumers"
    )
    rig.broker.registry.queues()[0].dispatcher.pause()
    assert answered(why_consumer(rig.broker.view, consumer_id))[0].endswith("queue://orders is paused")


def test_C5_all_consumers_of_a_connection(rig: BrokerRig) -> None:
    client = rig.connect("reader")
    client.consumer("queue://a")
    client.consumer("queue://b")
    assert len(answered(why_consumer(rig.broker.view, "ID:reader"))) == 2
    with pytest.raises(NotHere, match="consumer ID:x is not here: it has left or was never announced"):
        answered(why_consumer(rig.broker.view, "ID:x"))


# ---- transactions ----------------------------------------------------------------------------------------------


def test_G1_open_transactions_tell_what_they_hold(rig: BrokerRig, producer: RigClient) -> None:
    consumer = rig.consumer("queue://orders")
    producer.send("queue://orders")
    producer.send("queue://orders")
    rig.clock.advance(1)
    older = consumer.client.begin()
    consumer.ack(count=2, transaction=older)
    rig.clock.advance(5)
    newer = producer.begin(7)
    sent = producer.send("queue://other", transaction=newer)
    rig.broker.transaction_manager.fail(producer.connection, newer, "no such thing")
    rig.clock.advance(3700)
    first, second = why_transaction(rig.broker.view)
    assert first.startswith(f"transaction {older} of connection ID:client-1 (client client-1) is active for 1 h 1 min")
    assert first.endswith("and holds 2 acknowledged messages of queue://orders")
    assert second.endswith(f"and holds 1 send ({sent.size_bytes} bytes); it can only roll back: no such thing")
    assert why_transaction(rig.broker.view, str(newer)) == [second]
    with pytest.raises(NotHere, match="transaction x is not open: it has ended or never began"):
        why_transaction(rig.broker.view, "x")


def test_G3_a_prepared_transaction_says_so(rig: BrokerRig, producer: RigClient) -> None:
    transaction = commands.XATransactionId(1, b"g", b"b")
    rig.broker.transaction_manager.begin(producer.connection, transaction, is_xa=True)
    producer.send("queue://orders", transaction=transaction)
    producer.prepare(transaction)
    rig.clock.advance(86_400 * 2)
    assert "is prepared for 2 d 0 h and holds 1 send" in why_transaction(rig.broker.view)[0]


# ---- queues ----------------------------------------------------------------------------------------------------


def test_A6_a_queue_tells_of_all_that_keeps_it(rig: BrokerRig, producer: RigClient) -> None:
    consumer = rig.consumer("queue://orders", prefetch=2)
    for _ in range(4):
        producer.send("queue://orders")
    transaction = consumer.client.begin()
    consumer.ack(consumer.delivered[0], transaction=transaction)
    rig.clock.advance(3)
    size_bytes = rig.broker.registry.queues()[0].size_bytes
    total, head, idle, held = answered(why_queue(rig.broker.view, ORDERS))
    assert total == (
        "queue://orders: 1 message waiting, 2 in flight to 1 consumer, 1 acknowledged in open transactions; "
        f"{size_bytes} bytes"
    )
    assert head.startswith("message 4 of queue://orders waits for 3.0 s: 1 consumer, full (prefetch 2")
    assert idle.startswith(f"consumer {consumer.subscription.consumer_id} of queue://orders")
    assert held.startswith(f"transaction {transaction}")


def test_A6_a_queue_with_many_consumers_answers_in_few_lines(rig: BrokerRig) -> None:
    for _ in range(25):
        rig.consumer("queue://orders")
    answer = answered(why_queue(rig.broker.view, ORDERS))
    assert len(answer) == 22
    assert answer[-1] == "queue://orders has 5 more consumers"


def test_A6_a_queue_that_does_not_exist(rig: BrokerRig) -> None:
    with pytest.raises(NotHere, match="queue://orders does not exist: it has had no message and no consumer"):
        answered(why_queue(rig.broker.view, ORDERS))
    assert len(rig.broker.registry.router) == 0, "asking makes nothing"


def test_A3_a_topic_tells_of_its_subscribers(rig: BrokerRig, producer: RigClient) -> None:
    rig.consumer("topic://news", prefetch=1)
    rig.consumer("topic://news", subscription_name="s").close()
    producer.send("topic://news")
    producer.send("topic://news")
    answer = answered(why_queue(rig.broker.view, destination(Kind.TOPIC, "news")))
    assert answer[0] == "topic://news: 1 subscriber, 1 durable subscription"
    assert answer[1].endswith("is full (prefetch 1 + extension 0, 1 in flight)")
    assert answer[2].startswith("durable subscription s of client client-2: 2 messages waiting")
    assert answer[3].endswith("no consumer is connected")


def test_B6_a_queue_names_its_blocked_producers() -> None:
    rig = _full_rig()
    producer = rig.connect("producer")
    producer.send("queue://orders", "x" * 2000)
    producer.send("queue://orders")
    assert answered(why_queue(rig.broker.view, ORDERS))[-1].startswith(
        "connection ID:producer (client producer) is blocked for 0.0 s"
    )


def test_K2_a_broker_without_files_says_so(rig: BrokerRig) -> None:
    assert why_file(rig.broker.view) == ["this broker keeps messages in memory: it has no files"]


# ---- cursors and staged batches --------------------------------------------------------------------------------


def test_queue_tells_who_holds_its_messages_back() -> None:
    rig = BrokerRig()
    for number in range(5):
        rig.connect().send("queue://q", str(number))
    Reader(rig, "spark").latest(0, 3)
    Writer(rig, "job").stage(["a", "b"])
    rig.clock.advance(120)
    lines = answered(why_queue(rig.broker.view, named("queue://q")))
    assert "cursor spark of queue://q has 3 messages that it has not committed (numbers 1 to 3)" in "\n".join(lines)
    assert "2 more wait in its queue" in "\n".join(lines)
    assert "part p of batch 0 of producer job has 2 messages staged" in "\n".join(lines)

"""Local transactions: all or nothing, and nothing is seen before commit (D5, D7, F1, G1)."""

import pytest

from tests.conformance.jms import (
    NON_PERSISTENT,
    PERSISTENT,
    AckMode,
    Connection,
    Jms,
    Session,
    bodies,
    redelivered,
    text,
    texts,
)
from tests.conformance.scenarios import counts, left_behind, named_client, numbered, with_redelivery
from tests.helpers.java import JavaError


@pytest.mark.parametrize("delivery_mode", [PERSISTENT, NON_PERSISTENT], ids=["persistent", "non-persistent"])
def test_G1_sends_are_invisible_until_commit(jms: Jms, tcp: str, queue: str, delivery_mode: int) -> None:
    """G1: a waiting consumer and a browser see nothing before, everything in order after."""
    other = jms.connect(tcp).session()
    consumer = other.consumer(queue)
    session = jms.connect(tcp).transacted_session()
    session.producer(queue).send(*texts(5), delivery_mode=delivery_mode)
    consumer.assert_nothing_comes()
    assert other.browse(queue) == []
    session.commit()
    received = consumer.receive_expected(5)
    assert bodies(received) == numbered(range(5))
    assert not any(redelivered(received))


def test_G1_topic_subscribers_see_nothing_before_commit(jms: Jms, tcp: str, topic: str) -> None:
    """G1, A3: copies are made at commit, for those who subscribe then, late comers included."""
    early = jms.connect(tcp).session().consumer(topic)
    session = jms.connect(tcp).transacted_session()
    session.producer(topic).send(*texts(3))
    early.assert_nothing_comes()
    late = jms.connect(tcp).session().consumer(topic)
    session.commit()
    for subscriber in (early, late):
        assert bodies(subscriber.receive_expected(3)) == numbered(range(3))


def test_G1_rolled_back_sends_never_appear(jms: Jms, tcp: str, queue: str) -> None:
    """G1: the session works on, and a later commit brings only what came after the rollback."""
    session = jms.connect(tcp).transacted_session()
    producer = session.producer(queue)
    producer.send(*texts(5, "lost"))
    session.rollback()
    producer.send(*texts(2, "kept"))
    session.commit()
    assert bodies(left_behind(jms, tcp, queue)) == ["kept0", "kept1"]


def test_G1_one_transaction_spans_queues_and_topics(jms: Jms, tcp: str, queue: str, topic: str) -> None:
    """G1: several producers of one session, one commit."""
    subscriber = jms.connect(tcp).session().consumer(topic)
    session = jms.connect(tcp).transacted_session()
    producers = [session.producer(name) for name in (f"{queue}.a", f"{queue}.b", topic)]
    for round_number in range(3):
        for producer in producers:
            producer.send(text(f"m{round_number}"))
    session.commit()
    assert bodies(subscriber.receive_expected(3)) == numbered(range(3))
    for name in (f"{queue}.a", f"{queue}.b"):
        assert bodies(left_behind(jms, tcp, name)) == numbered(range(3))


def test_G1_commit_acknowledges_what_was_received(jms: Jms, tcp: str, queue: str) -> None:
    """D5, G1: gone after commit; what the consumer only prefetched comes unflagged."""
    jms.send(tcp, queue, *texts(6))
    with jms.connect(tcp) as connection:
        session = connection.transacted_session()
        session.consumer(queue).receive_expected(4)
        session.commit()
    left = left_behind(jms, tcp, queue)
    assert bodies(left) == ["m4", "m5"]
    assert redelivered(left) == [False, False]


def test_G1_an_empty_transaction_commits_and_rolls_back(jms: Jms, tcp: str) -> None:
    """G1: nothing to do is no error; a session that is not transacted refuses both."""
    connection = jms.connect(tcp)
    session = connection.transacted_session()
    session.commit()
    session.rollback()
    session.commit()
    for verb in (Session.commit, Session.rollback):
        with pytest.raises(JavaError) as refused:
            verb(connection.session())
        assert refused.value.class_name == "javax.jms.IllegalStateException"


def test_F1_rollback_redelivers_everything_in_order_and_flagged(jms: Jms, tcp: str, queue: str) -> None:
    """F1, D5, H1: received ones come again first, one higher in count, then the unseen ones."""
    jms.send(tcp, queue, *texts(5))
    session = jms.connect(with_redelivery(tcp)).transacted_session()
    consumer = session.consumer(queue)
    assert counts(consumer.receive_expected(3)) == [1, 1, 1]
    session.rollback()
    received = consumer.receive_expected(5)
    assert bodies(received) == numbered(range(5))
    assert redelivered(received) == [True, True, True, False, False]
    assert counts(received) == [2, 2, 2, 1, 1]
    session.commit()
    assert left_behind(jms, tcp, queue) == []


def test_F1_rolled_back_messages_stay_with_their_consumer(jms: Jms, tcp: str, queue: str) -> None:
    """F1: another consumer with room gets none of them while the first one lives."""
    jms.send(tcp, queue, *texts(3))
    session = jms.connect(with_redelivery(tcp)).transacted_session()
    consumer = session.consumer(queue)
    consumer.receive_expected(3)
    other = jms.connect(tcp).session().consumer(queue)
    session.rollback()
    other.assert_nothing_comes()
    assert bodies(consumer.receive_expected(3)) == numbered(range(3))
    session.commit()


def test_F1_what_was_rolled_back_and_not_consumed_again_comes_back_after_close(jms: Jms, tcp: str, queue: str) -> None:
    """F1, D7: the broker counts one delivery for a consumer, however often that one rolled back."""
    jms.send(tcp, queue, *texts(3))
    with jms.connect(with_redelivery(tcp)) as connection:
        session = connection.transacted_session()
        consumer = session.consumer(queue)
        for _ in range(2):
            consumer.receive_expected(2)
            session.rollback()
    left = left_behind(jms, tcp, queue)
    assert bodies(left) == numbered(range(3))
    assert redelivered(left) == [True, True, False]
    assert counts(left) == [2, 2, 1]


@pytest.mark.parametrize("closed", ["session", "connection"])
def test_D7_close_without_commit_rolls_back(jms: Jms, tcp: str, queue: str, closed: str) -> None:
    """D7, F1, G1: sends are forgotten, received messages come back flagged."""
    jms.send(tcp, queue, *texts(4))
    connection = jms.connect(tcp)
    session = connection.transacted_session()
    session.consumer(queue).receive_expected(2)
    session.producer(f"{queue}.out").send(text("never"))
    parts: dict[str, Session | Connection] = {"session": session, "connection": connection}
    parts[closed].close()
    left = left_behind(jms, tcp, queue)
    assert bodies(left) == numbered(range(4))
    assert redelivered(left) == [True, True, False, False]
    assert counts(left) == [2, 2, 1, 1]
    assert left_behind(jms, tcp, f"{queue}.out") == []


def test_G1_a_client_killed_in_mid_transaction_leaves_no_trace(jms: Jms, doomed_jms: Jms, tcp: str, queue: str) -> None:
    """D7, G1: its sends are forgotten, its messages come back flagged, what it committed stays."""
    jms.send(tcp, queue, *texts(4))
    session = doomed_jms.connect(tcp).transacted_session()
    consumer, producer = session.consumer(queue), session.producer(f"{queue}.out")
    consumer.receive_expected(1)
    producer.send(text("committed"))
    session.commit()
    consumer.receive_expected(2)
    producer.send(text("not committed"))
    doomed_jms.kill()
    received = jms.connect(tcp).session().consumer(queue).receive_expected(3)
    assert bodies(received) == ["m1", "m2", "m3"]
    assert all(redelivered(received))
    assert bodies(left_behind(jms, tcp, f"{queue}.out")) == ["committed"]


def test_G1_moving_a_message_is_all_or_nothing(jms: Jms, tcp: str, queue: str) -> None:
    """G1: received from one queue and sent to another, first rolled back, then committed."""
    target = f"{queue}.target"
    jms.send(tcp, queue, text("cargo"))
    session = jms.connect(with_redelivery(tcp)).transacted_session()
    consumer, producer = session.consumer(queue), session.producer(target)
    arrivals = jms.connect(tcp).session().consumer(target)
    for attempt in (1, 2, 3):
        message = consumer.receive_one()
        assert (message.body, message.delivery_count) == ("cargo", attempt)
        producer.send(text(f"attempt {attempt}"))
        if attempt < 3:
            session.rollback()
            assert arrivals.receive_no_wait() is None
    session.commit()
    assert arrivals.receive_one().body == "attempt 3"
    assert left_behind(jms, tcp, queue) == []


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "rollback"])
def test_G1_the_consumers_of_a_session_share_its_transaction(
    jms: Jms, tcp: str, queue: str, topic: str, committed: bool
) -> None:
    """G1: two queues and a topic; after rollback each consumer gets its own again, in order."""
    session = jms.connect(with_redelivery(tcp)).transacted_session()
    names = [f"{queue}.a", f"{queue}.b", topic]
    consumers = [session.consumer(name) for name in names]
    for name in names:
        jms.send(tcp, name, *texts(3))
    for consumer in consumers:
        consumer.receive_expected(3)
    if committed:
        session.commit()
        assert [consumer.receive_no_wait() for consumer in consumers] == [None] * 3
    else:
        session.rollback()
        for consumer in consumers:
            received = consumer.receive_expected(3)
            assert bodies(received) == numbered(range(3))
            assert all(redelivered(received))
        session.commit()
    for name in names[:2]:
        assert left_behind(jms, tcp, name) == []


def test_G1_the_sessions_of_a_connection_have_transactions_of_their_own(jms: Jms, tcp: str, queue: str) -> None:
    """G1: one is committed, the other rolled back."""
    connection = jms.connect(tcp)
    keeping, losing = connection.transacted_session(), connection.transacted_session()
    keeping.producer(queue).send(text("kept"))
    losing.producer(queue).send(text("lost"))
    losing.rollback()
    keeping.commit()
    assert bodies(left_behind(jms, tcp, queue)) == ["kept"]


def test_D5_one_transaction_may_exceed_the_prefetch(jms: Jms, tcp: str, queue: str) -> None:
    """D5, C4: DELIVERED acks let a transaction receive any number of messages."""
    jms.send(tcp, queue, *texts(60))
    session = jms.connect(tcp).transacted_session()
    consumer = session.consumer(f"{queue}?consumer.prefetchSize=10")
    assert bodies(consumer.receive_expected(60)) == numbered(range(60))
    session.commit()
    assert left_behind(jms, tcp, queue) == []


@pytest.mark.parametrize("prefetch", [1, 10])
def test_D5_a_transaction_that_exceeded_the_prefetch_rolls_back_as_a_whole(
    jms: Jms, tcp: str, queue: str, prefetch: int
) -> None:
    """D5, F1: all of it comes again, in order, and can then be committed; the rest follows."""
    jms.send(tcp, queue, *texts(30))
    session = jms.connect(with_redelivery(tcp)).transacted_session()
    consumer = session.consumer(f"{queue}?consumer.prefetchSize={prefetch}")
    consumer.receive_expected(25)
    session.rollback()
    received = consumer.receive_expected(25)
    session.commit()
    received += consumer.receive_expected(5)
    assert bodies(received) == numbered(range(30))
    assert redelivered(received) == [True] * 25 + [False] * 5
    session.commit()
    assert left_behind(jms, tcp, queue) == []


@pytest.mark.pull
def test_C3_a_transacted_session_may_pull(jms: Jms, tcp: str, queue: str) -> None:
    """C3, G1: prefetch 0; what was rolled back comes again before what was not pulled yet."""
    jms.send(tcp, queue, *texts(3))
    session = jms.connect(with_redelivery(tcp)).transacted_session()
    consumer = session.consumer(f"{queue}?consumer.prefetchSize=0")
    assert consumer.receive_one().body == "m0"
    session.rollback()
    received = consumer.receive_expected(3)
    assert bodies(received) == numbered(range(3))
    assert redelivered(received) == [True, False, False]
    session.commit()
    assert left_behind(jms, tcp, queue) == []


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "rollback"])
def test_A3_G1_a_durable_subscriber_acknowledges_in_its_transaction(
    jms: Jms, tcp: str, topic: str, committed: bool
) -> None:
    """A3, G1: after close only what was not committed comes again."""
    with named_client(jms, tcp, topic) as connection:
        session = connection.transacted_session()
        subscriber = session.durable(topic, "durable")
        jms.send(tcp, topic, *texts(4))
        subscriber.receive_expected(3)
        if committed:
            session.commit()
    with named_client(jms, tcp, topic) as connection:
        received = connection.session().durable(topic, "durable").receive_expected(1 if committed else 4)
    assert bodies(received) == numbered([3] if committed else range(4))
    assert redelivered(received) == ([False] if committed else [True, True, True, False])


def test_G1_many_transactions_in_a_row(jms: Jms, tcp: str, queue: str) -> None:
    """G1: every third is rolled back; the rest arrives, each message once and in order."""
    session = jms.connect(tcp).transacted_session()
    producer = session.producer(queue)
    expected: list[str] = []
    for number in range(30):
        producer.send(text(f"a{number}"), text(f"b{number}"))
        if number % 3 == 2:
            session.rollback()
        else:
            session.commit()
            expected += [f"a{number}", f"b{number}"]
    assert bodies(left_behind(jms, tcp, queue)) == expected


def test_D5_messages_of_an_open_transaction_are_nobody_elses(jms: Jms, tcp: str, queue: str) -> None:
    """D5, A2: neither another consumer nor a second of the same session gets them."""
    session = jms.connect(tcp).transacted_session()
    consumer = session.consumer(queue)
    jms.send(tcp, queue, *texts(3))
    consumer.receive_expected(3)
    second, other = session.consumer(queue), jms.connect(tcp).session(AckMode.AUTO).consumer(queue)
    other.assert_nothing_comes()
    assert second.receive_no_wait() is None
    session.commit()

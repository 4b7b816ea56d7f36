"""What the real client finds after the broker was stopped, or killed, and started again (K1, B7, G3, I2)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.jms import NON_PERSISTENT, AckMode, Jms, bodies, redelivered, text, texts
from tests.conformance.routes import AGAINST_ACTIVEMQ
from tests.conformance.scenarios import named_client, numbered
from tests.conformance.test_scheduled_delivery import jobs, when
from tests.conformance.xa import VOTE_OK, Xid, xa_connect
from tests.helpers.java import JavaError
from tests.helpers.processes import ProcessFailed, RestartableBroker

pytestmark = [
    pytest.mark.skipif(AGAINST_ACTIVEMQ, reason="the broker is started and killed here, and is ours"),
    pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"]),
]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RestartableBroker]:
    with RestartableBroker(tmp_path) as broker:
        yield broker


def test_K1_what_was_not_acknowledged_is_delivered_again_in_order(
    jms: Jms, broker: RestartableBroker, kill: bool, queue: str
) -> None:
    """K1, H1: sent messages are there, acknowledged ones are not."""
    jms.send(broker.url, queue, *texts(50))
    with jms.connect(broker.url) as connection:
        session = connection.session(AckMode.CLIENT)
        consumer = session.consumer(queue)
        session.acknowledge(consumer.receive_expected(20)[-1])
    broker.restart(kill=kill)
    with jms.connect(broker.url) as connection:
        received = connection.session().consumer(queue).receive_expected(30)
        assert bodies(received) == numbered(range(20, 50))
        # The consumer said that it had not seen them; after a crash the broker does not know that (ADR 5).
        assert kill or not any(redelivered(received))


def test_B7_non_persistent_messages_are_gone(jms: Jms, broker: RestartableBroker, kill: bool, queue: str) -> None:
    """B7: and the persistent ones between them are not."""
    jms.send(broker.url, queue, text("gone"), delivery_mode=NON_PERSISTENT)
    jms.send(broker.url, queue, text("kept"))
    broker.restart(kill=kill)
    with jms.connect(broker.url) as connection:
        consumer = connection.session().consumer(queue)
        assert bodies(consumer.receive_expected(1)) == ["kept"]
        consumer.assert_nothing_comes()


def test_A8_a_wildcard_queue_of_virtual_topics_is_kept(
    jms: Jms, broker: RestartableBroker, kill: bool, topic: str
) -> None:
    """A8, K1: with what it holds, and for what is published before its consumers are back."""
    name = f"VirtualTopic.{topic.removeprefix('topic://')}"
    pattern = f"queue://Consumer.1.{name}.>"
    with jms.connect(broker.url) as connection:
        connection.session().consumer(pattern)
    broker.restart(kill=kill)
    jms.send(broker.url, f"topic://{name}.a", *texts(2))
    broker.restart(kill=kill)
    jms.send(broker.url, f"topic://{name}.b", text("later"))
    with jms.connect(broker.url) as connection:
        received = connection.session().consumer(pattern).receive_expected(3)
    assert bodies(received) == [*numbered(range(2)), "later"]


def test_A3_a_durable_subscription_and_its_messages_are_kept(
    jms: Jms, broker: RestartableBroker, kill: bool, topic: str
) -> None:
    """A3, K1: what it had acknowledged does not come again."""
    with named_client(jms, broker.url, topic) as connection:
        session = connection.session(AckMode.CLIENT)
        subscriber = session.durable(topic, "durable")
        jms.send(broker.url, topic, *texts(5))
        session.acknowledge(subscriber.receive_expected(5)[-1])
    jms.send(broker.url, topic, *texts(5, "later"))
    broker.restart(kill=kill)
    jms.send(broker.url, topic, text("last"))
    with named_client(jms, broker.url, topic) as connection:
        subscriber = connection.session().durable(topic, "durable")
        assert bodies(subscriber.receive_expected(6)) == [*(f"later{number}" for number in range(5)), "last"]
        subscriber.assert_nothing_comes()


def test_G2_a_committed_transaction_is_whole_and_an_open_one_gone(
    jms: Jms, broker: RestartableBroker, kill: bool, queue: str
) -> None:
    """G2: sends and acks of a commit are there together; what was not committed never was."""
    jms.send(broker.url, queue, *texts(4))
    connection = jms.connect(broker.url)
    session = connection.transacted_session()
    consumer = session.consumer(queue)
    consumer.receive_expected(2)
    session.producer(f"{queue}.out").send(*texts(2, "out"))
    session.commit()
    consumer.receive_expected(1)
    session.producer(f"{queue}.out").send(text("uncommitted"))
    broker.restart(kill=kill)
    jms.reset()  # what had a connection knows that it broke
    with jms.connect(broker.url) as connection:
        session = connection.session()
        assert bodies(session.consumer(queue).receive_up_to(9)) == numbered(range(2, 4))
        assert bodies(session.consumer(f"{queue}.out").receive_up_to(9)) == ["out0", "out1"]


@pytest.mark.parametrize("decision", ["commit", "rollback"])
def test_G3_a_prepared_transaction_waits_for_its_decision(
    jms: Jms, broker: RestartableBroker, kill: bool, queue: str, decision: str
) -> None:
    """G3: recover lists it; its sends and acks are in nobody's reach before."""
    jms.send(broker.url, queue, text("in"))
    xid = Xid.fresh(queue)
    session = xa_connect(jms, broker.url).xa_session()
    session.xa_start(xid)
    session.consumer(queue).receive_expected(1)
    session.producer(f"{queue}.out").send(text("out"))
    session.xa_end(xid)
    assert session.xa_prepare(xid) == VOTE_OK
    broker.restart(kill=kill)
    jms.reset()
    session = xa_connect(jms, broker.url).xa_session()
    assert session.xa_recover() == [xid]
    with jms.connect(broker.url) as connection:
        other = connection.session()
        consumer, out = other.consumer(queue), other.consumer(f"{queue}.out")
        consumer.assert_nothing_comes()
        out.assert_nothing_comes()
        if decision == "commit":
            session.xa_commit(xid)
            assert bodies(out.receive_expected(1)) == ["out"]
            consumer.assert_nothing_comes()
        else:
            session.xa_rollback(xid)
            assert bodies(consumer.receive_expected(1)) == ["in"]
            out.assert_nothing_comes()
    broker.restart(kill=kill)
    jms.reset()
    assert xa_connect(jms, broker.url).xa_session().xa_recover() == []


def test_I2_scheduled_messages_are_kept(jms: Jms, broker: RestartableBroker, kill: bool, queue: str) -> None:
    """I2: what is due while the broker is down comes when it is back; what is due later stays scheduled."""
    jms.send(broker.url, queue, text("soon", properties=when(delay=1)), text("far", properties=when(delay=3_600_000)))
    broker.restart(kill=kill)
    with jms.connect(broker.url) as connection:
        consumer = connection.session().consumer(queue)
        assert bodies(consumer.receive_expected(1)) == ["soon"]
        consumer.assert_nothing_comes()
    assert bodies(jobs(jms, broker.url)) == ["far"]


def test_K2_a_second_broker_is_refused(jms: Jms, broker: RestartableBroker, kill: bool, tmp_path: Path) -> None:
    """K2: on the same data, with a message that names the holder; the first one goes on."""
    (tmp_path / "second").mkdir()
    second = RestartableBroker(tmp_path / "second", ("--data", str(broker.data)))
    with pytest.raises(ProcessFailed, match=rf"is in use by broker localhost, process {broker.process.pid} on"):
        second.start()
    second.stop()
    jms.send(broker.url, "queue://still.there", text("hello"))
    broker.restart(kill=kill)


def test_A3_an_ended_subscription_stays_ended(jms: Jms, broker: RestartableBroker, kill: bool, topic: str) -> None:
    """A3: a restart forgets connections, not subscriptions: unsubscribing works once, and then it is unknown."""
    with named_client(jms, broker.url, topic) as connection:
        connection.session().durable(topic, "durable")
    broker.restart(kill=kill)
    with named_client(jms, broker.url, topic) as connection:
        connection.session().unsubscribe("durable")
    broker.restart(kill=kill)
    with named_client(jms, broker.url, topic) as connection, pytest.raises(JavaError, match="No durable subscription"):
        connection.session().unsubscribe("durable")

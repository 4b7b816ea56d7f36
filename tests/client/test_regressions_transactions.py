"""Mistakes that a review found: transactions, local and distributed (G), and what a lost link means to them (J4)."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

import ackwire
from ackwire import AckMode, Message, Session, Xid
from ackwire.client.sync.owners import OwningConnection
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.structures import Throwable
from tests.client.brokers import Broker
from tests.client.conftest import Connect
from tests.client.fake_broker import Client, FakeBroker
from tests.client.recording import RecordingProxy
from tests.client.steps import (
    ABSENCE_SECONDS,
    ARRIVAL_SECONDS,
    drain,
    flags,
    numbered,
    receive,
    receive_all,
    send,
    text_of,
    texts,
    with_redelivery,
)
from tests.client.watched import Watched, failover
from tests.client.work import InThread
from tests.conformance.proxy import CuttableProxy

FORMAT = 0x52657669
HASTE_MS = 50


@contextlib.contextmanager
def answers_held(connection: OwningConnection, recording: RecordingProxy) -> Iterator[None]:
    """The broker's answers do not come, and the connection does not wait long for them."""
    options = connection.options
    connection.options = replace(options, request_timeout_ms=HASTE_MS)
    recording.hold_answers()
    yield
    connection.options = options


# ---- a lost link -----------------------------------------------------------------------------------------------


def test_G1_J4_a_confirmed_send_in_a_transaction_is_stored_once_after_a_reconnect(
    connect: Connect, recording: RecordingProxy, queue: str
) -> None:
    """G1, J4: it is repeated with its transaction, and not a second time with the unanswered requests."""
    connection = connect(failover(recording.port, jms__sendTimeout=60_000))
    session = connection.session(transacted=True)
    producer = session.producer(queue)
    producer.send("a")
    recording.hold_answers()
    sending = InThread(lambda: producer.send("b"))
    recording.await_sent(commands.ActiveMQTextMessage, 2)
    recording.cut_once()
    recording.release()
    sending.result()
    session.commit()
    assert texts(drain(connect(), queue)) == ["a", "b"]


def test_C4_J4_a_transaction_that_consumed_more_than_prefetch_goes_on_after_a_reconnect(
    connect: Connect, proxy: CuttableProxy, queue: str
) -> None:
    """C4, J4: what comes again counts as delivered, so that the broker goes on pushing, and the commit succeeds."""
    send(connect(), queue, *numbered(range(40)))
    watched = Watched(connect(failover(proxy.port, jms__prefetchPolicy__queuePrefetch=10)))
    session = watched.connection.session(transacted=True)
    consumer = session.consumer(queue)
    assert texts(receive_all(consumer, 25)) == numbered(range(25))
    proxy.cut_once()
    watched.await_return()
    assert text_of(receive(consumer)) == "m25"
    session.commit()
    watched.connection.close()
    assert texts(drain(connect(), queue)) == numbered(range(26, 40))


def test_G1_a_commit_whose_answer_is_lost_is_in_doubt(connect: Connect, recording: RecordingProxy, queue: str) -> None:
    """G1: nobody knows whether it happened, least of all that it was rolled back; here it was not."""
    connection = connect(recording.url)
    connection.on_error = lambda _: None  # that the connection is lost
    session = connection.session(transacted=True)
    session.send(queue, "m")
    recording.forget()
    recording.hold_answers()
    committing = InThread(session.commit)
    recording.await_received(commands.Response)
    recording.cut()
    with pytest.raises(ackwire.TransactionInDoubtError):
        committing.result()
    assert not issubclass(ackwire.TransactionInDoubtError, ackwire.TransactionRolledBackError)
    assert texts(drain(connect(), queue)) == ["m"]


# ---- an undecided commit ---------------------------------------------------------------------------------------


class Committing:
    """A listener that commits each message; its first commit is not answered in time."""

    def __init__(self, session: Session, recording: RecordingProxy, last: str) -> None:
        self._session = session
        self._recording = recording
        self._last = last
        self.seen: list[str | None] = []
        self.has_timed_out = threading.Event()
        self.has_gone_on = threading.Event()
        self.is_done = threading.Event()

    def __call__(self, message: Message) -> None:
        self.seen.append(text_of(message))
        if len(self.seen) == 1:
            with (
                answers_held(self._session.connection, self._recording),
                contextlib.suppress(ackwire.RequestTimedOutError),
            ):
                self._session.commit()
            self.has_timed_out.set()
            return
        self.has_gone_on.set()
        self._session.commit()
        if self.seen[-1] == self._last:
            self.is_done.set()


def test_G1_a_listener_gets_nothing_while_a_commit_is_undecided(
    connect: Connect, recording: RecordingProxy, queue: str
) -> None:
    """G1: a message given out then would belong to neither transaction, and be acknowledged by none."""
    send(connect(), queue, *numbered(range(3)))
    connection = connect(failover(recording.port))
    session = connection.session(transacted=True)
    listener = Committing(session, recording, "m2")
    session.consumer(queue).listener = listener
    assert listener.has_timed_out.wait(ARRIVAL_SECONDS)
    assert not listener.has_gone_on.wait(ABSENCE_SECONDS)
    recording.release()
    assert listener.is_done.wait(ARRIVAL_SECONDS)
    assert listener.seen == numbered(range(3))
    connection.close()
    assert drain(connect(), queue) == []


def test_G1_receive_returns_nothing_while_a_commit_is_undecided(
    connect: Connect, recording: RecordingProxy, queue: str
) -> None:
    """G1: the same for receive, which goes on when the commit is decided."""
    send(connect(), queue, *numbered(range(2)))
    connection = connect(failover(recording.port))
    session = connection.session(transacted=True)
    consumer = session.consumer(queue)
    assert text_of(receive(consumer)) == "m0"
    with answers_held(connection, recording):
        with pytest.raises(ackwire.RequestTimedOutError):
            session.commit()
        with contextlib.suppress(ackwire.RequestTimedOutError):
            assert consumer.receive(HASTE_MS / 1000) is None
    recording.release()
    assert text_of(receive(consumer)) == "m1"
    session.rollback()
    connection.close()
    assert texts(drain(connect(), queue)) == ["m1"]


# ---- individual acknowledgement --------------------------------------------------------------------------------


def test_D6_acknowledging_a_session_leaves_out_what_was_rejected(connect: Connect, queue: str) -> None:
    """D6: m2 lies between m1 and m3, and is not acknowledged with them."""
    other = connect()
    send(other, queue, "m1", "m2", "m3")
    connection = connect()
    session = connection.session(AckMode.INDIVIDUAL)
    _, second, _ = receive_all(session.consumer(queue), 3)
    second.reject(ValueError("not now"))
    session.acknowledge()
    connection.close()
    assert texts(drain(other, queue)) == ["m2"]


# ---- distributed -----------------------------------------------------------------------------------------------


@pytest.fixture
def xids(queue: str) -> Iterator[Xid]:
    return (Xid(FORMAT, queue.encode()[-50:], f"branch {number}".encode()) for number in range(10))


def test_G3_J4_what_a_branch_consumed_that_was_lost_with_its_link_comes_again(
    connect: Connect, proxy: CuttableProxy, queue: str, xids: Iterator[Xid]
) -> None:
    """G3, J4: the branch is rolled back, and another one consumes the message."""
    other = connect()
    send(other, queue, "m")
    watched = Watched(connect(failover(proxy.port)))
    session = watched.connection.xa_session()
    consumer = session.consumer(queue)
    lost, xid = next(xids), next(xids)
    session.xa.start(lost)
    assert text_of(receive(consumer)) == "m"
    proxy.cut()
    watched.await_loss()
    with contextlib.suppress(ackwire.XAError):
        session.xa.end(lost)
    proxy.mend()
    with contextlib.suppress(ackwire.XAError):  # the broker may not know it any more
        session.xa.rollback(lost)
    watched.await_return()
    session.xa.start(xid)
    assert text_of(receive(consumer)) == "m"
    session.xa.end(xid)
    assert session.xa.prepare(xid) == session.xa.XA_OK
    session.xa.commit(xid)
    watched.connection.close()
    assert drain(other, queue) == []


def test_G3_a_branch_consumes_what_another_one_gave_back_besides_its_own(
    connect: Connect, broker: Broker, queue: str, xids: Iterator[Xid]
) -> None:
    """G3, H1: m1 to m3 come again after m4 and m5: no acknowledgement may cover them as if they lay between."""
    other = connect()
    send(other, queue, *numbered(range(1, 7)))
    connection = connect(with_redelivery(broker))
    session = connection.xa_session()
    consumer = session.consumer(queue)
    first, second = next(xids), next(xids)
    session.xa.start(first)
    assert texts(receive_all(consumer, 3)) == ["m1", "m2", "m3"]
    session.xa.end(first)
    session.xa.start(second)
    assert texts(receive_all(consumer, 2)) == ["m4", "m5"]
    session.xa.rollback(first)
    again = receive_all(consumer, 3)
    assert (texts(again), flags(again)) == (["m1", "m2", "m3"], [True] * 3)
    session.xa.end(second)
    assert session.xa.prepare(second) == session.xa.XA_OK
    session.xa.commit(second)
    connection.close()
    assert texts(drain(other, queue)) == ["m6"]


def test_G3_what_a_branch_consumed_is_flagged_if_its_consumer_is_closed_before_the_rollback(
    connect: Connect, queue: str, xids: Iterator[Xid]
) -> None:
    """G3, A2: the application has seen m0 and m1, and never m2."""
    other = connect()
    send(other, queue, *numbered(range(3)))
    connection = connect()
    session = connection.xa_session()
    consumer = session.consumer(queue)
    xid = next(xids)
    session.xa.start(xid)
    receive_all(consumer, 2)
    session.xa.end(xid)
    consumer.close()
    session.xa.rollback(xid)
    left = drain(other, queue)
    assert (texts(left), flags(left)) == (numbered(range(3)), [True, True, False])


def test_G3_what_a_branch_consumed_comes_again_if_the_broker_answers_prepare_with_a_rollback(
    xids: Iterator[Xid],
) -> None:
    """G3: XA_RBROLLBACK ends the branch, and nobody will ask for its rollback."""

    def refuses_to_prepare(client: Client, command: object) -> bool:
        if isinstance(command, commands.TransactionInfo) and command.type == commands.TransactionType.PREPARE:
            client.answer(command, Throwable("javax.transaction.xa.XAException", "rolled back xaErrorCode:100"))
            return False
        return True

    url_options = "?jms.redeliveryPolicy.initialRedeliveryDelay=0"
    with FakeBroker(refuses_to_prepare) as broker, ackwire.connect(broker.url + url_options) as connection:
        session = connection.xa_session()
        consumer = session.consumer("orders")
        broker.dispatch(range(1))
        xid = next(xids)
        session.xa.start(xid)
        assert text_of(receive(consumer)) == "0"
        session.xa.end(xid)
        with pytest.raises(ackwire.XAError) as refusal:
            session.xa.prepare(xid)
        assert refusal.value.code == 100
        again = receive(consumer)
        assert (text_of(again), again.redelivered) == ("0", True)

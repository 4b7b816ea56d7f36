"""Distributed transactions, with the test as their manager (G3)."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

import ackwire
from ackwire import Connection, Consumer, Xid
from ackwire.client.sync.xa import XAResource, XASession
from tests.client.brokers import Broker
from tests.client.conftest import Connect
from tests.client.steps import (
    assert_nothing_comes,
    counts,
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
from tests.conformance.proxy import CuttableProxy
from tests.helpers.processes import RestartableBroker

XAER_NOTA = -4
XAER_INVAL = -5
XAER_PROTO = -6
XAER_RMFAIL = -7
FORMAT = 0x41636B77

_numbers = itertools.count(1)


def fresh() -> Xid:
    return Xid(FORMAT, f"python.{next(_numbers)}".encode(), b"branch")


def prepared(session: XASession, queue: str, body: str = "m") -> Xid:
    """A transaction with one send to *queue*, prepared."""
    xid = fresh()
    session.xa.start(xid)
    session.send(queue, body)
    session.xa.end(xid)
    assert session.xa.prepare(xid) == XAResource.XA_OK
    return xid


def consumed(session: XASession, consumer: Consumer, count: int) -> Xid:
    """A transaction that has consumed *count* messages, ended."""
    xid = fresh()
    session.xa.start(xid)
    receive_all(consumer, count)
    session.xa.end(xid)
    return xid


# ---- the two phases --------------------------------------------------------------------------------------------


def test_G3_two_phases_make_sends_visible_at_commit(connect: Connect, queue: str) -> None:
    """G3: nothing is seen after end and prepare."""
    consumer = connect().session().consumer(queue)
    session = connect().xa_session()
    xid = prepared(session, queue)
    assert_nothing_comes(consumer)
    session.xa.commit(xid)
    assert text_of(receive(consumer)) == "m"
    assert xid not in session.xa.recover()


def test_G3_one_phase_commit_needs_no_prepare(connection: Connection, queue: str) -> None:
    """G3."""
    session = connection.xa_session()
    xid = fresh()
    session.xa.start(xid)
    for text in numbered(range(3)):
        session.send(queue, text)
    session.xa.end(xid)
    assert drain(connection, queue) == []
    session.xa.commit(xid, one_phase=True)
    assert texts(drain(connection, queue)) == numbered(range(3))


def test_G3_what_was_received_is_gone_after_commit(connection: Connection, queue: str) -> None:
    """G3: acks in an XA transaction; messages move from one queue to another."""
    send(connection, queue, *numbered(range(3)))
    with connection.xa_session() as session:
        xid = fresh()
        consumer = session.consumer(queue)
        session.xa.start(xid)
        in_branch = session.transacted
        for message in receive_all(consumer, 2):
            session.send(f"{queue}.out", f"moved {text_of(message)}")
        session.xa.end(xid)
        assert (in_branch, session.transacted) == (True, False)
        assert session.xa.prepare(xid) == XAResource.XA_OK
        session.xa.commit(xid)
    assert texts(drain(connection, queue)) == ["m2"]
    assert texts(drain(connection, f"{queue}.out")) == ["moved m0", "moved m1"]


def test_G3_a_branch_consumes_where_acks_are_kept_back(broker: Broker, connect: Connect, queue: str) -> None:
    """G3, D2: with optimizeAcknowledge the branch has its own messages, and no more."""
    connection = connect(broker.url_with(jms__optimizeAcknowledge=True))
    send(connection, queue, *numbered(range(5)))
    with connection.xa_session() as session:
        consumer = session.consumer(queue)
        receive_all(consumer, 1)
        xid = consumed(session, consumer, 2)
        session.xa.rollback(xid)
        assert texts(receive_all(consumer, 1)) == ["m1"]
        session.xa.commit(consumed(session, consumer, 2), one_phase=True)
    assert texts(drain(connection, queue)) == ["m4"]


@pytest.mark.parametrize("after", ["start", "end", "prepare"])
def test_G3_rollback_undoes_sends_and_redelivers_what_was_received(
    broker: Broker, connect: Connect, queue: str, after: str
) -> None:
    """G3, F1: flagged, in order, to the same consumer; a branch that was not ended is ended by it."""
    connection = connect(with_redelivery(broker))
    send(connection, queue, *numbered(range(3)))
    with connection.xa_session() as session:
        xid, next_xid = fresh(), fresh()
        consumer = session.consumer(queue)
        session.xa.start(xid)
        receive_all(consumer, 2)
        session.send(f"{queue}.out", "never")
        if after != "start":
            session.xa.end(xid)
        if after == "prepare":
            assert session.xa.prepare(xid) == XAResource.XA_OK
        session.xa.rollback(xid)
        session.xa.start(next_xid)
        received = receive_all(consumer, 3)
        assert (texts(received), counts(received)) == (numbered(range(3)), [2, 2, 1])
        session.xa.end(next_xid)
        session.xa.commit(next_xid, one_phase=True)
    assert drain(connection, queue) == []
    assert drain(connection, f"{queue}.out") == []


def test_G3_a_transaction_without_work_votes_read_only_and_is_over(connection: Connection) -> None:
    """G3: nothing is left to recover or commit."""
    session = connection.xa_session()
    xid = fresh()
    session.xa.start(xid)
    session.xa.end(xid)
    assert session.xa.prepare(xid) == XAResource.XA_RDONLY
    assert xid not in session.xa.recover()
    with pytest.raises(ackwire.XAError) as refused:
        session.xa.commit(xid)
    assert refused.value.code == XAER_NOTA


def test_G3_forget_ends_a_prepared_transaction(connection: Connection, queue: str) -> None:
    """G3: as if it had not been."""
    session = connection.xa_session()
    xid = prepared(session, queue)
    session.xa.forget(xid)
    assert xid not in session.xa.recover()
    assert drain(connection, queue) == []


def test_G3_transactions_alternate_on_one_session(connection: Connection, queue: str) -> None:
    """G3: ended transactions are decided in any order."""
    session = connection.xa_session()
    xids = [prepared(session, queue, text) for text in numbered(range(6))]
    for number in (5, 0, 3):
        session.xa.commit(xids[number])
    for number in (1, 2, 4):
        session.xa.rollback(xids[number])
    assert sorted(texts(drain(connection, queue)), key=str) == ["m0", "m3", "m5"]


# ---- around a branch -------------------------------------------------------------------------------------------


def test_G3_work_between_end_and_commit_does_not_belong_to_the_branch(
    broker: Broker, connect: Connect, queue: str
) -> None:
    """G3: it is visible, and acknowledged, at once, and a rollback of the branch leaves it alone."""
    connection = connect(with_redelivery(broker))
    send(connection, queue, *numbered(range(3)))
    with connection.xa_session() as session:
        consumer = session.consumer(queue)
        xid = consumed(session, consumer, 1)
        assert text_of(receive(consumer)) == "m1"
        session.send(f"{queue}.out", "at once")
        assert texts(drain(connection, f"{queue}.out")) == ["at once"]
        session.xa.rollback(xid)
        assert text_of(receive(consumer)) == "m0"
        assert text_of(receive(consumer)) == "m2"
    assert drain(connection, queue) == []


def test_G3_an_xa_session_outside_a_branch_works_in_auto_mode(connection: Connection, queue: str) -> None:
    """G3, D1: and local commits are its manager's business."""
    with connection.xa_session() as session:
        session.send(queue, "m")
        assert text_of(receive(session.consumer(queue))) == "m"
        for verb in (session.commit, session.rollback):
            with pytest.raises(ackwire.TransactionInProgressError):
                verb()
    assert drain(connection, queue) == []


def test_G3_the_mode_outside_a_branch_can_be_set(broker: Broker, connect: Connect, queue: str) -> None:
    """G3, D3: jms.xaAckMode=2 is CLIENT."""
    connection = connect(broker.url_with(jms__xaAckMode=2))
    send(connection, queue, "m")
    with connection.xa_session() as session:
        assert session.ack_mode is ackwire.AckMode.CLIENT
        receive(session.consumer(queue))
    assert flags(drain(connection, queue)) == [True]


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "rollback"])
def test_G3_a_consumer_closed_in_the_branch_keeps_what_it_consumed_until_the_decision(
    connect: Connect, queue: str, committed: bool
) -> None:
    """G3: nobody else gets it before."""
    connection = connect()
    other = connect().session().consumer(queue)
    session = connection.xa_session()
    consumer = session.consumer(f"{queue}?consumer.priority=10")
    send(connection, queue, *numbered(range(2)))
    xid = fresh()
    session.xa.start(xid)
    receive_all(consumer, 2)
    consumer.close()
    session.xa.end(xid)
    assert_nothing_comes(other)
    assert session.xa.prepare(xid) == XAResource.XA_OK
    assert_nothing_comes(other)
    if committed:
        session.xa.commit(xid)
    else:
        session.xa.rollback(xid)
        received = receive_all(other, 2)
        assert (texts(received), flags(received)) == (numbered(range(2)), [True, True])
    assert_nothing_comes(other)


def test_G3_a_branch_may_be_suspended_and_resumed(connection: Connection, queue: str) -> None:
    """G3: TMSUSPEND, TMRESUME; what is done meanwhile belongs to nobody."""
    session = connection.xa_session()
    xid = fresh()
    session.xa.start(xid)
    session.send(queue, "first")
    session.xa.end(xid, XAResource.TMSUSPEND)
    session.send(queue, "between")
    assert texts(drain(connection, queue)) == ["between"]
    session.xa.start(xid, XAResource.TMRESUME)
    session.send(queue, "second")
    session.xa.end(xid)
    session.xa.commit(xid, one_phase=True)
    assert texts(drain(connection, queue)) == ["first", "second"]


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "rollback"])
def test_G3_two_sessions_join_in_one_branch(broker: Broker, connect: Connect, queue: str, committed: bool) -> None:
    """G3: TMJOIN; what both did ends with one decision, and what the second had consumed comes again to it."""
    connection = connect(with_redelivery(broker))
    first, second = connection.xa_session(), connection.xa_session()
    assert first.xa.is_same_rm(second.xa)
    assert not first.xa.is_same_rm(connect().xa_session().xa)
    send(connection, queue, "consumed")
    consumer = second.consumer(queue)
    xid = fresh()
    first.xa.start(xid)
    second.xa.start(xid, XAResource.TMJOIN)
    first.send(f"{queue}.out", "sent")
    receive(consumer)
    first.xa.end(xid)
    second.xa.end(xid)
    if committed:
        first.xa.commit(xid, one_phase=True)
        assert_nothing_comes(consumer)
    else:
        first.xa.rollback(xid)
        assert receive(consumer).delivery_count == 2
    second.close()
    assert drain(connection, queue) == []
    assert texts(drain(connection, f"{queue}.out")) == (["sent"] if committed else [])


# ---- recovery --------------------------------------------------------------------------------------------------


def test_G3_recover_lists_what_is_prepared_and_nothing_else(connect: Connect, queue: str) -> None:
    """G3: any connection sees it and may decide it; a transaction that was only ended is not listed."""
    session = connect().xa_session()
    first, second = prepared(session, queue, "first"), prepared(session, queue, "second")
    unprepared = fresh()
    session.xa.start(unprepared)
    session.send(queue, "third")
    session.xa.end(unprepared)
    other = connect().xa_session()
    mine = {first, second, unprepared}
    assert mine & set(other.xa.recover()) == {first, second}
    other.xa.commit(second)
    assert mine & set(other.xa.recover()) == {first}
    session.xa.rollback(first)
    assert mine & set(other.xa.recover()) == set()
    session.xa.rollback(unprepared)
    assert texts(drain(connect(), queue)) == ["second"]


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "rollback"])
@pytest.mark.parametrize("ending", ["closed", "cut"])
def test_G3_a_prepared_transaction_survives_its_connection(
    proxy: CuttableProxy, connect: Connect, queue: str, ending: str, committed: bool
) -> None:
    """G3: a later client finds it and decides; what it had consumed waits until then."""
    doomed = connect(f"tcp://127.0.0.1:{proxy.port}")
    doomed.on_error = lambda _: None
    send(doomed, queue, *numbered(range(2)))
    session = doomed.xa_session()
    xid = fresh()
    consumer = session.consumer(f"{queue}?consumer.prefetchSize=1")
    session.xa.start(xid)
    receive(consumer)
    session.send(f"{queue}.out", "out")
    session.xa.end(xid)
    session.xa.prepare(xid)
    if ending == "closed":
        doomed.close()
    else:
        proxy.cut()
    connection = connect()
    assert text_of(receive(connection.session().consumer(queue))) == "m1"
    recovering = connection.xa_session()
    assert xid in recovering.xa.recover()
    if committed:
        recovering.xa.commit(xid)
    else:
        recovering.xa.rollback(xid)
    assert xid not in recovering.xa.recover()
    connection.close()
    looking = connect()
    assert texts(drain(looking, queue)) == ([] if committed else ["m0"])
    assert texts(drain(looking, f"{queue}.out")) == (["out"] if committed else [])


def test_G3_what_was_not_prepared_goes_with_its_connection(connect: Connect, queue: str) -> None:
    """G3: rolled back, and nothing to recover."""
    connection = connect()
    session = connection.xa_session()
    xid = fresh()
    session.xa.start(xid)
    session.send(queue, "m")
    session.xa.end(xid)
    connection.close()
    other = connect()
    assert xid not in other.xa_session().xa.recover()
    assert drain(other, queue) == []


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("committed", [True, False], ids=["commit", "rollback"])
def test_G3_a_prepared_transaction_survives_a_restart_of_the_broker(
    tmp_path: Path, kill: bool, committed: bool
) -> None:
    """G3, K1: ours, on its journal."""
    with RestartableBroker(tmp_path) as broker:
        with ackwire.connect(broker.url) as connection:
            send(connection, "orders", "m0")
            session = connection.xa_session()
            consumer = session.consumer("orders")
            xid, unprepared = fresh(), fresh()
            session.xa.start(xid)
            receive(consumer)
            session.send("orders.out", "out")
            session.xa.end(xid)
            session.xa.prepare(xid)
            session.xa.start(unprepared)
            session.send("orders.out", "never")
            session.xa.end(unprepared)
            if kill:
                broker.restart(kill=True)
        if not kill:
            broker.restart(kill=False)
        with ackwire.connect(broker.url) as connection:
            session = connection.xa_session()
            assert session.xa.recover() == [xid]
            assert drain(connection, "orders") == []
            if committed:
                session.xa.commit(xid)
            else:
                session.xa.rollback(xid)
            assert session.xa.recover() == []
            assert texts(drain(connection, "orders")) == ([] if committed else ["m0"])
            assert texts(drain(connection, "orders.out")) == (["out"] if committed else [])


# ---- errors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", [XAResource.commit, XAResource.rollback, XAResource.forget])
def test_G3_an_unknown_transaction_is_refused_with_xaer_nota(
    connection: Connection, verb: Callable[[XAResource, Xid], None]
) -> None:
    """G3: the code reaches the transaction manager."""
    with pytest.raises(ackwire.XAError) as refused:
        verb(connection.xa_session().xa, fresh())
    assert refused.value.code == XAER_NOTA


def test_G3_preparing_an_unknown_transaction_is_a_failure_of_the_resource(connection: Connection) -> None:
    """G3: as with ActiveMQ's client."""
    with pytest.raises(ackwire.XAError, match="had not been started or previously returned XA_RDONLY") as refused:
        connection.xa_session().xa.prepare(fresh())
    assert refused.value.code == XAER_RMFAIL


def test_G3_a_second_decision_never_applies(connection: Connection, queue: str) -> None:
    """G3: XAER_NOTA, and one message."""
    session = connection.xa_session()
    xid = prepared(session, queue)
    session.xa.commit(xid)
    for verb in (session.xa.commit, session.xa.rollback):
        with pytest.raises(ackwire.XAError) as refused:
            verb(xid)
        assert refused.value.code == XAER_NOTA
    assert texts(drain(connection, queue)) == ["m"]


def test_G3_two_phase_commit_without_prepare_is_refused(connection: Connection, queue: str) -> None:
    """G3: and the branch can still be rolled back."""
    session = connection.xa_session()
    xid = fresh()
    session.xa.start(xid)
    session.send(queue, "m")
    session.xa.end(xid)
    with pytest.raises(ackwire.XAError) as refused:
        session.xa.commit(xid)
    assert refused.value.code == XAER_PROTO
    session.xa.rollback(xid)
    assert drain(connection, queue) == []


def test_G3_a_refused_commit_gives_out_nothing_again_before_the_rollback(
    broker: Broker, connect: Connect, queue: str
) -> None:
    """G3: the branch is still there, and what it consumed belongs to it."""
    connection = connect(with_redelivery(broker))
    send(connection, queue, "m")
    session = connection.xa_session()
    consumer = session.consumer(queue)
    xid = consumed(session, consumer, 1)
    with pytest.raises(ackwire.XAError):
        session.xa.commit(xid)
    assert_nothing_comes(consumer)
    session.xa.rollback(xid)
    assert receive(consumer).delivery_count == 2


def test_G3_calls_in_the_wrong_order_are_protocol_errors(connection: Connection) -> None:
    """G3: one branch at a time in a session; only its own can be ended; prepare comes after end."""
    session = connection.xa_session()
    xid = fresh()

    def refused(call: Callable[[], object]) -> int:
        with pytest.raises(ackwire.XAError) as info:
            call()
        return info.value.code

    assert refused(lambda: session.xa.end(xid)) == XAER_PROTO
    session.xa.start(xid)
    assert refused(lambda: session.xa.start(fresh())) == XAER_PROTO
    assert refused(lambda: session.xa.end(fresh())) == XAER_PROTO
    assert refused(lambda: session.xa.prepare(xid)) == XAER_PROTO
    assert refused(lambda: session.xa.commit(xid, one_phase=True)) == XAER_PROTO
    assert refused(lambda: session.xa.end(xid, 12345)) == XAER_INVAL
    session.xa.end(xid)
    assert refused(lambda: session.xa.start(fresh(), 12345)) == XAER_INVAL
    session.xa.rollback(xid)


def test_G3_the_parts_of_an_xid_have_their_limits() -> None:
    """G3: 64 bytes each, as XA says."""
    Xid(1, b"g" * 64, b"b" * 64)
    for parts in ((b"", b"b"), (b"g" * 65, b"b"), (b"g", b"b" * 65)):
        with pytest.raises(ackwire.IllegalArgumentError, match="64"):
            Xid(1, *parts)

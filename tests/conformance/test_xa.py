"""Distributed transactions through `ActiveMQXAConnectionFactory` (G3)."""

from collections.abc import Callable

import pytest

from tests.conformance.jms import Jms, bodies, redelivered, text, texts
from tests.conformance.scenarios import drain, left_behind, numbered, with_redelivery
from tests.conformance.xa import (
    JOIN,
    VOTE_OK,
    VOTE_READ_ONLY,
    XAER_NOTA,
    XAER_PROTO,
    XAER_RMFAIL,
    XaSession,
    Xid,
    xa_connect,
)
from tests.helpers.java import JavaError


def prepared(session: XaSession, queue: str, *, body: str = "m") -> Xid:
    """A transaction with one send to *queue*, prepared."""
    xid = Xid.fresh(queue)
    session.xa_start(xid)
    session.producer(queue).send(text(body))
    session.xa_end(xid)
    assert session.xa_prepare(xid) == VOTE_OK
    return xid


def test_G3_two_phases_make_sends_visible_at_commit(jms: Jms, tcp: str, queue: str) -> None:
    """G3: nothing is seen after end and prepare."""
    consumer = jms.connect(tcp).session().consumer(queue)
    session = xa_connect(jms, tcp).xa_session()
    xid = prepared(session, queue)
    consumer.assert_nothing_comes()
    session.xa_commit(xid)
    assert consumer.receive_one().body == "m"
    assert session.xa_recover() == []


def test_G3_one_phase_commit_needs_no_prepare(jms: Jms, tcp: str, queue: str) -> None:
    """G3: commit with onePhase."""
    session = xa_connect(jms, tcp).xa_session()
    xid = Xid.fresh(queue)
    session.xa_start(xid)
    session.producer(queue).send(*texts(3))
    session.xa_end(xid)
    session.xa_commit(xid, one_phase=True)
    assert bodies(drain(jms, tcp, queue)) == numbered(range(3))


def test_G3_what_was_received_is_gone_after_commit(jms: Jms, tcp: str, queue: str) -> None:
    """G3: acks in an XA transaction; a message moves from one queue to another."""
    jms.send(tcp, queue, *texts(3))
    with xa_connect(jms, tcp) as connection:
        session = connection.xa_session()
        xid = Xid.fresh(queue)
        consumer = session.consumer(queue)
        session.xa_start(xid)
        for message in consumer.receive_expected(2):
            session.producer(f"{queue}.out").send(text(f"moved {message.body}"))
        session.xa_end(xid)
        assert session.xa_prepare(xid) == VOTE_OK
        session.xa_commit(xid)
    assert bodies(drain(jms, tcp, queue)) == ["m2"]
    assert bodies(drain(jms, tcp, f"{queue}.out")) == ["moved m0", "moved m1"]


@pytest.mark.parametrize("after_prepare", [False, True], ids=["before-prepare", "after-prepare"])
def test_G3_rollback_undoes_sends_and_redelivers_what_was_received(
    jms: Jms, tcp: str, queue: str, after_prepare: bool
) -> None:
    """G3, F1: flagged, in order, to the same consumer."""
    jms.send(tcp, queue, *texts(3))
    session = xa_connect(jms, with_redelivery(tcp)).xa_session()
    xid, next_xid = Xid.fresh(queue), Xid.fresh(queue)
    consumer = session.consumer(queue)
    session.xa_start(xid)
    consumer.receive_expected(2)
    session.producer(f"{queue}.out").send(text("never"))
    session.xa_end(xid)
    if after_prepare:
        assert session.xa_prepare(xid) == VOTE_OK
    session.xa_rollback(xid)
    session.xa_start(next_xid)
    received = consumer.receive_expected(3)
    assert bodies(received) == numbered(range(3))
    assert redelivered(received) == [True, True, False]
    session.xa_end(next_xid)
    session.xa_commit(next_xid, one_phase=True)
    assert left_behind(jms, tcp, queue) == []
    assert left_behind(jms, tcp, f"{queue}.out") == []


def test_G3_a_transaction_without_work_votes_read_only(jms: Jms, tcp: str, queue: str) -> None:
    """G3: XA_RDONLY, and it is over: nothing is left to recover or commit."""
    session = xa_connect(jms, tcp).xa_session()
    xid = Xid.fresh(queue)
    session.xa_start(xid)
    session.xa_end(xid)
    assert session.xa_prepare(xid) == VOTE_READ_ONLY
    assert xid not in session.xa_recover()


def test_G3_recover_lists_what_is_prepared_and_nothing_else(jms: Jms, tcp: str, queue: str) -> None:
    """G3: any connection sees it; a transaction that was only ended is not listed."""
    session = xa_connect(jms, tcp).xa_session()
    first, second = prepared(session, queue, body="first"), prepared(session, queue, body="second")
    unprepared = Xid.fresh(queue)
    session.xa_start(unprepared)
    session.producer(queue).send(text("third"))
    session.xa_end(unprepared)
    other = xa_connect(jms, tcp).xa_session()
    assert sorted(other.xa_recover()) == sorted([first, second])
    session.xa_commit(second)
    assert other.xa_recover() == [first]
    session.xa_rollback(first)
    assert other.xa_recover() == []
    session.xa_rollback(unprepared)
    assert bodies(drain(jms, tcp, queue)) == ["second"]


def test_G3_recover_ends_its_scan(jms: Jms, tcp: str, queue: str) -> None:
    """G3: with TMNOFLAGS, in the middle of a scan, there is nothing more to list."""
    session = xa_connect(jms, tcp).xa_session()
    xid = prepared(session, queue)
    assert session.xa_recover() == [xid]
    assert session.xa_recover(flags=0) == []
    session.xa_rollback(xid)


@pytest.mark.parametrize("decision", ["commit", "rollback"])
def test_G3_a_prepared_transaction_survives_its_client(
    jms: Jms, doomed_jms: Jms, tcp: str, queue: str, decision: str
) -> None:
    """G3: the client is killed after prepare; a later one finds the transaction and decides."""
    jms.send(tcp, queue, *texts(2))
    session = xa_connect(doomed_jms, tcp).xa_session()
    xid = Xid.fresh(queue)
    session.xa_start(xid)
    session.consumer(f"{queue}?consumer.prefetchSize=1").receive_one()
    session.producer(f"{queue}.out").send(text("out"))
    session.xa_end(xid)
    session.xa_prepare(xid)
    doomed_jms.kill()
    with jms.connect(tcp) as connection:
        assert connection.session().consumer(queue).receive_one().body == "m1"
    recovering = xa_connect(jms, tcp).xa_session()
    assert recovering.xa_recover() == [xid]
    if decision == "commit":
        recovering.xa_commit(xid)
    else:
        recovering.xa_rollback(xid)
    assert recovering.xa_recover() == []
    left = drain(jms, tcp, queue)
    assert bodies(left) == ([] if decision == "commit" else ["m0"])
    assert bodies(drain(jms, tcp, f"{queue}.out")) == (["out"] if decision == "commit" else [])


@pytest.mark.parametrize("prepare_first", [False, True], ids=["ended", "prepared"])
def test_G3_closing_the_connection_keeps_only_what_is_prepared(
    jms: Jms, tcp: str, queue: str, prepare_first: bool
) -> None:
    """G3: not prepared means rolled back with the connection."""
    with xa_connect(jms, tcp) as connection:
        session = connection.xa_session()
        xid = Xid.fresh(queue)
        session.xa_start(xid)
        session.producer(queue).send(text("m"))
        session.xa_end(xid)
        if prepare_first:
            session.xa_prepare(xid)
    recovering = xa_connect(jms, tcp).xa_session()
    assert recovering.xa_recover() == ([xid] if prepare_first else [])
    if prepare_first:
        recovering.xa_commit(xid)
    assert bodies(drain(jms, tcp, queue)) == (["m"] if prepare_first else [])


def test_G3_a_client_killed_before_prepare_leaves_nothing(jms: Jms, doomed_jms: Jms, tcp: str, queue: str) -> None:
    """G3: rolled back with the connection."""
    jms.send(tcp, queue, text("m"))
    session = xa_connect(doomed_jms, tcp).xa_session()
    xid = Xid.fresh(queue)
    session.xa_start(xid)
    session.consumer(queue).receive_one()
    session.producer(f"{queue}.out").send(text("never"))
    session.xa_end(xid)
    doomed_jms.kill()
    received = jms.connect(tcp).session().consumer(queue).receive_one()
    assert (received.body, received.redelivered) == ("m", True)
    assert xa_connect(jms, tcp).xa_session().xa_recover() == []
    assert drain(jms, tcp, f"{queue}.out") == []


def test_G3_another_connection_may_decide_while_the_first_lives(jms: Jms, tcp: str, queue: str) -> None:
    """G3: prepared here, committed there; the late commit of the first one is refused with XAER_NOTA."""
    session = xa_connect(jms, tcp).xa_session()
    xid = prepared(session, queue)
    xa_connect(jms, tcp).xa_session().xa_commit(xid)
    with pytest.raises(JavaError) as refused:
        session.xa_commit(xid)
    assert refused.value.code == XAER_NOTA
    assert bodies(drain(jms, tcp, queue)) == ["m"]


@pytest.mark.parametrize("verb", [XaSession.xa_commit, XaSession.xa_rollback, XaSession.xa_forget])
def test_G3_an_unknown_transaction_is_refused_with_xaer_nota(
    jms: Jms, tcp: str, queue: str, verb: Callable[[XaSession, Xid], None]
) -> None:
    """G3: the code reaches the transaction manager."""
    session = xa_connect(jms, tcp).xa_session()
    with pytest.raises(JavaError) as refused:
        verb(session, Xid.fresh(queue))
    assert refused.value.class_name == "javax.transaction.xa.XAException"
    assert refused.value.code == XAER_NOTA


def test_G3_preparing_an_unknown_transaction_is_refused_with_xaer_rmfail(jms: Jms, tcp: str, queue: str) -> None:
    """G3: ActiveMQ answers with a JMSException here, which the client takes for a failure of the broker."""
    with pytest.raises(JavaError) as refused:
        xa_connect(jms, tcp).xa_session().xa_prepare(Xid.fresh(queue))
    assert refused.value.code == XAER_RMFAIL
    assert "had not been started or previously returned XA_RDONLY" in refused.value.message


def test_G3_a_second_commit_never_applies_twice(jms: Jms, tcp: str, queue: str) -> None:
    """G3: XAER_NOTA, and one message."""
    session = xa_connect(jms, tcp).xa_session()
    xid = prepared(session, queue)
    session.xa_commit(xid)
    for verb in (session.xa_commit, session.xa_rollback):
        with pytest.raises(JavaError) as refused:
            verb(xid)
        assert refused.value.code == XAER_NOTA
    assert bodies(drain(jms, tcp, queue)) == ["m"]


def test_G3_a_prepared_transaction_may_be_committed_with_the_one_phase_flag(jms: Jms, tcp: str, queue: str) -> None:
    """G3: ActiveMQ does not mind."""
    session = xa_connect(jms, tcp).xa_session()
    xid = prepared(session, queue)
    session.xa_commit(xid, one_phase=True)
    assert session.xa_recover() == []
    assert bodies(drain(jms, tcp, queue)) == ["m"]


def test_G3_two_phase_commit_without_prepare_is_refused(jms: Jms, tcp: str, queue: str) -> None:
    """G3."""
    session = xa_connect(jms, tcp).xa_session()
    xid = Xid.fresh(queue)
    session.xa_start(xid)
    session.producer(queue).send(text("m"))
    session.xa_end(xid)
    with pytest.raises(JavaError) as refused:
        session.xa_commit(xid)
    assert refused.value.code == XAER_PROTO
    session.xa_rollback(xid)
    assert drain(jms, tcp, queue) == []


def test_G3_forget_ends_a_prepared_transaction(jms: Jms, tcp: str, queue: str) -> None:
    """G3."""
    session = xa_connect(jms, tcp).xa_session()
    xid = prepared(session, queue)
    session.xa_forget(xid)
    assert session.xa_recover() == []
    assert drain(jms, tcp, queue) == []


def test_G3_two_sessions_of_one_broker_join_in_one_transaction(jms: Jms, tcp: str, queue: str) -> None:
    """G3: TMJOIN; what both sent appears with one commit."""
    connection = xa_connect(jms, tcp)
    first, second = connection.xa_session(), connection.xa_session()
    assert first.is_same_resource(second)
    xid = Xid.fresh(queue)
    first.xa_start(xid)
    second.xa_start(xid, JOIN)
    first.producer(queue).send(text("first"))
    second.producer(queue).send(text("second"))
    first.xa_end(xid)
    second.xa_end(xid)
    first.xa_commit(xid, one_phase=True)
    assert sorted(bodies(drain(jms, tcp, queue))) == ["first", "second"]


def test_G3_resources_of_one_broker_are_the_same_and_start_needs_the_last_one_ended(
    jms: Jms, tcp: str, queue: str
) -> None:
    """G3: a second start on the same session is a protocol error."""
    session = xa_connect(jms, tcp).xa_session()
    assert session.is_same_resource(xa_connect(jms, tcp).xa_session())
    xid = Xid.fresh(queue)
    session.xa_start(xid)
    with pytest.raises(JavaError) as refused:
        session.xa_start(Xid.fresh(queue))
    assert refused.value.code == XAER_PROTO
    session.xa_end(xid)
    session.xa_rollback(xid)


def test_G3_transactions_alternate_on_one_session(jms: Jms, tcp: str, queue: str) -> None:
    """G3: ended transactions are decided in any order."""
    session = xa_connect(jms, tcp).xa_session()
    xids = [prepared(session, queue, body=f"m{number}") for number in range(6)]
    for number in (5, 0, 3):
        session.xa_commit(xids[number])
    for number in (1, 2, 4):
        session.xa_rollback(xids[number])
    assert sorted(bodies(drain(jms, tcp, queue))) == ["m0", "m3", "m5"]

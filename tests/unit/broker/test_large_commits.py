"""Transactions with more sends or acks than fit a slice are prepared and committed in slices (SEMANTICS G, H1)."""

import heapq
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from ackwire.broker.in_flight import AckKind
from ackwire.broker.staging import SET_ASIDE
from ackwire.broker.transactions import XA_OK, TransactionError
from ackwire.errors import BrokerError, StoreFailed
from ackwire.jms.message import Message
from ackwire.store.contract import Place
from ackwire.util.clock import ManualClock
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.editor import OpenWireEditor
from tests.helpers.broker_rig import BrokerRig, RigClient, contents, named, text_of
from tests.helpers.journal import JournalFactory
from tests.helpers.paging_store import HandStore, PagingStore
from tests.helpers.stores import Crash
from tests.simulation.audit import audit

UNITS = 4
SENDS = 10


@pytest.fixture(params=["memory", "paging"])
def rig(request: pytest.FixtureRequest) -> BrokerRig:
    """A broker with small slices."""
    return BrokerRig(store=_paging_store() if request.param == "paging" else None, slice_units=UNITS)


def _paging_store() -> PagingStore:
    return PagingStore(OpenWireEditor("ID:store", "store", ManualClock()).restored)


class Commit:
    """A commit that a client has asked for, and what it was answered."""

    def __init__(self, rig: BrokerRig, client: RigClient, transaction: commands.TransactionId, **how: bool) -> None:
        self.answers = 0
        self.errors: list[BrokerError] = []
        how.setdefault("one_phase", True)
        self.goes_on = rig.broker.transaction_manager.commit(
            client.connection, transaction, self._done, self.errors.append, **how
        )

    def _done(self) -> None:
        self.answers += 1


def _send_many(
    client: RigClient, where: str = "queue://q", count: int = SENDS, number: int = 1, **options: Any
) -> commands.TransactionId:
    transaction = client.begin(number)
    for n in range(count):
        client.send(where, f"{n}", transaction=transaction, **options)
    return transaction


def _turns(rig: BrokerRig, most: int = 1000) -> Iterator[int]:
    """Turns until all slices are done."""
    for number in range(most):
        if not len(rig.broker.slices) and not len(rig.broker.transaction_manager.large):
            return
        yield number
        rig.broker.slices._work()


def _finish(rig: BrokerRig) -> int:
    """How many turns it took."""
    return sum(1 for _ in _turns(rig))


def _texts(rig: BrokerRig, where: str = "queue://q") -> list[str | None]:
    queue = rig.broker.registry.needed_queue(named(where))
    return [text_of(it) for it in contents(queue)]


NUMBERS = [f"{n}" for n in range(SENDS)]


def test_G1_large_commit_takes_several_turns_and_is_answered_when_all_is_visible(rig: BrokerRig) -> None:
    client = rig.connect()
    commit = Commit(rig, client, _send_many(client))
    assert (commit.goes_on, commit.answers, _texts(rig)) == (True, 0, [])
    for _ in _turns(rig):
        assert not commit.answers
    assert _finish(rig) == 0
    assert (commit.answers, commit.errors, _texts(rig)) == (1, [], NUMBERS)
    assert rig.broker.flow.uncommitted_bytes == 0
    assert list(rig.store.state_records()) == []
    assert list(rig.store.waiting(SET_ASIDE)) == []
    audit(rig.broker, rig.store)


@pytest.mark.parametrize(
    ("persistent", "count", "goes_on"), [(False, 200, False), (False, 201, True), (True, 201, False)]
)
def test_commit_of_what_the_store_does_not_keep_gives_way_to_clients_that_wait(
    persistent: bool, count: int, goes_on: bool
) -> None:
    rig = BrokerRig(store=_paging_store())
    client = rig.connect()
    transaction = _send_many(client, count=count, persistent=persistent)
    commit = Commit(rig, client, transaction)
    assert commit.goes_on is goes_on
    _finish(rig)
    assert (commit.answers, commit.errors) == (1, [])
    assert _texts(rig) == [f"{n}" for n in range(count)]


def test_commit_of_what_the_store_does_not_keep_takes_two_turns_while_nobody_waits() -> None:
    rig = BrokerRig(store=_paging_store())
    client = rig.connect()
    Commit(rig, client, _send_many(client, count=300, persistent=False))
    assert _finish(rig) == 2, "one to check and decide, and one to route"


def test_commit_that_fits_a_slice_is_done_at_once(rig: BrokerRig) -> None:
    client = rig.connect()
    commit = Commit(rig, client, _send_many(client, count=UNITS))
    assert (commit.goes_on, commit.answers, len(_texts(rig))) == (False, 1, UNITS)


def test_G1_another_client_sees_nothing_before_the_decision_and_then_messages_in_their_order(rig: BrokerRig) -> None:
    client, consumer = rig.connect(), rig.consumer("queue://q")
    seen = []
    Commit(rig, client, _send_many(client))
    for _ in _turns(rig):
        seen.append(len(consumer.texts))
        assert consumer.texts == NUMBERS[: len(consumer.texts)]
    assert seen[0] == 0
    assert consumer.texts == NUMBERS
    assert len(set(seen)) > 2, "they come some in each turn"


def test_messages_of_another_client_pass_while_a_commit_is_under_way(rig: BrokerRig) -> None:
    client, other, consumer = rig.connect(), rig.connect(), rig.consumer("queue://q")
    Commit(rig, client, _send_many(client))
    for number in _turns(rig):
        other.send("queue://q", f"other {number}")
        assert consumer.texts[-1] == f"other {number}", "it does not wait for the commit"
    assert [it for it in consumer.texts if it in NUMBERS] == NUMBERS
    audit(rig.broker, rig.store)


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("where", ["queue://a,queue://b", "topic://VirtualTopic.x", "topic://t"])
def test_G1_large_commit_reaches_every_kind_of_destination(rig: BrokerRig, where: str, persistent: bool) -> None:
    consumers = [rig.consumer(it) for it in ("queue://a", "queue://Consumer.c.VirtualTopic.x", "topic://t")]
    client = rig.connect()
    commit = Commit(rig, client, _send_many(client, where, persistent=persistent))
    _finish(rig)
    reached = [it for it in consumers if it.texts]
    assert [it.texts for it in reached] == [NUMBERS]
    assert commit.answers == 1


def test_scheduled_messages_of_a_large_commit_are_scheduled(rig: BrokerRig) -> None:
    client, consumer = rig.connect(), rig.consumer("queue://q")
    Commit(rig, client, _send_many(client, properties={"AMQ_SCHEDULED_DELAY": 1000}))
    _finish(rig)
    assert consumer.texts == []
    rig.clock.advance(2)
    assert sorted(it or "" for it in consumer.texts) == NUMBERS


def test_G1_acks_of_a_large_commit_happen_with_it(rig: BrokerRig) -> None:
    client = rig.connect()
    consumer = client.consumer("queue://in")
    received = client.send("queue://in")
    transaction = _send_many(client)
    consumer.ack(received, transaction=transaction)
    Commit(rig, client, transaction)
    _finish(rig)
    assert list(rig.store.waiting(named("queue://in"))) == []
    audit(rig.broker, rig.store)


def test_H1_no_local_subscriber_does_not_hear_its_own_large_commit(rig: BrokerRig) -> None:
    client = rig.connect()
    local = client.consumer("topic://t", no_local=True)
    Commit(rig, client, _send_many(client, "topic://t"))
    _finish(rig)
    assert local.texts == []


def test_G1_what_cannot_be_routed_rolls_a_large_commit_back(rig: BrokerRig) -> None:
    client, consumer = rig.connect(), rig.consumer("queue://q")
    transaction = _send_many(client)
    gone = rig.connect()
    temporary = gone.temporary_queue()
    client.send(temporary, "last", transaction=transaction)
    gone.disconnect()
    commit = Commit(rig, client, transaction)
    _finish(rig)
    assert (commit.answers, [type(it) for it in commit.errors]) == (0, [TransactionError])
    assert "rolled back" in str(commit.errors[0])
    assert (consumer.texts, rig.broker.flow.used_bytes) == ([], 0)


def test_client_that_goes_before_the_decision_takes_its_transaction_with_it(rig: BrokerRig) -> None:
    client, consumer = rig.connect(), rig.consumer("queue://q")
    commit = Commit(rig, client, _send_many(client))
    rig.broker.slices._work()
    client.disconnect()
    _finish(rig)
    rig.clock.advance(1)
    assert (consumer.texts, commit.answers) == ([], 0)
    assert rig.broker.flow.used_bytes == 0
    assert list(rig.store.state_records()) == []
    assert list(rig.store.waiting(SET_ASIDE)) == []


def test_client_that_goes_after_the_decision_leaves_its_commit_to_be_carried_out(rig: BrokerRig) -> None:
    client, consumer = rig.connect(), rig.consumer("queue://q")
    Commit(rig, client, _send_many(client))
    for _ in _turns(rig):
        if consumer.texts and client.connection.is_open:
            client.disconnect()
    assert consumer.texts == NUMBERS
    audit(rig.broker, rig.store)


def test_J4_commit_that_is_repeated_while_it_is_under_way_is_carried_out_once_and_answered_at_its_end(
    rig: BrokerRig,
) -> None:
    client, consumer = rig.connect("one"), rig.consumer("queue://q")
    transaction = _send_many(client)
    Commit(rig, client, transaction)
    again = None
    for _ in _turns(rig):
        if consumer.texts and again is None:
            client.disconnect()
            back = rig.connect("one", is_reconnect=True)
            _send_many(back)
            again = Commit(rig, back, transaction)
        if again is not None and len(consumer.texts) < SENDS:
            assert not again.answers
    assert again is not None
    assert (again.answers, consumer.texts) == (1, NUMBERS)


@pytest.mark.parametrize("is_xa", [False, True])
def test_H1_J4_commit_that_is_repeated_after_a_start_is_answered_when_all_of_it_is_visible(is_xa: bool) -> None:
    """The store may take long to give back what was set aside; what the client sends next must not overtake that."""
    store = HandStore(OpenWireEditor("ID:store", "store", ManualClock()).restored)
    rig = BrokerRig(store=store, slice_units=UNITS)
    client = rig.connect("one")
    transaction = _xa(rig, client) if is_xa else _send_many(client)
    Commit(rig, client, transaction)
    turns = _turns(rig)
    while not _texts(rig):
        next(turns)
    again = rig.restarted()
    back = again.connect("one", is_reconnect=True)
    if not is_xa:
        _send_many(back)
    repeated, joining = Commit(again, back, transaction), Commit(again, back, transaction)
    assert repeated.goes_on
    again.clock.advance(0.001)
    while store.asked:
        assert (repeated.answers, joining.answers) == (0, 0)
        store.answer()
        again.clock.advance(0.001)
    assert (repeated.answers, joining.answers, repeated.errors) == (1, 1, [])
    assert _texts(again) == NUMBERS
    audit(again.broker, again.store)


def test_nothing_else_can_be_done_in_a_transaction_that_is_being_committed(rig: BrokerRig) -> None:
    client, other = rig.connect(), rig.connect()
    transaction = commands.XATransactionId(1, b"x", b"b")
    rig.broker.transaction_manager.begin(client.connection, transaction, is_xa=True)
    for n in range(SENDS):
        client.send("queue://q", f"{n}", transaction=transaction)
    commit = Commit(rig, client, transaction)
    with pytest.raises(TransactionError):
        rig.broker.transaction_manager.roll_back(other.connection, transaction)
    with pytest.raises(TransactionError):
        rig.broker.transaction_manager.forget(other.connection, transaction)
    with pytest.raises(TransactionError):
        rig.broker.transaction_manager.prepare(other.connection, transaction, lambda _: None)
    with pytest.raises(TransactionError):
        other.send("queue://q", "late", transaction=transaction)
    assert rig.broker.transaction_manager.prepared(other.connection) == []
    _finish(rig)
    assert (commit.answers, _texts(rig)) == (1, NUMBERS)


def _xa(rig: BrokerRig, client: RigClient) -> commands.TransactionId:
    transaction = commands.XATransactionId(1, b"x", b"b")
    rig.broker.transaction_manager.begin(client.connection, transaction, is_xa=True)
    for n in range(SENDS):
        client.send("queue://q", f"{n}", transaction=transaction)
    return transaction


def test_G3_large_transaction_is_prepared_in_slices_and_commits_after_a_restart(rig: BrokerRig) -> None:
    if not rig.store.pages:
        pytest.skip("the memory store ends with its process")
    client = rig.connect()
    transaction = _xa(rig, client)
    results: list[int] = []
    assert rig.broker.transaction_manager.prepare(client.connection, transaction, results.append)
    assert results == []
    _finish(rig)
    assert (results, _texts(rig)) == ([XA_OK], [])
    again = rig.restarted()
    client = again.connect()
    assert again.broker.transaction_manager.prepared(client.connection) == [transaction]
    audit(again.broker, again.store)
    commit = Commit(again, client, transaction, one_phase=False)
    _finish(again)
    assert (commit.answers, _texts(again)) == (1, NUMBERS)
    assert (list(again.store.state_records()), list(again.store.prepared())) == ([], [])


def test_G3_prepared_transaction_that_is_large_no_more_after_a_restart_leaves_nothing_set_aside() -> None:
    """G3: the non-persistent send that made it large is gone with the process."""
    rig = BrokerRig(store=_paging_store(), slice_units=UNITS)
    client = rig.connect()
    transaction = commands.XATransactionId(1, b"x", b"b")
    rig.broker.transaction_manager.begin(client.connection, transaction, is_xa=True)
    for n in range(UNITS):
        client.send("queue://q", f"{n}", transaction=transaction)
    client.send("queue://q", "gone", persistent=False, transaction=transaction)
    rig.broker.transaction_manager.prepare(client.connection, transaction, lambda _: None)
    _finish(rig)
    again = rig.restarted()
    commit = Commit(again, again.connect(), transaction, one_phase=False)
    _finish(again)
    assert (commit.answers, _texts(again)) == (1, NUMBERS[:UNITS])
    assert (list(again.store.state_records()), list(again.store.waiting(SET_ASIDE))) == ([], [])
    audit(again.broker, again.store)


def test_G3_large_prepared_transaction_that_is_rolled_back_leaves_nothing(rig: BrokerRig) -> None:
    client = rig.connect()
    transaction = _xa(rig, client)
    rig.broker.transaction_manager.prepare(client.connection, transaction, lambda _: None)
    _finish(rig)
    rig.broker.transaction_manager.roll_back(client.connection, transaction)
    _finish(rig)
    assert (list(rig.store.state_records()), list(rig.store.prepared())) == ([], [])
    assert list(rig.store.waiting(SET_ASIDE)) == []
    assert rig.broker.flow.used_bytes == 0


class FailingStore(PagingStore):
    """Fails from a given write on."""

    def __init__(self, appends: int) -> None:
        super().__init__(OpenWireEditor("ID:store", "store", ManualClock()).restored)
        self.appends_left = appends

    def append(self, message: Message, places: Sequence[Place]) -> None:
        self.appends_left -= 1
        if self.appends_left < 0:
            raise StoreFailed("the disk is broken")
        super().append(message, places)


@pytest.mark.parametrize("appends", [0, SENDS // 2, SENDS, SENDS + SENDS // 2])
def test_K7_store_that_fails_in_the_middle_of_a_large_commit_is_not_answered_for(appends: int) -> None:
    rig = BrokerRig(store=FailingStore(appends), is_audited=False, slice_units=UNITS)
    client = rig.connect()
    commit = Commit(rig, client, _send_many(client))
    _finish(rig)
    assert (commit.answers, [type(it) for it in commit.errors]) == (0, [StoreFailed])


def test_K7_transaction_that_the_store_failed_ends_with_its_client() -> None:
    rig = BrokerRig(store=FailingStore(2), is_audited=False, slice_units=UNITS)
    client = rig.connect()
    Commit(rig, client, _send_many(client))
    _finish(rig)
    client.disconnect()
    assert list(rig.broker.transaction_manager.transactions) == []


def _on_journal(factory: JournalFactory) -> BrokerRig:
    store: Any = factory.open()
    return BrokerRig(clock=factory.clock, store=store, is_audited=False, slice_units=UNITS)


def _step(factory: JournalFactory) -> None:
    """The next thing that the loop or the store's thread does."""
    timers = factory.clock._timers
    if timers and timers[0][0] <= factory.clock._elapsed:
        timer = heapq.heappop(timers)[2]
        if not timer.cancelled:
            timer.callback()
    elif not factory.writing.is_idle:
        factory.writing.step()
    else:
        factory.clock.advance(0.001)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("crash", list(Crash))
@pytest.mark.parametrize("where", ["queue://q", "topic://VirtualTopic.x,queue://q"])
def test_G2_crash_between_any_two_steps_of_a_large_commit_leaves_all_or_nothing(
    where: str, crash: Crash, seed: int
) -> None:
    outcomes = set()
    texts_sent = [f"{n} {'x' * 700}" for n in range(SENDS)]  # longer than a sector: one may be there without the next
    for steps in range(200):
        factory = JournalFactory(seed=4 * steps + seed)
        rig = _on_journal(factory)
        rig.consumer("queue://Consumer.c.VirtualTopic.x", prefetch=0).client.disconnect()
        client = rig.connect()
        received, consumer = client.send("queue://in"), client.consumer("queue://in")
        transaction = client.begin()
        for text in texts_sent:
            client.send(where, text, transaction=transaction)
        consumer.ack(received, transaction=transaction)
        factory.settle()
        commit = Commit(rig, client, transaction)
        for _ in range(steps):
            _step(factory)
        answered = commit.answers
        factory.stop(crash)
        again = _on_journal(factory)
        factory.settle()
        texts = _texts(again)
        assert texts in ([], texts_sent), f"after {steps} steps"
        assert len(_texts(again, "queue://in")) == (not texts), f"after {steps} steps"
        if "VirtualTopic" in where:
            assert _texts(again, "queue://Consumer.c.VirtualTopic.x") == texts
        assert texts or not answered
        assert list(again.store.state_records()) == []
        assert list(again.store.waiting(SET_ASIDE)) == []
        outcomes.add((bool(texts), bool(answered)))
        factory.close()
        if answered:
            break
    assert outcomes == {(False, False), (True, False), (True, True)}


# ---- many acks -------------------------------------------------------------------------------------------------


def _ack_many(
    rig: BrokerRig,
    client: RigClient,
    where: str = "queue://in",
    *,
    singly: bool = False,
    count: int = SENDS,
    **options: Any,
) -> commands.TransactionId:
    """A transaction in which *client* has acknowledged *count* messages, in one ack or one for each."""
    consumer = client.consumer(where)
    sent = [rig.connect().send(where, f"{n}", **options) for n in range(count)]
    transaction = client.begin()
    if singly:
        for message in sent:
            consumer.ack(message, transaction=transaction)
    else:
        consumer.ack(sent[-1], first=sent[0], count=count, transaction=transaction)
    return transaction


@pytest.mark.parametrize("singly", [True, False])
@pytest.mark.parametrize("persistent", [True, False])
def test_G1_commit_of_many_acks_takes_several_turns_and_is_answered_at_its_end(
    rig: BrokerRig, singly: bool, persistent: bool
) -> None:
    client = rig.connect()
    transaction = _ack_many(rig, client, singly=singly, persistent=persistent)
    queue = rig.broker.registry.needed_queue(named("queue://in"))
    commit = Commit(rig, client, transaction)
    sizes = [queue.size_bytes for _ in _turns(rig) if not commit.answers]
    assert commit.goes_on
    assert len(set(sizes)) >= SENDS // UNITS, "some go in each turn"
    assert (commit.answers, commit.errors, queue.size_bytes, queue.contents.dequeued) == (1, [], 0, SENDS)
    assert rig.broker.flow.used_bytes == 0
    assert list(rig.store.waiting(named("queue://in"))) == []
    assert list(rig.store.state_records()) == []
    assert list(rig.broker.transaction_manager.transactions) == []
    audit(rig.broker, rig.store)


def test_commit_of_acks_that_fit_a_slice_is_done_at_once(rig: BrokerRig) -> None:
    client = rig.connect()
    commit = Commit(rig, client, _ack_many(rig, client, count=UNITS))
    assert (commit.goes_on, commit.answers) == (False, 1)


def test_books_add_up_in_every_turn_of_a_commit_of_many_acks(rig: BrokerRig) -> None:
    client = rig.connect()
    Commit(rig, client, _ack_many(rig, client, singly=True))
    turns = 0
    for turns, _ in enumerate(_turns(rig), 1):  # noqa: B007 - how many there were
        audit(rig.broker, rig.store)
    assert turns > SENDS // UNITS


def test_client_that_goes_before_many_acks_are_decided_leaves_its_messages_to_others(rig: BrokerRig) -> None:
    client = rig.connect()
    transaction = _ack_many(rig, client)
    Commit(rig, client, transaction)
    client.disconnect()
    _finish(rig)
    rig.clock.advance(1)
    assert _texts(rig, "queue://in") == NUMBERS
    audit(rig.broker, rig.store)


def test_client_that_goes_after_many_acks_are_decided_has_consumed_them_all(rig: BrokerRig) -> None:
    client = rig.connect()
    queue = rig.broker.registry.needed_queue(named("queue://in"))
    Commit(rig, client, _ack_many(rig, client, singly=True))
    for _ in _turns(rig):
        if queue.contents.dequeued and client.connection.is_open:
            assert queue.contents.dequeued < SENDS
            client.disconnect()
    assert not client.connection.is_open
    assert (_texts(rig, "queue://in"), queue.contents.dequeued) == ([], SENDS)
    audit(rig.broker, rig.store)


def test_J4_repeated_commit_of_many_acks_joins_the_one_that_is_under_way(rig: BrokerRig) -> None:
    client = rig.connect("one")
    queue = rig.broker.registry.needed_queue(named("queue://in"))
    transaction = _ack_many(rig, client, singly=True)
    Commit(rig, client, transaction)
    again = None
    for _ in _turns(rig):
        if queue.contents.dequeued and again is None:
            client.disconnect()
            back = rig.connect("one", is_reconnect=True)
            back.begin()
            back.send("queue://q", "a repetition", transaction=transaction)
            again = Commit(rig, back, transaction)
    assert again is not None
    assert (again.answers, queue.contents.dequeued, _texts(rig)) == (1, SENDS, [])


def test_queue_that_is_deleted_while_many_acks_are_carried_out_is_gone(rig: BrokerRig) -> None:
    client = rig.connect()
    queue = rig.broker.registry.needed_queue(named("queue://in"))
    commit = Commit(rig, client, _ack_many(rig, client, singly=True))
    for _ in _turns(rig):
        if queue.contents.dequeued and client.connection.is_open:
            client.disconnect()
            rig.broker.registry.remove(named("queue://in"), None)
    assert commit.answers == 1
    assert rig.broker.flow.used_bytes == 0
    assert list(rig.store.waiting(named("queue://in"))) == []
    assert list(rig.store.state_records()) == []
    audit(rig.broker, rig.store)


def test_G3_prepared_transaction_with_many_acks_commits_after_a_restart(rig: BrokerRig) -> None:
    if not rig.store.pages:
        pytest.skip("the memory store ends with its process")
    client = rig.connect()
    consumer = client.consumer("queue://in")
    transaction = commands.XATransactionId(1, b"x", b"b")
    rig.broker.transaction_manager.begin(client.connection, transaction, is_xa=True)
    for n in range(SENDS):
        consumer.ack(client.send("queue://in", f"{n}"), transaction=transaction)
    rig.broker.transaction_manager.prepare(client.connection, transaction, lambda _: None)
    _finish(rig)
    again = rig.restarted()
    commit = Commit(again, again.connect(), transaction, one_phase=False)
    assert commit.goes_on
    _finish(again)
    assert (commit.answers, _texts(again, "queue://in")) == (1, [])
    assert (list(again.store.state_records()), list(again.store.prepared())) == ([], [])
    audit(again.broker, again.store)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("crash", list(Crash))
@pytest.mark.parametrize("sends", [0, 1, SENDS])
def test_G2_crash_between_any_two_steps_of_a_commit_of_many_acks_leaves_all_or_nothing(
    sends: int, crash: Crash, seed: int
) -> None:
    """Of queues and durable subscriptions; messages between those that are acknowledged stay."""
    outcomes, partly = set(), 0
    for steps in range(300):
        factory = JournalFactory(seed=4 * steps + seed)
        rig = _on_journal(factory)
        client = rig.connect("one", client_id="one")
        consumers = [client.consumer("queue://in"), client.consumer("topic://t", subscription_name="s")]
        acked = []
        for n in range(2 * SENDS):
            for consumer, where in zip(consumers, ("queue://in", "topic://t"), strict=True):
                message = client.send(where, f"{n}")
                if n % 2:
                    acked.append((consumer, message))
        transaction = client.begin()
        for consumer, message in acked:
            consumer.ack(message, kind=AckKind.INDIVIDUAL, transaction=transaction)
        for n in range(sends):
            client.send("queue://q", f"{n} {'x' * 700}", transaction=transaction)
        factory.settle()
        commit = Commit(rig, client, transaction)
        for _ in range(steps):
            _step(factory)
        answered, removed = commit.answers, rig.broker.registry.needed_queue(named("queue://in")).contents.dequeued
        factory.stop(crash)
        again = _on_journal(factory)
        factory.settle()
        left = _texts(again, "queue://in")
        durable = [text_of(it) for it in contents(next(iter(again.broker.registry.durables.values())).queue)]
        everything, rest = [f"{n}" for n in range(2 * SENDS)], [f"{n}" for n in range(0, 2 * SENDS, 2)]
        assert left in (everything, rest), f"after {steps} steps"
        assert durable == left
        is_done = left == rest
        assert len(_texts(again)) == (sends if is_done else 0)
        assert is_done or not (answered or removed)
        assert list(again.store.state_records()) == []
        partly += is_done and 0 < removed < SENDS
        outcomes.add((is_done, bool(answered)))
        factory.close()
        if answered:
            break
    assert outcomes == {(False, False), (True, False), (True, True)}
    assert partly, "crashes between two slices of removals"


@pytest.mark.parametrize("removals", [0, SENDS // 2])
def test_K7_store_that_fails_while_many_acks_are_carried_out_is_not_answered_for(removals: int) -> None:
    store = FailingRemovals(removals)
    rig = BrokerRig(store=store, is_audited=False, slice_units=UNITS)
    client = rig.connect()
    commit = Commit(rig, client, _ack_many(rig, client, singly=True))
    _finish(rig)
    assert (commit.answers, [type(it) for it in commit.errors]) == (0, [StoreFailed])
    client.disconnect()
    assert list(rig.broker.transaction_manager.transactions) == []


class FailingRemovals(PagingStore):
    """Fails from a given removal on."""

    def __init__(self, removals: int) -> None:
        super().__init__(OpenWireEditor("ID:store", "store", ManualClock()).restored)
        self.removals_left = removals

    def remove(self, place: Place, message: Message) -> None:
        self.removals_left -= 1
        if self.removals_left < 0:
            raise StoreFailed("the disk is broken")
        super().remove(place, message)

"""Cursors: numbers that stay, ranges that can be read again, and nothing that is lost or given to two (ADR 6)."""

import pytest

from ackwire.broker.cursors import Row
from ackwire.broker.permissions import BROKER
from ackwire.config.policy import DestinationPolicy
from ackwire.errors import (
    BrokerError,
    Conflict,
    InvalidClientId,
    InvalidDestination,
    RangeGone,
    ResourceLimit,
    UnknownResource,
)
from tests.helpers.broker_rig import BrokerRig, named, paging_rig
from tests.helpers.bulk import Reader, raise_it
from tests.helpers.operating import purged

Q = "queue://q"


def _paging(memory_bytes_max: int = 1 << 30) -> BrokerRig:
    return paging_rig(memory_bytes_max, temp_bytes_max=1 << 30)[0]


@pytest.fixture(params=["memory", "paging", "little memory"])
def rig(request: pytest.FixtureRequest) -> BrokerRig:
    if request.param == "memory":
        return BrokerRig()
    return _paging() if request.param == "paging" else _paging(4096)


def _fill(rig: BrokerRig, count: int = 5, where: str = Q, **options: object) -> None:
    producer = rig.connect()
    for number in range(1, count + 1):
        producer.send(where, str(number), **options)


def _restarted(rig: BrokerRig) -> BrokerRig:
    return BrokerRig(clock=rig.clock, store=rig.store)


# ---- reading ---------------------------------------------------------------------------------------------------


def test_messages_are_numbered_from_one_in_their_order(rig: BrokerRig) -> None:
    _fill(rig)
    reader = Reader(rig)
    assert reader.latest() == 5
    assert reader.texts(0, 5) == ["1", "2", "3", "4", "5"]


def test_range_can_be_read_again_and_in_parts(rig: BrokerRig) -> None:
    _fill(rig)
    reader = Reader(rig)
    reader.latest()
    for _ in range(3):
        assert reader.texts(0, 2) + reader.texts(2, 5) == ["1", "2", "3", "4", "5"]


def test_latest_is_bounded_by_its_limit_and_the_same_when_it_is_asked_again(rig: BrokerRig) -> None:
    _fill(rig)
    reader = Reader(rig)
    assert [reader.latest(0, 2), reader.latest(0, 2), reader.latest(2, 2), reader.latest(4, 2)] == [2, 2, 4, 5]
    assert reader.latest(5, 2) == 5


def test_many_messages_are_assigned_in_turns(rig: BrokerRig) -> None:
    _fill(rig, 5000)
    reader = Reader(rig)
    assert reader.latest(0, 4500) == 4500
    assert reader.texts(4498, 4500) == ["4499", "4500"]


def test_A2_what_a_cursor_has_nobody_else_gets(rig: BrokerRig) -> None:
    _fill(rig)
    Reader(rig).latest(0, 3)
    assert rig.consumer(Q).texts == ["4", "5"]


def test_A2_what_a_consumer_has_the_cursor_does_not_get(rig: BrokerRig) -> None:
    _fill(rig)
    consumer = rig.consumer(Q, prefetch=2)
    reader = Reader(rig)
    assert reader.read() == ["3", "4", "5"]
    consumer.close()
    assert reader.read() == ["3", "4", "5", "1", "2"]  # in the order in which it was given them


def test_two_cursors_share_a_queue_and_get_each_message_once(rig: BrokerRig) -> None:
    _fill(rig, 6)
    one, two = Reader(rig, "one"), Reader(rig, "two")
    assert one.read(2) == ["1", "2"]
    assert two.read(2) == ["3", "4"]
    assert one.read(3) == ["1", "2", "5"]


def test_A5_cursor_with_a_selector_gets_what_matches_at_any_depth(rig: BrokerRig) -> None:
    producer = rig.connect()
    for number in range(3000):
        producer.send(Q, str(number), properties={"n": number})
    reader = Reader(rig, selector="n >= 2998")
    assert reader.read() == ["2998", "2999"]
    assert rig.pending(Q) == 2998


def test_B6_what_a_cursor_with_a_selector_has_passed_over_leaves_memory_again() -> None:
    rig = _paging(memory_bytes_max=20_000)
    _fill(rig, 1000)
    rig.broker.cursors.open("c", named(Q), "JMSPriority = 9")
    answers: list[int] = []
    rig.broker.cursors.latest("c", 0, 5, answers.append, raise_it)
    while not answers:
        rig.clock.advance(0.001)
    assert answers == [0]
    assert rig.broker.flow.used_bytes <= 20_000


def test_A6_expired_message_is_not_given_to_a_cursor(rig: BrokerRig) -> None:
    producer = rig.connect()
    producer.send(Q, "old", expiration=rig.clock.now_ms() + 1000)
    producer.send(Q, "good")
    rig.clock.advance(2)
    assert Reader(rig).read() == ["good"]


def test_priority_decides_the_numbers_where_the_policy_says_so() -> None:
    rig = BrokerRig(policies=(DestinationPolicy(match="queue://>", prioritized=True),))
    producer = rig.connect()
    producer.send(Q, "low", priority=1)
    producer.send(Q, "high", priority=8)
    assert Reader(rig).read() == ["high", "low"]


def test_H3_message_of_a_group_that_a_consumer_owns_is_left_to_it(rig: BrokerRig) -> None:
    producer = rig.connect()
    producer.send(Q, "first", group_id="g")
    rig.consumer(Q, prefetch=1)
    producer.send(Q, "second", group_id="g")
    producer.send(Q, "free")
    assert Reader(rig).read() == ["free"]


def test_row_tells_how_often_it_was_delivered_before(rig: BrokerRig) -> None:
    _fill(rig, 1)
    rig.consumer(Q).close()
    reader = Reader(rig)
    reader.latest()
    [row] = reader.rows(0, 1)
    assert row[2] == 1


def test_range_that_was_never_given_is_refused(rig: BrokerRig) -> None:
    _fill(rig)
    reader = Reader(rig)
    reader.latest(0, 2)
    with pytest.raises(Conflict, match="can be read up to 2"):
        reader.texts(0, 3)


def test_reader_that_is_ahead_of_the_cursor_is_told(rig: BrokerRig) -> None:
    reader = Reader(rig)
    with pytest.raises(Conflict, match="new checkpoint and a new cursor"):
        reader.latest(10)


def test_lost_message_is_an_error_and_never_a_short_range() -> None:
    rig, store, _ = paging_rig(1 << 30)
    _fill(rig)
    reader = Reader(rig)
    reader.latest()
    del store._places[named(Q)][3]
    with pytest.raises(RangeGone, match="messages 3 of cursor c"):
        reader.texts(0, 5)
    assert reader.texts(3, 5) == ["4", "5"]


# ---- committing ------------------------------------------------------------------------------------------------


def test_commit_is_cumulative_and_idempotent(rig: BrokerRig) -> None:
    _fill(rig)
    reader = Reader(rig)
    reader.latest()
    assert [reader.commit(3), reader.commit(3), reader.commit(1)] == [3, 3, 3]
    assert reader.texts(3, 5) == ["4", "5"]


def test_committed_messages_are_gone_from_the_store(rig: BrokerRig) -> None:
    _fill(rig)
    reader = Reader(rig)
    reader.latest()
    reader.commit(3)
    assert len(list(rig.store.waiting(named(Q)))) == 2
    reader.commit(5)
    assert list(rig.store.waiting(named(Q))) == []
    queue = rig.broker.registry.needed_queue(named(Q))
    assert (queue.size_bytes, queue.contents.dequeued, rig.broker.flow.used_bytes) == (0, 5, 0)


def test_range_before_what_was_committed_is_an_error_that_says_what_to_do(rig: BrokerRig) -> None:
    _fill(rig)
    reader = Reader(rig)
    reader.latest()
    reader.commit(3)
    with pytest.raises(RangeGone, match=r"messages 1 to 3 of cursor c .* were committed and are gone"):
        reader.texts(0, 5)


def test_commit_beyond_what_was_given_is_refused(rig: BrokerRig) -> None:
    _fill(rig)
    reader = Reader(rig)
    reader.latest(0, 2)
    with pytest.raises(Conflict, match="3 cannot be committed"):
        reader.commit(3)


def test_large_commit_lets_others_have_their_turn(rig: BrokerRig) -> None:
    _fill(rig, 5000)
    reader = Reader(rig)
    reader.latest(0, 5000)
    answers: list[int] = []
    rig.broker.cursors.commit("c", 5000, answers.append, raise_it)
    assert answers == [5000]
    assert len(list(rig.store.waiting(named(Q)))) == 5000  # they go later, some at a time
    for _ in range(3):
        rig.clock.advance(0)
    assert list(rig.store.waiting(named(Q))) == []


# ---- restarts --------------------------------------------------------------------------------------------------


def test_K1_numbers_survive_a_restart(rig: BrokerRig) -> None:
    _fill(rig)
    reader = Reader(rig)
    reader.latest(0, 3)
    reader.commit(1)
    again = _restarted(rig)
    reader = Reader(again, open=False)
    assert (reader.info.committed, reader.info.assigned) == (1, 3)
    assert reader.texts(1, 3) == ["2", "3"]
    assert again.consumer(Q, prefetch=1).texts == ["4"]
    assert reader.read() == ["2", "3", "5"]


def test_K1_commit_goes_on_after_a_restart(rig: BrokerRig) -> None:
    _fill(rig, 5000)
    reader = Reader(rig)
    reader.latest(0, 5000)
    rig.broker.cursors.commit("c", 4999, lambda _: None, raise_it)
    again = _restarted(rig)
    for _ in range(3):
        again.clock.advance(0)
    assert len(list(again.store.waiting(named(Q)))) == 1
    assert again.consumer(Q).texts == []


def test_non_persistent_message_is_kept_once_a_cursor_has_it(rig: BrokerRig) -> None:
    _fill(rig, 3, persistent=False)
    Reader(rig).latest(0, 2)
    again = _restarted(rig)
    assert Reader(again, open=False).texts(0, 2) == ["1", "2"]
    assert again.pending(Q) == 0


def test_non_persistent_message_that_goes_back_is_in_memory_only(rig: BrokerRig) -> None:
    _fill(rig, 2, persistent=False)
    Reader(rig).latest()
    again = _restarted(rig)
    Reader(again, open=False).close()
    assert list(again.store.waiting(named(Q))) == []
    consumer = again.consumer(Q)
    assert consumer.texts == ["1", "2"]
    consumer.ack_each()
    assert again.broker.flow.used_bytes == 0


# ---- opening and closing ---------------------------------------------------------------------------------------


def test_same_terms_are_the_same_cursor(rig: BrokerRig) -> None:
    _fill(rig)
    Reader(rig, selector="n = 1").latest()
    assert rig.broker.cursors.open("c", named(Q), "n = 1").selector == "n = 1"
    with pytest.raises(Conflict, match="close it first, or choose another name"):
        rig.broker.cursors.open("c", named(Q), None)
    with pytest.raises(Conflict):
        rig.broker.cursors.open("c", named("queue://other"), "n = 1")


@pytest.mark.parametrize("where", ["queue://a.>", "queue://a,b", "temp-queue://x"])
def test_cursor_needs_a_single_lasting_destination(rig: BrokerRig, where: str) -> None:
    with pytest.raises(InvalidDestination):
        Reader(rig, where=where)


def test_destination_that_may_not_be_made_must_exist(rig: BrokerRig) -> None:
    with pytest.raises(UnknownResource, match="does not exist"):
        rig.broker.cursors.open("c", named(Q), None, create=False)


def test_unknown_cursor_is_named(rig: BrokerRig) -> None:
    with pytest.raises(UnknownResource, match="cursor c does not exist: open it first"):
        Reader(rig, open=False).latest()


def test_closed_cursor_gives_back_what_it_has_not_committed(rig: BrokerRig) -> None:
    _fill(rig)
    reader = Reader(rig)
    reader.latest(0, 4)
    reader.commit(1)
    reader.close()
    assert rig.consumer(Q).texts == ["2", "3", "4", "5"]
    assert _restarted(rig).broker.cursors.all() == []


def test_bad_selector_makes_no_cursor(rig: BrokerRig) -> None:
    with pytest.raises(BrokerError):
        Reader(rig, selector="n =")
    assert rig.broker.cursors.all() == []
    Reader(rig)


def test_number_of_cursors_is_limited() -> None:
    rig = BrokerRig(settings={"limits": {"cursors_max": 1}})
    Reader(rig)
    with pytest.raises(ResourceLimit, match=r"limits.cursors_max"):
        Reader(rig, "another")


def test_cursor_that_commits_nothing_is_given_no_more_than_its_limit() -> None:
    rig = BrokerRig(settings={"limits": {"cursor_messages_max": 3}})
    _fill(rig)
    reader = Reader(rig)
    assert reader.latest() == 3
    reader.commit(2)
    assert reader.latest(3) == 5


# ---- topics ----------------------------------------------------------------------------------------------------


def test_A3_cursor_of_a_topic_gets_what_is_published_from_its_opening_on(rig: BrokerRig) -> None:
    rig.connect().send("topic://t", "before")
    reader = Reader(rig, where="topic://t")
    _fill(rig, 3, "topic://t")
    assert reader.read() == ["1", "2", "3"]


def test_A3_each_cursor_of_a_topic_gets_every_message_and_keeps_it_over_a_restart(rig: BrokerRig) -> None:
    Reader(rig, "one", "topic://t"), Reader(rig, "two", "topic://t", "n = 1")
    producer = rig.connect()
    producer.send("topic://t", "x", properties={"n": 1})
    producer.send("topic://t", "y", properties={"n": 2})
    again = _restarted(rig)
    assert Reader(again, "one", open=False).read() == ["x", "y"]
    assert Reader(again, "two", open=False).read() == ["x"]
    Reader(again, "one", open=False).commit(2)
    assert Reader(_restarted(again), "two", open=False).texts(0, 1) == ["x"]


def test_closed_cursor_of_a_topic_leaves_nothing(rig: BrokerRig) -> None:
    reader = Reader(rig, where="topic://t")
    _fill(rig, 3, "topic://t")
    reader.latest()
    reader.close()
    assert not rig.broker.registry.durables
    assert all(not list(rig.store.waiting(place)) for place in rig.store.places())


def test_no_client_may_take_over_the_subscriptions_of_cursors(rig: BrokerRig) -> None:
    with pytest.raises(InvalidClientId):
        rig.connect("ackwire.cursor")


# ---- what else happens to the queue ----------------------------------------------------------------------------


def test_purge_leaves_a_cursor_what_it_has(rig: BrokerRig) -> None:
    _fill(rig)
    reader = Reader(rig)
    reader.latest(0, 2)
    assert purged(rig.broker.registry.needed_queue(named(Q))) == 3
    assert Reader(_restarted(rig), open=False).texts(0, 2) == ["1", "2"]


def test_queue_of_a_cursor_cannot_be_removed(rig: BrokerRig) -> None:
    _fill(rig)
    reader = Reader(rig)
    with pytest.raises(BrokerError, match="belong to cursor c"):
        rig.broker.remove_destination(rig.connect().connection, named(Q))
    reader.close()
    rig.broker.remove_destination(rig.connect().connection, named(Q))


def test_paused_queue_gives_nothing(rig: BrokerRig) -> None:
    _fill(rig)
    queue = rig.broker.registry.needed_queue(named(Q))
    reader = Reader(rig)
    queue.dispatcher.pause()
    assert reader.latest() == 0
    queue.dispatcher.unpause()
    assert reader.latest() == 5


def test_look_shows_what_is_there_and_takes_nothing(rig: BrokerRig) -> None:
    _fill(rig, 10)
    rig.consumer(Q, prefetch=2)
    sequences = rig.broker.bulk(BROKER).browse_sequences(named(Q))
    rows = [row for after in (0, sequences[3], sequences[7]) for row in _look(rig, after, 4)[0]]
    assert [row[0] for row in rows] == sequences
    assert rig.pending(Q) == 8
    with pytest.raises(UnknownResource):
        rig.broker.bulk(BROKER).browse_rows(named("queue://none"), 0, 10, 10, lambda *_: None)


def _look(rig: BrokerRig, after: int, limit: int) -> tuple[list[Row], int | None]:
    shown: list[tuple[list[Row], int | None]] = []
    rig.broker.bulk(BROKER).browse_rows(named(Q), after, 1 << 60, limit, lambda *it: shown.append(it))
    [(rows, last)] = shown
    return rows, last


def test_look_goes_on_behind_messages_that_cannot_be_read() -> None:
    rig, store, _ = paging_rig(1)
    _fill(rig, 10)
    sequences = rig.broker.bulk(BROKER).browse_sequences(named(Q))
    for sequence in sequences[:6]:
        del store._places[named(Q)][sequence]
    assert _look(rig, 0, 2) == ([], sequences[1])
    rows, last = _look(rig, sequences[4], 2)
    assert ([row[0] for row in rows], last) == ([sequences[6]], sequences[6])
    assert _look(rig, sequences[-1], 2) == ([], None)

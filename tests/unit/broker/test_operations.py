"""What operators do with destinations and messages."""

import logging

import pytest

from ackwire.broker.in_flight import AckKind
from ackwire.broker.operations import Counting, Selection
from ackwire.broker.permissions import Action, Principal, Proof
from ackwire.broker.queue import Queue
from ackwire.config.policy import DestinationPolicy
from ackwire.errors import BrokerError, InvalidDestination, InvalidSelector, NotAuthorised, NotHere
from ackwire.jms.destinations import Destination, Kind, destination
from tests.helpers.broker_rig import BrokerRig, contents, named, paging_rig, text_of
from tests.helpers.operating import count_in_slices

OPS = Principal("ops", proof=Proof.PASSWORD, source="10.0.0.1")
ALL = destination(Kind.QUEUE, ">")
Q, OTHER, DEAD = named("queue://q"), named("queue://other"), named("queue://ActiveMQ.DLQ")


def queue_of(rig: BrokerRig, where: Destination = Q) -> Queue:
    queue = rig.broker.registry.router.get(where)
    assert isinstance(queue, Queue)
    return queue


def texts(rig: BrokerRig, where: Destination = Q) -> list[str | None]:
    return [text_of(message) for message in contents(queue_of(rig, where))]


def finished(rig: BrokerRig, steps: Counting) -> int:
    """The result of *steps*, taken in slices of the loop."""
    counts: list[int] = []
    errors: list[BrokerError] = []
    count_in_slices(rig.broker.slices, steps, counts.append, errors.append)
    while not counts and not errors:
        rig.clock.advance(0.001)
    if errors:
        raise errors[0]
    return counts[0]


def filled(count: int = 4) -> BrokerRig:
    rig = BrokerRig()
    producer = rig.connect("producer")
    for number in range(count):
        producer.send(Q, f"m{number}", properties={"n": number})
    return rig


# ---- destinations ----------------------------------------------------------------------------------------------


def test_a_list_tells_how_each_queue_stands_by_name() -> None:
    rig = filled()
    rig.connect().produce_for(Q)
    rig.consumer(OTHER)
    rig.broker.answer_questions()
    second, first = rig.broker.operations.list(OPS, ALL)[::-1]
    assert (first.destination, first.consumers, first.waiting) == (OTHER, 1, 0)
    assert (second.destination, second.waiting, second.producers, second.enqueued) == (Q, 4, 1, 4)
    assert second.size_bytes == queue_of(rig).size_bytes
    assert [it.destination for it in rig.broker.operations.list(OPS, destination(Kind.QUEUE, "o*"))] == []
    assert [it.destination for it in rig.broker.operations.list(OPS, destination(Kind.QUEUE, "other"))] == [OTHER]


def test_a_long_list_comes_in_portions() -> None:
    rig = BrokerRig()
    for number in range(25):
        rig.broker.operations.create(OPS, named(f"queue://q{number:02}"))
    names: list[str] = []
    while portion := rig.broker.operations.list(OPS, ALL, names[-1] if names else "", limit=10):
        names += [it.destination.name for it in portion]
    assert names == [f"q{number:02}" for number in range(25)]


def test_a_queue_is_created_once_and_deleted_with_its_messages() -> None:
    rig = BrokerRig()
    assert rig.broker.operations.create(OPS, Q) == 1
    assert rig.broker.operations.create(OPS, Q) == 0
    rig.connect().send(Q)
    assert rig.broker.operations.delete_destination(OPS, Q) == 1
    assert rig.broker.registry.router.get(Q) is None
    with pytest.raises(NotHere, match=r"queue://q does not exist; `ackwire queue list` prints"):
        rig.broker.operations.delete_destination(OPS, Q)


def test_a_queue_in_use_is_not_deleted() -> None:
    rig = filled()
    rig.consumer(Q, selector="n > 100")
    with pytest.raises(BrokerError, match="still has an active subscription"):
        rig.broker.operations.delete_destination(OPS, Q)
    assert rig.pending(Q) == 4


def test_purge_deletes_what_waits_and_says_how_many() -> None:
    rig = filled()
    consumer = rig.consumer(Q, prefetch=1)
    assert finished(rig, rig.broker.operations.purge(OPS, Q)) == 3
    assert consumer.texts == ["m0"]
    assert rig.pending(Q) == 0


# ---- pause -----------------------------------------------------------------------------------------------------


def test_consumers_of_a_paused_queue_get_nothing_and_producers_go_on() -> None:
    rig = filled(1)
    assert rig.broker.operations.pause(OPS, Q) == 1
    assert rig.broker.operations.pause(OPS, Q) == 0
    consumer = rig.consumer(Q)
    producer = rig.connect()
    producer.send(Q, "later")
    assert (consumer.texts, producer.stored) == ([], 1)
    assert rig.broker.operations.resume(OPS, Q) == 1
    assert rig.broker.operations.resume(OPS, Q) == 0
    assert consumer.texts == ["m0", "later"]


def test_a_paused_queue_gives_nothing_that_waits_for_one_consumer_alone() -> None:
    rig = BrokerRig()
    owner = rig.consumer(Q, prefetch=1)
    rig.consumer(Q, prefetch=10)
    producer = rig.connect()
    for number in range(3):
        producer.send(Q, f"g{number}", group_id="g")
    assert owner.texts == ["g0"]
    rig.broker.operations.pause(OPS, Q)
    owner.ack()
    assert owner.texts == ["g0"]
    rig.broker.operations.resume(OPS, Q)
    assert owner.texts == ["g0", "g1"]


def test_a_pause_ends_with_the_broker() -> None:
    rig = filled(1)
    rig.broker.operations.pause(OPS, Q)
    again = rig.restarted()
    assert again.consumer(Q).texts == ["m0"]


# ---- messages --------------------------------------------------------------------------------------------------


def test_messages_are_selected_by_id_and_selector_and_counted_without_a_change() -> None:
    rig = filled()
    ids = tuple(rig.editor.message_id(message) for message in contents(queue_of(rig))[:2])
    operations = rig.broker.operations
    assert finished(rig, operations.count(OPS, Selection(Q))) == 4
    assert finished(rig, operations.count(OPS, Selection(Q, ids))) == 2
    assert finished(rig, operations.count(OPS, Selection(Q, selector="n >= 1"))) == 3
    assert finished(rig, operations.count(OPS, Selection(Q, ids, "n >= 1"))) == 1
    assert texts(rig) == ["m0", "m1", "m2", "m3"]
    with pytest.raises(InvalidSelector):
        finished(rig, operations.count(OPS, Selection(Q, selector="n >")))


def test_move_takes_messages_to_the_end_of_another_queue() -> None:
    rig = filled()
    rig.connect().send(OTHER, "first")
    assert finished(rig, rig.broker.operations.move(OPS, Selection(Q, selector="n > 1"), OTHER)) == 2
    assert (texts(rig), texts(rig, OTHER)) == (["m0", "m1"], ["first", "m2", "m3"])
    assert rig.broker.flow.used_bytes == queue_of(rig).size_bytes + queue_of(rig, OTHER).size_bytes
    again = rig.restarted()
    assert (texts(again), texts(again, OTHER)) == (["m0", "m1"], ["first", "m2", "m3"])


def test_copy_leaves_the_messages_where_they_are() -> None:
    rig = filled(2)
    assert finished(rig, rig.broker.operations.copy(OPS, Selection(Q), OTHER)) == 2
    assert (texts(rig), texts(rig, OTHER)) == (["m0", "m1"], ["m0", "m1"])


def test_copies_stop_when_there_is_no_space_and_say_how_many_there_are() -> None:
    rig = BrokerRig(settings={"limits": {"memory_bytes_max": 2500}})
    producer = rig.connect()
    for _ in range(2):
        producer.send(Q, "x" * 700)
    copies = rig.broker.operations.copy(OPS, Selection(Q), OTHER)
    with pytest.raises(
        BrokerError, match=r"memory is full.*memory_bytes_max.*; 1 message copied to queue://other before"
    ):
        finished(rig, copies)


def test_delete_removes_the_selected_messages_only() -> None:
    rig = filled()
    assert finished(rig, rig.broker.operations.delete(OPS, Selection(Q, selector="n = 1 OR n = 2"))) == 2
    assert texts(rig) == ["m0", "m3"]
    assert texts(rig.restarted()) == ["m0", "m3"]


def test_messages_in_flight_stay_with_their_consumer() -> None:
    rig = filled(3)
    consumer = rig.consumer(Q, prefetch=2)
    assert finished(rig, rig.broker.operations.delete(OPS, Selection(Q))) == 1
    consumer.ack(kind=AckKind.INDIVIDUAL)
    assert consumer.texts == ["m0", "m1"]


def test_messages_that_wait_for_one_consumer_alone_are_moved_too() -> None:
    rig = BrokerRig()
    owner = rig.consumer(Q, prefetch=1)
    rig.consumer(Q, prefetch=10)
    producer = rig.connect()
    for number in range(3):
        producer.send(Q, f"g{number}", group_id="g")
    assert finished(rig, rig.broker.operations.move(OPS, Selection(Q), OTHER)) == 2
    owner.ack()
    assert (owner.texts, texts(rig, OTHER)) == (["g0"], ["g1", "g2"])


def test_messages_that_are_paged_out_are_moved_without_filling_memory() -> None:
    rig, _, _ = paging_rig(20_000)
    producer = rig.connect()
    for number in range(200):
        producer.send(Q, f"m{number}" + "x" * 500)
    used = rig.broker.flow.used_bytes
    assert finished(rig, rig.broker.operations.move(OPS, Selection(Q), OTHER)) == 200
    assert rig.pending(OTHER) == 200
    assert rig.broker.flow.used_bytes <= max(used, 20_000)
    assert queue_of(rig).size_bytes == 0


def test_messages_that_come_meanwhile_are_left_alone() -> None:
    rig = filled(2)
    steps = rig.broker.operations.move(OPS, Selection(Q), OTHER)
    next(steps)
    rig.connect().send(Q, "new")
    assert finished(rig, steps) == 2
    assert texts(rig) == ["new"]


@pytest.mark.parametrize("target", ["queue://q", "queue://a,b", "queue://a.>", "topic://ActiveMQ.Advisory.X"])
def test_a_target_that_is_none_is_refused_before_anything_moves(target: str) -> None:
    rig = filled(1)
    with pytest.raises(BrokerError):
        rig.broker.operations.move(OPS, Selection(Q), named(target))
    assert texts(rig) == ["m0"]


def test_only_queues_have_messages_to_operate_on() -> None:
    rig = BrokerRig()
    rig.consumer("topic://t")
    with pytest.raises(InvalidDestination, match="cannot purge topic://t: it is no queue"):
        rig.broker.operations.purge(OPS, named("topic://t"))


# ---- dead letters ----------------------------------------------------------------------------------------------


def _reject(rig: BrokerRig, where: Destination = Q) -> None:
    consumer = rig.consumer(where, prefetch=1)
    consumer.ack(kind=AckKind.POISON, cause="no use")
    consumer.close()


def test_retry_sends_dead_letters_back_to_where_they_came_from() -> None:
    rig = filled(1)
    _reject(rig)
    assert (rig.pending(Q), rig.pending(DEAD)) == (0, 1)
    assert finished(rig, rig.broker.operations.retry(OPS, Selection(DEAD))) == 1
    consumer = rig.consumer(Q)
    assert consumer.texts == ["m0"]
    assert consumer.properties() == {"n": 0}
    assert consumer.delivered[0].redelivery_counter == 0


def test_F4_a_retried_message_that_fails_again_is_a_dead_letter_again() -> None:
    rig = filled(1)
    _reject(rig)
    for _ in range(2):
        assert finished(rig, rig.broker.operations.retry(OPS, Selection(DEAD))) == 1
        _reject(rig)
        assert (rig.pending(Q), rig.pending(DEAD)) == (0, 1)


def test_F4_a_dead_letter_that_was_moved_and_fails_again_is_a_dead_letter_again() -> None:
    rig = filled(1)
    _reject(rig)
    assert finished(rig, rig.broker.operations.move(OPS, Selection(DEAD), OTHER)) == 1
    _reject(rig, OTHER)
    assert (rig.pending(OTHER), rig.pending(DEAD)) == (0, 1)


def test_a_retried_message_has_its_time_to_live_and_its_delivery_mode_again() -> None:
    policy = DestinationPolicy(dead_letter_non_persistent=True)
    rig = BrokerRig(policies=(policy,))
    expiration = rig.clock.now_ms() + 60_000
    rig.connect().send(Q, "m", persistent=False, expiration=expiration)
    _reject(rig)
    finished(rig, rig.broker.operations.retry(OPS, Selection(DEAD)))
    [message] = contents(queue_of(rig))
    assert (message.persistent, message.expiration) == (False, expiration)


def test_a_message_that_has_expired_lives_on_when_it_is_retried() -> None:
    rig = BrokerRig()
    rig.connect().send(Q, "m", expiration=rig.clock.now_ms() + 1000)
    rig.clock.advance(60)
    assert rig.pending(DEAD) == 1
    finished(rig, rig.broker.operations.retry(OPS, Selection(DEAD)))
    assert [it.expiration for it in contents(queue_of(rig))] == [0]


def test_a_message_that_does_not_say_where_it_came_from_stays() -> None:
    rig = filled(1)
    assert finished(rig, rig.broker.operations.retry(OPS, Selection(Q))) == 0
    assert texts(rig) == ["m0"]


# ---- recall, permission, audit ---------------------------------------------------------------------------------


def test_recall_brings_back_what_consumers_hold_and_ends_their_connections() -> None:
    rig = filled(3)
    holder = rig.consumer(Q, prefetch=2)
    assert rig.broker.operations.recall(OPS, Q) == 2
    assert holder.client.port.closed == "an operator has recalled the messages of queue://q that it held"
    assert [(text_of(m), m.redelivery_counter) for m in contents(queue_of(rig))] == [("m0", 1), ("m1", 1), ("m2", 0)]


def test_each_verb_asks_for_permission_first() -> None:
    rig = filled(1)
    asked: list[tuple[str, Action, Destination | None]] = []

    def rule(principal: Principal, action: Action, where: Destination | None) -> str:
        asked.append((principal.name, action, where))
        return "only alice operates"

    rig.broker.permissions.use(rule)
    operations, selection = rig.broker.operations, Selection(Q)
    for attempt in (
        lambda: operations.list(OPS, ALL),
        lambda: operations.create(OPS, OTHER),
        lambda: operations.delete_destination(OPS, Q),
        lambda: operations.pause(OPS, Q),
        lambda: operations.resume(OPS, Q),
        lambda: operations.recall(OPS, Q),
        lambda: operations.purge(OPS, Q),
        lambda: operations.count(OPS, selection),
        lambda: operations.delete(OPS, selection),
        lambda: operations.move(OPS, selection, OTHER),
        lambda: operations.copy(OPS, selection, OTHER),
        lambda: operations.retry(OPS, selection),
    ):
        with pytest.raises(NotAuthorised, match=r"ops from 10\.0\.0\.1 may not .*: only alice operates"):
            attempt()
    assert len(asked) == 12
    assert texts(rig) == ["m0"]


def test_what_is_done_is_logged_and_audited(caplog: pytest.LogCaptureFixture) -> None:
    rig = filled(3)
    rig.audit.events.clear()
    with caplog.at_level(logging.INFO):
        finished(rig, rig.broker.operations.delete(OPS, Selection(Q, selector="n = 0")))
        finished(rig, rig.broker.operations.move(OPS, Selection(Q, selector="n = 1"), OTHER))
        finished(rig, rig.broker.operations.purge(OPS, Q))
    assert rig.audit.names("queue://q") == ["purged", "purged", "purged"]
    assert rig.audit.names("queue://other") == ["stored"]
    assert "ops from 10.0.0.1: 1 message of queue://q deleted" in caplog.text
    assert "ops from 10.0.0.1: 1 message of queue://q moved to queue://other" in caplog.text
    assert "ops from 10.0.0.1 has purged queue://q of 1 message" in caplog.text


# ---- requests by message ---------------------------------------------------------------------------------------


def asked(rig: BrokerRig, **properties: object) -> list[dict[str, object]]:
    """The answers to a request."""
    client = rig.connect()
    replies = client.temporary_queue()
    consumer = client.consumer(replies)
    client.send("queue://Ackwire.Operations", properties=properties, reply_to=replies, persistent=False)
    rig.clock.advance(0.5)
    return [rig.editor.properties(message) for message in consumer.delivered]  # type: ignore[misc]


def test_a_request_by_message_is_carried_out_and_answered() -> None:
    rig = filled()
    rig.broker.answer_questions()
    [dry] = asked(rig, verb="move", queue="queue://q", to="queue://other", selector="n > 1", dry_run=True)
    assert (dry["outcome"], dry["count"], rig.pending(Q)) == ("done", 2, 4)
    [moved] = asked(rig, verb="move", queue="queue://q", to="queue://other", selector="n > 1")
    assert (moved["outcome"], moved["count"], texts(rig, OTHER)) == ("done", 2, ["m2", "m3"])
    [gone] = asked(rig, verb="purge", queue="queue://nowhere")
    assert (gone["outcome"], "does not exist" in str(gone["answer"])) == ("not here", True)
    [refused] = asked(rig, verb="dance", queue="queue://q")
    assert (refused["outcome"], refused["answer"]) == ("refused", "there is no verb 'dance'")


def test_a_request_acts_for_who_sent_it() -> None:
    rig = filled()
    rig.broker.answer_questions()
    names: list[str] = []

    def rule(principal: Principal, action: Action, _where: Destination | None) -> str | None:
        if action is Action.OPERATE:
            names.append(principal.name)
        return None

    rig.broker.permissions.use(rule)
    client = rig.connect("operator", user="alice")
    replies = client.temporary_queue()
    client.send("queue://Ackwire.Operations", properties={"verb": "pause", "queue": "queue://q"}, reply_to=replies)
    rig.clock.advance(0.5)
    assert (names, queue_of(rig).dispatcher.is_paused) == (["alice"], True)

"""Messages that wait, in order, with gaps (H1); `tests/model/test_pending_model.py` tries everything else."""

from ackwire.broker.pending import NO_LIMIT, PendingList
from ackwire.jms.message import Message
from ackwire.jms.types import Int
from tests.helpers.broker_rig import BrokerRig
from tests.simulation.audit import audit

_TEMPLATE = BrokerRig().connect().message("queue://q")


def _message(sequence: int) -> Message:
    message = _TEMPLATE.copy()
    message.sequence = sequence
    return message


def _filled(count: int) -> tuple[PendingList, list[Message]]:
    pending, messages = PendingList(), [_message(n) for n in range(1, count + 1)]
    for message in messages:
        pending.append(message)
    return pending, messages


def _remove(pending: PendingList, message: Message) -> None:
    position = pending.position_of(message.sequence)
    assert position is not None
    assert pending.take(position) is message


def _sequences(pending: PendingList) -> list[int]:
    return [it.sequence for it in pending.between(0, NO_LIMIT, NO_LIMIT, NO_LIMIT)]


def test_H1_what_comes_back_goes_to_its_place() -> None:
    pending, messages = _filled(5)
    for message in messages[:4]:
        _remove(pending, message)
    pending.put_back([messages[2], messages[0]])
    pending.put_back([messages[1]])
    assert _sequences(pending) == [1, 2, 3, 5]


def test_H1_what_comes_back_to_an_empty_list_stands_before_what_is_new() -> None:
    pending, messages = _filled(2)
    for message in messages:
        _remove(pending, message)
    pending.append(_message(3))
    pending.put_back(messages)
    assert _sequences(pending) == [1, 2, 3]


def test_put_back_names_the_foremost_position_that_changed() -> None:
    pending, messages = _filled(5)
    _remove(pending, messages[3])
    position = pending.put_back([messages[3]])
    found = pending.next_from(position)
    assert found is not None
    assert found[1] is messages[3]


def test_positions_stay_valid_while_the_front_is_consumed_and_given_back() -> None:
    pending, messages = _filled(5000)
    found = pending.next_from(0)
    for _ in range(3000):
        assert found is not None
        pending.take(found[0])
        found = pending.next_from(found[0] + 1)
    assert found is not None
    assert found[1] is messages[3000]
    pending.put_back(messages[:3000])
    assert _sequences(pending) == list(range(1, 5001))


def test_compacting_moves_positions_with_their_messages() -> None:
    pending, messages = _filled(10)
    for message in messages[1:9]:
        _remove(pending, message)
    (moved,) = pending.compact([pending.first_position + 5])
    found = pending.next_from(moved)
    assert found is not None
    assert found[1] is messages[9]


def test_a_message_that_nobody_wants_does_not_make_the_queue_grow_behind_it() -> None:
    """One message at the head that no selector matches: what passes behind it leaves nothing."""
    rig = BrokerRig()
    producer = rig.connect()
    consumer = rig.consumer("queue://q", prefetch=1, selector="n = 1")
    producer.send("queue://q", properties={"n": Int(0)})
    queue = rig.broker.registry.queues()[0]
    for _ in range(5_000):
        producer.send("queue://q", properties={"n": Int(1)})
        consumer.ack()
        consumer.delivered.clear()
    assert len(queue.contents.levels[0]._items) < 2500
    audit(rig.broker, rig.store)

"""An operator acts on a message that has changed since it was read: counters go by what it is now (SEMANTICS B6)."""

from ackwire.broker.in_flight import AckKind
from ackwire.broker.operations import Counting, Selection
from ackwire.broker.permissions import BROKER
from ackwire.broker.redelivery import DELAY_PROPERTY
from ackwire.config.policy import DestinationPolicy
from tests.helpers.broker_rig import named
from tests.helpers.operating import count_in_slices
from tests.helpers.paging_store import FakeSpill
from tests.unit.broker.test_page_in import LateRig, Q

AMPLE_BYTES = 1_000_000
"""A limit that no test here comes near."""
TARGET = "queue://target"


def _begin(late: LateRig, steps: Counting) -> list[int]:
    """Take the first of *steps*, up to the store's answer; how many messages it concerned once it is done."""
    counts: list[int] = []
    count_in_slices(late.broker.slices, steps, counts.append, _raise)
    late.rig.clock.advance(0)
    assert len(late.store.asked) == 1
    return counts


def _send_paged(late: LateRig, text: str) -> None:
    late.broker.flow._tight_above_bytes = 0
    late.producer.send(Q, text)
    late.broker.flow._tight_above_bytes = AMPLE_BYTES


def test_B6_what_is_spilled_while_an_operator_waits_to_delete_it_leaves_the_temp_store() -> None:
    temp = FakeSpill()
    late = LateRig(temp=temp)
    _send_paged(late, "paged")
    late.producer.send(Q, "spilled", persistent=False)
    counts = _begin(late, late.broker.operations.delete(BROKER, Selection(named(Q))))
    late.broker.flow._tight_above_bytes = 0
    late.consumer(selector="JMSPriority = 9")  # looks at everything, and memory is tight
    late.store.asked.rotate(-1)
    late.store.answer()
    assert len(temp.frames) == 1
    late.finish()
    assert counts == [2]
    assert (temp.frames, late.queue().size_bytes, late.broker.flow.used_bytes) == ({}, 0, 0)


def _replaced_meanwhile(late: LateRig, steps: Counting) -> list[int]:
    """While *steps* wait for the store, the broker redelivers a message, with other bytes than before."""
    counts = _begin(late, steps)
    consumer = late.consumer(prefetch=1)
    assert consumer.texts == ["again"]
    consumer.ack(kind=AckKind.POISON)
    consumer.close()
    late.rig.clock.advance(2)
    assert late.queue().view.pending_count == 2
    late.finish()
    return counts


def _redelivering() -> LateRig:
    late = LateRig(DestinationPolicy(match=Q, broker_redelivery=True, redelivery_delay_seconds=1))
    late.broker.flow._tight_above_bytes = AMPLE_BYTES
    late.producer.send(Q, "again")
    _send_paged(late, "paged")
    return late


def test_B6_what_is_redelivered_with_other_bytes_while_an_operator_waits_to_delete_it_is_counted_out() -> None:
    late = _redelivering()
    assert _replaced_meanwhile(late, late.broker.operations.delete(BROKER, Selection(named(Q)))) == [2]
    assert (late.queue().size_bytes, late.broker.flow.used_bytes) == (0, 0)


def test_B6_what_is_redelivered_while_an_operator_waits_to_move_it_moves_as_it_is_now() -> None:
    late = _redelivering()
    assert _replaced_meanwhile(late, late.broker.operations.move(BROKER, Selection(named(Q)), named(TARGET))) == [2]
    assert late.queue().size_bytes == 0
    moved = late.rig.connect().consumer(TARGET)
    late.finish()
    assert moved.texts == ["again", "paged"]
    assert late.broker.editor.lookup(moved.delivered[0])(DELAY_PROPERTY) == 1000


def _raise(error: Exception) -> None:
    raise error

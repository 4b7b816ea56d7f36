"""The sweep for expired messages (SEMANTICS A6)."""

from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers.broker_rig import RigConsumer
from tests.unit.broker.test_page_in import LateRig, Q

BROKEN, OTHER = "queue://broken", "queue://other"


def test_A6_sweeps_go_on_after_one_has_failed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    late = LateRig()
    soon = late.rig.clock.now_ms() + 1000
    late.fill(1, BROKEN, expiration=soon)
    late.fill(1, OTHER, expiration=soon)
    broken, other = late.queue(BROKEN), late.queue(OTHER)
    fetch = late.store.fetch

    def fail(place: object, *asked: object) -> None:
        if place == broken.place:
            raise RuntimeError("not readable now")
        fetch(place, *asked)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(late.store, "fetch", fail)
        late.rig.clock.advance(60)
        late.finish()
    assert "not readable now" in caplog.text
    assert (broken.contents.expired, other.contents.expired) == (0, 1), "other queues are swept"
    late.rig.clock.advance(60)
    late.finish()
    assert broken.contents.expired == 1


class CountingLine(deque[Any]):
    """What waits for one consumer; it counts how many entries were looked at."""

    looks = 0

    def __iter__(self) -> Iterator[Any]:
        self.looks += len(self)
        return super().__iter__()

    def popleft(self) -> Any:
        self.looks += 1
        return super().popleft()


def _group_that_waits(late: LateRig, count: int, expirations: tuple[int, ...]) -> RigConsumer:
    """A consumer that is full, and *count* messages of its group, paged out but for the first ones."""
    owner = late.consumer(prefetch=1)
    late.consumer(prefetch=1)
    late.producer.send(Q, "first", group_id="g")
    for n in range(count):
        if n == count // 4:
            late.broker.flow._tight_above_bytes = 0
        late.producer.send(Q, f"{n}", group_id="g", expiration=expirations[n % len(expirations)])
    return owner


@pytest.mark.parametrize("lasting", [False, True], ids=["all", "every other"])
def test_A6_what_waits_for_one_consumer_is_looked_at_once_by_a_sweep(lasting: bool) -> None:
    late = LateRig()
    late.broker.flow._tight_above_bytes = 10**9
    count = 2000
    soon = late.rig.clock.now_ms() + 1000
    _group_that_waits(late, count, (soon, 0) if lasting else (soon,))
    queue = late.queue()
    (subscription,) = [it for it in queue.consumers if it.waiting_in]
    line = CountingLine(subscription.waiting_in[queue.place])
    subscription.waiting_in[queue.place] = line
    late.is_audited = False  # it would look at the line, too
    late.rig.clock.advance(60)
    late.finish()
    assert queue.contents.expired == (count // 2 if lasting else count)
    assert line.looks <= count + 1, "one that lasts may be offered afterwards"


def test_A6_a_sweep_keeps_the_order_of_what_waits_for_one_consumer_and_has_not_expired() -> None:
    late = LateRig()
    late.broker.flow._tight_above_bytes = 10**9
    soon = late.rig.clock.now_ms() + 1000
    owner = _group_that_waits(late, 1800, (0, soon, soon * 2))
    late.rig.clock.advance(60)
    late.finish()
    assert late.queue().contents.expired == 600
    late.is_audited = False  # after each message it would take long
    assert late.drained(owner) == ["first", *(f"{n}" for n in range(1800) if n % 3 != 1)]
    assert (late.queue().size_bytes, late.queue().contents.lost) == (0, 0)


def test_A6_expired_messages_of_a_consumer_that_leaves_while_a_sweep_works_expire_once() -> None:
    late = LateRig()
    late.broker.flow._tight_above_bytes = 10**9
    soon = late.rig.clock.now_ms() + 1000
    owner = _group_that_waits(late, 1200, (soon, 0))
    late.rig.clock.advance(2)
    steps = late.queue().expiry.expire_due(late.rig.clock.now_ms())
    next(steps)  # the last part of the line is in the lists, the rest still waits for the consumer
    owner.close()
    for fetch in steps:
        if fetch is not None:
            late.store.answer_all()
    late.finish()
    late.rig.clock.advance(60)
    late.finish()
    assert late.queue().contents.expired == 600
    assert late.queue("queue://ActiveMQ.DLQ").view.pending_count == 600

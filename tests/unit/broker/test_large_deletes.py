"""A deleted or purged queue is empty at once; what waited in it leaves memory in slices of the loop."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from ackwire.broker.auditing import Event
from ackwire.broker.permissions import BROKER as OPS
from ackwire.errors import BrokerError
from ackwire.util.clock import ManualClock
from ackwire.wire.openwire.editor import OpenWireEditor
from tests.helpers.broker_rig import BrokerRig, RigConsumer, named
from tests.helpers.operating import count_in_slices
from tests.helpers.paging_store import FakeSpill, PagingStore
from tests.simulation.audit import audit

MESSAGES = 1000
Q = "queue://long"


@pytest.fixture(params=["memory", "paging"])
def rig(request: pytest.FixtureRequest) -> BrokerRig:
    if request.param == "memory":
        return BrokerRig(slice_units=100)
    store = PagingStore(OpenWireEditor("ID:store", "store", ManualClock()).restored)
    limits = {"limits": {"memory_bytes_max": 50_000}}
    return BrokerRig(store=store, temp=FakeSpill(), settings=limits, slice_units=100)


def _fill(rig: BrokerRig, where: str = Q, count: int = MESSAGES) -> None:
    client = rig.connect()
    for number in range(count):
        client.send(where, f"{number}", persistent=number % 3 > 0)


@pytest.mark.parametrize("persistent", [True, False])
def test_deleted_queue_is_gone_at_once_and_leaves_memory_in_slices(rig: BrokerRig, persistent: bool) -> None:
    client = rig.connect()
    for number in range(MESSAGES):
        client.send(Q, f"{number}", persistent=persistent)
    used_bytes = rig.broker.flow.used_bytes
    rig.broker.remove_destination(client.connection, named(Q))
    assert rig.broker.registry.router.get(named(Q)) is None
    assert 0 < rig.broker.flow.used_bytes <= used_bytes or rig.store.pages
    assert len(rig.broker.slices) == 1
    turns = 0
    while len(rig.broker.slices):
        rig.broker.slices._work()
        turns += 1
    assert turns > 5
    assert rig.broker.flow.used_bytes == 0
    assert (rig.broker.flow.temp is None) or (rig.broker.flow.temp.used_bytes == 0)
    assert named(Q) not in rig.store.places()
    audit(rig.broker, rig.store)


def test_queue_that_is_made_again_meanwhile_keeps_what_is_sent_to_it(rig: BrokerRig) -> None:
    _fill(rig)
    client = rig.connect()
    rig.broker.remove_destination(client.connection, named(Q))
    client.send(Q, "new")
    rig.clock.advance(1)
    assert rig.pending(Q) == 1
    assert len(list(rig.store.waiting(named(Q)))) == 1
    audit(rig.broker, rig.store)
    assert rig.restarted().consumer(Q).texts == ["new"]


def test_A3_ended_durable_subscription_leaves_memory_in_slices(rig: BrokerRig) -> None:
    subscriber = rig.connect("subscriber")
    subscriber.consumer("topic://t", subscription_name="s").close()
    _fill(rig, "topic://t")
    rig.broker.remove_durable(subscriber.connection.client_id, "s")
    assert not rig.broker.registry.durables
    assert len(rig.broker.slices) == 1
    rig.clock.advance(1)
    assert rig.broker.flow.used_bytes == 0
    assert [it for it in rig.store.places() if not hasattr(it, "kind")] == []


def test_small_queue_is_deleted_in_one_turn(rig: BrokerRig) -> None:
    _fill(rig, count=10)
    rig.broker.remove_destination(rig.connect().connection, named(Q))
    assert (len(rig.broker.slices), rig.broker.flow.used_bytes, named(Q) in rig.store.places()) == (0, 0, False)


def _purge(rig: BrokerRig, asked: Iterator[None] | None = None) -> tuple[int, int]:
    """Purge the queue in slices; how many messages that were, and how many slices."""
    answers: list[int] = []
    count_in_slices(rig.broker.slices, rig.broker.operations.purge(OPS, named(Q)), answers.append, _raise)
    slices = 0
    while len(rig.broker.slices):
        rig.broker.slices._work()
        slices += 1
        if asked is not None:
            next(asked, None)
    [count] = answers
    return count, slices


def _raise(error: BrokerError) -> None:
    raise error


def test_purged_queue_leaves_memory_in_slices_and_takes_messages_meanwhile(rig: BrokerRig) -> None:
    _fill(rig)
    client = rig.connect()
    consumers: list[RigConsumer] = []

    def beside() -> Iterator[None]:
        assert rig.pending(Q) == 0
        client.send(Q, "new")
        consumers.append(rig.consumer(Q))
        yield

    count, slices = _purge(rig, beside())
    assert (count, slices > 1) == (MESSAGES, True)
    [consumer] = consumers
    assert consumer.texts == ["new"]
    consumer.ack()
    assert (rig.broker.flow.used_bytes, rig.pending(Q)) == (0, 0)
    assert (rig.broker.flow.temp is None) or (rig.broker.flow.temp.used_bytes == 0)
    assert list(rig.store.waiting(named(Q))) == []
    audit(rig.broker, rig.store)


def test_each_slice_of_an_audited_purge_reports_what_leaves_the_store_in_it(rig: BrokerRig) -> None:
    _fill(rig)
    stored = {it.sequence for it in rig.store.waiting(named(Q))}
    rig.audit.events.clear()
    counts = [0]

    def beside() -> Iterator[None]:
        while True:
            told = {it.sequence for it in rig.audit.events if it.event is Event.PURGED}
            assert stored - told == {it.sequence for it in rig.store.waiting(named(Q))}
            counts.append(len(told))
            yield

    _purge(rig, beside())
    assert counts[-1] == MESSAGES
    assert max(after - before for before, after in pairwise(counts)) <= 500
    audit(rig.broker, rig.store)


def test_purge_without_an_audit_is_one_record_in_the_store() -> None:
    store = PagingStore(OpenWireEditor("ID:store", "store", ManualClock()).restored)
    limits = {"limits": {"memory_bytes_max": 50_000}}
    rig = BrokerRig(store=store, temp=FakeSpill(), settings=limits, slice_units=100, is_audited=False)
    in_flight = rig.consumer(Q, prefetch=2)
    _fill(rig)
    steps = rig.broker.operations.purge(OPS, named(Q))
    assert next(steps) is None
    assert (store.purges, len(list(store.waiting(named(Q))))) == (1, sum(it.persistent for it in in_flight.delivered))
    count, slices = _purge(rig)
    assert (count, slices, rig.pending(Q)) == (0, 1, 0)
    assert rig.broker.flow.used_bytes > 0
    while next(steps, 0) is None:
        pass
    assert (store.purges, len(in_flight.delivered)) == (1, 2)
    audit(rig.broker, rig.store)

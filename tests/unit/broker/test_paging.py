"""Little memory and many messages: what waits is on disk, and nobody but the counters notices (B6, B7, N2)."""

import logging
from itertools import pairwise
from pathlib import Path

import pytest

from ackwire.broker import queue as queue_module
from ackwire.broker.in_flight import AckKind
from ackwire.broker.queue import Queue
from ackwire.broker.why import message_search
from ackwire.broker.why.message_search import why_message
from ackwire.broker.why.reasons import why_producer, why_queue
from ackwire.config.policy import DestinationPolicy
from ackwire.errors import ResourceLimit
from ackwire.jms.message import Message, Origin
from ackwire.jms.types import Int
from ackwire.store.files import OsFiles
from ackwire.store.temp import TempStore
from ackwire.util.clock import ManualClock
from ackwire.wire.openwire.editor import OpenWireEditor
from tests.helpers.broker_rig import BrokerRig, RigClient, RigConsumer, contents, named, paging_rig
from tests.helpers.compilation import attributes_of, pure_only
from tests.helpers.operating import purged
from tests.helpers.paging_store import FakeSpill, PagingStore
from tests.helpers.waiting import answered
from tests.simulation.audit import audit

MEMORY_BYTES = 20_000
MANY = 10_000
SOME = 3000
LARGEST_BYTES = 400
"""More than any message of these tests has."""


def _queue(rig: BrokerRig, where: str = "queue://q") -> Queue:
    made = rig.broker.registry.get_or_make(named(where))
    assert isinstance(made, Queue)
    return made


def _fill(client: RigClient, count: int, where: str = "queue://q", **headers: object) -> None:
    for n in range(count):
        client.send(where, f"{n}", properties={"n": Int(n % 100)}, **headers)


def _drain(rig: BrokerRig, consumer: RigConsumer, in_flight_bytes: int = 20 * LARGEST_BYTES) -> list[str | None]:
    """Take everything, one ack at a time; memory stays bounded all the while. The answer is the texts in order."""
    texts: list[str | None] = []
    while consumer.delivered:
        texts += consumer.texts
        taken = list(consumer.delivered)
        consumer.delivered.clear()
        for message in taken:
            consumer.ack(message, kind=AckKind.INDIVIDUAL)
            assert rig.broker.flow.used_bytes <= MEMORY_BYTES + in_flight_bytes
        rig.clock.advance(0)  # long work is cut into turns
    return texts


@pytest.fixture(params=[True, False], ids=["persistent", "spilled"])
def persistent(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def _rig(**options: DestinationPolicy) -> tuple[BrokerRig, PagingStore, FakeSpill]:
    rig, store, temp = paging_rig(MEMORY_BYTES, temp_bytes_max=1 << 30, policies=tuple(options.values()))
    assert temp is not None
    return rig, store, temp


# --- all of it ------------------------------------------------------------------------------------------


def test_B6_memory_is_bounded_and_nothing_is_lost_or_out_of_order(persistent: bool) -> None:
    rig, store, temp = _rig()
    _fill(rig.connect(), MANY, persistent=persistent)
    queue = _queue(rig)
    assert rig.broker.flow.used_bytes <= MEMORY_BYTES
    assert queue.view.paged_count > MANY * 0.98
    assert queue.size_bytes > MANY * 100
    assert _drain(rig, rig.consumer("queue://q", prefetch=10)) == [f"{n}" for n in range(MANY)]
    assert (queue.size_bytes, rig.broker.flow.used_bytes, queue.contents.lost, temp.frames) == (0, 0, 0, {})
    assert store.loads < MANY / 3, "messages are read in batches"
    audit(rig.broker, rig.store)


@pure_only
def test_B6_at_the_end_of_a_long_queue_only_numbers_stay_of_what_the_store_has(
    monkeypatch: pytest.MonkeyPatch, persistent: bool
) -> None:
    monkeypatch.setattr(queue_module, "KEPT_BYTES", MEMORY_BYTES)
    rig, _, temp = paging_rig(1 << 30, temp_bytes_max=1 << 30)
    assert temp is not None
    _fill(rig.connect(), MANY, persistent=persistent)
    queue = _queue(rig)
    if persistent:
        assert rig.broker.flow.used_bytes <= MEMORY_BYTES + LARGEST_BYTES
    else:
        assert (queue.view.paged_count, temp.frames) == (0, {}), "there is room, so it is not written"
    consumer = rig.consumer("queue://q", prefetch=10)
    assert _drain(rig, consumer, in_flight_bytes=1 << 30) == [f"{n}" for n in range(MANY)]
    assert (queue.size_bytes, rig.broker.flow.used_bytes) == (0, 0)
    audit(rig.broker, rig.store)


def test_B6_selectors_find_their_messages_at_any_depth_without_filling_memory(persistent: bool) -> None:
    rig, _, temp = _rig()
    _fill(rig.connect(), SOME, persistent=persistent)
    rare, rest = rig.consumer("queue://q", prefetch=5, selector="n = 77"), []
    rig.clock.advance(0)
    assert rig.broker.flow.used_bytes <= MEMORY_BYTES
    assert _drain(rig, rare) == [f"{n}" for n in range(SOME) if n % 100 == 77]
    rest = _drain(rig, rig.consumer("queue://q", prefetch=10))
    assert rest == [f"{n}" for n in range(SOME) if n % 100 != 77]
    assert (rig.broker.flow.used_bytes, temp.frames) == (0, {})


def test_C6_priorities_come_first_though_they_are_paged_out(persistent: bool) -> None:
    rig, _, _ = _rig(policy=DestinationPolicy(match="q", prioritized=True))
    producer = rig.connect()
    for n in range(1000):
        producer.send("queue://q", f"{n}", priority=n % 10, persistent=persistent)
    expected = [f"{n}" for priority in range(9, -1, -1) for n in range(1000) if n % 10 == priority]
    assert _drain(rig, rig.consumer("queue://q", prefetch=10)) == expected


def test_H3_groups_stay_with_their_owner_and_wait_for_it_on_disk(persistent: bool) -> None:
    rig, _, temp = _rig()
    slow, quick = rig.consumer("queue://q", prefetch=1), rig.consumer("queue://q", prefetch=1)
    producer = rig.connect()
    for n in range(1000):
        producer.send("queue://q", f"{n}", group_id="ab"[n % 2], persistent=persistent)
    assert _drain(rig, quick) == [f"{n}" for n in range(1, 1000, 2)]
    assert rig.broker.flow.used_bytes <= MEMORY_BYTES, "what waits for the slow one does not wait in memory"
    assert _queue(rig).view.pending_count == 499
    assert _queue(rig).view.paged_count > 400
    on_disk = f"499 messages waiting ({_queue(rig).view.paged_count} of them on disk)"
    assert on_disk in answered(why_queue(rig.broker.view, named("queue://q")))[0]
    audit(rig.broker, rig.store)
    assert _drain(rig, slow) == [f"{n}" for n in range(0, 1000, 2)]
    assert (rig.broker.flow.used_bytes, temp.frames) == (0, {})


def test_H3_what_waited_for_a_consumer_that_leaves_goes_to_the_next(persistent: bool) -> None:
    rig, _, _ = _rig()
    slow, other = rig.consumer("queue://q", prefetch=1), rig.consumer("queue://q", prefetch=1)
    producer = rig.connect()
    for n in range(200):
        producer.send("queue://q", f"{n}", group_id="g", persistent=persistent)
    assert _queue(rig).view.paged_count > 100
    slow.client.disconnect()
    audit(rig.broker, rig.store)
    assert _drain(rig, other) == [f"{n}" for n in range(200)]


@pytest.mark.parametrize("grouped", [True, False], ids=["waiting for one consumer", "waiting for any"])
def test_A6_the_sweep_reads_only_what_is_due(grouped: bool) -> None:
    rig, store, _ = _rig()
    producer, consumers = rig.connect(), [rig.consumer("queue://q", prefetch=1) for _ in range(2)]
    due_ms = rig.clock.now_ms() + 5000
    if not grouped:
        consumers[1].close()
    for n in range(1000):
        expiration = due_ms if n % 100 == 50 else due_ms + 10**9 if n % 2 else 0
        producer.send("queue://q", f"{n}", expiration=expiration, group_id="g" if grouped else None)
    before = store.loaded
    rig.clock.advance(40)
    assert _queue(rig).contents.expired == 10
    assert store.loaded - before <= 10
    assert rig.consumer("queue://ActiveMQ.DLQ").texts == [f"{n}" for n in range(1000) if n % 100 == 50]
    audit(rig.broker, rig.store)


def test_A6_very_many_expired_messages_are_dealt_with_in_turns() -> None:
    rig, _, _ = _rig()
    _fill(rig.connect(), 1000, expiration=rig.clock.now_ms() + 5000)
    steps = _queue(rig).expiry.expire_due(rig.clock.now_ms() + 5000)
    for _ in range(301):  # the first one looks
        next(steps)
    assert _queue(rig).contents.expired == 300
    steps.close()  # type: ignore[attr-defined]
    rig.clock.advance(40)
    assert (_queue(rig).contents.expired, _queue(rig).size_bytes) == (1000, 0)
    assert rig.broker.flow.used_bytes <= MEMORY_BYTES


# --- browsers -------------------------------------------------------------------------------------------


def test_B6_a_browser_of_a_deep_queue_reads_as_it_goes(persistent: bool) -> None:
    rig, store, temp = _rig()
    _fill(rig.connect(), SOME, persistent=persistent)
    browser = rig.consumer("queue://q", prefetch=10, browser=True)
    assert store.loaded + temp.reads <= 512
    shown = []
    while browser.delivered:
        shown += browser.texts
        last, count = browser.delivered[-1], len(browser.delivered)
        browser.delivered.clear()
        browser.ack(last, count=count)
    assert shown == [f"{n}" for n in range(SOME)]
    assert browser.port.ends == 1
    assert rig.broker.flow.used_bytes <= MEMORY_BYTES
    assert _queue(rig).view.pending_count == SOME
    audit(rig.broker, rig.store)


def test_B6_a_browser_with_a_selector_gives_way_to_others_on_a_long_search(persistent: bool) -> None:
    rig, store, temp = _rig()
    _fill(rig.connect(), SOME, persistent=persistent)
    browser = rig.consumer("queue://q", prefetch=500, browser=True, selector="n = 77")
    assert store.loaded + temp.reads <= 2100
    assert browser.port.ends == 0
    rig.clock.advance(0)
    assert browser.texts == [f"{n}" for n in range(SOME) if n % 100 == 77]
    assert browser.port.ends == 1


def test_a_browser_that_leaves_in_the_middle_is_shown_no_more() -> None:
    rig, _, _ = _rig()
    _fill(rig.connect(), SOME)
    browser = rig.consumer("queue://q", prefetch=500, browser=True, selector="n = 77")
    count = len(browser.delivered)
    browser.close()
    rig.clock.advance(0)
    assert (len(browser.delivered), browser.port.ends) == (count, 0)


def test_a_browser_does_not_show_what_is_gone_when_it_comes_to_it_but_what_is_in_flight(persistent: bool) -> None:
    rig, _, _ = _rig()
    _fill(rig.connect(), 2000, persistent=persistent)
    browser = rig.consumer("queue://q", prefetch=1, browser=True)
    consumer = rig.consumer("queue://q", prefetch=1000)
    for message in list(consumer.delivered)[:900]:
        consumer.ack(message, kind=AckKind.INDIVIDUAL)
    rig.connect().send("queue://q", "new", persistent=persistent)
    browser.client.port.is_ready = True
    rig.broker.set_prefetch(browser.subscription, 10_000)
    shown = [int(text or "") for text in browser.texts]
    assert shown == sorted(set(shown))
    assert set(range(900, 2000)) <= set(shown) <= set(range(2000))
    assert not set(range(600, 900)) & set(shown)


def test_B6_real_files_do_the_same(tmp_path: Path) -> None:
    temp = TempStore(OsFiles(), tmp_path, 1 << 30, file_bytes=1 << 16)
    rig = BrokerRig(settings={"limits": {"memory_bytes_max": MEMORY_BYTES}}, temp=temp)
    _fill(rig.connect(), SOME, persistent=False)
    assert temp.used_bytes > SOME * 100
    assert _drain(rig, rig.consumer("queue://q", prefetch=10)) == [f"{n}" for n in range(SOME)]
    assert temp.used_bytes == rig.broker.flow.used_bytes == 0
    temp.close()
    assert list(tmp_path.iterdir()) == []


# --- losing, purging ------------------------------------------------------------------------------------


def test_B6_a_message_that_cannot_be_read_is_reported_and_does_not_hold_up_the_rest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig, store, _ = _rig()
    _fill(rig.connect(), 1000)
    sequences = [waiting.sequence for waiting in store.waiting(named("queue://q"))]
    store.unreadable = {sequences[500], sequences[501], sequences[999]}
    with caplog.at_level(logging.ERROR):
        texts = _drain(rig, rig.consumer("queue://q", prefetch=10))
    assert texts == [f"{n}" for n in range(999) if n not in (500, 501)]
    queue = _queue(rig)
    assert (queue.contents.lost, queue.size_bytes, queue.view.pending_count, rig.broker.flow.used_bytes) == (3, 0, 0, 0)
    assert f"message {sequences[500]} of queue://q is lost" in caplog.text


def test_B6_a_spilled_message_that_is_damaged_is_lost_alone_and_its_space_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig, _, temp = _rig()
    _fill(rig.connect(), 1000, persistent=False)
    damaged = sorted(temp.frames)[-500]
    temp.frames[damaged] = b"\x17" + bytes(len(temp.frames[damaged]) - 1)
    texts = _drain(rig, rig.consumer("queue://q", prefetch=10))
    assert len(texts) == 999
    assert (_queue(rig).contents.lost, temp.frames, rig.broker.flow.used_bytes) == (1, {}, 0)
    assert "a spilled message of queue://q is lost" in caplog.text


@pytest.mark.parametrize("is_audited", [True, False], ids=["audited", "not audited"])
def test_purge_reads_nothing_is_written_once_and_spares_what_is_out(persistent: bool, is_audited: bool) -> None:
    policy = DestinationPolicy(match="q", broker_redelivery=True, redelivery_delay_seconds=60)
    rig, store, temp = paging_rig(MEMORY_BYTES, temp_bytes_max=1 << 30, policies=(policy,), is_audited=is_audited)
    assert temp is not None
    _fill(rig.connect(), 3000, persistent=persistent)
    consumer = rig.consumer("queue://q", prefetch=10)
    transaction = consumer.client.begin()
    acked, later = consumer.delivered[:2]
    consumer.ack(acked, first=acked, transaction=transaction)
    consumer.ack(later, first=later, kind=AckKind.POISON)
    consumer.client.port.is_ready = False
    held = [message.sequence for message in contents(_queue(rig)) if message.dispatched_ms]
    loaded = store.loaded + temp.reads
    assert purged(_queue(rig)) == 3000 - 2 - len(held)
    assert store.loaded + temp.reads == loaded
    assert store.purges == (0 if is_audited else 1)  # with an audit, messages are removed as they are reported
    kept = {waiting.sequence for waiting in store.waiting(named("queue://q"))}
    assert kept == ({acked.sequence, later.sequence, *held} if persistent else set())
    consumer.client.roll_back(transaction)
    consumer.client.disconnect()
    rig.clock.advance(100)
    again = rig.consumer("queue://q")
    assert {m.sequence for m in again.delivered} == {acked.sequence, later.sequence, *held}
    again.ack_each()
    assert (rig.broker.flow.used_bytes, _queue(rig).size_bytes, temp.frames) == (0, 0, {})
    audit(rig.broker, rig.store)


def test_a_temporary_queue_that_is_deleted_leaves_nothing_in_the_temp_store() -> None:
    rig, _, temp = _rig()
    client = rig.connect()
    where = client.temporary_queue()
    _fill(client, 500, where=where, persistent=True)  # type: ignore[arg-type]
    assert temp.frames, "nothing of a temporary queue is in the store, so it is spilled"
    client.disconnect()
    assert (temp.frames, rig.broker.flow.used_bytes) == ({}, 0)


# --- space ----------------------------------------------------------------------------------------------


def test_B6_persistent_sends_wait_for_the_store_only_and_go_on_when_it_has_room() -> None:
    rig, store, _ = paging_rig(MEMORY_BYTES)
    producer, consumer = rig.connect("producer"), rig.consumer("queue://q", prefetch=1000)
    _fill(producer, 500)
    assert rig.broker.flow.used_bytes > MEMORY_BYTES, "in flight, which is no reason to wait"
    assert producer.stored == 500
    store.set_full("the store is full: 9 of 9 bytes (limits.store_bytes_max)")
    producer.send("queue://q", "waits")
    assert producer.stored == 500
    [sentence] = why_producer(rig.broker.view, producer.producer_id)
    assert "is blocked for 0.0 s: the store is full: 9 of 9 bytes (limits.store_bytes_max)" in sentence
    assert "; the store is full" in why_producer(rig.broker.view, consumer.client.producer_id)[0]
    consumer.ack_each()
    assert producer.stored == 500, "consumers go on, and the store says when there is room"
    store.set_full(None)
    assert producer.stored == 501
    assert consumer.texts[-1] == "waits"


def test_B6_non_persistent_sends_go_on_while_the_store_is_full() -> None:
    rig, store, _ = paging_rig(1 << 30)
    store.set_full("the disk is full")
    others, producer, consumer = rig.connect("others"), rig.connect("producer"), rig.consumer("queue://q")
    producer.send("queue://q", "goes on", persistent=False)
    others.send("queue://q", "waits", persistent=True)
    producer.send("queue://q", "goes on too", persistent=False)
    assert (producer.stored, others.stored) == (2, 0)
    assert consumer.texts == ["goes on", "goes on too"]


def test_B6_other_sends_wait_when_memory_and_the_temp_store_are_full() -> None:
    rig, _, temp = paging_rig(MEMORY_BYTES, temp_bytes_max=5000)
    assert temp is not None
    producer = rig.connect("producer")
    _fill(producer, 500, persistent=False)
    assert producer.stored < 500
    assert rig.broker.flow.used_bytes <= MEMORY_BYTES + LARGEST_BYTES
    assert temp.used_bytes <= 5000
    persistent = rig.connect("another")
    persistent.send("queue://q", "persistent")
    assert persistent.stored == 1, "it needs neither"
    [sentence] = why_producer(rig.broker.view, producer.producer_id)
    assert "(limits.memory_bytes_max), and so is the temp store:" in sentence
    assert "of 5000 bytes (limits.temp_bytes_max)" in sentence
    consumer = rig.consumer("queue://q", prefetch=10)
    texts = _drain(rig, consumer)
    assert [text for text in texts if text != "persistent"] == [f"{n}" for n in range(500)]
    assert (producer.stored, temp.frames, rig.broker.flow.used_bytes) == (500, {}, 0)


def test_B6_a_send_may_fail_instead_and_says_which_limits() -> None:
    rig = BrokerRig(
        settings={"limits": {"memory_bytes_max": 1000, "when_full": "fail"}}, temp=FakeSpill(bytes_max=1000)
    )
    producer = rig.connect()
    with pytest.raises(ResourceLimit, match=r"limits\.temp_bytes_max"):
        _fill(producer, 100, persistent=False)


def test_B6_what_is_let_go_makes_space_for_those_who_wait() -> None:
    """A scan that takes persistent messages out of memory is room for a send that waits for memory."""
    rig, _, _ = paging_rig(MEMORY_BYTES, temp_bytes_max=0)
    producer, waiting = rig.connect(), rig.connect()
    holder = rig.consumer("queue://q", prefetch=200)
    _fill(producer, 200)
    assert rig.broker.flow.memory_is_full()
    waiting.send("queue://other", persistent=False)
    assert waiting.stored == 0
    holder.close(last_delivered=0)  # they come back unseen, and were dispatched at once: they can be let go
    rig.consumer("queue://q", selector="n = 1000")
    rig.clock.advance(0)
    assert waiting.stored == 1
    audit(rig.broker, rig.store)


@pytest.mark.parametrize("selector", [None, "n < 1000"])
def test_B6_what_comes_back_unseen_is_let_go_though_nobody_asks_for_it(selector: str | None) -> None:
    rig, _, _ = paging_rig(1, temp_bytes_max=0)
    consumer = rig.consumer("queue://q", selector=selector)
    _fill(rig.connect(), 3)
    assert len(consumer.delivered) == 3
    consumer.close(last_delivered=0)
    assert (_queue(rig).view.pending_count, _queue(rig).view.paged_count) == (3, 3)
    audit(rig.broker, rig.store)


def test_B6_very_many_that_come_back_are_let_go_in_slices() -> None:
    rig, _, _ = paging_rig(1, temp_bytes_max=0)
    rig.broker.slices._units = units = 100
    consumer = rig.consumer("queue://q")
    _fill(rig.connect(), 1000)
    assert len(consumer.delivered) == 1000
    paged = [0]
    rig.broker.slices.before_slice = lambda: paged.append(_queue(rig).view.paged_count)
    consumer.close(last_delivered=0)
    rig.clock.advance(0)
    paged.append(_queue(rig).view.paged_count)
    assert paged[-1] == _queue(rig).view.pending_count == 1000
    assert max(later - earlier for earlier, later in pairwise(paged)) <= units
    audit(rig.broker, rig.store)


def test_B7_persistent_messages_come_back_after_a_restart_and_spilled_ones_do_not() -> None:
    rig, store, _ = _rig()
    producer = rig.connect()
    for n in range(1000):
        producer.send("queue://q", f"{n}", persistent=n % 2 == 0)
    again = BrokerRig(settings={"limits": {"memory_bytes_max": MEMORY_BYTES}}, store=store)
    queue = _queue(again)
    assert (queue.view.pending_count, queue.view.paged_count) == (500, 500)
    assert again.broker.flow.used_bytes == 0
    assert queue.size_bytes == sum(waiting.size_bytes for waiting in store.waiting(named("queue://q")))
    assert store.loaded == 0, "a start reads no message"
    assert _drain(again, again.consumer("queue://q", prefetch=10)) == [f"{n}" for n in range(0, 1000, 2)]
    audit(again.broker, again.store)


def test_C6_priorities_and_expirations_are_known_after_a_restart() -> None:
    policy = DestinationPolicy(match="q", prioritized=True)
    rig, store, _ = _rig(policy=policy)
    producer = rig.connect()
    for n in range(100):
        expiration = rig.clock.now_ms() + 5000 if n % 10 == 3 else 0
        producer.send("queue://q", f"{n}", priority=n % 3 + 3, expiration=expiration)
    limits = {"limits": {"memory_bytes_max": MEMORY_BYTES}}
    again = BrokerRig(settings=limits, clock=ManualClock(rig.clock.now_ms()), store=store, policies=(policy,))
    again.clock.advance(40)
    expected = [f"{n}" for rest in (2, 1, 0) for n in range(100) if n % 3 == rest and n % 10 != 3]
    assert _drain(again, again.consumer("queue://q", prefetch=10)) == expected


# --- why ------------------------------------------------------------------------------------------------


def test_why_tells_what_is_on_disk_and_looks_there_without_bringing_it_back() -> None:
    rig, _, temp = _rig()
    producer = rig.connect("producer")
    _fill(producer, 2000, persistent=False)
    queue = _queue(rig)
    first = answered(why_queue(rig.broker.view, named("queue://q")))[0]
    assert f"2000 messages waiting ({queue.view.paged_count:,} of them on disk)" in first
    used_bytes = rig.broker.flow.used_bytes
    [sentence] = answered(why_message(rig.broker.view, "ID:producer:1:1:1500"))
    assert "1499 in front of it" in sentence
    assert rig.broker.flow.used_bytes == used_bytes
    temp_use = f"{temp.used_bytes} of {temp.bytes_max} bytes of the temp store"
    assert temp_use in why_producer(rig.broker.view, producer.producer_id)[0]


def test_why_does_not_read_a_whole_disk_to_find_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_search, "_SEARCHED_MAX", 1000)
    rig, store, _ = _rig()
    producer = rig.connect("producer")
    for _ in range(SOME):
        producer.send("queue://q")
    assert answered(why_message(rig.broker.view, "ID:nobody:1:1:1")) == [
        "message ID:nobody:1:1:1 was not found in the first 1000 messages of queue://q; more are on disk"
    ]
    assert store.loaded < 1300


# --- messages from their bytes --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"persistent": False},
        {"group_id": "g", "group_sequence": 7},
        {"correlation_id": "c", "reply_to": "queue://answers", "type": "t"},
        {"expiration": 1_800_000_000_000, "priority": 9},
        {"properties": {"n": Int(1)}},
    ],
)
def test_a_message_comes_back_from_its_bytes_as_it_was(headers: dict[str, object]) -> None:
    rig = BrokerRig()
    message = rig.connect().send("queue://q", "text", **headers)
    again = OpenWireEditor("ID:x", "x", rig.clock).restored(message.frame)
    for name in set(attributes_of(Message)) - {"origin", "departure"}:  # the latter is about its way, not in its bytes
        assert getattr(again, name) == getattr(message, name), name
    for name in attributes_of(Origin):
        assert getattr(again.origin, name) == getattr(message.origin, name), name
    assert again.sequence == 1


def test_a_slow_disk_is_read_in_smaller_batches_and_a_quick_one_in_larger_again() -> None:
    rig, _, _ = paging_rig(10_000_000)
    pager = rig.broker.pager
    pager._adapt(256, 0.02)
    assert pager.batch_messages == 128
    for _ in range(20):
        pager._adapt(pager.batch_messages, 0.02)
    assert pager.batch_messages == 1, "one is always read"
    pager._adapt(1, 0.003)
    assert pager.batch_messages == 1
    for _ in range(20):
        pager._adapt(pager.batch_messages, 0.0001)
    assert pager.batch_messages == 256

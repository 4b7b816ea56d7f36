"""The broker goes on while messages are read back, and copes with what happens meanwhile (SEMANTICS A2, B6, H1)."""

import pytest

from ackwire.broker.cursors import Row
from ackwire.broker.in_flight import AckKind
from ackwire.broker.operations import Selection
from ackwire.broker.paging import BATCH_MESSAGES
from ackwire.broker.permissions import BROKER
from ackwire.broker.queue import Queue
from ackwire.broker.subscription import QueueSubscription
from ackwire.broker.why.message_search import why_message
from ackwire.broker.why.reasons import why_consumer, why_queue
from ackwire.config.policy import DestinationPolicy
from ackwire.errors import BrokerError, Conflict, RangeGone, UnknownResource
from ackwire.store.contract import OnLoaded, Place, StagedRecord
from ackwire.util.clock import ManualClock
from ackwire.wire.openwire.editor import OpenWireEditor
from tests.helpers.broker_rig import BrokerRig, RigClient, RigConsumer, named, text_of
from tests.helpers.bulk import Writer
from tests.helpers.operating import count_in_slices, purged
from tests.helpers.paging_store import FakeSpill, HandStore
from tests.simulation.audit import audit

Q = "queue://q"
MEMORY_BYTES = 1000
COUNT = 20


class LateRig:
    """A broker with little memory, whose store answers by hand."""

    def __init__(self, *policies: DestinationPolicy, temp: FakeSpill | None = None) -> None:
        self.store = HandStore(OpenWireEditor("ID:store", "store", ManualClock()).restored)
        limits = {"limits": {"memory_bytes_max": MEMORY_BYTES}}
        self.rig = BrokerRig(settings=limits, policies=policies, store=self.store, temp=temp)
        self.producer = self.rig.connect("producer")
        self.broker = self.rig.broker
        self.is_audited = True
        """Whether counters are compared with what is there; the comparison knows no cursors and no lost messages."""

    def queue(self, where: str = Q) -> Queue:
        made = self.broker.registry.get_or_make(named(where))
        assert isinstance(made, Queue)
        return made

    def fill(self, count: int = COUNT, where: str = Q, **headers: object) -> None:
        """Send numbered messages, all of which are paged out afterwards."""
        self.broker.flow._tight_above_bytes = 0
        for n in range(count):
            self.producer.send(where, f"{n}", **headers)
        assert self.queue(where).view.paged_count == count

    def consumer(self, client: RigClient | None = None, **request: object) -> RigConsumer:
        request.setdefault("prefetch", 5)
        return (client or self.rig.connect()).consumer(Q, **request)  # type: ignore[arg-type]

    def finish(self) -> None:
        """Answer everything; the counters agree with what is there."""
        while self.store.asked or len(self.broker.slices):
            self.store.answer_all()
            self.rig.clock.advance(0)
        if self.is_audited:
            audit(self.broker, self.store)

    def drained(self, consumer: RigConsumer) -> list[str | None]:
        """All that *consumer* gets until nothing is left, each acknowledged."""
        texts: list[str | None] = []
        self.finish()
        while consumer.delivered:
            taken = list(consumer.delivered)
            consumer.delivered.clear()
            for message in taken:
                texts.append(text_of(message))
                consumer.ack(message, kind=AckKind.INDIVIDUAL)
            self.finish()
        return texts


def texts(*numbers: int) -> list[str | None]:
    return [f"{n}" for n in numbers]


def test_B6_sends_acks_and_other_queues_go_on_while_a_message_is_read() -> None:
    late = LateRig()
    other = late.rig.consumer("queue://other")
    late.fill()
    consumer = late.consumer()
    assert (len(late.store.asked), consumer.delivered) == (1, [])
    late.producer.send("queue://other", "beside")
    assert other.texts == ["beside"]
    other.ack()
    late.producer.send(Q, f"{COUNT}")
    assert late.producer.stored == COUNT + 2
    assert consumer.delivered == []
    audit(late.broker, late.store)
    assert late.drained(consumer) == texts(*range(COUNT + 1))
    assert (late.queue().size_bytes, late.broker.flow.used_bytes, late.queue().contents.lost) == (0, 0, 0)


def test_B6_one_page_in_at_a_time_however_often_dispatch_is_tried() -> None:
    late = LateRig()
    late.fill()
    consumers = [late.consumer(prefetch=1) for _ in range(3)]
    late.producer.send(Q, "more")
    assert len(late.store.asked) == 1
    late.finish()
    assert sorted(it for consumer in consumers for it in consumer.texts if it) == ["0", "1", "2"]


def test_B6_acks_of_another_lane_go_on_while_one_waits() -> None:
    late = LateRig()
    chosen = late.consumer(selector="JMSPriority = 9", prefetch=10)
    late.producer.send(Q, "important", priority=9)
    late.fill()
    late.finish()
    plain = late.consumer()
    assert late.store.asked
    chosen.ack()
    late.producer.send(Q, "again", priority=9)
    late.finish()
    assert chosen.texts == ["important", "again"]
    assert plain.texts == texts(0, 1, 2, 3, 4)


def test_B6_what_is_purged_while_it_is_read_is_gone() -> None:
    late = LateRig()
    late.fill()
    consumer = late.consumer()
    assert purged(late.queue()) == COUNT
    late.finish()
    assert consumer.delivered == []
    late.producer.send(Q, "new")
    late.finish()
    assert consumer.texts == ["new"]
    assert late.queue().contents.lost == 0


def test_B6_a_queue_that_is_deleted_while_it_is_read_stays_empty() -> None:
    late = LateRig()
    late.fill()
    consumer = late.consumer()
    queue = late.queue()
    consumer.close()
    late.broker.remove_destination(late.producer.connection, named(Q))
    late.finish()
    assert (queue.size_bytes, late.broker.flow.used_bytes, queue.contents.lost) == (0, 0, 0)
    assert consumer.delivered == []


def test_A2_a_consumer_that_leaves_while_its_message_is_read_loses_nothing() -> None:
    late = LateRig()
    late.fill()
    late.consumer().close()
    late.finish()
    consumer = late.consumer()
    assert late.drained(consumer) == texts(*range(COUNT))
    assert all(message.redelivery_counter == 0 for message in consumer.delivered)


def test_H1_a_message_that_comes_back_while_later_ones_are_read_is_first_and_redelivered() -> None:
    late = LateRig()
    first = late.consumer(prefetch=1)
    late.producer.send(Q, "back")
    late.fill()
    second = late.consumer()
    assert late.store.asked
    first.close()
    late.finish()
    assert second.texts == ["back", *texts(0, 1, 2, 3)]
    assert [it.redelivery_counter for it in second.delivered] == [1, 0, 0, 0, 0]


def test_A6_what_expires_while_it_is_read_becomes_a_dead_letter_once() -> None:
    late = LateRig()
    soon = late.rig.clock.now_ms() + 1000
    late.fill(3, expiration=soon)
    consumer = late.consumer()
    late.rig.clock.advance(600)
    late.finish()
    assert consumer.delivered == []
    assert late.queue().contents.expired == 3
    assert late.queue("queue://ActiveMQ.DLQ").view.pending_count == 3


def test_A6_the_sweep_goes_on_when_expired_messages_have_arrived() -> None:
    late = LateRig()
    soon = late.rig.clock.now_ms() + 1000
    late.fill(COUNT, expiration=soon)
    other = late.rig.consumer("queue://other")
    late.rig.clock.advance(60)
    assert (len(late.store.asked), late.queue().contents.expired) == (1, 0)
    late.producer.send("queue://other", "beside")
    assert other.texts == ["beside"]
    late.finish()
    assert late.queue().contents.expired == COUNT


def test_B6_a_cursor_may_reserve_what_is_being_read() -> None:
    late = LateRig()
    late.is_audited = False
    late.fill()
    consumer = late.consumer()
    late.broker.cursors.open("c", named(Q))
    answers: list[int] = []
    late.broker.cursors.latest("c", 0, 5, answers.append, _raise)
    assert answers == [5]
    assert late.drained(consumer) == texts(*range(5, COUNT))
    late.broker.cursors.rows("c", 0, 5, (rows := Rows()).arrived, _raise)
    assert rows.numbers is None
    late.finish()
    assert rows.numbers == [1, 2, 3, 4, 5]


class Rows:
    """The numbers of the rows that a cursor was read for."""

    def __init__(self) -> None:
        self.numbers: list[int] | None = None
        self.errors: list[BrokerError] = []

    def arrived(self, rows: list[Row]) -> None:
        self.numbers = [number for number, _, _ in rows]


def _cursor_of(late: LateRig, count: int = 5) -> None:
    late.is_audited = False
    late.broker.cursors.open("c", named(Q))
    answers: list[int] = []
    late.broker.cursors.latest("c", 0, count, answers.append, _raise)
    late.finish()
    assert answers == [count]


def test_B6_rows_that_are_committed_while_they_are_read_are_gone() -> None:
    late = LateRig()
    late.fill()
    _cursor_of(late)
    rows = Rows()
    late.broker.cursors.rows("c", 0, 5, rows.arrived, rows.errors.append)
    late.broker.cursors.commit("c", 3, lambda _: None, _raise)
    late.rig.clock.advance(0)
    late.finish()
    assert rows.numbers is None
    [error] = rows.errors
    assert isinstance(error, RangeGone)
    assert "messages 1 to 3" in str(error)
    assert "were committed" in str(error)


def test_B6_rows_of_a_cursor_that_is_closed_while_they_are_read_are_refused() -> None:
    late = LateRig()
    late.fill()
    _cursor_of(late)
    rows = Rows()
    late.broker.cursors.rows("c", 0, 5, rows.arrived, rows.errors.append)
    late.broker.cursors.close("c", lambda: None, _raise)
    late.rig.clock.advance(0)
    late.finish()
    assert rows.numbers is None
    assert [type(it) for it in rows.errors] == [UnknownResource]


def test_B6_the_oldest_message_of_a_cursor_is_read_beside_the_loop() -> None:
    late = LateRig()
    late.fill()
    _cursor_of(late)
    loads = late.store.loads
    late.broker.cursors.info("c")
    oldest = late.broker.cursors.oldest("c")
    assert (oldest.has_arrived, late.store.loads) == (False, loads)
    late.finish()
    [message] = oldest.messages
    assert message is not None
    assert text_of(message) == "0"


def test_B7_a_cursor_with_non_persistent_messages_closes_when_they_have_arrived() -> None:
    late = LateRig()
    for n in range(3):
        late.producer.send(Q, f"{n}", persistent=False)
    _cursor_of(late, 3)
    done: list[bool] = []
    late.broker.cursors.close("c", lambda: done.append(True), _raise)
    late.rig.clock.advance(0)
    assert (done, late.rig.pending(Q), len(late.store.asked)) == ([], 0, 1)
    with pytest.raises(UnknownResource):
        late.broker.cursors.latest("c", 0, 5, lambda _: None, _raise)
    with pytest.raises(Conflict):
        late.broker.cursors.open("c", named(Q))
    late.finish()
    assert (done, late.broker.cursors.all()) == ([True], [])
    late.broker.flow._tight_above_bytes = MEMORY_BYTES
    assert late.consumer().texts == texts(0, 1, 2)
    assert late.store.waiting(named(Q)) == []


def test_A2_a_look_in_bulk_goes_on_when_its_messages_have_arrived() -> None:
    late = LateRig()
    late.fill()
    shown: list[tuple[list[bytes], int | None]] = []
    late.broker.bulk(BROKER).browse_rows(
        named(Q), 0, 1 << 60, 4, lambda rows, last: shown.append(([frame for _, frame, _ in rows], last))
    )
    assert (shown, len(late.store.asked)) == ([], 1)
    taken = late.consumer(prefetch=1)
    late.finish()
    taken.ack()
    [(frames, last)] = shown
    assert [text_of(late.rig.editor.restored(frame)) for frame in frames] == texts(0, 1, 2, 3)
    assert last is not None


def test_A3_a_batch_for_a_topic_is_published_when_its_messages_have_arrived() -> None:
    late = LateRig()
    subscriber = late.rig.consumer("topic://t")
    writer = Writer(late.rig)
    writer.stage(["0", "1"], where="topic://t")
    loads = late.store.loads
    assert writer.commit()
    assert (subscriber.texts, len(late.store.asked), late.store.loads) == ([], 1, loads)
    late.store.fail()
    late.rig.clock.advance(1)
    late.finish()
    assert subscriber.texts == texts(0, 1)
    assert late.broker.staging.part_count == 0


def test_A3_a_restart_before_a_topic_gets_its_messages_does_not_show_those_of_a_queue_again() -> None:
    late = LateRig()
    writer = Writer(late.rig)
    writer.stage(["for a queue"])
    writer.stage(["for a topic"], where="topic://t")
    assert writer.commit()
    [note] = [it for it in late.store.state_records() if isinstance(it, StagedRecord)]
    assert [place for place, _ in note.held] == [named("topic://t")]


@pytest.mark.parametrize("subject", ["queue", "message", "consumer"])
def test_why_waits_for_messages_without_holding_up_the_loop(subject: str) -> None:
    late = LateRig()
    consumer = late.consumer(selector="JMSPriority = 9")
    late.fill()
    late.finish()
    steps = {
        "queue": lambda: why_queue(late.broker.view, named(Q)),
        "message": lambda: why_message(late.broker.view, "ID:producer:1:1:7"),
        "consumer": lambda: why_consumer(late.broker.view, consumer.subscription.consumer_id),
    }[subject]()
    loads, waits, lines = late.store.loads, 0, None
    while lines is None:
        try:
            step = next(steps)
        except StopIteration as end:
            lines = end.value
            continue
        if step is not None and not step.has_arrived:
            waits += 1
            assert late.store.loads == loads
            late.store.answer_all()
            loads = late.store.loads
    assert waits
    assert lines


def test_B6_a_cursor_with_a_selector_waits_for_what_it_examines() -> None:
    late = LateRig()
    late.is_audited = False
    late.fill()
    late.broker.cursors.open("c", named(Q), "JMSPriority = 4")
    answers: list[int] = []
    late.broker.cursors.latest("c", 0, 5, answers.append, _raise)
    assert (answers, len(late.store.asked)) == ([], 1)
    late.finish()
    assert answers == [5]


def test_A2_what_has_a_lower_priority_does_not_overtake_what_is_read() -> None:
    late = LateRig(DestinationPolicy(match=Q, prioritized=True))
    late.fill(3, priority=9)
    late.broker.flow._tight_above_bytes = MEMORY_BYTES
    late.producer.send(Q, "low", priority=1)
    consumer = late.consumer()
    assert consumer.delivered == []
    late.finish()
    assert consumer.texts == [*texts(0, 1, 2), "low"]


def test_C3_a_pull_that_does_not_wait_gets_what_has_to_be_read() -> None:
    late = LateRig()
    late.fill(1)
    consumer = late.consumer(prefetch=0)
    consumer.pull(-1)
    assert (consumer.delivered, consumer.port.ends) == ([], 0)
    late.finish()
    assert (consumer.texts, consumer.port.ends) == (["0"], 0)
    consumer.pull(-1)
    assert consumer.port.ends == 1


def test_C3_a_pull_that_does_not_wait_is_answered_when_what_was_read_is_gone() -> None:
    late = LateRig()
    late.fill(1)
    consumer = late.consumer(prefetch=0)
    consumer.pull(-1)
    purged(late.queue())
    late.finish()
    assert (consumer.texts, consumer.port.ends) == ([], 1)


@pytest.mark.parametrize("timeout_ms", [0, 5000])
def test_C3_a_pull_that_was_answered_while_messages_are_read_does_not_end_a_later_one(timeout_ms: int) -> None:
    late = LateRig()
    holder = late.consumer(prefetch=1, selector="JMSPriority = 9")
    late.producer.send(Q, "nine", priority=9)
    late.fill(3)
    puller = late.consumer(prefetch=0, selector="JMSPriority = 9 OR JMSPriority = 8")
    puller.pull(-1)
    assert (len(late.store.asked), puller.port.ends) == (1, 0)
    holder.close()  # what it had answers the pull
    assert puller.texts == ["nine"]
    puller.ack()
    puller.pull(timeout_ms)
    late.finish()
    assert (puller.port.ends, puller.subscription.pulls) == (0, 1)
    late.producer.send(Q, "eight", priority=8)
    late.finish()
    late.rig.clock.advance(6)
    assert (puller.texts[-1], puller.port.ends, puller.subscription.pulls) == ("eight", 0, 0)


def test_C3_a_message_that_answers_an_older_pull_leaves_the_new_one_to_its_end() -> None:
    late = LateRig()
    holder = late.consumer(prefetch=1)
    late.producer.send(Q, "held")
    puller = late.consumer(prefetch=0)
    puller.pull(5000)
    late.queue().dispatcher.pause()
    holder.close()
    late.queue().dispatcher.is_paused = False
    puller.pull(-1)
    assert (puller.texts, puller.port.ends, puller.subscription.pulls) == (["held"], 1, 0)


def test_C3_a_consumer_that_leaves_while_messages_are_read_for_its_pull_is_not_answered() -> None:
    late = LateRig()
    late.fill(3)
    puller = late.consumer(prefetch=0)
    puller.pull(-1)
    puller.close()
    late.finish()
    assert (puller.texts, puller.port.ends, puller.subscription.pulls) == ([], 0, 0)


def test_C3_a_pull_that_does_not_wait_does_not_wait_for_messages_of_other_consumers() -> None:
    late = LateRig()
    puller = late.consumer(prefetch=0, selector="JMSPriority = 9")
    late.fill()
    puller.pull(-1)
    late.finish()
    assert puller.port.ends == 1  # it has looked at all of them
    late.consumer(prefetch=1)
    assert late.store.asked
    puller.pull(-1)
    assert puller.port.ends == 2


def test_A2_a_browser_goes_on_when_messages_have_arrived() -> None:
    late = LateRig()
    late.fill()
    browser = late.consumer(browser=True, prefetch=1000)
    assert (browser.delivered, browser.port.ends) == ([], 0)
    late.finish()
    assert (browser.texts, browser.port.ends) == (texts(*range(COUNT)), 1)
    assert late.queue().view.paged_count == COUNT


def test_A2_a_browser_waits_for_each_of_several_batches() -> None:
    late = LateRig()
    late.fill()
    late.broker.pager.batch_messages = 8
    browser = late.consumer(browser=True, prefetch=1000)
    asked: list[int] = []
    while late.store.asked:
        assert len(late.store.asked) == 1
        asked.append(len(late.store.answer()))
        late.rig.clock.advance(0)
        late.rig.clock.advance(0)
    assert sum(asked) == COUNT
    assert len(asked) > 1
    assert (browser.texts, browser.port.ends) == (texts(*range(COUNT)), 1)


def test_A2_a_browser_that_leaves_while_messages_are_read_is_shown_nothing() -> None:
    late = LateRig()
    late.fill()
    browser = late.consumer(browser=True, prefetch=1000)
    browser.close()
    late.finish()
    assert (browser.texts, browser.port.ends) == ([], 0)


def test_B6_an_operator_moves_messages_when_they_have_arrived() -> None:
    late = LateRig()
    late.fill()
    counts: list[int] = []
    steps = late.broker.operations.move(BROKER, Selection(named(Q)), named("queue://target"))
    count_in_slices(late.broker.slices, steps, counts.append, _raise)
    late.rig.clock.advance(0)
    assert (counts, len(late.store.asked)) == ([], 1)
    late.finish()
    assert counts == [COUNT]
    assert late.queue("queue://target").view.pending_count == COUNT


def test_B6_what_cannot_be_read_is_lost_and_the_rest_goes_on() -> None:
    late = LateRig()
    late.is_audited = False
    late.fill(3)
    consumer = late.consumer()
    late.store.unreadable.add(late.store.asked[0][1][1])
    late.finish()
    assert consumer.texts == texts(0, 2)
    assert late.queue().contents.lost == 1


def test_B6_a_fetch_that_fails_is_tried_again_and_nothing_is_lost() -> None:
    late = LateRig()
    late.fill(5)
    consumer = late.consumer()
    late.store.fail()
    late.producer.send(Q, "5")
    assert (list(late.store.asked), consumer.texts) == ([], [])  # not at once, or it might fail without an end
    late.rig.clock.advance(1)
    assert len(late.store.asked) == 1
    assert late.drained(consumer) == texts(*range(6))
    assert (late.queue().contents.lost, late.broker.pager.under_way_bytes) == (0, 0)


def test_B6_a_fetch_that_fails_again_before_the_store_has_begun_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    late = LateRig()
    late.fill(5)
    consumer = late.consumer()
    late.store.fail()
    with monkeypatch.context() as patch:
        patch.setattr(late.store, "fetch", lambda *_: _raise(MemoryError()))
        late.rig.clock.advance(1)
    late.rig.clock.advance(1)
    assert late.drained(consumer) == texts(*range(5))


def test_B6_batches_grow_again_when_reads_do_not_hold_up_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    late = LateRig()
    late.fill(400)
    late.broker.flow.memory_bytes_max = 10**9
    pager, store = late.broker.pager, late.store

    def read_slowly(place: Place, sequences: list[int], on_loaded: OnLoaded, _: object) -> None:
        late.rig.clock.advance(1)
        on_loaded(store.load(place, sequences))

    with monkeypatch.context() as patch:
        patch.setattr(store, "fetch", read_slowly)
        consumer = late.consumer(prefetch=1)
    assert pager.batch_messages < BATCH_MESSAGES
    assert late.drained(consumer) == texts(*range(400))
    assert pager.batch_messages == BATCH_MESSAGES


def test_H3_what_waits_for_the_owner_of_a_group_is_read_while_others_are_served() -> None:
    late = LateRig()
    owner = late.consumer(prefetch=1)
    late.producer.send(Q, "first", group_id="g")
    late.broker.flow._tight_above_bytes = 0
    for n in range(3):
        late.producer.send(Q, f"{n}", group_id="g")
    other = late.consumer()
    owner.ack()
    owner.delivered.clear()
    assert late.store.asked
    late.producer.send(Q, "beside")
    late.finish()
    assert other.texts == ["beside"]
    assert late.drained(owner) == texts(0, 1, 2)


def test_H3_the_owner_of_a_group_that_leaves_while_its_messages_are_read_gives_them_back() -> None:
    late = LateRig()
    owner = late.consumer(prefetch=1)
    late.producer.send(Q, "first", group_id="g")
    late.broker.flow._tight_above_bytes = 0
    for n in range(3):
        late.producer.send(Q, f"{n}", group_id="g")
    other = late.consumer()
    owner.ack()
    assert late.store.asked
    owner.close()
    assert late.drained(other) == texts(0, 1, 2)
    assert late.queue().size_bytes == 0


def test_H3_what_waits_for_the_owner_of_a_group_is_shown_and_counted_in_batches() -> None:
    late = LateRig()
    late.broker.flow._tight_above_bytes = 0
    owner = late.consumer(prefetch=1)
    late.consumer(prefetch=1)
    count = 2 * BATCH_MESSAGES + 10
    for n in range(count):
        late.producer.send(Q, f"{n}", group_id="g")
    assert owner.texts == texts(0)
    assert isinstance(owner.subscription, QueueSubscription)
    assert len(owner.subscription.waiting_in[named(Q)]) == count - 1
    counts: list[int] = []
    steps = late.broker.operations.count(BROKER, Selection(named(Q)))
    count_in_slices(late.broker.slices, steps, counts.append, _raise)
    browser = late.consumer(browser=True, prefetch=count)
    asked: list[int] = []
    while late.store.asked or len(late.broker.slices):
        if late.store.asked:
            asked.append(len(late.store.answer()))
        late.rig.clock.advance(0)
    assert max(asked) <= BATCH_MESSAGES
    assert (browser.texts, browser.port.ends) == (texts(*range(count)), 1)
    assert counts == [count - 1]


def test_H3_what_leaves_while_earlier_batches_are_counted_is_not_counted() -> None:
    temp = FakeSpill()
    late = LateRig(temp=temp)
    late.broker.flow._tight_above_bytes = 0
    late.broker.pager.batch_messages = 2
    owner = late.consumer(prefetch=1)
    late.consumer(prefetch=1)
    for n in range(6):
        late.producer.send(Q, f"{n}", group_id="g", persistent=n < 3)
    assert isinstance(owner.subscription, QueueSubscription)
    assert len(owner.subscription.waiting_in[named(Q)]) == 5
    counts: list[int] = []
    steps = late.broker.operations.count(BROKER, Selection(named(Q)))
    count_in_slices(late.broker.slices, steps, counts.append, _raise)
    late.rig.clock.advance(0)
    assert late.store.asked
    purged(late.queue())
    late.finish()
    assert (counts, temp.frames) == ([0], {})


def test_B6_a_spilled_message_that_is_gone_before_the_store_answers_is_not_read_again() -> None:
    temp = FakeSpill()
    late = LateRig(temp=temp)
    late.fill(2)
    late.producer.send(Q, "spilled", persistent=False)
    consumer = late.consumer()
    assert late.store.asked
    purged(late.queue())
    late.finish()
    assert (consumer.delivered, temp.frames) == ([], {})


def test_B6_page_ins_of_many_queues_share_the_room_in_memory() -> None:
    late = LateRig()
    queues = [f"queue://q{n}" for n in range(10)]
    for where in queues:
        late.fill(where=where)
    size_bytes = late.queue(queues[0]).size_bytes // COUNT
    flow = late.broker.flow
    flow.memory_bytes_max = 3 * COUNT * size_bytes  # for three of the ten queues
    for where in queues:
        late.rig.connect().consumer(where, prefetch=1)
    assert len(late.store.asked) == len(queues)
    late.finish()
    assert flow.used_bytes <= flow.memory_bytes_max + len(queues) * size_bytes  # and one message for each consumer
    assert late.broker.pager.under_way_bytes == 0


def test_B6_what_arrives_when_its_consumer_has_left_leaves_memory_if_that_is_tight() -> None:
    late = LateRig()
    late.fill(3)
    late.consumer().close()
    late.finish()
    assert (late.queue().view.paged_count, late.broker.flow.used_bytes) == (3, 0)


def test_B6_what_arrives_in_a_queue_that_is_deleted_in_slices_is_not_lost(caplog: pytest.LogCaptureFixture) -> None:
    late = LateRig()
    late.fill(3000)
    queue = late.queue()
    late.broker.flow.memory_bytes_max = 10**9  # a batch is read ahead
    consumer = late.consumer()
    consumer.close()
    late.broker.operations.delete_destination(BROKER, named(Q))
    assert late.store.asked
    assert len(late.broker.slices) == 1
    late.store.answer_all()
    late.finish()
    assert (queue.contents.lost, queue.size_bytes, late.broker.flow.used_bytes) == (0, 0, 0)
    assert "lost" not in caplog.text


def _raise(error: Exception) -> None:
    raise error

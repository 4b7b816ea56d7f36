"""Queue browsers: a snapshot in order, an end, nothing taken."""

from ackwire.broker.paging import BATCH_BYTES, BATCH_MESSAGES
from ackwire.jms.types import Int
from tests.helpers.broker_rig import BrokerRig


def _filled(count: int) -> BrokerRig:
    rig = BrokerRig()
    producer = rig.connect()
    for n in range(count):
        producer.send("queue://q", f"{n}", properties={"n": Int(n % 2)})
    return rig


def test_a_browser_sees_everything_in_order_then_the_end_and_takes_nothing() -> None:
    rig = _filled(3)
    browser = rig.consumer("queue://q", prefetch=500, browser=True)
    assert browser.texts == ["0", "1", "2"]
    assert browser.port.ends == 1
    assert rig.pending("queue://q") == 3


def test_an_empty_queue_has_an_end() -> None:
    rig = BrokerRig()
    assert rig.consumer("queue://q", prefetch=500, browser=True).port.ends == 1


def test_a_browser_sees_what_is_in_flight_too() -> None:
    rig = _filled(4)
    rig.consumer("queue://q", prefetch=2)
    assert rig.consumer("queue://q", prefetch=500, browser=True).texts == ["0", "1", "2", "3"]


def test_a_browser_sees_no_more_than_what_was_there_when_it_began() -> None:
    rig = _filled(3)
    browser = rig.consumer("queue://q", prefetch=2, browser=True)
    rig.connect().send("queue://q", "new")
    rig.consumer("queue://q").ack_each()
    browser.ack(count=2)
    assert browser.texts == ["0", "1", "2"]
    assert browser.port.ends == 1


def test_there_is_no_hidden_cap() -> None:
    rig = _filled(3000)
    browser = rig.consumer("queue://q", prefetch=500, browser=True)
    while not browser.port.ends:
        browser.ack(count=500)
    assert len(browser.delivered) == 3000


def test_a_selector_applies() -> None:
    rig = _filled(4)
    assert rig.consumer("queue://q", prefetch=9, browser=True, selector="n = 1").texts == ["1", "3"]


def test_a_browser_of_one_queue_shows_no_message_of_another() -> None:
    """Copies that wait for a consumer of several queues belong each to its own."""
    rig = BrokerRig()
    rig.consumer("queue://q.*", prefetch=9)
    rig.connect().send("queue://q.a,q.b", "twin")
    for where in ("queue://q.a", "queue://q.b"):
        browser = rig.consumer(where, prefetch=9, browser=True)
        assert [repr(message.destination) for message in browser.delivered] == [where]


def test_B6_a_browser_that_stops_keeps_no_more_than_a_batch_of_what_is_consumed_meanwhile() -> None:
    rig = _filled(2000)
    browser = rig.consumer("queue://q", prefetch=1, browser=True)
    assert browser.texts == ["0"]
    consumer = rig.consumer("queue://q", prefetch=5000)
    consumer.ack_each()
    assert rig.pending("queue://q") == 0
    while not browser.port.ends:
        browser.ack(count=1)
    assert len(browser.delivered) <= BATCH_MESSAGES + 1, "what is gone is not shown, so it need not be kept"


def test_B6_a_browser_holds_a_batch_of_bounded_size() -> None:
    rig = BrokerRig()
    producer = rig.connect()
    for _ in range(20):
        producer.send("queue://q", "x" * 300_000)
    browser = rig.consumer("queue://q", prefetch=1, browser=True)
    rig.consumer("queue://q").ack_each()
    while not browser.port.ends:
        browser.ack(count=1)
    assert len(browser.delivered) <= BATCH_BYTES // 300_000 + 1


def test_a_browser_shows_what_a_consumer_got_after_it_began() -> None:
    rig = _filled(1000)
    browser = rig.consumer("queue://q", prefetch=1, browser=True)
    rig.consumer("queue://q", prefetch=5000)
    while not browser.port.ends:
        browser.ack(count=1)
    assert browser.texts == [f"{n}" for n in range(1000)]


def test_A8_a_browser_of_a_pattern_is_shown_every_queue_that_it_stands_for() -> None:
    rig = BrokerRig()
    producer = rig.connect()
    for name in ("o.a", "p", "o.b", "o.b.c"):
        producer.send(f"queue://{name}", name)
    browser = rig.consumer("queue://o.>", prefetch=500, browser=True)
    assert (browser.texts, browser.port.ends) == (["o.a", "o.b", "o.b.c"], 1)
    empty = rig.consumer("queue://nothing.*", prefetch=500, browser=True)
    assert (empty.texts, empty.port.ends) == ([], 1)

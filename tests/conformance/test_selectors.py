"""Selectors on queues and topics, as seen by their users (A7)."""

from collections.abc import Callable

import pytest

from tests.conformance.jms import AckMode, Jms, Outgoing, Value, bodies, text, texts
from tests.conformance.routes import BETTER_THAN_ACTIVEMQ
from tests.conformance.scenarios import drain, named_client, numbered
from tests.helpers.java import JavaError


def tagged(body: str, **properties: object) -> Outgoing:
    """A text message with properties of the Java types that Python's suggest."""
    types = {str: "string", bool: "boolean", int: "int", float: "double"}
    values = {name: Value(types[type(value)], value) for name, value in properties.items()}
    return text(body, properties=values)


MESSAGES = [
    tagged("a", color="red", size=1, weight=1.5),
    tagged("b", color="blue", size=2, fragile=True),
    tagged("c", size=10, note="it's 100%"),
    tagged("d", color="rebel", weight=10.0, fragile=False),
    text("e", type="special", correlation_id="corr"),
]

SELECTORS = {
    "color = 'red'": "a",
    "color <> 'red'": "bd",  # not those without a color
    "color IS NULL": "ce",
    "color IS NOT NULL": "abd",
    "NOT (color = 'red')": "bd",
    "color = 'red' OR size > 5": "ac",
    "color = 'red' AND size > 5": "",
    "size > 5 OR size IS NULL": "cde",
    "size BETWEEN 1 AND 2": "ab",
    "size NOT BETWEEN 1 AND 2": "c",
    "color IN ('red', 'blue')": "ab",
    "color NOT IN ('red', 'blue')": "d",
    "color LIKE 're%'": "ad",
    "color LIKE 're_'": "a",
    "color NOT LIKE 're%'": "b",
    "note LIKE '%100!%' ESCAPE '!'": "c",
    "note = 'it''s 100%'": "c",
    "fragile = TRUE": "b",
    "fragile": "b",
    "NOT fragile": "d",
    "size * 2 + 1 = 5": "b",
    "weight > size": "a",
    "weight / 2 = 5": "d",
    "size = 2.0": "b",
    "size >= 1e1": "c",
    "size = '2'": "",  # a string never equals a number
    "JMSType = 'special'": "e",
    "JMSCorrelationID = 'corr'": "e",
    "JMSPriority = 4": "abcde",
    "JMSDeliveryMode = 'PERSISTENT'": "abcde",
    "JMSMessageID LIKE 'ID:%'": "abcde",
    "JMSTimestamp > 0": "abcde",
    "1 = 1": "abcde",
    "": "abcde",
    "size > 0x5 AND size < 0xFF": "c",
}


def test_A7_selectors_choose_by_properties_and_headers(jms: Jms, tcp: str, queue: str, topic: str) -> None:
    """A7: each selector as a browser, which leaves the queue as it is, and as a topic subscriber, see it."""
    session = jms.connect(tcp).session(AckMode.AUTO)
    subscribers = {selector: session.consumer(topic, selector=selector) for selector in SELECTORS}
    jms.send(tcp, queue, *MESSAGES)
    jms.send(tcp, topic, *MESSAGES)
    browsed = {selector: "".join(bodies(session.browse(queue, selector))) for selector in SELECTORS}
    assert browsed == SELECTORS
    session.consumer(topic).close()
    heard = {
        selector: "".join(bodies(subscriber.receive_up_to(5, timeout_ms=1)))
        for selector, subscriber in subscribers.items()
    }
    assert heard == SELECTORS


@pytest.mark.parametrize(
    "selector", ["color =", "= 'red'", "color == 'red'", "(color = 'red'", "color LIKE 5", "color IN ()", "1", "'a'"]
)
@pytest.mark.parametrize("kind", ["queue", "topic", "durable", "browser"])
def test_A7_a_bad_selector_is_refused(jms: Jms, tcp: str, queue: str, topic: str, selector: str, kind: str) -> None:
    """A7: when the consumer is created; the session works on."""
    session = named_client(jms, tcp, topic).session()
    attempts: dict[str, Callable[[], object]] = {
        "queue": lambda: session.consumer(queue, selector=selector),
        "topic": lambda: session.consumer(topic, selector=selector),
        "durable": lambda: session.durable(topic, "durable", selector=selector),
        "browser": lambda: session.browse(queue, selector),
    }
    with pytest.raises(JavaError) as refused:
        attempts[kind]()
    assert refused.value.class_name == "javax.jms.InvalidSelectorException"
    session.producer(queue).send(text("m"))
    assert session.consumer(queue).receive_one().body == "m"


@pytest.mark.parametrize("depth", [150, pytest.param(5000, marks=BETTER_THAN_ACTIVEMQ)])
def test_A7_a_match_is_found_however_deep_in_the_queue(jms: Jms, tcp: str, queue: str, depth: int) -> None:
    """A7: behind messages that do not match, which all stay in place. ActiveMQ looks at 200 (maxPageSize)."""
    jms.send(tcp, queue, *texts(depth), tagged("needle", color="red"))
    with jms.connect(tcp) as connection:
        consumer = connection.session().consumer(queue, selector="color = 'red'")
        assert consumer.receive_one().body == "needle"
        jms.send(tcp, queue, tagged("second", color="red"))
        assert consumer.receive_one().body == "second"
    with jms.connect(tcp) as connection:
        assert bodies(connection.session().consumer(queue).receive_expected(depth)) == numbered(range(depth))


def test_A7_consumers_with_disjoint_selectors_share_a_queue(jms: Jms, tcp: str, queue: str) -> None:
    """A7, H1: each gets its own in order, whoever comes first; what no one wants stays."""
    colors = ["red", "blue", "green"]
    messages = [tagged(f"m{number}", color=colors[number % 3]) for number in range(60)]
    red = jms.connect(tcp).session().consumer(queue, selector="color = 'red'")
    jms.send(tcp, queue, *messages)
    blue = jms.connect(tcp).session().consumer(queue, selector="color = 'blue'")
    assert bodies(blue.receive_expected(20)) == numbered(range(1, 60, 3))
    assert bodies(red.receive_expected(20)) == numbered(range(0, 60, 3))
    assert red.receive_no_wait() is None
    for consumer in (red, blue):
        consumer.close()
    assert bodies(drain(jms, tcp, queue)) == numbered(range(2, 60, 3))


def test_A7_overlapping_selectors_never_share_a_message(jms: Jms, tcp: str, queue: str) -> None:
    """A7, A2: each message goes to one consumer that wants it."""
    small = jms.connect(tcp).session().consumer(queue, selector="size < 20")
    large = jms.connect(tcp).session().consumer(queue, selector="size >= 10")
    jms.send(tcp, queue, *(tagged(str(number), size=number) for number in range(30)))
    received: list[str] = []
    while len(received) < 30:
        news = bodies(small.receive_up_to(30, timeout_ms=50)) + bodies(large.receive_up_to(30, timeout_ms=50))
        assert news
        received += news
    assert sorted(map(int, received)) == list(range(30))


def test_A7_unmatched_messages_do_not_fill_the_prefetch(jms: Jms, tcp: str, queue: str) -> None:
    """A7, C2: only matching messages count."""
    consumer = (
        jms.connect(tcp).session(AckMode.CLIENT).consumer(f"{queue}?consumer.prefetchSize=3", selector="color = 'red'")
    )
    jms.send(tcp, queue, *(tagged(f"m{number}", color="red" if number % 10 == 9 else "blue") for number in range(50)))
    consumer.await_waiting(3)
    assert bodies(consumer.receive_expected(3)) == ["m9", "m19", "m29"]


def test_A7_a_topic_subscriber_with_a_selector_never_stalls(jms: Jms, tcp: str, topic: str) -> None:
    """A7, A3: hundreds of unmatched messages against a prefetch of five."""
    subscriber = jms.connect(tcp).session().consumer(f"{topic}?consumer.prefetchSize=5", selector="color = 'red'")
    jms.send(tcp, topic, *texts(300), tagged("match", color="red"), *texts(300), tagged("second", color="red"))
    assert bodies(subscriber.receive_expected(2)) == ["match", "second"]


@pytest.mark.pull
def test_A7_C3_a_pulling_consumer_may_have_a_selector(jms: Jms, tcp: str, queue: str) -> None:
    """A7, C3: the match behind others is found, and nothing is found without one."""
    consumer = jms.connect(tcp).session().consumer(f"{queue}?consumer.prefetchSize=0", selector="color = 'red'")
    jms.send(tcp, queue, *texts(5))
    assert consumer.receive(200) is None
    jms.send(tcp, queue, tagged("match", color="red"))
    assert consumer.receive_one().body == "match"


def test_A7_redelivered_messages_go_to_a_consumer_that_wants_them(jms: Jms, tcp: str, queue: str) -> None:
    """A7, D7: not to one whose selector does not match."""
    red = jms.connect(tcp).session(AckMode.CLIENT).consumer(queue, selector="color = 'red'")
    blue = jms.connect(tcp).session().consumer(queue, selector="color = 'blue'")
    jms.send(tcp, queue, tagged("r", color="red"))
    red.receive_one()
    red.close()
    blue.assert_nothing_comes()
    again = jms.connect(tcp).session().consumer(queue, selector="color LIKE 'r%'").receive_one()
    assert (again.body, again.redelivered) == ("r", True)

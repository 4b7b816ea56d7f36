"""Topic subscribers that cannot keep up, and those that come late (A3, C5)."""

import pytest

from tests.conformance.jms import ABSENCE_MS, NON_PERSISTENT, AckMode, Jms, bodies, text, texts
from tests.conformance.scenarios import named_client, numbered, under

BROKER_VARIANT = "policies"


def test_C5_a_slow_subscriber_neither_stops_the_producer_nor_the_others(jms: Jms, tcp: str, topic: str) -> None:
    """C5, A3: beyond prefetch and pending limit (10) it loses the oldest messages; others get all."""
    topic = under("evicting", topic)
    slow = jms.connect(tcp).session(AckMode.CLIENT).consumer(f"{topic}?consumer.prefetchSize=5")
    fast = jms.connect(tcp).session().consumer(topic)
    jms.send(tcp, topic, *texts(500), delivery_mode=NON_PERSISTENT)
    assert bodies(fast.receive_expected(500)) == numbered(range(500))
    slow.await_waiting(5)
    received = bodies(slow.receive_expected(15))
    assert received == numbered([*range(5), *range(490, 500)])
    slow.assert_nothing_comes()


def test_C5_a_subscriber_that_catches_up_misses_nothing_more(jms: Jms, tcp: str, topic: str) -> None:
    """C5: being slow is not for ever."""
    topic = under("evicting", topic)
    subscriber = jms.connect(tcp).session().consumer(f"{topic}?consumer.prefetchSize=5")
    jms.send(tcp, topic, *texts(100))
    subscriber.receive_expected(15)
    jms.send(tcp, topic, *texts(12, "n"))
    assert bodies(subscriber.receive_expected(12)) == numbered(range(12), "n")


def test_C5_a_subscriber_may_ask_for_a_lower_limit(jms: Jms, tcp: str, topic: str) -> None:
    """C5: consumer.maximumPendingMessageLimit in the name; it cannot raise the policy's."""
    topic = under("evicting", topic)
    session = jms.connect(tcp).session(AckMode.CLIENT)
    subscribers = [
        session.consumer(f"{topic}?consumer.prefetchSize=2&consumer.maximumPendingMessageLimit={limit}")
        for limit in (3, 1000)
    ]
    jms.send(tcp, topic, *texts(50))
    assert bodies(subscribers[0].receive_up_to(50)) == numbered([0, 1, 47, 48, 49])
    assert bodies(subscribers[1].receive_up_to(50)) == numbered([0, 1, *range(40, 50)])


def test_C5_without_a_limit_a_slow_subscriber_gets_everything(jms: Jms, tcp: str, topic: str) -> None:
    """C5: the default."""
    slow = jms.connect(tcp).session(AckMode.CLIENT).consumer(f"{topic}?consumer.prefetchSize=5")
    jms.send(tcp, topic, *texts(300))
    assert bodies(slow.receive_expected(300)) == numbered(range(300))


@pytest.mark.parametrize(
    ("policy", "option", "expected"),
    [
        ("recover-count", "?consumer.retroactive=true", ["m2", "m3", "m4"]),
        ("recover-count", "", []),
        ("recover-last", "?consumer.retroactive=true", ["m4"]),
        ("always-retroactive", "", ["m2", "m3", "m4"]),
        ("no-policy", "?consumer.retroactive=true", []),
    ],
)
def test_A3_a_retroactive_subscriber_gets_the_latest_messages_first(
    jms: Jms, tcp: str, topic: str, policy: str, option: str, expected: list[str]
) -> None:
    """A3: as many as the topic's policy kept, then what comes."""
    topic = under(policy, topic)
    jms.send(tcp, topic, *texts(5))
    subscriber = jms.connect(tcp).session().consumer(topic + option)
    jms.send(tcp, topic, text("live"))
    assert bodies(subscriber.receive_expected(len(expected) + 1)) == [*expected, "live"]


def test_A3_A7_recovered_messages_pass_the_selector(jms: Jms, tcp: str, topic: str) -> None:
    """A3, A7."""
    topic = under("recover-count", topic)
    jms.send(tcp, topic, *(text(f"m{number}", type=str(number % 2)) for number in range(5)))
    subscriber = jms.connect(tcp).session().consumer(f"{topic}?consumer.retroactive=true", selector="JMSType = '0'")
    jms.send(tcp, topic, text("live", type="0"))
    assert bodies(subscriber.receive_expected(3)) == ["m2", "m4", "live"]


@pytest.mark.parametrize(
    ("policy", "option", "expected"),
    [
        ("recover-count", "?consumer.retroactive=true", ["m2", "m3", "m4"]),
        ("recover-count", "", []),
        ("recover-last", "?consumer.retroactive=true", ["m4"]),
        ("always-retroactive", "", []),
        ("no-policy", "?consumer.retroactive=true", []),
    ],
)
def test_A3_a_retroactive_durable_subscriber_gets_them_too(
    jms: Jms, tcp: str, topic: str, policy: str, option: str, expected: list[str]
) -> None:
    """A3: when it is new, and when it comes back and nothing else waits for it; only if it asks."""
    topic = under(policy, topic)
    jms.send(tcp, topic, *texts(5))
    session = named_client(jms, tcp, topic).session()
    for name in ("durable", "another"):
        for _ in range(2):
            subscriber = session.durable(topic + option, name)
            assert bodies(subscriber.receive_up_to(5, timeout_ms=ABSENCE_MS)) == expected
            subscriber.close()
    jms.send(tcp, topic, text("away"))
    assert session.durable(topic + option, "durable").receive_one().body == "away"


def test_A3_a_new_retroactive_durable_subscriber_gets_what_waits_for_another(jms: Jms, tcp: str, topic: str) -> None:
    """A3: the persistent messages that the topic's store still has, and then what comes."""
    with named_client(jms, tcp, topic, "-other") as connection:
        connection.session().durable(topic, "other")
    jms.send(tcp, topic, text("volatile"), delivery_mode=NON_PERSISTENT)
    jms.send(tcp, topic, *texts(3))
    session = named_client(jms, tcp, topic).session()
    subscriber = session.durable(f"{topic}?consumer.retroactive=true", "durable")
    jms.send(tcp, topic, text("live"))
    assert bodies(subscriber.receive_expected(4)) == [*numbered(range(3)), "live"]
    ordinary = session.durable(topic, "ordinary")
    jms.send(tcp, topic, text("later"))
    assert ordinary.receive_one().body == "later"


@pytest.mark.parametrize("durable", [True, False], ids=["durable", "non-durable"])
def test_A3_a_retroactive_no_local_subscriber_does_not_get_its_own_messages(
    jms: Jms, tcp: str, topic: str, durable: bool
) -> None:
    """A3: those of its own connection that the topic has kept."""
    topic = under("recover-count", topic)
    session = named_client(jms, tcp, topic).session()
    session.producer(topic).send(text("own"))
    jms.send(tcp, topic, text("another's"))
    session.producer(topic).send(text("own"))
    name = f"{topic}?consumer.retroactive=true"
    subscriber = session.durable(name, "d", no_local=True) if durable else session.consumer(name, no_local=True)
    jms.send(tcp, topic, text("live"))
    assert bodies(subscriber.receive_expected(2)) == ["another's", "live"]

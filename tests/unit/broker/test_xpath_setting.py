"""`[selectors] xpath`: who may use XPATH, and what becomes of those who did when it is switched off (SEMANTICS A7)."""

import pytest

from ackwire.errors import InvalidSelector
from tests.helpers.broker_rig import BrokerRig, named

XPATH = "XPATH '/a/b'"
ALLOWED = {"selectors": {"xpath": True}}


def test_A7_consumers_select_by_the_xml_in_bodies() -> None:
    rig = BrokerRig(settings=ALLOWED)
    queue, topic = rig.consumer("queue://q", selector=XPATH), rig.consumer("topic://t", selector=XPATH)
    producer = rig.connect()
    for text in ("<a><b/></a>", "<a/>", "b", None):
        producer.send("queue://q", text)
        producer.send("topic://t", text)
    assert (queue.texts, topic.texts) == (["<a><b/></a>"], ["<a><b/></a>"])
    assert rig.pending("queue://q") == 3


def test_A7_a_search_for_xml_is_cut_into_slices() -> None:
    rig = BrokerRig(settings=ALLOWED)
    producer = rig.connect()
    for _ in range(20):
        producer.send("queue://q", "<a/>")
    producer.send("queue://q", "<a><b/></a>")
    consumer = rig.consumer("queue://q", selector=XPATH)
    assert consumer.texts == []
    for _ in range(20):
        rig.clock.advance(0)
    assert consumer.texts == ["<a><b/></a>"]


def test_A7_xpath_is_refused_by_default() -> None:
    rig = BrokerRig()
    with pytest.raises(InvalidSelector, match="not offered"):
        rig.consumer("queue://q", selector=XPATH)


def test_A7_the_broker_starts_without_it_though_subscriptions_and_cursors_have_it() -> None:
    rig = BrokerRig(settings=ALLOWED)
    rig.connect("c").consumer("topic://t", subscription_name="s", selector=XPATH)
    rig.broker.cursors.open("reader", named("queue://q"), XPATH)
    again = rig.restarted()
    again.connect().send("topic://t", "kept though it cannot be judged")
    assert len(again.broker.registry.durables) == 1
    assert [it.name for it in again.broker.cursors.all()] == ["reader"]

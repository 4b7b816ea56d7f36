"""Questions to the broker: what the audit sees of them."""

from tests.helpers.broker_rig import BrokerRig

QUESTION = {"subject": "queue", "name": "x"}


def test_neither_a_question_nor_its_answer_is_in_the_audit() -> None:
    rig = BrokerRig()
    rig.broker.answer_questions()
    client = rig.connect("asker")
    replies = client.temporary_queue()
    consumer = client.consumer(replies)
    rig.audit.events.clear()
    client.send("queue://Ackwire.Why", properties=QUESTION, reply_to=replies)
    rig.clock.advance(0.1)
    consumer.ack()
    assert consumer.properties()["found"] is False
    assert rig.audit.events == []


def test_an_answer_to_a_queue_that_holds_other_messages_is_audited_with_them() -> None:
    rig = BrokerRig()
    rig.broker.answer_questions()
    client = rig.connect("asker")
    replies = client.temporary_queue()
    client.send(replies, "mine")
    client.send("queue://Ackwire.Why", properties=QUESTION, reply_to=replies)
    rig.clock.advance(0.1)
    assert rig.audit.names(repr(replies)) == ["stored", "stored"]

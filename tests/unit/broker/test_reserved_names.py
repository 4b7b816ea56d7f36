"""What is the broker's own: no client answers in its place, and nothing that clients choose is printed as it is."""

import pytest

from ackwire.errors import NotAuthorised
from ackwire.why.protocol import ANSWER, NAME, QUESTIONS, SUBJECT
from tests.helpers.broker_rig import BrokerRig, RigClient, named


@pytest.fixture
def rig() -> BrokerRig:
    rig = BrokerRig()
    rig.broker.answer_questions()
    return rig


def ask(rig: BrokerRig, client: RigClient, subject: str, name: str) -> str:
    reply_to = client.temporary_queue()
    consumer = client.consumer(reply_to)
    client.send(QUESTIONS, properties={SUBJECT: subject, NAME: name}, reply_to=reply_to, persistent=False)
    rig.clock.advance(0.1)
    return str(consumer.properties()[ANSWER])


@pytest.mark.parametrize(
    "where", ["queue://Ackwire.Why", "queue://a,Ackwire.Why", "queue://Ackwire.>", "topic://Ackwire.x"]
)
@pytest.mark.parametrize("browser", [False, True])
def test_no_client_consumes_what_is_the_brokers(rig: BrokerRig, where: str, browser: bool) -> None:
    with pytest.raises(NotAuthorised, match="the broker's own"):
        rig.consumer(where, browser=browser)


@pytest.mark.parametrize("pattern", [">", "*.Why"])
def test_no_pattern_reaches_the_questions(rig: BrokerRig, pattern: str) -> None:
    thief = rig.consumer(f"queue://{pattern}", priority=100)
    assert "does not exist" in ask(rig, rig.connect(), "queue", "q")
    assert thief.texts == []


def test_pattern_that_was_there_before_the_questions_does_not_reach_them() -> None:
    rig = BrokerRig()
    thief = rig.consumer("queue://>")
    rig.broker.answer_questions()
    assert "does not exist" in ask(rig, rig.connect(), "queue", "q")
    assert thief.texts == []


def test_no_client_creates_deletes_or_sends_to_other_names_of_the_broker(rig: BrokerRig) -> None:
    client = rig.connect()
    for where in (named("queue://Ackwire.Why"), named("queue://Ackwire.new"), named("topic://Ackwire.new")):
        with pytest.raises(NotAuthorised):
            rig.broker.add_destination(client.connection, where)
        with pytest.raises(NotAuthorised):
            rig.broker.remove_destination(client.connection, where)
    for name in ("queue://Ackwire.new", "topic://Ackwire.new", "queue://a,Ackwire.new"):
        with pytest.raises(NotAuthorised):
            client.send(name)
    with pytest.raises(NotAuthorised):
        rig.broker.cursors.open("c", QUESTIONS)


def test_answer_is_one_line_for_each_sentence_whatever_clients_are_called(rig: BrokerRig) -> None:
    evil = rig.connect("evil\n\x1b[2J\u202e")
    evil.consumer("queue://q")
    answer = ask(rig, rig.connect(), "consumer", f"{evil.connection.connection_id}:1:1")
    assert all(line.isprintable() for line in answer.split("\n"))
    assert answer.count("\n") == 0
    assert "\\x1b[2J" in answer


@pytest.mark.parametrize("known_part", ["I", "ID:victim", "ID:victim:1:1"])
def test_A8_no_client_makes_the_reply_queue_of_another(rig: BrokerRig, known_part: str) -> None:
    """It would get the replies: part of the owner's id is not the owner's id."""
    victim = rig.connect("victim:1")
    thief = rig.connect(known_part.removeprefix("ID:") or known_part)
    with pytest.raises(NotAuthorised):
        rig.broker.add_destination(thief.connection, named(f"temp-queue://{victim.connection.connection_id}:1"))

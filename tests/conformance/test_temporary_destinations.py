"""Temporary queues and topics: made, used by others, owned by one connection, gone with it (A8)."""

import time

import pytest

from tests.conformance.jms import ARRIVAL_TIMEOUT_MS, AckMode, Connection, Jms, Producer, bodies, text, texts
from tests.helpers.java import JavaError

pytestmark = pytest.mark.temporary_destinations

KINDS = ["temp-queue", "temp-topic"]
GONE = "org.apache.activemq.DestinationDoesNotExistException"


def make(connection: Connection, kind: str) -> str:
    session = connection.session()
    return session.temporary_queue() if kind == "temp-queue" else session.temporary_topic()


def await_refused(connection: Connection, producer: Producer, destination: str) -> None:
    """Return once the destination is gone for the connection: for its producer and for new ones."""
    deadline = time.monotonic() + ARRIVAL_TIMEOUT_MS / 1000
    refused = ""
    while not refused:
        assert time.monotonic() < deadline, "sends to a deleted destination succeed"
        try:
            producer.send(text("too late"))
        except JavaError as error:
            refused = error.class_name
    # The client refuses once it was told by an advisory; before that the broker does.
    assert refused in ("javax.jms.InvalidDestinationException", GONE)
    with pytest.raises(JavaError) as info:
        connection.session().producer(destination)
    assert info.value.class_name == GONE
    assert destination in info.value.message


@pytest.mark.parametrize("kind", KINDS)
def test_A8_another_connection_may_send_to_a_temporary_destination(jms: Jms, tcp: str, kind: str) -> None:
    """A8: a connection that was open before it was made, and one that came after."""
    early = jms.connect(tcp)
    owner = jms.connect(tcp)
    name = make(owner, kind)
    assert name.startswith(f"{kind}://ID:")
    consumer = owner.session().consumer(name)
    for connection in (early, jms.connect(tcp), owner):
        connection.session().producer(name).send(*texts(2))
    assert bodies(consumer.receive_expected(6)) == ["m0", "m1"] * 3


@pytest.mark.parametrize("kind", KINDS)
def test_A8_only_the_owner_may_consume(jms: Jms, tcp: str, kind: str) -> None:
    """A8: another connection is refused; any session of the owner may."""
    owner, other = jms.connect(tcp), jms.connect(tcp)
    name = make(owner, kind)
    owner.session().consumer(name)
    with pytest.raises(JavaError) as refused:
        other.session().consumer(name)
    assert refused.value.class_name == "javax.jms.InvalidDestinationException"
    assert refused.value.message == "Cannot use a Temporary destination from another Connection"


@pytest.mark.parametrize("kind", KINDS)
def test_A8_a_deleted_temporary_destination_is_gone_for_everyone(jms: Jms, tcp: str, kind: str) -> None:
    """A8: owner and others are told so when they send."""
    owner, other = jms.connect(tcp), jms.connect(tcp)
    name = make(owner, kind)
    producers = [(connection, connection.session().producer(name)) for connection in (owner, other)]
    for _, producer in producers:
        producer.send(text("m"))
    owner.delete_temporary(name)
    for connection, producer in producers:
        await_refused(connection, producer, name)


@pytest.mark.parametrize("kind", KINDS)
def test_A8_a_temporary_destination_in_use_cannot_be_deleted(jms: Jms, tcp: str, kind: str) -> None:
    """A8: not while it has a consumer; then it can."""
    owner = jms.connect(tcp)
    name = make(owner, kind)
    consumer = owner.session().consumer(name)
    with pytest.raises(JavaError) as refused:
        owner.delete_temporary(name)
    assert refused.value.class_name == "javax.jms.JMSException"
    assert "active subscription" in refused.value.message or "A consumer is consuming" in refused.value.message
    consumer.close()
    owner.delete_temporary(name)


@pytest.mark.parametrize("kind", KINDS)
def test_A8_a_temporary_destination_goes_with_its_connection(jms: Jms, tcp: str, kind: str) -> None:
    """A8: closing is enough; a client that sends afterwards is refused."""
    other = jms.connect(tcp)
    with jms.connect(tcp) as owner:
        name = make(owner, kind)
        owner.session().consumer(name)
        producer = other.session().producer(name)
        producer.send(text("m"))
    await_refused(other, producer, name)


@pytest.mark.parametrize("kind", KINDS)
def test_A8_a_temporary_destination_goes_with_its_killed_client(jms: Jms, doomed_jms: Jms, tcp: str, kind: str) -> None:
    """A8: as if closed."""
    other = jms.connect(tcp)
    name = make(doomed_jms.connect(tcp), kind)
    producer = other.session().producer(name)
    producer.send(text("m"))
    doomed_jms.kill()
    await_refused(other, producer, name)


def test_A8_a_temporary_queue_keeps_messages_like_any_queue(jms: Jms, tcp: str) -> None:
    """A8, A2: before there is a consumer; unacknowledged ones come back."""
    owner = jms.connect(tcp)
    name = make(owner, "temp-queue")
    jms.send(tcp, name, *texts(3))
    consumer = owner.session(AckMode.CLIENT).consumer(name)
    consumer.receive_expected(2)
    consumer.close()
    received = owner.session().consumer(name).receive_expected(3)
    assert [message.redelivered for message in received] == [True, True, False]


def test_A8_many_clients_ask_one_server_through_temporary_queues(jms: Jms, tcp: str, queue: str) -> None:
    """A8: each gets its own answers."""
    server = jms.connect(tcp).session()
    requests, replies = server.consumer(queue), server.producer(None)
    clients = []
    for number in range(5):
        session = jms.connect(tcp).session()
        name = session.temporary_queue()
        clients.append(session.consumer(name))
        session.producer(queue).send(*(text(f"{number}.{i}", reply_to=name, correlation_id=str(i)) for i in range(3)))
    for request in requests.receive_expected(15):
        assert request.reply_to is not None
        replies.send_to(request.reply_to, text(f"re {request.body}", correlation_id=request.correlation_id))
    for number, client in enumerate(clients):
        answers = client.receive_expected(3)
        assert bodies(answers) == [f"re {number}.{i}" for i in range(3)]
        assert [answer.correlation_id for answer in answers] == ["0", "1", "2"]


def test_A8_a_reply_to_a_requester_that_left_is_refused(jms: Jms, tcp: str, queue: str) -> None:
    """A8: the server learns it and goes on with the next request."""
    server = jms.connect(tcp)
    session = server.session()
    requests = session.consumer(queue)
    with jms.connect(tcp) as client:
        name = make(client, "temp-queue")
        client.session().producer(queue).send(text("question", reply_to=name))
        request = requests.receive_one()
        assert request.reply_to == name
        replies = session.producer(name)
    await_refused(server, replies, name)
    jms.send(tcp, queue, text("next"))
    assert requests.receive_one().body == "next"


def test_A8_a_transaction_may_use_temporary_queues(jms: Jms, tcp: str) -> None:
    """A8, G1: a reply is seen at commit."""
    owner = jms.connect(tcp)
    name = make(owner, "temp-queue")
    consumer = owner.session().consumer(name)
    session = jms.connect(tcp).transacted_session()
    session.producer(name).send(text("m"))
    consumer.assert_nothing_comes()
    session.commit()
    assert consumer.receive_one().body == "m"

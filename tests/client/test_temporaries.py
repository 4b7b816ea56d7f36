"""Temporary queues and topics: made, used by others, owned by one connection, gone with it (A8)."""

import threading
import time
from collections.abc import Callable

import pytest

import ackwire
from ackwire import AckMode, Connection, Destination, InvalidDestinationError, Message, Session
from tests.client.brokers import Broker
from tests.client.conftest import Connect
from tests.client.steps import ARRIVAL_SECONDS, assert_nothing_comes, receive, receive_all, send, text_of, texts
from tests.conformance.proxy import CuttableProxy

Make = Callable[[Session], Destination]

both_kinds = pytest.mark.parametrize(
    "make", [Session.temporary_queue, Session.temporary_topic], ids=["temp-queue", "temp-topic"]
)


def await_refused(connection: Connection, where: Destination) -> InvalidDestinationError:
    """Send until that is refused: whoever is not told by an advisory yet is told by the broker."""
    deadline = time.monotonic() + ARRIVAL_SECONDS
    while True:
        assert time.monotonic() < deadline, "sends to a deleted destination succeed"
        try:
            connection.session().send(where, "too late")
        except InvalidDestinationError as error:
            return error


@both_kinds
def test_A8_anybody_may_send_to_a_temporary_destination(connect: Connect, make: Make) -> None:
    """A8: a connection that was open before it was made, one that came after, and its owner."""
    early, owner = connect(), connect()
    where = make(owner.session())
    assert where.kind.is_temporary
    consumer = owner.session().consumer(where)
    for connection in (early, connect(), owner):
        connection.session().send(where, "m")
    assert texts(receive_all(consumer, 3)) == ["m"] * 3


@both_kinds
def test_A8_only_the_connection_that_made_it_may_consume(connect: Connect, make: Make) -> None:
    """A8: any session of it; another connection is refused."""
    owner, other = connect(), connect()
    where = make(owner.session())
    owner.session().consumer(where)
    with pytest.raises(InvalidDestinationError, match="another connection"):
        other.session().consumer(where)


@both_kinds
def test_A8_a_deleted_temporary_destination_is_gone_for_everyone(connect: Connect, make: Make) -> None:
    """A8, B3: owner and others are told so when they send; the owner cannot consume from it."""
    owner, other = connect(), connect()
    session = owner.session()
    where = make(session)
    other.session().send(where, "m")
    owner.delete_temporary(where)
    with pytest.raises(InvalidDestinationError, match="deleted"):
        session.send(where, "too late")
    with pytest.raises(InvalidDestinationError, match="deleted"):
        session.consumer(where)
    with pytest.raises(InvalidDestinationError, match="deleted"):
        owner.delete_temporary(where)
    await_refused(other, where)


@both_kinds
def test_A8_without_advisories_the_broker_refuses(broker: Broker, connect: Connect, make: Make) -> None:
    """A8: jms.watchTopicAdvisories=false; the broker's error is the right class."""
    owner = connect()
    where = make(owner.session())
    owner.delete_temporary(where)
    other = connect(broker.url_with(jms__watchTopicAdvisories=False))
    error = await_refused(other, where)
    assert isinstance(error, ackwire.DestinationGoneError)
    assert error.java_class == "org.apache.activemq.DestinationDoesNotExistException"


@both_kinds
def test_A8_a_temporary_destination_in_use_cannot_be_deleted(connection: Connection, make: Make) -> None:
    """A8: not while it has a consumer; then it can. Those of others cannot be deleted at all."""
    where = make(connection.session())
    consumer = connection.session().consumer(where)
    with pytest.raises(ackwire.IllegalStateError, match="consumer"):
        connection.delete_temporary(where)
    consumer.close()
    connection.delete_temporary(where)


def test_A8_only_own_temporary_destinations_can_be_deleted(connect: Connect, queue: str) -> None:
    """A8."""
    where = connect().session().temporary_queue()
    connection = connect()
    with pytest.raises(InvalidDestinationError, match="does not belong"):
        connection.delete_temporary(where)
    with pytest.raises(InvalidDestinationError, match="not temporary"):
        connection.delete_temporary(ackwire.parse_destination(queue))


@both_kinds
@pytest.mark.parametrize("ending", ["closed", "cut"])
def test_A8_a_temporary_destination_goes_with_its_connection(
    proxy: CuttableProxy, connect: Connect, make: Make, ending: str
) -> None:
    """A8: closed or lost."""
    owner = connect(f"tcp://127.0.0.1:{proxy.port}")
    owner.on_error = lambda _: None
    other = connect()
    where = make(owner.session())
    other.session().send(where, "m")
    if ending == "closed":
        owner.close()
    else:
        proxy.cut()
    await_refused(other, where)


def test_A8_a_temporary_destination_outlives_its_session(connection: Connection) -> None:
    """A8: it belongs to the connection."""
    with connection.session() as session:
        where = session.temporary_queue()
    with connection.session() as session:
        session.send(where, "m")
        assert text_of(receive(session.consumer(where))) == "m"


def test_A8_names_of_temporary_destinations_are_never_the_same(connect: Connect) -> None:
    """A8: of one connection, of one session, of several."""
    sessions = [connection.session() for connection in (connect(), connect()) for _ in range(2)]
    assert len({session.temporary_queue() for session in sessions for _ in range(5)}) == 20


# ---- request and reply -----------------------------------------------------------------------------------------


def answer(server: Connection, queue: str, count: int = 1) -> threading.Thread:
    """Answers *count* requests, by hand."""

    def serve() -> None:
        with server.session() as session, session.consumer(queue) as requests, session.producer() as replies:
            for _ in range(count):
                request = receive(requests)
                replies.send(f"re {text_of(request)}", destination=request.reply_to, correlation_id=request.message_id)

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def test_A8_a_request_is_answered_on_a_temporary_queue(connect: Connect, queue: str) -> None:
    """A8: `Session.request` sends, waits, and leaves nothing behind."""
    client = connect()
    server = answer(connect(), queue, 3)
    session = client.session()
    replies = [session.request(queue, f"question {number}", properties={"n": number}) for number in range(3)]
    assert texts(replies) == [f"re question {number}" for number in range(3)]
    server.join(10)
    for reply in replies:
        assert reply.correlation_id is not None
        assert reply.destination is not None
        with pytest.raises(InvalidDestinationError, match="deleted"):
            session.send(reply.destination, "too late")


def test_A8_a_request_that_nobody_answers_says_so(connection: Connection, queue: str) -> None:
    """A8: after its time, naming destination and time; the session works on."""
    session = connection.session()
    with pytest.raises(ackwire.RequestTimedOutError, match=r"no answer to .* within 0\.2 s"):
        session.request(queue, "question", timeout_seconds=0.2)
    assert text_of(receive(session.consumer(queue))) == "question"


def test_A8_a_request_in_a_transaction_is_refused(connection: Connection, queue: str) -> None:
    """A8, G1: it would only be sent at the commit that comes after the answer."""
    with pytest.raises(ackwire.IllegalStateError, match="another session"):
        connection.session(transacted=True).request(queue, "question")


@pytest.mark.parametrize("mode", [AckMode.AUTO, AckMode.CLIENT, AckMode.DUPS_OK, AckMode.INDIVIDUAL])
def test_A8_a_request_works_in_every_mode(connect: Connect, queue: str, mode: AckMode) -> None:
    """A8, D: the reply queue goes, acknowledged or not."""
    server = answer(connect(), queue)
    assert text_of(connect().session(mode).request(queue, "question")) == "re question"
    server.join(10)


def test_A8_many_clients_get_their_own_answers_by_hand(connect: Connect, queue: str) -> None:
    """A8: correlation id and reply-to, as applications do it."""
    server = connect()
    clients: list[tuple[Session, Destination]] = []
    for number in range(3):
        session = connect().session()
        replies = session.temporary_queue()
        clients.append((session, replies))
        for question in range(3):
            session.send(queue, f"{number}.{question}", reply_to=replies, correlation_id=str(question))
    session = server.session()
    requests, producer = session.consumer(queue), session.producer()
    for request in receive_all(requests, 9):
        producer.send(f"re {text_of(request)}", destination=request.reply_to, correlation_id=request.correlation_id)
    for number, (client, replies) in enumerate(clients):
        answers = receive_all(client.consumer(replies), 3)
        assert texts(answers) == [f"re {number}.{question}" for question in range(3)]
        assert [message.correlation_id for message in answers] == ["0", "1", "2"]


def test_A8_a_reply_to_a_requester_that_left_is_refused(connect: Connect, queue: str) -> None:
    """A8: the server learns it and goes on with the next request."""
    server, client = connect(), connect()
    requests = server.session().consumer(queue)
    client.session().send(queue, "question", reply_to=client.session().temporary_queue())
    request = receive(requests)
    client.close()
    assert request.reply_to is not None
    await_refused(server, request.reply_to)
    send(connect(), queue, "next")
    assert text_of(receive(requests)) == "next"


def test_A8_G1_a_transaction_may_use_temporary_queues(connect: Connect) -> None:
    """A8, G1: a reply is seen at commit."""
    owner = connect()
    where = owner.session().temporary_queue()
    consumer = owner.session().consumer(where)
    session = connect().session(transacted=True)
    session.send(where, "m")
    assert_nothing_comes(consumer)
    session.commit()
    assert text_of(receive(consumer)) == "m"


def test_A8_a_listener_may_answer(connect: Connect, queue: str) -> None:
    """A8, C1: the usual server."""
    session = connect().session()
    replies = session.producer()

    def serve(request: Message) -> None:
        replies.send(f"re {text_of(request)}", destination=request.reply_to)

    session.consumer(queue).listener = serve
    assert text_of(connect().session().request(queue, "question")) == "re question"

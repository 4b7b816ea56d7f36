"""Connections: transports, client ids, keep-alive, life cycles, options, temporary queues (A1, A8, H2, J)."""

import time

import pytest

from tests.conformance.jms import AckMode, Jms, bodies, text, texts, with_options
from tests.conformance.routes import CORE_ROUTES, OTHER_ROUTES, Broker
from tests.helpers.java import JavaError

IDLE_SECONDS = 5.0  # more than three inactivity periods of the test below


@pytest.mark.parametrize("route", OTHER_ROUTES)
def test_J1_every_listener_scheme_serves_the_client(jms: Jms, broker: Broker, queue: str, route: str) -> None:
    """J1: nio+ssl, and auto, which finds out by itself that this is OpenWire."""
    url = broker.url(route)
    jms.send(url, queue, *texts(20))
    with jms.connect(url) as connection:
        received = connection.session().consumer(queue).receive_expected(20)
    assert bodies(received) == [f"m{number}" for number in range(20)]


def test_J1_a_message_sent_over_one_transport_is_received_over_another(jms: Jms, broker: Broker, queue: str) -> None:
    """J1: all listeners serve one broker."""
    for route in CORE_ROUTES:
        jms.send(broker.url(route), queue, text(route))
    for route, next_route in zip(CORE_ROUTES, [*list(CORE_ROUTES)[1:], "tcp"], strict=True):
        with jms.connect(broker.url(next_route)) as connection:
            assert connection.session().consumer(queue).receive_one().body == route


def test_J3_idle_connections_stay_up_on_keep_alives_and_then_work(jms: Jms, broker: Broker, queue: str) -> None:
    """J3: with an inactivity limit of 1.5 s on either side, five idle seconds break nothing."""
    options = {"wireFormat__maxInactivityDuration": 1500, "wireFormat__maxInactivityDurationInitalDelay": 500}
    connections = [jms.connect(broker.url(route, **options)) for route in CORE_ROUTES]
    sessions = [connection.session() for connection in connections]
    time.sleep(IDLE_SECONDS)  # being idle is the point
    for number, session in enumerate(sessions):
        own_queue = f"{queue}.{number}"
        session.producer(own_queue).send(text("awake"))
        assert session.consumer(own_queue).receive_one().body == "awake"


def test_J3_a_connection_without_inactivity_monitor_works(jms: Jms, url: str, queue: str) -> None:
    """J3: wireFormat.maxInactivityDuration=0 turns the monitor off."""
    with jms.connect(with_options(url, wireFormat__maxInactivityDuration=0)) as connection:
        session = connection.session()
        session.producer(queue).send(text("m"))
        assert session.consumer(queue).receive_one().body == "m"


def test_A1_a_client_id_can_be_in_use_only_once(jms: Jms, url: str, queue: str) -> None:
    """A1: the second connection is refused with InvalidClientIDException; the first works on."""
    named = with_options(url, jms__clientID=f"client-of-{queue.removeprefix('queue://')}")
    first = jms.connect(named)
    with pytest.raises(JavaError) as refused:
        jms.connect(named)
    assert refused.value.class_name == "javax.jms.InvalidClientIDException"
    session = first.session()
    session.producer(queue).send(text("still here"))
    assert session.consumer(queue).receive_one().body == "still here"


def test_A1_a_client_id_is_free_again_after_close(jms: Jms, url: str, queue: str) -> None:
    """A1: the id goes with the connection."""
    name = f"client-of-{queue.removeprefix('queue://')}"
    named = with_options(url, jms__clientID=name)
    for _ in range(3):
        with jms.connect(named) as connection:
            assert connection.facts().client_id == name


def test_A1_a_client_id_is_free_again_after_its_owner_was_killed(
    jms: Jms, doomed_jms: Jms, tcp: str, queue: str
) -> None:
    """A1: the broker notices a dead peer at once, so the id is free within moments."""
    named = with_options(tcp, jms__clientID=f"client-of-{queue.removeprefix('queue://')}")
    doomed_jms.connect(named)
    doomed_jms.kill()
    deadline = time.monotonic() + 5
    while True:
        try:
            return jms.connect(named).close()
        except JavaError:
            assert time.monotonic() < deadline, "the id is still taken"


def test_A1_connections_open_and_close_without_error(jms: Jms, url: str) -> None:
    """A1: started or not, with a session or without."""
    for start in (False, True):
        with jms.connect(url, start=start):
            pass
        with jms.connect(url, start=start) as connection:
            connection.session()


def test_A1_sessions_producers_and_consumers_come_and_go(jms: Jms, url: str, queue: str) -> None:
    """A1: fifty rounds on one connection, which is as good as new afterwards."""
    with jms.connect(url) as connection:
        connection.churn(queue, 50)
        session = connection.session()
        session.producer(queue).send(*texts(10))
        assert len(session.consumer(queue).receive_expected(10)) == 10


def test_A1_closing_one_session_leaves_the_others_at_work(jms: Jms, url: str, queue: str) -> None:
    """A1: sessions of one connection are independent."""
    connection = jms.connect(url)
    closing, staying = connection.session(AckMode.CLIENT), connection.session()
    closing_consumer = closing.consumer(queue)
    jms.send(url, queue, *texts(4))
    closing_consumer.receive_expected(1)
    consumer = staying.consumer(queue)
    closing.close()
    assert bodies(consumer.receive_expected(4)) == ["m0", "m1", "m2", "m3"]
    staying.producer(queue).send(text("after"))
    assert consumer.receive_one().body == "after"


def test_A1_many_connections_work_side_by_side(jms: Jms, url: str, topic: str) -> None:
    """A1, A3: twenty connections, each a subscriber."""
    subscribers = [jms.connect(url).session().consumer(topic) for _ in range(20)]
    jms.send(url, topic, text("to all"))
    assert [subscriber.receive_one().body for subscriber in subscribers] == ["to all"] * 20


def test_J2_a_small_marshalling_cache_is_reused_over_and_over(jms: Jms, broker: Broker, queue: str) -> None:
    """J2: more producers, consumers and destinations than the negotiated cache has slots.

    The Java client keeps 100 slots free and spins for ever if there are no more than those.
    """
    with jms.connect(broker.url("tight-cached", wireFormat__cacheSize=128)) as connection:
        session = connection.session()
        for number in range(100):
            name = f"{queue}.{number}"
            consumer, producer = session.consumer(name), session.producer(name)
            producer.send(text(name, reply_to=f"{name}.reply"))
            message = consumer.receive_one()
            assert (message.body, message.destination, message.reply_to) == (name, name, f"{name}.reply")


def test_H2_a_consumer_of_higher_priority_is_served_first(jms: Jms, url: str, queue: str) -> None:
    """H2: ?consumer.priority; others get what exceeds its prefetch."""
    low = jms.connect(url).session(AckMode.CLIENT).consumer(queue)
    high = jms.connect(url).session(AckMode.CLIENT).consumer(f"{queue}?consumer.priority=10&consumer.prefetchSize=5")
    jms.send(url, queue, *texts(8))
    high.await_waiting(5)
    assert bodies(low.receive_expected(3)) == ["m5", "m6", "m7"]
    assert bodies(high.receive_expected(5)) == ["m0", "m1", "m2", "m3", "m4"]


@pytest.mark.parametrize("dispatch_async", ["true", "false"])
def test_A8_consumer_dispatch_async_may_be_set_on_the_destination(
    jms: Jms, url: str, queue: str, dispatch_async: str
) -> None:
    """A8: an option in the name changes how, not what is delivered; the name stays without it."""
    consumer = jms.connect(url).session().consumer(f"{queue}?consumer.dispatchAsync={dispatch_async}")
    jms.send(url, queue, *texts(20))
    received = consumer.receive_expected(20)
    assert bodies(received) == [f"m{number}" for number in range(20)]
    assert {message.destination for message in received} == {queue}


@pytest.mark.temporary_destinations
def test_A8_a_request_is_answered_through_a_temporary_queue(jms: Jms, url: str, queue: str) -> None:
    """A8: two connections; the server finds the reply queue in JMSReplyTo."""
    client, server = jms.connect(url).session(), jms.connect(url).session()
    requests = server.consumer(queue)
    replies_name = client.temporary_queue()
    replies = client.consumer(replies_name)
    client.producer(queue).send(text("question", reply_to=replies_name, correlation_id="c-1"))
    request = requests.receive_one()
    assert request.reply_to == replies_name
    server.producer(request.reply_to).send(text("answer", correlation_id=request.correlation_id))
    reply = replies.receive_one()
    assert (reply.body, reply.correlation_id, reply.destination) == ("answer", "c-1", replies_name)


@pytest.mark.temporary_destinations
def test_A8_a_temporary_queue_dies_with_its_connection(jms: Jms, url: str) -> None:
    """A8: who sends to it afterwards is told so."""
    with jms.connect(url) as connection:
        name = connection.session().temporary_queue()
    with pytest.raises(JavaError) as refused:
        jms.send(url, name, text("too late"))
    assert refused.value.class_name.rpartition(".")[2] in (
        "DestinationDoesNotExistException",
        "InvalidDestinationException",
    )


@pytest.mark.temporary_destinations
def test_A8_a_client_that_connects_later_knows_the_temporary_queue(jms: Jms, url: str) -> None:
    """A8: existing temporary destinations are announced to newcomers."""
    session = jms.connect(url).session()
    name = session.temporary_queue()
    replies = session.consumer(name)
    jms.send(url, name, text("from a newcomer"))
    assert replies.receive_one().body == "from a newcomer"


@pytest.mark.parametrize("is_named", [False, True], ids=["as before", "under another client id"])
def test_A1_a_connection_that_was_cleaned_up_announces_itself_again_on_its_socket(
    jms: Jms, url: str, queue: str, is_named: bool
) -> None:
    """A1: pools of connections do this between two users of one: the ConnectionInfo goes, the socket stays."""
    topic = queue.replace("queue://", "topic://")
    with jms.connect(url) as connection:
        connection.session().producer(queue).send(text("before"))
        for number in range(3):
            name = f"client-{number}-of-{queue.removeprefix('queue://')}" if is_named else None
            connection.clean_up(name)
            session = connection.session()
            session.producer(queue).send(text(f"after {number}"))
            if name is not None:
                assert connection.facts().client_id == name
                session.durable(topic, "durable").close()
                session.unsubscribe("durable")
        received = connection.session().consumer(queue).receive_expected(4)
    assert bodies(received) == ["before", "after 0", "after 1", "after 2"]


def test_A1_what_was_announced_before_a_clean_up_is_gone(jms: Jms, url: str, queue: str) -> None:
    """A1: as after a close, what was not acknowledged goes to others."""
    jms.send(url, queue, text("m"))
    with jms.connect(url) as connection:
        connection.session(AckMode.CLIENT).consumer(queue).receive_one()
        connection.clean_up()
        again = connection.session().consumer(queue).receive_one()
    assert (again.body, again.redelivered) == ("m", True)

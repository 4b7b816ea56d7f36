"""Our client and ActiveMQ's Java client understand each other, through either broker (A4, A5, A7, A8, F, G)."""

import math
import random
from typing import Any, Final

import pytest

import ackwire
from ackwire import AckMode, BytesMessage, Connection, DeliveryMode, Message, ObjectMessage, TextMessage, Xid
from tests.client.brokers import Broker
from tests.client.conftest import Connect
from tests.client.steps import (
    CAUSE,
    DEAD_LETTERS,
    drain,
    flags,
    numbered,
    receive,
    receive_all,
    send,
    text_of,
    texts,
    with_redelivery,
)
from tests.conformance import scenarios, xa
from tests.conformance.jms import NON_PERSISTENT, Jms, Outgoing, Received, Value, bodies, text, with_options
from tests.conformance.test_message_kinds import KINDS, PROPERTIES
from tests.conformance.test_python_messages import OURS, body_of, java_value, python_values

by_compression = pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])

LIMITS: Final = {
    "byteLowest": Value("byte", -(2**7)),
    "byteHighest": Value("byte", 2**7 - 1),
    "shortLowest": Value("short", -(2**15)),
    "shortHighest": Value("short", 2**15 - 1),
    "intLowest": Value("int", -(2**31)),
    "intHighest": Value("int", 2**31 - 1),
    "longLowest": Value("long", -(2**63)),
    "longHighest": Value("long", 2**63 - 1),
    "floatSmallest": Value("float", 1.401298464324817e-45),
    "floatHighest": Value("float", 3.4028234663852886e38),
    "floatNan": Value("float", math.nan),
    "floatInfinity": Value("float", math.inf),
    "floatMinusInfinity": Value("float", -math.inf),
    "doubleSmallest": Value("double", 5e-324),
    "doubleHighest": Value("double", 1.7976931348623157e308),
    "doubleNan": Value("double", math.nan),
    "doubleInfinity": Value("double", math.inf),
    "doubleMinusInfinity": Value("double", -math.inf),
    "minusZero": Value("double", -0.0),
    "empty": Value("string", ""),
    "emoji": Value("string", "😀 👩‍👩‍👧 🇩🇪"),
    "nul": Value("string", "a\x00b\x00"),
    "nothing": Value("null", None),
}
SIZES: Final = (0, 1, 2**16 - 1, 2**16, 2**16 + 1, 2**20)
LARGE: Final = 50_000_000


def java_receives(java: Jms, broker: Broker, name: str, count: int) -> list[Received]:
    with java.connect(broker.url) as connection:
        return connection.session().consumer(name).receive_expected(count)


def plain(properties: dict[str, Value]) -> dict[str, Value]:
    """NaN as the one that equals itself."""
    return {
        name: Value(value.type, math.nan) if isinstance(value.value, float) and math.isnan(value.value) else value
        for name, value in properties.items()
    }


# ---- bodies and properties -------------------------------------------------------------------------------------


@by_compression
def test_A4_java_reads_every_kind_that_we_send(
    broker: Broker, connect: Connect, java: Jms, queue: str, compressed: bool
) -> None:
    """A4: every kind, empty and null bodies, every type of value, every script."""
    send(connect(broker.url_with(jms__useCompression=compressed)), queue, *(make() for make in OURS.values()))
    received = java_receives(java, broker, queue, len(OURS))
    actual = {name: (message.kind, message.body) for name, message in zip(OURS, received, strict=True)}
    assert actual == {name: (KINDS[name][0].kind, KINDS[name][1]) for name in OURS}
    if compressed:
        assert {message.kind for message in received if message.compressed} == {"text", "map", "bytes", "stream"}


@by_compression
def test_A4_we_receive_every_kind_that_java_sends(
    broker: Broker, connection: Connection, java: Jms, queue: str, compressed: bool
) -> None:
    """A4: bodies keep their values and types."""
    java.send(with_options(broker.url, jms__useCompression=compressed), queue, *(KINDS[name][0] for name in OURS))
    received = drain(connection, queue)
    assert [type(message) for message in received] == [type(make()) for make in OURS.values()]
    actual = {name: body_of(message) for name, message in zip(OURS, received, strict=True)}
    assert actual == {name: KINDS[name][1] for name in OURS}


@pytest.mark.parametrize("properties", [PROPERTIES, LIMITS], ids=["every type", "limits"])
def test_A4_properties_of_every_type_keep_their_values_both_ways(
    broker: Broker, connection: Connection, java: Jms, queue: str, properties: dict[str, Value]
) -> None:
    """A4: lowest and highest, NaN and infinities, emoji, NUL, nothing."""
    send(connection, queue, "ours", properties=python_values(properties))
    [theirs] = java_receives(java, broker, queue, 1)
    assert theirs.properties == plain(properties)
    java.send(broker.url, queue, text("theirs", properties=properties))
    [ours] = drain(connection, queue)
    assert {name: java_value(value) for name, value in ours.properties.items()} == plain(properties)


def test_A4_values_in_maps_and_streams_keep_their_limits_both_ways(
    broker: Broker, connection: Connection, java: Jms, queue: str
) -> None:
    """A4."""
    mapped = python_values(LIMITS)
    session = connection.session()
    send(connection, queue, session.map_message(mapped), session.stream_message(mapped.values()))
    java_map, java_stream = java_receives(java, broker, queue, 2)
    assert java_map.body == plain(LIMITS)
    assert java_stream.body == list(plain(LIMITS).values())
    java.send(broker.url, queue, Outgoing("map", LIMITS), Outgoing("stream", list(LIMITS.values())))
    our_map, our_stream = drain(connection, queue)
    assert body_of(our_map) == plain(LIMITS)
    assert body_of(our_stream) == list(plain(LIMITS).values())


@pytest.mark.parametrize("size", SIZES)
def test_A4_bodies_of_any_size_arrive_whole_both_ways(
    broker: Broker, connection: Connection, java: Jms, queue: str, size: int
) -> None:
    """A4: around 64 KiB, where Java's own strings end, and beyond."""
    data = random.Random(size).randbytes(size)
    words = ("Straße 😀\x00" * (size // 12 + 1))[:size]
    send(connection, queue, data, words)
    assert [message.body for message in java_receives(java, broker, queue, 2)] == [data, words]
    java.send(broker.url, queue, Outgoing("bytes", [Value("bytes", data)] if size else []), text(words))
    first, second = drain(connection, queue)
    assert (body_of(first), body_of(second)) == (data, words)


def test_A4_fifty_megabytes_arrive_whole_both_ways(
    broker: Broker, connection: Connection, java: Jms, queue: str
) -> None:
    """A4: with no limit raised anywhere. Java sends on what it got, and so do we."""
    data = random.Random(50).randbytes(LARGE // 50) * 50
    send(connection, queue, data)
    with java.connect(broker.url) as other:
        session = other.session()
        forwarded = session.consumer(queue).forward(session.producer(f"{queue}.on"))
    assert forwarded == LARGE
    [message] = drain(connection, f"{queue}.on")
    assert isinstance(message, BytesMessage)
    assert message.data == data


def test_A4_what_does_not_fit_into_a_frame_is_refused_here_and_the_connection_lives(
    broker: Broker, connect: Connect, queue: str
) -> None:
    """A4: the smaller limit of the two sides; the error names the option."""
    connection = connect(broker.url_with(wireFormat__maxFrameSize=100_000))
    with pytest.raises(ackwire.ResourceAllocationError, match=r"100000 \(wireFormat\.maxFrameSize"):
        send(connection, queue, b"x" * 100_000)
    send(connection, queue, "small")
    assert texts(drain(connection, queue)) == ["small"]
    unchecked = connect(broker.url_with(wireFormat__maxFrameSize=100_000, wireFormat__maxFrameSizeEnabled=False))
    send(unchecked, queue, b"x" * 100_000)
    assert len(drain(unchecked, queue)) == 1


@by_compression
def test_A4_objects_pass_through_us_unread(
    broker: Broker, connect: Connect, java: Jms, queue: str, compressed: bool
) -> None:
    """A4: as bytes, whole; Java makes objects of them again."""
    java.send(broker.url, queue, Outgoing("object", Value("string", "Grüße")), Outgoing("object", Value("null", None)))
    connection = connect(broker.url_with(jms__useCompression=compressed))
    objects = drain(connection, queue)
    assert all(isinstance(message, ObjectMessage) for message in objects)
    again = [ObjectMessage(message.data) for message in objects if isinstance(message, ObjectMessage)]
    send(connection, f"{queue}.on", *again)
    received = java_receives(java, broker, f"{queue}.on", 2)
    assert [message.body for message in received] == [Value("string", "Grüße"), Value("null", None)]


@by_compression
def test_A4_what_java_wrote_is_sent_on_unread_and_unchanged(
    broker: Broker, connection: Connection, java: Jms, queue: str, compressed: bool
) -> None:
    """A4: a received message can be sent on; nothing of it is decoded for that."""
    outgoing = [kind for kind, _ in KINDS.values()]
    java.send(with_options(broker.url, jms__useCompression=compressed), queue, *outgoing)
    send(connection, f"{queue}.on", *drain(connection, queue))
    received = java_receives(java, broker, f"{queue}.on", len(outgoing))
    assert [message.body for message in received] == [body for _, body in KINDS.values()]


# ---- headers ---------------------------------------------------------------------------------------------------

HEADERS: Final[dict[str, Any]] = {
    "correlation_id": "corrélation 😀",
    "type": "événement",
    "reply_to": "topic://replies.ü",
}


def test_A5_headers_mean_the_same_to_both(broker: Broker, connection: Connection, java: Jms, queue: str) -> None:
    """A5: id, destination, mode, priority, times, group, and those of the application, both ways."""
    session = connection.session()
    group = {"JMSXGroupID": Value("string", "gröup"), "JMSXGroupSeq": Value("int", 7)}
    how: dict[str, int] = {"delivery_mode": NON_PERSISTENT, "priority": 9, "time_to_live_ms": 3_600_000}
    sent = session.send(queue, None, group_id="gröup", group_sequence=7, **HEADERS, **how)
    [theirs] = java_receives(java, broker, queue, 1)
    [message_id] = java.send(broker.url, queue, Outgoing("plain", properties=group, **HEADERS), **how)
    ours = receive(session.consumer(queue))
    for message in (theirs, ours):
        assert (message.correlation_id, message.type) == (HEADERS["correlation_id"], HEADERS["type"])
        assert (message.delivery_mode, message.priority) == (NON_PERSISTENT, 9)
        assert message.expiration == message.timestamp + 3_600_000
        assert (message.group_id, message.group_sequence, message.group_first) == ("gröup", 7, True)
        assert (message.redelivered, message.delivery_count) == (False, 1)
    assert (theirs.message_id, ours.message_id) == (sent.message_id, message_id)
    assert (theirs.destination, repr(ours.destination)) == (queue, queue)
    assert (theirs.reply_to, repr(ours.reply_to)) == (HEADERS["reply_to"], HEADERS["reply_to"])


def test_A5_headers_have_the_same_defaults(broker: Broker, connection: Connection, java: Jms, queue: str) -> None:
    """A5: persistent, priority 4, never expires, nothing else."""
    send(connection, queue, None)
    [theirs] = java_receives(java, broker, queue, 1)
    java.send(broker.url, queue, Outgoing("plain"))
    [ours] = drain(connection, queue)
    for message in (theirs, ours):
        assert (message.delivery_mode, message.priority, message.expiration) == (DeliveryMode.PERSISTENT, 4, 0)
        assert (message.correlation_id, message.type, message.reply_to, message.group_id) == (None,) * 4
        assert dict(message.properties) == {}


# ---- request and reply -----------------------------------------------------------------------------------------


def test_A8_java_answers_our_requests(broker: Broker, connection: Connection, java: Jms, queue: str) -> None:
    """A8: on our temporary queue."""
    session = connection.session()
    replies = session.temporary_queue()
    session.send(queue, "question", reply_to=replies, correlation_id="c")
    with java.connect(broker.url) as other:
        server = other.session()
        request = server.consumer(queue).receive_one()
        assert request.reply_to == repr(replies)
        server.producer(request.reply_to).send(text(f"re {request.body}", correlation_id=request.correlation_id))
    answer = receive(session.consumer(replies))
    assert (text_of(answer), answer.correlation_id) == ("re question", "c")


def test_A8_we_answer_javas_requests(broker: Broker, connection: Connection, java: Jms, queue: str) -> None:
    """A8: on its temporary queue; when it is gone we are told."""
    session = connection.session()
    requests, producer = session.consumer(queue), session.producer()
    with java.connect(broker.url) as other:
        client = other.session()
        replies = client.temporary_queue()
        client.producer(queue).send(text("question", reply_to=replies, correlation_id="c"))
        request = receive(requests)
        producer.send(f"re {text_of(request)}", destination=request.reply_to, correlation_id=request.correlation_id)
        answer = client.consumer(replies).receive_one()
        assert (answer.body, answer.correlation_id) == ("re question", "c")
    with pytest.raises(ackwire.InvalidDestinationError):
        producer.send("too late", destination=request.reply_to)


# ---- selectors -------------------------------------------------------------------------------------------------

SELECTOR: Final = "color = 'röt' AND n BETWEEN 2 AND 3 AND big > 5000000000 AND ratio < 0.5 AND ok"


def colored(number: int) -> dict[str, Value]:
    return {
        "color": Value("string", "röt"),
        "n": Value("short", number),
        "big": Value("long", 6_000_000_000),
        "ratio": Value("float", 0.25),
        "ok": Value("boolean", True),
    }


def test_A7_selectors_match_properties_that_the_other_side_set(
    broker: Broker, connection: Connection, java: Jms, queue: str
) -> None:
    """A7: of every type."""
    with java.connect(broker.url) as other:
        theirs = other.session()
        consumer = theirs.consumer(queue, selector=SELECTOR)
        for number in range(5):
            send(connection, queue, f"m{number}", properties=python_values(colored(number)))
        assert bodies(consumer.receive_expected(2)) == ["m2", "m3"]
        consumer.close()
        assert texts(drain(connection, queue)) == ["m0", "m1", "m4"]
        theirs.producer(queue).send(*(text(f"m{number}", properties=colored(number)) for number in range(5)))
    assert texts(receive_all(connection.session().consumer(queue, SELECTOR), 2)) == ["m2", "m3"]


@pytest.mark.only_on("ackwire", reason="ActiveMQ misreads emoji in properties that its own client set")
def test_A7_selectors_match_emoji_that_java_set(broker: Broker, connection: Connection, java: Jms, queue: str) -> None:
    """A7: characters beyond U+FFFF, which Java writes as two."""
    java.send(broker.url, queue, text("m", properties={"mood": Value("string", "😀")}))
    assert text_of(receive(connection.session().consumer(queue, "mood = '😀'"))) == "m"


# ---- redelivery and transactions -------------------------------------------------------------------------------


def test_F3_what_one_side_gave_back_the_other_sees_as_redelivered(
    broker: Broker, connect: Connect, java: Jms, queue: str
) -> None:
    """F3, D7: flag and count go with the message."""
    send(connect(), queue, *numbered(range(2)))
    with connect() as connection:
        receive(connection.session(transacted=True).consumer(queue))
    with java.connect(broker.url) as other:
        message = other.transacted_session().consumer(queue).receive_one()
        assert (message.body, message.redelivered, message.delivery_count) == ("m0", True, 2)
    left = drain(connect(), queue)
    assert (texts(left), flags(left)) == (["m0", "m1"], [True, False])
    assert left[0].delivery_count == 3


def test_F4_dead_letters_of_one_side_are_read_by_the_other(
    broker: Broker, connect: Connect, java: Jms, queue: str
) -> None:
    """F4: cause and origin."""
    connection = connect(with_redelivery(broker, maximumRedeliveries=0))
    send(connection, queue, "ours", correlation_id=queue)
    session = connection.session(AckMode.INDIVIDUAL)
    receive(session.consumer(queue)).reject(ValueError("not good"))
    session.close()
    [theirs] = scenarios.dead_letters(java, broker.url, queue, 1)
    assert (theirs.body, theirs.original_destination) == ("ours", queue)
    assert "not good" in theirs.properties[CAUSE].value
    java.send(broker.url, queue, text("theirs", correlation_id=queue))
    with java.connect(scenarios.with_redelivery(broker.url, maximumRedeliveries=0)) as other:
        transacted = other.transacted_session()
        transacted.consumer(queue).receive_one()
        transacted.rollback()
    ours = receive(connection.session().consumer(DEAD_LETTERS, f"JMSCorrelationID = '{queue}'"))
    assert (text_of(ours), repr(ours.original_destination)) == ("theirs", queue)
    assert "redelivery policy limit" in str(ours.properties[CAUSE])


def test_G1_neither_side_sees_the_others_open_transaction(
    broker: Broker, connection: Connection, java: Jms, queue: str
) -> None:
    """G1: and both see what was committed, in order."""
    ours = connection.session(transacted=True)
    with java.connect(broker.url) as other:
        theirs = other.transacted_session()
        our_consumer, their_consumer = ours.consumer(f"{queue}.in"), theirs.consumer(f"{queue}.out")
        ours.send(f"{queue}.out", "lost")
        ours.rollback()
        ours.send(f"{queue}.out", "request")
        assert their_consumer.receive_no_wait() is None
        ours.commit()
        request = their_consumer.receive_one()
        theirs.producer(f"{queue}.in").send(text(f"re {request.body}"))
        assert our_consumer.receive_no_wait() is None
        theirs.commit()
        assert text_of(receive(our_consumer)) == "re request"
        ours.commit()
    ours.close()
    assert drain(connection, f"{queue}.in") + drain(connection, f"{queue}.out") == []


def test_G3_a_transaction_that_one_side_prepared_the_other_decides(
    broker: Broker, connect: Connect, java: Jms, queue: str
) -> None:
    """G3: recover lists it to both under the same name."""
    connection = connect()
    ours = connection.xa_session()
    with xa.xa_connect(java, broker.url) as other:
        theirs = other.xa_session()
        java_xid = xa.Xid.fresh(queue)  # longer than XA allows, which Java's client and both brokers take
        theirs.xa_start(java_xid)
        theirs.producer(queue).send(text("from java"))
        theirs.xa_end(java_xid)
        theirs.xa_prepare(java_xid)
        named = [xid for xid in ours.xa.recover() if xid.global_transaction_id == java_xid.global_id.encode()]
        assert len(named) == 1
        ours.xa.commit(named[0])
        python_xid = Xid(named[0].format_id, f"python.{queue}".encode()[:64], b"branch")
        ours.xa.start(python_xid)
        ours.send(queue, "from python")
        ours.xa.end(python_xid)
        ours.xa.prepare(python_xid)
        found = xa.Xid(python_xid.global_transaction_id.decode(), "branch")
        assert found in theirs.xa_recover()
        theirs.xa_commit(found)
    assert texts(drain(connection, queue)) == ["from java", "from python"]


def test_A3_a_durable_subscription_may_be_taken_over_by_the_other_side(
    broker: Broker, connect: Connect, java: Jms, topic: str
) -> None:
    """A3: client id and name are all that counts."""
    with connect(client_id=scenarios.client_id(topic)) as connection:
        connection.session().durable_subscriber(topic, "durable", "n > 0")
    java.send(broker.url, topic, text("for java", properties={"n": Value("int", 1)}))
    with scenarios.named_client(java, broker.url, topic) as other:
        assert other.session().durable(topic, "durable", selector="n > 0").receive_one().body == "for java"
    java.send(broker.url, topic, text("for python", properties={"n": Value("int", 1)}))
    with connect(client_id=scenarios.client_id(topic)) as connection:
        session = connection.session()
        consumer = session.durable_subscriber(topic, "durable", "n > 0")
        assert text_of(receive(consumer)) == "for python"
        consumer.close()
        session.unsubscribe("durable")


def test_A2_consumers_of_both_sides_share_a_queue(broker: Broker, connect: Connect, java: Jms, queue: str) -> None:
    """A2: each message goes to one of them, none twice."""
    connection = connect()
    heard: list[Message] = []
    with java.connect(broker.url) as other:
        theirs = other.session().consumer(f"{queue}?consumer.prefetchSize=1", listen=True)
        connection.session().consumer(f"{queue}?consumer.prefetchSize=1").listener = heard.append
        send(connect(), queue, *numbered(range(40)))
        received = bodies(theirs.hear_expected(1))
        while len(received) + len(heard) < 40:
            received += bodies(theirs.hear(50))
    connection.close()
    assert heard
    assert sorted([*received, *texts(heard)], key=str) == sorted(numbered(range(40)))


def test_A4_text_of_ours_is_text_to_java_and_back_however_often_it_is_sent_on(
    broker: Broker, connection: Connection, java: Jms, queue: str
) -> None:
    """A4: there and back again."""
    message: Message = TextMessage("Grüße 😀\x00")
    for _ in range(3):
        send(connection, queue, message)
        with java.connect(broker.url) as other:
            session = other.session()
            session.consumer(queue).forward(session.producer(f"{queue}.back"))
        [message] = drain(connection, f"{queue}.back")
    assert text_of(message) == "Grüße 😀\x00"

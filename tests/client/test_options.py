"""Options that change what the client does, mistakes in them, transformers, compression and exceptions (A1, B3, J1)."""

import queue as queues
from typing import Any

import pytest

import ackwire
from ackwire import AckMode, BytesMessage, Connection, ConnectionFactory, MapMessage, Message, TextMessage
from ackwire.client import names
from ackwire.errors import AckwireError, ConfigError
from ackwire.wire.openwire import commands
from tests.client.brokers import Broker
from tests.client.conftest import Connect
from tests.client.recording import RecordingProxy
from tests.client.steps import (
    assert_nothing_comes,
    drain,
    numbered,
    receive,
    receive_all,
    send,
    text_of,
    texts,
    with_redelivery,
)
from tests.client.work import InThread

# ---- mistakes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("tcp://h?jms.useAsynchSend=true", "jms.useAsyncSend"),
        ("tcp://h?jms.prefetchPolicy.queuePrefech=1", "jms.prefetchPolicy.queuePrefetch"),
        ("tcp://h?jms.redeliveryPolicy.maxRedeliveries=1", "jms.redeliveryPolicy.maximumRedeliveries"),
        ("tcp://h?wireFormat.maxInactivityDuratio=1", "wireFormat.maxInactivityDuration"),
        ("tcp://h?keepAlives=true", "keepAlive"),
        ("tcp://h?randomize=false", "randomize"),
        ("tcp://h?jms.useAsyncSend=maybe", "jms.useAsyncSend"),
        ("tcp://h?jms.sendTimeout=soon", "jms.sendTimeout"),
        ("failover:(tcp://h)?randomise=false", "randomize"),
        ("failover:(tcp://h?maxReconnectAttempts=1)", "maxReconnectAttempts"),
        ("tpc://h", "tpc"),
        ("http://h", "http"),
        ("tcp://user:secret@h", "tcp://"),
    ],
)
def test_J1_a_mistake_in_a_url_names_the_option(url: str, says: str) -> None:
    """J1: before connecting; no password is shown."""
    with pytest.raises(ConfigError) as refused:
        ackwire.connect(url)
    assert says in str(refused.value)
    assert "secret" not in str(refused.value)


def test_J1_a_mistake_in_the_program_names_the_option() -> None:
    """J1: keyword arguments of a factory are checked like options of a URL."""
    with pytest.raises(ackwire.IllegalArgumentError, match="use_asynch_send"):
        ConnectionFactory("tcp://h", use_asynch_send=True)
    with pytest.raises(TypeError, match="retries"):
        ackwire.connect("tcp://h", retries=5)  # type: ignore[call-arg]


def test_A1_an_unknown_header_or_ack_mode_is_refused(connection: Connection, queue: str) -> None:
    """A1: with its name."""
    with pytest.raises(TypeError, match="corelation_id"):
        connection.session().send(queue, "m", corelation_id="c")
    with pytest.raises(ackwire.IllegalArgumentError, match="7"):
        connection.session(7)


def test_B2_arguments_of_a_factory_count_more_than_its_url(broker: Broker) -> None:
    """B2."""
    factory = ConnectionFactory(broker.url_with(jms__closeTimeout=1000, jms__clientID="a"), client_id="b")
    assert (factory.options.close_timeout_ms, factory.options.client_id) == (1000, "b")
    assert ConnectionFactory(broker.url_with(jms__closeTimeout=1000), close_timeout_ms=5).options.close_timeout_ms == 5


# ---- transformers ----------------------------------------------------------------------------------------------


class Wrapping:
    """Packs text into maps on the way out, and unpacks it on the way in."""

    def producer_transform(self, session: object, producer: object, message: Message) -> Message | None:
        del session, producer
        return MapMessage({"text": text_of(message)}) if isinstance(message, TextMessage) else None

    def consumer_transform(self, session: object, consumer: object, message: Message) -> Message | None:
        del session, consumer
        return TextMessage(message.entries.get_string("text")) if isinstance(message, MapMessage) else None


class Failing:
    """Cannot read what comes, the first so many times."""

    def __init__(self, failures: int) -> None:
        self._failures = failures

    def producer_transform(self, session: object, producer: object, message: Message) -> Message | None:
        del session, producer, message
        return None

    def consumer_transform(self, session: object, consumer: object, message: Message) -> Message | None:
        del session, consumer, message
        if self._failures:
            self._failures -= 1
            raise ValueError("cannot be transformed")
        return None


def test_B3_a_transformer_changes_messages_both_ways(connect: Connect, queue: str) -> None:
    """B3: set on a connection; another one without it sees what is on the wire."""
    wrapping, plain = connect(), connect()
    wrapping.transformer = Wrapping()
    send(wrapping, queue, "m")
    [seen] = drain(plain, queue)
    assert isinstance(seen, MapMessage)
    assert dict(seen.entries) == {"text": "m"}
    send(plain, queue, {"text": "n"}, b"left alone")
    consumer = wrapping.session().consumer(queue)
    assert text_of(receive(consumer)) == "n"
    assert isinstance(receive(consumer), BytesMessage)


def test_B3_a_factorys_transformer_serves_its_connections(broker: Broker, queue: str) -> None:
    """B3."""
    factory = ConnectionFactory(broker.url)
    factory.transformer = Wrapping()
    with factory.create_connection() as connection:
        connection.start()
        session = connection.session()
        session.send(queue, "m")
        assert isinstance(next(iter(session.browser(queue))), MapMessage)
        assert text_of(receive(session.consumer(queue))) == "m"


@pytest.mark.parametrize("mode", [AckMode.CLIENT, AckMode.INDIVIDUAL])
def test_B3_what_a_transformer_made_can_be_acknowledged(connect: Connect, queue: str, mode: AckMode) -> None:
    """B3, D3, D6: acknowledging it is acknowledging what came."""
    connection, plain = connect(), connect()
    connection.transformer = Wrapping()
    send(connection, queue, *numbered(range(2)))
    with connection.session(mode) as session:
        receive(session.consumer(queue)).acknowledge()
    assert len(drain(plain, queue)) == 1


def test_B3_F1_a_message_that_cannot_be_transformed_comes_again(broker: Broker, connect: Connect, queue: str) -> None:
    """B3, F1: receive raises what the transformer raised; the message is neither lost nor skipped."""
    connection = connect(with_redelivery(broker))
    connection.transformer = Failing(2)
    send(connection, queue, *numbered(range(2)))
    consumer = connection.session().consumer(queue)
    for _ in range(2):
        with pytest.raises(ValueError, match="cannot be transformed"):
            receive(consumer)
    received = receive_all(consumer, 2)
    assert (texts(received), received[0].delivery_count) == (["m0", "m1"], 3)


def test_B3_F1_a_listener_survives_a_transformer_that_raises(broker: Broker, connect: Connect, queue: str) -> None:
    """B3, F1: as if the listener had raised."""
    connection = connect(with_redelivery(broker))
    connection.transformer = Failing(1)
    heard: queues.SimpleQueue[Message] = queues.SimpleQueue()
    connection.session().consumer(queue).listener = heard.put
    send(connection, queue, *numbered(range(2)))
    messages = [heard.get(timeout=10) for _ in range(2)]
    assert (texts(messages), messages[0].delivery_count) == (["m0", "m1"], 2)


def test_B3_a_transformer_may_use_its_connection(connect: Connect, queue: str) -> None:
    """B3: it runs without a lock, so it may even wait for messages of another session."""
    connection = connect()
    side = connection.session()

    class Asking(Failing):
        def consumer_transform(self, session: object, consumer: object, message: Message) -> Message | None:
            del session, consumer
            connection.transformer = None
            side.send(f"{queue}.side", "detour")
            return TextMessage(f"{text_of(message)} by {text_of(receive(side.consumer(f'{queue}.side')))}")

    connection.transformer = Asking(0)
    send(connection, queue, "m")
    assert text_of(receive(connection.session().consumer(queue))) == "m by detour"


# ---- compression and other options -----------------------------------------------------------------------------


@pytest.mark.parametrize("reader", [True, False], ids=["reader-compresses", "reader-does-not"])
def test_A4_compressed_messages_are_read_whatever_the_reader_does(
    broker: Broker, connect: Connect, queue: str, reader: bool
) -> None:
    """A4: jms.useCompression; a received body is sent on as it came."""
    writer = connect(broker.url_with(jms__useCompression=True))
    body = "word " * 1000
    send(writer, queue, body, body.encode(), {"text": body})
    other = connect(broker.url_with(jms__useCompression=reader))
    received = drain(other, queue)
    assert all(message.dispatch is not None and message.dispatch.compressed for message in received)
    send(other, f"{queue}.on", *received)
    text, data, mapped = drain(connect(), f"{queue}.on")
    assert isinstance(data, BytesMessage)
    assert isinstance(mapped, MapMessage)
    assert (text_of(text), data.data, mapped.entries["text"]) == (body, body.encode(), body)


def test_A4_only_what_this_client_writes_is_compressed(broker: Broker, connect: Connect, queue: str) -> None:
    """A4: a connection that compresses does not touch what it sends on; a message without a body has nothing."""
    plain, writer = connect(), connect(broker.url_with(jms__useCompression=True))
    send(plain, queue, "m")
    send(writer, f"{queue}.on", *drain(writer, queue), None)
    received = drain(plain, f"{queue}.on")
    assert [message.dispatch is not None and message.dispatch.compressed for message in received] == [False, False]


def test_A5_timestamps_can_be_switched_off(broker: Broker, connect: Connect, queue: str) -> None:
    """A5: for a connection, or for a producer."""
    quiet = connect(broker.url_with(jms__disableTimeStampsByDefault=True))
    send(quiet, queue, "quiet")
    session = connect().session()
    producer = session.producer(queue)
    producer.disable_timestamp = True
    producer.send("quiet, too")
    session.send(queue, "stamped")
    assert [message.timestamp > 0 for message in drain(quiet, queue)] == [False, False, True]


def test_D_acknowledgements_may_wait_for_the_broker(broker: Broker, connect: Connect, queue: str) -> None:
    """D: jms.sendAcksAsync=false; what was acknowledged is gone when that returns."""
    connection, other = connect(broker.url_with(jms__sendAcksAsync=False)), connect()
    send(other, queue, *numbered(range(4)))
    session = connection.session(AckMode.CLIENT)
    consumer = session.consumer(f"{queue}?consumer.prefetchSize=1")
    receive(consumer).acknowledge()
    receive(consumer)
    session.acknowledge()
    assert texts(other.session().browser(queue)) == ["m2", "m3"]


def test_J_unusual_wire_formats_work(broker: Broker, connect: Connect, queue: str) -> None:
    """J2: tight encoding and cache where the broker has them, and every version that it speaks."""
    for version in (1, 5, 9, 12):
        connection = connect(
            broker.url_with(
                wireFormat__version=version, wireFormat__tightEncodingEnabled=True, wireFormat__cacheEnabled=True
            )
        )
        send(connection, queue, "m", properties={"n": version}, correlation_id="c", group_id="g")
        [message] = drain(connection, queue)
        assert (text_of(message), message.properties["n"], message.correlation_id) == ("m", version, "c")


def test_A1_a_connection_that_is_lost_while_it_closes_is_closed(
    recording: RecordingProxy, connect: Connect, queue: str
) -> None:
    """A1: whoever waits hears that it was closed, and nobody that it was lost."""
    connection = connect(recording.url_with(jms__useAsyncSend=True, jms__producerWindowSize=1000))
    producer = connection.session().producer(queue)
    recording.hold(lambda command: isinstance(command, commands.ProducerAck))
    producer.send("x" * 3000)
    waiting = InThread(lambda: producer.send("waits"))
    waiting.assert_waits()
    recording.hold(lambda _: True)
    closing = InThread(connection.close)
    recording.await_sent(commands.RemoveInfo, 1)
    recording.cut()
    closing.result()
    with pytest.raises(ackwire.IllegalStateError, match="closed"):
        waiting.result()


# ---- exceptions ------------------------------------------------------------------------------------------------


def test_A1_every_exception_of_the_client_is_a_jms_error() -> None:
    """A1: one tree, and Python's own where that helps."""
    raised = [name for name in names.__all__ if name.endswith("Error")]
    assert len(raised) >= 20
    for name in raised:
        assert issubclass(getattr(ackwire, name), ackwire.JMSError)
        assert issubclass(getattr(ackwire, name), AckwireError)
    assert issubclass(ackwire.RequestTimedOutError, TimeoutError)
    assert issubclass(ackwire.MessageEOFError, EOFError)
    assert issubclass(ackwire.IllegalArgumentError, ValueError)
    assert issubclass(ackwire.DestinationGoneError, ackwire.InvalidDestinationError)


def test_A1_what_the_broker_reports_becomes_the_right_class(connect: Connect, topic: str, queue: str) -> None:
    """A1: with Java's name for it, and the session works on."""
    connection = connect(client_id=topic)
    session = connection.session()

    def refused(kind: type[ackwire.JMSError], make: Any, *arguments: Any) -> str | None:
        with pytest.raises(kind) as info:
            make(*arguments)
        assert type(info.value) is kind
        return info.value.java_class

    assert refused(ackwire.InvalidSelectorError, session.consumer, queue, "n =") == "javax.jms.InvalidSelectorException"
    assert (
        refused(ackwire.InvalidDestinationError, session.unsubscribe, "no") == "javax.jms.InvalidDestinationException"
    )
    with pytest.raises(ackwire.InvalidClientIdError) as in_use:
        connect(client_id=topic)
    assert in_use.value.java_class == "javax.jms.InvalidClientIDException"
    send(connection, queue, "m")
    assert text_of(receive(session.consumer(queue))) == "m"


def test_A1_a_consumer_that_was_refused_leaves_nothing_behind(connection: Connection, queue: str) -> None:
    """A1: messages go to the others."""
    session = connection.session()
    with pytest.raises(ackwire.InvalidSelectorError):
        session.consumer(queue, "n =")
    consumer = session.consumer(queue)
    send(connection, queue, *numbered(range(10)))
    assert texts(receive_all(consumer, 10)) == numbered(range(10))
    assert_nothing_comes(consumer)

"""Clients that have logged in and then break a rule: the right answer, one line in the log, and nobody else notices.

Two kinds of mistake, two answers. What breaks the protocol ends the connection, after a ConnectionError. What cannot
be done is refused, and the connection goes on: with an ExceptionResponse where the client waits for an answer, with a
ConnectionError where it does not.
"""

import socket
import struct
from collections.abc import Callable, Iterator

import pytest

from ackwire.wire.openwire import commands
from ackwire.wire.openwire.commands import AckType
from ackwire.wire.openwire.negotiation import Preferences
from ackwire.wire.openwire.structures import REGISTRY, Structure
from tests.helpers.openwire_client import (
    OpenWireClient,
    Scene,
    frame,
    queue,
    scene,
    text_of,
    topic,
    unique,
)
from tests.helpers.processes import RunningBroker, running_broker

pytestmark = pytest.mark.system

FRAME_BYTES_MAX = 100 * 1024 * 1024


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    listeners = ["tcp://127.0.0.1:0", "tcp://127.0.0.1:0?wireFormat.tightEncodingEnabled=true"]
    with running_broker(listeners, log_path=tmp_path_factory.mktemp("broker") / "broker.log") as running:
        yield running


@pytest.fixture
def stage(broker: RunningBroker) -> Iterator[Scene]:
    with scene(broker) as stage:
        yield stage


@pytest.fixture
def client(stage: Scene) -> Iterator[OpenWireClient]:
    with OpenWireClient.logged_in(stage.port) as client:
        yield client


def closed_after_connection_error(client: OpenWireClient) -> str:
    """The broker says why in a ConnectionError and closes; returns what it says."""
    *before, last = client.read_until_closed()
    assert not [event for event in before if isinstance(event, commands.ConnectionError)]
    assert isinstance(last, commands.ConnectionError), last
    assert last.exception is not None
    assert last.exception.class_name == "java.io.IOException"
    return last.exception.message or ""


# --- what breaks the protocol --------------------------------------------------------------------------

FOREIGN_MESSAGE_ID = commands.MessageId(producer_id=commands.ProducerId("nobody", 1, 1), producer_sequence_id=1)
A_CONSUMER = commands.ConsumerId("c", 1, 1)
A_PRODUCER = commands.ProducerId("c", 1, 1)

BREAKING: dict[str, Structure] = {
    "SessionInfo without an id": commands.SessionInfo(),
    "ProducerInfo without an id": commands.ProducerInfo(),
    "ConsumerInfo without an id": commands.ConsumerInfo(destination=queue("q")),
    "RemoveInfo without an id": commands.RemoveInfo(),
    "RemoveInfo for a message": commands.RemoveInfo(object_id=FOREIGN_MESSAGE_ID),
    "MessagePull without a consumer": commands.MessagePull(),
    "ConsumerControl without a consumer": commands.ConsumerControl(),
    "DestinationInfo without a destination": commands.DestinationInfo(),
    "MessageAck without a consumer": commands.MessageAck(last_message_id=FOREIGN_MESSAGE_ID),
    "MessageAck without a message": commands.MessageAck(consumer_id=A_CONSUMER),
    "MessageAck for a message without a producer": commands.MessageAck(
        consumer_id=A_CONSUMER, last_message_id=commands.MessageId(producer_sequence_id=1)
    ),
    "message without a destination": commands.ActiveMQTextMessage(
        producer_id=A_PRODUCER, message_id=FOREIGN_MESSAGE_ID
    ),
    "message without an id": commands.ActiveMQTextMessage(producer_id=A_PRODUCER, destination=queue("q")),
    "message whose id has no producer": commands.ActiveMQTextMessage(
        producer_id=A_PRODUCER, destination=queue("q"), message_id=commands.MessageId(producer_sequence_id=1)
    ),
    "second ConnectionInfo": commands.ConnectionInfo(connection_id=commands.ConnectionId("c"), client_id="c"),
    "second WireFormatInfo": commands.WireFormatInfo(version=12),
}


@pytest.mark.parametrize("name", BREAKING)
def test_command_without_what_it_needs_ends_the_connection(stage: Scene, client: OpenWireClient, name: str) -> None:
    client.send(BREAKING[name])
    reason = closed_after_connection_error(client)
    stage.expect_line(client, f"closed: {reason}")


def test_consumer_without_a_destination_ends_the_connection(stage: Scene, client: OpenWireClient) -> None:
    info = client.consumer_info(queue("q"))
    info.destination = None
    client.send(info)
    reason = closed_after_connection_error(client)
    stage.expect_line(client, f"closed: {reason}")


VALUES = [cls for cls in REGISTRY.values() if not issubclass(cls, commands.BaseCommand | commands.WireFormatInfo)]


@pytest.mark.parametrize("cls", VALUES, ids=lambda cls: cls.__name__)
def test_structure_that_is_no_command_ends_the_connection(
    stage: Scene, client: OpenWireClient, cls: type[Structure]
) -> None:
    client.send(cls())
    reason = closed_after_connection_error(client)
    assert cls.__name__ in reason
    stage.expect_line(client, f"closed: {reason}")


def sized(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


KEEP_ALIVE = frame(commands.KeepAliveInfo())[4:]

GARBAGE: dict[str, bytes] = {
    "empty frame": sized(b""),
    "unknown type id": sized(bytes((99,)) + bytes(20)),
    "highest type id": sized(bytes((255,)) + bytes(20)),
    "frame that ends early": sized(KEEP_ALIVE[:-1]),
    "frame with something behind its command": sized(KEEP_ALIVE + b"\0"),
    "random bytes in a frame": sized(bytes(range(200, 256)) * 4),
    "text": b"hello there, is anybody listening?\r\n",
    "message that is cut off": sized(bytes((28,)) + bytes(9)),
    "ack that is cut off": sized(bytes((22,)) + bytes(9)),
    "oversize frame": struct.pack(">I", FRAME_BYTES_MAX + 1),
    "frame of the highest size": b"\xff\xff\xff\xff",
    "string that is not modified UTF-8": sized(bytes((11 + 3,)) + b"\0\0\0\1\0\1\0\2\xff\xff"),
    "command of a later version": sized(bytes((92,)) + b"\xff" * 8),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_ends_the_connection(stage: Scene, client: OpenWireClient, name: str) -> None:
    client.send_bytes(GARBAGE[name])
    reason = closed_after_connection_error(client)
    stage.expect_line(client, f"closed: {reason}")


def test_oversize_frame_is_refused_by_its_size_alone(stage: Scene, client: OpenWireClient) -> None:
    client.send_bytes(struct.pack(">I", FRAME_BYTES_MAX + 1))
    assert closed_after_connection_error(client) == f"a frame of {FRAME_BYTES_MAX + 1} bytes: the limit is 104857600"
    stage.expect_line(client, "the limit is 104857600")


def test_what_came_before_the_garbage_is_done_and_what_follows_is_not(stage: Scene, client: OpenWireClient) -> None:
    destination = queue(unique("garbage"))
    client.send_text(destination, "warms up")
    good, late = client.text_message(destination, "before"), client.text_message(destination, "after")
    client.send_bytes(frame(good) + GARBAGE["unknown type id"] + frame(late))
    closed_after_connection_error(client)
    stage.expect_line(client, "closed: ")
    with OpenWireClient.logged_in(stage.port) as other:
        consumer = other.subscribe(destination)
        assert [text_of(other.receive(consumer)) for _ in range(2)] == ["warms up", "before"]
        other.ping()
        assert other.take_events() == []


@pytest.mark.parametrize("sent", [1, 3, 4, 5, 9])
def test_end_in_the_middle_of_a_frame_is_one_line(stage: Scene, client: OpenWireClient, sent: int) -> None:
    client.send_bytes(sized(KEEP_ALIVE)[:sent])
    client.socket.shutdown(socket.SHUT_WR)
    client.read_until_closed()
    stage.expect_line(client, f"it left {sent} bytes into a frame")


def test_reset_in_the_middle_of_a_frame_disturbs_nobody(stage: Scene) -> None:
    client = OpenWireClient.logged_in(stage.port)
    client.send_bytes(sized(KEEP_ALIVE)[:6])
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    stage.bystander.work()


def test_garbage_in_tight_encoding_ends_the_connection(stage: Scene) -> None:
    with OpenWireClient.logged_in(stage.broker.ports[1], Preferences(tight=True, inactivity_ms=0)) as client:
        client.send_bytes(sized(bytes((5, 255)) + b"\xff" * 40))
        reason = closed_after_connection_error(client)
        stage.expect_line(client, f"closed: {reason}")


# --- what is refused -----------------------------------------------------------------------------------

Maker = Callable[[OpenWireClient], Structure]

STATE = "java.lang.IllegalStateException"
SECURITY = "java.lang.SecurityException"
JMS = "javax.jms.JMSException"
DESTINATION = "javax.jms.InvalidDestinationException"


def _consumer(client: OpenWireClient, value: int = 999) -> commands.ConsumerId:
    return commands.ConsumerId(client.connection_id, client.session.value, value)


def _pull_with_prefetch(client: OpenWireClient) -> Structure:
    return commands.MessagePull(consumer_id=client.subscribe(queue(unique("pull"))), timeout=-1)


def _ack_of(ack_type: int, *, count: int = 1, sequence: int | None = None) -> Maker:
    """An ack by a consumer that has one message in flight; with *sequence*, for another message than that."""

    def make(client: OpenWireClient) -> Structure:
        destination = queue(unique("ack"))
        client.subscribe(destination)
        client.send_text(destination, "in flight")
        ack = client.ack_command(client.receive(), ack_type, count=count)
        if sequence is not None:
            producer = client.producer
            ack.last_message_id = commands.MessageId(producer_id=producer, producer_sequence_id=sequence)
        return ack

    return make


REFUSED: dict[str, tuple[Maker, str]] = {
    "session of another connection": (
        lambda _: commands.SessionInfo(session_id=commands.SessionId("somebody else", 1)),
        SECURITY,
    ),
    "session of no connection": (lambda _: commands.SessionInfo(session_id=commands.SessionId(None, 1)), SECURITY),
    "producer of another connection": (
        lambda _: commands.ProducerInfo(producer_id=commands.ProducerId("somebody else", 1, -1)),
        SECURITY,
    ),
    "consumer of another connection": (
        lambda _: commands.ConsumerInfo(
            consumer_id=commands.ConsumerId("somebody else", -1, 1), destination=queue("q")
        ),
        SECURITY,
    ),
    "removal of another connection": (
        lambda _: commands.RemoveInfo(object_id=commands.ConnectionId("somebody else")),
        SECURITY,
    ),
    "removal of another connection's session": (
        lambda _: commands.RemoveInfo(object_id=commands.SessionId("somebody else", 1)),
        SECURITY,
    ),
    "removal of another connection's producer": (
        lambda _: commands.RemoveInfo(object_id=commands.ProducerId("somebody else", 1, 1)),
        SECURITY,
    ),
    "removal of another connection's consumer": (
        lambda _: commands.RemoveInfo(object_id=commands.ConsumerId("somebody else", 1, 1)),
        SECURITY,
    ),
    "producer of an unknown session": (
        lambda client: commands.ProducerInfo(producer_id=commands.ProducerId(client.connection_id, 1, 77)),
        STATE,
    ),
    "consumer of an unknown session": (
        lambda client: commands.ConsumerInfo(
            consumer_id=commands.ConsumerId(client.connection_id, 77, 1), destination=queue("q"), prefetch_size=1
        ),
        STATE,
    ),
    "removal of an unknown session": (
        lambda client: commands.RemoveInfo(object_id=commands.SessionId(client.connection_id, 77)),
        STATE,
    ),
    "removal of an unknown producer": (
        lambda client: commands.RemoveInfo(object_id=commands.ProducerId(client.connection_id, 77, 1)),
        STATE,
    ),
    "removal of an unknown consumer": (lambda client: commands.RemoveInfo(object_id=_consumer(client)), STATE),
    "pull by an unknown consumer": (lambda client: commands.MessagePull(consumer_id=_consumer(client)), STATE),
    "control of an unknown consumer": (
        lambda client: commands.ConsumerControl(consumer_id=_consumer(client), prefetch=5),
        STATE,
    ),
    "pull by a consumer that prefetches": (_pull_with_prefetch, JMS),
    "unknown ack type": (_ack_of(9), JMS),
    "negative ack type": (_ack_of(-1), JMS),
    "ack for an unknown message": (_ack_of(AckType.STANDARD, sequence=4711), JMS),
    "individual ack for an unknown message": (_ack_of(AckType.INDIVIDUAL, sequence=4711), JMS),
    "delivered ack for an unknown message": (_ack_of(AckType.DELIVERED, sequence=4711), JMS),
    "ack that counts too many": (_ack_of(AckType.STANDARD, count=5), JMS),
    "message to nowhere": (lambda client: client.text_message(queue("an.*"), "x"), DESTINATION),
    "producer for a pattern": (
        lambda client: commands.ProducerInfo(
            producer_id=commands.ProducerId(client.connection_id, 1, -1), destination=queue("an.>")
        ),
        DESTINATION,
    ),
    "destination without a name": (
        lambda client: commands.DestinationInfo(
            connection_id=commands.ConnectionId(client.connection_id), destination=queue("")
        ),
        DESTINATION,
    ),
    "destination with an endless name": (
        lambda client: commands.DestinationInfo(
            connection_id=commands.ConnectionId(client.connection_id), destination=queue("x" * 60_000)
        ),
        DESTINATION,
    ),
    "unknown operation on a destination": (
        lambda client: commands.DestinationInfo(
            connection_id=commands.ConnectionId(client.connection_id), destination=queue("q"), operation_type=7
        ),
        JMS,
    ),
    "ControlCommand": (lambda _: commands.ControlCommand(command="shutdown"), JMS),
    "ReplayCommand": (lambda _: commands.ReplayCommand(), JMS),
    "MessageDispatch from a client": (lambda _: commands.MessageDispatch(), JMS),
    "MessageDispatchNotification": (lambda _: commands.MessageDispatchNotification(), JMS),
    "BrokerSubscriptionInfo": (lambda _: commands.BrokerSubscriptionInfo(), JMS),
    "ProducerAck from a client": (lambda _: commands.ProducerAck(), JMS),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusal_of_a_request_is_its_answer(stage: Scene, client: OpenWireClient, name: str) -> None:
    make, java_class = REFUSED[name]
    command = make(client)
    thrown = client.refused(command)
    assert thrown.class_name == java_class
    client.ping()
    assert client.take_events() == [], "nothing but the answer"
    stage.expect_line(client, thrown.message or "?")


@pytest.mark.parametrize("name", REFUSED)
def test_refusal_of_a_fire_and_forget_command_is_a_connection_error(
    stage: Scene, client: OpenWireClient, name: str
) -> None:
    make, java_class = REFUSED[name]
    client.tell(make(client))
    error = client.wait_for(commands.ConnectionError)
    assert error.exception is not None
    assert error.exception.class_name == java_class
    client.ping()  # the connection goes on
    assert client.take_events() == []
    stage.expect_line(client, error.exception.message or "?")


def test_refused_ack_changes_nothing(stage: Scene, client: OpenWireClient) -> None:
    destination = queue(unique("refused-ack"))
    consumer = client.subscribe(destination)
    client.send_text(destination, "one", "two", "three")
    dispatches = [client.receive(consumer) for _ in range(3)]
    client.refused(client.ack_command(dispatches[2], first=dispatches[0], count=2))
    client.refused(client.ack_command(dispatches[0], first=dispatches[2], count=1))
    client.ack(dispatches[2], first=dispatches[0], count=3)
    client.ping()
    assert client.take_events() == []
    assert len(stage.log_about(client)) == 2


def test_message_acknowledged_twice_is_refused_the_second_time(client: OpenWireClient) -> None:
    destination = queue(unique("twice"))
    client.subscribe(destination)
    client.send_text(destination, "once")
    dispatch = client.receive()
    client.request(client.ack_command(dispatch))
    assert client.refused(client.ack_command(dispatch)).class_name == JMS


def test_ack_of_an_unknown_consumer_is_ignored(stage: Scene, client: OpenWireClient) -> None:
    ack = commands.MessageAck(
        consumer_id=_consumer(client),
        ack_type=AckType.STANDARD,
        last_message_id=FOREIGN_MESSAGE_ID,
        message_count=1,
    )
    client.request(ack)
    client.tell(ack)
    client.ping()
    assert client.take_events() == []
    stage.bystander.work()
    assert stage.log_about(client) == []


def test_ack_with_another_connections_consumer_id_does_not_touch_its_messages(
    stage: Scene, client: OpenWireClient
) -> None:
    destination = queue(unique("mine"))
    with OpenWireClient.logged_in(stage.port) as victim:
        victim.subscribe(destination)
        victim.send_text(destination, "mine")
        dispatch = victim.receive()
        client.request(client.ack_command(dispatch))
        victim.request(victim.ack_command(dispatch))  # still in flight there


def test_topic_acks_only_move_the_window(stage: Scene, client: OpenWireClient) -> None:
    destination = topic(unique("window"))
    consumer = client.subscribe(destination, prefetch_size=1)
    for count in (0, -5, 2**31 - 1):
        client.request(
            commands.MessageAck(
                consumer_id=consumer,
                ack_type=AckType.STANDARD,
                last_message_id=FOREIGN_MESSAGE_ID,
                message_count=count,
            )
        )
    client.send_text(destination, "still here")
    assert text_of(client.receive(consumer)) == "still here"
    assert stage.log_about(client) == []


@pytest.mark.parametrize("kind", [commands.SessionId, commands.ProducerId, commands.ConsumerId])
def test_everything_is_refused_after_the_connection_was_removed(
    stage: Scene, client: OpenWireClient, kind: type[Structure]
) -> None:
    client.request(commands.RemoveInfo(object_id=commands.ConnectionId(client.connection_id)))
    match kind:
        case commands.SessionId:
            command: Structure = commands.SessionInfo(session_id=commands.SessionId(client.connection_id, 5))
        case commands.ProducerId:
            command = commands.ProducerInfo(producer_id=commands.ProducerId(client.connection_id, 1, -1))
        case _:
            command = commands.ConsumerInfo(
                consumer_id=commands.ConsumerId(client.connection_id, -1, 1), destination=queue("q")
            )
    assert client.refused(command).class_name == STATE
    stage.expect_line(client, "refused")


def test_message_is_refused_after_the_connection_was_removed(stage: Scene, client: OpenWireClient) -> None:
    message = client.text_message(queue(unique("late")), "too late")
    client.request(commands.RemoveInfo(object_id=commands.ConnectionId(client.connection_id)))
    assert client.refused(message).class_name == STATE
    stage.expect_line(client, "refused")


def test_endless_text_in_a_refusal_is_cut(stage: Scene) -> None:
    """Ids may fill a frame, and the refusal quotes them: it must still fit into a string on the wire."""
    with OpenWireClient.logged_in(stage.port) as client:
        session = commands.SessionId("x" * 65_500, 1)
        thrown = client.refused(commands.SessionInfo(session_id=session))
        assert thrown.class_name == SECURITY
        assert len(thrown.message or "") <= 4096
        client.ping()


def test_line_ends_in_ids_do_not_forge_log_lines(stage: Scene, client: OpenWireClient) -> None:
    forged = "x\n2026-01-01 00:00:00.000 WARN  server  peer 192.0.2.1:1 closed: forged"
    client.refused(commands.SessionInfo(session_id=commands.SessionId(forged, 1)))
    assert not [line for line in stage.log() if line.startswith("2026-01-01 00:00:00.000")]
    assert len(stage.log_about(client)) == 1


# --- who one is ----------------------------------------------------------------------------------------


def test_client_id_in_use_is_refused_and_its_holder_notices_nothing(stage: Scene, client: OpenWireClient) -> None:
    with OpenWireClient.connect(stage.port) as second:
        second.handshake()
        thrown = second.refused(second.connection_info(client_id=f"client of {client.connection_id}"))
        assert thrown.class_name == "javax.jms.InvalidClientIDException"
        assert second.read_until_closed() == [], "closed after two seconds, without another word"
        stage.expect_line(second, "is in use")
    client.ping()
    assert client.take_events() == []


def test_client_id_is_free_again_when_its_holder_has_gone(stage: Scene) -> None:
    name = unique("client")
    OpenWireClient.logged_in(stage.port, client_id=name).log_out()
    with OpenWireClient.logged_in(stage.port, client_id=name) as again:
        again.ping()


@pytest.mark.parametrize("client_id", [None, ""])
def test_missing_client_id_is_refused(stage: Scene, client_id: str | None) -> None:
    with OpenWireClient.connect(stage.port) as client:
        client.handshake()
        thrown = client.refused(client.connection_info(client_id=client_id))
        assert thrown.class_name == "javax.jms.InvalidClientIDException"
        assert client.read_until_closed() == []
        stage.expect_line(client, "client id")


def test_refused_client_that_did_not_ask_is_told_too(stage: Scene) -> None:
    with OpenWireClient.connect(stage.port) as client:
        client.handshake()
        client.tell(client.connection_info(client_id=None))
        (error,) = client.read_until_closed()
        assert isinstance(error, commands.ConnectionError)
        assert error.exception is not None
        assert error.exception.class_name == "javax.jms.InvalidClientIDException"
        stage.expect_line(client, "client id")


def test_refused_client_may_try_again_on_the_same_connection(stage: Scene) -> None:
    with OpenWireClient.connect(stage.port) as client:
        client.handshake()
        client.refused(client.connection_info(client_id=None))
        client.login()
        client.ping()


@pytest.mark.parametrize("client_id", [None, "another"], ids=["that says it is the same", "that says it is another"])
def test_connection_id_of_a_client_that_is_there_is_not_taken_over(stage: Scene, client_id: str | None) -> None:
    first, second = OpenWireClient.logged_in(stage.port), OpenWireClient.connect(stage.port)
    with first, second:
        second.connection_id = first.connection_id
        second.handshake()
        info = second.connection_info(
            failover_reconnect=True, **({} if client_id is None else {"client_id": client_id})
        )
        refused = second.refused(info)
        assert (refused.class_name, "in use" in (refused.message or "")) == ("javax.jms.InvalidClientIDException", True)
        first.ping()
        assert [type(event) for event in first.take_events() if not isinstance(event, commands.KeepAliveInfo)] == []


def test_J4_client_that_comes_back_has_its_connection_id_again(stage: Scene) -> None:
    """It says all it has to say behind its login, and the broker may see that before it sees the old socket's end."""
    destination = queue(unique("replaced"))
    first, second = OpenWireClient.logged_in(stage.port), OpenWireClient.connect(stage.port)
    with first, second:
        consumer = first.subscribe(destination)
        first.send_text(destination, "in flight")
        first.receive(consumer)
        second.connection_id = first.connection_id
        second.handshake()
        login = second.post(second.connection_info(failover_reconnect=True))
        session = second.post(commands.SessionInfo(session_id=commands.SessionId(second.connection_id, 1)))
        first.close()
        for command_id in (login, session):
            assert type(second.answer(command_id)) is commands.Response
        again = second.receive(second.subscribe(destination))
        assert text_of(again) == "in flight"
        assert again.redelivery_counter == 1
        assert stage.log_about(second) == []


def test_A1_client_that_took_its_connection_back_may_announce_itself_again(client: OpenWireClient) -> None:
    destination = queue(unique("again"))
    for client_id in (None, unique("another")):
        client.send_text(destination, "m")
        client.request(commands.RemoveInfo(object_id=commands.ConnectionId(client.connection_id)))
        assert client.refused(client.text_message(destination, "too early")).class_name == STATE
        client.login(client_id)
        client.forget_resources()
        client.receive(client.subscribe(destination))


def test_message_under_the_producer_id_of_another_client_is_refused(stage: Scene, client: OpenWireClient) -> None:
    with OpenWireClient.logged_in(stage.port) as other:
        for field in ("producer_id", "message_id"):
            message = client.text_message(queue("q"), "m")
            foreign = other.text_message(queue("q"), "m")
            setattr(message, field, getattr(foreign, field))
            assert client.refused(message).class_name == "java.lang.SecurityException"


def test_login_that_is_refused_does_not_replace_the_connection_of_that_id(stage: Scene, client: OpenWireClient) -> None:
    holder = unique("holder")
    with OpenWireClient.logged_in(stage.port, client_id=holder), OpenWireClient.connect(stage.port) as intruder:
        intruder.handshake()
        intruder.refused(
            intruder.connection_info(connection_id=commands.ConnectionId(client.connection_id), client_id=holder)
        )
        client.ping()
        assert client.take_events() == []


# --- many at once --------------------------------------------------------------------------------------


def test_crowd_of_bad_peers_disturbs_nobody(stage: Scene) -> None:
    crowd = [OpenWireClient.logged_in(stage.port) for _ in range(25)]
    try:
        for number, client in enumerate(crowd):
            client.send_bytes(list(GARBAGE.values())[number % len(GARBAGE)])
            stage.bystander.work(1)
        for client in crowd:
            closed_after_connection_error(client)
        log = stage.log()
        for client in crowd:
            assert len([line for line in log if f"peer {client.address} closed: " in line]) == 1
    finally:
        for client in crowd:
            client.close()

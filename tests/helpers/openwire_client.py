"""A small blocking OpenWire client, for tests that must say exactly what a client says.

The client side of our own `OpenWireProtocol` over a socket: any version, encoding and cache, any structure, any bytes.
Nothing happens in the background: the socket is read only inside a call that waits, and every wait has a deadline.
Events that a wait did not ask for are kept for the next one.
"""

import itertools
import os
import re
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from ackwire.wire.openwire import commands
from ackwire.wire.openwire.bodies import decode_text, encode_text
from ackwire.wire.openwire.commands import AckType
from ackwire.wire.openwire.marshal import Codec, WireFormat
from ackwire.wire.openwire.negotiation import Agreement, Preferences
from ackwire.wire.openwire.protocol import Event, OpenWireProtocol
from ackwire.wire.openwire.structures import Structure, Throwable
from tests.helpers.processes import RunningBroker

TIMEOUT_SECONDS: Final = 20.0
"""For everything that should take milliseconds: more than a busy machine needs, less than pytest's own limit."""

UNWATCHED: Final = Preferences(inactivity_ms=0, inactivity_initial_delay_ms=0)
"""The usual preferences: loose, no cache, and no inactivity monitor, so that a test may think as long as it likes."""

HEADER_BYTES: Final = 4

_T = TypeVar("_T")
_numbers = itertools.count(1)


class PeerClosed(Exception):
    """The broker has closed the connection; the text lists what was received and not asked for."""


_MARKER_SIZES = itertools.count(0xF000_0000)


def queue(name: str) -> commands.ActiveMQQueue:
    return commands.ActiveMQQueue(name)


def topic(name: str) -> commands.ActiveMQTopic:
    return commands.ActiveMQTopic(name)


def frame(command: Structure, wire_format: WireFormat | None = None) -> bytes:
    """*command* as bytes, in the format that every connection starts with unless told otherwise."""
    return Codec(wire_format or WireFormat()).encode(command)


def unique(what: str) -> str:
    """A name that no other test, in this process or another, has used."""
    return f"{what}-{os.getpid()}-{time.monotonic_ns()}-{next(_numbers)}"


def text_of(dispatch: commands.MessageDispatch) -> str | None:
    """The text of a dispatched TextMessage."""
    assert isinstance(dispatch.message, commands.ActiveMQTextMessage), dispatch
    return decode_text(dispatch.message.content)


class OpenWireClient:
    """One connection to a broker. `connect` leaves everything unsaid; `logged_in` is ready to work."""

    def __init__(self, sock: socket.socket, wants: Preferences = UNWATCHED) -> None:
        self.socket = sock
        self.protocol = OpenWireProtocol(wants)
        self.events: deque[Event] = deque()
        """Received, and not yet asked for."""
        self.connection_id = unique("ID:test")
        self.is_closed = False
        """Whether the broker has closed the connection."""
        self._command_ids = itertools.count(1)
        self._session_ids = itertools.count(1)
        self._consumer_values = itertools.count(1)
        self._producer_values = itertools.count(1)
        self._sequences = itertools.count(1)
        self._session: commands.SessionId | None = None
        self._producer: commands.ProducerId | None = None
        name: Any = sock.getsockname()
        self.address = f"{name[0]}:{name[1]}"
        """This end, as the broker's log names it."""

    # ---- life --------------------------------------------------------------------------------------------------

    @classmethod
    def connect(
        cls,
        port: int,
        wants: Preferences = UNWATCHED,
        *,
        tls: ssl.SSLContext | None = None,
        receive_buffer_bytes: int | None = None,
    ) -> Self:
        """Connect to *port* on this machine and say nothing yet."""
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            if receive_buffer_bytes is not None:  # only effective before the connection is made
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
            sock.settimeout(TIMEOUT_SECONDS)
            sock.connect(("127.0.0.1", port))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return cls(sock if tls is None else tls.wrap_socket(sock, server_hostname="127.0.0.1"), wants)
        except BaseException:
            sock.close()
            raise

    @classmethod
    def logged_in(
        cls,
        port: int,
        wants: Preferences = UNWATCHED,
        *,
        client_id: str | None = None,
        tls: ssl.SSLContext | None = None,
        receive_buffer_bytes: int | None = None,
    ) -> Self:
        """Connect, shake hands and log in."""
        client = cls.connect(port, wants, tls=tls, receive_buffer_bytes=receive_buffer_bytes)
        try:
            client.handshake()
            client.login(client_id=client_id)
        except BaseException:
            client.close()
            raise
        return client

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket without a word."""
        self.socket.close()

    # ---- bytes -------------------------------------------------------------------------------------------------

    def send_bytes(self, data: bytes) -> None:
        """Send *data* as it is."""
        self.socket.settimeout(TIMEOUT_SECONDS)
        self.socket.sendall(data)

    def flush(self) -> None:
        """Send what the protocol has ready."""
        self.send_bytes(b"".join(self.protocol.data_to_send()))

    def read_some(self, timeout_seconds: float = TIMEOUT_SECONDS) -> bool:
        """Wait for bytes and keep the events in them; False once the broker has closed. Raises `TimeoutError`."""
        self.socket.settimeout(max(0.001, timeout_seconds))
        try:
            data = self.socket.recv(65536)
        except ConnectionError:
            data = b""
        if not data:
            self.is_closed = True
            return False
        self.protocol.receive_data(data)
        for event in self.protocol.events():
            if isinstance(event, Agreement):
                self.protocol.login_finished()  # the broker is no stranger: its frames may have any agreed size
            self.events.append(event)
        return True

    def read_until_closed(self, timeout_seconds: float = TIMEOUT_SECONDS) -> list[Event]:
        """All events until the broker closes the connection, which it must do in time."""
        deadline = time.monotonic() + timeout_seconds
        while self.read_some(deadline - time.monotonic()):
            assert time.monotonic() < deadline, f"not closed after {timeout_seconds} s"
        return self.take_events()

    # ---- events ------------------------------------------------------------------------------------------------

    def wait_for(self, kind: type[_T], condition: Callable[[_T], bool] | None = None, **options: float) -> _T:
        """Take the first event of *kind* that meets *condition*; raises `PeerClosed` or `TimeoutError`."""
        deadline = time.monotonic() + options.get("timeout_seconds", TIMEOUT_SECONDS)
        checked = 0
        while True:
            for index, event in enumerate(itertools.islice(self.events, checked, None), checked):
                if isinstance(event, kind) and (condition is None or condition(event)):
                    del self.events[index]
                    return event
            checked = len(self.events)
            if time.monotonic() >= deadline:
                raise TimeoutError(f"no {kind.__name__} in time; received: {list(self.events)[:20]}")
            if not self.read_some(deadline - time.monotonic()):
                raise PeerClosed(f"no {kind.__name__} before the end; received: {list(self.events)[:20]}")

    def take_events(self) -> list[Event]:
        """What was received and not asked for."""
        events = list(self.events)
        self.events.clear()
        return events

    # ---- commands ----------------------------------------------------------------------------------------------

    def send(self, *structures: Structure) -> None:
        """Send structures as they are."""
        for structure in structures:
            self.protocol.send(structure)
        self.flush()

    def post(self, command: Any) -> int:
        """Give *command* the next command id, ask for a response, send it, and do not wait; returns the id."""
        command.command_id = next(self._command_ids)
        command.response_required = True
        self.send(command)
        return int(command.command_id)

    def answer(self, command_id: int) -> commands.Response:
        """The response to the command of that id, an ExceptionResponse included."""
        return self.wait_for(commands.Response, lambda response: response.correlation_id == command_id)

    def ask(self, command: Structure) -> commands.Response:
        """`post` and its `answer`."""
        return self.answer(self.post(command))

    def request(self, command: Structure) -> None:
        """`ask`, and the answer must be a plain Response."""
        response = self.ask(command)
        assert type(response) is commands.Response, response

    def refused(self, command: Structure) -> Throwable:
        """`ask`, and the answer must be an ExceptionResponse; returns what it carries."""
        response = self.ask(command)
        assert isinstance(response, commands.ExceptionResponse), response
        assert response.exception is not None
        return response.exception

    def tell(self, command: Any) -> None:
        """Send *command* with the next command id, and ask for nothing."""
        command.command_id = next(self._command_ids)
        command.response_required = False
        self.send(command)

    def handshake(self) -> Agreement:
        """Send our WireFormatInfo; wait for the broker's, and for its BrokerInfo."""
        self.flush()
        agreement = self.wait_for(Agreement)
        self.wait_for(commands.BrokerInfo)
        return agreement

    def connection_info(self, **fields: Any) -> commands.ConnectionInfo:
        """A ConnectionInfo with this client's ids, unless *fields* say otherwise."""
        given: dict[str, Any] = {
            "connection_id": commands.ConnectionId(self.connection_id),
            "client_id": f"client of {self.connection_id}",
        }
        return commands.ConnectionInfo(**(given | fields))

    def login(self, client_id: str | None = None) -> None:
        self.request(self.connection_info(**({"client_id": client_id} if client_id is not None else {})))

    def forget_resources(self) -> None:
        """The broker has forgotten them: what helpers use is announced anew."""
        self._session = None
        self._producer = None

    def log_out(self) -> None:
        """Leave as a well-behaved client does."""
        self.request(commands.RemoveInfo(object_id=commands.ConnectionId(self.connection_id)))
        self.send(commands.ShutdownInfo())
        assert not self.read_some(), f"the broker still talks after ShutdownInfo: {self.events}"
        self.close()

    def open_session(self) -> commands.SessionId:
        """A new session."""
        session = commands.SessionId(self.connection_id, next(self._session_ids))
        self.request(commands.SessionInfo(session_id=session))
        return session

    @property
    def session(self) -> commands.SessionId:
        """The session that helpers use where none is given."""
        if self._session is None:
            self._session = self.open_session()
        return self._session

    def consumer_info(self, destination: commands.ActiveMQDestination, **fields: Any) -> commands.ConsumerInfo:
        """A ConsumerInfo for a new consumer in the usual session."""
        session = self.session
        consumer = commands.ConsumerId(session.connection_id, session.value, next(self._consumer_values))
        given: dict[str, Any] = {"consumer_id": consumer, "destination": destination, "prefetch_size": 1000}
        return commands.ConsumerInfo(**(given | fields))

    def subscribe(self, destination: commands.ActiveMQDestination, **fields: Any) -> commands.ConsumerId:
        """A new consumer; *fields* of ConsumerInfo besides the obvious ones, such as `prefetch_size`."""
        info = self.consumer_info(destination, **fields)
        self.request(info)
        assert info.consumer_id is not None
        return info.consumer_id

    def open_producer(self, destination: commands.ActiveMQDestination | None = None) -> commands.ProducerId:
        session = self.session
        producer = commands.ProducerId(session.connection_id, next(self._producer_values), session.value)
        self.request(commands.ProducerInfo(producer_id=producer, destination=destination))
        return producer

    @property
    def producer(self) -> commands.ProducerId:
        """The producer that helpers use where none is given."""
        if self._producer is None:
            self._producer = self.open_producer()
        return self._producer

    def text_message(
        self, destination: commands.ActiveMQDestination, text: str, *, persistent: bool = False
    ) -> commands.ActiveMQTextMessage:
        """The next message of the usual producer."""
        producer = self.producer
        return commands.ActiveMQTextMessage(
            producer_id=producer,
            destination=destination,
            message_id=commands.MessageId(producer_id=producer, producer_sequence_id=next(self._sequences)),
            persistent=persistent,
            priority=4,
            timestamp=time.time_ns() // 1_000_000,
            content=encode_text(text),
        )

    def send_text(
        self, destination: commands.ActiveMQDestination, *texts: str, wait: bool = True, persistent: bool = False
    ) -> None:
        """Send messages in one write; with *wait* the broker has taken them all when this returns."""
        last = None
        for text in texts:
            last = self.text_message(destination, text, persistent=persistent)
            last.command_id = next(self._command_ids)
            last.response_required = wait and text is texts[-1]
            self.protocol.send(last)
        self.flush()
        if wait and last is not None:
            response = self.answer(last.command_id)
            assert type(response) is commands.Response, response

    def receive(self, consumer: commands.ConsumerId | None = None) -> commands.MessageDispatch:
        """The next message for *consumer*, or for any."""
        return self.wait_for(
            commands.MessageDispatch, lambda dispatch: consumer is None or dispatch.consumer_id == consumer
        )

    def ack(
        self,
        dispatch: commands.MessageDispatch,
        ack_type: int = AckType.STANDARD,
        *,
        first: commands.MessageDispatch | None = None,
        count: int = 1,
    ) -> None:
        """Acknowledge *dispatch*, or the *count* messages from *first* to it; ask for nothing."""
        self.tell(self.ack_command(dispatch, ack_type, first=first, count=count))

    def ack_command(
        self,
        dispatch: commands.MessageDispatch,
        ack_type: int = AckType.STANDARD,
        *,
        first: commands.MessageDispatch | None = None,
        count: int = 1,
    ) -> commands.MessageAck:
        assert dispatch.message is not None
        assert first is None or first.message is not None
        return commands.MessageAck(
            destination=dispatch.destination,
            consumer_id=dispatch.consumer_id,
            ack_type=ack_type,
            first_message_id=first.message.message_id if first is not None and first.message else None,
            last_message_id=dispatch.message.message_id,
            message_count=count,
        )

    def ping(self, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        """Wait for the broker to have handled everything sent so far: a KeepAliveInfo there and back."""
        command_id = next(self._command_ids)
        self.send(commands.KeepAliveInfo(command_id=command_id, response_required=True))
        self.wait_for(
            commands.KeepAliveInfo, lambda info: info.command_id == command_id, timeout_seconds=timeout_seconds
        )


# ---- a broker that is watched ----------------------------------------------------------------------------------


class Bystander:
    """A well-behaved client with a queue of its own; whatever others do, its messages come back to it at once."""

    def __init__(self, port: int) -> None:
        self._client = OpenWireClient.logged_in(port)
        self._queue = queue(unique("bystander"))
        self._consumer = self._client.subscribe(self._queue)
        self._count = 0

    def work(self, times: int = 3) -> None:
        """Send, receive and acknowledge; nothing but that may happen on the connection."""
        for _ in range(times):
            self._count += 1
            self._client.send_text(self._queue, f"message {self._count}", persistent=self._count % 2 == 0)
            dispatch = self._client.receive(self._consumer)
            assert text_of(dispatch) == f"message {self._count}"
            self._client.ack(dispatch)
        self._client.ping()
        assert self._client.take_events() == []

    def leave(self) -> None:
        self._client.log_out()

    def close(self) -> None:
        self._client.close()


class Scene:
    """A broker, a bystander on it, and what the broker logs from here on. The first listener is a plain tcp one."""

    def __init__(self, broker: RunningBroker) -> None:
        self.broker = broker
        self.port = broker.ports[0]
        self._log_start = broker.process.log_path.stat().st_size
        self.bystander = Bystander(self.port)

    def log(self) -> list[str]:
        """The lines that the broker has logged by now."""
        with OpenWireClient.connect(self.port) as marker:
            # Is answered with a line, and all earlier ones have been read then. A size of its own and not its address
            # tells the line from others: the system gives addresses out again.
            size = next(_MARKER_SIZES)
            marker.send_bytes(size.to_bytes(4))
            marked = re.compile(rf" closed: a frame of {size} bytes")
            self.broker.process.wait_for_line(marked, TIMEOUT_SECONDS)
        data = self.broker.process.log_path.read_bytes()[self._log_start :]
        return [line for line in data.decode().splitlines() if not marked.search(line)]

    def log_about(self, client: OpenWireClient) -> list[str]:
        """The lines that name *client*'s address."""
        return [line for line in self.log() if re.search(rf"{re.escape(client.address)}\b", line)]

    def expect_line(self, client: OpenWireClient, reason: str) -> None:
        """The bystander is well, and the log has exactly one line about *client*, which gives the *reason*."""
        self.bystander.work()
        lines = self.log_about(client)
        assert len(lines) == 1, lines
        assert reason in lines[0], lines[0]


@contextmanager
def scene(broker: RunningBroker) -> Iterator[Scene]:
    """A `Scene` whose bystander works before and after, and finds nothing strange; the log shows no traceback."""
    stage = Scene(broker)
    try:
        stage.bystander.work()
        yield stage
        stage.bystander.work()
        stage.bystander.leave()
        assert not [line for line in stage.log() if "Traceback" in line or "error in the broker" in line]
    finally:
        stage.bystander.close()

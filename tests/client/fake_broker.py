"""A broker that says what a test tells it to, for what no real one would say, or not just then.

It answers every request, unless the test's rule keeps the answer back or gives another one; messages come when the test
dispatches them. It knows one destination's worth of nothing: no queue, no order, no acknowledgement.
"""

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from ackwire.wire.openwire import commands
from ackwire.wire.openwire.negotiation import Agreement, Preferences
from ackwire.wire.openwire.protocol import OpenWireProtocol
from ackwire.wire.openwire.structures import Structure, Throwable
from tests.conformance.proxy import shut

C = TypeVar("C")

WAIT_SECONDS: Final = 20.0  # for what should take milliseconds
PRODUCER: Final = commands.ProducerId("ID:fake", 1, 1)

Rule = Callable[["Client", Any], bool]


class Client:
    """One connection of a client."""

    def __init__(self, broker: "FakeBroker", side: socket.socket) -> None:
        self._broker = broker
        self._side = side
        self._lock = threading.Lock()
        self._protocol = OpenWireProtocol(Preferences(inactivity_ms=0, inactivity_initial_delay_ms=0))

    def send(self, *said: Structure) -> None:
        with self._lock:
            for command in said:
                self._protocol.send(command)
            self._flush()

    def answer(self, request: Any, error: Throwable | None = None) -> None:
        """Confirm *request*, or refuse it with *error*."""
        if error is None:
            self.send(commands.Response(correlation_id=request.command_id))
        else:
            self.send(commands.ExceptionResponse(correlation_id=request.command_id, exception=error))

    def serve(self) -> None:
        with contextlib.suppress(OSError):
            with self._lock:
                self._flush()
            while data := self._side.recv(65536):
                with self._lock:
                    self._protocol.receive_data(data)
                    events = list(self._protocol.events())
                for event in events:
                    self._take(event)
        self.close()

    def close(self) -> None:
        shut(self._side)
        self._side.close()

    def _take(self, event: Any) -> None:
        if isinstance(event, Agreement):
            self._protocol.login_finished()
            return
        is_answered = self._broker.heard(self, event)
        if is_answered and getattr(event, "response_required", False):
            self.answer(event)

    def _flush(self) -> None:
        data = b"".join(self._protocol.data_to_send())
        if data:
            self._side.sendall(data)


class FakeBroker:
    """Listens on loopback. *rule* sees each command first; what it is false of is not answered."""

    def __init__(self, rule: Rule = lambda _client, _command: True) -> None:
        self.rule = rule
        self.clients: list[Client] = []
        """All that ever came, the newest last."""
        self._heard: list[Any] = []
        self._news = threading.Condition()
        self._server = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port: int = self._server.getsockname()[1]

    @property
    def url(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name="fake broker", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shut(self._server)
        self._server.close()
        for client in self.clients:
            client.close()

    # ---- what clients said -------------------------------------------------------------------------------------

    def all(self, kind: type[C]) -> list[C]:
        with self._news:
            return [command for command in self._heard if isinstance(command, kind)]

    def await_all(self, kind: type[C], count: int = 1, where: Callable[[C], bool] = lambda _: True) -> list[C]:
        """Those commands of that *kind*, once there are *count*."""

        def found() -> list[C]:
            return [command for command in self.all(kind) if where(command)]

        with self._news:
            there = self._news.wait_for(lambda: len(found()) >= count, WAIT_SECONDS)
            assert there, f"{len(found())} of {count} {kind.__name__} came"
            return found()

    def await_consumer(self) -> commands.ConsumerInfo:
        """The newest consumer that an application made."""
        return self.await_all(commands.ConsumerInfo, where=_is_of_application)[-1]

    def heard(self, client: Client, command: Any) -> bool:
        with self._news:
            self._heard.append(command)
            self._news.notify_all()
        return self.rule(client, command)

    # ---- what it says ------------------------------------------------------------------------------------------

    def send(self, *said: Structure) -> None:
        """To the client that came last."""
        self.clients[-1].send(*said)

    def dispatch(self, numbers: range) -> None:
        """Messages with these numbers as bodies, for the newest consumer."""
        consumer = self.await_consumer()
        self.send(*(_dispatched(consumer, number) for number in numbers))

    def _accept(self) -> None:
        while True:
            try:
                side, _ = self._server.accept()
            except OSError:
                return  # closed
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client = Client(self, side)
            self.clients.append(client)
            threading.Thread(target=client.serve, name="fake broker", daemon=True).start()


def _is_of_application(info: commands.ConsumerInfo) -> bool:
    return info.consumer_id is not None and info.consumer_id.session_id > 0


def _dispatched(consumer: commands.ConsumerInfo, number: int) -> commands.MessageDispatch:
    text = str(number).encode()
    message = commands.ActiveMQTextMessage(
        producer_id=PRODUCER,
        destination=consumer.destination,
        message_id=commands.MessageId(None, PRODUCER, number + 1, number + 1),
        persistent=True,
        priority=4,
        content=len(text).to_bytes(4, "big") + text,
    )
    return commands.MessageDispatch(consumer_id=consumer.consumer_id, destination=consumer.destination, message=message)

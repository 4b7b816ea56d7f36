"""A toy protocol of text lines, to show what a protocol needs: a factory, `wire/canonical.py`, the broker's verbs.

    client                                broker
    LINE <client id>                      OK login                      as the first line
    SEND <receipt> <queue> <JSON text>    OK <receipt>                  a persistent message, once it is stored
    SUBSCRIBE <id> <queue> <prefetch>     OK <id>
                                          MESSAGE <id> <number> <redeliveries> <JSON text>
    ACK <id> <number>                     OK <number>
                                          ERROR <text>                  and a broken rule ends it, too

Nothing here knows OpenWire, and nothing in the broker knows this.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

from ackwire.broker.in_flight import AckKind
from ackwire.broker.session import IMPLICIT_SESSION, Connection, Login
from ackwire.broker.subscription import SubscriptionRequest
from ackwire.errors import AckwireError, BrokerError, InvalidDestination, RemoteProtocolError
from ackwire.jms.destinations import Kind, peer_destination
from ackwire.jms.message import Message
from ackwire.server.adapters.contract import AdaptedClient, Adapter, ConnectionContext
from ackwire.wire.canonical import MessageView, MessageWriter
from ackwire.wire.protocol import WireProtocol

LINE_BYTES_MAX: Final = 16 * 1024


class Line(NamedTuple):
    """One line from the client."""

    verb: str
    rest: str

    def take(self, count: int) -> list[str]:
        """Exactly *count* words; the last one may have spaces."""
        words = self.rest.split(" ", count - 1)
        if len(words) != count or not all(words):
            raise RemoteProtocolError(f"{self.verb[:20]} takes {count} words")
        return words


class LineProtocol(WireProtocol):
    """Cuts what is received into lines."""

    def __init__(self) -> None:
        super().__init__()
        self._received = b""
        self._out: list[bytes] = []

    def receive_data(self, data: bytes) -> None:
        self._received += data

    def drop_received(self) -> None:
        self._received = b""

    def events(self) -> Iterator[Line]:
        while b"\n" in self._received[: LINE_BYTES_MAX + 1]:
            line, _, self._received = self._received.partition(b"\n")
            try:
                verb, _, rest = line.decode().partition(" ")
            except UnicodeDecodeError:
                raise RemoteProtocolError("a line that is not UTF-8") from None
            yield Line(verb, rest)
        if len(self._received) > LINE_BYTES_MAX:
            raise RemoteProtocolError(f"a line of over {LINE_BYTES_MAX} bytes")

    def send_line(self, *words: object) -> None:
        piece = (" ".join(map(str, words)) + "\n").encode()
        self._out.append(piece)
        self.waiting_bytes += len(piece)

    def data_to_send(self) -> list[bytes]:
        pieces, self._out, self.waiting_bytes = self._out, [], 0
        return pieces


class _Consumer:
    """The end of one subscription, a `ConsumerPort`: numbers what it delivers."""

    def __init__(self, name: str, consumer_id: str, tell: Callable[..., None]) -> None:
        self._name = name
        self._tell = tell
        self.consumer_id = consumer_id
        self._count = 0
        self.keys: dict[int, bytes] = {}  # of what is not acknowledged

    def deliver(self, message: Message, group_first: bool) -> None:
        del group_first
        self._count += 1
        self.keys[self._count] = message.key
        body = json.dumps(MessageView(message).body, default=repr)
        self._tell("MESSAGE", self._name, self._count, message.redelivery_counter, body)

    def change_prefetch(self, prefetch: int) -> None: ...
    def end_of_messages(self) -> None: ...


class LineAdapter(Adapter):
    """Lines to verbs of the broker."""

    def __init__(self, context: ConnectionContext) -> None:
        self._lines = LineProtocol()
        super().__init__(AdaptedClient(context.peer, context.broker, context.broker.clock), self._lines)
        self._connection_id = f"LINE:{context.address}-{context.broker.clock.now_ms()}"
        self._writer = MessageWriter(self._connection_id)
        self._consumers: dict[str, _Consumer] = {}

    def handle(self, event: Line) -> None:
        handler = _HANDLERS.get(event.verb)
        if handler is None or (self.client.connection is None) is not (event.verb == "LINE"):
            raise RemoteProtocolError(f"{event.verb[:20]!r} has no place here")
        try:
            handler(self, event)
        except (BrokerError, InvalidDestination) as error:
            self.send_connection_error(error)

    def _on_login(self, line: Line) -> None:
        login, client = Login(self._connection_id, client_id=line.take(1)[0]), self.client
        client.claim = client.broker.admit(login, client.peer, self._admitted, self.send_connection_error)

    def _admitted(self, connection: Connection) -> None:
        self.client.connection = connection
        self.client.peer.login_finished()
        self._tell("OK", "login")

    def _on_send(self, line: Line) -> None:
        receipt, queue, text = line.take(3)
        try:
            body = str(json.loads(text))
        except ValueError:
            raise RemoteProtocolError("the text of a SEND is not JSON") from None
        where = peer_destination(Kind.QUEUE, queue)
        message = self._writer.message(where, body, timestamp=self.client.clock.now_ms())
        on_stored = partial(self._tell, "OK", receipt)
        self.client.broker.send(
            self.client.open_connection, message, on_stored, lambda _, error: self.send_connection_error(error)
        )

    def _on_subscribe(self, line: Line) -> None:
        name, queue, prefetch = line.take(3)
        if not prefetch.isdecimal() or name in self._consumers:
            raise RemoteProtocolError("SUBSCRIBE takes a new id, a queue and a number")
        consumer_id = f"{self._connection_id}:{IMPLICIT_SESSION}:{len(self._consumers) + 1}"
        where = peer_destination(Kind.QUEUE, queue)
        request = SubscriptionRequest(consumer_id, IMPLICIT_SESSION, where, prefetch=int(prefetch[:4]))
        self._consumers[name] = _Consumer(name, consumer_id, self._tell)
        self._tell("OK", name)
        self.client.broker.subscribe(self.client.open_connection, request, self._consumers[name])

    def _on_ack(self, line: Line) -> None:
        name, number = line.take(2)
        consumer = self._consumers.get(name)
        key = consumer.keys.pop(int(number), None) if consumer and number.isdecimal() and len(number) < 9 else None
        if consumer is None or key is None:
            raise RemoteProtocolError("an ACK for nothing that was delivered")
        subscription = self.client.broker.subscription(self.client.open_connection, consumer.consumer_id)
        self.client.broker.acknowledge(subscription, AckKind.INDIVIDUAL, key, key, 1)
        self.client.broker.when_durable(partial(self._tell, "OK", number), self.send_connection_error)

    def send_connection_error(self, error: AckwireError) -> None:
        self._tell("ERROR", " ".join(str(error).split()))

    def _tell(self, *words: object) -> None:
        self._lines.send_line(*words)
        self.client.peer.output_waits()

    def connection_lost(self) -> None:
        super().connection_lost()
        self._consumers.clear()  # which refer to this


_HANDLERS: Final[dict[str, Callable[[LineAdapter, Line], None]]] = {
    "LINE": LineAdapter._on_login,
    "SEND": LineAdapter._on_send,
    "SUBSCRIBE": LineAdapter._on_subscribe,
    "ACK": LineAdapter._on_ack,
}


class LineFactory:
    """Implements `ProtocolFactory`."""

    name = "the line protocol"
    scheme = "line"
    first_command = login_command = "LINE"

    def recognises(self, first_bytes: bytes) -> bool | None:
        if b"LINE ".startswith(first_bytes[:5]):
            return len(first_bytes) >= 5 or None
        return False

    def open(self, context: ConnectionContext) -> Adapter:
        return LineAdapter(context)


LINE = LineFactory()

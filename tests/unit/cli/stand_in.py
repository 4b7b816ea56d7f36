"""A broker in memory behind the API of the blocking client: as much of it as the commands use.

It is no model of a broker. It keeps queues, hands out messages, and writes down the order of what happened, so that
tests can see that an acknowledgement came after the output was flushed.
"""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from ackwire.client import AckMode, JMSError, Message, TextMessage
from ackwire.client.messages import message_from_command
from ackwire.client.options import ConnectionOptions
from ackwire.client.uri import BrokerUrl, parse_broker_url, parse_destination_uri
from ackwire.jms.destinations import Destination


@dataclass
class Broker:
    """What all connections share."""

    queues: dict[str, deque[Message]] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    sent: list[tuple[Message, dict[str, Any]]] = field(default_factory=list)
    options: list[ConnectionOptions] = field(default_factory=list)
    urls: list[BrokerUrl] = field(default_factory=list)
    logins: list[tuple[str | None, str | None, str | None]] = field(default_factory=list)
    prefetches: list[int | None] = field(default_factory=list)
    acked: list[str] = field(default_factory=list)
    refuse: Callable[[str, Any], JMSError | None] = lambda *_: None
    """Asked before each verb: what it returns is raised."""
    is_silent = False
    """It confirms nothing."""
    is_connected = True
    on_receive: Callable[[], None] = lambda: None
    replies: list[Message] = field(default_factory=list)
    is_empty_once_after: int | None = None
    """So many messages are given; then, once, a consumer hears that there is none."""

    def queue(self, name: str) -> deque[Message]:
        return self.queues.setdefault(name, deque())

    def put(self, name: str, *texts: str) -> None:
        for text in texts:
            self.put_message(name, TextMessage(text))

    def put_message(self, name: str, message: Message) -> None:
        message.message_id = f"ID:stand-in-1:1:1:1:{len(self.queue(name)) + 1}"
        message.destination = f"queue://{name}"
        self.queue(name).append(message_from_command(message.to_command()))

    def check(self, what: str, about: Any = None) -> None:
        error = self.refuse(what, about)
        if error is not None:
            raise error

    def factory(self) -> type:
        """What `ackwire.ConnectionFactory` is to be."""

        class ConnectionFactory(Factory):
            broker = self

        return ConnectionFactory


class Factory:
    broker: Broker

    def __init__(self, url: str) -> None:
        self.url = parse_broker_url(url)
        self.options = self.url.connection

    @classmethod
    def lookup(cls, name: str, path: str | None = None) -> "Factory":
        cls.broker.events.append(f"lookup {name} {path}")
        return cls(f"tcp://{name}:61616")

    def create_connection(self) -> "Connection":
        self.broker.options.append(self.options)
        self.broker.urls.append(self.url)
        return Connection(self.broker, self.options)


class Closing:
    is_closed = False

    def close(self) -> None:
        self.is_closed = True

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Connection(Closing):
    def __init__(self, broker: Broker, options: ConnectionOptions) -> None:
        self.broker = broker
        self._login = (options.user_name, options.password, options.client_id)
        self.on_error: Callable[[JMSError], None] | None = None
        self.on_interrupted: Callable[[], None] | None = None
        self.on_resumed: Callable[[], None] | None = None

    @property
    def is_connected(self) -> bool:
        return self.broker.is_connected

    def start(self) -> None:
        self.broker.check("start")
        self.broker.logins.append(self._login)

    def session(self, ack_mode: int = AckMode.AUTO, *, transacted: bool = False) -> "Session":
        return Session(self.broker, ack_mode, transacted)

    def close(self) -> None:
        super().close()
        self.broker.events.append("connection closed")


class Session(Closing):
    def __init__(self, broker: Broker, ack_mode: int, transacted: bool) -> None:
        self.broker = broker
        self.ack_mode = ack_mode
        self.transacted = transacted
        self.open_sends: list[tuple[Message, dict[str, Any]]] = []
        self.given: list[tuple[str, Message]] = []

    def producer(self, destination: str) -> "Producer":
        self.broker.check("producer", destination)
        return Producer(self, destination)

    def consumer(
        self, destination: Destination | str, selector: str | None = None, *, no_local: bool = False
    ) -> "Consumer":
        del no_local
        self.broker.check("consumer", selector)
        uri = parse_destination_uri(destination if isinstance(destination, str) else repr(destination))
        self.broker.prefetches.append(uri.consumer.prefetch_size)
        return Consumer(self, uri.destination)

    def durable_subscriber(
        self, topic: str, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> "Consumer":
        self.broker.events.append(f"durable {name}")
        return self.consumer(topic, selector, no_local=no_local)

    def unsubscribe(self, name: str) -> None:
        self.broker.check("unsubscribe", name)
        self.broker.events.append(f"unsubscribed {name}")

    def browser(self, queue: str, selector: str | None = None) -> "Browser":
        self.broker.check("browser", selector)
        return Browser(self.broker, parse_destination_uri(queue).destination.name)

    def temporary_queue(self) -> str:
        return "temp-queue://ID:reply"

    def acknowledge(self) -> None:
        self.broker.events.append("session acknowledged")
        self.broker.acked += [str(message.message_id) for _, message in self.given]
        self.given.clear()

    def commit(self) -> None:
        self.broker.check("commit", len(self.open_sends))
        self.broker.events.append(f"committed {len(self.open_sends)}")
        self.broker.sent += self.open_sends
        self.open_sends.clear()

    def rollback(self) -> None:
        self.broker.events.append(f"rolled back {len(self.open_sends)}")
        self.open_sends.clear()


class Producer:
    def __init__(self, session: Session, destination: str) -> None:
        self._session = session
        self.destination = destination

    def send(self, body: Message | None, **options: Any) -> Message | None:
        self._session.broker.check("send", body)
        if "reply_to" in options:
            self._session.broker.queue("ID:reply").extend(self._session.broker.replies)
        if body is not None:
            self._session.open_sends.append((body, options))
        return body

    def submit(self, body: Message, **options: Any) -> "Future[Message]":
        broker = self._session.broker
        future: Future[Message] = Future()
        error = broker.refuse("submit", body)
        if error is not None:
            future.set_exception(error)
            return future
        if broker.is_silent:
            return future
        broker.sent.append((body, options))
        body.message_id = f"ID:sent-1:1:1:1:{len(broker.sent)}"
        if body.reply_to is not None:
            broker.queue(body.reply_to.name).extend(broker.replies)
        future.set_result(body)
        return future


class Consumer(Closing):
    def __init__(self, session: Session, destination: Destination) -> None:
        self._session = session
        self._queue = session.broker.queue(destination.name)

    def receive(self, timeout_seconds: float | None = None) -> Message | None:
        del timeout_seconds
        return self.receive_no_wait()

    def receive_no_wait(self) -> Message | None:
        self._session.broker.on_receive()
        self._session.broker.check("receive")
        assert not self.is_closed, "a closed consumer was asked for a message"
        if not self._queue:
            return None
        if self._session.broker.is_empty_once_after == len(self._session.given):
            self._session.broker.is_empty_once_after = None
            return None
        message = self._queue.popleft()
        self._session.broker.events.append(f"gave {message.message_id}")
        self._session.given.append(("", message))
        acknowledge = self._acknowledger(message)
        vars(message)["acknowledge"] = acknowledge
        return message

    def _acknowledger(self, message: Message) -> Callable[[], None]:
        broker = self._session.broker

        def acknowledge() -> None:
            assert self._session.ack_mode == AckMode.INDIVIDUAL
            assert not self.is_closed, "acknowledged after the consumer was closed"
            broker.events.append(f"acked {message.message_id}")
            broker.acked.append(str(message.message_id))

        return acknowledge


class Browser(Closing):
    def __init__(self, broker: Broker, name: str) -> None:
        self._broker = broker
        self._name = name

    def __iter__(self) -> Iterator[Message]:
        for message in list(self._broker.queue(self._name)):
            self._broker.on_receive()
            yield message

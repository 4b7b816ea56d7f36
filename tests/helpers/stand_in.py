"""A broker and a client that are only lists, for tests of what is built on a client."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from ackwire.client import Message, TextMessage
from ackwire.client.errors import ConnectionFailedError, IllegalStateError, JMSError

WAIT_SECONDS = 60.0  # far more than anything takes; a test that waits so long has failed


class StandInBroker:
    """Messages that wait, and everything that was done with them."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.waiting: queue.Queue[Message] = queue.Queue()
        self.acknowledged: list[str] = []
        self.rejected: list[tuple[str | None, BaseException]] = []
        self.submitted: list[str | None] = []
        self.sent: list[str | None] = []
        self.properties: list[SimpleNamespace] = []
        self.attempts: list[str] = []
        """To connect, in vain."""
        self.is_reachable = True
        self.confirms = True
        self.refuses: Callable[[str | None], JMSError | None] = lambda _: None
        self.connections: list[StandInConnection] = []

    def put(self, *texts: str) -> None:
        for text in texts:
            message: Any = TextMessage(text)
            message.acknowledge = lambda text=text: self._add(self.acknowledged, text)
            message.reject = lambda error, text=text: self._add(self.rejected, (text, error))
            self.waiting.put(message)

    def _add(self, where: list[Any], what: Any) -> None:
        with self.changed:
            where.append(what)
            self.changed.notify_all()

    def wait_until(self, predicate: Callable[[], bool]) -> None:
        """Return when *predicate* holds; it is looked at when something was done with a message."""
        with self.changed:
            assert self.changed.wait_for(predicate, WAIT_SECONDS), (self.acknowledged, self.rejected, self.sent)

    def cut(self) -> None:
        """Every connection is lost, and none can be made."""
        self.is_reachable = False
        for connection in self.connections:
            connection.lose()


class StandInFactory:
    has_async_form = True

    def __init__(self, broker: StandInBroker) -> None:
        self.broker = broker

    def create_connection(self) -> "StandInConnection":
        if not self.broker.is_reachable:
            self.broker._add(self.broker.attempts, "in vain")
            raise ConnectionFailedError("nobody answers")
        connection = StandInConnection(self.broker)
        self.broker.connections.append(connection)
        return connection


class StandInConnection:
    has_async_form = True

    def __init__(self, broker: StandInBroker) -> None:
        self.broker = broker
        self.is_closed = self.is_lost = False
        self.on_error: Any = None
        self.on_interrupted: Any = None
        self.on_resumed: Any = None
        self.unconfirmed: list[Future[Message]] = []

    def lose(self) -> None:
        self.is_lost = True
        for receipt in self.unconfirmed:
            if receipt.set_running_or_notify_cancel():
                receipt.set_exception(ConnectionFailedError("the connection was lost"))
        self.unconfirmed = []

    def check(self) -> None:
        if self.is_closed:
            raise IllegalStateError("the connection is closed")
        if self.is_lost:
            raise ConnectionFailedError("the connection was lost")

    def start(self) -> None:
        self.check()

    def session(self, ack_mode: object = None, *, transacted: bool = False) -> "StandInSession":
        self.check()
        return StandInSession(self, ack_mode, transacted)

    def close(self) -> None:
        self.is_closed = True


class StandInSession:
    has_async_form = True

    def __init__(self, connection: StandInConnection, ack_mode: object, transacted: bool) -> None:
        self.connection = connection
        self.ack_mode = ack_mode
        self.transacted = transacted
        self.is_closed = False

    def __enter__(self) -> "StandInSession":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self.is_closed = True

    def consumer(self, destination: object, selector: str | None = None) -> "StandInConsumer":
        self.connection.check()
        return StandInConsumer(self, destination, selector)

    def producer(self) -> "StandInProducer":
        self.connection.check()
        return StandInProducer(self.connection)

    def commit(self) -> None:
        self.connection.check()
        self.connection.broker._add(self.connection.broker.acknowledged, "commit")

    def rollback(self, cause: BaseException | None = None) -> None:
        del cause
        self.connection.check()
        self.connection.broker._add(self.connection.broker.acknowledged, "rollback")


class StandInConsumer:
    has_async_form = True

    def __init__(self, session: StandInSession, destination: object, selector: str | None) -> None:
        self.session = session
        self.destination = destination
        self.selector = selector

    def __enter__(self) -> "StandInConsumer":
        return self

    def __exit__(self, *exception: object) -> None: ...

    def close(self) -> None: ...

    def receive(self, timeout_seconds: float) -> Message | None:
        self.session.connection.check()
        try:
            return self.session.connection.broker.waiting.get(timeout=timeout_seconds)
        except queue.Empty:
            return None


class StandInProducer:
    has_async_form = True

    def __init__(self, connection: StandInConnection) -> None:
        self.connection = connection

    def submit(self, message: TextMessage, **sending: Any) -> "Future[Message]":
        self.connection.check()
        broker = self.connection.broker
        receipt: Future[Message] = Future()
        refusal = broker.refuses(message.text)
        if refusal is not None:
            receipt.set_exception(refusal)
        elif not broker.confirms:
            self.connection.unconfirmed.append(receipt)
            broker._add(broker.submitted, message.text)
        else:
            broker.properties.append(SimpleNamespace(message=message, **sending))
            broker._add(broker.sent, message.text)
            receipt.set_result(message)
        return receipt

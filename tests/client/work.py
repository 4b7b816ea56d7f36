"""What many tests of the client do: fill a queue, take messages, wait for something that has no event."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import ackwire
from ackwire import DeliveryMode, Message, TextMessage

ARRIVAL_SECONDS: Final = 20.0  # what should come has come by then, on any machine
ABSENCE_SECONDS: Final = 0.2  # how long to look for what must not come, where nothing else can tell
NON_PERSISTENT: Final = DeliveryMode.NON_PERSISTENT
PERSISTENT: Final = DeliveryMode.PERSISTENT


def fill(connection: ackwire.Connection, destination: str, count: int, prefix: str = "m", **headers: Any) -> list[str]:
    """Send m0, m1, … in one transaction; returns their bodies."""
    bodies = [f"{prefix}{number}" for number in range(count)]
    with connection.session(transacted=True) as session:
        producer = session.producer(destination)
        for body in bodies:
            producer.send(body, delivery_mode=NON_PERSISTENT, **headers)
        session.commit()
    return bodies


def text_of(message: Message | None) -> str | None:
    assert isinstance(message, TextMessage), f"not a text message: {message!r}"
    return message.text


def texts_of(messages: Iterable[Message]) -> list[str | None]:
    return [text_of(message) for message in messages]


def receive_one(consumer: ackwire.Consumer) -> Message:
    message = consumer.receive(ARRIVAL_SECONDS)
    assert message is not None, "no message came"
    return message


def receive(consumer: ackwire.Consumer, count: int) -> list[Message]:
    """Exactly *count* messages; fails if they do not all come."""
    return [receive_one(consumer) for _ in range(count)]


def drain(connection: ackwire.Connection, queue: str) -> list[Message]:
    """All that is in *queue* and with nobody; it is empty afterwards."""
    messages: list[Message] = []
    with connection.session() as session:
        consumer = session.consumer(f"{queue}?consumer.prefetchSize=0")
        # The broker itself says when there is no more; ActiveMQ sometimes too early, which a browser shows.
        timeout_seconds = 0.0
        while True:
            while (message := consumer.receive(timeout_seconds)) is not None:
                messages.append(message)
            if timeout_seconds > 0 or not browse(connection, queue):
                return messages
            timeout_seconds = ABSENCE_SECONDS


def browse(connection: ackwire.Connection, queue: str) -> list[Message]:
    """All that is in *queue*, with a consumer or not."""
    with connection.session() as session, session.browser(queue) as browser:
        return list(browser)


def await_processed(connection: ackwire.Connection, destination: str) -> None:
    """Return once the broker has done all that this connection asked for: commands are taken in order."""
    with connection.session() as session:
        session.producer(destination).close()  # creating a producer waits for the broker's answer


def await_that(condition: Callable[[], bool], what: str) -> None:
    """Wait for something in the client that has no event."""
    deadline = time.monotonic() + ARRIVAL_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.002)


def await_waiting(consumer: ackwire.Consumer, count: int) -> None:
    """Return once *count* messages wait inside the client."""
    await_that(lambda: len(consumer._core) >= count, f"{count} messages wait in the client")
    assert len(consumer._core) == count


class InThread:
    """Runs something in a thread of its own, to be looked at while it waits."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._pool = ThreadPoolExecutor(1, "test")
        self._future: Future[Any] = self._pool.submit(work)
        self._pool.shutdown(wait=False)

    @property
    def is_done(self) -> bool:
        return self._future.done()

    def result(self) -> Any:
        return self._future.result(ARRIVAL_SECONDS)

    def assert_waits(self) -> None:
        """It does not end by itself soon."""
        time.sleep(0.05)
        assert not self.is_done

"""Steps that many tests of the client share. Time limits are safety nets, except where a test looks for absence."""

from collections.abc import Iterable
from typing import Any, Final

from ackwire import Connection, Consumer, Message, TextMessage
from tests.client.brokers import Broker

ARRIVAL_SECONDS: Final = 10.0  # a message that should come has come by then, on any machine
ABSENCE_SECONDS: Final = 0.3  # how long to look for a message that must not come
DEAD_LETTERS: Final = "queue://ActiveMQ.DLQ"
CAUSE: Final = "dlqDeliveryFailureCause"


def numbered(numbers: Iterable[int], prefix: str = "m") -> list[str]:
    """The bodies m0, m1, m2, …"""
    return [f"{prefix}{number}" for number in numbers]


def text_of(message: Message | None) -> str | None:
    assert isinstance(message, TextMessage), message
    return message.text


def texts(messages: Iterable[Message]) -> list[str | None]:
    return [text_of(message) for message in messages]


def counts(messages: Iterable[Message]) -> list[int]:
    return [message.delivery_count for message in messages]


def flags(messages: Iterable[Message]) -> list[bool]:
    return [message.redelivered for message in messages]


def receive(consumer: Consumer) -> Message:
    """The message that must come."""
    message = consumer.receive(ARRIVAL_SECONDS)
    assert message is not None, f"nothing came from {consumer.destination!r}"
    return message


def receive_all(consumer: Consumer, count: int) -> list[Message]:
    """Exactly *count* messages; fails if they do not all come."""
    return [receive(consumer) for _ in range(count)]


def assert_nothing_comes(consumer: Consumer) -> None:
    message = consumer.receive(ABSENCE_SECONDS)
    assert message is None, f"unexpected message: {message!r}"


def send(connection: Connection, destination: str, *bodies: Any, **how: Any) -> list[str | None]:
    """Send the bodies one after another, in a session of their own; returns the message ids."""
    with connection.session() as session, session.producer(destination) as producer:
        return [producer.send(body, **how).message_id for body in bodies]


def drain(connection: Connection, queue: str) -> list[Message]:
    """Everything that the queue holds and nobody else has: a last message, sent now, marks the end."""
    mark = send(connection, queue, "the end")[0]
    messages: list[Message] = []
    with connection.session() as session, session.consumer(queue) as consumer:
        while (message := receive(consumer)).message_id != mark:
            messages.append(message)
        assert consumer.receive_no_wait() is None
    return messages


def dead_letters(connection: Connection, mark: str, count: int) -> list[Message]:
    """Exactly *count* dead letters with the correlation id *mark*."""
    with connection.session() as session:
        consumer = session.consumer(DEAD_LETTERS, f"JMSCorrelationID = '{mark}'")
        letters = receive_all(consumer, count)
        session.send(DEAD_LETTERS, "the end", correlation_id=mark)
        assert text_of(receive(consumer)) == "the end"
    return letters


def with_redelivery(broker: Broker, **options: object) -> str:
    """The broker's URL with a redelivery policy that does not wait, and the *options* of `jms.redeliveryPolicy`."""
    policy = {"initialRedeliveryDelay": 0, "redeliveryDelay": 0} | options
    return broker.url_with(**{f"jms__redeliveryPolicy__{name}": value for name, value in policy.items()})


def name_of(destination: str) -> str:
    """Without the kind in front."""
    return destination.partition("://")[2]

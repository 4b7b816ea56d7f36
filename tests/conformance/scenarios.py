"""Steps that many tests share."""

from collections.abc import Iterable, Sequence

from tests.conformance.jms import Connection, Jms, Outgoing, Received, text, with_options

DEAD_LETTERS = "queue://ActiveMQ.DLQ"


def numbered(numbers: Iterable[int], prefix: str = "m") -> list[str]:
    """The bodies that `texts` gives to its messages: m0, m1, m2, …"""
    return [f"{prefix}{number}" for number in numbers]


def marked(mark: str, count: int = 1, prefix: str = "m") -> list[Outgoing]:
    """Text messages m0, m1, … whose correlation id tells a shared queue's messages apart."""
    return [text(body, correlation_id=mark) for body in numbered(range(count), prefix)]


def drain(jms: Jms, url: str, queue: str) -> list[Received]:
    """Everything the queue still holds: a last message, sent now, marks the end."""
    jms.send(url, queue, text("end"))
    messages: list[Received] = []
    with jms.connect(url) as connection:
        consumer = connection.session().consumer(queue)
        while (message := consumer.receive_one()).body != "end":
            messages.append(message)
        assert consumer.receive_no_wait() is None
    return messages


def left_behind(jms: Jms, url: str, queue: str) -> list[Received]:
    """Everything the queue still holds once all connections are closed."""
    assert jms.reset() == []
    return drain(jms, url, queue)


def dead_letters(jms: Jms, url: str, mark: str, count: int, queue: str = DEAD_LETTERS) -> list[Received]:
    """Exactly *count* dead letters with the correlation id *mark*."""
    with jms.connect(url) as connection:
        consumer = connection.session().consumer(queue, selector=f"JMSCorrelationID = '{mark}'")
        messages = consumer.receive_expected(count)
        jms.send(url, queue, text("end", correlation_id=mark))
        assert consumer.receive_one().body == "end"
    return messages


def with_redelivery(url: str, **options: object) -> str:
    """*url* with a redelivery policy that does not wait, and the *options* of `jms.redeliveryPolicy`."""
    policy = {"initialRedeliveryDelay": 0, "redeliveryDelay": 0} | options
    return with_options(url, **{f"jms__redeliveryPolicy__{name}": value for name, value in policy.items()})


def named_client(jms: Jms, url: str, topic: str, suffix: str = "") -> Connection:
    """A connection whose client id belongs to this test alone, as durable subscribers need it."""
    return jms.connect(with_options(url, jms__clientID=client_id(topic, suffix)))


def client_id(topic: str, suffix: str = "") -> str:
    return f"client-of-{topic.rpartition('/')[2]}{suffix}"


def under(prefix: str, destination: str) -> str:
    """The destination of the same kind whose name begins with *prefix*, to which a policy applies."""
    kind, _, name = destination.partition("://")
    return f"{kind}://{prefix}.{name}"


def counts(messages: Sequence[Received]) -> list[int]:
    return [message.delivery_count for message in messages]

"""The real Java client as seen from a test: thin objects over `JavaDriver`, named as in JMS.

Values keep their Java types: `Value("short", 5)` is sent as a short, and what arrives as a short compares
equal to it. Time limits here are safety nets, except where a test looks for the absence of a message.
"""

import base64
import enum
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple, Self

from tests.helpers.java import JavaDriver, answer_of

ARRIVAL_TIMEOUT_MS = 10_000  # a message that should come has come by then, on any machine
ABSENCE_MS = 300  # how long to look for a message that must not come
PERSISTENT = 2
NON_PERSISTENT = 1
SESSION_TRANSACTED = 0  # beside the acknowledgement modes below


class AckMode(enum.IntEnum):
    """The constants of `javax.jms.Session` and `ActiveMQSession`."""

    AUTO = 1
    CLIENT = 2
    DUPS_OK = 3
    INDIVIDUAL = 4


class Value(NamedTuple):
    """A Java value: its type ("boolean", "byte", …, "bytes", "list", "map", "null") and the Python value."""

    type: str
    value: Any


Body = None | str | Value | Sequence[Value] | Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to send. The body of a bytes message is a list of values, written one after another."""

    kind: str
    body: Body = None
    properties: Mapping[str, Value] = field(default_factory=dict)
    correlation_id: str | None = None
    type: str | None = None
    reply_to: str | None = None

    def as_json(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in ("kind", "correlation_id", "type", "reply_to")}
        return fields | {"body": _body_to_json(self.body), "properties": _map_to_json(self.properties)}


def text(body: str | None, **headers: Any) -> Outgoing:
    return Outgoing("text", body, **headers)


def texts(count: int, prefix: str = "m") -> list[Outgoing]:
    """Text messages with the bodies m0, m1, m2, …"""
    return [text(f"{prefix}{number}") for number in range(count)]


@dataclass(frozen=True, slots=True)
class Received:
    """A message as the Java client shows it to an application."""

    handle: int
    kind: str
    body: Any
    properties: dict[str, Value]
    message_id: str
    destination: str
    reply_to: str | None
    correlation_id: str | None
    type: str | None
    priority: int
    delivery_mode: int
    timestamp: int
    expiration: int
    redelivered: bool
    delivery_count: int
    group_id: str | None
    group_sequence: int
    group_first: bool
    original_destination: str | None
    payload: dict[str, Any] | None
    compressed: bool


def bodies(messages: Iterable[Received]) -> list[Any]:
    return [message.body for message in messages]


def redelivered(messages: Iterable[Received]) -> list[bool]:
    return [message.redelivered for message in messages]


@dataclass(frozen=True, slots=True)
class ConnectionFacts:
    """What negotiation settled, and which URI options reached the client."""

    client_id: str
    version: int
    tight: bool
    cached: bool
    always_sync_send: bool
    async_send: bool
    optimize_acknowledge: bool
    producer_window_bytes: int
    queue_prefetch: int


class Background:
    """An operation that goes on in a thread of the JVM while the test does other things."""

    def __init__(self, driver: JavaDriver, operation: str, arguments: Mapping[str, object]) -> None:
        self._driver = driver
        self._handle = driver.call("begin", request={"op": operation, **arguments})

    def is_done(self, timeout_ms: int = 0) -> bool:
        """Whether it ended, well or not, waiting *timeout_ms* for that."""
        return self._driver.call("outcome", begun=self._handle, timeout_ms=timeout_ms) is not None

    def result(self) -> Any:
        """Its result, once it ended; raises what it raised."""
        answer = self._driver.call("outcome", begun=self._handle, timeout_ms=ARRIVAL_TIMEOUT_MS)
        assert answer is not None, "the operation in the background does not end"
        return answer_of(answer)


class PendingReceive:
    """A receive in the background."""

    def __init__(self, background: Background) -> None:
        self.is_done = background.is_done
        self._result = background.result

    def result(self) -> Received | None:
        """The message, once it came, or nothing if the consumer was closed meanwhile."""
        message = self._result()
        return None if message is None else _received(message)


class Producer:
    def __init__(self, driver: JavaDriver, handle: int) -> None:
        self._driver = driver
        self._handle = handle

    def send(
        self,
        *messages: Outgoing,
        delivery_mode: int = PERSISTENT,
        priority: int = 4,
        time_to_live_ms: int = 0,
    ) -> list[str]:
        """Send the messages one after another; returns their ids."""
        ids: list[str] = self._driver.call(
            "send",
            producer=self._handle,
            messages=[message.as_json() for message in messages],
            delivery_mode=delivery_mode,
            priority=priority,
            time_to_live_ms=time_to_live_ms,
        )
        return ids

    def send_to(self, destination: str, *messages: Outgoing) -> None:
        """Send with a producer that has no destination of its own."""
        self._driver.call("send", **self._plain_send(messages, PERSISTENT), destination=destination)

    def begin_send(self, *messages: Outgoing, delivery_mode: int = PERSISTENT) -> Background:
        """Send in the background: it may block."""
        return Background(self._driver, "send", self._plain_send(messages, delivery_mode))

    def _plain_send(self, messages: Sequence[Outgoing], delivery_mode: int) -> dict[str, Any]:
        described = [message.as_json() for message in messages]
        how = {"delivery_mode": delivery_mode, "priority": 4, "time_to_live_ms": 0}
        return {"producer": self._handle, "messages": described, **how}

    def send_with_callback(self, *messages: Outgoing) -> int:
        """Send with a completion callback each; returns how many were reported as successes."""
        count: int = self._driver.call(
            "send_with_callback",
            producer=self._handle,
            messages=[message.as_json() for message in messages],
            timeout_ms=ARRIVAL_TIMEOUT_MS,
        )
        return count

    def close(self) -> None:
        self._driver.call("close_producer", producer=self._handle)


class Consumer:
    def __init__(self, driver: JavaDriver, handle: int) -> None:
        self._driver = driver
        self._handle = handle

    def receive(self, timeout_ms: int = ARRIVAL_TIMEOUT_MS) -> Received | None:
        """`receive(timeout)`; with 0 `receiveNoWait()`, with a negative time `receive()`."""
        message = self._driver.call("receive", consumer=self._handle, timeout_ms=timeout_ms)
        return None if message is None else _received(message)

    def forward(self, producer: Producer) -> int:
        """Receive one message and send it on as it is; returns the bytes of its body, as a bytes message has them."""
        size: int = self._driver.call(
            "forward", consumer=self._handle, producer=producer._handle, timeout_ms=ARRIVAL_TIMEOUT_MS
        )
        return size

    def begin_receive(self) -> "PendingReceive":
        """`receive()` without a time limit, in the background."""
        return PendingReceive(Background(self._driver, "receive", {"consumer": self._handle, "timeout_ms": -1}))

    def receive_blocking(self) -> Received | None:
        return self.receive(-1)

    def receive_no_wait(self) -> Received | None:
        return self.receive(0)

    def receive_expected(self, count: int) -> list[Received]:
        """Exactly *count* messages; fails if they do not all come."""
        messages = self.receive_up_to(count, timeout_ms=ARRIVAL_TIMEOUT_MS)
        assert len(messages) == count, f"{len(messages)} of {count} messages came: {bodies(messages)}"
        return messages

    def receive_one(self) -> Received:
        return self.receive_expected(1)[0]

    def receive_up_to(self, count: int, *, timeout_ms: int = ABSENCE_MS) -> list[Received]:
        """At most *count* messages: stops when none comes for *timeout_ms*."""
        answer = self._driver.call("receive_many", consumer=self._handle, count=count, timeout_ms=timeout_ms)
        return [_received(message) for message in answer]

    def assert_nothing_comes(self) -> None:
        message = self.receive(ABSENCE_MS)
        assert message is None, f"unexpected message: {message}"

    def hear(self, timeout_ms: int = ARRIVAL_TIMEOUT_MS) -> list[Received]:
        """What the listener was given since the last call, waiting for the first."""
        answer = self._driver.call("heard", consumer=self._handle, timeout_ms=timeout_ms)
        return [_received(message) for message in answer]

    def hear_expected(self, count: int) -> list[Received]:
        """What the listener was given, once that is *count* messages."""
        messages: list[Received] = []
        while len(messages) < count:
            news = self.hear()
            assert news, f"{len(messages)} of {count} messages came: {bodies(messages)}"
            messages += news
        return messages

    def waiting(self) -> int:
        """How many dispatched messages wait inside the client."""
        count: int = self._driver.call("waiting", consumer=self._handle)
        return count

    def await_waiting(self, count: int) -> None:
        """Return once exactly *count* messages wait inside the client."""
        deadline = time.monotonic() + ARRIVAL_TIMEOUT_MS / 1000
        while (waiting := self.waiting()) < count and time.monotonic() < deadline:
            time.sleep(0.005)  # the client offers no event for this
        assert waiting == count, f"{waiting} messages wait in the client, not {count}"

    def close(self) -> None:
        self._driver.call("close_consumer", consumer=self._handle)


class Session:
    def __init__(self, driver: JavaDriver, handle: int) -> None:
        self._driver = driver
        self._handle = handle

    def producer(self, destination: str | None) -> Producer:
        handle = self._driver.call("producer", session=self._handle, destination=destination)
        return Producer(self._driver, handle)

    def consumer(
        self,
        destination: str,
        *,
        selector: str | None = None,
        no_local: bool = False,
        listen: bool = False,
        failures: int = 0,
    ) -> Consumer:
        """A consumer; its listener, if it listens, throws for the first *failures* messages (-1: for all)."""
        return self._consumer(destination, None, selector, no_local, listen, failures)

    def durable(
        self,
        topic: str,
        name: str,
        *,
        selector: str | None = None,
        no_local: bool = False,
        listen: bool = False,
        failures: int = 0,
    ) -> Consumer:
        """`createDurableSubscriber`."""
        return self._consumer(topic, name, selector, no_local, listen, failures)

    def _consumer(
        self, destination: str, durable: str | None, selector: str | None, no_local: bool, listen: bool, failures: int
    ) -> Consumer:
        handle = self._driver.call(
            "consumer",
            session=self._handle,
            destination=destination,
            durable=durable,
            selector=selector,
            no_local=no_local,
            listen=listen,
            failures=failures,
        )
        return Consumer(self._driver, handle)

    def unsubscribe(self, name: str) -> None:
        self._driver.call("unsubscribe", session=self._handle, name=name)

    def browse(self, queue: str, selector: str | None = None) -> list[Received]:
        """All that a browser shows, from its beginning to its end."""
        answer = self._driver.call("browse", session=self._handle, destination=queue, selector=selector)
        return [_received(message) for message in answer]

    def commit(self) -> None:
        self._driver.call("commit", session=self._handle)

    def begin_commit(self) -> Background:
        return Background(self._driver, "commit", {"session": self._handle})

    def rollback(self) -> None:
        self._driver.call("rollback", session=self._handle)

    def recover(self) -> None:
        self._driver.call("recover", session=self._handle)

    def temporary_queue(self) -> str:
        name: str = self._driver.call("temporary_queue", session=self._handle)
        return name

    def temporary_topic(self) -> str:
        name: str = self._driver.call("temporary_topic", session=self._handle)
        return name

    def acknowledge(self, message: Received) -> None:
        """`message.acknowledge()`."""
        self._driver.call("acknowledge", message=message.handle)

    def close(self) -> None:
        self._driver.call("close_session", session=self._handle)


class Connection:
    def __init__(self, driver: JavaDriver, handle: int) -> None:
        self._driver = driver
        self._handle = handle

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()

    def session(self, mode: AckMode = AckMode.AUTO) -> Session:
        handle = self._driver.call("session", connection=self._handle, mode=int(mode))
        return Session(self._driver, handle)

    def transacted_session(self) -> Session:
        return Session(self._driver, self._driver.call("session", connection=self._handle, mode=SESSION_TRANSACTED))

    def delete_temporary(self, destination: str) -> None:
        self._driver.call("delete_temporary", connection=self._handle, destination=destination)

    def clean_up(self, client_id: str | None = None) -> None:
        """`doCleanup(true)`, perhaps `setClientID`, and `start`: the connection is announced again on its socket."""
        self._driver.call("clean_up", connection=self._handle, client_id=client_id)

    def destroy_destination(self, destination: str) -> None:
        """`ActiveMQConnection.destroyDestination`."""
        self._driver.call("destroy_destination", connection=self._handle, destination=destination)

    def set_redelivery_policy(self, destination: str, **options: object) -> None:
        """The policy for one destination, or for all that a wildcard name stands for."""
        self._driver.call("redelivery_policy", connection=self._handle, destination=destination, options=options)

    def start(self) -> None:
        self._driver.call("start", connection=self._handle)

    def stop(self) -> None:
        self._driver.call("stop", connection=self._handle)

    def facts(self) -> ConnectionFacts:
        return ConnectionFacts(**self._driver.call("describe_connection", connection=self._handle))

    def await_processed(self, destination: str) -> None:
        """Return once the broker has done all that this connection asked for: commands are taken in order."""
        self.session().producer(destination).close()  # creating a producer waits for the broker's answer

    def churn(self, destination: str, count: int) -> None:
        """Open and close a session with a consumer and a producer *count* times."""
        self._driver.call("churn", connection=self._handle, destination=destination, count=count)

    def close(self) -> None:
        self._driver.call("close_connection", connection=self._handle)


class Jms:
    """One JVM with the real client in it."""

    def __init__(self, driver: JavaDriver) -> None:
        self.driver = driver

    def connect(self, url: str, *, start: bool = True) -> Connection:
        return Connection(self.driver, self.driver.call("connect", url=url, start=start, xa=False))

    def advisory_topic(self, kind: str, destination: str | None = None) -> str:
        """What `AdvisorySupport.get<kind>AdvisoryTopic` answers."""
        name: str = self.driver.call("advisory_topic", kind=kind, destination=destination)
        return name

    def send(self, url: str, destination: str, *messages: Outgoing, **how: int) -> list[str]:
        """Send the messages over a connection of their own."""
        with self.connect(url) as connection:
            return connection.session().producer(destination).send(*messages, **how)

    def reset(self) -> list[str]:
        """Close whatever is open; returns the errors that were reported to listeners meanwhile."""
        errors: list[str] = self.driver.call("reset")
        return errors

    def kill(self) -> None:
        """End the JVM with SIGKILL."""
        self.driver.kill()


def with_options(url: str, **options: object) -> str:
    """*url* with options added; in their names `__` stands for a dot (`jms__useAsyncSend`)."""
    pairs = [f"{name.replace('__', '.')}={_option_text(value)}" for name, value in options.items()]
    return url + ("&" if "?" in url else "?") + "&".join(pairs) if pairs else url


def _option_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _received(answer: dict[str, Any]) -> Received:
    answer["body"] = _body_from_json(answer["kind"], answer["body"])
    answer["properties"] = _map_from_json(answer["properties"])
    return Received(**answer)


def _body_to_json(body: Body) -> Any:
    if body is None or isinstance(body, str):
        return body
    if isinstance(body, Value):
        return _to_json(body)
    return _map_to_json(body) if isinstance(body, Mapping) else [_to_json(value) for value in body]


def _body_from_json(kind: str, body: Any) -> Any:
    match kind:
        case "map":
            return _map_from_json(body)
        case "stream":
            return [_from_json(pair) for pair in body]
        case "object":
            return _from_json(body)
        case "bytes":
            return _from_json(body).value
    return body


def _map_to_json(values: Mapping[str, Value]) -> dict[str, Any]:
    return {name: _to_json(value) for name, value in values.items()}


def _map_from_json(pairs: dict[str, Any]) -> dict[str, Value]:
    return {name: _from_json(pair) for name, pair in pairs.items()}


def _to_json(value: Value) -> list[Any]:
    match value:
        case Value("float" | "double", number):
            return [value.type, _java_number(number)]
        case Value("bytes", data):
            return ["bytes", base64.b64encode(data).decode()]
        case Value("list", items):
            return ["list", [_to_json(item) for item in items]]
        case Value("map", entries):
            return ["map", _map_to_json(entries)]
    return [value.type, value.value]


def _from_json(pair: list[Any]) -> Value:
    match pair:
        case ["float" | "double" as type_name, number]:
            value = float(number)
            return Value(type_name, math.nan if math.isnan(value) else value)  # the one nan equals itself
        case ["bytes", data]:
            return Value("bytes", base64.b64decode(data))
        case ["list", items]:
            return Value("list", [_from_json(item) for item in items])
        case ["map", entries]:
            return Value("map", _map_from_json(entries))
    return Value(*pair)


def _java_number(number: float) -> str:
    return repr(number).replace("inf", "Infinity").replace("nan", "NaN")

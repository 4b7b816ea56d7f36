"""A protocol that a plugin adds (J1) and the real Java client exchange messages through a queue.

The protocol is the toy of `tests/helpers/line_protocol.py`, one module. `ackwire serve` finds it by its entry point.
"""

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from tests.conformance.jms import PERSISTENT, AckMode, Jms, bodies, redelivered, text, texts
from tests.conformance.routes import AGAINST_ACTIVEMQ
from tests.helpers.plugins import LINE_PLUGIN, install_protocol
from tests.helpers.processes import RunningBroker, running_broker

pytestmark = pytest.mark.skipif(AGAINST_ACTIVEMQ, reason="ActiveMQ has no such plugin")

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_SECONDS = 30.0


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningBroker]:
    """A broker with a journal, and the plugin: for any protocol on its first port, for lines alone on its second."""
    install_protocol(tmp_path / "plugins", "line", LINE_PLUGIN)
    path = [os.environ.get("PYTHONPATH", ""), str(tmp_path / "plugins"), str(ROOT)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))
    listeners = ["auto://127.0.0.1:0", "line://127.0.0.1:0"]
    with running_broker(listeners, log_path=tmp_path / "broker.log", options=()) as running:
        yield running


@pytest.fixture
def url(broker: RunningBroker) -> str:
    return f"tcp://127.0.0.1:{broker.ports[0]}"


@pytest.fixture(params=[0, 1], ids=["auto", "line"])
def port(broker: RunningBroker, request: pytest.FixtureRequest) -> int:
    """Where a line client connects."""
    index: int = request.param
    return broker.ports[index]


class LineClient:
    """A client of the line protocol."""

    def __init__(self, port: int, client_id: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS)
        self._lines = self._socket.makefile("r", encoding="utf-8")
        self._messages: list[list[str]] = []
        """That came before an answer."""
        self.say(f"LINE {client_id}")
        assert self.hear() == ["OK", "login"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self._socket.close()

    def say(self, line: str) -> None:
        self._socket.sendall(f"{line}\n".encode())

    def hear(self) -> list[str]:
        """The next line that is no message, in words; nothing if the broker has closed the connection."""
        while (line := self._next_line())[0] == "MESSAGE":
            self._messages.append(line)
        return line

    def _next_line(self) -> list[str]:
        return self._lines.readline().rstrip("\n").split(" ", 4)

    def await_end(self) -> None:
        """Wait until the broker closes the connection. If it has not read all, a reset may overtake its last line."""
        try:
            assert self.hear()[0] in ("ERROR", "")
            assert self.hear() == [""]
        except ConnectionResetError:
            pass

    def send(self, queue: str, *messages: str) -> None:
        for number, message in enumerate(messages):
            self.say(f"SEND {number} {queue} {json.dumps(message)}")
            assert self.hear() == ["OK", str(number)]

    def subscribe(self, queue: str, prefetch: int = 10) -> None:
        self.say(f"SUBSCRIBE s {queue} {prefetch}")
        assert self.hear() == ["OK", "s"]

    def receive(self) -> tuple[int, int, str]:
        """Number, redeliveries and text of the next message."""
        verb, name, number, redeliveries, body = self._messages.pop(0) if self._messages else self._next_line()
        assert (verb, name) == ("MESSAGE", "s")
        return int(number), int(redeliveries), json.loads(body)

    def acknowledge(self, number: int) -> None:
        self.say(f"ACK s {number}")
        assert self.hear() == ["OK", str(number)]


def name_of(queue: str) -> str:
    return queue.removeprefix("queue://")


def test_J1_java_sends_and_a_line_client_receives(jms: Jms, url: str, port: int, queue: str) -> None:
    """J1, B1: what the line client has acknowledged is gone for all."""
    with LineClient(port, "consumer") as client:
        client.subscribe(name_of(queue))
        jms.send(url, queue, *texts(3))
        for count in range(3):
            number, redeliveries, body = client.receive()
            assert (redeliveries, body) == (0, f"m{count}")
            client.acknowledge(number)
    with jms.connect(url) as connection:
        connection.session().consumer(queue).assert_nothing_comes()


def test_J1_a_line_client_sends_and_java_receives(jms: Jms, url: str, port: int, queue: str) -> None:
    """J1, B1: persistent text messages, in order, whatever characters they hold."""
    sent = ["one", "two words", "grüße \U0001f600", "line\nfeed"]
    with LineClient(port, "producer") as client:
        client.send(name_of(queue), *sent)
    with jms.connect(url) as connection:
        received = connection.session().consumer(queue).receive_expected(len(sent))
        assert bodies(received) == sent
        assert {message.delivery_mode for message in received} == {PERSISTENT}


def test_J1_D7_what_a_line_client_left_unfinished_goes_to_java_as_redelivered(
    jms: Jms, url: str, port: int, queue: str
) -> None:
    """J1, D7: after the end of the line client's connection."""
    jms.send(url, queue, text("done"), text("open"))
    with LineClient(port, "leaver") as client:
        client.subscribe(name_of(queue))
        client.acknowledge(client.receive()[0])
        assert client.receive()[2] == "open"
    with jms.connect(url) as connection:
        received = connection.session().consumer(queue).receive_expected(1)
        assert (bodies(received), redelivered(received)) == (["open"], [True])


def test_J1_D7_what_java_left_unfinished_goes_to_a_line_client_as_redelivered(
    jms: Jms, url: str, port: int, queue: str
) -> None:
    """J1, D7: the other way round, with the message that the line client has sent."""
    with LineClient(port, "client") as client:
        client.send(name_of(queue), "open")
        with jms.connect(url) as connection:
            assert bodies(connection.session(AckMode.CLIENT).consumer(queue).receive_expected(1)) == ["open"]
        client.subscribe(name_of(queue))
        number, redeliveries, body = client.receive()
        assert (redeliveries, body) == (1, "open")
        client.acknowledge(number)


@pytest.mark.parametrize(
    "garbage",
    [b"FROBNICATE\n", b"\xff\xfe\n", b"x" * 100_000, b"SEND 1 q no json\n", b"ACK s 99\n", b"LINE again\n", b"SEND\n"],
)
def test_J1_garbage_harms_only_its_own_connection(
    jms: Jms, url: str, broker: RunningBroker, queue: str, garbage: bytes
) -> None:
    """J1: it is told, and closed; all others go on."""
    port = broker.ports[1]
    with LineClient(port, "good") as good, jms.connect(url) as connection:
        consumer = connection.session().consumer(queue)
        with LineClient(port, "bad") as bad:
            bad._socket.sendall(garbage)
            bad.await_end()
        good.send(name_of(queue), "still here")
        assert bodies(consumer.receive_expected(1)) == ["still here"]

"""What a client acknowledges, read from the wire, and one way to tell two clients to do the same.

A scenario is a list of steps. `play` has our client take them and `play_in_java` the Java client, each through a
recording proxy; both return the acks as `Line`s, which name messages by their number in the queue.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import ackwire
from ackwire import AckMode, Message
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.commands import AckType
from tests.client.conftest import Connect
from tests.client.recording import LOOSE, RecordingProxy
from tests.client.work import await_that, await_waiting, fill, receive_one
from tests.conformance import jms
from tests.conformance.jms import Jms, with_options

NO_DELAY: Final[dict[str, object]] = {
    "jms__redeliveryPolicy__initialRedeliveryDelay": 0,
    "jms__redeliveryPolicy__redeliveryDelay": 0,
}


@dataclass(frozen=True, slots=True)
class Line:
    """One MessageAck."""

    type: AckType
    count: int
    first: int | None
    last: int | None
    in_transaction: bool = False
    is_answered: bool = False
    """Whether the client asked for an answer."""


def line_of(ack: commands.MessageAck) -> Line:
    return Line(
        AckType(ack.ack_type),
        ack.message_count,
        _number(ack.first_message_id),
        _number(ack.last_message_id),
        ack.transaction_id is not None,
        ack.response_required,
    )


def _number(message_id: commands.MessageId | None) -> int | None:
    return None if message_id is None else message_id.producer_sequence_id - 1


def lines_of(recording: RecordingProxy, name: str) -> list[Line]:
    """The acks for the destination *name*, with or without its scheme."""
    physical = name.partition("://")[2] or name
    acks = recording.sent(commands.MessageAck)
    return [line_of(ack) for ack in acks if ack.destination is not None and ack.destination.physical_name == physical]


def one_by_one(ack_type: AckType, count: int, start: int = 0) -> list[Line]:
    return [Line(ack_type, 1, number, number) for number in range(start, start + count)]


def in_ranges(ack_type: AckType, size: int, count: int, start: int = 0) -> list[Line]:
    """*count* messages in ranges of *size*, and one of what is left."""
    end = start + count
    return [
        Line(ack_type, min(size, end - first), first, min(first + size, end) - 1) for first in range(start, end, size)
    ]


@dataclass(frozen=True)
class Scenario:
    """What a client does.

    Steps are `receive N`, `nothing` (none comes), `each N` (receive and acknowledge, one by one), `acknowledge` (the
    last message), `commit`, `rollback`, `recover`, `hear N` (by a listener, from here on), `pause MS`, `close` (the
    consumer), `poisoned N` (wait for so many poison acks).
    """

    mode: AckMode
    steps: Sequence[str]
    messages: int
    prefetch: int | None = None
    is_topic: bool = False
    options: dict[str, object] = field(default_factory=dict)
    failures: int = 0
    """So often the listener raises; -1: always."""
    time_to_live_ms: int = 0
    """If not 0 the messages wait in the client until they have expired."""

    @property
    def listens(self) -> bool:
        return any(step.startswith("hear") for step in self.steps)

    def destination(self, name: str) -> str:
        return name if self.prefetch is None else f"{name}?consumer.prefetchSize={self.prefetch}"

    def url(self, recording: RecordingProxy, **more: object) -> str:
        return with_options(recording.url, **self.options, **more)

    def fill(self, sender: ackwire.Connection, name: str) -> float:
        """Send the messages; when they will have expired."""
        fill(sender, name, self.messages, time_to_live_ms=self.time_to_live_ms)
        return time.time() + self.time_to_live_ms / 1000 + 0.01


class _Player:
    """Takes the steps with our client."""

    def __init__(
        self, scenario: Scenario, connection: ackwire.Connection, recording: RecordingProxy, name: str
    ) -> None:
        self.scenario = scenario
        self.recording = recording
        self.name = name
        self.session = connection.session(scenario.mode)
        self.consumer = self.session.consumer(scenario.destination(name))
        self.last: Message | None = None
        self.heard: list[Message] = []
        self.failures = scenario.failures

    def take(self, step: str) -> None:
        name, _, argument = step.partition(" ")
        number = int(argument or 0)
        match name:
            case "receive":
                for _ in range(number):
                    self.last = receive_one(self.consumer)
            case "nothing":
                assert self.consumer.receive(0.1) is None
            case "each":
                for _ in range(number):
                    receive_one(self.consumer).acknowledge()
            case "acknowledge":
                assert self.last is not None
                self.last.acknowledge()
            case "commit" | "rollback" | "recover":
                getattr(self.session, name)()
            case "hear":
                self.consumer.listener = self._hear
                await_that(lambda: len(self.heard) >= number, f"{number} were heard")
            case "poisoned":
                await_poisoned(self.recording, self.name, number)
            case "pause":
                time.sleep(number / 1000)
            case "close":
                self.consumer.close()
            case _:
                raise AssertionError(f"no such step: {step}")

    def _hear(self, message: Message) -> None:
        self.heard.append(message)
        if self.failures != 0:
            self.failures -= 1
            raise RuntimeError("the listener fails on purpose")


def await_poisoned(recording: RecordingProxy, name: str, count: int) -> None:
    def poisons() -> int:
        return sum(line.count for line in lines_of(recording, name) if line.type is AckType.POISON)

    await_that(lambda: poisons() >= count, f"{count} messages are poison")


def play(scenario: Scenario, connect: Connect, recording: RecordingProxy, name: str) -> list[Line]:
    """Our client."""
    sender = connect()
    with connect(scenario.url(recording), start=False) as connection:
        player = _Player(scenario, connection, recording, name)
        if scenario.time_to_live_ms:
            expired_at = scenario.fill(sender, name)
            await_waiting(player.consumer, scenario.messages)
            time.sleep(max(0.0, expired_at - time.time()))
        connection.start()
        if not scenario.time_to_live_ms:
            scenario.fill(sender, name)
        for step in scenario.steps:
            player.take(step)
    return lines_of(recording, name)


class _JavaPlayer:
    """Takes the steps with the Java client."""

    def __init__(self, scenario: Scenario, connection: jms.Connection, recording: RecordingProxy, name: str) -> None:
        self.recording = recording
        self.name = name
        transacted = scenario.mode is AckMode.SESSION_TRANSACTED
        self.session = connection.transacted_session() if transacted else connection.session(jms.AckMode(scenario.mode))
        self.consumer = self.session.consumer(
            scenario.destination(name), listen=scenario.listens, failures=scenario.failures
        )
        self.last: jms.Received | None = None

    def take(self, step: str) -> None:
        name, _, argument = step.partition(" ")
        number = int(argument or 0)
        match name:
            case "receive":
                self.last = self.consumer.receive_expected(number)[-1]
            case "nothing":
                assert self.consumer.receive(100) is None
            case "each":
                for _ in range(number):
                    self.session.acknowledge(self.consumer.receive_one())
            case "acknowledge":
                assert self.last is not None
                self.session.acknowledge(self.last)
            case "commit" | "rollback" | "recover":
                getattr(self.session, name)()
            case "hear":
                self.consumer.hear_expected(number)
            case "poisoned":
                await_poisoned(self.recording, self.name, number)
            case "pause":
                time.sleep(number / 1000)
            case "close":
                self.consumer.close()
            case _:
                raise AssertionError(f"no such step: {step}")


def play_in_java(scenario: Scenario, java: Jms, connect: Connect, recording: RecordingProxy, name: str) -> list[Line]:
    """The Java client."""
    sender = connect()
    with java.connect(scenario.url(recording, **LOOSE), start=False) as connection:
        player = _JavaPlayer(scenario, connection, recording, name)
        if scenario.time_to_live_ms:
            expired_at = scenario.fill(sender, name)
            recording.await_received(commands.MessageDispatch, scenario.messages)
            time.sleep(max(0.0, expired_at - time.time()))
        connection.start()
        if not scenario.time_to_live_ms:
            scenario.fill(sender, name)
        for step in scenario.steps:
            player.take(step)
    return lines_of(recording, name)


def show(lines: Sequence[Line]) -> list[str]:
    """For failures: short, and equal runs of single acks in one line."""
    shown: list[str] = []
    for line in lines:
        extra: list[Any] = [word for word, on in (("tx", line.in_transaction), ("asks", line.is_answered)) if on]
        shown.append(" ".join(map(str, (line.type.name, line.count, f"{line.first}..{line.last}", *extra))))
    return shown

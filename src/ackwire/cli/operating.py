"""What `ackwire queue` and `ackwire message` share: a request to a running broker, and its answers."""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from ackwire.cli import amounts
from ackwire.cli.connecting import (
    EXIT_DOES_NOT_EXIST,
    EXIT_INCOMPLETE,
    EXIT_NOTHING_CAME,
    Where,
    broker_of,
    connected,
    failing_before_anything_was_done,
    say,
)
from ackwire.cli.interrupts import Interrupts
from ackwire.client import Connection, DeliveryMode
from ackwire.errors import ConfigError, InvalidDestination
from ackwire.jms.destinations import Kind, parse_written_destination
from ackwire.operation import ANSWER, COUNT, DONE, NOT_HERE, OPERATIONS, OUTCOME, WORKING

TIMEOUT_SECONDS: Final = 10.0
_SLICE_SECONDS: Final = 0.25
"""How long a wait goes on before it checks for Ctrl-C."""

EXIT_CODES: Final = """\
exit codes:
  0  done
  1  the broker has refused, or not all was done: standard error says what
  2  nothing was done, for a reason that you can put right
  3  the broker has not answered in time: ActiveMQ knows no such requests
  4  the queue does not exist, or no such message waits there
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """The broker's answer to a request."""

    outcome: str
    count: int
    text: str


@dataclass(frozen=True, slots=True)
class OperationClient:
    """Sends requests to one broker."""

    connection: Connection
    timeout_seconds: float
    check: Callable[[], None]
    """Raises after Ctrl-C or a signal."""

    def ask(self, properties: Mapping[str, Any]) -> Answer | None:
        """The last answer; None if none comes in time, counted from the one before. Raises `JMSError`."""
        with self.connection.session() as session:
            reply_to = session.temporary_queue()
            consumer = session.consumer(reply_to)
            session.producer(OPERATIONS).send(
                None, delivery_mode=DeliveryMode.NON_PERSISTENT, reply_to=reply_to, properties=dict(properties)
            )
            deadline = time.monotonic() + self.timeout_seconds
            while (left := deadline - time.monotonic()) > 0:
                message = consumer.receive(min(_SLICE_SECONDS, left))
                if message is None:
                    self.check()
                    continue
                said = message.properties
                answer = Answer(str(said.get(OUTCOME)), int(str(said.get(COUNT, 0))), str(said.get(ANSWER, "")))
                if answer.outcome != WORKING or answer.text:
                    return answer
                deadline = time.monotonic() + self.timeout_seconds  # it is at work
        return None


@contextmanager
def operation_client(args: argparse.Namespace) -> Iterator[tuple[OperationClient, Where]]:
    """A connection for requests. Raises `ConfigError` if it cannot be made."""
    where = broker_of(args)
    with (
        Interrupts() as interrupts,
        connected(args, where, interrupts) as connection,
        failing_before_anything_was_done(where),
    ):
        yield OperationClient(connection, args.connect_timeout, interrupts.check), where


def destination_text(name: str) -> str:
    """A name as the user wrote it, as the broker reads it. Raises `ConfigError`."""
    try:
        return repr(parse_written_destination(name, default=Kind.QUEUE))
    except InvalidDestination as error:
        raise ConfigError(str(error)) from None


def no_answer(args: argparse.Namespace, where: Where) -> int:
    waited = amounts.seconds_text(args.connect_timeout)
    say(f"{where}: no answer within {waited}; is it an Ackwire broker, and has it space for an answer?")
    return EXIT_NOTHING_CAME


def failed(answer: Answer, where: Where) -> int:
    """Say why the broker did not do it."""
    say(f"{where}: {answer.text}")
    return EXIT_DOES_NOT_EXIST if answer.outcome == NOT_HERE else EXIT_INCOMPLETE


def show(args: argparse.Namespace, facts: Mapping[str, Any], sentence: str) -> None:
    """Print what was done, for machines or for people."""
    if args.json:
        print(json.dumps(facts))
    elif not args.quiet:
        print(sentence)


def is_done(answer: Answer) -> bool:
    return answer.outcome in (DONE, WORKING)

"""`ackwire why`: ask a running broker why something does not move."""

import argparse
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ackwire.cli import amounts
from ackwire.cli.connecting import (
    EXIT_DOES_NOT_EXIST,
    EXIT_NOTHING_CAME,
    add_operator_options,
    broker_of,
    connected,
    failing_before_anything_was_done,
    say,
)
from ackwire.cli.interrupts import Interrupts
from ackwire.client import Connection, DeliveryMode, Message
from ackwire.errors import ConfigError, InvalidDestination
from ackwire.jms.destinations import Kind, parse_written_destination
from ackwire.util.logs import escape
from ackwire.why.protocol import ANSWER, FOUND, NAME, QUESTIONS, SUBJECT, SUBJECTS

if TYPE_CHECKING:
    from ackwire.cli.config import Commands

_TIMEOUT_SECONDS: Final = 10.0
_SLICE_SECONDS: Final = 0.25
"""How long a wait goes on before it looks whether somebody wants out."""
_WITHOUT_NAME: Final = ("transaction", "file", "store", "broker")

_EPILOG: Final = """\
examples:
  ackwire why queue orders
  ackwire why message ID:host-40001-1700000000000-1:1:1:1:17 --json
  ackwire why transaction --url 'failover:(ssl://a:61617,ssl://b:61617)' --user ops --password-file secret

exit codes:
  0  the broker has answered
  1  something unforeseen happened
  2  the question could not be asked, for a reason that you can put right
  3  the broker has not answered in time: ActiveMQ knows no such questions
  4  what was asked about does not exist there; the answer says so
"""


def add_command(commands_parser: "Commands") -> None:
    """Add `why` to the command line."""
    parser = commands_parser.add_parser(
        "why",
        help="ask a running broker why something does not move",
        description="Asks a running broker, and prints its answer: one sentence for each thing it knows.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("subject", metavar="SUBJECT", choices=SUBJECTS, help=", ".join(SUBJECTS))
    parser.add_argument("name", metavar="NAME", nargs="?", default="", help="a destination, an id, or a file's number")
    add_operator_options(parser, timeout_seconds=_TIMEOUT_SECONDS)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    _check_name(args.subject, args.name)
    where = broker_of(args)
    with (
        Interrupts() as interrupts,
        connected(args, where, interrupts) as connection,
        failing_before_anything_was_done(where),
    ):
        answer = ask(connection, args.subject, args.name, timeout_seconds=args.connect_timeout, check=interrupts.check)
    if answer is None:
        waited = amounts.seconds_text(args.connect_timeout)
        say(f"{where}: no answer within {waited}; is it an Ackwire broker?")
        return EXIT_NOTHING_CAME
    return _show(args, answer)


def _check_name(subject: str, name: str) -> None:
    if not name and subject not in _WITHOUT_NAME:
        raise ConfigError(f"why {subject} needs a name, such as: ackwire why {subject} NAME")
    if subject in ("queue", "topic"):
        try:
            parse_written_destination(name, default=Kind(subject))
        except InvalidDestination as error:
            raise ConfigError(str(error)) from None


def ask(
    connection: Connection,
    subject: str,
    name: str,
    *,
    timeout_seconds: float,
    check: Callable[[], None] = lambda: None,
) -> Message | None:
    """The broker's answer, or None if it gives none; *check* is called now and then. Raises `JMSError`."""
    session = connection.session()
    reply_to = session.temporary_queue()
    consumer = session.consumer(reply_to)
    session.producer(QUESTIONS).send(
        None,
        delivery_mode=DeliveryMode.NON_PERSISTENT,
        reply_to=reply_to,
        properties={SUBJECT: subject, NAME: name},
    )
    deadline = time.monotonic() + timeout_seconds
    while (left := deadline - time.monotonic()) > 0:
        message = consumer.receive(min(_SLICE_SECONDS, left))
        if message is not None:
            return message
        check()
    return None


def _show(args: argparse.Namespace, answer: Message) -> int:
    properties = answer.properties
    lines = str(properties.get(ANSWER, "")).split("\n")
    found = properties.get(FOUND) is not False
    if args.json:
        print(json.dumps({"subject": args.subject, "name": args.name, "found": found, "answer": lines}, indent=2))
    else:
        for line in lines:
            print(escape(line))
    return 0 if found else EXIT_DOES_NOT_EXIST

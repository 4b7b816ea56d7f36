"""`ackwire request`: send a message, and print the reply from a temporary queue."""

import argparse
import time
from typing import TYPE_CHECKING, Final

from ackwire.cli import amounts
from ackwire.cli.connecting import (
    EXIT_CODES,
    EXIT_INCOMPLETE,
    EXIT_NOTHING_CAME,
    Where,
    add_client_options,
    connected,
    destination_from,
    exit_code,
    say,
    where_of,
)
from ackwire.cli.interrupts import Interrupts
from ackwire.cli.message_json import Outgoing
from ackwire.cli.messages_in import add_body_options, add_header_options, source_from_args
from ackwire.cli.messages_out import add_output_options, output_from_args
from ackwire.cli.send import failure_text, sender_for
from ackwire.client import Connection, Consumer, JMSError, Message
from ackwire.errors import ConfigError

if TYPE_CHECKING:
    from ackwire.cli.config import Commands

_SLICE_SECONDS: Final = 0.5
"""How long a wait goes on before it looks whether somebody wants out."""
_TIMEOUT_SECONDS: Final = 30.0

_EPILOG: Final = f"""\
examples:
  ackwire request tcp://127.0.0.1:61616 quotes 'ACME' --timeout 5s
  ackwire request tcp://127.0.0.1:61616 Ackwire.Why --property subject=queue --property name=orders "" --print-headers

{EXIT_CODES}
  3  no reply came in time; the request may still be handled later (--ttl ends that)
"""


def add_command(commands: "Commands") -> None:
    """Add `request`."""
    parser = commands.add_parser(
        "request",
        help="send a message and print the reply",
        description="Sends one message whose reply-to is a temporary queue, and prints the reply. Ends with 3 if none "
        "came.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.intermixed = True  # a BODY may stand behind options
    add_client_options(parser)
    add_body_options(parser)
    add_header_options(parser)
    parser.add_argument(
        "--timeout", metavar="TIME", type=amounts.seconds, default=_TIMEOUT_SECONDS, help="for the reply; default: 30s"
    )
    add_output_options(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    uri = destination_from(args)
    where = where_of(args, uri)
    outgoing = _only_message(args)
    output = output_from_args(args)
    with Interrupts() as interrupts, connected(args, where, interrupts) as connection:
        try:
            reply = _reply(connection, str(uri), outgoing, where, interrupts, args.timeout)
            if reply is not None:
                output.write(reply)
                output.flush()
                return 0
        except JMSError as error:
            say(where.failure(error))
            return exit_code(error, is_anything_done=False)
        except NotSent as error:
            say(str(error))
            return EXIT_INCOMPLETE
    if interrupts.pressed:
        say(f"{where}: interrupted; the request was sent")
        return EXIT_INCOMPLETE
    say(f"{where}: no reply within {amounts.seconds_text(args.timeout)}; is somebody consuming there?")
    return EXIT_NOTHING_CAME


class NotSent(Exception):
    """The request was not confirmed; says what is known."""


def _only_message(args: argparse.Namespace) -> Outgoing:
    messages = [message for message in source_from_args(args).messages if message is not None]
    if len(messages) != 1:
        raise ConfigError(f"request sends one message, and here are {len(messages)}")
    if messages[0].message.reply_to is not None:
        raise ConfigError("request makes its own reply_to: send takes another one")
    return messages[0]


def _reply(
    connection: Connection,
    destination: str,
    outgoing: Outgoing,
    where: Where,
    interrupts: Interrupts,
    timeout_seconds: float,
) -> Message | None:
    session = connection.session()
    reply_to = session.temporary_queue()
    consumer = session.consumer(reply_to)
    outgoing.message.reply_to = reply_to
    sender = sender_for(connection, destination, interrupts)
    try:
        sender.send(outgoing)
        sender.finish()
    except KeyboardInterrupt as interrupt:
        sender.give_up()
        raise NotSent(failure_text(sender, interrupt, where)) from None
    return _received(consumer, interrupts, timeout_seconds)


def _received(consumer: Consumer, interrupts: Interrupts, timeout_seconds: float) -> Message | None:
    deadline = time.monotonic() + timeout_seconds
    while not interrupts.pressed and (left := deadline - time.monotonic()) > 0:
        message = consumer.receive(min(_SLICE_SECONDS, left))
        if message is not None:
            return message
    return None

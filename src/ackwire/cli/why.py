"""`ackwire why`: ask a running broker why something does not move."""

import argparse
from typing import TYPE_CHECKING

from ackwire.cli.visit import DEFAULT_URL, Visit, visit
from ackwire.errors import ConfigError
from ackwire.question import ANSWER, NAME, QUESTIONS, SUBJECT, SUBJECTS
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.fast import destination_to_wire
from ackwire.wire.openwire.primitives import decode_map, encode_map

if TYPE_CHECKING:
    from ackwire.cli.config import Commands


def add_command(commands_parser: "Commands") -> None:
    """Add `why` to the command line."""
    parser = commands_parser.add_parser(
        "why",
        help="ask a running broker why something does not move",
        description="Asks a running broker, and prints its answer: one sentence for each thing it knows.",
    )
    parser.add_argument("subject", metavar="SUBJECT", choices=SUBJECTS, help=", ".join(SUBJECTS))
    parser.add_argument("name", metavar="NAME", nargs="?", default="", help="a destination, an id, or a file's number")
    parser.add_argument("--url", default=DEFAULT_URL, help=f"the broker; default: {DEFAULT_URL}")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    if not args.name and args.subject not in ("transaction", "file"):
        raise ConfigError(f"why {args.subject} needs a name, such as: ackwire why {args.subject} NAME")
    print(visit(args.url, lambda broker: _ask(broker, args.subject, args.name)))
    return 0


def _ask(broker: Visit, subject: str, name: str) -> str:
    reply_to = commands.ActiveMQTempQueue(f"{broker.connection_id}:1")
    consumer_id = commands.ConsumerId(broker.connection_id, -1, 1)
    connection_id = commands.ConnectionId(broker.connection_id)
    broker.request(commands.DestinationInfo(connection_id=connection_id, destination=reply_to))
    broker.request(commands.ConsumerInfo(consumer_id=consumer_id, destination=reply_to, prefetch_size=1))
    broker.request(_question(broker.connection_id, reply_to, subject, name))
    answer = broker.wait_for(commands.MessageDispatch).message
    properties = decode_map(answer.marshalled_properties or b"\0\0\0\0") if answer is not None else {}
    return str(properties.get(ANSWER, ""))


def _question(
    connection_id: str, reply_to: commands.ActiveMQTempQueue, subject: str, name: str
) -> commands.ActiveMQMessage:
    producer_id = commands.ProducerId(connection_id, 1, -1)
    return commands.ActiveMQMessage(
        producer_id=producer_id,
        message_id=commands.MessageId(producer_id=producer_id, producer_sequence_id=1),
        destination=destination_to_wire(QUESTIONS),
        reply_to=reply_to,
        marshalled_properties=encode_map({SUBJECT: subject, NAME: name}),
    )

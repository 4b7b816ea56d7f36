"""`ackwire why`: ask a running broker why something does not move."""

import argparse
import itertools
import os
import socket
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlsplit

from ackwire.errors import AckwireError, ConfigError
from ackwire.question import ANSWER, NAME, QUESTIONS, SUBJECT, SUBJECTS
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.fast import destination_to_wire
from ackwire.wire.openwire.negotiation import Agreement, Preferences
from ackwire.wire.openwire.primitives import decode_map, encode_map
from ackwire.wire.openwire.protocol import Event, OpenWireProtocol

if TYPE_CHECKING:
    from ackwire.cli.config import Commands

T = TypeVar("T")

_TIMEOUT_SECONDS: Final = 10.0


def add_command(commands_parser: "Commands") -> None:
    """Add `why` to the command line."""
    parser = commands_parser.add_parser(
        "why",
        help="ask a running broker why something does not move",
        description="Asks a running broker, and prints its answer: one sentence for each thing it knows.",
    )
    parser.add_argument("subject", metavar="SUBJECT", choices=SUBJECTS, help=", ".join(SUBJECTS))
    parser.add_argument("name", metavar="NAME", nargs="?", default="", help="a destination's name, or an id")
    parser.add_argument("--url", default="tcp://127.0.0.1:61616", help="the broker; default: tcp://127.0.0.1:61616")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    if not args.name and args.subject != "transaction":
        raise ConfigError(f"why {args.subject} needs a name, such as: ackwire why {args.subject} NAME")
    try:
        print(_ask(args.url, args.subject, args.name))
    except OSError as error:
        raise ConfigError(f"{args.url}: {error.strerror or error}; is a broker running there?") from None
    except AckwireError as error:
        raise ConfigError(f"{args.url}: {error}") from None
    return 0


def _ask(url: str, subject: str, name: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("tcp", "nio") or not parts.hostname:
        raise ConfigError(f"{url}: give the broker as tcp://host:port")
    address = (parts.hostname, parts.port or 61616)
    with socket.create_connection(address, timeout=_TIMEOUT_SECONDS) as connected:
        return _Asker(connected).ask(subject, name)


class _Asker:
    """A client for one question."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._protocol = OpenWireProtocol(Preferences(inactivity_ms=0))
        self._command_ids = itertools.count(1)
        self._connection_id = f"ID:ackwire-why-{os.getpid()}-{time.time_ns()}"
        self._events = self._receive()

    def ask(self, subject: str, name: str) -> str:
        """The broker's answer."""
        self._flush()
        self._wait_for(Agreement)
        self._protocol.login_finished()
        connection_id = commands.ConnectionId(self._connection_id)
        reply_to = commands.ActiveMQTempQueue(f"{self._connection_id}:1")
        self._request(commands.ConnectionInfo(connection_id=connection_id, client_id=self._connection_id))
        self._request(commands.DestinationInfo(connection_id=connection_id, destination=reply_to))
        consumer_id = commands.ConsumerId(self._connection_id, -1, 1)
        self._request(commands.ConsumerInfo(consumer_id=consumer_id, destination=reply_to, prefetch_size=1))
        self._request(self._question(reply_to, subject, name))
        answer = self._wait_for(commands.MessageDispatch).message
        properties = decode_map(answer.marshalled_properties or b"\0\0\0\0") if answer is not None else {}
        return str(properties.get(ANSWER, ""))

    def _question(self, reply_to: commands.ActiveMQTempQueue, subject: str, name: str) -> commands.ActiveMQMessage:
        producer_id = commands.ProducerId(self._connection_id, 1, -1)
        return commands.ActiveMQMessage(
            producer_id=producer_id,
            message_id=commands.MessageId(producer_id=producer_id, producer_sequence_id=1),
            destination=destination_to_wire(QUESTIONS),
            reply_to=reply_to,
            marshalled_properties=encode_map({SUBJECT: subject, NAME: name}),
        )

    def _request(self, command: commands.BaseCommand) -> None:
        command.command_id = next(self._command_ids)
        command.response_required = True
        self._protocol.send(command)
        self._flush()
        response = self._wait_for(commands.Response)
        if isinstance(response, commands.ExceptionResponse) and response.exception is not None:
            raise ConfigError(response.exception.message or "the broker refused to answer")

    def _flush(self) -> None:
        self._socket.sendall(b"".join(self._protocol.data_to_send()))

    def _wait_for(self, kind: type[T]) -> T:
        return next(event for event in self._events if isinstance(event, kind))

    def _receive(self) -> Iterator[Event]:
        while True:
            data = self._socket.recv(65536)
            if not data:
                raise ConfigError("the broker closed the connection")
            self._protocol.receive_data(data)
            yield from self._protocol.events()

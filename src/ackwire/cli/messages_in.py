"""Messages to send, from arguments, files, lines or JSON lines, with the headers and properties of the options.

What an option says goes before what a JSON line says. With `--count`, `{n}` in bodies, headers and properties stands
for the number of the repetition, from 1.
"""

import argparse
import io
import os
import select
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Final

from ackwire.cli import amounts
from ackwire.cli.message_json import BadMessage, Outgoing, from_json_line, map_from_json
from ackwire.client import conversions
from ackwire.client.errors import JMSError
from ackwire.client.messages import BytesMessage, Message, TextMessage
from ackwire.errors import ConfigError
from ackwire.jms.types import Long, Value

_HEADERS: Final = {
    "correlation_id": "correlation_id",
    "reply_to": "reply_to",
    "type": "type",
    "group_id": "group_id",
    "group_sequence": "group_sequence",
    "JMSCorrelationID": "correlation_id",
    "JMSReplyTo": "reply_to",
    "JMSType": "type",
    "JMSXGroupID": "group_id",
    "JMSXGroupSeq": "group_sequence",
}
_PROPERTY_TYPES: Final[dict[str, Callable[[str], Value]]] = {
    "string": conversions.as_string,
    "boolean": lambda text: conversions.boolean_of({"true": True, "false": False}.get(text)),
    "byte": lambda text: conversions.integer_of(conversions.as_byte(text), "byte"),
    "short": lambda text: conversions.integer_of(conversions.as_short(text), "short"),
    "int": lambda text: conversions.integer_of(conversions.as_int(text), "int"),
    "long": lambda text: conversions.integer_of(conversions.as_long(text), "long"),
    "float": lambda text: conversions.float_of(conversions.as_float(text)),
    "double": conversions.as_double,
}
_READ_BYTES: Final = 64 << 10
_WAIT_SECONDS: Final = 0.2
_NUMBER: Final = "{n}"


def add_body_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for bodies: of one message, or of many."""
    parser.add_argument("bodies", metavar="BODY", nargs="*", help="the body of a message; each one is a message")
    parser.add_argument(
        "--file",
        metavar="FILE",
        action="append",
        default=[],
        help="a body from a file; - is standard input; repeatable",
    )
    parser.add_argument(
        "--type", choices=("text", "bytes", "map"), help="what bodies become; map takes JSON objects; default: text"
    )


def add_stream_options(parser: argparse.ArgumentParser) -> None:
    """Messages from standard input, as many as come."""
    parser.add_argument("--lines", action="store_true", help="a message from each line of standard input")
    parser.add_argument(
        "--jsonl",
        dest="json_lines",
        action="store_true",
        help="a message from each line of standard input: a JSON object, as receive --jsonl writes it",
    )


def add_header_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for headers, properties and delivery."""
    parser.add_argument(
        "--header",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=_header,
        help="correlation_id, reply_to, type, group_id or group_sequence; repeatable",
    )
    parser.add_argument(
        "--property",
        metavar="NAME[:TYPE]=VALUE",
        action="append",
        default=[],
        type=_property,
        help="a property; TYPE is string (the default), boolean, byte, short, int, long, float or double; repeatable",
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--persistent", action="store_true", default=None, help="kept over a restart; the default")
    mode.add_argument("--non-persistent", dest="persistent", action="store_false", help="lost by a restart")
    parser.add_argument("--priority", metavar="0-9", type=amounts.priority, help="default: 4")
    parser.add_argument("--ttl", metavar="TIME", type=amounts.seconds, help="30s: expires so long after it was sent")
    parser.add_argument(
        "--delay",
        metavar="TIME",
        type=amounts.seconds,
        help="10s: the broker holds it back so long (AMQ_SCHEDULED_DELAY)",
    )


def _header(text: str) -> tuple[str, str]:
    name, value = amounts.pair(text)
    return _HEADERS[amounts.one_of("header", name, list(_HEADERS))], value


def _property(text: str) -> tuple[str, str, str]:
    left, value = amounts.pair(text)
    name, colon, kind = left.partition(":")
    if name.startswith("JMSX"):
        raise argparse.ArgumentTypeError(
            f"{name} is no property of the application; --header sets group_id, group_sequence"
        )
    return name, amounts.one_of("type", kind, list(_PROPERTY_TYPES)) if colon else "string", value


# ---- what every message gets -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stamp:
    """The headers and properties that the options give all messages."""

    headers: tuple[tuple[str, str], ...] = ()
    properties: tuple[tuple[str, str, str], ...] = ()
    persistent: bool | None = None
    priority: int | None = None
    ttl_ms: int | None = None
    delay_ms: int | None = None

    @classmethod
    def from_args(cls, args: argparse.Namespace) -> "Stamp":
        """Raises `ConfigError` at once for what would fail with every message."""
        stamp = cls(
            tuple(args.header),
            tuple(args.property),
            args.persistent,
            args.priority,
            None if args.ttl is None else _milliseconds(args.ttl),
            None if args.delay is None else _milliseconds(args.delay),
        )
        try:
            stamp.put_on(Outgoing(Message()), None if getattr(args, "count", None) is None else 1)
        except BadMessage as error:
            raise ConfigError(str(error)) from None
        return stamp

    def put_on(self, outgoing: Outgoing, number: int | None) -> Outgoing:
        """Raises `BadMessage` for a header or property that cannot be."""
        self._set_headers(outgoing.message, number)
        self._set_properties(outgoing.message, number)
        if self.persistent is not None:
            outgoing.persistent = self.persistent
        if self.priority is not None:
            outgoing.priority = self.priority
        if self.ttl_ms is not None:
            outgoing.ttl_ms = self.ttl_ms
        return outgoing

    def _set_headers(self, message: Message, number: int | None) -> None:
        for name, text in self.headers:
            value = numbered(text, number)
            try:
                if name == "group_sequence":
                    message.group_sequence = conversions.as_int(value)
                else:
                    setattr(message, name, value)
            except JMSError as error:
                raise BadMessage(f"--header {name}={value}: {error}") from None

    def _set_properties(self, message: Message, number: int | None) -> None:
        if not self.properties and self.delay_ms is None:
            return
        own = dict(message.properties.own())
        given = Message().properties
        for name, kind, text in self.properties:
            value = numbered(text, number)
            try:
                given[name] = _PROPERTY_TYPES[kind](value)
            except JMSError as error:
                raise BadMessage(f"--property {name}:{kind}={value}: {error}") from None
        if self.delay_ms is not None:
            given["AMQ_SCHEDULED_DELAY"] = Long(self.delay_ms)
        both = own | given.own()
        message.properties.receive(lambda: both)


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def numbered(text: str, number: int | None) -> str:
    return text if number is None else text.replace(_NUMBER, str(number))


# ---- where bodies come from ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Source:
    """Messages to come; *total* is None where only the end of the input will tell.

    None among them means that the input keeps us waiting: there is time to look after something else.
    """

    messages: Iterator[Outgoing | None]
    total: int | None


def source_from_args(args: argparse.Namespace, stdin: IO[bytes] | None = None) -> Source:
    """The messages that the command line asks for. Raises `ConfigError`; the iterator raises `BadMessage`."""
    _check_choice(args)
    stamp = Stamp.from_args(args)
    given = sys.stdin.buffer if stdin is None else stdin
    if getattr(args, "json_lines", False):
        return Source(_from_json_lines(given, stamp), None)
    make = _MAKERS[args.type or "text"]
    if getattr(args, "lines", False):
        return Source(_from_lines(given, make, stamp), None)
    bodies = [(repr(body), os.fsencode(body)) for body in args.bodies]
    bodies += [(name, _read(name, given)) for name in args.file]
    count = getattr(args, "count", None)
    try:
        # Everything is read before the first one is sent: a file that is missing, or no text, is found in time.
        first = list(_each(bodies, None if count is None else 1, make, stamp))
    except BadMessage as error:
        raise ConfigError(str(error)) from None
    times = count or 1
    repetitions = (_each(bodies, number, make, stamp) for number in range(2, times + 1))
    return Source(chain(first, chain.from_iterable(repetitions)), len(bodies) * times)


def _check_choice(args: argparse.Namespace) -> None:
    ways = {
        "BODY": bool(args.bodies or args.file),
        "--lines": getattr(args, "lines", False),
        "--jsonl": getattr(args, "json_lines", False),
    }
    given = [way for way, is_given in ways.items() if is_given]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} do not go together: give bodies in one way")
    if not given:
        others = ", --lines or --jsonl" if hasattr(args, "lines") else ""
        raise ConfigError(f'there is nothing to send: give a BODY, "" for an empty one, or use --file{others}')
    if getattr(args, "count", None) is not None and given != ["BODY"]:
        raise ConfigError(f"--count repeats what arguments and --file give, and not {given[0]}")
    if given == ["--jsonl"] and args.type is not None:
        raise ConfigError("--type says what plain bodies become; with --jsonl each line says that itself")
    if args.file.count("-") > 1:
        raise ConfigError("standard input (--file -) can be read once")


def _read(name: str, stdin: IO[bytes]) -> bytes:
    if name == "-":
        return stdin.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise ConfigError(f"{name}: {error.strerror or error}") from None


Maker = Callable[[bytes, int | None, str], Outgoing]


def _text(body: bytes, number: int | None, name: str) -> Outgoing:
    return Outgoing(TextMessage(numbered(_decoded(body, name), number)), size_bytes=len(body))


def _bytes(body: bytes, number: int | None, name: str) -> Outgoing:
    del name
    own = body if number is None else body.replace(_NUMBER.encode(), str(number).encode())
    return Outgoing(BytesMessage(own), size_bytes=len(own))


def _map(body: bytes, number: int | None, name: str) -> Outgoing:
    try:
        return Outgoing(map_from_json(numbered(_decoded(body, name), number)), size_bytes=len(body))
    except BadMessage as error:
        raise BadMessage(f"{name}: {error}") from None


_MAKERS: Final[dict[str, Maker]] = {"text": _text, "bytes": _bytes, "map": _map}


def _decoded(body: bytes, name: str) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        raise BadMessage(f"{name} is not UTF-8: --type bytes sends it as it is") from None


def _each(bodies: list[tuple[str, bytes]], number: int | None, make: Maker, stamp: Stamp) -> Iterator[Outgoing]:
    for name, body in bodies:
        yield stamp.put_on(make(body, number, name), number)


def _from_lines(stdin: IO[bytes], make: Maker, stamp: Stamp) -> Iterator[Outgoing | None]:
    for number, line in _numbered(lines_of(stdin)):
        if line is None:
            yield None
            continue
        yield stamp.put_on(make(line.removesuffix(b"\n").removesuffix(b"\r"), None, f"line {number}"), None)


def _from_json_lines(stdin: IO[bytes], stamp: Stamp) -> Iterator[Outgoing | None]:
    for number, line in _numbered(lines_of(stdin)):
        if line is None or not line.strip():
            yield None
            continue
        try:
            yield stamp.put_on(from_json_line(line), None)
        except BadMessage as error:
            raise BadMessage(f"line {number}: {error}") from None


def _numbered(lines: Iterable[bytes | None]) -> Iterator[tuple[int, bytes | None]]:
    number = 0
    for line in lines:
        number += line is not None
        yield number, line


def lines_of(stdin: IO[bytes]) -> Iterator[bytes | None]:
    """Lines with their ends, each as soon as it is there; None now and then while there is none."""
    try:
        descriptor = stdin.fileno()
    except io.UnsupportedOperation:  # a test's
        yield from iter(stdin.readline, b"")
        return
    # Past Python's buffer, because it does not tell whether it has a line left.
    parts: list[bytes] = []
    while True:
        if not select.select([descriptor], [], [], _WAIT_SECONDS)[0]:
            yield None
            continue
        data = os.read(descriptor, _READ_BYTES)
        if not data:
            break
        *whole, rest = data.split(b"\n")
        for line in whole:
            yield b"".join((*parts, line, b"\n"))
            parts.clear()
        parts += [rest] if rest else []
    if parts:
        yield b"".join(parts)

"""Where received messages go: to standard output as text or JSON lines, or into a directory, a file each.

`write` takes a message, `flush` returns when all that was written is out of our hands: given to the pipe or terminal,
synced if it went into a file. Only then may a message be acknowledged.
"""

import argparse
import hashlib
import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final, Protocol
from urllib.parse import quote

from ackwire.cli.message_json import headers_of, plain_body, to_json_line
from ackwire.client.messages import BytesMessage, MapMessage, Message, ObjectMessage, StreamMessage
from ackwire.errors import ConfigError
from ackwire.jms.types import Value
from ackwire.util.logs import escape
from ackwire.wire.openwire.portrait import typed

_NAME_LENGTH_MAX: Final = 200
"""Bytes of a file name without its ending; file systems allow 255."""
_BUFFER_BYTES: Final = 64 << 10
_UNPRINTABLE: Final = re.compile(r"[^\n\t]")


class Output(Protocol):
    """Takes messages. Both methods may raise `OSError`; `write` raises `JMSError` for a message that cannot be read."""

    def write(self, message: Message) -> None: ...

    def flush(self) -> None: ...


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """The options that `output_from_args` reads."""
    parser.add_argument(
        "--jsonl",
        action="store_true",
        help="a JSON object per line, with headers and typed properties: for send --jsonl",
    )
    parser.add_argument(
        "--output", metavar="DIR", help="a file for each message, named after its id; the directory is made if need be"
    )
    parser.add_argument("--print-headers", action="store_true", help="headers and properties before each body")


def output_from_args(args: argparse.Namespace, stdout: IO[bytes] | None = None) -> Output:
    """Raises `ConfigError` for a directory that cannot be used."""
    if args.jsonl and args.print_headers:
        raise ConfigError("--print-headers is for bodies; with --jsonl the headers are there already")
    if args.output is not None:
        return DirectoryOutput(Path(args.output), jsonl=args.jsonl, headers=args.print_headers)
    return StreamOutput(stdout or _standard_output(), jsonl=args.jsonl, headers=args.print_headers)


def _standard_output() -> IO[bytes]:
    # Not Python's own: with PYTHONUNBUFFERED that has no buffer, and a signal could leave half a message written.
    try:
        return open(sys.stdout.fileno(), "wb", buffering=_BUFFER_BYTES, closefd=False)
    except OSError:  # a test's
        return sys.stdout.buffer


# ---- standard output -------------------------------------------------------------------------------------------


class StreamOutput:
    """A line, or what else a body is, for each message. On a terminal nothing that a sender wrote can drive it."""

    def __init__(self, stream: IO[bytes], *, jsonl: bool = False, headers: bool = False) -> None:
        self._stream = stream
        self._jsonl = jsonl
        self._headers = headers
        self._is_terminal = stream.isatty()
        self._is_file = _is_regular_file(stream)

    def write(self, message: Message) -> None:
        record = _record(message, jsonl=self._jsonl, headers=self._headers)
        if self._is_terminal:
            record = _for_terminal(record)
        self._stream.write(record + (b"\n\n" if self._headers else b"\n"))

    def flush(self) -> None:
        self._stream.flush()
        if self._is_file:
            os.fsync(self._stream.fileno())


def _record(message: Message, *, jsonl: bool, headers: bool) -> bytes:
    if jsonl:
        return to_json_line(message).encode("ascii")
    body = plain_body(message)
    return "".join(f"{line}\n" for line in header_lines(message)).encode() + b"\n" + body if headers else body


def header_lines(message: Message) -> Iterator[str]:
    """`priority: 4` for headers, `n:int=7` for properties, as --property takes them."""
    for name, value in headers_of(message).items():
        if name in ("timestamp_ms", "expiration_ms"):
            yield f"{name.removesuffix('_ms')}: {_moment(value)}"
        else:
            yield f"{name}: {escape(str(value).lower() if isinstance(value, bool) else str(value))}"
    for name, value in message.properties.own().items():
        yield escape(_property_line(name, value))


def _moment(time_ms: int) -> str:
    if time_ms == 0:
        return "never"
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):  # clients send any number
        return f"{time_ms} ms"


def _property_line(name: str, value: Value) -> str:
    with_type = typed(value)
    if with_type is None:
        return f"{name}=null"
    ((kind, item),) = with_type.items()
    text = str(item).lower() if isinstance(item, bool) else str(item)
    return f"{name}={text}" if kind == "string" else f"{name}:{kind}={text}"


def _for_terminal(record: bytes) -> bytes:
    text = record.decode("utf-8", "backslashreplace")
    return _UNPRINTABLE.sub(lambda match: escape(match[0]), text).encode()


def _is_regular_file(stream: IO[bytes]) -> bool:
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except OSError:  # no file at all: a test's
        return False


# ---- a directory -----------------------------------------------------------------------------------------------


class DirectoryOutput:
    """A file for each message. A message that comes again replaces its own file, so nothing is there twice."""

    def __init__(self, directory: Path, *, jsonl: bool = False, headers: bool = False) -> None:
        self._directory = directory
        self._jsonl = jsonl
        self._headers = headers
        self._is_changed = False
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{directory}: {error.strerror or error}") from None

    def write(self, message: Message) -> None:
        record = _record(message, jsonl=self._jsonl, headers=self._headers)
        name = file_name(message) + (".json" if self._jsonl else _ending(message))
        # Whole or not at all: no reader finds half a message under its name.
        unfinished = self._directory / f".{name[-_NAME_LENGTH_MAX:]}.part"
        with unfinished.open("wb") as file:
            file.write(record)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self._directory / name)
        self._is_changed = True

    def flush(self) -> None:
        if not self._is_changed:
            return
        directory = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        self._is_changed = False


def file_name(message: Message) -> str:
    """The id of *message* as a file name; two ids never have the same one."""
    name = quote(message.message_id or "no-id", safe=":", errors="surrogatepass")
    if name.startswith("."):
        name = f"%2E{name[1:]}"
    if len(name) <= _NAME_LENGTH_MAX:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:32]
    return f"{name[: _NAME_LENGTH_MAX - len(digest) - 1]}-{digest}"


_ENDINGS: Final[Mapping[type[Message], str]] = {
    BytesMessage: ".bin",
    ObjectMessage: ".bin",
    MapMessage: ".json",
    StreamMessage: ".json",
}


def _ending(message: Message) -> str:
    return _ENDINGS.get(type(message), ".txt")

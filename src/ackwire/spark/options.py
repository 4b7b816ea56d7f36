"""The options of `format("ackwire")`: read once, on the driver, and carried to the executors as a plain value.

Each option says where it may be used; a wrong name or value is an error that lists what there is. Spark makes names
lower case on the way, so they are compared that way and shown as the guide writes them.
"""

import difflib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from ackwire.destinations import Destination, Kind, parse_written_destination
from ackwire.errors import InvalidDestination
from ackwire.spark.errors import BadOption

TOKEN_VARIABLE: Final = "ACKWIRE_TOKEN"  # noqa: S105 - the name of a variable
MESSAGES_PER_TRIGGER: Final = 100_000
"""About 100 MB of 1 KiB messages: large enough to be quick, small enough to be held twice."""
PARTITIONS_MAX: Final = 10_000
REQUEST_TIMEOUT_SECONDS: Final = 60.0
RETRY_TIMEOUT_SECONDS: Final = 60.0
NAME_LENGTH_MAX: Final = 200
"""Characters in the name of a cursor or a producer."""


class Use(Enum):
    """What a source is used for."""

    READ = "read"
    READ_STREAM = "readStream"
    WRITE = "write"
    WRITE_STREAM = "writeStream"


class Reading(Enum):
    """What a batch reads."""

    QUEUE = "queue"
    CURSOR = "cursor"
    DEAD_LETTERS = "dead-letters"


@dataclass(frozen=True, slots=True)
class Options:
    """All options, checked."""

    urls: tuple[str, ...]
    token: str | None = None
    destination: Destination | None = None
    cursor: str | None = None
    selector: str | None = None
    read: Reading = Reading.QUEUE
    after: int | None = None
    to: int | None = None
    max_messages_per_trigger: int = MESSAGES_PER_TRIGGER
    partitions: int | None = None
    producer: str | None = None
    property_columns: tuple[str, ...] = ()
    fail_on_data_loss: bool = True
    request_timeout_seconds: float = REQUEST_TIMEOUT_SECONDS
    retry_timeout_seconds: float = RETRY_TIMEOUT_SECONDS
    username: str | None = None
    password: str | None = None

    @property
    def is_for_activemq(self) -> bool:
        """Whether the broker is spoken to as any ActiveMQ: by the client, without cursors and staged batches."""
        return not self.urls[0].startswith(("http://", "https://"))

    def __repr__(self) -> str:
        # Tokens and passwords have no business in a log.
        return f"Options({', '.join(self.urls)}, {self.destination}, cursor={self.cursor}, producer={self.producer})"


# ---- reading one value ---------------------------------------------------------------------------------------------


def _text(name: str, value: str) -> str:
    if not value.strip():
        raise BadOption(f"option {name} is empty")
    return value.strip()


def _name(name: str, value: str) -> str:
    text = _text(name, value)
    if len(text) > NAME_LENGTH_MAX:
        raise BadOption(f"option {name} has {len(text)} characters: the limit is {NAME_LENGTH_MAX}")
    return text


def _flag(name: str, value: str) -> bool:
    if value.strip().lower() not in ("true", "false"):
        raise BadOption(f"option {name} is {value!r}, and must be true or false")
    return value.strip().lower() == "true"


def _whole(low: int, high: int) -> Callable[[str, str], int]:
    def read(name: str, value: str) -> int:
        text = value.strip().replace("_", "")
        if not text.isascii() or not text.isdigit() or len(text) > 20 or not low <= int(text) <= high:
            raise BadOption(f"option {name} is {value!r}, and must be a whole number from {low} to {high}")
        return int(text)

    return read


def _seconds(name: str, value: str) -> float:
    match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*(ms|s|min|h)?\s*", value)
    if match is None:
        raise BadOption(f"option {name} is {value!r}, and must be a time: 30, 30s, 500ms, 5min, 1h")
    return float(match[1]) * {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}[match[2] or "s"]


def _urls(name: str, value: str) -> tuple[str, ...]:
    text = _text(name, value)
    if not text.startswith(("http://", "https://")):
        if re.match(r"[a-z][a-z0-9+]*:", text) is None:
            raise BadOption(
                f"option {name} is {value!r}, and must be the broker's HTTP address (http://127.0.0.1:8161), or a "
                "client's address of an ActiveMQ (tcp://…, failover:(…))"
            )
        return (text,)
    return tuple(_http_url(name, part.strip().rstrip("/")) for part in text.split(","))


def _http_url(name: str, url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1)
    except ValueError:
        usable = False
    if not usable:
        raise BadOption(f"option {name}: {url!r} is no HTTP address; write it as http://127.0.0.1:8161")
    return url


def _destination(name: str, value: str) -> Destination:
    try:
        found = parse_written_destination(_text(name, value))
    except InvalidDestination as error:
        raise BadOption(f"option {name}: {error}") from None
    if found.kind.is_temporary:
        raise BadOption(f"option {name} is {value!r}: temporary destinations belong to one connection; use a queue")
    return found


def _reading(name: str, value: str) -> Reading:
    try:
        return Reading(value.strip().lower())
    except ValueError:
        known = ", ".join(member.value for member in Reading)
        raise BadOption(f"option {name} is {value!r}, and must be one of {known}") from None


def _columns(name: str, value: str) -> tuple[str, ...]:
    return tuple(_text(name, part) for part in value.split(","))


def _token_file(name: str, value: str) -> str:
    # Read here, on the driver: executors may run where the file is not.
    try:
        with Path(_text(name, value)).expanduser().open() as file:
            token = file.read(4096).strip()
    except OSError as error:
        raise BadOption(f"option {name}: cannot read {value}: {error.strerror}") from None
    if not token:
        raise BadOption(f"option {name}: {value} is empty")
    return token


# ---- which options there are ---------------------------------------------------------------------------------------

_ALL: Final = frozenset(Use)
_READS: Final = frozenset({Use.READ, Use.READ_STREAM})
_WRITES: Final = frozenset({Use.WRITE, Use.WRITE_STREAM})
_STREAM: Final = frozenset({Use.READ_STREAM})
_BATCH: Final = frozenset({Use.READ})


@dataclass(frozen=True, slots=True)
class _Option:
    field: str
    read: Callable[[str, str], Any]
    uses: frozenset[Use] = _ALL


_OPTIONS: Final[Mapping[str, _Option]] = {
    "url": _Option("urls", _urls),
    "token": _Option("token", _text),
    "tokenFile": _Option("token", _token_file),
    "destination": _Option("destination", _destination),
    "cursor": _Option("cursor", _name, _READS),
    "selector": _Option("selector", _text, _STREAM),
    "read": _Option("read", _reading, _BATCH),
    "after": _Option("after", _whole(0, 2**63 - 1), _BATCH),
    "to": _Option("to", _whole(0, 2**63 - 1), _BATCH),
    "maxMessagesPerTrigger": _Option("max_messages_per_trigger", _whole(1, 10**9), _STREAM),
    "partitions": _Option("partitions", _whole(1, PARTITIONS_MAX), _READS),
    "producer": _Option("producer", _name, frozenset({Use.WRITE_STREAM})),
    "propertyColumns": _Option("property_columns", _columns, _WRITES),
    "failOnDataLoss": _Option("fail_on_data_loss", _flag, _STREAM),
    "requestTimeout": _Option("request_timeout_seconds", _seconds),
    "retryTimeout": _Option("retry_timeout_seconds", _seconds),
    "username": _Option("username", _text),
    "password": _Option("password", _text),
}

_BY_LOWER: Final = {name.lower(): name for name in _OPTIONS}
_OF_SPARK: Final = frozenset({"checkpointlocation", "queryname", "outputmode", "header", "mode"})
"""What Spark hands on although it is meant for itself."""


def read_options(given: Mapping[str, str], use: Use) -> Options:
    """Check what the user gave. Raises `BadOption`, which says what can be given instead."""
    values: dict[str, Any] = {}
    for key in sorted(given, key=str.lower):
        name = _known_name("destination" if key.lower() == "path" else key, use)
        if name is None:
            continue
        option = _OPTIONS[name]
        if option.field in values:
            raise BadOption(f"option {name} and another one for the same are given; give one of them")
        values[option.field] = option.read(name, given[key])
    if "urls" not in values:
        raise BadOption('option url is missing: .option("url", "http://127.0.0.1:8161"), the broker\'s HTTP address')
    values.setdefault("token", os.environ.get(TOKEN_VARIABLE) or None)
    options = Options(**values)
    _check_together(options, use)
    return options


def _known_name(key: str, use: Use) -> str | None:
    """The option that *key* means; None for what is Spark's own."""
    name = _BY_LOWER.get(key.lower())
    if name is None:
        if key.lower() in _OF_SPARK:
            return None
        close = difflib.get_close_matches(key.lower(), _BY_LOWER, n=1)
        hint = f"; did you mean {_BY_LOWER[close[0]]}?" if close else ""
        raise BadOption(f'format("ackwire") has no option {key!r}{hint} It has: {_names(use)}')
    if use not in _OPTIONS[name].uses:
        fitting = " and ".join(sorted(member.value for member in _OPTIONS[name].uses))
        raise BadOption(f"option {name} is for {fitting}, not for {use.value}, which has: {_names(use)}")
    return name


def _names(use: Use) -> str:
    return ", ".join(name for name, option in _OPTIONS.items() if use in option.uses)


def _check_together(options: Options, use: Use) -> None:
    if options.is_for_activemq:
        _check_for_activemq(options, use)
    elif options.username or options.password:
        raise BadOption("options username and password are for an ActiveMQ; over HTTP a token says who you are")
    elif use is Use.READ_STREAM and options.cursor is None:
        raise BadOption(
            "option cursor is missing: a stream reads through a named position that the broker keeps; choose a name "
            'that no other query has: .option("cursor", "my-query")'
        )
    elif use is Use.READ:
        _check_batch(options)


def _check_for_activemq(options: Options, use: Use) -> None:
    if use in _READS and options.destination is None:
        raise BadOption("option destination is missing: the queue to read")
    if options.cursor is not None or options.read is Reading.CURSOR:
        raise BadOption(f"option cursor: {options.urls[0]} is spoken to as an ActiveMQ, which has no cursors")
    if options.read is Reading.DEAD_LETTERS:
        raise BadOption("option read: give the dead-letter queue as destination: ActiveMQ.DLQ")
    if use in _READS and options.destination is not None and options.destination.kind is Kind.TOPIC:
        raise BadOption(
            f"{options.destination!r} is a topic: without a cursor, what is sent while nobody reads would be lost. "
            "Send to VirtualTopic.<name> and read the queue Consumer.<anything>.VirtualTopic.<name>"
        )


def _check_batch(options: Options) -> None:
    is_range = options.after is not None or options.to is not None
    if options.read is Reading.CURSOR and options.cursor is None:
        raise BadOption('option cursor is missing: which cursor\'s range is to be read (read = "cursor")')
    if options.read is not Reading.CURSOR and (is_range or options.cursor is not None):
        raise BadOption('options cursor, after and to are for a cursor\'s range: add .option("read", "cursor")')
    if options.read is Reading.QUEUE:
        if options.destination is None:
            raise BadOption('option destination is missing: the queue to read: .option("destination", "orders")')
        if options.destination.kind is Kind.TOPIC:
            raise BadOption(
                f"{options.destination!r} is a topic, which keeps nothing for a batch to read; use readStream"
            )
    if options.after is not None and options.to is not None and options.after > options.to:
        raise BadOption(f"option after is {options.after}, beyond option to, which is {options.to}")

"""The options of `format("ackwire")`: read once, on the driver, and carried to the executors as a plain value.

Each option says where it may be used; a wrong name or value is an error that lists what there is. Spark makes names
lower case on the way, so they are compared that way and shown as the guide writes them.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from ackwire.config.fields import Option, did_you_mean, option
from ackwire.config.queries import Found, Known, Section, read_value
from ackwire.config.types import Choice, Number, Own, Refused, Seconds, Switch, Text, Texts, Type, quoted
from ackwire.errors import InvalidDestination
from ackwire.jms.destinations import Destination, Kind, parse_written_destination
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


# ---- reading one value ---------------------------------------------------------------------------------------------


def _urls(text: str) -> tuple[str, ...]:
    if not text.startswith(("http://", "https://")):
        if re.match(r"[a-z][a-z0-9+]*:", text) is None:
            raise Refused(
                "must be the broker's HTTP address (http://127.0.0.1:8161), or a client's address of an ActiveMQ "
                f"(tcp://…, failover:(…)), and is {quoted(text)}"
            )
        return (text,)
    return tuple(_http_url(part.strip().rstrip("/")) for part in text.split(","))


def _http_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1)
    except ValueError:
        usable = False
    if not usable:
        raise Refused(f"must be an HTTP address like http://127.0.0.1:8161, and has {quoted(url)}")
    return url


def _destination(text: str) -> Destination:
    try:
        found = parse_written_destination(text)
    except InvalidDestination as error:
        raise Refused(f"is {quoted(text)}: {error}") from None
    if found.kind.is_temporary:
        raise Refused(f"is {quoted(text)}: temporary destinations belong to one connection; use a queue")
    return found


def _token_of_file(text: str) -> str:
    # Read here, on the driver: executors may run where the file is not.
    try:
        with Path(text).expanduser().open() as file:
            token = file.read(4096).strip()
    except OSError as error:
        raise Refused(f"is of no use: cannot read {text}: {error.strerror}") from None
    if not token:
        raise Refused(f"is of no use: {text} is empty")
    return token


# ---- which options there are ---------------------------------------------------------------------------------------

_READS: Final = frozenset({Use.READ, Use.READ_STREAM})
_WRITES: Final = frozenset({Use.WRITE, Use.WRITE_STREAM})
_STREAM: Final = frozenset({Use.READ_STREAM})
_BATCH: Final = frozenset({Use.READ})

_TEXT: Final = Text(must_print=False)
_NAME: Final = Text(NAME_LENGTH_MAX, must_print=False)


class _Number(Number):
    """Digits may be grouped: 100_000."""

    def read_text(self, text: str) -> int:
        return super().read_text(text.replace("_", ""))


_NUMBER: Final = _Number(0, 2**63 - 1)
_TIME: Final = Seconds(0, 10**9)

_T = TypeVar("_T")


def _option(name: str, default: _T, takes: Type, reason: str, uses: frozenset[Use] = frozenset()) -> _T:
    return option(default, Option(takes, reason, name, uses=frozenset(uses)))


def _secret(name: str, takes: Type, reason: str) -> str | None:
    return option(None, Option(takes, reason, name, is_secret=True))


@dataclass(frozen=True, slots=True)
class Options:
    """All options, checked."""

    urls: tuple[str, ...] = _option(
        "url", (), Own("addresses", _urls, ",".join), "The HTTP address; several, with commas, are tried in turn."
    )
    token: str | None = _secret(
        "token", _TEXT, f"The broker's token; not given: variable `{TOKEN_VARIABLE}` of the driver."
    )
    token_file: str | None = _secret("tokenFile", Own("file", _token_of_file), "A file with it, read on the driver.")
    destination: Destination | None = option(
        None,
        Option(
            Own("queue or topic", _destination, repr),
            "`orders` or `queue://orders`, `topic://prices`; or the path of `load` and `save`.",
        ),
    )
    cursor: str | None = _option("cursor", None, _NAME, "Name of the cursor.", _READS)
    selector: str | None = _option("selector", None, _TEXT, "The cursor takes only messages that match.", _STREAM)
    read: Reading = option(
        Reading.QUEUE,
        Option(Choice(tuple(it.value for it in Reading), Reading), "What a batch reads; see above.", uses=_BATCH),
    )
    after: int | None = _option("after", None, _NUMBER, "Where a cursor's range begins: behind this number.", _BATCH)
    to: int | None = _option("to", None, _NUMBER, "Its last number.", _BATCH)
    max_messages_per_trigger: int = _option(
        "maxMessagesPerTrigger", MESSAGES_PER_TRIGGER, _Number(1, 10**9), "The largest batch of a stream.", _STREAM
    )
    partitions: int | None = _option(
        "partitions",
        None,
        _Number(1, PARTITIONS_MAX),
        "Tasks to divide a read into; not given: the driver's cores. On a cluster name the number you want.",
        _READS,
    )
    producer: str | None = _option(
        "producer",
        None,
        _NAME,
        "Name of the producer; not given: the query's id. See above.",
        frozenset({Use.WRITE_STREAM}),
    )
    property_columns: tuple[str, ...] = _option(
        "propertyColumns", (), Texts(_TEXT), "Columns that become properties.", _WRITES
    )
    fail_on_data_loss: bool = _option(
        "failOnDataLoss", True, Switch(), "End with an error if messages of a range are gone.", _STREAM
    )
    request_timeout_seconds: float = _option("requestTimeout", REQUEST_TIMEOUT_SECONDS, _TIME, "For one answer.")
    retry_timeout_seconds: float = _option(
        "retryTimeout", RETRY_TIMEOUT_SECONDS, _TIME, "How long a broker may be away."
    )
    username: str | None = _option("username", None, _TEXT, "Who connects to an ActiveMQ.")
    password: str | None = _secret("password", _TEXT, "The password for that.")

    @property
    def is_for_activemq(self) -> bool:
        """Whether the broker is spoken to as any ActiveMQ: by the client, without cursors and staged batches."""
        return not self.urls[0].startswith(("http://", "https://"))

    def __repr__(self) -> str:
        # Tokens and passwords have no business in a log.
        return f"Options({', '.join(self.urls)}, {self.destination}, cursor={self.cursor}, producer={self.producer})"


SECTION: Final = Section("Options", "", Options)
_KNOWN: Final = Known.of((SECTION,), str.lower)
_OF_SPARK: Final = frozenset({"checkpointlocation", "queryname", "outputmode", "header", "mode"})
"""What Spark hands on although it is meant for itself."""


def read_options(given: Mapping[str, str], use: Use) -> Options:
    """Check what the user gave. Raises `BadOption`, which says what can be given instead."""
    texts: dict[Found, str] = {}
    for key in sorted(given, key=str.lower):
        if found := _find("destination" if key.lower() == "path" else key, use):
            if found in texts:
                raise BadOption(f"option {found.name} is given twice; give one of them")
            texts[found] = given[key].strip()
    if {"token", "token_file"} <= {found.key for found in texts}:
        raise BadOption("options token and tokenFile are for the same; give one of them")
    try:
        values: dict[str, Any] = {found.key: read_value(found, text) for found, text in texts.items()}
    except Refused as refused:
        raise BadOption(str(refused)) from None
    if "urls" not in values:
        raise BadOption('option url is missing: .option("url", "http://127.0.0.1:8161"), the broker\'s HTTP address')
    options = Options(**values)
    token = options.token or options.token_file or os.environ.get(TOKEN_VARIABLE) or None
    options = replace(options, token=token, token_file=None)
    _check_together(options, use)
    return options


def _find(key: str, use: Use) -> Found | None:
    """The option that *key* means; None for what is Spark's own."""
    if key not in _KNOWN:
        if key.lower() in _OF_SPARK:
            return None
        hint = did_you_mean(key, _KNOWN.names()) or "."
        raise BadOption(f'format("ackwire") has no option {key!r}{hint} It has: {_names(use)}')
    found = _KNOWN.find(key)
    if found and found.option.uses and use not in found.option.uses:
        fitting = " and ".join(sorted(member.value for member in found.option.uses))
        raise BadOption(f"option {found.name} is for {fitting}, not for {use.value}, which has: {_names(use)}")
    return found


def _names(use: Use) -> str:
    return ", ".join(it.name for it in _KNOWN.options.values() if not it.option.uses or use in it.option.uses)


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
            f"{options.destination!r} is a topic: without a cursor, what is sent while no one reads would be lost. "
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

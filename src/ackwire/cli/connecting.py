"""What the commands of a client share: the broker and who connects, sessions on it, and errors in one line.

Exit codes: 0 everything was done and confirmed; 1 not everything was, and standard error says what; 2 nothing was
done, for a reason that the user can put right; 3 what was waited for did not come (a reply, as many messages as
--count asked for); 4 what was asked about does not exist.

Passwords come from a file or from the environment: every user of a machine can see the arguments of a process.
"""

import argparse
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ackwire.cli import amounts
from ackwire.cli.interrupts import Interrupts
from ackwire.client import Connection, ConnectionFactory, errors
from ackwire.client.options import ConnectionOptions, RedeliveryPolicy
from ackwire.client.uri import BrokerUrl, DestinationUri, TcpUri, VmUri, mask_secrets, parse_destination_uri
from ackwire.config import LogSettings, settings_file
from ackwire.errors import AckwireError, ConfigError
from ackwire.jms.destinations import Kind
from ackwire.util import logs
from ackwire.util.logs import escape

EXIT_INCOMPLETE: Final = 1
EXIT_NOTHING_CAME: Final = 3
EXIT_DOES_NOT_EXIST: Final = 4
DEFAULT_URL: Final = "tcp://127.0.0.1:61616"
"""Where commands look for a broker that operators ask about."""
CONNECT_SECONDS: Final = 60.0
"""How long a broker is looked for; `failover:` would try for ever."""
PASSWORD_VARIABLE: Final = "ACKWIRE_PASSWORD"  # noqa: S105 - the name of the variable
_PATIENCE_SECONDS: Final = 3.0
_FOR_EVER_SECONDS: Final = 365 * 86_400.0
EXIT_CODES: Final = """\
exit codes:
  0  all was done, and the broker has confirmed it
  1  not all of it: standard error says what
  2  nothing was done, for a reason that you can put right"""

_HINTS: Final[tuple[tuple[type[AckwireError], str], ...]] = (
    (errors.JMSSecurityError, f"check --user, --password-file or {PASSWORD_VARIABLE}, and what this user may do"),
    (errors.InvalidClientIdError, "choose another --client-id, or end the connection that has it"),
    (errors.InvalidSelectorError, "check --selector"),
    (errors.ConnectionFailedError, "is a broker running there?"),
    (errors.ResourceAllocationError, "the broker is full: consume something, or raise its limits"),
    (errors.RequestTimedOutError, "the broker may be full or too busy"),
)
"""What to do, by the first class that fits."""


_USERS_TO_MEND: Final = (
    ConfigError,
    errors.IllegalArgumentError,
    errors.InvalidClientIdError,
    errors.InvalidDestinationError,
    errors.InvalidSelectorError,
    errors.JMSSecurityError,
    errors.UnsupportedError,
)


def exit_code(error: AckwireError, *, is_anything_done: bool) -> int:
    """2 for what the user can put right before trying again, 1 for everything else."""
    return 2 if isinstance(error, _USERS_TO_MEND) and not is_anything_done else EXIT_INCOMPLETE


_URL_HELP: Final = "the broker, tcp://host:port, ssl://… or failover:(…), or a name from --config"


def add_client_options(parser: argparse.ArgumentParser) -> None:
    """Broker, destination, and who connects."""
    parser.add_argument("url", metavar="URL", help=_URL_HELP)
    parser.add_argument("destination", metavar="DESTINATION", help="orders, queue://orders or topic://prices")
    parser.add_argument(
        "--connect-timeout",
        metavar="TIME",
        type=amounts.seconds,
        default=CONNECT_SECONDS,
        help=f"how long to look for a broker; default: {amounts.seconds_text(CONNECT_SECONDS)}; 0: as long as it takes",
    )
    _add_login_options(parser)


def add_operator_options(parser: argparse.ArgumentParser, *, timeout_seconds: float) -> None:
    """Broker and who connects, for commands that ask a broker about itself."""
    parser.add_argument("--url", default=DEFAULT_URL, help=f"{_URL_HELP}; default: {DEFAULT_URL}")
    parser.add_argument(
        "--timeout",
        metavar="TIME",
        dest="connect_timeout",
        type=amounts.seconds,
        default=timeout_seconds,
        help=f"for the broker and for its answer; default: {amounts.seconds_text(timeout_seconds)}",
    )
    parser.add_argument("--json", action="store_true", help="one JSON document, for machines")
    # One query does not need the advisories of every temporary destination.
    parser.set_defaults(watch_advisories=False)
    _add_login_options(parser)


def _add_login_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="where names of brokers are explained; default: $ACKWIRE_CONFIG, or ackwire.toml",
    )
    parser.add_argument("--user", metavar="NAME", help="who connects")
    parser.add_argument(
        "--password-file", metavar="FILE", help=f"its first line is the password; without, ${PASSWORD_VARIABLE} is"
    )
    parser.add_argument(
        "--client-id", metavar="ID", help="the identity of the connection; durable subscriptions need it"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="errors only: no summary, no progress")
    parser.add_argument("-v", "--verbose", action="store_true", help="tell on standard error what the client does")


# ---- what people read ------------------------------------------------------------------------------------------


def say(text: str) -> None:
    """One line on standard error: standard output is for messages."""
    print(f"ackwire: {escape(text)}", file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class Where:
    """Destination, if the command has one, and broker, as messages to people name them."""

    destination: str
    broker: str

    def __str__(self) -> str:
        return f"{self.destination} on {self.broker}" if self.destination else self.broker

    def failure(self, error: Exception) -> str:
        """One line that says what happened, where, and what to do."""
        hint = next((hint for kind, hint in _HINTS if isinstance(error, kind)), "")
        text = " ".join(str(error).split()).removeprefix(f"{self.broker}: ") or type(error).__name__
        return f"{self}: {text}{f'; {hint}' if hint and hint not in text else ''}"


@contextmanager
def failing_before_anything_was_done(where: Where) -> Iterator[None]:
    """Turn errors of the client into `ConfigError`: nothing was done yet, and the user can correct it."""
    try:
        yield
    except errors.JMSError as error:
        raise ConfigError(where.failure(error)) from None


# ---- the destination -------------------------------------------------------------------------------------------


def destination_from(args: argparse.Namespace, *, default: Kind = Kind.QUEUE) -> DestinationUri:
    """Raises `ConfigError`."""
    return parse_destination_uri(args.destination, default=default)


def only_queue(uri: DestinationUri, instead: str) -> DestinationUri:
    """Raises `ConfigError` for a topic, and says what to use *instead*."""
    if not uri.destination.kind.is_queue:
        raise ConfigError(f"{uri.destination!r} is a topic; {instead}")
    return uri


def with_prefetch(uri: DestinationUri, prefetch: int) -> DestinationUri:
    return replace(uri, consumer=replace(uri.consumer, prefetch_size=prefetch))


# ---- the connection --------------------------------------------------------------------------------------------


def where_of(args: argparse.Namespace, uri: DestinationUri) -> Where:
    return Where(repr(uri.destination), _broker_name(args))


def broker_of(args: argparse.Namespace) -> Where:
    """The same for a command without a destination."""
    return Where("", _broker_name(args))


def _broker_name(args: argparse.Namespace) -> str:
    return mask_secrets(args.url).partition("?")[0]


@contextmanager
def connected(args: argparse.Namespace, where: Where, interrupts: Interrupts) -> Iterator[Connection]:
    """A connection that is logged in and started. Raises `ConfigError` if it cannot be made."""
    if args.verbose:
        logs.set_up(LogSettings(level="debug"))
        logging.getLogger("asyncio").setLevel(logging.INFO)
    factory = _factory(args)
    # `failover:` may try for long: say what goes on.
    patience = threading.Timer(_PATIENCE_SECONDS, say, (f"{where}: still connecting; Ctrl-C ends",))
    patience.daemon = True
    try:
        if not args.quiet:
            patience.start()
        with interrupts.raising(), failing_before_anything_was_done(where):
            connection = _opened(factory)
    finally:
        patience.cancel()
    if not args.quiet:
        connection.on_interrupted = lambda: say(f"the connection to {where.broker} is lost; connecting again")
        connection.on_resumed = lambda: say(f"connected to {where.broker} again")
    with connection:
        yield connection


@contextmanager
def second_connection(args: argparse.Namespace) -> Iterator[Connection]:
    """One more connection beside that of the command, with another client id. Raises `JMSError` and `ConfigError`."""
    factory = _factory(argparse.Namespace(**{**vars(args), "client_id": None}), is_warned=True)
    with _opened(factory) as connection:
        yield connection


def failure_check(connection: Connection) -> Callable[[], None]:
    """Something to call now and then: it raises what the connection has reported since."""
    reported: list[errors.JMSError] = []
    connection.on_error = reported.append

    def check() -> None:
        if reported:
            raise reported[0]

    return check


def _opened(factory: ConnectionFactory) -> Connection:
    connection = factory.create_connection()
    try:
        connection.start()
    except BaseException:
        connection.close()
        raise
    return connection


def _factory(args: argparse.Namespace, *, is_warned: bool = False) -> ConnectionFactory:
    """The factory of the URL or name, with the options of the command line over it."""
    if ":" in args.url:
        factory = ConnectionFactory(args.url)
        if factory.options.password is not None and not is_warned:
            say(
                "warning: the password in the URL can be seen by every user of this machine; use --password-file or "
                f"{PASSWORD_VARIABLE}"
            )
    elif settings_file.find(args.config) is None:
        raise ConfigError(
            f'"{args.url}" is no broker URL like tcp://host:port, and there is no {settings_file.NAME} here that would '
            "explain the name"
        )
    else:
        factory = ConnectionFactory.lookup(args.url, args.config)
    factory.url = _with_end(factory.url, args.connect_timeout)
    given = {"user_name": args.user, "client_id": args.client_id, "password": _password(args, factory.options)}
    factory.options = replace(factory.options, **{name: value for name, value in given.items() if value is not None})
    if not getattr(args, "watch_advisories", True):
        factory.options = replace(factory.options, watch_topic_advisories=False)
    if (seconds := getattr(args, "answer_timeout", None)) is not None:
        factory.options = _with_patience(factory.options, seconds)
    redelivery = factory.options.redelivery
    if redelivery.redeliveries_max == RedeliveryPolicy().redeliveries_max:
        # Who looks at a message once more wants to see it. A client that counts would make it a dead letter instead.
        factory.options = replace(factory.options, redelivery=replace(redelivery, redeliveries_max=-1))
    return factory


def _with_patience(options: ConnectionOptions, seconds: float) -> ConnectionOptions:
    """*options* that wait so many *seconds* for an answer, unless the URL says otherwise."""
    wait_ms = round((seconds or _FOR_EVER_SECONDS) * 1000)
    return replace(
        options,
        send_timeout_ms=options.send_timeout_ms or wait_ms,
        request_timeout_ms=options.request_timeout_ms or wait_ms,
    )


def _with_end(url: BrokerUrl, seconds: float) -> BrokerUrl:
    """*url* whose first connection is given up after so many *seconds*, unless it sets an end itself."""
    given = url.failover
    if given is None:
        return replace(url, uris=tuple(_with_quick_connect(uri, seconds) for uri in url.uris))
    is_bounded = given.timeout_ms >= 0 or given.reconnect_attempts_max >= 0 or given.startup_reconnect_attempts_max >= 0
    if is_bounded:
        return url
    return replace(url, failover=replace(given, timeout_ms=round((seconds or _FOR_EVER_SECONDS) * 1000)))


def _with_quick_connect(uri: TcpUri | VmUri, seconds: float) -> TcpUri | VmUri:
    if isinstance(uri, VmUri) or not 0 < seconds * 1000 < uri.transport.connection_timeout_ms:
        return uri
    return replace(uri, transport=replace(uri.transport, connection_timeout_ms=round(seconds * 1000)))


def _password(args: argparse.Namespace, options: ConnectionOptions) -> str | None:
    """The nearest one: the file, then what the URL or its name says (None here), then the environment."""
    if args.password_file is not None:
        try:
            text = Path(args.password_file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8"
            raise ConfigError(f"--password-file {args.password_file}: {reason}") from None
        return text.partition("\n")[0].removesuffix("\r")
    # A password without a name is no anonymous login any more, and brokers refuse it.
    has_user = args.user is not None or options.user_name is not None
    return os.environ.get(PASSWORD_VARIABLE) if has_user and options.password is None else None

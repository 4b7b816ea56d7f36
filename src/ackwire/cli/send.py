"""`ackwire send`: send messages, and say how many the broker has confirmed.

Many messages are in flight at a time, each with a request for the broker's answer. With
--transacted only the commit is answered. Messages without an answer are counted as such: they may be stored or not.
"""

import argparse
import math
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ackwire.cli import amounts
from ackwire.cli.connecting import (
    EXIT_CODES,
    EXIT_INCOMPLETE,
    Where,
    add_client_options,
    connected,
    destination_from,
    failing_before_anything_was_done,
    say,
    second_connection,
    where_of,
)
from ackwire.cli.interrupts import Interrupts
from ackwire.cli.message_json import BadMessage, Outgoing
from ackwire.cli.messages_in import Source, add_body_options, add_header_options, add_stream_options, source_from_args
from ackwire.cli.tally import Pace, Tally
from ackwire.cli.why import ask
from ackwire.client import (
    Connection,
    ConnectionFailedError,
    DeliveryMode,
    JMSError,
    Message,
    Producer,
    RequestTimedOutError,
    Session,
)
from ackwire.errors import ConfigError
from ackwire.util.clock import SystemClock
from ackwire.util.plurals import agree
from ackwire.why.protocol import ANSWER

if TYPE_CHECKING:
    from ackwire.cli.config import Commands

_WINDOW: Final = 1000
"""Messages under way without an answer."""
_WINDOW_BYTES: Final = 32 << 20
"""The same in bytes of bodies, so that large ones do not fill the memory."""
_SLICE_SECONDS: Final = 0.25
"""How long a wait goes on before it looks whether somebody wants out."""
_ANSWER_SECONDS: Final = 60.0
"""How long the broker may confirm nothing while messages are under way; other answers are waited for as long."""
_WHY_SECONDS: Final = 2.0
"""For the broker's answer to why it does not confirm anything."""
_FAREWELL_SECONDS: Final = 5.0
"""After Ctrl-C or an error: how long answers of what is under way are waited for."""

_EPILOG: Final = f"""\
examples:
  ackwire send tcp://127.0.0.1:61616 orders 'hello'
  ackwire send tcp://127.0.0.1:61616 orders 'order {{n}}' --count 1000 --rate 50/s --property n:int={{n}}
  ackwire send tcp://127.0.0.1:61616 orders --file invoice.pdf --type bytes --header correlation_id=42
  tail -f app.log | ackwire send tcp://127.0.0.1:61616 topic://logs --lines
  ackwire send tcp://127.0.0.1:61616 copy --jsonl < orders.jsonl

{EXIT_CODES}
"""


def add_command(commands: "Commands") -> None:
    """Add `send`."""
    parser = commands.add_parser(
        "send",
        help="send messages to a broker, ours or ActiveMQ",
        description="Sends messages, and ends with 0 only if the broker has confirmed all of them.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.intermixed = True  # a BODY may stand behind options
    add_client_options(parser)
    add_body_options(parser)
    add_stream_options(parser)
    parser.add_argument(
        "--count", metavar="N", type=amounts.whole, help="send it N times; {n} stands for the number, from 1"
    )
    parser.add_argument("--rate", metavar="N/s", type=amounts.rate, help="at most so many messages per second")
    add_header_options(parser)
    parser.add_argument(
        "--transacted", metavar="N", type=amounts.whole, help="in transactions of N messages: each all or nothing"
    )
    parser.add_argument(
        "--timeout",
        metavar="TIME",
        dest="answer_timeout",
        type=amounts.seconds,
        default=_ANSWER_SECONDS,
        help="end when the broker confirms nothing for so long, because it is full or cannot be reached any more; "
        f"default: {amounts.seconds_text(_ANSWER_SECONDS)}; 0: as long as it takes",
    )
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    uri = destination_from(args)
    where = where_of(args, uri)
    source = source_from_args(args)
    with Interrupts() as interrupts, connected(args, where, interrupts) as connection:
        with failing_before_anything_was_done(where):
            sender = sender_for(
                connection, str(uri), interrupts, args.transacted, timeout_seconds=args.answer_timeout or math.inf
            )
        return _send_all(args, source, sender, where, interrupts)


def _send_all(args: argparse.Namespace, source: Source, sender: "Sender", where: Where, interrupts: Interrupts) -> int:
    tally = Tally("sent", source.total, is_shown=not args.quiet)
    sender.on_confirmed = lambda message: _note(args, tally, message)
    problem: Exception | KeyboardInterrupt | None = None
    reason = ""
    try:
        _send_each(source, sender, Pace(args.rate, interrupts.sleep), interrupts)
        sender.finish()
    except (JMSError, BadMessage, KeyboardInterrupt) as error:
        problem = error
        if isinstance(error, RequestTimedOutError):
            reason = _why(args, sender)  # while it still waits
        sender.give_up()
    tally.clear()
    if problem is None and not sender.expired:
        if not args.quiet:
            say(tally.summary(f"to {where}"))
        return 0
    say(failure_text(sender, problem, where))
    if reason:
        say(f"the broker says: {reason}")
    return EXIT_INCOMPLETE if sender.confirmed or sender.unknown or problem is None else 2


def _why(args: argparse.Namespace, sender: "Sender") -> str:
    """Ask an Ackwire broker why it does not answer the sender (a full disk, for instance), on a connection of
    its own, because that of the sender waits."""
    try:
        with second_connection(args) as connection:
            answer = ask(connection, "producer", sender.producer_id, timeout_seconds=_WHY_SECONDS)
    except (JMSError, ConfigError):
        return ""
    return "" if answer is None else str(answer.properties.get(ANSWER, ""))


def _note(args: argparse.Namespace, tally: Tally, message: Message | None) -> None:
    tally.add()
    if args.verbose and message is not None:
        tally.clear()
        say(f"confirmed {message.message_id}")


def _send_each(source: Source, sender: "Sender", pace: Pace, interrupts: Interrupts) -> None:
    while True:
        try:
            with interrupts.raising():  # standard input may keep us waiting
                outgoing = next(source.messages)
        except StopIteration:
            return
        if outgoing is None:
            sender.look()
            continue
        pace.wait()
        sender.send(outgoing)


def failure_text(sender: "Sender", problem: BaseException | None, where: Where) -> str:
    """One line: what is confirmed, what is not, and why."""
    parts = [f"{sender.confirmed} of {amounts.messages_text(sender.attempted)} confirmed"]
    parts += [f"{count} {what}" for count, what in sender.not_confirmed() if count]
    counts = ", ".join(parts)
    match problem:
        case None:
            return f"{where}: {counts}; --ttl gives a new time"
        case KeyboardInterrupt():
            return f"{where}: interrupted: {counts}"
        case BadMessage():
            return f"{where}: {problem}: {counts}" if sender.attempted else f"{where}: {problem}"
    assert isinstance(problem, Exception)
    return f"{where.failure(problem)}: {counts}" if sender.attempted > 1 or sender.unknown else where.failure(problem)


# ---- senders ---------------------------------------------------------------------------------------------------


def sender_for(
    connection: Connection,
    destination: str,
    interrupts: Interrupts,
    transaction_size: int | None = None,
    *,
    timeout_seconds: float = _ANSWER_SECONDS,
) -> "Sender":
    """Raises `JMSError`."""
    session = connection.session(transacted=transaction_size is not None)
    producer = session.producer(destination)
    if transaction_size is None:
        return ConfirmingSender(producer, interrupts, timeout_seconds, lambda: connection.is_connected)
    return TransactedSender(session, producer, interrupts, transaction_size)


class Sender:
    """Sends, and counts what the broker has answered."""

    def __init__(self, producer: Producer, interrupts: Interrupts) -> None:
        self._producer = producer
        self._interrupts = interrupts
        self._now_ms = SystemClock().now_ms
        self.on_confirmed: Callable[[Message | None], None] = lambda _: None
        self.attempted = 0
        self.confirmed = 0
        self.refused = 0
        self.expired = 0
        """Not sent, because their time was over before."""
        self.rolled_back = 0
        self.producer_id = ""
        """As the broker knows it, once something was sent."""

    @property
    def unknown(self) -> int:
        """Sent, or nearly so, and not answered."""
        return self.attempted - self.confirmed - self.refused - self.expired - self.rolled_back

    def not_confirmed(self) -> list[tuple[int, str]]:
        return [
            (self.refused, "refused"),
            (self.rolled_back, "rolled back"),
            (self.expired, f"not sent because {agree(self.expired, 'its', 'their')} time to live is over"),
            (self.unknown, f"without an answer: {agree(self.unknown, 'it', 'they')} may be there or not"),
        ]

    def send(self, outgoing: Outgoing) -> None:
        """Raises `JMSError` if this one or an earlier one fails, `KeyboardInterrupt` when a signal has come."""
        self.attempted += 1
        options = self._options(outgoing)
        if options is None:
            self.expired += 1
            return
        self._send(outgoing, options)
        if not self.producer_id and outgoing.message.message_id is not None:
            self.producer_id = outgoing.message.message_id.rpartition(":")[0]

    def look(self) -> None:
        """See which answers have come. Raises like `send`."""

    def finish(self) -> None:
        """Wait for all answers. Raises like `send`."""
        raise NotImplementedError

    def give_up(self) -> None:
        """After an error: see what can still be learned about the others, for a short while; raises nothing."""
        raise NotImplementedError

    def _send(self, outgoing: Outgoing, options: dict[str, Any]) -> None:
        raise NotImplementedError

    def _options(self, outgoing: Outgoing) -> dict[str, Any] | None:
        """The options for the producer; None for a message that has expired."""
        options: dict[str, Any] = {}
        if outgoing.persistent is not None:
            mode = DeliveryMode.PERSISTENT if outgoing.persistent else DeliveryMode.NON_PERSISTENT
            options["delivery_mode"] = mode
        if outgoing.priority is not None:
            options["priority"] = outgoing.priority
        if outgoing.ttl_ms is not None:
            options["time_to_live_ms"] = outgoing.ttl_ms
        elif outgoing.expiration_ms:
            options["time_to_live_ms"] = outgoing.expiration_ms - self._now_ms()
            if options["time_to_live_ms"] <= 0:
                return None
        return options

    def _confirm(self, message: Message | None, count: int = 1) -> None:
        self.confirmed += count
        for _ in range(count):
            self.on_confirmed(message)


class ConfirmingSender(Sender):
    """Asks for an answer to each message, persistent or not, and has many under way."""

    def __init__(
        self,
        producer: Producer,
        interrupts: Interrupts,
        timeout_seconds: float,
        is_connected: Callable[[], bool],
    ) -> None:
        super().__init__(producer, interrupts)
        self._timeout_seconds = timeout_seconds
        self._is_connected = is_connected
        self._under_way: deque[Future[Message]] = deque()
        self._sizes: deque[int] = deque()
        self._under_way_bytes = 0

    def finish(self) -> None:
        while self._under_way:
            self._settle_oldest()

    def give_up(self) -> None:
        deadline = time.monotonic() + _FAREWELL_SECONDS
        while self._under_way:
            future = self._under_way.popleft()
            try:
                self._confirm(future.result(max(0.0, deadline - time.monotonic())))
            except JMSError as error:
                self._count_refused(error)
            except (TimeoutError, CancelledError):
                pass  # no answer

    def _send(self, outgoing: Outgoing, options: dict[str, Any]) -> None:
        with self._interrupts.raising():  # a full producer window, or a connection that is being restored
            self._under_way.append(self._producer.submit(outgoing.message, **options))
            self._sizes.append(outgoing.size_bytes)
            self._under_way_bytes += outgoing.size_bytes
        self.look()

    def look(self) -> None:
        while self._under_way and (self._is_full or self._under_way[0].done()):
            self._settle_oldest()

    @property
    def _is_full(self) -> bool:
        return len(self._under_way) >= _WINDOW or self._under_way_bytes >= _WINDOW_BYTES

    def _settle_oldest(self) -> None:
        future = self._under_way[0]
        message: Message | None = None
        deadline = time.monotonic() + self._timeout_seconds
        while message is None:
            try:
                message = future.result(min(_SLICE_SECONDS, self._timeout_seconds))
            except JMSError as error:  # first, because a RequestTimedOutError is a TimeoutError too
                self._forget_oldest()
                self._count_refused(error)
                raise
            except TimeoutError:
                self._interrupts.check()
                if time.monotonic() >= deadline:
                    raise self._too_late() from None
        self._forget_oldest()
        self._confirm(message)

    def _too_late(self) -> JMSError:
        waited = amounts.seconds_text(self._timeout_seconds)
        if self._is_connected():
            return RequestTimedOutError(f"the broker has confirmed nothing for {waited}; --timeout waits longer")
        return ConnectionFailedError(
            f"the connection was lost, and no broker could be reached again for {waited}; --timeout tries longer"
        )

    def _forget_oldest(self) -> None:
        self._under_way.popleft()
        self._under_way_bytes -= self._sizes.popleft()

    def _count_refused(self, error: JMSError) -> None:
        self.refused += not _leaves_open(error)


def _leaves_open(error: JMSError) -> bool:
    """Whether the broker may have carried out the request although it failed here."""
    return isinstance(error, ConnectionFailedError | RequestTimedOutError)


class TransactedSender(Sender):
    """Commits after so many messages; the answer to the commit confirms them together."""

    def __init__(self, session: Session, producer: Producer, interrupts: Interrupts, size: int) -> None:
        super().__init__(producer, interrupts)
        self._session = session
        self._size = size
        self._open = 0

    def finish(self) -> None:
        if self._open:
            self._commit()

    def give_up(self) -> None:
        """Roll back the open transaction, which is incomplete."""
        if not self._open:
            return
        # If it cannot be told, the broker rolls back what a lost connection has begun.
        with suppress(JMSError):
            self._session.rollback()
        self.rolled_back += self._open
        self._open = 0

    def _send(self, outgoing: Outgoing, options: dict[str, Any]) -> None:
        self._open += 1
        with self._interrupts.raising():
            self._producer.send(outgoing.message, **options)
        if self._open >= self._size:
            self._commit()

    def _commit(self) -> None:
        count, self._open = self._open, 0
        try:
            self._session.commit()
        except JMSError as error:
            if not _leaves_open(error):
                self.rolled_back += count
            raise
        self._confirm(None, count)

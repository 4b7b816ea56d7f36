"""`ackwire receive`: take messages from a queue, and write them.

How the end of a queue is found: brokers push messages and never say that none is left, but they answer a pull (of a
consumer with prefetch 0) at once if the queue is empty. So the command pulls one message. If there is one, a consumer
with prefetch receives others until there is a pause, and then the command pulls again. The two consumers never overlap,
so order is kept, and prefetched messages that were not taken go back to their places.
"""

import argparse
from contextlib import closing
from typing import TYPE_CHECKING, Final

from ackwire.cli import amounts
from ackwire.cli.connecting import (
    EXIT_CODES,
    add_client_options,
    connected,
    destination_from,
    failure_check,
    only_queue,
    where_of,
    with_prefetch,
)
from ackwire.cli.interrupts import Interrupts
from ackwire.cli.messages_out import add_output_options, output_from_args
from ackwire.cli.taking import (
    Ending,
    Taker,
    Unreadable,
    Wanted,
    WriteFailed,
    acknowledge_each,
    acknowledge_nothing,
    tally_for,
    told,
    told_failure,
)
from ackwire.client import AckMode, Consumer, JMSError, Session
from ackwire.client.uri import DestinationUri
from ackwire.errors import ConfigError

if TYPE_CHECKING:
    from ackwire.cli.config import Commands

_PULLED_MAX: Final = 10
"""So few messages are asked for one by one: none is taken away from others that is not wanted here."""
_PREFETCH_MAX: Final = 1000
_PAUSE_SECONDS: Final = 0.2
"""Pushed messages that do not come for so long are at an end, or nearly: the broker is asked."""

_REMARKS: Final = {"auto": "", "client": ", acknowledged together", "none": ", given back"}

_EPILOG: Final = f"""\
examples:
  ackwire receive tcp://127.0.0.1:61616 orders                          what is there now
  ackwire receive tcp://127.0.0.1:61616 orders --count 1 --timeout 10s  wait for one
  ackwire receive tcp://127.0.0.1:61616 orders --follow --selector "region = 'EU'"
  ackwire receive tcp://127.0.0.1:61616 orders --jsonl > orders.jsonl   for: ackwire send … --jsonl < orders.jsonl
  ackwire receive tcp://127.0.0.1:61616 invoices --output invoices

--ack: auto acknowledges what was written, as it goes; client all of it together at the end, and nothing if something
goes wrong before; none gives everything back, and the broker counts that as a delivery (browse does not).

{EXIT_CODES}
  3  --count was given, and fewer came
"""


def add_command(commands: "Commands") -> None:
    """Add `receive`."""
    parser = commands.add_parser(
        "receive",
        help="take messages from a queue",
        description="Takes messages from a queue: those that are there now, unless --timeout or --follow wait for\n"
        "more. A message is acknowledged after it was written and flushed.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_client_options(parser)
    add_taking_options(parser)
    parser.add_argument("--follow", action="store_true", help="wait for more, until --count or Ctrl-C")
    parser.add_argument("--ack", choices=("auto", "client", "none"), default="auto", help="see below; default: auto")
    parser.set_defaults(run=_run)


def add_taking_options(parser: argparse.ArgumentParser) -> None:
    """What `receive` and `subscribe` share."""
    parser.add_argument("--count", metavar="N", type=amounts.whole, help="end after N messages")
    parser.add_argument("--timeout", metavar="TIME", type=amounts.seconds, help="5s: end when nothing came for so long")
    parser.add_argument(
        "--selector", metavar="EXPRESSION", help="only messages that match, such as \"n > 7 AND s = 'x'\""
    )
    parser.add_argument("--rate", metavar="N/s", type=amounts.rate, help="at most so many messages per second")
    add_output_options(parser)


def _run(args: argparse.Namespace) -> int:
    if args.follow and args.timeout is not None:
        raise ConfigError("--follow waits for ever, and --timeout does not: give one of them")
    uri = only_queue(destination_from(args), "ackwire subscribe takes messages from topics")
    where = where_of(args, uri)
    output = output_from_args(args)
    tally = tally_for(args)
    with Interrupts() as interrupts, connected(args, where, interrupts) as connection:
        tally.begin()
        taker = Taker(
            output,
            tally,
            interrupts,
            acknowledge=acknowledge_each if args.ack == "auto" else acknowledge_nothing,
            check=failure_check(connection),
            count_max=args.count,
            rate=args.rate,
        )
        try:
            session = connection.session(AckMode.INDIVIDUAL if args.ack == "auto" else AckMode.CLIENT)
            ending = _taken(args, taker, Consumers(session, uri, args))
            is_given_back = args.ack == "none" or (args.ack == "client" and ending is Ending.INTERRUPTED)
            if args.ack == "client" and not is_given_back:
                session.acknowledge()
            session.close()
        except (JMSError, WriteFailed, Unreadable) as error:
            return told_failure(error, tally, where)
    remark = _REMARKS["none" if is_given_back else args.ack]
    return told(ending, tally, where, Wanted.from_args(args, follow=args.follow, remark=remark))


class Consumers:
    """Makes consumers of the queue, one at a time."""

    def __init__(self, session: Session, uri: DestinationUri, args: argparse.Namespace) -> None:
        self._session = session
        self._uri = uri
        self._selector: str | None = args.selector
        few = args.count is not None and args.count <= _PULLED_MAX
        # What is not acknowledged as it goes fills a prefetch window, and then nothing would be pushed any more.
        self.only_pull = few or args.ack != "auto" or uri.consumer.prefetch_size == 0

    def pulling(self) -> Consumer:
        return self._session.consumer(str(with_prefetch(self._uri, 0)), self._selector)

    def pushing(self, left: int | None) -> Consumer:
        own = self._uri.consumer.prefetch_size
        prefetch = own or min(_PREFETCH_MAX, left or _PREFETCH_MAX)
        return self._session.consumer(str(with_prefetch(self._uri, prefetch)), self._selector)


def _taken(args: argparse.Namespace, taker: Taker, consumers: Consumers) -> Ending:
    # Consumers stay open, but for those that take turns: what is not acknowledged yet would go back with them.
    if args.follow or args.timeout is not None:
        consumer = consumers.pulling() if consumers.only_pull else consumers.pushing(taker.left)
        return taker.take(consumer, idle_seconds=args.timeout, is_pulling=consumers.only_pull)
    if consumers.only_pull:
        ending = taker.take(consumers.pulling(), idle_seconds=0, is_pulling=True)
        return Ending.NOTHING_MORE if ending is Ending.IDLE else ending
    return _drained(taker, consumers)


def _drained(taker: Taker, consumers: Consumers) -> Ending:
    while True:
        with closing(consumers.pulling()) as consumer:
            ending = taker.take_one(consumer)
        if ending is not None:
            return Ending.NOTHING_MORE if ending is Ending.IDLE else ending
        if taker.left == 0:
            return Ending.COUNT
        with closing(consumers.pushing(taker.left)) as consumer:
            ending = taker.take(consumer, idle_seconds=_PAUSE_SECONDS, is_pulling=False)
        if ending is not Ending.IDLE:
            return ending

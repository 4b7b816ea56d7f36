"""`ackwire browse`: show the messages of a queue without taking them."""

import argparse
from typing import TYPE_CHECKING, Final

from ackwire.cli import amounts
from ackwire.cli.connecting import (
    EXIT_CODES,
    add_client_options,
    connected,
    destination_from,
    only_queue,
    where_of,
)
from ackwire.cli.interrupts import Interrupts
from ackwire.cli.messages_out import add_output_options, output_from_args
from ackwire.cli.taking import (
    Ending,
    Taker,
    Unreadable,
    Wanted,
    WriteFailed,
    acknowledge_nothing,
    tally_for,
    told,
    told_failure,
)
from ackwire.client import Browser, JMSError

if TYPE_CHECKING:
    from ackwire.cli.config import Commands

_EPILOG: Final = f"""\
examples:
  ackwire browse tcp://127.0.0.1:61616 orders --count 10 --print-headers
  ackwire browse tcp://127.0.0.1:61616 ActiveMQ.DLQ --jsonl | jq .headers.original_destination
  ackwire browse tcp://127.0.0.1:61616 orders --jsonl | ackwire send tcp://127.0.0.1:61616 copy --jsonl

ActiveMQ shows no more messages than its maxBrowsePageSize (400); Ackwire shows all.

{EXIT_CODES}
"""


def add_command(commands: "Commands") -> None:
    """Add `browse`."""
    parser = commands.add_parser(
        "browse",
        help="look at the messages of a queue without taking them",
        description="Writes the messages that wait in a queue, in their order. They stay there.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_client_options(parser)
    parser.add_argument("--count", metavar="N", type=amounts.whole, help="the first N at most")
    parser.add_argument(
        "--selector", metavar="EXPRESSION", help="only messages that match, such as \"n > 7 AND s = 'x'\""
    )
    add_output_options(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    uri = only_queue(destination_from(args), "there is nothing to browse: ackwire subscribe shows what is published")
    where = where_of(args, uri)
    tally = tally_for(args, "browsed")
    with Interrupts() as interrupts, connected(args, where, interrupts) as connection:
        tally.begin()
        taker = Taker(output_from_args(args), tally, interrupts, acknowledge=acknowledge_nothing, count_max=args.count)
        try:
            with connection.session() as session, session.browser(str(uri), args.selector) as browser:
                ending = _browsed(browser, taker, interrupts)
        except (JMSError, WriteFailed, Unreadable) as error:
            return told_failure(error, tally, where)
    # The first N at most: fewer are no failure.
    return told(ending, tally, where, Wanted(None, None, follow=False, quiet=args.quiet))


def _browsed(browser: Browser, taker: Taker, interrupts: Interrupts) -> Ending:
    messages = iter(browser)
    ending: Ending | None = None
    while ending is None:
        if taker.left == 0:
            ending = Ending.COUNT
            break
        try:
            with interrupts.raising():
                message = next(messages, None)
        except KeyboardInterrupt:
            ending = Ending.INTERRUPTED
            break
        if message is None:
            ending = Ending.NOTHING_MORE
        else:
            taker.write(message)
    taker.settle()
    return ending

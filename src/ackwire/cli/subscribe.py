"""`ackwire subscribe`: write what is published to a topic, from now on or since a durable subscription was last active.

A durable subscription belongs to a client id and a name. The broker keeps messages for it while it has no consumer,
until --unsubscribe. Messages are acknowledged after they were written and flushed, as in `receive`.
"""

import argparse
from typing import TYPE_CHECKING, Final

from ackwire.cli.connecting import (
    EXIT_CODES,
    Where,
    add_client_options,
    connected,
    destination_from,
    failing_before_anything_was_done,
    failure_check,
    say,
    where_of,
)
from ackwire.cli.interrupts import Interrupts
from ackwire.cli.messages_out import output_from_args
from ackwire.cli.receive import add_taking_options
from ackwire.cli.taking import Taker, Unreadable, Wanted, WriteFailed, acknowledge_each, tally_for, told, told_failure
from ackwire.client import AckMode, Consumer, JMSError, Session
from ackwire.client.uri import DestinationUri, parse_broker_url
from ackwire.errors import ConfigError
from ackwire.jms.destinations import Kind

if TYPE_CHECKING:
    from ackwire.cli.config import Commands

_EPILOG: Final = f"""\
examples:
  ackwire subscribe tcp://127.0.0.1:61616 prices.EU.>                   until Ctrl-C
  ackwire subscribe tcp://127.0.0.1:61616 prices --durable audit --client-id me --timeout 5s
  ackwire subscribe tcp://127.0.0.1:61616 prices --durable audit --client-id me --unsubscribe

{EXIT_CODES}
  3  --count was given, and fewer came before --timeout
"""


def add_command(commands: "Commands") -> None:
    """Add `subscribe`."""
    parser = commands.add_parser(
        "subscribe",
        help="write what is published to a topic",
        description="Writes what is published to a topic, until --count, --timeout or Ctrl-C. With --durable the\n"
        "broker keeps messages while no one listens.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_client_options(parser)
    add_taking_options(parser)
    parser.add_argument("--durable", metavar="NAME", help="a subscription that is kept; needs --client-id")
    parser.add_argument("--unsubscribe", action="store_true", help="end the durable subscription, and take nothing")
    parser.add_argument("--no-local", action="store_true", help="not what this connection publishes")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    if args.unsubscribe and args.durable is None:
        raise ConfigError("--unsubscribe ends a durable subscription: name it with --durable NAME")
    uri = destination_from(args, default=Kind.TOPIC)
    if uri.destination.kind.is_queue:
        raise ConfigError(f"{uri.destination!r} is a queue; ackwire receive takes messages from queues")
    where = where_of(args, uri)
    if args.unsubscribe:
        return _unsubscribed(args, where)
    return _subscribed(args, uri, where)


def _unsubscribed(args: argparse.Namespace, where: Where) -> int:
    _check_client_id(args)
    with (
        Interrupts() as interrupts,
        connected(args, where, interrupts) as connection,
        failing_before_anything_was_done(where),
        interrupts.raising(),
        connection.session() as session,
    ):
        session.unsubscribe(args.durable)
    if not args.quiet:
        say(f"{where}: the durable subscription {args.durable} has ended, and its messages are gone")
    return 0


def _subscribed(args: argparse.Namespace, uri: DestinationUri, where: Where) -> int:
    if args.durable is not None:
        _check_client_id(args)
    output = output_from_args(args)
    tally = tally_for(args)
    with Interrupts() as interrupts, connected(args, where, interrupts) as connection:
        tally.begin()
        taker = Taker(
            output,
            tally,
            interrupts,
            acknowledge=acknowledge_each,
            check=failure_check(connection),
            count_max=args.count,
            rate=args.rate,
        )
        try:
            session = connection.session(AckMode.INDIVIDUAL)
            consumer = _consumer(session, uri, args)
            if not args.quiet:
                say(f"subscribed to {where}{'' if args.count or args.timeout is not None else '; Ctrl-C ends'}")
            is_pulling = uri.consumer.prefetch_size == 0
            ending = taker.take(consumer, idle_seconds=args.timeout, is_pulling=is_pulling)
            session.close()
        except (JMSError, WriteFailed, Unreadable) as error:
            return told_failure(error, tally, where)
    return told(ending, tally, where, Wanted.from_args(args, follow=args.timeout is None))


def _consumer(session: Session, uri: DestinationUri, args: argparse.Namespace) -> Consumer:
    if args.durable is None:
        return session.consumer(str(uri), args.selector, no_local=args.no_local)
    return session.durable_subscriber(str(uri), args.durable, args.selector, no_local=args.no_local)


def _check_client_id(args: argparse.Namespace) -> None:
    is_in_url = ":" not in args.url or parse_broker_url(args.url).connection.client_id is not None
    if args.client_id is None and not is_in_url:
        raise ConfigError(f"the durable subscription {args.durable} belongs to a client id: give it with --client-id")

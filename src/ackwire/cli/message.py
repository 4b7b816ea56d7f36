"""`ackwire message`: move, copy, retry or delete messages that wait in a queue of a running broker."""

import argparse
from typing import TYPE_CHECKING, Any, Final

from ackwire.cli.connecting import EXIT_DOES_NOT_EXIST, Where, add_operator_options, say
from ackwire.cli.operating import (
    EXIT_CODES,
    TIMEOUT_SECONDS,
    OperationClient,
    destination_text,
    failed,
    is_done,
    no_answer,
    operation_client,
    show,
)
from ackwire.errors import ConfigError
from ackwire.operation import DELETE_MESSAGES, DRY_RUN, IDS, MESSAGE_VERBS, QUEUE, SELECTOR, TARGET, VERB
from ackwire.util.plurals import agree, counted

if TYPE_CHECKING:
    from ackwire.cli.config import Commands

_EPILOG: Final = f"""\
examples:
  ackwire message move orders ID:host-40001-1700000000000-1:1:1:1:17 --to orders.aside
  ackwire message copy orders --selector "customer = 4711" --to test.orders
  ackwire message retry ActiveMQ.DLQ --all --dry-run         how many would go back to where they came from?
  ackwire message delete orders --selector "JMSTimestamp < 1700000000000" --json

Only messages that wait are concerned; `ackwire queue recall` brings back what consumers hold.

{EXIT_CODES}"""

_IDS_CHARACTERS_MAX: Final = 60_000
"""They travel in one property."""
_DONE: Final = {"move": "moved", "copy": "copied", "delete": "deleted"}


def add_command(commands_parser: "Commands") -> None:
    """Add `message` to the command line."""
    parser = commands_parser.add_parser(
        "message",
        help="move, copy, retry or delete messages in a queue of a running broker",
        description="Operates on messages that wait in a queue of a running broker, and says how many those were.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("action", metavar="ACTION", choices=MESSAGE_VERBS, help=", ".join(MESSAGE_VERBS))
    parser.add_argument("queue", metavar="QUEUE", help="where the messages are")
    parser.add_argument("ids", metavar="ID", nargs="*", help="ids of messages, as `ackwire browse` prints them")
    parser.add_argument("--selector", metavar="TEXT", help="messages that this JMS selector matches")
    parser.add_argument("--all", action="store_true", help="all messages, where no id and no selector is given")
    parser.add_argument("--to", metavar="DESTINATION", help="where `move` and `copy` take them")
    parser.add_argument("--dry-run", action="store_true", help="only say how many messages are meant")
    add_operator_options(parser, timeout_seconds=TIMEOUT_SECONDS)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    request = _request(args)
    with operation_client(args) as (broker, where):
        return _operate(args, broker, where, request)


def _request(args: argparse.Namespace) -> dict[str, Any]:
    """What to ask. Raises `ConfigError` for what is missing or too much."""
    needs_target = args.action in ("move", "copy")
    if needs_target != (args.to is not None):
        raise ConfigError(
            f"message {args.action} needs --to DESTINATION"
            if needs_target
            else f"message {args.action} has no --to: only move and copy have"
        )
    if args.all == bool(args.ids or args.selector):
        raise ConfigError(f"message {args.action} needs message ids, --selector or both; or --all and none of them")
    ids = "\n".join(args.ids)
    if len(ids) > _IDS_CHARACTERS_MAX:
        raise ConfigError(
            f"{len(args.ids)} ids are too many for one request: {len(ids)} characters, the limit is "
            f"{_IDS_CHARACTERS_MAX}; use --selector, or several requests"
        )
    request = {
        VERB: DELETE_MESSAGES if args.action == "delete" else args.action,
        QUEUE: destination_text(args.queue),
        TARGET: destination_text(args.to) if needs_target else None,
        IDS: ids or None,
        SELECTOR: args.selector,
        DRY_RUN: True if args.dry_run else None,
    }
    return {name: value for name, value in request.items() if value is not None}


def _operate(args: argparse.Namespace, broker: OperationClient, where: Where, request: dict[str, Any]) -> int:
    answer = broker.ask(request)
    if answer is None:
        return no_answer(args, where)
    if not is_done(answer):
        return failed(answer, where)
    queue, count = request[QUEUE], answer.count
    facts = {"action": args.action, "queue": queue, "to": request.get(TARGET), "count": count, "dry_run": args.dry_run}
    show(args, facts, f"{queue}: {_sentence(args, request, count)}")
    if not count and not args.all:
        say(f"{where}: no message that waits in {queue} is meant; what consumers hold is not looked at")
        return EXIT_DOES_NOT_EXIST
    return 0


def _sentence(args: argparse.Namespace, request: dict[str, Any], count: int) -> str:
    messages = counted(count, "message")
    if args.dry_run:
        return f"{messages} {agree(count, 'is', 'are')} meant; nothing was done"
    if args.action == "retry":
        return f"{messages} sent back to where {agree(count, 'it', 'they')} came from"
    where = f" to {request[TARGET]}" if TARGET in request else ""
    return f"{messages} {_DONE[args.action]}{where}"

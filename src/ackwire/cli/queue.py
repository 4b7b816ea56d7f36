"""`ackwire queue`: list, create, purge, pause, resume, recall and delete queues of a running broker."""

import argparse
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from ackwire.cli.connecting import Where, add_operator_options
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
from ackwire.operation import AFTER, QUEUE, QUEUE_VERBS, VERB, WORKING
from ackwire.util.logs import escape
from ackwire.util.plurals import counted

if TYPE_CHECKING:
    from ackwire.cli.config import Commands

_EPILOG: Final = f"""\
examples:
  ackwire queue list
  ackwire queue list 'orders.>' --json
  ackwire queue pause orders                       consumers get nothing, producers go on; it ends with the broker
  ackwire queue purge orders --url 'failover:(ssl://a:61617,ssl://b:61617)' --user ops --password-file secret
  ackwire queue recall orders                      what its consumers hold comes back; their connections are closed

{EXIT_CODES}"""

_HELP: Final = "list, create, purge (delete all that waits), pause, resume, recall, delete"
_HEAD: Final = ("queue", "waiting", "in flight", "consumers", "producers", "enqueued", "dequeued", "bytes", "")


def add_command(commands_parser: "Commands") -> None:
    """Add `queue` to the command line."""
    parser = commands_parser.add_parser(
        "queue",
        help="list, create, purge, pause, resume, recall or delete queues of a running broker",
        description="Operates on a queue of a running broker, and says how many messages that concerned.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("action", metavar="ACTION", choices=QUEUE_VERBS, help=_HELP)
    parser.add_argument("name", metavar="NAME", nargs="?", default="", help="a queue; for `list` a pattern")
    add_operator_options(parser, timeout_seconds=TIMEOUT_SECONDS)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    if not args.name and args.action != "list":
        raise ConfigError(f"queue {args.action} needs a queue, such as: ackwire queue {args.action} orders")
    name = destination_text(args.name or ">")
    with operation_client(args) as (broker, where):
        return _list(args, broker, where, name) if args.action == "list" else _operate(args, broker, where, name)


def _operate(args: argparse.Namespace, broker: OperationClient, where: Where, name: str) -> int:
    answer = broker.ask({VERB: args.action, QUEUE: name})
    if answer is None:
        return no_answer(args, where)
    if not is_done(answer):
        return failed(answer, where)
    facts = {"action": args.action, "queue": name, "count": answer.count}
    show(args, facts, f"{name}: {_sentence(args.action, answer.count)}")
    return 0


def _sentence(action: str, count: int) -> str:
    messages = counted(count, "message")
    match action:
        case "create":
            return "created" if count else "it exists already"
        case "pause":
            return "paused, until it is resumed or the broker ends" if count else "it is paused already"
        case "resume":
            return "resumed" if count else "it was not paused"
        case "recall":
            return f"{messages} recalled from consumers"
        case "delete":
            return f"deleted, with {messages}"
    return f"{messages} purged"


def _list(args: argparse.Namespace, broker: OperationClient, where: Where, pattern: str) -> int:
    rows: list[dict[str, Any]] = []
    after, is_last = "", False
    while not is_last:
        answer = broker.ask({VERB: "list", QUEUE: pattern, AFTER: after})
        if answer is None:
            return no_answer(args, where)
        if not is_done(answer):
            return failed(answer, where)
        portion = json.loads(answer.text)
        rows += portion
        is_last = answer.outcome != WORKING or not portion
        after = "" if is_last else portion[-1]["name"]
    if args.json:
        print(json.dumps(rows, indent=2))
    else:
        for line in _table(rows):
            print(line)
    return 0


def _table(rows: list[dict[str, Any]]) -> Iterator[str]:
    table = [_HEAD, *(_cells(row) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(_HEAD))]
    for row in table:
        numbers = (cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True))
        yield "  ".join((row[0].ljust(widths[0]), *numbers, row[-1])).rstrip()


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    names = ("waiting", "in_flight", "consumers", "producers", "enqueued", "dequeued", "bytes")
    return (escape(row["name"]), *(str(row[name]) for name in names), "paused" if row["paused"] else "")

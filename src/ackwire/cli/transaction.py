"""`ackwire transaction`: decide prepared XA transactions whose transaction manager is gone (SEMANTICS G3)."""

import argparse
import json
from typing import TYPE_CHECKING, Any, Final

from ackwire.cli.connecting import (
    EXIT_DOES_NOT_EXIST,
    add_operator_options,
    broker_of,
    connected,
    failing_before_anything_was_done,
    say,
)
from ackwire.cli.interrupts import Interrupts
from ackwire.client import Connection, Xid
from ackwire.errors import ConfigError

if TYPE_CHECKING:
    from ackwire.cli.config import Commands

_TIMEOUT_SECONDS: Final = 10.0
_DONE: Final = {"commit": "committed", "rollback": "rolled back"}

_EPILOG: Final = """\
examples:
  ackwire transaction list
  ackwire transaction commit 7:676c6f62616c:6272616e6368 --yes
  ackwire transaction list --json --url production --config ackwire.toml

exit codes:
  0  done
  1  the broker has refused, or something unforeseen happened
  2  nothing was done, for a reason that you can put right
  4  no prepared transaction has this XID
"""


def add_command(commands_parser: "Commands") -> None:
    """Add `transaction` to the command line."""
    parser = commands_parser.add_parser(
        "transaction",
        help="list prepared XA transactions of a running broker, commit or roll one back",
        description="Prepared XA transactions wait for their transaction manager. Where that is gone for good, an\n"
        "operator decides: what was promised to others depends on it, so ask them first.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "action", metavar="ACTION", choices=("list", "commit", "rollback"), help="list, commit, rollback"
    )
    parser.add_argument("xid", metavar="XID", nargs="?", default="", help="as `list` prints it: format:global:branch")
    parser.add_argument("--yes", action="store_true", help="needed to commit or roll back: it cannot be undone")
    add_operator_options(parser, timeout_seconds=_TIMEOUT_SECONDS)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    if args.action != "list" and not (args.xid and args.yes):
        raise ConfigError(f"transaction {args.action} needs an XID, as `ackwire transaction list` prints it, and --yes")
    where = broker_of(args)
    with (
        Interrupts() as interrupts,
        connected(args, where, interrupts) as connection,
        failing_before_anything_was_done(where),
    ):
        return _listed(connection, args) if args.action == "list" else _decided(connection, args)


def _listed(connection: Connection, args: argparse.Namespace) -> int:
    prepared = connection.xa_session().xa.recover()
    if args.json:
        print(json.dumps([_parts(xid) for xid in prepared], indent=2))
    else:
        for xid in prepared:
            print(_text(xid))
    return 0


def _decided(connection: Connection, args: argparse.Namespace) -> int:
    resource = connection.xa_session().xa
    xid = next((xid for xid in resource.recover() if _text(xid) == args.xid), None)
    if xid is None:
        say(f"no prepared transaction {args.xid}; `ackwire transaction list` prints those there are")
        return EXIT_DOES_NOT_EXIST
    if args.action == "commit":
        resource.commit(xid)
    else:
        resource.rollback(xid)
    done = _DONE[args.action]
    print(json.dumps({**_parts(xid), "outcome": done}) if args.json else f"{args.xid}: {done}")
    return 0


def _text(xid: Xid) -> str:
    return ":".join((str(xid.format_id), xid.global_transaction_id.hex(), xid.branch_qualifier.hex()))


def _parts(xid: Xid) -> dict[str, Any]:
    return {
        "xid": _text(xid),
        "format_id": xid.format_id,
        "global_transaction_id": xid.global_transaction_id.hex(),
        "branch_qualifier": xid.branch_qualifier.hex(),
    }

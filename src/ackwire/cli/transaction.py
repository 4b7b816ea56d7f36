"""`ackwire transaction`: decide prepared XA transactions whose transaction manager is gone (SEMANTICS G3)."""

import argparse
from typing import TYPE_CHECKING

from ackwire.cli.visit import DEFAULT_URL, Visit, visit
from ackwire.errors import ConfigError
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.commands import TransactionType, XATransactionId

if TYPE_CHECKING:
    from ackwire.cli.config import Commands


def add_command(commands_parser: "Commands") -> None:
    """Add `transaction` to the command line."""
    parser = commands_parser.add_parser(
        "transaction",
        help="list prepared XA transactions of a running broker, commit or roll one back",
        description="Prepared XA transactions wait for their transaction manager. Where that is gone for good, an "
        "operator decides: what was promised to others depends on it, so ask them first.",
    )
    parser.add_argument(
        "action", metavar="ACTION", choices=("list", "commit", "rollback"), help="list, commit, rollback"
    )
    parser.add_argument("xid", metavar="XID", nargs="?", default="", help="as `list` prints it: format:global:branch")
    parser.add_argument("--yes", action="store_true", help="needed to commit or roll back: it cannot be undone")
    parser.add_argument("--url", default=DEFAULT_URL, help=f"the broker; default: {DEFAULT_URL}")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    if args.action == "list":
        for xid in visit(args.url, _prepared):
            print(_text(xid))
        return 0
    if not args.xid or not args.yes:
        raise ConfigError(f"transaction {args.action} needs an XID, as `ackwire transaction list` prints it, and --yes")
    kind = TransactionType.COMMIT_TWO_PHASE if args.action == "commit" else TransactionType.ROLLBACK
    visit(args.url, lambda broker: _decide(broker, args.xid, kind))
    print(f"{args.xid}: {'committed' if args.action == 'commit' else 'rolled back'}")
    return 0


def _prepared(broker: Visit) -> list[XATransactionId]:
    response = broker.request(_info(broker, None, TransactionType.RECOVER))
    assert isinstance(response, commands.DataArrayResponse)
    return [xid for xid in response.data or () if isinstance(xid, XATransactionId)]


def _decide(broker: Visit, text: str, kind: TransactionType) -> None:
    xid = next((xid for xid in _prepared(broker) if _text(xid) == text), None)
    if xid is None:
        raise ConfigError(f"no prepared transaction {text}; `ackwire transaction list` prints those there are")
    broker.request(_info(broker, xid, kind))


def _info(broker: Visit, xid: XATransactionId | None, kind: TransactionType) -> commands.TransactionInfo:
    connection_id = commands.ConnectionId(broker.connection_id)
    return commands.TransactionInfo(connection_id=connection_id, transaction_id=xid, type=int(kind))


def _text(xid: XATransactionId) -> str:
    parts = ((part or b"").hex() for part in (xid.global_transaction_id, xid.branch_qualifier))
    return ":".join((str(xid.format_id), *parts))

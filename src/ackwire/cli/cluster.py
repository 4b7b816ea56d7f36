"""`ackwire status`: the role of a running broker; `ackwire cluster`: how its group stands, and handing it over.

Both ask the HTTP port, which a broker that waits has open too.
"""

import argparse
import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ackwire.admin.tokens import load_token, token_path
from ackwire.cli.config import add_settings_options, settings_from
from ackwire.config import Settings
from ackwire.config.listener_uri import parse_address
from ackwire.errors import ConfigError
from ackwire.util.logs import escape

if TYPE_CHECKING:
    from ackwire.cli.config import Commands

_TIMEOUT_SECONDS: Final = 10.0
_EXIT_INCOMPLETE: Final = 1
_EXIT_NOT_MASTER: Final = 3

_STATUS_EPILOG: Final = """\
examples:
  ackwire status --http 127.0.0.1:8161
  ackwire status --config /etc/ackwire/ackwire.toml --json

exit codes:
  0  it is the master
  2  it could not be asked, for a reason that you can put right
  3  it runs, and is not the master
"""

_CLUSTER_EPILOG: Final = """\
examples:
  ackwire cluster status                           nodes, who has what on disk, which failure would be survived
  ackwire cluster transfer b                       have node b be the master, without losing anything; ask the master

exit codes:
  0  the broker has answered, or the transfer has begun
  1  it refuses, and says why
  2  it could not be asked, for a reason that you can put right
"""


def add_command(commands: "Commands") -> None:
    """Add `status` and `cluster`."""
    status = commands.add_parser(
        "status",
        help="the role of a running broker: master or slave, since when and why",
        description="Asks a running broker over its HTTP port (http.listen), which is open while it waits, too.",
        epilog=_STATUS_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_options(status)
    status.set_defaults(run=_run_status)
    cluster = commands.add_parser(
        "cluster",
        help="a group of brokers with copies of one journal: how it stands, and handing it over",
        allow_abbrev=False,
    )
    below = cluster.add_subparsers(metavar="COMMAND", required=True, title="commands")
    for name, text in (("status", "how the group stands"), ("transfer", "have another node be the master")):
        parser = below.add_parser(
            name,
            help=text,
            epilog=_CLUSTER_EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if name == "transfer":
            parser.add_argument("node", metavar="NODE", help="its name: replication.node")
        _add_options(parser)
        parser.set_defaults(run=_run_cluster_status if name == "status" else _run_transfer)


def _add_options(parser: argparse.ArgumentParser) -> None:
    add_settings_options(parser)
    parser.add_argument("--json", action="store_true", help="for machines")


def _run_status(args: argparse.Namespace) -> int:
    settings = settings_from(args)
    _, facts = _ask(settings, "/live")
    if args.json:
        print(json.dumps(facts, indent=2))
    else:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(int(facts.get("since_ms", 0)) / 1000))
        doubt = ", suspended" if facts.get("is_suspended") else ""
        print(escape(f"{facts.get('role')}{doubt}, epoch {facts.get('epoch')}, since {since}: {facts.get('role_why')}"))
    return 0 if facts.get("role") == "master" else _EXIT_NOT_MASTER


def _run_cluster_status(args: argparse.Namespace) -> int:
    code, facts = _ask(settings_from(args), "/v1/cluster", with_token=True)
    if code != 200:
        return _refused(facts)
    if args.json:
        print(json.dumps(facts, indent=2))
        return 0
    print(f"node {facts['asked']} is {facts['role']}, epoch {facts['epoch']}; master: {facts['master'] or 'none'}")
    print(f"{facts['outlook']}; committed up to record {facts['committed']}; sync {facts['sync']}")
    rows = [("node", "state", "log end", "lag", "counts", "clients")]
    rows += [
        (
            str(it["node_id"]),
            str(it["role"]),
            f"{it['epoch']}.{it['number']}" if it["number"] else "-",
            str(it["lag_records"]),
            "yes" if it["counts"] else "no",
            str(it["client_uri"] or "-"),
        )
        for it in facts["nodes"]
    ]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        print(escape("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()))
    return 0


def _run_transfer(args: argparse.Namespace) -> int:
    body = json.dumps({"node": args.node}).encode()
    code, facts = _ask(settings_from(args), "/v1/cluster/transfer", with_token=True, body=body)
    if code != 202:
        return _refused(facts)
    print(json.dumps(facts) if args.json else f"mastership is being handed over to {escape(args.node)}")
    return 0


def _refused(facts: Mapping[str, Any]) -> int:
    print(f"ackwire: {escape(str(facts.get('error')))}", file=sys.stderr)
    return _EXIT_INCOMPLETE


def _ask(
    settings: Settings, path: str, *, with_token: bool = False, body: bytes | None = None
) -> tuple[int, dict[str, Any]]:
    """Status and JSON of an answer. Raises `ConfigError` if there is none."""
    if not settings.http.listen:
        raise ConfigError("the broker has no HTTP port to ask: set http.listen, or name it with --http HOST:PORT")
    uri = parse_address(settings.http.listen)
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(uri.host, uri.host)  # noqa: S104 - compared, not bound
    address = f"http://{f'[{host}]' if ':' in host else host}:{uri.port}"
    request = urllib.request.Request(f"{address}{path}", data=body)  # noqa: S310 - always http
    if with_token:
        token = load_token(token_path(settings)).decode("ascii")
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise ConfigError(f"no broker answers at {address}: {str(reason).lower()}") from None

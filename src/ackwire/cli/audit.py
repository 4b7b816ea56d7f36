"""`ackwire audit`: the life of every message as tables, from what a broker's audit wrote (`ackwire serve --audit`).

Exit codes: 0 everything adds up; 1 something does not, and is named; 2 the events or the tables cannot be used, or an
option is wrong.
"""

import argparse
import json
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ackwire.cli.audit_common import (
    add_command_to,
    add_master,
    date_of,
    duration,
    progress,
    spark_installed,
    spark_session,
)
from ackwire.cli.audit_follow import add_follow
from ackwire.cli.audit_report import add_report
from ackwire.errors import ConfigError
from ackwire.util.logs import escape
from ackwire.util.plurals import counted

if TYPE_CHECKING:
    from ackwire.cli.config import Commands
    from ackwire.spark.audit.job import DayResult, JobResult

_PLACES_MAX: Final = 50
_PROBLEMS_MAX: Final = 10
"""Rows that are shown to people; --json and the tables have more."""

_SUMS: Final = {
    "carried": "carried", "stored": "stored", "found": "found", "acked": "acked", "dead_lettered": "dead",
    "expired": "expired", "purged": "purged", "discarded": "discarded", "pending": "pending", "lost_in_crash": "crash",
    "difference": "difference",
}  # fmt: skip
"""Columns of the reconciliation, and what stands above them."""
_ALWAYS: Final = ("stored", "acked", "pending", "difference")


def add_command(commands: "Commands") -> None:
    """Add `audit` and its commands."""
    parser = commands.add_parser(
        "audit",
        help="the life of every message as tables, and whether it all adds up",
        description="Turns what a broker's audit wrote into tables, on Spark.",
        allow_abbrev=False,
    )
    below = parser.add_subparsers(metavar="COMMAND", required=True, title="commands")
    _add_run(below)
    add_follow(below)
    add_report(below)


# ---- run -------------------------------------------------------------------------------------------------------


def _add_run(commands: "Commands") -> None:
    parser = add_command_to(commands, "run", _run_run, "compute what is new, reconcile it, and say whether it adds up")
    parser.add_argument("events", metavar="EVENTS_DIR", type=Path, help="the directory that the audit writes to")
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="the directory of the tables")
    add_master(parser)
    parser.add_argument("--date", type=date_of, help="only this day (YYYY-MM-DD, UTC), even if there is nothing new")
    parser.add_argument(
        "--pending-after",
        metavar="TIME",
        type=duration,
        default=timedelta(hours=1),
        help="name messages that wait longer than this: 90s, 30m, 1h (the default), 2d",
    )
    parser.add_argument("--json", action="store_true", help="everything, for machines")


def _run_run(args: argparse.Namespace) -> int:
    if not args.events.is_dir():  # before Spark, which takes its time
        raise ConfigError(f"{args.events} is not a directory; give the one that ackwire serve --audit writes to")
    with spark_installed():
        from ackwire.spark.audit.job import compute_new
    with ExitStack() as running:
        result = compute_new(
            lambda: running.enter_context(spark_session(args.master)),
            args.events, args.out, date=args.date, pending_after=args.pending_after, progress=progress(),
        )  # fmt: skip
    if args.json:
        print(json.dumps(_json(result), indent=2, default=_text))
    else:
        for line in _report(result):
            print(escape(line))
    return 0 if result.adds_up else 1


def _report(result: "JobResult") -> Iterator[str]:
    if not result.days:
        yield "nothing new since the last run; by that " + ("all adds up" if result.adds_up else "not all adds up")
    for day in result.days:
        yield f"{day.date}: {counted(day.events, 'event', ',')}, {counted(len(day.places), 'place')}"
        yield from _table(day.places)
        yield from _problems(day)
        yield f"{day.date}: adds up" if day.adds_up else f"{day.date}: DOES NOT ADD UP"


def _table(places: list[dict[str, Any]]) -> Iterator[str]:
    """The sums of each place; those that do not add up come first."""
    places = sorted(places, key=lambda it: it["adds_up"])
    shown = [name for name in _SUMS if name in _ALWAYS or any(it[name] for it in places)]
    rows = [["place", *(_SUMS[it] for it in shown), ""]]
    for place in places[:_PLACES_MAX]:
        rows.append(
            [place["place"], *(f"{place[it]:,}" for it in shown), "adds up" if place["adds_up"] else "DOES NOT"]
        )
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    for name, *numbers, verdict in rows:
        cells = [number.rjust(width) for number, width in zip(numbers, widths[1:], strict=False)]
        yield "  ".join([name.ljust(widths[0]), *cells, verdict]).rstrip()
    if len(places) > _PLACES_MAX:
        yield f"and {len(places) - _PLACES_MAX} more places: see the table reconciliation, or --json"


def _problems(day: "DayResult") -> Iterator[str]:
    for kind, count in sorted(day.problem_counts.items()):
        yield f"{kind.replace('_', ' ')}: {count:,}"
        for it in [it for it in day.problems if it["kind"] == kind][:_PROBLEMS_MAX]:
            which = it["message_id"] or it["run"] or ""
            yield f"  {which}{' at ' + it['place'] if it['place'] else ''}: {it['detail']}"
        if count > _PROBLEMS_MAX:
            yield "  and more: see the table problems"


def _json(result: "JobResult") -> dict[str, Any]:
    days = [{name: getattr(it, name) for name in it.__slots__} for it in result.days]
    return {"adds_up": result.adds_up, "days": days}


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)

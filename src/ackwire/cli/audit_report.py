"""`ackwire audit report`: the tables of `ackwire audit run` for people: in the terminal, and as one HTML page.

Needs no Spark: the tables are done. Exit codes are those of `ackwire audit run`.
"""

import argparse
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ackwire.cli.audit_common import add_command_to, date_of, say_progress
from ackwire.errors import ConfigError
from ackwire.util.logs import escape
from ackwire.util.plurals import counted

if TYPE_CHECKING:
    from ackwire.cli.config import Commands
    from ackwire.spark.audit.report import Report

_ROWS_MAX: Final = 50
_PROBLEMS_MAX: Final = 20
_SUMS: Final = {
    "carried": "carried", "stored": "stored", "found": "found",
    "acked": "acked", "dead_lettered": "dead", "expired": "expired", "purged": "purged",
    "discarded": "discarded", "pending": "pending", "lost_in_crash": "crash", "difference": "difference",
}  # fmt: skip
_SOMETIMES: Final = ("carried", "found", "discarded", "lost_in_crash", "difference")


def add_report(commands: "Commands") -> None:
    parser = add_command_to(commands, "report", _run_report, "show a day's tables here, or as one HTML page")
    parser.add_argument("out", metavar="OUT_DIR", type=Path, help="the directory of the tables")
    parser.add_argument("--html", metavar="FILE", type=Path, help="write one page that needs nothing else, with plots")
    parser.add_argument("--date", type=date_of, help="this day (YYYY-MM-DD, UTC); default: the newest")


def _run_report(args: argparse.Namespace) -> int:
    from ackwire.spark.audit.page import render
    from ackwire.spark.audit.report import read_report

    report = read_report(args.out, args.date)
    for line in _lines(report):
        print(escape(line))
    if args.html is not None:
        _write(args.html, render(report))
        say_progress(f"wrote {args.html}")
    return 0 if report.adds_up else 1


def _write(path: Path, page: str) -> None:
    """Replace the file atomically: a reader sees the old page or the new one."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.write_text(page, encoding="utf-8")
        os.replace(temporary, path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None


def _lines(report: "Report") -> Iterator[str]:
    from ackwire.spark.audit.plots import duration

    yield f"{report.date}: {counted(report.events, 'event', ',')}, {counted(len(report.places), 'place')}"
    shown = [it for it in _SUMS if it not in _SOMETIMES or any(row[it] for row in report.places)]
    head = ["place", *(_SUMS[it] for it in shown), "", "stored-dispatched p50 / p95 / p99", "dispatched-acked"]
    yield from _table(
        head,
        (
            [
                row["place"],
                *(f"{row[it]:,}" for it in shown),
                "adds up" if row["adds_up"] else "DOES NOT",
                *(_latencies(row.get(f"{it}_ms")) for it in ("store_to_dispatch", "dispatch_to_ack")),
            ]
            for row in report.places
        ),
        numbers=range(1, 1 + len(shown)),
    )
    yield from _problems(report)
    if report.dead_letters:
        yield from ("", "dead letters by cause")
        rows = [
            [it["cause"] or "no cause given", it["destination"], f"{it['messages']:,}"] for it in report.dead_letters
        ]
        yield from _table(["cause", "place", "messages"], rows, numbers=(2,))
    if report.slow_consumers:
        yield from ("", "slow consumers")
        slow = (
            [it["consumer"], it["destination"], duration(it["ack_p50_ms"]), it["why"]] for it in report.slow_consumers
        )
        yield from _table(["consumer", "place", "ack p50", "why"], slow)
    yield from _advice(report)
    yield ""
    yield f"{report.date}: adds up" if report.adds_up else f"{report.date}: DOES NOT ADD UP"


def _problems(report: "Report") -> Iterator[str]:
    if not report.problem_counts:
        return
    yield from ("", "what does not add up, or is worth a look")
    for kind, count in report.problem_counts.items():
        yield f"{kind.replace('_', ' ')}: {count:,}"
        for it in [it for it in report.problems if it["kind"] == kind][:_PROBLEMS_MAX]:
            place = f" at {it['place']}" if it["place"] else ""
            yield f"  {it['message_id'] or it['run'] or ''}{place}: {it['detail']}"
        if count > _PROBLEMS_MAX:
            yield "  and more: see the table problems"


def _advice(report: "Report") -> Iterator[str]:
    from ackwire.spark.audit.page import on_or_off

    advised = [it for it in report.advice if it["prefetch"] is not None]
    if advised:
        yield from ("", "advice")
        head = ["consumer", "place", "prefetch", "optimizeAcknowledge", "why"]
        rows = (
            [it["consumer"], it["destination"], str(it["prefetch"]), on_or_off(it["optimize_acknowledge"]), it["why"]]
            for it in advised
        )
        yield from _table(head, rows, numbers=(2,))
    kept = len(report.advice) - len(advised)
    if kept:
        yield f"advice to keep what is set: {kept} {'consumer' if kept == 1 else 'consumers'}"


def _latencies(values: Sequence[float] | None) -> str:
    from ackwire.spark.audit.plots import duration

    return " / ".join(duration(it) for it in values) if values else "–"


def _table(head: list[str], rows: Iterable[list[Any]], numbers: Iterable[int] = ()) -> Iterator[str]:
    """Columns that line up, whatever unprintable is in them; the last one may be as long as it is."""
    right = set(numbers)
    texts = [head, *([escape(str(cell)) for cell in row] for row in rows)]
    shown = texts[: _ROWS_MAX + 1]
    widths = [max(len(row[n]) for row in shown) for n in range(len(head))]
    for row in shown:
        cells = [it.rjust(widths[n]) if n in right else it.ljust(widths[n]) for n, it in enumerate(row)]
        yield "  ".join(cells).rstrip()
    if len(texts) > len(shown):
        yield f"and {len(texts) - len(shown)} more: see the tables, or --html"

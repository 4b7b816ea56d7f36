"""`ackwire audit follow`: counts and alerts within seconds, from the events that a broker's audit writes.

One table that is written anew where standard output is a terminal, plain lines elsewhere; with `--json` only alerts,
one JSON object a line. Ctrl-C ends it when the micro-batch under way is done; the next start goes on from there.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ackwire.cli.audit_common import add_command_to, add_master, duration, say_progress, spark_session
from ackwire.cli.interrupts import Interrupts
from ackwire.errors import ConfigError
from ackwire.util.logs import escape

if TYPE_CHECKING:
    from ackwire.cli.config import Commands
    from ackwire.spark.audit.alerts import Alert, BatchCounts, Watch
    from ackwire.spark.audit.follow import Follower

_TRUTH: Final = "counts so far, for a quick look: `ackwire audit run` is the truth"
_PLACES_SHOWN: Final = 30
_ALERTS_SHOWN: Final = 10
_WAIT_SECONDS: Final = 1
_DONE_SECONDS: Final = 60.0
"""How long Ctrl-C waits for the micro-batch under way."""
_CLEAR: Final = "\x1b[H\x1b[2J"
_COLUMNS: Final = {
    "stored": "stored", "dispatched": "out", "acked": "acked", "redelivered": "back", "dead_lettered": "dead",
    "expired": "expired", "purged": "purged", "discarded": "discarded",
}  # fmt: skip


def add_follow(commands: "Commands") -> None:
    parser = add_command_to(commands, "follow", _run_follow, "count events as they come, and raise alerts")
    parser.description = f"Counts events as they come, and raises alerts within seconds. {_TRUTH.capitalize()}."
    parser.add_argument("events", metavar="EVENTS_DIR", type=Path, help="the directory that the audit writes to")
    parser.add_argument(
        "--checkpoint", metavar="DIR", type=Path,
        help="where it keeps how far it has come; default: follow-checkpoint beside the events",
    )  # fmt: skip
    parser.add_argument(
        "--every", metavar="TIME", type=duration, default=timedelta(seconds=5), help="how often it looks; default: 5s"
    )
    parser.add_argument(
        "--out", metavar="DIR", type=Path, help="Parquet files of the counts go here; default: in the checkpoint"
    )
    parser.add_argument("--once", action="store_true", help="take what is there, and end")
    parser.add_argument("--json", action="store_true", help="alerts for machines: one JSON object a line")
    parser.add_argument(
        "--stopped-after", metavar="TIME", type=duration, default=timedelta(seconds=30),
        help="a consumer that has messages and handles none for this long has stopped; default: 30s",
    )  # fmt: skip
    parser.add_argument(
        "--redelivered", metavar="PERCENT", type=_percent, default=10.0,
        help="an alert if more of the dispatched messages come back; default: 10",
    )  # fmt: skip
    parser.add_argument(
        "--backlog", metavar="COUNT", type=_count, default=100,
        help="an alert if a backlog of at least this many grows for three minutes; default: 100",
    )  # fmt: skip
    add_master(parser)


def _run_follow(args: argparse.Namespace) -> int:
    if not args.every:
        raise ConfigError("--every must be at least 1s")
    # Spark's own progress bar would run through the table.
    with spark_session(args.master, **{"spark.ui.showConsoleProgress": False}) as spark:
        from ackwire.spark.audit.alerts import Thresholds
        from ackwire.spark.audit.follow import Follower, events_root

        with Interrupts() as interrupts:  # Spark has put its own in the place of ours
            screen = _Screen(as_json=args.json)
            root = events_root(args.events)
            _wait_for(root, interrupts, once=args.once)
            follower = Follower(
                spark,
                root,
                args.checkpoint or args.events.absolute().parent / "follow-checkpoint",
                out=args.out,
                thresholds=Thresholds(
                    redelivered_share=args.redelivered / 100,
                    backlog_min=args.backlog,
                    stopped_after_seconds=int(args.stopped_after.total_seconds()),
                ),
                on_batch=screen.show,
            )
            follower.save_first()
            if follower.watch.batch >= 0:
                say_progress(f"going on after micro-batch {follower.watch.batch}")
            say_progress(_TRUTH)
            _follow(follower, screen, interrupts, None if args.once else args.every.total_seconds())
    return 0


def _wait_for(root: Path, interrupts: Interrupts, *, once: bool) -> None:
    """The broker makes the folder with its first events."""
    if not root.is_dir():
        if once:
            raise ConfigError(f"{root} is not there: there are no events yet")
        say_progress(f"waiting for {root}")
    while not root.is_dir():
        interrupts.sleep(_WAIT_SECONDS)


def _follow(follower: "Follower", screen: "_Screen", interrupts: Interrupts, every_seconds: float | None) -> None:
    """Run until the stream ends or Ctrl-C is pressed."""
    from pyspark.errors import StreamingQueryException

    query = follower.start(every_seconds=every_seconds)
    try:
        while not query.awaitTermination(_WAIT_SECONDS):
            if interrupts.pressed:
                break
            screen.alerts(follower.look())
        # The micro-batch under way is done quickly, and need not be done again then.
        until = time.monotonic() + _DONE_SECONDS
        while query.isActive and query.status["isTriggerActive"] and time.monotonic() < until:
            time.sleep(_WAIT_SECONDS / 10)
    except StreamingQueryException as error:
        raise _why(follower.error or error) from None
    finally:
        follower.stop(query)
    if interrupts.pressed:
        say_progress("ended; the next start goes on from here")


def _why(error: BaseException) -> ConfigError:
    """Why the stream has ended, in one line; the next start continues after the last complete micro-batch."""
    if isinstance(error, ConfigError):
        return error
    lines = str(error).splitlines() or [type(error).__name__]
    return ConfigError(f"following ended, and nothing is lost, start it again when this is put right: {lines[0]}")


class _Screen:
    """The output: a table, lines or JSON."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._is_terminal = sys.stdout.isatty() and not as_json
        self._last_alerts: list[str] = []
        self._last_table: list[str] = []

    def show(self, follower: "Follower", counts: "BatchCounts", alerts: "list[Alert]") -> None:
        """After a micro-batch."""
        if self._is_terminal:
            self._last_table = list(_table(follower.watch))
            self._note(alerts)
            self._redraw()
            return
        if not self._as_json:
            for line in _lines(follower.watch, counts):
                print(escape(line))
        self.alerts(alerts)
        sys.stdout.flush()

    def alerts(self, alerts: "list[Alert]") -> None:
        if not alerts:
            return
        if self._is_terminal:
            self._note(alerts)
            self._redraw()
            return
        for alert in alerts:
            print(json.dumps(alert.to_json()) if self._as_json else escape(_alert_line(alert)))
        sys.stdout.flush()

    def _note(self, alerts: "list[Alert]") -> None:
        self._last_alerts = [*self._last_alerts, *(_alert_line(it) for it in alerts)][-_ALERTS_SHOWN:]

    def _redraw(self) -> None:
        lines = [*self._last_table, "", *(self._last_alerts or ["no alerts so far"])]
        sys.stdout.write(_CLEAR + "\n".join(escape(it) for it in lines) + "\n")
        sys.stdout.flush()


def _alert_line(alert: "Alert") -> str:
    return f"ALERT {alert.time:%Y-%m-%d %H:%M:%S} {alert.kind.replace('_', ' ')}: {alert.text}"


def _lines(watch: "Watch", batch: "BatchCounts") -> Iterator[str]:
    """A line for each place at which something has happened."""
    sums: dict[tuple[str, str], dict[str, int]] = {}
    for count in batch.events:
        counts = sums.setdefault((count.broker, count.place), {})
        counts[count.event] = counts.get(count.event, 0) + count.events
    at = _clock(max(batch.newest_us.values(), default=0))
    for key, counts in sorted(sums.items())[:_PLACES_SHOWN]:
        shown = [f"{counts[it]:,} {it.replace('_', '-')}" for it in ("sent", *_COLUMNS) if counts.get(it)]
        yield f"{at} {key[1]}: {', '.join(shown)}; backlog {watch.backlog[key]:,}"
    if len(sums) > _PLACES_SHOWN:
        yield f"{at} and {len(sums) - _PLACES_SHOWN} more places"


def _table(watch: "Watch") -> Iterator[str]:
    """The busiest places: totals, what the last minute brought, and the backlog."""
    at = _clock(max(watch.newest_us.values(), default=0))
    notes = [f"{watch.late:,} late" if watch.late else "", f"{watch.repeated:,} repeated" if watch.repeated else ""]
    yield f"{at} UTC, micro-batch {watch.batch}; {_TRUTH}" + "".join(f"; {it} events" for it in notes if it)
    keys = sorted(watch.totals, key=lambda it: (-sum(watch.totals[it].values()), it))
    rows = [["place", *_COLUMNS.values(), "backlog", "in/min", "out/min"]]
    for key in keys[:_PLACES_SHOWN]:
        minute = _last_minute(watch, key)
        totals = watch.totals[key]
        cells = [*(totals[it] for it in _COLUMNS), watch.backlog[key], minute.get("stored", 0), minute.get("acked", 0)]
        rows.append([escape(key[1]), *(f"{it:,}" for it in cells)])
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    for name, *cells in rows:
        yield "  ".join([name.ljust(widths[0]), *(it.rjust(n) for it, n in zip(cells, widths[1:], strict=True))])
    if len(keys) > _PLACES_SHOWN:
        yield f"and {len(keys) - _PLACES_SHOWN} more places"


def _last_minute(watch: "Watch", key: tuple[str, str]) -> dict[str, Any]:
    """The last whole minute, by the broker's own time."""
    minute = watch.newest_us.get(key[0], 0) // 60_000_000 - 1
    return dict(watch.recent.get(key, {}).get(minute, {}))


def _clock(time_us: int) -> str:
    return f"{datetime.fromtimestamp(time_us / 1_000_000, UTC):%Y-%m-%d %H:%M:%S}"


def _percent(text: str) -> float:
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is no percentage from 0 to 100")
    return value


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > 12:
        raise argparse.ArgumentTypeError(f"{text!r} is no count")
    return int(text)

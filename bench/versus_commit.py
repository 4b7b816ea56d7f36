"""Is `ackwire serve` as fast as it was at an earlier commit, with the real Java client as the load?

Both packages are compiled as users have them, the earlier one from the commit itself. For each kind of work of
`versus_activemq.py` both brokers run on this machine, with fresh data, are warmed up, and take turns.

    PYTHONPATH=build/compiled .venv/bin/python -m bench.versus_commit COMMIT [--works sync_1 sync_16 …]
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.brokers import Broker, Running, scratch_folder
from bench.comparison import OURS, Goal, Row
from bench.contest import Contest, circumstances, contender, contest_options, contest_parser, rate_row
from bench.java_load import LoadGenerator
from bench.measure import progress, show
from bench.versus_activemq import KINDS, Kind, adapted

BEFORE: Final = "before"
AT_LEAST: Final = 0.97
DEFAULT_WORKS: Final = (
    "nonpersistent", "sync_1", "sync_1_stored", "sync_16", "async", "transacted", "topic", "durable", "selectors",
)  # fmt: skip
_ROOT: Final = Path(__file__).resolve().parent.parent


def main(arguments: Sequence[str]) -> None:
    options = parsed(arguments)
    package = compiled_package(options.commit)
    with scratch_folder(options.folder) as folder, LoadGenerator(folder) as load:
        contest = Contest(load)
        rows = [
            compared(adapted(KINDS[name], options), package, options, folder / name, contest) for name in options.works
        ]
    title = f"versus commit {options.commit}: Java client, messages of 1 KiB, {circumstances(options)}"
    show(title, (), options.json, rows)


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = contest_parser("Ackwire and an earlier Ackwire in turn, with the same load.")
    parser.add_argument("commit", help="the earlier one")
    parser.add_argument("--works", nargs="+", choices=KINDS, default=list(DEFAULT_WORKS), help="which kinds of work")
    parser.set_defaults(consumers=1)
    return contest_options(parser, arguments)


def compiled_package(commit: str) -> Path:
    """The package of *commit*, compiled; made once, and kept below build/."""
    target = _ROOT / "build" / f"commit-{commit}"
    if not (target / "ackwire").is_dir():
        with tempfile.TemporaryDirectory() as source:
            archive = subprocess.run(["git", "archive", commit], cwd=_ROOT, check=True, stdout=subprocess.PIPE).stdout
            subprocess.run(["tar", "-x", "-C", source], input=archive, check=True)
            python_home = str(Path(sys.executable).parent.parent)
            progress(f"compiling {commit}")
            subprocess.run(["tools/compiled_package.sh", python_home, str(target)], cwd=source, check=True)
    return target


class _Earlier(Broker):
    """`ackwire serve` from another package."""

    def __init__(self, broker: Broker, package: Path) -> None:
        super().__init__(["env", f"PYTHONPATH={package}", *broker._argv], broker._log_path)


@contextmanager
def both(kind: Kind, package: Path, folder: Path, store: str) -> Iterator[dict[str, Running]]:
    """The two brokers with fresh data, started."""
    own = contender(OURS, folder / "now", store, stores_first=kind.stores_first)
    earlier = contender(OURS, folder / "before", store, stores_first=kind.stores_first)
    with own as now, _Earlier(earlier, package) as before:
        yield {OURS: now.start(), BEFORE: before.start()}


def compared(kind: Kind, package: Path, options: argparse.Namespace, folder: Path, contest: Contest) -> Row:
    with both(kind, package, folder, options.store) as brokers:
        for name, broker in brokers.items():
            progress(f"{kind.title}: warming up {name}")
            contest.warm_up(broker, kind.work, options.warm_up)
        rounds = contest.rounds(kind.title, brokers, kind.work, options.rounds)
    return rate_row(kind.title, rounds, (Goal(BEFORE, AT_LEAST),), kind.note)


if __name__ == "__main__":
    if "build/compiled" not in os.environ.get("PYTHONPATH", ""):
        print("measuring the plain sources: set PYTHONPATH=build/compiled for the compiled package", file=sys.stderr)
    main(sys.argv[1:])

"""The benchmarks: `make bench`, or `make bench ARGS="codec hot_path"` for some; `make bench-quick` in minutes.

Each one runs in a process of its own and prints its table. `report.py` keeps the figures in `bench/results/`, with the
commit and the machine they were taken on; those of quick runs, which are rough, go to `build/bench-quick/`. At the end
all figures with a goal are listed, with `ok` or `short`.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from bench.report import Result, bounds, keep, write_page

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
QUICK_RESULTS = ROOT / "build" / "bench-quick"
SYNCS = 100
SYNC_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Benchmark:
    """How `bench/<its name>.py` is run."""

    timeout_seconds: float = 110.0
    knows_quick: bool = False
    by_name_only: bool = False
    """Too long, or too much on disk, to run unasked."""
    is_quick: bool = False
    """Part of `--quick`, when nothing is named."""


def contest(timeout_seconds: float) -> Benchmark:
    """Brokers in turn."""
    return Benchmark(timeout_seconds, knows_quick=True, is_quick=True)


BENCHMARKS = {
    "versus_activemq": contest(3600.0),
    "pending": contest(3600.0),
    "latency": contest(1800.0),
    "growth": contest(3600.0),
    "versus_rabbitmq": contest(1800.0),
    "codec": Benchmark(),
    "client_codec": Benchmark(),
    "tabular": Benchmark(),
    "hot_path": Benchmark(),
    "loopback": Benchmark(),
    "audit": Benchmark(600.0),
    "client_versus_stomp": Benchmark(600.0, knows_quick=True),
    "spark_throughput": Benchmark(1200.0, knows_quick=True, by_name_only=True),
    "cleanup": Benchmark(1800.0, knows_quick=True, by_name_only=True),
    "indexes": Benchmark(1800.0, knows_quick=True, by_name_only=True),
    "stores": Benchmark(3600.0, knows_quick=True, by_name_only=True),
    "replicated": Benchmark(3600.0, knows_quick=True, by_name_only=True),
    "takeover": Benchmark(3600.0, knows_quick=True, by_name_only=True),
    "backlog": Benchmark(3600.0, knows_quick=True, by_name_only=True),
}
USUAL = tuple(name for name, benchmark in BENCHMARKS.items() if not benchmark.by_name_only)
QUICK = tuple(name for name, benchmark in BENCHMARKS.items() if benchmark.is_quick)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Run the benchmarks and keep their figures.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)} (default: {', '.join(USUAL)})"
    )
    parser.add_argument(
        "--quick", action="store_true", help=f"less, for a first look only (default then: {', '.join(QUICK)})"
    )
    parser.add_argument(
        "--results", type=Path, help="folder for the figures (default: bench/results, or build/bench-quick if quick)"
    )
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(BENCHMARKS):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    circumstances = describe_circumstances()
    print("\n".join(f"{name}: {value}" for name, value in circumstances.items()), end="\n\n", flush=True)
    folder = options.results or (QUICK_RESULTS if options.quick else RESULTS)
    results, failed = [], []
    for name in options.names or (QUICK if options.quick else USUAL):
        try:
            results.append({**circumstances, **run(name, quick=options.quick)})
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            print(f"{name} failed: {error}\n", flush=True)  # what the others take an hour for is not lost
            failed.append(name)
            continue
        keep(name, results[-1], folder)
        write_page(str(circumstances["date"])[:10], BENCHMARKS, folder)
    tell_bounds(results)
    print(f"written to {folder}")
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def tell_bounds(results: Iterable[Result]) -> None:
    table = list(bounds(results))
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for cells in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip())


def describe_circumstances() -> dict[str, object]:
    """When, where and on which version of the code."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": describe_commit(),
        "ackwire": ackwire_version(),
        "cores": os.cpu_count(),
        "cpu": cpu_model(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": platform.platform(),
        "disk_sync_ms": round(disk_sync_ms(), 3),
        "load_average_before": round(os.getloadavg()[0], 2),
    }


def describe_commit() -> str:
    """The commit, marked if the code that was measured differs from it."""
    commit = git("rev-parse", "--short=12", "HEAD")
    return f"{commit} with changes in src" if git("status", "--porcelain", "src") else commit


def ackwire_version() -> str:
    """With whether its hot modules are compiled."""
    program = str(Path(sys.executable).with_name("ackwire"))
    done = subprocess.run([program, "version", "-v"], capture_output=True, text=True, check=False)
    return "; ".join(line.rstrip(":") for line in done.stdout.splitlines()[:2]) or "unknown"


def git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())


def disk_sync_ms() -> float:
    """What it takes to append a little to a file where the brokers' data will be, and to have it on the disk."""
    with tempfile.TemporaryFile() as file:
        times = []
        for _ in range(SYNCS):
            started = time.perf_counter()
            os.write(file.fileno(), bytes(SYNC_BYTES))
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - started)
    return median(times) * 1000


def run(name: str, *, quick: bool) -> dict[str, Any]:
    """Run one benchmark; its table appears on the screen, its figures come back."""
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder) / "figures.json"
        argv = [sys.executable, "-m", f"bench.{name}", "--json", str(figures)]
        if quick and BENCHMARKS[name].knows_quick:
            argv.append("--quick")
        started = time.monotonic()
        run_to_the_end(argv, BENCHMARKS[name].timeout_seconds)
        print(f"\n({name} took {time.monotonic() - started:.0f} s)\n", flush=True)
        result: dict[str, Any] = json.loads(figures.read_text())
        return result


def run_to_the_end(argv: Sequence[str], timeout_seconds: float) -> None:
    """Run *argv*; what takes too long is asked to end, so that it ends the brokers that it has started."""
    with subprocess.Popen(argv, cwd=ROOT) as process:
        try:
            code = process.wait(timeout_seconds)
        finally:
            process.terminate()
    if code != 0:
        raise subprocess.CalledProcessError(code, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

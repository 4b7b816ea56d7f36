"""The benchmarks: `make bench`, or `make bench ARGS="codec hot_path"` for some, with `--quick` in minutes.

Each one runs in a process of its own and prints its table. The figures go to `bench/results/<date>-<name>.json`, and
the tables of all that is there for that day to `bench/results/<date>.md`, with the commit and the machine they were
taken on.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"


@dataclass(frozen=True, slots=True)
class Benchmark:
    """How `bench/<its name>.py` is run."""

    timeout_seconds: float = 110.0
    knows_quick: bool = False
    by_name_only: bool = False
    """Too long, or too much on disk, to run unasked."""


BENCHMARKS = {
    "codec": Benchmark(),
    "client_codec": Benchmark(),
    "tabular": Benchmark(),
    "hot_path": Benchmark(),
    "loopback": Benchmark(),
    "audit": Benchmark(),
    "client_versus_stomp": Benchmark(600.0, knows_quick=True),
    "versus_activemq": Benchmark(3600.0, knows_quick=True),
    "spark_throughput": Benchmark(1200.0, knows_quick=True, by_name_only=True),
    "restart": Benchmark(3600.0, knows_quick=True, by_name_only=True),
    "cleanup": Benchmark(1800.0, knows_quick=True, by_name_only=True),
    "backlog": Benchmark(3600.0, knows_quick=True, by_name_only=True),
}
USUAL = tuple(name for name, benchmark in BENCHMARKS.items() if not benchmark.by_name_only)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Run the benchmarks and keep their figures.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)} (default: {', '.join(USUAL)})"
    )
    parser.add_argument("--quick", action="store_true", help="less of those that take long; for a first look only")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the figures (default: %(default)s)")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(BENCHMARKS):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    circumstances = describe_circumstances()
    print("\n".join(f"{name}: {value}" for name, value in circumstances.items()), end="\n\n", flush=True)
    for name in options.names or USUAL:
        keep(name, {**circumstances, **run(name, quick=options.quick)}, options.results)
    print(f"written to {options.results}")
    return 0


def describe_circumstances() -> dict[str, object]:
    """When, where and on which version of the code."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": describe_commit(),
        "cores": os.cpu_count(),
        "cpu": cpu_model(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": platform.platform(),
        "load_average_before": round(os.getloadavg()[0], 2),
    }


def describe_commit() -> str:
    """The commit, marked if the code that was measured differs from it."""
    commit = git("rev-parse", "--short=12", "HEAD")
    return f"{commit} with changes in src" if git("status", "--porcelain", "src") else commit


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


def run(name: str, *, quick: bool) -> dict[str, Any]:
    """Run one benchmark; its table appears on the screen, its figures come back."""
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder) / "figures.json"
        argv = [sys.executable, "-m", f"bench.{name}", "--json", str(figures)]
        if quick and BENCHMARKS[name].knows_quick:
            argv.append("--quick")
        run_to_the_end(argv, BENCHMARKS[name].timeout_seconds)
        print(flush=True)
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


def keep(name: str, result: Mapping[str, Any], folder: Path) -> None:
    """Write the benchmark's JSON file, and a page of Markdown with everything of the day."""
    folder.mkdir(parents=True, exist_ok=True)
    day = result["date"][:10]
    (folder / f"{day}-{name}.json").write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")
    files = [folder / f"{day}-{known}.json" for known in BENCHMARKS]
    results = [json.loads(file.read_text()) for file in files if file.exists()]
    (folder / f"{day}.md").write_text("\n".join(markdown(day, results)) + "\n")


def markdown(day: str, results: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    yield f"# Benchmarks, {day}"
    for result in results:
        yield f"\n## {result['title']}\n"
        yield ", ".join(f"{name} {value}" for name, value in result.items() if name not in ("title", "figures")) + "\n"
        yield "| what | median | smallest | largest | unit | DESIGN.md expects |"
        yield "|---|--:|--:|--:|---|---|"
        for figure in result["figures"]:
            values = figure["values"]
            numbers = " | ".join(f"{value:.4g}" if value < 1000 else f"{value:,.0f}" for value in spread(values))
            yield f"| {figure['name']} | {numbers} | {figure['unit']} | {figure['expected']} |"


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    return median(values), min(values), max(values)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

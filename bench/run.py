"""All benchmarks: `make bench`, or `make bench ARGS="codec hot_path"` for some.

Each one runs in a process of its own and prints its table. The figures go to `bench/results/<date>-<name>.json`, and
all tables of the run to `bench/results/<date>.md`, with the commit and the machine they were taken on.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
NAMES = ("codec", "hot_path", "loopback")
TIMEOUT_SECONDS = 110.0


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Run the benchmarks and keep their figures.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones: {', '.join(NAMES)} (default: all)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the figures (default: %(default)s)")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    circumstances = describe_circumstances()
    print("\n".join(f"{name}: {value}" for name, value in circumstances.items()), end="\n\n", flush=True)
    measured = {name: run(name) for name in options.names or NAMES}
    keep(measured, circumstances, options.results)
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


def run(name: str) -> dict[str, Any]:
    """Run one benchmark; its table appears on the screen, its figures come back."""
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder) / "figures.json"
        argv = [sys.executable, "-m", f"bench.{name}", "--json", str(figures)]
        subprocess.run(argv, cwd=ROOT, check=True, timeout=TIMEOUT_SECONDS)
        print(flush=True)
        result: dict[str, Any] = json.loads(figures.read_text())
        return result


def keep(measured: Mapping[str, Mapping[str, Any]], circumstances: Mapping[str, object], folder: Path) -> None:
    """Write a JSON file per benchmark, and one page of Markdown for people."""
    folder.mkdir(parents=True, exist_ok=True)
    day = str(circumstances["date"])[:10]
    for name, result in measured.items():
        text = json.dumps({**circumstances, **result}, indent=2, ensure_ascii=False)
        (folder / f"{day}-{name}.json").write_text(text + "\n")
    page = folder / f"{day}.md"
    page.write_text("\n".join(markdown(measured.values(), circumstances)) + "\n")
    print(f"written to {page}, and as JSON beside it")


def markdown(results: Iterable[Mapping[str, Any]], circumstances: Mapping[str, object]) -> Iterator[str]:
    yield f"# Benchmarks, {circumstances['date']}\n"
    yield from (f"- {name}: {value}" for name, value in circumstances.items() if name != "date")
    for result in results:
        yield f"\n## {result['title']}\n"
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

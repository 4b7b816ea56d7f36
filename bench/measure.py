"""What the benchmarks share: measuring, figures with their spread, and tables.

CPU time is what counts: on a machine with busy neighbours the wall clock measures the neighbours. Even CPU time moves
with them, so every figure is the median of several repetitions, with the smallest and the largest beside it.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

REPETITIONS = 7


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured quantity: all repetitions, and what DESIGN.md leads us to expect."""

    name: str
    unit: str
    values: tuple[float, ...]
    expected: str = ""

    @property
    def median(self) -> float:
        return median(self.values)


def cpu_microseconds_each(work: Callable[[], object], count: int, repetitions: int = REPETITIONS) -> tuple[float, ...]:
    """CPU time of one of the *count* things that *work* does, once per repetition, after a warm-up."""
    work()
    values = []
    for _ in range(repetitions):
        started = time.process_time_ns()
        work()
        values.append((time.process_time_ns() - started) / count / 1000)
    return tuple(values)


def present(title: str, figures: Sequence[Figure], arguments: Sequence[str]) -> None:
    """Print *figures* as a table; with `--json FILE` in *arguments* write them there too, for `run.py`."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE too")
    options = parser.parse_args(arguments)
    print(f"{title}\n")
    print("\n".join(_table(figures)))
    if options.json is not None:
        options.json.write_text(json.dumps({"title": title, "figures": [asdict(figure) for figure in figures]}))


def _table(figures: Iterable[Figure]) -> Iterable[str]:
    rows = [("", "median", "smallest", "largest", "unit", "DESIGN.md expects")]
    rows += [
        (f.name, _number(f.median), _number(min(f.values)), _number(max(f.values)), f.unit, f.expected) for f in figures
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *numbers, unit, expected in rows:
        cells = [name.ljust(widths[0]), *(n.rjust(w) for n, w in zip(numbers, widths[1:4], strict=True))]
        yield "  ".join([*cells, unit.ljust(widths[4]), expected]).rstrip()


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}"

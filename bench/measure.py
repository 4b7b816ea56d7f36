"""What the benchmarks share: measuring, figures with their spread, and tables.

CPU time is what counts: on a machine with busy neighbours the wall clock measures the neighbours. Even CPU time moves
with them, so every figure is the median of several repetitions, with the smallest and the largest beside it.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from bench.comparison import Row, text_table, verdict

ROOT = Path(__file__).resolve().parent.parent
REPETITIONS = 7


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured quantity: all repetitions, and what was expected when the design was made."""

    name: str
    unit: str
    values: tuple[float, ...]
    expected: str = ""
    at_most: float | None = None
    """What the median must not exceed."""

    @property
    def median(self) -> float:
        return median(self.values)

    @property
    def wanted(self) -> str:
        """What is expected, and whether it is so, where that is a number."""
        if self.at_most is None:
            return self.expected
        return f"{self.expected} ≤ {self.at_most:g}: {verdict(is_reached=self.median <= self.at_most)}".lstrip()


def cpu_microseconds_each(work: Callable[[], object], count: int, repetitions: int = REPETITIONS) -> tuple[float, ...]:
    """CPU time of one of the *count* things that *work* does, once per repetition, after a warm-up."""
    work()
    values = []
    for _ in range(repetitions):
        started = time.process_time_ns()
        work()
        values.append((time.process_time_ns() - started) / count / 1000)
    return tuple(values)


def options_parser(description: str) -> argparse.ArgumentParser:
    """A parser that knows `--json FILE`, which `run.py` passes to every benchmark."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE too")
    return parser


def present(title: str, figures: Sequence[Figure], arguments: Sequence[str]) -> None:
    """`show` for a benchmark without options of its own."""
    show(title, figures, options_parser(title).parse_args(arguments).json)


def show(title: str, figures: Sequence[Figure], json_file: Path | None, rows: Sequence[Row] = ()) -> None:
    """Print the *rows* of a comparison and the *figures* as tables, and write them to *json_file* if there is one."""
    print(f"{title}\n")
    if rows:
        print("\n".join(text_table(rows)), end="\n\n" if figures else "\n")
    if figures:
        print("\n".join(_table(figures)))
    if json_file is not None:
        kept = {"figures": [asdict(figure) for figure in figures], "rows": [asdict(row) for row in rows]}
        json_file.write_text(json.dumps({"title": title, **kept}))


def progress(text: str) -> None:
    """For those who wait; not part of the result."""
    print(text, file=sys.stderr, flush=True)


def told(figures: Iterable[Figure]) -> list[Figure]:
    """*figures*, each told as soon as it is known."""
    known = []
    for figure in figures:
        progress(f"{figure.name}: {_number(figure.median)} {figure.unit}")
        known.append(figure)
    return known


def _table(figures: Iterable[Figure]) -> Iterable[str]:
    rows = [("", "median", "smallest", "largest", "unit", "wanted or expected")]
    rows += [
        (f.name, _number(f.median), _number(min(f.values)), _number(max(f.values)), f.unit, f.wanted) for f in figures
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *numbers, unit, expected in rows:
        cells = [name.ljust(widths[0]), *(n.rjust(w) for n, w in zip(numbers, widths[1:4], strict=True))]
        yield "  ".join([*cells, unit.ljust(widths[4]), expected]).rstrip()


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}"

"""What is kept of the benchmarks: a JSON file for each, drawings, and a page of Markdown for all of a day.

The page begins with everything that has a bound, and whether it is reached. Files are named `<date>-<benchmark>.json`,
`<date>-<benchmark>-<drawing>.svg` and `<date>.md`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.comparison import Row, lines, markdown_table
from bench.measure import Figure
from bench.plots import plots

Result = Mapping[str, Any]
"""What `measure.show` writes, and the circumstances."""
_SHOWN_APART: Final = {"title", "figures", "rows", "name"}


def keep(name: str, result: Result, folder: Path) -> None:
    """Write the benchmark's files."""
    folder.mkdir(parents=True, exist_ok=True)
    day = result["date"][:10]
    text = json.dumps({"name": name, **result}, indent=2, ensure_ascii=False)
    (folder / f"{day}-{name}.json").write_text(text + "\n")
    for drawing, _, svg in plots(rows_of(result)):
        (folder / drawing_name(day, name, drawing)).write_text(svg + "\n")


def write_page(day: str, names: Iterable[str], folder: Path) -> None:
    """The page of a *day*: of the benchmarks *names*, those that were kept."""
    files = [folder / f"{day}-{name}.json" for name in names]
    results = [{"name": file.stem[len(day) + 1 :], **json.loads(file.read_text())} for file in files if file.exists()]
    (folder / f"{day}.md").write_text("\n".join(markdown(day, results)) + "\n")


def rows_of(result: Result) -> list[Row]:
    return [Row.from_json(row) for row in result.get("rows", ())]


def figures_of(result: Result) -> list[Figure]:
    return [Figure(**{**figure, "values": tuple(figure["values"])}) for figure in result["figures"]]


def drawing_name(day: str, name: str, drawing: str) -> str:
    return f"{day}-{name}-{drawing}.svg"


def bounds(results: Iterable[Result]) -> Iterator[tuple[str, str, str, str]]:
    """All that has a bound: what it is, the median, what is wanted, and `ok` or `short`."""
    for result in results:
        for row in rows_of(result):
            for line in lines(row):
                if line.wanted:
                    yield f"{line.work}, Ackwire / {line.against}", f"{line.ratio} ({line.spread})", *line[7:9]
        for figure in figures_of(result):
            if figure.at_most is not None:
                wanted, _, verdict = figure.wanted.rpartition(": ")
                yield figure.name, f"{figure.median:.3g}", wanted, verdict


def markdown(day: str, results: Sequence[Result]) -> Iterator[str]:
    yield f"# Benchmarks, {day}"
    if wanted := list(bounds(results)):
        yield "\n## What is wanted\n"
        yield "| what | median (smallest–largest) | wanted | |"
        yield "|---|--:|---|---|"
        for cells in wanted:
            yield f"| {' | '.join(cells)} |".replace("| short |", "| **short** |")
    for result in results:
        yield from section(day, result)


def section(day: str, result: Result) -> Iterator[str]:
    yield f"\n## {result['title']}\n"
    yield ", ".join(f"{name} {value}" for name, value in result.items() if name not in _SHOWN_APART) + "\n"
    if rows := rows_of(result):
        yield from markdown_table(rows)
        for drawing, title, _ in plots(rows):
            yield f"\n![{title}]({drawing_name(day, result['name'], drawing)})"
    if figures := figures_of(result):
        if rows:
            yield ""
        yield "| what | median | smallest | largest | unit | wanted or expected |"
        yield "|---|--:|--:|--:|---|---|"
        for figure in figures:
            numbers = " | ".join(f"{value:.4g}" if value < 1000 else f"{value:,.0f}" for value in spread(figure.values))
            yield f"| {figure.name} | {numbers} | {figure.unit} | {figure.wanted} |"


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    return median(values), min(values), max(values)

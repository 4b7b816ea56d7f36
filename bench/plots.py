"""Plots of comparisons as SVG: ratios with what is wanted, values beside each other, and lines of a growing cost.

Drawn by hand like those of the audit report, whose ticks and texts they share. Each drawing carries its own style, for
light and dark, so that it can stand in a page of Markdown.
"""

import math
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from ackwire.spark.audit.plots import linear_ticks, log_ticks, path, short, text
from bench.comparison import Row

_WIDTH: Final = 860
_LABELS: Final = 380
_RIGHT: Final = 60
_BAR: Final = 13
_GAP: Final = 9
_TOP: Final = 52
_BOTTOM: Final = 26
_LINES_HEIGHT: Final = 300
_LINES_LEFT: Final = 60

_STYLE: Final = (
    "<style>"
    "svg{--ink:#222;--soft:#bbb;--s0:#0b6bcb;--s1:#d9730d;--s2:#7a8b1f;background:#fff}"
    "@media(prefers-color-scheme:dark){svg{--ink:#ddd;--soft:#555;--s0:#5aa9f5;--s1:#f0a05a;--s2:#b5c95a;"
    "background:#16181c}}"
    "text{font:12px sans-serif;fill:var(--ink)}.title{font-weight:bold}.end{text-anchor:end}"
    ".middle{text-anchor:middle}.grid{stroke:var(--soft);stroke-width:.5}.one{stroke:var(--ink);stroke-width:1}"
    ".spread{stroke:var(--ink);stroke-width:1.5}.wanted{stroke:#c22;stroke-width:2.5}"
    ".s0{fill:var(--s0)}.s1{fill:var(--s1)}.s2{fill:var(--s2)}"
    "path{fill:none;stroke-width:2}.s0 path{stroke:var(--s0)}.s1 path{stroke:var(--s1)}.s2 path{stroke:var(--s2)}"
    "</style>"
)


def plots(rows: Sequence[Row]) -> Iterator[tuple[str, str, str]]:
    """The drawings that *rows* are good for: a name, a title and the SVG of each."""
    single = [row for row in rows if not row.family and row.others]
    if rates := [row for row in single if not row.less_is_better]:
        yield "ratios", "Rates of Ackwire by those of the others", ratio_plot(rates)
    for unit in dict.fromkeys(row.unit for row in single if row.less_is_better):
        of_unit = [row for row in single if row.less_is_better and row.unit == unit]
        yield f"in-{unit.lower()}", f"In {unit}: less is better", value_plot(of_unit, unit)
    for family in dict.fromkeys(row.family for row in rows if row.family):
        of_family = [row for row in rows if row.family == family]
        yield f"by-{family}", f"{of_family[0].unit} for each message, by {family}", line_plot(of_family, family)


def ratio_plot(rows: Sequence[Row]) -> str:
    """Bars of the medians, with the smallest and the largest, and a red mark for what is wanted."""
    bars = [(row, other) for row in rows for other in row.others]
    ticks = linear_ticks(max(max(row.ratios(other)) for row, other in bars))
    axis = _Axis(ticks, is_log=False)
    height = _TOP + len(bars) * (_BAR + _GAP) + _BOTTOM
    parts = [_head(height, "rate: Ackwire / the other; line: smallest to largest; red: wanted")]
    parts += axis.grid(height, [1.0])
    for n, (row, other) in enumerate(bars):
        y = _TOP + n * (_BAR + _GAP)
        ratios = row.ratios(other)
        parts.append(_label(f"{row.title} / {other}", y))
        parts.append(axis.bar(median(ratios), y, "s0"))
        parts.append(_mark("spread", axis.x(min(ratios)), axis.x(max(ratios)), y + _BAR / 2))
        if goal := row.goal(other):
            x = axis.x(goal.bound)
            parts.append(f'<line class="wanted" x1="{x:.1f}" x2="{x:.1f}" y1="{y - 2}" y2="{y + _BAR + 2}"/>')
    return "".join([*parts, "</svg>"])


def value_plot(rows: Sequence[Row], unit: str) -> str:
    """Bars of the medians of each broker, side by side, on a logarithmic axis."""
    everything = [value for row in rows for values in row.values.values() for value in values if value > 0]
    axis = _Axis(log_ticks(min(everything), max(everything)), is_log=True)
    names = list(dict.fromkeys(name for row in rows for name in row.values))
    step = len(names) * _BAR + _GAP
    height = _TOP + len(rows) * step + _BOTTOM
    parts = [_head(height, f"{unit}; line: smallest to largest"), *_legend(names), *axis.grid(height, [])]
    for n, row in enumerate(rows):
        parts.append(_label(row.title, _TOP + n * step + (len(names) - 1) * _BAR / 2))
        for m, (name, values) in enumerate(row.values.items()):
            y = _TOP + n * step + m * _BAR
            parts.append(axis.bar(median(values), y, f"s{names.index(name)}"))
            parts.append(_mark("spread", axis.x(min(values)), axis.x(max(values)), y + _BAR / 2))
    return "".join([*parts, "</svg>"])


def line_plot(rows: Sequence[Row], family: str) -> str:
    """A line for each broker over a logarithmic axis."""
    rows = sorted(rows, key=lambda row: row.x)
    names = list(rows[0].values)
    y_ticks = linear_ticks(max(median(values) for row in rows for values in row.values.values()))
    bottom = _LINES_HEIGHT - _BOTTOM
    low, high = math.log10(rows[0].x), math.log10(rows[-1].x)

    def place(x: float, y: float) -> tuple[float, float]:
        share = (math.log10(x) - low) / ((high - low) or 1.0)
        across = _LINES_LEFT + share * (_WIDTH - _LINES_LEFT - _RIGHT)
        return across, bottom - y / y_ticks[-1] * (bottom - _TOP)

    parts = [_head(_LINES_HEIGHT, f"{rows[0].unit} for each message, by {family}"), *_legend(names)]
    for tick in y_ticks:
        y = place(rows[0].x, tick)[1]
        parts.append(f'<line class="grid" x1="{_LINES_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="end" x="{_LINES_LEFT - 6}" y="{y + 4:.1f}">{short(tick)}</text>')
    for row in rows:
        parts.append(f'<text class="middle" x="{place(row.x, 0)[0]:.1f}" y="{bottom + 18}">{short(row.x)}</text>')
    for n, name in enumerate(names):
        places = [place(row.x, median(row.values[name])) for row in rows]
        dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in places)
        parts.append(f'<g class="s{n}">{path(places)}{dots}</g>')
    return "".join([*parts, "</svg>"])


class _Axis:
    """The axis of horizontal bars."""

    def __init__(self, ticks: Sequence[float], *, is_log: bool) -> None:
        self._ticks = ticks
        self._is_log = is_log

    def x(self, value: float) -> float:
        low, high = self._ticks[0], self._ticks[-1]
        share = (value - low) / (high - low)
        if self._is_log:
            share = math.log(max(value, low) / low) / math.log(high / low)
        return _LABELS + min(max(share, 0.0), 1.0) * (_WIDTH - _LABELS - _RIGHT)

    def bar(self, value: float, y: float, style: str) -> str:
        """With its value behind it."""
        end = self.x(value)
        number = f'<text x="{_WIDTH - _RIGHT + 6}" y="{y + _BAR - 2:.1f}">{short(value)}</text>'
        return f'<rect class="{style}" x="{_LABELS}" y="{y:.1f}" width="{end - _LABELS:.1f}" height="{_BAR}"/>{number}'

    def grid(self, height: float, special: Sequence[float]) -> Iterator[str]:
        for style, values in (("grid", self._ticks), ("one", special)):
            for value in values:
                x = self.x(value)
                yield f'<line class="{style}" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 6}" y2="{height - _BOTTOM}"/>'
        for value in self._ticks:
            yield f'<text class="middle" x="{self.x(value):.1f}" y="{height - 8}">{short(value)}</text>'


def _head(height: float, title: str) -> str:
    size = f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
    opened = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{text(title)}">'
    return f'{opened}{_STYLE}<text class="title" x="8" y="18">{text(title)}</text>'


def _legend(names: Sequence[str]) -> Iterator[str]:
    for n, name in enumerate(names):
        x = 8 + n * 120
        yield f'<rect class="s{n}" x="{x}" y="25" width="11" height="11"/><text x="{x + 16}" y="35">{text(name)}</text>'


def _label(title: str, y: float) -> str:
    return f'<text class="end" x="{_LABELS - 8}" y="{y + _BAR - 2:.1f}">{text(title)}</text>'


def _mark(style: str, x1: float, x2: float, y: float) -> str:
    return f'<line class="{style}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'

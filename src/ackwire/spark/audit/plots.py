"""Plots as SVG, drawn by hand: lines over time, small lines inside a table, bars. No script, nothing from outside.

Colours are classes and CSS variables, so that one drawing serves light and dark. Every text goes through `text`.
"""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from ackwire.spark.audit.report import Times
from ackwire.util.logs import escape

COLOURS: Final = 8
"""Lines that can be told apart; `--s0` to `--s7`, and `--other`."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 8, 24
_TICK_SECONDS: Final = (5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 14_400, 21_600, 43_200, 86_400)
_LETTER_WIDTH: Final = 6.4
"""Pixels of a letter of eleven pixels height, about."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a plot; a point may be missing."""

    name: str
    style: str
    """A class of page.css: `s0` to `s7`, `other`, `p50`, `p95`, `p99`."""
    points: Sequence[float | None]


def text(value: object) -> str:
    """*value* as it may stand in a page: nothing unprintable, nothing that is markup."""
    return html.escape(escape(str(value)), quote=True)


def short(value: float) -> str:
    """A number for an axis: 0.5, 20, 1.5k, 3M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def duration(ms: float | None) -> str:
    """A time for people: 0.4 ms, 12 ms, 1.5 s, 90 s, 3 min, 2.5 h."""
    if ms is None:
        return "–"
    for low, size, unit in ((7_200_000, 3_600_000, "h"), (120_000, 60_000, "min"), (1000, 1000, "s")):
        if ms >= low:
            return f"{_three(ms / size)} {unit}"
    return f"{_three(ms)} ms"


def _power(ms: float) -> str:
    """A power of ten on an axis of times."""
    return f"{short(ms / 1000)} s" if ms >= 1000 else f"{ms:g} ms"


def _three(value: float) -> str:
    """Three digits that matter, and no power of ten."""
    return f"{value:.0f}" if value >= 99.95 else f"{value:.3g}"


# ---- lines over time -------------------------------------------------------------------------------------------


class Plot:
    """Lines over *times*, with axes."""

    def __init__(self, times: Times, *, width: int, height: int, title: str, is_log: bool = False) -> None:
        self._times = times
        self._width, self._height = width, height
        self._title = title
        self._is_log = is_log

    def draw(self, lines: Sequence[Line], *, low: float | None = None, high: float | None = None) -> str:
        """The SVG; *low* and *high* bind the axis where several plots share it."""
        values = [it for line in lines for it in line.points if it is not None]
        if self._is_log:
            ticks = log_ticks(low if low is not None else min(values, default=1), high or max(values, default=1))
        else:
            ticks = linear_ticks(high if high is not None else max(values, default=0))
        size = f"0 0 {self._width} {self._height}"
        parts = [
            f'<svg class="plot" viewBox="{size}" role="img" aria-label="{text(self._title)}">',
            *self._y_axis(ticks),
            *self._x_axis(),
            *(self._line(it, ticks) for it in lines),
            "" if values else f'<text class="x" x="{self._width / 2}" y="{self._height / 2}">nothing measured</text>',
            "</svg>",
        ]
        return "".join(parts)

    def _y(self, value: float, ticks: Sequence[float]) -> float:
        low, high = ticks[0], ticks[-1]
        share = (value - low) / (high - low)
        if self._is_log:
            share = math.log(max(value, low) / low) / math.log(high / low)
        return self._height - _BOTTOM - min(share, 1.0) * (self._height - _TOP - _BOTTOM)

    def _x(self, step: float) -> float:
        return _LEFT + step / self._times.count * (self._width - _LEFT - _RIGHT)

    def _y_axis(self, ticks: Sequence[float]) -> list[str]:
        found = []
        for tick in ticks:
            y = self._y(tick, ticks)
            label = _power(tick) if self._is_log else short(tick)
            found.append(f'<line class="grid" x1="{_LEFT}" x2="{self._width - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            found.append(f'<text class="y" x="{_LEFT - 6}" y="{y + 4:.1f}">{label}</text>')
        return found

    def _x_axis(self) -> list[str]:
        found = []
        begin = self._times.begin.timestamp()
        end = self._times.end.timestamp()
        step = time_step(end - begin, (self._width - _LEFT - _RIGHT) / 60)
        at = begin - begin % step + (step if begin % step else 0)
        bottom = self._height - _BOTTOM
        while at <= end:
            x = self._x((at - begin) / self._times.step_seconds)
            label = datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S" if step % 60 else "%H:%M")
            found.append(f'<line class="tick" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 4}"/>')
            # A label in the middle of its tick would leave the picture at the right end.
            x = min(x, self._width - 2 - len(label) * _LETTER_WIDTH / 2)
            found.append(f'<text class="x" x="{x:.1f}" y="{bottom + 16}">{label}</text>')
            at += step
        return found

    def _line(self, line: Line, ticks: Sequence[float]) -> str:
        places = [None if it is None else (self._x(n + 0.5), self._y(it, ticks)) for n, it in enumerate(line.points)]
        return f'<g class="{line.style}"><title>{text(line.name)}</title>{path(places)}</g>'


def path(places: Sequence[tuple[float, float] | None]) -> str:
    """A line through the points that are there; one that stands alone is a dot."""
    moves: list[str] = []
    dots: list[str] = []
    for n, place in enumerate(places):
        if place is None:
            continue
        before = places[n - 1] if n else None
        after = places[n + 1] if n + 1 < len(places) else None
        moves.append(f"{'L' if before else 'M'}{place[0]:.1f} {place[1]:.1f}")
        if before is None and after is None:
            dots.append(f'<circle cx="{place[0]:.1f}" cy="{place[1]:.1f}" r="2.3"/>')
    return f'<path d="{"".join(moves)}"/>{"".join(dots)}' if moves else ""


def linear_ticks(high: float) -> list[float]:
    """From zero in four to six round steps, and no lower than *high*."""
    if high <= 0:
        return [0.0, 1.0]
    rough = high / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(it * power for it in (1, 2, 2.5, 5, 10) if it * power >= rough * 0.999)
    return [n * step for n in range(math.ceil(high / step - 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten around the values; zero is drawn as the lowest."""
    lowest = math.floor(math.log10(max(low, 0.01)))
    highest = max(math.ceil(math.log10(max(high, 0.01)) - 1e-9), lowest + 1)
    step = 1 if highest - lowest <= 5 else 2
    highest += (highest - lowest) % step
    return [10.0**it for it in range(lowest, highest + 1, step)]


def time_step(seconds: float, labels_max: float) -> int:
    """Seconds between two labels of the time axis."""
    return next((it for it in _TICK_SECONDS if seconds / it <= labels_max), _TICK_SECONDS[-1])


# ---- small lines and bars --------------------------------------------------------------------------------------


def spark(points: Sequence[float], style: str, label: str) -> str:
    """A line without axes, for a cell of a table."""
    width, height, points_max = 110, 22, 110
    size = -(-len(points) // points_max)
    steps = [max(points[n : n + size]) for n in range(0, len(points), size)]
    high = max(steps, default=0.0) or 1.0
    places = [
        (round(1 + n / max(len(steps) - 1, 1) * (width - 2), 1), round(height - 2 - it / high * (height - 4), 1))
        for n, it in enumerate(steps)
    ]
    drawn = path(places)
    return (
        f'<svg class="spark" viewBox="0 0 {width} {height}" role="img" aria-label="{text(label)}">'
        f'<g class="{style}"><title>{text(label)}</title>{drawn}</g></svg>'
    )


def bar(share: float) -> str:
    """A bar in a cell of a table, *share* of its width."""
    width = max(0.0, min(share, 1.0)) * 200
    return (
        f'<svg class="bar" viewBox="0 0 200 14" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect x="0" y="2" width="{max(width, 1):.1f}" height="10"/></svg>'
    )

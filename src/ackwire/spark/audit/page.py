"""The report as one HTML page that stands alone: style and plots inside, no script, nothing from the network.

Names of queues, causes, ids and consumers come from outside: every one of them goes through `plots.text`. A content
security policy inside the page forbids scripts and requests all the same.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from ackwire.spark.audit.plots import COLOURS, Line, Plot, bar, duration, short, spark, text
from ackwire.spark.audit.report import ADDED, ENDED, LATENCIES, PERCENTS, ROWS_MAX, Key, Report, Row, Series, Times
from ackwire.util.plurals import counted

_WIDTH, _HEIGHT = 1080, 240
_PANEL_WIDTH, _PANEL_HEIGHT = 530, 150
PANELS_MAX: Final = 12
"""Places whose latencies are drawn; the tables have all."""
_PLACES_IN_SIGHT: Final = 20
_CAUSES_MAX: Final = 30
_NAME_LENGTH_MAX: Final = 120
_LEGEND_LENGTH_MAX: Final = 60

_LATENCY_WORDS: Final = {"store_to_dispatch": "stored to dispatched", "dispatch_to_ack": "dispatched to acknowledged"}
_WORDS: Final = {
    "carried": "carried over", "stored": "stored", "found": "found", "acked": "acked", "dead_lettered": "dead-lettered",
    "expired": "expired", "purged": "purged", "discarded": "discarded", "pending": "pending",
    "lost_in_crash": "lost in crash", "difference": "difference",
}  # fmt: skip
_SIGN: Final = '<span class="sign">{}</span>'
_ALWAYS: Final = ("stored", "acked", "dead_lettered", "expired", "purged", "pending")

_STYLE: Final = Path(__file__).with_name("page.css")


def render(report: Report) -> str:
    """The whole page."""
    return "".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>Ackwire audit, {text(report.date)}</title>",
            f"<style>{_STYLE.read_text(encoding='utf-8')}{''.join(_series_style())}</style></head>",
            "<body><main>",
            *_top(report),
            *_reconciliation(report),
            *_problems(report),
            *_flow(report),
            *_backlog(report),
            *_dead_letters(report),
            *_slow_consumers(report),
            *_advice(report),
            *_each_place(report),
            *_latency(report),
            "</main></body></html>\n",
        ]
    )


def _series_style() -> Iterator[str]:
    for name in [*(f"s{n}" for n in range(COLOURS)), "other", "flow", "wait", *(f"p{it}" for it in PERCENTS)]:
        yield f".{name} path {{ stroke: var(--{name}); }} .{name} circle {{ fill: var(--{name}); }} "
        yield f"i.{name} {{ background: var(--{name}); }}\n"


# ---- the verdict and the sums ------------------------------------------------------------------------------------


def _top(report: Report) -> Iterator[str]:
    yield f"<h1>The life of every message, {text(report.date)}</h1>"
    span = f", from {report.times.begin:%H:%M} to {_end(report.times)}" if report.times else ""
    places = counted(len(report.places), "place", ",")
    yield f'<p class="soft">{counted(report.events, "event", ",")} at {places}{span}; times are UTC.</p>'
    yield _verdict(report)
    wrong = sorted(date for date, adds_up in report.days.items() if not adds_up and date != report.date)
    if wrong:
        yield f'<p class="soft">Days that do not add up, besides: {text(", ".join(wrong[-20:]))}.</p>'
    yield from _tiles(report)


def _tiles(report: Report) -> Iterator[str]:
    """The sum over all places as it is written: what was there and came = how it ended and what is there."""
    sums = report.sums
    came, ended = ([it for it in side if it in _ALWAYS or sums[it]] for side in (ADDED, ENDED))
    shown = [
        *_joined([_tile(sums, it) for it in came], "+"),
        _SIGN.format("="),
        *_joined([_tile(sums, it) for it in ended], "+"),
    ]
    if sums["difference"]:
        shown += [_SIGN.format("+"), _tile(sums, "difference")]
    yield f'<div class="tiles sum">{"".join(shown)}</div>'
    yield f'<p class="soft">{counted(sums["redelivered"], "redelivery", ",")} besides.</p>'


def _tile(sums: Mapping[str, int], name: str) -> str:
    return f'<div class="tile"><b>{sums[name]:,}</b><span>{text(_WORDS[name])}</span></div>'


def _joined(tiles: Sequence[str], sign: str) -> list[str]:
    return [part for n, tile in enumerate(tiles) for part in ([_SIGN.format(sign)] if n else []) + [tile]]


def _end(times: Times) -> str:
    end = f"{times.end:%H:%M}"
    return "24:00" if end == "00:00" else end


def _verdict(report: Report) -> str:
    breaking = sum(1 for it in report.problems if it["breaks"])
    if report.adds_up:
        looks = sum(report.problem_counts.values())
        more = f" {counted(looks, 'thing', ',')} worth a look below." if looks else ""
        words = f"<p>Every message that was stored has ended or is still there.{more}</p>"
        return f'<div class="verdict good">Everything adds up{words}</div>'
    words = f"{counted(report.wrong_places, 'place', ',')} of {len(report.places)} with sums that differ"
    more = " or more" if len(report.problems) < sum(report.problem_counts.values()) else ""
    words += f", {counted(breaking, 'problem', ',')}{more} with ids below."
    return f'<div class="verdict bad">Does not add up<p>{words}</p></div>'


def _reconciliation(report: Report) -> Iterator[str]:
    yield "<h2>Reconciliation</h2>"
    yield (
        '<p class="soft">carried over + stored + found = acked + dead-lettered + expired + purged + discarded '
        "+ pending + lost in crash.</p>"
    )
    shown = [it for it in _WORDS if it in _ALWAYS or any(row[it] for row in report.places)]
    head = ["place", "", *(_WORDS[it] for it in shown)]
    rows = [_place_row(it, shown, _place_name(report, it)) for it in report.places[:ROWS_MAX]]
    # Those that do not add up come first, and all of them are in sight.
    first = max(report.wrong_places, _PLACES_IN_SIGHT)
    numbers = range(2, 2 + len(shown))
    if not rows:
        yield '<p class="soft">No place had a message.</p>'
        return
    yield _table(head, rows[:first], numbers=numbers, total=len(rows[:first]))
    if more := rows[first:]:
        table = _table(head, more, numbers=numbers, total=len(report.places) - first)
        yield f"<details><summary>{counted(len(more), 'place', ',')} more, with fewer messages: all add up</summary>"
        yield f"{table}</details>"


def _place_name(report: Report, row: Row) -> str:
    brokers = {it["broker"] for it in report.places}
    return f"{row['place']} ({row['broker']})" if len(brokers) > 1 else str(row["place"])


def _place_row(row: Row, shown: Sequence[str], name: str) -> str:
    verdict = '<td class="good">adds up</td>' if row["adds_up"] else '<td class="bad">does not</td>'
    sums = "".join(_number(row[it]) for it in shown)
    return f'<tr><td class="name">{_name(name)}</td>{verdict}{sums}</tr>'


def _each_place(report: Report) -> Iterator[str]:
    """Latencies of the day, and small lines; a table, so that fifty places can be looked through."""
    if not report.series:
        return
    yield "<h2>Each place</h2>"
    yield '<p class="soft">Latencies are the 50th, the 95th and the 99th of a hundred messages, over the whole day.</p>'
    rows = [it for it in report.places if _series_of(report, it) is not None]
    cells = (
        f'<tr><td class="name">{_name(_place_name(report, it))}</td>'
        + "".join(f'<td class="n">{_three_latencies(it.get(f"{name}_ms"))}</td>' for name in LATENCIES)
        + f"{_sparks(_series_of(report, it))}</tr>"
        for it in rows[:ROWS_MAX]
    )
    head = ["place", *_LATENCY_WORDS.values(), "stored a second", "", "backlog", ""]
    yield _table(head, cells, numbers=(1, 2), total=len(rows))


def _series_of(report: Report, row: Row) -> Series | None:
    return report.series.get((row["broker"] or "", row["place"] or ""))


def _sparks(series: Series | None) -> str:
    if series is None:
        return "<td></td>" * 4
    found = []
    for points, style, words in ((series.stored, "flow", "a second"), (series.backlog, "wait", "waiting")):
        high = f"up to {short(max(points))}"
        found.append(f'<td>{spark(points, style, f"{high} {words}")}</td><td class="soft n">{high}</td>')
    return "".join(found)


def _three_latencies(values: Sequence[float] | None) -> str:
    return " / ".join(duration(it) for it in values) if values else "–"


def _problems(report: Report) -> Iterator[str]:
    if not report.problem_counts:
        return
    yield "<h2>What does not add up, or is worth a look</h2>"
    counts = ", ".join(f"{text(kind.replace('_', ' '))}: {count:,}" for kind, count in report.problem_counts.items())
    yield f'<p class="soft">{counts}. The table <code>problems</code> has all of them.</p>'
    rows = (
        f'<tr><td class="{"bad" if it["breaks"] else "soft"}">{text(it["kind"].replace("_", " "))}</td>'
        f'<td class="name">{_name(it["message_id"] or it["run"] or "")}</td>'
        f'<td class="name">{_name(it["place"] or "")}</td>'
        f'<td class="why">{_name(it["detail"] or "", 400)}</td></tr>'
        for it in report.problems
    )
    yield _table(["kind", "message or run", "place", "what"], rows, total=sum(report.problem_counts.values()))


# ---- plots -----------------------------------------------------------------------------------------------------


def _flow(report: Report) -> Iterator[str]:
    yield "<h2>Flow</h2>"
    if report.times is None:
        yield '<p class="soft">Nothing happened on this day.</p>'
        return
    step = _step_words(report.times.step_seconds)
    for title, name in (("Stored, messages a second", "stored"), ("Acknowledged, messages a second", "acked")):
        points = {key: getattr(it, name) for key, it in report.series.items()}
        yield f'<h3>{title} <span class="soft">({step})</span></h3>'
        yield from _plot_of_places(report, title, points)


def _step_words(seconds: int) -> str:
    if seconds < 60:
        return f"steps of {seconds} seconds"
    return "each minute" if seconds == 60 else f"steps of {seconds // 60} minutes"


def _backlog(report: Report) -> Iterator[str]:
    if report.times is None:
        return
    yield "<h2>Backlog</h2>"
    yield '<h3>Messages that wait or are on their way <span class="soft">(at the end of each step)</span></h3>'
    points = {key: it.backlog for key, it in report.series.items()}
    yield from _plot_of_places(report, "Backlog", points)


def _plot_of_places(report: Report, title: str, points: dict[Key, list[float]]) -> Iterator[str]:
    """The largest places have a line each, in the same colour in every plot; the others have one together."""
    if report.times is None:
        return
    names = _names(points)
    apart = _largest(report)
    lines = [Line(names[it], f"s{n}", points[it]) for n, it in enumerate(apart) if any(points[it])]
    rest = [it for it in points if it not in apart and any(points[it])]
    together = []
    if rest:
        sums = [sum(values) for values in zip(*(points[it] for it in rest), strict=True)]
        name = names[rest[0]] if len(rest) == 1 else f"{len(rest)} other places together"
        together = [Line(name, "other", sums)]
    if not lines and not together:
        yield '<p class="soft">None on this day.</p>'
        return
    drawn = Plot(report.times, width=_WIDTH, height=_HEIGHT, title=title).draw([*together, *lines])
    yield f'<div class="card">{drawn}{_legend([*lines, *together])}</div>'


def _largest(report: Report) -> list[Key]:
    """Those with the most messages, or with the largest backlog."""
    flow = {key: sum(it.stored) + sum(it.acked) for key, it in report.series.items()}
    held = {key: max(it.backlog) for key, it in report.series.items()}
    most, highest = max(flow.values()) or 1, max(held.values()) or 1
    return sorted(flow, key=lambda it: (-max(flow[it] / most, held[it] / highest), it))[:COLOURS]


def _names(keys: Iterable[Key]) -> dict[Key, str]:
    keys = list(keys)
    one_broker = len({broker for broker, _ in keys}) <= 1
    return {key: key[1] if one_broker else f"{key[1]} ({key[0]})" for key in keys}


def _legend(lines: Sequence[Line]) -> str:
    items = (f'<li><i class="{it.style}"></i>{_name(it.name, _LEGEND_LENGTH_MAX)}</li>' for it in lines)
    return f'<ul class="legend">{"".join(items)}</ul>'


def _latency(report: Report) -> Iterator[str]:
    measured = {key: it for key, it in report.series.items() if it.is_measured}
    if report.times is None or not measured:
        return
    yield "<h2>Latency</h2>"
    yield '<p class="soft">The highest of each step, on a scale of powers of ten.</p>'
    yield _legend([Line(f"{it} of 100 messages are faster", f"p{it}", []) for it in PERCENTS])
    names = _names(report.series)
    busiest = sorted(measured, key=lambda it: (-sum(measured[it].stored) - sum(measured[it].acked), it))
    for key in busiest[:PANELS_MAX]:
        yield f'<h3>{_name(names[key])}</h3><div class="card grid2">{"".join(_panels(report, measured[key]))}</div>'
    if len(busiest) > PANELS_MAX:
        yield f'<p class="soft">The {PANELS_MAX} busiest of {len(busiest)} places.</p>'


def _panels(report: Report, series: Series) -> Iterator[str]:
    """Both latencies of a place, on the same scale."""
    if report.times is None:
        return
    values = [it for its in series.latency_ms.values() for it in its if it is not None]
    for name in LATENCIES:
        words = _LATENCY_WORDS[name]
        lines = [Line(f"p{it}", f"p{it}", series.latency_ms[f"{name}_p{it}"]) for it in reversed(PERCENTS)]
        plot = Plot(report.times, width=_PANEL_WIDTH, height=_PANEL_HEIGHT, title=words, is_log=True)
        yield f'<div><span class="soft small">{words}</span>{plot.draw(lines, low=min(values), high=max(values))}</div>'


# ---- tables ----------------------------------------------------------------------------------------------------


def _dead_letters(report: Report) -> Iterator[str]:
    yield "<h2>Dead letters by cause</h2>"
    if not report.dead_letters:
        yield '<p class="soft">None on this day.</p>'
        return
    most = max(it["messages"] for it in report.dead_letters)
    rows = (
        f'<tr><td class="why">{_name(it["cause"] or "no cause given", 300)}</td>'
        f'<td class="name">{_name(it["destination"])}</td>'
        f'<td class="n">{it["messages"]:,}</td><td>{bar(it["messages"] / most)}</td>'
        f'<td class="n">{it["last_time"]:%H:%M:%S}</td><td class="name">{_name(it["newest_id"] or "")}</td></tr>'
        for it in report.dead_letters[:_CAUSES_MAX]
    )
    head = ["cause", "place", "messages", "", "last", "newest message"]
    yield _table(head, rows, numbers=(2, 4), total=len(report.dead_letters))


def _slow_consumers(report: Report) -> Iterator[str]:
    if not report.slow_consumers:
        return
    yield "<h2>Slow consumers</h2>"
    rows = (
        f'<tr><td class="name">{_name(it["consumer"])}</td><td class="name">{_name(it["destination"])}</td>'
        f'{_number(it["dispatched"])}{_number(it["acked"])}<td class="n">{duration(it["ack_p50_ms"])}</td>'
        f'<td class="n">{duration(it["ack_p95_ms"])}</td><td class="why">{_name(it["why"], 300)}</td></tr>'
        for it in report.slow_consumers[:ROWS_MAX]
    )
    head = ["consumer", "place", "dispatched", "acked", "ack p50", "ack p95", "why"]
    yield _table(head, rows, numbers=range(2, 6), total=len(report.slow_consumers))


def _advice(report: Report) -> Iterator[str]:
    if not report.advice:
        return
    yield "<h2>Advice</h2>"
    advised = [it for it in report.advice if it["prefetch"] is not None]
    kept = [it for it in report.advice if it["prefetch"] is None]
    head = ["consumer", "place", "prefetch", "optimizeAcknowledge", "why"]
    yield '<p class="soft">By what was measured on this day.</p>'
    if advised:
        yield _table(head, map(_advice_row, advised[:ROWS_MAX]), numbers=(2,), total=len(advised))
    if kept:
        table = _table(head, map(_advice_row, kept[:ROWS_MAX]), numbers=(2,), total=len(kept))
        yield f"<details><summary>{counted(len(kept), 'consumer', ',')} to be kept as set</summary>{table}</details>"


def _advice_row(row: Row) -> str:
    return (
        f'<tr><td class="name">{_name(row["consumer"])}</td><td class="name">{_name(row["destination"])}</td>'
        f'<td class="n">{_or_keep(row["prefetch"])}</td><td>{_or_keep(on_or_off(row["optimize_acknowledge"]))}</td>'
        f'<td class="why">{_name(row["why"], 400)}</td></tr>'
    )


def on_or_off(value: bool | None) -> str | None:
    return None if value is None else "on" if value else "off"


def _or_keep(value: object) -> str:
    return '<span class="soft">keep</span>' if value is None else f"<b>{text(value)}</b>"


def _table(head: Sequence[str], rows: Iterable[str], *, numbers: Iterable[int] = (), total: int) -> str:
    right = set(numbers)
    cells = "".join(f"<th{' class=n' if n in right else ''}>{text(it)}</th>" for n, it in enumerate(head))
    body = list(rows)
    more = f'<p class="soft">{len(body):,} of {total:,}; the table has all.</p>' if len(body) < total else ""
    table = f"<table><thead><tr>{cells}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    return f'<div class="card scroll">{table}{more}</div>'


def _number(value: int | None) -> str:
    return f'<td class="n{"" if value else " zero"}">{value or 0:,}</td>'


def _name(value: object, length_max: int = _NAME_LENGTH_MAX) -> str:
    """A name of any length; of one that is too long both ends, which tell most."""
    plain = str(value)
    if len(plain) > length_max:
        plain = f"{plain[: length_max // 2]}…{plain[-length_max // 2 :]}"
    return text(plain)

"""`ackwire audit report`: what a terminal and a real browser show of the tables of a day."""

import json
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ackwire.cli.main import main
from ackwire.errors import ConfigError
from ackwire.spark.audit.job import run_job
from ackwire.spark.audit.page import render
from ackwire.spark.audit.plots import duration, linear_ticks, log_ticks, path, short, text, time_step
from ackwire.spark.audit.report import POINTS_MAX, Report, read_report
from tests.spark_audit.events import Scribe, write_all
from tests.spark_audit.story import busy_day

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)

NASTY = (
    "queue://<script>document.title='taken'</script>\"'><img src=http://127.0.0.1:{port}/x.png onerror=alert(1)>\u202e"
)
CAUSE = "<b onmouseover=alert(1)>&amp;</b>\x1b[2J"


# ---- tables of a real job


@pytest.fixture(scope="module")
def day(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of a day on which everything happened, and nothing was lost."""
    folder = tmp_path_factory.mktemp("report")
    scribe = Scribe()
    busy_day(scribe)
    for copy in [scribe.send(NASTY.format(port=1)) for _ in range(30)]:
        scribe.consume(copy, "<i>slow</i>", work_ms=1200)
    scribe.kill(scribe.send(NASTY.format(port=1)), CAUSE)
    write_all(folder / "events", scribe.events, per_file=500)
    assert run_job(spark, folder / "events", folder / "out").adds_up
    return folder / "out"


def test_the_terminal_shows_sums_latencies_dead_letters_slow_consumers_and_advice(
    day: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "report", str(day)]) == 0
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    lines = printed.splitlines()
    report = read_report(day)
    orders = next(it for it in report.places if it["place"] == "queue://orders")
    line = next(it for it in lines if it.startswith("queue://orders "))
    assert line.split()[1:4] == [str(orders[it]) for it in ("stored", "found", "acked")]
    assert "adds up" in line
    assert re.search(r"[\d.]+ m?s / [\d.]+ m?s / [\d.]+ m?s", line)
    assert {"dead letters by cause", "slow consumers", "advice"} <= set(lines)
    assert lines[-1] == "2026-03-01: adds up"


def test_the_page_has_the_verdict_the_sums_and_the_plots(day: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert main(["audit", "report", str(day), "--html", str(page), "--date", "2026-03-01"]) == 0
    found = Seen(page.read_text())
    assert "Everything adds up" in found.text
    assert NASTY.format(port=1).replace("\u202e", "\\u202e") in found.text
    assert "\\x1b[2J" in found.text
    assert {"Stored, messages a second", "Acknowledged, messages a second", "Backlog"} <= found.labels
    assert found.text.count("dispatched to acknowledged") > 3
    found.is_harmless()


def test_percentiles_of_the_day_are_those_of_its_messages(day: Path) -> None:
    places = {it["place"]: it for it in read_report(day).places}
    slow = places[NASTY.format(port=1)]
    assert slow["dispatch_to_ack_ms"] == pytest.approx([1200.137] * 3)
    assert len(slow["store_to_dispatch_ms"]) == 3
    assert places["queue://ActiveMQ.DLQ"]["dispatch_to_ack_ms"] is None


# ---- tables made by hand


class Tables:
    """Tables as the job writes them, without the job."""

    def __init__(self, folder: Path, *, adds_up: bool = True) -> None:
        self.folder = folder
        self.adds_up = adds_up
        self.places: list[dict[str, Any]] = []
        self.minutes: list[dict[str, Any]] = []
        self.slots: list[dict[str, Any]] = []
        self.problems: list[dict[str, Any]] = []
        self.dead_letters: list[dict[str, Any]] = []

    def place(self, name: str, minutes: int, *, stored: int = 10, adds_up: bool = True) -> None:
        sums = dict.fromkeys(
            ["carried", "found", "dead_lettered", "expired", "purged", "discarded", "pending", "lost_in_crash",
             "difference", "redelivered"], 0,
        )  # fmt: skip
        count = stored * minutes
        row = {"broker": "b", "place": name, "stored": count, "acked": count, "adds_up": adds_up, **sums}
        self.places.append(row | {"store_to_dispatch_ms": [1.0, 2.0, 3.0], "dispatch_to_ack_ms": None})
        begin = datetime(2026, 3, 1, tzinfo=UTC)
        for number in range(minutes):
            latency = {f"{it}_p{p}_ms": p / 10 for it in ("store_to_dispatch", "dispatch_to_ack") for p in (50, 95, 99)}
            minute = begin + timedelta(minutes=number)
            counts = {"stored": stored, "acked": stored, "backlog": number}
            self.minutes.append({"broker": "b", "destination": name, "minute": minute, **counts, **latency})

    def write(self) -> Path:
        days = {"2026-03-01": {"files": {}, "adds_up": self.adds_up, "events": 1}}
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "manifest.json").write_text(json.dumps({"version": 1, "days": days}))
        if self.slots:
            (self.folder / "destinations_fine" / "date=2026-03-01").mkdir(parents=True)
            fine = self.folder / "destinations_fine" / "date=2026-03-01" / "part-0.parquet"
            pq.write_table(pa.Table.from_pylist(self.slots), fine)
        tables = {
            "reconciliation": self.places, "destinations_minute": self.minutes, "problems": self.problems,
            "dead_letters": self.dead_letters,
        }  # fmt: skip
        for name, rows in tables.items():
            target = self.folder / name / "date=2026-03-01"
            target.mkdir(parents=True)
            if rows:
                pq.write_table(pa.Table.from_pylist(rows), target / "part-0.parquet")
        return self.folder


def problem(kind: str, number: int, *, breaks: bool = True) -> dict[str, Any]:
    return {
        "kind": kind, "breaks": breaks, "place": "queue://q", "message_id": f"ID:{number}", "run": "r",
        "detail": "gone",
    }  # fmt: skip


def test_fifty_places_and_a_whole_day_make_a_page_below_two_megabytes(tmp_path: Path) -> None:
    tables = Tables(tmp_path / "out")
    for number in range(50):
        tables.place(f"queue://shop.orders.{number}", 1440, stored=number + 1)
    report = read_report(tables.write())
    assert report.times is not None
    assert report.times.count <= POINTS_MAX
    page = render(report)
    assert len(page.encode()) < 2_000_000
    seen = Seen(page)
    assert "42 other places together" in seen.text
    assert all(f"queue://shop.orders.{number}" in seen.text for number in range(50))
    assert "12 busiest of 50 places" in seen.text


def test_steps_keep_flow_the_highest_latency_and_the_last_backlog(tmp_path: Path) -> None:
    tables = Tables(tmp_path / "out")
    tables.place("queue://q", 1440, stored=60)
    tables.minutes[3]["dispatch_to_ack_p99_ms"] = 5000.0
    del tables.minutes[12:24]  # minutes without a row: nothing happened
    report = read_report(tables.write())
    assert report.times is not None
    assert report.times.step_seconds == 360
    (series,) = report.series.values()
    assert series.stored[:5] == pytest.approx([1.0, 1.0, 0.0, 0.0, 1.0])
    assert series.backlog[:5] == [5, 11, 11, 11, 29]
    assert series.latency_ms["dispatch_to_ack_p99"][:3] == [5000.0, 9.9, None]


def test_a_queue_in_which_nothing_happens_is_drawn_with_what_waits_there(tmp_path: Path) -> None:
    tables = Tables(tmp_path / "out")
    tables.place("queue://busy", 30)
    tables.place("queue://idle", 0)
    tables.places[-1] |= {"carried": 60_000, "pending": 60_000}
    report = read_report(tables.write())
    assert set(report.series["b", "queue://idle"].backlog) == {60_000.0}
    backlog = render(report).partition("<h2>Backlog</h2>")[2].partition("<h2>")[0]
    assert "queue://idle" in Seen(backlog).text


def test_what_was_carried_over_waits_from_the_beginning_of_the_day(tmp_path: Path) -> None:
    tables = Tables(tmp_path / "out")
    tables.place("queue://early", 10)
    tables.place("queue://late", 10)
    del tables.minutes[10:17]  # of the first minutes of the second place
    tables.places[-1]["carried"] = 500
    report = read_report(tables.write())
    assert report.series["b", "queue://late"].backlog == [500.0] * 7 + [7.0, 8.0, 9.0]


def test_a_day_on_which_nothing_happened_to_what_waits_is_drawn_whole(tmp_path: Path) -> None:
    tables = Tables(tmp_path / "out")
    tables.place("queue://idle", 0)
    tables.places[-1] |= {"carried": 3, "pending": 3}
    report = read_report(tables.write())
    assert report.times is not None
    assert (report.times.begin.hour, report.times.count * report.times.step_seconds) == (0, 86_400)
    assert set(report.series["b", "queue://idle"].backlog) == {3.0}


def test_a_run_of_five_minutes_has_steps_of_seconds(tmp_path: Path) -> None:
    tables = Tables(tmp_path / "out")
    tables.place("queue://q", 5)
    latency = {key: value for key, value in tables.minutes[0].items() if key.endswith("_ms")}
    begin = datetime(2026, 3, 1, tzinfo=UTC)
    for number in range(60):
        slot = {"slot": begin + timedelta(seconds=5 * number), "stored": 10, "acked": 5, "backlog": 5 * number}
        tables.slots.append({"broker": "b", "destination": "queue://q", **slot, **latency})
    report = read_report(tables.write())
    assert report.times is not None
    assert (report.times.step_seconds, report.times.count) == (5, 60)
    assert report.series["b", "queue://q"].stored == [2.0] * 60
    assert "steps of 5 seconds" in Seen(render(report)).text


def test_the_tiles_are_the_sum_that_must_be_equal(tmp_path: Path) -> None:
    tables = Tables(tmp_path / "out")
    tables.place("queue://q", 10)
    tables.places[-1] |= {"carried": 7, "found": 3, "pending": 8, "lost_in_crash": 2, "redelivered": 1}
    tables.place("queue://other", 5)
    page = render(read_report(tables.write()))
    tiles = page.partition('<div class="tiles sum">')[2].partition("</div><p")[0]
    left, _, right = tiles.partition('<span class="sign">=</span>')
    amounts = [[int(it) for it in re.findall(r"<b>(-?[\d,]+)</b>", side)] for side in (left, right)]
    assert sum(amounts[0]) == sum(amounts[1]) == 160
    assert all(word in left for word in ("carried over", "stored", "found"))
    assert all(word in right for word in ("acked", "pending", "lost in crash"))
    assert "1 redelivery besides" in Seen(page).text


def test_eight_places_have_eight_lines_that_differ(tmp_path: Path) -> None:
    tables = Tables(tmp_path / "out")
    for number in range(9):
        tables.place(f"queue://q{number}", 10, stored=100 - number)
    page = render(read_report(tables.write()))
    colours = re.findall(r"--s\d: (#[0-9a-f]{6})", page)
    assert len(set(colours)) == len(colours) == 16, "eight for light and eight for dark"
    flow = page.partition("<h2>Flow</h2>")[2].partition("<h2>")[0].partition("</ul>")[0]
    assert re.findall(r'<li><i class="(\w+)">', flow) == [*(f"s{n}" for n in range(8)), "other"]


def test_what_does_not_add_up_is_on_top_with_its_ids(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tables = Tables(tmp_path / "out", adds_up=False)
    tables.place("queue://fine", 3)
    tables.place("queue://q", 3, adds_up=False)
    tables.problems = [problem("never_acked", number, breaks=False) for number in range(500)] + [problem("lost", 7777)]
    out = tables.write()
    seen = Seen(render(read_report(out)))
    assert "Does not add up" in seen.text
    assert "1 place of 2 with sums that differ" in seen.text
    assert "ID:7777" in seen.text
    assert "never acked: 500" in seen.text
    assert seen.text.index("queue://q") < seen.text.index("queue://fine")
    assert main(["audit", "report", str(out)]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "2026-03-01: DOES NOT ADD UP"


def test_a_day_without_messages_has_a_page(tmp_path: Path) -> None:
    seen = Seen(render(read_report(Tables(tmp_path / "out").write())))
    assert "Nothing happened on this day" in seen.text
    assert "Everything adds up" in seen.text


def test_a_folder_without_tables_says_how_to_make_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "report", str(tmp_path)]) == 2
    assert "make some with ackwire audit run" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="no tables of 2020-01-01; there are some of 2026-03-01"):
        read_report(Tables(tmp_path / "out").write(), "2020-01-01")
    assert main(["audit", "report", str(tmp_path / "out"), "--html", str(tmp_path / "no" / "page.html")]) == 2


# ---- a real browser


@pytest.mark.skipif(
    shutil.which("chromium") is None, reason="needs Debian's chromium: tools/debian_packages.sh chromium"
)
def test_chromium_shows_the_page_and_asks_nobody_for_anything(tmp_path: Path) -> None:
    with listening() as (port, asked):
        tables = Tables(tmp_path / "out")
        tables.place(NASTY.format(port=port), 30)
        tables.dead_letters = [
            {"cause": CAUSE, "destination": NASTY.format(port=port), "messages": 3, "newest_id": "</style>",
             "last_time": datetime(2026, 3, 1, tzinfo=UTC)},
        ]  # fmt: skip
        page = tmp_path / "page.html"
        page.write_text(render(read_report(tables.write())))
        dom = dumped(page, tmp_path)
        control = tmp_path / "control.html"
        control.write_text(f"<!doctype html><img src=http://127.0.0.1:{port}/control.png>")
        dumped(control, tmp_path)
        assert asked == [b"GET /control.png HTTP/1.1"]  # it would have asked, had there been anything to ask for
    seen = Seen(dom)
    assert seen.title == "Ackwire audit, 2026-03-01"
    assert seen.tags.count("svg") > 5
    assert NASTY.format(port=port).replace("\u202e", "\\u202e") in seen.text
    seen.is_harmless()


def dumped(page: Path, folder: Path) -> str:
    """The document as Chromium understands it."""
    command = [
        "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
        "--disable-component-update", "--no-first-run", f"--user-data-dir={folder / 'profile'}", "--dump-dom",
        page.as_uri(),
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout


@contextmanager
def listening() -> Iterator[tuple[int, list[bytes]]]:
    """A port, and the first line of every request that comes there."""
    asked: list[bytes] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                if line := connection.recv(1000).split(b"\r\n")[0]:
                    asked.append(line)
                connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1], asked
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


class Seen(HTMLParser):
    """What is in a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.labels: set[str] = set()
        self.title = self.text = self.style = ""
        self._inside: list[str] = [""]
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._inside.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self.labels |= {value or "" for name, value in attrs if name == "aria-label"}

    def handle_endtag(self, tag: str) -> None:
        self._inside.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        match self._inside[-1]:
            case "title" if not self.title:
                self.title = data
            case "style":
                self.style += data
            case _:
                self.text += data

    def is_harmless(self) -> None:
        """No script, nothing that is fetched, no markup that came from outside."""
        assert not set(self.tags) & {
            "script",
            "img",
            "iframe",
            "object",
            "embed",
            "link",
            "base",
            "form",
            "b onmouseover",
        }
        names = {name for name, _ in self.attributes}
        assert not names & {"src", "href", "xlink:href", "srcset", "action", "style"}
        assert not [it for it in names if it.startswith("on")]
        assert not re.search(r"url\(|@import|expression", self.style)


# ---- numbers and lines


def test_numbers_and_times_are_short() -> None:
    assert [short(it) for it in (0, 0.25, 20, 1500, 3e6, 2.5e9)] == ["0", "0.25", "20", "1.5k", "3M", "2.5G"]
    times = [duration(it) for it in (None, 0.137, 12, 999.9, 1500, 90_000, 180_000, 9e6)]
    assert times == ["–", "0.137 ms", "12 ms", "1000 ms", "1.5 s", "90 s", "3 min", "2.5 h"]


def test_axes_have_few_round_ticks() -> None:
    assert linear_ticks(0) == [0, 1]
    assert linear_ticks(19) == [0, 5, 10, 15, 20]
    assert linear_ticks(0.3)[-1] == pytest.approx(0.3)
    assert log_ticks(0.0, 0.0) == [0.01, 0.1]
    assert log_ticks(3, 4000) == [1, 10, 100, 1000, 10_000]
    assert len(log_ticks(0.01, 3_600_000)) <= 7
    assert time_step(86_400, 17) == 7200
    assert time_step(300, 17) == 30
    assert time_step(600, 17) == 60


def test_a_line_has_gaps_where_nothing_was_measured_and_dots_where_a_point_is_alone() -> None:
    drawn = path([(0, 1), (1, 1), None, (3, 2), None])
    assert 'd="M0.0 1.0L1.0 1.0M3.0 2.0"' in drawn
    assert drawn.count("<circle") == 1
    assert path([None]) == ""


def test_texts_cannot_be_markup_or_move_a_terminal() -> None:
    assert text("<a href='x'>&\u202e\x00") == "&lt;a href=&#x27;x&#x27;&gt;&amp;\\u202e\\x00"


def test_an_empty_report_adds_nothing_up() -> None:
    report = Report("2026-03-01", True, 0, {}, [], {}, [], [], [], [])
    assert report.wrong_places == 0
    assert not any(report.sums.values())

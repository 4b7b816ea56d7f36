"""`ackwire audit follow`: counts stay exact across restarts, repetitions and late files; and what raises an alert."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from ackwire.errors import ConfigError
from ackwire.spark.audit.alerts import COUNTED, Alert, BatchCounts
from ackwire.spark.audit.follow import Follower, events_root
from tests.helpers.quick_java import QUICK_JAVA
from tests.spark_audit.events import Event, Scribe, write, write_all
from tests.spark_audit.story import busy_day

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)


class Following:
    """Folders of a test, and what the follower says about them."""

    def __init__(self, spark: "SparkSession", folder: Path) -> None:
        self.spark = spark
        self.events = folder / "audit" / "events"
        self.events.mkdir(parents=True)
        self.checkpoint = folder / "checkpoint"
        self.out = folder / "counts of it"
        self.alerts: list[Alert] = []
        self.follower: Follower | None = None

    def once(self, files_per_batch: int = 10) -> Follower:
        """As `ackwire audit follow --once`: a new follower takes what is new, and ends."""
        self.follower = follower = Follower(
            self.spark,
            events_root(self.events.parent),
            self.checkpoint,
            out=self.out,
            on_batch=self.on_batch,
            files_per_batch=files_per_batch,
        )
        follower.save_first()
        query = follower.start(every_seconds=None)
        query.awaitTermination()
        return follower

    def on_batch(self, follower: Follower, counts: BatchCounts, alerts: list[Alert]) -> None:
        del follower, counts
        self.alerts += alerts

    def written(self) -> Counter[tuple[int, str, str]]:
        """The counts that are on the disk, by minute, place and event."""
        found: Counter[tuple[int, str, str]] = Counter()
        for path in self.out.rglob("*.parquet"):
            for it in pq.ParquetFile(path).read().to_pylist():
                assert f"hour={it['minute']:%H}" in str(path)
                found[int(it["minute"].timestamp()) // 60, it["place"], it["event"]] += it["count"]
        return found

    def kinds(self) -> set[str]:
        return {it.kind for it in self.alerts}


@pytest.fixture
def following(spark: "SparkSession", tmp_path: Path) -> Following:
    return Following(spark, tmp_path)


def counted(events: Sequence[Event]) -> Counter[tuple[int, str, str]]:
    """The truth: by minute, place and event."""
    its = [it for it in events if it["event"] in COUNTED]
    return Counter((int(it["time"].timestamp()) // 60, it.get("place") or it["destination"], it["event"]) for it in its)


def totals(follower: Follower) -> Counter[tuple[str, str]]:
    return Counter({(place, it): n for (_, place), its in follower.watch.totals.items() for it, n in its.items()})


def pending(scribe: Scribe) -> Counter[str]:
    return Counter(it.place for it in scribe.pending())


def test_counts_are_exact_when_it_is_stopped_and_goes_on_from_its_checkpoint(following: Following) -> None:
    scribe = Scribe()
    busy_day(scribe)
    half = len(scribe.events) // 2
    write_all(following.events, scribe.events[:half])
    first = following.once()
    assert following.written() == counted(scribe.events[:half])
    write_all(following.events, scribe.events[half:])
    second = following.once()
    assert second.watch.batch > first.watch.batch >= 0
    assert following.written() == counted(scribe.events)
    by_place = Counter[tuple[str, str]]()
    for (_, place, event), count in counted(scribe.events).items():
        by_place[place, event] += count
    assert totals(second) == by_place
    assert second.watch.late == 0
    held = Counter({place: count for (_, place), count in second.watch.backlog.items() if count})
    assert held == pending(scribe)
    assert following.once().watch.to_json() == second.watch.to_json()  # nothing new: nothing changes


def test_repeated_events_count_once_in_a_micro_batch_and_across(following: Following) -> None:
    scribe = Scribe()
    for copy in [scribe.send() for _ in range(30)]:
        scribe.consume(copy)
    events = scribe.events
    write(following.events, events[:60], "a.parquet")
    write(following.events, events[40:80], "b.parquet")
    following.once(files_per_batch=2)
    write(following.events, events[70:], "c.parquet")
    write(following.events, events[:60], "d.parquet")
    follower = following.once(files_per_batch=1)
    assert following.written() == counted(events)
    assert follower.watch.repeated == 20 + 10 + 60


def test_late_events_count_in_their_own_minute(following: Following) -> None:
    scribe = Scribe()
    early = [scribe.send() for _ in range(5)]
    late_part = len(scribe.events)
    for copy in early:
        scribe.consume(copy)
    first_part = len(scribe.events)
    scribe.wait(hours=2)
    scribe.consume(scribe.send())
    events = scribe.events
    write(following.events, events[:late_part])
    write(following.events, events[first_part:])
    following.once()
    write(following.events, events[late_part:first_part])
    follower = following.once()
    assert following.written() == counted(events)
    assert follower.watch.late == first_part - late_part


def test_a_micro_batch_that_is_done_again_after_a_crash_counts_nothing_twice(
    following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    scribe = Scribe()
    busy_day(scribe, rounds=2)
    write_all(following.events, scribe.events)

    def crash(self: Follower) -> None:
        if self.watch.batch == 1:
            raise OSError("no space left on device")
        saving(self)

    saving = Follower._save
    with monkeypatch.context() as patch:
        patch.setattr(Follower, "_save", crash)
        with pytest.raises(Exception, match="no space left"):
            following.once(files_per_batch=2)
        assert following.follower is not None
        assert isinstance(following.follower.error, OSError)
    assert following.written()  # the counts of the micro-batch are on the disk, and its state is not
    following.once()
    assert following.written() == counted(scribe.events)


def test_a_new_checkpoint_counts_anew_into_the_same_folder(following: Following, tmp_path: Path) -> None:
    scribe = Scribe()
    busy_day(scribe, rounds=1)
    write_all(following.events, scribe.events)
    following.once()
    following.checkpoint = tmp_path / "another"
    following.once()
    assert following.written() == counted(scribe.events)


def test_a_checkpoint_belongs_to_its_events(following: Following, tmp_path: Path) -> None:
    write_all(following.events, Scribe().events)
    following.once()
    following.events = tmp_path / "other" / "events"
    following.events.mkdir(parents=True)
    with pytest.raises(ConfigError, match="use another --checkpoint"):
        following.once()
    with pytest.raises(ConfigError, match="is no directory"):
        events_root(tmp_path / "nowhere")


def test_dead_letters_and_expired_messages_raise_alerts_with_their_causes(following: Following) -> None:
    scribe = Scribe()
    for cause in ("poison", "poison", "too large"):
        scribe.kill(scribe.send(), cause)
    scribe.end(scribe.send("queue://mail"), "expired")
    write_all(following.events, scribe.events)
    following.once()
    alerts = {it.kind: it for it in following.alerts}
    assert set(alerts) == {"dead_letters", "expired"}
    assert alerts["dead_letters"].to_json() | {"time": ""} == {
        "alert": "dead_letters", "time": "", "broker": "test", "place": "queue://orders", "count": 3,
        "causes": {"poison": 2, "too large": 1},
        "text": "queue://orders: 3 messages became dead letters: 2 × poison; 1 × too large",
    }  # fmt: skip
    assert alerts["expired"].text == "queue://mail: 1 message expired"
    following.alerts.clear()
    following.once()
    assert not following.alerts


def test_redeliveries_above_the_rate_raise_one_alert_until_they_end(following: Following) -> None:
    scribe = Scribe()
    for _ in range(2):
        for copy in [scribe.send() for _ in range(20)]:
            scribe.dispatch(copy)
            scribe.back(copy)
            scribe.consume(copy)
        scribe.wait(seconds=20)
    write_all(following.events, scribe.events)
    following.once(files_per_batch=2)
    assert [it.kind for it in following.alerts] == ["redeliveries"]


def test_a_growing_backlog_raises_an_alert(following: Following) -> None:
    scribe = Scribe()
    for _ in range(4):
        for copy in [scribe.send() for _ in range(60)][:10]:
            scribe.consume(copy)
        scribe.wait(minutes=1)
        scribe.census()
    write_all(following.events, scribe.events, per_file=1000)
    following.once()
    assert [it.details for it in following.alerts] == [{"backlog": 200, "growth": 150}]


def test_a_consumer_that_has_messages_and_handles_none_raises_an_alert(following: Following) -> None:
    scribe = Scribe()
    for copy in [scribe.send() for _ in range(5)]:
        scribe.dispatch(copy, "dead")
    other = scribe.send()
    scribe.dispatch(other, "gone")
    scribe.event("returned", place=other.place, sequence=other.sequence, consumer="gone")
    for _ in range(5):
        scribe.consume(scribe.send(), "alive")
        scribe.wait(seconds=10)
    scribe.census()
    write_all(following.events, scribe.events)
    following.once()
    assert [it.details["consumer"] for it in following.alerts] == ["dead"]
    assert following.alerts[0].details["messages"] == 5


def test_missing_events_raise_an_alert_unless_they_come_soon(following: Following) -> None:
    scribe = Scribe()
    for _ in range(20):
        scribe.consume(scribe.send())
        scribe.wait(seconds=10)
    events = scribe.events
    write(following.events, events[:20])
    write(following.events, events[25:28])
    following.once()
    assert not following.alerts  # they may still come
    write(following.events, events[28:])
    following.once()
    assert [it.to_json()["first"] for it in following.alerts] == [21]
    write(following.events, events[20:25])
    following.once()
    assert [it.kind for it in following.alerts] == ["missing_events", "missing_events_came"]


def test_temporary_queues_count_together(following: Following) -> None:
    scribe = Scribe()
    for number in range(5):
        scribe.consume(scribe.send(f"temp-queue://ID:x:{number}"))
    write_all(following.events, scribe.events)
    assert totals(following.once())["temp-queue://*", "acked"] == 5


def test_a_quiet_broker_is_looked_at_by_the_clock(following: Following) -> None:
    scribe = Scribe(start=datetime.now(UTC) - timedelta(seconds=100))
    scribe.dispatch(scribe.send(), "dead")
    write_all(following.events, scribe.events)
    follower = following.once()
    assert not following.alerts
    assert [it.kind for it in follower.look()] == ["consumer_stopped"]
    assert not follower.look()


@pytest.mark.system
def test_the_program_tells_alerts_as_json_ends_with_ctrl_c_and_goes_on(tmp_path: Path) -> None:
    events = tmp_path / "audit" / "events"
    scribe = Scribe()
    scribe.kill(scribe.send(), "poison\x1b[2J")
    half = len(scribe.events)
    write(events, scribe.events)
    counts = tmp_path / "counts"
    options = ["audit", "follow", str(tmp_path / "audit"), "--out", str(counts), "--master", "local[1]", "--json"]
    command = [sys.executable, "-m", "ackwire", *options]
    environment = {**os.environ, **QUICK_JAVA}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*command, "--every", "1s"], text=True, env=environment, **pipes) as it:
        assert it.stdout is not None
        assert json.loads(it.stdout.readline())["causes"] == {"poison\x1b[2J": 1}
        scribe.end(scribe.send(), "expired")
        write(events, scribe.events[half:])
        assert json.loads(it.stdout.readline())["alert"] == "expired"
        it.send_signal(signal.SIGINT)
        assert it.wait() == 0
        assert it.stderr is not None
        assert "ended; the next start goes on from here" in it.stderr.read().splitlines()
    part = len(scribe.events)
    scribe.consume(scribe.send())
    write(events, scribe.events[part:])
    again = subprocess.run([*command, "--once"], capture_output=True, text=True, check=True, env=environment)
    assert again.stdout == ""
    assert "going on after micro-batch 1" in again.stderr
    found = Counter[str]()
    for path in counts.rglob("*.parquet"):
        for row in pq.ParquetFile(path).read().to_pylist():
            found[row["event"]] += row["count"]
    assert found == Counter(it["event"] for it in scribe.events if it["event"] in COUNTED)

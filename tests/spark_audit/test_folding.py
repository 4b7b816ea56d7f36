"""Rows of the same copy become one, however they are grouped on the way; without Spark."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ackwire.spark.audit.classify import Judge
from ackwire.spark.audit.reduce import Folder
from ackwire.spark.audit.runs import Run, Runs
from tests.spark_audit.events import Event, Scribe, write
from tests.spark_audit.story import busy_day


def lives(folder: Path, parts: Sequence[Sequence[Event]], buckets: int) -> list[dict[str, Any]]:
    """The lives that come of these events, each part of which is folded alone first."""
    folder.mkdir()
    events = [it for part in parts for it in part]
    places = {(it["broker"], it.get("place") or it.get("destination")) for it in events}
    consumers = {it["consumer"] for it in events if it.get("consumer")}
    spots = [(broker, place, "") for broker, place in places if place]
    spots += [(broker, place, it) for broker, place, _ in spots if place.startswith("topic://") for it in consumers]
    names = sorted({it["run"] for it in events})
    runs = Runs({name: Run(name, "test", index, 0, 0, settled=True) for index, name in enumerate(names)})
    firsts = {it.name: it.first_order for it in runs.by_name.values()}
    tools = Folder(folder, buckets, {it: number for number, it in enumerate(spots)}, firsts)
    files: dict[int, list[str]] = {}
    for number, part in enumerate(parts):
        for bucket, path in tools.fold_events([str(write(folder, part, f"{number}.parquet"))]):
            files.setdefault(bucket, []).append(path)
    judge = Judge(folder, spots, runs.ends())
    found = [row for its in files.values() for _, path in judge.judge(its) for row in pq.read_table(path).to_pylist()]
    return sorted(found, key=lambda it: (it["place"], it["sequence"], it["subscriber"]))


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.sets(st.integers(1, 250), max_size=6), buckets=st.integers(1, 3), backwards=st.booleans())
def test_lives_are_the_same_however_the_events_are_cut(
    tmp_path_factory: Any, cuts: set[int], buckets: int, backwards: bool
) -> None:
    folder = tmp_path_factory.mktemp("lives")
    scribe = Scribe()
    busy_day(scribe, rounds=2)
    borders = [0, *sorted(cuts), len(scribe.events)]
    parts = [scribe.events[one:other] for one, other in pairwise(borders) if one < other]
    whole = lives(folder / "whole", [scribe.events], 1)
    cut = lives(folder / "cut", parts[::-1] if backwards else parts, buckets)
    assert cut == whole
    assert not any(it["doubled"] for it in whole)


def test_a_copy_that_goes_out_again_without_having_come_back_is_doubtful_wherever_the_files_end(tmp_path: Path) -> None:
    scribe = Scribe()
    good, bad = scribe.send(), scribe.send()
    scribe.dispatch(good)
    scribe.dispatch(bad)
    border = len(scribe.events)
    scribe.back(good)
    scribe.dispatch(bad)
    scribe.dispatch(good)
    for name, parts in {"whole": [scribe.events], "cut": [scribe.events[:border], scribe.events[border:]]}.items():
        doubled = {it["message_id"]: it["doubled"] for it in lives(tmp_path / name, parts, 2)}
        assert doubled == {good.message_id: False, bad.message_id: True}

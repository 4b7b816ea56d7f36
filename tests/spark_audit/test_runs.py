"""Numbers of runs, and which run takes what with it."""

from ackwire.spark.audit.runs import Run, Runs, Span, holes, merged, overlaps, size, without


def test_intervals_that_touch_become_one() -> None:
    assert merged([(5, 9), (1, 4), (12, 13)]) == [(1, 9), (12, 13)]


def test_overlaps_are_the_numbers_that_are_there_twice() -> None:
    assert overlaps([(1, 10), (8, 12), (13, 20), (1, 2)]) == [(1, 2), (8, 10)]
    assert overlaps([(1, 5), (6, 9)]) == []


def test_without_takes_numbers_out() -> None:
    assert without([(1, 10)], [(3, 4), (9, 20)]) == [(1, 2), (5, 8)]
    assert without([(1, 3)], []) == [(1, 3)]
    assert size([(1, 2), (5, 8)]) == 6


def test_holes_below_something_new_are_found_and_others_were_told_before() -> None:
    assert holes([(3, 5), (8, 9)], new=[(8, 9)]) == [(6, 7)]
    assert holes([(3, 5), (8, 9)], new=[(3, 5), (8, 9)]) == [(1, 2), (6, 7)]
    assert holes([(1, 9)], new=[(4, 5)]) == []


def test_a_file_is_dense_when_each_number_is_there_once() -> None:
    assert _span("r", 1, 4).is_dense
    assert not Span("f", "r", "b", 1, 4, 4, 1 + 2 + 2 + 4, 0, 0, stopped=False, settled=True).is_dense
    assert not Span("f", "r", "b", 1, 4, 3, 7, 0, 0, stopped=False, settled=True).is_dense


def test_runs_keep_their_index_and_later_ones_come_after() -> None:
    first = Runs().with_spans([_span("b2", 1, 5, at=20), _span("b1", 1, 5, at=10)], {"b1": [(1, 5)], "b2": [(1, 5)]})
    assert {it.name: it.index for it in first.by_name.values()} == {"b1": 0, "b2": 1}
    second = first.with_spans([_span("b3", 1, 2, at=30), _span("b2", 6, 9, at=21)], {"b3": [(1, 2)], "b2": [(6, 9)]})
    assert second.by_name["b2"].seen == ((1, 9),)
    assert second.by_name["b3"].index == 2
    assert Run.from_json(second.by_name["b3"].to_json()) == second.by_name["b3"]


def test_a_crash_takes_what_was_not_restored_and_a_clean_stop_only_what_was_not_persistent() -> None:
    runs = Runs(
        {
            "a": Run("a", "b", 0, 10, 19, stopped=True, settled=True),
            "b": Run("b", "b", 1, 20, 29, stopped=False, settled=True),
            "c": Run("c", "b", 2, 30, 39, stopped=False, settled=True),
        }
    )
    clean, crashed, last = sorted(runs.ends(), key=lambda it: it.index)
    assert (clean.persistent_gone_at, clean.other_gone_at) == (2, 1)
    assert (crashed.persistent_gone_at, crashed.other_gone_at) == (2, 2)
    assert (last.persistent_gone_at, last.other_gone_at) == (None, None)


def test_nothing_is_gone_while_the_next_run_still_restores() -> None:
    runs = Runs({"a": Run("a", "b", 0, 10, 19), "b": Run("b", "b", 1, 20, 29, settled=False)})
    assert all(it.persistent_gone_at is None and it.other_gone_at is None for it in runs.ends())


def _span(run: str, first: int, last: int, at: int = 0) -> Span:
    count = last - first + 1
    return Span("f", run, "b", first, last, count, count * (first + last) // 2, at, at, stopped=False, settled=True)

"""Runs: an ordered list of numbers in which consecutive numbers are stored as one pair."""

from collections.abc import Iterable, Sequence

Runs = tuple[int, ...]
"""The first of a run, how many from there on, the first of the next, how many, …"""


def runs_of(sequences: Iterable[int]) -> Runs:
    """*sequences* as runs, in their order."""
    runs: list[int] = []
    expected = -1
    for sequence in sequences:
        if sequence == expected:
            runs[-1] += 1
        else:
            runs += (sequence, 1)
        expected = sequence + 1
    return tuple(runs)


def sequences_of(runs: Runs) -> Iterable[int]:
    for first, count in pairs(runs):
        yield from range(first, first + count)


def pairs(runs: Sequence[int]) -> Iterable[tuple[int, int]]:
    """First sequence and number of each run."""
    return zip(runs[::2], runs[1::2], strict=True)


def drop_first(runs: list[int], count: int) -> None:
    """Leave out the first *count* numbers of *runs*."""
    whole = 0
    while whole < len(runs) and runs[whole + 1] <= count:
        count -= runs[whole + 1]
        whole += 2
    del runs[:whole]
    if count and runs:
        runs[0] += count
        runs[1] -= count

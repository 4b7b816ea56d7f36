"""Watchers by pattern: the tree finds what `matches_pattern` says, in the order of arrival."""

import random

from ackwire.broker.patterns import PatternTree
from ackwire.jms.destinations import matches_pattern


def _name(rng: random.Random, levels: tuple[str, ...]) -> str:
    return ".".join(rng.choice(levels) for _ in range(rng.randint(1, 4)))


def test_A8_the_tree_agrees_with_a_look_at_every_pattern() -> None:
    rng = random.Random(18)
    tree: PatternTree[int] = PatternTree()
    watching: dict[int, str] = {}
    for _ in range(3000):
        if rng.random() < 0.3:
            pattern = _name(rng, ("a", "b", "", "*", ">"))
            watching[tree.add(pattern, len(watching))] = pattern
        elif watching and rng.random() < 0.4:
            number = rng.choice(list(watching))
            tree.remove(watching.pop(number), number)
        name = _name(rng, ("a", "b", "c", ""))
        expected = [number for number, pattern in watching.items() if matches_pattern(pattern, name)]
        assert len(tree.matching(name)) == len(expected)
        assert tree.has_match(name) == bool(expected)


def test_A8_watchers_are_found_in_the_order_in_which_they_came() -> None:
    tree: PatternTree[str] = PatternTree()
    for pattern in (">", "a.*", "a.b", "*.b", "a.>", "c"):
        tree.add(pattern, pattern)
    assert tree.matching("a.b") == [">", "a.*", "a.b", "*.b", "a.>"]
    assert tree.matching("a") == [">", "a.>"]


def test_A8_nothing_is_left_of_patterns_that_are_gone() -> None:
    tree: PatternTree[str] = PatternTree()
    numbers = {pattern: tree.add(pattern, pattern) for pattern in ("a.b.*", "a.b.c", "a.>", "x")}
    for pattern, number in numbers.items():
        tree.remove(pattern, number)
    assert tree._root.is_empty

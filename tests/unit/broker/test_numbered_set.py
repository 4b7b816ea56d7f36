"""Rolls: a reader stops and goes on, while entries come and go."""

import random

from ackwire.broker.numbered_set import NumberedSet


def test_a_reader_sees_what_was_there_and_still_is_in_order() -> None:
    rng = random.Random(7)
    numbered: NumberedSet[str] = NumberedSet()
    for number in range(500):
        numbered.add(f"e{number}")
    there = dict.fromkeys(f"e{number}" for number in range(500))
    last, after, seen = numbered.last_number, 0, list[str]()
    gone_before: set[str] = set()
    while portion := numbered.between(after, last, 7):
        seen += [entry for _, entry in portion]
        after = portion[-1][0]
        for _ in range(6):
            victim = rng.choice(list(there))
            del there[victim]
            numbered.discard(victim)
            numbered.discard(victim)
            if victim not in seen:
                gone_before.add(victim)
        numbered.add(f"late{after}")
        there[f"late{after}"] = None
    assert seen == [f"e{number}" for number in range(500) if f"e{number}" not in gone_before]
    assert len(numbered) == len(there)
    assert [entry for _, entry in numbered.between(0, numbered.last_number, 10_000)] == list(there)


def test_what_comes_back_is_a_new_entry() -> None:
    numbered: NumberedSet[str] = NumberedSet()
    numbered.add("a")
    last = numbered.last_number
    numbered.discard("a")
    assert numbered.number_of("a") is None
    numbered.add("a")
    assert numbered.between(0, last, 10) == []
    assert numbered.number_of("a") == 2

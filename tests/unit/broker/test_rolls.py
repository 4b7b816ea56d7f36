"""Rolls: a reader stops and goes on, while entries come and go."""

import random

from ackwire.broker.rolls import Roll


def test_a_reader_sees_what_was_there_and_still_is_in_order() -> None:
    rng = random.Random(7)
    roll: Roll[str] = Roll()
    for number in range(500):
        roll.add(f"e{number}")
    there = dict.fromkeys(f"e{number}" for number in range(500))
    last, after, seen = roll.last_number, 0, list[str]()
    gone_before: set[str] = set()
    while portion := roll.between(after, last, 7):
        seen += [entry for _, entry in portion]
        after = portion[-1][0]
        for _ in range(6):
            victim = rng.choice(list(there))
            del there[victim]
            roll.discard(victim)
            roll.discard(victim)
            if victim not in seen:
                gone_before.add(victim)
        roll.add(f"late{after}")
        there[f"late{after}"] = None
    assert seen == [f"e{number}" for number in range(500) if f"e{number}" not in gone_before]
    assert len(roll) == len(there)
    assert [entry for _, entry in roll.between(0, roll.last_number, 10_000)] == list(there)


def test_what_comes_back_is_a_new_entry() -> None:
    roll: Roll[str] = Roll()
    roll.add("a")
    last = roll.last_number
    roll.discard("a")
    assert roll.number_of("a") is None
    roll.add("a")
    assert roll.between(0, last, 10) == []
    assert roll.number_of("a") == 2

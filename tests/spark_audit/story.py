"""Two hours in the life of a broker, with everything that may happen to a message, two restarts and a crash."""

import random

from tests.spark_audit.events import Copy, Scribe


def busy_day(scribe: Scribe, seed: int = 1, rounds: int = 6) -> None:
    """Known numbers of everything, in an order that the seed decides."""
    chance = random.Random(seed)
    for number in range(rounds):
        _round(scribe, chance)
        if number == rounds // 3:
            scribe.restart()
        if number == rounds // 2:
            _crash(scribe, chance)
        scribe.census()
        scribe.wait(minutes=7)
    scribe.census()


def _round(scribe: Scribe, chance: random.Random) -> None:
    queues = ["queue://orders", "queue://mail"]
    copies = [scribe.send(chance.choice(queues), persistent=chance.random() < 0.8, size=50 + n) for n in range(20)]
    copies += scribe.publish("topic://news", ["durable://app/all", "durable://app/some"])
    scribe.wait(milliseconds=chance.randint(1, 70_000))
    chance.shuffle(copies)
    for copy in copies:
        _treat(scribe, chance, copy)
    _topic(scribe)


def _treat(scribe: Scribe, chance: random.Random, copy: Copy) -> None:
    fate = chance.random()
    consumer = chance.choice(["c1", "c2"]) + copy.place[-3:]
    if fate < 0.5:
        scribe.consume(copy, consumer, work_ms=chance.randint(1, 900))
    elif fate < 0.65:
        scribe.dispatch(copy, consumer)
        scribe.back(copy)
        scribe.consume(copy, consumer, ack_type="individual", transaction="TX:7")
    elif fate < 0.75:
        for _ in range(2):
            scribe.dispatch(copy, consumer)
            scribe.back(copy)
        scribe.kill(copy, chance.choice(["redelivered 6 times", "poison"]))
    elif fate < 0.9:
        scribe.end(copy, chance.choice(["expired", "purged", "discarded"]))
    elif fate < 0.95:
        scribe.dispatch(copy, consumer)


def _topic(scribe: Scribe) -> None:
    """Two subscribers of a topic without names: each has its own copy, and nothing is stored for them."""
    for sequence_of in ("s1", "s2"):
        values = {"place": "topic://news", "destination": "topic://news", "sequence": 10**6 + len(scribe.events) // 100}
        scribe.event("dispatched", consumer=sequence_of, message_id="ID:n", size=10, persistent=True, **values)
        scribe.event("acked", consumer=sequence_of, message_id="ID:n", size=10, persistent=True, **values)


def _crash(scribe: Scribe, chance: random.Random) -> None:
    acked = scribe.send("queue://orders")
    scribe.consume(acked)
    for _ in range(5):
        scribe.send("queue://orders", persistent=chance.random() < 0.5)
    scribe.crash(undoing=[acked])  # the ack was written down, and did not get to the disk
    scribe.consume(acked)

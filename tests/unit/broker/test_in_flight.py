"""What is in flight to a consumer: ranges are found without a walk over all of it (SEMANTICS D, E)."""

import random

import pytest

from ackwire.broker.in_flight import InFlight, UnmatchedAck
from ackwire.jms.message import Message
from tests.helpers.broker_rig import BrokerRig


class CountedKey(bytes):
    """A key that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedKey.compared += 1
        return bytes.__eq__(self, other)

    def __hash__(self) -> int:
        return bytes.__hash__(self)


def _messages(count: int) -> list[Message]:
    client = BrokerRig().connect()
    return [client.message("queue://q") for _ in range(count)]


class Model:
    """The same as a plain list."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def bounds(self, first: Message | None, last: Message) -> tuple[int, int] | None:
        if last not in self.messages or (first is not None and first not in self.messages):
            return None
        begin = 0 if first is None else self.messages.index(first)
        end = self.messages.index(last)
        return (begin, end) if begin <= end else None

    def take(self, begin: int, end: int) -> list[Message]:
        taken = self.messages[begin : end + 1]
        del self.messages[begin : end + 1]
        return taken


def _step(rng: random.Random, in_flight: InFlight, model: Model, fresh: list[Message], out: list[Message]) -> None:
    match rng.choice(("add", "add", "add", "one", "one", "range", "oldest", "position", "back")):
        case "add" if fresh:
            model.messages.append(fresh.pop())
            in_flight.add(model.messages[-1])
        case "one" if model.messages:
            index = rng.randrange(len(model.messages))
            out += model.take(index, index)
            assert in_flight.take_one(out[-1].key) is out[-1]
        case "back" if out:
            count = rng.randint(1, min(3, len(out)))
            back, out[:] = out[:count], out[count:]
            model.messages[:0] = back
            in_flight.put_back_first(back)
        case "range" | "oldest" | "position" as what if model.messages:
            last = rng.choice(model.messages)
            first = rng.choice(model.messages) if what == "range" else None
            bounds = model.bounds(first, last)
            if bounds is None:
                with pytest.raises(UnmatchedAck):
                    in_flight.take_range(None if first is None else first.key, last.key, 2)
            elif what == "position":
                assert in_flight.position(last.key) == bounds[1] + 1
            elif bounds[1] - bounds[0] < 5:
                taken = model.take(*bounds)
                key = None if first is None else first.key
                with pytest.raises(UnmatchedAck):
                    in_flight.take_range(key, last.key, len(taken) + 1)
                assert in_flight.take_range(key, last.key, len(taken)) == taken
                out += taken


@pytest.mark.parametrize("seed", range(5))
def test_it_agrees_with_a_plain_list(seed: int) -> None:
    rng = random.Random(seed)
    in_flight, model = InFlight(), Model()
    fresh, out = _messages(300), list[Message]()
    for _ in range(2000):
        _step(rng, in_flight, model, fresh, out)
        assert list(in_flight) == model.messages
        assert len(in_flight) == len(model.messages)
        if not fresh:
            fresh, out = out, []


def test_an_ack_costs_no_walk_over_what_it_does_not_speak_of() -> None:
    messages = _messages(2000)
    in_flight = InFlight()
    for message in messages:
        message.key = CountedKey(message.key)
        in_flight.add(message)
    in_flight.take_one(messages[5].key)  # a gap
    CountedKey.compared = 0
    in_flight.check_range(messages[10].key, messages[1990].key)
    assert in_flight.position(messages[1990].key) == 1990
    assert in_flight.take_range(messages[1980].key, messages[1982].key, 3) == messages[1980:1983]
    assert CountedKey.compared < 100


def test_what_is_finished_is_let_go() -> None:
    messages = _messages(10)
    in_flight = InFlight()
    for message in messages:
        in_flight.add(message)
    in_flight.take_range(None, messages[3].key, 4)
    in_flight.take_range(messages[5].key, messages[6].key, 2)
    assert [it for it in in_flight._slots if it is not None] == [messages[4], *messages[7:]]

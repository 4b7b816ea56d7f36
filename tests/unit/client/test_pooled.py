"""`PooledConsumer` without a broker: who works, what is acknowledged, how it ends."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ackwire.client import Message, TextMessage
from ackwire.client.errors import IllegalArgumentError, IllegalStateError, RequestTimedOutError
from tests.helpers.flavours import Flavour
from tests.helpers.stand_in import WAIT_SECONDS, StandInBroker, StandInConnection, StandInFactory
from tests.unit.client.flavour import shelled


def text_of(message: Message) -> str:
    assert isinstance(message, TextMessage)
    assert message.text is not None
    return message.text


class Gate:
    """A handler that waits for permission, and knows who is in."""

    def __init__(self) -> None:
        self.inside = threading.Semaphore(0)
        self.permits = threading.Semaphore(0)
        self.begun: list[str] = []

    def __call__(self, message: Message) -> None:
        self.begun.append(text_of(message))
        self.inside.release()
        assert self.permits.acquire(timeout=WAIT_SECONDS)

    def wait_for(self, count: int) -> None:
        for _ in range(count):
            assert self.inside.acquire(timeout=WAIT_SECONDS)

    def let(self, count: int) -> None:
        self.permits.release(count)


def pool_of(flavour: Flavour, broker: StandInBroker, handler: Callable[[Message], Any], **options: Any) -> Any:
    source = shelled(flavour, StandInFactory(broker))
    return flavour.modules.pooled.PooledConsumer(source, "orders", flavour.handler(handler), **options)


@contextmanager
def running(
    flavour: Flavour, broker: StandInBroker, handler: Callable[[Message], Any], **options: Any
) -> Iterator[Any]:
    with flavour.using(pool_of(flavour, broker, handler, **options)) as pool:
        yield pool


def test_M1_every_message_is_handled_and_then_acknowledged(flavour: Flavour) -> None:
    broker = StandInBroker()
    seen: list[str] = []

    def handle(message: Message) -> None:
        assert text_of(message) not in broker.acknowledged
        seen.append(text_of(message))

    texts = [f"m{number}" for number in range(50)]
    broker.put(*texts)
    with running(flavour, broker, handle, workers=3):
        broker.wait_until(lambda: len(broker.acknowledged) == 50)
    assert sorted(seen) == sorted(broker.acknowledged) == sorted(texts)
    assert not broker.rejected


def test_M1_N4_nothing_is_acknowledged_before_its_worker_has_finished(flavour: Flavour) -> None:
    broker, gate = StandInBroker(), Gate()
    broker.put("a", "b")
    with running(flavour, broker, gate, workers=2) as pool:
        gate.wait_for(2)
        assert broker.acknowledged == []
        assert pool.working == 2
        gate.let(1)
        broker.wait_until(lambda: len(broker.acknowledged) == 1)
        gate.let(1)
    assert sorted(broker.acknowledged) == ["a", "b"]


def test_M1_N5_when_the_queue_is_full_the_one_who_takes_works_himself_and_takes_no_more(flavour: Flavour) -> None:
    broker, gate = StandInBroker(), Gate()
    broker.put(*(f"m{number}" for number in range(10)))
    with running(flavour, broker, gate, workers=2, queue_size=3) as pool:
        gate.wait_for(3)  # two workers, and the one who takes
        assert (pool.working, pool.waiting, broker.waiting.qsize()) == (3, 3, 4)
        assert sorted(gate.begun) == ["m0", "m1", "m5"], "the sixth found the queue full"
        gate.let(10)
        broker.wait_until(lambda: len(broker.acknowledged) == 10)
    assert not broker.rejected


def test_M1_without_a_queue_a_message_goes_to_a_worker_that_is_free(flavour: Flavour) -> None:
    broker, gate = StandInBroker(), Gate()
    with running(flavour, broker, gate, workers=1, queue_size=0) as pool:
        broker.put("a", "b", "c")
        gate.wait_for(2)
        assert (pool.working, pool.waiting, broker.waiting.qsize()) == (2, 0, 1)
        gate.let(3)
        broker.wait_until(lambda: len(broker.acknowledged) == 3)


def test_M1_F1_a_handler_that_raises_gives_the_message_back_and_the_worker_goes_on(flavour: Flavour) -> None:
    broker = StandInBroker()
    reported: list[tuple[str, str]] = []

    def handle(message: Message) -> None:
        if text_of(message) == "bad":
            raise LookupError("no such order")

    def on_error(message: Message, error: Exception) -> None:
        reported.append((text_of(message), str(error)))
        raise RuntimeError("and this one is only logged")

    broker.put("bad", "good")
    with running(flavour, broker, handle, workers=1, on_error=flavour.handler(on_error)):
        broker.wait_until(lambda: broker.acknowledged == ["good"])
    ((text, cause),) = broker.rejected
    assert (text, type(cause)) == ("bad", LookupError)
    assert reported == [("bad", "no such order")]


def test_M1_closing_takes_no_more_and_finishes_what_was_taken(flavour: Flavour) -> None:
    broker, gate = StandInBroker(), Gate()
    broker.put(*(f"m{number}" for number in range(4)))
    pool = pool_of(flavour, broker, gate, workers=1, queue_size=2)
    flavour.run(pool.start())
    gate.wait_for(2)
    closing = threading.Thread(target=lambda: flavour.run(pool.close()))
    closing.start()
    gate.let(4)
    closing.join(WAIT_SECONDS)
    assert not closing.is_alive()
    assert sorted(broker.acknowledged) == ["m0", "m1", "m2", "m3"]
    assert [connection.is_closed for connection in broker.connections] == [True]
    broker.put("late")
    flavour.run(pool.close())
    assert broker.waiting.qsize() == 1
    with pytest.raises(IllegalStateError):
        flavour.run(pool.start())


def test_M1_closing_ends_after_its_time_and_says_what_was_not_finished(flavour: Flavour) -> None:
    broker, gate = StandInBroker(), Gate()
    broker.put(*(f"m{number}" for number in range(6)))
    pool = pool_of(flavour, broker, gate, workers=1, queue_size=2)
    flavour.run(pool.start())
    gate.wait_for(2)
    with pytest.raises(RequestTimedOutError, match=r"timeout_seconds=0.05: 2 messages were .* handled and 2 not begun"):
        flavour.run(pool.close(timeout_seconds=0.05))
    assert broker.acknowledged == []
    assert broker.connections[0].is_closed
    gate.let(6)


def test_M1_a_connection_that_fails_is_replaced(flavour: Flavour) -> None:
    broker = StandInBroker()
    reported: list[str] = []

    def on_error(message: Message | None, error: Exception) -> None:
        assert message is None
        reported.append(str(error))

    with running(flavour, broker, text_of, on_error=flavour.handler(on_error)):
        broker.put("before")
        broker.wait_until(lambda: broker.acknowledged == ["before"])
        broker.cut()
        broker.wait_until(lambda: len(broker.attempts) > 1)
        broker.is_reachable = True
        broker.put("after")
        broker.wait_until(lambda: broker.acknowledged == ["before", "after"])
    assert reported[0] == "the connection was lost"
    assert "nobody answers" in reported


def test_M1_a_connection_that_was_given_stays_open(flavour: Flavour) -> None:
    broker = StandInBroker()
    connection = StandInConnection(broker)
    pool = flavour.modules.pooled.PooledConsumer(shelled(flavour, connection), "orders", flavour.handler(text_of))
    with flavour.using(pool):
        broker.put("a")
        broker.wait_until(lambda: broker.acknowledged == ["a"])
    assert not connection.is_closed


def test_M1_a_pool_without_workers_is_refused(flavour: Flavour) -> None:
    with pytest.raises(IllegalArgumentError, match="a worker at least"):
        pool_of(flavour, StandInBroker(), text_of, workers=0)


def test_M1_a_pool_that_was_never_started_can_be_closed(flavour: Flavour) -> None:
    flavour.run(pool_of(flavour, StandInBroker(), text_of).close())

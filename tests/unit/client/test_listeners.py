"""`ListenerContainer` without a broker: transactions, numbers of consumers, ends."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from ackwire.client import Message, TextMessage
from ackwire.client.core.modes import AckMode
from ackwire.client.errors import IllegalStateError, RequestTimedOutError
from ackwire.client.listening import listener
from tests.helpers.flavours import Flavour
from tests.helpers.stand_in import WAIT_SECONDS, StandInBroker, StandInFactory
from tests.unit.client.flavour import shelled


def container_of(flavour: Flavour, broker: StandInBroker, *functions: Callable[..., Any], **options: Any) -> Any:
    factory = shelled(flavour, StandInFactory(broker))
    return flavour.modules.listeners.ListenerContainer(factory, functions, **options)


def marked(flavour: Flavour, function: Callable[[Message], Any], **options: Any) -> Callable[..., Any]:
    """*function* as this flavour's listener of a queue, whatever its parameters are called."""
    inner = flavour.handler(function)
    if flavour.name == "sync":

        def handle(message: Message) -> Any:
            return inner(message)

        return listener("orders", **options)(handle)

    async def handle_async(message: Message) -> Any:
        return await inner(message)

    return listener("orders", **options)(handle_async)


class Crowd:
    """A handler that keeps messages until it is told to go on, and knows how many it has."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.inside = 0
        self.open = False

    def __call__(self, _message: Message) -> None:
        with self.changed:
            self.inside += 1
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: self.open, WAIT_SECONDS)
            self.inside -= 1

    def wait_for(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.inside == count, WAIT_SECONDS)

    def let_go(self) -> None:
        with self.changed:
            self.open = True
            self.changed.notify_all()


def nothing(message: Message) -> None:
    del message


def test_M9_a_message_is_committed_after_the_function_and_rolled_back_when_it_raises(flavour: Flavour) -> None:
    broker = StandInBroker()
    reported: list[object] = []

    def handle(message: Message) -> None:
        assert isinstance(message, TextMessage)
        broker._add(broker.acknowledged, message.text)
        if message.text == "bad":
            raise LookupError("no such order")

    def on_error(message: TextMessage, error: Exception) -> None:
        reported.append((message.text, str(error)))

    broker.put("bad", "good")
    container = container_of(flavour, broker, marked(flavour, handle), on_error=flavour.handler(on_error))
    with flavour.using(container):
        broker.wait_until(lambda: len(broker.acknowledged) == 4)
    assert broker.acknowledged == ["bad", "rollback", "good", "commit"]
    assert reported == [("bad", "no such order")]
    assert broker.connections[0].is_closed


def test_M9_N4_without_a_transaction_a_message_is_acknowledged_after_the_function(flavour: Flavour) -> None:
    broker = StandInBroker()

    def handle(message: Message) -> None:
        assert isinstance(message, TextMessage)
        broker._add(broker.acknowledged, f"handled {message.text}")
        if message.text == "bad":
            raise LookupError

    broker.put("bad", "good")
    with flavour.using(container_of(flavour, broker, marked(flavour, handle, transacted=False))):
        broker.wait_until(lambda: len(broker.acknowledged) == 3)
    assert broker.acknowledged == ["handled bad", "handled good", "good"]
    assert [text for text, _ in broker.rejected] == ["bad"]


def test_M9_with_an_individual_ack_mode_the_function_acknowledges(flavour: Flavour) -> None:
    broker = StandInBroker()
    done = threading.Event()

    def handle(message: Message) -> None:
        assert isinstance(message, TextMessage)
        if message.text == "second":
            done.set()

    broker.put("first", "second")
    function = marked(flavour, handle, ack_mode=AckMode.INDIVIDUAL)
    with flavour.using(container_of(flavour, broker, function)):
        assert done.wait(WAIT_SECONDS)
    assert broker.acknowledged == []


def test_M9_consumers_are_added_while_all_are_busy_and_leave_when_idle(flavour: Flavour) -> None:
    broker, crowd = StandInBroker(), Crowd()
    function = marked(flavour, crowd, concurrency="1-3")
    with flavour.using(container_of(flavour, broker, function, idle_seconds=0)) as container:
        flavour.run(container.ready())
        assert container.consumers(function) == 1
        broker.put("a", "b", "c", "d", "e")
        crowd.wait_for(3)
        assert container.consumers(function) == 3
        assert broker.waiting.qsize() == 2
        crowd.let_go()
        broker.wait_until(lambda: broker.acknowledged.count("commit") == 5)
        for _ in range(1000):
            if container.consumers(function) == 1:
                break
            threading.Event().wait(0.01)
        assert container.consumers(function) == 1


def test_M9_the_lowest_number_is_there_from_the_start(flavour: Flavour) -> None:
    broker, crowd = StandInBroker(), Crowd()
    function = marked(flavour, crowd, concurrency="3-3")
    broker.put("a", "b", "c", "d")
    with flavour.using(container_of(flavour, broker, function)) as container:
        crowd.wait_for(3)
        assert container.consumers(function) == 3
        crowd.let_go()


def test_M9_close_lets_functions_finish(flavour: Flavour) -> None:
    broker, crowd = StandInBroker(), Crowd()
    broker.put("a")
    container = container_of(flavour, broker, marked(flavour, crowd))
    flavour.run(container.start())
    crowd.wait_for(1)
    closing = threading.Thread(target=lambda: flavour.run(container.close()))
    closing.start()
    assert broker.acknowledged == []
    crowd.let_go()
    closing.join(WAIT_SECONDS)
    assert broker.acknowledged == ["commit"]
    flavour.run(container.close())
    with pytest.raises(IllegalStateError):
        flavour.run(container.start())


def test_M9_close_ends_after_its_time_and_names_who_is_late(flavour: Flavour) -> None:
    broker, crowd = StandInBroker(), Crowd()
    broker.put("a")
    container = container_of(flavour, broker, marked(flavour, crowd))
    flavour.run(container.start())
    crowd.wait_for(1)
    with pytest.raises(RequestTimedOutError, match=r"timeout_seconds=0.05: handle.*queue://orders.* consumer 1"):
        flavour.run(container.close(timeout_seconds=0.05))
    assert broker.acknowledged == []
    assert broker.connections[0].is_closed
    crowd.let_go()


def test_M9_a_consumer_whose_session_fails_gets_a_new_one(flavour: Flavour) -> None:
    broker = StandInBroker()
    reported: list[str] = []

    def on_error(message: Message | None, error: Exception) -> None:
        del message
        reported.append(str(error))

    container = container_of(flavour, broker, marked(flavour, nothing), on_error=flavour.handler(on_error))
    with flavour.using(container):
        broker.put("before")
        broker.wait_until(lambda: broker.acknowledged == ["commit"])
        broker.cut()
        broker.wait_until(lambda: len(broker.attempts) > 1)
        broker.is_reachable = True
        broker.put("after")
        broker.wait_until(lambda: broker.acknowledged == ["commit", "commit"])
    assert reported[0] == "the connection was lost"


def test_M9_ready_says_who_is_not(flavour: Flavour) -> None:
    broker = StandInBroker()
    broker.is_reachable = False
    with (
        flavour.using(container_of(flavour, broker, marked(flavour, nothing))) as container,
        pytest.raises(RequestTimedOutError, match=r"handle.*queue://orders"),
    ):
        flavour.run(container.ready(0.05))

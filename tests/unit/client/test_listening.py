"""`@listener`, and how many consumers a listener has."""

from collections.abc import Callable
from types import ModuleType

import pytest

from ackwire.client.core.modes import AckMode
from ackwire.client.errors import IllegalArgumentError
from ackwire.client.listening import Concurrency, Staffing, listener, listeners_in
from ackwire.client.message import Message


@pytest.mark.parametrize(
    ("text", "lowest", "highest"), [("2-8", 2, 8), (" 2 - 8 ", 2, 8), ("8", 1, 8), (8, 1, 8), (1, 1, 1), ("3-3", 3, 3)]
)
def test_M9_concurrency_is_a_range_or_an_upper_limit(text: str | int, lowest: int, highest: int) -> None:
    made = Concurrency.parse(text)
    assert made == Concurrency(lowest, highest)
    assert Concurrency.parse(made) == made


@pytest.mark.parametrize("text", ["", "x", "8-2", "0", "0-3", "-1", "1-2-3", "1.5", "1-1001"])
def test_M9_concurrency_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(IllegalArgumentError, match="concurrency"):
        Concurrency.parse(text)


def test_M9_a_marked_function_stays_a_function() -> None:
    @listener("orders?consumer.prefetchSize=5", concurrency="2-8", selector="a = 1")
    @listener("topic://prices", durable="me", transacted=False)
    def double(message: Message) -> str:
        return f"{message.type}!"

    message = Message()
    message.type = "x"
    assert double(message) == "x!"
    prices, orders = listeners_in([double])
    assert (prices.address, prices.durable, prices.transacted) == ("topic://prices", "me", False)
    assert (orders.address, orders.selector, orders.transacted) == (
        "queue://orders?consumer.prefetchSize=5",
        "a = 1",
        True,
    )
    assert orders.concurrency == Concurrency(2, 8)
    assert orders.name == "double (queue://orders)"


def test_M9_consumers_that_can_be_joined_by_others_take_one_message_at_a_time() -> None:
    @listener("alone")
    @listener("several", concurrency="1-2")
    def handle(message: Message) -> None:
        del message

    several, alone = listeners_in([handle])
    assert several.address == "queue://several?consumer.prefetchSize=1"
    assert alone.address == "queue://alone"


def test_M9_an_ack_mode_of_the_application_means_no_transaction() -> None:
    @listener("a", ack_mode=AckMode.CLIENT)
    @listener("b", ack_mode=AckMode.AUTO)
    @listener("c", ack_mode=AckMode.SESSION_TRANSACTED)
    def handle(message: Message) -> None:
        del message

    assert [made.transacted for made in listeners_in([handle])] == [True, True, False]


def test_M9_what_cannot_work_is_refused_when_it_is_marked() -> None:
    with pytest.raises(IllegalArgumentError, match="every message"):
        listener("topic://prices", concurrency=2)
    with pytest.raises(IllegalArgumentError, match="only a topic"):
        listener("orders", durable="me")


def one(message: Message) -> None: ...
def two(message: Message, session: object) -> None: ...
def optional(message: Message, extra: int = 0) -> None: ...


@pytest.mark.parametrize(("function", "wants"), [(one, False), (two, True), (optional, False)])
def test_M9_a_second_parameter_gets_the_session(function: Callable[..., None], wants: bool) -> None:
    copy = lambda *arguments: function(*arguments)  # noqa: E731 - the module's functions stay unmarked
    copy.__wrapped__ = function  # type: ignore[attr-defined]
    (made,) = listeners_in([listener("orders")(copy)])
    assert made.wants_session is wants


def test_M9_a_method_is_called_on_its_object() -> None:
    class Shop:
        @listener("orders")
        def on_order(self, message: Message) -> tuple["Shop", Message]:
            return self, message

    shop, message = Shop(), Message()
    (made,) = listeners_in([shop.on_order])
    assert made.function(message) == (shop, message)
    assert not made.wants_session


def test_M9_a_module_gives_all_its_listeners_once() -> None:
    module = ModuleType("shop")

    @listener("orders")
    def on_order(message: Message) -> None: ...

    vars(module).update(on_order=on_order, alias=on_order, other=5)
    assert [made.function for made in listeners_in([module, on_order])] == [on_order]


def test_M9_what_has_no_listener_is_refused() -> None:
    for source in (one, ModuleType("empty")):
        with pytest.raises(IllegalArgumentError, match="no listener"):
            listeners_in([source])


# ---- how many consumers ------------------------------------------------------------------------------------------


def staffed(concurrency: str, consumers: int) -> Staffing:
    staffing = Staffing(Concurrency.parse(concurrency), idle_seconds=10)
    for _ in range(consumers):
        staffing.join()
        staffing.wait()
    return staffing


def test_M9_the_lowest_number_is_missing_at_first() -> None:
    staffing = staffed("3-5", 0)
    assert staffing.missing() == 3
    staffing.join()
    assert staffing.missing() == 2


def test_M9_one_is_added_when_the_last_that_waited_has_got_a_message() -> None:
    staffing = staffed("2-4", 2)
    staffing.stop_waiting()
    assert not staffing.needs_another()
    staffing.stop_waiting()
    assert staffing.needs_another()


def test_M9_never_more_than_the_highest_number() -> None:
    staffing = staffed("1-2", 2)
    for _ in range(2):
        staffing.stop_waiting()
    assert not staffing.needs_another()


def test_M9_one_leaves_after_its_time_while_another_waits() -> None:
    staffing = staffed("1-4", 2)
    assert not staffing.let_go(9.9)
    assert staffing.let_go(10)
    assert not staffing.let_go(99), "the lowest number stays, even before the other one has gone"
    staffing.leave()
    assert not staffing.let_go(99)
    assert (staffing.consumers, staffing.waiting) == (1, 1)


def test_M9_the_only_one_that_waits_does_not_leave() -> None:
    staffing = staffed("1-4", 3)
    for _ in range(2):
        staffing.stop_waiting()
    assert not staffing.let_go(99)


def test_M9_one_that_is_leaving_makes_room_for_another() -> None:
    staffing = staffed("1-2", 2)
    assert staffing.let_go(10)
    staffing.stop_waiting()
    assert staffing.needs_another()

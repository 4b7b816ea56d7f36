"""`BufferedProducer` without a broker: never waiting, never losing."""

import threading
from pathlib import Path
from typing import Any

import pytest

from ackwire.client import DeliveryMode, Message, TextMessage
from ackwire.client.buffers import MemoryBuffer, MessageBuffer, Sending, message_to_bytes
from ackwire.client.disk_buffer import DiskBuffer
from ackwire.client.errors import (
    IllegalStateError,
    InvalidDestinationError,
    JMSError,
    MessageFormatError,
    RequestTimedOutError,
    ResourceAllocationError,
    UnsupportedError,
)
from ackwire.jms.destinations import parse_destination
from tests.helpers.flavours import Flavour
from tests.helpers.stand_in import WAIT_SECONDS, StandInBroker, StandInFactory
from tests.unit.client.flavour import shelled

SENDING = Sending(parse_destination("orders"), DeliveryMode.PERSISTENT, 4, 0)


def producer_of(flavour: Flavour, broker: StandInBroker, destination: str | None = "orders", **options: Any) -> Any:
    return flavour.modules.buffered.BufferedProducer(shelled(flavour, StandInFactory(broker)), destination, **options)


@pytest.fixture(params=["memory", "disk", "disk with fsync"])
def buffer(request: pytest.FixtureRequest, tmp_path: Path) -> MessageBuffer:
    return MemoryBuffer() if request.param == "memory" else DiskBuffer(tmp_path, fsync="fsync" in request.param)


def test_M2_messages_arrive_in_order_and_before_close_returns(flavour: Flavour, buffer: MessageBuffer) -> None:
    broker = StandInBroker()
    texts = [f"m{number}" for number in range(250)]
    with flavour.using(producer_of(flavour, broker, buffer=buffer)) as producer:
        for text in texts:
            flavour.run(producer.send(text))
    assert broker.sent == texts
    assert broker.connections[-1].is_closed


def test_M2_a_send_does_not_need_a_broker_and_the_message_goes_when_there_is_one(
    flavour: Flavour, buffer: MessageBuffer
) -> None:
    broker = StandInBroker()
    broker.is_reachable = False
    with flavour.using(producer_of(flavour, broker, buffer=buffer)) as producer:
        for text in "abc":
            flavour.run(producer.send(text))
        broker.wait_until(lambda: len(broker.attempts) > 1)
        assert producer.waiting.count == 3
        assert "3 messages" in str(producer.waiting)
        assert "ConnectionFailedError: nobody answers" in str(producer.waiting)
        broker.is_reachable = True
        flavour.run(producer.flush(WAIT_SECONDS))
        assert broker.sent == ["a", "b", "c"]
        assert str(producer.waiting) == "nothing waits"


def test_M2_sends_do_not_hurry_the_attempts_to_connect(flavour: Flavour) -> None:
    broker = StandInBroker()
    broker.is_reachable = False
    with flavour.using(producer_of(flavour, broker)) as producer:
        for number in range(30):
            flavour.run(producer.send(str(number)))
            threading.Event().wait(0.02)  # time for an attempt that should not be made
        assert len(broker.attempts) < 12, "pauses double: these many take minutes"
        broker.is_reachable = True


def test_M2_what_was_not_confirmed_is_sent_again_over_a_new_connection(flavour: Flavour) -> None:
    broker = StandInBroker()
    with flavour.using(producer_of(flavour, broker)) as producer:
        flavour.run(producer.send("before"))
        flavour.run(producer.flush(WAIT_SECONDS))
        broker.confirms = False
        flavour.run(producer.send("lost"))
        connection = broker.connections[-1]
        broker.wait_until(lambda: broker.submitted == ["lost"])
        broker.confirms = True
        connection.lose()
        flavour.run(producer.flush(WAIT_SECONDS))
    assert broker.sent == ["before", "lost"]
    assert len(broker.connections) == 2


def test_M2_a_broker_that_never_confirms_is_left_after_a_time(flavour: Flavour) -> None:
    broker = StandInBroker()
    broker.confirms = False
    with flavour.using(producer_of(flavour, broker, confirm_timeout_seconds=0.1)) as producer:
        flavour.run(producer.send("a"))
        broker.wait_until(lambda: broker.submitted == ["a", "a"])
        assert "confirm_timeout_seconds=0.1" in producer.waiting.reason
        broker.confirms = True
        flavour.run(producer.flush(WAIT_SECONDS))
    assert broker.sent == ["a"]


def test_M2_full_is_a_clear_error_and_nothing_is_dropped(flavour: Flavour) -> None:
    broker = StandInBroker()
    broker.is_reachable = False
    with flavour.using(producer_of(flavour, broker, buffer=MemoryBuffer(bytes_max=2000))) as producer:
        kept = 2000 // len(message_to_bytes(TextMessage("x" * 100), SENDING)) - 1
        for _ in range(kept):
            flavour.run(producer.send("x" * 100))
        with pytest.raises(ResourceAllocationError) as caught:
            flavour.run(producer.send("x" * 1000))
        broker.wait_until(lambda: len(broker.attempts) > 1)  # so the first has failed
        text = str(caught.value)
        assert "queue://orders" in text
        assert "bytes_max=2000" in text
        assert f"{kept} messages" in text
        assert "wait since 20" in text
        with pytest.raises(ResourceAllocationError, match="nobody answers"):
            flavour.run(producer.send("x" * 1000))
        broker.is_reachable = True
    assert broker.sent == ["x" * 100] * kept


def test_M2_a_message_that_never_fits_is_said_to_be_too_large(flavour: Flavour) -> None:
    with (
        flavour.using(producer_of(flavour, StandInBroker(), buffer=MemoryBuffer(bytes_max=2000))) as producer,
        pytest.raises(ResourceAllocationError, match="is larger than bytes_max=2000"),
    ):
        flavour.run(producer.send("x" * 3000))


def test_M2_close_ends_after_its_time_and_says_how_many_are_left_in_memory(flavour: Flavour) -> None:
    broker = StandInBroker()
    broker.is_reachable = False
    producer = producer_of(flavour, broker)
    flavour.run(producer.send("a"))
    flavour.run(producer.send("b"))
    with pytest.raises(RequestTimedOutError, match=r"timeout_seconds=0.2: 2 messages .* unsent\(\) returns them"):
        flavour.run(producer.close(timeout_seconds=0.2))
    assert [message.text for message in producer.unsent()] == ["a", "b"]
    with pytest.raises(IllegalStateError):
        flavour.run(producer.send("c"))
    flavour.run(producer.close())


def test_M2_what_is_left_on_disk_is_sent_first_by_the_next_one(flavour: Flavour, tmp_path: Path) -> None:
    broker = StandInBroker()
    broker.is_reachable = False
    producer = producer_of(flavour, broker, buffer=DiskBuffer(tmp_path))
    flavour.run(producer.send("a", properties={"n": 1}))
    with pytest.raises(RequestTimedOutError, match=str(tmp_path)):
        flavour.run(producer.close(timeout_seconds=0))
    assert producer.unsent() == []
    broker.is_reachable = True
    with flavour.using(producer_of(flavour, broker, buffer=DiskBuffer(tmp_path))) as following:
        flavour.run(following.send("b"))
    assert broker.sent == ["a", "b"]
    assert broker.properties[0].message.properties["n"] == 1
    left = DiskBuffer(tmp_path)
    assert left.count == 0
    left.close()


def test_M2_leftovers_go_out_without_another_send(flavour: Flavour, tmp_path: Path) -> None:
    broker = StandInBroker()
    broker.is_reachable = False
    first = producer_of(flavour, broker, buffer=DiskBuffer(tmp_path))
    flavour.run(first.send("a"))
    with pytest.raises(RequestTimedOutError):
        flavour.run(first.close(timeout_seconds=0))
    broker.is_reachable = True
    with flavour.using(producer_of(flavour, broker, destination=None, buffer=DiskBuffer(tmp_path))):
        broker.wait_until(lambda: broker.sent == ["a"])


def refusing(what: str) -> Any:
    return lambda text: InvalidDestinationError("no such place") if text == what else None


def test_M2_a_refused_message_goes_to_on_refused_and_the_others_arrive(flavour: Flavour) -> None:
    broker = StandInBroker()
    broker.refuses = refusing("bad")
    refused: list[tuple[str | None, str]] = []

    def on_refused(message: Message, error: JMSError) -> None:
        assert isinstance(message, TextMessage)
        refused.append((message.text, str(error)))

    with flavour.using(producer_of(flavour, broker, on_refused=flavour.handler(on_refused))) as producer:
        for text in ("a", "bad", "b"):
            flavour.run(producer.send(text))
    assert broker.sent == ["a", "b"]
    assert refused == [("bad", "no such place")]


def test_M2_a_refused_message_that_nobody_takes_care_of_is_kept(flavour: Flavour) -> None:
    broker = StandInBroker()
    broker.refuses = refusing("bad")
    producer = producer_of(flavour, broker)
    flavour.run(producer.send("bad"))
    with pytest.raises(RequestTimedOutError, match=r"1 messages .* InvalidDestinationError: no such place"):
        flavour.run(producer.flush(0.3))
    broker.refuses = refusing("nothing")
    flavour.run(producer.close())
    assert broker.sent == ["bad"]


def test_M2_a_limit_of_the_broker_passes(flavour: Flavour) -> None:
    broker = StandInBroker()
    broker.refuses = lambda _: ResourceAllocationError("the store is full")
    refused: list[object] = []
    producer = producer_of(flavour, broker, on_refused=flavour.handler(lambda *what: refused.append(what)))
    flavour.run(producer.send("a"))
    with pytest.raises(RequestTimedOutError, match="the store is full"):
        flavour.run(producer.flush(0.3))
    broker.refuses = refusing("nothing")
    flavour.run(producer.close())
    assert (broker.sent, refused) == (["a"], [])


def test_M2_each_message_goes_with_what_it_was_sent_with(flavour: Flavour) -> None:
    broker = StandInBroker()
    with flavour.using(producer_of(flavour, broker, "orders?producer.windowSize=9")) as producer:
        flavour.run(producer.send("a"))
        flavour.run(
            producer.send(
                "b",
                destination="topic://prices",
                delivery_mode=DeliveryMode.NON_PERSISTENT,
                priority=9,
                time_to_live_ms=60_000,
                correlation_id="c",
            )
        )
    plain, special = broker.properties
    assert (plain.destination, plain.delivery_mode, plain.priority, plain.time_to_live_ms) == (
        parse_destination("orders"),
        DeliveryMode.PERSISTENT,
        4,
        0,
    )
    assert (special.destination, special.delivery_mode, special.priority) == (
        parse_destination("topic://prices"),
        DeliveryMode.NON_PERSISTENT,
        9,
    )
    assert 0 < special.time_to_live_ms <= 60_000
    assert special.message.correlation_id == "c"


def test_M2_what_cannot_be_sent_is_refused_at_once(flavour: Flavour) -> None:
    broker = StandInBroker()
    with flavour.using(producer_of(flavour, broker, destination=None)) as producer:
        with pytest.raises(UnsupportedError, match="no destination"):
            flavour.run(producer.send("a"))
        with pytest.raises(MessageFormatError):
            flavour.run(producer.send(5, destination="orders"))
    assert broker.sent == []

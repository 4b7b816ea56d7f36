"""Mistakes that a review found: brokers that say what none should, or that say it too often."""

import contextlib
import queue as queues
import socket
import threading
from collections.abc import Iterator

import pytest

import ackwire
from ackwire import Connection
from ackwire.client import relocation
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.codec_fast import Ack
from tests.client.fake_broker import PRODUCER, FakeBroker
from tests.client.steps import ARRIVAL_SECONDS, receive, receive_all
from tests.client.work import await_that
from tests.conformance.jms import with_options
from tests.conformance.proxy import shut

HINTS = 100
FLOOD = 100_000


@pytest.fixture
def fake() -> Iterator[FakeBroker]:
    with FakeBroker() as broker:
        yield broker


@contextlib.contextmanager
def connected(url: str, **options: object) -> Iterator[tuple[Connection, "queues.SimpleQueue[ackwire.JMSError]"]]:
    """A connection, and the errors that it reports."""
    errors: queues.SimpleQueue[ackwire.JMSError] = queues.SimpleQueue()
    with ackwire.connect(with_options(url, **options)) as connection:
        connection.on_error = errors.put
        yield connection, errors


class Silent:
    """Takes connections and says nothing."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0), backlog=2 * HINTS)
        self.port: int = self._server.getsockname()[1]
        self.taken: list[socket.socket] = []
        threading.Thread(target=self._accept, name="silent", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                self.taken.append(self._server.accept()[0])
            except OSError:
                return

    def close(self) -> None:
        shut(self._server)
        self._server.close()
        for side in self.taken:
            side.close()


@pytest.fixture
def silent() -> Iterator[Silent]:
    made = Silent()
    yield made
    made.close()


def test_J4_a_flood_of_hints_leads_to_one_attempt(
    fake: FakeBroker, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J4: a broker that sends us elsewhere over and over costs one connection, not one for each word."""
    monkeypatch.setattr(relocation, "_HINT_INTERVAL_SECONDS", 600.0)  # however slow the machine is
    with connected(f"failover:({fake.url})") as (connection, _):
        session = connection.session()
        hint = commands.ConnectionControl(reconnect_to=f"tcp://127.0.0.1:{silent.port}")
        fake.send(*[hint] * HINTS)
        for _ in range(5):  # its answers come after the hints
            session.producer("orders").close()
        await_that(lambda: bool(silent.taken), "the client looks at the other broker")
        for _ in range(5):
            session.producer("orders").close()
        assert len(silent.taken) == 1


def test_J4_brokers_that_point_at_each_other_do_not_keep_the_client_moving(
    fake: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J4: the first hint is followed, and the one that leads straight back is not."""
    monkeypatch.setattr(relocation, "_HINT_INTERVAL_SECONDS", 600.0)  # however slow the machine is
    with FakeBroker() as other, connected(f"failover:({fake.url})") as (connection, _):
        fake.send(commands.ConnectionControl(reconnect_to=other.url))
        other.await_all(commands.ConnectionInfo)
        other.send(commands.ConnectionControl(reconnect_to=fake.url))
        for _ in range(5):  # its answers come after the hint
            connection.session().producer("orders").close()
        assert connection.address == other.url
        assert (len(fake.clients), len(other.clients)) == (1, 1)


def test_D2_range_acknowledgements_follow_a_prefetch_that_the_broker_has_lowered(fake: FakeBroker) -> None:
    """D2: at 0.65 of what the broker allows now; at 0.65 of before it would wait for ever, and so would we."""
    options = {"jms__optimizeAcknowledge": True, "jms__optimizeAcknowledgeTimeOut": 0}
    with connected(fake.url, **options) as (connection, _):
        consumer = connection.session().consumer("orders")
        fake.send(commands.ConsumerControl(consumer_id=fake.await_consumer().consumer_id, prefetch=10))
        fake.dispatch(range(10))
        receive_all(consumer, 10)
        (ack,) = fake.await_all(Ack)
        assert ack.count == 7


def test_C2_more_messages_than_any_window_allows_end_the_link(fake: FakeBroker) -> None:
    """C2: what the broker may push is limited, and so is what we keep of it."""
    with connected(fake.url, jms__prefetchPolicy__all=10) as (connection, errors):
        consumer = connection.session().consumer("orders")
        with contextlib.suppress(OSError):  # the client hangs up
            for first in range(0, FLOOD, 1000):
                fake.dispatch(range(first, first + 1000))
        error = errors.get(timeout=ARRIVAL_SECONDS)
        assert isinstance(error, ackwire.ConnectionFailedError)
        assert "the prefetch is 10" in str(error)
        assert len(consumer._core) < FLOOD


def test_C1_a_consumer_that_the_broker_has_closed_says_so(fake: FakeBroker) -> None:
    """C1: it does not look as if no message came, nor as if the application had closed it."""
    with connected(fake.url) as (connection, errors):
        consumer = connection.session().consumer("orders")
        fake.dispatch(range(1))
        receive(consumer)
        fake.send(commands.ConsumerControl(consumer_id=fake.await_consumer().consumer_id, close=True))
        assert "closed this consumer" in str(errors.get(timeout=ARRIVAL_SECONDS))
        with pytest.raises(ackwire.IllegalStateError, match="closed this consumer"):
            consumer.receive(ARRIVAL_SECONDS)
        with pytest.raises(ackwire.IllegalStateError, match="closed this consumer"):
            list(consumer)


def test_A8_late_news_that_a_temporary_queue_was_made_does_not_bring_it_back(fake: FakeBroker) -> None:
    """A8, B3: ActiveMQ announces it to the connection that made it too, and perhaps after that has deleted it."""
    with connected(fake.url) as (connection, _):
        session = connection.session()
        where = session.temporary_queue()
        connection.delete_temporary(where)
        made = fake.await_all(commands.DestinationInfo)[0]
        watch = fake.await_all(commands.ConsumerInfo, where=lambda info: "Advisory" in str(info.destination))[0]
        topic = commands.ActiveMQTopic("ActiveMQ.Advisory.TempQueue")
        news = commands.ActiveMQMessage(
            producer_id=PRODUCER,
            destination=topic,
            message_id=commands.MessageId(None, PRODUCER, 1, 1),
            data_structure=made,
        )
        fake.send(commands.MessageDispatch(consumer_id=watch.consumer_id, destination=topic, message=news))
        consumer = session.consumer("queue://other")
        fake.dispatch(range(1))
        receive(consumer)  # so the news is there too
        with pytest.raises(ackwire.InvalidDestinationError, match="deleted"):
            session.send(where, "too late")


def test_a_keep_alive_that_asks_for_it_is_echoed_with_its_number(fake: FakeBroker) -> None:
    with connected(fake.url):
        fake.send(commands.KeepAliveInfo(command_id=4711, response_required=True))
        (echo,) = fake.await_all(commands.KeepAliveInfo)
        assert (echo.command_id, echo.response_required) == (4711, False)

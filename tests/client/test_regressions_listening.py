"""Mistakes that a review found: listeners, closing and iterating (C1, D7)."""

import asyncio
import threading

import pytest

import ackwire
from ackwire import Message, aio
from tests.client.brokers import Broker
from tests.client.conftest import Connect
from tests.client.recording import RecordingProxy
from tests.client.steps import ARRIVAL_SECONDS, drain, numbered, send, text_of, with_redelivery
from tests.client.watched import Watched, failover
from tests.client.work import InThread
from tests.conformance.jms import with_options
from tests.conformance.proxy import CuttableProxy

SESSIONS = 25
CLOSE_TIMEOUT_MS = 1000
"""Times the sessions it is more than what `InThread.result` waits; once it is far less."""


# ---- listeners -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [SystemExit, KeyboardInterrupt])
def test_F1_a_listener_that_ends_with_an_exit_is_called_again(
    connect: Connect, broker: Broker, queue: str, ending: type[BaseException]
) -> None:
    """F1: the message comes again, as after any failure, and the session goes on listening."""
    connection = connect(with_redelivery(broker))
    seen: list[str | None] = []
    is_done = threading.Event()

    def listener(message: Message) -> None:
        seen.append(text_of(message))
        if len(seen) == 1:
            raise ending
        if seen[-1] == "m2":
            is_done.set()

    connection.session().consumer(queue).listener = listener
    send(connect(), queue, *numbered(range(3)))
    assert is_done.wait(ARRIVAL_SECONDS), seen
    assert seen == ["m0", *numbered(range(3))]
    connection.close()
    assert drain(connect(), queue) == []


def test_F1_a_listener_whose_own_work_was_cancelled_is_called_again(
    connect: Connect, broker: Broker, queue: str
) -> None:
    """F1, asyncio: a CancelledError of something that the listener waited for is a failure like any other."""
    send(connect(), queue, *numbered(range(3)))
    seen: list[str | None] = []

    async def main() -> None:
        is_done = asyncio.Event()

        async def listener(message: Message) -> None:
            seen.append(text_of(message))
            if len(seen) == 1:
                work = asyncio.ensure_future(asyncio.Event().wait())
                work.cancel()
                await work
            if seen[-1] == "m2":
                is_done.set()

        async with aio.connect(with_redelivery(broker)) as connection, connection.session() as session:
            consumer = await session.consumer(queue)
            consumer.listener = listener
            await asyncio.wait_for(is_done.wait(), ARRIVAL_SECONDS)

    asyncio.run(main())
    assert seen == ["m0", *numbered(range(3))]
    assert drain(connect(), queue) == []


# ---- closing ---------------------------------------------------------------------------------------------------


def test_C1_closing_an_idle_consumer_does_not_wait_for_the_listener_of_another(
    connect: Connect, broker: Broker, queue: str
) -> None:
    """C1: it waits for its own listener only; closeTimeout is far longer than this test waits."""
    connection = connect(broker.url_with(jms__closeTimeout=600_000))
    session = connection.session()
    is_busy, may_end = threading.Event(), threading.Event()

    def listener(_: Message) -> None:
        is_busy.set()
        may_end.wait()

    busy, idle = session.consumer(f"{queue}.busy"), session.consumer(f"{queue}.idle")
    busy.listener = listener
    idle.listener = lambda _: None
    send(connect(), f"{queue}.busy", "m")
    assert is_busy.wait(ARRIVAL_SECONDS)
    closing = InThread(idle.close)
    try:
        closing.result()
        assert idle.is_closed
        assert not busy.is_closed
    finally:
        may_end.set()


def test_D7_close_takes_closeTimeout_once_however_much_there_is_to_close(
    connect: Connect, recording: RecordingProxy, queue: str
) -> None:
    """D7: of a broker that does not answer, a connection with many sessions takes leave as one with none."""
    connection = connect(with_options(recording.url, jms__closeTimeout=CLOSE_TIMEOUT_MS))
    for _ in range(SESSIONS):
        connection.session().consumer(queue)
    recording.hold_answers()
    InThread(connection.close).result()
    assert connection.is_closed


def test_D7_close_does_not_wait_longer_for_a_commit_without_a_link(
    connect: Connect, proxy: CuttableProxy, queue: str
) -> None:
    """D7, G1: whoever waits for the commit is told; without a limit of its own it would wait for a minute."""
    watched = Watched(connect(failover(proxy.port, jms__closeTimeout=CLOSE_TIMEOUT_MS)))
    session = watched.connection.session(transacted=True)
    session.send(queue, "m")
    proxy.cut()
    watched.await_loss()
    committing = InThread(session.commit)
    committing.assert_waits()
    InThread(watched.connection.close).result()
    with pytest.raises(ackwire.JMSError):
        committing.result()


# ---- iterating -------------------------------------------------------------------------------------------------


def test_C1_iteration_ends_quietly_when_the_consumer_is_closed_just_before_the_next_receive(
    connect: Connect, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C1: another thread may close it between two messages."""
    connection = connect()
    send(connection, queue, "m")
    consumer = connection.session().consumer(queue)
    receive_next = consumer.receive
    received: list[str | None] = []

    def closed_meanwhile(timeout_seconds: float | None) -> Message | None:
        if received:
            consumer.close()
        return receive_next(timeout_seconds)

    monkeypatch.setattr(consumer, "receive", closed_meanwhile)
    for message in consumer:
        received.append(text_of(message))
    assert received == ["m"]


# ---- pulling ---------------------------------------------------------------------------------------------------


def test_C3_receive_no_wait_does_not_wait_for_the_answer_to_an_earlier_pull(
    connect: Connect, broker: Broker, queue: str
) -> None:
    """C3, asyncio: a receive that was cancelled has left a pull behind, which the broker answers when it can."""

    async def main() -> None:
        async with aio.connect(broker.url) as connection, connection.session() as session:
            consumer = await session.consumer(f"{queue}?consumer.prefetchSize=0")
            waiting = asyncio.ensure_future(consumer.receive(None))
            await asyncio.sleep(0)  # it has asked the broker
            assert consumer._core.pulls.is_unanswered
            waiting.cancel()
            assert await asyncio.wait_for(consumer.receive_no_wait(), ARRIVAL_SECONDS) is None
            await session.send(queue, "m")
            message = await consumer.receive(ARRIVAL_SECONDS)
            assert text_of(message) == "m"

    asyncio.run(main())
    assert drain(connect(), queue) == []

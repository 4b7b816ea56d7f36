"""The client for asyncio: the main paths, and cancelling at any point, which loses and doubles nothing."""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any, Final, TypeVar

import pytest

from ackwire import AckMode, DeliveryMode, Message, aio, client
from ackwire.client.aio import consumer as consumer_module
from ackwire.client.errors import (
    ConnectionFailedError,
    IllegalStateError,
    InvalidDestinationError,
    JMSError,
    RequestTimedOutError,
)
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.commands import AckType
from tests.client.acks import NO_DELAY, in_ranges, lines_of, one_by_one
from tests.client.brokers import Broker
from tests.client.conftest import Connect
from tests.client.recording import RecordingProxy
from tests.client.work import ARRIVAL_SECONDS, NON_PERSISTENT, PERSISTENT, browse, drain, fill, text_of, texts_of

T = TypeVar("T")

LIMIT_SECONDS: Final = 40.0
SEEDS: Final = range(3)
STANDARD: Final = AckType.STANDARD
FOR_EVER: Final = NO_DELAY | {"jms__redeliveryPolicy__maximumRedeliveries": -1}


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run *main*; afterwards no task of the client is left over."""

    async def checked() -> T:
        async with asyncio.timeout(LIMIT_SECONDS):
            result = await main
            await _until(lambda: asyncio.all_tasks() == {asyncio.current_task()}, "no task is left")
        return result

    result = asyncio.run(checked())
    gc.collect()  # an open socket is an error here
    return result


async def _until(condition: Callable[[], bool], what: str) -> None:
    try:
        async with asyncio.timeout(ARRIVAL_SECONDS):
            while not condition():
                await asyncio.sleep(0.002)
    except TimeoutError:
        raise AssertionError(f"never happened: {what}") from None


async def _one(consumer: aio.Consumer) -> Message:
    message = await consumer.receive(ARRIVAL_SECONDS)
    assert message is not None, "no message came"
    return message


async def _many(consumer: aio.Consumer, count: int) -> list[Message]:
    return [await _one(consumer) for _ in range(count)]


# ---- main paths ------------------------------------------------------------------------------------------------


def test_A1_a_connection_is_awaited_or_entered(broker: Broker, queue: str) -> None:
    async def main() -> None:
        async with aio.connect(broker.url) as connection:
            assert connection.is_started
        assert connection.is_closed
        connection = await aio.connect(broker.url, start=False)
        assert not connection.is_started
        await connection.start()
        async with connection.session() as session, session.producer(queue) as producer:
            await producer.send("hello")
            async with session.consumer(queue) as consumer:
                assert text_of(await _one(consumer)) == "hello"
            assert consumer.is_closed
        assert producer.is_closed
        assert session.is_closed
        await connection.close()
        await connection.close()

    run(main())


def test_A1_a_factory_makes_connections_that_are_not_started(broker: Broker, queue: str) -> None:
    async def main() -> None:
        factory = aio.ConnectionFactory(broker.url, client_id=f"client of {queue}")
        async with factory.create_connection() as connection:
            assert not connection.is_started
            assert connection.client_id == f"client of {queue}"
            session = await connection.session()
            consumer = await session.consumer(queue)
            await session.send(queue, "waits")
            assert await consumer.receive_no_wait() is None
            await connection.start()
            assert text_of(await _one(consumer)) == "waits"

    run(main())


def test_A1_tls(broker: Broker, queue: str) -> None:
    async def main() -> None:
        async with aio.connect(broker.ssl_url) as connection, connection.session() as session:
            await session.send(queue, "secret")
            assert text_of(await _one(await session.consumer(queue))) == "secret"

    run(main())


def test_A1_nobody_there(broker: Broker) -> None:
    del broker

    async def main() -> None:
        with pytest.raises(ConnectionFailedError):
            await aio.connect("tcp://127.0.0.1:1")

    run(main())


def test_A1_stop_waits_for_the_listener_at_work(broker: Broker, queue: str) -> None:
    async def main() -> None:
        async with aio.connect(broker.url) as connection:
            session = await connection.session()
            at_work, may_return = asyncio.Event(), asyncio.Event()
            heard: list[str | None] = []

            async def listener(message: Message) -> None:
                at_work.set()
                await may_return.wait()
                heard.append(text_of(message))

            consumer = await session.consumer(queue)
            consumer.listener = listener
            for number in range(2):
                await session.send(queue, f"m{number}")
            await at_work.wait()
            stopping = asyncio.create_task(connection.stop())
            await asyncio.sleep(0.02)
            assert not stopping.done()
            may_return.set()
            await stopping
            assert heard == ["m0"]
            await connection.start()
            await _until(lambda: heard == ["m0", "m1"], "the second was heard")

    run(main())


@pytest.mark.parametrize("mode", [PERSISTENT, NON_PERSISTENT])
def test_B1_sends_arrive_in_order(connect: Connect, broker: Broker, queue: str, mode: DeliveryMode) -> None:
    async def main() -> None:
        async with aio.connect(broker.url) as connection, connection.session() as session:
            producer = await session.producer(queue)
            for number in range(50):
                await producer.send(f"m{number}", delivery_mode=mode)

    run(main())
    assert texts_of(drain(connect(), queue)) == [f"m{number}" for number in range(50)]


def test_B1_sendTimeout(recording: RecordingProxy, queue: str) -> None:
    async def main() -> None:
        async with aio.connect(recording.url_with(jms__sendTimeout=100)) as connection:
            session = await connection.session()
            producer = await session.producer(queue)
            recording.hold_answers()
            with pytest.raises(RequestTimedOutError, match=r"jms\.sendTimeout"):
                await producer.send("slow")
            recording.release()

    run(main())


def test_B4_a_full_window_holds_up_its_sender_and_nobody_else(recording: RecordingProxy, queue: str) -> None:
    async def main() -> None:
        url = recording.url_with(jms__useAsyncSend=True, jms__producerWindowSize=1000)
        async with aio.connect(url) as connection:
            session = await connection.session()
            producer = await session.producer(queue)
            recording.hold(lambda command: isinstance(command, commands.ProducerAck))
            await producer.send("x" * 3000)
            waiting = asyncio.create_task(producer.send("waits"))
            other = await connection.session()
            await other.send(f"{queue}.other", "passes")
            assert text_of(await _one(await other.consumer(f"{queue}.other"))) == "passes"
            assert not waiting.done()
            recording.release()
            await waiting

    run(main())


def test_B5_callbacks_and_receipts(broker: Broker, queue: str) -> None:
    async def main() -> None:
        reported: list[tuple[Message, JMSError | None]] = []

        async def slowly(message: Message, error: JMSError | None) -> None:
            await asyncio.sleep(0)
            reported.append((message, error))

        async with aio.connect(broker.url) as connection, connection.session() as session:
            producer = await session.producer(queue)
            first = await producer.send("a", on_completion=lambda *outcome: reported.append(outcome))
            second = await producer.send("b", on_completion=slowly)
            receipts = [await producer.submit(f"m{number}") for number in range(20)]
            assert all(isinstance(receipt, asyncio.Future) for receipt in receipts)
            confirmed = await asyncio.gather(*receipts)
            assert texts_of(confirmed) == [f"m{number}" for number in range(20)]
            await _until(lambda: len(reported) == 2, "both were reported")
            assert reported == [(first, None), (second, None)]

    run(main())


def test_B5_refusals(connect: Connect, broker: Broker) -> None:
    with connect() as owner:
        gone = owner.session().temporary_queue()

    async def main() -> None:
        url = broker.url_with(jms__watchTopicAdvisories=False)
        async with aio.connect(url) as connection, connection.session() as session:
            producer = await session.producer()
            with pytest.raises(InvalidDestinationError):
                await producer.send("x", destination=gone)
            receipt = await producer.submit("x", destination=gone)
            with pytest.raises(InvalidDestinationError):
                await receipt
            await producer.submit("x", destination=gone)  # nobody looks at its error, and nobody complains

    run(main())


def test_B5_a_receipt_may_be_cancelled(connect: Connect, broker: Broker, queue: str) -> None:
    async def main() -> None:
        async with aio.connect(broker.url) as connection, connection.session() as session:
            producer = await session.producer(queue)
            (await producer.submit("cancelled")).cancel()
            await producer.send("next")

    run(main())
    assert texts_of(drain(connect(), queue)) == ["cancelled", "next"]  # it was on its way


def test_C1_styles_of_receiving(connect: Connect, broker: Broker, queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(connect(), queue, 6)

    async def main() -> None:
        async with aio.connect(broker.url) as connection, connection.session() as session:
            consumer = await session.consumer(queue)
            assert text_of(await consumer.receive()) == "m0"
            assert text_of(await consumer.receive(10)) == "m1"
            await _until(lambda: len(consumer._core) == 4, "the others are here")
            assert text_of(await consumer.receive_no_wait()) == "m2"
            async for message in consumer:
                assert text_of(message) == "m3"
                break
            heard: list[str | None] = []
            consumer.listener = lambda message: heard.append(text_of(message))
            with pytest.raises(IllegalStateError, match="listener"):
                await consumer.receive()
            await _until(lambda: heard == ["m4", "m5"], "both were heard")
            consumer.listener = None
            assert await consumer.receive_no_wait() is None
            assert await consumer.receive(0.01) is None
            monkeypatch.setattr(consumer_module, "RECEIVE_TIMEOUT_SECONDS", 0.02)
            with pytest.raises(RequestTimedOutError, match=r"receive\(None\) waits for ever"):
                await consumer.receive()

    run(main())


def test_C1_listeners_of_one_session_never_overlap(connect: Connect, broker: Broker, queue: str) -> None:
    for part in range(3):
        fill(connect(), f"{queue}.{part}", 20)

    async def main() -> None:
        at_work = 0
        most = 0
        heard = 0

        async def listener(_: Message) -> None:
            nonlocal at_work, most, heard
            at_work += 1
            most = max(most, at_work)
            await asyncio.sleep(0.0005)
            at_work -= 1
            heard += 1

        async with aio.connect(broker.url) as connection, connection.session() as session:
            for part in range(3):
                consumer = await session.consumer(f"{queue}.{part}")
                consumer.listener = listener
            await _until(lambda: heard == 60, "all were heard")
        assert most == 1

    run(main())


def test_C1_an_iteration_ends_when_the_consumer_is_closed(broker: Broker, queue: str) -> None:
    async def main() -> None:
        async with aio.connect(broker.url) as connection, connection.session() as session:
            consumer = await session.consumer(queue)

            async def iterate() -> list[Message]:
                return [message async for message in consumer]

            task = asyncio.create_task(iterate())
            await asyncio.sleep(0.01)
            await consumer.close()
            assert await task == []

    run(main())


def test_C1_many_tasks_share_one_connection(broker: Broker, queue: str) -> None:
    async def main() -> None:
        async with aio.connect(broker.url) as connection:

            async def work(number: int) -> None:
                name = f"{queue}.{number}"
                async with connection.session() as session:
                    consumer = await session.consumer(name)
                    for turn in range(5):
                        await session.send(name, f"{number}-{turn}")
                        assert text_of(await _one(consumer)) == f"{number}-{turn}"

            await asyncio.gather(*(work(number) for number in range(20)))

    run(main())


def test_C3_pulling(connect: Connect, broker: Broker, queue: str) -> None:
    fill(connect(), queue, 2)

    async def main() -> None:
        async with aio.connect(broker.url) as connection, connection.session() as session:
            consumer = await session.consumer(f"{queue}?consumer.prefetchSize=0")
            assert text_of(await consumer.receive(10)) == "m0"
            assert text_of(await consumer.receive_no_wait()) == "m1"
            assert await consumer.receive_no_wait() is None
            with pytest.raises(JMSError, match="prefetch 0"):
                consumer.listener = lambda _: None

    run(main())


def test_D1_a_listener_that_fails_gets_its_message_again(broker: Broker, queue: str) -> None:
    async def main() -> None:
        heard: list[tuple[str | None, int]] = []

        async def listener(message: Message) -> None:
            heard.append((text_of(message), message.delivery_count))
            if len(heard) == 1:
                raise RuntimeError("on purpose")

        async with aio.connect(broker.url_with(**NO_DELAY)) as connection, connection.session() as session:
            consumer = await session.consumer(queue)
            consumer.listener = listener
            await session.send(queue, "body")
            await _until(lambda: heard == [("body", 1), ("body", 2)], "it was heard twice")

    run(main())


def test_D1_a_listener_in_which_something_was_cancelled_has_failed(broker: Broker, queue: str) -> None:
    """A CancelledError that comes out of a listener is one failure more, and not the end of its session."""

    async def main() -> None:
        heard: list[tuple[str | None, int]] = []

        async def listener(message: Message) -> None:
            heard.append((text_of(message), message.delivery_count))
            if len(heard) == 1:
                inner = asyncio.ensure_future(asyncio.sleep(10))
                asyncio.get_running_loop().call_soon(inner.cancel)
                await inner

        async with aio.connect(broker.url_with(**NO_DELAY)) as connection, connection.session() as session:
            consumer = await session.consumer(queue)
            consumer.listener = listener
            await session.send(queue, "body")
            await _until(lambda: heard == [("body", 1), ("body", 2)], "it was heard twice")

    run(main())


@pytest.mark.parametrize("mode", AckMode)
def test_D_every_mode(connect: Connect, broker: Broker, queue: str, mode: AckMode) -> None:
    fill(connect(), queue, 30)

    async def main() -> None:
        async with aio.connect(broker.url) as connection, connection.session(mode) as session:
            consumer = await session.consumer(f"{queue}?consumer.prefetchSize=10")
            messages = await _many(consumer, 20)
            if mode is AckMode.INDIVIDUAL:
                for message in messages:
                    message.acknowledge()
            elif mode is AckMode.CLIENT:
                await session.acknowledge()
            elif mode is AckMode.SESSION_TRANSACTED:
                await session.commit()

    run(main())
    assert texts_of(drain(connect(), queue)) == [f"m{number}" for number in range(20, 30)]


def test_D7_recover_and_consumer_acknowledge(connect: Connect, broker: Broker, queue: str) -> None:
    fill(connect(), queue, 4)

    async def main() -> None:
        async with aio.connect(broker.url_with(**NO_DELAY)) as connection:
            session = await connection.session(AckMode.CLIENT)
            consumer = await session.consumer(queue)
            await _many(consumer, 2)
            await session.recover()
            assert [message.delivery_count for message in await _many(consumer, 3)] == [2, 2, 1]
            await consumer.acknowledge()

    run(main())
    assert texts_of(drain(connect(), queue)) == ["m3"]


def test_G1_commit_and_rollback(connect: Connect, broker: Broker, queue: str) -> None:
    async def main() -> None:
        async with aio.connect(broker.url) as connection:
            session = await connection.session(transacted=True)
            producer = await session.producer(queue)
            await producer.send("undone")
            await session.rollback()
            await producer.send("done")
            await session.commit()
            await producer.send("not decided")

    run(main())
    assert texts_of(drain(connect(), queue)) == ["done"]


def test_A8_request_and_reply_browser_and_temporary_queues(broker: Broker, queue: str) -> None:
    async def main() -> None:
        async with aio.connect(broker.url) as connection:
            server = await connection.session()
            answers = await server.producer()

            async def serve(message: Message) -> None:
                assert message.reply_to is not None
                await answers.send(f"re: {text_of(message)}", destination=message.reply_to)

            requests = await server.consumer(queue)
            requests.listener = serve
            session = await connection.session()
            for number in range(3):
                assert text_of(await session.request(queue, f"q{number}")) == f"re: q{number}"
            await requests.close()
            await session.send(queue, "stays")
            async with session.browser(queue) as browser:
                assert [text_of(message) async for message in browser] == ["stays"]

    run(main())


def test_C1_a_lost_connection_ends_every_wait(recording: RecordingProxy, queue: str) -> None:
    async def main() -> None:
        errors: list[JMSError] = []
        async with aio.connect(recording.url) as connection:
            connection.on_error = errors.append
            session = await connection.session()
            consumer = await session.consumer(f"{queue}.other")
            producer = await session.producer(queue)
            recording.hold_answers()
            waiting: list[Awaitable[Any]] = [
                asyncio.ensure_future(consumer.receive(None)),
                asyncio.ensure_future(producer.send("unconfirmed")),
                await producer.submit("unconfirmed"),
            ]
            await asyncio.sleep(0.01)
            recording.cut()
            for outcome in await asyncio.gather(*waiting, return_exceptions=True):
                assert isinstance(outcome, ConnectionFailedError)
            await _until(lambda: len(errors) == 1, "the application was told")

    run(main())


# ---- cancelling ------------------------------------------------------------------------------------------------


async def _cancelled_soon(work: Coroutine[Any, Any, T], random: Random) -> tuple[bool, T | None]:
    """Whether *work* ended before it was cancelled, after any number of turns or a little time; and its result."""
    task = asyncio.ensure_future(work)
    for _ in range(random.choice((0, 1, 1, 2, 3, 5, 8))):
        await asyncio.sleep(0)
    if random.random() < 0.5:
        await asyncio.sleep(random.random() * random.choice((0.001, 0.003, 0.02)))
    task.cancel()
    try:
        return True, await task
    except asyncio.CancelledError:
        return False, None


async def _timed_out_soon(work: Coroutine[Any, Any, T], random: Random) -> tuple[bool, T | None]:
    """The same by `asyncio.wait_for`."""
    try:
        return True, await asyncio.wait_for(work, random.choice((0, 0.0001, 0.0005, 0.003)))
    except TimeoutError:
        return False, None


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("interrupt", [_cancelled_soon, _timed_out_soon])
@pytest.mark.parametrize("prefetch", [0, 3, 1000])
def test_D1_cancelling_receive_loses_no_message_and_acknowledges_each_once(
    connect: Connect,
    recording: RecordingProxy,
    queue: str,
    prefetch: int,
    interrupt: Callable[..., Awaitable[tuple[bool, Message | None]]],
    seed: int,
) -> None:
    random = Random(seed)
    sender = connect()
    bodies: list[str] = []
    received: list[str | None] = []

    async def main() -> int:
        interrupted = 0
        async with aio.connect(recording.url) as connection, connection.session() as session:
            consumer = await session.consumer(f"{queue}?consumer.prefetchSize={prefetch}")
            producer = await (await connection.session()).producer(queue)
            while len(received) < 100:
                if len(bodies) < 100:
                    for _ in range(random.randrange(3)):  # in between, so that receive waits now and then
                        bodies.append(f"m{len(bodies)}")
                        await producer.send(bodies[-1], delivery_mode=NON_PERSISTENT)
                ended, message = await interrupt(consumer.receive(None), random)
                if ended:
                    received.append(text_of(message))
                interrupted += not ended
        return interrupted

    assert run(main()) > 0
    assert received == bodies[:100]
    assert lines_of(recording, queue) == one_by_one(STANDARD, 100)
    assert texts_of(drain(sender, queue)) == bodies[100:]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mode", [AckMode.CLIENT, AckMode.INDIVIDUAL, AckMode.DUPS_OK])
def test_D_cancelling_receive_in_other_modes(
    connect: Connect, recording: RecordingProxy, queue: str, mode: AckMode, seed: int
) -> None:
    random = Random(seed)
    sender = connect()
    bodies = fill(sender, queue, 60)
    received: list[Message] = []

    async def main() -> None:
        async with aio.connect(recording.url) as connection, connection.session(mode) as session:
            consumer = await session.consumer(f"{queue}?consumer.prefetchSize=10")
            while len(received) < 50:
                ended, message = await _cancelled_soon(consumer.receive(None), random)
                if ended:
                    assert message is not None
                    received.append(message)
                    if mode is AckMode.INDIVIDUAL:
                        message.acknowledge()
            if mode is AckMode.CLIENT:
                await session.acknowledge()

    run(main())
    assert texts_of(received) == bodies[:50]
    done = [line for line in lines_of(recording, queue) if line.type is not AckType.DELIVERED]
    assert sum(line.count for line in done) == 50
    if mode is AckMode.CLIENT:
        assert done == in_ranges(STANDARD, 50, 50)
    assert texts_of(drain(sender, queue)) == bodies[50:]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mode", [PERSISTENT, NON_PERSISTENT])
def test_B1_cancelling_send_sends_once_or_not_at_all(
    connect: Connect, broker: Broker, queue: str, mode: DeliveryMode, seed: int
) -> None:
    random = Random(seed)
    sure: list[str] = []
    tried: list[str] = []

    async def main() -> None:
        async with aio.connect(broker.url_with(jms__producerWindowSize=2000)) as connection:
            session = await connection.session()
            producer = await session.producer(queue)
            for number in range(150):
                tried.append(f"m{number}")
                ended, _ = await _cancelled_soon(producer.send(f"m{number}", delivery_mode=mode), random)
                if ended:
                    sure.append(f"m{number}")
            await producer.send("last", delivery_mode=mode)  # nothing is stuck
            sure.append("last")
            await _until(lambda: producer._core._window_used == 0, "all of the window was given back")

    run(main())
    arrived = texts_of(drain(connect(), queue))
    assert len(arrived) == len(set(arrived))
    assert set(sure) <= set(arrived) <= {*tried, "last"}
    assert arrived == [body for body in [*tried, "last"] if body in set(arrived)]
    assert len(sure) < len(tried)


@pytest.mark.parametrize("seed", range(6))
def test_G1_cancelling_commit_moves_each_message_exactly_once(
    connect: Connect, broker: Broker, queue: str, seed: int
) -> None:
    """Whoever cancelled a commit rolls back: that waits for the decision, and undoes what was not committed."""
    random = Random(seed)
    sender = connect()
    bodies = fill(sender, queue, 60)

    async def main() -> int:
        cancelled = 0
        async with aio.connect(broker.url_with(**FOR_EVER)) as connection:
            session = await connection.session(transacted=True)
            consumer = await session.consumer(f"{queue}?consumer.prefetchSize=10")
            producer = await session.producer(f"{queue}.out")
            while True:
                count = 0
                while count < random.randrange(1, 6) and (message := await consumer.receive(0.2)) is not None:
                    await producer.send(message)
                    count += 1
                if count == 0:
                    return cancelled
                ended, _ = await _cancelled_soon(session.commit(), random)
                if not ended:
                    cancelled += 1
                    await session.rollback()

    assert run(main()) > 0
    assert drain(sender, queue) == []
    assert sorted(map(str, texts_of(drain(sender, f"{queue}.out")))) == sorted(bodies)


@pytest.mark.parametrize("seed", SEEDS)
def test_G1_after_a_cancelled_commit_the_next_work_belongs_to_the_next_transaction(
    connect: Connect, broker: Broker, queue: str, seed: int
) -> None:
    random = Random(seed)
    decided: list[list[str]] = []

    async def main() -> None:
        async with aio.connect(broker.url) as connection:
            session = await connection.session(transacted=True)
            producer = await session.producer(queue)
            for number in range(40):
                group = [f"{number}-{part}" for part in range(3)]
                for body in group:
                    await producer.send(body)
                ended, _ = await _cancelled_soon(session.commit(), random)
                if not ended:
                    await asyncio.sleep(0)
                decided.append(group)
            await session.rollback()  # what a commit that never began has left

    run(main())
    arrived = texts_of(drain(connect(), queue))
    assert len(arrived) == len(set(arrived))
    for group in decided:
        present = [body for body in group if body in arrived]
        assert present in ([], group)
    assert arrived == [body for group in decided for body in group if body in arrived]


@pytest.mark.parametrize("seed", SEEDS)
def test_G1_cancelling_rollback_gives_everything_again(connect: Connect, broker: Broker, queue: str, seed: int) -> None:
    random = Random(seed)
    sender = connect()
    bodies = fill(sender, queue, 6)

    async def main() -> list[str | None]:
        url = broker.url_with(**FOR_EVER)
        async with aio.connect(url) as connection:
            session = await connection.session(transacted=True)
            consumer = await session.consumer(queue)
            for _ in range(20):
                assert texts_of(await _many(consumer, 6)) == bodies
                await _cancelled_soon(session.rollback(), random)
                await session.rollback()
            received = texts_of(await _many(consumer, 6))
            await session.commit()
            return received

    assert run(main()) == bodies
    assert drain(sender, queue) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_C1_cancelling_tasks_that_iterate_loses_nothing(
    connect: Connect, recording: RecordingProxy, queue: str, seed: int
) -> None:
    random = Random(seed)
    sender = connect()
    received: list[str | None] = []

    async def main() -> None:
        async with aio.connect(recording.url) as connection, connection.session() as session:
            consumer = await session.consumer(f"{queue}?consumer.prefetchSize=5")
            producer = await (await connection.session()).producer(queue)

            async def iterate() -> None:
                async for message in consumer:
                    received.append(text_of(message))
                    if random.random() < 0.3:
                        await asyncio.sleep(0)

            tasks = [asyncio.ensure_future(iterate()) for _ in range(3)]
            for number in range(120):
                await producer.send(f"m{number}", delivery_mode=NON_PERSISTENT)
                if random.random() < 0.5:
                    await asyncio.sleep(random.random() * 0.002)
                victim = random.randrange(3)
                tasks[victim].cancel()
                await asyncio.gather(tasks[victim], return_exceptions=True)
                tasks[victim] = asyncio.ensure_future(iterate())
            await _until(lambda: len(received) == 120, "all were received")
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    run(main())
    assert received == [f"m{number}" for number in range(120)]
    assert lines_of(recording, queue) == one_by_one(STANDARD, 120)
    assert drain(sender, queue) == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("what", ["consumer", "session", "connection"])
@pytest.mark.parametrize("listens", [False, True])
def test_D7_cancelling_close_gives_everything_back(
    connect: Connect, broker: Broker, queue: str, what: str, listens: bool, seed: int
) -> None:
    """And closing again closes what is left, so that nobody holds the messages."""
    random = Random(seed)
    sender = connect()
    bodies = fill(sender, queue, 10)

    url = broker.url_with(**FOR_EVER)

    async def main() -> None:
        for _ in range(8):
            connection = await aio.connect(url)
            session = await connection.session(AckMode.CLIENT)
            consumer = await session.consumer(queue)
            if listens:
                consumer.listener = lambda _: asyncio.sleep(random.random() * 0.001)
                await asyncio.sleep(random.random() * 0.003)
            else:
                await _many(consumer, random.randrange(10))
            closers: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
                "consumer": consumer.close,
                "session": session.close,
                "connection": connection.close,
            }
            await _cancelled_soon(closers[what](), random)
            await closers[what]()
            async with aio.connect(url) as other, other.session(AckMode.CLIENT) as others:
                assert texts_of(await _many(await others.consumer(queue), 10)) == bodies
            await connection.close()
            assert connection.is_closed

    run(main())
    assert texts_of(browse(sender, queue)) == bodies


@pytest.mark.parametrize("seed", SEEDS)
def test_C1_cancelling_the_making_of_things_leaves_nothing_behind(broker: Broker, queue: str, seed: int) -> None:
    """A consumer that nobody knows of would take messages and keep them."""
    random = Random(seed)

    async def main() -> None:
        async with aio.connect(broker.url) as connection:
            session = await connection.session()
            for _ in range(25):
                ended, consumer = await _cancelled_soon(_opened(lambda: session.consumer(queue)), random)
                if ended:
                    assert consumer is not None
                    await consumer.close()
                ended, producer = await _cancelled_soon(_opened(lambda: session.producer(queue)), random)
                if ended:
                    assert producer is not None
                    await producer.close()
            await _until(lambda: not (session._core.consumers or session._core.producers), "nothing is left")
            for number in range(20):
                await session.send(queue, f"m{number}")
            received = texts_of(await _many(await session.consumer(queue), 20))
            assert received == [f"m{number}" for number in range(20)]

    run(main())


@pytest.mark.parametrize("seed", SEEDS)
def test_A1_cancelling_connect_leaves_nothing_behind(recording: RecordingProxy, queue: str, seed: int) -> None:
    random = Random(seed)

    async def main() -> None:
        for _ in range(15):
            ended, connection = await _cancelled_soon(_opened(lambda: aio.connect(recording.url)), random)
            if ended:
                assert connection is not None
                await connection.close()
        async with aio.connect(recording.url) as connection, connection.session() as session:
            await session.send(queue, "still works")

    run(main())


async def _opened(opening: Callable[[], Awaitable[T]]) -> T:
    return await opening()


def test_A8_cancelling_a_request_closes_what_it_had_opened(recording: RecordingProxy, queue: str) -> None:
    async def main() -> None:
        async with aio.connect(recording.url) as connection, connection.session() as session:
            asking = asyncio.ensure_future(session.request(queue, "anybody?"))
            await _until(lambda: len(recording.sent(commands.ActiveMQTextMessage)) == 1, "it was asked")
            await asyncio.sleep(0.01)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            assert session._core.consumers == []
            add, remove = commands.DestinationOperation.ADD, commands.DestinationOperation.REMOVE
            await _until(
                lambda: [info.operation_type for info in recording.sent(commands.DestinationInfo)] == [add, remove],
                "its queue was deleted",
            )

    run(main())


def test_D7_a_program_that_is_cancelled_as_a_whole_closes_in_order(
    connect: Connect, broker: Broker, queue: str
) -> None:
    """As by Ctrl-C: `async with` closes everything, and what was not acknowledged is there again."""
    sender = connect()
    bodies = fill(sender, queue, 10)

    async def program(ready: asyncio.Event) -> None:
        async with aio.connect(broker.url) as connection, connection.session(AckMode.CLIENT) as session:
            consumer = await session.consumer(queue)
            await _many(consumer, 5)
            ready.set()
            await asyncio.Event().wait()

    async def main() -> None:
        ready = asyncio.Event()
        task = asyncio.ensure_future(program(ready))
        await ready.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(main())
    assert texts_of(browse(sender, queue)) == bodies


def test_A1_both_clients_have_the_same_names() -> None:
    assert set(aio.__all__) == set(client.__all__)

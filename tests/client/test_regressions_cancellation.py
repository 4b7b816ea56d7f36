"""Mistakes that a review found: whoever is cancelled leaves nothing behind (asyncio)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import ackwire
from ackwire import aio
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.commands import DestinationOperation, TransactionType
from ackwire.wire.openwire.structures import Throwable
from tests.client.conftest import Connect
from tests.client.fake_broker import Client, FakeBroker
from tests.client.recording import RecordingProxy
from tests.client.steps import ARRIVAL_SECONDS, numbered, send, text_of
from tests.client.watched import failover
from tests.client.work import await_that
from tests.conformance.proxy import CuttableProxy


async def cancelled(work: Callable[[], Awaitable[Any]], when: Callable[[], object]) -> None:
    """Begin *work* and cancel it when *when*, which waits in a thread, has returned."""

    async def main() -> None:
        await work()

    task = asyncio.ensure_future(main())
    await asyncio.sleep(0)
    await asyncio.to_thread(when)
    assert not task.done()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def until(condition: Callable[[], bool], what: str) -> None:
    await asyncio.to_thread(await_that, condition, what)


def test_J4_a_consumer_whose_making_was_cancelled_without_a_link_takes_no_messages(
    connect: Connect, proxy: CuttableProxy, queue: str
) -> None:
    """J4: nothing of it is asked for on the next link, where it would sit on the messages of others."""
    send(connect(), queue, *numbered(range(5)))

    async def main() -> list[str | None]:
        async with aio.connect(failover(proxy.port)) as connection, connection.session() as session:
            is_lost, is_back = asyncio.Event(), asyncio.Event()
            connection.on_interrupted, connection.on_resumed = is_lost.set, is_back.set
            proxy.cut()
            await asyncio.wait_for(is_lost.wait(), ARRIVAL_SECONDS)
            await cancelled(lambda: session.consumer(queue), lambda: None)
            proxy.mend()
            await asyncio.wait_for(is_back.wait(), ARRIVAL_SECONDS)
            consumer = await session.consumer(queue)
            return [text_of(await consumer.receive(ARRIVAL_SECONDS)) for _ in range(5)]

    assert asyncio.run(main()) == numbered(range(5))


def test_A1_sends_that_were_cancelled_leave_no_producer_behind(
    connect: Connect, recording: RecordingProxy, queue: str
) -> None:
    """A1: whether the broker has answered or not when a session's send in one line is cancelled."""
    del connect  # checks that nothing is reported

    async def main() -> None:
        async with aio.connect(recording.url) as connection, connection.session() as session:
            recording.hold_answers()
            for number in range(3):
                await cancelled(
                    lambda: session.send(queue, "m"),
                    lambda number=number: recording.await_sent(commands.ProducerInfo, number + 1),  # type: ignore[misc]
                )
            recording.release()
            made = {info.producer_id for info in recording.sent(commands.ProducerInfo)}
            assert len(made) == 3

            def are_gone() -> bool:
                return made <= {info.object_id for info in recording.sent(commands.RemoveInfo)}

            await until(are_gone, "the producers have left")

    asyncio.run(main())


def test_A1_a_browser_whose_iteration_was_cancelled_leaves_no_consumer_behind(
    connect: Connect, recording: RecordingProxy, queue: str
) -> None:
    """A1: the broker would go on sending it messages."""
    send(connect(), queue, "m")

    def browsers() -> set[object]:
        return {info.consumer_id for info in recording.sent(commands.ConsumerInfo) if info.browser}

    async def main() -> None:
        async with aio.connect(recording.url) as connection, connection.session() as session:
            browser = await session.browser(queue)

            async def look() -> None:
                async for _ in browser:
                    pass

            recording.hold_answers()
            await cancelled(look, lambda: await_that(lambda: bool(browsers()), "the browser has asked"))
            recording.release()

            def are_gone() -> bool:
                return browsers() <= {info.object_id for info in recording.sent(commands.RemoveInfo)}

            await until(are_gone, "the browser's consumer has left")

    asyncio.run(main())


def test_A8_a_temporary_queue_whose_making_was_cancelled_is_deleted(
    connect: Connect, recording: RecordingProxy
) -> None:
    """A8: nobody knows its name, so nobody else would."""
    del connect  # checks that nothing is reported

    def told(operation: DestinationOperation) -> set[str | None]:
        infos = recording.sent(commands.DestinationInfo)
        return {
            info.destination.physical_name for info in infos if info.destination and info.operation_type == operation
        }

    async def main() -> None:
        async with aio.connect(recording.url) as connection, connection.session() as session:
            recording.hold_answers()
            await cancelled(session.temporary_queue, lambda: recording.await_sent(commands.DestinationInfo))
            recording.release()

            def is_gone() -> bool:
                return told(DestinationOperation.ADD) == told(DestinationOperation.REMOVE)

            await until(is_gone, "the temporary queue is deleted")

    asyncio.run(main())


def test_G1_that_a_cancelled_commit_was_refused_goes_to_on_error() -> None:
    """G1: nobody waits for it any more, and everything was undone."""
    commits: list[tuple[Client, commands.TransactionInfo]] = []

    def keeps_commits(client: Client, command: object) -> bool:
        if isinstance(command, commands.TransactionInfo) and command.type == TransactionType.COMMIT_ONE_PHASE:
            commits.append((client, command))
            return False
        return True

    async def main(broker: FakeBroker) -> ackwire.JMSError:
        errors: asyncio.Queue[ackwire.JMSError] = asyncio.Queue()
        async with aio.connect(broker.url) as connection, connection.session(transacted=True) as session:
            connection.on_error = errors.put
            await session.send("orders", "m")
            await cancelled(session.commit, lambda: await_that(lambda: bool(commits), "the commit is asked for"))
            client, commit = commits[0]
            client.answer(commit, Throwable("javax.jms.JMSException", "not today"))
            return await asyncio.wait_for(errors.get(), ARRIVAL_SECONDS)

    with FakeBroker(keeps_commits) as broker:
        error = asyncio.run(main(broker))
    assert isinstance(error, ackwire.TransactionRolledBackError)
    assert "not today" in str(error)

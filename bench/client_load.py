"""The load for `client_versus_stomp.py`: one Python client in a process of its own, which does what lines of JSON say.

The process lives through all rounds, so that its code is warm. Each piece of work has a new connection, made before the
clock starts. Sending ends when the broker has confirmed the last message; receiving begins with the subscription to a
full queue and ends when the broker has confirmed its end, and with it every acknowledgement. Every message is read and
checked: its number, so that none is missing, repeated or out of order, and its length.

    python -m bench.client_load stomp|blocking|asyncio|bare BROKER_PORT STOMP_PORT    work as JSON, line by line
"""

import asyncio
import json
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Final, Protocol

import stomp  # type: ignore[import-untyped]

import ackwire
from ackwire import AckMode, DeliveryMode, aio
from bench.client_bare import BareClient
from bench.client_work import PREFETCH, TIMEOUT_SECONDS, Expectation, Measured, Stopwatch, Work, text_of

RANGES_PREFETCH: Final = 300
"""For acks in ranges, which are made of 0.65 of it: ActiveMQ sends 200 messages of a full queue, and then waits."""


class Client(Protocol):
    """One of the clients."""

    def send(self, work: Work) -> Measured: ...

    def receive(self, work: Work) -> Measured: ...


# ---- stomp.py --------------------------------------------------------------------------------------------------


class StompListener(stomp.ConnectionListener):  # type: ignore[misc]
    """Counts receipts, and passes messages on."""

    def __init__(self, connection: stomp.Connection12, work: Work) -> None:
        self._connection = connection
        self._acks = work.ack == "individual"
        self._receipts = threading.Semaphore(0)
        self._problem = ""
        self.expectation = Expectation(work.count)

    def await_receipts(self, count: int = 1) -> None:
        for _ in range(count):
            if not self._receipts.acquire(timeout=TIMEOUT_SECONDS) or self._problem:
                raise AssertionError(self._problem or "no receipt")

    def on_receipt(self, frame: Any) -> None:
        del frame
        self._receipts.release()

    def on_message(self, frame: Any) -> None:
        self.expectation.take(frame.body)
        if self._acks:
            self._connection.ack(frame.headers["ack"])

    def on_error(self, frame: Any) -> None:
        self._problem = f"the broker says: {frame.body}"
        self.expectation.fail(self._problem)
        self._receipts.release()


class StompClient:
    """stomp.py 1.2, with its defaults but for text: without a content length the broker makes it a TextMessage."""

    def __init__(self, port: int) -> None:
        self._port = port

    def _connect(self, work: Work) -> tuple[stomp.Connection12, StompListener]:
        connection = stomp.Connection12([("127.0.0.1", self._port)], auto_content_length=False)
        listener = StompListener(connection, work)
        connection.set_listener("", listener)
        connection.connect(wait=True)
        return connection, listener

    def send(self, work: Work) -> Measured:
        connection, listener = self._connect(work)
        where = f"/queue/{work.queue}"
        headers = {"persistent": "true" if work.persistent else "false"}
        watch = Stopwatch()
        for number in range(1, work.count + 1):
            text = text_of(number)
            if work.confirm == "last" and number < work.count:
                connection.send(where, text, headers=headers)
                continue
            connection.send(where, text, headers={**headers, "receipt": str(number)})
            if work.confirm == "each":
                listener.await_receipts()
        if work.confirm != "each":
            listener.await_receipts(work.count if work.confirm == "all" else 1)
        measured = watch.read()
        connection.disconnect()
        return measured

    def receive(self, work: Work) -> Measured:
        connection, listener = self._connect(work)
        mode = "auto" if work.ack == "auto" else "client-individual"
        watch = Stopwatch()
        connection.subscribe(f"/queue/{work.queue}", "1", mode, headers={"activemq.prefetchSize": str(PREFETCH)})
        listener.expectation.wait()
        connection.unsubscribe("1", receipt="end")
        listener.await_receipts()
        measured = watch.read()
        connection.disconnect()
        listener.expectation.check()
        return measured


# ---- ours, blocking --------------------------------------------------------------------------------------------


def ack_mode(work: Work) -> AckMode:
    return AckMode.INDIVIDUAL if work.ack == "individual" else AckMode.AUTO


def url_for(port: int, work: Work) -> str:
    options = f"?jms.optimizeAcknowledge=true&jms.prefetchPolicy.queuePrefetch={RANGES_PREFETCH}"
    return f"tcp://127.0.0.1:{port}{options if work.ack == 'ranges' else ''}"


def delivery_mode(work: Work) -> DeliveryMode:
    return DeliveryMode.PERSISTENT if work.persistent else DeliveryMode.NON_PERSISTENT


class BlockingClient:
    """`ackwire.connect`."""

    def __init__(self, port: int) -> None:
        self._port = port

    def send(self, work: Work) -> Measured:
        with ackwire.connect(url_for(self._port, work)) as connection, connection.session() as session:
            connection.use_async_send = work.confirm == "last"
            producer = session.producer(work.queue)
            producer.delivery_mode = delivery_mode(work)
            watch = Stopwatch()
            if work.confirm == "all":
                receipts = [producer.submit(text_of(number)) for number in range(1, work.count + 1)]
                for receipt in receipts:
                    receipt.result(TIMEOUT_SECONDS)
            else:
                for number in range(1, work.count):
                    producer.send(text_of(number))
                producer.submit(text_of(work.count)).result(TIMEOUT_SECONDS)
            return watch.read()

    def receive(self, work: Work) -> Measured:
        expectation = Expectation(work.count)
        acks = work.ack == "individual"

        def listen(message: ackwire.Message) -> None:
            assert isinstance(message, ackwire.TextMessage)
            expectation.take(message.text)
            if acks:
                message.acknowledge()

        with ackwire.connect(url_for(self._port, work)) as connection, connection.session(ack_mode(work)) as session:
            watch = Stopwatch()
            consumer = session.consumer(work.queue)
            if work.by == "listener":
                consumer.listener = listen
                expectation.wait()
            else:
                for _ in range(work.count):
                    message = consumer.receive()
                    assert message is not None
                    listen(message)
            consumer.close()
            measured = watch.read()
        expectation.check()
        return measured


# ---- ours, asyncio ---------------------------------------------------------------------------------------------


class AsyncioClient:
    """`ackwire.aio.connect`."""

    def __init__(self, port: int) -> None:
        self._port = port

    def send(self, work: Work) -> Measured:
        return asyncio.run(self._send(work))

    async def _send(self, work: Work) -> Measured:
        async with aio.connect(url_for(self._port, work)) as connection, connection.session() as session:
            connection.use_async_send = work.confirm == "last"
            producer = await session.producer(work.queue)
            producer.delivery_mode = delivery_mode(work)
            watch = Stopwatch()
            if work.confirm == "all":
                receipts = [await producer.submit(text_of(number)) for number in range(1, work.count + 1)]
                for receipt in receipts:
                    await receipt
            else:
                for number in range(1, work.count):
                    await producer.send(text_of(number))
                await (await producer.submit(text_of(work.count)))
            return watch.read()

    def receive(self, work: Work) -> Measured:
        return asyncio.run(self._receive(work))

    async def _receive(self, work: Work) -> Measured:
        expectation = Expectation(work.count)
        acks = work.ack == "individual"
        done = asyncio.Event()

        def listen(message: ackwire.Message) -> None:
            assert isinstance(message, ackwire.TextMessage)
            if expectation.take(message.text):
                done.set()
            if acks:
                message.acknowledge()

        async with aio.connect(url_for(self._port, work)) as connection, connection.session(ack_mode(work)) as session:
            watch = Stopwatch()
            consumer = await session.consumer(work.queue)
            if work.by == "listener":
                consumer.listener = listen
                await asyncio.wait_for(done.wait(), TIMEOUT_SECONDS)
            else:
                for _ in range(work.count):
                    message = await consumer.receive()
                    assert message is not None
                    listen(message)
            await consumer.close()
            measured = watch.read()
        expectation.check()
        return measured


# ---- the process -----------------------------------------------------------------------------------------------

CLIENTS: Final[dict[str, Callable[[int], Client]]] = {
    "stomp": StompClient,
    "blocking": BlockingClient,
    "asyncio": AsyncioClient,
    "bare": BareClient,
}


def done(client: Client, line: str) -> dict[str, Any]:
    """What the work in *line* took, or why it failed."""
    work = Work(**json.loads(line))
    try:
        return asdict(client.send(work) if work.do == "send" else client.receive(work))
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def main(arguments: Sequence[str]) -> None:
    name, port, stomp_port = arguments
    client = CLIENTS[name](int(stomp_port if name == "stomp" else port))
    for line in sys.stdin:
        print(json.dumps(done(client, line)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

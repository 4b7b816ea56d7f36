"""The reliability helpers with a real broker, in both clients (M1, M2, M9)."""

import asyncio
import re
import signal
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import ackwire
from ackwire import aio
from ackwire.client.disk_buffer import DiskBuffer
from ackwire.client.listening import listener
from ackwire.client.messages import Message, TextMessage
from ackwire.vm import EmbeddedBroker
from tests.conformance.proxy import CuttableProxy
from tests.helpers.flavours import WAIT_SECONDS, Async, Blocking, Flavour
from tests.helpers.processes import ManagedProcess

AT_ONCE = "jms.redeliveryPolicy.initialRedeliveryDelay=0&jms.redeliveryPolicy.redeliveryDelay=0"
IDLE_SECONDS = 0.3  # after so long without a message it is worth asking whether there are any


@pytest.fixture(params=["sync", "aio"])
def flavour(request: pytest.FixtureRequest) -> Iterator[Flavour]:
    made: Flavour = Blocking(client=ackwire) if request.param == "sync" else Async(client=aio)
    yield made
    made.close()


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(re.sub(r"\W+", "-", request.node.name)) as broker:
        yield broker


@pytest.fixture
def session(broker: EmbeddedBroker) -> Iterator[ackwire.Session]:
    """To look at the broker with."""
    with ackwire.connect(broker.url) as connection, connection.session() as session:
        yield session


def text_of(message: Message | None) -> str:
    assert isinstance(message, TextMessage)
    assert message.text is not None
    return message.text


def send(session: ackwire.Session, queue: str, *texts: str) -> None:
    with session.producer(queue) as producer:
        for text in texts:
            producer.send(text)


def drained(session: ackwire.Session, queue: str, count: int | None = None) -> list[str]:
    """The next *count* messages; or all that are there."""
    texts: list[str] = []
    with session.consumer(queue) as consumer:
        while count is None or len(texts) < count:
            message = consumer.receive(IDLE_SECONDS if count is None else WAIT_SECONDS)
            if message is not None:
                texts.append(text_of(message))
            elif count is not None or not list(session.browser(queue)):
                break
    return texts


class Tally:
    """What has happened, to wait for."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.items: list[Any] = []

    def add(self, item: object) -> None:
        with self._changed:
            self.items.append(item)
            self._changed.notify_all()

    def wait_for(self, predicate: Callable[[list[Any]], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: predicate(self.items), WAIT_SECONDS), self.items

    def wait_for_count(self, count: int) -> None:
        self.wait_for(lambda items: len(items) >= count)


@contextmanager
def program(source: str, path: Path, **values: object) -> Iterator[ManagedProcess]:
    """A Python program in a process of its own; words of *source* in capitals are *values*."""
    source = textwrap.dedent(source)
    for name, value in values.items():
        source = source.replace(name, str(value))
    with ManagedProcess([sys.executable, "-u", "-c", source], log_path=path / "program.log") as process:
        yield process


# ---- PooledConsumer ----------------------------------------------------------------------------------------------


def test_M1_every_message_is_handled_once_and_acknowledged(
    flavour: Flavour, broker: EmbeddedBroker, session: ackwire.Session
) -> None:
    texts = [f"m{number}" for number in range(300)]
    send(session, "orders", *texts)
    handled = Tally()
    pool = flavour.modules.client.PooledConsumer(
        broker.url, "orders", flavour.handler(lambda message: handled.add(text_of(message))), workers=4
    )
    with flavour.using(pool):
        handled.wait_for_count(300)
    assert sorted(handled.items) == sorted(texts)
    assert drained(session, "orders") == []


def test_M1_F2_a_message_whose_handler_fails_comes_again(
    flavour: Flavour, broker: EmbeddedBroker, session: ackwire.Session
) -> None:
    send(session, "orders", *(f"m{number}" for number in range(20)))
    handled = Tally()

    def handle(message: Message) -> None:
        if text_of(message).endswith("7") and message.delivery_count < 3:
            raise LookupError("not yet")
        handled.add((text_of(message), message.delivery_count))

    url = f"{broker.url}?{AT_ONCE}"
    with flavour.using(flavour.modules.client.PooledConsumer(url, "orders", flavour.handler(handle), workers=3)):
        handled.wait_for_count(20)
    assert dict(handled.items) == {f"m{number}": 3 if number in (7, 17) else 1 for number in range(20)}
    assert drained(session, "orders") == []


def test_M1_F3_a_message_that_always_fails_is_a_dead_letter_with_its_cause(
    flavour: Flavour, broker: EmbeddedBroker, session: ackwire.Session
) -> None:
    send(session, "orders", "bad", "good")
    attempts, handled = Tally(), Tally()

    def handle(message: Message) -> None:
        if text_of(message) == "bad":
            attempts.add(message.delivery_count)
            raise LookupError("no such order")
        handled.add(text_of(message))

    url = f"{broker.url}?{AT_ONCE}&jms.redeliveryPolicy.maximumRedeliveries=2"
    with flavour.using(flavour.modules.client.PooledConsumer(url, "orders", flavour.handler(handle), workers=2)):
        with session.consumer("ActiveMQ.DLQ") as letters:
            letter = letters.receive()
        handled.wait_for_count(1)
    assert text_of(letter) == "bad"
    assert letter is not None
    assert "no such order" in str(letter.properties["dlqDeliveryFailureCause"])
    assert attempts.items == [1, 2, 3]


def test_M1_what_was_not_taken_stays_for_others_when_the_pool_closes(
    flavour: Flavour, broker: EmbeddedBroker, session: ackwire.Session
) -> None:
    texts = [f"m{number:02}" for number in range(40)]
    send(session, "orders", *texts)
    begun, go_on = Tally(), threading.Event()

    def handle(message: Message) -> None:
        begun.add(text_of(message))
        assert go_on.wait(WAIT_SECONDS)

    pool = flavour.modules.client.PooledConsumer(broker.url, "orders", flavour.handler(handle), workers=2, queue_size=3)
    flavour.run(pool.start())
    begun.wait_for_count(3)
    closing = threading.Thread(target=lambda: flavour.run(pool.close()))
    closing.start()
    go_on.set()
    closing.join(WAIT_SECONDS)
    assert sorted(begun.items) == texts[: len(begun.items)]
    assert drained(session, "orders") == texts[len(begun.items) :]


POOL = r"""
    import asyncio, sys, time
    import ackwire
    from ackwire import aio

    def handle(message):
        sys.stdout.write(f"begun {message.text}\n")
        if int(message.text) % 5:
            time.sleep(1000)

    if "FLAVOUR" == "sync":
        with ackwire.PooledConsumer("URL", "orders", handle, workers=3, queue_size=4):
            time.sleep(1000)

    async def main():
        async def handle_async(message):
            await asyncio.to_thread(handle, message)

        async with aio.PooledConsumer("URL", "orders", handle_async, workers=3, queue_size=4):
            await asyncio.sleep(1000)

    asyncio.run(main())
"""


def test_M1_N4_a_killed_process_loses_nothing(
    flavour: Flavour, broker: EmbeddedBroker, session: ackwire.Session, tmp_path: Path
) -> None:
    send(session, "orders", *(str(number) for number in range(20)))
    with program(POOL, tmp_path, FLAVOUR=flavour.name, URL=broker.url) as process:
        for number in (0, 1, 2, 3):  # 0 is done; three workers hang, and the one who takes will, too
            process.wait_for_line(re.compile(rf"begun {number}\b"), WAIT_SECONDS)
        process.kill()
    expected = {str(number) for number in range(20) if number % 5}
    with session.consumer("orders") as consumer:
        while expected:  # all that was not finished
            expected.discard(text_of(consumer.receive()))


# ---- BufferedProducer --------------------------------------------------------------------------------------------


def buffered(flavour: Flavour, url: str, **options: Any) -> Any:
    return flavour.modules.client.BufferedProducer(url, "orders", **options)


def test_M2_messages_arrive_in_order(flavour: Flavour, broker: EmbeddedBroker, session: ackwire.Session) -> None:
    texts = [f"m{number}" for number in range(500)]
    with flavour.using(buffered(flavour, broker.url)) as producer:
        for text in texts:
            flavour.run(producer.send(text))
    assert drained(session, "orders") == texts


@pytest.mark.parametrize("scheme", ["{}", "failover:({})?initialReconnectDelay=20&maxReconnectDelay=100"])
def test_M2_sends_go_on_without_a_broker_and_arrive_when_it_is_back(
    flavour: Flavour, broker: EmbeddedBroker, session: ackwire.Session, scheme: str
) -> None:
    with CuttableProxy(broker.port) as proxy:
        proxy.cut()
        url = scheme.format(f"tcp://127.0.0.1:{proxy.port}")
        with flavour.using(buffered(flavour, url, close_timeout_seconds=WAIT_SECONDS)) as producer:
            for number in range(50):
                flavour.run(producer.send(f"m{number}"))
            assert producer.waiting.count == 50
            proxy.mend()
            flavour.run(producer.flush(WAIT_SECONDS))
            proxy.cut()
            for number in range(50, 100):
                flavour.run(producer.send(f"m{number}"))
            proxy.mend()
        assert drained(session, "orders") == [f"m{number}" for number in range(100)]


@pytest.mark.parametrize("is_failover", [False, True], ids=["plain", "failover"])
def test_M2_a_connection_that_breaks_again_and_again_loses_nothing(
    flavour: Flavour, broker: EmbeddedBroker, session: ackwire.Session, is_failover: bool
) -> None:
    texts = [f"m{number}" for number in range(400)]
    with CuttableProxy(broker.port) as proxy:
        url = f"tcp://127.0.0.1:{proxy.port}"
        if is_failover:
            url = f"failover:({url})?initialReconnectDelay=10&maxReconnectDelay=50"
        with flavour.using(buffered(flavour, url, close_timeout_seconds=WAIT_SECONDS)) as producer:
            for number, text in enumerate(texts):
                flavour.run(producer.send(text))
                if number % 100 == 50:
                    proxy.cut_once()
    arrived = drained(session, "orders")
    assert list(dict.fromkeys(arrived)) == texts, "all, the first of each in order"
    if is_failover:
        assert arrived == texts, "the broker recognises what it has already"


BUFFER = """
    import asyncio, time
    import ackwire
    from ackwire import aio

    if "FLAVOUR" == "sync":
        producer = ackwire.BufferedProducer("URL", "orders", buffer=ackwire.BUFFER)
        for number in range(30):
            producer.send(str(number))
        print("kept")
        LAST
    else:
        async def main():
            producer = aio.BufferedProducer("URL", "orders", buffer=ackwire.BUFFER)
            for number in range(30):
                await producer.send(str(number))
            print("kept")
            LAST

        asyncio.run(main())
"""


def test_M2_a_killed_process_leaves_its_messages_on_disk_and_the_next_one_sends_them(
    flavour: Flavour, broker: EmbeddedBroker, session: ackwire.Session, tmp_path: Path
) -> None:
    folder = tmp_path / "buffer"
    values = {"FLAVOUR": flavour.name, "URL": "tcp://127.0.0.1:1", "BUFFER": f"DiskBuffer({str(folder)!r})"}
    with program(BUFFER, tmp_path, **values, LAST="time.sleep(1000)") as process:
        process.wait_for_line(re.compile("kept"), WAIT_SECONDS)
        process.kill()
    with flavour.using(buffered(flavour, broker.url, buffer=DiskBuffer(folder))) as producer:
        flavour.run(producer.send("last"))
    assert drained(session, "orders") == [*map(str, range(30)), "last"]


def test_M2_a_program_that_ends_without_closing_has_sent_everything(
    flavour: Flavour, broker: EmbeddedBroker, session: ackwire.Session, tmp_path: Path
) -> None:
    url = broker.url.replace("127.0.0.1", "localhost")
    with program(BUFFER, tmp_path, FLAVOUR=flavour.name, URL=url, BUFFER="MemoryBuffer()", LAST="pass") as process:
        assert process.wait() == 0, process.output()
    assert "Error" not in process.output()
    assert drained(session, "orders") == [*map(str, range(30))]


def test_M2_what_the_broker_refuses_goes_to_on_refused(flavour: Flavour, broker: EmbeddedBroker) -> None:
    refused = Tally()

    def on_refused(message: Message, error: ackwire.JMSError) -> None:
        refused.add((text_of(message), type(error).__name__))

    gone = "temp-queue://ID:nobody-1-1-1:1:1"
    with flavour.using(buffered(flavour, broker.url, on_refused=flavour.handler(on_refused))) as producer:
        flavour.run(producer.send("lost", destination=gone))
        flavour.run(producer.send("fine"))
        flavour.run(producer.flush(WAIT_SECONDS))
    assert [text for text, _ in refused.items] == ["lost"]


# ---- Template ----------------------------------------------------------------------------------------------------


def test_M9_a_template_sends_and_receives(flavour: Flavour, broker: EmbeddedBroker, session: ackwire.Session) -> None:
    with flavour.using(flavour.modules.client.Template(broker.url)) as template:
        sent = flavour.run(template.send("orders", "hello", properties={"region": "north"}, correlation_id="c"))
        flavour.run(template.send("orders", "second"))
        message = flavour.run(template.receive("orders", WAIT_SECONDS))
        assert (text_of(message), message.properties["region"]) == ("hello", "north")
        assert (message.message_id, message.correlation_id) == (sent.message_id, "c")
        assert drained(session, "orders") == ["second"], "one was taken, and no more"
        assert flavour.run(template.receive("orders", 0.05)) is None


def test_M9_a_template_receives_what_its_selector_says(flavour: Flavour, broker: EmbeddedBroker) -> None:
    with flavour.using(flavour.modules.client.Template(broker.url)) as template:
        for region in ("north", "south"):
            flavour.run(template.send("orders", region, properties={"region": region}))
        message = flavour.run(template.receive("orders", WAIT_SECONDS, selector="region = 'south'"))
        assert text_of(message) == "south"


def marked(flavour: Flavour, function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """*function* of a message as this flavour's listener to the queue `orders`, or *options*' destination."""
    destination = options.pop("destination", "orders")
    inner = flavour.handler(function)
    if flavour.name == "sync":

        def handle(message: Message) -> Any:
            return inner(message)

        return listener(destination, **options)(handle)

    async def handle_async(message: Message) -> Any:
        return await inner(message)

    return listener(destination, **options)(handle_async)


def container_of(flavour: Flavour, url: str, *functions: Callable[..., Any], **options: Any) -> Any:
    return flavour.modules.client.ListenerContainer(url, functions, **options)


def test_M9_a_request_is_answered_by_a_listener(flavour: Flavour, broker: EmbeddedBroker) -> None:
    answers = marked(flavour, lambda message: text_of(message).upper())
    with (
        flavour.using(container_of(flavour, broker.url, answers)),
        flavour.using(flavour.modules.client.Template(broker.url)) as template,
    ):
        answer = flavour.run(template.request("orders", "hello", timeout_seconds=WAIT_SECONDS))
        assert text_of(answer) == "HELLO"
        with pytest.raises(ackwire.RequestTimedOutError):
            flavour.run(template.request("nobody.there", "hello", timeout_seconds=0.05))


def test_M9_a_template_serves_many_at_once(flavour: Flavour, broker: EmbeddedBroker, session: ackwire.Session) -> None:
    with flavour.using(flavour.modules.client.Template(broker.url, sessions_max=3)) as template:
        if isinstance(flavour, Async):

            async def send_all() -> None:
                await asyncio.gather(*(template.send("orders", str(number)) for number in range(40)))

            flavour.run(send_all())
        else:
            threads = [threading.Thread(target=template.send, args=("orders", str(number))) for number in range(40)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(WAIT_SECONDS)
    assert sorted(drained(session, "orders"), key=int) == [*map(str, range(40))]


def test_M9_a_template_opens_another_connection_when_one_is_lost(
    flavour: Flavour, broker: EmbeddedBroker, session: ackwire.Session
) -> None:
    with (
        CuttableProxy(broker.port) as proxy,
        flavour.using(flavour.modules.client.Template(f"tcp://127.0.0.1:{proxy.port}")) as template,
    ):
        flavour.run(template.send("orders", "before"))
        proxy.cut()
        with pytest.raises(ackwire.ConnectionFailedError):
            flavour.run(template.send("orders", "lost"))
        proxy.mend()
        flavour.run(template.send("orders", "after"))
    assert drained(session, "orders") == ["before", "after"]


# ---- ListenerContainer -------------------------------------------------------------------------------------------


def test_M9_G1_a_message_and_what_its_listener_sent_are_one_transaction(
    flavour: Flavour, broker: EmbeddedBroker, session: ackwire.Session
) -> None:
    send(session, "orders", "a", "b")
    done = Tally()

    if flavour.name == "sync":

        @listener("orders")
        def on_order(message: Message, inner: ackwire.Session) -> None:
            inner.send("invoices", f"{text_of(message)} {message.delivery_count}")
            if message.delivery_count < 3:
                raise LookupError("after the send")
            done.add(text_of(message))

        function: Callable[..., Any] = on_order
    else:

        @listener("orders")
        async def on_order_async(message: Message, inner: aio.Session) -> None:
            await inner.send("invoices", f"{text_of(message)} {message.delivery_count}")
            if message.delivery_count < 3:
                raise LookupError("after the send")
            done.add(text_of(message))

        function = on_order_async
    with flavour.using(container_of(flavour, f"{broker.url}?{AT_ONCE}", function)):
        done.wait_for_count(2)
    assert drained(session, "orders") == []
    assert drained(session, "invoices") == ["a 3", "b 3"]


@pytest.mark.parametrize("transacted", [True, False])
def test_M9_F3_what_always_fails_is_a_dead_letter(
    flavour: Flavour, broker: EmbeddedBroker, session: ackwire.Session, transacted: bool
) -> None:
    send(session, "orders", "bad", "good")
    handled = Tally()

    def handle(message: Message) -> None:
        if text_of(message) == "bad":
            raise LookupError("no such order")
        handled.add(text_of(message))

    url = f"{broker.url}?{AT_ONCE}&jms.redeliveryPolicy.maximumRedeliveries=1"
    with flavour.using(container_of(flavour, url, marked(flavour, handle, transacted=transacted))):
        handled.wait_for_count(1)
        assert drained(session, "ActiveMQ.DLQ", 1) == ["bad"]
    assert drained(session, "orders") == []


def test_M9_consumers_are_added_for_messages_that_wait(
    flavour: Flavour, broker: EmbeddedBroker, session: ackwire.Session
) -> None:
    begun, go_on = Tally(), threading.Event()

    def handle(message: Message) -> None:
        begun.add(text_of(message))
        assert go_on.wait(WAIT_SECONDS)

    function = marked(flavour, handle, concurrency="1-4")
    with flavour.using(container_of(flavour, broker.url, function)) as container:
        flavour.run(container.ready())
        assert container.consumers(function) == 1
        send(session, "orders", *(f"m{number}" for number in range(10)))
        begun.wait_for_count(4)
        assert container.consumers(function) == 4
        go_on.set()
        begun.wait_for_count(10)
    assert drained(session, "orders") == []


def test_M9_a_durable_subscription_of_a_listener_outlives_it(
    flavour: Flavour, broker: EmbeddedBroker, session: ackwire.Session
) -> None:
    heard = Tally()
    function = marked(
        flavour, lambda message: heard.add(text_of(message)), destination="topic://prices", durable="prices"
    )
    url = f"{broker.url}?jms.clientID=shop"
    with flavour.using(container_of(flavour, url, function)) as container:
        flavour.run(container.ready())
        session.send("topic://prices", "first")
        heard.wait_for_count(1)
    session.send("topic://prices", "while nobody listens")
    with flavour.using(container_of(flavour, url, function)):
        heard.wait_for_count(2)
    assert heard.items == ["first", "while nobody listens"]


@pytest.mark.parametrize("scheme", ["{}", "failover:({})?initialReconnectDelay=20&maxReconnectDelay=100"])
def test_M9_listeners_go_on_after_a_lost_connection(
    flavour: Flavour, broker: EmbeddedBroker, session: ackwire.Session, scheme: str
) -> None:
    heard = Tally()
    function = marked(flavour, lambda message: heard.add(text_of(message)), concurrency="2-2")
    with CuttableProxy(broker.port) as proxy:
        url = scheme.format(f"tcp://127.0.0.1:{proxy.port}")
        with flavour.using(container_of(flavour, url, function)):
            send(session, "orders", "a")
            heard.wait_for(lambda items: "a" in items)
            proxy.cut()
            send(session, "orders", "b")
            proxy.mend()
            heard.wait_for(lambda items: "b" in items)


SCRIPT = """
    import asyncio, time
    import ackwire
    from ackwire import aio

    if "FLAVOUR" == "sync":
        @ackwire.listener("orders")
        def on_order(message):
            print("begun", message.text)
            time.sleep(0.5)

        ackwire.ListenerContainer("URL", [on_order]).run()
    else:
        @ackwire.listener("orders")
        async def on_order(message):
            print("begun", message.text)
            await asyncio.sleep(0.5)

        asyncio.run(aio.ListenerContainer("URL", [on_order]).run())
    print("ended")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_M9_run_ends_at_a_signal_when_the_message_in_hand_is_done(
    flavour: Flavour, broker: EmbeddedBroker, session: ackwire.Session, tmp_path: Path, number: signal.Signals
) -> None:
    send(session, "orders", "a", "b", "c")
    with program(SCRIPT, tmp_path, FLAVOUR=flavour.name, URL=broker.url) as process:
        process.wait_for_line(re.compile("begun a"), WAIT_SECONDS)
        process.send_signal(number)
        process.wait_for_line(re.compile("ended"), WAIT_SECONDS)
        assert process.wait() == 0
    left = drained(session, "orders")
    assert left in (["b", "c"], ["c"]), "the one in hand was committed, and the others are there"

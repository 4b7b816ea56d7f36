"""The broker dies, or the connection does, while ten thousand messages wait to be confirmed (J4)."""

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

import ackwire
from ackwire import AckMode, Message
from tests.client.faulty_proxy import FaultyProxy, Way
from tests.helpers.processes import RestartableBroker

QUEUE = "in.flight"
MESSAGES = 10_000
THREADS = 16
WAIT_SECONDS = 60.0
FAILOVER = "failover:({url})?initialReconnectDelay=10&maxReconnectDelay=100"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RestartableBroker]:
    """Ours, on a journal: it alone is restarted here."""
    with RestartableBroker(tmp_path) as broker:
        yield broker


@pytest.fixture
def proxy(broker: RestartableBroker) -> Iterator[FaultyProxy]:
    with FaultyProxy(broker.port) as proxy:
        yield proxy


def kill(broker: RestartableBroker, proxy: FaultyProxy) -> None:
    broker.restart(kill=True)
    proxy.cut_once()  # what the proxy holds back died with the broker


def stop(broker: RestartableBroker, proxy: FaultyProxy) -> None:
    broker.restart(kill=False)
    proxy.cut_once()


def cut(broker: RestartableBroker, proxy: FaultyProxy) -> None:
    del broker
    proxy.cut_once()


Blow = Callable[[RestartableBroker, FaultyProxy], None]
blows = pytest.mark.parametrize("blow", [kill, stop, cut])


def stored(broker: RestartableBroker) -> Counter[str]:
    """How often each text is in the queue."""
    with (
        ackwire.connect(broker.url) as connection,
        connection.session(AckMode.CLIENT) as session,
        session.browser(QUEUE) as browser,
    ):
        return Counter(message.text or "" for message in browser if isinstance(message, ackwire.TextMessage))


@blows
def test_J4_ten_thousand_receipts_settle_and_each_message_is_stored_once(
    broker: RestartableBroker, proxy: FaultyProxy, blow: Blow
) -> None:
    with (
        ackwire.connect(FAILOVER.format(url=proxy.url)) as connection,
        connection.session() as session,
        session.producer(QUEUE) as producer,
    ):
        proxy.stall(Way.DOWN)  # so that no answer comes before the blow, however quick the broker is
        receipts: list[Future[Message]] = [producer.submit(str(number)) for number in range(MESSAGES)]
        assert not any(receipt.done() for receipt in receipts)
        blow(broker, proxy)
        for receipt in receipts:
            receipt.result(WAIT_SECONDS)
    assert stored(broker) == Counter({str(number): 1 for number in range(MESSAGES)})


@blows
def test_J4_the_same_with_a_broker_that_has_not_read_everything(
    broker: RestartableBroker, proxy: FaultyProxy, blow: Blow
) -> None:
    with (
        ackwire.connect(FAILOVER.format(url=proxy.url)) as connection,
        connection.session() as session,
        session.producer(QUEUE) as producer,
    ):
        receipts: list[Future[Message]] = []
        for number in range(MESSAGES // 2):
            receipts.append(producer.submit(str(number)))
            if number == MESSAGES // 4:
                proxy.stall()
        blow(broker, proxy)
        receipts += [producer.submit(str(number)) for number in range(MESSAGES // 2, MESSAGES)]
        for receipt in receipts:
            receipt.result(WAIT_SECONDS)
    assert stored(broker) == Counter({str(number): 1 for number in range(MESSAGES)})


@blows
def test_J4_sixteen_threads_that_wait_for_each_message_notice_nothing(
    broker: RestartableBroker, proxy: FaultyProxy, blow: Blow
) -> None:
    numbers = itertools.count()
    sent: list[list[str]] = [[] for _ in range(THREADS)]
    errors: list[BaseException] = []
    is_over, have_begun = threading.Event(), threading.Semaphore(0)
    with ackwire.connect(FAILOVER.format(url=proxy.url)) as connection:

        def send(mine: list[str]) -> None:
            try:
                with connection.session() as session, session.producer(QUEUE) as producer:
                    while not is_over.is_set():
                        text = str(next(numbers))
                        producer.send(text)
                        mine.append(text)
                        have_begun.release()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=send, args=(mine,)) for mine in sent]
        for thread in threads:
            thread.start()
        for _ in range(3):
            for _ in range(10 * THREADS):
                assert have_begun.acquire(timeout=WAIT_SECONDS)
            blow(broker, proxy)
        for _ in range(10 * THREADS):
            assert have_begun.acquire(timeout=WAIT_SECONDS)
        is_over.set()
        for thread in threads:
            thread.join(WAIT_SECONDS)
        assert not any(thread.is_alive() for thread in threads)
    assert errors == []
    assert stored(broker) == Counter(text for mine in sent for text in mine)


@blows
def test_J4_sixteen_threads_share_one_producer(broker: RestartableBroker, proxy: FaultyProxy, blow: Blow) -> None:
    with (
        ackwire.connect(FAILOVER.format(url=proxy.url)) as connection,
        connection.session() as session,
        session.producer(QUEUE) as producer,
    ):
        proxy.stall(Way.DOWN)
        numbers = iter(range(THREADS * 10))
        errors: list[BaseException] = []

        def send() -> None:
            try:
                for number in numbers:
                    producer.send(str(number))
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=send) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        blow(broker, proxy)
        for thread in threads:
            thread.join(WAIT_SECONDS)
        assert not any(thread.is_alive() for thread in threads)
    assert errors == []
    assert stored(broker) == Counter({str(number): 1 for number in range(THREADS * 10)})

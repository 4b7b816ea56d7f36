"""The network fails. On a plain connection every wait ends with an error that says what happened; with `failover:`
nothing is lost, and what comes twice says so (J3, J4, N).
"""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

import ackwire
from ackwire import AckMode, Connection, ConnectionFailedError, JMSError, RequestTimedOutError, Session
from ackwire.client.errors import TransactionInDoubtError, TransactionRolledBackError, UnconfirmedMessagesError
from tests.client.brokers import Broker
from tests.client.faulty_proxy import Fault, FaultyProxy, Way
from tests.client.restart_ledger import Delivery, Fate, Ledger
from tests.client.work import browse

WAIT_SECONDS = 30.0
IDLE_SECONDS = 1.0  # after so long without a message it is worth asking whether there are any
FAILOVER = (
    "failover:({url}?wireFormat.maxInactivityDuration=2000&wireFormat.maxInactivityDurationInitalDelay=500)"
    "?initialReconnectDelay=10&maxReconnectDelay=50"
    "&jms.redeliveryPolicy.maximumRedeliveries=-1&jms.redeliveryPolicy.initialRedeliveryDelay=0"
    "&jms.redeliveryPolicy.redeliveryDelay=0"
)
SEEDS = (1, 2)
MESSAGES = 300


@pytest.fixture
def faulty(broker: Broker, proxies: ExitStack, request: pytest.FixtureRequest) -> FaultyProxy:
    """A bad way to the broker."""
    seed = getattr(request, "param", 0)
    return proxies.enter_context(FaultyProxy(broker.port, seed))


# ---- a plain connection ----------------------------------------------------------------------------------------


class Lost:
    """A connection with everything on it, to be used after its way to the broker has become bad."""

    def __init__(self, connection: Connection, queue: str) -> None:
        self.errors: list[JMSError] = []
        connection.on_error = self.errors.append
        self.connection = connection
        self.queue = queue
        self.session = connection.session()
        self.producer = self.session.producer(queue)
        self.consumer = self.session.consumer(f"{queue}.empty")
        self.transacted = connection.session(transacted=True)
        self.transacted.send(queue, "in the transaction")

    def send(self) -> object:
        return self.producer.send("x")

    def submit(self) -> object:
        return self.producer.submit("x").result(WAIT_SECONDS)

    def receive(self) -> object:
        return self.consumer.receive(None)

    def pull(self) -> object:
        with self.session.consumer(f"{self.queue}.empty?consumer.prefetchSize=0") as consumer:
            return consumer.receive(None)

    def commit(self) -> None:
        self.transacted.commit()

    def make_consumer(self) -> object:
        return self.session.consumer(self.queue)

    def make_temporary(self) -> object:
        return self.session.temporary_queue()


USES = ("send", "submit", "receive", "pull", "commit", "make_consumer", "make_temporary")
QUICK = "?wireFormat.maxInactivityDuration=600&wireFormat.maxInactivityDurationInitalDelay=100"


@contextmanager
def lost(faulty: FaultyProxy, queue: str, options: str = QUICK) -> Iterator[Lost]:
    """Closing it is part of the test: that ends, too."""
    with ackwire.connect(f"{faulty.url}{options}&jms.closeTimeout=500") as connection:
        yield Lost(connection, queue)


def ending(use: Callable[[], object], spoil: Callable[[], None]) -> BaseException:
    """What *use* raises when the way is spoilt while it waits, or shortly before."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            use()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    spoil()
    thread.join(WAIT_SECONDS)
    assert not thread.is_alive(), "it hangs"
    assert raised, "it did not fail"
    return raised[0]


@pytest.mark.parametrize("use", USES)
def test_a_cut_ends_every_wait_with_an_error_that_names_the_broker(faulty: FaultyProxy, queue: str, use: str) -> None:
    with lost(faulty, queue) as client:
        faulty.stall()
        error = ending(getattr(client, use), faulty.cut)
        # A commit that had not begun when the cut was noticed is not in doubt.
        assert isinstance(error, ConnectionFailedError) or (
            use == "commit" and isinstance(error, TransactionInDoubtError)
        )
        assert faulty.url in str(error) or faulty.url in str(error.__cause__)
        with pytest.raises(ConnectionFailedError, match=re.escape(faulty.url)):
            client.producer.send("later")


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("ways", [(Way.DOWN,), (Way.UP, Way.DOWN)], ids=["down", "both"])
def test_J3_silence_ends_every_wait_with_an_error_that_names_the_limit(
    faulty: FaultyProxy, queue: str, use: str, ways: tuple[Way, ...]
) -> None:
    with lost(faulty, queue) as client:
        faulty.stall(*ways)
        error = ending(getattr(client, use), lambda: None)
        text = f"{error} {error.__cause__}"
        assert "nothing was heard from the broker" in text
        assert "maxInactivityDuration" in text


def test_J3_a_broker_that_hears_nothing_closes_and_the_client_says_so(faulty: FaultyProxy, queue: str) -> None:
    with lost(faulty, queue) as client:
        faulty.stall(Way.UP)
        error = ending(client.send, lambda: None)
        assert isinstance(error, ConnectionFailedError)
        assert faulty.url in str(error)


@pytest.mark.parametrize("use", ["send", "commit", "make_consumer", "make_temporary"])
def test_a_time_limit_ends_a_wait_and_says_for_what_and_how_to_change_it(
    faulty: FaultyProxy, queue: str, use: str
) -> None:
    limits = "?wireFormat.maxInactivityDuration=0&jms.sendTimeout=400&jms.requestTimeout=400"
    with lost(faulty, queue, limits) as client:
        faulty.stall()
        error = ending(getattr(client, use), lambda: None)
        assert isinstance(error, RequestTimedOutError)
        assert "0.4 s" in str(error)
        assert ("jms.sendTimeout" if use == "send" else "jms.requestTimeout") in str(error)


@pytest.mark.parametrize("use", ["send", "submit", "commit", "make_consumer", "make_temporary"])
@pytest.mark.parametrize("way", list(Way), ids=["up", "down"])
def test_half_a_command_and_then_the_end_is_a_lost_connection(
    faulty: FaultyProxy, queue: str, use: str, way: Way
) -> None:
    with lost(faulty, queue) as client:
        faulty.truncate_next(way)
        error = ending(getattr(client, use), lambda: None)
        assert isinstance(error, ConnectionFailedError | TransactionInDoubtError)
        assert faulty.url in f"{error} {error.__cause__}"


def test_N3_the_loss_of_what_was_sent_without_an_answer_is_told_to_the_listener(
    faulty: FaultyProxy, queue: str
) -> None:
    with lost(faulty, queue) as client:
        told = threading.Event()
        client.connection.on_error = lambda _: told.set()
        client.connection.use_async_send = True
        client.producer.send("may be lost")
        faulty.cut()
        assert told.wait(WAIT_SECONDS)


def test_a_delay_alone_does_no_harm(faulty: FaultyProxy, queue: str, broker: Broker) -> None:
    del broker
    faulty.trouble(Fault.DELAY, Fault.PAUSE, bytes_max=200)
    with ackwire.connect(faulty.url) as connection, connection.session() as session:
        with session.producer(queue) as producer:
            for number in range(20):
                producer.send(str(number))
        with session.consumer(queue) as consumer:
            texts = [consumer.receive().text for _ in range(20)]  # type: ignore[union-attr]
    assert texts == [str(number) for number in range(20)]
    assert faulty.faults > 0


# ---- failover --------------------------------------------------------------------------------------------------


@contextmanager
def failover(faulty: FaultyProxy, ledger: Ledger, options: str = "") -> Iterator[Connection]:
    with ackwire.connect(FAILOVER.format(url=faulty.url) + options) as connection:
        connection.on_error = lambda error: ledger.problem(f"told: {error!r}")
        yield connection


def fill(broker: Broker, ledger: Ledger, queue: str, count: int) -> None:
    """Put messages there that a consumer will find."""
    with (
        ackwire.connect(broker.url) as connection,
        connection.session() as session,
        session.producer(queue) as producer,
    ):
        for number in range(count):
            unit = ledger.begin(f"m-{number}", [f"m-{number}"])
            producer.send(f"m-{number}")
            ledger.end(unit, Fate.DONE)


def receive(consumer: ackwire.Consumer, ledger: Ledger, name: str, timeout_seconds: float) -> Delivery | None:
    message = consumer.receive(timeout_seconds)
    if message is None:
        return None
    assert isinstance(message, ackwire.TextMessage)
    assert message.wire_id is not None
    sequence = message.wire_id.broker_sequence_id
    return ledger.received(name, message.text or "", sequence=sequence, is_flagged=message.redelivered)


def drain(broker: Broker, ledger: Ledger, *queues: str) -> None:
    """Consume what is left, on a good way: until a browser, which sees what others hold too, shows nothing."""
    for queue in queues:
        with (
            ackwire.connect(f"{broker.url}?jms.redeliveryPolicy.maximumRedeliveries=-1") as connection,
            connection.session() as session,
            session.consumer(queue) as consumer,
        ):
            while (delivery := receive(consumer, ledger, "drain", IDLE_SECONDS)) or browse(connection, queue):
                if delivery is not None:
                    ledger.conclude(Fate.DONE, [delivery])


def verdict(ledger: Ledger) -> list[tuple[str, str]]:
    ledger.settle()
    return ledger.violations


seeds = pytest.mark.parametrize("faulty", SEEDS, indirect=True, ids=lambda seed: f"seed {seed}")


@seeds
def test_J4_sync_sends_are_stored_once(broker: Broker, faulty: FaultyProxy, queue: str) -> None:
    ledger = Ledger()
    with (
        failover(faulty, ledger) as connection,
        connection.session() as session,
        session.producer(queue) as producer,
        faulty.troubled(),
    ):
        for number in range(MESSAGES):
            unit = ledger.begin(f"m-{number}", [f"m-{number}"])
            producer.send(f"m-{number}")
            ledger.end(unit, Fate.DONE)
    drain(broker, ledger, queue)
    assert verdict(ledger) == []
    assert faulty.faults > 0


@seeds
def test_J4_submitted_messages_are_stored_once(broker: Broker, faulty: FaultyProxy, queue: str) -> None:
    ledger = Ledger()
    with (
        failover(faulty, ledger) as connection,
        connection.session() as session,
        session.producer(queue) as producer,
        faulty.troubled(),
    ):
        units = [ledger.begin(f"m-{number}", [f"m-{number}"]) for number in range(10 * MESSAGES)]
        receipts = [producer.submit(unit.name) for unit in units]
        for unit, receipt in zip(units, receipts, strict=True):
            receipt.result(WAIT_SECONDS)
            ledger.end(unit, Fate.DONE)
    drain(broker, ledger, queue)
    assert verdict(ledger) == []
    assert faulty.faults > 0


@seeds
def test_N3_async_sends_are_stored_at_most_once_and_who_loses_some_is_told(
    broker: Broker, faulty: FaultyProxy, queue: str
) -> None:
    ledger = Ledger()
    told: list[JMSError] = []
    with failover(faulty, ledger) as connection, connection.session() as session:
        connection.on_error = told.append
        connection.use_async_send = True
        with session.producer(queue) as producer, faulty.troubled(bytes_max=5000):
            for number in range(5 * MESSAGES):
                ledger.begin(f"m-{number}", [f"m-{number}"])
                producer.send(f"m-{number}")
            sent = 5 * MESSAGES
            while sent == 5 * MESSAGES or not faulty.faults:  # all of those may be lost with the first cut
                unit = ledger.begin(f"m-{sent}", [f"m-{sent}"])
                producer.submit(f"m-{sent}").result(WAIT_SECONDS)
                ledger.end(unit, Fate.DONE)
                sent += 1
                assert sent < 10 * MESSAGES, "the proxy makes no trouble"
    drain(broker, ledger, queue)
    assert verdict(ledger) == []
    assert {type(error) for error in told} <= {UnconfirmedMessagesError}
    assert told or ledger.counts["deliveries"] == sent


@seeds
def test_N3_async_sends_that_are_tracked_are_stored_once(broker: Broker, faulty: FaultyProxy, queue: str) -> None:
    ledger = Ledger()
    with (
        failover(faulty, ledger, "&trackMessages=true") as connection,
        connection.session() as session,
        session.producer(queue) as producer,
        faulty.troubled(),
    ):
        connection.use_async_send = True
        units = [ledger.begin(f"m-{number}", [f"m-{number}"]) for number in range(5 * MESSAGES)]
        for unit in units:
            producer.send(unit.name)
        producer.submit("last").result(WAIT_SECONDS)
        ledger.end(ledger.begin("last", ["last"]), Fate.DONE)
        for unit in units:  # they were before it
            ledger.end(unit, Fate.DONE)
    drain(broker, ledger, queue)
    assert verdict(ledger) == []
    assert faulty.faults > 0


@seeds
def test_J4_transactions_that_send_commit_as_a_whole_and_once(broker: Broker, faulty: FaultyProxy, queue: str) -> None:
    ledger = Ledger()
    with (
        failover(faulty, ledger) as connection,
        connection.session(transacted=True) as session,
        session.producer(queue) as producer,
        faulty.troubled(),
    ):
        for number in range(MESSAGES // 3):
            unit = ledger.begin(f"t-{number}", [f"t-{number}.{part}" for part in range(4)])
            for message in unit.sends:
                producer.send(message)
            ledger.end(unit, commit(session, broker, ledger, unit.name))
    drain(broker, ledger, queue)
    assert verdict(ledger) == []
    assert faulty.faults > 0


def commit(session: Session, broker: Broker, ledger: Ledger, name: str) -> Fate:
    """Commit the transaction *name*; what becomes of it."""
    try:
        session.commit()
    except TransactionRolledBackError:
        return Fate.VOID
    except TransactionInDoubtError as error:
        if broker.is_ours:
            ledger.problem(f"{name} is in doubt, though our broker can tell: {error}")
        return Fate.UNKNOWN
    return Fate.DONE


@seeds
def test_J4_what_a_transaction_consumes_and_sends_happens_once(broker: Broker, faulty: FaultyProxy, queue: str) -> None:
    ledger = Ledger()
    fill(broker, ledger, queue, MESSAGES)
    with (
        failover(faulty, ledger) as connection,
        connection.session(transacted=True) as session,
        session.consumer(queue) as consumer,
        session.producer(f"{queue}.out") as producer,
        faulty.troubled(),
    ):
        number = consumed = 0
        while consumed < MESSAGES and (batch := receive_some(consumer, ledger, min(5, MESSAGES - consumed))):
            number += 1
            unit = ledger.begin(f"t-{number}", [f"t-{number}"])
            producer.send(unit.name)
            fate = commit(session, broker, ledger, unit.name)
            ledger.end(unit, fate, batch)
            consumed += len(batch) if fate is Fate.DONE else 0
    drain(broker, ledger, queue, f"{queue}.out")
    assert verdict(ledger) == []
    assert faulty.faults > 0


def receive_some(consumer: ackwire.Consumer, ledger: Ledger, count: int) -> list[Delivery]:
    """Waits long for the first one: the way to the broker may be broken for a while."""
    batch: list[Delivery] = []
    while len(batch) < count:
        delivery = receive(consumer, ledger, "consumer", 0.5 if batch else 3.0)
        if delivery is None:
            break
        batch.append(delivery)
    return batch


@seeds
@pytest.mark.parametrize(
    "mode", [AckMode.AUTO, AckMode.CLIENT, AckMode.DUPS_OK, AckMode.INDIVIDUAL], ids=lambda mode: mode.name.lower()
)
def test_J4_nothing_is_lost_on_the_way_to_a_consumer(
    broker: Broker, faulty: FaultyProxy, queue: str, mode: AckMode
) -> None:
    ledger = Ledger()
    fill(broker, ledger, queue, MESSAGES)
    with (
        failover(faulty, ledger) as connection,
        connection.session(mode) as session,
        session.consumer(f"{queue}?consumer.prefetchSize=50") as consumer,
        faulty.troubled(bytes_max=8000),
    ):
        seen: set[str] = set()
        while len(seen) < MESSAGES and (message := consumer.receive(WAIT_SECONDS)) is not None:
            assert isinstance(message, ackwire.TextMessage)
            assert message.wire_id is not None
            text = message.text or ""
            sequence = message.wire_id.broker_sequence_id
            delivery = ledger.received("consumer", text, sequence=sequence, is_flagged=message.redelivered)
            message.acknowledge()
            ledger.conclude(Fate.ACKNOWLEDGED, [delivery])
            seen.add(text)
    drain(broker, ledger, queue)
    assert verdict(ledger) == []
    assert faulty.faults > 0


@seeds
def test_J4_a_listener_is_given_everything(broker: Broker, faulty: FaultyProxy, queue: str) -> None:
    ledger = Ledger()
    fill(broker, ledger, queue, MESSAGES)
    seen: set[str] = set()
    has_all = threading.Event()

    def listen(message: ackwire.Message) -> None:
        assert isinstance(message, ackwire.TextMessage)
        assert message.wire_id is not None
        text = message.text or ""
        sequence = message.wire_id.broker_sequence_id
        delivery = ledger.received("listener", text, sequence=sequence, is_flagged=message.redelivered)
        ledger.conclude(Fate.ACKNOWLEDGED, [delivery])
        seen.add(text)
        if len(seen) == MESSAGES:
            has_all.set()

    with (
        failover(faulty, ledger) as connection,
        connection.session() as session,
        session.consumer(f"{queue}?consumer.prefetchSize=50") as consumer,
        faulty.troubled(bytes_max=8000),
    ):
        consumer.listener = listen
        assert has_all.wait(WAIT_SECONDS)
    drain(broker, ledger, queue)
    assert verdict(ledger) == []
    assert faulty.faults > 0

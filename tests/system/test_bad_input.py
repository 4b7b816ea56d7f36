"""Clients that say things that make no sense, to a running broker: it stays, it says why, and nobody else notices.

What can be shown without a socket is in `tests/model/test_bad_input.py`.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ackwire.wire.openwire import commands
from ackwire.wire.openwire.primitives import encode_map
from ackwire.wire.openwire.structures import Structure
from tests.helpers.bad_input import (
    BEGIN,
    COMMIT,
    DESTINATION,
    JMS,
    KNOWN_CLASSES,
    LIMIT,
    SECURITY,
    SELECTOR,
    XA,
    Maker,
    commands_from,
    local,
    transaction_info,
    xid,
)
from tests.helpers.openwire_client import OpenWireClient, Scene, queue, scene, text_of, topic, unique
from tests.helpers.processes import RunningBroker, running_broker

pytestmark = pytest.mark.system

COUNT_MAX = 3000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    directory = tmp_path_factory.mktemp("broker")
    with running_broker(["tcp://127.0.0.1:0"], log_path=directory / "broker.log") as running:
        yield running


@pytest.fixture
def stage(broker: RunningBroker) -> Iterator[Scene]:
    with scene(broker) as stage:
        yield stage


@pytest.fixture
def client(stage: Scene) -> Iterator[OpenWireClient]:
    with OpenWireClient.logged_in(stage.port) as client:
        yield client


# ---- any order -------------------------------------------------------------------------------------------------

_steps = st.lists(
    st.one_of(
        st.tuples(st.just(0), commands_from("ID:A", ("ID:B",))), st.tuples(st.just(1), commands_from("ID:B", ("ID:A",)))
    ),
    min_size=20,
    max_size=60,
)


def _held(client: OpenWireClient) -> list[commands.MessageDispatch]:
    return [e for e in client.events if isinstance(e, commands.MessageDispatch) and e.message is not None]


@pytest.mark.parametrize("wants_answer", [True, False])
def test_commands_in_any_order_harm_nobody(stage: Scene, wants_answer: bool) -> None:
    @settings(max_examples=12, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(_steps)
    def run(steps: list[tuple[int, Maker]]) -> None:
        clients = [OpenWireClient.connect(stage.port) for _ in range(2)]
        try:
            for client, connection_id in zip(clients, ("ID:A", "ID:B"), strict=True):
                client.connection_id = connection_id
                client.handshake()
                client.login(client_id=f"client {connection_id}")
                client.subscribe(queue("a"))
                client.subscribe(topic("b"))
            for who, make in steps:
                _say(clients[who], make(_held(clients[who])), wants_answer=wants_answer)
            for client in clients:
                client.ping()
        finally:
            for client in clients:
                client.close()

    run()
    stage.bystander.work()


def _say(client: OpenWireClient, command: Structure, *, wants_answer: bool) -> None:
    if not wants_answer:
        client.tell(command)
        return
    answer = client.ask(command)
    if isinstance(answer, commands.ExceptionResponse):
        assert answer.exception is not None
        assert answer.exception.class_name in KNOWN_CLASSES


# ---- one by one ------------------------------------------------------------------------------------------------

Case = Callable[[OpenWireClient], Structure]


def _in_transaction(transaction_id: commands.TransactionId) -> Case:
    def make(client: OpenWireClient) -> Structure:
        message = client.text_message(queue("q"), "x")
        message.transaction_id = transaction_id
        return message

    return make


def _scheduled(**properties: int | str) -> Case:
    def make(client: OpenWireClient) -> Structure:
        message = client.text_message(queue("q"), "x")
        message.marshalled_properties = encode_map({f"AMQ_SCHEDULED_{name}": v for name, v in properties.items()})
        return message

    return make


def _named(name: str) -> Case:
    return lambda client: client.text_message(queue(name), "x")


REFUSED: dict[str, tuple[Case, str]] = {
    "selector with brackets without end": (lambda c: c.consumer_info(queue("q"), selector="(" * 65_000), SELECTOR),
    "selector that is no selector": (lambda c: c.consumer_info(queue("q"), selector="x" * 100 + " = = 1"), SELECTOR),
    "selector with control characters": (lambda c: c.consumer_info(queue("q"), selector="a =\x00\n\x1b[2J"), SELECTOR),
    "composite of 10,000 for a consumer": (
        lambda c: c.consumer_info(queue(",".join(map(str, range(10_000))))),
        DESTINATION,
    ),
    "composite of mixed kinds for a consumer": (lambda c: c.consumer_info(queue("a,topic://b")), DESTINATION),
    "composite of 300": (_named(",".join(map(str, range(300)))), DESTINATION),
    "composite with nothing in it": (_named("a,,b"), DESTINATION),
    "pattern": (_named("a.>"), DESTINATION),
    "advisory pattern": (lambda c: c.text_message(topic("ActiveMQ.Advisory.>"), "x"), SECURITY),
    "durable subscription of a queue": (lambda c: c.consumer_info(queue("q"), subscription_name="s"), DESTINATION),
    "temporary queue of nobody": (
        lambda c: c.consumer_info(commands.ActiveMQTempQueue("ID:nobody:1")),
        "org.apache.activemq.DestinationDoesNotExistException",
    ),
    "unsubscribe nothing": (
        lambda _: commands.RemoveSubscriptionInfo(subscription_name="s"),
        DESTINATION,
    ),
    "unsubscribe for another client": (
        lambda _: commands.RemoveSubscriptionInfo(client_id="nobody", subscription_name="s"),
        SECURITY,
    ),
    "send in an unknown transaction": (_in_transaction(local("ID:nobody")), JMS),
    "commit of an unknown transaction": (lambda c: transaction_info(c.connection_id, xid(7), COMMIT), XA),
    "delay of an age": (_scheduled(DELAY=2**62), JMS),
    "repeats without number": (_scheduled(DELAY=1, REPEAT=2**31 - 1), JMS),
    "cron that never comes": (_scheduled(CRON="0 0 31 2 *"), JMS),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_javas_words_and_the_connection_goes_on(stage: Scene, client: OpenWireClient, name: str) -> None:
    destination = queue(unique("work"))
    consumer = client.subscribe(destination)
    make, java_class = REFUSED[name]
    thrown = client.refused(make(client))
    assert thrown.class_name == java_class
    assert thrown.message
    client.send_text(destination, "goes on")
    assert text_of(client.receive(consumer)) == "goes on"
    lines = stage.log_about(client)
    assert len(lines) == 1
    assert lines[0].isprintable()


@pytest.mark.parametrize("name", ["", "x" * 5000, ",".join(f"q{n}" for n in range(10_000))], ids=["0", "5000", "many"])
def test_message_to_an_impossible_name_is_refused(client: OpenWireClient, name: str) -> None:
    assert client.refused(client.text_message(queue(name), "x")).class_name == DESTINATION
    client.ping()


@pytest.mark.parametrize("text", ["\x00", "\n2026-01-01 00:00:00.000 WARN  forged", "\x1b[2J", "\u2028x"])
def test_control_characters_in_names_reach_no_terminal(stage: Scene, text: str) -> None:
    with OpenWireClient.logged_in(stage.port, client_id=unique(f"client {text}")) as client:
        destination = queue(unique(f"name {text}"))
        consumer = client.subscribe(destination)
        client.send_text(destination, "hello")
        assert text_of(client.receive(consumer)) == "hello"
        client.refused(
            commands.RemoveSubscriptionInfo(
                client_id=f"client {text}", subscription_name=f"subscription {text}", connection_id=None
            )
        )
        client.refused(commands.RemoveInfo(object_id=commands.SessionId(client.connection_id + text, 1)))
        client.refused(client.text_message(queue(f"{text}.>"), "x"))
        lines = stage.log_about(client)
        assert len(lines) == 3
        assert all(line.isprintable() for line in lines)
        assert not [line for line in stage.log() if line.startswith("2026-01-01 00:00:00.000")]


def test_endless_transaction_id_is_refused(broker: RunningBroker) -> None:
    with OpenWireClient.logged_in(broker.ports[0]) as client:
        endless = commands.XATransactionId(1, b"x" * 200_000, b"y")
        assert client.refused(transaction_info(client.connection_id, endless, COMMIT)).class_name == XA
        client.ping()


def test_send_in_another_connections_transaction_does_not_harm_it(stage: Scene, client: OpenWireClient) -> None:
    with OpenWireClient.logged_in(stage.port) as owner:
        mine = local(owner.connection_id)
        owner.request(transaction_info(owner.connection_id, mine, BEGIN))
        for sender in (owner, client):
            message = sender.text_message(queue(unique("q")), "x")
            message.transaction_id = mine
            if sender is owner:
                sender.request(message)
            else:
                assert sender.refused(message).class_name == SECURITY
        owner.request(transaction_info(owner.connection_id, mine, COMMIT))


def test_thousands_of_pulls(stage: Scene, client: OpenWireClient) -> None:
    consumer = client.subscribe(queue(unique("pulls")), prefetch_size=0)
    for _ in range(1500):
        client.tell(commands.MessagePull(consumer_id=consumer, timeout=2**63 - 1))
    for _ in range(1500):
        client.tell(commands.MessagePull(consumer_id=consumer, timeout=-(2**63)))
    client.ping()
    errors = [event for event in client.take_events() if isinstance(event, commands.ConnectionError)]
    assert len(errors) == 2000, "a thousand may wait"
    assert {error.exception.class_name for error in errors if error.exception is not None} == {LIMIT}
    stage.bystander.work()


# ---- how much --------------------------------------------------------------------------------------------------


def _memory_bytes(broker: RunningBroker) -> int:
    return int(psutil.Process(broker.process.pid).memory_info().rss)


def test_ids_without_end_are_not_kept(stage: Scene, client: OpenWireClient) -> None:
    before = _memory_bytes(stage.broker)
    for number in range(1000):
        message = client.text_message(topic("nobody listens"), "x")
        message.producer_id = commands.ProducerId(f"{number:06d}{'x' * 60_000}", 1, 1)
        message.message_id = commands.MessageId(producer_id=message.producer_id, producer_sequence_id=1)
        client.tell(message)
    client.ping()
    assert _memory_bytes(stage.broker) - before < 20 * 1024 * 1024, "60 MB were sent"


def test_refusals_without_end_take_no_memory(stage: Scene, client: OpenWireClient) -> None:
    refusals = [make(client) for make, _ in REFUSED.values()]
    for _ in range(3):
        for refusal in refusals:
            client.refused(refusal)
    before = _memory_bytes(stage.broker)
    for _ in range(8):
        for refusal in refusals:
            client.refused(refusal)
    assert _memory_bytes(stage.broker) - before < 20 * 1024 * 1024


def test_more_destinations_than_allowed(tmp_path: Path) -> None:
    config = tmp_path / "ackwire.toml"
    config.write_text(f"[destinations]\ncount_max = {COUNT_MAX}\n\n[connection]\nconsumers_max = 50\n")
    options = ("--config", str(config), "--store", "memory")
    with (
        running_broker(["tcp://127.0.0.1:0"], log_path=tmp_path / "broker.log", options=options) as broker,
        scene(broker) as stage,
        OpenWireClient.logged_in(stage.port) as client,
    ):
        last = 0
        for number in range(COUNT_MAX + 10):
            last = client.post(client.text_message(queue(f"q{number}"), "x"))
        client.answer(last)
        refused = [e.exception for e in client.take_events() if isinstance(e, commands.ExceptionResponse)]
        assert {e.class_name for e in refused if e is not None} == {LIMIT}
        assert 9 <= len(refused) <= 15, "the bystander's and the broker's own are among them"
        stage.bystander.work()
        assert text_of(client.receive(client.subscribe(queue("q0")))) == "x"
        for _ in range(49):
            client.subscribe(queue("q1"))
        assert client.refused(client.consumer_info(queue("q1"))).class_name == LIMIT
        client.request(
            commands.DestinationInfo(
                connection_id=commands.ConnectionId(client.connection_id), destination=queue("q2"), operation_type=1
            )
        )
        client.send_text(queue("new"), "there is a place again")


@pytest.mark.parametrize("name", ["\ud800", "a.\udfff", "x\udc00\ud800"])
def test_name_with_half_a_surrogate_pair_is_refused(stage: Scene, name: str) -> None:
    """Logs, JSON and Parquet cannot hold it, and in metrics two such names would be one."""
    with OpenWireClient.logged_in(stage.port) as client:
        refused = [
            client.refused(client.text_message(queue(name), "x")),
            client.refused(commands.DestinationInfo(destination=queue(name))),
            client.refused(client.consumer_info(topic(name))),
            client.refused(client.consumer_info(topic("t"), subscription_name=name)),
        ]
        assert {it.class_name for it in refused} == {DESTINATION}
        client.ping()
    with OpenWireClient.connect(stage.port) as stranger:
        stranger.handshake()
        info = stranger.connection_info(client_id=f"c{name}")
        assert stranger.refused(info).class_name == "javax.jms.InvalidClientIDException"

"""Input that makes no sense, at the broker's core: commands in any order, ids of others, values beyond all reason.

Each is refused in the words the Java client knows, or tolerated as ActiveMQ tolerates it; either way the broker's
counters equal its contents afterwards.
"""

import time
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ackwire.broker.in_flight import AckKind
from ackwire.broker.session import Login
from ackwire.broker.subscription import QueueSubscription
from ackwire.config.policy import DestinationPolicy
from ackwire.errors import (
    BrokerError,
    DestinationGone,
    InvalidDestination,
    InvalidSelector,
    NotAuthorised,
    ResourceLimit,
)
from ackwire.selector import compile_selector
from ackwire.wire.openwire import commands
from tests.helpers.bad_input import (
    BEGIN,
    COMMIT,
    COMMIT_PREPARED,
    DESTINATION,
    FORGET,
    GONE,
    JMS,
    KNOWN_CLASSES,
    LONG_EXTREMES,
    PREPARE,
    ROLL_BACK,
    SECURITY,
    SELECTOR,
    STATE,
    XA,
    Line,
    Maker,
    commands_from,
    local,
    transaction_info,
    xid,
)
from tests.helpers.broker_rig import BrokerRig, command_of, make_message, named
from tests.helpers.openwire_client import queue, topic
from tests.simulation.audit import audit

# ---- any order -------------------------------------------------------------------------------------------------

_steps = st.lists(
    st.one_of(
        st.tuples(st.just(0), commands_from("ID:A", ("ID:B",))), st.tuples(st.just(1), commands_from("ID:B", ("ID:A",)))
    ),
    min_size=20,
    max_size=60,
)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(_steps)
def test_commands_in_any_order_are_answered_once_and_leave_the_broker_consistent(
    steps: list[tuple[int, Maker]],
) -> None:
    rig = BrokerRig()
    rig.broker.answer_questions()
    lines = [Line(rig, "ID:A"), Line(rig, "ID:B")]
    for line in lines:
        line.request(commands.SessionInfo(session_id=commands.SessionId(line.connection_id, 1)))
        for number, where in enumerate((queue("a"), topic("b"), queue("a.>"))):
            line.subscribe(where, number)
    for who, make in steps:
        answer = lines[who].ask(make(lines[who].held()))
        if isinstance(answer, commands.ExceptionResponse):
            assert answer.exception is not None
            assert answer.exception.class_name in KNOWN_CLASSES
            assert answer.exception.message
        audit(rig.broker)
    rig.clock.advance(1)
    audit(rig.broker)
    for line in lines:
        assert line.peer.closed is None
        line.lose()
        audit(rig.broker)
    rig.clock.advance(3600)
    audit(rig.broker)


# ---- ranges that make no sense ---------------------------------------------------------------------------------

COUNTS = (-(2**31), -1, 0, 2, 4, 2**31 - 1)


@pytest.mark.parametrize("kind", [AckKind.STANDARD, AckKind.UNMATCHED, AckKind.POISON, AckKind.EXPIRED])
@pytest.mark.parametrize("where", ["queue://q", "topic://t"])
def test_wrong_ranges_are_refused_and_change_nothing(kind: AckKind, where: str) -> None:
    rig = BrokerRig()
    client = rig.connect()
    consumer = client.consumer(where, subscription_name="s" if where.startswith("topic") else None)
    stranger = rig.connect().message(where)
    messages = [client.send(where) for _ in range(3)]
    for count in COUNTS:
        with pytest.raises(BrokerError):
            consumer.ack(messages[2], first=messages[0], count=count, kind=kind)
    for first, last in ((messages[2], messages[0]), (stranger, messages[2]), (messages[0], stranger), (None, stranger)):
        for count in (1, 3):
            with pytest.raises(BrokerError):
                consumer.ack(last, first=first, count=count, kind=kind)
    audit(rig.broker, rig.store)
    consumer.ack(messages[2], first=messages[0], count=3, kind=kind)
    audit(rig.broker, rig.store)
    assert consumer.subscription.dispatched == 0


@pytest.mark.parametrize("kind", [AckKind.INDIVIDUAL, AckKind.DELIVERED, AckKind.REDELIVERED])
def test_acks_that_count_nothing_ignore_their_count(kind: AckKind) -> None:
    rig = BrokerRig()
    consumer = rig.consumer("queue://q", prefetch=2)
    client = rig.connect()
    for _ in range(4):
        client.send("queue://q")
    in_flight = cast(QueueSubscription, consumer.subscription).in_flight
    for count in COUNTS:
        if kind is not AckKind.INDIVIDUAL or consumer.subscription.dispatched:
            consumer.ack(next(iter(in_flight)), count=count, kind=kind)
        audit(rig.broker, rig.store)
    with pytest.raises(BrokerError):
        consumer.ack(client.message("queue://q"), kind=kind)


@pytest.mark.parametrize("kind", list(AckKind))
@pytest.mark.parametrize("options", [{"browser": True}, {}], ids=["browser", "topic"])
def test_acks_of_copies_take_any_range(kind: AckKind, options: dict[str, Any]) -> None:
    rig = BrokerRig()
    client = rig.connect()
    where = "queue://q" if options else "topic://t"
    client.send(where)
    consumer = rig.consumer(where, prefetch=1, **options)
    for count in COUNTS:
        consumer.ack(client.message(where), first=client.message(where), count=count, kind=kind)
    for _ in range(5):
        client.send(where)
    assert consumer.delivered
    audit(rig.broker, rig.store)
    assert rig.pending("queue://q") == (6 if options else 0)


def test_delivered_acks_of_a_topic_consumer_do_not_add_up_beyond_reason() -> None:
    rig = BrokerRig()
    consumer = rig.consumer("topic://t", prefetch=1)
    message = rig.connect().send("topic://t")
    for _ in range(100):
        consumer.ack(message, count=2**31 - 1, kind=AckKind.DELIVERED)
    assert consumer.subscription.has_room
    consumer.ack(message, count=2**31 - 1)
    assert consumer.subscription.dispatched == 0


# ---- ids used twice --------------------------------------------------------------------------------------------


def test_consumer_id_used_again_is_the_consumer_that_is_there() -> None:
    rig = BrokerRig()
    line = Line(rig, "ID:A")
    line.subscribe(queue("q"), 1)
    line.subscribe(topic("other"), 1, prefetch_size=0, selector="n = 1")
    rig.connect().send("queue://q")
    line.read()
    assert len(line.held()) == 1
    assert rig.broker.consumer_count(named("topic://other")) == 0


def test_producer_and_session_ids_used_again_change_nothing() -> None:
    rig = BrokerRig()
    line = Line(rig, "ID:A")
    for _ in range(3):
        line.request(commands.SessionInfo(session_id=commands.SessionId("ID:A", 1)))
        line.request(commands.ProducerInfo(producer_id=commands.ProducerId("ID:A", 1, 1), destination=queue("q")))
    assert rig.broker.clients.producer_count(named("queue://q")) == 1
    line.request(commands.RemoveInfo(object_id=commands.SessionId("ID:A", 1)))
    assert rig.broker.clients.producer_count(named("queue://q")) == 0
    assert line.refused(commands.RemoveInfo(object_id=commands.SessionId("ID:A", 1))).class_name == STATE


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("where", ["queue://q", "topic://t"])
def test_message_id_used_again_is_another_message(where: str, persistent: bool) -> None:
    rig = BrokerRig()
    client = rig.connect()
    durable = "s" if where.startswith("topic") else None
    consumer = client.consumer(where, subscription_name=durable)
    message = client.message(where, persistent=persistent)
    client.send_message(message)
    client.send_message(make_message(command_of(message)))
    assert len(consumer.delivered) == 1, "acks could not tell the two apart"
    audit(rig.broker)
    consumer.ack()
    assert len(consumer.delivered) == 2
    audit(rig.broker)
    consumer.ack()
    audit(rig.broker, rig.store)
    assert rig.broker.flow.used_bytes == 0


def test_second_message_of_an_id_is_still_stored_when_the_first_is_consumed() -> None:
    rig = BrokerRig()
    client = rig.connect()
    consumer = client.consumer("queue://q")
    message = client.send("queue://q")
    client.send_message(make_message(command_of(message)))
    consumer.ack()
    audit(rig.broker, rig.store)


def test_connection_id_used_again_replaces_the_connection_with_all_it_had() -> None:
    rig = BrokerRig()
    first = Line(rig, "ID:A")
    first.subscribe(queue("q"), 1)
    rig.connect().send("queue://q")
    second = Line(rig, "ID:A")
    assert first.peer.closed is not None
    second.subscribe(queue("q"), 1)
    (again,) = second.held()
    assert again.redelivery_counter == 1
    audit(rig.broker, rig.store)


def test_the_brokers_own_connection_cannot_be_replaced() -> None:
    rig = BrokerRig()
    rig.broker.answer_questions()
    client = rig.connect()
    with pytest.raises(BrokerError):
        rig.broker.connect(Login(rig.broker.broker_id, "impostor"), client.port)
    ask(rig, subject="queue", name="q")


# ---- transactions ----------------------------------------------------------------------------------------------


def transacted(line: Line, kind: int, transaction_id: commands.TransactionId) -> str:
    """What becomes of it: a class name, or "done"."""
    answer = line.ask(transaction_info(line.connection_id, transaction_id, kind))
    if isinstance(answer, commands.ExceptionResponse):
        assert answer.exception is not None
        return str(answer.exception.class_name)
    return "done"


def test_transactions_that_never_began() -> None:
    line = Line(BrokerRig(), "ID:A")
    assert transacted(line, COMMIT, local("ID:A")) == JMS
    assert transacted(line, COMMIT, xid()) == XA
    assert transacted(line, COMMIT_PREPARED, xid()) == XA
    assert transacted(line, PREPARE, xid()) in (XA, JMS)
    assert transacted(line, FORGET, xid()) == XA
    assert transacted(line, ROLL_BACK, local("ID:A")) in (JMS, "done")
    assert transacted(line, 99, xid()) == JMS


def test_transaction_begun_twice_is_one() -> None:
    rig = BrokerRig()
    client = rig.connect()
    transaction = client.begin()
    client.send("queue://q", transaction=transaction)
    client.begin()
    client.send("queue://q", transaction=transaction)
    client.commit(transaction)
    assert rig.pending("queue://q") == 2
    with pytest.raises(BrokerError):
        client.commit(transaction)
    audit(rig.broker, rig.store)


def test_transaction_ends_once() -> None:
    rig = BrokerRig()
    line = Line(rig, "ID:A")
    for transaction_id, refusal in ((local("ID:A"), JMS), (xid(), XA)):
        assert transacted(line, BEGIN, transaction_id) == "done"
        assert transacted(line, ROLL_BACK, transaction_id) == "done"
        assert transacted(line, COMMIT, transaction_id) == refusal
    audit(rig.broker, rig.store)


def test_prepared_twice_is_prepared_and_committed_once() -> None:
    rig = BrokerRig()
    line, client = Line(rig, "ID:A"), rig.connect()
    rig.broker.transaction_manager.begin(client.connection, xid(), is_xa=True)
    client.send("queue://q", transaction=xid())
    for _ in range(2):
        assert transacted(line, PREPARE, xid()) == "done"
    with pytest.raises(BrokerError):
        client.send("queue://q", transaction=xid())
    assert transacted(line, COMMIT_PREPARED, xid()) == "done"
    assert transacted(line, COMMIT_PREPARED, xid()) == XA
    assert transacted(line, ROLL_BACK, xid()) in (XA, "done")
    assert rig.pending("queue://q") == 1
    audit(rig.broker, rig.store)


@pytest.mark.parametrize("kind", [COMMIT, ROLL_BACK])
def test_local_transaction_of_another_connection_is_out_of_reach(kind: int) -> None:
    rig = BrokerRig()
    owner, thief = rig.connect("owner"), Line(rig, "ID:thief")
    transaction = owner.begin()
    owner.send("queue://q", transaction=transaction)
    assert transacted(thief, kind, transaction) == SECURITY
    owner.commit(transaction)
    assert rig.pending("queue://q") == 1


@pytest.mark.parametrize("kind", [PREPARE, FORGET])
def test_local_transaction_of_another_connection_is_not_prepared_or_forgotten(kind: int) -> None:
    rig = BrokerRig()
    owner, thief = rig.connect("owner"), Line(rig, "ID:thief")
    transaction = owner.begin()
    owner.send("queue://q", transaction=transaction)
    assert transacted(thief, kind, transaction) == SECURITY
    owner.commit(transaction)
    assert rig.pending("queue://q") == 1


def test_local_transaction_cannot_be_prepared() -> None:
    rig = BrokerRig()
    line = Line(rig, "ID:A")
    transacted(line, BEGIN, local("ID:A"))
    command = command_of(rig.connect("A2").message("queue://q"))
    command.producer_id = commands.ProducerId("ID:A", 1, 1)
    command.message_id = commands.MessageId(None, command.producer_id, 1)
    command.transaction_id = local("ID:A")
    line.request(command)
    transacted(line, PREPARE, local("ID:A"))
    line.lose()
    assert list(rig.broker.transaction_manager.transactions) == []
    assert rig.broker.flow.used_bytes == 0


@pytest.mark.parametrize("what", ["send", "ack"])
def test_work_in_another_connections_transaction_does_not_harm_it(what: str) -> None:
    rig = BrokerRig()
    owner, thief = rig.connect("owner"), Line(rig, "ID:thief")
    thief.subscribe(queue("mine"), 1)
    owner.send("queue://mine")
    thief.read()
    transaction = owner.begin()
    owner.send("queue://q", transaction=transaction)
    command: Any
    if what == "send":
        command = command_of(owner.message("queue://q"))
    else:
        (held,) = thief.held()
        assert held.message is not None
        command = commands.MessageAck(
            consumer_id=held.consumer_id, ack_type=2, last_message_id=held.message.message_id, message_count=1
        )
    command.transaction_id = transaction
    assert thief.refused(command).class_name == SECURITY
    owner.commit(transaction)
    assert rig.pending("queue://q") == 1


def test_transaction_ids_of_another_connection_cannot_be_taken() -> None:
    rig = BrokerRig()
    owner, thief = rig.connect("owner"), Line(rig, "ID:thief")
    assert transacted(thief, BEGIN, local("ID:owner", 1)) == SECURITY
    transaction = owner.begin(1)
    owner.send("queue://q", transaction=transaction)
    owner.commit(transaction)


def test_open_transactions_are_limited() -> None:
    rig = BrokerRig()
    client = rig.connect()

    def begin_many() -> None:
        for number in range(100_000):
            client.begin(number)

    with pytest.raises(ResourceLimit):
        begin_many()


@pytest.mark.parametrize(
    "transaction_id", [local("x" * 65_500), commands.XATransactionId(1, b"x" * 200_000, b"y")], ids=["local", "xa"]
)
def test_endless_transaction_id_is_refused_in_few_words(transaction_id: commands.TransactionId) -> None:
    line = Line(BrokerRig(), "ID:A")
    assert transacted(line, COMMIT, transaction_id) in (JMS, SECURITY, XA)
    line.request(commands.SessionInfo(session_id=commands.SessionId("ID:A", 1)))


# ---- selectors -------------------------------------------------------------------------------------------------

LONG_SELECTORS = {
    "comparisons": " OR ".join(f"n{i} = {i}" for i in range(4000)),
    "sums": "+".join(["1"] * 32_000) + " = n",
    "list": f"n IN ({','.join(map(repr, map(str, range(8000))))})",
    "minus": "-" * 60_000 + "1 = n",
    "nots": "NOT " * 16_000 + "TRUE",
    "brackets": "(" * 30_000 + "TRUE" + ")" * 30_000,
    "open brackets": "(" * 60_000,
    "like": "n LIKE '" + "%a" * 30_000 + "'",
    "text": "n = '" + "x" * 65_000 + "'",
    "not closed": "n = '" + "x" * 65_000,
    "digits": "n = " + "9" * 65_000,
}


@pytest.mark.parametrize("name", LONG_SELECTORS)
def test_long_selector_is_read_or_refused_in_time(name: str) -> None:
    rig = BrokerRig()
    line = Line(rig, "ID:A")
    begin = time.perf_counter()
    answer = line.ask(line.consumer_info(queue("q"), 1, selector=LONG_SELECTORS[name][: 64 * 1024]))
    rig.connect().send("queue://q", properties={"n": "a" * 1000})
    assert time.perf_counter() - begin < 10, "half a second, on a machine that is not busy"
    if isinstance(answer, commands.ExceptionResponse):
        assert answer.exception is not None
        assert answer.exception.class_name == SELECTOR
        assert len(answer.exception.message or "") < 2000
    audit(rig.broker, rig.store)


@pytest.mark.parametrize("text", ["x" * 1024 * 1024, "(" * 1024 * 1024, "n=1 OR " * 150_000 + "n=1"])
def test_selector_of_a_megabyte_is_refused_at_once(text: str) -> None:
    begin = time.perf_counter()
    with pytest.raises(InvalidSelector, match="at most 65536"):
        compile_selector(text)
    assert time.perf_counter() - begin < 0.5
    rig = BrokerRig()
    with pytest.raises(InvalidSelector):
        rig.consumer("queue://q", selector=text)
    assert rig.broker.consumer_count(named("queue://q")) == 0


# ---- names -----------------------------------------------------------------------------------------------------

TEN_THOUSAND = ",".join(f"q{number}" for number in range(10_000))


def _announced(line: Line, where: commands.ActiveMQDestination) -> list[commands.BaseCommand]:
    return [
        line.consumer_info(where, 9),
        commands.ProducerInfo(producer_id=commands.ProducerId(line.connection_id, 9, -1), destination=where),
        commands.DestinationInfo(connection_id=commands.ConnectionId(line.connection_id), destination=where),
    ]


@pytest.mark.parametrize(
    "name", ["", TEN_THOUSAND, "x" * 5000, "x" * 65_000], ids=["empty", "ten thousand", "5,000", "65,000"]
)
@pytest.mark.parametrize("kind", [commands.ActiveMQQueue, commands.ActiveMQTopic])
def test_impossible_names_are_refused(kind: type[commands.ActiveMQDestination], name: str) -> None:
    line = Line(BrokerRig(), "ID:A")
    for command in _announced(line, kind(name)):
        assert line.refused(command).class_name == DESTINATION


def message_to(where: commands.ActiveMQDestination, number: int = 1, **fields: Any) -> commands.ActiveMQTextMessage:
    producer = commands.ProducerId("ID:A", 1, 1)
    return commands.ActiveMQTextMessage(
        producer_id=producer, destination=where, message_id=commands.MessageId(None, producer, number), **fields
    )


@pytest.mark.parametrize("name", ["", TEN_THOUSAND, "x" * 5000], ids=["empty", "ten thousand", "5,000"])
def test_message_to_an_impossible_name_is_refused(name: str) -> None:
    line = Line(BrokerRig(), "ID:A")
    assert not line.breaks(message_to(queue(name)))
    assert line.refused(message_to(queue(name), 2)).class_name == DESTINATION


@pytest.mark.parametrize(
    ("name", "refusal"),
    [
        (",".join(f"{number:x}" for number in range(257)), DESTINATION),
        ("a,,b", DESTINATION),
        (",", DESTINATION),
        ("a.*", DESTINATION),
        (">", DESTINATION),
        ("temp-queue://ID:gone:1", GONE),
        ("temp-queue://ID:gone:1,topic://x.*", GONE),
    ],
)
def test_composites_and_patterns_that_nobody_can_send_to(name: str, refusal: str) -> None:
    rig = BrokerRig()
    line = Line(rig, "ID:A")
    where = commands.ActiveMQTempQueue("ID:gone:1") if name == "temp-queue://ID:gone:1" else queue(name)
    assert line.refused(message_to(where)).class_name == refusal
    line.request(message_to(queue("good"), 2))
    audit(rig.broker, rig.store)


def test_composite_of_the_same_name_again_and_again_is_one_send() -> None:
    rig = BrokerRig()
    rig.connect().send("queue://" + ",".join(["q"] * 1500 + ["topic://t"] * 10))
    assert rig.pending("queue://q") == 1


@pytest.mark.parametrize("bad", ["b.*", "temp-queue://gone:1", ""])
def test_refused_composite_send_reaches_nobody(bad: str) -> None:
    rig = BrokerRig()
    client = rig.connect()
    with pytest.raises(InvalidDestination):
        client.send(f"queue://a,{bad},c") if bad else client.send("queue://a,b.*")
    assert rig.pending("queue://a") == 0


def test_consumers_of_mixed_kinds_are_refused() -> None:
    rig = BrokerRig()
    with pytest.raises(InvalidDestination, match="mixes"):
        rig.consumer("queue://a,topic://b")
    with pytest.raises(DestinationGone):
        rig.consumer("queue://a,temp-queue://x:1")
    with pytest.raises(InvalidDestination, match="256"):
        rig.consumer("queue://" + ",".join(f"{number:x}" for number in range(300)))
    audit(rig.broker, rig.store)


@pytest.mark.parametrize("name", ["\x00", "a\nb", "\x1b[31m", "\u202e", " ", "a..b", ".", "*x", "queue://queue://a"])
def test_strange_names_work(name: str) -> None:
    rig = BrokerRig()
    consumer = rig.connect(f"client {name}").consumer(named("queue://q").__class__(named("queue://q").kind, name))
    rig.connect().send(consumer.subscription.request.destination)
    assert len(consumer.delivered) == 1
    consumer.ack(kind=AckKind.POISON)
    audit(rig.broker, rig.store)


# ---- limits ----------------------------------------------------------------------------------------------------


def test_last_destination_is_the_last_and_the_others_go_on() -> None:
    rig = BrokerRig(settings={"destinations": {"count_max": 20_000}})
    client = rig.connect()
    for number in range(20_000):
        rig.broker.add_destination(client.connection, named(f"queue://q{number}"))
    consumer = rig.consumer("queue://q19999")
    for attempt in (client.send, rig.consumer, lambda _: client.temporary_queue()):
        with pytest.raises(ResourceLimit, match="20000 destinations exist"):
            attempt("queue://one-more")
    with pytest.raises(ResourceLimit):
        rig.consumer("topic://one-more", subscription_name="s")
    client.send("queue://q19999")
    consumer.ack(kind=AckKind.POISON)
    assert rig.pending("queue://ActiveMQ.DLQ") == 1, "dead letters have a place all the same"
    rig.broker.remove_destination(client.connection, named("queue://q0"))
    rig.broker.remove_destination(client.connection, named("queue://q1"))
    client.send("queue://one-more")
    assert rig.pending("queue://one-more") == 1


def test_durable_subscription_that_cannot_change_stays_as_it_was() -> None:
    rig = BrokerRig(settings={"destinations": {"count_max": 1}})
    client = rig.connect("c")
    client.consumer("topic://t", subscription_name="s").close()
    client.send("topic://t")
    with pytest.raises(ResourceLimit):
        client.consumer("topic://new", subscription_name="s")
    assert len(client.consumer("topic://t", subscription_name="s").delivered) == 1


def test_limit_reached_with_somebody_listening_to_advisories() -> None:
    rig = BrokerRig(settings={"destinations": {"count_max": 3}})
    rig.consumer("topic://ActiveMQ.Advisory.>")
    client = rig.connect("x")
    client.send("queue://q")
    client.consumer("queue://q")
    client.disconnect()
    rig.connect("x").disconnect()
    assert rig.broker.consumer_count(named("queue://q")) == 0


@pytest.mark.parametrize("pattern", ["queue://a.*", "topic://a.>", "queue://a,b.*"])
def test_pattern_consumer_with_somebody_listening_to_advisories(pattern: str) -> None:
    rig = BrokerRig()
    rig.consumer("topic://ActiveMQ.Advisory.>")
    rig.connect().consumer(pattern).close()


@pytest.mark.parametrize("what", ["sessions", "producers", "consumers"])
def test_one_connection_has_its_limits(what: str) -> None:
    rig = BrokerRig(settings={"connection": {f"{what}_max": 3}})
    line = Line(rig, "ID:A")
    made: list[commands.BaseCommand] = []
    for number in range(5):
        match what:
            case "sessions":
                made.append(commands.SessionInfo(session_id=commands.SessionId("ID:A", number)))
            case "producers":
                made.append(commands.ProducerInfo(producer_id=commands.ProducerId("ID:A", number, -1)))
            case _:
                made.append(line.consumer_info(queue("q"), number))
    answers = [line.ask(command) for command in made]
    refused = [a.exception for a in answers if isinstance(a, commands.ExceptionResponse)]
    assert len(refused) == (3 if what == "sessions" else 2), "one session is there from the beginning"
    assert {e.class_name for e in refused if e is not None} == {"javax.jms.ResourceAllocationException"}
    Line(rig, "ID:B").subscribe(queue("q"), 1)


def test_prefetch_limit_holds_for_changes_too() -> None:
    rig = BrokerRig(policies=(DestinationPolicy(match="queue://>", prefetch_max=2),))
    consumer = rig.consumer("queue://q")
    client = rig.connect()
    for _ in range(5):
        client.send("queue://q")
    rig.broker.set_prefetch(consumer.subscription, 2**31 - 1)
    assert len(consumer.delivered) == 2


def test_pulls_without_end() -> None:
    rig = BrokerRig()
    consumer = rig.consumer("queue://q", prefetch=0)
    for timeout_ms in LONG_EXTREMES:
        consumer.pull(timeout_ms)
    assert consumer.port.ends == 3, "the negative ones do not wait"
    while consumer.subscription.pulls < 1000:
        consumer.pull(2**63 - 1)
    with pytest.raises(ResourceLimit):
        consumer.pull(2**63 - 1)
    client = rig.connect()
    for _ in range(1500):
        client.send("queue://q")
    assert len(consumer.delivered) == 1000
    rig.clock.advance(10)
    audit(rig.broker, rig.store)
    consumer.close()
    assert rig.pending("queue://q") == 1500


# ---- values beyond reason --------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["queue://q", "topic://t"])
@pytest.mark.parametrize("transacted", [True, False])
def test_times_and_numbers_of_any_size(where: str, transacted: bool) -> None:
    rig = BrokerRig(policies=(DestinationPolicy(match=f"{where.partition(':')[0]}://>", prioritized=True),))
    client = rig.connect()
    consumer = rig.consumer(where, selector="JMSPriority < 1000 AND JMSXGroupSeq IS NOT NULL")
    transaction = client.begin() if transacted else None
    for number in LONG_EXTREMES:
        small = max(-(2**31), min(number, 2**31 - 1))
        client.send(where, timestamp=number, transaction=transaction)
        client.send(where, timestamp=number, expiration=2**63 - 1, transaction=transaction)
        client.send(where, expiration=-abs(number), transaction=transaction)
        client.send(where, redelivery_counter=small, transaction=transaction)
        client.send(where, group_id="g", group_sequence=small, transaction=transaction)
        client.send(where, priority=max(-128, min(number, 127)), transaction=transaction)
    if transaction is not None:
        client.commit(transaction)
    assert len(consumer.delivered) == 6 * len(LONG_EXTREMES)
    assert {message.redelivery_counter for message in consumer.delivered} == {0}
    consumer.close()
    rig.clock.advance(100)
    audit(rig.broker, rig.store)


def test_negative_expiration_does_not_escape_the_ceiling() -> None:
    rig = BrokerRig(policies=(DestinationPolicy(match="queue://>", expiration_ceiling_seconds=5),))
    rig.connect().send("queue://q", expiration=-5)
    rig.clock.advance(100)
    assert rig.pending("queue://q") == 0


@pytest.mark.parametrize("priority", [-128, 0, 127])
def test_consumer_priorities_of_any_size(priority: int) -> None:
    rig = BrokerRig()
    line = Line(rig, "ID:A")
    line.subscribe(queue("q"), 1, priority=priority, prefetch_size=-1)
    line.subscribe(queue("q"), 2, priority=priority, prefetch_size=2**31 - 1, exclusive=True)
    rig.connect().send("queue://q")
    line.read()
    assert len(line.held()) == 1
    audit(rig.broker, rig.store)


BAD_SCHEDULES: list[dict[str, Any]] = [
    {"AMQ_SCHEDULED_DELAY": 2**63 - 1},
    {"AMQ_SCHEDULED_DELAY": "9" * 20},
    {"AMQ_SCHEDULED_DELAY": "9" * 5000},
    {"AMQ_SCHEDULED_DELAY": "soon"},
    {"AMQ_SCHEDULED_DELAY": 1.5},
    {"AMQ_SCHEDULED_DELAY": True},
    {"AMQ_SCHEDULED_PERIOD": 2**62},
    {"AMQ_SCHEDULED_DELAY": 1, "AMQ_SCHEDULED_REPEAT": 2**31 - 1},
    {"AMQ_SCHEDULED_CRON": "* * * *"},
    {"AMQ_SCHEDULED_CRON": "0 0 31 2 *"},
    {"AMQ_SCHEDULED_CRON": "*/0 * * * *"},
    {"AMQ_SCHEDULED_CRON": "9" * 5000 + " * * * *"},
    {"AMQ_SCHEDULED_CRON": ",".join(["1"] * 20_000) + " * * * *"},
    {"AMQ_SCHEDULED_CRON": 5},
]


@pytest.mark.parametrize("properties", BAD_SCHEDULES, ids=lambda p: str(p)[:60])
def test_absurd_schedules_are_refused(properties: dict[str, Any]) -> None:
    rig = BrokerRig()
    client = rig.connect()
    with pytest.raises(BrokerError):
        client.send("queue://q", properties=properties)
    assert len(rig.broker.scheduler) == 0
    client.send("queue://q", properties={"AMQ_SCHEDULED_DELAY": 1})
    rig.clock.advance(1)
    assert rig.pending("queue://q") == 1


@pytest.mark.parametrize("delay", [-(2**63), -1, 0])
@pytest.mark.parametrize("period", [-(2**63), -1, 0])
@pytest.mark.parametrize("repeat", [-(2**63), -1, 0, 3])
def test_negative_schedules_are_due_now(delay: int, period: int, repeat: int) -> None:
    rig = BrokerRig()
    properties = {"AMQ_SCHEDULED_DELAY": delay, "AMQ_SCHEDULED_PERIOD": period, "AMQ_SCHEDULED_REPEAT": repeat}
    rig.connect().send("queue://q", properties=properties)
    rig.clock.advance(1.05)
    assert rig.pending("queue://q") == {0: 1, 3: 4}.get(repeat, 11)
    audit(rig.broker)


def test_scheduled_message_that_lives_for_ever() -> None:
    rig = BrokerRig()
    client = rig.connect()
    client.send("queue://q", properties={"AMQ_SCHEDULED_DELAY": 100}, expiration=2**63 - 1, timestamp=1)
    client.send("queue://q", properties={"AMQ_SCHEDULED_DELAY": 200})
    rig.clock.advance(1)
    assert rig.pending("queue://q") == 2


def test_scheduled_message_to_what_is_gone_by_then() -> None:
    rig = BrokerRig()
    client = rig.connect()
    where = client.temporary_queue()
    rig.connect().send(where, properties={"AMQ_SCHEDULED_DELAY": 100})
    client.disconnect()
    rig.clock.advance(1)
    assert rig.pending("queue://ActiveMQ.DLQ") == 1


@pytest.mark.parametrize("action", ["BROWSE", "REMOVE", "REMOVEALL", "x", 5])
@pytest.mark.parametrize(
    "reply_to", [None, "temp-queue://gone:1", "queue://a.*", "queue://,", "queue://ActiveMQ.Scheduler.Management"]
)
def test_strange_words_to_the_scheduler(action: Any, reply_to: str | None) -> None:
    rig = BrokerRig()
    client = rig.connect()
    client.send("queue://q", properties={"AMQ_SCHEDULED_DELAY": 100})
    properties: dict[str, Any] = {"AMQ_SCHEDULER_ACTION": action, "scheduledJobId": 7, "ACTION_START_TIME": -(2**63)}
    for more in ({}, {"ACTION_END_TIME": 2**63 - 1}, {"ACTION_END_TIME": "-1"}):
        client.send("topic://ActiveMQ.Scheduler.Management", properties=properties | more, reply_to=reply_to)
    with pytest.raises(BrokerError):
        client.send("topic://ActiveMQ.Scheduler.Management", properties=properties | {"ACTION_END_TIME": "late"})
    rig.clock.advance(1)
    audit(rig.broker, rig.store)


# ---- questions -------------------------------------------------------------------------------------------------


def ask(rig: BrokerRig, **properties: Any) -> str:
    """A question by somebody else, and its answer."""
    client = rig.connect()
    where = client.temporary_queue()
    consumer = client.consumer(where)
    client.send("queue://Ackwire.Why", properties=properties, reply_to=where)
    rig.clock.advance(0.1)
    assert len(consumer.delivered) == 1, "no answer"
    consumer.ack()
    return str(consumer.properties()["answer"])


SUBJECTS = ("queue", "topic", "message", "producer", "consumer", "transaction", "x", 5, None)
THINGS = (
    "x",
    "ID:a:1:1:1",
    "ID:a:1:1:99999999999999999999",
    "\ud800",
    "a.*",
    "a,b",
    "\x00",
    "-1",
    7,
    "²",
    "x" * 60_000,
)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_strange_questions_are_answered(subject: Any) -> None:
    rig = BrokerRig()
    rig.broker.answer_questions()
    rig.connect().send("queue://x")
    for name in THINGS:
        if subject not in ("queue", "topic") or len(str(name)) < 4096:
            assert ask(rig, subject=subject, name=name)
    audit(rig.broker, rig.store)


@pytest.mark.parametrize("name", ["9" * 5000, "ID:a:" + "9" * 5000])
def test_question_about_a_message_of_endless_number(name: str) -> None:
    rig = BrokerRig()
    rig.broker.answer_questions()
    assert "is not here" in ask(rig, subject="message", name=name)


@pytest.mark.parametrize("name", ["", "x" * 5000])
def test_question_about_an_impossible_name_is_answered(name: str) -> None:
    rig = BrokerRig()
    rig.broker.answer_questions()
    assert ask(rig, subject="queue", name=name)


@pytest.mark.parametrize("reply_to", [None, "temp-queue://gone:1", "queue://a.*", "queue://a,b.*"])
def test_questions_that_nobody_can_be_answered(reply_to: str | None) -> None:
    rig = BrokerRig()
    rig.broker.answer_questions()
    client = rig.connect()
    for _ in range(250):  # more than are answered at a time
        client.send("queue://Ackwire.Why", properties={"subject": "queue", "name": "x"}, reply_to=reply_to)
    garbage = command_of(client.message("queue://Ackwire.Why", reply_to="queue://r"))
    garbage.marshalled_properties = b"\0\0\0\x09no map"
    client.send_message(make_message(garbage))
    rig.clock.advance(1)
    assert rig.pending("queue://Ackwire.Why") == 0
    assert ask(rig, subject="queue", name="x")
    audit(rig.broker, rig.store)


def test_question_that_is_its_own_answer_ends() -> None:
    rig = BrokerRig()
    rig.broker.answer_questions()
    turns = 0
    plain = rig.clock.call_later

    def counted(delay_seconds: float, callback: Any) -> Any:
        nonlocal turns
        turns += 1
        assert turns < 100, "it goes on and on"
        return plain(delay_seconds, callback)

    rig.clock.call_later = counted  # type: ignore[method-assign]
    rig.connect().send(
        "queue://Ackwire.Why", properties={"subject": "queue", "name": "x"}, reply_to="queue://Ackwire.Why"
    )
    rig.clock.advance(0.001)


# ---- what belongs to others ------------------------------------------------------------------------------------


def test_temporary_destinations_belong_to_their_connection() -> None:
    rig = BrokerRig()
    owner, thief = rig.connect("owner"), rig.connect("thief")
    where = owner.temporary_queue()
    with pytest.raises(NotAuthorised):
        rig.broker.add_destination(thief.connection, where)
    with pytest.raises(NotAuthorised):
        thief.consumer(where)
    with pytest.raises(NotAuthorised):
        rig.broker.remove_destination(thief.connection, where)
    thief.disconnect()
    consumer = owner.consumer(where)
    rig.connect().send(where)
    assert len(consumer.delivered) == 1


def test_durable_subscription_of_another_client() -> None:
    rig = BrokerRig()
    owner, other = rig.connect("owner"), Line(rig, "ID:B")
    consumer = owner.consumer("topic://t", subscription_name="s")
    remove = commands.RemoveSubscriptionInfo(client_id="owner", subscription_name="s")
    assert other.refused(remove).class_name == SECURITY
    consumer.close()
    owner.send("topic://t")
    assert other.refused(remove).class_name == SECURITY
    unknown = commands.RemoveSubscriptionInfo(subscription_name="s")
    assert other.refused(unknown).class_name == DESTINATION
    audit(rig.broker, rig.store)


COMBINATIONS = [
    {"browser": browser, "exclusive": exclusive, "subscription_name": name, "no_local": True, "retroactive": True}
    for browser in (True, False)
    for exclusive in (True, False)
    for name in (None, "", "s")
]


@pytest.mark.parametrize("prefetch", [0, 1, 2**31 - 1])
@pytest.mark.parametrize("where", ["queue://q", "topic://t", "queue://q,q2", "topic://t,t2", "queue://*", "topic://*"])
def test_every_combination_of_options(where: str, prefetch: int) -> None:
    rig = BrokerRig()
    client = rig.connect()
    for options in COMBINATIONS:
        client.send("queue://q")
        client.send("topic://t")
        try:
            consumer = client.consumer(where, prefetch=prefetch, **options)
        except InvalidDestination:
            continue
        if prefetch == 0:
            consumer.pull(-1)
        client.send("queue://q")
        client.send("topic://t")
        consumer.close()
        audit(rig.broker, rig.store)


@pytest.mark.parametrize(
    "name", ["Connection", "TempQueue", "Consumer.Queue.q", "Consumer.>", "FULL.Queue.q", "x", "Expired.Queue.q"]
)
def test_advisory_topics_as_targets(name: str) -> None:
    rig = BrokerRig()
    listener = rig.consumer("topic://ActiveMQ.Advisory.>")
    client = rig.connect()
    before = len(listener.delivered)
    with pytest.raises(NotAuthorised):
        client.send(f"topic://ActiveMQ.Advisory.{name}")
    assert len(listener.delivered) == before
    if name.endswith(">"):
        return
    consumer = rig.consumer(f"queue://ActiveMQ.Advisory.{name}")
    client.send(f"queue://ActiveMQ.Advisory.{name}")
    assert len(consumer.delivered) == 1
    audit(rig.broker, rig.store)

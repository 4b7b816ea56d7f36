"""What the broker reads from and writes into canonical frames, and that the short ways agree with the plain codec."""

import random
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwire.errors import LocalProtocolError, RemoteProtocolError
from ackwire.jms.destinations import Destination, Kind, destination
from ackwire.jms.message import Message
from ackwire.jms.message_editor import Advisory, AdvisoryKind, ConsumerDetails, MessageEditor
from ackwire.jms.types import Byte, Char, Float, Int, Long, Short, Value
from ackwire.util.clock import ManualClock
from ackwire.wire.openwire import commands, editor
from ackwire.wire.openwire.codec_fast import CANONICAL, FastDecoder, destination_to_wire
from ackwire.wire.openwire.editor import OpenWireEditor
from ackwire.wire.openwire.id_text import consumer_id_of
from ackwire.wire.openwire.limits import WireLimits
from ackwire.wire.openwire.lookup import quick_properties
from ackwire.wire.openwire.marshal import Codec
from ackwire.wire.openwire.primitives import decode_map, encode_map
from ackwire.wire.openwire.structures import Structure, fields_of
from tests.helpers.compilation import attributes_of
from tests.unit.wire.effort import effort
from tests.unit.wire.openwire.mutations import mutated
from tests.unit.wire.openwire.strategies import PROPERTY_MAPS, integers
from tests.unit.wire.openwire.vectors import vectors

PLAIN: Final = Codec(CANONICAL)
BROKER_ID: Final = "ID:localhost-1700000000000"
CONNECTION_ID: Final = "ID:host-40001-1700000000000-1:1"
PRODUCER_ID: Final = commands.ProducerId(CONNECTION_ID, 1, 1)
ORDERS: Final = destination(Kind.QUEUE, "orders")
COPIES: Final = destination(Kind.QUEUE, "Consumer.A.VirtualTopic.prices")
TOPIC: Final = destination(Kind.TOPIC, "ActiveMQ.Advisory.Something")
LOCAL_TRANSACTION: Final = commands.LocalTransactionId(7, commands.ConnectionId(CONNECTION_ID))
XA_TRANSACTION: Final = commands.XATransactionId(4, b"\x01\x7f\xff", b"")


def new_editor(limits: WireLimits | None = None) -> OpenWireEditor:
    clock = ManualClock()
    return (
        OpenWireEditor(BROKER_ID, "localhost", clock, limits)
        if limits
        else OpenWireEditor(BROKER_ID, "localhost", clock)
    )


def received(command: commands.Message) -> Message:
    """*command* as it comes from a connection."""
    return FastDecoder().message(PLAIN.encode(command)[4:])


def structure(message: Message) -> commands.Message:
    command = PLAIN.decode(message.frame)
    assert isinstance(command, commands.Message)
    return command


def text_message(**values: Any) -> commands.ActiveMQTextMessage:
    usual: dict[str, Any] = {
        "command_id": 5,
        "producer_id": PRODUCER_ID,
        "destination": commands.ActiveMQQueue("orders"),
        "message_id": commands.MessageId(None, PRODUCER_ID, 15, 99),
        "persistent": True,
        "priority": 4,
        "timestamp": 1_700_000_000_123,
        "content": b"\0\0\0\x01x",
    }
    return commands.ActiveMQTextMessage(**(usual | values))


def with_properties(properties: Mapping[str, Value], **values: Any) -> Message:
    return received(text_message(marshalled_properties=encode_map(properties), **values))


def assert_same(message: Message, other: Message) -> None:
    """Every attribute agrees, those of the origin included."""
    for name in attributes_of(Message):
        if name != "origin":
            assert getattr(message, name) == getattr(other, name), name
    for name in ("prefix", "destination", "transaction", "producer_key", "id_end"):
        assert getattr(message.origin, name) == getattr(other.origin, name), name


MESSAGE_CLASSES: Final = [
    commands.ActiveMQMessage,
    commands.ActiveMQTextMessage,
    commands.ActiveMQBytesMessage,
    commands.ActiveMQBlobMessage,
]
DESTINATIONS: Final = (
    destination(Kind.QUEUE, "orders.new"),
    destination(Kind.TOPIC, "prices.€"),
    destination(Kind.TEMP_QUEUE, "ID:a-1:1"),
    destination(Kind.TEMP_TOPIC, "\U0001f600\0"),
)
WIRE_DESTINATIONS: Final = tuple(destination_to_wire(value) for value in DESTINATIONS)
TEXTS: Final = ("", "a", "a\0€", "\U0001f600", "x" * 300)
LONGS: Final = (0, 1, -1, 2**40, -(2**63))
TRANSACTIONS: Final = (LOCAL_TRANSACTION, XA_TRANSACTION)
BROKER_PATHS: Final = ((), (commands.BrokerId("a"), None))
OPTIONAL: Final[dict[str, tuple[Any, ...]]] = {
    "response_required": (True,),
    "transaction_id": TRANSACTIONS,
    "original_destination": WIRE_DESTINATIONS,
    "original_transaction_id": TRANSACTIONS,
    "group_id": TEXTS,
    "group_sequence": (1, -1),
    "correlation_id": TEXTS,
    "reply_to": (*WIRE_DESTINATIONS, commands.ActiveMQTopic()),
    "type": TEXTS,
    "content": (b"", b"\0\1\2"),
    "marshalled_properties": (b"", b"garbage", encode_map({"color": "red"})),
    "data_structure": (commands.KeepAliveInfo(),),
    "target_consumer_id": (commands.ConsumerId("a", 1, 2),),
    "compressed": (True,),
    "redelivery_counter": (1, -1),
    "broker_path": BROKER_PATHS,
    "user_id": TEXTS,
    "cluster": BROKER_PATHS,
    "broker_in_time": LONGS,
}
SEEDS: Final = st.integers(0, 2**32)


def random_messages(seed: int, count: int = 10) -> list[commands.Message]:
    """Messages that the broker accepts, with some of the optional fields; always the same for a *seed*."""
    choices = random.Random(seed)
    return [_random_message(choices) for _ in range(count)]


def _random_message(choices: random.Random) -> commands.Message:
    chosen = choices.sample(sorted(OPTIONAL), choices.choice((0, 1, 2, 5, 10)))
    own_id, id_in_message = (
        commands.ProducerId(choices.choice((*TEXTS, None)), choices.choice(LONGS), choices.choice(LONGS)) for _ in "12"
    )
    message_id = commands.MessageId(choices.choice((None, *TEXTS)), id_in_message, choices.choice(LONGS), 3)
    return choices.choice(MESSAGE_CLASSES)(
        producer_id=own_id,
        destination=choices.choice(WIRE_DESTINATIONS),
        message_id=message_id,
        persistent=choices.choice((True, False)),
        expiration=choices.choice(LONGS),
        priority=choices.choice((0, 9, -128)),
        timestamp=choices.choice(LONGS),
        **{name: choices.choice(OPTIONAL[name]) for name in chosen},
    )


def test_it_is_a_message_editor() -> None:
    seen_as: MessageEditor = new_editor()
    message = received(text_message())
    seen_as.stamper.stamp(message, 12, 34)
    assert message.sequence == 12
    assert structure(message).broker_in_time == 34


# ---- lookup: headers -------------------------------------------------------------------------------------------


BARE_HEADERS: Final[dict[str, Value]] = {
    "JMSDestination": "queue://orders",
    "JMSReplyTo": None,
    "JMSType": None,
    "JMSDeliveryMode": "PERSISTENT",
    "JMSPriority": 4,
    "JMSMessageID": f"{CONNECTION_ID}:1:1:15",
    "JMSTimestamp": 1_700_000_000_123,
    "JMSCorrelationID": None,
    "JMSExpiration": 0,
    "JMSRedelivered": False,
    "JMSXDeliveryCount": 1,
    "JMSXGroupID": None,
    "JMSXGroupSeq": 0,
    "JMSXUserID": None,
    "JMSXProducerTXID": None,
    "JMSXGroupFirstForConsumer": False,
    "JMSActiveMQBrokerInTime": 0,
    "JMSActiveMQBrokerOutTime": 0,
    "JMSActiveMQBrokerPath": "null",
}
FULL_HEADERS: Final[dict[str, Value]] = {
    "JMSDestination": "topic://VirtualTopic.orders",
    "JMSReplyTo": "temp-queue://ID:a:1:1",
    "JMSType": "kind",
    "JMSDeliveryMode": "NON_PERSISTENT",
    "JMSPriority": 9,
    "JMSMessageID": "ID:foreign",
    "JMSTimestamp": -1,
    "JMSCorrelationID": "request €",
    "JMSExpiration": 5,
    "JMSRedelivered": True,
    "JMSXDeliveryCount": 3,
    "JMSXGroupID": "group",
    "JMSXGroupSeq": -1,
    "JMSXUserID": "guest",
    "JMSXProducerTXID": f"TX:{CONNECTION_ID}:7",
    "JMSXGroupFirstForConsumer": True,
    "JMSActiveMQBrokerInTime": 11,
    "JMSActiveMQBrokerOutTime": 12,
    "JMSActiveMQBrokerPath": "[a, null]",
}
FULL_MESSAGE: Final = text_message(
    original_destination=commands.ActiveMQTopic("VirtualTopic.orders"),
    reply_to=commands.ActiveMQTempQueue("ID:a:1:1"),
    type="kind",
    persistent=False,
    priority=9,
    message_id=commands.MessageId("foreign", PRODUCER_ID, 15),
    timestamp=-1,
    correlation_id="request €",
    expiration=5,
    redelivery_counter=2,
    group_id="group",
    group_sequence=-1,
    user_id="guest",
    transaction_id=LOCAL_TRANSACTION,
    group_first_for_consumer=True,
    broker_in_time=11,
    broker_out_time=12,
    broker_path=(commands.BrokerId("a"), None),
)


@pytest.mark.parametrize("name", BARE_HEADERS)
def test_header_of_a_bare_message(name: str) -> None:
    assert new_editor().lookup(received(text_message()))(name) == BARE_HEADERS[name]


@pytest.mark.parametrize("name", FULL_HEADERS)
def test_header_of_a_message_that_has_them_all(name: str) -> None:
    assert new_editor().lookup(received(FULL_MESSAGE))(name) == FULL_HEADERS[name]


def test_every_header_of_activemq_is_known() -> None:
    """The names in org.apache.activemq.filter.PropertyExpression of 5.17.2."""
    assert len(FULL_HEADERS) == 19
    known = {**editor._MESSAGE_HEADERS, **editor._FRAME_HEADERS, **editor._STRUCTURE_HEADERS}
    assert known.keys() == FULL_HEADERS.keys() == BARE_HEADERS.keys()


@pytest.mark.parametrize("name", ["JMSTimestamp", "JMSExpiration", "JMSActiveMQBrokerInTime"])
def test_times_are_longs_even_if_small(name: str) -> None:
    assert isinstance(new_editor().lookup(received(text_message(timestamp=1)))(name), Long)


def test_redelivery_that_the_broker_counted_is_seen() -> None:
    message = received(text_message())
    message.redelivery_counter = 1
    lookup = new_editor().lookup(message)
    assert lookup("JMSRedelivered") is True
    assert lookup("JMSXDeliveryCount") == 2


def test_user_id_may_be_a_property() -> None:
    assert new_editor().lookup(with_properties({"JMSXUserID": "guest"}))("JMSXUserID") == "guest"
    assert new_editor().lookup(with_properties({"JMSXUserID": "guest"}, user_id="real"))("JMSXUserID") == "real"


def test_property_does_not_hide_a_header() -> None:
    assert new_editor().lookup(with_properties({"JMSType": "no", "JMSXGroupID": "no"}))("JMSType") is None


@pytest.mark.parametrize(
    ("field", "transaction_id", "text"),
    [
        ("original_transaction_id", XA_TRANSACTION, "XID:[4,globalId=17fffffffff,branchId=]"),
        ("transaction_id", XA_TRANSACTION, "XID:[4,globalId=17fffffffff,branchId=]"),
        ("original_transaction_id", LOCAL_TRANSACTION, f"TX:{CONNECTION_ID}:7"),
    ],
)
def test_transaction_is_told_in_javas_form(field: str, transaction_id: commands.TransactionId, text: str) -> None:
    message = received(text_message(**{field: transaction_id}))
    assert new_editor().lookup(message)("JMSXProducerTXID") == text


# ---- lookup: properties ----------------------------------------------------------------------------------------


TYPED_PROPERTIES: Final[dict[str, Value]] = {
    "text": "red",
    "empty": "",
    "flag": True,
    "int": Int(-5),
    "long": Long(2**40),
    "double": 2.5,
    "": "no name",
}


def test_property_keeps_its_type() -> None:
    lookup = new_editor().lookup(with_properties(TYPED_PROPERTIES))
    for name, value in TYPED_PROPERTIES.items():
        assert lookup(name) == value
        assert type(lookup(name)) is type(value)


def test_common_types_go_the_short_way_and_rare_ones_do_not() -> None:
    common = encode_map(TYPED_PROPERTIES)
    assert quick_properties(common, 0, len(common), 100) == TYPED_PROPERTIES
    rare: list[Value] = [None, Byte(1), Short(1), Char("x"), Float(1.0), b"x", {"a": 1}, [1], "€", "x" * 9000]
    for value in rare:
        data = encode_map({"name": value})
        assert quick_properties(data, 0, len(data), 100) is None
        assert new_editor().lookup(with_properties({"name": value}))("name") == value


def test_absent_property_is_none() -> None:
    assert new_editor().lookup(received(text_message()))("color") is None
    assert new_editor().lookup(with_properties({"shape": "round"}))("color") is None


def test_properties_are_decoded_once_for_one_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counting(data: bytes, limits: WireLimits) -> dict[str, Value]:
        calls.append(1)
        return decode_map(data, limits)

    monkeypatch.setattr(editor, "decode_map", counting)
    lookup = new_editor().lookup(with_properties({"color": "grün"}))
    assert [lookup("color"), lookup("shape"), lookup("color")] == ["grün", None, "grün"]
    assert len(calls) == 1


@pytest.mark.parametrize("data", [b"", b"\0\0\0\x01", encode_map({"color": "red"}) + b"\0", b"\0\0\0\1\0\1a\x63"])
def test_undecodable_properties_are_none_to_a_selector_and_an_error_to_others(data: bytes) -> None:
    message = received(text_message(marshalled_properties=data))
    assert new_editor().lookup(message)("color") is None
    with pytest.raises(RemoteProtocolError):
        new_editor().properties(message)


def test_more_properties_than_the_limit_are_undecodable() -> None:
    message = with_properties({str(number): number for number in range(5)})
    assert len(new_editor(WireLimits(entries_max=5)).properties(message)) == 5
    with pytest.raises(RemoteProtocolError):
        new_editor(WireLimits(entries_max=4)).properties(message)


COMMON_VALUES: Final = st.one_of(
    st.booleans(), integers(32).map(Int), integers(64).map(Long), st.floats(allow_nan=False), st.text(max_size=3)
)
COMMON_MAPS: Final = st.dictionaries(st.text(max_size=3), COMMON_VALUES, max_size=4)


@effort(30)
@given(COMMON_MAPS | PROPERTY_MAPS)
def test_properties_are_what_the_plain_codec_says(properties: dict[str, Value]) -> None:
    data = encode_map(properties)
    plain = decode_map(data)
    read = new_editor().properties(received(text_message(marshalled_properties=data)))
    assert read == plain
    assert [type(value) for value in read.values()] == [type(value) for value in plain.values()]


@effort(30)
@given(COMMON_MAPS, SEEDS)
def test_broken_properties_are_what_the_plain_codec_says(properties: dict[str, Value], seed: int) -> None:
    for offset in range(8):
        data = mutated(encode_map(properties), seed + offset)
        message = received(text_message(marshalled_properties=data))
        try:
            plain = repr(decode_map(data))
        except RemoteProtocolError:
            with pytest.raises(RemoteProtocolError):
                new_editor().properties(message)
        else:
            assert repr(new_editor().properties(message)) == plain


# ---- message ids -----------------------------------------------------------------------------------------------


def test_message_id_is_that_of_jms() -> None:
    assert new_editor().message_id(received(text_message())) == f"{CONNECTION_ID}:1:1:15"
    assert new_editor().message_id(received(FULL_MESSAGE)) == "ID:foreign"


@pytest.mark.parametrize(
    "text",
    [None, "", "ID:foreign", "1:1", "a:1:x", "a:1:", "a:1: 1", "a:1:1_0", "a:1:١", f"a:1:{2**63}"],
)
def test_text_that_is_no_id_of_a_consumer_is_refused(text: str | None) -> None:
    with pytest.raises(LocalProtocolError, match="connection:session:number"):
        consumer_id_of(text)


# ---- readdressed -----------------------------------------------------------------------------------------------


def plain_copy(message: Message, target: Destination, original: Destination | None) -> Message:
    """The same copy the plain way: a change to what is there already takes it."""
    return new_editor().readdressed(message, target, original_destination=original, persistent=message.persistent)


@effort(12)
@given(SEEDS, st.sampled_from(DESTINATIONS), st.sampled_from((None, *DESTINATIONS)))
def test_spliced_copy_is_what_the_plain_codec_makes(
    seed: int, target: Destination, original: Destination | None
) -> None:
    editor = new_editor()
    for command in random_messages(seed):
        message = received(command)
        plain = plain_copy(message, target, original)
        for _ in range(2):
            copy = editor.readdressed(message, target, original_destination=original)
            assert_same(copy, plain)
            assert_same(copy, FastDecoder().message(copy.frame))
        assert structure(plain) == expected_copy(command, target, original)


def expected_copy(command: commands.Message, target: Destination, original: Destination | None) -> commands.Message:
    assert command.message_id is not None
    return replace(
        command,
        destination=destination_to_wire(target),
        original_destination=command.original_destination if original is None else destination_to_wire(original),
        transaction_id=None,
        original_transaction_id=command.original_transaction_id or command.transaction_id,
        message_id=replace(command.message_id, broker_sequence_id=0),
        redelivery_counter=0,
    )


@pytest.mark.parametrize(
    "vector", [v for v in vectors() if isinstance(v.command, commands.Message)], ids=lambda v: v.name
)
def test_spliced_copy_of_a_vector_is_what_the_plain_codec_makes(vector: Any) -> None:
    message = received(vector.command)
    assert_same(new_editor().readdressed(message, COPIES), plain_copy(message, COPIES, None))


@effort(12)
@given(SEEDS)
def test_copies_of_frames_in_foreign_forms_mean_the_same(seed: int) -> None:
    for command in random_messages(seed):
        frame = PLAIN.encode(command)[4:]
        try:
            message = FastDecoder().message(frame[:6] + mutated(frame[6:], seed))
        except RemoteProtocolError:
            continue
        copy = new_editor().readdressed(message, COPIES)
        assert structure(copy) == structure(plain_copy(message, COPIES, None))
        assert_same(copy, FastDecoder().message(copy.frame))


def test_original_is_left_alone() -> None:
    message = with_properties({"color": "red"})
    frame = message.frame
    new_editor().readdressed(message, COPIES, original_destination=ORDERS, properties={"a": 1}, new_id=True)
    assert message.frame is frame
    assert message.destination == ORDERS


def test_copy_of_a_stamped_and_redelivered_message_is_fresh() -> None:
    message = received(text_message(redelivery_counter=3))
    editor = new_editor()
    editor.stamper.stamp(message, 77, 1)
    copy = editor.readdressed(message, COPIES)
    message_id = structure(copy).message_id
    assert message_id is not None
    assert (copy.sequence, copy.redelivery_counter, message_id.broker_sequence_id) == (0, 0, 0)
    assert structure(copy).redelivery_counter == 0
    assert copy.key == message.key


def test_copy_is_out_of_the_transaction_but_still_tells_it() -> None:
    message = received(text_message(transaction_id=LOCAL_TRANSACTION))
    copy = new_editor().readdressed(message, COPIES)
    assert copy.origin.transaction is None
    assert structure(copy).original_transaction_id == LOCAL_TRANSACTION


def test_copies_of_one_producers_messages_share_their_origin() -> None:
    decoder, editor = FastDecoder(), new_editor()
    first, second = (
        editor.readdressed(decoder.message(PLAIN.encode(text_message(command_id=number))[4:]), COPIES)
        for number in (1, 2)
    )
    assert first.origin is second.origin


def test_remembered_routes_are_few() -> None:
    editor = new_editor()
    message = received(text_message())
    for number in range(1100):
        editor.readdressed(message, Destination(Kind.QUEUE, str(number)))
    assert len(editor._routes) <= 1024


def test_properties_are_added_to_those_there() -> None:
    message = with_properties({"color": "red", "AMQ_SCHEDULED_DELAY": Long(5), "shape": Short(1)})
    copy = new_editor().readdressed(
        message,
        COPIES,
        properties={"cause": "poison", "color": "blue"},
        removed_properties=("AMQ_SCHEDULED_DELAY", "x"),
    )
    assert new_editor().properties(copy) == {"color": "blue", "shape": 1, "cause": "poison"}
    assert copy.destination == COPIES


@pytest.mark.parametrize("properties", [{"color": "red"}, {}])
def test_message_without_properties_left_has_none(properties: dict[str, Value]) -> None:
    message = with_properties(properties) if properties else received(text_message())
    copy = new_editor().readdressed(message, COPIES, removed_properties=("color",))
    assert copy.properties_offset == 0


def test_first_properties_of_a_message() -> None:
    copy = new_editor().readdressed(received(text_message()), COPIES, properties={"cause": "poison"})
    assert new_editor().properties(copy) == {"cause": "poison"}


UNENCODABLE_KEY: Final = "\U0001f600".encode() * 15_000
"""In four-byte sequences it fits a 16-bit length, in Java's form it does not."""


@pytest.mark.parametrize(
    "data", [b"garbage", b"\0\0\0\1" + len(UNENCODABLE_KEY).to_bytes(2) + UNENCODABLE_KEY + b"\0"], ids=["bad", "long"]
)
def test_properties_that_cannot_be_changed_are_copied_as_they_are(data: bytes) -> None:
    message = received(text_message(marshalled_properties=data))
    copy = new_editor().readdressed(message, COPIES, properties={"cause": "poison"})
    assert structure(copy).marshalled_properties == data


def test_property_that_cannot_be_sent_is_our_mistake() -> None:
    with pytest.raises(LocalProtocolError):
        new_editor().readdressed(received(text_message()), COPIES, properties={"x" * 70000: 1})


def test_expiration_and_delivery_mode_can_be_changed() -> None:
    copy = new_editor().readdressed(received(text_message(expiration=5)), COPIES, expiration=0, persistent=False)
    assert (copy.expiration, copy.persistent) == (0, False)
    assert (structure(copy).expiration, structure(copy).persistent) == (0, False)


def test_new_ids_are_the_brokers_own_and_differ() -> None:
    editor = new_editor()
    message = received(FULL_MESSAGE)
    copies = [editor.readdressed(message, COPIES, new_id=True) for _ in range(3)]
    assert [editor.message_id(copy) for copy in copies] == [f"{BROKER_ID}:0:0:{number}" for number in (1, 2, 3)]
    assert len({message.key, *(copy.key for copy in copies)}) == 4
    assert structure(copies[0]).producer_id == PRODUCER_ID


# ---- expiration, and the places of fields ----------------------------------------------------------------------


@effort(12)
@given(SEEDS)
def test_fields_are_where_the_plain_codec_has_them(seed: int) -> None:
    for command in random_messages(seed):
        message = received(command)
        lookup = new_editor().lookup(message)
        new_editor().with_expiration(message, 2**42, -(2**42))
        assert_same(message, received(replace(command, expiration=2**42, timestamp=-(2**42))))
        assert (lookup("JMSType"), lookup("JMSCorrelationID")) == (command.type, command.correlation_id)


@pytest.mark.parametrize("original_transaction_id", [None, LOCAL_TRANSACTION, XA_TRANSACTION])
def test_times_change_in_the_frame_too(original_transaction_id: commands.TransactionId | None) -> None:
    command = replace(FULL_MESSAGE, original_transaction_id=original_transaction_id)
    message = received(command)
    new_editor().with_expiration(message, 2**40, 2**41)
    assert (message.expiration, message.timestamp) == (2**40, 2**41)
    assert structure(message) == replace(command, expiration=2**40, timestamp=2**41)


# ---- advisories ------------------------------------------------------------------------------------------------


ORIGIN: Final = {"originBrokerId": BROKER_ID, "originBrokerName": "localhost", "originBrokerURL": "vm://localhost"}
CONSUMER: Final = ConsumerDetails(
    consumer_id=f"{CONNECTION_ID}:-1:2",
    destination=ORDERS,
    prefetch=1000,
    selector="k = 'v'",
    subscription_name="sub",
    no_local=True,
    exclusive=True,
    priority=-3,
    browser=True,
)
CONSUMER_ID: Final = commands.ConsumerId(CONNECTION_ID, -1, 2)
PAYLOADS: Final[list[tuple[Advisory, Structure | None]]] = [
    (
        Advisory(AdvisoryKind.CONNECTION_ADDED, TOPIC, connection_id=CONNECTION_ID, client_id="client", user="guest"),
        commands.ConnectionInfo(
            connection_id=commands.ConnectionId(CONNECTION_ID), client_id="client", password="", user_name="guest"
        ),
    ),
    (
        Advisory(AdvisoryKind.CONNECTION_REMOVED, TOPIC, connection_id=CONNECTION_ID),
        commands.RemoveInfo(object_id=commands.ConnectionId(CONNECTION_ID)),
    ),
    (
        Advisory(AdvisoryKind.CONSUMER_ADDED, TOPIC, consumer=CONSUMER, client_id="client"),
        commands.ConsumerInfo(
            consumer_id=CONSUMER_ID,
            browser=True,
            destination=commands.ActiveMQQueue("orders"),
            prefetch_size=1000,
            dispatch_async=True,
            selector="k = 'v'",
            client_id="client",
            subscription_name="sub",
            no_local=True,
            exclusive=True,
            priority=-3,
        ),
    ),
    (
        Advisory(AdvisoryKind.CONSUMER_REMOVED, TOPIC, consumer_id=str(CONSUMER_ID)),
        commands.RemoveInfo(object_id=CONSUMER_ID),
    ),
    (
        Advisory(AdvisoryKind.PRODUCER_ADDED, TOPIC, producer_id=f"{CONNECTION_ID}:1:2", destination=ORDERS),
        commands.ProducerInfo(
            producer_id=commands.ProducerId(CONNECTION_ID, 2, 1), destination=commands.ActiveMQQueue("orders")
        ),
    ),
    (
        Advisory(AdvisoryKind.PRODUCER_ADDED, TOPIC, producer_id=f"{CONNECTION_ID}:1:2"),
        commands.ProducerInfo(producer_id=commands.ProducerId(CONNECTION_ID, 2, 1)),
    ),
    (
        Advisory(AdvisoryKind.PRODUCER_REMOVED, TOPIC, producer_id=f"{CONNECTION_ID}:1:2"),
        commands.RemoveInfo(object_id=commands.ProducerId(CONNECTION_ID, 2, 1)),
    ),
    (
        Advisory(AdvisoryKind.DESTINATION_ADDED, TOPIC, destination=ORDERS),
        commands.DestinationInfo(destination=commands.ActiveMQQueue("orders")),
    ),
    (
        Advisory(AdvisoryKind.DESTINATION_REMOVED, TOPIC, connection_id=CONNECTION_ID, destination=ORDERS),
        commands.DestinationInfo(
            connection_id=commands.ConnectionId(CONNECTION_ID),
            destination=commands.ActiveMQQueue("orders"),
            operation_type=1,
        ),
    ),
    (
        Advisory(AdvisoryKind.MESSAGE, TOPIC, message=received(FULL_MESSAGE)),
        replace(FULL_MESSAGE, content=None),
    ),
    (Advisory(AdvisoryKind.PLAIN, TOPIC), None),
]


@pytest.mark.parametrize(("advisory", "payload"), PAYLOADS, ids=[advisory.kind.value for advisory, _ in PAYLOADS])
def test_advisory_carries_what_activemq_sends(advisory: Advisory, payload: Structure | None) -> None:
    """As ActiveMQ 5.17.2 was seen to send them, apart from the timestamp, which there is 0."""
    message = new_editor().advisory(advisory)
    producer_id = commands.ProducerId(BROKER_ID, 0, 0)
    command = structure(message)
    assert command == commands.ActiveMQMessage(
        producer_id=producer_id,
        destination=commands.ActiveMQTopic("ActiveMQ.Advisory.Something"),
        message_id=commands.MessageId(None, producer_id, 1),
        timestamp=ManualClock().now_ms(),
        type="Advisory",
        marshalled_properties=command.marshalled_properties,
        data_structure=payload,
    )
    assert new_editor().properties(message) == ORIGIN
    assert (message.destination, message.persistent, message.sequence) == (TOPIC, False, 0)


def test_there_is_a_payload_for_each_kind() -> None:
    assert {advisory.kind for advisory, _ in PAYLOADS} == set(AdvisoryKind)


def test_advisory_of_a_new_temporary_queue_agrees_with_the_vector() -> None:
    """Where the vector has what no broker sends (ids of a client, a priority), ours is put in its place."""
    [vector] = [vector for vector in vectors() if vector.name == "advisory-tempqueue-added"]
    expected = vector.command
    assert isinstance(expected, commands.ActiveMQMessage)
    assert isinstance(expected.data_structure, commands.DestinationInfo)
    temporary = destination(Kind.TEMP_QUEUE, f"{CONNECTION_ID}:1")
    topic = destination(Kind.TOPIC, "ActiveMQ.Advisory.TempQueue")
    ours = structure(
        new_editor().advisory(
            Advisory(AdvisoryKind.DESTINATION_ADDED, topic, connection_id=CONNECTION_ID, destination=temporary)
        )
    )
    own = ("command_id", "producer_id", "message_id", "priority", "timestamp", "marshalled_properties")
    assert ours == replace(
        expected,
        **{name: getattr(ours, name) for name in own},
        data_structure=replace(expected.data_structure, command_id=0, response_required=False),
    )


def test_advisory_has_the_properties_given_besides_its_origin() -> None:
    given_properties: dict[str, Value] = {"consumerCount": Int(2), "originBrokerURL": "tcp://localhost:61616"}
    editor = new_editor()
    message = editor.advisory(Advisory(AdvisoryKind.PLAIN, TOPIC, properties=given_properties))
    assert editor.properties(message) == ORIGIN | given_properties


def test_advisory_names_the_brokers_url() -> None:
    editor = OpenWireEditor(BROKER_ID, "localhost", ManualClock(), broker_url="tcp://here:61616")
    message = editor.advisory(Advisory(AdvisoryKind.PLAIN, TOPIC))
    assert editor.properties(message)["originBrokerURL"] == "tcp://here:61616"


def test_replayed_advisory_is_for_one_consumer() -> None:
    message = new_editor().advisory(Advisory(AdvisoryKind.PLAIN, TOPIC, target_consumer_id=str(CONSUMER_ID)))
    assert structure(message).target_consumer_id == CONSUMER_ID


def test_advisories_and_new_ids_never_share_an_id() -> None:
    editor = new_editor()
    made = [editor.advisory(Advisory(AdvisoryKind.PLAIN, TOPIC)) for _ in range(3)]
    made.append(editor.readdressed(received(text_message()), COPIES, new_id=True))
    assert len({message.key for message in made}) == 4


def test_advisory_about_the_deepest_message_that_is_accepted() -> None:
    limits = WireLimits(nesting_max=4)
    command: Structure = commands.ActiveMQQueue("deep")
    for _ in range(2):
        command = commands.DataResponse(data=command)
    message = FastDecoder(limits).message(PLAIN.encode(text_message(data_structure=command))[4:])
    new_editor(limits).advisory(Advisory(AdvisoryKind.MESSAGE, TOPIC, message=message))


@pytest.mark.parametrize("text", ["", "consumer", "a:1", "a:b:1", f"a:1:{2**63}", "a:1:" + "9" * 5000])
def test_id_of_another_form_is_our_mistake(text: str) -> None:
    with pytest.raises(LocalProtocolError):
        new_editor().advisory(Advisory(AdvisoryKind.CONSUMER_REMOVED, TOPIC, consumer_id=text))


def test_fields_that_the_short_ways_walk_over_are_where_they_were() -> None:
    """A new field in front of these would move them; the walk would have to learn it."""
    names = [field.name for field in fields_of(commands.Message)]
    walked = ["original_transaction_id", "group_id", "group_sequence", "correlation_id", "persistent", "expiration"]
    walked += ["priority", "reply_to", "timestamp", "type"]
    assert names[7 : 7 + len(walked)] == walked
    assert [field.name for field in fields(commands.Message)][2:7] == [field.name for field in editor._HEAD_FIELDS]

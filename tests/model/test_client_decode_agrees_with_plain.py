"""The client's quick decoder says what the plain codec says and accepts what it accepts."""

from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwire.errors import RemoteProtocolError
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.client_decode import Dispatch, DispatchDecoder, EndOfMessages
from ackwire.wire.openwire.client_encode import decoded_id, encoded_id
from ackwire.wire.openwire.client_protocol import RESPONSE_TYPE, ClientProtocol
from ackwire.wire.openwire.layout import DISPATCH_TYPE, MESSAGE_TYPES
from ackwire.wire.openwire.marshal import Codec
from ackwire.wire.openwire.negotiation import Preferences, offer
from ackwire.wire.openwire.structures import REGISTRY, Structure
from tests.helpers.compilation import pure_only
from tests.model.test_client_encode_agrees_with_plain import AGREEMENTS
from tests.unit.wire.effort import effort
from tests.unit.wire.openwire.agreement import PLAIN, canonical
from tests.unit.wire.openwire.mutations import mutated
from tests.unit.wire.openwire.strategies import structures
from tests.unit.wire.openwire.vectors import vectors

PRODUCER: Final = commands.ProducerId("ID:producer-1", 1, 2)
CONSUMER: Final = commands.ConsumerId("ID:consumer-1", 3, 4)
QUEUE: Final = commands.ActiveMQQueue("orders.new")
MESSAGE: Final = commands.ActiveMQTextMessage(
    producer_id=PRODUCER,
    destination=QUEUE,
    message_id=commands.MessageId(None, PRODUCER, 7, 2**40),
    persistent=True,
    priority=4,
    timestamp=1_763_172_000_000,
    content=b"\0\0\0\5hello",
    broker_in_time=5,
    broker_out_time=6,
)
WITH_EXTRAS: Final = replace(
    MESSAGE,
    group_id="gröup",
    group_sequence=-1,
    correlation_id="c",
    reply_to=commands.ActiveMQTempQueue("ID:r"),
    type="t",
    marshalled_properties=b"\0\0\0\0",
    user_id="somebody",
    transaction_id=commands.LocalTransactionId(5, commands.ConnectionId("ID:producer-1")),
)
OPTIONAL: Final = ("group_id", "correlation_id", "reply_to", "type", "marshalled_properties", "user_id", "content")
RARE: Final = ("original_transaction_id", "data_structure", "target_consumer_id", "broker_path", "cluster")


def dispatch_of(message: commands.Message | None, counter: int = 0) -> commands.MessageDispatch:
    return commands.MessageDispatch(
        consumer_id=CONSUMER, destination=QUEUE, message=message, redelivery_counter=counter
    )


PLAIN_FRAME: Final = canonical(dispatch_of(MESSAGE, 3))
FULL_FRAME: Final = canonical(dispatch_of(WITH_EXTRAS))
END_FRAME: Final = canonical(commands.MessageDispatch(consumer_id=CONSUMER))
VECTORS: Final = [
    *((v.name, canonical(v.command)) for v in vectors() if isinstance(v.command, commands.MessageDispatch)),
    *((v.name, canonical(dispatch_of(v.command))) for v in vectors() if isinstance(v.command, commands.Message)),
]


@st.composite
def messages(draw: st.DrawFn) -> commands.Message:
    """Any message with an id."""
    cls = REGISTRY[draw(st.sampled_from(sorted(MESSAGE_TYPES)))]
    message: commands.Message = draw(structures(cls, 1))
    return replace(message, message_id=draw(structures(commands.MessageId)))


@st.composite
def everyday_messages(draw: st.DrawFn) -> commands.Message:
    """Messages with few of the rare fields, which the shortcuts are made for."""
    message = draw(messages())
    usual = commands.ActiveMQMessage()
    dropped = [*RARE, *draw(st.sets(st.sampled_from([*OPTIONAL, "transaction_id", "original_destination"])))]
    producer_id = commands.ProducerId("ID:p", 1, draw(st.integers(0, 2)))
    known: dict[str, object] = {"producer_id": producer_id, "group_sequence": 0, "destination": QUEUE}
    kept = {name: value for name, value in known.items() if draw(st.booleans())}
    message_id = commands.MessageId(None, producer_id, message.message_id.producer_sequence_id, 9)  # type: ignore[union-attr]
    return replace(message, **{name: getattr(usual, name) for name in dropped}, **kept, message_id=message_id)  # type: ignore[arg-type]


@st.composite
def dispatches(draw: st.DrawFn) -> commands.MessageDispatch:
    dispatch: commands.MessageDispatch = draw(structures(commands.MessageDispatch, 0))
    known = st.sampled_from([CONSUMER, commands.ConsumerId("ID:other", 1, 1)])
    return replace(
        dispatch,
        consumer_id=draw(known | structures(commands.ConsumerId)),
        message=draw(messages() | everyday_messages() | everyday_messages()),
    )


# ---- what it means that they agree -----------------------------------------------------------------------------


def plain_dispatch(frame: bytes) -> commands.MessageDispatch | None:
    """What the plain codec makes of *frame*; None where it, or a documented rule, refuses it."""
    try:
        command = PLAIN.decode(frame)
    except RemoteProtocolError:
        return None
    assert isinstance(command, commands.MessageDispatch)
    has_id = command.message is None or command.message.message_id is not None
    return command if command.consumer_id is not None and has_id else None


def assert_same(event: object, command: commands.MessageDispatch) -> None:
    """*event* says what *command* says."""
    message = command.message
    if message is None:
        assert isinstance(event, EndOfMessages)
        assert event.consumer_id == command.consumer_id
        return
    assert isinstance(event, Dispatch)
    assert (event.consumer_id, event.destination) == (command.consumer_id, command.destination)
    assert event.redelivery_counter == command.redelivery_counter
    assert event.type_id == message.TYPE_ID
    assert (event.content, event.properties) == (message.content, message.marshalled_properties)
    assert (event.compressed, event.persistent) == (message.compressed, message.persistent)
    assert (event.priority, event.expiration, event.timestamp) == (
        message.priority,
        message.expiration,
        message.timestamp,
    )
    for name in ("correlation_id", "reply_to", "type", "group_id", "group_sequence", "user_id", "data_structure"):
        assert getattr(event.extras, name) == getattr(message, name)
    assert event.extras.group_first == (message.group_first_for_consumer and message.group_id is not None)
    assert event.source.destination == message.destination
    assert event.source.original_destination == message.original_destination
    assert_same_id(event, message.message_id)
    acks = event.channel.ack_template
    assert (acks.consumer_id, acks.destination, acks.transaction_id) == (event.consumer_id, event.destination, None)


def assert_same_id(event: Dispatch, message_id: commands.MessageId | None) -> None:
    assert message_id is not None
    assert event.message_id == message_id
    assert (event.producer_sequence, event.broker_sequence) == (
        message_id.producer_sequence_id,
        message_id.broker_sequence_id,
    )
    assert decoded_id(event.encoded_id) == message_id
    assert event.encoded_id == encoded_id(message_id)
    assert event.message_key == event.encoded_id[:-8]


def assert_agrees(decoder: DispatchDecoder, frame: bytes) -> bool:
    command = plain_dispatch(frame)
    if command is None:
        with pytest.raises(RemoteProtocolError):
            decoder.dispatch(frame)
        return False
    assert_same(decoder.dispatch(frame), command)
    return True


def warm() -> DispatchDecoder:
    """A decoder that has seen the usual fronts."""
    decoder = DispatchDecoder()
    for frame in (PLAIN_FRAME, FULL_FRAME):
        decoder.dispatch(frame)
    return decoder


# ---- vectors and generated frames ------------------------------------------------------------------------------


@pytest.mark.parametrize("frame", [frame for _, frame in VECTORS], ids=[name for name, _ in VECTORS])
def test_vectors(frame: bytes) -> None:
    decoder = DispatchDecoder()
    assert assert_agrees(decoder, frame)
    assert assert_agrees(decoder, frame), "and again, now that its front is known"
    for seed in range(30):
        decoder.dispatch(frame)
        changed = mutated(frame, seed)
        if changed and changed[0] == DISPATCH_TYPE:
            assert_agrees(decoder, changed)


@effort(60)
@given(st.lists(dispatches(), min_size=1, max_size=3))
def test_generated_dispatches(generated: list[commands.MessageDispatch]) -> None:
    decoder = DispatchDecoder()
    for command in generated + generated:
        assert assert_agrees(decoder, canonical(command))


@effort(20)
@given(structures(commands.MessageDispatch))
def test_generated_dispatches_that_may_lack_what_a_client_needs(command: commands.MessageDispatch) -> None:
    assert_agrees(DispatchDecoder(), canonical(command))


@effort(40)
@given(everyday_messages(), st.integers(0, 2**32))
def test_mutations_of_generated_dispatches(message: commands.Message, seed: int) -> None:
    frame = canonical(dispatch_of(message))
    decoder = warm()
    for offset in range(8):
        decoder.dispatch(frame)
        changed = mutated(frame, seed + offset)
        if changed and changed[0] == DISPATCH_TYPE:
            assert_agrees(decoder, changed)
            assert_agrees(DispatchDecoder(), changed)


@pytest.mark.parametrize("frame", [PLAIN_FRAME, FULL_FRAME, END_FRAME], ids=["plain", "full", "end"])
@pytest.mark.parametrize("value", [0, 1, 0x64, 0xFF])
def test_every_byte_matters_to_both_alike(frame: bytes, value: int) -> None:
    decoder = warm()
    for position in range(1, len(frame)):
        decoder.dispatch(frame)
        assert_agrees(decoder, frame[:position] + bytes((value,)) + frame[position + 1 :])


@pytest.mark.parametrize("frame", [PLAIN_FRAME, FULL_FRAME, END_FRAME], ids=["plain", "full", "end"])
def test_every_shorter_or_longer_form_is_refused(frame: bytes) -> None:
    decoder = warm()
    decoder.dispatch(frame)
    for changed in (*(frame[:length] for length in range(1, len(frame))), frame + b"\0"):
        with pytest.raises(RemoteProtocolError):
            decoder.dispatch(changed)


@pytest.mark.parametrize("field", ["group_id", "correlation_id", "type", "user_id", "reply_to", "transaction_id"])
def test_bytes_that_are_no_text_are_refused(field: str) -> None:
    values: dict[str, object] = {
        "reply_to": commands.ActiveMQQueue("#text#"),
        "transaction_id": commands.LocalTransactionId(1, commands.ConnectionId("#text#")),
    }
    frame = canonical(dispatch_of(replace(MESSAGE, **{field: values.get(field, "#text#")})))  # type: ignore[arg-type]
    decoder = warm()
    assert assert_agrees(decoder, frame)
    assert assert_agrees(decoder, frame.replace(b"#text#", b"\xf0\x9f\x98\x80\0\0"))
    assert not assert_agrees(decoder, frame.replace(b"#text#", b"#tex\xff#"))


@pytest.mark.parametrize(
    "command",
    [replace(dispatch_of(MESSAGE), consumer_id=None), dispatch_of(replace(MESSAGE, message_id=None))],
    ids=["consumer", "message id"],
)
def test_dispatch_without_what_a_client_needs_is_refused(command: commands.MessageDispatch) -> None:
    with pytest.raises(RemoteProtocolError, match="without a"):
        DispatchDecoder().dispatch(canonical(command))


# ---- what repeats ----------------------------------------------------------------------------------------------


def frame_of(number: int, transaction: int | None = None, consumer: int = 1) -> bytes:
    producer = commands.ProducerId(f"ID:{number}", 1, 1)
    connection = commands.ConnectionId(f"ID:{number}")
    message = replace(
        MESSAGE,
        producer_id=producer,
        message_id=commands.MessageId(None, producer, number),
        transaction_id=None if transaction is None else commands.LocalTransactionId(transaction, connection),
    )
    return canonical(replace(dispatch_of(message), consumer_id=commands.ConsumerId("ID:c", 1, consumer)))


def one(decoder: DispatchDecoder, frame: bytes) -> Dispatch:
    event = decoder.dispatch(frame)
    assert isinstance(event, Dispatch)
    return event


@pure_only
def test_plain_codec_is_asked_once_for_each_front(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = DispatchDecoder()
    asked: list[bytes] = []
    by_plain_codec = DispatchDecoder._by_plain_codec

    def asking(self: DispatchDecoder, frame: bytes) -> Dispatch | EndOfMessages:
        asked.append(frame)
        return by_plain_codec(self, frame)

    monkeypatch.setattr(DispatchDecoder, "_by_plain_codec", asking)
    frames = [frame_of(number, consumer=consumer) for number in (1, 2) for consumer in (1, 2)]
    for frame in frames * 3:
        decoder.dispatch(frame)
    assert asked == frames[:3], "the last one has a consumer and a producer that are known"
    for transaction in range(3):
        decoder.dispatch(frame_of(1, transaction))
    decoder.dispatch(canonical(dispatch_of(WITH_EXTRAS)))
    decoder.dispatch(canonical(dispatch_of(replace(WITH_EXTRAS, user_id=None, content=None))))
    assert len(asked) == 4, "transactions and the usual headers cost no second look"


def test_dispatches_share_channel_and_source() -> None:
    decoder = DispatchDecoder()
    first, other, again = (one(decoder, frame_of(number)) for number in (1, 2, 1))
    assert first.channel is other.channel is again.channel
    assert first.source is again.source is not other.source
    unusual = one(decoder, canonical(dispatch_of(replace(MESSAGE, data_structure=commands.KeepAliveInfo()))))
    assert one(decoder, PLAIN_FRAME).source is unusual.source


def test_more_fronts_than_are_remembered_are_still_told_apart() -> None:
    decoder = DispatchDecoder()
    for number in [*range(600), *range(0, 600, 7)]:
        assert_agrees(decoder, frame_of(number, consumer=number))
    assert len(decoder._sources) <= 256
    assert len(decoder._channels) <= 256


def test_remembered_fronts_take_little_memory() -> None:
    decoder = DispatchDecoder()
    target = commands.ActiveMQQueue("x" * 3000)
    decoder.dispatch(canonical(replace(dispatch_of(replace(MESSAGE, destination=target)), destination=target)))
    assert not decoder._sources
    assert not decoder._channels


def test_key_is_the_same_in_whatever_form_the_id_came() -> None:
    producer = commands.ProducerId("ID:nul\0here", 1, 2)
    message = replace(MESSAGE, producer_id=producer, message_id=commands.MessageId(None, producer, 5, 6))
    frame = canonical(dispatch_of(message))
    foreign = frame.replace(b"\0\x0cID:nul\xc0\x80here", b"\0\x0bID:nul\0here")
    elsewhere = replace(message, message_id=commands.MessageId(None, producer, 5, 600))
    keys = {one(DispatchDecoder(), data).message_key for data in (frame, foreign, canonical(dispatch_of(elsewhere)))}
    assert len(frame) > len(foreign)
    assert len(keys) == 1


# ---- from the wire ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", AGREEMENTS)
def test_same_events_whatever_was_agreed(name: str) -> None:
    wants = AGREEMENTS[name]
    client = ClientProtocol(wants)
    client.receive_data(PLAIN.encode(offer(wants)))
    (agreement,) = client.events()
    assert client.agreement is agreement
    codec = Codec(client.agreement.wire_format)
    sent: list[Structure] = [
        dispatch_of(MESSAGE, 3),
        commands.Response(1, False, 17),
        dispatch_of(WITH_EXTRAS),
        commands.MessageDispatch(consumer_id=CONSUMER),
        commands.ExceptionResponse(2, False, 18),
        dispatch_of(MESSAGE),
        commands.KeepAliveInfo(command_id=4),
    ]
    data = b"".join(codec.encode(command) for command in sent)
    events = []
    for position in range(len(data)):
        client.receive_data(data[position : position + 1])
        events += list(client.events())
    assert len(events) == len(sent)
    for event, command in zip(events, sent, strict=True):
        if isinstance(command, commands.MessageDispatch):
            assert_same(event, command)
        else:
            assert event == command


@pytest.mark.parametrize("frame", [b"\x15", PLAIN_FRAME[:-1], b"\x1e\0", b"", b"\xfe"], ids=repr)
def test_bytes_that_are_no_command_end_the_connection(frame: bytes) -> None:
    client = ClientProtocol(Preferences())
    client.receive_data(PLAIN.encode(offer(Preferences())))
    list(client.events())
    client.receive_data(len(frame).to_bytes(4) + frame)
    with pytest.raises(RemoteProtocolError):
        list(client.events())
    client.receive_data(PLAIN.encode(commands.KeepAliveInfo()))
    assert list(client.events()) == []


def test_types_are_those_of_the_registry() -> None:
    assert commands.MessageDispatch.TYPE_ID == DISPATCH_TYPE
    assert commands.Response.TYPE_ID == RESPONSE_TYPE

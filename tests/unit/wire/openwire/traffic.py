"""Hypothesis strategies for what flows all day: messages and acks that a broker accepts."""

from dataclasses import replace
from typing import Final

from hypothesis import strategies as st

from ackwire.wire.openwire import commands
from ackwire.wire.openwire.layout import MESSAGE_TYPES
from ackwire.wire.openwire.structures import REGISTRY
from tests.unit.wire.openwire.strategies import structures

MESSAGE_CLASSES: Final = [REGISTRY[type_id] for type_id in sorted(MESSAGE_TYPES)]
PRODUCERS: Final = structures(commands.ProducerId)
DESTINATIONS: Final = st.sampled_from(
    [
        commands.ActiveMQQueue("orders.new"),
        commands.ActiveMQTopic("prices.€"),
        commands.ActiveMQTempQueue("ID:a-1:1"),
        commands.ActiveMQTempTopic("\U0001f600\0"),
    ]
)


@st.composite
def messages(draw: st.DrawFn) -> commands.Message:
    """Messages the broker accepts; everything optional there or not, in any combination."""
    cls = draw(st.sampled_from(MESSAGE_CLASSES))
    message: commands.Message = draw(structures(cls, 1))
    return replace(
        message,
        producer_id=draw(PRODUCERS),
        destination=draw(DESTINATIONS),
        message_id=replace(draw(structures(commands.MessageId)), producer_id=draw(PRODUCERS)),
    )


@st.composite
def everyday_messages(draw: st.DrawFn) -> commands.Message:
    """Messages with few of the rare fields, which the shortcuts are made for."""
    message = draw(messages())
    usual = commands.ActiveMQMessage()
    kept = draw(st.sets(st.sampled_from(["group_id", "correlation_id", "reply_to", "type", "marshalled_properties"])))
    rare = ("original_transaction_id", "data_structure", "target_consumer_id", "broker_path", "user_id", "cluster")
    dropped = [*rare, *({"group_id", "correlation_id", "reply_to", "type", "marshalled_properties"} - kept)]
    return replace(message, **{name: getattr(usual, name) for name in dropped})


@st.composite
def acks(draw: st.DrawFn) -> commands.MessageAck:
    ack: commands.MessageAck = draw(structures(commands.MessageAck))
    plain_ids = st.builds(commands.MessageId, st.none(), PRODUCERS, st.integers(0, 9), st.integers(0, 9))
    return replace(
        ack,
        transaction_id=draw(st.none() | st.just(ack.transaction_id)),
        poison_cause=draw(st.none() | st.just(ack.poison_cause)),
        first_message_id=draw(st.none() | plain_ids | st.just(ack.first_message_id)),
        last_message_id=draw(plain_ids | st.just(ack.last_message_id)),
    )

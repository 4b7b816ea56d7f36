"""Advisories about destinations that are spliced from parts are those that the plain codec makes."""

import itertools

import pytest

from ackwire.jms.destinations import Destination, destination, parse_destination
from ackwire.jms.message_editor import Advisory, AdvisoryKind
from ackwire.util.clock import ManualClock
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.advisory_payloads import payload_of
from ackwire.wire.openwire.codec_fast import CANONICAL
from ackwire.wire.openwire.editor import OpenWireEditor
from ackwire.wire.openwire.marshal import Codec
from ackwire.wire.openwire.primitives import encode_map

TOPIC = parse_destination("topic://ActiveMQ.Advisory.Queue")


NAMES = ["q", "orders.eu.1", "grüße", "\U0001f600.x", "a\0b", "n" * 4096]
ORIGIN = {"originBrokerId": "ID:broker", "originBrokerName": "b", "originBrokerURL": "vm://b"}
TARGET = commands.ConsumerId("ID:b:1", -1, 1)
KINDS = ["queue", "topic", "temp-queue", "temp-topic"]


@pytest.mark.parametrize("what", [AdvisoryKind.DESTINATION_ADDED, AdvisoryKind.DESTINATION_REMOVED])
@pytest.mark.parametrize("owner", [None, "ID:a:1"])
@pytest.mark.parametrize("target", [None, "ID:b:1:-1:1"])
def test_they_are_as_the_plain_codec_makes_them(what: AdvisoryKind, owner: str | None, target: str | None) -> None:
    for name, kind in itertools.product(NAMES, KINDS):
        _check(Advisory(what, TOPIC, destination=_named(kind, name), connection_id=owner, target_consumer_id=target))


def _named(kind: str, name: str) -> Destination:
    return destination(parse_destination(f"{kind}://x").kind, name)


def _command(editor: OpenWireEditor, advisory: Advisory, timestamp: int) -> commands.ActiveMQMessage:
    target = advisory.target_consumer_id
    message_id = editor._next_id()
    return commands.ActiveMQMessage(
        producer_id=message_id.producer_id,
        destination=commands.ActiveMQTopic(advisory.topic.name),
        message_id=message_id,
        timestamp=timestamp,
        type="Advisory",
        marshalled_properties=encode_map(ORIGIN),
        data_structure=payload_of(advisory, editor._subject(advisory)),
        target_consumer_id=None if target is None else TARGET,
    )


def _check(advisory: Advisory) -> None:
    clock = ManualClock()
    spliced, plain = (OpenWireEditor("ID:broker", "b", clock) for _ in range(2))
    spliced.advisory(advisory)
    plain.advisory(advisory)
    clock.advance(1)
    message = spliced.advisory(advisory)
    command = _command(plain, advisory, clock.now_ms())
    assert message.frame == Codec(CANONICAL).encode(command)[4:]
    expected = plain._message_of(command)
    for name_of in ("key", "timestamp", "expiration", "priority", "persistent", "properties_offset", "tail_offset"):
        assert getattr(message, name_of) == getattr(expected, name_of), name_of
    assert (message.destination, message.producer_count) == (expected.destination, expected.producer_count)
    assert message.origin.id_end == expected.origin.id_end

"""Advisories about destinations that are spliced from parts are those that the plain codec makes."""

import itertools

import pytest

from ackwire.clock import ManualClock
from ackwire.destinations import Destination, destination, parse_destination
from ackwire.editing import Advisory, AdvisoryKind
from ackwire.wire.openwire.editor import OpenWireEditor
from ackwire.wire.openwire.fast import CANONICAL
from ackwire.wire.openwire.marshal import Codec

TOPIC = parse_destination("topic://ActiveMQ.Advisory.Queue")


NAMES = ["q", "orders.eu.1", "grüße", "\U0001f600.x", "a\0b", "n" * 4096]
KINDS = ["queue", "topic", "temp-queue", "temp-topic"]


@pytest.mark.parametrize("what", [AdvisoryKind.DESTINATION_ADDED, AdvisoryKind.DESTINATION_REMOVED])
@pytest.mark.parametrize("owner", [None, "ID:a:1"])
@pytest.mark.parametrize("target", [None, "ID:b:1:-1:1"])
def test_they_are_as_the_plain_codec_makes_them(what: AdvisoryKind, owner: str | None, target: str | None) -> None:
    for name, kind in itertools.product(NAMES, KINDS):
        _check(Advisory(what, TOPIC, destination=_named(kind, name), connection_id=owner, target_consumer_id=target))


def _named(kind: str, name: str) -> Destination:
    return destination(parse_destination(f"{kind}://x").kind, name)


def _check(advisory: Advisory) -> None:
    clock = ManualClock()
    spliced, plain = (OpenWireEditor("ID:broker", "b", clock) for _ in range(2))
    spliced.advisory(advisory)
    plain.advisory(advisory)
    clock.advance(1)
    message = spliced.advisory(advisory)
    command = plain._advisory_command(advisory, plain._next_id(), clock.now_ms())
    assert message.frame == Codec(CANONICAL).encode(command)[4:]
    expected = plain._message_of(command)
    for name_of in ("key", "timestamp", "expiration", "priority", "persistent", "properties_offset", "tail_offset"):
        assert getattr(message, name_of) == getattr(expected, name_of), name_of
    assert (message.destination, message.producer_count) == (expected.destination, expected.producer_count)
    assert message.origin.id_end == expected.origin.id_end

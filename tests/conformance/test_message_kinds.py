"""Every kind of message, header and property type goes through the broker unchanged (A4, A5)."""

import math
import random
import struct
from collections.abc import Mapping

import pytest

from tests.conformance.jms import (
    NON_PERSISTENT,
    PERSISTENT,
    Jms,
    Outgoing,
    Received,
    Value,
    text,
    with_options,
)
from tests.conformance.routes import CORE_ROUTES, Broker

LIST_OF_ALL = [
    Value("string", "in a list"),
    Value("int", 7),
    Value("bytes", b"\x00\x01"),
    Value("null", None),
]
SCALARS = {
    "yes": Value("boolean", True),
    "no": Value("boolean", False),
    "byte": Value("byte", -128),
    "short": Value("short", -32768),
    "int": Value("int", -(2**31)),
    "long": Value("long", -(2**63)),
    "largestLong": Value("long", 2**63 - 1),
    "float": Value("float", 1.5),
    "floatNan": Value("float", math.nan),
    "double": Value("double", -2.2250738585072014e-308),
    "doubleInfinity": Value("double", math.inf),
    "text": Value("string", "plain"),
    "empty": Value("string", ""),
    "nonAscii": Value("string", "Grüße, Ωμέγα, 東京"),
    "schlüssel": Value("string", "a key that is not ASCII"),
}
PROPERTIES = {
    **SCALARS,
    "longestShortString": Value("string", "x" * 8190),
    "shortestBigString": Value("string", "y" * 8191),
    "beyond64k": Value("string", "ü" * 70_000),
    "list": Value("list", LIST_OF_ALL),
    "map": Value("map", {"inner": Value("map", {"deep": Value("double", 0.5)})}),
}
MAP_BODY = {**PROPERTIES, "char": Value("char", "é"), "bytes": Value("bytes", bytes(range(256)))}
STREAM_BODY = [
    *SCALARS.values(),
    Value("char", "東"),
    Value("bytes", bytes(range(256))),
    Value("null", None),
    Value("string", "z" * 8191),
]
BYTES_BODY = [
    Value("boolean", True),
    Value("byte", -1),
    Value("short", -2),
    Value("char", "é"),
    Value("int", -3),
    Value("long", -4),
    Value("float", 0.25),
    Value("double", -0.125),
    Value("string", "é"),
    Value("bytes", bytes(range(256))),
]
BYTES_BODY_AS_SENT = struct.pack(">?bhHiqfd", True, -1, -2, 0xE9, -3, -4, 0.25, -0.125) + (
    b"\x00\x02\xc3\xa9" + bytes(range(256))
)
# Astral characters, NUL and a lone surrogate are what tells Java's modified UTF-8 from UTF-8.
DIFFICULT_TEXT = "NUL \x00, e acute é, euro €, Deseret 𐐷, emoji 😀, lone surrogate \ud83d."

KINDS: dict[str, tuple[Outgoing, object]] = {
    "plain": (Outgoing("plain"), None),
    "text": (text("hello"), "hello"),
    "difficult text": (text(DIFFICULT_TEXT), DIFFICULT_TEXT),
    "empty text": (text(""), ""),
    "null text": (text(None), None),
    "map": (Outgoing("map", MAP_BODY), MAP_BODY),
    "empty map": (Outgoing("map", {}), {}),
    "bytes": (Outgoing("bytes", BYTES_BODY), BYTES_BODY_AS_SENT),
    "empty bytes": (Outgoing("bytes", []), b""),
    "stream": (Outgoing("stream", STREAM_BODY), STREAM_BODY),
    "empty stream": (Outgoing("stream", []), []),
    "object": (Outgoing("object", Value("list", LIST_OF_ALL)), Value("list", LIST_OF_ALL)),
    "null object": (Outgoing("object", Value("null", None)), Value("null", None)),
}
WIRE_FORMATS = {
    f"{encoding} {cache}": {
        "wireFormat__tightEncodingEnabled": encoding == "tight",
        "wireFormat__cacheEnabled": cache == "cached",
    }
    for encoding in ("tight", "loose")
    for cache in ("cached", "uncached")
}


def send_and_receive(jms: Jms, url: str, queue: str, *messages: Outgoing, **how: int) -> list[Received]:
    """Send from one connection, receive on another."""
    jms.send(url, queue, *messages, **how)
    with jms.connect(url) as connection:
        return connection.session().consumer(queue).receive_expected(len(messages))


def assert_every_kind_survives(jms: Jms, url: str, queue: str) -> list[Received]:
    received = send_and_receive(jms, url, queue, *(message for message, _ in KINDS.values()))
    actual = {name: (message.kind, message.body) for name, message in zip(KINDS, received, strict=True)}
    assert actual == {name: (message.kind, body) for name, (message, body) in KINDS.items()}
    return received


def assert_every_property_survives(jms: Jms, url: str, queue: str) -> None:
    [received] = send_and_receive(jms, url, queue, text("with properties", properties=PROPERTIES))
    assert received.properties == PROPERTIES


def assert_every_header_survives(jms: Jms, url: str, queue: str) -> None:
    group: Mapping[str, Value] = {"JMSXGroupID": Value("string", "gröup"), "JMSXGroupSeq": Value("int", 7)}
    message = Outgoing(
        "plain",
        properties=group,
        correlation_id="corrélation 😀",
        type="an.événement",
        reply_to="topic://replies.ü",
    )
    with jms.connect(url) as connection:
        session = connection.session()
        [message_id] = session.producer(queue).send(
            message, delivery_mode=NON_PERSISTENT, priority=9, time_to_live_ms=3_600_000
        )
        received = session.consumer(queue).receive_one()
    assert received.message_id == message_id
    assert received.destination == queue
    assert received.correlation_id == message.correlation_id
    assert received.type == message.type
    assert received.reply_to == message.reply_to
    assert (received.group_id, received.group_sequence) == ("gröup", 7)
    assert (received.delivery_mode, received.priority) == (NON_PERSISTENT, 9)
    assert received.timestamp > 0
    assert received.expiration == received.timestamp + 3_600_000
    assert (received.redelivered, received.delivery_count) == (False, 1)


def test_A4_every_message_kind_arrives_as_sent(jms: Jms, url: str, queue: str) -> None:
    """A4: plain, text, map, bytes, stream and object bodies keep their values and types."""
    received = assert_every_kind_survives(jms, url, queue)
    assert not any(message.compressed for message in received)


def test_A4_every_property_type_arrives_as_sent(jms: Jms, url: str, queue: str) -> None:
    """A4: properties keep their JMS types, whatever the length or script of a string."""
    assert_every_property_survives(jms, url, queue)


def test_A5_every_header_arrives_as_sent(jms: Jms, url: str, queue: str) -> None:
    """A5: id, destination, reply-to, correlation id, type, mode, priority, times and group."""
    assert_every_header_survives(jms, url, queue)


def test_A5_headers_have_the_jms_defaults_when_nothing_is_set(jms: Jms, url: str, queue: str) -> None:
    """A5: persistent, priority 4, never expires, no reply-to, type, correlation id or group."""
    [received] = send_and_receive(jms, url, queue, Outgoing("plain"))
    assert (received.delivery_mode, received.priority, received.expiration) == (PERSISTENT, 4, 0)
    assert (received.reply_to, received.type, received.correlation_id, received.group_id) == (None,) * 4
    assert received.properties == {}


@pytest.mark.parametrize("priority", [0, 9])
def test_A5_extreme_priorities_arrive_as_sent(jms: Jms, tcp: str, queue: str, priority: int) -> None:
    """A5: JMSPriority 0 to 9."""
    [received] = send_and_receive(jms, tcp, queue, text("m"), priority=priority)
    assert received.priority == priority


def test_A4_compressed_bodies_arrive_compressed_and_whole(jms: Jms, url: str, queue: str) -> None:
    """A4: with jms.useCompression the broker passes bodies on as they are, flag included."""
    compressing = with_options(url, jms__useCompression=True)
    received = assert_every_kind_survives(jms, compressing, queue)
    assert {message.kind for message in received if message.compressed} >= {"text", "map", "bytes", "stream"}


@pytest.mark.parametrize("compression", [False, True], ids=["plain", "compressed"])
def test_A4_a_megabyte_of_body_arrives_whole(jms: Jms, url: str, queue: str, compression: bool) -> None:
    """A4: size does not matter, for each kind of body."""
    noise = random.Random(20).randbytes(2**20)
    words = "Straße 😀 " * 2**17
    large = {
        "text": text(words),
        "bytes": Outgoing("bytes", [Value("bytes", noise)]),
        "map": Outgoing("map", {"noise": Value("bytes", noise), "words": Value("string", "ü" * 2**20)}),
        "stream": Outgoing("stream", [Value("bytes", noise), Value("string", words)]),
        "object": Outgoing("object", Value("bytes", noise)),
    }
    expected = {kind: message.body for kind, message in large.items()} | {"bytes": noise}
    with_compression = with_options(url, jms__useCompression=compression)
    received = send_and_receive(jms, with_compression, queue, *large.values())
    for message in received:
        assert message.body == expected[message.kind], f"{message.kind} body differs"


@pytest.mark.parametrize("listener", ["tcp", "tight-cached"])
@pytest.mark.parametrize("version", range(1, 13))
def test_A4_every_openwire_version_carries_every_kind_header_and_property(
    jms: Jms, broker: Broker, queue: str, version: int, listener: str
) -> None:
    """A4, A5, J2: the client asks for a version, gets it, and nothing is lost in it."""
    url = broker.url(listener, wireFormat__version=version)
    with jms.connect(url) as connection:
        assert connection.facts().version == version
    assert_every_kind_survives(jms, url, f"{queue}.kinds")
    assert_every_property_survives(jms, url, f"{queue}.properties")
    assert_every_header_survives(jms, url, f"{queue}.headers")


@pytest.mark.parametrize("route", CORE_ROUTES)
def test_J2_the_listener_decides_what_is_offered(jms: Jms, broker: Broker, route: str) -> None:
    """J2: loose with a cache by default; tight, or without a cache, where the listener's URI says so."""
    with jms.connect(broker.url(route)) as connection:
        facts = connection.facts()
    offered = CORE_ROUTES[route]
    assert (facts.version, facts.tight, facts.cached) == (12, offered.tight, offered.cached)


@pytest.mark.parametrize("wire_format", WIRE_FORMATS)
def test_J2_the_client_chooses_encoding_and_cache_on_a_listener_that_offers_both(
    jms: Jms, broker: Broker, queue: str, wire_format: str
) -> None:
    """J2: tight or loose, with or without cache, as negotiated; nothing is lost in any of them."""
    url = broker.url("tight-cached", **WIRE_FORMATS[wire_format])
    with jms.connect(url) as connection:
        facts = connection.facts()
    assert wire_format == f"{'tight' if facts.tight else 'loose'} {'cached' if facts.cached else 'uncached'}"
    assert_every_kind_survives(jms, url, f"{queue}.kinds")
    assert_every_header_survives(jms, url, f"{queue}.headers")


def test_J2_a_sender_and_a_receiver_of_different_wire_formats_understand_each_other(
    jms: Jms, broker: Broker, queue: str
) -> None:
    """J2: what came in tight and cached at version 12 goes out loose at version 1, and back."""
    old = broker.url("tcp", wireFormat__version=1)
    new = broker.url("tight-cached")
    for sender, receiver in ((old, new), (new, old)):
        jms.send(sender, queue, *(message for message, _ in KINDS.values()))
        with jms.connect(receiver) as connection:
            received = connection.session().consumer(queue).receive_expected(len(KINDS))
        assert [message.body for message in received] == [body for _, body in KINDS.values()]

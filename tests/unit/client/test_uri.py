"""Broker URLs and destination names of the client: what is read, what is refused, and what is never shown."""

import logging
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ackwire.client import options
from ackwire.client.options import (
    ConnectionOptions,
    ConsumerOptions,
    FailoverOptions,
    PrefetchPolicy,
    ProducerOptions,
    RedeliveryPolicy,
    SocketOptions,
    TlsOptions,
    TransportOptions,
    VmOptions,
    WireFormatOptions,
)
from ackwire.client.uri import (
    DEFAULT_BROKER_URL,
    URIS_MAX,
    URL_LENGTH_MAX,
    BrokerUrl,
    TcpUri,
    VmUri,
    mask_secrets,
    parse_broker_url,
    parse_destination_uri,
)
from ackwire.config.fields import Option, options_of
from ackwire.config.listener_uri import OPENWIRE_SCHEMES
from ackwire.config.queries import Section
from ackwire.errors import ConfigError
from ackwire.jms.destinations import Kind, destination


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_broker_url(text)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 1000
    return message


def tcp(text: str) -> TcpUri:
    (uri,) = parse_broker_url(text).uris
    assert isinstance(uri, TcpUri)
    return uri


# ---- what is read ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", OPENWIRE_SCHEMES)
def test_scheme_decides_tls_and_default_port(scheme: str) -> None:
    uri = tcp(f"{scheme}://broker")
    assert (uri.scheme, uri.host) == (scheme, "broker")
    assert uri.port == (61617 if "ssl" in scheme else 61616)
    assert uri.tls == (TlsOptions() if "ssl" in scheme else None)


@pytest.mark.parametrize(
    ("text", "address", "local"),
    [
        ("tcp://a:1", "tcp://a:1", None),
        ("tcp://a:1/", "tcp://a:1", None),
        ("tcp://[::1]:5", "tcp://[::1]:5", None),
        ("tcp://[fe80::1%25eth0]", "tcp://[fe80::1%25eth0]:61616", None),
        ("tcp://a:1/10.0.0.5:0", "tcp://a:1", ("10.0.0.5", 0)),
        ("tcp://a:1/[::1]:9", "tcp://a:1", ("::1", 9)),
        ("tcp://broker_1.example.org:61616?", "tcp://broker_1.example.org:61616", None),
    ],
)
def test_addresses(text: str, address: str, local: tuple[str, int] | None) -> None:
    assert tcp(text).address == address
    assert tcp(text).local == local


def test_composite_with_options_at_every_place() -> None:
    url = parse_broker_url(
        "failover:(tcp://a:61616?wireFormat.maxInactivityDuration=0&keepAlive=true,ssl://b:61617)"
        "?randomize=false&nested.socket.tcpNoDelay=true&jms.prefetchPolicy.all=10&jms.redeliveryPolicy.backOffMultiplier=2"
    )
    no_delay = SocketOptions(tcp_no_delay=True)
    assert url.uris == (
        TcpUri(
            "tcp",
            "a",
            61616,
            transport=TransportOptions(keep_alive=True),
            socket=no_delay,
            wire_format=WireFormatOptions(max_inactivity_duration_ms=0),
        ),
        TcpUri("ssl", "b", 61617, socket=no_delay, tls=TlsOptions()),
    )
    assert url.failover == FailoverOptions(randomize=False)
    assert url.connection.prefetch == PrefetchPolicy(10, 10, 10, 10, 10)
    assert url.connection.redelivery == RedeliveryPolicy(back_off_multiplier=2)


@pytest.mark.parametrize(
    "text",
    [
        "failover:(tcp://a:1,tcp://b:2)",
        "failover://(tcp://a:1,tcp://b:2)",
        "failover:(tcp://a:1,tcp://b:2)?",
        "failover:(tcp://a:1,tcp://b:2)/",
        "failover:tcp://a:1,tcp://b:2",
        "failover://tcp://a:1,tcp://b:2",
    ],
)
def test_ways_to_write_a_list(text: str) -> None:
    assert parse_broker_url(text) == BrokerUrl((TcpUri("tcp", "a", 1), TcpUri("tcp", "b", 2)), FailoverOptions())


def test_query_without_parentheses_belongs_to_the_last_uri_and_the_connection() -> None:
    url = parse_broker_url("failover://tcp://a:1,tcp://b:2?keepAlive=true&jms.clientID=me")
    assert url.uris == (TcpUri("tcp", "a", 1), TcpUri("tcp", "b", 2, transport=TransportOptions(keep_alive=True)))
    assert url.connection == ConnectionOptions(client_id="me")


def test_default_url_is_that_of_activemq() -> None:
    assert parse_broker_url(DEFAULT_BROKER_URL) == BrokerUrl((TcpUri("tcp", "localhost", 61616),), FailoverOptions())


def test_nested_option_wins_and_goes_only_where_it_can() -> None:
    url = parse_broker_url(
        "failover:(tcp://a?soTimeout=1,ssl://b)?nested.soTimeout=2&nested.socket.verifyHostName=false"
    )
    assert url.uris == (
        TcpUri("tcp", "a", 61616, transport=TransportOptions(so_timeout_ms=2)),
        TcpUri("ssl", "b", 61617, transport=TransportOptions(so_timeout_ms=2), tls=TlsOptions(verify_host_name=False)),
    )


def test_vm_keeps_the_options_of_the_broker_it_starts() -> None:
    (uri,) = parse_broker_url("vm://local?create=false&waitForStart=10&broker.persistent=false").uris
    assert uri == VmUri("local", VmOptions(create=False, wait_for_start_ms=10), broker=(("persistent", "false"),))
    assert parse_broker_url("vm://").uris == (VmUri("localhost"),)


@pytest.mark.parametrize(
    ("written", "read"),
    [("a+b", "a b"), ("a%2Bb", "a+b"), ("a%26b%3Dc", "a&b=c"), ("%C3%A4", "ä"), ("a=b", "a=b"), ("a:b/c", "a:b/c")],
)
def test_values_are_form_encoded(written: str, read: str) -> None:
    assert parse_broker_url(f"tcp://h?jms.clientID={written}").connection.client_id == read
    assert parse_broker_url(f"failover:(tcp://h)?jms.clientID={written}").connection.client_id == read


def test_first_letter_of_a_name_may_be_a_capital() -> None:
    url = parse_broker_url("tcp://h?jms.ClientID=c&jms.prefetchPolicy.QueuePrefetch=3&SoTimeout=4")
    assert (url.connection.client_id, url.connection.prefetch.queue_prefetch) == ("c", 3)
    assert tcp("tcp://h?SoTimeout=4").transport.so_timeout_ms == 4


def test_prefetch_by_name_wins_over_all_in_either_order() -> None:
    for query in ("all=1&jms.prefetchPolicy.queuePrefetch=2", "queuePrefetch=2&jms.prefetchPolicy.all=1"):
        policy = parse_broker_url(f"tcp://h?jms.prefetchPolicy.{query}").connection.prefetch
        assert policy == PrefetchPolicy(2, 1, 1, 1, 1)


def test_prefetch_above_the_ceiling_is_taken_for_the_ceiling(caplog: pytest.LogCaptureFixture) -> None:
    url = parse_broker_url("tcp://h?jms.prefetchPolicy.queuePrefetch=100000")
    assert url.connection.prefetch.queue_prefetch == 32_767
    assert "100000 is taken for 32767" in caplog.text


@pytest.mark.parametrize(("value", "code"), [("EF", 46), ("cs1", 8), ("AF43", 38), ("0", 0), ("63", 63)])
def test_differentiated_services_by_name_or_number(value: str, code: int) -> None:
    assert tcp(f"tcp://h?diffServ={value}").transport.diff_serv == code


def test_preferred_uris() -> None:
    assert parse_broker_url("failover:(tcp://a,tcp://b)").preferred() == ()
    first = parse_broker_url("failover:(tcp://a,tcp://b)?priorityBackup=true")
    assert [uri.address for uri in first.preferred()] == ["tcp://a:61616"]
    named = parse_broker_url("failover:(tcp://a,tcp://b)?priorityBackup=true&priorityURIs=tcp://b,tcp://c:1")
    assert [uri.address for uri in named.preferred()] == ["tcp://b:61616"]


def test_aliases() -> None:
    assert tcp("tcp://h?wireFormat.maxInactivityDurationInitialDelay=7") == tcp(
        "tcp://h?wireFormat.maxInactivityDurationInitalDelay=7"
    )
    url = parse_broker_url("failover:(tcp://h)?backOffMultiplier=3")
    assert url.failover == FailoverOptions(reconnect_delay_exponent=3)


def test_what_a_listener_would_need_is_dropped_as_in_activemq() -> None:
    assert tcp("auto://h?auto.protocols=default&wireFormat=default") == TcpUri("auto", "h", 61616)


def test_an_empty_list_needs_a_place_to_find_uris() -> None:
    url = parse_broker_url("failover:()?updateURIsURL=file:/etc/brokers")
    assert url.uris == ()
    assert parse_broker_url(url.text(secrets=True)) == url


# ---- what is warned of -----------------------------------------------------------------------------------------


def test_option_of_a_jvm_is_accepted_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    assert parse_broker_url("tcp://h?jms.blobTransferPolicy.uploadUrl=http://x/") == BrokerUrl(
        (TcpUri("tcp", "h", 61616),)
    )
    assert [record.getMessage() for record in caplog.records] == [
        "option jms.blobTransferPolicy.uploadUrl is ignored: blob messages are not offered"
    ]


def test_last_of_several_counts(caplog: pytest.LogCaptureFixture) -> None:
    assert parse_broker_url("tcp://h?jms.clientID=a&jms.clientID=b").connection.client_id == "b"
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


# ---- what is refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "unknown scheme"),
        ("localhost:61616", "unknown scheme"),
        ("TCP://h", 'did you mean "tcp"'),
        ("tcp:h:1", "followed by //"),
        ("tcp://", "host is missing"),
        ("tcp://:1", "host is missing"),
        ("tcp://a b", "no spaces"),
        ("tcp://a\n", "no spaces"),
        ("tcp://a,tcp://b", "not a host name"),
        ("tcp://h:0", "from 1 to 65535"),
        ("tcp://h:65536", "from 1 to 65535"),
        ("tcp://h:x", "from 1 to 65535"),
        ("tcp://[::g]", "not scheme://host:port"),
        ("tcp://h/path", "local address"),
        ("tcp://h:1#x", "part after #"),
        ("tcp://h?#x", "has no value"),
        ("tcp://h?jms.useAsyncSnd=true", 'did you mean "jms.useAsyncSend"?'),
        ("tcp://h?jms.prefetchpolicy.all=1", 'did you mean "jms.prefetchPolicy.all"?'),
        ("tcp://h?useAsyncSend=true", 'did you mean "jms.useAsyncSend"?'),
        ("tcp://h?jms.useAsyncSend=yes", "must be true or false"),
        ("tcp://h?jms.useAsyncSend", "has no value"),
        ("tcp://h?jms.clientID=", "has no value"),
        ("tcp://h?jms.clientID=%FF", "UTF-8"),
        ("tcp://h?jms.sendTimeout=abc", "option jms.sendTimeout must be a whole number"),
        ("tcp://h?jms.sendTimeout=99999999999999999999", "must be a whole number"),
        ("tcp://h?jms.redeliveryPolicy.backOffMultiplier=x", "must be a number such as"),
        ("tcp://h?wireFormat.version=13", "from 1 to 12"),
        ("tcp://h?wireFormat.cacheSize=5", "must be 0 or from 100"),
        ("tcp://h?wireFormat=stomp", "unknown option"),
        ("tcp://h?diffServ=AF99", "must be a number from 0 to 63 or a name"),
        ("tcp://h?socket.tcpNodelay=true", 'did you mean "socket.tcpNoDelay"?'),
        ("tcp://h?verifyHostName=true", "only by those with ssl"),
        ("tcp://h?randomize=true", "belongs to failover:"),
        ("failover:tcp://h?randomize=true", "needs parentheses"),
        ("failover:(tcp://h)?keepAlive=true", "write nested.keepAlive"),
        ("failover:(tcp://h)?nested.keepALive=true", 'did you mean "nested.keepAlive"?'),
        ("failover:(tcp://h)?nested.verifyHostName=true", "unknown option"),
        ("failover:(tcp://h)?randomise=true", 'did you mean "randomize"?'),
        ("failover:(tcp://h)?priorityURIs=x", "option priorityURIs: unknown scheme"),
        ("failover:(tcp://h?jms.clientID=a)", "behind the closing parenthesis"),
        ("failover:", "empty"),
        ("failover:()", "empty"),
        ("failover:(,)", "empty"),
        ("failover:(tcp://h", "closing parenthesis is missing"),
        ("failover:(tcp://h))", "only options"),
        ("failover:(tcp://h)x?randomize=true", "only options"),
        ("failover:tcp://h)", "around the whole list"),
        ("failover:(failover:(tcp://a))", "cannot hold another"),
        ("static:(tcp://a,tcp://b)", "a client uses failover:(…)"),
        ("discovery:(multicast://default)", "list them in failover:(…)"),
        ("fanout:(static:(tcp://a))", "not offered"),
        ("https://h", "use ssl:"),
        ("vm:(broker:(tcp://localhost:6000)?persistent=false)", "use vm://name"),
        ("vm://a/b", "not a broker's name"),
        ("failover:(" + "tcp://h," * (URIS_MAX + 1) + ")", f"{URIS_MAX} is the limit"),
        ("tcp://h?jms.clientID=" + "x" * URL_LENGTH_MAX, f"{URL_LENGTH_MAX} is the limit"),
        ("tcp://h?jms.clientID=" + "x" * 5000, "at most 4096 characters, and has 5000"),
        ("tcp://" + "h" * 300, "255 is the limit"),
    ],
)
def test_refused_with_a_reason(text: str, part: str) -> None:
    assert part in refusal(text)


# ---- secrets ---------------------------------------------------------------------------------------------------


def test_passwords_are_not_shown() -> None:
    url = parse_broker_url("failover:(ssl://h?keyPassword=hunter2)?jms.userName=me&jms.password=hunter3")
    assert url.connection.password == "hunter3"
    for text in (str(url), repr(url)):
        assert "hunter" not in text
        assert "me" in text
    assert "jms.password=hunter3" in url.text(secrets=True)


@pytest.mark.parametrize(
    "text",
    [
        "tcp://h?jms.password=hunter2&bad=1",
        "tcp://h?jms.pasword=hunter2",
        "tcp://me:hunter2@h",
        "failover:(tcp://me:hunter2@h)?jms.password=hunter2",
        "tcp://h&jms.password=hunter2",
        "failover:(ssl://h?keyPassword=hunter2)?x=1",
    ],
)
def test_passwords_are_not_in_messages(text: str) -> None:
    assert "hunter2" not in refusal(text)


def test_mask_secrets_in_any_text() -> None:
    assert mask_secrets("tcp://u:p@h?jms.password=x&a=b") == "tcp://***@h?jms.password=***&a=b"


# ---- destinations ----------------------------------------------------------------------------------------------


def test_options_of_a_destination() -> None:
    found = parse_destination_uri(
        "topic://orders.>?consumer.prefetchSize=10&consumer.exclusive=true&producer.windowSize=9"
    )
    assert found.destination is destination(Kind.TOPIC, "orders.>")
    assert found.consumer == ConsumerOptions(prefetch_size=10, exclusive=True)
    assert found.producer == ProducerOptions(window_bytes=9)


def test_selector_in_a_name_and_the_default_kind() -> None:
    found = parse_destination_uri("a,b?consumer.selector=colour%3D'red'+AND+size>1", default=Kind.TOPIC)
    assert found.destination is destination(Kind.TOPIC, "a,b")
    assert found.consumer.selector == "colour='red' AND size>1"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("q?consumer.prefetchsize=1", 'did you mean "consumer.prefetchSize"?'),
        ("q?consumer.priority=128", "from -128 to 127"),
        ("?consumer.priority=1", "needs a name"),
        ("q" * 5000, "too long"),
        ("q?exclusive=true", 'did you mean "consumer.exclusive"?'),
    ],
)
def test_destination_refused_with_a_reason(text: str, part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_destination_uri(text)
    assert part in str(caught.value)


# ---- generated -------------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
WORDS = st.text("abcXYZ0123456789.-_", min_size=1, max_size=12)


def values_of(option: Option, default: Any) -> st.SearchStrategy[Any]:
    if option.type.takes == "true or false":
        return st.booleans()
    if isinstance(default, float):
        return st.floats(0, 1e6, allow_subnormal=False).map(lambda value: round(value, 3))
    if option.type.takes == "texts, with commas":
        return st.just(()) if option.name == "priorityURIs" else st.lists(WORDS, min_size=1, max_size=3).map(tuple)
    if option.type.takes == "text":
        return TEXTS
    if option.name in ("cacheSize", "maxFrameSize"):
        return st.integers(1024, 16_383)
    return st.integers(1, 12)


@st.composite
def groups(draw: st.DrawFn, kind: type[Any]) -> Any:
    """A group with a few options that are not the default."""
    declared = options_of(kind)
    plain = kind()
    chosen = draw(st.lists(st.sampled_from(sorted(declared)), max_size=4, unique=True))
    return replace(plain, **{key: draw(values_of(declared[key], getattr(plain, key))) for key in chosen})


@st.composite
def tcp_uris(draw: st.DrawFn) -> TcpUri:
    scheme = draw(st.sampled_from(OPENWIRE_SCHEMES))
    return TcpUri(
        scheme,
        draw(st.sampled_from(["localhost", "10.0.0.1", "::1", "fe80::1%eth0", "broker-1.example.org"])),
        draw(st.integers(1, 65535)),
        draw(st.none() | st.tuples(st.sampled_from(["10.0.0.5", "::1"]), st.integers(0, 65535))),
        draw(groups(TransportOptions)),
        draw(groups(SocketOptions)),
        draw(groups(WireFormatOptions)),
        draw(groups(TlsOptions)) if scheme.endswith("ssl") else None,
    )


@st.composite
def vm_uris(draw: st.DrawFn) -> VmUri:
    pairs = draw(st.lists(st.tuples(WORDS, TEXTS), max_size=2, unique_by=lambda pair: pair[0].lower()))
    name = draw(st.sampled_from(["localhost", "broker.1"]))
    return VmUri(name, draw(groups(VmOptions)), draw(groups(WireFormatOptions)), tuple(pairs))


@st.composite
def broker_urls(draw: st.DrawFn) -> BrokerUrl:
    policies = {"prefetch": draw(groups(PrefetchPolicy)), "redelivery": draw(groups(RedeliveryPolicy))}
    connection = replace(draw(groups(ConnectionOptions)), **policies)
    uris = draw(st.lists(tcp_uris() | vm_uris(), min_size=1, max_size=3))
    if draw(st.booleans()):
        return BrokerUrl(tuple(uris), draw(groups(FailoverOptions)), connection)
    return BrokerUrl((uris[0],), None, connection)


@given(broker_urls())
def test_every_url_reads_back_as_it_was_written(url: BrokerUrl) -> None:
    assert parse_broker_url(url.text(secrets=True)) == url
    assert url.text(secrets=True).isprintable()


@given(groups(ConsumerOptions), groups(ProducerOptions))
def test_every_destination_reads_back_as_it_was_written(consumer: ConsumerOptions, producer: ProducerOptions) -> None:
    found = replace(parse_destination_uri("queue://a.b"), consumer=consumer, producer=producer)
    assert parse_destination_uri(str(found)) == found


PIECES = st.sampled_from(
    [
        *(
            "failover:",
            "tcp://",
            "ssl://",
            "vm://",
            "static:",
            "(",
            ")",
            ",",
            "?",
            "&",
            "=",
            "//",
            ":",
            "/",
            "[",
            "]",
            "%",
        ),
        *(
            "h",
            "61616",
            "::1",
            "jms.",
            "nested.",
            "wireFormat.",
            "keepAlive",
            "all",
            "true",
            "-1",
            "@",
            "#",
            "%00",
            "\ud800",
        ),
        *("priorityURIs", "jms.prefetchPolicy.all", "9" * 30, "\x00", "ﬀ", "℀", "broker.x"),
    ]
)


@given(st.lists(PIECES, max_size=14).map("".join) | st.text(max_size=60))
@example("tcp://[")
@example("tcp://℀.com")
@example("failover:(" * 2000)
@example("(" * URL_LENGTH_MAX)
def test_garbage_raises_nothing_but_config_error(text: str) -> None:
    messages = []
    for parse in (parse_broker_url, parse_destination_uri):
        try:
            parse(text)
        except ConfigError as error:
            messages.append(str(error))
    assert all(message.isprintable() for message in messages)


# ---- declarations ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("section", options.SECTIONS, ids=lambda section: section.title)
def test_every_field_is_an_option_and_every_default_can_be_written(section: Section) -> None:
    plain = section.group()
    declared = options_of(section.group)
    assert {key.name for key in fields(section.group)} - set(declared) <= {"prefetch", "redelivery"}
    for key, option in declared.items():
        value = getattr(plain, key)
        if value is not None and value != ():
            assert option.type.read_text(option.type.show(value)) == value
        assert option.reason.endswith((".", "…"))
    assert not {option.name for option in declared.values()} & set(section.ignored)

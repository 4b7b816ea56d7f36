"""Listener URIs, and the TLS contexts made from them."""

import ssl
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from ackwire.config import listener_uri
from ackwire.config.listener_uri import SCHEMES, ClientAuth, ListenerUri, mask_secrets, parse_listener_uri
from ackwire.errors import ConfigError
from ackwire.server.tls import server_context


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_listener_uri(text)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_plain_uri_leaves_every_option_to_the_settings() -> None:
    assert parse_listener_uri("tcp://127.0.0.1:61616") == ListenerUri("tcp", "127.0.0.1", 61616)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_scheme_decides_tls_detection_and_default_port(scheme: str) -> None:
    query = "?certFile=c.pem" if "ssl" in scheme else ""
    uri = parse_listener_uri(f"{scheme}://localhost{query}")
    assert uri.scheme == scheme
    assert uri.tls is ("ssl" in scheme)
    assert uri.auto is ("auto" in scheme)
    assert uri.port == (61617 if "ssl" in scheme else 61616)


@pytest.mark.parametrize(
    ("text", "host", "shown"),
    [
        ("tcp://0.0.0.0:1", "0.0.0.0", "tcp://0.0.0.0:1"),
        ("tcp://[::1]:0", "::1", "tcp://[::1]:0"),
        ("tcp://[::]", "::", "tcp://[::]:61616"),
        ("tcp://[fe80::1%25eth0]:1", "fe80::1%eth0", "tcp://[fe80::1%eth0]:1"),
        ("nio://broker-1.example.org:61616/", "broker-1.example.org", "nio://broker-1.example.org:61616"),
    ],
)
def test_hosts_are_names_or_addresses(text: str, host: str, shown: str) -> None:
    uri = parse_listener_uri(text)
    assert uri.host == host
    assert str(uri) == shown


def test_options_of_openwire_are_refused_for_a_scheme_of_another_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_uri, "SCHEMES", (*SCHEMES, "other"))
    assert parse_listener_uri("other://localhost").scheme == "other"
    assert "wireFormat.cacheSize is not used by other listeners, only by tcp, nio" in refusal(
        "other://localhost?wireFormat.cacheSize=1024"
    )


def test_wire_format_options_are_typed() -> None:
    options = parse_listener_uri(
        "tcp://localhost?wireFormat.tightEncodingEnabled=true&wireFormat.cacheEnabled=TRUE&wireFormat.cacheSize=1024"
        "&wireFormat.stackTraceEnabled=false&wireFormat.sizePrefixDisabled=false"
        "&wireFormat.tcpNoDelayEnabled=true&wireFormat.maxFrameSize=104857600"
        "&wireFormat.maxInactivityDuration=0&wireFormat.maxInactivityDurationInitalDelay=500&wireFormat.version=9"
    ).wire_format
    assert options.tight_encoding_enabled is True
    assert options.cache_enabled is True
    assert options.cache_size == 1024
    assert options.stack_trace_enabled is False
    assert options.size_prefix_disabled is False
    assert options.tcp_no_delay_enabled is True
    assert options.frame_bytes_max == 104857600
    assert options.max_inactivity_duration_ms == 0
    assert options.max_inactivity_initial_delay_ms == 500
    assert options.version == 9


def test_both_spellings_of_the_initial_delay_are_understood() -> None:
    uri = parse_listener_uri("tcp://localhost?wireFormat.maxInactivityDurationInitialDelay=7")
    assert uri.wire_format.max_inactivity_initial_delay_ms == 7


def test_connection_limit_can_be_set_for_one_listener() -> None:
    assert parse_listener_uri("tcp://localhost?maximumConnections=5").connections_max == 5


def test_tls_options_are_typed_and_the_password_stays_out_of_sight() -> None:
    uri = parse_listener_uri(
        "ssl://localhost?certFile=/a+b/c%20d.pem&keyFile=k.pem&keyPassword=s%26cret&caFile=ca.pem&needClientAuth=true"
    )
    assert uri.tls_options is not None
    assert uri.tls_options.cert_file == "/a+b/c d.pem"
    assert uri.tls_options.key_password == "s&cret"
    assert uri.tls_options.client_auth is ClientAuth.NEED
    assert "s&cret" not in repr(uri)
    assert "s&cret" not in str(uri)


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("wantClientAuth=true", ClientAuth.WANT),
        ("transport.needClientAuth=true", ClientAuth.NEED),
        ("transport.wantClientAuth=true", ClientAuth.WANT),
        ("wantClientAuth=true&needClientAuth=true", ClientAuth.NEED),
    ],
)
def test_client_authentication_follows_activemq_names(option: str, expected: ClientAuth) -> None:
    uri = parse_listener_uri(f"ssl://localhost?certFile=c.pem&caFile=ca.pem&{option}")
    assert uri.tls_options is not None
    assert uri.tls_options.client_auth is expected


def test_unknown_scheme_is_named_with_what_is_known() -> None:
    message = refusal("tpc://localhost:61616")
    assert message.startswith('tpc://localhost:61616: unknown scheme "tpc"; did you mean "tcp"?')
    assert "known schemes: tcp, nio, ssl" in message


@pytest.mark.parametrize("text", ["", "localhost", "localhost:61616", "tcp:localhost", "tcp:/x"])
def test_what_is_no_uri_is_told_what_one_looks_like(text: str) -> None:
    assert "tcp://127.0.0.1:61616" in refusal(text)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("wireFormat.tightEncoding=true", 'did you mean "wireFormat.tightEncodingEnabled"?'),
        ("maximumconnections=3", 'did you mean "maximumConnections"?'),
        ("amp;wireFormat.cacheSize=0", 'did you mean "wireFormat.cacheSize"?'),
        ("zzz=1", "known options: wireFormat.tightEncodingEnabled, "),
        ("keyFile=k.pem", "keyFile is not used by tcp listeners, only by ssl, nio+ssl, "),
        ("transport.needClientAuth=true", "transport.needClientAuth is not used by tcp listeners"),
        ("maximumConnections", 'option "maximumConnections" has no value'),
        ("maximumConnections=1&maximumConnections=2", "maximumConnections is given twice"),
        (
            "wireFormat.maxInactivityDurationInitalDelay=1&wireFormat.maxInactivityDurationInitialDelay=1",
            "given twice",
        ),
    ],
)
def test_option_that_cannot_be_used_is_named(option: str, said: str) -> None:
    assert said in refusal(f"tcp://localhost?{option}")


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("wireFormat.cacheEnabled=yes", 'wireFormat.cacheEnabled must be true or false, and is "yes"'),
        ("wireFormat.version=0", "from 1 to 12"),
        ("wireFormat.version=13", "from 1 to 12"),
        ("wireFormat.version=９", "from 1 to 12"),
        ("wireFormat.maxFrameSize=-1", "from 1024 to 2147483647"),
        pytest.param("wireFormat.maxFrameSize=" + "9" * 10_000, "from 1024 to 2147483647", id="long number"),
        ("maximumConnections=0", "from 1 to"),
        ("maximumConnections=", 'and is ""'),
    ],
)
def test_value_that_cannot_be_used_is_named_with_its_range(option: str, said: str) -> None:
    assert said in refusal(f"tcp://localhost?{option}")


@pytest.mark.parametrize("size", [1, 99])
def test_cache_size_that_hangs_java_clients_is_refused_with_the_reason(size: int) -> None:
    message = refusal(f"tcp://localhost?wireFormat.cacheSize={size}")
    assert "must be 0 or from 100" in message
    assert "Java client spins for ever" in message


@pytest.mark.parametrize("size", [0, 100, 16383])
def test_other_cache_sizes_are_accepted(size: int) -> None:
    assert parse_listener_uri(f"tcp://h?wireFormat.cacheSize={size}").wire_format.cache_size == size


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tcp://:61616", "host is missing"),
        ("tcp://", "host is missing"),
        ("tcp://localhost:65536", "from 0 to 65535"),
        ("tcp://localhost:-1", "from 0 to 65535"),
        ("tcp://localhost:x", "from 0 to 65535"),
        ("tcp://[::1", "invalid ipv6"),
        ("tcp://[zz::1]:1", "ip"),
        ("tcp://a b:1", "no spaces"),
        ("tcp://a\nb:1", "no spaces or control characters"),
        ("tcp://a,b:1", "not a host name"),
        ("tcp://-a:1", "not a host name"),
        ("tcp://user:secret@host:1", "nothing else"),
        ("tcp://host:1/path", "nothing else"),
        ("tcp://host:1#part", "nothing else"),
    ],
)
def test_malformed_address_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_listener_uri(text)
    assert said in str(caught.value).lower()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "needs the option certFile"),
        ("?certFile=", "certFile has no value"),
        ("?certFile=c&needClientAuth=true", "needClientAuth needs caFile"),
        ("?certFile=c&wantClientAuth=true", "wantClientAuth needs caFile"),
        ("?certFile=c&caFile=ca", "caFile is only used with"),
    ],
)
def test_tls_options_must_fit_together(query: str, said: str) -> None:
    assert said in refusal(f"ssl://localhost{query}")


def test_no_refusal_shows_the_password() -> None:
    assert "hidden" not in refusal("ssl://localhost?keyPassword=hidden&certFiel=c.pem")
    assert "hidden" not in refusal("sls://localhost?keyPassword=hidden")
    assert mask_secrets("ssl://h?keyPassword=hidden&certFile=c") == "ssl://h?keyPassword=***&certFile=c"


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("[::1]", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("[::]", False),
        ("10.0.0.1", False),
        ("example.org", False),
    ],
)
def test_loopback_is_told_from_the_network(host: str, expected: bool) -> None:
    assert parse_listener_uri(f"tcp://{host}:1").is_loopback is expected


# --- TLS -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pems(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with ca.pem, and key and certificate of two servers."""
    folder = tmp_path_factory.mktemp("pems")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    for name in ("one", "two"):
        server = authority.issue_cert("localhost")
        server.private_key_pem.write_to_path(str(folder / f"{name}-key.pem"))
        server.cert_chain_pems[0].write_to_path(str(folder / f"{name}.pem"))
        server.private_key_and_cert_chain_pem.write_to_path(str(folder / f"{name}-both.pem"))
    (folder / "text.pem").write_text("no certificate")
    (folder / "damaged.pem").write_text("-----BEGIN CERTIFICATE-----\n%%%\n-----END CERTIFICATE-----\n")
    return folder


def context_for(pems: Path, query: str) -> ssl.SSLContext:
    return server_context(parse_listener_uri(f"ssl://localhost?{query}".replace("@", f"{pems}/")))


@pytest.mark.parametrize("query", ["certFile=@one.pem&keyFile=@one-key.pem", "certFile=@one-both.pem"])
def test_tls_context_is_for_version_1_2_and_later(pems: Path, query: str) -> None:
    context = context_for(pems, query)
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.verify_mode is ssl.CERT_NONE


@pytest.mark.parametrize(
    ("option", "mode"), [("needClientAuth", ssl.CERT_REQUIRED), ("wantClientAuth", ssl.CERT_OPTIONAL)]
)
def test_tls_context_asks_for_client_certificates(pems: Path, option: str, mode: ssl.VerifyMode) -> None:
    context = context_for(pems, f"certFile=@one-both.pem&caFile=@ca.pem&{option}=true")
    assert context.verify_mode is mode


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("certFile=@none.pem", "none.pem cannot be read: no such file or directory"),
        ("certFile=@.", "cannot be read: is a directory"),
        ("certFile=@one.pem", "one.pem holds no private key in PEM format"),
        ("certFile=@text.pem", "text.pem holds no certificate in PEM format"),
        ("certFile=@one.pem&keyFile=@none.pem", "none.pem cannot be read"),
        ("certFile=@one.pem&keyFile=@two-key.pem", "two-key.pem does not match the certificate in "),
        ("certFile=@damaged.pem&keyFile=@one-key.pem", "damaged.pem or "),
        ("certFile=@one-both.pem&needClientAuth=true&caFile=@none.pem", "none.pem cannot be read"),
        ("certFile=@one-both.pem&needClientAuth=true&caFile=@damaged.pem", "damaged.pem cannot be used"),
    ],
)
def test_tls_file_that_cannot_be_used_is_named(pems: Path, query: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        context_for(pems, query)
    assert said in str(caught.value)
    assert str(caught.value).startswith("ssl://localhost:61617: ")
    assert "\n" not in str(caught.value)


def test_encrypted_key_asks_for_its_password_in_the_uri_and_never_on_the_terminal(pems: Path, tmp_path: Path) -> None:
    key = load_pem_private_key((pems / "one-key.pem").read_bytes(), None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"right"))
    (tmp_path / "locked.pem").write_bytes(locked)
    query = f"certFile=@one.pem&keyFile={tmp_path}/locked.pem"
    with pytest.raises(ConfigError, match=r"locked.pem is encrypted; .* option keyPassword"):
        context_for(pems, query)
    with pytest.raises(ConfigError, match="keyPassword is wrong") as caught:
        context_for(pems, f"{query}&keyPassword=wrong")
    assert "=wrong" not in str(caught.value)
    context_for(pems, f"{query}&keyPassword=right")

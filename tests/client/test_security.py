"""TLS with verification, credentials, and client ids that belong to one connection (A1, J1)."""

from pathlib import Path
from typing import Any, Final

import pytest
import trustme

import ackwire
from ackwire import ConnectionFactory
from tests.client.brokers import Broker
from tests.client.conftest import Connect
from tests.client.steps import drain, send, texts
from tests.conformance.jms import with_options
from tests.helpers.processes import running_broker

BROKER_VARIANT = "users"
ALICE: Final[dict[str, Any]] = {"user_name": "alice", "password": "her-password"}

only_activemq = pytest.mark.only_on("activemq", reason="our broker knows no passwords yet")


# ---- TLS -------------------------------------------------------------------------------------------------------


def tls_url(broker: Broker, host: str = "127.0.0.1", **options: object) -> str:
    return with_options(f"ssl://{host}:{broker.running.ports[1]}", **options)


def test_J1_ssl_with_the_right_authority_works(broker: Broker, connect: Connect, queue: str) -> None:
    """J1: the certificate is verified against caFile, the name against the address."""
    for host in ("127.0.0.1", "localhost"):
        connection = connect(tls_url(broker, host, caFile=broker.authority), **ALICE)
        send(connection, queue, host)
        assert texts(drain(connection, queue)) == [host]


@pytest.mark.parametrize("scheme", ["ssl", "nio+ssl", "auto+ssl", "auto+nio+ssl"])
def test_J1_every_scheme_with_tls_is_one_to_a_client(broker: Broker, connect: Connect, scheme: str) -> None:
    """J1: what tells them apart is the broker's business."""
    url = tls_url(broker, caFile=broker.authority).replace("ssl://", f"{scheme}://")
    assert connect(url, **ALICE).is_connected


@pytest.mark.parametrize("scheme", ["tcp", "nio", "auto", "auto+nio"])
def test_J1_every_scheme_without_tls_is_one_to_a_client(broker: Broker, connect: Connect, scheme: str) -> None:
    """J1."""
    assert connect(broker.url.replace("tcp://", f"{scheme}://"), **ALICE).is_connected


def test_J1_ssl_with_another_authority_is_refused(broker: Broker, tmp_path: Path) -> None:
    """J1: and with those that the system trusts; the error says what to set."""
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(other)
    choices: list[dict[str, Any]] = [{"caFile": other}, {}]
    for options in choices:
        with pytest.raises(ackwire.ConnectionFailedError, match=r"not trusted.*caFile"):
            ackwire.connect(tls_url(broker, **options), **ALICE)


def test_J1_ssl_with_a_name_that_the_certificate_does_not_have_is_refused(broker: Broker, connect: Connect) -> None:
    """J1: 127.1 is 127.0.0.1 to the system, and another name to the certificate."""
    with pytest.raises(ackwire.ConnectionFailedError, match=r"not for 127\.1.*verifyHostName"):
        ackwire.connect(tls_url(broker, "127.1", caFile=broker.authority), **ALICE)
    unchecked = tls_url(broker, "127.1", caFile=broker.authority, verifyHostName=False)
    assert connect(unchecked, **ALICE).is_connected


def test_J1_a_missing_authority_is_found_before_connecting(broker: Broker, tmp_path: Path) -> None:
    """J1: an error of configuration that names the file; trying again would not help."""
    with pytest.raises(ackwire.errors.ConfigError, match=r"nowhere\.pem"):
        ackwire.connect(tls_url(broker, caFile=tmp_path / "nowhere.pem"), **ALICE)


def test_J1_tls_and_plain_text_do_not_mix(broker: Broker) -> None:
    """J1: either way the error says so, or that the other side left, whichever is noticed first."""
    with pytest.raises(ackwire.ConnectionFailedError, match=r"does not seem to speak TLS|during the TLS handshake"):
        ackwire.connect(f"ssl://127.0.0.1:{broker.port}?caFile={broker.authority}")
    with pytest.raises(ackwire.ConnectionFailedError):
        ackwire.connect(f"tcp://127.0.0.1:{broker.running.ports[1]}?connectAttemptTimeout=2000&negotiateTimeout=2000")


def test_J1_a_broker_may_ask_for_the_clients_certificate(tmp_path: Path) -> None:
    """J1: certFile and keyFile; our broker, with needClientAuth. Without one, or with a stranger's, nobody gets in."""
    authority, stranger = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    authority.issue_cert("client").private_key_and_cert_chain_pem.write_to_path(tmp_path / "client.pem")
    stranger.issue_cert("client").private_key_and_cert_chain_pem.write_to_path(tmp_path / "stranger.pem")
    server, ca = tmp_path / "server.pem", tmp_path / "ca.pem"
    listener = f"ssl://127.0.0.1:0?keyFile={server}&certFile={server}&caFile={ca}&needClientAuth=true"
    with running_broker([listener], log_path=tmp_path / "broker.log") as running:
        url = with_options(f"ssl://127.0.0.1:{running.ports[0]}", caFile=ca)
        with ackwire.connect(with_options(url, certFile=tmp_path / "client.pem")) as connection:
            assert connection.is_connected
        for refused in (url, with_options(url, certFile=tmp_path / "stranger.pem")):
            with pytest.raises(ackwire.ConnectionFailedError):
                ackwire.connect(refused)


# ---- credentials -----------------------------------------------------------------------------------------------


def test_A1_credentials_from_anywhere_let_in(broker: Broker, connect: Connect) -> None:
    """A1: as arguments, in the URL, on the factory, for one connection."""
    assert connect(**ALICE).is_connected
    assert connect(broker.url_with(jms__userName="alice", jms__password="her-password")).is_connected
    with ConnectionFactory(broker.url, **ALICE).create_connection() as connection:
        connection.start()
    with ConnectionFactory(broker.url).create_connection("alice", "her-password") as connection:
        connection.start()


@only_activemq
@pytest.mark.parametrize(
    "credentials", [{}, {"user_name": "alice", "password": "wrong"}, {"user_name": "bob", "password": "her-password"}]
)
@pytest.mark.parametrize("failover", [False, True], ids=["direct", "failover"])
def test_A1_bad_credentials_are_refused(broker: Broker, credentials: dict[str, Any], failover: bool) -> None:
    """A1: at once, with failover too; the password is nowhere in the error."""
    url = f"failover:({broker.url})" if failover else broker.url
    with pytest.raises(ackwire.JMSSecurityError) as refused:
        ackwire.connect(url, **credentials)
    assert credentials.get("password", "wrong") not in f"{refused.value}{refused.value.__cause__}"


@only_activemq
def test_A1_a_connection_of_a_factory_is_refused_when_it_is_used(broker: Broker) -> None:
    """A1: it logs in then; closing it is fine."""
    connection = ConnectionFactory(broker.url).create_connection("alice", "wrong")
    with pytest.raises(ackwire.JMSSecurityError):
        connection.session()
    connection.close()


def test_A1_a_password_is_never_shown(broker: Broker, connect: Connect) -> None:
    """A1: not by the factory, its options or the connection."""
    factory = ConnectionFactory(broker.url_with(jms__userName="alice", jms__password="her-password"))
    connection = connect(**ALICE)
    shown = f"{factory!r}{factory.url!r}{factory.url}{factory.options!r}{connection!r}{connection.options!r}"
    assert "her-password" not in shown


# ---- client ids ------------------------------------------------------------------------------------------------


def test_A1_a_client_id_is_in_use_until_its_connection_closes(connect: Connect, topic: str) -> None:
    """A1: InvalidClientIdError, also with failover and with TLS; then it is free."""
    first = connect(client_id=topic, **ALICE)
    with pytest.raises(ackwire.InvalidClientIdError):
        connect(client_id=topic, **ALICE)
    first.close()
    assert connect(client_id=topic, **ALICE).client_id == topic


def test_A1_a_refused_connection_may_try_another_client_id(broker: Broker, connect: Connect, topic: str) -> None:
    """A1: the connection itself is closed by `connect`, one of a factory says the same again."""
    connect(client_id=topic, **ALICE)
    with ConnectionFactory(broker.url, client_id=topic, **ALICE).create_connection() as connection:
        for _ in range(2):
            with pytest.raises((ackwire.InvalidClientIdError, ackwire.ConnectionFailedError)):
                connection.session()


def test_A1_a_client_id_is_set_before_anything_else(broker: Broker, connect: Connect, topic: str) -> None:
    """A1: once, and not when the connection is in use."""
    with ConnectionFactory(broker.url, **ALICE).create_connection() as connection:
        connection.client_id = topic
        with pytest.raises(ackwire.IllegalStateError, match="already"):
            connection.client_id = "another"
        connection.start()
        assert connection.client_id == topic
    started = connect(**ALICE)
    with pytest.raises(ackwire.IllegalStateError):
        started.client_id = topic
    with (
        ConnectionFactory(broker.url, **ALICE).create_connection() as connection,
        pytest.raises(ackwire.InvalidClientIdError),
    ):
        connection.client_id = ""


def test_A1_client_ids_that_are_made_up_have_the_prefix_that_was_asked_for(broker: Broker, connect: Connect) -> None:
    """A1: jms.clientIDPrefix; no two are the same."""
    url = broker.url_with(jms__clientIDPrefix="billing")
    ids = {connect(url, **ALICE).client_id for _ in range(3)}
    assert len(ids) == 3
    assert all(client_id is not None and client_id.startswith("billing") for client_id in ids)

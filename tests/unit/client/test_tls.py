"""TLS options of the client, up to the handshake; `tests/system/test_client_transports.py` does handshakes."""

import ssl
from pathlib import Path

import pytest
import trustme

from ackwire.client.options import TlsOptions
from ackwire.client.tls import client_context, openssl_name
from ackwire.errors import ConfigError


def names(context: ssl.SSLContext) -> set[str]:
    return {cipher["name"] for cipher in context.get_ciphers()}


def test_certificate_and_host_name_are_checked_and_old_versions_refused_by_default() -> None:
    context = client_context(TlsOptions())
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_only_the_check_of_the_host_name_can_be_turned_off() -> None:
    context = client_context(TlsOptions(verify_host_name=False))
    assert not context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("given", "lowest", "highest"),
    [
        (("TLSv1.3",), ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3),
        (("TLSv1.2",), ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2),
        (("TLSv1.3", "TLSv1.2"), ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3),
        (("TLSv1.1", "TLSv1.2"), ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2),
    ],
)
def test_enabled_protocols_set_the_range(
    given: tuple[str, ...], lowest: ssl.TLSVersion, highest: ssl.TLSVersion
) -> None:
    context = client_context(TlsOptions(enabled_protocols=given))
    assert (context.minimum_version, context.maximum_version) == (lowest, highest)


@pytest.mark.parametrize(
    ("standard", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384"),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ],
)
def test_java_names_of_suites_are_understood(standard: str, openssl: str) -> None:
    assert openssl_name(standard) == openssl
    context = client_context(TlsOptions(enabled_cipher_suites=(standard,)))
    assert openssl in names(context)
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2, "no suite of TLS 1.3 is among them"


def test_suites_of_both_versions_allow_both() -> None:
    suites = ("TLS_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
    context = client_context(TlsOptions(enabled_cipher_suites=suites))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.maximum_version is not ssl.TLSVersion.TLSv1_2
    only = client_context(TlsOptions(enabled_cipher_suites=("TLS_AES_128_GCM_SHA256",)))
    assert only.minimum_version is ssl.TLSVersion.TLSv1_3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (TlsOptions(enabled_protocols=("TLSv1.4",)), "TLSv1.4 is not known"),
        (TlsOptions(enabled_protocols=("SSLv3", "TLSv1")), "SSLv3, TLSv1 are broken"),
        (TlsOptions(enabled_cipher_suites=("TLS_NULL_WITH_NONSENSE",)), "NULL-NONSENSE is not known"),
        (
            TlsOptions(enabled_protocols=("TLSv1.2",), enabled_cipher_suites=("TLS_AES_128_GCM_SHA256",)),
            "none of them belongs to one of enabledProtocols",
        ),
        (TlsOptions(ca_file="/no/such.pem"), "/no/such.pem cannot be read: no such file"),
        (TlsOptions(key_file="/no/such.pem"), "keyFile needs certFile"),
    ],
)
def test_what_cannot_be_used_is_named(options: TlsOptions, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        client_context(options)
    assert words in str(caught.value)


def test_files_at_fault_are_named(tmp_path: Path) -> None:
    authority = trustme.CA()
    one, two = authority.issue_cert("one"), authority.issue_cert("two")
    cert, key, text = (str(tmp_path / name) for name in ("one.pem", "two.key", "text.pem"))
    one.cert_chain_pems[0].write_to_path(cert)
    two.private_key_pem.write_to_path(key)
    Path(text).write_text("nothing")
    cases = {
        f"the private key in {key} does not match the certificate in {cert}": TlsOptions(cert_file=cert, key_file=key),
        f"{cert} holds no private key in PEM format": TlsOptions(cert_file=cert),
        f"{text} holds no certificate in PEM format": TlsOptions(ca_file=text),
    }
    for words, options in cases.items():
        with pytest.raises(ConfigError) as caught:
            client_context(options)
        assert str(caught.value) == words

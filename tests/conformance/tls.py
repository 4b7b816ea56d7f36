"""A certificate for 127.0.0.1, in every shape that a broker or client here wants."""

from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12
from cryptography.x509 import load_pem_x509_certificate

STORE_PASSWORD = "conformance"
_ENCRYPTION = BestAvailableEncryption(STORE_PASSWORD.encode())


@dataclass(frozen=True)
class TlsFiles:
    authority: Path
    key: Path
    certificate: Path
    key_store: Path  # both of them, for the real ActiveMQ
    trust_store: Path  # the authority, for the Java client


def make_tls_files(folder: Path) -> TlsFiles:
    """Make an authority and a server certificate in *folder*."""
    authority = trustme.CA()
    server = authority.issue_cert("127.0.0.1", "localhost")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    server.private_key_pem.write_to_path(folder / "server.key")
    for certificate in server.cert_chain_pems:
        certificate.write_to_path(folder / "server.pem", append=True)
    (folder / "server.p12").write_bytes(_key_store(server))
    (folder / "trust.p12").write_bytes(_trust_store(authority))
    return TlsFiles(
        authority=folder / "ca.pem",
        key=folder / "server.key",
        certificate=folder / "server.pem",
        key_store=folder / "server.p12",
        trust_store=folder / "trust.p12",
    )


def _key_store(server: trustme.LeafCert) -> bytes:
    key = load_pem_private_key(server.private_key_pem.bytes(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    certificate = load_pem_x509_certificate(server.cert_chain_pems[0].bytes())
    return pkcs12.serialize_key_and_certificates(b"server", key, certificate, None, _ENCRYPTION)


def _trust_store(authority: trustme.CA) -> bytes:
    certificate = pkcs12.PKCS12Certificate(load_pem_x509_certificate(authority.cert_pem.bytes()), b"ca")
    return pkcs12.serialize_java_truststore([certificate], _ENCRYPTION)

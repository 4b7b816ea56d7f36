"""Certificates, keys and authorities from PEM files into an `ssl.SSLContext`, for listeners and for clients.

Whatever is wrong with a file is said in one line that names it, because OpenSSL's own messages name neither file nor
remedy. Files are read when the context is made, so that a mistake is found before anything listens or connects.
"""

import ssl
from pathlib import Path

from ackwire.errors import ConfigError


def load_authorities(context: ssl.SSLContext, ca_file: str) -> None:
    """Trust the certificates in *ca_file*. Raises `ConfigError` naming the file."""
    _require_pem(ca_file, b"CERTIFICATE-----", "certificate")
    try:
        context.load_verify_locations(ca_file)
    except ssl.SSLError as error:
        raise ConfigError(f"{ca_file} cannot be used: {error.reason or error}") from None


def load_certificate(context: ssl.SSLContext, cert_file: str, key_file: str | None, key_password: str | None) -> None:
    """Be who *cert_file* says; without a *key_file* the key is in there, too. Raises `ConfigError` naming the file."""
    key_file = key_file or cert_file
    _require_pem(cert_file, b"CERTIFICATE-----", "certificate")
    _require_pem(key_file, b"PRIVATE KEY-----", "private key")
    asked = False

    def password() -> str:
        # Given even when there is none, or OpenSSL would ask for it on the terminal.
        nonlocal asked
        asked = True
        return key_password or ""

    try:
        context.load_cert_chain(cert_file, key_file, password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            problem = f"the private key in {key_file} does not match the certificate in {cert_file}"
        elif asked and key_password is None:
            problem = f"the private key in {key_file} is encrypted; give its password with the option keyPassword"
        elif asked:
            problem = f"the private key in {key_file} cannot be read: keyPassword is wrong, or the file is damaged"
        else:
            problem = f"{cert_file} or {key_file} cannot be used: {error.reason or error}"
        raise ConfigError(problem) from None


def _require_pem(file: str, marker: bytes, content: str) -> None:
    try:
        data = Path(file).read_bytes()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {(error.strerror or str(error)).lower()}") from None
    if marker not in data:
        raise ConfigError(f"{file} holds no {content} in PEM format")

"""TLS for listeners: an `ssl.SSLContext` from the options of a listener URI.

Whatever is wrong with the files is found here, at start, and said in one line that names the file; OpenSSL's
own messages name neither file nor remedy.
"""

import ssl
from pathlib import Path

from ackwire.errors import ConfigError
from ackwire.listener_uri import ClientAuth, ListenerUri, TlsOptions

_VERIFY_MODES = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.WANT: ssl.CERT_OPTIONAL,
    ClientAuth.NEED: ssl.CERT_REQUIRED,
}


def server_context(uri: ListenerUri) -> ssl.SSLContext:
    """The server side of TLS 1.2 or later for *uri*. Raises `ConfigError` naming the file at fault."""
    options = uri.tls_options
    assert options is not None, f"{uri} does not use TLS"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        _load_certificate(context, options)
        if options.ca_file is not None:
            _load_authorities(context, options.ca_file)
    except ConfigError as error:
        raise ConfigError(f"{uri}: {error}") from None
    context.verify_mode = _VERIFY_MODES[options.client_auth]
    return context


def _load_certificate(context: ssl.SSLContext, options: TlsOptions) -> None:
    cert_file, key_file = options.cert_file, options.key_file or options.cert_file
    _require_pem(cert_file, b"CERTIFICATE-----", "certificate")
    _require_pem(key_file, b"PRIVATE KEY-----", "private key")
    asked = False

    def password() -> str:
        # Given even when there is none, or OpenSSL would ask for it on the terminal.
        nonlocal asked
        asked = True
        return options.key_password or ""

    try:
        context.load_cert_chain(cert_file, key_file, password)
    except ssl.SSLError as error:
        problem = _certificate_problem(error, cert_file, key_file, options, encrypted=asked)
        raise ConfigError(problem) from None


def _certificate_problem(
    error: ssl.SSLError, cert_file: str, key_file: str, options: TlsOptions, *, encrypted: bool
) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"the private key in {key_file} does not match the certificate in {cert_file}"
    if encrypted and options.key_password is None:
        return f"the private key in {key_file} is encrypted; give its password with the option keyPassword"
    if encrypted:
        return f"the private key in {key_file} cannot be read: keyPassword is wrong, or the file is damaged"
    return f"{cert_file} or {key_file} cannot be used: {error.reason or error}"


def _load_authorities(context: ssl.SSLContext, ca_file: str) -> None:
    _require_pem(ca_file, b"CERTIFICATE-----", "certificate")
    try:
        context.load_verify_locations(ca_file)
    except ssl.SSLError as error:
        raise ConfigError(f"{ca_file} cannot be used: {error.reason or error}") from None


def _require_pem(file: str, marker: bytes, content: str) -> None:
    try:
        data = Path(file).read_bytes()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {(error.strerror or str(error)).lower()}") from None
    if marker not in data:
        raise ConfigError(f"{file} holds no {content} in PEM format")

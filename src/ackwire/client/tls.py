"""TLS of the client: an `ssl.SSLContext` from the options of an ssl:// URI, and words for what goes wrong with it.

Certificate and host name are checked, and TLS is 1.2 or later, unless an option says otherwise; nothing turns the check
of the certificate off. Whatever is wrong with the files is found before connecting and said in one line that names
the file, because trying again does not help.
"""

import logging
import ssl
from typing import Final

from ackwire.client.options import TlsOptions
from ackwire.errors import ConfigError
from ackwire.util.pem import load_authorities, load_certificate

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_OLD_VERSIONS: Final = ("SSLv2Hello", "SSLv2", "SSLv3", "TLSv1", "TLSv1.1")
_NAME_MISMATCHES: Final = (62, 64)  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH

_log = logging.getLogger(__name__)


def client_context(options: TlsOptions) -> ssl.SSLContext:
    """The client side of TLS. Raises `ConfigError` naming the file or option at fault."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # which checks certificate and host name
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if options.ca_file is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        load_authorities(context, options.ca_file)
    context.check_hostname = options.verify_host_name
    if options.cert_file is not None:
        load_certificate(context, options.cert_file, options.key_file, options.key_password)
    elif options.key_file is not None:
        raise ConfigError("keyFile needs certFile: a key without its certificate is of no use")
    if options.enabled_protocols:
        _set_versions(context, options.enabled_protocols)
    if options.enabled_cipher_suites:
        _set_suites(context, options.enabled_cipher_suites)
    return context


def tls_problem(error: ssl.SSLError, host: str) -> str:
    """What went wrong in a handshake with *host*, and what to do about it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message.rstrip(".")
        if error.verify_code in _NAME_MISMATCHES:
            return f"the broker's certificate is not for {host}: {reason} (verifyHostName=false turns this check off)"
        return f"the broker's certificate is not trusted: {reason} (caFile says whose certificates are)"
    if error.reason in ("WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL"):
        return "the TLS handshake failed: the other side does not seem to speak TLS"
    reason = error.reason.lower().replace("_", " ") if error.reason else str(error)
    return f"the TLS handshake failed: {reason}"


# ---- versions and suites ---------------------------------------------------------------------------------------


def _set_versions(context: ssl.SSLContext, names: tuple[str, ...]) -> None:
    """As a range from the lowest to the highest: OpenSSL knows nothing else."""
    for name in names:
        if name in _OLD_VERSIONS:
            _log.warning("enabledProtocols: %s is broken and not used", name)
        elif name not in _VERSIONS:
            raise ConfigError(f"enabledProtocols: {name} is not known; there are {' and '.join(_VERSIONS)}")
    versions = [_VERSIONS[name] for name in names if name in _VERSIONS]
    if not versions:
        raise ConfigError(f"enabledProtocols: {', '.join(names)} are broken; there are {' and '.join(_VERSIONS)}")
    context.minimum_version = min(versions)
    context.maximum_version = max(versions)


def _set_suites(context: ssl.SSLContext, names: tuple[str, ...]) -> None:
    """Suites by OpenSSL's names or by Java's.

    Which suites of TLS 1.3 are used cannot be chosen in Python: naming one of them allows all, naming none turns
    TLS 1.3 off, as it does in Java.
    """
    older = [openssl_name(name) for name in names if not _is_tls13(name)]
    if len(older) == len(names):
        context.maximum_version = min(context.maximum_version, ssl.TLSVersion.TLSv1_2, key=_order)
    if not older:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    else:
        _set_older_suites(context, older)
    if _order(context.minimum_version) > _order(context.maximum_version):
        raise ConfigError("enabledCipherSuites: none of them belongs to one of enabledProtocols")


def _set_older_suites(context: ssl.SSLContext, names: list[str]) -> None:
    for name in names:
        try:
            context.set_ciphers(name)
        except ssl.SSLError:
            raise ConfigError(f"enabledCipherSuites: {name} is not known to this machine's OpenSSL") from None
    context.set_ciphers(":".join(names))


def _order(version: ssl.TLSVersion) -> int:
    """Versions in order; the special values for "highest" is a negative number."""
    return int(version) if version > 0 else 1 << 16


def _is_tls13(name: str) -> bool:
    return name.startswith("TLS_") and "_WITH_" not in name


def openssl_name(name: str) -> str:
    """OpenSSL's name of a suite that is given by its name in the standard, as Java has it; others stay as they are."""
    if not name.startswith("TLS_"):
        return name
    exchange, _, cipher = name.removeprefix("TLS_").partition("_WITH_")
    cipher = cipher.replace("AES_128", "AES128").replace("AES_256", "AES256").replace("_CBC_", "_")
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    return (cipher if exchange == "RSA" else f"{exchange}_{cipher}").replace("_", "-")

"""TLS for listeners: an `ssl.SSLContext` from the options of a listener URI.

Mistakes in the files (pem.py) are found here, at start, and reported with the listener that names them.
"""

import ssl

from ackwire.config.listener_uri import ClientAuth, ListenerUri
from ackwire.errors import ConfigError
from ackwire.util.pem import load_authorities, load_certificate

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
    load_files(context, uri)
    context.verify_mode = _VERIFY_MODES[options.client_auth]
    return context


def load_files(context: ssl.SSLContext, uri: ListenerUri) -> None:
    """Put certificate, key and authorities of *uri* into *context*. Raises `ConfigError` naming the file at fault."""
    options = uri.tls_options
    assert options is not None, f"{uri} does not use TLS"
    try:
        load_certificate(context, options.cert_file, options.key_file, options.key_password)
        if options.ca_file is not None:
            load_authorities(context, options.ca_file)
    except ConfigError as error:
        raise ConfigError(f"{uri}: {error}") from None

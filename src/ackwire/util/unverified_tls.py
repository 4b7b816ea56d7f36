"""TLS that hides what is said from listeners, and does not ask who the other side is."""

import ssl


def unverified_tls() -> ssl.SSLContext:
    """A context for clients that checks no certificate, and so reads none: the authorities of a system take 25 ms."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context

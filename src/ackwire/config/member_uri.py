"""The URI of a broker as clients are told it: of this one, and of the others of its group."""

import re
import socket
from typing import Final

from ackwire.config.listener_uri import parse_listener_uri
from ackwire.errors import ConfigError

_PORT_MAX: Final = 65_535
_SCHEME: Final = r"(tcp|nio|ssl|nio\+ssl|auto|auto\+ssl)"
_URI: Final = re.compile(rf"{_SCHEME}://[^\s,/?@]+:[0-9]{{1,5}}/?(\?[^\s,()]*)?")


def check_member(text: str) -> None:
    """Raise `ConfigError` if *text* is no URI that clients can be told."""
    if not _URI.fullmatch(text):
        raise ConfigError(f'must be like "tcp://host:61616", without commas, and is "{text}"')


def check_bind(text: str) -> None:
    """Raise `ConfigError` if *text* is no address that nodes can listen on."""
    bind_address(text)


def bind_address(text: str) -> tuple[str, int]:
    """Host and port of `tcp://host:port`. Raises `ConfigError`."""
    host, colon, port = text.removeprefix("tcp://").rpartition(":")
    if "/" in host or not host or not colon or not port.isdecimal() or int(port) > _PORT_MAX:
        raise ConfigError(f'must be like "tcp://127.0.0.1:61619", and is "{text}"')
    return host.strip("[]"), int(port)


def own_uri(uri: str, listen_uris: tuple[str, ...]) -> str:
    """Where clients reach this broker: *uri* if it says so, else the first listener; empty if there is none."""
    if uri:
        return uri
    if not listen_uris:
        return ""
    listener = parse_listener_uri(listen_uris[0])
    is_everywhere = listener.host in ("0.0.0.0", "::")  # noqa: S104 - compared, not bound
    host = socket.gethostname() if is_everywhere else listener.host
    scheme = "ssl" if listener.tls else "tcp"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{listener.port}"

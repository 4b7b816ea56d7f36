"""Listener URIs: `scheme://host:port?option=value&…`, read into a typed, frozen value (SEMANTICS J1).

Only the grammar lives here: nothing is resolved, opened or bound. Every option is declared once, in
`_OPTIONS`; an unknown scheme, an unknown option and an option that the scheme does not use are errors that
name it. An option that was not given is `None`: take the value from the settings.

Error messages quote the URI up to its `?` only, because what follows may hold a password.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import AddressValueError, IPv6Address, ip_address
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlsplit

from ackwire.errors import ConfigError

SCHEMES: Final = ("tcp", "nio", "ssl", "nio+ssl", "auto", "auto+nio", "auto+ssl", "auto+nio+ssl")
PORT_DEFAULT: Final = 61616
PORT_DEFAULT_TLS: Final = 61617

FRAME_BYTES_LOWEST: Final = 1024
"""Below this not even the handshake fits."""
FRAME_BYTES_HIGHEST: Final = 2**31 - 1
"""The size prefix of a frame is a signed 32-bit number."""
INACTIVITY_MS_HIGHEST: Final = 86_400_000
"""A day: a peer silent for longer is gone; 0 turns the check off for those who want that."""
CACHE_SIZE_LOWEST: Final = 100
CACHE_SIZE_HIGHEST: Final = 16_383
"""Slots of the marshalling cache: a Java peer takes 0 for this many, and none above it."""


class ClientAuth(Enum):
    """What a TLS listener asks of a client's certificate."""

    NONE = "none"
    WANT = "want"
    NEED = "need"


@dataclass(frozen=True, slots=True)
class WireFormatOptions:
    """The `wireFormat.*` options: what this listener offers in its WireFormatInfo; None = not given."""

    tight_encoding_enabled: bool | None = None
    cache_enabled: bool | None = None
    cache_size: int | None = None
    stack_trace_enabled: bool | None = None
    size_prefix_disabled: bool | None = None
    tcp_no_delay_enabled: bool | None = None
    frame_bytes_max: int | None = None
    max_inactivity_duration_ms: int | None = None
    max_inactivity_initial_delay_ms: int | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """Where a TLS listener finds its certificate, and whether clients must show one."""

    cert_file: str
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    client_auth: ClientAuth = ClientAuth.NONE


@dataclass(frozen=True, slots=True)
class ListenerUri:
    """One address to listen on; make it with `parse_listener_uri`. Port 0 stands for any free port."""

    scheme: str
    host: str
    port: int
    wire_format: WireFormatOptions = WireFormatOptions()
    tls_options: TlsOptions | None = None
    connections_max: int | None = None

    def __str__(self) -> str:
        return self.address(self.port)

    def address(self, port: int) -> str:
        """`scheme://host:port` with the *port* that was really bound, and without options."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{port}"

    @property
    def tls(self) -> bool:
        return self.tls_options is not None

    @property
    def auto(self) -> bool:
        """True if the first bytes of a connection decide which protocol it speaks."""
        return self.scheme.startswith("auto")

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can connect; a host name other than localhost is taken for reachable."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def parse_listener_uri(text: str) -> ListenerUri:
    """Read a listener URI. Raises `ConfigError`, naming what is wrong, in one line."""
    shown = text.partition("?")[0]
    try:
        return _parse(text)
    except Refused as refused:
        raise ConfigError(f"{shown}: {refused}") from None


def parse_address(text: str, *, scheme: str = "http") -> ListenerUri:
    """Read `host:port`, where something else than clients of the broker is to be answered. Raises `ConfigError`."""
    try:
        split = urlsplit(f"{scheme}://{text}")
        if split.path or split.query or split.fragment or "@" in split.netloc:
            raise Refused("must be a host and a port and nothing else")
        host, port = _host(split), _port(split)
        if split.port is None:
            raise Refused("the port is missing; 0 stands for any free port")
        return ListenerUri(scheme, host, port)
    except (Refused, ValueError) as error:
        raise ConfigError(f'"{text}" is no address like 127.0.0.1:8161: {error}') from None


def mask_secrets(text: str) -> str:
    """*text* of a listener URI with its password replaced by stars, for people to see."""
    return re.sub(r"(?<=[?&]keyPassword=)[^&]*", "***", text)


class Refused(Exception):
    """What is wrong with a URI, client URIs included; the caller says which URI."""


def _parse(text: str) -> ListenerUri:
    split = _split(text)
    given = _read_options(split)
    listener = given.pop("listener", {})
    return ListenerUri(
        scheme=split.scheme,
        host=_host(split),
        port=_port(split),
        wire_format=WireFormatOptions(**given.pop("wire_format", {})),
        tls_options=_tls_options(given.pop("tls", {})) if _is_tls(split.scheme) else None,
        connections_max=listener.get("connections_max"),
    )


def _split(text: str) -> SplitResult:
    # urlsplit drops tabs and line ends in silence, so they are refused before it sees them.
    if not text.isprintable() or " " in text:
        raise Refused("a listener URI has no spaces or control characters (write %20 for a space)")
    scheme, separator, _ = text.partition("://")
    if not separator:
        raise Refused("not a listener URI, which looks like tcp://127.0.0.1:61616")
    if scheme not in SCHEMES:
        hint = did_you_mean(scheme, SCHEMES)
        raise Refused(f'unknown scheme "{scheme}"{hint}; known schemes: {", ".join(SCHEMES)}')
    try:
        split = urlsplit(text)
    except ValueError as error:
        raise Refused(str(error).lower()) from None
    if split.path not in ("", "/") or split.fragment or "@" in split.netloc:
        raise Refused("a listener URI has a host, a port and options, and nothing else")
    return split


def _is_tls(scheme: str) -> bool:
    return scheme.endswith("ssl")


_HOST_NAME: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?")


def _host(split: SplitResult) -> str:
    host = split.hostname
    if not host:
        raise Refused("the host is missing; 127.0.0.1 for this machine only, 0.0.0.0 for all networks")
    return checked_host(host)


def checked_host(host: str) -> str:
    """*host* of a URI, if it is a name or an address. Raises `Refused`."""
    if ":" in host:
        host = unquote(host)  # RFC 6874 writes the zone of fe80::1%eth0 as %25eth0
        try:
            IPv6Address(host)
        except AddressValueError:
            raise Refused(f'"{host}" is not an IPv6 address') from None
    elif not _HOST_NAME.fullmatch(host):
        raise Refused(f'"{host}" is not a host name')
    return host


def _port(split: SplitResult) -> int:
    try:
        port = split.port
    except ValueError:
        raise Refused("the port must be a number from 0 to 65535 (0 = any free port)") from None
    if port is not None:
        return port
    return PORT_DEFAULT_TLS if _is_tls(split.scheme) else PORT_DEFAULT


# --- options -------------------------------------------------------------------------------------------


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise Refused(f'must be true or false, and is "{text}"')
    return text.lower() == "true"


def _text(text: str) -> str:
    if not text:
        raise Refused("has no value")
    return text


def _number(lowest: int, highest: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        # The length is checked before int() because int() takes quadratic time and refuses long texts.
        if re.fullmatch(r"-?[0-9]{1,19}", text) and lowest <= int(text) <= highest:
            return int(text)
        raise Refused(f'must be a number from {lowest} to {highest}, and is "{text}"')

    return read


def _cache_size(text: str) -> int:
    size = _number(0, CACHE_SIZE_HIGHEST)(text)
    if 0 < size < CACHE_SIZE_LOWEST:
        raise Refused(
            f"must be 0 or at least {CACHE_SIZE_LOWEST}, and is {size}: "
            f"with 1 to {CACHE_SIZE_LOWEST - 1} a Java client spins for ever on its first send"
        )
    return size


@dataclass(frozen=True, slots=True)
class _Option:
    group: str
    field: str
    read: Callable[[str], object]


_INACTIVITY_MS: Final = _number(0, INACTIVITY_MS_HIGHEST)
_INITIAL_DELAY: Final = _Option("wire_format", "max_inactivity_initial_delay_ms", _INACTIVITY_MS)
_NEED_CLIENT_AUTH: Final = _Option("tls", "need_client_auth", _flag)
_WANT_CLIENT_AUTH: Final = _Option("tls", "want_client_auth", _flag)

_OPTIONS: Final[Mapping[str, _Option]] = {
    "wireFormat.tightEncodingEnabled": _Option("wire_format", "tight_encoding_enabled", _flag),
    "wireFormat.cacheEnabled": _Option("wire_format", "cache_enabled", _flag),
    "wireFormat.cacheSize": _Option("wire_format", "cache_size", _cache_size),
    "wireFormat.stackTraceEnabled": _Option("wire_format", "stack_trace_enabled", _flag),
    "wireFormat.sizePrefixDisabled": _Option("wire_format", "size_prefix_disabled", _flag),
    "wireFormat.tcpNoDelayEnabled": _Option("wire_format", "tcp_no_delay_enabled", _flag),
    "wireFormat.maxFrameSize": _Option(
        "wire_format", "frame_bytes_max", _number(FRAME_BYTES_LOWEST, FRAME_BYTES_HIGHEST)
    ),
    "wireFormat.maxInactivityDuration": _Option("wire_format", "max_inactivity_duration_ms", _INACTIVITY_MS),
    # ActiveMQ's own spelling first; people who spell it right are understood too.
    "wireFormat.maxInactivityDurationInitalDelay": _INITIAL_DELAY,
    "wireFormat.maxInactivityDurationInitialDelay": _INITIAL_DELAY,
    "wireFormat.version": _Option("wire_format", "version", _number(1, 12)),
    "maximumConnections": _Option("listener", "connections_max", _number(1, 1_000_000)),
    "certFile": _Option("tls", "cert_file", _text),
    "keyFile": _Option("tls", "key_file", _text),
    "keyPassword": _Option("tls", "key_password", _text),
    "caFile": _Option("tls", "ca_file", _text),
    "needClientAuth": _NEED_CLIENT_AUTH,
    "wantClientAuth": _WANT_CLIENT_AUTH,
    "transport.needClientAuth": _NEED_CLIENT_AUTH,
    "transport.wantClientAuth": _WANT_CLIENT_AUTH,
}


def _read_options(split: SplitResult) -> dict[str, dict[str, Any]]:
    """The values given, by group and field."""
    groups: dict[str, dict[str, Any]] = {}
    for pair in filter(None, split.query.split("&")):
        name, separator, value = pair.partition("=")
        option = _option(name, split.scheme)
        if not separator:
            raise Refused(f"option {name} has no value")
        group = groups.setdefault(option.group, {})
        if option.field in group:
            raise Refused(f"option {name} is given twice")
        try:
            # Only percent signs are decoded: "+" is common in file names and means itself.
            group[option.field] = option.read(unquote(value))
        except Refused as refused:
            raise Refused(f"option {name} {refused}") from None
    return groups


def _option(name: str, scheme: str) -> _Option:
    option = _OPTIONS.get(name)
    if option is None:
        hint = did_you_mean(name, _OPTIONS) or f"; known options: {', '.join(_OPTIONS)}"
        raise Refused(f'unknown option "{name}"{hint}')
    if option.group == "tls" and not _is_tls(scheme):
        users = ", ".join(filter(_is_tls, SCHEMES))
        raise Refused(f"option {name} is not used by {scheme} listeners, only by {users}")
    return option


def _tls_options(given: dict[str, Any]) -> TlsOptions:
    if "cert_file" not in given:
        raise Refused("a TLS listener needs the option certFile (and keyFile, unless it holds the key too)")
    want, need = given.pop("want_client_auth", False), given.pop("need_client_auth", False)
    auth = ClientAuth.NEED if need else ClientAuth.WANT if want else ClientAuth.NONE
    if auth is ClientAuth.NONE and "ca_file" in given:
        raise Refused("option caFile is only used with needClientAuth=true or wantClientAuth=true")
    if auth is not ClientAuth.NONE and "ca_file" not in given:
        raise Refused(f"option {auth.value}ClientAuth needs caFile: whose certificates to accept")
    return TlsOptions(client_auth=auth, **given)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean "…"?` for the known word nearest to *word*, or nothing when none is near."""
    by_lower_case = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), by_lower_case, n=1)
    return f'; did you mean "{by_lower_case[near[0]]}"?' if near else ""

"""Listener URIs: `scheme://host:port?option=value&…`, read into a typed, frozen value (SEMANTICS J1).

Only the grammar lives here: nothing is resolved, opened or bound. Every option is a field of one of the classes below
(`config/fields.py`); an unknown scheme, an unknown option and an option that the scheme does not use are errors that
name it. An option that was not given is `None`: take the value from the settings.

Error messages quote the URI up to its `?` only, because what follows may hold a password.
"""

import re
from dataclasses import dataclass
from enum import Enum
from ipaddress import AddressValueError, IPv6Address, ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, unquote, urlsplit

from ackwire.config.fields import Option, did_you_mean, option
from ackwire.config.queries import Given, Known, Section, pairs_of, read_value
from ackwire.config.types import Number, Own, Refused, Switch, Text, quoted, read_whole
from ackwire.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

OPENWIRE_SCHEMES: Final = ("tcp", "nio", "ssl", "nio+ssl", "auto", "auto+nio", "auto+ssl", "auto+nio+ssl")
"""Schemes of OpenWire, for listeners and clients: only they have the options of its wire format."""
SCHEMES: Final = OPENWIRE_SCHEMES
"""Schemes of the listeners of this package. A protocol that has a scheme of its own adds it here."""
PROTOCOL_GROUP: Final = "ackwire.protocols"
"""Of the entry points with which installed packages add protocols; the name of each is a scheme."""
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


def _switch(name: str, reason: str) -> bool | None:
    return option(None, Option(Switch(), reason, name))


def _number(name: str, lowest: int, highest: int, unit: str, reason: str, aliases: tuple[str, ...] = ()) -> int | None:
    return option(None, Option(Number(lowest, highest, unit), reason, name, aliases))


_TEXT: Final = Text(must_print=False)


def _file(name: str, reason: str) -> str | None:
    return option(None, Option(_TEXT, reason, name))


def read_cache_size(text: str) -> int:
    size = read_whole(text)
    if size is None or not (size == 0 or CACHE_SIZE_LOWEST <= size <= CACHE_SIZE_HIGHEST):
        raise Refused(
            f"must be 0 or from {CACHE_SIZE_LOWEST} to {CACHE_SIZE_HIGHEST}, and is {quoted(text)}: with 1 to "
            f"{CACHE_SIZE_LOWEST - 1} a Java client spins for ever on its first send"
        )
    return size


@dataclass(frozen=True, slots=True)
class WireFormatOptions:
    """What this listener offers in its WireFormatInfo; None = not given."""

    tight_encoding_enabled: bool | None = _switch(
        "tightEncodingEnabled", "Smaller frames, and slower here; not given: false."
    )
    cache_enabled: bool | None = _switch("cacheEnabled", "Names are sent once and then by number; not given: true.")
    cache_size: int | None = option(
        None,
        Option(
            Own("number", read_cache_size), f"How many; 0 stands for {CACHE_SIZE_HIGHEST}; not given: 256.", "cacheSize"
        ),
    )
    stack_trace_enabled: bool | None = _switch("stackTraceEnabled", "Exceptions carry stack traces; not given: false.")
    size_prefix_disabled: bool | None = _switch(
        "sizePrefixDisabled", "Frames do not begin with their size; not given: false."
    )
    tcp_no_delay_enabled: bool | None = _switch(
        "tcpNoDelayEnabled", "Small packets are not held back; not given: true."
    )
    frame_bytes_max: int | None = _number(
        "maxFrameSize",
        FRAME_BYTES_LOWEST,
        FRAME_BYTES_HIGHEST,
        "bytes",
        "The largest frame; not given: `wire.frame_bytes_max`.",
    )
    max_inactivity_duration_ms: int | None = _number(
        "maxInactivityDuration",
        0,
        INACTIVITY_MS_HIGHEST,
        "ms",
        "A peer silent for longer is gone (J3); 0: no check; not given: `connection.max_inactivity_duration_seconds`.",
    )
    max_inactivity_initial_delay_ms: int | None = _number(
        "maxInactivityDurationInitalDelay",  # ActiveMQ's own spelling
        0,
        INACTIVITY_MS_HIGHEST,
        "ms",
        "Before the first check; not given: `connection.max_inactivity_initial_delay_seconds`.",
        aliases=("maxInactivityDurationInitialDelay",),
    )
    version: int | None = _number("version", 1, 12, "number", "The highest OpenWire version; not given: 12.")


@dataclass(frozen=True, slots=True)
class ListenerOptions:
    """Options for all connections of this listener together."""

    connections_max: int | None = _number(
        "maximumConnections", 1, 1_000_000, "number", "Connections at once; not given: `connection.connections_max`."
    )


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """Where a TLS listener finds its certificate, and whether clients must show one."""

    cert_file: str = option("", Option(_TEXT, "The certificate (PEM); a TLS listener needs it.", "certFile"))
    key_file: str | None = _file("keyFile", "Its key, if certFile does not hold it (PEM).")
    key_password: str | None = option(
        None, Option(_TEXT, "The password of the key; never shown.", "keyPassword", is_secret=True)
    )
    ca_file: str | None = _file("caFile", "Whose certificates clients may show (PEM).")
    need_client_auth: bool | None = option(
        None, Option(Switch(), "Clients must show a certificate.", "needClientAuth", ("transport.needClientAuth",))
    )
    want_client_auth: bool | None = option(
        None, Option(Switch(), "Clients are asked for one.", "wantClientAuth", ("transport.wantClientAuth",))
    )

    @property
    def client_auth(self) -> ClientAuth:
        if self.need_client_auth:
            return ClientAuth.NEED
        return ClientAuth.WANT if self.want_client_auth else ClientAuth.NONE


SECTIONS: Final = (
    Section("Wire format", "wireFormat.", WireFormatOptions),
    Section("Connections", "", ListenerOptions),
    Section("TLS", "", TlsOptions),
)
_KNOWN: Final = Known.of(SECTIONS)


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
    def protocol(self) -> str:
        """The scheme that stands for the protocol of all connections, unless their first bytes decide."""
        name = self.scheme.partition("+")[0]
        return "tcp" if name in ("nio", "ssl") else name

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


def _parse(text: str) -> ListenerUri:
    split = _split(text)
    given = _read_options(split)
    return ListenerUri(
        scheme=split.scheme,
        host=_host(split),
        port=_port(split),
        wire_format=WireFormatOptions(**given.get(WireFormatOptions, {})),
        tls_options=_checked(TlsOptions(**given.get(TlsOptions, {}))) if _is_tls(split.scheme) else None,
        connections_max=ListenerOptions(**given.get(ListenerOptions, {})).connections_max,
    )


def _split(text: str) -> SplitResult:
    # urlsplit drops tabs and line ends in silence, so they are refused before it sees them.
    if not text.isprintable() or " " in text:
        raise Refused("a listener URI has no spaces or control characters (write %20 for a space)")
    scheme, separator, _ = text.partition("://")
    if not separator:
        raise Refused("not a listener URI, which looks like tcp://127.0.0.1:61616")
    if scheme not in SCHEMES and scheme not in _added_schemes():
        known = (*SCHEMES, *_added_schemes())
        raise Refused(f'unknown scheme "{scheme}"{did_you_mean(scheme, known)}; known schemes: {", ".join(known)}')
    try:
        split = urlsplit(text)
    except ValueError as error:
        raise Refused(str(error).lower()) from None
    if split.path not in ("", "/") or split.fragment or "@" in split.netloc:
        raise Refused("a listener URI has a host, a port and options, and nothing else")
    return split


def protocol_entry_points() -> "tuple[EntryPoint, ...]":
    """What installed packages add to the protocols of this one, in the order of names. Loads none of them."""
    from importlib.metadata import entry_points  # takes a while, and clients have no use for it

    return tuple(sorted(entry_points(group=PROTOCOL_GROUP), key=lambda entry: entry.name))


def _added_schemes() -> tuple[str, ...]:
    names = (entry.name for entry in protocol_entry_points())
    return tuple(name + way for name in names for way in ("", "+nio", "+ssl", "+nio+ssl"))


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


def _read_options(split: SplitResult) -> Given:
    """The values given, by group and field."""
    given: Given = {}
    # Only percent signs are decoded: "+" is common in file names and means itself.
    for name, value in pairs_of(split.query, unquote):
        found = _KNOWN.find(name)
        assert found, "none is ignored"
        if found.group is TlsOptions and not _is_tls(split.scheme):
            users = ", ".join(filter(_is_tls, SCHEMES))
            raise Refused(f"option {name} is not used by {split.scheme} listeners, only by {users}")
        if found.group is WireFormatOptions and split.scheme not in OPENWIRE_SCHEMES:
            users = ", ".join(OPENWIRE_SCHEMES)
            raise Refused(f"option {name} is not used by {split.scheme} listeners, only by {users}")
        group = given.setdefault(found.group, {})
        if found.key in group:
            raise Refused(f"option {name} is given twice")
        group[found.key] = read_value(found, value)
    return given


def _checked(tls: TlsOptions) -> TlsOptions:
    if not tls.cert_file:
        raise Refused("a TLS listener needs the option certFile (and keyFile, unless it holds the key too)")
    if tls.client_auth is ClientAuth.NONE and tls.ca_file is not None:
        raise Refused("option caFile is only used with needClientAuth=true or wantClientAuth=true")
    if tls.client_auth is not ClientAuth.NONE and tls.ca_file is None:
        raise Refused(f"option {tls.client_auth.value}ClientAuth needs caFile: whose certificates to accept")
    return tls

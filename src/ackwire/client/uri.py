"""Broker URLs: `tcp://host:port?…`, `failover:(uri,uri)?…`, `vm://name`, read into typed, frozen values (SEMANTICS J).

Only the grammar lives here: nothing is resolved or opened. What the options are is in `options.py`. As in ActiveMQ,
scheme names are in lower case; in `failover:(…)?…` the options behind the parentheses are those of failover and of
the connection (`jms.`), those inside belong to one URI, and `nested.` ones to all of them, over their own. Without
parentheses a query belongs to the last URI, but for its `jms.` options. Names of options are case-sensitive but for the
first letter of the last part; values are form-encoded, so `%2B` is a plus and `+` is a space; given twice, the last one
counts. A value of the wrong type is an error here; ActiveMQ takes `yes` for false.

Differences, all to the safe side: a missing port is 61616 (61617 with TLS); percent signs are decoded once, where
ActiveMQ decodes the query of a URI that is no composite twice.

Messages quote the URL up to its `?` only, because what follows may hold a password.
"""

import logging
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final
from urllib.parse import SplitResult, quote, unquote_plus, urlsplit

from ackwire.client import options
from ackwire.client.options import (
    ConnectionOptions,
    ConsumerOptions,
    FailoverOptions,
    PrefetchForAll,
    PrefetchPolicy,
    ProducerOptions,
    RedeliveryPolicy,
    SocketOptions,
    TlsOptions,
    TransportOptions,
    VmOptions,
    WireFormatOptions,
)
from ackwire.config.fields import did_you_mean
from ackwire.config.listener_uri import OPENWIRE_SCHEMES as TCP_SCHEMES
from ackwire.config.listener_uri import PORT_DEFAULT, PORT_DEFAULT_TLS, checked_host
from ackwire.config.queries import MASK, Known, Pair, Section, pairs_of, read, write
from ackwire.config.types import Refused, quoted
from ackwire.errors import ConfigError, InvalidDestination
from ackwire.jms.destinations import Destination, Kind, parse_written_destination

_log = logging.getLogger(__name__)

DEFAULT_BROKER_URL: Final = "failover://tcp://localhost:61616"
URL_LENGTH_MAX: Final = 65_536
"""Characters: a hundred addresses with every option fit."""
URIS_MAX: Final = 256
"""Addresses in one failover list."""

_REFUSED_SCHEMES: Final = {
    "static": "static: lists the brokers of a network, for brokers; a client uses failover:(…)",
    "discovery": "discovery: finds brokers by multicast, which is not offered; list them in failover:(…)",
    "fanout": "fanout: sends to several brokers at once, which is not offered",
    "masterslave": "masterslave: connects brokers; a client uses failover:(…)",
    "multicast": "multicast: is not offered; use tcp: or failover:",
    "peer": "peer: starts a broker for each client, which is not offered; use vm: or tcp:",
    "udp": "udp: loses messages and is not offered; use tcp:",
    "http": "http: is not offered; use tcp: or ssl:",
    "https": "https: is not offered; use ssl:",
    "ws": "ws: is for browsers; use tcp:",
    "wss": "wss: is for browsers; use ssl:",
    "amqp": "amqp: is another protocol; this client speaks OpenWire, over tcp: or ssl:",
    "stomp": "stomp: is another protocol; this client speaks OpenWire, over tcp: or ssl:",
    "mqtt": "mqtt: is another protocol; this client speaks OpenWire, over tcp: or ssl:",
}


def normalised(name: str) -> str:
    """*name* with its last part beginning in lower case: ActiveMQ takes jms.UseAsyncSend for jms.useAsyncSend."""
    before, dot, last = name.rpartition(".")
    return f"{before}{dot}{last[:1].lower()}{last[1:]}"


_JMS: Final = (options.CONNECTION, options.PREFETCH, options.PREFETCH_FOR_ALL, options.REDELIVERY)
_TCP: Final = (options.TRANSPORT, options.SOCKET, options.WIRE_FORMAT)
_KNOWN_JMS: Final = Known.of(_JMS, normalised)
_KNOWN_TCP: Final = Known.of(_TCP, normalised)
_KNOWN_TLS: Final = Known.of((*_TCP, options.TLS), normalised)
_KNOWN_VM: Final = Known.of((options.VM, options.WIRE_FORMAT), normalised)
_KNOWN_FAILOVER: Final = Known.of((options.FAILOVER,), normalised)
_KNOWN_DESTINATION: Final = Known.of((options.CONSUMER, options.PRODUCER), normalised)


@dataclass(frozen=True, slots=True)
class TcpUri:
    """The address of one broker, and how to talk to it."""

    scheme: str
    host: str
    port: int
    local: tuple[str, int] | None = None
    """Where to connect from, written as a path: `tcp://broker:61616/10.0.0.5:0`."""
    transport: TransportOptions = field(default_factory=TransportOptions)
    socket: SocketOptions = field(default_factory=SocketOptions)
    wire_format: WireFormatOptions = field(default_factory=WireFormatOptions)
    tls: TlsOptions | None = None

    @property
    def address(self) -> str:
        """`scheme://host:port`, without options."""
        return f"{self.scheme}://{_authority(self.host, self.port)}"

    def text(self, *, secrets: bool) -> str:
        path = f"/{_authority(*self.local)}" if self.local else ""
        return f"{self.address}{path}{_query(self._options(secrets))}"

    def _options(self, secrets: bool) -> list[str]:
        groups: list[tuple[Section, Any]] = [(options.TRANSPORT, self.transport), (options.SOCKET, self.socket)]
        groups.append((options.WIRE_FORMAT, self.wire_format))
        if self.tls:
            groups.append((options.TLS, self.tls))
        return [part for section, group in groups for part in write(section, group, secrets=secrets)]


@dataclass(frozen=True, slots=True)
class VmUri:
    """A broker in this process, by name."""

    name: str
    vm: VmOptions = field(default_factory=VmOptions)
    wire_format: WireFormatOptions = field(default_factory=WireFormatOptions)
    broker: tuple[Pair, ...] = ()
    """The `broker.` options, names without it: settings of a broker that is started here; not checked."""

    @property
    def address(self) -> str:
        return f"vm://{self.name}"

    def text(self, *, secrets: bool) -> str:
        parts = write(options.VM, self.vm, secrets=secrets)
        parts += write(options.WIRE_FORMAT, self.wire_format, secrets=secrets)
        parts += [f"broker.{quote(name, safe='')}={quote(value, safe='')}" for name, value in self.broker]
        return f"{self.address}{_query(parts)}"


@dataclass(frozen=True, slots=True)
class BrokerUrl:
    """Everything a broker URL says; make it with `parse_broker_url`. `str` hides passwords, `text` need not."""

    uris: tuple[TcpUri | VmUri, ...]
    failover: FailoverOptions | None = None
    connection: ConnectionOptions = field(default_factory=ConnectionOptions)

    def __str__(self) -> str:
        return self.text(secrets=False)

    def text(self, *, secrets: bool) -> str:
        """The URL in one form for all ways to write it; with *secrets* it reads back as the same value."""
        connection = self._connection_options(secrets)
        if self.failover is None:
            (uri,) = self.uris
            base = uri.text(secrets=secrets)
            return base + _query(connection, "&" if "?" in base else "?")
        inner = ",".join(uri.text(secrets=secrets) for uri in self.uris)
        return f"failover:({inner}){_query(write(options.FAILOVER, self.failover, secrets=secrets) + connection)}"

    def preferred(self) -> tuple[TcpUri | VmUri, ...]:
        """The URIs to return to, with priorityBackup: those of priorityURIs, or else the first."""
        if self.failover is None or not self.failover.priority_backup:
            return ()
        wanted = set(self.failover.priority_uris)
        return tuple(uri for uri in self.uris if uri.address in wanted) if wanted else self.uris[:1]

    def _connection_options(self, secrets: bool) -> list[str]:
        return [
            *write(options.CONNECTION, self.connection, secrets=secrets),
            *write(options.PREFETCH, self.connection.prefetch, secrets=secrets),
            *write(options.REDELIVERY, self.connection.redelivery, secrets=secrets),
        ]


@dataclass(frozen=True, slots=True)
class DestinationUri:
    """A destination and the options in its name."""

    destination: Destination
    consumer: ConsumerOptions = field(default_factory=ConsumerOptions)
    producer: ProducerOptions = field(default_factory=ProducerOptions)

    def __str__(self) -> str:
        parts = write(options.CONSUMER, self.consumer, secrets=True)
        parts += write(options.PRODUCER, self.producer, secrets=True)
        return f"{self.destination!r}{_query(parts)}"


def parse_broker_url(text: str) -> BrokerUrl:
    """Read a broker URL. Raises `ConfigError`, naming what is wrong, in one line."""
    try:
        return _parse(text)
    except Refused as refused:
        raise ConfigError(f"{_heading(text)}: {refused}") from None


def parse_destination_uri(text: str, *, default: Kind = Kind.QUEUE) -> DestinationUri:
    """Read a destination's name with its options, `orders?consumer.prefetchSize=1`. Raises `ConfigError`."""
    name, _, query = text.partition("?")
    try:
        given = read(_pairs_of(query), _KNOWN_DESTINATION)
        return DestinationUri(
            parse_written_destination(name, default=default),
            ConsumerOptions(**given.get(ConsumerOptions, {})),
            ProducerOptions(**given.get(ProducerOptions, {})),
        )
    except (Refused, InvalidDestination) as error:
        raise ConfigError(f"{_heading(text)}: {error}") from None


def mask_secrets(text: str) -> str:
    """*text* of a broker URL with passwords replaced by stars, for people to see; rather too much than too little."""
    masked = re.sub(r"(?i)(password=)[^&]*", rf"\1{MASK}", text)
    return re.sub(r"(://)[^/?,()@]*@", rf"\1{MASK}@", masked)


def _heading(text: str) -> str:
    return quoted(mask_secrets(text[:URL_LENGTH_MAX].partition("?")[0]))


# ---- grammar ---------------------------------------------------------------------------------------------------


def _parse(text: str) -> BrokerUrl:
    if len(text) > URL_LENGTH_MAX:
        raise Refused(f"{len(text)} characters; {URL_LENGTH_MAX} is the limit")
    # urlsplit drops tabs and line ends in silence, so they are refused before it sees them.
    if not text.isprintable() or " " in text:
        raise Refused("a broker URL has no spaces or control characters (write %20 for a space)")
    scheme, separator, rest = text.partition(":")
    if separator and scheme == "failover":
        return _failover(rest.removeprefix("//"))
    base, _, query = text.partition("?")
    jms, own = _split_pairs(query, "jms.")
    return BrokerUrl((_uri(base, own),), connection=_connection(jms))


def _failover(rest: str) -> BrokerUrl:
    if not rest.startswith("("):
        return _failover_without_parentheses(rest)
    inner, behind = _parenthesised(rest)
    query = _behind(behind)
    jms, own = _split_pairs(query, "jms.")
    nested = [(name.removeprefix("nested."), value) for name, value in own if name.startswith("nested.")]
    failover = _failover_options([pair for pair in own if not pair[0].startswith("nested.")])
    uris = _list(inner, nested)
    if not uris and failover.update_uris_url is None:
        raise Refused("the list of URIs is empty")
    return BrokerUrl(uris, failover, _connection(jms))


def _failover_without_parentheses(rest: str) -> BrokerUrl:
    base, _, query = rest.partition("?")
    if "(" in base or ")" in base:
        raise Refused("parentheses stand around the whole list: failover:(uri,uri)?…")
    jms, own = _split_pairs(query, "jms.")
    for name, _ in own:
        if name in _KNOWN_FAILOVER and name not in _KNOWN_TLS:
            raise Refused(f"option {name} needs parentheses around the URIs: failover:(…)?{name}=…")
    texts = _split_list(base)
    if not texts:
        raise Refused("the list of URIs is empty")
    uris = [_uri(text, []) for text in texts[:-1]]
    return BrokerUrl((*uris, _uri(texts[-1], own)), FailoverOptions(), _connection(jms))


def _parenthesised(text: str) -> tuple[str, str]:
    """What stands between the parentheses at the start of *text*, and what behind them."""
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return text[1:at], text[at + 1 :]
    raise Refused("a closing parenthesis is missing")


def _behind(text: str) -> str:
    path, _, query = text.partition("?")
    if path not in ("", "/"):
        raise Refused("only options, after a question mark, can follow the closing parenthesis")
    return query


def _list(inner: str, nested: Sequence[Pair]) -> tuple[TcpUri | VmUri, ...]:
    texts = _split_list(inner)
    schemes = [text.partition(":")[0] for text in texts]
    for name, _ in nested:
        if texts and not any(name in _known_for(scheme) for scheme in schemes):
            names = [known for scheme in dict.fromkeys(schemes) for known in _known_for(scheme).names()]
            hint = did_you_mean(f"nested.{name}", [f"nested.{known}" for known in names])
            raise Refused(f"unknown option {quoted(f'nested.{name}')}{hint}")
    return tuple(_listed(text, nested) for text in texts)


def _split_list(inner: str) -> list[str]:
    texts = [text for text in inner.split(",") if text]
    if len(texts) > URIS_MAX:
        raise Refused(f"{len(texts)} URIs; {URIS_MAX} is the limit")
    return texts


def _listed(text: str, nested: Sequence[Pair]) -> TcpUri | VmUri:
    base, _, query = text.partition("?")
    jms, own = _split_pairs(query, "jms.")
    if jms:
        raise Refused(f"option {quoted(jms[0][0])} is one of the connection: put it behind the closing parenthesis")
    known = _known_for(base.partition(":")[0])
    return _uri(base, [*own, *(pair for pair in nested if pair[0] in known)])


def _split_pairs(query: str, prefix: str) -> tuple[list[Pair], list[Pair]]:
    """The pairs whose names begin with *prefix*, and the others."""
    pairs = _pairs_of(query)
    return [pair for pair in pairs if pair[0].startswith(prefix)], [p for p in pairs if not p[0].startswith(prefix)]


def _known_for(scheme: str) -> Known:
    if scheme == "vm":
        return _KNOWN_VM
    return _KNOWN_TLS if _is_tls(scheme) else _KNOWN_TCP


def _is_tls(scheme: str) -> bool:
    return scheme.endswith("ssl")


# ---- one URI ---------------------------------------------------------------------------------------------------


def _uri(base: str, pairs: Sequence[Pair]) -> TcpUri | VmUri:
    """A URI without its query, and the pairs of that."""
    scheme, _, rest = base.partition(":")
    _check_scheme(scheme, rest)
    if scheme == "vm":
        return _vm(rest, pairs)
    _check_placement(scheme, pairs)
    # ActiveMQ itself drops these: they tell a listener how to find out the protocol.
    given = read([pair for pair in pairs if not _is_dropped(pair)], _known_for(scheme))
    split = _split(base)
    return TcpUri(
        scheme=scheme,
        host=_host(split.hostname),
        port=_port(split),
        local=_local(split.path, scheme),
        transport=TransportOptions(**given.get(TransportOptions, {})),
        socket=SocketOptions(**given.get(SocketOptions, {})),
        wire_format=WireFormatOptions(**given.get(WireFormatOptions, {})),
        tls=TlsOptions(**given.get(TlsOptions, {})) if _is_tls(scheme) else None,
    )


def _is_dropped(pair: Pair) -> bool:
    return pair[0].startswith("auto.") or pair == ("wireFormat", "default")


def _check_scheme(scheme: str, rest: str) -> None:
    if scheme in _REFUSED_SCHEMES:
        raise Refused(_REFUSED_SCHEMES[scheme])
    if scheme == "failover":
        raise Refused("a failover list cannot hold another one; put all URIs into one list")
    known = (*TCP_SCHEMES, "vm", "failover")
    if scheme not in known:
        hint = did_you_mean(scheme, known) or f"; known schemes: {', '.join(known)}"
        raise Refused(f"unknown scheme {quoted(scheme)}{hint}")
    if not rest.startswith("//") and not (scheme == "vm" and rest.startswith("(")):
        raise Refused(f"{scheme}: is followed by //, as in {scheme}://localhost")


def _check_placement(scheme: str, pairs: Sequence[Pair]) -> None:
    """A known option in the wrong place gets a message that says so."""
    for name, _ in pairs:
        if name in _known_for(scheme):
            continue
        if name in _KNOWN_TLS:
            raise Refused(f"option {normalised(name)} is not used by {scheme}: URIs, only by those with ssl")
        if name in _KNOWN_FAILOVER:
            raise Refused(f"option {normalised(name)} belongs to failover:, behind the closing parenthesis")
        for full in (f"jms.{name}", f"wireFormat.{name}", f"socket.{name}"):
            if full in _KNOWN_JMS or full in _known_for(scheme):
                raise Refused(f'unknown option {quoted(name)}; did you mean "{full}"?')


def _split(base: str) -> SplitResult:
    try:
        split = urlsplit(base)
    except ValueError:
        raise Refused("the address is not scheme://host:port") from None
    if "&" in base or "=" in base:
        raise Refused("options begin with a question mark")
    if "@" in split.netloc:
        raise Refused("a user does not stand before the host: use jms.userName and jms.password")
    if split.fragment or "#" in base:
        raise Refused("a broker URL has no part after #")
    return split


def _host(host: str | None) -> str:
    if not host:
        raise Refused("the host is missing, as in tcp://localhost:61616")
    if len(host) > 255:
        raise Refused(f"the host has {len(host)} characters; 255 is the limit")
    return checked_host(host)


def _port(split: SplitResult) -> int:
    try:
        port = split.port
    except ValueError:
        port = 0
    if port == 0:
        raise Refused("the port must be a number from 1 to 65535")
    return port or (PORT_DEFAULT_TLS if _is_tls(split.scheme) else PORT_DEFAULT)


def _local(path: str, scheme: str) -> tuple[str, int] | None:
    if path in ("", "/"):
        return None
    try:
        split = urlsplit(f"{scheme}:/{path}")
        port = split.port
    except ValueError:
        port = None
    else:
        if port is not None and not split.path and "@" not in split.netloc:
            return _host(split.hostname), port
    raise Refused("what follows the port is a local address, host:port, or nothing")


def _authority(host: str, port: int) -> str:
    return f"[{quote(host, safe=':')}]:{port}" if ":" in host else f"{host}:{port}"


def _vm(rest: str, pairs: Sequence[Pair]) -> VmUri:
    name = rest.removeprefix("//").removesuffix("/") or "localhost"
    if name.startswith("("):
        raise Refused("vm:(…) with a broker's configuration is not offered; use vm://name")
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,254}", name):
        raise Refused(f"{quoted(name)} is not a broker's name")
    given = read([pair for pair in pairs if not pair[0].startswith("broker.")], _KNOWN_VM)
    return VmUri(
        name,
        VmOptions(**given.get(VmOptions, {})),
        WireFormatOptions(**given.get(WireFormatOptions, {})),
        tuple((key.removeprefix("broker."), value) for key, value in pairs if key.startswith("broker.")),
    )


# ---- options ---------------------------------------------------------------------------------------------------


def _pairs_of(query: str) -> Sequence[Pair]:
    """The names and values of a query, with a warning for names that come again. Raises `Refused`."""
    pairs = pairs_of(query, _decoded)
    for name, times in Counter(normalised(name) for name, _ in pairs).items():
        if times > 1:
            _log.warning("option %s is given more than once: the last one counts", quoted(name))
    return pairs


def _decoded(encoded: str) -> str:
    try:
        return unquote_plus(encoded, errors="strict")
    except UnicodeDecodeError:
        raise Refused("percent signs must stand for UTF-8") from None


def _connection(pairs: Sequence[Pair]) -> ConnectionOptions:
    given = read(pairs, _KNOWN_JMS)
    own_prefetch = given.get(PrefetchPolicy, {})
    every_prefetch = given.get(PrefetchForAll, {}).get("prefetch")
    prefetch = PrefetchPolicy() if every_prefetch is None else _prefetch_for_all(every_prefetch)
    return ConnectionOptions(
        **given.get(ConnectionOptions, {}),
        prefetch=replace(prefetch, **own_prefetch),
        redelivery=RedeliveryPolicy(**given.get(RedeliveryPolicy, {})),
    )


def _prefetch_for_all(prefetch: int) -> PrefetchPolicy:
    names = [key.name for key in fields(PrefetchPolicy) if key.name.endswith("_prefetch")]
    return PrefetchPolicy(**dict.fromkeys(names, prefetch))


def _failover_options(pairs: Sequence[Pair]) -> FailoverOptions:
    for name, _ in pairs:
        if name not in _KNOWN_FAILOVER and name in _KNOWN_TLS:
            raise Refused(f"option {name} belongs to the URIs of the list: write nested.{name} for all of them")
    failover = FailoverOptions(**read(pairs, _KNOWN_FAILOVER).get(FailoverOptions, {}))
    try:
        addresses = [_uri(text.partition("?")[0], []).address for text in failover.priority_uris]
    except Refused as refused:
        raise Refused(f"option priorityURIs: {refused}") from None
    return replace(failover, priority_uris=tuple(addresses))


def _query(parts: Sequence[str], start: str = "?") -> str:
    return start + "&".join(parts) if parts else ""

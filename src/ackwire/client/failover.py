"""Which broker next, after which delay, and when to give up (SEMANTICS J4): decisions only, no sockets and no clock.

Attempts come in rounds, as in ActiveMQ: a round tries every URI once, without a pause between them, and the delay grows
from round to round. `maxReconnectAttempts` counts rounds. What ended last is tried last. Only a login that the broker
has answered ends a series of rounds (`restored`): a broker that takes connections and drops them is no success.

Differences from ActiveMQ, all to the safe side:

* URIs that a broker sends choose a host and a port and nothing else: options are those of the URIs that the application
  listed, a list of TLS addresses is not left for plain TCP, and only TCP and TLS are followed.
* Preferred URIs (`priorityBackup`) are tried first, in random order too.
* From the second round on there is a shortest delay, whatever the options say: no busy loop.
"""

import logging
import random
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ackwire.client.options import FailoverOptions, TlsOptions
from ackwire.client.uri import URIS_MAX, URL_LENGTH_MAX, BrokerUrl, TcpUri, VmUri, mask_secrets, parse_broker_url
from ackwire.errors import ConfigError

Uri = TcpUri | VmUri

SHORTEST_DELAY_MS: Final = 10
"""Between two rounds: some hundred attempts a second are enough for anybody."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Attempt:
    """Where to connect, and how long to wait before."""

    uri: Uri
    delay_seconds: float


class BackOff:
    """Delays that grow from the first to the longest."""

    def __init__(self, options: FailoverOptions) -> None:
        self._initial_ms = max(0.0, float(options.initial_reconnect_delay_ms))
        longest = options.reconnect_delay_ms_max
        self._longest_ms = float(longest) if longest > 0 else self._initial_ms
        self._factor = options.reconnect_delay_exponent if options.use_exponential_back_off else 1.0
        self.reset()

    def reset(self) -> None:
        self._next_ms = min(self._initial_ms, self._longest_ms)

    def next_seconds(self) -> float:
        """The delay that is due, in seconds; the one after it is longer."""
        delay_ms = self._next_ms
        self._next_ms = min(max(delay_ms, SHORTEST_DELAY_MS) * self._factor, self._longest_ms)
        self._next_ms = max(self._next_ms, SHORTEST_DELAY_MS)
        return delay_ms / 1000


class FailoverPlan:
    """The attempts of one connection. Without `failover:` there is one, and none after a loss."""

    def __init__(self, url: BrokerUrl, random: random.Random) -> None:
        self._url = url
        self._options = url.failover
        self._random = random
        self._listed: tuple[Uri, ...] = url.uris
        self._updated: tuple[Uri, ...] = ()
        self._left: deque[Uri] = deque()
        """What this round has not tried yet."""
        self._ended_last: str | None = None
        self._back_off = BackOff(url.failover or FailoverOptions())
        self.rounds = 0
        """Rounds begun since the connection was last usable."""
        self.was_restored = False
        """Whether a login was answered at some time."""

    @property
    def is_failover(self) -> bool:
        return self._options is not None

    @property
    def uris(self) -> tuple[Uri, ...]:
        """All that are known; those from a broker first, as in ActiveMQ."""
        return tuple({uri.address: uri for uri in (*self._updated, *self._listed)}.values())

    # ---- attempts ----------------------------------------------------------------------------------------------

    def next_attempt(self) -> Attempt | None:
        """The next attempt, or None: time to give up."""
        delay = 0.0
        if not self._left:
            if self._is_exhausted():
                return None
            if self.rounds or self.was_restored:  # the very first attempt does not wait
                delay = self._back_off.next_seconds()
            self._left.extend(self.connect_list())
            self.rounds += 1
        return Attempt(self._left.popleft(), delay) if self._left else None

    def restored(self) -> None:
        """A login was answered: the next loss begins anew."""
        self.was_restored = True
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget rounds and delays: a usable connection was lost, or is given up for a better one."""
        self._left.clear()
        self.rounds = 0
        self._back_off.reset()

    def ended(self, uri: Uri) -> None:
        """A connection to *uri* ended: it is the last to be tried again."""
        self._ended_last = uri.address

    def connect_list(self) -> list[Uri]:
        """Every URI in the order in which to try them."""
        uris = list(self.uris)
        if self._options is not None and self._options.randomize:
            self._random.shuffle(uris)
        preferred = self._preferred_addresses()
        return sorted(uris, key=lambda uri: (uri.address == self._ended_last, uri.address not in preferred))

    def is_worth_a_warning(self) -> bool:
        """Whether the rounds so far are a reason to tell the operator (warnAfterReconnectAttempts)."""
        every = self._options.warn_after_reconnect_attempts if self._options is not None else 0
        return every > 0 and not self._left and self.rounds % every == 0

    def _is_exhausted(self) -> bool:
        limit = self._limit()
        if limit < 0:
            return not self.uris
        if not self.was_restored:
            limit = max(limit, 1)  # 0: one attempt only
        return self.rounds >= limit

    def _limit(self) -> int:
        if self._options is None:
            return 0
        at_start = self._options.startup_reconnect_attempts_max
        if not self.was_restored and at_start >= 0:
            return at_start
        return self._options.reconnect_attempts_max

    # ---- better places -----------------------------------------------------------------------------------------

    def preferred_to(self, current: Uri) -> list[Uri]:
        """Where to go back to from *current*; empty if that is as good as any."""
        preferred = self._preferred_addresses()
        if current.address in preferred:
            return []
        return [uri for uri in self.uris if uri.address in preferred]

    def ahead_of(self, current: Uri) -> list[Uri]:
        """For a rebalance: what a new order puts before *current*."""
        ahead: list[Uri] = []
        if current.address in self._preferred_addresses():
            return ahead
        for uri in self.connect_list():
            if uri.address == current.address:
                break
            ahead.append(uri)
        return ahead

    def spares_for(self, current: Uri) -> list[Uri]:
        """Where to hold connections ready, in the order in which to try them."""
        return [uri for uri in self.connect_list() if uri.address != current.address]

    def _preferred_addresses(self) -> set[str]:
        known = replace(self._url, uris=(*self._listed, *self._updated))
        return {uri.address for uri in known.preferred()}

    # ---- the list ----------------------------------------------------------------------------------------------

    def add_listed(self, uris: Iterable[Uri]) -> None:
        """More URIs of the application's own."""
        known = {uri.address for uri in self._listed}
        new = {uri.address: uri for uri in uris if uri.address not in known}
        self._listed = (*self._listed, *new.values())[:URIS_MAX]

    def update(self, uris: Sequence[Uri]) -> bool:
        """The URIs that the broker has sent, in place of the last ones; whether anything is different now."""
        before = {uri.address for uri in self._updated}
        self._updated = tuple(uris[:URIS_MAX])
        return {uri.address for uri in self._updated} != before

    def received(self, text: str) -> list[TcpUri]:
        """The URIs in what a broker sent, as far as they may be followed."""
        uris = (self._received_one(part.strip()) for part in text[:URL_LENGTH_MAX].split(",") if part.strip())
        return [uri for uri in uris if uri is not None]

    def _received_one(self, text: str) -> TcpUri | None:
        base = text.partition("?")[0]
        try:
            url = parse_broker_url(base)
        except ConfigError as error:
            _log.warning("a URI from the broker is left out: %s", error)
            return None
        named = url.uris[0]
        if url.failover is not None or not isinstance(named, TcpUri):
            _log.warning("a URI from the broker is left out: %s is no address of a broker", mask_secrets(base))
            return None
        return self._with_our_options(named)

    def _with_our_options(self, named: TcpUri) -> TcpUri | None:
        ours = [uri for uri in self._listed if isinstance(uri, TcpUri)]
        if not ours:
            _log.warning("a URI from the broker is left out: %s, because the URL's are in this process", named.address)
            return None
        if named.tls is None and not any(uri.tls is None for uri in ours):
            _log.warning("a URI from the broker is left out: %s is without TLS, and the URL's are not", named.address)
            return None
        alike = [uri for uri in ours if (uri.tls is None) == (named.tls is None)]
        template = (alike or ours)[0]
        tls = None if named.tls is None else template.tls or TlsOptions()
        return replace(template, scheme=named.scheme, host=named.host, port=named.port, tls=tls)


def listed_uris(text: str) -> list[Uri]:
    """The URIs in a file of the application's (updateURIsURL): separated by commas or lines. Raises `ConfigError`."""
    if len(text) > URL_LENGTH_MAX:
        raise ConfigError(f"{len(text)} characters; {URL_LENGTH_MAX} is the limit")
    parts = (part.strip() for line in text.splitlines() if not line.startswith("#") for part in line.split(","))
    urls = [parse_broker_url(part) for part in parts if part]
    if any(url.failover is not None for url in urls):
        raise ConfigError("a list of URIs cannot hold failover:")
    return [url.uris[0] for url in urls]

"""The ways in which the client reaches the broker, and the broker under test."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conformance.jms import with_options
from tests.helpers.processes import RunningBroker

AGAINST_ACTIVEMQ = os.environ.get("ACKWIRE_CONFORMANCE_BROKER") == "activemq"
BETTER_THAN_ACTIVEMQ = pytest.mark.skipif(AGAINST_ACTIVEMQ, reason="ActiveMQ is known to fail its users here")


@dataclass(frozen=True, slots=True)
class Route:
    """The client's scheme, the listener's scheme and whether the listener offers tight encoding, and a cache."""

    client_scheme: str
    listener_scheme: str
    tight: bool = False
    cached: bool = True

    def listener_uri(self, *, key: Path, certificate: Path) -> str:
        """What the broker is told to listen on: port 0, a free one."""
        options: dict[str, object] = {}
        if AGAINST_ACTIVEMQ or self.tight:  # not our default, but ActiveMQ's
            options["wireFormat__tightEncodingEnabled"] = self.tight
        if not self.cached:
            options["wireFormat__cacheEnabled"] = False
        if "ssl" in self.listener_scheme and not AGAINST_ACTIVEMQ:  # which wants a Java key store instead
            options |= {"keyFile": key, "certFile": certificate}
        return with_options(f"{self.listener_scheme}://127.0.0.1:0", **options)


CORE_ROUTES = {
    "tcp": Route("tcp", "tcp"),
    "nio": Route("nio", "nio", cached=False),
    "ssl": Route("ssl", "ssl"),
    "tight-cached": Route("tcp", "tcp", tight=True),
}
OTHER_ROUTES = {
    "nio+ssl": Route("nio+ssl", "nio+ssl"),
    "auto": Route("tcp", "auto"),
    "auto+nio": Route("nio", "auto+nio"),
    "auto+ssl": Route("ssl", "auto+ssl"),
    "auto+nio+ssl": Route("nio+ssl", "auto+nio+ssl"),
}
ROUTES = CORE_ROUTES | OTHER_ROUTES


@dataclass(frozen=True, slots=True)
class Broker:
    """The broker under test, listening on every route."""

    running: RunningBroker

    def url(self, route: str, **options: object) -> str:
        """What a client connects to; options as in `with_options`."""
        return with_options(f"{ROUTES[route].client_scheme}://127.0.0.1:{self.port(route)}", **options)

    def port(self, route: str) -> int:
        return self.running.ports[list(ROUTES).index(route)]

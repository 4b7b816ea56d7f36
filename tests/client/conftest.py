"""The Python client against two brokers: `ackwire serve` on a journal, and the real ActiveMQ.

Each test that asks for `broker` (or for something that needs it) runs twice. One process of each kind serves all
tests of a worker; tests keep apart by destinations of their own. What holds for one broker only is marked
`only_on("ackwire", reason="…")`, and the reason stands in docs/client-differences.md. Errors that a connection
reported and nobody waited for fail the test, unless it set an `on_error` of its own.
"""

import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest

import ackwire
from ackwire.client.errors import JMSError
from tests.client.brokers import JAVA_SOURCES, KINDS, Broker, Brokers
from tests.client.recording import RecordingProxy
from tests.conformance.jms import Jms
from tests.conformance.proxy import CuttableProxy
from tests.conformance.tls import STORE_PASSWORD, TlsFiles, make_tls_files
from tests.helpers.failure_logs import Logs, shown_on_failure
from tests.helpers.java import CLIENT_JARS, JavaDriver, compiled, trust_store_options
from tests.helpers.java_cache import java_cache_or_skip
from tests.helpers.marking import items_below

_LOGS = Logs()
pytest_runtest_makereport = shown_on_failure(_LOGS)
_names = itertools.count(1)


class Connect(Protocol):
    """Makes connections that are closed after the test; without a URL to the broker under test."""

    def __call__(self, url: str | None = None, **arguments: Any) -> ackwire.Connection: ...


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "client: our client against both brokers")
    config.addinivalue_line("markers", "only_on(kind, reason): holds for one broker only, ackwire or activemq")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items_below(Path(__file__).parent, items):
        item.add_marker(pytest.mark.client)


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return make_tls_files(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="session")
def brokers(
    tls: TlsFiles,
    tmp_path_factory: pytest.TempPathFactory,
    pytestconfig: pytest.Config,
    request: pytest.FixtureRequest,
) -> Iterator[Brokers]:
    """All brokers of this worker, started when needed."""
    logs = request.session.stash.setdefault(_LOGS, [])
    with ExitStack() as stack:
        yield Brokers(pytestconfig, tls, tmp_path_factory.mktemp, stack, logs)


@pytest.fixture(params=KINDS)
def broker(brokers: Brokers, request: pytest.FixtureRequest) -> Broker:
    """Each broker in turn, configured as the module's BROKER_VARIANT says."""
    # Not of session scope: workers get tests in any order, and a new parameter would mean a new process each time.
    only = request.node.get_closest_marker("only_on")
    if only is not None and request.param != only.args[0]:
        pytest.skip(f"only on {only.args[0]}: {only.kwargs['reason']}")
    return brokers.get(request.param, getattr(request.module, "BROKER_VARIANT", "default"))


@pytest.fixture
def proxies() -> Iterator[ExitStack]:
    """Keeps the ways to the broker open until everything that goes through them is closed."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def connect(broker: Broker, proxies: ExitStack) -> Iterator[Connect]:  # noqa: ARG001 - stop after us
    """Makes connections; what a test leaves open is closed after it, and must have reported no error."""
    unexpected: list[JMSError] = []
    with ExitStack() as stack:

        def connect(url: str | None = None, **arguments: Any) -> ackwire.Connection:
            connection = stack.enter_context(ackwire.connect(url or broker.url, **arguments))
            connection.on_error = unexpected.append
            return connection

        yield connect
    assert unexpected == []


@pytest.fixture
def connection(connect: Connect) -> ackwire.Connection:
    """A connection to the broker, started."""
    return connect()


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    """A queue that no other test uses."""
    return f"queue://{_destination_name(request)}"


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic that no other test uses."""
    return f"topic://{_destination_name(request)}"


@pytest.fixture
def recording(broker: Broker, proxies: ExitStack) -> RecordingProxy:
    """A way to the broker that writes down every command."""
    return proxies.enter_context(RecordingProxy(broker.port))


@pytest.fixture
def proxy(broker: Broker, proxies: ExitStack) -> CuttableProxy:
    """A way to the broker that the test can cut."""
    return proxies.enter_context(CuttableProxy(broker.port))


@pytest.fixture(scope="session")
def java_driver(
    tls: TlsFiles,
    tmp_path_factory: pytest.TempPathFactory,
    pytestconfig: pytest.Config,
    request: pytest.FixtureRequest,
) -> Iterator[Callable[[], JavaDriver]]:
    """A JVM with the real client in it, or its successor if it died."""
    cache = java_cache_or_skip(pytestconfig, CLIENT_JARS)
    classes = compiled(JAVA_SOURCES / "client", CLIENT_JARS, cache)
    options = trust_store_options(tls.trust_store, STORE_PASSWORD)
    folder = tmp_path_factory.mktemp("jvm")
    drivers: list[JavaDriver] = []
    with ExitStack() as running:

        def current() -> JavaDriver:
            if not drivers or not drivers[-1].is_running:
                log_path = folder / f"java-client-{len(drivers)}.log"
                request.session.stash.setdefault(_LOGS, []).append(log_path)
                drivers.append(running.enter_context(JavaDriver(classes, log_path=log_path, options=options)))
            return drivers[-1]

        yield current


@pytest.fixture
def java(
    broker: Broker,  # noqa: ARG001 - stops after us
    proxies: ExitStack,  # noqa: ARG001 - stop after us
    java_driver: Callable[[], JavaDriver],
) -> Iterator[Jms]:
    """The real Java client; give it `broker.url`. What it leaves open is closed, without a single error."""
    jms = Jms(java_driver())
    yield jms
    assert jms.reset() == []


def _destination_name(request: pytest.FixtureRequest) -> str:
    return f"{re.sub('[^A-Za-z0-9_]+', '-', request.node.name)}.{next(_names)}"

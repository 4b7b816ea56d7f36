"""The broker under test, the JVM with the real client, and the routes between them.

By default the broker is `ackwire serve`. With `ACKWIRE_CONFORMANCE_BROKER=activemq` it is the real ActiveMQ
from Debian's packages: the suite passing there is the proof that it states ActiveMQ's behaviour.
Each test module gets a broker of its own; the JVM lives as long as the test worker and is replaced if a test
kills it. After each test every connection is closed, and any error that the client reported
to an exception listener fails the test.
"""

import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conformance.jms import Jms
from tests.conformance.proxy import CuttableProxy
from tests.conformance.routes import AGAINST_ACTIVEMQ, CORE_ROUTES, ROUTES, Broker
from tests.conformance.tls import STORE_PASSWORD, TlsFiles, make_tls_files
from tests.conformance.variants import VARIANTS
from tests.helpers.activemq import running_activemq
from tests.helpers.failure_logs import Logs, shown_on_failure
from tests.helpers.java import BROKER_JARS, CLIENT_JARS, JavaDriver, compiled, trust_store_options
from tests.helpers.java_cache import java_cache_or_skip
from tests.helpers.marking import items_below
from tests.helpers.processes import running_broker

JAVA_SOURCES = Path(__file__).parent / "java"

_LOGS = Logs()
pytest_runtest_makereport = shown_on_failure(_LOGS)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "temporary_destinations: the broker must know temporary queues (A8)")
    config.addinivalue_line("markers", "full_minute: waits for the clock's next full minute (I1)")
    config.addinivalue_line("markers", "pull: the broker must answer MessagePull (C3)")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items_below(Path(__file__).parent, items):
        item.add_marker(pytest.mark.conformance)


@pytest.fixture(scope="session")
def java_cache(pytestconfig: pytest.Config) -> Path:
    return java_cache_or_skip(pytestconfig, BROKER_JARS if AGAINST_ACTIVEMQ else CLIENT_JARS)


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return make_tls_files(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def broker(
    java_cache: Path, tls: TlsFiles, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Broker]:
    """A broker that listens on every route, configured as the module's BROKER_VARIANT says."""
    variant = VARIANTS[getattr(request.module, "BROKER_VARIANT", "default")]
    log_path = tmp_path_factory.mktemp("broker") / "broker.log"
    listeners = [route.listener_uri(key=tls.key, certificate=tls.certificate) for route in ROUTES.values()]
    if AGAINST_ACTIVEMQ:
        classes = compiled(JAVA_SOURCES / "broker", BROKER_JARS, java_cache)
        starting = running_activemq(
            listeners,
            classes=classes,
            log_path=log_path,
            key_store=tls.key_store,
            password=STORE_PASSWORD,
            settings=variant.activemq,
        )
    else:
        options: list[str] = []
        if variant.ackwire:
            config = log_path.with_name("ackwire.toml")
            config.write_text(variant.ackwire)
            options += ["--config", str(config)]
        starting = running_broker(listeners, log_path=log_path, options=options)
    logs = request.session.stash.setdefault(_LOGS, [])
    logs.append(log_path)
    with starting as running:
        yield Broker(running)
    logs.remove(log_path)


@pytest.fixture(scope="session")
def start_jvm(
    java_cache: Path, tls: TlsFiles, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Callable[[], JavaDriver]]:
    """Starts a JVM with the real client in it, which ends with the test session at the latest."""
    classes = compiled(JAVA_SOURCES / "client", CLIENT_JARS, java_cache)
    options = trust_store_options(tls.trust_store, STORE_PASSWORD)
    folder = tmp_path_factory.mktemp("jvm")
    logs = request.session.stash.setdefault(_LOGS, [])
    with ExitStack() as running:

        def start() -> JavaDriver:
            log_path = folder / f"java-client-{len(list(folder.iterdir()))}.log"
            logs.append(log_path)
            return running.enter_context(JavaDriver(classes, log_path=log_path, options=options))

        yield start


@pytest.fixture(scope="session")
def live_driver(start_jvm: Callable[[], JavaDriver]) -> Callable[[], JavaDriver]:
    """The JVM that tests share, or its successor."""
    drivers = [start_jvm()]

    def current() -> JavaDriver:
        if not drivers[-1].is_running:
            drivers.append(start_jvm())
        return drivers[-1]

    return current


@pytest.fixture
def jms(broker: Broker, live_driver: Callable[[], JavaDriver]) -> Iterator[Jms]:  # noqa: ARG001 - stops after us
    """The real client; whatever a test leaves open is closed after it, without a single error."""
    jms = Jms(live_driver())
    yield jms
    assert jms.reset() == []


@pytest.fixture
def doomed_jms(broker: Broker, start_jvm: Callable[[], JavaDriver]) -> Jms:  # noqa: ARG001 - stops after us
    """A client in a JVM of its own, for the test to kill."""
    return Jms(start_jvm())


@pytest.fixture
def tcp(broker: Broker) -> str:
    """The default listener's URL."""
    return broker.url("tcp")


@pytest.fixture(params=CORE_ROUTES)
def url(broker: Broker, request: pytest.FixtureRequest) -> str:
    """The URL of each core route in turn."""
    return broker.url(request.param)


_names = itertools.count(1)


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    """A queue that no other test uses."""
    return f"queue://{_destination_name(request)}"


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic that no other test uses."""
    return f"topic://{_destination_name(request)}"


@pytest.fixture
def proxy(broker: Broker) -> Iterator[CuttableProxy]:
    """A way to the default listener that the test can cut."""
    with CuttableProxy(broker.port("tcp")) as proxy:
        yield proxy


def _destination_name(request: pytest.FixtureRequest) -> str:
    return f"{re.sub('[^A-Za-z0-9_]+', '-', request.node.name)}.{next(_names)}"

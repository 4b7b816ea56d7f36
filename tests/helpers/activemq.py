"""The real ActiveMQ broker, as the yardstick: the conformance suite must pass against it too.

It runs in memory in a JVM of its own (`tests/conformance/java/broker`), listening on URIs like ours.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.helpers.java import JVM_OPTIONS, KAHADB_JARS, classpath
from tests.helpers.processes import ManagedProcess, RunningBroker, wait_until_ready


@contextmanager
def running_activemq(
    listeners: Sequence[str],
    *,
    classes: Path,
    log_path: Path,
    key_store: Path,
    password: str,
    settings: Sequence[str] = (),
) -> Iterator[RunningBroker]:
    """Run ActiveMQ on the *listeners*; those with TLS use the key and certificate in *key_store*.

    The *settings* are written as `Settings.java` explains.
    """
    prefix = "-Djavax.net.ssl.keyStore"
    tls = [f"{prefix}={key_store}", f"{prefix}Type=PKCS12", f"{prefix}Password={password}"]
    argv = ["java", *JVM_OPTIONS, *tls, "-cp", classpath(KAHADB_JARS, classes), "ActiveMqBroker"]
    argv += [f"--broker;dataDirectory={log_path.parent / 'activemq-data'}"]  # for those with a store
    argv += [*(f"--{setting}" for setting in settings), *listeners]
    with ManagedProcess(argv, log_path=log_path) as process:
        yield wait_until_ready(process, len(listeners))

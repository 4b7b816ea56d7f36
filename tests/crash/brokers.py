"""The brokers that can be killed: ours, and the real ActiveMQ with its file store, to try the harness itself on."""

import random
import socket
from collections.abc import Callable
from pathlib import Path

from ackwire.config.store_uri import parse_store_uri
from ackwire.store.sql.drivers import driver_for
from tests.helpers.databases import mariadb, postgresql
from tests.helpers.java import BROKER_JARS, JVM_OPTIONS, classpath, compiled
from tests.helpers.processes import ManagedProcess, ackwire_program
from tests.helpers.sql_factories import wipe

_ACTIVEMQ_SOURCES = Path(__file__).parent.parent / "conformance/java/broker"
ACTIVEMQ_JARS = (*BROKER_JARS, "activemq-kahadb-store.jar", "activemq-protobuf.jar")
_SERVERS = {"postgresql": postgresql, "mariadb": mariadb}
_PORTS = range(20000, 32000)  # below those that the system gives to clients, one of which could take ours in between

# Small files and frequent checkpoints, so that the broker is killed while it begins a new file or gives up an old one,
# and while a database catches up, too.
_SETTINGS = """
[store]
segment_bytes = "128 KiB"
checkpoint_seconds = 0.5
"""

StartBroker = Callable[[], ManagedProcess]
"""Starts a broker on the data that the one before left; it prints a ready line."""


def free_port(rng: random.Random) -> int:
    """A port of this machine that nobody listens on, to be used again and again."""
    while True:
        port = rng.choice(_PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def ackwire(store: str, port: int, folder: Path) -> StartBroker:
    """`ackwire serve` with the *store* of that name: "journal+leveldb" for a journal with that index, "postgresql" for
    a database of a temporary server, "journal+postgresql" for a journal in front of it. Its files and its log are below
    *folder*."""
    config = folder / "ackwire.toml"
    config.write_text(_SETTINGS)
    argv = [str(ackwire_program()), "serve", "--config", str(config), "--store", _store_uri(store, folder)]
    argv += ["--data", str(folder / "data"), "--listen", f"tcp://127.0.0.1:{port}"]
    return lambda: ManagedProcess(argv, log_path=folder / "broker.log")


def _store_uri(store: str, folder: Path) -> str:
    """What `--store` is given for a *store* of that name, whose database is empty."""
    journal, _, name = store.rpartition("+")
    prefix = f"{journal}+" if journal else ""
    if name == "sqlite":
        return f"{prefix}sqlite:///{folder / 'messages.db'}"
    if name in _SERVERS:
        uri = _SERVERS[name]().uri
        wipe(driver_for(parse_store_uri(uri), None))
        return prefix + uri
    return f"{store}:" if journal else store


def activemq(port: int, folder: Path, java_cache: Path) -> StartBroker:
    """ActiveMQ with KahaDB and its scheduler's store."""
    classes = compiled(_ACTIVEMQ_SOURCES, BROKER_JARS, java_cache)
    argv = ["java", *JVM_OPTIONS, "-cp", classpath(ACTIVEMQ_JARS, classes), "ActiveMqBroker"]
    argv += [f"--broker;persistent=true;schedulerSupport=true;dataDirectory={folder / 'data'}"]
    argv += [f"tcp://127.0.0.1:{port}"]
    return lambda: ManagedProcess(argv, log_path=folder / "broker.log")


def start_of(kind: str, port: int, folder: Path, java_cache: Path) -> StartBroker:
    """How to start the broker of that *kind*: `activemq`, or the name of one of our stores."""
    return activemq(port, folder, java_cache) if kind == "activemq" else ackwire(kind, port, folder)

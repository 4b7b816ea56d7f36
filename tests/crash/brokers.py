"""The brokers that can be killed: ours, and the real ActiveMQ with its file store, to try the harness itself on."""

import random
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.helpers.databases import DatabaseServer, mariadb, postgresql
from tests.helpers.java import BROKER_JARS, JVM_OPTIONS, classpath, compiled
from tests.helpers.processes import ManagedProcess, ackwire_program

_ACTIVEMQ_SOURCES = Path(__file__).parent.parent / "conformance/java/broker"
ACTIVEMQ_JARS = (*BROKER_JARS, "activemq-kahadb-store.jar", "activemq-protobuf.jar")
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


DATABASE_SERVERS: Final[dict[str, Callable[[], DatabaseServer]]] = {"postgresql": postgresql, "mariadb": mariadb}
STORES: Final = ("memory", "journal", "journal+leveldb", "sqlite", *DATABASE_SERVERS)
"""What `ackwire` knows; "journal+postgresql" and the like are a journal in front of a database."""


def store_uri(kind: str, folder: Path) -> str:
    """The store of that *kind*, as `--store` wants it: new, and empty."""
    before, _, database = kind.rpartition("+")
    prefix = f"{before}+" if before else ""
    if database == "sqlite":
        return f"{prefix}sqlite:///{folder / 'messages.db'}"
    if database in DATABASE_SERVERS:
        return prefix + DATABASE_SERVERS[database]().new_database()
    return f"{kind}:" if before else kind


def ackwire(kind: str, port: int, folder: Path) -> StartBroker:
    """`ackwire serve` with the store of that *kind*, "journal+leveldb" for a journal with that index; its files and its
    log are below *folder*."""
    config = folder / "ackwire.toml"
    config.write_text(_SETTINGS)
    argv = [str(ackwire_program()), "serve", "--config", str(config), "--store", store_uri(kind, folder)]
    argv += ["--data", str(folder / "data"), "--listen", f"tcp://127.0.0.1:{port}"]
    return lambda: ManagedProcess(argv, log_path=folder / "broker.log")


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

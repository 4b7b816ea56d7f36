"""The brokers that can be killed: ours, and the real ActiveMQ with its file store, to try the harness itself on."""

import random
import socket
from collections.abc import Callable
from pathlib import Path

from tests.helpers.java import BROKER_JARS, JVM_OPTIONS, classpath, compiled
from tests.helpers.processes import ManagedProcess, ackwire_program

_ACTIVEMQ_SOURCES = Path(__file__).parent.parent / "conformance/java/broker"
ACTIVEMQ_JARS = (*BROKER_JARS, "activemq-kahadb-store.jar", "activemq-protobuf.jar")
_PORTS = range(20000, 32000)  # below those that the system gives to clients, one of which could take ours in between

# Small files, so that the broker is killed while it begins a new one or gives up an old one, too.
_SETTINGS = """
[store]
segment_bytes = "128 KiB"
index = "{index}"
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
    """`ackwire serve` with the *store* of that name, "journal+leveldb" for a journal with that index; its files and its
    log are below *folder*."""
    config = folder / "ackwire.toml"
    kind, _, index = store.partition("+")
    config.write_text(_SETTINGS.format(index=index or "lmdb"))
    argv = [str(ackwire_program()), "serve", "--config", str(config), "--store", kind]
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

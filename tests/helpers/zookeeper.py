"""A real ZooKeeper for tests: Debian's package, in a temporary folder, on loopback and a free port."""

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

from tests.helpers.databases import free_port
from tests.helpers.java import JARS

PACKAGE: Final = "zookeeper"
TICK_MS: Final = 500
"""Sessions last from two of these to twenty."""
_START_SECONDS_MAX: Final = 60.0
_JARS: Final = (
    "zookeeper.jar",
    "zookeeper-jute.jar",
    "slf4j-api.jar",
    "slf4j-simple.jar",
    "netty-all.jar",
    "commons-cli.jar",
    "commons-io.jar",
    "metrics-core.jar",
    "snappy-java.jar",
    "jackson-core.jar",
    "jackson-databind.jar",
    "jackson-annotations.jar",
    "audience-annotations.jar",
    "yetus-audience-annotations.jar",
    "json-simple.jar",
    "jline2.jar",
)


def missing_package() -> str | None:
    """What is missing to run it, or None."""
    if (JARS / "zookeeper.jar").exists() and shutil.which("java"):
        return None
    return f"ZooKeeper not found; apt-get install {PACKAGE}"


class ZooKeeperServer:
    """One server: started, killed, stopped and continued as a test wants."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ackwire-zk-"))
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        (self.folder / "zoo.cfg").write_text(
            f"tickTime={TICK_MS}\ndataDir={self.folder / 'data'}\nclientPortAddress=127.0.0.1\n"
            f"clientPort={self.port}\nadmin.enableServer=false\nmaxClientCnxns=0\nforceSync=no\n"
        )
        self.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def start(self) -> None:
        jars = [JARS / name for name in _JARS]
        argv = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        argv += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", os.pathsep.join(map(str, jars))]
        argv += ["org.apache.zookeeper.server.ZooKeeperServerMain", str(self.folder / "zoo.cfg")]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder)
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _START_SECONDS_MAX
        while True:
            client = KazooClient(hosts=self.address, timeout=4)
            try:
                client.start(2)
            except KazooTimeoutError:
                assert self._process is not None
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError(self.log.read_text()) from None
            else:
                return
            finally:
                client.stop()
                client.close()

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def remove(self) -> None:
        """End it, and remove all it has written."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


@cache
def zookeeper() -> ZooKeeperServer:
    """The ZooKeeper of this test process. Fails in CI, and skips elsewhere, where the package is missing."""
    problem = missing_package()
    if problem is not None:
        if os.environ.get("CI") == "true":
            pytest.fail(problem, pytrace=False)
        pytest.skip(problem)
    server = ZooKeeperServer()
    atexit.register(server.remove)
    return server


@contextmanager
def running_zookeeper() -> Iterator[ZooKeeperServer]:
    """One of its own, for a test that kills or stops it."""
    zookeeper()  # skips where there is none
    server = ZooKeeperServer()
    try:
        yield server
    finally:
        server.remove()

"""A server of a ZooKeeper ensemble, on a host of its own."""

import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.cluster.faults.network import Network
from tests.helpers.processes import ManagedProcess

_CLIENT_PORT: Final = 2181
_READY_SECONDS_MAX: Final = 60.0
_CLASS_PATH: Final = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar"
_JVM_OPTIONS: Final = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_SETTINGS: Final = """\
tickTime=500
initLimit=20
syncLimit=10
dataDir={data}
clientPort={port}
clientPortAddress={address}
admin.enableServer=false
4lw.commands.whitelist=*
maxClientCnxns=0
"""


class Keeper:
    """Started, killed and started again on the same data."""

    def __init__(self, name: str, number: int, addresses: Mapping[str, str], network: Network, folder: Path) -> None:
        self.name = name
        self.client_address = f"{addresses[name]}:{_CLIENT_PORT}"
        self._host = addresses[name]
        self._network = network
        self._folder = folder / name
        data = self._folder / "data"
        data.mkdir(parents=True)
        (data / "myid").write_text(f"{number}\n")
        servers = [f"server.{it}={address}:2888:3888\n" for it, address in enumerate(addresses.values(), 1)]
        self._config = self._folder / "zoo.cfg"
        self._config.write_text(_SETTINGS.format(data=data, port=_CLIENT_PORT, address=self._host) + "".join(servers))
        self._process: ManagedProcess | None = None

    def start(self) -> None:
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        argv = ["java", *_JVM_OPTIONS, "-cp", _CLASS_PATH, main, str(self._config)]
        self._process = ManagedProcess(self._network.command(self.name, argv), log_path=self._folder / "zookeeper.log")

    def restore(self) -> None:
        if self._process is None:
            self.start()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
        self._process = None

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + _READY_SECONDS_MAX
        while not self._says("ruok", "imok") or not self._says("srvr", "Mode: "):
            assert self._process is not None
            if time.monotonic() > deadline or not self._process.is_running:
                raise self._process.failure("is not ready")
            time.sleep(0.05)

    @property
    def is_leader(self) -> bool:
        return self._says("srvr", "Mode: leader")

    def _says(self, question: str, answer: str) -> bool:
        try:
            with socket.create_connection((self._host, _CLIENT_PORT), 1.0) as connection:
                connection.sendall(question.encode())
                connection.settimeout(1.0)
                said = b""
                while data := connection.recv(4096):
                    said += data
        except OSError:
            return False
        return answer.encode() in said

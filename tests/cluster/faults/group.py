"""Three brokers with a replicated journal and three ZooKeeper servers, each on a host of its own."""

import json
import re
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.cluster.faults.keepers import Keeper
from tests.cluster.faults.network import Network
from tests.helpers.processes import ManagedProcess, ProcessFailed, ackwire_program

BROKERS: Final = ("one", "two", "three")
KEEPERS: Final = ("zk1", "zk2", "zk3")
CLIENT_PORT: Final = 61616
SESSION_SECONDS: Final = 2
_HTTP_PORT: Final = 8161
_HTTP_SECONDS: Final = 1.0
_POLL_SECONDS: Final = 0.05
_CALM_SECONDS_MAX: Final = 60.0
_BALLAST: Final = "ballast"
_DISK_BYTES: Final = 256 << 20
_COMPLAINT: Final = re.compile(r"^\S+ \S+ ERROR ")  # as `ackwire serve` logs
_EXPECTED: Final = re.compile(r"no space left|disk is full|cannot be written|MDB_", re.IGNORECASE)
"""What a broker may complain of whose disk was filled."""

_SETTINGS: Final = """
[broker]
name = "shop"

[listen]
uris = ["tcp://{address}:{client_port}"]

[http]
listen = "{address}:{http_port}"

[store]
kind = "replicated"
segment_bytes = "128 KiB"
free_bytes_min = "8 MiB"
checkpoint_seconds = 0.5

[replication]
node = "{name}"
replicas = 3
zk_address = "{keepers}"
zk_session_timeout_seconds = {session}
bind = "tcp://{address}:61619"
secret_file = "{secret}"
"""


class Broker:
    """One node: its files, its process, and what was done to it."""

    def __init__(self, name: str, network: Network, folder: Path, keepers: Sequence[str], secret: Path) -> None:
        self.name = name
        self.address = network.address(name)
        self._disk = folder / name / "disk"
        self.data = self._disk / "data"
        self.log = folder / name / "broker.log"
        self.is_paused = False
        self.is_cut_off = False
        """Whether clients must not try it: it may answer although it is no longer the master."""
        self._network = network
        self.config = folder / name / "ackwire.toml"
        self._disk.mkdir(parents=True)
        size = f"size={_DISK_BYTES}"  # a disk of its own, which can be filled; it goes with our namespace
        subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(self._disk)], check=True)
        self.config.write_text(
            _SETTINGS.format(
                name=name,
                address=self.address,
                client_port=CLIENT_PORT,
                http_port=_HTTP_PORT,
                keepers=",".join(keepers),
                session=SESSION_SECONDS,
                secret=secret,
            )
        )
        self._process: ManagedProcess | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.is_running

    def start(self) -> None:
        argv = [str(ackwire_program()), "serve", "--config", str(self.config), "--data", str(self.data)]
        self._process = ManagedProcess(self._network.command(self.name, argv), log_path=self.log)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
        self._process, self.is_paused = None, False

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)
        self.is_paused = True

    def go_on(self) -> None:
        if self.is_paused:
            self._signal(signal.SIGCONT)
        self.is_paused = False

    def _signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def wipe(self) -> None:
        """Its disk is new."""
        assert not self.is_running
        shutil.rmtree(self.data)

    def health(self) -> dict[str, Any]:
        """What it says of itself; nothing if it does not answer."""
        if not self.is_running or self.is_paused:
            return {}
        try:
            with urllib.request.urlopen(f"http://{self.address}:{_HTTP_PORT}/health", timeout=_HTTP_SECONDS) as answer:
                said = json.load(answer)
        except urllib.error.HTTPError as error:  # a slave, or a broker with trouble, has another status
            said = json.loads(error.read() or b"{}")
        except (OSError, ValueError):
            return {}
        return said if isinstance(said, dict) else {}

    @property
    def is_master(self) -> bool:
        return self.health().get("role") == "master"

    def connections(self) -> int:
        """Of clients."""
        try:
            token = (self.data / "http.token").read_text().strip()
            request = urllib.request.Request(f"http://{self.address}:{_HTTP_PORT}/metrics")
            request.add_header("Authorization", f"Bearer {token}")
            with urllib.request.urlopen(request, timeout=_HTTP_SECONDS) as answer:  # noqa: S310 - http
                text = answer.read().decode()
        except OSError:
            return -1
        found = re.search(r"^ackwire_connections (\d+)", text, re.MULTILINE)
        return -1 if found is None else int(found[1])

    def fill_disk(self) -> None:
        """Its file system has no byte left."""
        ballast = self._disk / _BALLAST
        with ballast.open("wb") as file:
            while True:
                try:
                    file.write(bytes(1 << 16))
                    file.flush()
                except OSError:
                    return

    def free_disk(self) -> None:
        (self._disk / _BALLAST).unlink(missing_ok=True)

    def unmount(self) -> None:
        subprocess.run(["umount", str(self._disk)], check=True)

    def keep(self) -> None:
        """Copy its data to where it outlives this program."""
        if self.data.exists():
            shutil.copytree(self.data, self.config.parent / "data", dirs_exist_ok=True)


class Group:
    """The brokers and the ensemble, all running when the `with` block begins, and gone when it ends."""

    def __init__(self, network: Network, folder: Path) -> None:
        self.network = network
        secret = folder / "secret"
        secret.write_text("what the members of this group know\n")
        secret.chmod(0o600)
        addresses = {name: network.address(name) for name in KEEPERS}
        self.keepers = {
            name: Keeper(name, number, addresses, network, folder) for number, name in enumerate(KEEPERS, 1)
        }
        uris = [keeper.client_address for keeper in self.keepers.values()]
        self.brokers = {name: Broker(name, network, folder, uris, secret) for name in BROKERS}

    def __enter__(self) -> Self:
        try:
            for keeper in self.keepers.values():
                keeper.start()
            for keeper in self.keepers.values():
                keeper.wait_until_ready()
            for broker in self.brokers.values():
                broker.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        for broker in self.brokers.values():
            broker.unmount()

    def stop(self) -> None:
        for broker in self.brokers.values():
            broker.kill()
        for keeper in self.keepers.values():
            keeper.kill()

    def candidates(self) -> list[tuple[str, int]]:
        """Where clients may look for the master."""
        return [
            (it.address, CLIENT_PORT)
            for it in self.brokers.values()
            if it.is_running and not it.is_paused and not it.is_cut_off
        ]

    def master(self, *, seconds: float = _CALM_SECONDS_MAX) -> Broker:
        """The master, as soon as there is one. Raises `ProcessFailed`."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for broker in self.brokers.values():
                if not broker.is_cut_off and broker.is_master:
                    return broker
            time.sleep(_POLL_SECONDS)
        raise self.failure(f"no master within {seconds} s")

    def slaves(self) -> list[Broker]:
        master = self.master()
        return [it for it in self.brokers.values() if it is not master]

    def restore(self) -> None:
        """Undo every fault, and wait until all nodes are there and have what the master has."""
        self.network.heal()
        for keeper in self.keepers.values():
            keeper.restore()
        for broker in self.brokers.values():
            broker.go_on()
            broker.is_cut_off = False
            broker.free_disk()
            if not broker.is_running:
                broker.start()

    def wait_until_whole(self) -> None:
        """Every broker takes part. Raises `ProcessFailed`."""
        deadline = time.monotonic() + _CALM_SECONDS_MAX
        roles: list[object] = []
        while time.monotonic() < deadline:
            roles = [it.health().get("role") for it in self.brokers.values()]
            if sorted(str(it) for it in roles) == ["master", "slave", "slave"]:
                return
            time.sleep(_POLL_SECONDS)
        raise self.failure(f"the group is not whole within {_CALM_SECONDS_MAX} s: {roles}")

    def transfer_to(self, broker: Broker) -> None:
        """Hand over mastership, as an operator does, who asks again while the node is refused."""
        deadline = time.monotonic() + _CALM_SECONDS_MAX
        while True:
            master = self.master()
            argv = [str(ackwire_program()), "cluster", "transfer", broker.name]
            argv += ["--config", str(master.config), "--data", str(master.data)]
            done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=_CALM_SECONDS_MAX)
            if done.returncode == 0:
                return
            if time.monotonic() > deadline:
                raise self.failure(f"transfer to {broker.name}: {done.stdout}{done.stderr}")
            time.sleep(_POLL_SECONDS)

    def complaints(self) -> list[str]:
        """Errors in the logs that no fault explains."""
        found: list[str] = []
        for broker in self.brokers.values():
            lines = broker.log.read_text(errors="replace").splitlines()
            found += [f"{broker.name}: {it}" for it in lines if _COMPLAINT.search(it) and not _EXPECTED.search(it)]
        return found

    def failure(self, what: str) -> ProcessFailed:
        logs = "\n".join(f"--- {it.name}\n{_tail(it.log)}" for it in self.brokers.values())
        return ProcessFailed(f"{what}\n{logs}")


def _tail(path: Path, length: int = 3000) -> str:
    return path.read_bytes()[-length:].decode(errors="replace") if path.exists() else ""

"""Groups of three processes with one log: `ackwire serve` with a replicated journal, and a RabbitMQ cluster.

All of it is on loopback, with data in temporary folders, and ends with the `with` block. A client of RabbitMQ connects
to the node on which it declares its queue, and that one leads it: no message goes a way round. A client of Ackwire
connects to the master.
"""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import psutil

from bench.brokers import (
    MEMORY_BYTES_MAX,
    RABBITMQ_READY,
    RABBITMQ_SCRIPT,
    START_TIMEOUT_SECONDS,
    STOP_TIMEOUT_SECONDS,
    Running,
    free_ports,
    rabbitmq_environment,
    rabbitmq_name,
    with_environment,
)
from tests.helpers.processes import ManagedProcess, ProcessFailed, ackwire_program
from tests.helpers.zookeeper import ZooKeeperServer

NODES: Final = ("a", "b", "c")
SESSION_SECONDS: Final = 4.0
"""The default of `replication.zk_session_timeout_seconds`."""
POLL_SECONDS: Final = 0.02
HTTP_SECONDS: Final = 5.0
LAG_MAX: Final = 100
"""Records that a node may lack that follows: a sender may be at work."""

_Found = TypeVar("_Found")

_SETTINGS: Final = """\
[broker]
name = "{name}"
[listen]
uris = ["tcp://127.0.0.1:{port}"]
[http]
listen = "127.0.0.1:{http_port}"
token_file = "{folder}/http.token"
[limits]
memory_bytes_max = {memory}
[store]
kind = "replicated"
data = "{folder}/data"
{store}
[replication]
zk_address = "{keeper}"
zk_session_timeout_seconds = {session}
bind = "tcp://127.0.0.1:{replication_port}"
"""


class Member:
    """One node of a group: started, killed and asked."""

    def __init__(self, name: str, folder: Path, keeper: str, session_seconds: float, store: str) -> None:
        self.name = name
        self.port, self.http_port, replication_port = free_ports(3)
        self.folder = folder / name
        self.folder.mkdir(parents=True)
        self.process: ManagedProcess | None = None
        (self.folder / "ackwire.toml").write_text(
            _SETTINGS.format(
                name=name,
                port=self.port,
                http_port=self.http_port,
                folder=self.folder,
                memory=MEMORY_BYTES_MAX,
                keeper=keeper,
                session=session_seconds,
                store=store,
                replication_port=replication_port,
            )
        )

    @property
    def uri(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def start(self) -> None:
        argv = [str(ackwire_program()), "serve", "--config", str(self.folder / "ackwire.toml")]
        self.process = ManagedProcess(argv, log_path=self.folder / "ackwire.log")

    def kill(self) -> None:
        process, self.process = self.process, None
        assert process is not None, "not started"
        process.kill()

    def stop(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.terminate(STOP_TIMEOUT_SECONDS)

    def standing(self) -> dict[str, Any]:
        """What it says of the group; empty if it says nothing."""
        if self.process is None:
            return {}
        return self._asked("/v1/cluster")

    def transfer(self, node: str) -> str:
        """Have *node* be master; returns why that cannot be, or nothing."""
        answer = self._asked("/v1/cluster/transfer", {"node": node})
        return str(answer.get("error", "")) if answer else "no answer"

    def _asked(self, path: str, body: object = None) -> dict[str, Any]:
        token = (self.folder / "http.token").read_text().strip() if (self.folder / "http.token").exists() else ""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.http_port}{path}", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=HTTP_SECONDS) as answer:  # noqa: S310 - http
                found: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                found = {"error": error.read().decode(errors="replace")}
        except (OSError, ValueError):
            found = {}
        return found


class Group:
    """Three nodes with a replicated journal, and a ZooKeeper."""

    def __init__(self, folder: Path, session_seconds: float = SESSION_SECONDS, *, stores_first: bool = False) -> None:
        """With *stores_first* a message is on disk before a consumer gets it, so each one is written."""
        self._keeper = ZooKeeperServer()
        store = 'early_dispatch = "off"' if stores_first else ""
        self.members = [Member(name, folder, self._keeper.address, session_seconds, store) for name in NODES]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self.members:
            with suppress(ProcessFailed):  # what was measured before stands
                member.stop()
        self._keeper.remove()

    def start(self) -> Running:
        """Start all, and wait until there is a master that both others follow."""
        for member in self.members:
            member.start()
        master = self.settled()
        others = [psutil.Process(_pid(it)) for it in self.members if it is not master]
        return Running(master.uri, psutil.Process(_pid(master)), (master.port,), tuple(others))

    @property
    def failover(self) -> str:
        """For clients that are to find the master; with the client's own delays."""
        return f"failover:({','.join(it.uri for it in self.members)})"

    def master(self) -> Member | None:
        """The one that says it is."""
        return next((it for it in self.members if it.standing().get("role") == "master"), None)

    def settled(self) -> Member:
        """Wait until both others follow the master, and return it."""
        return until(self._settled, "the group has no master that all follow")

    def _settled(self) -> Member | None:
        master = self.master()
        nodes = [] if master is None else master.standing().get("nodes", [])
        return master if sum(it["counts"] and it["lag_records"] <= LAG_MAX for it in nodes) == len(NODES) else None


def _pid(member: Member) -> int:
    assert member.process is not None, "not started"
    return member.process.pid


def until(found: Callable[[], _Found | None], complaint: str) -> _Found:
    """What *found* returns once it is not None."""
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while (result := found()) is None:
        if time.monotonic() > deadline:
            raise ProcessFailed(f"{complaint} after {START_TIMEOUT_SECONDS:g} s")
        time.sleep(POLL_SECONDS)
    return result


class RabbitMqCluster:
    """Three nodes of RabbitMQ that find each other by a list, with a port mapper of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[ManagedProcess] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._processes:  # the port mapper, which was started first, ends last
            with suppress(ProcessFailed):
                self._processes.pop().stop()

    def start(self) -> Running:
        """Start all, and wait for them. The first one is the client's."""
        mapper_port, *ports = free_ports(1 + 2 * len(NODES))
        client_ports, distribution_ports = ports[: len(NODES)], ports[len(NODES) :]
        environments = [
            self._environment(name, port, distribution_port, mapper_port, client_ports)
            for name, port, distribution_port in zip(NODES, client_ports, distribution_ports, strict=True)
        ]
        self._run(environments[0], ["epmd"], "port-mapper")
        nodes = []
        for name, environment in zip(NODES, environments, strict=True):
            nodes.append(self._run(environment, [str(RABBITMQ_SCRIPT)], name))
            nodes[-1].wait_for_line(RABBITMQ_READY, START_TIMEOUT_SECONDS)
        first, *others = [psutil.Process(it.pid) for it in nodes]
        self._check(environments[0])
        return Running(f"amqp://guest:guest@127.0.0.1:{client_ports[0]}", first, (client_ports[0],), tuple(others))

    def _environment(
        self, name: str, port: int, distribution_port: int, mapper_port: int, all_ports: Sequence[int]
    ) -> dict[str, str]:
        own = self._folder / name
        own.mkdir(parents=True)
        discovery = "cluster_formation.peer_discovery_backend = classic_config\n" + "".join(
            f"cluster_formation.classic_config.nodes.{number} = {rabbitmq_name(it)}\n"
            for number, it in enumerate(all_ports, 1)
        )
        return rabbitmq_environment(own, self._folder, port, distribution_port, mapper_port, discovery)

    def _run(self, environment: dict[str, str], argv: list[str], name: str) -> ManagedProcess:
        process = ManagedProcess(with_environment(environment, argv), log_path=self._folder / f"{name}.log")
        self._processes.append(process)
        return process

    def _check(self, environment: dict[str, str]) -> None:
        """A quorum queue that is declared now must have as many members as there are nodes."""
        argv = [str(RABBITMQ_SCRIPT.with_name("rabbitmqctl")), "await_online_nodes", str(len(NODES))]
        asked = ManagedProcess(with_environment(environment, argv), log_path=self._folder / "rabbitmqctl.log")
        if asked.wait() != 0:
            raise asked.failure("did not see all nodes")

"""The demo on a group of three brokers with one journal: ZooKeeper elects, and a kill of the master is a take-over."""

import json
import os
import shutil
import time
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from examples.stage import ACKWIRE, USUAL_PORT, Child, DemoFailed, Run, free_port, is_free, say
from tests.helpers.zookeeper import ZooKeeperServer

NODES: Final = ("one", "two", "three")
SESSION_SECONDS: Final = 2
_MASTER_SECONDS_MAX: Final = 60.0
_POLL_SECONDS: Final = 0.05
_HEALTH_SECONDS: Final = 2.0

_SETTINGS: Final = """\
[broker]
name = "demo"

[listen]
uris = ["tcp://127.0.0.1:{port}"]

[http]
listen = "127.0.0.1:{http_port}"
token_file = "{token}"

[audit]
directory = "{audit}"

[store]
kind = "replicated"
data = "{data}"

[replication]
node = "{name}"
replicas = 3
zk_address = "{keeper}"
zk_session_timeout_seconds = {session}
bind = "tcp://127.0.0.1:{replication_port}"
"""


@dataclass
class Node:
    """A member of the group: where it is, and its process while it runs."""

    name: str
    port: int
    http_port: int
    config: Path
    process: Child | None = None

    @property
    def url(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    def role(self) -> str:
        """What it says it is; empty if it says nothing."""
        try:
            with urllib.request.urlopen(f"{self.http}/health", timeout=_HEALTH_SECONDS) as answer:  # noqa: S310 - http
                said: Any = json.load(answer)
        except urllib.error.HTTPError as error:  # a slave is healthy, and not ready for clients
            said = json.loads(error.read() or b"{}")
        except (OSError, ValueError):
            return ""
        return str(said.get("role", ""))


@dataclass
class ClusterRun(Run):
    """A run whose broker is a group. Clients know all its members; `replace_broker` kills the master."""

    nodes: list[Node] = field(default_factory=list)
    kills: int = 0
    _keeper: ZooKeeperServer | None = None

    def __exit__(self, *reason: object) -> None:
        super().__exit__(*reason)
        if self._keeper is not None:
            self._keeper.remove()

    def start_broker(self) -> Child:
        say("starting ZooKeeper, and three brokers that replicate one journal: ackwire serve --config NODE.toml")
        self._keeper = ZooKeeperServer()
        for name in NODES:
            self.nodes.append(self._node(name))
            self._start_node(self.nodes[-1])
        self.url = ",".join(node.url for node in self.nodes)
        return self._await_master()

    def _node(self, name: str) -> Node:
        assert self._keeper is not None
        port = USUAL_PORT if is_free(USUAL_PORT) and not self.nodes else free_port()
        node = Node(name, port, free_port(), self.folder / f"{name}.toml")
        node.config.write_text(
            _SETTINGS.format(
                name=name,
                port=port,
                http_port=node.http_port,
                replication_port=free_port(),
                token=self.token_file,
                audit=self.folder / f"audit-{name}",
                data=self.folder / f"data-{name}",
                keeper=self._keeper.address,
                session=SESSION_SECONDS,
            )
        )
        return node

    def _start_node(self, node: Node) -> None:
        node.process = self.start(f"broker-{node.name}-{self.kills}", [ACKWIRE, "serve", "--config", str(node.config)])
        self.children.insert(0, self.children.pop())  # brokers go last

    def _await_master(self) -> Child:
        """The master's process, when there is one; all that asks the broker asks it."""
        deadline = time.monotonic() + _MASTER_SECONDS_MAX
        while time.monotonic() < deadline:
            for node in self.nodes:
                if node.process is not None and node.role() == "master":
                    self.http = node.http
                    return node.process
            time.sleep(_POLL_SECONDS)
        raise DemoFailed(f"the group has no master after {_MASTER_SECONDS_MAX:g} s")

    def stop_broker(self) -> None:
        for node in self.nodes:
            if node.process is not None:
                node.process.terminate()

    def replace_broker(self) -> None:
        """Kill the master; another one takes over, and the killed one comes back as a slave."""
        began = time.monotonic()
        master = next(it for it in self.nodes if it.http == self.http)
        assert master.process is not None
        master.process.kill()
        self.children.remove(master.process)
        self.kills += 1
        master.process = None
        self._await_master()
        successor = next(it for it in self.nodes if it.http == self.http)
        say(f"{successor.name} is the master, {time.monotonic() - began:.1f} s after {master.name} was killed")
        self._start_node(master)

    @property
    def http_urls(self) -> str:
        return ",".join(node.http for node in self.nodes)

    @property
    def client_url(self) -> str:
        return f"failover:({self.url})?maxReconnectDelay=200"

    @property
    def token_file(self) -> Path:
        return self.folder / "http.token"

    def collect_audit(self) -> Path:
        """One directory with the events of all nodes, each of which has written its own."""
        events = self.folder / "audit" / "events"
        for node in self.nodes:
            source = self.folder / f"audit-{node.name}" / "events"
            with suppress(FileNotFoundError):
                shutil.copytree(source, events, copy_function=os.link, dirs_exist_ok=True)
        return self.folder / "audit"

"""Hosts of one test: each process in a network namespace of its own, joined by a bridge, with links that can be cut.

The program that uses this runs in a namespace of its own as well (`unshare --net`), so the machine's network is never
touched. A cut drops packets at the receiver, for one direction; nothing is refused, as with a broken switch.
"""

import os
import subprocess
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

_BRIDGE: Final = "hub"
_NETWORK: Final = "10.99.0"
_HUB_HOST: Final = 254


class Network:
    """Namespaces by name; gone when the `with` block ends."""

    def __init__(self, names: Sequence[str]) -> None:
        self._hosts = {name: number for number, name in enumerate(names, 1)}
        self._prefix = f"ackw{os.getpid()}-"

    def __enter__(self) -> Self:
        _ip("link", "set", "lo", "up")
        _ip("link", "add", _BRIDGE, "type", "bridge")
        _ip("addr", "add", f"{_NETWORK}.{_HUB_HOST}/24", "dev", _BRIDGE)
        _ip("link", "set", _BRIDGE, "up")
        for name in self._hosts:
            self._add(name)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in self._hosts:
            subprocess.run(["ip", "netns", "del", self._namespace(name)], check=False, capture_output=True)

    def _add(self, name: str) -> None:
        namespace, number = self._namespace(name), self._hosts[name]
        near, far = f"near{number}", f"far{number}"
        _ip("netns", "add", namespace)
        _ip("link", "add", near, "type", "veth", "peer", "name", far)
        _ip("link", "set", far, "netns", namespace)
        _ip("link", "set", near, "master", _BRIDGE, "up")
        _ip("-n", namespace, "addr", "add", f"{self.address(name)}/24", "dev", far)
        _ip("-n", namespace, "link", "set", far, "up")
        _ip("-n", namespace, "link", "set", "lo", "up")
        self._nft(name, "add table inet faults")
        self._nft(name, "add chain inet faults input { type filter hook input priority 0 ; }")

    def address(self, name: str) -> str:
        return f"{_NETWORK}.{self._hosts[name]}"

    def command(self, name: str, argv: Sequence[str]) -> list[str]:
        """*argv* on the host *name*; the process has the same pid as if it were started directly."""
        return ["ip", "netns", "exec", self._namespace(name), *argv]

    def cut(self, source: str, target: str) -> None:
        """Nothing that *source* sends reaches *target* any more."""
        self._nft(target, f"add rule inet faults input ip saddr {self.address(source)} drop")

    def part(self, names: Sequence[str], others: Sequence[str]) -> None:
        """Nothing passes between *names* and *others*."""
        for name in names:
            for other in others:
                self.cut(name, other)
                self.cut(other, name)

    def heal(self) -> None:
        """Everything passes again."""
        for name in self._hosts:
            self._nft(name, "flush chain inet faults input")

    def _namespace(self, name: str) -> str:
        return self._prefix + name

    def _nft(self, name: str, rule: str) -> None:
        subprocess.run(self.command(name, ["nft", rule]), check=True, capture_output=True)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)

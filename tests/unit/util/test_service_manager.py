"""What a service manager is told, over its socket."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ackwire.util.service_manager import ServiceManager


@pytest.fixture
def heard(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.setblocking(False)
        yield receiver


def test_readiness_is_told_once_and_the_status_each_time(heard: socket.socket) -> None:
    manager = ServiceManager({"NOTIFY_SOCKET": heard.getsockname()})
    manager.ready("slave, epoch 0: a has the lock")
    manager.ready("master, epoch 1: the lock was free")
    manager.stopping()
    told = [heard.recv(1000).decode() for _ in range(3)]
    assert told == [
        "READY=1\nSTATUS=slave, epoch 0: a has the lock",
        "STATUS=master, epoch 1: the lock was free",
        "STOPPING=1",
    ]


def test_an_abstract_socket_is_found() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind("")  # the system chooses an abstract name
        name = receiver.getsockname().decode().replace("\0", "@")
        ServiceManager({"NOTIFY_SOCKET": name}).ready("master")
        receiver.setblocking(False)
        assert receiver.recv(1000) == b"READY=1\nSTATUS=master"


def test_without_a_socket_or_with_one_that_is_gone_nothing_happens(tmp_path: Path) -> None:
    ServiceManager({}).ready("master")
    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready("master")

"""Connections with failover whose losses and returns a test can wait for."""

import threading

from ackwire import Connection
from tests.client.steps import ARRIVAL_SECONDS
from tests.conformance.jms import with_options


class Watched:
    """A connection that says when its link is lost, and when it is back."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.is_lost = threading.Event()
        self.is_back = threading.Event()
        connection.on_interrupted = self.is_lost.set
        connection.on_resumed = self.is_back.set

    def await_loss(self) -> None:
        assert self.is_lost.wait(ARRIVAL_SECONDS)

    def await_return(self) -> None:
        assert self.is_back.wait(ARRIVAL_SECONDS)


def failover(port: int, **options: object) -> str:
    """A URL that comes back at once; in the names of *options* `__` stands for a dot."""
    return with_options(f"failover:(tcp://127.0.0.1:{port})", **{"initialReconnectDelay": 10, **options})

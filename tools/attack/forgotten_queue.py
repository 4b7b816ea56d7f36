"""Queues of a virtual topic that never held a message: does a restart forget them, and lose what is published then?

    python -m tools.attack.forgotten_queue [TIMES]

A consumer of `Consumer.B.VirtualTopic.X` comes and goes before anything is published. The broker is stopped, or killed,
and started again; then a producer publishes persistent messages and is answered. Wanted: all of them wait for the
consumer when it comes back.
"""

import sys
import tempfile
from pathlib import Path

from tests.helpers.openwire_client import OpenWireClient, queue, topic
from tools.attack.rig import attacked

_SENDS = 10
_NAMES = ("Consumer.B.VirtualTopic.X", "Consumer.B.VirtualTopic.X.>", "plain")


def main(times: int = 3) -> None:
    for name in _NAMES:
        for is_killed in (False, True):
            lost = sum(_lost(name, is_killed=is_killed) for _ in range(times))
            how = "kill -9" if is_killed else "SIGTERM"
            print(f"{name:28} {how:8} {lost} of {times * _SENDS} acknowledged messages lost", flush=True)


def _lost(name: str, *, is_killed: bool) -> int:
    with tempfile.TemporaryDirectory(prefix="ackwire-forgotten-") as folder:
        data = Path(folder) / "data"
        with attacked(data=data) as broker:
            with OpenWireClient.logged_in(broker.port) as client:
                client.subscribe(queue(name))
                if is_killed:  # what is answered behind it is on disk, and so is what came before
                    client.send_text(queue("other"), "x", persistent=True)
            if is_killed:
                broker.process.kill()
        with attacked(data=data) as broker:
            with OpenWireClient.logged_in(broker.port) as client:
                where = topic("VirtualTopic.X") if "VirtualTopic" in name else queue(name)
                for _ in range(_SENDS):
                    client.send_text(where, "x", persistent=True)
            with OpenWireClient.logged_in(broker.port) as client:
                client.subscribe(queue(name))
                client.ping()
                client.ping()
                return _SENDS - sum(hasattr(it, "message") for it in client.take_events())


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

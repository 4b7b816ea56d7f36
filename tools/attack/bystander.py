"""The bystander's process (`rig.py`): pings the broker until standard input has a line, then prints its figures."""

import json
import selectors
import sys
import time
from dataclasses import asdict

from tests.helpers.openwire_client import OpenWireClient
from tools.attack.rig import Waits

_PAUSE_SECONDS = 0.002
_STALL_SECONDS_MAX = 100.0


def measure(port: int) -> Waits:
    """Ping the broker on *port* until somebody writes to standard input."""
    round_trips_ms: list[float] = []
    with OpenWireClient.logged_in(port) as client, selectors.DefaultSelector() as told:
        told.register(sys.stdin, selectors.EVENT_READ)
        print("connected", flush=True)
        while not told.select(_PAUSE_SECONDS):
            started = time.perf_counter()
            client.ping(_STALL_SECONDS_MAX)
            round_trips_ms.append((time.perf_counter() - started) * 1000)
    round_trips_ms.sort()
    if not round_trips_ms:
        return Waits()
    count = len(round_trips_ms)
    return Waits(count, round_trips_ms[count // 2], round_trips_ms[count * 99 // 100], round_trips_ms[-1])


if __name__ == "__main__":
    print(json.dumps(asdict(measure(int(sys.argv[1])))))

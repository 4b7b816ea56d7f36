"""Half-sent frames: clients log in, send the beginning of a large frame, and hang up; again and again.

    python -m tools.attack.half_frames [ROUNDS]

The broker may keep what has arrived while the client is there, within its bound, and nothing of it afterwards.
"""

import select
import socket
import sys
import time
from contextlib import ExitStack

from tests.helpers.openwire_client import OpenWireClient
from tools.attack.rig import attacked, print_row

_CONNECTIONS = 8
_DECLARED_BYTES = 95 * 1024 * 1024
_SENT = bytes(4 * 1024 * 1024)
_PIECE_BYTES = 256 * 1024
_STALLED_SECONDS = 0.05


def send_what_is_taken(sock: socket.socket, data: bytes | memoryview) -> None:
    """Send *data*, as far as the broker reads it: not when it takes nothing for a while, or has closed."""
    sock.setblocking(False)
    rest = memoryview(data)
    while rest and select.select([], [sock], [], _STALLED_SECONDS)[1]:
        try:
            rest = rest[sock.send(rest[:_PIECE_BYTES]) :]
        except ConnectionError:
            return


def main(rounds: int) -> None:
    with attacked("--store", "memory") as broker:
        with broker.bystander() as bystander:
            for _ in range(rounds):
                with ExitStack() as stack:
                    clients = [stack.enter_context(OpenWireClient.logged_in(broker.port)) for _ in range(_CONNECTIONS)]
                    for client in clients:
                        send_what_is_taken(client.socket, _DECLARED_BYTES.to_bytes(4) + _SENT)
                    broker.rss_mb()
        time.sleep(2)  # until the last hang-ups are noticed
        print_row("half frames", broker, bystander.result, f"{rounds} rounds")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)

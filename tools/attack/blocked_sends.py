"""Blocked sends: with the broker full, many clients send a large message each and stay; then they hang up.

    python -m tools.attack.blocked_sends [ROUNDS]

What waits for space may add up to `limits.blocked_bytes_max` and one frame, not to the number of clients.
"""

import sys
import time
from contextlib import ExitStack

from tests.helpers.openwire_client import OpenWireClient, queue
from tools.attack.half_frames import send_what_is_taken
from tools.attack.rig import Waits, attacked, print_row
from tools.attack.send_and_leave import LIMITS, fill

_CONNECTIONS = 8
_FRAME_BYTES = 16 * 1024 * 1024


def main(rounds: int) -> None:
    with attacked(toml=LIMITS) as broker:
        fill(broker, persistent=False)
        broker.first_rss_mb = broker.peak_rss_mb = broker.rss_mb()
        for _ in range(rounds):
            with ExitStack() as stack:
                clients = [stack.enter_context(OpenWireClient.logged_in(broker.port)) for _ in range(_CONNECTIONS)]
                for client in clients:
                    client.protocol.send(client.text_message(queue("full"), "x" * _FRAME_BYTES, persistent=False))
                    send_what_is_taken(client.socket, b"".join(client.protocol.data_to_send()))
                    broker.rss_mb()
        time.sleep(2)  # until the last hang-ups are noticed
        with OpenWireClient.logged_in(broker.port) as client:
            client.ping()
        print_row("blocked sends", broker, Waits(), f"{rounds} rounds of {_CONNECTIONS} x {_FRAME_BYTES >> 20} MiB")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)

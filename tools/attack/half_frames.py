"""Half-sent frames: clients log in, send the beginning of a large frame, and hang up; again and again.

    python -m tools.attack.half_frames [ROUNDS]

The broker may keep what has arrived while the client is there, within its bound, and nothing of it afterwards. All
clients of a round send at once. 1,000 rounds take two to four minutes.
"""

import sys
import time
from contextlib import ExitStack

from tests.helpers.openwire_client import OpenWireClient
from tools.attack.rig import Rounds, attacked, print_row
from tools.attack.writing import send_what_is_taken

_CONNECTIONS = 8
_DECLARED_BYTES = 95 * 1024 * 1024
_SENT = _DECLARED_BYTES.to_bytes(4) + bytes(4 * 1024 * 1024)


def main(rounds: int) -> None:
    with attacked("--store", "memory") as broker:
        curve = Rounds(broker, rounds)
        with broker.bystander() as bystander:
            for _ in range(rounds):
                with ExitStack() as stack:
                    clients = [stack.enter_context(OpenWireClient.logged_in(broker.port)) for _ in range(_CONNECTIONS)]
                    send_what_is_taken((client.socket, (_SENT,)) for client in clients)
                    broker.rss_mb()
                curve.ended()
        time.sleep(2)  # until the last hang-ups are noticed
        print_row("half frames", broker, bystander.result, f"{rounds} rounds; {curve}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)

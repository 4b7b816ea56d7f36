"""Send and leave: with the broker full, clients connect, send, and hang up without an answer; again and again.

    python -m tools.attack.send_and_leave [ROUNDS]

Neither memory nor store may pass its limit by more than `limits.blocked_bytes_max` and one frame: what a client had
sent without an answer is taken that far. So memory rises by those 32 MiB within the first rounds, and stays there.
"""

import sys
import time
from pathlib import Path

from ackwire.wire.openwire import commands
from tests.helpers.openwire_client import OpenWireClient, queue
from tools.attack.rig import Attacked, Rounds, Waits, attacked, print_row
from tools.attack.writing import send_what_is_taken

_BODY = "x" * 500_000
_SENDS = 2
LIMITS = """
[store]
segment_bytes = 4194304
[limits]
memory_bytes_max = 16777216
store_bytes_max = 16777216
temp_bytes_max = 0
"""


def disk_mb(folder: Path) -> float:
    """Bytes of the files below *folder*, as the disk counts them."""
    return sum(it.stat().st_blocks * 512 for it in folder.rglob("*") if it.is_file()) / 1_000_000


def fill(broker: Attacked, *, persistent: bool) -> None:
    """Send until a send is not answered any more."""
    with OpenWireClient.logged_in(broker.port) as client:
        for _ in range(200):
            client.post(client.text_message(queue("full"), _BODY, persistent=persistent))
            try:
                client.wait_for(commands.Response, timeout_seconds=1.0)
            except TimeoutError:
                return
        raise AssertionError("the broker does not become full")


def leave_often(broker: Attacked, rounds: int, *, persistent: bool) -> Rounds:
    """Connect, send and hang up, so many times; gives the curve of memory."""
    curve = Rounds(broker, rounds)
    for _ in range(rounds):
        with OpenWireClient.logged_in(broker.port) as client:
            for _ in range(_SENDS):
                client.protocol.send(client.text_message(queue("full"), _BODY, persistent=persistent))
            send_what_is_taken([(client.socket, client.protocol.data_to_send())])
        curve.ended()
    time.sleep(2)  # until the last hang-ups are noticed
    with OpenWireClient.logged_in(broker.port) as client:
        client.ping()
    return curve


def main(rounds: int) -> None:
    for persistent in (False, True):
        with attacked(toml=LIMITS) as broker:
            fill(broker, persistent=persistent)
            broker.first_rss_mb = broker.peak_rss_mb = broker.rss_mb()
            before_mb = disk_mb(broker.data)
            curve = leave_often(broker, rounds, persistent=persistent)
            name = "send and leave, " + ("persistent" if persistent else "non-persistent")
            disk = f"disk {before_mb:.0f} -> {disk_mb(broker.data):.0f} MB"
            print_row(name, broker, Waits(), f"{disk}, {rounds} rounds; {curve}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)

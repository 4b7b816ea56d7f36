"""Messages that are on disk, read back on the loop: a consumer, and browsers, of a queue that memory has no room for.

python -m tools.attack.paging_reads [MESSAGES]
"""

import sys

from ackwire.wire.openwire import commands
from tests.helpers.openwire_client import OpenWireClient, queue
from tools.attack.rig import attacked, print_row

MESSAGES = 60_000
_PORTION = 500
_WAIT_SECONDS = 60.0
_TOML = "[limits]\nmemory_bytes_max = 16777216\n"


def main(messages: int = MESSAGES) -> None:
    for persistent in (True, False):
        kind = "persistent" if persistent else "spilled"
        with attacked(toml=_TOML) as broker, OpenWireClient.logged_in(broker.port) as client:
            for _ in range(messages // _PORTION):
                client.send_text(queue("long"), *["x" * 1000] * _PORTION, persistent=persistent)
            with broker.bystander() as bystander:
                browser = client.subscribe(queue("long"), browser=True, prefetch_size=10_000)
                for _ in range(10_000):
                    client.wait_for(commands.MessageDispatch, timeout_seconds=_WAIT_SECONDS)
                client.request(commands.RemoveInfo(object_id=browser))
            print_row(f"browse 10,000, {kind}", broker, bystander.result)
            with broker.bystander() as bystander:
                client.subscribe(queue("long"), prefetch_size=1000)
                for number in range(1, messages + 1):
                    dispatch = client.wait_for(commands.MessageDispatch, timeout_seconds=_WAIT_SECONDS)
                    if number % _PORTION == 0:
                        client.ack(dispatch, count=_PORTION)
            print_row(f"consume all, {kind}", broker, bystander.result)
            print(broker.loop())


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

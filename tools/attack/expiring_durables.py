"""Messages expire for many durable subscribers that are away: how many dead letters there are, what they cost, and how
long a consumer beside them waits for its messages.

    python -m tools.attack.expiring_durables [SUBSCRIBERS] [MESSAGES]
"""

import sys
import time

from ackwire.wire.openwire import commands
from tests.helpers.openwire_client import OpenWireClient, queue, topic
from tools.attack.bulk import WAIT_SECONDS, tell_all, wait_for_dispatches
from tools.attack.rig import attacked, print_row

_LIVE_MS = 3_000


def main(subscribers: int = 500, messages: int = 1_000) -> None:
    where = topic("expiring")
    toml = "[destinations]\nexpiry_sweep_seconds = 1\n"
    with attacked("--store", "memory", toml=toml) as broker:
        with OpenWireClient.logged_in(broker.port) as client:
            for number in range(subscribers):
                consumer = client.subscribe(where, subscription_name=f"d{number}")
                client.request(commands.RemoveInfo(object_id=consumer))
            other = queue("beside")
            tell_all(client, [client.text_message(other, "x") for _ in range(1_000)])
            with broker.bystander() as bystander:
                many = [client.text_message(where, "x", persistent=True) for _ in range(messages)]
                for message in many:
                    message.timestamp = time.time_ns() // 1_000_000
                    message.expiration = message.timestamp + _LIVE_MS
                tell_all(client, many)
                time.sleep(_LIVE_MS / 1000)
                longest = 0.0
                cpu, until = broker.cpu_seconds(), time.monotonic() + 10
                while time.monotonic() < until:
                    started = time.perf_counter()
                    consumer = client.subscribe(other, prefetch_size=1_000)
                    wait_for_dispatches(client, 1_000)
                    client.request(commands.RemoveInfo(object_id=consumer))
                    longest = max(longest, time.perf_counter() - started)
            used = broker.cpu_seconds() - cpu
            client.subscribe(queue("ActiveMQ.DLQ"), prefetch_size=1_000_000)
            letters = 0
            client.ping(WAIT_SECONDS)
            client.events = type(client.events)(
                it for it in client.events if isinstance(it, commands.MessageDispatch) and it.message is not None
            )
            letters = len(client.events)
        note = f"{letters}+ dead letters, receive(1000) took {longest:.2f} s at most, {used:.1f} s of CPU"
        print_row(f"{messages} expire for {subscribers}", broker, bystander.result, note)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

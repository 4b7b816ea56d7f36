"""A client subscribes to the advisories of a broker with many queues, and is shown all of them.

python -m tools.attack.advisory_replay [QUEUES]
"""

import sys
import time

from tests.helpers.openwire_client import OpenWireClient, queue, topic
from tools.attack.bulk import make_destinations, wait_for_dispatches
from tools.attack.rig import attacked, print_row


def main(queues: int = 20_000) -> None:
    with attacked("--store", "memory") as broker, OpenWireClient.logged_in(broker.port) as client:
        make_destinations(client, (queue(f"q.{number}") for number in range(queues)))
        with broker.bystander() as bystander:
            started = time.perf_counter()
            client.subscribe(topic("ActiveMQ.Advisory.Queue"), prefetch_size=1_000_000)
            answered = time.perf_counter() - started
            wait_for_dispatches(client, queues)
            shown = time.perf_counter() - started
        note = f"answered in {answered:.2f} s, all shown in {shown:.2f} s"
        print_row(f"advisories of {queues} queues", broker, bystander.result, note)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

"""A client with many temporary queues: others connect as Java clients do beside it, and then it hangs up.

python -m tools.attack.temporary_queues [QUEUES_BESIDE] [CONNECTIONS] [QUEUES_LEFT]
"""

import sys

from ackwire.wire.openwire import commands
from tests.helpers.openwire_client import OpenWireClient, topic
from tools.attack.bulk import WAIT_SECONDS, make_destinations
from tools.attack.rig import attacked, print_row

_AS_JAVA = topic("ActiveMQ.Advisory.TempQueue,ActiveMQ.Advisory.TempTopic")


def _temporary(client: OpenWireClient, count: int) -> list[commands.ActiveMQTempQueue]:
    return [commands.ActiveMQTempQueue(f"{client.connection_id}:{number}") for number in range(count)]


def main(beside: int = 5_000, connections: int = 20, left: int = 20_000) -> None:
    with attacked("--store", "memory") as broker:
        with OpenWireClient.logged_in(broker.port) as client:
            make_destinations(client, _temporary(client, beside))
            with broker.bystander() as bystander:
                for _ in range(connections):
                    with OpenWireClient.logged_in(broker.port) as java:
                        java.subscribe(_AS_JAVA, prefetch_size=32766)
            print_row(f"{connections} logins beside {beside} temp", broker, bystander.result)
        with OpenWireClient.logged_in(broker.port) as client:
            make_destinations(client, _temporary(client, left))
            with broker.bystander() as bystander:
                client.close()
                with OpenWireClient.logged_in(broker.port) as other:
                    for _ in range(200):
                        other.ping(WAIT_SECONDS)
            print_row(f"hang-up with {left} temp", broker, bystander.result)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

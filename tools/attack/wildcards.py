"""Consumers of a pattern that stands for many queues: to subscribe, to acknowledge, to leave.

python -m tools.attack.wildcards [QUEUES] [CONSUMERS] [MESSAGES]
"""

import sys
import time

from ackwire.wire.openwire import commands
from ackwire.wire.openwire.commands import AckType
from tests.helpers.openwire_client import OpenWireClient, queue
from tools.attack.bulk import make_destinations, settle, tell_all, wait_for_dispatches
from tools.attack.rig import attacked, print_row


def main(queues: int = 20_000, consumers: int = 10, messages: int = 300) -> None:
    names = [queue(f"w.{number % 100}.{number}") for number in range(queues)]
    with attacked("--store", "memory") as broker, OpenWireClient.logged_in(broker.port) as client:
        make_destinations(client, names)
        with broker.bystander() as bystander:
            started = time.perf_counter()
            ids = [client.subscribe(queue("w.>"), prefetch_size=100) for _ in range(consumers)]
            took = time.perf_counter() - started
        print_row(f"{consumers} subscribe to {queues}", broker, bystander.result, f"{took:.2f} s")
        tell_all(client, [client.text_message(where, "x") for where in names[:messages]])
        dispatches = wait_for_dispatches(client, messages)
        with broker.bystander() as bystander:
            started = time.perf_counter()
            for it in dispatches:
                assert it.message is not None
                client.protocol.send(
                    commands.MessageAck(
                        destination=it.destination,
                        consumer_id=it.consumer_id,
                        ack_type=AckType.STANDARD,
                        last_message_id=it.message.message_id,
                        message_count=1,
                    )
                )
            settle(client)
            took = time.perf_counter() - started
        print_row(f"{messages} acks of {queues} queues", broker, bystander.result, f"{took:.2f} s")
        with broker.bystander() as bystander:
            for consumer in ids:
                client.request(commands.RemoveInfo(object_id=consumer))
        print_row(f"{consumers} leave {queues} queues", broker, bystander.result)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

"""One consumer holds many messages in flight and acknowledges far behind the first: acks that move nothing, acks of
DELIVERED, and short ranges at the end.

    python -m tools.attack.redelivery_acks [MESSAGES] [ACKS]
"""

import sys

from ackwire.wire.openwire import commands
from ackwire.wire.openwire.commands import AckType
from tests.helpers.openwire_client import OpenWireClient, queue
from tools.attack.bulk import settle, tell_all, wait_for_dispatches
from tools.attack.rig import attacked, print_row


def main(messages: int = 100_000, acks: int = 300) -> None:
    where = queue("attacked")
    with attacked("--store", "memory") as broker, OpenWireClient.logged_in(broker.port) as client:
        consumer = client.subscribe(where, prefetch_size=messages)
        ids = []
        for first in range(0, messages, 5000):
            count = min(5000, messages - first)
            tell_all(client, [client.text_message(where, "x") for _ in range(count)])
            ids += [it.message.message_id for it in wait_for_dispatches(client, count) if it.message]
        for kind, size in ((AckType.REDELIVERED, 1), (AckType.DELIVERED, 1), (AckType.STANDARD, 2)):
            with broker.bystander() as bystander:
                for number in range(acks):
                    last = len(ids) - 1 - 3 * number
                    client.protocol.send(
                        commands.MessageAck(
                            destination=where,
                            consumer_id=consumer,
                            ack_type=kind,
                            first_message_id=ids[last - size + 1],
                            last_message_id=ids[last],
                            message_count=size,
                        )
                    )
                settle(client)
            print_row(f"{acks} acks {kind.name} of {messages}", broker, bystander.result)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

"""A hundred `why message` requests for an unknown id beside 150,000 pending messages.

python -m tools.attack.why_messages [MESSAGES]
"""

import sys

from ackwire.wire.openwire import commands
from ackwire.wire.openwire.primitives import encode_map
from tests.helpers.openwire_client import OpenWireClient, queue
from tools.attack.rig import attacked, print_row

MESSAGES = 150_000
QUESTIONS = 100
_PORTION = 1000


def main(messages: int = MESSAGES) -> None:
    with attacked("--store", "memory") as broker, OpenWireClient.logged_in(broker.port) as client:
        for _ in range(messages // _PORTION):
            client.send_text(queue("waiting"), *["x"] * _PORTION)
        with broker.bystander() as bystander:
            _ask(client)
        print_row(f"{QUESTIONS} x why message", broker, bystander.result)
        print(broker.loop())


def _ask(client: OpenWireClient) -> None:
    reply_to = commands.ActiveMQTempQueue(f"{client.connection_id}:1")
    connection_id = commands.ConnectionId(client.connection_id)
    client.request(commands.DestinationInfo(connection_id=connection_id, destination=reply_to))
    client.subscribe(reply_to)
    producer = client.open_producer()
    for number in range(1, QUESTIONS + 1):
        question = {"subject": "message", "name": f"ID:nobody-1-2-3:1:1:1:{10**9 + number}"}
        client.send(
            commands.ActiveMQMessage(
                producer_id=producer,
                message_id=commands.MessageId(producer_id=producer, producer_sequence_id=number),
                destination=queue("Ackwire.Why"),
                reply_to=reply_to,
                marshalled_properties=encode_map(question),
            )
        )
    for _ in range(QUESTIONS):
        client.wait_for(commands.MessageDispatch, timeout_seconds=100)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

"""Chains of LIKE over a large property: a few kilobytes of selector and one message hold up all clients.

python -m tools.attack.like_chains
"""

from ackwire.wire.openwire import commands
from ackwire.wire.openwire.primitives import encode_map
from tests.helpers.openwire_client import OpenWireClient
from tools.attack.rig import attacked, print_row

PROPERTY_CHARACTERS = 1_000_000
TERMS = 1000
TERM_KINDS = ("p LIKE '%a_x%'", "p LIKE '%x%'", "p = q", "p + 'x' = q")
MESSAGES = 3


def main() -> None:
    with attacked("--store", "memory") as broker:
        for number, term in enumerate(TERM_KINDS):
            with broker.bystander() as bystander, OpenWireClient.logged_in(broker.port) as client:
                queue = commands.ActiveMQQueue(f"chains.{number}")
                client.subscribe(queue, selector=" OR ".join([term] * TERMS))
                large = encode_map({"p": "a" * PROPERTY_CHARACTERS, "q": "a" * (PROPERTY_CHARACTERS - 1) + "b"})
                for count in range(MESSAGES):
                    _send(client, queue, count + 1, large)
                client.ping(100)
            print_row(f"{TERMS} x {term}", broker, bystander.result)
        print(broker.loop())


def _send(client: OpenWireClient, queue: commands.ActiveMQQueue, count: int, properties: bytes) -> None:
    client.request(
        commands.ActiveMQMessage(
            producer_id=client.producer,
            message_id=commands.MessageId(producer_id=client.producer, producer_sequence_id=count),
            destination=queue,
            marshalled_properties=properties,
        )
    )


if __name__ == "__main__":
    main()

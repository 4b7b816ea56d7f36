"""A forged producer count: while the victim is disconnected, an attacker sends under its ids with a count of 10^12.

Then the victim comes back as a client with failover does, and sends: how many of its sends are answered and dropped?

python -m tools.attack.forged_counts [SENDS]
"""

import sys

from ackwire.wire.openwire import commands
from tests.helpers.openwire_client import OpenWireClient, queue, unique
from tools.attack.rig import attacked, print_row

_FORGED = 10**12


def _stored(port: int, name: str) -> int:
    """How many messages wait in a queue."""
    with OpenWireClient.logged_in(port) as reader:
        browser = reader.subscribe(queue(name), browser=True, prefetch_size=10_000)
        count = 0
        while reader.receive(browser).message is not None:
            count += 1
        return count


def _send_as(port: int, connection_id: str, client_id: str, name: str, counts: range) -> int:
    """Log in with these ids and send messages that its first producer counts so; how many were answered."""
    with OpenWireClient.connect(port) as client:
        client.connection_id = connection_id
        client.handshake()
        client.request(client.connection_info(client_id=client_id, failover_reconnect=True))
        for count in counts:
            message = client.text_message(queue(name), f"{client_id} {count}", persistent=True)
            message.message_id = commands.MessageId(producer_id=client.producer, producer_sequence_id=count)
            client.request(message)
        client.request(commands.RemoveInfo(object_id=commands.ConnectionId(connection_id)))
    return len(counts)


def main(sends: int = 100) -> None:
    with attacked() as broker:
        for thief in ("thief", "victim"):
            connection_id, name = unique("ID:victim"), f"sent beside {thief}"
            with broker.bystander() as bystander:
                _send_as(broker.port, connection_id, "victim", name, range(1, 11))
                _send_as(broker.port, connection_id, thief, "other", range(_FORGED, _FORGED + 1))
                answered = 10 + _send_as(broker.port, connection_id, "victim", name, range(11, 11 + sends))
            stored = _stored(broker.port, name)
            note = f"{answered} answered, {stored} stored: {answered - stored} lost"
            print_row(f"forged count, client id {thief}", broker, bystander.result, note)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

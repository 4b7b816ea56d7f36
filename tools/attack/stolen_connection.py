"""A stolen connection id: an attacker repeatedly logs in with the id of a connected client.

python -m tools.attack.stolen_connection [ATTEMPTS]
"""

import sys

from tests.helpers.openwire_client import OpenWireClient, PeerClosed, queue
from tools.attack.rig import attacked, print_row


def _steal(port: int, victim: OpenWireClient, client_id: str) -> None:
    """Log in as *victim*, under *client_id*; being refused is as well."""
    with OpenWireClient.connect(port) as thief:
        thief.connection_id = victim.connection_id
        thief.handshake()
        thief.ask(thief.connection_info(client_id=client_id, failover_reconnect=True))


def _is_there(victim: OpenWireClient) -> bool:
    try:
        victim.send_text(queue("q"), "still here", persistent=True)
    except (PeerClosed, OSError):
        return False
    return True


def main(attempts: int = 20) -> None:
    with attacked() as broker:
        thrown_out = 0
        with broker.bystander() as bystander:
            for number in range(attempts):
                with OpenWireClient.logged_in(broker.port) as victim:
                    _is_there(victim)
                    _steal(broker.port, victim, "thief" if number % 2 else f"client of {victim.connection_id}")
                    thrown_out += not _is_there(victim)
        print_row("stolen connection ids", broker, bystander.result, f"{thrown_out} of {attempts} clients thrown out")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

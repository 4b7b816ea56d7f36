"""Many commands at once for attacks: written without a wait for each, with one request at the end."""

from collections.abc import Iterable

from ackwire.wire.openwire import commands
from ackwire.wire.openwire.structures import Structure
from tests.helpers.openwire_client import OpenWireClient

_PORTION = 500
WAIT_SECONDS = 120.0
"""How long an attack waits for a broker that is stalled."""


def tell_all(client: OpenWireClient, many: Iterable[Structure]) -> None:
    """Send *many* without a wait, in portions, and wait until the broker has dealt with all of them."""
    for count, command in enumerate(many, 1):
        client.protocol.send(command)
        if count % _PORTION == 0:
            client.flush()
    settle(client)


def settle(client: OpenWireClient) -> None:
    """Wait until the broker has dealt with everything that was sent."""
    client.flush()
    client.ping(WAIT_SECONDS)


def make_destinations(client: OpenWireClient, many: Iterable[commands.ActiveMQDestination]) -> None:
    """Have the broker create destinations; temporary ones must carry the client's connection id."""
    connection_id = commands.ConnectionId(client.connection_id)
    tell_all(
        client,
        (commands.DestinationInfo(connection_id=connection_id, destination=where, operation_type=0) for where in many),
    )


def wait_for_dispatches(client: OpenWireClient, count: int) -> list[commands.MessageDispatch]:
    """The next *count* dispatches."""
    found: list[commands.MessageDispatch] = []
    while len(found) < count:
        while client.events and len(found) < count:
            event = client.events.popleft()
            if isinstance(event, commands.MessageDispatch) and event.message is not None:
                found.append(event)
        if len(found) < count and not client.read_some(WAIT_SECONDS):
            raise ConnectionError(f"the broker has closed after {len(found)} of {count} dispatches")
    return found

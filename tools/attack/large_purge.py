"""A long queue is emptied at once: the queue, the durable subscription or the temporary queue is deleted.

python -m tools.attack.large_purge [MESSAGES] [--journal]
"""

import sys
import time
from collections.abc import Callable
from struct import Struct

from ackwire.wire.openwire import commands
from ackwire.wire.openwire.structures import Structure
from tests.helpers.openwire_client import OpenWireClient, queue, topic
from tools.attack.bulk import WAIT_SECONDS, settle
from tools.attack.rig import Attacked, attacked, print_row

MESSAGES = 1_000_000
_PORTION = 500
_DURABLE = "purged"
_LONG = Struct(">q")
_SEQUENCE_MARK = 0x5EC0_DE5E_C0DE_5EC0
_TOML = "[limits]\nmemory_bytes_max = '4 GiB'\nstore_bytes_max = '8 GiB'\n"


def _fill(client: OpenWireClient, where: commands.ActiveMQDestination, messages: int, *, persistent: bool) -> None:
    """Send *messages*; they are spliced, because the plain codec would take longer than the broker."""
    producer = client.open_producer()
    message = client.text_message(where, "x" * 100, persistent=persistent)
    message.producer_id = producer
    message.message_id = commands.MessageId(None, producer, _SEQUENCE_MARK)
    client.protocol.send(message)
    head, mark, tail = b"".join(client.protocol.data_to_send()).partition(_LONG.pack(_SEQUENCE_MARK))
    assert mark
    for first in range(1, messages + 1, _PORTION):
        client.send_bytes(b"".join(head + _LONG.pack(first + number) + tail for number in range(_PORTION)))
        if first % (20 * _PORTION) == 1:
            settle(client)
    settle(client)


def _request(client: OpenWireClient, command: Structure) -> None:
    command_id = client.post(command)
    client.wait_for(commands.Response, lambda it: it.correlation_id == command_id, timeout_seconds=WAIT_SECONDS)


def _delete(client: OpenWireClient, where: commands.ActiveMQDestination) -> None:
    connection_id = commands.ConnectionId(client.connection_id)
    _request(
        client, commands.DestinationInfo(connection_id=connection_id, destination=where, operation_type=1, timeout=0)
    )


def _attack(broker: Attacked, client: OpenWireClient, messages: int) -> None:
    where = queue("purged")
    for persistent in (True, False):
        kind = "persistent" if persistent else "non-persistent"
        _fill(client, where, messages, persistent=persistent)
        _measured(broker, f"delete {messages}, {kind}", lambda: _delete(client, where))
    consumer = client.subscribe(topic("purged"), subscription_name=_DURABLE)
    client.request(commands.RemoveInfo(object_id=consumer))
    _fill(client, topic("purged"), messages, persistent=True)
    ends = commands.RemoveSubscriptionInfo(
        connection_id=commands.ConnectionId(client.connection_id), subscription_name=_DURABLE, client_id=None
    )
    _measured(broker, f"unsubscribe from {messages}", lambda: _request(client, ends))
    temporary = commands.ActiveMQTempQueue(f"{client.connection_id}:1")
    connection_id = commands.ConnectionId(client.connection_id)
    client.request(commands.DestinationInfo(connection_id=connection_id, destination=temporary))
    _fill(client, temporary, messages, persistent=False)
    _measured(broker, f"hang-up with {messages}", client.close)


def _measured(broker: Attacked, name: str, action: Callable[[], None]) -> None:
    with broker.bystander() as bystander:
        started = time.perf_counter()
        action()
        took = time.perf_counter() - started
        time.sleep(1.0)
    print_row(name, broker, bystander.result, f"{took:.2f} s")


def main(arguments: list[str]) -> None:
    store = "journal" if "--journal" in arguments else "memory"
    counts = [int(it) for it in arguments if it.isdigit()]
    with attacked("--store", store, toml=_TOML) as broker:
        with OpenWireClient.logged_in(broker.port) as client:
            _attack(broker, client, *(counts or [MESSAGES]))
        print(broker.loop())


if __name__ == "__main__":
    main(sys.argv[1:])

"""A long queue is emptied at once: it is purged, or the queue, the subscription or the temporary queue is deleted.

python -m tools.attack.large_purge [MESSAGES] [--journal] [--audit]
"""

import sys
import time
from collections.abc import Callable
from functools import partial
from struct import Struct
from tempfile import TemporaryDirectory

from ackwire.wire.openwire import commands
from ackwire.wire.openwire.primitives import decode_map, encode_map
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


def _purge(client: OpenWireClient, reply_to: commands.ActiveMQTempQueue, number: int) -> None:
    producer = client.open_producer()
    client.send(
        commands.ActiveMQMessage(
            producer_id=producer,
            message_id=commands.MessageId(None, producer, number),
            destination=queue("Ackwire.Operations"),
            reply_to=reply_to,
            marshalled_properties=encode_map({"verb": "purge", "queue": "queue://purged"}),
        )
    )
    outcome = "working"
    while outcome == "working":
        answer = client.wait_for(commands.MessageDispatch, timeout_seconds=WAIT_SECONDS).message
        assert answer is not None
        outcome = str(decode_map(answer.marshalled_properties or b"\0\0\0\0")["outcome"])
    assert outcome == "done", outcome


def _attack(broker: Attacked, client: OpenWireClient, messages: int) -> None:
    where = queue("purged")
    connection_id = commands.ConnectionId(client.connection_id)
    reply_to = commands.ActiveMQTempQueue(f"{client.connection_id}:2")
    client.request(commands.DestinationInfo(connection_id=connection_id, destination=reply_to))
    client.subscribe(reply_to)
    for number, persistent in enumerate((True, False), 1):
        kind = "persistent" if persistent else "non-persistent"
        _fill(client, where, messages, persistent=persistent)
        _measured(broker, f"purge {messages}, {kind}", partial(_purge, client, reply_to, number))
        print(broker.loop(), flush=True)
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
    with TemporaryDirectory(prefix="ackwire-audit-") as folder:
        audit = f"[audit]\ndirectory = '{folder}'\n" if "--audit" in arguments else ""
        _run(store, _TOML + audit, *(counts or [MESSAGES]))


def _run(store: str, toml: str, messages: int) -> None:
    with attacked("--store", store, toml=toml) as broker:
        with OpenWireClient.logged_in(broker.port) as client:
            _attack(broker, client, messages)
        print(broker.loop())


if __name__ == "__main__":
    main(sys.argv[1:])

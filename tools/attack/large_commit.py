"""Transactions with many sends and acks, committed, rolled back, or left behind by a client that hangs up.

python -m tools.attack.large_commit [MESSAGES] [--journal]

The acks are a few of many messages each, then one for each message.
"""

import sys
import time

from ackwire.wire.openwire import commands
from ackwire.wire.openwire.commands import AckType, TransactionType
from tests.helpers.openwire_client import OpenWireClient, queue
from tools.attack.bulk import WAIT_SECONDS, settle, wait_for_dispatches
from tools.attack.rig import Attacked, attacked, print_row

_PORTION = 2_000


class _Work:
    """One transaction of one client."""

    def __init__(self, client: OpenWireClient, number: int) -> None:
        self.client = client
        self.id = commands.LocalTransactionId(number, commands.ConnectionId(client.connection_id))
        self._do(TransactionType.BEGIN)

    def _do(self, what: TransactionType) -> None:
        connection_id = commands.ConnectionId(self.client.connection_id)
        command = commands.TransactionInfo(connection_id=connection_id, transaction_id=self.id, type=what)
        command_id = self.client.post(command)
        response = self.client.wait_for(
            commands.Response, lambda it: it.correlation_id == command_id, timeout_seconds=WAIT_SECONDS
        )
        assert type(response) is commands.Response, response

    def commit(self) -> None:
        self._do(TransactionType.COMMIT_ONE_PHASE)

    def roll_back(self) -> None:
        self._do(TransactionType.ROLLBACK)

    def send(self, where: commands.ActiveMQDestination, count: int) -> None:
        for number in range(count):
            message = self.client.text_message(where, "x", persistent=True)
            message.transaction_id = self.id
            self.client.protocol.send(message)
            if number % _PORTION == 0:
                settle(self.client)
        settle(self.client)

    def ack(
        self, where: commands.ActiveMQDestination, consumer: commands.ConsumerId, count: int, portion: int = _PORTION
    ) -> None:
        for number in range(0, count, portion):
            dispatches = wait_for_dispatches(self.client, min(portion, count))
            first, last = dispatches[0].message, dispatches[-1].message
            assert first is not None
            assert last is not None
            self.client.protocol.send(
                commands.MessageAck(
                    destination=where,
                    transaction_id=self.id,
                    consumer_id=consumer,
                    ack_type=AckType.STANDARD,
                    first_message_id=first.message_id,
                    last_message_id=last.message_id,
                    message_count=len(dispatches),
                )
            )
            if number % _PORTION == 0:
                self.client.flush()
        settle(self.client)


def _attack(broker: Attacked, client: OpenWireClient, messages: int) -> None:
    where = queue("committed")
    work = _Work(client, 1)
    work.send(where, messages)
    _measured(broker, f"commit of {messages} sends", work.commit)
    print(broker.loop())
    consumer = client.subscribe(where, prefetch_size=messages)
    work = _Work(client, 2)
    work.ack(where, consumer, messages)
    _measured(broker, f"rollback of {messages} acks", work.roll_back)
    client.request(commands.RemoveInfo(object_id=consumer))
    consumer = client.subscribe(where, prefetch_size=messages)
    work = _Work(client, 3)
    work.ack(where, consumer, messages)
    _measured(broker, f"commit of {messages} acks", work.commit)
    print(broker.loop())
    work = _Work(client, 4)
    work.send(where, messages)
    work.commit()
    work = _Work(client, 5)
    work.ack(where, consumer, messages, portion=1)
    _measured(broker, f"commit of {messages} acks of one", work.commit)
    print(broker.loop())
    work = _Work(client, 6)
    work.send(where, messages)
    _measured(broker, f"hang-up after {messages} sends", client.close)


def _measured(broker: Attacked, name: str, action: object) -> None:
    assert callable(action)
    with broker.bystander() as bystander:
        started = time.perf_counter()
        action()
        took = time.perf_counter() - started
        time.sleep(0.5)
    print_row(name, broker, bystander.result, f"{took:.2f} s")


def main(arguments: list[str]) -> None:
    store = "journal" if "--journal" in arguments else "memory"
    counts = [int(it) for it in arguments if it.isdigit()]
    toml = "[limits]\nmemory_bytes_max = '2 GiB'\n"
    with attacked("--store", store, toml=toml) as broker, OpenWireClient.logged_in(broker.port) as client:
        _attack(broker, client, *(counts or [100_000]))


if __name__ == "__main__":
    main(sys.argv[1:])

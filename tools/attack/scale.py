"""Very many queues, consumers and messages at once, and how long a bystander waits in each phase.

    python -m tools.attack.scale [QUEUES] [CONSUMERS] [MESSAGES]

The defaults are 100,000 queues, 10,000 consumers and 1,000,000 messages: some minutes. The broker keeps everything in
memory; what is measured is the loop.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from struct import Struct

from ackwire.wire.openwire import commands
from ackwire.wire.openwire.commands import AckType
from tests.helpers.openwire_client import OpenWireClient, queue, topic
from tools.attack.bulk import WAIT_SECONDS, make_destinations, settle, tell_all
from tools.attack.rig import Attacked, attacked, print_row

_CONNECTIONS = 10
_PORTION_BYTES = 64 * 1024
_LONG = Struct(">q")
_SEQUENCE_MARK = 0x5EC0_DE5E_C0DE_5EC0
_SETTINGS = (
    "[destinations]\ncount_max = 1000000\n[connection]\ndestinations_max = 1000000\n"
    "[limits]\nmemory_bytes_max = '4 GiB'\n"
)


def _name(number: int) -> str:
    return f"scale.{number:06}"


class _Frames:
    """Messages of one producer, spliced: the plain codec would take longer than the broker."""

    def __init__(self, client: OpenWireClient) -> None:
        message = client.text_message(queue(_name(0)), "x" * 100)
        message.message_id = commands.MessageId(None, client.producer, _SEQUENCE_MARK)
        client.protocol.send(message)
        frame = b"".join(client.protocol.data_to_send())
        self._head, _, rest = frame.partition(_name(0).encode())
        self._middle, _, self._tail = rest.partition(_LONG.pack(_SEQUENCE_MARK))

    def message(self, number: int, where: int) -> bytes:
        return b"".join((self._head, _name(where).encode(), self._middle, _LONG.pack(number), self._tail))


def _send(client: OpenWireClient, queues: int, messages: int) -> None:
    frames = _Frames(client)
    each = max(1, messages // queues)
    waiting: list[bytes] = []
    size = 0
    for number in range(1, messages + 1):
        waiting.append(frames.message(number, number // each % queues))
        size += len(waiting[-1])
        if size >= _PORTION_BYTES:
            client.send_bytes(b"".join(waiting))
            waiting.clear()
            size = 0
            if number % 50_000 < 1000:
                client.ping(WAIT_SECONDS)
    client.send_bytes(b"".join(waiting))
    settle(client)


def _drain(clients: list[OpenWireClient]) -> int:
    """Acknowledge all that there is for the consumers of *clients*, and return the number of messages."""
    done = 0
    for client in clients:
        while True:
            settle(client)
            dispatches = [it for it in client.take_events() if isinstance(it, commands.MessageDispatch)]
            if not dispatches:
                break
            done += len(dispatches)
            tell_all(client, _acks(dispatches))
    return done


def _acks(dispatches: list[commands.MessageDispatch]) -> Iterator[commands.MessageAck]:
    for it in dispatches:
        assert it.message is not None
        yield commands.MessageAck(
            destination=it.destination,
            consumer_id=it.consumer_id,
            ack_type=AckType.INDIVIDUAL,
            last_message_id=it.message.message_id,
            message_count=1,
        )


def _measured(broker: Attacked, name: str, action: Callable[[], object]) -> float:
    with broker.bystander() as bystander:
        started = time.perf_counter()
        outcome = action()
        took = time.perf_counter() - started
    note = "" if outcome is None else str(outcome)
    print_row(name, broker, bystander.result, f"{took:.1f} s {note}")
    return bystander.result.longest_ms


def main(queues: int = 100_000, consumers: int = 10_000, messages: int = 1_000_000) -> None:
    with attacked("--store", "memory", toml=_SETTINGS) as broker, ExitStack() as stack:
        client = stack.enter_context(OpenWireClient.logged_in(broker.port))
        clients = [stack.enter_context(OpenWireClient.logged_in(broker.port)) for _ in range(_CONNECTIONS)]

        def subscribe() -> None:
            for index, it in enumerate(clients):
                mine = range(index, consumers, _CONNECTIONS)
                infos = [it.consumer_info(queue(_name(number % queues)), prefetch_size=10) for number in mine]
                tell_all(it, infos)

        def wildcard() -> None:
            with OpenWireClient.logged_in(broker.port) as other:
                other.subscribe(queue("scale.>"), prefetch_size=100)
                for _ in range(200):
                    other.ping(WAIT_SECONDS)

        def advisories() -> None:
            with OpenWireClient.logged_in(broker.port) as other:
                other.subscribe(topic("ActiveMQ.Advisory.>"), prefetch_size=32_766)
                for _ in range(200):
                    other.ping(WAIT_SECONDS)

        def hang_up() -> None:
            for it in clients:
                it.close()
            time.sleep(2)

        phases: list[tuple[str, Callable[[], object]]] = [
            (f"make {queues} queues", lambda: make_destinations(client, (queue(_name(it)) for it in range(queues)))),
            (f"{consumers} consumers", subscribe),
            (f"{messages} messages", lambda: _send(client, queues, messages)),
            ("all consumers drain", lambda: _drain(clients)),
            ("a consumer of all queues", wildcard),
            ("a listener to all advisories", advisories),
            ("idle, with a sweep", lambda: time.sleep(31 if queues > 20_000 else 1)),
            ("all consumers hang up", hang_up),
        ]
        longest = max(_measured(broker, name, action) for name, action in phases)
        print(f"longest turn felt by the bystander: {longest:.1f} ms")
        print(broker.loop())


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

"""Blocked sends: with the broker full, many clients send a large message each and stay; then they hang up.

    python -m tools.attack.blocked_sends [ROUNDS]

What waits for space may add up to `limits.blocked_bytes_max` and one frame, not to the number of clients. All clients
of a round send at once. 1,000 rounds take two to four minutes: the message is encoded once, and only the ids in it are
each client's own.
"""

import itertools
import sys
import time
from contextlib import ExitStack

from tests.helpers.openwire_client import OpenWireClient, queue
from tools.attack.rig import Rounds, Waits, attacked, print_row
from tools.attack.send_and_leave import LIMITS, fill
from tools.attack.writing import PIECE_BYTES, send_what_is_taken

_CONNECTIONS = 8
_FRAME_BYTES = 16 * 1024 * 1024
_numbers = itertools.count(1)


def _connection_id(number: int) -> str:
    """Always of the same length, so that one can stand in a frame in place of another."""
    return f"ID:blocked-{number:09}"


def _logged_in(port: int) -> OpenWireClient:
    client = OpenWireClient.connect(port)
    client.connection_id = _connection_id(next(_numbers))
    client.handshake()
    client.login()
    assert client.producer is not None  # announced now, so that only its message is left to send
    return client


class _Frame:
    """A large message of any client: in pieces, of which only those with its ids are made anew."""

    def __init__(self, client: OpenWireClient) -> None:
        client.protocol.send(client.text_message(queue("full"), "x" * _FRAME_BYTES, persistent=False))
        frame = b"".join(client.protocol.data_to_send())
        self._own_id = client.connection_id.encode()
        first = frame.index(b"x" * 64)
        last = frame.rindex(b"x" * 64) + 64
        self._head, self._tail = frame[:first], frame[last:]
        body = memoryview(frame)[first:last]
        self._body = [bytes(body[start : start + PIECE_BYTES]) for start in range(0, len(body), PIECE_BYTES)]

    def pieces(self, client: OpenWireClient) -> list[bytes]:
        own, its = self._own_id, client.connection_id.encode()
        return [self._head.replace(own, its), *self._body, self._tail.replace(own, its)]


def main(rounds: int) -> None:
    with attacked(toml=LIMITS) as broker:
        fill(broker, persistent=False)
        broker.first_rss_mb = broker.peak_rss_mb = broker.rss_mb()
        with _logged_in(broker.port) as client:
            frame = _Frame(client)
        curve = Rounds(broker, rounds)
        sent = 0
        for _ in range(rounds):
            with ExitStack() as stack:
                clients = [stack.enter_context(_logged_in(broker.port)) for _ in range(_CONNECTIONS)]
                sent += send_what_is_taken((client.socket, frame.pieces(client)) for client in clients)
                broker.rss_mb()
            curve.ended()
        time.sleep(2)  # until the last hang-ups are noticed
        with OpenWireClient.logged_in(broker.port) as client:
            client.ping()
        note = f"{rounds} rounds of {_CONNECTIONS} x {_FRAME_BYTES >> 20} MiB, {sent >> 20} MiB taken; {curve}"
        print_row("blocked sends", broker, Waits(), note)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)

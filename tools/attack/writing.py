"""Writes much to many sockets at once, as far as the broker reads it."""

import select
import socket
from collections.abc import Iterable

PIECE_BYTES = 1024 * 1024
_STALLED_SECONDS = 0.05


def send_what_is_taken(sends: Iterable[tuple[socket.socket, Iterable[bytes]]]) -> int:
    """Send to each socket its pieces, to all of them at once; gives the number of bytes sent.

    It ends when everything is sent, when the broker takes nothing from anybody for a while, or has closed.
    """
    waiting: dict[socket.socket, list[memoryview]] = {}
    for sock, pieces in sends:
        sock.setblocking(False)
        waiting[sock] = [memoryview(it) for it in pieces][::-1]
    sent = 0
    while waiting and (writable := select.select([], list(waiting), [], _STALLED_SECONDS)[1]):
        for sock in writable:
            try:
                sent += _send_piece(sock, waiting[sock])
            except ConnectionError:
                del waiting[sock]
                continue
            if not waiting[sock]:
                del waiting[sock]
    return sent


def _send_piece(sock: socket.socket, pieces: list[memoryview]) -> int:
    """Send from the last of *pieces*, which is the next to go."""
    piece = pieces.pop()
    count = sock.send(piece[:PIECE_BYTES])
    if count < len(piece):
        pieces.append(piece[count:])
    return count

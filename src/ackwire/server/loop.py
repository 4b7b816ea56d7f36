"""An event loop that knows its turns, for the broker's process (`turn.py`): asyncio's own, with another selector.

Sockets of peers are read from right where epoll reports them. Everything else, TLS, HTTP, signals and other threads,
goes asyncio's way, and the turn's end comes behind it. Linux only, as epoll is.
"""

import asyncio
import os
import select
import selectors
import socket
from typing import TYPE_CHECKING

from ackwire.server.turn import Turn, Wait

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike


class _TurnSelector(selectors.EpollSelector):
    """Lets a turn read first, and reports one more event behind those for asyncio: what is done for it comes last."""

    def __init__(self) -> None:
        super().__init__()
        self._epoll = select.epoll.fromfd(os.dup(self.fileno()))
        self._wait = Wait(self._epoll)
        self._turn: Turn | None = None
        self._last: tuple[selectors.SelectorKey, int] | None = None

    def take_part(self, turn: Turn, marker: "FileDescriptorLike") -> None:
        self._turn = turn
        self._last = (self.get_key(marker), selectors.EVENT_READ)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = self._wait.events(-1 if timeout is None else max(0, timeout))
        if self._turn is None or self._last is None:
            return [self._reported(*event) for event in events]
        left = [self._reported(*event) for event in self._turn.read(events)]
        if left:
            left.append(self._last)
        return left

    def _reported(self, descriptor: int, event: int) -> tuple[selectors.SelectorKey, int]:
        """As asyncio knows it. Errors are for the reader and for the writer."""
        key = self.get_key(descriptor)
        mask = selectors.EVENT_WRITE if event & ~select.EPOLLIN else 0
        if event & ~select.EPOLLOUT:
            mask |= selectors.EVENT_READ
        return key, mask & key.events

    def close(self) -> None:
        self._epoll.close()
        super().close()


class TurnLoop(asyncio.SelectorEventLoop):
    """An event loop that knows when a turn ends."""

    def __init__(self) -> None:
        self._turn_selector = _TurnSelector()
        super().__init__(self._turn_selector)
        # Never readable by itself: the loop has a handle for it, and the selector a key to report.
        self._markers = socket.socketpair()

    def take_part(self, turn: Turn) -> None:
        """Let *turn* read first in every turn, and end each that had something to read or room to write."""
        self.add_reader(self._markers[0], turn.end)
        self._turn_selector.take_part(turn, self._markers[0])

    def close(self) -> None:
        super().close()
        for marker in self._markers:
            marker.close()

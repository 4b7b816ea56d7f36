"""An event loop that knows its turns, for the broker's process (`turn.py`): asyncio's own, with another selector.

Sockets of peers are read from right where epoll reports them. Everything else, TLS, HTTP, signals and other threads,
goes asyncio's way, and the turn's end comes behind it. Linux only, as epoll is.
"""

import asyncio
import os
import select
import selectors
import socket
from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ackwire.server.loop_monitor import LoopMonitor
from ackwire.server.turn import Events, Turn, Wait

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike


_PEEKED_EVENTS: Final = 2
"""Enough to see whether one of them is of another socket."""


class _MeasuredHandles(deque[Any]):
    """The callbacks that asyncio runs in a turn. It takes one when the one before has ended: that is measured."""

    def __init__(self, handles: Iterable[Any], monitor: LoopMonitor) -> None:
        super().__init__(handles)
        self.monitor = monitor
        self.running: Any = None

    def popleft(self) -> Any:
        self.monitor.lap(self.running)
        self.running = handle = super().popleft()
        return handle

    def last_has_run(self) -> None:
        """The turn is over, and keeps nothing alive."""
        self.monitor.lap(self.running)
        self.running = None


class _TurnSelector(selectors.EpollSelector):
    """Lets a turn read first, and reports one more event behind those for asyncio: what is done for it comes last."""

    def __init__(self) -> None:
        super().__init__()
        self._epoll = select.epoll.fromfd(os.dup(self.fileno()))
        self._wait = Wait(self._epoll.poll)
        self._turn: Turn | None = None
        self._monitor: LoopMonitor | None = None
        self._handles: _MeasuredHandles | None = None
        self._last: tuple[selectors.SelectorKey, int] | None = None

    def take_part(self, turn: Turn, marker: "FileDescriptorLike", handles: "_MeasuredHandles") -> None:
        self._turn = turn
        self._monitor = handles.monitor
        self._handles = handles
        self._wait.before_sleep = turn.before_sleep
        turn.peek = partial(self._epoll.poll, 0, _PEEKED_EVENTS)
        self._last = (self.get_key(marker), selectors.EVENT_READ)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        monitor, handles = self._monitor, self._handles
        if monitor is not None and handles is not None:
            if handles.running is not None:
                handles.last_has_run()
            monitor.end()
        events = self._wait.events(-1 if timeout is None else max(0, timeout))
        if monitor is not None:
            monitor.begin()
        if self._turn is None or self._last is None:
            return self._reported(events)
        left = self._turn.read(events, after_pause=self._wait.was_pause)
        return [*self._reported(left), self._last] if left else []

    def _reported(self, events: Events) -> list[tuple[selectors.SelectorKey, int]]:
        """*events* as asyncio knows them. Errors are for the reader and for the writer."""
        reported = []
        known = self.get_map()
        for descriptor, event in events:
            key = known.get(descriptor)
            if key is not None:  # or it was closed by what was read before
                mask = selectors.EVENT_WRITE if event & ~select.EPOLLIN else 0
                mask |= selectors.EVENT_READ if event & ~select.EPOLLOUT else 0
                reported.append((key, mask & key.events))
        return reported

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
        assert turn.monitor is not None, "this loop knows its turns"
        self.add_reader(self._markers[0], turn.end)
        # asyncio's own name for what it runs next. Without it turns would be measured all the same, and not named.
        self._ready = handles = _MeasuredHandles(getattr(self, "_ready", ()), turn.monitor)
        self._turn_selector.take_part(turn, self._markers[0], handles)

    def close(self) -> None:
        super().close()
        for marker in self._markers:
            marker.close()

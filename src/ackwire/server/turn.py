"""Turns of the loop: first everything is read and acted upon, then, once for all of it, written.

asyncio has no end of a turn. What is asked for with `call_soon` while sockets are read runs in the next turn, after the
selector was asked once more, and what that asks for in the one after it: three turns for a send that waits for the
disk, each with a system call and more code than the broker itself runs for the message. `Turn` collects what is to be
done at the end, and does it in one go: the store writes, syncs and answers, and what the answers put out leaves.

On a `TurnLoop` the end is part of the very turn that has read. On any other loop it is the beginning of the next.
"""

import asyncio
import selectors
import socket
from collections.abc import Callable
from typing import Final, final

from ackwire.clock import Timer

_ROUNDS: Final = 2
"""What is done at the end may ask for more, which is done as well: answers of the store are written by peers. What
that asks for has to wait for the next turn, so that everybody is read from in between."""

RECEIVE_BYTES: Final = 64 * 1024
"""What one peer may say in one turn: fifty messages of 1 KiB, in about a millisecond. Who has more to say is read from
again in the next turn, after everybody else."""


class _TurnSelector(selectors.DefaultSelector):
    """Reports one more event behind those that there are: what the loop does for it comes last in the turn."""

    def __init__(self) -> None:
        super().__init__()
        self.last: tuple[selectors.SelectorKey, int] | None = None
        self.has_reported_last = False

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(timeout)
        if ready and self.last is not None:
            ready.append(self.last)
            self.has_reported_last = True
        return ready


class TurnLoop(asyncio.SelectorEventLoop):
    """An event loop that knows when a turn ends."""

    def __init__(self) -> None:
        self.turn_selector = _TurnSelector()
        super().__init__(self.turn_selector)
        # Never readable by itself: the loop has a handle for it, and the selector a key to report.
        self._markers = socket.socketpair()

    def end_turns_with(self, callback: Callable[[], None]) -> None:
        """Run *callback* last in every turn in which there was something to read or room to write."""
        self.add_reader(self._markers[0], callback)
        self.turn_selector.last = (self.turn_selector.get_key(self._markers[0]), selectors.EVENT_READ)

    def close(self) -> None:
        super().close()
        for marker in self._markers:
            marker.close()


@final
class _Due:
    """Implements `Timer`: something for the end of a turn."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


@final
class Turn:
    """What is to be done at the end of the turns of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """There is one for a `TurnLoop`, and any number for others."""
        self._loop = loop
        self.received = memoryview(bytearray(RECEIVE_BYTES))
        """Where bytes from a socket go. One place for all: they are taken from it before the next socket is read."""
        self._due: list[_Due] = []
        self._is_called_for = False
        self._selector: _TurnSelector | None = None
        if isinstance(loop, TurnLoop):
            loop.end_turns_with(self._end)
            self._selector = loop.turn_selector

    def at_end(self, callback: Callable[[], None]) -> Timer:
        """Run *callback* when all that this turn has read is acted upon."""
        due = _Due(callback)
        self._due.append(due)
        if not self._is_called_for and (self._selector is None or not self._selector.has_reported_last):
            self._call_for_end()
        return due

    def _call_for_end(self) -> None:
        self._is_called_for = True
        self._loop.call_soon(self._end)

    def _end(self) -> None:
        self._is_called_for = True  # for all that is asked for now
        for _ in range(_ROUNDS):
            due, self._due = self._due, []
            for it in reversed(due):  # a sender's answer comes after what it sent: now the sender goes on first
                if it.callback is not None:
                    self._do(it.callback)
        self._is_called_for = False
        if self._selector is not None:
            self._selector.has_reported_last = False
        if self._due:
            self._call_for_end()

    def _do(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception as error:  # as the loop does it: nobody else is to suffer
            self._loop.call_exception_handler(
                {"message": f"an error at the end of a turn, in {callback!r}", "exception": error}
            )

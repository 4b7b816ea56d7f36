"""When what the core has to say is written to the link, and by whom.

Usually the loop writes, soon: what others put meanwhile goes along. With asyncio that comes late, because a task that
sends does not give way; so where much waits it is written at once: 47,000 messages a second instead of 34,000. A thread
that is about to wait for the answer writes by itself, as far as the system takes it at once (`hold`, `release`): 5,200
confirmed sends a second instead of 4,300, because the way through the loop costs two changes of threads. Order holds,
because such writes happen under the guard, and only while nothing else is on its way to the system: not in the loop's
hands (`_is_writing`), not behind it in the transport's buffer (`_waiting_bytes`).

`output_waits`, `much_output_waits`, `hold` and `release` may be called from any thread, under the guard; everything
else belongs to the loop.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from ackwire.client.errors import ConnectionFailedError
from ackwire.client.link import Link
from ackwire.util.clock import Clock, Timer


class Output(Protocol):
    """Where the bytes come from."""

    def data_to_send(self) -> list[bytes]: ...

    @property
    def waiting_bytes(self) -> int:
        """What `data_to_send` would return now."""
        ...


class Writer:
    """Writes to one link after another, and to none in between."""

    def __init__(
        self,
        output: Output,
        *,
        loop: asyncio.AbstractEventLoop,
        guard: AbstractContextManager[Any],
        clock: Clock,
        on_stuck: Callable[[Link, ConnectionFailedError], None],
    ) -> None:
        """*on_stuck* is called when the broker takes nothing for too long (soWriteTimeout)."""
        self._output = output
        self._loop = loop
        self._guard = guard
        self._clock = clock
        self._on_stuck = on_stuck
        self._link: Link | None = None
        self._flush_is_due = True  # without a link nothing needs to be scheduled
        self._is_held = False
        self._is_writing = False
        """The loop has taken output and writes it, without the guard."""
        self._unwritten = b""
        """What the system did not take of a thread's own write; goes out before anything else."""
        self._timer: Timer | None = None
        self._drained_bytes = 0
        self._waiting_bytes = 0
        self.thread: int | None = None
        """The loop's, known once it runs us."""
        self.is_congested = False
        """More than the high water mark waits to be written. May be read from any thread."""
        self.on_writable: Callable[[], None] = _nothing
        """Called under the guard when that is over, or the link is."""
        self.on_flushed: Callable[[], None] = _nothing
        """Called under the guard when the core's output has been taken."""
        self.on_write: Callable[[], None] = _nothing
        """Called under the guard when something is going to be written to this link."""

    # ---- the link ----------------------------------------------------------------------------------------------

    def attach(self, link: Link) -> None:
        """Under the guard: write to *link* from now on."""
        self._link = link
        self._flush_is_due = False

    def detach(self) -> None:
        """There is no link now; what a thread could not write to it is lost with it."""
        with self._guard:
            self._link = None
            self._flush_is_due = True
            self._unwritten = b""
            self.on_write = _nothing
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waiting_bytes = 0
        self._set_congested(False)

    @property
    def waiting_bytes(self) -> int:
        """In the write buffer; from other threads as of the last write."""
        link = self._link
        if link is not None and (self.thread is None or threading.get_ident() == self.thread):
            self._waiting_bytes = link.waiting_bytes
        return self._waiting_bytes

    def link_congested(self, link: Link, congested: bool) -> None:
        """The write buffer of *link* has reached its high water mark, or its low one again."""
        if link is self._link:
            self._waiting_bytes = link.waiting_bytes
            self._set_congested(congested)

    def _set_congested(self, congested: bool) -> None:
        was_congested, self.is_congested = self.is_congested, congested
        if was_congested and not congested:
            with self._guard:
                self.on_writable()

    # ---- the hot paths -----------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Under the guard: what the core puts now waits for `release`, in the same piece of work."""
        self._is_held = True

    def release(self) -> None:
        """Write what was put since `hold`, at once: somebody is about to wait for the answer."""
        self._is_held = False
        if self._output.waiting_bytes:
            self._write_now()

    def output_waits(self) -> None:
        """There is something to send: the loop writes it soon."""
        if self._flush_is_due or self._is_held:
            return
        self._flush_is_due = True
        self.on_write()  # here, not in flush: the monitor can tell its own keep-alives from the rest
        if threading.get_ident() == self.thread:
            self._loop.call_soon(self.flush)
        else:
            self._loop.call_soon_threadsafe(self.flush)

    def much_output_waits(self) -> None:
        """The same, and it is worth writing it at once."""
        if threading.get_ident() == self.thread:
            self._write_now()
        else:  # a loop of its own is there in time, and in bulk it is no slower
            self.output_waits()

    def flush(self) -> None:
        """Write all that waits."""
        with self._guard:
            if self._link is None:
                return
            self._flush_is_due = False
        self._write_from_loop()

    def _write_from_loop(self) -> None:
        with self._guard:
            link = self._link
            if link is None:
                return
            pieces = self._output.data_to_send()
            if self._unwritten:
                pieces.insert(0, self._unwritten)
                self._unwritten = b""
            self._is_writing = bool(pieces)
            self.on_flushed()
        if pieces:  # written without the guard: others may go on meanwhile, and no other thread writes
            link.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))
            self._waiting_bytes = waiting = link.waiting_bytes
            self._is_writing = False
            if waiting and self._timer is None and link.options.so_write_timeout_ms > 0:
                self._watch(link)

    def _write_now(self) -> None:
        """Under the guard: write in this thread, or have the loop do it."""
        if self._is_held:
            return
        self.on_write()
        if threading.get_ident() == self.thread:
            self._write_from_loop()
            return
        link = self._link
        is_busy = self._is_writing or self._waiting_bytes or self._unwritten
        if link is not None and link.can_write_directly and not is_busy:
            pieces = self._output.data_to_send()
            data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            self._unwritten = data[link.write_directly(data) :]
            self._waiting_bytes = len(self._unwritten)
            self.on_flushed()
            if not self._unwritten:
                return
        self.output_waits()

    # ---- soWriteTimeout ----------------------------------------------------------------------------------------

    def _watch(self, link: Link) -> None:
        """Something waits to be written, and some of it must have gone by then."""
        self._drained_bytes = link.drained_bytes
        seconds = link.options.so_write_timeout_ms / 1000
        self._timer = self._clock.call_later(seconds, lambda: self._check(link, seconds))

    def _check(self, link: Link, seconds: float) -> None:
        self._timer = None
        if link is not self._link or not link.waiting_bytes:
            return
        if link.drained_bytes > self._drained_bytes:
            self._watch(link)
            return
        reason = f"the broker took nothing of {link.waiting_bytes} bytes for {seconds:g} s (soWriteTimeout)"
        self._on_stuck(link, ConnectionFailedError(f"{link.address}: {reason}"))


def _nothing() -> None:
    pass

"""The tasks of one connection's engine, all on one event loop, and calls to that loop from other threads."""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from ackwire.util.clock import Clock

_log = logging.getLogger(__name__)


class EngineTasks:
    """Starts tasks on the engine's loop, and cancels them when the link or the engine ends."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock
        self.thread: int | None = None
        """The loop's thread, known from the engine's `open` on."""
        self.running: set[asyncio.Task[None]] = set()
        self.background: set[asyncio.Task[None]] = set()
        """The tasks that end with the link: they look for better brokers."""

    @property
    def is_on_loop(self) -> bool:
        """Whether the caller may act at once: it runs on the loop, or the loop does not run the engine yet."""
        return self.thread is None or threading.get_ident() == self.thread

    def call(self, call: Callable[..., None], *arguments: Any) -> None:
        """Call *call* on the loop soon, from any thread."""
        if threading.get_ident() == self.thread:
            self._loop.call_soon(call, *arguments)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, *arguments)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start *work* as a task that ends with the engine."""
        task = self._loop.create_task(work)
        self.running.add(task)
        task.add_done_callback(self.running.discard)
        return task

    def spawn_background(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start *work* as a task that ends with the link."""
        task = self.spawn(_logged(work))
        self.background.add(task)
        task.add_done_callback(self.background.discard)

    def cancel_background(self) -> None:
        for task in list(self.background):
            task.cancel()

    def cancel_all(self) -> None:
        for task in list(self.running):
            task.cancel()

    async def sleep(self, seconds: float) -> None:
        """Wait, on the engine's clock."""
        if seconds <= 0:
            return
        woken: asyncio.Future[None] = self._loop.create_future()

        def wake() -> None:
            if not woken.done():  # as it is when this task was cancelled in the same turn
                woken.set_result(None)

        timer = self._clock.call_later(seconds, wake)
        try:
            await woken
        finally:
            timer.cancel()


async def _logged(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Log the bugs of a task in the background: no caller awaits it."""
    try:
        await work()
    except Exception:
        _log.exception("an error in the client while looking for another broker")

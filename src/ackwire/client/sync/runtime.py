"""Waiting, running and calling back with threads. Its counterpart for asyncio is `ackwire.client.aio.runtime`.

Each connection has a thread of its own for its sockets, with an event loop in it: heartbeats go on whatever the
application does. The guard is a lock around the connection's state, which waiting gives up. What belongs to the
application runs elsewhere: listeners in the thread of their session, callbacks in one more.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from ackwire.client.core.reply import Reply
from ackwire.client.errors import JMSError
from ackwire.util.clock import Clock, SystemClock, Timer

T = TypeVar("T")
Receipt = Future
Guard = Any
"""A re-entrant lock; the standard library has no public name for its type."""

_STOP_TIMEOUT_SECONDS: Final = 5.0

_log: Final = logging.getLogger("ackwire.client")


class Waiter:
    """Threads that wait for something to change; they look again when woken. Waiting gives the guard up."""

    def __init__(self, guard: Guard) -> None:
        self._condition = threading.Condition(guard)
        self._waiting = 0

    @property
    def is_waited_for(self) -> bool:
        """Whether there are any."""
        return self._waiting > 0

    def wake(self) -> None:
        """Let all of them look again."""
        if self._waiting:
            self._condition.notify_all()

    def wait(self, timeout_seconds: float | None) -> bool:
        """Wait until woken; False after *timeout_seconds*."""
        self._waiting += 1
        try:
            return self._condition.wait(timeout_seconds)
        finally:
            self._waiting -= 1


def opening(opened: T) -> T:
    """What is opened is open."""
    return opened


class Runner:
    """A thread of ours. It does not keep the program alive."""

    def __init__(self, main: Callable[[], None], name: str) -> None:
        self._thread = threading.Thread(target=main, name=name, daemon=True)
        self._thread.start()

    @property
    def is_current(self) -> bool:
        """Whether the caller runs inside it."""
        return threading.current_thread() is self._thread

    def join(self, timeout_seconds: float) -> bool:
        """Wait for its end; False if that takes too long."""
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()


class _LoopTimer:
    """A timer on the loop of another thread; its callback runs under the guard."""

    def __init__(self, clock: "_LoopClock", callback: Callable[[], None]) -> None:
        self._clock = clock
        self._callback: Callable[[], None] | None = callback
        self._handle: asyncio.TimerHandle | None = None

    def start(self, delay_seconds: float) -> None:
        if self._callback is not None:
            self._handle = self._clock.loop.call_later(delay_seconds, self._run)

    def cancel(self) -> None:
        self._callback = None
        if self._handle is not None:
            self._clock.on_loop(self._handle.cancel)

    def _run(self) -> None:
        with self._clock.guard:
            if self._callback is not None:
                self._callback()


class _LoopClock:
    """The machine's time, for the thread that holds the guard."""

    def __init__(self, loop: asyncio.AbstractEventLoop, guard: Guard) -> None:
        self.loop = loop
        self.guard = guard
        system = SystemClock()
        self.now_ms = system.now_ms
        self.monotonic = system.monotonic

    def call_later(self, delay_seconds: float, callback: Callable[[], None]) -> Timer:
        timer = _LoopTimer(self, callback)
        self.on_loop(timer.start, delay_seconds)
        return timer

    def on_loop(self, callback: Callable[..., object], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing is due any more
            self.loop.call_soon_threadsafe(callback, *arguments)


class Runtime:
    """Where one connection runs: a thread with an event loop."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.guard: Guard = threading.RLock()
        self.clock: Clock = _LoopClock(self.loop, self.guard)
        self._name = name
        self._callbacks: SimpleQueue[tuple[Callable[..., object], tuple[object, ...]] | None] = SimpleQueue()
        self._caller: threading.Thread | None = None
        self._thread = threading.Thread(target=self._run, name=f"ackwire i/o {name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do *work*, which has time limits of its own, where the sockets are."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def spawn(self, main: Callable[[], None], name: str) -> Runner:
        return Runner(main, name)

    def settle(self, reply: Reply[T], timeout_seconds: float, on_timeout: Callable[[], JMSError]) -> T:
        """Wait for *reply*, under the guard."""
        if not reply.is_done:
            waiter = Waiter(self.guard)
            reply.then(lambda _: waiter.wake())
            if not waiter.wait(timeout_seconds) and not reply.is_done:
                raise on_timeout()
        return reply.result()

    def receipt(self) -> "Receipt[Any]":
        """A future that the application may wait for, or not."""
        future: Receipt[Any] = Future()
        future.set_running_or_notify_cancel()
        return future

    def settle_receipt(self, receipt: "Receipt[T]", value: T, error: BaseException | None) -> None:
        # Elsewhere, because callbacks of the application may hang on it.
        if error is None:
            self.call(receipt.set_result, value)
        else:
            self.call(receipt.set_exception, error)

    def call(self, callback: Callable[..., object], *arguments: object) -> None:
        """Run a callback of the application soon, on a thread where it may take its time."""
        self._callbacks.put((callback, arguments))
        if self._caller is None:
            self._caller = threading.Thread(target=self._call_back, name=f"ackwire callbacks {self._name}", daemon=True)
            self._caller.start()

    def _call_back(self) -> None:
        while (item := self._callbacks.get()) is not None:
            callback, arguments = item
            try:
                callback(*arguments)
            except Exception:
                _log.exception("a callback of the application failed: %r", callback)

    def stop(self) -> None:
        """Nothing runs here any more; callbacks that are due still do."""
        self._callbacks.put(None)
        self.loop.call_soon_threadsafe(self.loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(_STOP_TIMEOUT_SECONDS)


def is_cancellation_of_ours(error: BaseException) -> bool:
    """Threads are not cancelled: whatever a listener raises is its own affair."""
    del error
    return False

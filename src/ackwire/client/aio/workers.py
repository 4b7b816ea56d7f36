"""Tasks, locks and waits for what is built on connections; `ackwire.client.sync.workers` is the same for threads.

Both are written by hand and have the same names, so that pooled.py, buffered.py, template.py and listeners.py are
written once. Every wait has an end: a lock that is not free in time, and a worker that does not finish, are errors or
answers, never silence.
"""

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from ackwire.client.errors import ConnectionFailedError, RequestTimedOutError

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

LOCK_SECONDS: Final = 120.0
"""How long anybody waits for a lock; what is done under one is bounded by less."""


class Condition:
    """A lock, and news for those who wait for something that it guards: `async with changed: await changed.wait(5)`."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._condition = asyncio.Condition()

    async def __aenter__(self) -> Self:
        try:
            async with asyncio.timeout(LOCK_SECONDS):
                await self._condition.acquire()
        except TimeoutError:
            raise _never_free(self._what) from None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._condition.release()

    async def wait(self, timeout_seconds: float) -> bool:
        """Give the lock away until there is news, or the time is up: then False."""
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self._condition.wait()
        except TimeoutError:
            return False

    async def wait_for(self, predicate: Callable[[], bool], timeout_seconds: float) -> bool:
        """Give the lock away until *predicate* holds, which is looked at whenever there is news; else False."""
        end = time.monotonic() + timeout_seconds
        while not predicate() and time.monotonic() < end:
            await self.wait(end - time.monotonic())
        return predicate()

    def notify_all(self) -> None:
        self._condition.notify_all()


class Lock(Condition):
    """Only the lock."""


class Event:
    """Something that happens once."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        """From the loop's own thread."""
        self._event.set()

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    async def wait(self, timeout_seconds: float) -> bool:
        """Whether it has happened when this returns."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._event.wait()
        return self._event.is_set()


class Worker:
    """A task that runs *function* from `start` on.

    Where *on_exit* is given, the worker is not gone at once when the program ends: `asyncio.run` cancels it, then
    *on_exit* is awaited, which tells *function* to come to an end soon, and *function* is run once more.
    """

    def __init__(
        self,
        name: str,
        function: Callable[[], Awaitable[object]],
        *,
        on_exit: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self.name = name
        self._function = function
        self._on_exit = on_exit
        self._cancelled = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name=self.name)

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def is_current(self) -> bool:
        """Whether it is the worker itself that asks."""
        return self._task is not None and self._task is asyncio.current_task()

    async def join(self, timeout_seconds: float) -> bool:
        """Wait until it has ended; False if it goes on after this time."""
        if self._task is None:
            return True
        await asyncio.wait([self._task], timeout=max(0.0, timeout_seconds))
        return self._task.done()

    async def cancel(self, timeout_seconds: float = 1.0) -> None:
        """End it where it waits. (A thread cannot be ended: there this does nothing.)"""
        self._cancelled = True
        if self._task is not None and self._task.cancel():
            await self.join(timeout_seconds)

    async def _run(self) -> None:
        try:
            await self._function()
        except asyncio.CancelledError:
            if self._on_exit is None or self._cancelled:
                raise
            await self._on_exit()
            await self._function()
        except Exception:
            _log.exception("%s ended by an error", self.name)


class WorkerPool:
    """*count* workers that run one function."""

    def __init__(self, name: str, count: int) -> None:
        self.name = name
        self.count = count
        self._workers: list[Worker] = []

    def start(self, function: Callable[[], Awaitable[object]]) -> None:
        self._workers = [Worker(f"{self.name}-{number}", function) for number in range(1, self.count + 1)]
        for worker in self._workers:
            worker.start()

    @property
    def running(self) -> list[Worker]:
        return [worker for worker in self._workers if worker.is_running]

    async def join(self, timeout_seconds: float) -> bool:
        """Wait until all have ended; False if one goes on after this time. Who asks is not waited for."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_seconds
        finished = [await worker.join(end - loop.time()) for worker in self._workers if not worker.is_current]
        return all(finished)

    async def cancel(self) -> None:
        for worker in self.running:
            await worker.cancel()


async def call(handler: Callable[..., Any], *arguments: object) -> Any:
    """What *handler* returns. A coroutine is awaited; a plain function runs in the loop, which waits for it."""
    result = handler(*arguments)
    return await result if isawaitable(result) else result


async def call_blocking(function: Callable[..., _T], *arguments: object) -> _T:
    """What *function* returns, which waits for a disk: in a thread, so that the loop goes on."""
    return await asyncio.to_thread(function, *arguments)


async def outcome(receipt: asyncio.Future[_T], timeout_seconds: float) -> _T:
    """The result of *receipt*, or its error; `TimeoutError` if neither is there in time: it may still come."""
    done, _ = await asyncio.wait([receipt], timeout=max(0.0, timeout_seconds))
    if not done:
        raise TimeoutError
    if receipt.cancelled():
        raise ConnectionFailedError("no caller waits for the answer any more")
    return receipt.result()


async def until_signal(signals: Sequence[signal.Signals], stopped: Event) -> None:
    """Return when one of *signals* arrives, or *stopped* is set."""
    loop = asyncio.get_running_loop()
    arrived = Event()
    for number in signals:
        loop.add_signal_handler(number, arrived.set)
    try:
        waits = [loop.create_task(event.wait(10**9)) for event in (arrived, stopped)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        await asyncio.wait(waits)
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


def _never_free(what: str) -> RequestTimedOutError:
    return RequestTimedOutError(f"{what} was in use for more than {LOCK_SECONDS:g} seconds")

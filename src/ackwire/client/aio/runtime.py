"""Waiting, running and calling back with asyncio. Its counterpart for threads is `ackwire.client.sync.runtime`.

Everything happens on one loop, so the guard does nothing and every wait is a future.
"""

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, Final, Generic, Protocol, TypeVar

from ackwire.client.core.reply import Reply
from ackwire.client.errors import JMSError
from ackwire.util.clock import Clock, SystemClock

T = TypeVar("T")
Receipt = asyncio.Future

_log: Final = logging.getLogger("ackwire.client")


class Guard:
    """Does nothing: there is one thread."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class Waiter:
    """Tasks that wait for something to change; they look again when woken."""

    def __init__(self, guard: Guard) -> None:
        del guard
        self._waiting: set[asyncio.Future[bool]] = set()

    @property
    def is_waited_for(self) -> bool:
        """Whether there are any."""
        return bool(self._waiting)

    def wake(self) -> None:
        """Let all of them look again."""
        for future in self._waiting:
            if not future.done():
                future.set_result(True)

    async def wait(self, timeout_seconds: float | None) -> bool:
        """Wait until woken; False after *timeout_seconds*."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        timer = None
        if timeout_seconds is not None:
            timer = loop.call_later(max(0.0, timeout_seconds), _time_out, future)
        self._waiting.add(future)
        try:
            return await future
        finally:
            self._waiting.discard(future)
            if timer is not None:
                timer.cancel()


def _time_out(future: asyncio.Future[bool]) -> None:
    if not future.done():
        future.set_result(False)


class Resource(Protocol):
    """Something to close."""

    async def close(self) -> None: ...


R = TypeVar("R", bound=Resource, covariant=True)
T_co = TypeVar("T_co", covariant=True)


class IterableResource(Resource, Protocol[T_co]):
    """Something to iterate over, and to close."""

    def __aiter__(self) -> AsyncIterator[T_co]: ...


class Opening(Generic[R]):
    """Something that is opened by awaiting it, or by `async with`, which closes it too.

    A consumer or browser may be iterated over as well: the end of the iteration closes it.
    """

    def __init__(self, opening: Coroutine[Any, Any, R]) -> None:
        self._opening = opening
        self._opened: R | None = None

    def __await__(self) -> Generator[Any, Any, R]:
        return self._opening.__await__()

    async def __aiter__(self: "Opening[IterableResource[T]]") -> AsyncIterator[T]:
        async with self as opened:
            async for item in opened:
                yield item

    async def __aenter__(self) -> R:
        self._opened = await self._opening
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened is not None:
            await self._opened.close()


def opening(coroutine: Coroutine[Any, Any, R]) -> Opening[R]:
    """What *coroutine* opens, ready to be awaited or entered."""
    return Opening(coroutine)


class Runner:
    """A task of ours."""

    def __init__(self, main: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        self._task = asyncio.get_running_loop().create_task(main(), name=name)

    @property
    def is_current(self) -> bool:
        """Whether the caller runs inside it."""
        return asyncio.current_task() is self._task

    async def join(self, timeout_seconds: float) -> bool:
        """Wait for its end; False if that takes too long."""
        done, _ = await asyncio.wait((self._task,), timeout=timeout_seconds)
        return bool(done)


class Runtime:
    """Where one connection runs: the loop that is running now."""

    def __init__(self, name: str) -> None:
        del name
        self.loop = asyncio.get_running_loop()
        self.guard = Guard()
        self.clock: Clock = SystemClock()
        self._callbacks: set[asyncio.Task[None]] = set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do *work* where the sockets are."""
        return await work

    def spawn(self, main: Callable[[], Coroutine[Any, Any, None]], name: str) -> Runner:
        return Runner(main, name)

    async def settle(self, reply: Reply[T], timeout_seconds: float, on_timeout: Callable[[], JMSError]) -> T:
        """Wait for *reply*, under the guard."""
        if not reply.is_done:
            waiter = Waiter(self.guard)
            reply.then(lambda _: waiter.wake())
            if not await waiter.wait(timeout_seconds) and not reply.is_done:
                raise on_timeout()
        return reply.result()

    def receipt(self) -> "Receipt[Any]":
        """A future that the application may wait for, or not."""
        return self.loop.create_future()

    def settle_receipt(self, receipt: "Receipt[T]", value: T, error: BaseException | None) -> None:
        if receipt.done():  # cancelled
            return
        if error is None:
            receipt.set_result(value)
        else:
            receipt.set_exception(error)
            receipt.exception()  # so that asyncio does not log an error that the application did not look at

    def call(self, callback: Callable[..., object], *arguments: object) -> None:
        """Run a callback of the application soon; it may be a coroutine function."""
        task = self.loop.create_task(_call_back(callback, arguments))
        self._callbacks.add(task)
        task.add_done_callback(self._callbacks.discard)

    async def stop(self) -> None:
        """Nothing runs here any more; callbacks that are due still do."""


async def finished(result: object) -> None:
    """Wait for what a listener returned, if it is a coroutine function."""
    if inspect.isawaitable(result):
        await result


def is_cancellation_of_ours(error: BaseException) -> bool:
    """Whether *error* ends the task that is running now, and not something that it waited for."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


async def _call_back(callback: Callable[..., object], arguments: tuple[object, ...]) -> None:
    try:
        result = callback(*arguments)
        if inspect.isawaitable(result):
            await result
    except Exception:
        _log.exception("a callback of the application failed: %r", callback)

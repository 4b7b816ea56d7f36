"""Threads, locks and waits for what is built on connections; `ackwire.client.aio.workers` is the same for tasks.

Both are written by hand and have the same names, so that pooled.py, buffered.py, template.py and listeners.py are
written once. Every wait has an end: a lock that is not free in time, and a worker that does not finish, are errors or
answers, never silence.

Workers are daemon threads: a handler that hangs does not keep the program from ending, and what it had in hand was not
acknowledged. Workers with `on_exit` are not: the program waits for them, and tells them when it ends.
"""

import logging
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from inspect import iscoroutine
from queue import Empty, SimpleQueue
from types import FrameType, TracebackType
from typing import Any, Final, Self, TypeVar

from ackwire.client.errors import ConnectionFailedError, IllegalArgumentError, RequestTimedOutError

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

LOCK_SECONDS: Final = 120.0
"""How long anybody waits for a lock; what is done under one is bounded by less."""


class Condition:
    """A lock, and news for those who wait for something that it guards: `with changed: changed.wait(5)`."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._condition = threading.Condition(threading.Lock())

    def __enter__(self) -> Self:
        if not self._condition.acquire(timeout=LOCK_SECONDS):
            raise RequestTimedOutError(f"{self._what} was in use for more than {LOCK_SECONDS:g} seconds")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._condition.release()

    def wait(self, timeout_seconds: float) -> bool:
        """Give the lock away until there is news, or the time is up: then False."""
        return self._condition.wait(timeout_seconds)

    def wait_for(self, predicate: Callable[[], bool], timeout_seconds: float) -> bool:
        """Give the lock away until *predicate* holds, which is looked at whenever there is news; else False."""
        return self._condition.wait_for(predicate, timeout_seconds)

    def notify_all(self) -> None:
        self._condition.notify_all()


class Lock(Condition):
    """Only the lock."""


class Event:
    """Something that happens once."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """From any thread."""
        self._event.set()

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, timeout_seconds: float) -> bool:
        """Whether it has happened when this returns."""
        return self._event.wait(timeout_seconds)


class Worker:
    """A thread that runs *function* from `start` on.

    Where *on_exit* is given, the worker is not gone at once when the program ends: the main thread's end makes
    *on_exit* be called, which tells *function* to come to an end soon, and the interpreter waits for that.
    """

    def __init__(
        self,
        name: str,
        function: Callable[[], object],
        *,
        on_exit: Callable[[], object] | None = None,
    ) -> None:
        self.name = name
        self._function = function
        self._on_exit = on_exit
        self._thread = threading.Thread(target=self._run, name=name, daemon=on_exit is None)

    def start(self) -> None:
        if self._on_exit is not None:
            _EXITS.register(self._on_exit)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    @property
    def is_current(self) -> bool:
        """Whether it is the worker itself that asks."""
        return self._thread is threading.current_thread()

    def join(self, timeout_seconds: float) -> bool:
        """Wait until it has ended; False if it goes on after this time."""
        if self._thread.ident is not None:
            self._thread.join(max(0.0, timeout_seconds))
        return not self._thread.is_alive()

    def cancel(self, timeout_seconds: float = 1.0) -> None:
        """Nothing: a thread cannot be ended from outside."""

    def _run(self) -> None:
        try:
            self._function()
        except Exception:
            _log.exception("%s ended by an error", self.name)
        finally:
            if self._on_exit is not None:
                _EXITS.forget(self._on_exit)


class WorkerPool:
    """*count* workers that run one function."""

    def __init__(self, name: str, count: int) -> None:
        self.name = name
        self.count = count
        self._workers: list[Worker] = []

    def start(self, function: Callable[[], object]) -> None:
        self._workers = [Worker(f"{self.name}-{number}", function) for number in range(1, self.count + 1)]
        for worker in self._workers:
            worker.start()

    @property
    def running(self) -> list[Worker]:
        return [worker for worker in self._workers if worker.is_running]

    def join(self, timeout_seconds: float) -> bool:
        """Wait until all have ended; False if one goes on after this time. Who asks is not waited for."""
        end = time.monotonic() + timeout_seconds
        finished = [worker.join(end - time.monotonic()) for worker in self._workers if not worker.is_current]
        return all(finished)

    def cancel(self) -> None:
        """Nothing: threads cannot be ended from outside."""


def call(handler: Callable[..., Any], *arguments: object) -> Any:
    """What *handler* returns; it must be a plain function."""
    try:
        result = handler(*arguments)
    except SystemExit as error:  # in a thread it would end the worker, and the program would not see it
        raise RuntimeError(f"the handler asked the program to exit: {error}") from error
    if iscoroutine(result):
        result.close()
        raise IllegalArgumentError("an async function needs the client of ackwire.aio; here it is never awaited")
    return result


def call_blocking(function: Callable[..., _T], *arguments: object) -> _T:
    """What *function* returns, which waits for a disk."""
    return function(*arguments)


def outcome(receipt: Future[_T], timeout_seconds: float) -> _T:
    """The result of *receipt*, or its error; `TimeoutError` if neither is there in time: it may still come."""
    try:
        return receipt.result(max(0.0, timeout_seconds))
    except CancelledError:
        raise ConnectionFailedError("no caller waits for the answer any more") from None


def until_signal(signals: Sequence[signal.Signals], stopped: Event) -> None:
    """Return when one of *signals* arrives, or *stopped* is set; in the main thread, as Python asks."""
    # Handlers run between any two instructions of this thread: of all queues only SimpleQueue can be used from there.
    arrived: SimpleQueue[int] = SimpleQueue()

    def note(number: int, _frame: FrameType | None) -> None:
        arrived.put(number)

    before = [(number, signal.signal(number, note)) for number in signals]
    try:
        while not stopped.is_set:
            try:
                arrived.get(timeout=0.5)
                return
            except Empty:
                continue
    finally:
        for number, handler in before:
            signal.signal(number, handler)


class _Exits:
    """Calls what was registered when the main thread has ended, which is when the interpreter begins to shut down.

    `atexit` is too late for that: its functions run when all threads are gone. A thread that waits for the main thread
    is told in time, and uses nothing but what `threading` promises.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], object]] = []
        self._watcher: threading.Thread | None = None

    def register(self, callback: Callable[[], object]) -> None:
        with self._lock:
            self._callbacks.append(callback)
            if self._watcher is None or not self._watcher.is_alive():
                self._watcher = threading.Thread(target=self._watch, name="ackwire-exit", daemon=True)
                self._watcher.start()

    def forget(self, callback: Callable[[], object]) -> None:
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

    def _watch(self) -> None:
        threading.main_thread().join()
        with self._lock:
            callbacks = list(self._callbacks)
        for callback in callbacks:
            try:
                callback()
            except Exception:
                _log.exception("at the end of the program")


_EXITS: Final = _Exits()

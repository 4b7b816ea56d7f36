"""A thread for work that blocks, whose outcomes come back to the loop: `ackwire.store.background.Background`."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import final

Work = Callable[[], None]
Done = Callable[[Exception | None], None]


@final
class ThreadBackground:
    """One thread. All methods are called on the loop's thread."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._work: SimpleQueue[tuple[Work, Done] | None] = SimpleQueue()
        self._outcomes: deque[tuple[Done, Exception | None]] = deque()
        self._unfinished = 0
        self._finished = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Work, done: Done) -> None:
        self._unfinished += 1
        self._work.put((work, done))

    def finish(self) -> None:
        while self._unfinished:
            self._finished.acquire()
            self._deliver()

    def stop(self) -> None:
        """End the thread, after the work that it has."""
        self._work.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            work, done = item
            error: Exception | None = None
            try:
                work()
            except Exception as raised:
                error = raised
            self._outcomes.append((done, error))
            self._finished.release()
            try:
                self._loop.call_soon_threadsafe(self._deliver_if_left)
            except RuntimeError:  # the loop is closed, so no result is needed
                return

    def _deliver_if_left(self) -> None:
        """Unless `finish` was here before."""
        if self._finished.acquire(blocking=False):
            self._deliver()

    def _deliver(self) -> None:
        done, error = self._outcomes.popleft()
        self._unfinished -= 1
        done(error)

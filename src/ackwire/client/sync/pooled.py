# generated from src/ackwire/client/aio/pooled.py by tools/async_to_sync.py; change that
"""`PooledConsumer`: several workers behind one consumer (M1).

    def handle(message): ...

    with PooledConsumer(factory, "orders", handle, workers=8):
        ...

One worker takes messages from the broker and puts them into a bounded queue; the others handle them. When the queue is
full, the one that takes them handles one itself: nothing is taken meanwhile, and nothing is ever turned away (N5).

A message is acknowledged, alone (D6), when its handler has returned, and not before (N4): a process that is killed
loses none. A handler that raises gives the message back: it comes again by the redelivery policy (F2), and is a dead
letter when that says so (F3). Messages are handled side by side, so their order is not kept, not even within a group:
where order counts, use one consumer, or a `ListenerContainer`.
"""

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from ackwire.client.core.modes import AckMode
from ackwire.client.errors import IllegalArgumentError, IllegalStateError, RequestTimedOutError
from ackwire.client.message import Message
from ackwire.client.retry import BackOff
from ackwire.client.sync.closing import StartedAndClosed
from ackwire.client.sync.connection import Connection, ConnectionFactory
from ackwire.client.sync.consumer import Consumer
from ackwire.client.sync.keeper import ConnectionKeeper
from ackwire.client.sync.session import Session
from ackwire.client.sync.workers import Condition, Worker, WorkerPool, call
from ackwire.jms.destinations import Destination

_log = logging.getLogger(__name__)

CLOSE_SECONDS: Final = 30.0
_RECEIVE_SECONDS: Final = 0.5
"""How soon a consumer without messages notices that it should stop."""
_WAIT_SECONDS: Final = 60.0

Handler = Callable[[Message], Any]
OnError = Callable[[Message | None, Exception], Any]


class PooledConsumer(StartedAndClosed):
    """Handles the messages of *destination* with *workers* workers, from `start` to `close`.

    *connection*: a factory or a URL, from which a connection is opened, and again when it fails; or a connection, which
    is used and left open. *queue_size*: how many messages may wait for a worker; twice the workers unless given.
    *on_error* is called with the message and what its handler raised, after the message was given back; or with None
    and what went wrong with the connection. It may be async. Without it, errors are logged.
    """

    def __init__(
        self,
        connection: ConnectionFactory | Connection | str,
        destination: Destination | str,
        handler: Handler,
        *,
        workers: int = 4,
        queue_size: int | None = None,
        selector: str | None = None,
        on_error: OnError | None = None,
        close_timeout_seconds: float = CLOSE_SECONDS,
    ) -> None:
        if workers < 1:
            raise IllegalArgumentError(f"a pool needs a worker at least, not {workers}")
        self.destination = destination
        self._keeper = ConnectionKeeper(connection)
        self._handler = handler
        self._selector = selector
        self._on_error = on_error
        self._close_timeout_seconds = close_timeout_seconds
        self._queue_size = 2 * workers if queue_size is None else queue_size
        self._queue: deque[Message] = deque()
        self._changed = Condition(f"the queue of the pool for {destination}")
        self._free = workers
        """Workers without a message; each counts as room in the queue, for it will take one out."""
        self._working = 0
        self._started = self._stopping = self._draining = self._closed = False
        self._back_off = BackOff()
        self._session: Session | None = None
        self._intake = Worker(f"pool {destination} intake", self._take)
        self._pool = WorkerPool(f"pool {destination}", workers)

    @property
    def waiting(self) -> int:
        """Messages that were taken and that no worker has begun."""
        return len(self._queue)

    @property
    def working(self) -> int:
        """Messages that are being handled."""
        return self._working

    def start(self) -> None:
        """Begin to take messages; a connection that fails is tried again, and reported, from then on."""
        with self._changed:
            if self._closed:
                raise IllegalStateError(f"the pool for {self.destination} is closed")
            if not self._started:
                self._started = True
                self._pool.start(self._work)
                self._intake.start()

    def close(self, timeout_seconds: float | None = None) -> None:
        """Take no more messages, finish those that were taken, then close.

        Raises `RequestTimedOutError` when that takes longer than *timeout_seconds*, or what the constructor was given:
        everything is closed then too, and what was not finished is delivered again, for it was not acknowledged.
        """
        if self._closed:
            return
        limit = self._close_timeout_seconds if timeout_seconds is None else timeout_seconds
        self._closed = True
        end = time.monotonic() + limit
        finished = not self._started or self._drain(end)
        left, working = len(self._queue), self._working
        self._queue.clear()
        if not finished:
            self._intake.cancel()
            self._pool.cancel()
        if self._session is not None:
            self._session.close()
        self._keeper.close()
        if not finished:
            raise RequestTimedOutError(
                f"the pool for {self.destination} did not finish within timeout_seconds={limit:g}: {working} messages "
                f"were being handled and {left} not begun; none is acknowledged, and the broker delivers them again"
            )

    def _drain(self, end: float) -> bool:
        """Whether everything that was taken is finished by *end*."""
        self._tell(stopping=True)
        if not self._intake.is_current and not self._intake.join(end - time.monotonic()):
            return False
        self._tell(draining=True)
        return self._pool.join(end - time.monotonic())

    def _tell(self, *, stopping: bool = False, draining: bool = False) -> None:
        with self._changed:
            self._stopping |= stopping
            self._draining |= draining
            self._changed.notify_all()

    # ---- intake --------------------------------------------------------------------------------------------------

    def _is_stopping(self) -> bool:
        return self._stopping

    def _take(self) -> None:
        while not self._is_stopping():
            try:
                self._take_from_new_session()
            except Exception as error:
                if self._is_stopping():
                    return
                self._report(None, error)
                if self._keeper.is_borrowed:
                    return
                self._pause(self._back_off.next_seconds())

    def _take_from_new_session(self) -> None:
        connection = self._keeper.connection()
        try:
            # It stays open when intake ends: workers acknowledge through it.
            self._session = connection.session(AckMode.INDIVIDUAL)
            consumer = self._session.consumer(self.destination, self._selector)
            self._back_off.reset()
            self._take_from(consumer)
        except Exception:
            self._keeper.failed(connection)
            raise

    def _take_from(self, consumer: Consumer) -> None:
        while not self._is_stopping():
            message = consumer.receive(_RECEIVE_SECONDS)
            if message is not None:
                self._offer(message)

    def _offer(self, message: Message) -> None:
        """Queue *message*, or handle it here if there is no room."""
        with self._changed:
            if len(self._queue) < self._queue_size + self._free:
                self._queue.append(message)
                self._changed.notify_all()
                return
        self._handle(message)

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(self._is_stopping, seconds)

    # ---- work ----------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (message := self._next()) is not None:
            self._handle(message)
            with self._changed:
                self._free += 1

    def _next(self) -> Message | None:
        """The next message in the queue; None when there will be no more."""
        with self._changed:
            while not self._queue and not self._draining:
                self._changed.wait(_WAIT_SECONDS)
            if not self._queue:
                return None
            self._free -= 1
            return self._queue.popleft()

    def _handle(self, message: Message) -> None:
        self._count(1)
        try:
            call(self._handler, message)
        except Exception as error:
            self._give_back(message, error)
        else:
            self._acknowledge(message)
        finally:
            self._count(-1)

    def _count(self, change: int) -> None:
        with self._changed:
            self._working += change

    def _acknowledge(self, message: Message) -> None:
        try:
            message.acknowledge()
        except Exception as error:  # the connection is gone: the broker delivers it again
            self._report(message, error)

    def _give_back(self, message: Message, error: Exception) -> None:
        try:
            message.reject(error)
        except Exception as failure:
            _log.warning("%r could not be given back, and comes again when its session has ended: %s", message, failure)
        self._report(message, error)

    def _report(self, message: Message | None, error: Exception) -> None:
        if self._on_error is None:
            what = f"the consumer of {self.destination}" if message is None else f"the handler of {message!r}"
            _log.error("%s failed: %s", what, error, exc_info=error if message is not None else None)
            return
        try:
            call(self._on_error, message, error)
        except Exception:
            _log.exception("on_error of the pool for %s raised itself", self.destination)

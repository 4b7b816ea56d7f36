"""The listeners of one session's consumers: a task calls them, one at a time (C1)."""

import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from ackwire.client.aio.runtime import Guard, Runner, Runtime, Waiter, finished, is_cancellation_of_ours
from ackwire.client.core.consumer import ConsumerCore
from ackwire.client.core.delivery import Delivery
from ackwire.client.core.session import SessionCore
from ackwire.client.message import Message
from ackwire.jms.destinations import Destination

_log: Final = logging.getLogger("ackwire.client")


class ListeningConsumer(Protocol):
    """A consumer, as the task that calls its listener sees it."""

    _core: ConsumerCore
    _listener: Callable[[Message], object] | None
    _is_closing: bool

    @property
    def destination(self) -> Destination: ...

    def _transformed(self, message: Message) -> Message: ...

    def _listener_returned(self, delivery: Delivery, failure: BaseException | None) -> None: ...

    async def _leave(self) -> None: ...


class SessionListeners:
    """Takes messages for the consumers that have listeners, in turn, and calls the listeners."""

    def __init__(
        self,
        core: SessionCore,
        consumers: Mapping[ConsumerCore, ListeningConsumer],
        runtime: Runtime,
        guard: Guard,
        waiter: Waiter,
    ) -> None:
        self._core = core
        self._consumers = consumers
        self._runtime = runtime
        self._guard = guard
        self._waiter = waiter
        self._runner: Runner | None = None
        self._is_stopping = False
        self._busy_with: ListeningConsumer | None = None
        """Whose listener is at work."""
        self._turn = 0

    def start(self) -> None:
        """Under the guard: start the task, unless it runs."""
        if self._runner is None:
            self._runner = self._runtime.spawn(self._listen, f"ackwire session {self._core.session_id}")
        self._waiter.wake()

    def is_called_by(self, consumer: ListeningConsumer) -> bool:
        """Whether the caller is the listener of *consumer*."""
        return self._runner is not None and self._runner.is_current and self._busy_with is consumer

    async def await_idle(self, timeout_seconds: float, consumer: ListeningConsumer | None = None) -> None:
        """Wait until no listener is at work, or none of *consumer*; return at once if the caller is a listener."""
        if self._runner is None or self._runner.is_current:
            return
        clock = self._runtime.clock
        deadline = clock.monotonic() + timeout_seconds
        with self._guard:
            while self._busy_with is not None and consumer in (None, self._busy_with) and clock.monotonic() < deadline:
                await self._waiter.wait(deadline - clock.monotonic())

    async def stop(self, timeout_seconds: float) -> None:
        """Call no more listeners, and wait for the one at work, unless it is the caller."""
        with self._guard:
            self._is_stopping = True
            self._waiter.wake()
        runner = self._runner
        if runner is not None and not runner.is_current:
            await runner.join(timeout_seconds)

    async def _listen(self) -> None:
        found = await self._next()
        while found is not None:
            consumer, delivery, message = found
            failure: BaseException | None = None
            try:
                message = consumer._transformed(message)
                # [sync only] consumer._listener(message)  # type: ignore[misc]
                # [async only]
                result = consumer._listener(message)  # type: ignore[misc]
                if result is not None:
                    await finished(result)
                # [end]
            except BaseException as error:
                failure = error
                _log.warning("the listener of %r failed: %r", consumer.destination, error, exc_info=error)
            with self._guard:
                consumer._listener_returned(delivery, failure)
                self._busy_with = None
                ended = consumer._is_closing
                # Callers that wait for a pause get one; else the next message comes at once.
                has_pause = ended or failure is not None or self._waiter.is_waited_for
                self._waiter.wake()
                found = None if has_pause else self._take()
            if failure is not None and is_cancellation_of_ours(failure):
                raise failure
            if ended:
                await consumer._leave()
            if found is None:
                found = await self._next()

    async def _next(self) -> tuple[ListeningConsumer, Delivery, Message] | None:
        with self._guard:
            while not self._has_stopped():
                found = self._take()
                if found is not None:
                    return found
                await self._waiter.wait(None)
            return None

    def _has_stopped(self) -> bool:
        return self._is_stopping or self._core.is_closed or self._core.connection.link.failure is not None

    def _take(self) -> tuple[ListeningConsumer, Delivery, Message] | None:
        """The next message of the consumers that have listeners, in turn."""
        if self._has_stopped():
            return None
        consumers = [it for it in self._consumers.values() if it._listener is not None and not it._is_closing]
        for number in range(len(consumers)):
            consumer = consumers[(self._turn + number) % len(consumers)]
            delivery = consumer._core.take()
            if delivery is not None:
                self._turn = (self._turn + number + 1) % len(consumers)
                self._busy_with = consumer
                return consumer, delivery, consumer._core.begin(delivery)
        return None

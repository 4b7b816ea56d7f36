"""Browsers: a look at a queue, message by message, without consuming any."""

from collections.abc import AsyncIterator

from ackwire.client.aio.closing import ClosedAtEnd
from ackwire.client.aio.owners import OwningSession
from ackwire.client.aio.runtime import Waiter
from ackwire.client.core.consumer import ConsumerCore
from ackwire.client.errors import RequestTimedOutError, was_refused
from ackwire.client.message import Message
from ackwire.client.settings import REQUEST_TIMEOUT_SECONDS, policy_for, prefetch_for
from ackwire.client.uri import DestinationUri
from ackwire.jms.destinations import Destination


class Browser(ClosedAtEnd):
    """Made by `Session.browser`. Each iteration asks the broker anew, and ends with what is there."""

    def __init__(self, session: OwningSession, uri: DestinationUri, selector: str | None) -> None:
        self.session = session
        self.selector = selector
        self._uri = uri
        self._guard = session._guard
        self._is_closed = False
        self._cores: set[ConsumerCore] = set()

    @property
    def destination(self) -> Destination:
        return self._uri.destination

    async def __aiter__(self) -> AsyncIterator[Message]:
        waiter = Waiter(self._guard)
        core = await self._begin(waiter)
        try:
            while (message := await self._next(core, waiter)) is not None:
                yield message
        finally:
            await self._end(core)

    async def _begin(self, waiter: Waiter) -> ConsumerCore:
        session, where = self.session, self.destination
        options = session.connection.options
        with self._guard:
            core, reply = session._core.add_consumer(
                where,
                prefetch_for(options, self._uri.consumer, where, is_durable=False, is_browser=True) or 1,
                self._uri.consumer,
                policy_for(session.connection.redelivery_policies, where, options.redelivery),
                selector=self.selector or None,
                is_browser=True,
            )
            core.wake = waiter.wake
            self._cores.add(core)
            try:
                await session._answer(reply, f"the browser of {where!r}")
            except BaseException as error:
                self._cores.discard(core)
                if not was_refused(error):
                    core.close()
                raise
        return core

    async def _next(self, core: ConsumerCore, waiter: Waiter) -> Message | None:
        clock = self.session._runtime.clock
        deadline = clock.monotonic() + REQUEST_TIMEOUT_SECONDS
        with self._guard:
            while True:
                delivery = core.take()
                if delivery is not None:
                    message = core.begin(delivery)
                    core.finish(delivery)
                    return message
                if core.is_closed or self._is_closed or (core.pulls.is_at_end and not len(core)):
                    return None
                self.session._core.check_open()
                if clock.monotonic() >= deadline:
                    raise RequestTimedOutError(
                        f"the broker sent neither a message of {self.destination!r} nor the word that there are no "
                        f"more within {REQUEST_TIMEOUT_SECONDS:g} s"
                        + ("" if self.session.connection.is_started else ": the connection is not started")
                    )
                await waiter.wait(deadline - clock.monotonic())

    async def _end(self, core: ConsumerCore) -> None:
        with self._guard:
            self._cores.discard(core)
            reply = core.close()
            if reply is not None:
                await self.session.connection._answer_or_not(
                    reply, f"that the browser of {self.destination!r} is closed"
                )

    async def close(self) -> None:
        """End every iteration that is going on."""
        self._is_closed = True
        for core in list(self._cores):
            await self._end(core)

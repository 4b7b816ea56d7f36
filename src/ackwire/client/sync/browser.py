# generated from src/ackwire/client/aio/browser.py by tools/async_to_sync.py; change that
"""Browsers: a look at a queue, message by message, without consuming any."""

from collections.abc import Iterator

from ackwire.client.core.consumer import ConsumerCore
from ackwire.client.errors import RequestTimedOutError, was_refused
from ackwire.client.message import Message
from ackwire.client.settings import REQUEST_TIMEOUT_SECONDS, policy_for, prefetch_for
from ackwire.client.sync.closing import ClosedAtEnd
from ackwire.client.sync.owners import OwningSession
from ackwire.client.sync.runtime import Waiter
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

    def __iter__(self) -> Iterator[Message]:
        waiter = Waiter(self._guard)
        core = self._begin(waiter)
        try:
            while (message := self._next(core, waiter)) is not None:
                yield message
        finally:
            self._end(core)

    def _begin(self, waiter: Waiter) -> ConsumerCore:
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
                session._answer(reply, f"the browser of {where!r}")
            except BaseException as error:
                self._cores.discard(core)
                if not was_refused(error):
                    core.close()
                raise
        return core

    def _next(self, core: ConsumerCore, waiter: Waiter) -> Message | None:
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
                waiter.wait(deadline - clock.monotonic())

    def _end(self, core: ConsumerCore) -> None:
        with self._guard:
            self._cores.discard(core)
            reply = core.close()
            if reply is not None:
                self.session.connection._answer_or_not(reply, f"that the browser of {self.destination!r} is closed")

    def close(self) -> None:
        """End every iteration that is going on."""
        self._is_closed = True
        for core in list(self._cores):
            self._end(core)

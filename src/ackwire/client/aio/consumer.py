"""Consumers: messages one by one, by iteration, or through a listener (C1)."""

import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from ackwire.client.aio.closing import ClosedAtEnd
from ackwire.client.aio.owners import OwningSession
from ackwire.client.aio.runtime import Waiter
from ackwire.client.core.consumer import ConsumerCore
from ackwire.client.core.delivery import Delivery
from ackwire.client.core.modes import AckMode
from ackwire.client.core.pulling import PULL_FOR_EVER, PULL_NO_WAIT
from ackwire.client.core.reply import Reply
from ackwire.client.errors import IllegalStateError, JMSError, RequestTimedOutError
from ackwire.client.message import Message
from ackwire.client.settings import PULL_GRACE_SECONDS, RECEIVE_TIMEOUT_SECONDS, REQUEST_TIMEOUT_SECONDS
from ackwire.jms.destinations import Destination
from ackwire.wire.openwire.structures import Structure

_UNTIL_DEFAULT: Final = -1.0
_log: Final = logging.getLogger("ackwire.client")


class Consumer(ClosedAtEnd):
    """Receives the messages of one destination. Made by `Session.consumer` or `Session.durable_subscriber`.

    Iterating waits for messages for ever, and ends when the consumer is closed.
    """

    def __init__(self, session: OwningSession, core: ConsumerCore, selector: str | None) -> None:
        self.session = session
        self.selector = selector
        self._core = core
        self._guard = session._guard
        self._clock = session._runtime.clock
        self._waiter = Waiter(self._guard)
        self._listener: Callable[[Message], object] | None = None
        self._is_closing = False
        self._has_warned = False
        core.wake = self._wake

    def __repr__(self) -> str:
        return f"<Consumer of {self.destination!r}>"

    @property
    def destination(self) -> Destination:
        return self._core.destination

    @property
    def is_closed(self) -> bool:
        return self._core.is_closed

    def _wake(self) -> None:
        if self._listener is None:
            self._waiter.wake()
        else:
            self.session._waiter.wake()

    # ---- receiving ---------------------------------------------------------------------------------------------

    async def receive(self, timeout_seconds: float | None = _UNTIL_DEFAULT) -> Message | None:
        """The next message; None if none comes within *timeout_seconds*, or the consumer is closed meanwhile.

        With None it waits for ever. Without an argument it waits 60 seconds and then raises `RequestTimedOutError`.
        In AUTO mode the message is acknowledged before it is returned (D1).
        """
        if timeout_seconds != _UNTIL_DEFAULT:
            return await self._receive(timeout_seconds)
        message = await self._receive(RECEIVE_TIMEOUT_SECONDS)
        if message is None and not self._core.is_closed:
            raise RequestTimedOutError(
                f"no message from {self.destination!r} within {RECEIVE_TIMEOUT_SECONDS:g} s, the limit of receive() "
                "without a timeout; receive(None) waits for ever, receive(seconds) returns None after that time"
            )
        return message

    async def receive_no_wait(self) -> Message | None:
        """The next message if it is here already, and None if not."""
        return await self._receive(0.0)

    async def _receive(self, timeout_seconds: float | None) -> Message | None:
        with self._guard:
            self._check_receiving()
            if self.session._core.transactions.deciding is not None:
                await self.session._decided()
            delivery = self._core.take()
            if delivery is None:
                wait = self._pull if self._core.is_pulling else self._wait
                delivery = await wait(timeout_seconds)
                if delivery is None:
                    return None
            message = self._core.begin(delivery)
            if self.session.connection.transformer is None:
                self._report(self._core.finish(delivery))
                return message
        return self._finish_transformed(delivery, message)

    async def _wait(self, timeout_seconds: float | None) -> Delivery | None:
        if not self.session.connection.is_started:
            self._warn_later()
        deadline = None if timeout_seconds is None else self._clock.monotonic() + timeout_seconds
        while (delivery := self._core.take()) is None and not self._has_ended():
            remaining = None if deadline is None else deadline - self._clock.monotonic()
            if remaining is not None and remaining <= 0:
                break
            await self._waiter.wait(remaining)
        return delivery

    async def _pull(self, timeout_seconds: float | None) -> Delivery | None:
        """Ask the broker for one message (C3); it says when there is none."""
        is_at_once = timeout_seconds is not None and timeout_seconds <= 0
        if is_at_once and (self._core.pulls.is_unanswered or not self.session.connection.is_connected):
            return self._core.take()  # the broker cannot be asked whether there is one now
        deadline = None if timeout_seconds is None else self._clock.monotonic() + timeout_seconds
        latest = deadline
        is_asked = False
        while (delivery := self._core.take()) is None and not self._has_ended():
            now = self._clock.monotonic()
            if is_asked and self._core.pulls.is_at_end:
                break
            if not self._core.pulls.is_unanswered:
                is_asked = self._core.pull(_pull_ms(deadline, now, timeout_seconds))
                if is_asked and deadline is not None:  # it says itself when there is none
                    latest = now + REQUEST_TIMEOUT_SECONDS if is_at_once else deadline + PULL_GRACE_SECONDS
            if latest is not None and now >= latest:
                break
            await self._waiter.wait(None if latest is None else latest - now)
        return delivery

    def _warn_later(self) -> None:
        """Warn about a consumer that waits on a connection that is not started."""
        connection = self.session.connection
        delay_ms = connection.options.warn_about_unstarted_connection_ms
        if delay_ms > 0 and not self._has_warned:
            self._has_warned = True
            self._clock.call_later(delay_ms / 1000, self._warn)

    def _warn(self) -> None:
        connection = self.session.connection
        if not connection.is_started and not connection.is_closed:
            connection._runtime.call(_log.warning, "%r waits on a connection that is not started", self)

    def _finish_transformed(self, delivery: Delivery, message: Message) -> Message:
        """Without the guard: a transformer is the application's. If it raises, the message comes again."""
        try:
            transformed = self._transformed(message)
        except BaseException as error:
            with self._guard:
                self._failed(delivery, error)
            raise
        with self._guard:
            self._report(self._core.finish(delivery))
        return transformed

    def _transformed(self, message: Message) -> Message:
        """What the transformer makes of *message*; it is acknowledged as the original."""
        transformer = self.session.connection.transformer
        other = None if transformer is None else transformer.consumer_transform(self.session, self, message)
        if other is None or other is message:
            return message
        other.stand_for(message)
        return other

    def _report(self, replies: list[Reply[Structure]]) -> None:
        for reply in replies:
            reply.then(self.session._core.connection.requests.report)

    def _check_receiving(self) -> None:
        if self._listener is not None:
            raise IllegalStateError("this consumer has a listener: it cannot receive as well")
        if self._core.ending is not None:
            raise IllegalStateError(str(self._core.ending))
        if self._core.is_closed:
            raise IllegalStateError("the consumer is closed")
        session = self.session._core
        if session.is_closed or not session.connection.is_up:
            session.check_open()

    def _has_ended(self) -> bool:
        """Whether there is nothing to wait for; raises if that is because the connection failed."""
        if self._core.ending is not None:
            raise IllegalStateError(str(self._core.ending))
        if self._core.is_closed or self.session._core.is_closed:
            return True
        self.session._core.connection.link.check_usable()
        return False

    async def __aiter__(self) -> AsyncIterator[Message]:
        while not self._core.is_closed or self._core.ending is not None:
            try:
                message = await self.receive(None)
            except IllegalStateError:
                if self._core.is_closed and self._core.ending is None:
                    return  # closed in between
                raise
            if message is not None:
                yield message

    # ---- listening ---------------------------------------------------------------------------------------------

    @property
    def listener(self) -> Callable[[Message], Any] | None:
        """Called with each message, one at a time in a session (C1); None to receive instead.

        In AUTO mode a message is acknowledged when the listener returned, and comes again when it raised (F1).
        """
        return self._listener

    @listener.setter
    def listener(self, listener: Callable[[Message], Any] | None) -> None:
        with self._guard:
            self.session._core.check_open()
            if listener is not None and self._core.is_pulling:
                raise JMSError("a consumer with prefetch 0 pulls: it cannot have a listener")
            self._listener = listener
            if listener is not None:
                self.session._listeners.start()

    def _listener_returned(self, delivery: Delivery, failure: BaseException | None) -> None:
        """Under the guard: acknowledge, or have it come again."""
        if self._core.is_closed:
            return  # it closed its own session: the message is the broker's again (D7)
        if failure is None:
            self._report(self._core.finish(delivery))
        else:
            self._failed(delivery, failure)

    def _failed(self, delivery: Delivery, failure: BaseException) -> None:
        """Under the guard: the application could not process it (F1)."""
        mode = self.session.ack_mode
        if self._core.is_transacted or mode is AckMode.CLIENT:
            self._core.finish(delivery)  # the application decides
        elif mode is AckMode.INDIVIDUAL:
            self._core.reject(delivery, failure)
        else:
            self._core.roll_back(failure)

    # ---- acknowledging and end ---------------------------------------------------------------------------------

    async def acknowledge(self) -> None:
        """Acknowledge what this consumer was given so far, and no other's (D3). In a transaction `commit` does so."""
        with self._guard:
            self.session._core.check_open()
            if self._core.is_transacted:
                return
            for reply in self._core.acknowledge():
                await self.session._answer(reply, "an acknowledgement")

    async def close(self) -> None:
        """Leave; messages that were not acknowledged go to others (D7)."""
        session = self.session
        with self._guard:
            if self._is_closing or self._core.is_closed:
                return
            self._is_closing = True
            if session._listeners.is_called_by(self):
                return  # from its own listener: it leaves when that has returned
        if self._listener is not None:
            await session._listeners.await_idle(session.connection._close_timeout, self)
        await self._leave()

    async def _leave(self) -> None:
        with self._guard:
            reply = self._core.close()
            self.session._forget_consumer(self._core)
            if reply is not None:
                await self.session.connection._answer_or_not(
                    reply, f"that the consumer of {self.destination!r} is closed"
                )


def _pull_ms(deadline: float | None, now: float, timeout_seconds: float | None) -> int:
    if deadline is None:
        return PULL_FOR_EVER
    if timeout_seconds is not None and timeout_seconds <= 0:
        return PULL_NO_WAIT
    return max(1, round((deadline - now) * 1000))

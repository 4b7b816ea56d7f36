# generated from src/ackwire/client/aio/connection.py by tools/async_to_sync.py; change that
"""Connections, and factories that make them (A1)."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, Final, Self, TypeVar

from ackwire.client import lookup
from ackwire.client.core.connection import ConnectionCore
from ackwire.client.core.modes import AckMode, ack_mode_of, session_mode
from ackwire.client.core.reply import Reply
from ackwire.client.core.requests import UNANSWERED_BYTES_MAX
from ackwire.client.core.session import SessionCore
from ackwire.client.engine import Engine
from ackwire.client.errors import IllegalArgumentError, IllegalStateError, JMSError, RequestTimedOutError
from ackwire.client.options import ConnectionOptions, RedeliveryPolicy
from ackwire.client.settings import REQUEST_TIMEOUT_SECONDS, check_option, read_destination
from ackwire.client.sync.closing import ClosedAtEnd
from ackwire.client.sync.runtime import Runtime, Waiter, opening
from ackwire.client.sync.session import Session
from ackwire.client.sync.xa import XASession
from ackwire.client.transform import MessageTransformer
from ackwire.client.uri import DEFAULT_BROKER_URL, BrokerUrl, parse_broker_url
from ackwire.jms.destinations import Destination
from ackwire.util.clock import SystemClock
from ackwire.util.version import __version__
from ackwire.wire.openwire.structures import Structure

S = TypeVar("S", bound=Session)

_CLOSE_TIMEOUT_SECONDS_MIN: Final = 0.1
_OUTPUT_BYTES_MAX: Final = 1024 * 1024
"""So much may wait to be given to the socket; more senders wait."""


class ConnectionFactory:
    """Makes connections to the brokers of one URL, all with the same options (A1).

    Keyword arguments are fields of `ConnectionOptions`; they count more than the URL's `jms.` options (B2).
    """

    def __init__(
        self,
        url: str | BrokerUrl = DEFAULT_BROKER_URL,
        *,
        user_name: str | None = None,
        password: str | None = None,
        client_id: str | None = None,
        **options: Any,
    ) -> None:
        self.url = parse_broker_url(url) if isinstance(url, str) else url
        for name, value in options.items():
            check_option(name, value)
        given: dict[str, Any] = {"user_name": user_name, "password": password, "client_id": client_id}
        try:
            self.options: ConnectionOptions = replace(
                self.url.connection, **{name: value for name, value in given.items() if value is not None}, **options
            )
        except TypeError as error:
            raise IllegalArgumentError(f"not an option of a connection: {error}") from None
        self.redelivery_policies: dict[Destination | str, RedeliveryPolicy] = {}
        """By destination, with wildcards if wanted; they count more than the URL's (F2)."""
        self.transformer: MessageTransformer | None = None

    @classmethod
    def lookup(cls, name: str, path: str | None = None) -> Self:
        """The factory that a configuration file describes under *name* (see `ackwire.client.lookup`)."""
        found = lookup.factory(name, path)
        return cls(found.url, user_name=found.user_name, password=found.password, client_id=found.client_id)

    def create_connection(self, user_name: str | None = None, password: str | None = None) -> "Connection":
        """A new connection, which delivers nothing until it is started; it logs in when it is first used."""
        return opening(self._open(user_name, password))

    def _open(self, user_name: str | None, password: str | None) -> "Connection":
        options = self.options
        if user_name is not None:
            options = replace(options, user_name=user_name, password=password)
        connection = Connection(self.url, options, dict(self.redelivery_policies), self.transformer)
        connection._open()
        return connection


def connect(
    url: str | BrokerUrl = DEFAULT_BROKER_URL,
    *,
    user_name: str | None = None,
    password: str | None = None,
    client_id: str | None = None,
    start: bool = True,
) -> "Connection":
    """A connection to a broker: logged in and, unless *start* is False, started.

    The URL is one of ActiveMQ's, with all options: `tcp://host:61616`, `ssl://…`, `failover:(tcp://a,tcp://b)?…`,
    `vm://name`. Raises `ConnectionFailedError` if no broker can be reached, and `JMSSecurityError` or
    `InvalidClientIdError` if it refuses.
    """
    return opening(_connect(ConnectionFactory(url, user_name=user_name, password=password, client_id=client_id), start))


def _connect(factory: ConnectionFactory, start: bool) -> "Connection":
    connection = factory.create_connection()
    try:
        connection._login()
        if start:
            connection.start()
    except BaseException:
        connection.close()
        raise
    return connection


class Connection(ClosedAtEnd):
    """A connection to a broker. Make one with `connect` or a `ConnectionFactory`; close it when done."""

    def __init__(
        self,
        url: BrokerUrl,
        options: ConnectionOptions,
        policies: dict[Destination | str, RedeliveryPolicy],
        transformer: MessageTransformer | None,
    ) -> None:
        self.options = options
        self.use_async_send = options.use_async_send
        """Persistent sends do not wait for the broker (B1); the connection's own word counts most (B2)."""
        self.redelivery_policies = policies
        self.transformer = transformer
        self.on_error: Callable[[JMSError], object] | None = None
        """Called with errors that no caller waits for; JMS's ExceptionListener."""
        self.on_interrupted: Callable[[], object] | None = None
        """Called when the connection to the broker is lost and `failover:` looks for another."""
        self.on_resumed: Callable[[], object] | None = None
        """Called when there is a connection again, and everything is restored."""
        self._random = Random()  # noqa: S311 - spreads delays
        self._runtime = Runtime(url.uris[0].address if url.uris else "")
        self._guard = self._runtime.guard
        self._core = ConnectionCore(url, options, clock=self._runtime.clock, hooks=self, provider_version=__version__)
        self._engine = Engine(
            self._core,
            url,
            loop=self._runtime.loop,
            guard=self._guard,
            random=self._random,
            clock=SystemClock(),
        )
        writer = self._engine.writer
        writer.on_writable = writer.on_flushed = self._on_writable
        self._core.on_broken = self._engine.drop
        self._flow = Waiter(self._guard)
        self._sessions: dict[SessionCore, Session] = {}
        self._is_closing = False
        self._is_closed = False
        self._close_deadline: float | None = None

    def __repr__(self) -> str:
        link = self._core.link
        return f"<Connection {self._core.client_id or ''} to {link.address or 'nowhere'}: {link.state.value}>"

    def _open(self) -> None:
        try:
            self._runtime.run(self._engine.open(self._open_timeout()))
        except BaseException:
            self._shut()
            raise

    def _open_timeout(self) -> float | None:
        """How long to look for a broker at first, where the URL sets no end to attempts."""
        failover = self._core.url.failover
        if failover is None or failover.reconnect_attempts_max >= 0 or failover.startup_reconnect_attempts_max >= 0:
            return None
        return failover.timeout_ms / 1000 if failover.timeout_ms >= 0 else REQUEST_TIMEOUT_SECONDS

    def _login(self) -> None:
        with self._guard:
            self._core.link.check_usable()
            reply = self._core.login()
            self._settle(reply, "the login", self.options.connect_response_timeout_ms, "connectResponseTimeout")

    # ---- what the application may look at ----------------------------------------------------------------------

    @property
    def client_id(self) -> str | None:
        """Identity of the connection, to which durable subscriptions belong."""
        return self._core.client_id

    @client_id.setter
    def client_id(self, value: str) -> None:
        with self._guard:
            self._core.client_id = value

    @property
    def is_started(self) -> bool:
        return self._core.is_started

    @property
    def is_closed(self) -> bool:
        return self._is_closing or self._core.link.is_closed

    @property
    def is_connected(self) -> bool:
        """Whether there is a link to a broker now; with `failover:` it may come back."""
        return self._core.is_up

    @property
    def peer(self) -> str:
        """What the broker says about itself."""
        return self._core.link.peer

    @property
    def address(self) -> str:
        """Where the broker is."""
        return self._core.link.address

    # ---- delivery ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Let messages through to consumers (A1)."""
        self._login()
        with self._guard:
            self._core.start()

    def stop(self) -> None:
        """Hold messages back until `start`; returns when no listener is at work."""
        with self._guard:
            self._core.stop()
            sessions = list(self._sessions.values())
        for session in sessions:
            session._listeners.await_idle(self._close_timeout)

    # ---- sessions ----------------------------------------------------------------------------------------------

    def session(self, ack_mode: AckMode | int | str = AckMode.AUTO, *, transacted: bool = False) -> Session:
        """A new session; *transacted* is the same as `AckMode.SESSION_TRANSACTED`, and goes with no other mode."""
        return opening(self._new_session(session_mode(ack_mode, transacted=transacted), Session))

    def xa_session(self) -> XASession:
        """A new session whose work can be part of distributed transactions (G3)."""
        mode = self.options.xa_ack_mode
        return opening(self._new_session(ack_mode_of(mode) if mode > 0 else AckMode.AUTO, XASession))

    def _new_session(self, mode: AckMode, kind: type[S]) -> S:
        self._login()
        with self._guard:
            core = self._core.add_session(lambda connection, value: SessionCore(connection, value, mode, self._random))
            session = kind(self, core)
            self._sessions[core] = session
            return session

    def _forget_session(self, core: SessionCore) -> None:
        self._sessions.pop(core, None)

    # ---- destinations ------------------------------------------------------------------------------------------

    def delete_temporary(self, destination: Destination) -> None:
        """Delete a temporary destination of this connection, and what is in it."""
        with self._guard:
            self._core.link.check_usable()
            reply = self._core.temporaries.delete(destination)
            self._answer(reply, f"the deletion of {destination!r}")

    def destroy_destination(self, destination: Destination | str) -> None:
        """Have the broker delete a destination and what is in it."""
        where = read_destination(destination).destination
        self._login()
        with self._guard:
            self._answer(self._core.destroy(where), f"the deletion of {where!r}")

    # ---- waiting -----------------------------------------------------------------------------------------------

    def _answer(self, reply: Reply[Structure], what: str) -> Structure:
        """Wait for the broker's answer, under the guard."""
        answer: Structure = self._settle(reply, what, self.options.request_timeout_ms, "requestTimeout")
        return answer

    def _answer_or_not(self, reply: Reply[Any], what: str) -> None:
        """Wait for an answer at the end of something: without one it is over, too."""
        with contextlib.suppress(JMSError):
            self._settle(reply, what, max(1, round(self._close_timeout * 1000)), "closeTimeout")

    def _settle(self, reply: Reply[Any], what: str, timeout_ms: int, option: str, *, is_kept: bool = False) -> Any:
        """Wait for *reply*, under the guard. One that comes too late is dropped, unless it *is_kept*."""
        seconds = self._seconds(timeout_ms)

        def timed_out() -> JMSError:
            error = RequestTimedOutError(
                f"{self._core.link.address or 'the broker'} has not answered {what} within {seconds:g} s "
                f"({self._core.link.state.value}); jms.{option} sets how long to wait"
            )
            if is_kept:
                reply.then(self._core.requests.report)
            else:
                self._core.requests.forget(reply, error)
            return error

        try:
            return self._runtime.settle(reply, seconds, timed_out)
        except JMSError:
            raise
        except BaseException:  # the caller was cancelled or interrupted
            if is_kept:
                reply.then(self._core.requests.report)
            else:
                self._core.requests.forget(reply, IllegalStateError(f"nothing waits for the answer to {what} any more"))
            raise

    def _seconds(self, timeout_ms: int) -> float:
        """How long to wait, where an option asks for *timeout_ms*; without a link failover's own limit counts too."""
        seconds = timeout_ms / 1000 if timeout_ms > 0 else REQUEST_TIMEOUT_SECONDS
        failover = self._core.url.failover
        if failover is not None and failover.timeout_ms >= 0 and not self._core.is_up:
            return min(seconds, failover.timeout_ms / 1000)
        return seconds

    def _await_sendable(self, can_send: Callable[[], bool], what: str, timeout_ms: int) -> None:
        """Wait, under the guard, until *can_send* and the socket takes more."""
        seconds = self._seconds(timeout_ms)
        deadline = self._runtime.clock.monotonic() + seconds
        while True:
            self._core.link.check_usable()
            if can_send() and not self._is_congested():
                return
            remaining = deadline - self._runtime.clock.monotonic()
            if remaining <= 0 or not self._flow.wait(remaining):
                raise RequestTimedOutError(
                    f"{what} could not go out to {self._core.link.address or 'a broker'} within {seconds:g} s: "
                    f"{self._why_not(can_send)}; jms.sendTimeout sets how long to wait"
                )

    def _is_congested(self) -> bool:
        core = self._core
        return (
            self._engine.writer.is_congested
            or core.waiting_bytes > _OUTPUT_BYTES_MAX
            or core.requests.unanswered_bytes > UNANSWERED_BYTES_MAX
        )

    def _why_not(self, can_send: Callable[[], bool]) -> str:
        if not self._core.is_up:
            return self._core.link.state.value
        if not can_send():
            return "the producer window is full"
        if self._core.requests.unanswered_bytes > UNANSWERED_BYTES_MAX:
            return f"{self._core.requests.unanswered_bytes} bytes of messages are not confirmed yet"
        return "the broker does not read"

    def _on_writable(self) -> None:
        self._flow.wake()

    # ---- what the core tells -----------------------------------------------------------------------------------

    def interrupted(self, error: JMSError) -> None:
        del error
        if self.on_interrupted is not None:
            self._runtime.call(self.on_interrupted)

    def resumed(self) -> None:
        self._flow.wake()
        if self.on_resumed is not None:
            self._runtime.call(self.on_resumed)

    def has_room(self) -> None:
        self._flow.wake()

    def failed(self, error: JMSError) -> None:
        self._flow.wake()
        if self.on_error is not None and not self._is_closing:
            self._runtime.call(self.on_error, error)

    # ---- end ---------------------------------------------------------------------------------------------------

    @property
    def _close_timeout(self) -> float:
        """What is left of closeTimeout, which is for everything together."""
        whole = max(_CLOSE_TIMEOUT_SECONDS_MIN, self.options.close_timeout_ms / 1000)
        if self._close_deadline is None:
            return whole
        return max(_CLOSE_TIMEOUT_SECONDS_MIN, min(whole, self._close_deadline - self._runtime.clock.monotonic()))

    def close(self) -> None:
        """Close the connection and everything made from it; messages that were not acknowledged come again (D7).

        Waits for listeners that are at work, unless it is one of them who calls. Safe to call twice and from anywhere.
        """
        with self._guard:
            if self._is_closing:
                return
            self._is_closing = self._core.is_leaving = True
            self._close_deadline = self._runtime.clock.monotonic() + self._close_timeout
            sessions = list(self._sessions.values())
        try:
            for session in sessions:
                session._close(self._close_timeout)
            self._take_leave()
        finally:
            self._shut()

    def _take_leave(self) -> None:
        with self._guard:
            self._engine.is_leaving = True
            reply = self._core.close()
            if reply is not None:
                self._answer_or_not(reply, "that the connection is closed")

    def _shut(self) -> None:
        with self._guard:
            if self._is_closed:
                return
            self._is_closed = True
            self._is_closing = True
        self._runtime.run(self._engine.close(self._close_timeout))
        with self._guard:
            self._core.closed()
            self._flow.wake()
        self._runtime.stop()

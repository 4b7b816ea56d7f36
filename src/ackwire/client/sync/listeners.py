# generated from src/ackwire/client/aio/listeners.py by tools/async_to_sync.py; change that
"""`ListenerContainer`: runs functions that are marked with `@listener` (M9).

    @listener("orders", concurrency="2-8")
    def on_order(message):
        ...

    with ListenerContainer("failover:(tcp://a:61616,tcp://b:61616)", [on_order]):
        ...

Each consumer of a listener has a session and a worker of its own, and all share one connection. How many there are is
decided by `Staffing` (ackwire.client.listening). A session that fails is replaced, and so is the connection, after a
pause that grows while it does not work.
"""

import logging
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any, Final

from ackwire.client.core.modes import AckMode
from ackwire.client.errors import (
    ConnectionFailedError,
    IllegalStateError,
    RequestTimedOutError,
    TransactionRolledBackError,
)
from ackwire.client.listening import Concurrency, Listener, Staffing, listener, listeners_in
from ackwire.client.message import Message
from ackwire.client.retry import BackOff
from ackwire.client.sync.closing import StartedAndClosed
from ackwire.client.sync.connection import Connection, ConnectionFactory
from ackwire.client.sync.consumer import Consumer
from ackwire.client.sync.keeper import ConnectionKeeper
from ackwire.client.sync.session import Session
from ackwire.client.sync.workers import Condition, Event, Worker, call, until_signal

__all__ = ["Concurrency", "Listener", "ListenerContainer", "listener"]

_log = logging.getLogger(__name__)

CLOSE_SECONDS: Final = 30.0
IDLE_SECONDS: Final = 10.0
READY_SECONDS: Final = 30.0
_RECEIVE_SECONDS: Final = 0.5
"""How soon a consumer without messages notices that it should stop."""

OnError = Callable[[Message | None, Exception], Any]


class _Crew:
    """The consumers of one listener."""

    def __init__(self, made: Listener, idle_seconds: float) -> None:
        self.listener = made
        self.staffing = Staffing(made.concurrency, idle_seconds)
        self.workers: list[Worker] = []
        self.ready = 0
        """Consumers that the broker knows."""
        self.started = 0

    @property
    def running(self) -> list[Worker]:
        return [worker for worker in self.workers if worker.is_running]


class ListenerContainer(StartedAndClosed):
    """Runs *listeners*, functions and modules with functions that are marked, from `start` to `close`.

    *factory*: a `ConnectionFactory` or a URL. *idle_seconds*: how long a consumer waits for a message before it may
    leave, where there are more than the lowest number. *on_error* is called with the message and what the function
    raised, after the rollback; or with None and what went wrong with a session. It may be async. Without it, errors
    are logged.
    """

    def __init__(
        self,
        factory: ConnectionFactory | str,
        listeners: Iterable[Callable[..., Any] | ModuleType],
        *,
        idle_seconds: float = IDLE_SECONDS,
        on_error: OnError | None = None,
        close_timeout_seconds: float = CLOSE_SECONDS,
    ) -> None:
        self._keeper = ConnectionKeeper(factory)
        self._crews = [_Crew(made, idle_seconds) for made in listeners_in(listeners)]
        self._on_error = on_error
        self._close_timeout_seconds = close_timeout_seconds
        self._changed = Condition("the list of consumers")
        self._stopping = self._started = False
        self._closed = Event()

    def consumers(self, function: Callable[..., Any]) -> int:
        """How many consumers *function* has at the moment."""
        return sum(crew.staffing.consumers for crew in self._crews if crew.listener.function == function)

    def start(self) -> None:
        """Begin; a broker that cannot be reached is tried again, and reported, from then on."""
        with self._changed:
            if self._is_stopping():
                raise IllegalStateError("the listener container is closed")
            if not self._started:
                self._started = True
                for crew in self._crews:
                    for _ in range(crew.staffing.missing()):
                        self._add(crew)

    def ready(self, timeout_seconds: float = READY_SECONDS) -> None:
        """Wait until every listener has its lowest number of consumers. Raises `RequestTimedOutError`."""
        end = time.monotonic() + timeout_seconds
        with self._changed:
            while late := [c.listener.name for c in self._crews if c.ready < c.listener.concurrency.lowest]:
                if time.monotonic() >= end:
                    raise RequestTimedOutError(
                        f"no consumer within timeout_seconds={timeout_seconds:g} for {', '.join(late)}"
                    )
                self._changed.wait(max(0.0, end - time.monotonic()))

    def run(self, signals: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGINT)) -> None:
        """Run until one of *signals* arrives, or somebody calls `close`; for scripts, in the main thread."""
        self.start()
        try:
            until_signal(signals, self._closed)
        finally:
            self.close()

    def close(self, timeout_seconds: float | None = None) -> None:
        """Take no more messages, let the functions finish those that they have, then close.

        Raises `RequestTimedOutError` when that takes longer than *timeout_seconds*, or what the constructor was given:
        everything is closed then too, and what was not finished is delivered again.
        """
        if self._is_stopping():
            return
        limit = self._close_timeout_seconds if timeout_seconds is None else timeout_seconds
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        late = self._late(time.monotonic() + limit)
        for worker in late:
            worker.cancel()
        self._keeper.close()
        self._closed.set()
        if late:
            names = ", ".join(sorted(worker.name for worker in late))
            raise RequestTimedOutError(
                f"not finished within timeout_seconds={limit:g}: {names}; their messages are not acknowledged, and the "
                "broker delivers them again"
            )

    def _late(self, end: float) -> list[Worker]:
        """Who is still at work at *end*."""
        workers = [worker for crew in self._crews for worker in crew.running if not worker.is_current]
        return [worker for worker in workers if not worker.join(end - time.monotonic())]

    # ---- consumers ---------------------------------------------------------------------------------------------------

    def _is_stopping(self) -> bool:
        return self._stopping

    def _add(self, crew: _Crew) -> None:
        """One more consumer; the caller holds the lock."""
        crew.started += 1
        crew.staffing.join()

        def serve() -> None:
            self._serve(crew)

        worker = Worker(f"{crew.listener.name} consumer {crew.started}", serve)
        crew.workers = [*crew.running, worker]
        worker.start()

    def _serve(self, crew: _Crew) -> None:
        """The life of one consumer, through as many sessions as it takes."""
        back_off = BackOff()
        try:
            while not self._is_stopping():
                try:
                    self._serve_in_one_session(crew, back_off)
                    return
                except Exception as error:
                    if self._is_stopping():
                        return
                    self._report(crew, None, error)
                with self._changed:
                    self._changed.wait_for(self._is_stopping, back_off.next_seconds())
        finally:
            with self._changed:
                crew.staffing.leave()

    def _serve_in_one_session(self, crew: _Crew, back_off: BackOff) -> None:
        """Return when this consumer is to end. Raises when its session has failed."""
        connection = self._keeper.connection()
        try:
            with self._session(connection, crew.listener) as session:
                consumer = _consumer(session, crew.listener)
                back_off.reset()
                self._count_ready(crew, 1)
                try:
                    self._take_from(crew, session, consumer)
                finally:
                    self._count_ready(crew, -1)
        except Exception as error:
            if connection.is_closed or isinstance(error, ConnectionFailedError):
                self._keeper.failed(connection)
            raise

    def _session(self, connection: Connection, made: Listener) -> Session:
        if made.transacted:
            return connection.session(transacted=True)
        # What the container acknowledges, it acknowledges after the function returned, one by one (N4).
        return connection.session(AckMode.CLIENT if made.ack_mode is AckMode.CLIENT else AckMode.INDIVIDUAL)

    def _count_ready(self, crew: _Crew, change: int) -> None:
        with self._changed:
            crew.ready += change
            self._changed.notify_all()

    def _take_from(self, crew: _Crew, session: Session, consumer: Consumer) -> None:
        while (message := self._next(crew, consumer)) is not None:
            self._process(crew, session, message)

    def _next(self, crew: _Crew, consumer: Consumer) -> Message | None:
        """The next message; None when this consumer is to end."""
        since = time.monotonic()
        message = None
        is_leaving = False
        with self._changed:
            crew.staffing.wait()
        try:
            while message is None and not is_leaving and not self._is_stopping():
                message = consumer.receive(_RECEIVE_SECONDS)
                if message is None:
                    is_leaving = self._may_leave(crew, time.monotonic() - since)
        finally:
            self._waited(crew, has_message=message is not None, is_leaving=is_leaving)
        return message

    def _may_leave(self, crew: _Crew, waited_seconds: float) -> bool:
        with self._changed:
            return crew.staffing.let_go(waited_seconds)

    def _waited(self, crew: _Crew, *, has_message: bool, is_leaving: bool) -> None:
        with self._changed:
            if not is_leaving:
                crew.staffing.stop_waiting()
            if has_message and not self._is_stopping() and crew.staffing.needs_another():
                self._add(crew)

    # ---- messages ----------------------------------------------------------------------------------------------------

    def _process(self, crew: _Crew, session: Session, message: Message) -> None:
        made = crew.listener
        try:
            arguments = (message, session) if made.wants_session else (message,)
            answer = call(made.function, *arguments)
            if answer is not None and message.reply_to is not None:
                correlation_id = message.correlation_id or message.message_id
                session.send(message.reply_to, answer, correlation_id=correlation_id)
        except Exception as error:
            self._undo(made, session, message, error)
            self._report(crew, message, error)
        else:
            self._finish(crew, session, message)

    def _finish(self, crew: _Crew, session: Session, message: Message) -> None:
        made = crew.listener
        if made.transacted:
            try:
                session.commit()
            except TransactionRolledBackError as error:  # the message comes again
                self._report(crew, message, error)
        elif made.ack_mode not in (AckMode.CLIENT, AckMode.INDIVIDUAL):
            message.acknowledge()

    def _undo(self, made: Listener, session: Session, message: Message, error: Exception) -> None:
        if made.transacted:
            session.rollback(error)
        elif made.ack_mode is AckMode.CLIENT:
            session.recover(error)
        else:
            message.reject(error)

    def _report(self, crew: _Crew, message: Message | None, error: Exception) -> None:
        if self._on_error is None:
            what = "" if message is None else f" failed on {message!r}"
            _log.error("%s%s: %s", crew.listener.name, what, error, exc_info=error if message is not None else None)
            return
        try:
            call(self._on_error, message, error)
        except Exception:
            _log.exception("on_error of %s raised itself", crew.listener.name)


def _consumer(session: Session, made: Listener) -> Consumer:
    if made.durable is not None:
        return session.durable_subscriber(made.address, made.durable, made.selector)
    return session.consumer(made.address, made.selector)

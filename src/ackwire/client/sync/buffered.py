# generated from src/ackwire/client/aio/buffered.py by tools/async_to_sync.py; change that
"""`BufferedProducer`: sends that never wait for a broker (M2).

    with BufferedProducer("tcp://broker:61616", "orders", buffer=DiskBuffer("/var/spool/orders")) as producer:
        producer.send("hello")

`send` puts the message into a bounded buffer and returns. A worker opens the connection, sends what waits, in order,
and forgets a message when the broker has confirmed it. While there is no connection messages wait. When the buffer is
full, `send` raises `ResourceAllocationError`: nothing is dropped to make room.

A message is sent at least once. Whatever was sent and not confirmed when the connection or the process ended is sent
again; over a `failover:` connection that reconnects the broker recognises it, over a new connection it cannot.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from ackwire.client.buffers import (
    BufferFull,
    Entry,
    MemoryBuffer,
    MessageBuffer,
    Sending,
    message_from_bytes,
    message_to_bytes,
)
from ackwire.client.errors import (
    ConnectionFailedError,
    IllegalStateError,
    JMSError,
    RequestTimedOutError,
    ResourceAllocationError,
    UnsupportedError,
)
from ackwire.client.message import Message
from ackwire.client.message_headers import PRIORITY_DEFAULT, DeliveryMode
from ackwire.client.retry import BackOff
from ackwire.client.sending import Body, json_message, message_of, set_headers
from ackwire.client.settings import read_destination
from ackwire.client.sync.closing import StartedAndClosed
from ackwire.client.sync.connection import Connection, ConnectionFactory
from ackwire.client.sync.keeper import ConnectionKeeper
from ackwire.client.sync.producer import Producer
from ackwire.client.sync.workers import Condition, Worker, call, call_blocking, outcome
from ackwire.jms.destinations import Destination
from ackwire.util.clock import SystemClock

_log = logging.getLogger(__name__)
_clock: Final = SystemClock()

CLOSE_SECONDS: Final = 15.0
BATCH_MESSAGES_MAX: Final = 100
BATCH_BYTES_MAX: Final = 1024 * 1024
"""What is under way and not confirmed at any time: after a crash so much may arrive twice."""
CONFIRM_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.5
"""How soon a worker that waits for a confirmation notices that there is no more time."""
_WAIT_SECONDS: Final = 60.0

OnRefused = Callable[[Message, JMSError], Any]

_MAY_PASS: Final = (ConnectionFailedError, IllegalStateError, RequestTimedOutError, ResourceAllocationError)
"""Errors that say nothing against the message itself: it is sent again."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """What has not arrived yet, and why."""

    count: int
    size_bytes: int
    since_ms: int | None
    """When the oldest of them was sent, in milliseconds since 1970."""
    reason: str
    """What keeps them back: the last error, or that nothing does."""

    def __str__(self) -> str:
        if self.since_ms is None:
            return "nothing waits"
        since = datetime.fromtimestamp(self.since_ms / 1000, UTC).isoformat(timespec="seconds")
        return f"{self.count} messages ({self.size_bytes} bytes) wait since {since}: {self.reason}"


class BufferedProducer(StartedAndClosed):
    """Sends to *destination*, or where each `send` says, through *buffer*.

    *factory*: a `ConnectionFactory` or a URL. *buffer*: a `MemoryBuffer` of 64 MiB unless given; a `DiskBuffer` keeps
    messages for the next process, which sends them first. It is closed with the producer.

    *on_refused* is called with a message that the broker does not take, whatever the connection (no right, a deleted
    destination, …), and the error; it may be async. When it returns the message is done with. Without it the message
    is tried again and again, and all others wait behind it: nothing is lost, and `waiting` says why.
    """

    def __init__(
        self,
        factory: ConnectionFactory | str,
        destination: Destination | str | None = None,
        *,
        buffer: MessageBuffer | None = None,
        on_refused: OnRefused | None = None,
        close_timeout_seconds: float = CLOSE_SECONDS,
        confirm_timeout_seconds: float = CONFIRM_SECONDS,
    ) -> None:
        self.destination = destination
        self._target = _plain(destination)
        self._keeper = ConnectionKeeper(factory)
        self._buffer: MessageBuffer = MemoryBuffer() if buffer is None else buffer
        self._on_refused = on_refused
        self._close_timeout_seconds = close_timeout_seconds
        self._confirm_timeout_seconds = confirm_timeout_seconds
        self._changed = Condition(f"the buffer of the producer for {self._name}")
        self._reason = "the connection is being opened"
        self._connection: Connection | None = None
        self._producer: Producer | None = None
        self._interrupted = False
        self._back_off = BackOff()
        self._started = self._closed = self._exiting = False
        self._deadline: float | None = None
        """When to give up, on the monotonic clock; known once it is being closed."""
        self._worker = Worker(f"buffered producer {self._name}", self._work, on_exit=self._exit)

    @property
    def _name(self) -> str:
        return "any destination" if self._target is None else repr(self._target)

    @property
    def waiting(self) -> Waiting:
        """What has not been confirmed yet."""
        buffer = self._buffer
        return Waiting(buffer.count, buffer.size_bytes, buffer.oldest_ms, self._reason)

    # ---- for the application ---------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to send what is in the buffer; `send` does so too."""
        with self._changed:
            self._start()

    def _start(self) -> None:
        if self._closed:
            raise IllegalStateError(f"the buffered producer for {self._name} is closed")
        if not self._started:
            self._started = True
            self._worker.start()

    def send(
        self,
        body: Body,
        *,
        destination: Destination | str | None = None,
        delivery_mode: DeliveryMode = DeliveryMode.PERSISTENT,
        priority: int = PRIORITY_DEFAULT,
        time_to_live_ms: int = 0,
        **headers: Any,
    ) -> None:
        """Put a message into the buffer; *body* and *headers* as for `Producer.send`.

        With a `DiskBuffer` it is on disk when this returns. Raises `ResourceAllocationError` when the buffer is full,
        and whatever is wrong with the message itself.
        """
        sent_ms = _clock.now_ms()
        target = self._target if destination is None else _plain(destination)
        if target is None:
            raise UnsupportedError("no destination: neither the producer nor the send names one")
        message = message_of(body)
        set_headers(message, headers)
        expires_ms = sent_ms + time_to_live_ms if time_to_live_ms > 0 else 0
        data = message_to_bytes(message, Sending(target, DeliveryMode(delivery_mode), priority, expires_ms))
        with self._changed:
            self._start()
            self._append(data, sent_ms)
            self._changed.notify_all()

    def send_json(self, value: Any, **options: Any) -> None:
        """Put *value* as JSON text into the buffer, which `Message.json` reads; *options* are those of `send`."""
        self.send(json_message(value), **options)

    def flush(self, timeout_seconds: float) -> None:
        """Wait until everything in the buffer is confirmed. Raises `RequestTimedOutError`, which says what is left."""
        self.start()
        end = time.monotonic() + timeout_seconds
        with self._changed:
            while self._buffer.count:
                left = end - time.monotonic()
                if left <= 0:
                    raise RequestTimedOutError(_late(timeout_seconds, str(self.waiting)))
                self._changed.wait(min(left, _WAIT_SECONDS))

    def close(self, timeout_seconds: float | None = None) -> None:
        """Send what waits, then close.

        Raises `RequestTimedOutError` when that takes longer than *timeout_seconds*, or what the constructor was given.
        The error says how many are left and where: on disk the next producer with that folder sends them, and from
        memory `unsent` returns them.
        """
        limit = self._close_timeout_seconds if timeout_seconds is None else timeout_seconds
        if self._closed:
            return
        self._begin_to_close(limit)
        if self._started and not self._worker.join(limit + _LOOK_SECONDS):
            self._worker.cancel()
        self._end()
        if self._buffer.count:
            raise RequestTimedOutError(_late(limit, self._left()))

    def unsent(self) -> list[Message]:
        """The messages that are still in memory after a `close` that failed."""
        entries = [] if self._buffer.survives else self._buffer.first(self._buffer.count, self._buffer.size_bytes)
        return [message_from_bytes(entry.data)[0] for entry in entries]

    # ---- the buffer ------------------------------------------------------------------------------------------------

    def _append(self, data: bytes, sent_ms: int) -> None:
        try:
            if self._buffer.waits_for_disk:
                call_blocking(self._buffer.append, data, sent_ms)
            else:
                self._buffer.append(data, sent_ms)
        except BufferFull as full:
            raise ResourceAllocationError(self._full(len(data), full.cause)) from full.cause

    def _full(self, size_bytes: int, cause: OSError | None) -> str:
        limit = f"bytes_max={self._buffer.bytes_max} of its buffer ({self._buffer.where})"
        if cause is not None:
            return f"{self._name}: a message of {size_bytes} bytes cannot be kept in {self._buffer.where}: {cause}"
        if not self._buffer.count:
            return f"{self._name}: a message of {size_bytes} bytes is larger than {limit}"
        return f"{self._name}: a message of {size_bytes} bytes does not fit into {limit}: {self.waiting}"

    def _left(self) -> str:
        where = f"they are kept in {self._buffer.where}, and sent by the next producer with that buffer"
        if not self._buffer.survives:
            where = "they are in memory and gone with the process: unsent() returns them"
        return f"{self.waiting}; {where}"

    # ---- closing ---------------------------------------------------------------------------------------------------

    def _begin_to_close(self, limit: float) -> None:
        with self._changed:
            self._closed = True
            self._deadline = time.monotonic() + limit
            self._changed.notify_all()

    def _exit(self) -> None:
        """The program ends without a close: send what is possible in the time of a close."""
        if not self._closed:
            self._exiting = True
            self._begin_to_close(self._close_timeout_seconds)

    def _end(self) -> None:
        self._keeper.close()
        self._reason = f"{self._reason}; the producer is closed"
        self._buffer.close()

    # ---- the worker ------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while entries := self._next_batch():
            try:
                self._send_all(entries)
                self._back_off.reset()
                self._reason = "they are being sent"
            except Exception as error:
                self._failed(error)
        if self._exiting:
            if self._buffer.count:
                _log.error("the program ends before all was sent to %s: %s", self._name, self._left())
            self._end()

    def _is_closing(self) -> bool:
        return self._closed

    def _is_late(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    def _next_batch(self) -> list[Entry]:
        """What to send next; nothing when it is time to end."""
        with self._changed:
            self._changed.notify_all()  # for those who wait in flush
            while not self._buffer.count and not self._closed:
                self._changed.wait(_WAIT_SECONDS)
            return [] if self._is_late() else self._buffer.first(BATCH_MESSAGES_MAX, BATCH_BYTES_MAX)

    def _failed(self, error: Exception) -> None:
        """Start again with a new connection, after a pause."""
        reason = f"{type(error).__name__}: {error}"
        if reason != self._reason:
            _log.warning("%s: messages wait in the buffer: %s", self._name, reason)
        self._reason = reason
        if self._connection is not None:
            self._keeper.failed(self._connection)
        self._connection = self._producer = None
        with self._changed:
            pause = self._back_off.next_seconds()
            if self._deadline is None:
                self._changed.wait_for(self._is_closing, pause)
            else:
                self._changed.wait(min(pause, 1.0, max(0.0, self._deadline - time.monotonic())))

    def _open(self) -> Producer:
        if self._producer is not None:
            return self._producer
        connection = self._connection = self._keeper.connection()
        connection.on_interrupted, connection.on_resumed = self._on_interrupted, self._on_resumed
        self._interrupted = False
        session = connection.session()
        self._producer = session.producer()
        return self._producer

    def _on_interrupted(self) -> None:
        self._interrupted = True
        self._reason = "the connection is lost, and is being made again"

    def _on_resumed(self) -> None:
        self._interrupted = False
        self._reason = "the connection is back"

    def _send_all(self, entries: list[Entry]) -> None:
        """Send *entries*, all under way at once; forget those that are confirmed, even if another fails."""
        producer = self._open()
        under_way: list[tuple[Entry, Message, Any]] = []
        done: list[int] = []
        try:
            for entry in entries:
                message, sending = message_from_bytes(entry.data)
                try:
                    receipt = self._submit(producer, message, sending)
                except JMSError as error:
                    self._refused(message, error)
                    done.append(entry.sequence)
                else:
                    under_way.append((entry, message, receipt))
            while under_way:
                entry, message, receipt = under_way[0]
                self._confirmed(message, receipt)
                done.append(under_way.pop(0)[0].sequence)
        finally:
            done += [entry.sequence for entry, _, receipt in under_way if _has_arrived(receipt)]
            with self._changed:
                self._buffer.remove(done)

    def _submit(self, producer: Producer, message: Message, sending: Sending) -> Any:
        return producer.submit(
            message,
            destination=sending.destination,
            delivery_mode=sending.delivery_mode,
            priority=sending.priority,
            time_to_live_ms=sending.time_to_live_ms(_clock.now_ms()),
        )

    def _confirmed(self, message: Message, receipt: Any) -> None:
        """Return when *message* is done with: the broker has it, or refused it for good."""
        end = time.monotonic() + self._confirm_timeout_seconds
        while True:
            try:
                outcome(receipt, _LOOK_SECONDS)
                return
            except JMSError as error:
                self._refused(message, error)
                return
            except TimeoutError:
                if self._is_late():
                    raise RequestTimedOutError("there is no time left to wait for the broker's confirmation") from None
                if self._interrupted:  # failover is at work, and sends it again itself
                    end = time.monotonic() + self._confirm_timeout_seconds
                elif time.monotonic() >= end:
                    raise RequestTimedOutError(
                        f"no confirmation within confirm_timeout_seconds={self._confirm_timeout_seconds:g}"
                    ) from None

    def _refused(self, message: Message, error: JMSError) -> None:
        """Raise *error* again if the message must be sent again; else the application has taken care of it."""
        if isinstance(error, _MAY_PASS) or self._on_refused is None:
            raise error
        call(self._on_refused, message, error)


def _has_arrived(receipt: Any) -> bool:
    """Whether it was confirmed; if not, it is cancelled."""
    if not receipt.done():
        receipt.cancel()
        return False
    return not receipt.cancelled() and receipt.exception() is None


def _late(limit: float, left: str) -> str:
    return f"not all was sent within timeout_seconds={limit:g}: {left}"


def _plain(destination: Destination | str | None) -> Destination | None:
    return None if destination is None else read_destination(destination).destination

"""Producers: the sync/async rule (B1), the window (B4), callbacks and receipts (B5)."""

from collections.abc import Callable
from typing import Any

from ackwire.client.aio.closing import ClosedAtEnd
from ackwire.client.aio.owners import OwningSession
from ackwire.client.aio.runtime import Receipt
from ackwire.client.core.producer import ProducerCore
from ackwire.client.core.reply import Reply
from ackwire.client.errors import (
    IllegalArgumentError,
    InvalidDestinationError,
    JMSError,
    UnsupportedError,
)
from ackwire.client.message import Message
from ackwire.client.message_headers import PRIORITY_DEFAULT, PRIORITY_MAX, DeliveryMode
from ackwire.client.sending import Body, json_message, message_of, set_headers
from ackwire.client.settings import read_destination
from ackwire.client.transform import MessageTransformer
from ackwire.jms.destinations import Destination
from ackwire.wire.openwire.frame_builder import OutgoingMessage
from ackwire.wire.openwire.structures import Structure

Completion = Callable[[Message, JMSError | None], object]

_NOT_GIVEN = object()


class Producer(ClosedAtEnd):
    """Sends messages. Made by `Session.producer`."""

    def __init__(self, session: OwningSession, core: ProducerCore) -> None:
        self.session = session
        self.priority = PRIORITY_DEFAULT
        self.time_to_live_ms = 0
        """0: messages do not expire."""
        self.disable_message_id = False
        """Asked for by JMS as a hint; ids are given anyway."""
        self.disable_timestamp = False
        self.transformer: MessageTransformer | None = session.connection.transformer
        self._delivery_mode = DeliveryMode.PERSISTENT
        self._core = core
        self._guard = session._guard
        self._connection = session.connection
        core.on_window = session.connection._on_writable

    def __repr__(self) -> str:
        return f"<Producer to {self.destination!r}>" if self.destination else "<Producer to anywhere>"

    @property
    def destination(self) -> Destination | None:
        return self._core.destination

    @property
    def is_closed(self) -> bool:
        return self._core.is_closed

    @property
    def delivery_mode(self) -> DeliveryMode:
        """For messages that are sent without one of their own."""
        return self._delivery_mode

    @delivery_mode.setter
    def delivery_mode(self, mode: DeliveryMode | int) -> None:
        self._delivery_mode = _mode(mode)

    # ---- sending -----------------------------------------------------------------------------------------------

    async def send(
        self,
        body: Body = None,
        *,
        destination: Destination | str | None = _NOT_GIVEN,  # type: ignore[assignment]
        delivery_mode: DeliveryMode | int | None = None,
        priority: int | None = None,
        time_to_live_ms: int | None = None,
        on_completion: Completion | None = None,
        **headers: Any,
    ) -> Message:
        """Send a message, and return it with its id and the other headers that sending gave it.

        Text becomes a TextMessage, bytes a BytesMessage, a mapping a MapMessage. Headers are `correlation_id`,
        `reply_to`, `type`, `group_id`, `group_sequence` and `properties`, a mapping.

        A persistent message outside a transaction is stored when this returns; others are on their way (B1). With
        *on_completion* nothing is waited for: it is called with the message and None, or with what went wrong (B5).
        """
        message = self._message(body, headers)
        with self._guard:
            target = self._target(destination)
            mode = self._delivery_mode if delivery_mode is None else _mode(delivery_mode)
            is_confirmed = self._core.wants_confirmation(
                mode, has_callback=on_completion is not None, use_async_send=self._connection.use_async_send
            )
            if not self._is_ready(is_confirmed):
                await self._await_turn(target, is_confirmed)
            outgoing = self._stamp(message, target, mode, priority, time_to_live_ms)
            if not is_confirmed:
                self._core.send_unconfirmed(outgoing)
                return message
            if on_completion is not None:
                self._call_back(self._core.send_confirmed(outgoing), message, on_completion)
                return message
            reply = self._send_at_once(outgoing)
            timeout_ms = self._connection.options.send_timeout_ms
            await self._connection._settle(reply, f"the message to {target!r}", timeout_ms, "sendTimeout")
        return message

    async def send_json(self, value: Any, **options: Any) -> Message:
        """Send *value* as JSON text, which `Message.json` reads; *options* are those of `send`."""
        return await self.send(json_message(value), **options)

    async def submit(
        self,
        body: Body = None,
        *,
        destination: Destination | str | None = _NOT_GIVEN,  # type: ignore[assignment]
        delivery_mode: DeliveryMode | int | None = None,
        priority: int | None = None,
        time_to_live_ms: int | None = None,
        **headers: Any,
    ) -> "Receipt[Message]":
        """Send a message and return a future that is done when the broker has confirmed it.

        Waits only while too much is unconfirmed. Arguments are those of `send`.
        """
        message = self._message(body, headers)
        receipt = self.session._runtime.receipt()
        with self._guard:
            target = self._target(destination)
            mode = self._delivery_mode if delivery_mode is None else _mode(delivery_mode)
            if not self._is_ready(True):
                await self._await_turn(target, True)
            reply = self._core.send_confirmed(self._stamp(message, target, mode, priority, time_to_live_ms))
            reply.then(lambda answer: self.session._runtime.settle_receipt(receipt, message, answer.error))
        return receipt

    def _send_at_once(self, outgoing: OutgoingMessage) -> Reply[Structure]:
        """Write in this thread, if possible: the caller waits for the answer."""
        writer = self._connection._engine.writer
        writer.hold()
        try:
            return self._core.send_confirmed(outgoing)
        finally:
            writer.release()

    def _target(self, destination: object) -> Destination:
        if destination is _NOT_GIVEN:
            return self._core.target(None)
        if destination is None and self._core.destination is None:
            raise UnsupportedError("neither this producer nor the send has a destination")
        if destination is None:
            raise InvalidDestinationError("None is no destination: leave it out to use the producer's own")
        return self._core.target(read_destination(destination).destination)  # type: ignore[arg-type]

    def _message(self, body: Body, headers: dict[str, Any]) -> Message:
        message = message_of(body)
        if headers:
            set_headers(message, headers)
        if self.transformer is not None:
            message = self.transformer.producer_transform(self.session, self, message) or message
        return message

    async def _await_turn(self, target: Destination, is_confirmed: bool) -> None:
        """Wait until it may go out: a decision made, room in window and socket, and a link if it is not confirmed."""
        await self.session._decided()
        await self._connection._await_sendable(
            lambda: self._core.may_go(is_confirmed),
            f"the message to {target!r}",
            self._connection.options.send_timeout_ms,
        )
        self._core.target(target if self._core.destination is None else None)  # still open?

    def _is_ready(self, is_confirmed: bool) -> bool:
        """Whether there is nothing to wait for: usually."""
        return self._core.is_ready(is_confirmed) and not self._connection._is_congested()

    def _stamp(
        self, message: Message, target: Destination, mode: DeliveryMode, priority: int | None, ttl_ms: int | None
    ) -> OutgoingMessage:
        chosen = self.priority if priority is None else priority
        ttl_ms = self.time_to_live_ms if ttl_ms is None else ttl_ms
        if ttl_ms < 0:
            raise IllegalArgumentError(f"a time to live is 0 or more milliseconds, not {ttl_ms}")
        if not 0 <= chosen <= PRIORITY_MAX:
            raise IllegalArgumentError(f"a priority is 0 to {PRIORITY_MAX}, not {chosen!r}")
        return self._core.stamp(message, target, mode, chosen, ttl_ms, not self.disable_timestamp)

    def _call_back(self, reply: Reply[Structure], message: Message, on_completion: Completion) -> None:
        reply.then(lambda answer: self.session._runtime.call(on_completion, message, answer.error))

    async def close(self) -> None:
        """Leave; what was sent stays sent."""
        with self._guard:
            self._core.close()


def _mode(mode: DeliveryMode | int) -> DeliveryMode:
    try:
        return DeliveryMode(mode)
    except ValueError:
        raise IllegalArgumentError(f"a delivery mode is 1 or 2, not {mode!r}") from None

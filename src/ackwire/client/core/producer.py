"""One producer: what may be sent, how it is stamped, and whether the broker is asked to confirm it (B)."""

import itertools
from collections.abc import Callable
from typing import Protocol

from ackwire.client.core.connection import ConnectionCore
from ackwire.client.core.reply import Reply
from ackwire.client.core.transaction import Transactions
from ackwire.client.core.wire_link import LinkState
from ackwire.client.errors import IllegalStateError, ResourceAllocationError, UnsupportedError
from ackwire.client.message import Message
from ackwire.client.message_headers import DeliveryMode
from ackwire.jms.destinations import Destination
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.codec_fast import destination_to_wire
from ackwire.wire.openwire.frame_builder import FrameBuilder, OutgoingMessage
from ackwire.wire.openwire.layout import FIELDS_AT
from ackwire.wire.openwire.structures import Structure

_PERSISTENT = DeliveryMode.PERSISTENT  # members of an enumeration take time to look up
_UP = LinkState.UP
_TEMPLATES_MAX = 64
"""Destinations whose template a producer without a destination of its own remembers."""


class ProducingSession(Protocol):
    """A session, as its producers see it."""

    @property
    def connection(self) -> ConnectionCore: ...

    @property
    def transactions(self) -> Transactions: ...

    @property
    def is_closed(self) -> bool: ...

    @property
    def is_transacted(self) -> bool: ...

    def check_open(self) -> None: ...

    def remove_producer(self, producer: "ProducerCore") -> None: ...


class ProducerCore:
    """The state of one producer."""

    def __init__(
        self,
        session: ProducingSession,
        producer_id: commands.ProducerId,
        destination: Destination | None,
        window_bytes: int,
        dispatch_async: bool,
    ) -> None:
        self._session = session
        self._connection = session.connection
        self._link = session.connection.link
        self._requests = session.connection.requests
        self.producer_id = producer_id
        self.destination = destination
        self.window_bytes = window_bytes
        self._dispatch_async = dispatch_async
        failover = session.connection.url.failover
        self._tracks_messages = failover is not None and failover.track_messages
        self.is_announced = False
        self.is_closed = False
        self._is_temporary = destination is not None and destination.kind.is_temporary
        self._sequences = itertools.count(1)
        self._templates: dict[Destination, FrameBuilder] = {}
        self._window_used = 0
        self.on_window: Callable[[], None] = _nothing
        """Called when there is room in the window again."""

    def info(self) -> commands.ProducerInfo:
        return commands.ProducerInfo(
            producer_id=self.producer_id,
            destination=None if self.destination is None else destination_to_wire(self.destination),
            dispatch_async=self._dispatch_async,
            window_size=self.window_bytes,
        )

    # ---- before sending (B3) -----------------------------------------------------------------------------------

    def target(self, where: Destination | None) -> Destination:
        """Where a message goes that is sent to *where*, or to the producer's own destination."""
        if self.is_closed:
            raise IllegalStateError("the producer is closed")
        if self._session.is_closed or self._link.state is not _UP:
            self._session.check_open()
        own = self.destination
        if where is None:
            if own is None:
                raise UnsupportedError("this producer has no destination: name one in send")
            target, is_temporary = own, self._is_temporary
        elif own is not None and where != own:
            raise UnsupportedError(f"this producer sends to {own!r} only, not to {where!r}")
        else:
            target, is_temporary = where, where.kind.is_temporary
        if is_temporary:
            self._connection.temporaries.check_not_gone(target)
        return target

    def wants_confirmation(self, mode: DeliveryMode, *, has_callback: bool, use_async_send: bool) -> bool:
        """Whether the broker is asked to answer: the rule of B1."""
        options = self._connection.options
        if has_callback or options.send_timeout_ms > 0 or options.always_sync_send:
            return True
        return mode is _PERSISTENT and not use_async_send and not self._session.is_transacted

    def is_ready(self, is_confirmed: bool) -> bool:
        """Whether a message `may_go`, and no transaction is being decided, after which another begins."""
        return self._session.transactions.deciding is None and self.may_go(is_confirmed)

    def may_go(self, is_confirmed: bool) -> bool:
        """Whether there is a link and room in the window for a message; one that *is_confirmed* needs neither."""
        if is_confirmed:
            return True
        has_window = self.window_bytes <= 0 or self._window_used < self.window_bytes  # B4
        return has_window and self._link.state is _UP

    def on_window_returned(self, size: int) -> None:
        self._window_used = max(0, self._window_used - size)
        self.on_window()

    # ---- sending -----------------------------------------------------------------------------------------------

    def stamp(
        self,
        message: Message,
        target: Destination,
        mode: DeliveryMode,
        priority: int,
        time_to_live_ms: int,
        has_timestamp: bool,
    ) -> OutgoingMessage:
        """Give *message* its headers and its id, and freeze it: what is changed later is not sent."""
        connection, session = self._connection, self._session
        options = connection.options
        if session.is_transacted:
            session.transactions.begin()
        template = self._template(target, session.transactions.transaction_id)
        sequence = next(self._sequences)
        now_ms = connection.clock.now_ms()
        timestamp = now_ms if has_timestamp and not options.disable_timestamps else 0
        expiration = now_ms + time_to_live_ms if time_to_live_ms > 0 else 0
        message.stamp(template, sequence, mode, priority, timestamp, expiration)
        outgoing = message.to_outgoing(template, sequence, use_compression=options.use_compression)
        if len(outgoing.fields) + FIELDS_AT > self._link.frame_bytes_max:
            raise ResourceAllocationError(
                f"the message to {target!r} makes a frame of {len(outgoing.fields) + FIELDS_AT} bytes, and the "
                f"limit agreed with the broker is {self._link.frame_bytes_max} (wireFormat.maxFrameSize, on both sides)"
            )
        return outgoing

    def _template(self, target: Destination, transaction_id: commands.TransactionId | None) -> FrameBuilder:
        template = self._templates.get(target)
        if template is not None and template.transaction_id is transaction_id:
            return template
        if template is not None:
            template = template.in_transaction(transaction_id)
        else:
            if len(self._templates) >= _TEMPLATES_MAX:
                self._templates.clear()
            template = FrameBuilder(self.producer_id, target, transaction_id)
        self._templates[target] = template
        return template

    def send_confirmed(self, message: OutgoingMessage) -> Reply[Structure]:
        """Send, and have the broker answer when it is stored (B1)."""
        if not self._session.is_transacted:
            return self._requests.request(message)
        reply = self._requests.request(message, in_transaction=True)
        self._session.transactions.keep(message, reply)
        return reply

    def send_unconfirmed(self, message: OutgoingMessage) -> None:
        """Send without asking for an answer; the link must be up."""
        is_transacted = self._session.is_transacted
        if self._tracks_messages and not is_transacted:
            # Repeated after a reconnect if need be (N3); errors go where those of other unconfirmed sends go.
            self._requests.request(message).then(self._requests.report)
            return
        if self.window_bytes > 0:
            self._window_used += message.window_bytes
        if is_transacted:
            self._session.transactions.keep(message)
        self._link.send_message(message, in_transaction=is_transacted)

    # ---- links and end -----------------------------------------------------------------------------------------

    def interrupted(self) -> None:
        """What the broker has not returned of the window, it never will."""
        self._window_used = 0
        self.on_window()

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._session.remove_producer(self)
            self._link.one_way(commands.RemoveInfo(object_id=self.producer_id))
            self.on_window()


def _nothing() -> None:
    pass

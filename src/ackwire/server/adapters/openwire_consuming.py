"""What an OpenWire client consumes: its subscriptions, dispatches to them, and acks."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, final

from ackwire.broker.in_flight import AckKind
from ackwire.broker.session import ConsumerPort
from ackwire.broker.slices import Budget
from ackwire.broker.subscription import Subscription, SubscriptionRequest
from ackwire.errors import BrokerError, LocalProtocolError, NotAuthorised, RemoteProtocolError, Unsupported
from ackwire.jms.destinations import peer_destination
from ackwire.jms.message import Message
from ackwire.selector import Reading
from ackwire.server.adapters.contract import AdaptedPeer
from ackwire.server.adapters.openwire_client import OpenWireClient, given
from ackwire.server.adapters.openwire_errors import one_line
from ackwire.util.clock import Clock
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.cached_encode import Consumer
from ackwire.wire.openwire.codec_fast import Ack, destination_from_wire, message_key
from ackwire.wire.openwire.protocol import OpenWireProtocol

_SELECTOR_STEP_UNITS: Final = 64
"""What it costs of a slice to read a bit of a selector."""

_log = logging.getLogger(__name__)


@final
class _ConsumerEnd(ConsumerPort):
    """The port of one subscription: dispatches become frames."""

    __slots__ = ("_clock", "_much_bytes", "_peer", "_protocol", "_reject", "_wire")

    def __init__(
        self,
        peer: AdaptedPeer,
        protocol: OpenWireProtocol,
        clock: Clock,
        wire: Consumer,
        reject: Callable[[bytes, str], None],
        much_bytes: int,
    ) -> None:
        self._reject = reject
        """Gives a message up on the consumer's behalf."""
        self._peer = peer
        self._protocol = protocol
        self._clock = clock
        self._wire = wire
        self._much_bytes = much_bytes
        """From so much output on the peer wants to know of all that comes; before, of the first."""

    def deliver(self, message: Message, group_first: bool) -> None:
        protocol = self._protocol
        is_first = not protocol.waiting_bytes
        try:
            protocol.send_dispatch(self._wire, message, self._clock.now_ms(), group_first)
        except LocalProtocolError as error:
            # Tight encoding has shorter strings than loose. Not now: a queue is in the middle of dispatching.
            cause = f"it cannot be put into the encoding of {self._wire.consumer_id}: {error}"
            self._clock.call_later(0, partial(self._reject, message.key, cause))
        if is_first or protocol.waiting_bytes >= self._much_bytes:
            self._peer.output_waits()

    def change_prefetch(self, prefetch: int) -> None:
        self._protocol.send(commands.ConsumerControl(consumer_id=self._wire.consumer_id, prefetch=prefetch))
        self._peer.output_waits()

    def end_of_messages(self) -> None:
        self._protocol.send_end_of_messages(self._wire)
        self._peer.output_waits()


@final
class Consuming:
    """Carries out ConsumerInfo and what else concerns subscriptions, and acks."""

    __slots__ = ("_ack_consumer", "_ack_subscription", "_client")

    def __init__(self, client: OpenWireClient) -> None:
        self._client = client
        self._ack_consumer: commands.ConsumerId | None = None
        self._ack_subscription: Subscription | None = None
        """What the last ack named: most name the same."""

    def consumer_info(self, info: commands.ConsumerInfo) -> bool | None:
        client = self._client
        consumer_id = given(info.consumer_id, "ConsumerInfo without a consumer id")
        client.check_own(consumer_id.connection_id)
        reading = client.broker.reading_of(info.selector) if info.selector else None
        if reading is not None:
            client.wait(info.command_id)
            client.broker.slices.start(partial(self._read_selector, info, reading))
            return True
        self._subscribe(info, consumer_id)
        return None

    def _read_selector(self, info: commands.ConsumerInfo, reading: Reading, budget: Budget) -> bool:
        """Read more of a long selector; whether there is still more. At its end the consumer is added."""
        client = self._client
        while reading.goes_on():
            if budget.spend(_SELECTOR_STEP_UNITS):
                return True
        try:
            reading.result()
            self._subscribe(info, given(info.consumer_id, "ConsumerInfo without a consumer id"))
        except BrokerError as error:
            client.refuse(error, info.command_id, info.response_required)
        else:
            if info.response_required:
                client.respond_when_durable(info.command_id)
        finally:
            client.go_on_behind(info.command_id)
        return False

    def _subscribe(self, info: commands.ConsumerInfo, consumer_id: commands.ConsumerId) -> None:
        client = self._client
        client.broker.subscribe(
            client.open_connection,
            SubscriptionRequest(
                consumer_id=str(consumer_id),
                session_id=consumer_id.session_id,
                destination=destination_from_wire(info.destination, peer_destination),
                prefetch=max(0, info.prefetch_size),
                selector=info.selector,
                no_local=info.no_local,
                subscription_name=info.subscription_name,
                browser=info.browser,
                exclusive=info.exclusive,
                retroactive=info.retroactive,
                priority=info.priority,
                pending_messages_max=max(0, info.maximum_pending_message_limit),
            ),
            _ConsumerEnd(
                client.peer,
                client.protocol,
                client.clock,
                Consumer(consumer_id),
                partial(self._reject, str(consumer_id)),
                client.settings.connection.write_pause_bytes,
            ),
        )

    def _reject(self, consumer_id: str, key: bytes, cause: str) -> None:
        client = self._client
        subscription = client.connection.subscriptions.get(consumer_id) if client.connection is not None else None
        if subscription is not None:
            _log.warning("%s: a message goes to the dead letters: %s", client.address, cause)
            client.broker.acknowledge(subscription, AckKind.POISON, key, key, 1, cause=cause)

    def remove_consumer(self, consumer_id: commands.ConsumerId, last_delivered: int) -> None:
        client = self._client
        client.check_own(consumer_id.connection_id)
        client.broker.unsubscribe(client.subscription(consumer_id), last_delivered)
        self.forget_last()

    def forget_last(self) -> None:
        """Let go of the subscription that the last ack named, which refers to this."""
        self._ack_consumer = self._ack_subscription = None

    def pull(self, pull: commands.MessagePull) -> None:
        client = self._client
        consumer_id = given(pull.consumer_id, "MessagePull without a consumer id")
        client.broker.pull(client.subscription(consumer_id), pull.timeout)

    def consumer_control(self, control: commands.ConsumerControl) -> None:
        client = self._client
        consumer_id = given(control.consumer_id, "ConsumerControl without a consumer id")
        subscription = client.subscription(consumer_id)
        if control.close:
            client.broker.unsubscribe(subscription)
        else:
            client.broker.set_prefetch(subscription, max(0, control.prefetch))

    def remove_subscription(self, info: commands.RemoveSubscriptionInfo) -> None:
        client = self._client
        name = given(info.subscription_name, "RemoveSubscriptionInfo without a subscription name")
        if info.client_id not in (None, "", client.open_connection.client_id):
            raise NotAuthorised(f"subscriptions of client {info.client_id} are not this client's to end")
        connection = client.open_connection
        client.broker.remove_durable(connection.client_id, name, connection.principal)

    # ---- acks: the hot path ------------------------------------------------------------------------------------

    def ack(self, ack: Ack) -> None:
        client = self._client
        if client.connection is None:
            raise RemoteProtocolError("an ack came before ConnectionInfo")
        try:
            subscription = self._ack_subscription
            if subscription is None or subscription.is_leaving or ack.consumer_id is not self._ack_consumer:
                subscription = client.open_connection.subscriptions.get(str(ack.consumer_id))
                self._ack_consumer = ack.consumer_id
                self._ack_subscription = subscription
            if subscription is not None:  # acks that cross the consumer's end on their way say nothing new
                kind = _ack_kind(ack.ack_type)
                if not subscription.request.destination.kind.is_temporary:
                    client.may_have_changed_store = True
                client.broker.acknowledge(subscription, kind, ack.first_key, ack.last_key, ack.count)
        except BrokerError as error:
            client.refuse(error, ack.command_id, ack.response_required)
            return
        if ack.response_required:
            client.respond_when_durable(ack.command_id)

    def whole_ack(self, ack: commands.MessageAck) -> None:
        """An ack in a transaction, or one with a cause."""
        client = self._client
        client.may_have_changed_store = True
        if client.connection is None:
            raise RemoteProtocolError("an ack came before ConnectionInfo")
        last = message_key(ack.last_message_id)
        assert last is not None, "the protocol refuses acks without a message id"
        try:
            subscription = client.open_connection.subscriptions.get(str(ack.consumer_id))
            if subscription is not None:
                client.broker.acknowledge(
                    subscription,
                    _ack_kind(ack.ack_type),
                    message_key(ack.first_message_id),
                    last,
                    ack.message_count,
                    transaction_id=ack.transaction_id,
                    cause=one_line(ack.poison_cause),
                )
        except BrokerError as error:
            if ack.transaction_id is not None:
                client.fail_transaction(ack.transaction_id, error)
            client.refuse(error, ack.command_id, ack.response_required)
            return
        if ack.response_required:
            client.respond_when_durable(ack.command_id)


def _ack_kind(ack_type: int) -> AckKind:
    kind = _ACK_KINDS.get(ack_type)
    if kind is None:
        raise Unsupported(f"ack type {ack_type} is unknown")
    return kind


_ACK_KINDS: Final = {int(kind): kind for kind in AckKind}
"""Quicker than calling the enum, and it is done for every ack."""

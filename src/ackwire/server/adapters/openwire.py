"""OpenWire commands to broker verbs, and the broker's words back to OpenWire.

One method per command, found in one table. A verb that fails is answered in the protocol's own terms in one place
(`_refuse`): an ExceptionResponse where the client waits for an answer, a ConnectionError where it does not.
"""

import logging
import os
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from hashlib import blake2b
from struct import Struct
from typing import Any, Final, Protocol, final

from ackwire.broker.acks import AckKind
from ackwire.broker.broker import LAST_DELIVERED_UNKNOWN, Broker
from ackwire.broker.session import ClientPort, Connection, ConsumerPort, Login, Producer
from ackwire.broker.slices import GIVE_WAY_SECONDS, Budget
from ackwire.broker.subscription import Subscription, SubscriptionRequest
from ackwire.broker.takeover import Claim
from ackwire.broker.transactions import XA_INVALID, XA_ROLLED_BACK, TransactionError
from ackwire.clock import Clock
from ackwire.config import Settings
from ackwire.destinations import peer_destination
from ackwire.errors import (
    AckwireError,
    BrokerError,
    DestinationGone,
    InvalidClientId,
    InvalidDestination,
    InvalidSelector,
    LocalProtocolError,
    NotAuthorised,
    RemoteProtocolError,
    ResourceLimit,
    StoreFailed,
    UnknownResource,
    Unsupported,
)
from ackwire.message import Message
from ackwire.selector import Reading
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.dispatches import Consumer
from ackwire.wire.openwire.fast import Ack, destination_from_wire, message_key, producer_key, window_bytes
from ackwire.wire.openwire.negotiation import Agreement
from ackwire.wire.openwire.protocol import Event, OpenWireProtocol, Undeliverable
from ackwire.wire.openwire.structures import Structure, Throwable

_JAVA_CLASSES: Final[tuple[tuple[type[AckwireError], str], ...]] = (
    (InvalidClientId, "javax.jms.InvalidClientIDException"),
    (DestinationGone, "org.apache.activemq.DestinationDoesNotExistException"),
    (InvalidDestination, "javax.jms.InvalidDestinationException"),
    (InvalidSelector, "javax.jms.InvalidSelectorException"),
    (NotAuthorised, "java.lang.SecurityException"),
    (ResourceLimit, "javax.jms.ResourceAllocationException"),
    (UnknownResource, "java.lang.IllegalStateException"),
    (RemoteProtocolError, "java.io.IOException"),
    # As when the broker is stopped, which it is about to be: a client with failover asks another, and nothing is lost.
    (StoreFailed, "org.apache.activemq.broker.BrokerStoppedException"),
    (AckwireError, "javax.jms.JMSException"),
)
"""What each error is called on the wire; the first that fits (openwire.md §10)."""

_REFUSED_LOGIN_SECONDS: Final = 2.0
"""How long a client that was not admitted may stay, to read why; ActiveMQ's figure."""

_ID_LENGTH_MAX: Final = 1024
"""Characters in a connection id; it stands in every other id, and those are remembered."""

_XID_PART_BYTES_MAX: Final = 1024
"""Bytes in each part of an XA id. XA itself says 64; ActiveMQ does not look."""

_ERROR_TEXT_MAX: Final = 1024
"""Characters of an error text on the wire and in the log; Java's own writers cut there too."""

_READ_SECONDS: Final = 0.005
"""How long the commands of one client may hold up others in a turn. What is left waits for a later turn, and so does
what the client sends meanwhile."""

_SURE_SECONDS: Final = 2 * GIVE_WAY_SECONDS
"""How long they may if others wait to be read. What one read brings usually takes less: to come back to the rest of it
costs as much as a few messages."""

_EVENTS_PER_LOOK: Final = 8
"""Commands between two looks at the clock: most reads have fewer, and cost no look."""

_SELECTOR_STEP_UNITS: Final = 64
"""What it costs of a slice to read a bit of a selector."""

_SLOW_SECONDS: Final = GIVE_WAY_SECONDS
"""A command that takes so long is named if it holds up the loop, and the clock is looked at behind it."""

_COMMAND_ID: Final = Struct(">i")

_PROOF_KEY: Final = os.urandom(32)
"""Of this run: digests of passwords are compared with each other, and are nowhere else."""

_log = logging.getLogger(__name__)


class AdaptedPeer(ClientPort, Protocol):
    """What the adapter asks of the peer that it stands behind (`server/peer.py`)."""

    @property
    def is_closing(self) -> bool:
        """Whether nothing that the client says counts any more."""

    def others_wait(self) -> bool:
        """Whether clients behind other sockets wait to be read."""

    def agreed(self, agreement: Agreement) -> None:
        """Both sides know how they speak."""

    def login_finished(self) -> None:
        """The client is known."""

    def wait_for_command(self) -> None:
        """Read nothing more until `command_done`: a login or a large commit goes on in later turns."""

    def command_done(self) -> None:
        """Go on, later, with what came behind that command."""

    def output_waits(self) -> None:
        """The protocol has bytes for the client."""

    def close_quietly(self, reason: str) -> None:
        """End the connection because the client is done with it."""

    def close_later(self, seconds: float, reason: str) -> None:
        """Give the client, which knows why, *seconds* to leave by itself."""


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


class OpenWireAdapter:
    """One client's commands, carried out."""

    def __init__(
        self,
        *,
        peer: AdaptedPeer,
        protocol: OpenWireProtocol,
        broker: Broker,
        clock: Clock,
        settings: Settings,
        address: str,
    ) -> None:
        self._peer = peer
        self._protocol = protocol
        self._broker = broker
        self._clock = clock
        self._settings = settings
        self._address = address
        self._connection: Connection | None = None
        """The client, since its login; closed if it has taken that back, and it may log in again."""
        self._claim: Claim | None = None
        """A login that waits."""
        self._windowed_producers: set[bytes] = set()
        self._ack_consumer: commands.ConsumerId | None = None
        self._ack_subscription: Subscription | None = None
        self._is_held = False
        """Whether a login, a large commit or a consumer with a long selector takes more turns: what comes behind that
        must not overtake it."""
        self._held_by = 0
        """The id of that command."""
        self._events: Iterator[Event] | None = None
        """What was received and not carried out yet, because that would have held up others."""
        self._slow_command: str | None = None
        """The last command of what was read last that took long."""

    @property
    def doing(self) -> str:
        """What made the last read of this client's commands long, for the loop's monitor."""
        who = "" if self._connection is None else f" of client {self._connection.client_id}"
        return f"{self._slow_command or 'messages and acks'}{who}"

    # ---- from the peer -----------------------------------------------------------------------------------------

    def handle_all(self, budget: Budget | None = None) -> bool:
        """Carry out what the protocol has received, until the peer is to be closed, a command waits, or time is over.

        True if there is more: this is to be called again, in another turn. The clock is looked at only now and then.
        """
        if self.is_waiting:
            return False
        peer = self._peer
        events = self._begin_read()
        left = _EVENTS_PER_LOOK
        for event in events:
            self.handle(event)
            if peer.is_closing:
                return False
            if self._is_held:
                self._events = events
                return False
            left -= 1
            if left <= 0 or self._slow_command is not None:
                left = _EVENTS_PER_LOOK
                if budget is None:
                    budget = self._read_budget()
                if budget.is_spent:
                    self._events = events
                    return True
        return False

    def _read_budget(self) -> Budget:
        """For the rest of what one read has brought."""
        sure_seconds = _SURE_SECONDS if self._slow_command is None else 0.0
        return Budget(self._clock, _READ_SECONDS, sure_seconds=sure_seconds, others_wait=self._peer.others_wait)

    def _begin_read(self) -> Iterator[Event]:
        """What is to be carried out: what was left the last time, or what has been received since.

        A method of its own: where it is assigned to, the compiler takes an attribute for None from there on (ADR 7).
        """
        events = self._events or self._protocol.events()
        self._events = None
        self._slow_command = None
        return events

    @property
    def is_waiting(self) -> bool:
        """Whether a login or a large commit goes on in later turns; until it is done nothing else is carried out."""
        return self._is_held

    def handle(self, event: Event) -> None:
        """Carry out one event. Raises `RemoteProtocolError` if it has no place here."""
        if type(event) is Message:
            self._on_message(event)
        elif type(event) is Ack:
            self._on_ack(event)
        else:
            self._handle_rare(event)

    def _handle_rare(self, event: Event) -> None:
        """Carry out what is no plain message or ack, and remember it if it takes long."""
        began = self._clock.monotonic()
        if isinstance(event, Undeliverable):
            self._on_undeliverable(event)
        elif isinstance(event, commands.MessageAck):
            self._on_whole_ack(event)
        elif isinstance(event, Agreement):
            self._on_agreement(event)
        else:
            self._on_command(event)
        if self._clock.monotonic() - began >= _SLOW_SECONDS:
            self._slow_command = type(event).__name__

    def _on_agreement(self, agreement: Agreement) -> None:
        self._peer.agreed(agreement)
        self._send(
            commands.BrokerInfo(
                broker_id=commands.BrokerId(self._broker.broker_id),
                broker_name=self._settings.broker.name,
                broker_url=None,
                peer_broker_infos=(),
            )
        )

    def _on_command(self, command: Any) -> None:
        if not isinstance(command, commands.BaseCommand):
            raise RemoteProtocolError(f"{type(command).__name__} is not a command")
        handler = _HANDLERS.get(type(command), OpenWireAdapter._on_unsupported)
        if self._connection is None and type(command) not in _BEFORE_LOGIN:
            raise RemoteProtocolError(f"{type(command).__name__} came before ConnectionInfo")
        try:
            answered = handler(self, command)
        except BrokerError as error:
            self._refuse(error, command.command_id, command.response_required)
            return
        if not answered and command.response_required:
            self._respond_when_durable(command.command_id)

    # Handlers return True when they have answered (or will), None to have a plain Response sent for them.

    def _on_connection_info(self, info: commands.ConnectionInfo) -> bool | None:
        if self._connection is not None and self._connection.is_open:
            raise RemoteProtocolError("a second ConnectionInfo on the same socket, without a RemoveInfo for the first")
        if info.connection_id is None or not info.connection_id.value:
            raise RemoteProtocolError("ConnectionInfo without a connection id")
        if len(info.connection_id.value) > _ID_LENGTH_MAX:
            raise RemoteProtocolError(f"a connection id has over {_ID_LENGTH_MAX} characters, the limit")
        login = Login(
            connection_id=info.connection_id.value,
            client_id=info.client_id,
            user=info.user_name,
            proof=_proof(info.password),
            is_reconnect=info.failover_reconnect,
        )
        try:
            self._claim = self._broker.admit(
                login, self._peer, partial(self._admitted, info), partial(self._not_admitted, info)
            )
        except BrokerError as error:
            self._dismiss(error)
            raise
        if self._claim is not None:
            self._wait(info.command_id)
        return True

    def _admitted(self, info: commands.ConnectionInfo, connection: Connection) -> None:
        self._connection = connection
        self._windowed_producers.clear()
        self._ack_consumer = self._ack_subscription = None
        self._peer.login_finished()
        if info.response_required:
            self._respond(info.command_id)
        if info.manageable:
            self._send(commands.ConnectionControl())
        self._go_on()

    def _not_admitted(self, info: commands.ConnectionInfo, error: BrokerError) -> None:
        self._dismiss(error)
        self._refuse(error, info.command_id, info.response_required)
        self._go_on()

    def _dismiss(self, error: BrokerError) -> None:
        self._peer.close_later(_REFUSED_LOGIN_SECONDS, f"it was not admitted: {error}")

    def _go_on(self) -> None:
        """The login is decided: what the client has sent behind it is next."""
        if self._claim is not None:
            self._claim = None
            self._go_on_behind(self._held_by)

    def _on_session_info(self, info: commands.SessionInfo) -> None:
        session_id = _given(info.session_id, "SessionInfo without a session id")
        self._own(session_id.connection_id)
        self._client.add_session(session_id.value)

    def _on_producer_info(self, info: commands.ProducerInfo) -> None:
        producer_id = _given(info.producer_id, "ProducerInfo without a producer id")
        self._own(producer_id.connection_id)
        destination = None if info.destination is None else destination_from_wire(info.destination, peer_destination)
        self._broker.add_producer(
            self._client,
            Producer(str(producer_id), producer_id.session_id, destination, window_bytes=info.window_size),
        )
        if info.window_size > 0:
            self._windowed_producers.add(producer_key(producer_id))

    def _on_consumer_info(self, info: commands.ConsumerInfo) -> bool | None:
        consumer_id = _given(info.consumer_id, "ConsumerInfo without a consumer id")
        self._own(consumer_id.connection_id)
        reading = self._broker.reading_of(info.selector) if info.selector else None
        if reading is not None:
            self._wait(info.command_id)
            self._broker.slices.start(partial(self._read_selector, info, reading))
            return True
        self._subscribe(info, consumer_id)
        return None

    def _read_selector(self, info: commands.ConsumerInfo, reading: Reading, budget: Budget) -> bool:
        """Read more of a long selector; whether there is still more. At its end the consumer is added."""
        while reading.goes_on():
            if budget.spend(_SELECTOR_STEP_UNITS):
                return True
        try:
            reading.result()
            self._subscribe(info, _given(info.consumer_id, "ConsumerInfo without a consumer id"))
        except BrokerError as error:
            self._refuse(error, info.command_id, info.response_required)
        else:
            if info.response_required:
                self._respond_when_durable(info.command_id)
        finally:
            self._go_on_behind(info.command_id)
        return False

    def _subscribe(self, info: commands.ConsumerInfo, consumer_id: commands.ConsumerId) -> None:
        self._broker.subscribe(
            self._client,
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
                self._peer,
                self._protocol,
                self._clock,
                Consumer(consumer_id),
                partial(self._reject, str(consumer_id)),
                self._settings.connection.write_pause_bytes,
            ),
        )

    def _reject(self, consumer_id: str, key: bytes, cause: str) -> None:
        subscription = self._connection.subscriptions.get(consumer_id) if self._connection is not None else None
        if subscription is not None:
            _log.warning("%s: a message goes to the dead letters: %s", self._address, cause)
            self._broker.acknowledge(subscription, AckKind.POISON, key, key, 1, cause=cause)

    def _on_remove_info(self, info: commands.RemoveInfo) -> None:
        last_delivered = info.last_delivered_sequence_id
        match info.object_id:
            case commands.ConsumerId() as consumer_id:
                self._own(consumer_id.connection_id)
                self._broker.unsubscribe(self._subscription(consumer_id), last_delivered)
                self._ack_consumer = self._ack_subscription = None
            case commands.ProducerId() as producer_id:
                self._own(producer_id.connection_id)
                self._broker.remove_producer(self._client, str(producer_id))
                self._windowed_producers.discard(producer_key(producer_id))
            case commands.SessionId() as session_id:
                self._own(session_id.connection_id)
                self._broker.remove_session(self._client, session_id.value, last_delivered)
                self._ack_consumer = self._ack_subscription = None
            case commands.ConnectionId() as connection_id:
                self._own(connection_id.value)
                self._broker.disconnect(self._client, last_delivered)
                self._ack_consumer = self._ack_subscription = None
            case other:
                raise RemoteProtocolError(f"RemoveInfo for a {type(other).__name__}")

    def _on_destination_info(self, info: commands.DestinationInfo) -> None:
        destination = destination_from_wire(info.destination, peer_destination)
        if info.operation_type == commands.DestinationOperation.ADD:
            self._broker.add_destination(self._client, destination)
        elif info.operation_type == commands.DestinationOperation.REMOVE:
            self._broker.remove_destination(self._client, destination)
        else:
            raise Unsupported(f"operation {info.operation_type} of a DestinationInfo is unknown")

    def _on_pull(self, pull: commands.MessagePull) -> None:
        consumer_id = _given(pull.consumer_id, "MessagePull without a consumer id")
        self._broker.pull(self._subscription(consumer_id), pull.timeout)

    def _on_consumer_control(self, control: commands.ConsumerControl) -> None:
        consumer_id = _given(control.consumer_id, "ConsumerControl without a consumer id")
        subscription = self._subscription(consumer_id)
        if control.close:
            self._broker.unsubscribe(subscription)
        else:
            self._broker.set_prefetch(subscription, max(0, control.prefetch))

    def _on_remove_subscription(self, info: commands.RemoveSubscriptionInfo) -> None:
        name = _given(info.subscription_name, "RemoveSubscriptionInfo without a subscription name")
        if info.client_id not in (None, "", self._client.client_id):
            raise NotAuthorised(f"subscriptions of client {info.client_id} are not this client's to end")
        self._broker.remove_durable(self._client.client_id, name, self._client.principal)

    def _on_transaction_info(self, info: commands.TransactionInfo) -> bool | None:
        transactor = self._broker.transactor
        if info.type == commands.TransactionType.RECOVER:
            prepared = tuple(
                xid for xid in transactor.prepared(self._client) if isinstance(xid, commands.XATransactionId)
            )
            answer = commands.DataArrayResponse(correlation_id=info.command_id, data=prepared)
            on_failed = partial(self._refuse, command_id=info.command_id, response_required=True)
            self._broker.when_durable(partial(self._send, answer), on_failed)  # what it lists must be a promise
            return True
        transaction_id = _given(info.transaction_id, "TransactionInfo without a transaction id")
        try:
            self._check_transaction_id(transaction_id)
            return self._carry_out(info, transaction_id)
        except TransactionError as error:
            error.is_xa = isinstance(transaction_id, commands.XATransactionId)
            raise

    def _check_transaction_id(self, transaction_id: commands.TransactionId) -> None:
        """Local ones carry the client's own id; those of XA are of a bounded size."""
        if isinstance(transaction_id, commands.LocalTransactionId):
            connection_id = transaction_id.connection_id
            self._own(None if connection_id is None else connection_id.value)
        elif isinstance(transaction_id, commands.XATransactionId):
            parts = (transaction_id.global_transaction_id, transaction_id.branch_qualifier)
            if any(len(part or b"") > _XID_PART_BYTES_MAX for part in parts):
                raise TransactionError(f"a part of an XA id has over {_XID_PART_BYTES_MAX} bytes", XA_INVALID)

    def _carry_out(self, info: commands.TransactionInfo, transaction_id: commands.TransactionId) -> bool | None:
        transactor = self._broker.transactor
        on_failed = partial(self._transaction_failed, info)
        match info.type:
            case commands.TransactionType.BEGIN:
                is_xa = isinstance(transaction_id, commands.XATransactionId)
                transactor.begin(self._client, transaction_id, is_xa=is_xa)
            case commands.TransactionType.END:
                pass
            case commands.TransactionType.PREPARE:
                answer = partial(self._answer_prepare, info.command_id)
                if transactor.prepare(self._client, transaction_id, answer, on_failed):
                    self._wait(info.command_id)
                return True
            case commands.TransactionType.COMMIT_ONE_PHASE | commands.TransactionType.COMMIT_TWO_PHASE:
                one_phase = info.type == commands.TransactionType.COMMIT_ONE_PHASE
                respond = partial(self._answer_commit, info.response_required, info.command_id)
                if transactor.commit(self._client, transaction_id, respond, on_failed, one_phase=one_phase):
                    self._wait(info.command_id)
                return True
            case commands.TransactionType.ROLLBACK:
                transactor.roll_back(self._client, transaction_id)
            case commands.TransactionType.FORGET:
                transactor.forget(self._client, transaction_id)
            case _:
                raise Unsupported(f"transaction operation {info.type} is unknown")
        return None

    def _answer_prepare(self, command_id: int, result: int) -> None:
        self._send(commands.IntegerResponse(correlation_id=command_id, result=result))
        self._go_on_behind(command_id)

    def _answer_commit(self, is_required: bool, command_id: int) -> None:
        if is_required:
            self._respond(command_id)
        self._go_on_behind(command_id)

    def _transaction_failed(self, info: commands.TransactionInfo, error: BrokerError) -> None:
        if isinstance(error, TransactionError):
            error.is_xa = isinstance(info.transaction_id, commands.XATransactionId)
        self._refuse(error, info.command_id, info.response_required)
        self._go_on_behind(info.command_id)

    def _wait(self, command_id: int) -> None:
        """Carry out nothing more until the command of that id is done."""
        self._is_held, self._held_by = True, command_id
        self._peer.wait_for_command()

    def _go_on_behind(self, command_id: int) -> None:
        """That command is done: if others wait for it, they are next."""
        if self._is_held and self._held_by == command_id:
            self._is_held = False
            self._peer.command_done()

    def _on_keep_alive(self, info: commands.KeepAliveInfo) -> bool:
        if info.response_required:
            self._send(commands.KeepAliveInfo(command_id=info.command_id))
        return True

    def _on_shutdown(self, _info: commands.ShutdownInfo) -> bool:
        self._peer.close_quietly("the client has shut down")
        return True

    def _on_told(self, command: Any) -> None:
        """The client reports something that needs no action here."""
        _log.debug("%s says %r", self._address, command)

    def _on_unsupported(self, command: Any) -> None:
        raise Unsupported(f"{type(command).__name__} is not offered by this broker")

    # ---- messages and acks: the hot path -----------------------------------------------------------------------

    def _on_message(self, message: Message) -> None:
        connection = self._connection
        if connection is None:
            raise RemoteProtocolError("a message came before ConnectionInfo")
        frame = message.frame
        on_stored: Callable[[], None] | None = None
        if frame[5]:
            command_id: int = _COMMAND_ID.unpack_from(frame, 1)[0]
            on_stored = partial(self._respond, command_id)
        elif message.origin.producer_key in self._windowed_producers:
            on_stored = partial(self._return_window, message)
        try:
            if not connection.is_open:
                raise UnknownResource(f"{connection!r} is closed")
            if message.origin.connection_id != connection.connection_id:
                raise NotAuthorised(f"producer of connection {message.origin.connection_id} is not this client's")
            self._broker.send(connection, message, on_stored, self._refuse_send)
        except BrokerError as error:
            self._refuse_send(message, error)

    def _on_undeliverable(self, event: Undeliverable) -> None:
        if self._connection is None:
            raise RemoteProtocolError("a message came before ConnectionInfo")
        self._refuse(event.error, event.command_id, event.response_required)

    def _refuse_send(self, message: Message, error: BrokerError) -> None:
        frame = message.frame
        if message.origin.transaction is not None:
            self._fail_transaction(message.origin.transaction, error)
        self._refuse(error, _COMMAND_ID.unpack_from(frame, 1)[0], frame[5] != 0)

    def _fail_transaction(self, transaction_id: Hashable, error: BrokerError) -> None:
        if self._connection is not None:
            self._broker.transactor.fail(self._connection, transaction_id, str(error))

    def _return_window(self, message: Message) -> None:
        """Give a producer with a window its bytes back; one that gets a Response needs no ProducerAck (B4)."""
        producer_id, size = window_bytes(message)
        self._send(commands.ProducerAck(producer_id=producer_id, size=size))

    def _on_ack(self, ack: Ack) -> None:
        if self._connection is None:
            raise RemoteProtocolError("an ack came before ConnectionInfo")
        try:
            subscription = self._ack_subscription
            if subscription is None or subscription.is_leaving or ack.consumer_id is not self._ack_consumer:
                subscription = self._client.subscriptions.get(str(ack.consumer_id))
                self._ack_consumer = ack.consumer_id
                self._ack_subscription = subscription
            if subscription is not None:  # acks that cross the consumer's end on their way say nothing new
                kind = _ack_kind(ack.ack_type)
                self._broker.acknowledge(subscription, kind, ack.first_key, ack.last_key, ack.count)
        except BrokerError as error:
            self._refuse(error, ack.command_id, ack.response_required)
            return
        if ack.response_required:
            self._respond_when_durable(ack.command_id)

    def _on_whole_ack(self, ack: commands.MessageAck) -> None:
        """An ack in a transaction, or one with a cause."""
        if self._connection is None:
            raise RemoteProtocolError("an ack came before ConnectionInfo")
        last = message_key(ack.last_message_id)
        assert last is not None, "the protocol refuses acks without a message id"
        try:
            subscription = self._client.subscriptions.get(str(ack.consumer_id))
            if subscription is not None:
                self._broker.acknowledge(
                    subscription,
                    _ack_kind(ack.ack_type),
                    message_key(ack.first_message_id),
                    last,
                    ack.message_count,
                    transaction_id=ack.transaction_id,
                    cause=_cause(ack.poison_cause),
                )
        except BrokerError as error:
            if ack.transaction_id is not None:
                self._fail_transaction(ack.transaction_id, error)
            self._refuse(error, ack.command_id, ack.response_required)
            return
        if ack.response_required:
            self._respond_when_durable(ack.command_id)

    # ---- to the peer -------------------------------------------------------------------------------------------

    def send_keep_alive(self) -> None:
        self._send(commands.KeepAliveInfo())

    def send_shutdown(self) -> None:
        self._send(commands.ShutdownInfo())

    def send_connection_error(self, error: AckwireError) -> None:
        """Tell the client about an error that belongs to no command it waits for."""
        if self._protocol.agreement is not None:
            self._send(commands.ConnectionError(exception=_throwable(error)))

    def resume(self) -> None:
        """The socket takes output again."""
        if self._connection is not None and self._connection.is_open:
            self._broker.resume(self._connection)

    def is_needed_to_drain(self) -> bool:
        """Whether the client's acks may make space that others wait for."""
        return self._connection is not None and self._broker.flow.is_needed_to_drain(self._connection)

    def connection_lost(self) -> None:
        """The socket has gone: so has everything the client announced."""
        self._ack_consumer = self._ack_subscription = None  # which refers to this adapter
        if self._claim is not None:
            self._broker.withdraw(self._claim)
            self._claim = None
        self._events = None
        if self._connection is not None:
            self._broker.disconnect(self._connection, LAST_DELIVERED_UNKNOWN)

    def _refuse(self, error: BrokerError, command_id: int, response_required: bool) -> None:
        _log.info("%s: refused: %s", self._address, _cut(str(error)))
        if response_required:
            self._send(commands.ExceptionResponse(correlation_id=command_id, exception=_throwable(error)))
        else:
            self.send_connection_error(error)

    def _respond_when_durable(self, command_id: int) -> None:
        on_failed = partial(self._refuse, command_id=command_id, response_required=True)
        self._broker.when_durable(partial(self._respond, command_id), on_failed)

    def _respond(self, command_id: int) -> None:
        self._protocol.send_response(command_id)
        self._peer.output_waits()

    def _send(self, command: Structure) -> None:
        self._protocol.send(command)
        self._peer.output_waits()

    # ---- what this client owns ---------------------------------------------------------------------------------

    @property
    def _client(self) -> Connection:
        connection = self._connection
        assert connection is not None, "handlers run after login"
        if not connection.is_open:
            raise UnknownResource(f"{connection!r} is closed")
        return connection

    def _own(self, connection_id: str | None) -> None:
        """Raise `NotAuthorised` for ids that belong to another connection."""
        if connection_id != self._client.connection_id:
            raise NotAuthorised(f"connection {connection_id} does not belong to this client")

    def _subscription(self, consumer_id: commands.ConsumerId) -> Subscription:
        return self._broker.subscription(self._client, str(consumer_id))


def _given(value: Any, otherwise: str) -> Any:
    if value is None:
        raise RemoteProtocolError(otherwise)
    return value


def _proof(password: str | None) -> bytes:
    """What tells one password from another, and cannot be turned back into it."""
    if not password:
        return b""
    return blake2b(password.encode("utf-8", "surrogatepass"), key=_PROOF_KEY, digest_size=16).digest()


def _ack_kind(ack_type: int) -> AckKind:
    kind = _ACK_KINDS.get(ack_type)
    if kind is None:
        raise Unsupported(f"ack type {ack_type} is unknown")
    return kind


_ACK_KINDS: Final = {int(kind): kind for kind in AckKind}
"""Quicker than calling the enum, and it is done for every ack."""


def _cause(throwable: Throwable | None) -> str | None:
    """A Java exception in one line, as Java prints it."""
    if throwable is None:
        return None
    return throwable.class_name if throwable.message is None else f"{throwable.class_name}: {throwable.message}"


def _throwable(error: AckwireError) -> Throwable:
    if isinstance(error, TransactionError):
        return _transaction_throwable(error)
    java_class = next(name for cls, name in _JAVA_CLASSES if isinstance(error, cls))
    return Throwable(java_class, _cut(str(error)))


def _cut(text: str) -> str:
    """Error texts quote the peer's own words, which may be of any length."""
    return text if len(text) <= _ERROR_TEXT_MAX else text[:_ERROR_TEXT_MAX] + "…"


def _transaction_throwable(error: TransactionError) -> Throwable:
    """The Java client reads XA's code from the end of the text (openwire.md §8)."""
    if error.is_xa:
        return Throwable("javax.transaction.xa.XAException", f"{_cut(str(error))} xaErrorCode:{error.xa_code}")
    if error.xa_code == XA_ROLLED_BACK:
        return Throwable("javax.jms.TransactionRolledBackException", _cut(str(error)))
    return Throwable("javax.jms.JMSException", _cut(str(error)))


_BEFORE_LOGIN: Final = frozenset(
    {commands.ConnectionInfo, commands.ConnectionControl, commands.KeepAliveInfo, commands.ShutdownInfo}
)
"""All that a stranger may say. A failover client that reconnects begins with a ConnectionControl."""

_HANDLERS: Final[dict[type[Structure], Callable[[OpenWireAdapter, Any], bool | None]]] = {
    commands.ConnectionInfo: OpenWireAdapter._on_connection_info,
    commands.SessionInfo: OpenWireAdapter._on_session_info,
    commands.ProducerInfo: OpenWireAdapter._on_producer_info,
    commands.ConsumerInfo: OpenWireAdapter._on_consumer_info,
    commands.RemoveInfo: OpenWireAdapter._on_remove_info,
    commands.DestinationInfo: OpenWireAdapter._on_destination_info,
    commands.RemoveSubscriptionInfo: OpenWireAdapter._on_remove_subscription,
    commands.TransactionInfo: OpenWireAdapter._on_transaction_info,
    commands.MessagePull: OpenWireAdapter._on_pull,
    commands.ConsumerControl: OpenWireAdapter._on_consumer_control,
    commands.KeepAliveInfo: OpenWireAdapter._on_keep_alive,
    commands.ShutdownInfo: OpenWireAdapter._on_shutdown,
    commands.ConnectionControl: OpenWireAdapter._on_told,
    commands.ConnectionError: OpenWireAdapter._on_told,
    commands.FlushCommand: OpenWireAdapter._on_told,
    commands.Response: OpenWireAdapter._on_told,
}
"""Commands the broker understands; every other one is answered as unsupported."""

"""One connection: login, requests and their answers, and what must be said again after a reconnect (J2, J4).

How it works. `request` gives a command a number and keeps it until the answer with that number comes; while there is no
link, requests wait. A link comes up in steps: transport, wire format, login, then everything that was announced before
(temporary destinations, sessions, producers, consumers, open transactions), then the requests without an answer, in
their order and with their old ids, so that a broker that has done them already recognises them. One-way commands are
not kept: whoever sends one knows what its loss means.

`epoch` counts the links. A message belongs to the epoch in which it came: acknowledging it later would be taken for
the acknowledgement of another delivery.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Protocol

from ackwire.client.core.delivery import Key
from ackwire.client.core.ids import new_id
from ackwire.client.core.reply import Reply, settled
from ackwire.client.core.temporaries import Temporaries
from ackwire.client.errors import (
    ConnectionFailedError,
    IllegalStateError,
    InvalidClientIdError,
    InvalidDestinationError,
    JMSError,
    UnconfirmedMessagesError,
    error_from_wire,
)
from ackwire.client.options import ConnectionOptions
from ackwire.client.uri import BrokerUrl, TcpUri, VmUri
from ackwire.jms.destinations import Destination
from ackwire.util.clock import Clock
from ackwire.util.lru import Recent
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.client_decode import Channel, Dispatch, EndOfMessages
from ackwire.wire.openwire.client_encode import AckTemplate
from ackwire.wire.openwire.client_protocol import ClientProtocol
from ackwire.wire.openwire.codec_fast import destination_to_wire
from ackwire.wire.openwire.frame_builder import OutgoingMessage
from ackwire.wire.openwire.limits import DEFAULT_LIMITS, WireLimits
from ackwire.wire.openwire.negotiation import Agreement, Preferences
from ackwire.wire.openwire.protocol import Event
from ackwire.wire.openwire.structures import Structure, Throwable

if TYPE_CHECKING:
    from ackwire.client.core.consumer import ConsumerCore
    from ackwire.client.core.producer import ProducerCore
    from ackwire.client.core.session import SessionCore

FRAME_BYTES_MAX: Final = DEFAULT_LIMITS.frame_bytes_max
"""The largest frame that is taken, whatever the URL allows: a length that a broker made up must not cost memory."""

UNANSWERED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of messages that the broker has not confirmed; more wait."""

MUCH_OUTPUT_BYTES: Final = 64 * 1024
"""So much is worth a write of its own: the broker begins to work while the application goes on sending."""
MUCH_ACK_BYTES: Final = 32 * 1024
"""The same for acks, which make the broker send more: some 200, as many messages as ActiveMQ sends at a time."""

_COMMAND_IDS: Final = 2**31 - 1
_OUR_BROKER: Final = "Ackwire"


class Link(Enum):
    """How far the way to the broker is open."""

    DOWN = "there is no connection"
    NEGOTIATING = "the wire format is being settled"
    GREETED = "connected, not logged in"
    LOGGING_IN = "waiting for the login"
    UP = "up"
    FAILED = "the connection is lost for good"
    CLOSED = "closed"


_UP: Final = Link.UP  # members of an enumeration take time to look up


class Hooks(Protocol):
    """Whom the core tells what happens by itself."""

    def interrupted(self, error: JMSError) -> None:
        """The link is lost and will be made again."""

    def resumed(self) -> None:
        """It is back, and everything is restored."""

    def failed(self, error: JMSError) -> None:
        """Something went wrong that nobody was waiting for."""

    def has_room(self) -> None:
        """There is no longer too much that is not confirmed."""


@dataclass(slots=True)
class Request:
    """A command that waits for its answer."""

    number: int
    command: commands.BaseCommand | OutgoingMessage
    reply: Reply[Structure]
    survives: bool
    """Whether it is repeated after a reconnect; otherwise it fails with the link."""
    in_transaction: bool = False
    """Whether it is repeated in its place in its transaction, and not with the others."""


class ConnectionCore:
    """The state of one connection. Bytes go in by `receive_data` and out by `data_to_send`."""

    def __init__(
        self,
        url: BrokerUrl,
        options: ConnectionOptions,
        *,
        clock: Clock,
        hooks: Hooks,
        connection_id: str | None = None,
        provider_version: str = "",
    ) -> None:
        self.url = url
        self.options = options
        self.clock = clock
        self.hooks = hooks
        self.is_failover = url.failover is not None
        self.connection_id = commands.ConnectionId(f"{connection_id or new_id(clock, options.connection_id_prefix)}:1")
        self._client_id = options.client_id
        self._is_named = options.client_id is not None
        self._provider_version = provider_version
        self._protocol: ClientProtocol | None = None
        self.link = Link.DOWN
        self.epoch = 0
        self.failure: JMSError | None = None
        """Why it is lost for good."""
        self.peer = ""
        """What the broker says about itself."""
        self.address = ""
        """Where the broker is."""
        self.is_started = False
        self._login: Reply[None] | None = None
        self._command_ids = itertools.count(1)
        self._requests: dict[int, Request] = {}
        self._unproven = 0
        """Messages that nobody confirms, sent since the broker last answered: if the link is lost, they may be (N3)."""
        self._unproven_number = 0
        self.frame_bytes_max = FRAME_BYTES_MAX
        """As agreed with the broker."""
        self.unanswered_bytes = 0
        """Of messages that the broker has not confirmed."""
        self._up_waiters: list[Reply[None]] = []
        self._session_values = itertools.count(1)
        self._transaction_values = itertools.count(1)
        self._sessions: dict[int, SessionCore] = {}
        self._consumers: dict[commands.ConsumerId, ConsumerCore] = {}
        self._last_channel: Channel | None = None
        self._last_consumer: ConsumerCore | None = None
        """Whose the last dispatch was: usually the next one's too, and ids take time to compare."""
        self._producers: dict[commands.ProducerId, ProducerCore] = {}
        self.temporaries = Temporaries(self)
        self.acknowledged: Recent[Key, None] | None = None
        """What was acknowledged and might come again, because the acknowledgement was lost with its link (J4)."""
        if self.is_failover and options.check_for_duplicates:
            self.acknowledged = Recent(options.audit_depth * options.audit_producers_max)
        self._last_error: JMSError | None = None
        self.is_leaving = False
        self._has_left = False
        """Whether the broker has agreed that this connection is over."""
        self.on_output: Callable[[], None] = _nothing
        """Called when there is something to send …"""
        self.on_much_output: Callable[[], None] = _nothing
        """… and when it has become so much that waiting for more is of no use."""
        self.on_agreed: Callable[[Agreement], None] = _ignore
        self.on_restored: Callable[[], None] = _nothing
        self.on_login_refused: Callable[[JMSError], None] = _ignore
        self.on_control: Callable[[commands.ConnectionControl], None] = _ignore
        self.on_broken: Callable[[JMSError], None] = _ignore
        """Called when the broker says that it cannot go on: the link is of no use any more."""

    # ---- the link ----------------------------------------------------------------------------------------------

    @property
    def is_up(self) -> bool:
        return self.link is Link.UP

    @property
    def is_closed(self) -> bool:
        """Whether that is over because the application said so."""
        return self.link is Link.CLOSED

    @property
    def is_our_broker(self) -> bool:
        """Whether the broker recognises repetitions of what it has done, over its own restart too."""
        return self.peer.startswith(_OUR_BROKER)

    def transport_connected(self, uri: TcpUri | VmUri) -> None:
        """There is a way to a broker: say hello."""
        if self.link in (Link.CLOSED, Link.FAILED):
            return
        self.epoch += 1
        self.address = uri.address
        self._last_error = None
        limits = WireLimits(inflated_bytes_max=round(self.options.inflated_size_ratio_max * FRAME_BYTES_MAX))
        self._protocol = ClientProtocol(
            _preferences(uri, self._provider_version), limits, handshake_frame_bytes_max=FRAME_BYTES_MAX
        )
        self.link = Link.NEGOTIATING
        self.on_output()

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the broker and do what they say. Raises `RemoteProtocolError` if they say nothing."""
        protocol = self._protocol
        if protocol is None:
            return
        protocol.receive_data(data)
        for event in protocol.events():
            self._on_event(event)
            if self._protocol is not protocol:  # an answer has led to the end of the link
                return

    def receive_eof(self) -> None:
        """The broker will send no more. Raises `RemoteProtocolError` in the middle of a frame."""
        if self._protocol is not None:
            self._protocol.receive_eof()

    def data_to_send(self) -> list[bytes]:
        """Take the bytes that are waiting to be written."""
        return [] if self._protocol is None else self._protocol.data_to_send()

    @property
    def waiting_bytes(self) -> int:
        """What `data_to_send` would return now."""
        return 0 if self._protocol is None else self._protocol.waiting_bytes

    def send_keep_alive(self, response_required: bool) -> None:
        self.one_way(commands.KeepAliveInfo(), response_required=response_required, always=True)

    def transport_lost(self, error: JMSError, *, final: bool) -> None:
        """The way to the broker is gone. Unless *final*, another one is being looked for."""
        if self.link in (Link.CLOSED, Link.FAILED):
            return
        if self._has_left:
            self.closed()  # the broker was only quicker to hang up
            return
        self.epoch += 1  # what came on this link is of the past, whether or not there is another one yet
        was_in_use = self._login is not None and self._protocol is not None
        cause = self._why(error)
        self._protocol = None
        self._tell_of_unproven(cause)
        if final and self.is_leaving:
            self.closed()  # as was asked for, whoever closed it first
            return
        if final:
            self._fail(cause)
            return
        self.link = Link.DOWN
        lost = [number for number, request in self._requests.items() if not request.survives]
        for number in lost:
            self._requests.pop(number).reply.fail(_lost(cause))
        for producer in self._producers.values():
            producer.interrupted()
        for session in list(self._sessions.values()):
            session.interrupted()
        if was_in_use:
            self.hooks.interrupted(cause)

    def _tell_of_unproven(self, cause: JMSError) -> None:
        """What was sent without confirmation may be gone, and only we know of it (N3)."""
        if self._unproven and not self.is_leaving:
            text = (
                f"{self._unproven} messages that were sent without confirmation may be lost with the connection; "
                "persistent ones that are sent without jms.useAsyncSend are confirmed, and so are all with failover's "
                "trackMessages=true"
            )
            error = UnconfirmedMessagesError(text)
            error.__cause__ = cause
            self.hooks.failed(error)
        self._unproven = 0

    def _why(self, error: JMSError) -> JMSError:
        """Why the link was lost: *error*, and the broker's own words if it had any."""
        if self._last_error is None:
            return error
        told = ConnectionFailedError(f"{error}; it said: {self._last_error}")
        told.__cause__ = self._last_error
        return told

    def _fail(self, cause: JMSError) -> None:
        self.link = Link.FAILED
        self.failure = _lost(cause)
        waiting, self._requests = self._requests, {}
        for request in waiting.values():
            request.reply.fail(_lost(cause))
        if self._login is not None:
            self._login.fail(_lost(cause))
        self._release_waiters(_lost(cause))
        for session in list(self._sessions.values()):
            session.failed()
        self.hooks.failed(self.failure)

    def _release_waiters(self, error: JMSError | None) -> None:
        waiters, self._up_waiters = self._up_waiters, []
        for waiter in waiters:
            if error is None:
                waiter.settle(None)
            else:
                waiter.fail(error)

    def when_up(self) -> Reply[None]:
        """Answered when one-way commands can be sent; at once if they can."""
        if self.is_up:
            return settled(None)
        self.check_usable()
        reply: Reply[None] = Reply()
        self._up_waiters.append(reply)
        return reply

    def check_usable(self) -> None:
        if self.link is Link.CLOSED:
            raise IllegalStateError("the connection is closed")
        if self.link is Link.FAILED:
            assert self.failure is not None
            raise _lost(self.failure)

    # ---- login -------------------------------------------------------------------------------------------------

    @property
    def client_id(self) -> str | None:
        return self._client_id

    @client_id.setter
    def client_id(self, value: str) -> None:
        if self._client_id is not None:
            raise IllegalStateError(f"the client id is {self._client_id!r} already")
        if self._login is not None:
            raise IllegalStateError("the client id is set before anything else is done with a connection")
        if not value:
            raise InvalidClientIdError("a client id cannot be empty")
        self._client_id = value
        self._is_named = True

    def check_named(self) -> None:
        """Durable subscriptions belong to a name that is known again next time."""
        if not self._is_named:
            raise InvalidClientIdError(
                "a durable subscription belongs to a client id: give one to the connection (client_id=…, jms.clientID)"
            )

    def login(self) -> Reply[None]:
        """Introduce this client, once; answered when the broker has agreed."""
        if self._login is None:
            self._login = Reply()
            if self._client_id is None:
                self._client_id = new_id(self.clock, self.options.client_id_prefix)
            if self.link is Link.GREETED:
                self._introduce()
        return self._login

    def _introduce(self) -> None:
        assert self._login is not None
        self.link = Link.LOGGING_IN
        info = commands.ConnectionInfo(
            connection_id=self.connection_id,
            client_id=self._client_id,
            user_name=self.options.user_name,
            password=self.options.password,
            fault_tolerant=self.is_failover,
            failover_reconnect=self._login.is_done,
        )
        reply = self.request(info, survives=False)
        self._put_request(next(reversed(self._requests.values())))  # alone: the link is not up yet
        reply.then(self._introduced)

    def _introduced(self, reply: Reply[Structure]) -> None:
        if self.link is not Link.LOGGING_IN:
            return
        assert self._login is not None
        if isinstance(reply.error, JMSError):
            self.link = Link.GREETED
            if not self._login.is_done and not isinstance(reply.error, ConnectionFailedError):
                refused, self._login = self._login, None
                refused.fail(reply.error)
            self.on_login_refused(reply.error)
            return
        self.link = Link.UP
        is_back = self._login.is_done
        self._restore()
        self.on_restored()
        self._login.settle(None)
        self._release_waiters(None)
        if is_back:
            self.hooks.resumed()

    def _restore(self) -> None:
        """Everything the broker must know of, and then what it has not answered (J4)."""
        unanswered = list(self._requests.values())
        if self.options.watch_topic_advisories:
            self.temporaries.watch()
        self.temporaries.restore()
        for session in self._sessions.values():
            session.restore()
        for producer in self._producers.values():
            if producer.is_announced:
                self._announce_again(producer.info())
        for consumer in self._consumers.values():
            if consumer.is_announced:
                self._announce_again(consumer.info())
                consumer.wake()
        for session in self._sessions.values():
            session.transactions.restore()
        for request in unanswered:
            if request.number in self._requests and not request.in_transaction:
                self._put_request(request)

    def _announce_again(self, command: commands.BaseCommand) -> None:
        self.request(command, survives=False).then(self.report)

    def report(self, reply: Reply[Any]) -> None:
        """Somebody should know of an error that nobody waits for; that a link was lost is told anyway."""
        if isinstance(reply.error, JMSError) and not isinstance(reply.error, ConnectionFailedError):
            self.hooks.failed(reply.error)

    # ---- commands ----------------------------------------------------------------------------------------------

    def number(self) -> int:
        """The number of the next command."""
        return next(self._command_ids) % _COMMAND_IDS

    def request(
        self, command: commands.BaseCommand | OutgoingMessage, *, survives: bool = True, in_transaction: bool = False
    ) -> Reply[Structure]:
        """Send *command* and have it answered; while the link is down it waits, if it *survives* that."""
        self.check_usable()
        reply: Reply[Structure] = Reply()
        if not survives and self.link not in (Link.UP, Link.LOGGING_IN):
            reply.fail(ConnectionFailedError(f"not connected to a broker now: {self.link.value}"))
            return reply
        request = Request(self.number(), command, reply, survives, in_transaction)
        self._requests[request.number] = request
        if isinstance(command, OutgoingMessage):
            self.unanswered_bytes += command.window_bytes
            reply.then(lambda _: self._no_longer_unanswered(command))
        if self.is_up:
            self._put_request(request)
        return reply

    def unanswered(self) -> dict[Reply[Structure], Request]:
        """What waits for an answer, by its reply."""
        return {request.reply: request for request in self._requests.values()}

    def repeat(self, request: Request) -> None:
        """Send again, on a new link, what is unanswered."""
        self._put_request(request)

    def answer(self, request: Request, error: JMSError | None) -> None:
        """The broker need not answer *request* any more: it is known what came of it."""
        self._requests.pop(request.number, None)
        if error is None:
            request.reply.settle(commands.Response())
        else:
            request.reply.fail(error)

    def _no_longer_unanswered(self, message: OutgoingMessage) -> None:
        was_too_much = self.unanswered_bytes > UNANSWERED_BYTES_MAX
        self.unanswered_bytes -= message.window_bytes
        if was_too_much and self.unanswered_bytes <= UNANSWERED_BYTES_MAX:
            self.hooks.has_room()

    def _put_request(self, request: Request) -> None:
        command = request.command
        if isinstance(command, OutgoingMessage):
            assert self._protocol is not None
            self._protocol.send_message(command, request.number, True)
            self._tell_of_output(self._protocol)
        else:
            command.command_id = request.number
            command.response_required = True
            self._put(command)

    def one_way(self, command: commands.BaseCommand, *, response_required: bool = False, always: bool = False) -> bool:
        """Send *command* and forget it; whether the link took it."""
        if self.link is not Link.UP and not (always and self._protocol is not None):
            return False
        command.command_id = self.number()
        command.response_required = response_required
        self._put(command)
        return True

    def send_message(self, message: OutgoingMessage, *, in_transaction: bool) -> None:
        """Send a message that nobody confirms; only while the link is up."""
        assert self._protocol is not None
        number = next(self._command_ids) % _COMMAND_IDS
        if not in_transaction:
            self._unproven_number = number
            self._unproven += 1
        self._protocol.send_message(message, number, False)
        self._tell_of_output(self._protocol)

    def _tell_of_output(self, protocol: ClientProtocol) -> None:
        if protocol.waiting_bytes < MUCH_OUTPUT_BYTES:
            self.on_output()
        else:
            self.on_much_output()

    def send_ack(
        self,
        template: AckTemplate,
        ack_type: int,
        first_id: bytes | None,
        last_id: bytes,
        count: int,
        *,
        cause: Throwable | None,
        wants_answer: bool,
    ) -> Reply[Structure] | None:
        """Acknowledge; without a link there is nothing to acknowledge."""
        if self.link is not Link.UP:
            return None
        if cause is not None or wants_answer:
            ack = template.command(0, False, ack_type, first_id, last_id, count)
            ack.poison_cause = cause
            if wants_answer:
                return self.request(ack, survives=False)
            self.one_way(ack)
            return None
        self._put_ack(template, ack_type, first_id, last_id, count)
        return None

    def acknowledge(self, ack_type: int, dispatch: Dispatch) -> None:
        """`send_ack` for one message, without an answer."""
        if self.link is _UP:
            message_id = dispatch.encoded_id
            self._put_ack(dispatch.channel.ack_template, ack_type, message_id, message_id, 1)

    def _put_ack(
        self, template: AckTemplate, ack_type: int, first_id: bytes | None, last_id: bytes, count: int
    ) -> None:
        protocol = self._protocol
        assert protocol is not None
        protocol.send_ack(template, next(self._command_ids) % _COMMAND_IDS, ack_type, first_id, last_id, count)
        if protocol.waiting_bytes < MUCH_ACK_BYTES:
            self.on_output()
        else:
            self.on_much_output()

    def forget(self, reply: Reply[Any], error: JMSError) -> None:
        """Nobody waits for *reply* any more."""
        for number, request in self._requests.items():
            if request.reply is reply:
                del self._requests[number]
                break
        reply.fail(error)

    def _put(self, command: Structure) -> None:
        if self._protocol is not None:
            self._protocol.send(command)
            self.on_output()

    # ---- what the broker says ----------------------------------------------------------------------------------

    def _on_event(self, event: Event) -> None:
        match event:
            case Dispatch():
                self._on_dispatch(event)
            case EndOfMessages():
                consumer = self._consumers.get(event.consumer_id)
                if consumer is not None:
                    consumer.on_end_of_messages()
            case commands.Response():
                self._on_response(event)
            case commands.ProducerAck():
                self._on_producer_ack(event)
            case Agreement():
                self._on_agreement(event)
            case commands.KeepAliveInfo():
                if event.response_required:
                    self._put(commands.KeepAliveInfo(command_id=event.command_id))
            case commands.ConnectionError():
                self._on_connection_error(error_from_wire(event.exception))
            case commands.ConnectionControl():
                self.on_control(event)
            case commands.ConsumerControl():
                self._on_consumer_control(event)
            case _:  # BrokerInfo, ShutdownInfo and the like: nothing to do
                pass

    def _on_connection_error(self, error: JMSError) -> None:
        self._last_error = error
        if not (self.is_failover and isinstance(error, ConnectionFailedError)):
            self.hooks.failed(error)

    def _on_dispatch(self, dispatch: Dispatch) -> None:
        if dispatch.channel is self._last_channel and self._last_consumer is not None:
            self._last_consumer.on_dispatch(dispatch)
            return
        consumer = self._consumers.get(dispatch.consumer_id)
        if consumer is not None:
            self._last_channel, self._last_consumer = dispatch.channel, consumer
            consumer.on_dispatch(dispatch)
        elif self.temporaries.is_watching(dispatch.consumer_id):
            self.temporaries.on_advisory(dispatch)

    def _on_response(self, response: commands.Response) -> None:
        if isinstance(response, commands.ExceptionResponse):
            self._on_refusal(response.correlation_id, error_from_wire(response.exception))
            return
        if response.correlation_id > self._unproven_number:  # what was sent before has arrived
            self._unproven = 0
        request = self._requests.pop(response.correlation_id, None)
        if request is not None:
            request.reply.settle(response)

    def _on_refusal(self, number: int, error: JMSError) -> None:
        if self.is_failover and isinstance(error, ConnectionFailedError):
            # The broker stops: what it has done nobody knows, and another, or its successor, is asked again (K7).
            self._last_error = error
            self.on_broken(error)
            return
        request = self._requests.pop(number, None)
        if request is not None:
            request.reply.fail(error)
        else:
            self.hooks.failed(error)

    def _on_producer_ack(self, ack: commands.ProducerAck) -> None:
        producer = self._producers.get(ack.producer_id) if ack.producer_id is not None else None
        if producer is not None:
            producer.on_window_returned(ack.size)

    def _on_agreement(self, agreement: Agreement) -> None:
        assert self._protocol is not None
        self.peer = agreement.peer
        self.frame_bytes_max = agreement.frame_bytes_max
        self._protocol.login_finished()
        self.link = Link.GREETED
        self.on_agreed(agreement)
        if self._login is not None and self.link is Link.GREETED:
            self._introduce()

    def _on_consumer_control(self, control: commands.ConsumerControl) -> None:
        consumer = self._consumers.get(control.consumer_id) if control.consumer_id is not None else None
        if consumer is None:
            return
        if control.close:
            consumer.closed_by_broker()
        else:
            consumer.prefetch = max(0, control.prefetch)

    # ---- what belongs to it ------------------------------------------------------------------------------------

    def add_session(self, make: "Callable[[ConnectionCore, int], SessionCore]") -> "SessionCore":
        self.check_usable()
        session = make(self, next(self._session_values))
        self._sessions[session.value] = session
        self.one_way(session.info())
        return session

    def remove_session(self, session: "SessionCore") -> None:
        self._sessions.pop(session.value, None)

    def xa_decided(self, xid: commands.XATransactionId, *, committed: bool) -> None:
        """A distributed transaction has ended: every session that had a part in it must know."""
        for session in list(self._sessions.values()):
            session.transactions.xa_decided(xid, committed=committed)

    def add_consumer(self, consumer: "ConsumerCore") -> None:
        self._consumers[consumer.consumer_id] = consumer

    def remove_consumer(self, consumer: "ConsumerCore") -> None:
        self._consumers.pop(consumer.consumer_id, None)
        self._last_channel = self._last_consumer = None

    def add_producer(self, producer: "ProducerCore") -> None:
        self._producers[producer.producer_id] = producer

    def remove_producer(self, producer: "ProducerCore") -> None:
        self._producers.pop(producer.producer_id, None)

    def consumes_from(self, where: Destination) -> bool:
        return any(consumer.destination == where for consumer in self._consumers.values())

    def new_transaction_id(self) -> commands.LocalTransactionId:
        return commands.LocalTransactionId(next(self._transaction_values), self.connection_id)

    def start(self) -> None:
        """Let messages through (A1)."""
        self.check_usable()
        self.is_started = True
        for session in self._sessions.values():
            session.wake()

    def stop(self) -> None:
        """Keep messages back until `start`."""
        self.check_usable()
        self.is_started = False

    def destroy(self, where: Destination) -> Reply[Structure]:
        """Have the broker delete a destination and what is in it."""
        if where.kind.is_temporary:
            return self.temporaries.delete(where)
        if self.consumes_from(where):
            raise InvalidDestinationError(f"{where!r} has a consumer on this connection: close it first")
        info = commands.DestinationInfo(
            connection_id=self.connection_id,
            destination=destination_to_wire(where),
            operation_type=commands.DestinationOperation.REMOVE,
        )
        return self.request(info)

    def close(self) -> Reply[Structure] | None:
        """Take leave; the answer, if there is anybody to give one. Nothing can be asked from now on."""
        if self.link is Link.CLOSED:
            return None
        self.is_leaving = True
        reply = None
        if self.is_up:
            reply = self.request(commands.RemoveInfo(object_id=self.connection_id), survives=False)
            reply.then(self._say_goodbye)
        return reply

    def _say_goodbye(self, reply: Reply[Structure]) -> None:
        self._has_left = reply.error is None
        self.one_way(commands.ShutdownInfo())

    def closed(self) -> None:
        """The end: whoever still waits is told."""
        if self.link is Link.CLOSED:
            return
        self.link = Link.CLOSED
        self._protocol = None
        waiting, self._requests = self._requests, {}
        for request in waiting.values():
            request.reply.fail(IllegalStateError("the connection was closed"))
        if self._login is not None:
            self._login.fail(IllegalStateError("the connection was closed"))
        self._release_waiters(IllegalStateError("the connection was closed"))


def _preferences(uri: TcpUri | VmUri, provider_version: str) -> Preferences:
    asked = uri.wire_format
    return Preferences(
        version=asked.version,
        tight=asked.tight_encoding_enabled,
        cache=asked.cache_enabled,
        cache_size=asked.cache_size or 1024,
        stack_traces=asked.stack_trace_enabled,
        tcp_no_delay=asked.tcp_no_delay_enabled,
        size_prefix_disabled=asked.size_prefix_disabled,
        frame_bytes_max=min(asked.frame_bytes_max, FRAME_BYTES_MAX)
        if asked.frame_bytes_max_enabled
        else FRAME_BYTES_MAX,
        inactivity_ms=asked.max_inactivity_duration_ms,
        inactivity_initial_delay_ms=asked.max_inactivity_initial_delay_ms,
        provider_version=provider_version,
    )


def _lost(cause: JMSError) -> JMSError:
    """An error of its own for each who waited, so that tracebacks do not mix."""
    error = type(cause)(str(cause)) if isinstance(cause, ConnectionFailedError) else ConnectionFailedError(str(cause))
    error.__cause__ = cause
    return error


def _nothing() -> None:
    pass


def _ignore(_: object) -> None:
    pass

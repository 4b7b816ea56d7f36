"""One connection: its parts, and what must be said again after a reconnect (J2, J4).

How it works. A link (`wire_link.py`) comes up in steps: transport, wire format, login (`login.py`), then everything
that was announced before (temporary destinations, sessions, producers, consumers, open transactions), then the requests
without an answer (`requests.py`). What the broker says goes through `inbound.py`. One-way commands are not kept: what
their loss means is known where they are sent.
"""

import itertools
from collections.abc import Callable
from typing import Final, TypeVar

from ackwire.client.core.delivery import Key
from ackwire.client.core.hooks import EngineHooks, Hooks
from ackwire.client.core.ids import new_id
from ackwire.client.core.inbound import Inbound
from ackwire.client.core.login import Login
from ackwire.client.core.members import Members, Session
from ackwire.client.core.reply import Reply
from ackwire.client.core.requests import Requests
from ackwire.client.core.temporaries import Temporaries
from ackwire.client.core.wire_link import FRAME_BYTES_MAX, LinkState, WireLink, lost
from ackwire.client.errors import (
    IllegalStateError,
    InvalidDestinationError,
    JMSError,
    UnconfirmedMessagesError,
)
from ackwire.client.options import ConnectionOptions
from ackwire.client.uri import BrokerUrl, TcpUri, VmUri
from ackwire.jms.destinations import Destination
from ackwire.util.clock import Clock
from ackwire.util.lru import Recent
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.codec_fast import destination_to_wire
from ackwire.wire.openwire.structures import Structure

S = TypeVar("S", bound=Session)

_UP: Final = LinkState.UP  # members of an enumeration take time to look up


class ConnectionCore(EngineHooks):
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
        super().__init__()
        self.url = url
        self.options = options
        self.clock = clock
        self.hooks = hooks
        self.is_failover = url.failover is not None
        self.connection_id = commands.ConnectionId(f"{connection_id or new_id(clock, options.connection_id_prefix)}:1")
        self.link = WireLink(
            self,
            inflated_bytes_max=round(options.inflated_size_ratio_max * FRAME_BYTES_MAX),
            provider_version=provider_version,
        )
        self.requests = Requests(self.link, hooks, self, is_failover=self.is_failover)
        self.members = Members(self.requests)
        self.temporaries = Temporaries(self.connection_id, self.link, self.requests, self.members)
        self._login = Login(
            self.link,
            self.requests,
            hooks,
            self,
            options=options,
            clock=clock,
            connection_id=self.connection_id,
            is_failover=self.is_failover,
            restore=self._restore,
        )
        self._inbound = Inbound(
            self.link,
            self.requests,
            self._login,
            self.members,
            self.temporaries,
            hooks,
            self,
            is_failover=self.is_failover,
        )
        self.is_started = False
        self._session_values = itertools.count(1)
        self._transaction_values = itertools.count(1)
        self.acknowledged: Recent[Key, None] | None = None
        """What was acknowledged and might come again, because the acknowledgement was lost with its link (J4)."""
        if self.is_failover and options.check_for_duplicates:
            self.acknowledged = Recent(options.audit_depth * options.audit_producers_max)
        self.is_leaving = False
        self._has_left = False
        """Whether the broker has agreed that this connection is over."""

    # ---- the engine's side -------------------------------------------------------------------------------------

    @property
    def is_up(self) -> bool:
        return self.link.state is _UP

    def transport_connected(self, uri: TcpUri | VmUri) -> None:
        """There is a way to a broker: say hello."""
        if not self.link.is_over:
            self.link.connect(uri)

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the broker and do what they say. Raises `RemoteProtocolError` if they say nothing."""
        link, inbound = self.link, self._inbound
        protocol = link.protocol
        if protocol is None:
            return
        protocol.receive_data(data)
        for event in protocol.events():
            inbound.on_event(event)
            if link.protocol is not protocol:  # an answer has led to the end of the link
                return

    def receive_eof(self) -> None:
        """The broker will send no more. Raises `RemoteProtocolError` in the middle of a frame."""
        if self.link.protocol is not None:
            self.link.protocol.receive_eof()

    def data_to_send(self) -> list[bytes]:
        """Take the bytes that are waiting to be written."""
        protocol = self.link.protocol
        return [] if protocol is None else protocol.data_to_send()

    @property
    def waiting_bytes(self) -> int:
        """What `data_to_send` would return now."""
        protocol = self.link.protocol
        return 0 if protocol is None else protocol.waiting_bytes

    def send_keep_alive(self, response_required: bool) -> None:
        self.link.one_way(commands.KeepAliveInfo(), response_required=response_required, always=True)

    def transport_lost(self, error: JMSError, *, final: bool) -> None:
        """The way to the broker is gone. Unless *final*, another one is being looked for."""
        link = self.link
        if link.is_over:
            return
        if self._has_left:
            self.closed()  # the broker was only quicker to hang up
            return
        link.epoch += 1  # what came on this link is of the past, whether or not there is another one yet
        was_in_use = self._login.has_begun and link.protocol is not None
        cause = link.cause_of_loss(error)
        link.protocol = None
        self._tell_of_unconfirmed(cause)
        if final and self.is_leaving:
            self.closed()  # as was asked for, whichever side closed it first
            return
        if final:
            self._fail(cause)
            return
        link.state = LinkState.DOWN
        for reply in self.requests.take_lost():
            reply.fail(lost(cause))
        self.members.interrupted()
        if was_in_use:
            self.hooks.interrupted(cause)

    def _tell_of_unconfirmed(self, cause: JMSError) -> None:
        """What was sent without confirmation may be gone, and only we know of it (N3)."""
        if self.link.unconfirmed and not self.is_leaving:
            text = (
                f"{self.link.unconfirmed} messages that were sent without confirmation may be lost with the "
                "connection; persistent ones that are sent without jms.useAsyncSend are confirmed, and so are all with "
                "failover's trackMessages=true"
            )
            error = UnconfirmedMessagesError(text)
            error.__cause__ = cause
            self.hooks.failed(error)
        self.link.unconfirmed = 0

    def _fail(self, cause: JMSError) -> None:
        self.link.state = LinkState.FAILED
        self.link.failure = failure = lost(cause)
        for reply in self.requests.take_all():
            reply.fail(lost(cause))
        self._login.fail(lost(cause))
        self.link.release_waiters(lost(cause))
        self.members.failed()
        self.hooks.failed(failure)

    # ---- login -------------------------------------------------------------------------------------------------

    @property
    def client_id(self) -> str | None:
        return self._login.client_id

    @client_id.setter
    def client_id(self, value: str) -> None:
        self._login.client_id = value

    def check_named(self) -> None:
        """Durable subscriptions belong to a name that is known again next time."""
        self._login.check_named()

    def login(self) -> Reply[None]:
        """Introduce this client, once; answered when the broker has agreed."""
        return self._login.begin()

    def _restore(self) -> None:
        """Everything the broker must know of, and then what it has not answered (J4)."""
        unanswered = self.requests.in_order()
        if self.options.watch_topic_advisories:
            self.temporaries.watch()
        self.temporaries.restore()
        self.members.restore()
        self.requests.repeat(unanswered)

    # ---- what belongs to it ------------------------------------------------------------------------------------

    def add_session(self, make: "Callable[[ConnectionCore, int], S]") -> S:
        self.link.check_usable()
        session = make(self, next(self._session_values))
        self.members.sessions[session.value] = session
        self.link.one_way(session.info())
        return session

    def new_transaction_id(self) -> commands.LocalTransactionId:
        return commands.LocalTransactionId(next(self._transaction_values), self.connection_id)

    def start(self) -> None:
        """Let messages through (A1)."""
        self.link.check_usable()
        self.is_started = True
        for session in self.members.sessions.values():
            session.wake()

    def stop(self) -> None:
        """Keep messages back until `start`."""
        self.link.check_usable()
        self.is_started = False

    def destroy(self, where: Destination) -> Reply[Structure]:
        """Have the broker delete a destination and what is in it."""
        if where.kind.is_temporary:
            return self.temporaries.delete(where)
        if self.members.consumes_from(where):
            raise InvalidDestinationError(f"{where!r} has a consumer on this connection: close it first")
        info = commands.DestinationInfo(
            connection_id=self.connection_id,
            destination=destination_to_wire(where),
            operation_type=commands.DestinationOperation.REMOVE,
        )
        return self.requests.request(info)

    # ---- end ---------------------------------------------------------------------------------------------------

    def close(self) -> Reply[Structure] | None:
        """Take leave; the answer, if a broker is there to give one. No request can be made from now on."""
        if self.link.is_closed:
            return None
        self.is_leaving = True
        reply = None
        if self.is_up:
            reply = self.requests.request(commands.RemoveInfo(object_id=self.connection_id), survives=False)
            reply.then(self._say_goodbye)
        return reply

    def _say_goodbye(self, reply: Reply[Structure]) -> None:
        self._has_left = reply.error is None
        self.link.one_way(commands.ShutdownInfo())

    def closed(self) -> None:
        """The end: every call that still waits fails."""
        if self.link.is_closed:
            return
        self.link.state = LinkState.CLOSED
        self.link.protocol = None
        for reply in self.requests.take_all():
            reply.fail(IllegalStateError("the connection was closed"))
        self._login.fail(IllegalStateError("the connection was closed"))
        self.link.release_waiters(IllegalStateError("the connection was closed"))

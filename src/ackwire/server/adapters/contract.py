"""What a protocol brings to the server: a factory that knows its first bytes, a wire protocol, and an adapter.

    ProtocolFactory.recognises(first bytes)    does a client of this protocol begin like that?
    ProtocolFactory.open(context)              its `WireProtocol` (bytes to events) and `Adapter` (events to verbs)

`server/peer.py` has the socket, time limits and flow control, and knows no protocol. The broker has the verbs
(`broker/broker.py`), and knows no protocol either. A new protocol is one factory and what it opens: messages for the
broker are written and read with `wire/canonical.py`. `server/protocols.py` lists the factories.

A plugin inherits from the classes `Adapter`, `AdaptedClient` and `WireProtocol`. It implements the protocols
(`ProtocolFactory`, `ConsumerPort`) without inheriting from them: compiled ones cannot be inherited from.
"""

from collections.abc import Iterator
from typing import Any, Final, Protocol, final

from ackwire.broker.broker import LAST_DELIVERED_UNKNOWN, Broker
from ackwire.broker.session import ClientPort, Connection
from ackwire.broker.slices import GIVE_WAY_SECONDS, Budget
from ackwire.broker.takeover import Claim
from ackwire.compilation import mypyc_attr
from ackwire.config import Settings
from ackwire.config.listener_uri import ListenerUri
from ackwire.errors import AckwireError, UnknownResource
from ackwire.util.clock import Clock
from ackwire.wire.protocol import WireProtocol

_READ_SECONDS: Final = 0.005
"""How long the commands of one client may hold up others in a turn. What is left waits for a later turn, and so does
what the client sends meanwhile."""

_SURE_SECONDS: Final = 2 * GIVE_WAY_SECONDS
"""How long they may if others wait to be read. What one read brings usually takes less: to come back to the rest of it
costs as much as a few messages."""

_EVENTS_PER_LOOK: Final = 8
"""Commands between two looks at the clock: most reads have fewer, and cost no look."""


class AdaptedPeer(ClientPort, Protocol):
    """What an adapter asks of the peer that it stands behind (`server/peer.py`)."""

    @property
    def is_closing(self) -> bool:
        """Whether nothing that the client says counts any more."""

    def others_wait(self) -> bool:
        """Whether clients behind other sockets wait to be read."""

    def handshake_finished(self, inactivity_ms: int, initial_delay_ms: int, tcp_no_delay: bool) -> None:
        """Both sides know how they speak. The peer sends keep-alives and watches for silence, unless the time is 0."""

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
class ConnectionContext:
    """What a new connection has to do with."""

    __slots__ = ("address", "broker", "peer", "settings", "uri")

    def __init__(
        self, *, peer: AdaptedPeer, broker: Broker, settings: Settings, uri: ListenerUri, address: str
    ) -> None:
        self.peer = peer
        self.broker = broker
        self.settings = settings
        self.uri = uri
        """Of the listener that has accepted the connection."""
        self.address = address
        """Of the client, for people."""


@mypyc_attr(allow_interpreted_subclasses=True)
class AdaptedClient:
    """One client, as its adapter and the parts of an adapter see it. Refers to none of them."""

    def __init__(self, peer: AdaptedPeer, broker: Broker, clock: Clock) -> None:
        self.peer = peer
        self.broker = broker
        self.clock = clock
        self.connection: Connection | None = None
        """The client as the broker knows it, since its login; closed if the client has taken that back, and it may log
        in again."""
        self.claim: Claim | None = None
        """A login that waits until it is known whether the client is admitted."""
        self.is_held = False
        """Whether a login, a large commit or a consumer with a long selector takes more turns: what comes behind that
        must not overtake it."""
        self._held_by = 0
        """The id of that command."""

    def wait(self, command_id: int) -> None:
        """Carry out nothing more until the command of that id is done."""
        self.is_held, self._held_by = True, command_id
        self.peer.wait_for_command()

    def go_on_behind(self, command_id: int) -> None:
        """That command is done: if others wait for it, they are next."""
        if self.is_held and self._held_by == command_id:
            self.is_held = False
            self.peer.command_done()

    @property
    def open_connection(self) -> Connection:
        """Raises `UnknownResource` if the client has closed it."""
        connection = self.connection
        assert connection is not None, "handlers run after login"
        if not connection.is_open:
            raise UnknownResource(f"{connection!r} is closed")
        return connection


@mypyc_attr(allow_interpreted_subclasses=True)  # protocols of plugins
class Adapter:
    """Carries out what one client says, and says to it what the broker has for it.

    A protocol implements `handle` and the `send_…` methods, and sets `client.connection` when the broker has admitted
    the client. `handle_all` calls `handle` for each event, in slices, so that one client does not hold up the others.
    """

    def __init__(self, client: AdaptedClient, protocol: WireProtocol) -> None:
        self.client = client
        self.protocol = protocol
        self.slow_command: str | None = None
        """The last command of what was read last that took long."""
        self._events: Iterator[Any] | None = None
        """What was received and not carried out yet, because that would have held up others."""

    # ---- what a protocol implements ----------------------------------------------------------------------------

    def handle(self, event: Any) -> None:
        """Carry out one event. Raises `RemoteProtocolError` if it has no place here."""
        raise NotImplementedError

    def send_keep_alive(self) -> None:
        """Say anything, so that the client knows that the broker is there. Nothing, where a protocol has no word."""

    def send_shutdown(self) -> None:
        """Say that the broker stops."""

    def send_connection_error(self, error: AckwireError) -> None:
        """Tell the client about an error that belongs to no command it waits for."""

    # ---- what the peer calls -----------------------------------------------------------------------------------

    @property
    def doing(self) -> str:
        """What made the last read of this client's commands long, for the loop's monitor."""
        connection = self.client.connection
        who = "" if connection is None else f" of client {connection.client_id}"
        return f"{self.slow_command or 'messages and acks'}{who}"

    def handle_all(self, budget: Budget | None = None) -> bool:
        """Carry out what the protocol has received, until the peer is to be closed, a command waits, or time is over.

        True if there is more: this is to be called again, in another turn. The clock is looked at only now and then.
        """
        if self.is_waiting:
            return False
        client = self.client
        peer = client.peer
        events = self._begin_read()
        left = _EVENTS_PER_LOOK
        for event in events:
            self.handle(event)
            if peer.is_closing:
                return False
            if client.is_held:
                self._events = events
                return False
            left -= 1
            if left <= 0 or self.slow_command is not None:
                left = _EVENTS_PER_LOOK
                if budget is None:
                    budget = self._read_budget()
                if budget.is_spent:
                    self._events = events
                    return True
        return False

    def _read_budget(self) -> Budget:
        """For the rest of what one read has brought."""
        client = self.client
        sure_seconds = _SURE_SECONDS if self.slow_command is None else 0.0
        return Budget(client.clock, _READ_SECONDS, sure_seconds=sure_seconds, others_wait=client.peer.others_wait)

    def _begin_read(self) -> Iterator[Any]:
        """What is to be carried out: what was left the last time, or what has been received since.

        A method of its own: where it is assigned to, the compiler takes an attribute for None from there on (ADR 7).
        """
        events = self._events or self.protocol.events()
        self._events = None
        self.slow_command = None
        return events

    @property
    def is_waiting(self) -> bool:
        """Whether a login or a large commit goes on in later turns; until it is done nothing else is carried out."""
        return self.client.is_held

    def resume(self) -> None:
        """The socket takes output again."""
        connection = self.client.connection
        if connection is not None and connection.is_open:
            self.client.broker.resume(connection)

    def is_needed_to_drain(self) -> bool:
        """Whether the client's acks may make space that others wait for."""
        connection = self.client.connection
        return connection is not None and self.client.broker.flow.is_needed_to_drain(connection)

    def connection_lost(self) -> None:
        """The socket has gone: so has everything the client announced."""
        client = self.client
        if client.claim is not None:
            client.broker.withdraw(client.claim)
            client.claim = None
        self._events = None
        if client.connection is not None:
            client.broker.disconnect(client.connection, LAST_DELIVERED_UNKNOWN)


class ProtocolFactory(Protocol):
    """One protocol that listeners can speak. One factory serves all connections, and keeps nothing about any."""

    @property
    def name(self) -> str:
        """For people: `OpenWire`."""

    @property
    def scheme(self) -> str:
        """Of listener URIs: `stomp` stands for `stomp://`, `stomp+nio://`, `stomp+ssl://` and `stomp+nio+ssl://`."""

    @property
    def first_command(self) -> str:
        """What a client says first, for the error if it does not."""

    @property
    def login_command(self) -> str:
        """What it says to be admitted, for the same purpose."""

    def recognises(self, first_bytes: bytes) -> bool | None:
        """Whether a client of this protocol begins so; None if that takes more bytes.

        Decides by `wire.detect.FIRST_BYTES_MAX` bytes at the latest.
        """

    def open(self, context: ConnectionContext) -> Adapter:
        """What a new connection speaks. Raises nothing."""

"""The network of a simulation: bytes on their way, between one client and one server end per link.

A link keeps the order of its bytes and delivers them in any portions, whenever the simulation likes. It can be cut at
any byte. The two ends learn of that at different times: the client at once, the server when it has read what was still
on its way, or when the client comes back under the same connection id.
"""

import math
from collections.abc import Callable
from typing import Any, Final, Protocol, cast

from ackwire.broker.broker import Broker
from ackwire.broker.slices import Budget
from ackwire.config import Settings
from ackwire.jms.message import Message
from ackwire.server.adapters.openwire import OpenWireAdapter
from ackwire.util.clock import Clock
from ackwire.wire.openwire.cached_encode import Consumer
from ackwire.wire.openwire.negotiation import Preferences
from ackwire.wire.openwire.protocol import OpenWireProtocol
from tests.simulation.audit import Violation

CHALLENGE_SECONDS: Final = 1.0
"""How long the broker waits for a client that it has asked whether it is still there."""


class Ground(Protocol):
    """What the ends of a link need of the simulation."""

    @property
    def broker(self) -> Broker: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def settings(self) -> Settings: ...

    def on_dispatch(self, peer: "SimulatedPeer", consumer: Consumer, message: Message) -> None: ...

    def note(self, text: str) -> None: ...

    def touch(self) -> None:
        """The broker is about to do something."""
        ...


class ClientEnd(Protocol):
    """The client's end of a link."""

    name: str

    def receive(self, data: bytes) -> None: ...

    def connection_lost(self) -> None: ...


class Link:
    """One connection: bytes up to the server and down to the client."""

    def __init__(self, ground: Ground, client: ClientEnd, number: int, wants: Preferences) -> None:
        self._ground = ground
        self._client: ClientEnd | None = client
        self.name = f"{client.name}/{number}"
        self.up = bytearray()
        self.down = bytearray()
        self._up_ends = False
        """The client has closed its end: what is in `up` is all there will be."""
        self._down_ends = False
        self.peer = SimulatedPeer(ground, self, wants)

    @property
    def is_done(self) -> bool:
        return self._client is None and self.peer.is_closed

    @property
    def can_go_up(self) -> bool:
        return not self.peer.is_closed and not self.peer.is_held and bool(self.up or self._up_ends)

    @property
    def can_go_down(self) -> bool:
        return self._client is not None and bool(self.down or self._down_ends)

    def deliver_up(self, count: int) -> None:
        """The next *count* bytes reach the server, or the end does."""
        data = bytes(self.up[:count])
        del self.up[:count]
        if data:
            self.peer.receive(data)
        elif self._up_ends:
            self.peer.connection_lost()

    @property
    def has_client(self) -> bool:
        return self._client is not None

    def deliver_down(self, count: int) -> None:
        client = self._client
        assert client is not None
        data = bytes(self.down[:count])
        del self.down[:count]
        if data:
            client.receive(data)
        elif self._down_ends:
            self._client = None
            client.connection_lost()
        self.peer.output_drains()

    def cut(self, surviving_bytes: int) -> None:
        """The connection breaks: *surviving_bytes* of what is on its way still reach the server."""
        client = self._client
        self._client = None
        del self.up[surviving_bytes:]
        self.down.clear()
        self._up_ends = True
        if client is not None:
            client.connection_lost()

    def server_dies(self, share: float, *, flushed: bool) -> None:
        """The broker ends in the middle of its work: the client still gets a *share* of what was on its way to it, or,
        if that was *flushed*, of what the broker had ready for it."""
        self.down += self.peer.unsent() if flushed else b""
        self.peer.is_closed = True
        data, client = bytes(self.down[: round(len(self.down) * share)]), self._client
        self.up.clear()
        self.down.clear()
        if client is not None and data:
            client.receive(data)
        if self._client is not None:  # what it received may have made it leave
            self._client.connection_lost()
        self._client = None

    def close_by_client(self) -> None:
        """The client has said all it wanted to say."""
        self._client = None
        self.down.clear()
        self._up_ends = True

    def close_by_server(self) -> None:
        self.up.clear()
        self._down_ends = True


class _WatchedProtocol(OpenWireProtocol):
    """The server's end of the wire; every dispatch is seen before it becomes bytes."""

    def __init__(self, ground: Ground, peer: "SimulatedPeer", wants: Preferences) -> None:
        super().__init__(wants)
        self._ground = ground
        self._peer = peer

    def send_dispatch(self, consumer: Consumer, message: Message, out_time_ms: int, group_first: bool = False) -> None:
        self._ground.on_dispatch(self._peer, consumer, message)
        super().send_dispatch(consumer, message, out_time_ms, group_first)


class SimulatedPeer:
    """What `server/peer.py` is to a socket, this is to a link."""

    PAUSE_BYTES = 4000

    def __init__(self, ground: Ground, link: Link, wants: Preferences) -> None:
        self._ground = ground
        self._clock = ground.broker.clock
        """Of the broker's process: what is to happen later ends with it."""
        self._link = link
        self.is_ready = True
        self.is_closed = False
        self.is_held = False
        self._is_lost = False
        self._protocol = _WatchedProtocol(ground, self, wants)
        self._adapter = OpenWireAdapter(
            peer=cast(Any, self),
            protocol=self._protocol,
            broker=ground.broker,
            clock=self._clock,
            settings=ground.settings,
            address=link.name,
        )

    def receive(self, data: bytes) -> None:
        self._ground.touch()
        self._protocol.receive_data(data)
        if self._adapter.handle_all() and not self.is_closed:
            self._go_on_later()

    def _go_on_later(self) -> None:
        """Carry out the rest of what was received in another turn of the loop."""
        self._clock.call_later(0, self._go_on)

    def _go_on(self) -> None:
        if not self.is_closed:
            self.receive(b"")
        if self._is_lost:
            self._end()

    @property
    def is_closing(self) -> bool:
        return self.is_closed

    def connection_lost(self) -> None:
        if not self.is_closed:
            self._ground.note(f"{self._link.name}: the server sees the end")
            self._ground.touch()
            self._is_lost = True
            self._end()

    def _end(self) -> None:
        """The client has gone: what it had sent counts (N2), also behind a commit that takes several turns."""
        if self.is_closed:
            return
        self._adapter.handle_all(Budget(self._ground.clock, math.inf))
        if not self._adapter.is_waiting:
            self.is_closed = True
            self.is_ready = False
            self._adapter.connection_lost()

    def flush(self) -> None:
        """What the broker has for this client goes on its way."""
        if not self.is_closed:
            self._link.down += b"".join(self._protocol.data_to_send())
            self.output_drains()

    @property
    def has_output(self) -> bool:
        """Whether the broker has something for the client that is not on its way yet."""
        return not self.is_closed and self._protocol.waiting_bytes > 0

    def unsent(self) -> bytes:
        """What the broker has ready for the client. Nothing is told that there is room for more."""
        return b"" if self.is_closed else b"".join(self._protocol.data_to_send())

    def output_drains(self) -> None:
        if not self.is_ready and not self.is_closed and len(self._link.down) < self.PAUSE_BYTES // 4:
            self.is_ready = True
            self._ground.touch()
            self._adapter.resume()

    # ---- what the adapter asks of a peer -----------------------------------------------------------------------

    def handshake_finished(self, inactivity_ms: int, initial_delay_ms: int, tcp_no_delay: bool) -> None: ...

    def others_wait(self) -> bool:
        return False

    def login_finished(self) -> None:
        self._protocol.login_finished()

    def wait_for_command(self) -> None: ...

    def command_done(self) -> None:
        self._go_on_later()

    def challenge(self, on_verdict: Callable[[bool], None]) -> None:
        """The client's system answers if the client has this connection still."""
        self._clock.call_later(CHALLENGE_SECONDS, lambda: on_verdict(self._link.has_client))

    def output_waits(self) -> None:
        if self._protocol.waiting_bytes + len(self._link.down) >= self.PAUSE_BYTES:
            self.is_ready = False

    @property
    def has_received_all(self) -> bool:
        return not self.has_output and not self._link.down

    def hold(self, held: bool) -> None:
        self.is_held = held

    def close(self, reason: str) -> None:
        self._close(reason)

    def close_quietly(self, reason: str) -> None:
        self._close(reason)

    def close_later(self, seconds: float, reason: str) -> None:
        self._clock.call_later(seconds, lambda: self._close(reason))

    def fail(self, reason: str) -> None:
        raise Violation(f"{self._link.name}: the server calls the client's bytes wrong: {reason}")

    def _close(self, reason: str) -> None:
        if not self.is_closed:
            self._ground.note(f"{self._link.name}: the server closes: {reason}")
            self.flush()
            self.is_closed = True
            self.is_ready = False
            self._ground.touch()
            self._adapter.connection_lost()
            self._link.close_by_server()

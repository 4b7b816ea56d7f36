"""One socket, its wire protocol and the adapter between that and the broker.

Per turn of the loop: everything that was received is decoded and acted upon, and what that put out, here and at other
peers, leaves in one write per peer. Nothing here grows with what a peer does or leaves undone:

* before login, frames are small, only handshake commands are taken, and the time is limited;
* frames that have arrived in part share a bounded room (`receive_room.py`): a peer waits unread for its part of it;
* a peer that is not read from is looked at every second: one that has hung up is read to its end, unless it left in the
  middle of a frame that has no room, and one whose acks may be needed is read again;
* a peer that is gone refers to nothing: protocol, adapter and buffers go with it at once, without the help of a
  garbage collector;
* a peer that does not read gets no more messages, and later is not read from (`peer_output.py`);
* a peer that breaks a rule gets an error where the protocol has one for it, and is closed, with one line in the log.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, final

from ackwire.broker.broker import Broker
from ackwire.broker.slices import Budget
from ackwire.config import Settings
from ackwire.config.listener_uri import ListenerUri
from ackwire.errors import BrokerError, RemoteProtocolError
from ackwire.server.adapters.contract import ConnectionContext, ProtocolFactory
from ackwire.server.deadline import Deadline
from ackwire.server.frame_room import LITTLE_BYTES, FrameRoom
from ackwire.server.listener import ConnectionGate
from ackwire.server.liveness import Challenge, system_confirms
from ackwire.server.peer_output import PeerOutput
from ackwire.server.reading import COMMAND_WAITS, LONG_COMMANDS, NO_ROOM, NO_SPACE
from ackwire.server.sockets import (
    bare_descriptor,
    disable_no_delay,
    has_hung_up,
    printable,
    unread_bytes,
)
from ackwire.server.turn import Turn
from ackwire.util.clock import Clock
from ackwire.wire.detect import detect
from ackwire.wire.inactivity import InactivityMonitor

_CLOSE_TIMEOUT_SECONDS: Final = 5.0
"""How long a closing peer may take to read its last bytes."""

_UNTIL_DONE_SECONDS: Final = 3600.0
"""For what a client has left: 64 KiB of commands and no more."""

_log = logging.getLogger(__name__)


@final
class Peer(PeerOutput):
    """The server's end of one connection. What asyncio has for it comes through `asyncio_protocol.py`."""

    def __init__(
        self,
        *,
        broker: Broker,
        clock: Clock,
        settings: Settings,
        uri: ListenerUri,
        gate: ConnectionGate,
        peers: "set[Peer]",
        turn: Turn,
        protocols: Sequence[ProtocolFactory],
    ) -> None:
        """*protocols* are those that the listener of *uri* speaks."""
        super().__init__(clock=clock, settings=settings, turn=turn)
        self._broker = broker
        self._clock = clock
        self._uri = uri
        self._gate = gate
        self._peers = peers
        self._protocols = protocols
        self._login_command = ""
        """What the client has to say to be admitted, in the words of its protocol."""
        self._room = FrameRoom(broker.receive_room)
        self._little = turn.received[:LITTLE_BYTES]
        self._receive_buffer = self._little
        self._address = "?"
        self._first_bytes = b""
        self._deadline = Deadline(clock)
        self._leaving = False
        self._is_going_on = False
        """Whether commands that were read wait for a later turn."""
        self._reads = 0
        self._is_lost = False
        """Whether the socket has gone; what was read from it may not be carried out yet."""

    def __repr__(self) -> str:
        return f"peer {self._address}"

    @property
    def doing(self) -> str:
        """What it had done in this turn, for the loop's monitor."""
        return f"{self!r}: {'its login' if self._adapter is None else self._adapter.doing}"

    # ---- the socket's side -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        # A pair of sockets has no names; the URI has the one that it was given.
        self._address = printable(transport.get_extra_info("peername") or self._uri)
        if not self._gate.try_enter():
            _log.warning("%r refused: %s has %d connections, its limit", self, self._uri, self._gate.limit)
            self._transport = None
            transport.abort()
            return
        self._peers.add(self)
        self._descriptor = bare_descriptor(transport)
        self._reading.begin(transport, self._look_at_unread)
        if self._descriptor >= 0:
            self._turn.read_from(self._descriptor, self._read)
        transport.set_write_buffer_limits(high=self._write_pause_bytes, low=self._write_pause_bytes // 4)
        seconds = self._settings.handshake.wire_format_timeout_seconds
        wanted = " or ".join(factory.first_command for factory in self._protocols)
        self._deadline.set(seconds, lambda: self.fail(f"it sent no {wanted} in {seconds:g} s"))
        if not self._uri.auto:
            self._speak(self._protocols[0])

    def _read(self) -> bool:
        """Take what the socket has; False if that is for the transport to see."""
        if self._reading.against:
            return True  # since this turn began
        if self.is_closing:
            return False
        try:
            nbytes = os.readv(self._descriptor, (self.receive_buffer,))
        except OSError:
            return False
        if nbytes:
            self.received(nbytes)
        return nbytes > 0

    @property
    def receive_buffer(self) -> memoryview:
        """Where bytes from its socket go. Small while the room for frames is crowded, unless its frame has room."""
        return self._little if self._room.is_tight else self._receive_buffer

    def received(self, nbytes: int) -> None:
        """So many bytes came to where the turn has them put."""
        self.data_received(bytes(self._receive_buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        if self.is_closing:
            return
        self._reads += 1
        if self._monitor is not None:
            self._monitor.heard()
        try:
            self._take(data)
        except RemoteProtocolError as error:
            self.fail(str(error))
        except Exception:
            self._fail_by_bug()

    def _fail_by_bug(self) -> None:
        """A bug of ours: it ends this connection, loudly, and no other."""
        _log.exception("%r closed: an error in the broker while handling its commands", self)
        self._close("an error in the broker")

    def _take(self, data: bytes) -> None:
        if self._protocol is None:
            self._first_bytes += data
            factory = detect(self._first_bytes, self._protocols)
            if factory is None:
                return
            self._speak(factory)
            data = self._first_bytes
            self._first_bytes = b""
        protocol, adapter = self._protocol, self._adapter
        assert protocol is not None
        assert adapter is not None
        protocol.receive_data(data)
        if self._is_going_on:
            return  # this comes behind what waits
        if adapter.handle_all() and not self.is_closing:
            self._is_going_on = True
            self._reading.set(False, LONG_COMMANDS)
            self._broker.slices.start(self._go_on)
        if protocol.waiting_bytes:
            self.flush_soon()
        if not self._is_going_on and not self.is_closing and not self._room.has_room(self, protocol):
            self._reading.set(False, NO_ROOM)

    def _go_on(self, budget: Budget) -> bool:
        """Carry out more of what was read in an earlier turn; whether there is still more."""
        if not self._is_going_on or self.is_closing:
            return False
        self._carry_on(budget)
        return self._is_going_on

    def _carry_out_the_rest(self) -> None:
        """The client has left: what it had sent counts (N2)."""
        self._carry_on(Budget(self._clock, _UNTIL_DONE_SECONDS))

    def _carry_on(self, budget: Budget) -> None:
        adapter = self._adapter
        assert adapter is not None
        try:
            self._is_going_on = adapter.handle_all(budget)
        except RemoteProtocolError as error:
            self._is_going_on = False
            self.fail(str(error))
        except Exception:
            self._is_going_on = False
            self._fail_by_bug()
        if not self._is_going_on and not self.is_closing:
            assert self._protocol is not None
            if not self._room.has_room(self, self._protocol):
                self._reading.set(False, NO_ROOM)
            self._reading.set(True, LONG_COMMANDS)

    def eof_received(self) -> None:
        if self._is_going_on and not self.is_closing:
            self._carry_out_the_rest()
        if self.is_closing or self._has_commands_waiting:
            return
        try:
            if self._protocol is not None:
                self._protocol.receive_eof()
            elif self._first_bytes:
                raise RemoteProtocolError(f"it left after {len(self._first_bytes)} bytes that name no protocol")
        except RemoteProtocolError as error:
            self.fail(str(error))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._reading.end()
        if self not in self._peers:
            return
        self._turn.forget(self._descriptor)
        self._descriptor = -1
        self._is_lost = True
        if not self._has_commands_waiting or self.is_closing:
            self._lose(exc)

    @property
    def _has_commands_waiting(self) -> bool:
        """Whether a large commit is under way, and perhaps more behind it: what a client had sent counts (N2)."""
        return not self._room.is_stranger and self._adapter is not None and self._adapter.is_waiting

    def _lose(self, exc: Exception | None) -> None:
        if self._is_going_on and not self.is_closing:
            self._carry_out_the_rest()
            if self._has_commands_waiting and not self.is_closing:
                return  # for its end
        self._leave()
        self._stop_timers()
        if not self.is_closing:
            _log.debug("%r has gone: %s", self, exc or "it closed the connection")
        self.is_closing = True
        self.is_ready = False
        self._end()

    def _leave(self) -> None:
        if self in self._peers:
            self._peers.discard(self)
            self._gate.leave()

    # ---- the receive room's side -------------------------------------------------------------------------------

    def go_on(self) -> None:
        """There is room for the frame that has arrived in part."""
        self._reading.set(True, NO_ROOM)

    def give_room_up(self, reason: str) -> None:
        """Its frame has had room for too long."""
        self.fail(reason)

    # ---- the adapter's side ------------------------------------------------------------------------------------

    def others_wait(self) -> bool:
        """Whether clients behind other sockets wait to be read."""
        return self._turn.others_wait(self._descriptor)

    def handshake_finished(self, inactivity_ms: int, initial_delay_ms: int, tcp_no_delay: bool) -> None:
        """Both sides know how they speak: the inactivity monitor starts, the login is awaited."""
        seconds = self._settings.handshake.login_timeout_seconds
        self._deadline.set(seconds, lambda: self.fail(f"it sent no {self._login_command} in {seconds:g} s"))
        if not tcp_no_delay:
            disable_no_delay(self._transport)
        if inactivity_ms > 0:
            assert self._adapter is not None
            self._monitor = InactivityMonitor(
                self._clock,
                period_ms=inactivity_ms,
                initial_delay_ms=initial_delay_ms,
                send_keep_alive=self._adapter.send_keep_alive,
                on_silence=lambda silent: self.fail(f"nothing was heard from it for {silent:g} s"),
            )
            self._reading.monitor = self._monitor

    def login_finished(self) -> None:
        """The client is known: no more deadlines."""
        assert self._protocol is not None
        self._room.leave(self)
        self._room.is_stranger = False
        self._receive_buffer = self._turn.received
        self._protocol.login_finished()
        self._deadline.cancel()

    def fail(self, reason: str) -> None:
        """The peer broke a rule: tell it, if there are words for it, and close."""
        if self.is_closing:
            return
        _log.warning("%r closed: %s", self, reason)
        if self._adapter is not None:
            self._adapter.send_connection_error(RemoteProtocolError(reason))
        self._close(reason)

    def fail_for(self, error: BrokerError) -> None:
        """The broker cannot go on: tell the peer why, and close."""
        if not self.is_closing:
            if self._adapter is not None:
                self._adapter.send_connection_error(error)
            self._close(str(error))

    def close(self, reason: str) -> None:
        """End the connection for a reason that is not the peer's fault."""
        if not self.is_closing:
            _log.info("%r closed: %s", self, reason)
            self._close(reason)

    def close_quietly(self, reason: str) -> None:
        """End the connection because the client is done with it."""
        if not self.is_closing:
            self._close(reason)

    def hold(self, held: bool) -> None:
        """Stop reading, or go on: its sends wait for space."""
        self._reading.set(not held, NO_SPACE)

    def challenge(self, on_verdict: Callable[[bool], None]) -> None:
        """Find out whether the client is still there: somebody says to be that client, on another connection."""
        assert self._adapter is not None
        self._adapter.send_keep_alive()
        Challenge(
            self._clock,
            grace_seconds=self._settings.connection.takeover_grace_seconds,
            is_there=partial(self._is_there, self._reads),
            on_verdict=on_verdict,
        )

    def _is_there(self, reads_before: int) -> bool | None:
        if self.is_closing or self._transport is None:
            return False
        if self._reads != reads_before:
            return True
        return None if self._flush_is_due else system_confirms(self._transport)

    def wait_for_command(self) -> None:
        """Nothing more is read until its login is decided, or its large commit is done."""
        self._reading.set(False, COMMAND_WAITS)

    def command_done(self) -> None:
        """Go on with what the client has sent behind that command."""
        self._reading.set(True, COMMAND_WAITS)
        self._clock.call_later(0, self._go_on_behind)

    def _go_on_behind(self) -> None:
        self.data_received(b"")
        if self._is_lost and not self._has_commands_waiting:
            self._lose(None)

    def close_later(self, seconds: float, reason: str) -> None:
        """Give the peer, which knows why, *seconds* to leave by itself; asking again does not give it more."""
        if not self._leaving:
            self._leaving = True
            self._deadline.set(seconds, lambda: self.close_quietly(reason))

    def shut_down(self) -> None:
        """The broker stops: say so, send what is waiting, close."""
        if not self.is_closing:
            if self._adapter is not None:
                self._adapter.send_shutdown()
            self._close("the broker stops")

    def abort(self) -> None:
        """Drop the connection at once."""
        if self._transport is not None:
            self._transport_writes = True
            self._transport.abort()

    # ---- inside ------------------------------------------------------------------------------------------------

    def _speak(self, factory: ProtocolFactory) -> None:
        self._login_command = factory.login_command
        context = ConnectionContext(
            peer=self, broker=self._broker, settings=self._settings, uri=self._uri, address=self._address
        )
        adapter = self._adapter = factory.open(context)
        self._protocol = adapter.protocol
        self.flush_soon()

    def _look_at_unread(self) -> None:
        """See whether a peer has hung up that we do not read from, or whether others wait for its acks."""
        reading = self._reading
        if reading.has_hung_up or has_hung_up(self._transport):
            reading.hung_up()
            self._ask_urgently()
        elif self._adapter is not None and self._adapter.is_needed_to_drain():
            reading.set(True, NO_SPACE)
            self._ask_urgently()

    def _ask_urgently(self) -> None:
        """Ask again for room for the frame that waits for it, before others. What can never be complete gets none."""
        protocol, reading = self._protocol, self._reading
        if NO_ROOM not in reading.against or protocol is None:
            return
        if reading.has_hung_up and unread_bytes(self._descriptor) < protocol.missing_bytes:
            self.fail(f"it left in the middle of a frame of {protocol.unfinished_bytes} bytes")
        elif self._room.has_room_now(self, protocol):
            reading.set(True, NO_ROOM)

    def _close(self, reason: str) -> None:
        """Stop listening to the peer, let it read what is waiting, and go."""
        self._flush()
        self.is_closing = True
        self.is_ready = False
        self._stop_timers()
        try:
            self._end()
        finally:
            if self._transport is not None:
                self._transport.close()
                self._deadline.set(_CLOSE_TIMEOUT_SECONDS, self.abort)
            elif self._is_lost:
                self._leave()
        _log.debug("%r is closing: %s", self, reason)

    def _end(self) -> None:
        """Let go of all that belongs to the connection. What refers to the peer is referred to by it no longer."""
        self._room.leave(self)
        self._first_bytes = b""
        adapter, protocol = self._adapter, self._protocol
        self._adapter = self._protocol = None
        if protocol is not None:
            protocol.drop_received()
        if adapter is not None:
            adapter.connection_lost()

    def _stop_timers(self) -> None:
        self._reading.end()
        self._deadline.cancel()
        if self._monitor is not None:
            self._monitor.stop()
            self._monitor = None

"""One socket, its wire protocol and the adapter between that and the broker.

Per turn of the loop: everything that was received is decoded and acted upon, and what that put out, here and at other
peers, leaves in one write per peer. Nothing here grows with what a peer does or leaves undone:

* before login, frames are small, only handshake commands are taken, and the time is limited;
* frames that have arrived in part share a bounded room (`receive_room.py`): a peer waits unread for its part of it;
* a peer that is not read from is looked at every second: one that has hung up is read to its end, unless it left in the
  middle of a frame that has no room, and one whose acks may be needed is read again;
* a peer that is gone refers to nothing: protocol, adapter and buffers go with it at once, without the help of a
  garbage collector;
* a peer that does not read gets no more messages once `write_pause_bytes` wait for it, and is not read from once
  `read_pause_bytes` do;
* a peer that breaks a rule is told so where the protocol has words for it, and closed, with one line in the log.
"""

import asyncio
import fcntl
import logging
import os
import select
import socket
import sys
import termios
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final, final

from ackwire import __version__
from ackwire.broker.broker import Broker
from ackwire.broker.slices import Budget
from ackwire.clock import Clock, Timer
from ackwire.config import Settings
from ackwire.errors import BrokerError, RemoteProtocolError
from ackwire.heartbeat import InactivityMonitor
from ackwire.listener_uri import ListenerUri
from ackwire.server.adapters.openwire import OpenWireAdapter
from ackwire.server.listener import ConnectionGate
from ackwire.server.liveness import Challenge, system_confirms
from ackwire.server.turn import RECEIVE_BYTES, Turn
from ackwire.wire.detect import detect
from ackwire.wire.openwire.limits import WireLimits
from ackwire.wire.openwire.negotiation import Agreement, Preferences
from ackwire.wire.openwire.protocol import OpenWireProtocol

_CLOSE_TIMEOUT_SECONDS: Final = 5.0
"""How long a closing peer may take to read its last bytes."""

_LONG_COMMANDS: Final = "its commands take long"
"""Why it is not read from until what was read is carried out."""
_UNTIL_DONE_SECONDS: Final = 3600.0
"""For what a client has left: 64 KiB of commands and no more."""

_CACHE_SLOTS: Final = 256
"""Of a connection's marshalling cache, unless its listener says otherwise, or the client 0, which stands for more.
Most use a dozen; who opens a producer for every message fills all of them, and they stay."""

_SHARE_BYTES: Final = RECEIVE_BYTES
"""What a client may have sent of a frame without having room for it: what one read brings."""

_LITTLE_BYTES: Final = 4 * 1024
"""Read at once before login, and while the room is crowded: what a peer makes us keep without having room for it."""

_UNREAD_CHECK_SECONDS: Final = 1.0
"""How often a peer is looked at that is not read from."""

_HUNG_UP: Final = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR

_NEVER: Final = -1

_NO_SPACE: Final = "its sends wait for space"
_NO_ROOM: Final = "its frame waits for room"
_DOES_NOT_READ: Final = "it does not read"
_COMMAND_WAITS: Final = "a command of its takes several turns"

_log = logging.getLogger(__name__)


@final
class Peer:
    """The server's end of one connection. What asyncio has for it comes through `asyncio_end.py`."""

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
    ) -> None:
        self._broker = broker
        self._clock = clock
        self._settings = settings
        self._uri = uri
        self._gate = gate
        self._peers = peers
        self._turn = turn
        self._room = broker.receive_room
        self._asked_at = _NEVER
        """The protocol's `arrivals` when it asked for room for a frame that is still unfinished; or `_NEVER`."""
        self._little = turn.received[:_LITTLE_BYTES]
        self._receive_buffer = self._little
        self._descriptor = -1
        """Of the socket, if we may read from it ourselves; or -1."""
        self._address = "?"
        self._transport: asyncio.Transport | None = None
        self._adapter: OpenWireAdapter | None = None
        self._protocol: OpenWireProtocol | None = None
        self._first_bytes = b""
        self._monitor: InactivityMonitor | None = None
        self._deadline: Timer | None = None
        self._flush_is_due = False
        self._write_paused = False
        self._leaving = False
        self._is_known = False
        """Whether the client has logged in."""
        self._is_going_on = False
        """Whether commands that were read wait for a later turn."""
        self._reads = 0
        self._unread_because: set[str] = set()
        """Why we do not read from it at the moment; empty while we do."""
        self._unread_check: Timer | None = None
        self._is_lost = False
        """Whether the socket has gone; what was read from it may not be carried out yet."""
        self._has_hung_up = False
        """Seen while we did not read from it: it is read to its end, whatever there is against it, as soon as there is
        room for its frame."""
        self.is_closing = False
        """Whether nothing that it says counts any more."""
        self._write_pause_bytes = settings.connection.write_pause_bytes
        self.is_ready = True
        """Whether messages may be dispatched to this peer."""

    def __repr__(self) -> str:
        return f"peer {self._address}"

    @property
    def doing(self) -> str:
        """What it had done in this turn, for the loop's monitor."""
        return f"{self!r}: {'its login' if self._adapter is None else self._adapter.doing}"

    # ---- the socket's side -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        # A pair of sockets has no names; whoever made it has given it one.
        self._address = _printable(transport.get_extra_info("peername") or self._uri)
        if not self._gate.try_enter():
            _log.warning("%r refused: %s has %d connections, its limit", self, self._uri, self._gate.limit)
            self._transport = None
            transport.abort()
            return
        self._peers.add(self)
        self._descriptor = _bare_descriptor(transport)
        if self._descriptor >= 0:
            self._turn.read_from(self._descriptor, self._read)
        transport.set_write_buffer_limits(high=self._write_pause_bytes, low=self._write_pause_bytes // 4)
        seconds = self._settings.handshake.wire_format_timeout_seconds
        self._set_deadline(seconds, lambda: self.fail(f"it sent no WireFormatInfo in {seconds:g} s"))
        if not self._uri.auto:
            self._speak_openwire()

    def _read(self) -> bool:
        """Take what the socket has; False if that is for the transport to see."""
        if self._unread_because:
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
        return self._little if self._room.is_crowded and self._asked_at == _NEVER else self._receive_buffer

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
            if detect(self._first_bytes) is None:
                return
            self._speak_openwire()
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
            self._set_reading(False, _LONG_COMMANDS)
            self._broker.slices.start(self._go_on)
        if protocol.waiting_bytes:
            self.flush_soon()
        if not self._is_going_on:
            self._look_at_room(protocol)

    def _look_at_room(self, protocol: OpenWireProtocol) -> None:
        size_bytes = protocol.unfinished_bytes
        if size_bytes > _SHARE_BYTES or self._asked_at != _NEVER or not self._is_known:
            self._ask_for_room(protocol, size_bytes)

    def _ask_for_room(self, protocol: OpenWireProtocol, size_bytes: int) -> None:
        """Let go of the room for the last frame, and receive the next one, of *size_bytes*, if there is room for it."""
        if self.is_closing:
            return
        if protocol.arrivals != self._asked_at:
            self._leave_room()
        if size_bytes > (_SHARE_BYTES if self._is_known else _LITTLE_BYTES):
            self._asked_at = protocol.arrivals
            if not self._room.ask(self, size_bytes, is_stranger=not self._is_known):
                self._set_reading(False, _NO_ROOM)

    def _leave_room(self) -> None:
        if self._asked_at != _NEVER:
            self._asked_at = _NEVER
            self._room.leave(self)

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
            self._look_at_room(self._protocol)
            self._set_reading(True, _LONG_COMMANDS)

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
        return self._is_known and self._adapter is not None and self._adapter.is_waiting

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

    def pause_writing(self) -> None:
        self._write_paused = True
        self.is_ready = False

    def resume_writing(self) -> None:
        self._write_paused = False
        self._set_reading(True, _DOES_NOT_READ)
        self._become_ready()

    # ---- the receive room's side -------------------------------------------------------------------------------

    def go_on(self) -> None:
        """There is room for the frame that has arrived in part."""
        self._set_reading(True, _NO_ROOM)

    def give_room_up(self, reason: str) -> None:
        """Its frame has had room for too long."""
        self.fail(reason)

    # ---- the adapter's side ------------------------------------------------------------------------------------

    def others_wait(self) -> bool:
        """Whether clients behind other sockets wait to be read."""
        return self._turn.others_wait(self._descriptor)

    def agreed(self, agreement: Agreement) -> None:
        """Both sides know how they speak: the inactivity monitor starts, the login is awaited."""
        seconds = self._settings.handshake.login_timeout_seconds
        self._set_deadline(seconds, lambda: self.fail(f"it sent no ConnectionInfo in {seconds:g} s"))
        if not agreement.tcp_no_delay:
            self._disable_no_delay()
        if agreement.inactivity_ms > 0:
            assert self._adapter is not None
            self._monitor = InactivityMonitor(
                self._clock,
                period_ms=agreement.inactivity_ms,
                initial_delay_ms=agreement.inactivity_initial_delay_ms,
                send_keep_alive=self._adapter.send_keep_alive,
                on_silence=self._silent_for,
            )

    def login_finished(self) -> None:
        """The client is known: no more deadlines."""
        assert self._protocol is not None
        self._leave_room()
        self._is_known = True
        self._receive_buffer = self._turn.received
        self._protocol.login_finished()
        if self._deadline is not None:
            self._deadline.cancel()

    def output_waits(self) -> None:
        """The protocol has bytes for this peer; they leave at the end of this turn."""
        protocol = self._protocol
        if protocol is None:
            return  # it has gone, and what it waited for came later
        if protocol.waiting_bytes >= self._write_pause_bytes:
            self.is_ready = False
        if not self._flush_is_due:
            self.flush_soon()

    def flush_soon(self) -> None:
        if not self._flush_is_due:
            self._flush_is_due = True
            self._turn.at_end(self._flush, can_wait=True)
            if self._monitor is not None:
                self._monitor.sent()  # here, not in _flush: the monitor can tell its own keep-alives from the rest

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
        self._set_reading(not held, _NO_SPACE)

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
        self._set_reading(False, _COMMAND_WAITS)

    def command_done(self) -> None:
        """Go on with what the client has sent behind that command."""
        self._set_reading(True, _COMMAND_WAITS)
        self._clock.call_later(0, self._go_on_behind)

    def _go_on_behind(self) -> None:
        self.data_received(b"")
        if self._is_lost and not self._has_commands_waiting:
            self._lose(None)

    def close_later(self, seconds: float, reason: str) -> None:
        """Give the peer, which knows why, *seconds* to leave by itself; asking again does not give it more."""
        if not self._leaving:
            self._leaving = True
            self._set_deadline(seconds, lambda: self.close_quietly(reason))

    def shut_down(self) -> None:
        """The broker stops: say so, send what is waiting, close."""
        if not self.is_closing:
            if self._adapter is not None:
                self._adapter.send_shutdown()
            self._close("the broker stops")

    def abort(self) -> None:
        """Drop the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    @property
    def has_heard(self) -> bool:
        """Whether the client's system has confirmed all that was written. To ask the client itself, with a keep-alive
        to be echoed, is out of the question: Java's writes that beside what it sends, into one buffer (ADR 13)."""
        transport = self._transport
        if self._flush_is_due or self._descriptor < 0 or transport is None or transport.get_write_buffer_size():
            return False
        try:
            unconfirmed = fcntl.ioctl(self._descriptor, termios.TIOCOUTQ, bytes(4))
        except OSError:
            return False
        return not self.is_closing and not any(unconfirmed)

    # ---- inside ------------------------------------------------------------------------------------------------

    def _speak_openwire(self) -> None:
        self._protocol = OpenWireProtocol(
            _preferences(self._uri, self._settings),
            wire_limits(self._settings),
            self._settings.handshake.frame_bytes_max,
        )
        self._adapter = OpenWireAdapter(
            peer=self,
            protocol=self._protocol,
            broker=self._broker,
            clock=self._broker.clock,
            settings=self._settings,
            address=self._address,
        )
        self.flush_soon()

    def _flush(self) -> None:
        self._flush_is_due = False
        transport, protocol = self._transport, self._protocol
        if transport is None or protocol is None or transport.is_closing():
            return
        pieces = protocol.data_to_send()
        if not pieces:
            return
        transport.write(b"".join(pieces))
        # Above, not at: only above its limit has the transport called pause_writing and will call resume_writing.
        if transport.get_write_buffer_size() > self._settings.connection.read_pause_bytes:
            self._set_reading(False, _DOES_NOT_READ)
        if not self.is_ready:
            self._become_ready()

    def _become_ready(self) -> None:
        """Room for output again: messages that had to wait go on."""
        if self._write_paused or self.is_closing:
            return
        self.is_ready = True
        if self._adapter is not None:
            self._adapter.resume()

    def _set_reading(self, reading: bool, reason: str) -> None:
        """Stop or resume reading; it goes on when no reason against it is left."""
        if self._transport is None or self.is_closing:
            return
        if self._has_hung_up and not reading and reason != _NO_ROOM:
            return
        was_reading = not self._unread_because
        if reading:
            self._unread_because.discard(reason)
        else:
            self._unread_because.add(reason)
        is_reading = not self._unread_because
        if self._monitor is not None:
            self._monitor.is_deaf = not is_reading
        if is_reading and not was_reading:
            self._transport.resume_reading()
        elif was_reading and not is_reading:
            self._transport.pause_reading()
            self._look_again_later()

    def _look_at_unread(self) -> None:
        """See whether a peer has hung up that we do not read from, or whether everybody waits for its acks."""
        self._unread_check = None
        if self.is_closing or not self._unread_because:
            return
        if self._has_hung_up or self._is_hung_up():
            self._has_hung_up = True
            for reason in tuple(self._unread_because - {_NO_ROOM}):
                self._set_reading(True, reason)
            self._ask_urgently()
        elif self._adapter is not None and self._adapter.is_needed_to_drain():
            self._set_reading(True, _NO_SPACE)
            self._ask_urgently()
        self._look_again_later()

    def _look_again_later(self) -> None:
        if self._unread_because and not self.is_closing and self._unread_check is None:
            self._unread_check = self._clock.call_later(_UNREAD_CHECK_SECONDS, self._look_at_unread)

    def _ask_urgently(self) -> None:
        """Ask again for room for the frame that waits for it, before others. What can never be complete gets none."""
        protocol = self._protocol
        if _NO_ROOM not in self._unread_because or protocol is None:
            return
        if self._has_hung_up and self._unread_bytes() < protocol.missing_bytes:
            self.fail(f"it left in the middle of a frame of {protocol.unfinished_bytes} bytes")
        elif self._room.ask(self, protocol.unfinished_bytes, is_stranger=not self._is_known, is_urgent=True):
            self._set_reading(True, _NO_ROOM)

    def _unread_bytes(self) -> int:
        """What has arrived of a client that has hung up, and was not read; as good as endless where nobody can tell."""
        if self._descriptor < 0:
            return sys.maxsize
        try:
            return int.from_bytes(fcntl.ioctl(self._descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)
        except OSError:
            return 0

    def _is_hung_up(self) -> bool:
        """Whether the client has closed its end. What it has sent before may still be read."""
        connected = self._transport.get_extra_info("socket") if self._transport is not None else None
        if connected is None or connected.fileno() < 0:
            return False
        poll = select.poll()
        poll.register(connected.fileno(), _HUNG_UP)
        return bool(poll.poll(0))

    def _silent_for(self, seconds: float) -> None:
        self.fail(f"nothing was heard from it for {seconds:g} s")

    def _set_deadline(self, seconds: float, callback: Callable[[], None]) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self._clock.call_later(seconds, callback)

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
                self._deadline = self._clock.call_later(_CLOSE_TIMEOUT_SECONDS, self.abort)
            elif self._is_lost:
                self._leave()
        _log.debug("%r is closing: %s", self, reason)

    def _end(self) -> None:
        """Let go of all that belongs to the connection. What refers to the peer is referred to by it no longer."""
        self._leave_room()
        self._first_bytes = b""
        adapter, protocol = self._adapter, self._protocol
        self._adapter = self._protocol = None
        if protocol is not None:
            protocol.drop_received()
        if adapter is not None:
            adapter.connection_lost()

    def _stop_timers(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if self._unread_check is not None:
            self._unread_check.cancel()
            self._unread_check = None
        if self._monitor is not None:
            self._monitor.stop()
            self._monitor = None

    def _disable_no_delay(self) -> None:
        connected = self._transport.get_extra_info("socket") if self._transport is not None else None
        if connected is not None and connected.family in (socket.AF_INET, socket.AF_INET6):
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)


def _bare_descriptor(transport: asyncio.Transport) -> int:
    """Of the transport's socket, if bytes of the protocol come from it as they are, and not those of TLS; or -1."""
    connected = transport.get_extra_info("socket")
    is_bare = connected is not None and transport.get_extra_info("sslcontext") is None
    return connected.fileno() if is_bare else -1


def _printable(address: object) -> str:
    if isinstance(address, tuple) and len(address) >= 2:
        return f"[{address[0]}]:{address[1]}" if ":" in str(address[0]) else f"{address[0]}:{address[1]}"
    return str(address)


def _preferences(uri: ListenerUri, settings: Settings) -> Preferences:
    """What the settings say, with what the listener's URI says in its place."""
    connection, asked = settings.connection, uri.wire_format
    from_settings = Preferences(
        cache=True,
        cache_size=_CACHE_SLOTS,
        frame_bytes_max=settings.wire.frame_bytes_max,
        inactivity_ms=round(connection.max_inactivity_duration_seconds * 1000),
        inactivity_initial_delay_ms=round(connection.max_inactivity_initial_delay_seconds * 1000),
        provider_version=__version__,
    )
    from_uri: dict[str, Any] = {
        "version": asked.version,
        "tight": asked.tight_encoding_enabled,
        "cache": asked.cache_enabled,
        "cache_size": asked.cache_size,
        "stack_traces": asked.stack_trace_enabled,
        "tcp_no_delay": asked.tcp_no_delay_enabled,
        "size_prefix_disabled": asked.size_prefix_disabled,
        "frame_bytes_max": asked.frame_bytes_max,
        "inactivity_ms": asked.max_inactivity_duration_ms,
        "inactivity_initial_delay_ms": asked.max_inactivity_initial_delay_ms,
    }
    return replace(from_settings, **{name: value for name, value in from_uri.items() if value is not None})


def wire_limits(settings: Settings) -> WireLimits:
    """What the settings allow a peer to ask for."""
    wire = settings.wire
    return WireLimits(
        frame_bytes_max=wire.frame_bytes_max,
        entries_max=wire.map_entries_max,
        nesting_max=wire.nesting_max,
        inflated_bytes_max=wire.inflated_bytes_max,
        cache_bytes_max=wire.cache_bytes_max,
    )

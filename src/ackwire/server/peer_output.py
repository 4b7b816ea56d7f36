"""The writing half of a peer: what its protocol has to say, written once per turn of the loop.

A peer that does not read gets no more messages once `write_pause_bytes` wait for it, and is not read from once
`read_pause_bytes` do.
"""

import asyncio
import os

from ackwire.config import Settings
from ackwire.server.adapters.contract import Adapter
from ackwire.server.reading import DOES_NOT_READ, Reading
from ackwire.server.sockets import has_unconfirmed
from ackwire.server.turn import Turn
from ackwire.util.clock import Clock
from ackwire.wire.inactivity import InactivityMonitor
from ackwire.wire.protocol import WireProtocol


class PeerOutput:
    """What `Peer` inherits, and not an object of its own: every answer passes here, and a call more would count."""

    def __init__(self, *, clock: Clock, settings: Settings, turn: Turn) -> None:
        self._settings = settings
        self._turn = turn
        self._reading = Reading(clock)
        self._transport: asyncio.Transport | None = None
        self._descriptor = -1
        """Of the socket, if we may read from it and write to it ourselves; or -1."""
        self._transport_writes = True
        """Whether output goes through the transport: it has TLS, or bytes left that the socket did not take."""
        self._adapter: Adapter | None = None
        self._protocol: WireProtocol | None = None
        self._monitor: InactivityMonitor | None = None
        self._flush_is_due = False
        self._write_paused = False
        self._write_pause_bytes = settings.connection.write_pause_bytes
        self.is_closing = False
        """Whether nothing that it says counts any more."""
        self.is_ready = True
        """Whether messages may be dispatched to this peer."""

    # ---- the socket's side -------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        self._write_paused = True
        self.is_ready = False

    def resume_writing(self) -> None:
        self._write_paused = False
        self._reading.set(True, DOES_NOT_READ)
        self._become_ready()

    # ---- the adapter's side ------------------------------------------------------------------------------------

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

    @property
    def has_received_all(self) -> bool:
        """Whether the client's system has confirmed all that was written. To ask the client itself, with a keep-alive
        to be echoed, is out of the question: Java's writes that beside what it sends, into one buffer (ADR 16)."""
        transport = self._transport
        if self._flush_is_due or self._descriptor < 0 or transport is None or transport.get_write_buffer_size():
            return False
        return not self.is_closing and not has_unconfirmed(self._descriptor)

    # ---- inside ------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        self._flush_is_due = False
        transport, protocol = self._transport, self._protocol
        if transport is None or protocol is None:
            return
        if self._transport_writes:
            if transport.is_closing():
                return
            self._transport_writes = self._descriptor < 0 or transport.get_write_buffer_size() > 0
        pieces = protocol.data_to_send()
        if not pieces:
            return
        output = b"".join(pieces)
        if not self._transport_writes:
            output = self._write_directly(output)
        if output:
            self._transport_writes = True
            transport.write(output)
            # Above, not at: only above its limit has the transport called pause_writing and will call resume_writing.
            if transport.get_write_buffer_size() > self._settings.connection.read_pause_bytes:
                self._reading.set(False, DOES_NOT_READ)
        if not self.is_ready:
            self._become_ready()

    def _write_directly(self, output: bytes) -> bytes:
        """Write what the socket takes at once, and return the rest. The transport deals with errors: it gets all."""
        try:
            written = os.write(self._descriptor, output)
        except OSError:
            return output
        return b"" if written == len(output) else output[written:]

    def _become_ready(self) -> None:
        """Room for output again: messages that had to wait go on."""
        if self._write_paused or self.is_closing:
            return
        self.is_ready = True
        if self._adapter is not None:
            self._adapter.resume()

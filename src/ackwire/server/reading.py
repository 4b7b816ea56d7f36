"""Pauses and resumes reading from a peer: the reasons for a pause, and a check every second while it lasts."""

import asyncio
from collections.abc import Callable
from typing import Final, final

from ackwire.util.clock import Clock, Timer
from ackwire.wire.inactivity import InactivityMonitor

NO_SPACE: Final = "its sends wait for space"
NO_ROOM: Final = "its frame waits for room"
DOES_NOT_READ: Final = "it does not read"
LONG_COMMANDS: Final = "its commands take long"
"""Until what was read is carried out."""
COMMAND_WAITS: Final = "a command of its takes several turns"

_CHECK_SECONDS: Final = 1.0
"""How often a peer is looked at that is not read from."""


@final
class Reading:
    """Stops and resumes reading from one socket."""

    __slots__ = ("_check", "_clock", "_on_check", "_transport", "against", "has_hung_up", "monitor")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.against: set[str] = set()
        """Why we do not read from it at the moment; empty while we do."""
        self.has_hung_up = False
        """Seen while we did not read from it: it is read to its end, whatever there is against it, as soon as there is
        room for its frame."""
        self.monitor: InactivityMonitor | None = None
        """Counts no silence while we do not listen."""
        self._transport: asyncio.Transport | None = None
        self._on_check: Callable[[], None] | None = None
        self._check: Timer | None = None

    def begin(self, transport: asyncio.Transport, on_check: Callable[[], None]) -> None:
        """*on_check* is called every second while the peer is not read from."""
        self._transport = transport
        self._on_check = on_check

    def end(self) -> None:
        """Nothing more is read. Refers to nothing of the peer from now on."""
        self._transport = None
        self._on_check = None
        self.monitor = None
        if self._check is not None:
            self._check.cancel()
            self._check = None

    def set(self, reading: bool, reason: str) -> None:
        """Stop or resume reading; it goes on when no reason against it is left."""
        transport, against = self._transport, self.against
        if transport is None or (self.has_hung_up and not reading and reason != NO_ROOM):
            return
        was_reading = not against
        if reading:
            against.discard(reason)
        else:
            against.add(reason)
        is_reading = not against
        if self.monitor is not None:
            self.monitor.is_deaf = not is_reading
        if is_reading and not was_reading:
            transport.resume_reading()
        elif was_reading and not is_reading:
            transport.pause_reading()
            self._check_later()

    def hung_up(self) -> None:
        """The client has closed its end: nothing but room for its frame keeps us from reading on."""
        self.has_hung_up = True
        for reason in tuple(self.against - {NO_ROOM}):
            self.set(True, reason)

    def _check_later(self) -> None:
        if self._check is None:
            self._check = self._clock.call_later(_CHECK_SECONDS, self._look)

    def _look(self) -> None:
        self._check = None
        if self._on_check is not None and self.against:
            self._on_check()
        if self._transport is not None and self.against:
            self._check_later()

"""Turns of the loop: first everything is read and acted upon, then, once for all of it, written.

asyncio has no end of a turn. What is asked for with `call_soon` while sockets are read runs in the next turn, after the
selector was asked once more, and what that asks for in the one after it: three turns for a send that waits for the
disk, each with a system call and more code than the broker itself runs for the message. `Turn` collects what is to be
done at the end, and does it in one go: the store writes, syncs and answers, and what the answers put out leaves.

On a `TurnLoop` (`loop.py`) the end is part of the very turn that has read, and peers read from their sockets without
the way through asyncio's handles and transports. On any other loop the end is the beginning of the next turn.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final, final

from ackwire.server.loop_monitor import LoopMonitor
from ackwire.util.clock import Timer, Turns

Events = list[tuple[int, int]]
"""Descriptors, and what epoll says of them."""

RECEIVE_BYTES: Final = 64 * 1024
"""What one peer may say in one turn: fifty messages of 1 KiB, in about a millisecond. Who has more to say is read from
again in the next turn, after everybody else."""

_READING_SECONDS: Final = 0.01
"""After so long nothing more is read in a turn: what was read is answered first."""

_AWAKE_SECONDS: Final = 0.000_05
"""How long the loop looks for events before it sleeps, if there were some so soon the last time. A client that waits
for an answer sends again at once; a sleep and a wake-up in between take longer than this, for both sides."""

_STREAM_TURNS: Final = 16
_STREAM_WAIT_SECONDS: Final = 0.000_02
"""After so many turns in a row that waited no longer than this, some client is streaming: it waits for no answer before
it goes on."""

_SHORT_TURN_SECONDS: Final = 0.000_1
_GATHER_SECONDS: Final = 0.000_05
_GATHERINGS: Final = 64
"""Then the loop sleeps so long (and as long again, until the system wakes it) after a turn that had so little to do:
what comes meanwhile is read, sent on and written at once, and costs a third less. After so many of these it has to see
again that a client is streaming: one that waits for answers sends within such a sleep, too."""

_PAUSE_SECONDS: Final = 0.000_5
"""A client that sends only so long after everybody was answered is in no hurry to go on: what it sends leaves before it
is answered. A client that sends sooner is answered first."""

_EVENTS_MAX: Final = 256
"""Taken from epoll at once; those behind them come first the next time."""

_READABLE: Final = 1
"""`select.EPOLLIN`, and nothing else: no error, and no room to write that asyncio has asked for."""


@final
class Wait:
    """Waits for events: at first awake, then asleep. Lets what is streaming gather."""

    def __init__(
        self,
        poll: Callable[[float, int], Events],
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """*poll* is that of an epoll object."""
        self._poll = poll
        self._monotonic = monotonic
        self._sleep = sleep
        self._was_short = False
        self._in_a_row = 0
        """Turns that hardly waited."""
        self._returned = 0.0
        """When the last turn began."""
        self._quiet_since = 0.0
        """When the last turn that had events was over. Timers have turns without any."""
        self._had_events = True
        self.was_pause = False
        """Whether it took long until the last events came."""
        self.before_sleep: Callable[[], bool] = lambda: False
        """Called when nothing has come soon. Says whether it did something: then the loop has to look at what that has
        asked for before it sleeps."""

    def events(self, timeout: float) -> Events:
        """What is there, or comes within *timeout* seconds; below 0: however long it takes."""
        if not timeout:
            self.was_pause = False
            events = self._poll(0, _EVENTS_MAX)
            self._had_events = self._had_events or bool(events)
            if not events:
                self.before_sleep()
            return events
        started = self._monotonic()
        if self._had_events:
            self._quiet_since = started
        if self._in_a_row >= _STREAM_TURNS and started - self._returned < _SHORT_TURN_SECONDS:
            self._sleep(_GATHER_SECONDS)
            started = self._monotonic()
        events = self._awake(started)
        if not events and self.before_sleep():
            return self._caught_up()
        events = events or self._poll(timeout, _EVENTS_MAX)
        self._returned = self._monotonic()
        waited = self._returned - started
        self._was_short = waited < 2 * _AWAKE_SECONDS
        self.was_pause = self._returned - self._quiet_since >= _PAUSE_SECONDS
        self._had_events = bool(events)
        is_near = waited < _STREAM_WAIT_SECONDS and self._in_a_row < _STREAM_TURNS + _GATHERINGS - 1
        self._in_a_row = self._in_a_row + 1 if is_near else 0
        return events

    def _caught_up(self) -> Events:
        """What came meanwhile. If nothing did, the loop sleeps the next time: others need the processor now."""
        events = self._poll(0, _EVENTS_MAX)
        self._returned = self._monotonic()
        if self._had_events:
            self._quiet_since = self._returned
        self._was_short = self._had_events = bool(events)
        self.was_pause = False
        return events

    def _awake(self, started: float) -> Events:
        """What comes soon, if something did the last time."""
        events: Events = []
        while self._was_short and not events and self._monotonic() - started < _AWAKE_SECONDS:
            events = self._poll(0, _EVENTS_MAX)
        return events


@final
class _Due:
    """Implements `Timer`: something for the end of a turn."""

    __slots__ = ("callback", "can_wait")

    def __init__(self, callback: Callable[[], None], can_wait: bool) -> None:
        self.callback: Callable[[], None] | None = callback
        self.can_wait = can_wait

    def cancel(self) -> None:
        self.callback = None


def _nothing() -> Events:
    return []


@final
class Turn:
    """What is to be done at the end of the turns of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """There is one for a `TurnLoop`, and any number for others."""
        self._loop = loop
        self.received = memoryview(bytearray(RECEIVE_BYTES))
        """Where bytes from a socket go. One place for all: they are taken from it before the next socket is read."""
        self._readers: dict[int, Callable[[], bool]] = {}
        self._postponed: set[int] = set()
        """Descriptors that were readable, and not read because the turn was long already."""
        self._due: list[_Due] = []
        self._waiting: list[_Due] = []
        """What senders in a hurry are to go on before."""
        self._end_is_sure = False
        """Whether the end of this turn comes without being called for."""
        self.peek: Callable[[], Events] = _nothing
        """What waits to be read or written now, two events at most; where the loop tells."""
        take_part = getattr(loop, "take_part", None)
        self.turns: Turns | None = None
        """Counted where the loop knows them."""
        self.monitor: LoopMonitor | None = None
        """Measures them there."""
        if take_part is not None:
            self.turns = Turns()
            self.monitor = LoopMonitor()
            take_part(self)

    def at_end(self, callback: Callable[[], None], *, can_wait: bool = False) -> Timer:
        """Run *callback* when all that this turn has read is acted upon. If it *can_wait*, not before those go on who
        were answered in this turn, and speak again within a few microseconds."""
        due = _Due(callback, can_wait)
        self._due.append(due)
        if not self._end_is_sure:
            self._call_for_end()
        return due

    # ---- what a loop that knows its turns does -----------------------------------------------------------------

    def read_from(self, descriptor: int, reader: Callable[[], bool]) -> None:
        """Have *reader* called whenever there is something to read, instead of asyncio's transport.

        It says whether it has dealt with it: the end of a connection and errors are left to the transport. Other loops
        know nothing of readers, so the transport must be able to do all of it.
        """
        self._readers[descriptor] = reader

    def forget(self, descriptor: int) -> None:
        """Before it is closed: the next connection may have the same number."""
        self._readers.pop(descriptor, None)

    def read(self, events: Events, *, after_pause: bool = False) -> Events:
        """Call the readers that *events* are for, and return what is left for asyncio to do.

        If nothing is, the turn ends here; otherwise `end` is to be called behind it.
        """
        left: Events = []
        if self.turns is not None:
            self.turns.number += 1
            self.turns.after_pause = after_pause
        if not events:
            return left
        self._end_is_sure = True
        if self._postponed:
            events = self._postponed_first(events)
        monitor = self.monitor
        for number, event in enumerate(events, 1):
            reader = self._readers.get(event[0]) if event[1] == _READABLE else None
            if reader is None or not self._has_read(reader):
                left.append(event)
            if monitor is not None and monitor.lap(reader) >= _READING_SECONDS:
                left += self._postpone(events[number:])
                break
        if not left:
            self.end()
        return left

    def others_wait(self, descriptor: int = -1) -> bool:
        """Whether it is time to end this turn: a socket besides *descriptor* is ready, or output waits for the next
        turn. That costs a system call."""
        return bool(self._waiting) or any(event[0] != descriptor for event in self.peek())

    def _postpone(self, events: Events) -> Events:
        """Read no more in this turn: epoll reports *events* again. Returns those that are for asyncio."""
        self._postponed = {event[0] for event in events if event[0] in self._readers and event[1] == _READABLE}
        return [event for event in events if event[0] not in self._postponed]

    def _postponed_first(self, events: Events) -> Events:
        """Those first that had to wait in the turn before: epoll's order alone would let them wait for ever."""
        postponed, self._postponed = self._postponed, set()
        return sorted(events, key=lambda event: event[0] not in postponed)

    def end(self) -> None:
        """Do what was asked for, and what that asks for: answers of the store are written by peers.

        Senders are written to first, to go on while their messages leave. While sockets are read, a sender's answer is
        asked for after what it sent; the store answers senders first. What the store has let go to consumers is written
        when those senders have spoken again, or do not: a consumer that is woken beside them holds them up. After a
        pause no sender is in such a hurry, and what was sent leaves first. What is asked for beyond that has to wait
        for the next turn, so that everybody is read from in between.
        """
        self._end_is_sure = True  # for all that is asked for now
        due, self._due = self._due, []
        if self.turns is None or not self.turns.after_pause:
            due.reverse()
        self._do_all(due)
        due, self._due = self._due, []  # answers of the store, and what they let go
        self._do_all(due)
        due, self._due = self._due, []  # what that is written as
        self.catch_up()
        if self.turns is not None and not self.turns.after_pause:
            self._waiting = [it for it in due if it.can_wait]
            due = [it for it in due if not it.can_wait]
        self._do_all(due)
        self._end_is_sure = False
        if self._due:
            self._call_for_end()

    def catch_up(self) -> bool:
        """Do what has waited for others to speak again; whether there was something."""
        due, self._waiting = self._waiting, []
        self._do_all(due)
        return bool(due)

    def before_sleep(self) -> bool:
        """The same, between two turns: it is measured as one of its own."""
        if not self._waiting:
            return False
        if self.monitor is not None:
            self.monitor.begin()
        self.catch_up()
        if self.monitor is not None:
            self.monitor.end()
        return True

    # ---- inside ------------------------------------------------------------------------------------------------

    def _call_for_end(self) -> None:
        self._end_is_sure = True
        self._loop.call_soon(self.end)

    def _has_read(self, reader: Callable[[], bool]) -> bool:
        try:
            return reader()
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # its transport reads on, unless it was closed
            self._report(error, f"while reading, in {reader!r}")
            return False

    def _do_all(self, due: list[_Due]) -> None:
        monitor = self.monitor
        for it in due:
            callback = it.callback
            try:
                if callback is not None:
                    callback()
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                self._report(error, f"at the end of a turn, in {callback!r}")
            if monitor is not None:
                monitor.lap(callback)

    def _report(self, error: BaseException, where: str) -> None:
        """Report *error* as the loop does; the other callbacks still run."""
        self._loop.call_exception_handler({"message": f"an error {where}", "exception": error})

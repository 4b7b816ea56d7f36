"""Room for frames that have arrived in part: a bound for the whole broker, and a share for each connection.

Every connection may keep what one read brings (`server/turn.py`), so frames up to that size never ask. A larger frame
asks for room for all of it when its size is known. If there is none, its connection is not read from until there is,
in the order of asking. A frame that has room can therefore always be completed, and nothing waits in a circle.

Three lanes have bounds of their own, so that large frames do not hold up smaller ones, and strangers no clients:
clients that have not logged in, frames up to `SMALL_BYTES`, and larger ones. One frame has room in an empty lane,
however large it is.

What those who wait have sent is kept, up to one read of each. When they are many, the room is crowded, and peers read
less at once: a few thousand clients that each begin a large frame would take hundreds of megabytes otherwise.

While others wait, a frame with room must be complete after `timeout_seconds`, and a second more for each MiB; then its
connection is closed. As long as no other frame waits, it may take any time.
"""

from typing import Final, Protocol, final

from ackwire.util.clock import Clock, Timer

SMALL_BYTES: Final = 1024 * 1024
"""The largest frame that the lane for small frames takes."""

_SMALL_PARTS: Final = 4
"""The lane for small frames has one in so many parts of the room."""

_CROWD: Final = 64
"""So many frames may wait for room before it is crowded: 4 MiB at one read each."""

_BYTES_PER_SECOND: Final = 1024 * 1024
"""How fast a frame has to come while others wait; slower than any network that carries such frames."""


class RoomUser(Protocol):
    """A connection that receives frames."""

    def go_on(self) -> None:
        """There is room now for the frame that it asked for."""
        ...

    def give_room_up(self, reason: str) -> None:
        """Close the connection, because its frame took too long."""
        ...


@final
class _Lane:
    """Room for one kind of frames."""

    def __init__(self, clock: Clock, name: str, bytes_max: int, timeout_seconds: float) -> None:
        self._clock = clock
        self._name = name
        self._bytes_max = bytes_max
        self._timeout_seconds = timeout_seconds
        self._sizes: dict[RoomUser, int] = {}
        self._deadlines: dict[RoomUser, float] = {}
        self.waiting: dict[RoomUser, int] = {}
        """Who waits, for how much, in the order of asking."""
        self.used_bytes = 0
        self._is_closed = False
        self._timer: Timer | None = None

    def ask(self, user: RoomUser, size_bytes: int, *, is_urgent: bool) -> bool:
        if self._sizes.get(user, 0) >= size_bytes:
            return True
        if (is_urgent or not (self._is_closed or self.waiting)) and self._fits(user, size_bytes):
            self.waiting.pop(user, None)
            self._give(user, size_bytes)
            return True
        self.waiting[user] = size_bytes
        self._watch()
        return False

    def leave(self, user: RoomUser) -> None:
        size_bytes = self._sizes.pop(user, 0)
        was_waiting = self.waiting.pop(user, 0)
        self.used_bytes -= size_bytes
        self._deadlines.pop(user, None)
        if size_bytes or was_waiting:
            self._serve()

    def close(self, is_closed: bool) -> None:
        self._is_closed = is_closed
        self._serve()

    def _fits(self, user: RoomUser, size_bytes: int) -> bool:
        others_bytes = self.used_bytes - self._sizes.get(user, 0)
        return not others_bytes or others_bytes + size_bytes <= self._bytes_max

    def _give(self, user: RoomUser, size_bytes: int) -> None:
        self.used_bytes += size_bytes - self._sizes.get(user, 0)
        self._sizes[user] = size_bytes
        seconds = self._timeout_seconds + size_bytes / _BYTES_PER_SECOND
        self._deadlines[user] = self._clock.monotonic() + seconds

    def _serve(self) -> None:
        while self.waiting and not self._is_closed:
            user, size_bytes = next(iter(self.waiting.items()))
            if not self._fits(user, size_bytes):
                break
            del self.waiting[user]
            self._give(user, size_bytes)
            user.go_on()
        self._watch()

    def _watch(self) -> None:
        """Have a timer run for the first deadline, if one matters."""
        if not self.waiting or self._is_closed:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        elif self._timer is None and self._deadlines:
            wait_seconds = min(self._deadlines.values()) - self._clock.monotonic()
            self._timer = self._clock.call_later(max(0.0, wait_seconds), self._end_late)

    def _end_late(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        for user in [user for user, deadline in self._deadlines.items() if deadline <= now]:
            if self.waiting:
                size_bytes = self._sizes[user]
                user.give_room_up(
                    f"a frame of {size_bytes} bytes was not complete after "
                    f"{self._timeout_seconds + size_bytes / _BYTES_PER_SECOND:.0f} s "
                    f"(connection.frame_timeout_seconds, and 1 s for each MiB), and others wait for the room: "
                    f"{self.used_bytes} of {self._bytes_max} bytes are in use ({self._name})"
                )
        self._watch()


@final
class ReceiveRoom:
    """The room of one broker."""

    def __init__(self, clock: Clock, *, bytes_max: int, strangers_bytes_max: int, timeout_seconds: float) -> None:
        small = bytes_max // _SMALL_PARTS
        limit = "limits.receive_bytes_max"
        self.bytes_max = bytes_max + strangers_bytes_max
        self.is_crowded = False
        """Whether so many wait that only a little is to be read at once where a frame may have to wait, too."""
        self._strangers = _Lane(clock, "handshake.receive_bytes_max", strangers_bytes_max, timeout_seconds)
        self._small = _Lane(clock, f"a quarter of {limit}", small, timeout_seconds)
        self._large = _Lane(clock, f"three quarters of {limit}", bytes_max - small, timeout_seconds)

    @property
    def used_bytes(self) -> int:
        """Room that was given to unfinished frames."""
        return self._strangers.used_bytes + self._small.used_bytes + self._large.used_bytes

    @property
    def waiting_count(self) -> int:
        """Connections that are not read from because there is no room for their frame."""
        return len(self._strangers.waiting) + len(self._small.waiting) + len(self._large.waiting)

    def ask(self, user: RoomUser, size_bytes: int, *, is_stranger: bool = False, is_urgent: bool = False) -> bool:
        """Whether *user* may receive a frame of *size_bytes*; if not, it is called when it may.

        What is urgent goes before the others, and is let in while the room is closed.
        """
        lane = self._strangers if is_stranger else self._small if size_bytes <= SMALL_BYTES else self._large
        has_room = lane.ask(user, size_bytes, is_urgent=is_urgent)
        self._look_round()
        return has_room

    def leave(self, user: RoomUser) -> None:
        """The frame of *user* is complete, or *user* has gone."""
        self._strangers.leave(user)
        self._small.leave(user)
        self._large.leave(user)
        self._look_round()

    def close(self, is_closed: bool) -> None:
        """Give no more room to clients' frames, or give it again: they would only wait for space (`limits.py`)."""
        self._small.close(is_closed)
        self._large.close(is_closed)
        self._look_round()

    def _look_round(self) -> None:
        self.is_crowded = self.waiting_count > _CROWD

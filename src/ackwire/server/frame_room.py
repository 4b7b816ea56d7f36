"""The room that one peer has for a frame that arrives in parts (`broker/receive_room.py`)."""

from typing import Final, final

from ackwire.broker.receive_room import ReceiveRoom, RoomUser
from ackwire.server.turn import RECEIVE_BYTES
from ackwire.wire.protocol import WireProtocol

LITTLE_BYTES: Final = 4 * 1024
"""Read at once before login, and while the room is crowded: what a peer makes us keep without having room for it."""

_SHARE_BYTES: Final = RECEIVE_BYTES
"""What a client may have sent of a frame without having room for it: what one read brings."""

_NEVER: Final = -1


@final
class FrameRoom:
    """Asks for room, once for each frame that needs it, and gives it back."""

    __slots__ = ("_asked_at", "_room", "is_stranger")

    def __init__(self, room: ReceiveRoom) -> None:
        self._room = room
        self._asked_at = _NEVER
        """The protocol's `arrivals` when it asked for room for a frame that is still unfinished; or `_NEVER`."""
        self.is_stranger = True
        """Whether the client has not logged in."""

    @property
    def is_tight(self) -> bool:
        """Whether only a little may be read at once: so many wait for room that the next frame may have to wait too."""
        return self._room.is_crowded and self._asked_at == _NEVER

    def has_room(self, user: RoomUser, protocol: WireProtocol) -> bool:
        """Give the room for the last frame back; whether the next one, which has arrived in part, may be received."""
        size_bytes = protocol.unfinished_bytes
        if size_bytes <= _SHARE_BYTES and self._asked_at == _NEVER and not self.is_stranger:
            return True
        if protocol.arrivals != self._asked_at:
            self.leave(user)
        if size_bytes <= (LITTLE_BYTES if self.is_stranger else _SHARE_BYTES):
            return True
        self._asked_at = protocol.arrivals
        return self._room.ask(user, size_bytes, is_stranger=self.is_stranger)

    def has_room_now(self, user: RoomUser, protocol: WireProtocol) -> bool:
        """Ask again, before others."""
        return self._room.ask(user, protocol.unfinished_bytes, is_stranger=self.is_stranger, is_urgent=True)

    def leave(self, user: RoomUser) -> None:
        """Give the room back."""
        if self._asked_at != _NEVER:
            self._asked_at = _NEVER
            self._room.leave(user)

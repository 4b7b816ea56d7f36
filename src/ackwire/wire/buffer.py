"""Incremental reads: bytes come in any portions, frames go out whole.

The usual portion holds whole frames and is sliced where it lies. Only when a frame is incomplete are portions
collected, and then each byte is moved a fixed number of times, however small the portions are. The size of a frame is
checked as soon as it is known, so what waits here never exceeds the limit by more than one portion.
"""

from typing import final

from ackwire.errors import RemoteProtocolError


@final
class FrameBuffer:
    """Cuts a stream into frames that start with a 32-bit size."""

    __slots__ = ("_collected", "_data", "_missing", "_position", "arrivals")

    def __init__(self) -> None:
        self._data = b""
        self._position = 0
        self._collected = bytearray()
        self._missing = 1
        """Bytes to wait for before it is worth looking again."""
        self.arrivals = 0
        """How often all arrived that was waited for. Equal figures: the same frame is still unfinished."""

    def append(self, data: bytes) -> None:
        """Add what was received."""
        if not self._collected and len(data) >= self._missing:
            self.arrivals += 1
            self._data = self._data[self._position :] + data if self._position < len(self._data) else data
            self._position = 0
            return
        self._collected += data
        if len(self._collected) >= self._missing:
            self.arrivals += 1
            self._data = self._data[self._position :] + self._collected
            self._position = 0
            self._collected = bytearray()

    @property
    def waiting_bytes(self) -> int:
        """Bytes received and not yet taken: the beginning of a frame, once `next_frame` has returned None."""
        return len(self._data) - self._position + len(self._collected)

    @property
    def unfinished_bytes(self) -> int:
        """The size of the frame that has arrived in part, as far as it is known; 0 if none has."""
        rest = len(self._data) - self._position
        return rest + self._missing if rest or self._collected else 0

    @property
    def missing_bytes(self) -> int:
        """The bytes of that frame that have not arrived, if its size is known."""
        return self._missing - len(self._collected) if self.unfinished_bytes else 0

    def next_frame(self, size_max: int) -> bytes | None:
        """The next whole frame without its size, or None. Raises `RemoteProtocolError` if it is over *size_max*."""
        start = self._position
        available = len(self._data) - start
        if available < 4:
            self._wait_for(4 - available)
            return None
        data = self._data
        size = data[start] << 24 | data[start + 1] << 16 | data[start + 2] << 8 | data[start + 3]
        if size > size_max:
            raise RemoteProtocolError(f"a frame of {size} bytes: the limit is {size_max}")
        if available < 4 + size:
            self._wait_for(4 + size - available)
            return None
        end = start + 4 + size
        frame = data[start + 4 : end]
        self._position = end
        if end == len(data):
            self._data = b""
            self._position = 0
            self._missing = 1
        return frame

    def unread(self) -> bytes:
        """All that is waiting, for formats without sizes; `skip` or `wait_until` follows."""
        return self._data[self._position :]

    def skip(self, count: int) -> None:
        """Drop *count* bytes of `unread`."""
        self._position += count
        self._missing = 1

    def wait_until(self, count: int) -> None:
        """`unread` needs *count* bytes before it is worth looking again."""
        self._wait_for(count - (len(self._data) - self._position))

    def _wait_for(self, missing: int) -> None:
        self._missing = max(1, missing)

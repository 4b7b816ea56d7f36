"""Where the bytes of a message are until the database has them: in memory, or in a file that a reader knows."""

from typing import Protocol, TypeAlias


class FrameElsewhere(Protocol):
    """The bytes of a message that need not be in memory. Only the `Frames` that it was made for can read it."""

    @property
    def size_bytes(self) -> int: ...


Frame: TypeAlias = bytes | FrameElsewhere


def frame_size(frame: Frame) -> int:
    """The length of a frame, wherever it is."""
    return len(frame) if isinstance(frame, bytes) else frame.size_bytes


class Frames(Protocol):
    """Reads frames; one for each thread."""

    def read(self, frame: Frame) -> bytes:
        """The bytes of *frame*."""
        ...

    def read_cached(self, frame: Frame) -> bytes | None:
        """The same, if that takes no time; None if they must be read from a medium."""
        ...

    def release(self) -> None:
        """Close what was opened to read."""
        ...


class FramesInMemory:
    """Implements `Frames` where all of them are in memory."""

    def read(self, frame: Frame) -> bytes:
        assert isinstance(frame, bytes), "only a journal keeps frames elsewhere"
        return frame

    def read_cached(self, frame: Frame) -> bytes | None:
        return self.read(frame)

    def release(self) -> None:
        """Nothing was opened."""

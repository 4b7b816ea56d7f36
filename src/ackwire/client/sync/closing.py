# generated from src/ackwire/client/aio/closing.py by tools/async_to_sync.py; change that
"""The client's objects in `with`: its end closes them, and its beginning starts some of them.

Each class says itself what starting and closing mean.
"""

from types import TracebackType
from typing import Self


class ClosedAtEnd:
    """The end of its `with` closes it, whatever brought it about."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        raise NotImplementedError


class StartedAndClosed(ClosedAtEnd):
    """The beginning of its `with` starts it, the end closes it."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def start(self) -> None:
        raise NotImplementedError

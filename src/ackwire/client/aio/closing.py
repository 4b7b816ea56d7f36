"""The client's objects in `async with`: its end closes them, and its beginning starts some of them.

Each class says itself what starting and closing mean.
"""

from types import TracebackType
from typing import Self


class ClosedAtEnd:
    """The end of its `async with` closes it, whatever brought it about."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        raise NotImplementedError


class StartedAndClosed(ClosedAtEnd):
    """The beginning of its `async with` starts it, the end closes it."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def start(self) -> None:
        raise NotImplementedError

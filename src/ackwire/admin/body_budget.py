"""Room for the bodies of requests: a fixed number of bytes, given out in the order of asking."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import final


@final
class Room:
    """*bytes_max* bytes to be shared. Who asks for more than there are gets them all."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._used = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def of(self, size_bytes: int) -> AsyncIterator[None]:
        """Wait for *size_bytes*, and have them until the end of the block."""
        size_bytes = min(size_bytes, self._bytes_max)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size_bytes, turn))
        self._let_in()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._let_in()  # those behind it need not wait for its turn any more
            else:
                self._give_back(size_bytes)
            raise
        try:
            yield
        finally:
            self._give_back(size_bytes)

    def _give_back(self, size_bytes: int) -> None:
        self._used -= size_bytes
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting:
            size_bytes, turn = self._waiting[0]
            if turn.cancelled():
                self._waiting.popleft()
            elif self._used + size_bytes <= self._bytes_max:
                self._waiting.popleft()
                self._used += size_bytes
                turn.set_result(None)
            else:
                break

"""A memory budget for the bodies of requests, granted first come, first served."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import final


@final
class BodyBudget:
    """*bytes_max* bytes, shared by all requests. A request for more is granted the whole budget."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._used = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def reserve(self, size_bytes: int) -> AsyncIterator[None]:
        """Wait for *size_bytes* of the budget, and keep them until the end of the block."""
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

"""A proxy on loopback that passes each client on to the master, so that clients with one address reach the group."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

_DIAL_SECONDS: Final = 0.3
_CHUNK_BYTES: Final = 1 << 16

Address = tuple[str, int]


class FollowMaster:
    """Listens on *port*; *candidates* are the addresses where a master may answer now, asked for each connection.

    Brokers that are not master have their client ports closed, so the first that accepts is the master. A client is
    cut off while there is none.
    """

    def __init__(self, port: int, candidates: Callable[[], Sequence[Address]]) -> None:
        self._port = port
        self._candidates = candidates
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._writers: set[asyncio.StreamWriter] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, "127.0.0.1", self._port), self._loop
        ).result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut_all()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def cut_all(self) -> None:
        """Break all connections at both ends, as when a client gives up on a silent broker."""
        self._loop.call_soon_threadsafe(self._abort_all)

    def _abort_all(self) -> None:
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            dialed = await self._dial()
            if dialed is not None:
                await self._join(reader, writer, *dialed)
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        for host, port in self._candidates():
            with suppress(OSError, asyncio.TimeoutError):
                return await asyncio.wait_for(asyncio.open_connection(host, port), _DIAL_SECONDS)
        return None

    async def _join(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        far_reader: asyncio.StreamReader,
        far_writer: asyncio.StreamWriter,
    ) -> None:
        """Pass bytes both ways until one side ends."""
        self._writers.add(far_writer)
        ways = [asyncio.ensure_future(_pass(reader, far_writer)), asyncio.ensure_future(_pass(far_reader, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            self._writers.discard(far_writer)
            far_writer.transport.abort()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(_CHUNK_BYTES):
            writer.write(data)
            await writer.drain()

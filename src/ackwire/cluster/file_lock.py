"""Mastership by a lock on a file in a shared folder: who has it may use the store that is beside it.

The lock excludes Java's `FileChannel.tryLock` and is excluded by it, so an ActiveMQ on the same folder takes its turn
too. It ends with the process that holds it, or when the file server finds that the machine is gone.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, final

from ackwire.cluster.mastership import Grant, ignore
from ackwire.errors import ConfigError
from ackwire.store.files import LockHeld, OsFiles, OsLock

POLL_SECONDS: Final = 0.5
"""How often a slave tries, and a master looks whether it still has the lock."""

_log = logging.getLogger(__name__)


@final
class FileLock:
    """Implements `Mastership`."""

    def __init__(self, path: Path, holder: str, *, poll_seconds: float = POLL_SECONDS) -> None:
        """*holder* is written into the file: a line about this broker, and one with the URI for its clients."""
        self.on_waiting: Callable[[str], None] = ignore
        self.on_suspended: Callable[[str], None] = ignore
        self.on_resumed: Callable[[str], None] = ignore
        self.on_lost: Callable[[str], None] = ignore
        self.lock: OsLock | None = None
        """While it is held."""
        self._path = path
        self._holder = holder
        self._poll_seconds = poll_seconds
        self._is_over = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    async def acquire(self) -> Grant:
        """See `Mastership`."""
        assert self.lock is None, "it is held"
        told: str | None = None
        while True:
            try:
                self.lock = await self._take()
            except LockHeld as held:
                waits = f"{self._path} is locked by {held.holder or 'another process'}"
                if held.uri:
                    waits = f"{waits} at {held.uri}"
                if waits != told:
                    told = waits
                    self.on_waiting(waits)
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                raise ConfigError(f"the store cannot be shared: {self._path}: {reason}") from None
            else:
                break
            await asyncio.sleep(self._poll_seconds)
        self._is_over = asyncio.Event()
        self._watching = asyncio.create_task(self._watch(self.lock))
        return Grant(0, f"it has locked {self._path}")

    async def _take(self) -> OsLock:
        """Try once, beside the loop: a file server may take its time."""
        taking = asyncio.create_task(asyncio.to_thread(self._take_now))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            with suppress(LockHeld, OSError):
                (await taking).release()
            raise

    def _take_now(self) -> OsLock:
        files = OsFiles()
        files.make_directory(self._path.parent)
        return files.lock(self._path, self._holder)

    async def _watch(self, lock: OsLock) -> None:
        while not self._is_over.is_set():
            trouble = await asyncio.to_thread(lock.trouble)
            if trouble is not None and not self._is_over.is_set():
                self.on_lost(trouble)
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_over.wait(), self._poll_seconds)

    async def is_held(self) -> bool:
        """See `Mastership`."""
        lock = self.lock
        return lock is not None and await asyncio.to_thread(lock.trouble) is None

    async def release(self) -> None:
        """See `Mastership`."""
        watching, self._watching = self._watching, None
        if watching is not None:
            self._is_over.set()
            await watching  # which may look at the lock right now
        lock, self.lock = self.lock, None
        if lock is not None:
            try:
                await asyncio.to_thread(lock.release)
            except OSError as error:
                _log.warning("%s: the lock was not given back in order: %s", self._path, error)

    async def close(self) -> None:
        """See `Mastership`: a release is enough."""

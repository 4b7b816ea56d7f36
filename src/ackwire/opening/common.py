"""What several kinds of stores need to be opened."""

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from ackwire.config import Settings
from ackwire.errors import ConfigError, StoreFailed
from ackwire.store.contract import Store
from ackwire.store.journal.options import JournalOptions, SyncPolicy
from ackwire.store.sql.schema import NAME_LENGTH_MAX

_SEGMENTS_MIN: Final = 4
"""Files that a journal must have room for: one to write to, one made ahead, and some to fill."""


@final
class StoreFailure:
    """Why a store can be used no more, once that is so."""

    def __init__(self) -> None:
        self.known: asyncio.Future[StoreFailed] = asyncio.get_running_loop().create_future()
        self.at_once: Callable[[], None] = lambda: None
        """Called before those who wait for the store hear that it has failed."""

    def tell(self, error: StoreFailed) -> None:
        if not self.known.done():
            self.at_once()
            self.known.set_result(error)


@dataclass(frozen=True, slots=True)
class Opened:
    """A store that can be used."""

    store: Store
    failure: StoreFailure
    give_up: Callable[[StoreFailed], None]
    """Has it fail for a reason that is not its own: nothing more is written, and no client answered."""
    epoch: int = 0
    """How often it was opened, if it counts that."""


@dataclass(frozen=True, slots=True)
class Tenure:
    """What a mastership that was granted brings along for the store."""

    has_lock: bool = False
    """The lock of the files is held, and is not the store's to give back."""
    run_id: str | None = None
    """The run that the master of a shared database writes as; every transaction of any other is refused."""
    tag: str = ""
    """The name of its sessions, so that the next master can end them."""
    opened: Callable[[], AbstractContextManager[Opened]] | None = None
    """The store, if it is open already."""


ALONE: Final = Tenure()
"""Of a store that no other broker shares."""


@dataclass(slots=True)
class Progress:
    """How far a start has come."""

    is_ready: bool = False
    """Clients can connect, so there may be something to keep."""


def holder_of(settings: Settings) -> str:
    """This broker, as the lock of a store and other brokers' messages name it."""
    return f"broker {settings.broker.name}, process {os.getpid()} on {socket.gethostname()}"


def new_run_id(holder: str, epoch: int = 0) -> str:
    """The name of a run on a database: by chance, with what people want to know behind it."""
    return f"{os.urandom(16).hex()} {f'epoch {epoch}, ' if epoch else ''}{holder}"[:NAME_LENGTH_MAX]


def data_directory(settings: Settings) -> Path:
    """The directory of a journal, which there is room for. Raises `ConfigError`."""
    data = Path(settings.store.data)
    try:
        data.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"store.data: {data} cannot be made: {reason}; choose another with --data") from None
    needed = _SEGMENTS_MIN * settings.store.segment_bytes
    if settings.limits.store_bytes_max < needed:
        raise ConfigError(
            f"limits.store_bytes_max is {settings.limits.store_bytes_max}, and must be {needed} at least: "
            f"{_SEGMENTS_MIN} files of store.segment_bytes"
        )
    return data


def journal_options(settings: Settings) -> JournalOptions:
    return JournalOptions(
        sync=SyncPolicy(settings.store.sync),
        sync_interval_seconds=settings.store.sync_interval_seconds,
        segment_bytes=settings.store.segment_bytes,
        bytes_max=settings.limits.store_bytes_max,
        free_bytes_min=settings.store.free_bytes_min,
    )

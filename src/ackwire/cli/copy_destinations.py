"""Where `ackwire store copy` writes to: a journal or a database that brokers do not see before it is verified."""

import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, final

from ackwire.cli.copy_progress import CopyProgress
from ackwire.cli.store_access import holder, offline_journal
from ackwire.errors import ConfigError

if TYPE_CHECKING:
    from ackwire.store.portable import Source, Target
    from ackwire.store.sql.offline import OfflineDatabase

_STAGE: Final = ".unfinished-copy"
"""The directory below TO in which a journal grows."""

_HOLDS_SOMETHING: Final = "holds something: a copy goes to an empty database, or to another table prefix"


class Destination(Protocol):
    """Where a copy goes."""

    def refuse_if_used(self) -> None:
        """Raise `ConfigError` if it holds something. Changes nothing."""
        ...

    def clear(self) -> bool:
        """Remove what an interrupted copy has left; whether there was something."""
        ...

    def opened(self) -> "AbstractContextManager[Target]":
        """Write to it; brokers do not see it yet."""
        ...

    def inspected(self) -> "AbstractContextManager[Source]":
        """What was written."""
        ...

    def release(self) -> None:
        """Let brokers use it."""
        ...


# ---- journals --------------------------------------------------------------------------------------------------


@contextmanager
def journal_place(directory: Path) -> Iterator[None]:
    """Hold the lock of *directory*, which is made; where the work fails, what was made is removed. Raises
    `ConfigError`."""
    from ackwire.store.files import OsFiles
    from ackwire.store.journal.recovery_report import UnusableStore
    from ackwire.store.leftovers import Leftovers
    from ackwire.store.offline import locked

    files, leftovers = OsFiles(), Leftovers(directory)
    try:
        if not directory.exists():
            files.make_directory(directory)
        with locked(files, directory, holder()):
            try:
                yield
            finally:
                if leftovers.is_new and not (directory / "journal").exists():
                    leftovers.remove()  # while the lock is ours
    except UnusableStore as error:
        raise ConfigError(f"the store cannot be used: {error}") from None
    except OSError as error:
        raise ConfigError(f"{error.filename or directory}: {error.strerror or error}") from None


@final
class JournalDestination:
    """Implements `Destination`: the journal grows below its directory, and is moved there when it is verified."""

    def __init__(self, directory: Path, index: str | None, scratch: Path, progress: CopyProgress) -> None:
        from ackwire.store.index_files import IndexKind

        self._directory = directory
        self._stage = directory / _STAGE
        self._index = IndexKind(index or IndexKind.LMDB.value)
        self._offline = offline_journal(self._stage, scratch, progress)

    def refuse_if_used(self) -> None:
        if (self._directory / "journal").exists():
            raise ConfigError(f"{self._directory} holds a journal: a copy goes to a directory that has none")
        if (self._directory / "index").exists() and not self._stage.exists():
            raise ConfigError(f"{self._directory} holds an index: a copy goes to a directory that has none")

    def clear(self) -> bool:
        was_there = self._stage.exists()
        if was_there:
            for name in ("index", "index.sum"):  # it may have stopped between two renames
                path = self._directory / name
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            shutil.rmtree(self._stage)
        return was_there

    def opened(self) -> "AbstractContextManager[Target]":
        self._offline.files.make_directory(self._stage)
        return self._offline.opened(fresh_index=self._index)

    @contextmanager
    def inspected(self) -> "Iterator[Source]":
        from ackwire.store.portable import JournalSource

        with self._offline.inspect() as inspection:
            yield JournalSource(inspection)

    def release(self) -> None:
        """Move all files; the journal last, because a directory without one is no store."""
        files = self._offline.files
        names = sorted((path.name for path in self._stage.iterdir()), key=lambda it: (it == "journal", it))
        for name in names:
            if name != "lock":
                files.rename(self._stage / name, self._directory / name)
        shutil.rmtree(self._stage)


# ---- databases -------------------------------------------------------------------------------------------------


@final
class DatabaseDestination:
    """Implements `Destination`: while it is written to, its schema has a version that brokers refuse."""

    def __init__(self, offline: "OfflineDatabase", name: str) -> None:
        self._offline = offline
        self._name = name

    def refuse_if_used(self) -> None:
        if self._offline.is_used():
            raise ConfigError(f"{self._name} {_HOLDS_SOMETHING}")

    def clear(self) -> bool:
        return self._offline.clear_unfinished()

    @contextmanager
    def opened(self) -> "Iterator[Target]":
        with self._offline.opened() as target:
            if target.store.last_sequence():  # a broker has used it a moment ago
                raise ConfigError(f"{self._name} {_HOLDS_SOMETHING}")
            target.withhold()
            yield target

    def inspected(self) -> "AbstractContextManager[Source]":
        return self._offline.inspect(is_copy_checked=True)

    def release(self) -> None:
        self._offline.release()

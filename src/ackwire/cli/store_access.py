"""How the commands of `ackwire store` name and reach a store: a directory, or the URI of a database."""

import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ackwire.cli.progress import ProgressLine
from ackwire.config.store_uri import database_password, is_database, mask_store, parse_store_uri
from ackwire.errors import ConfigError, StoreFailed
from ackwire.util.clock import SystemClock
from ackwire.util.logs import escape

if TYPE_CHECKING:
    from ackwire.store.contract import Kept
    from ackwire.store.inspect import Progress, StoreInspection
    from ackwire.store.offline import OfflineStore
    from ackwire.store.sql.offline import OfflineDatabase

_INTERRUPTS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_JOURNALS: Final = ("journal+leveldb:", "journal+lmdb:", "journal:")
"""What may stand in front of a directory; `journal+leveldb:` makes a new journal with that index."""


def say(text: str) -> None:
    """Print one line for people."""
    print(escape(text))


def warn(text: str) -> None:
    """Print one line on standard error."""
    print(escape(text), file=sys.stderr)


def holder() -> str:
    """How a store names this process to others that want it."""
    return f"ackwire store, process {os.getpid()} on {socket.gethostname()}"


# ---- names -----------------------------------------------------------------------------------------------------


def directory_of(name: str) -> Path:
    """The directory of a journal: `data`, `journal:data`, `journal:///var/lib/data`."""
    for scheme in _JOURNALS:
        if name.startswith(scheme):
            path = name.removeprefix(scheme).removeprefix("//")
            if not path:
                raise ConfigError(f"{scheme}DIR is needed, such as {scheme}ackwire-data")
            return Path(path)
    return Path(name)


def index_of(name: str) -> str | None:
    """The kind of index that the name of a journal asks for, a value of `store.index`; None if it does not say."""
    scheme = name.partition(":")[0]
    return scheme.removeprefix("journal+") if f"{scheme}:" in _JOURNALS[:2] else None


def check_name(name: str) -> None:
    """Raise `ConfigError` for a URI that names no store that tools know."""
    scheme, colon, _ = name.partition(":")
    if colon and "//" in name and not is_database(name) and f"{scheme}:" not in _JOURNALS:
        raise ConfigError(
            f'"{scheme}" is no store that this command knows: name the directory of a journal, or the URI of a database'
        )


# ---- journals --------------------------------------------------------------------------------------------------


def _rehearse(inspection: "StoreInspection") -> "list[tuple[Kept, str]]":
    """What a start could not restore."""
    from ackwire.broker.rehearsal import rehearse
    from ackwire.store.rehearsal_store import RehearsalStore
    from ackwire.wire.openwire.editor import OpenWireEditor

    editor = OpenWireEditor("ID:rehearsal", "rehearsal", SystemClock())
    return rehearse(RehearsalStore(inspection), editor, inspection.now_ms())


@contextmanager
def journal(
    data: Path, new: Path | None = None, report: "Progress | None" = None
) -> "Iterator[tuple[OfflineStore, ProgressLine]]":
    """Lock the journal store in *data*, or the directory *new*, which is created if it is missing, for a new store.
    *report* is called with the progress; without it a line on the terminal shows the progress. Raises `ConfigError`."""
    # Imported here, so that the other commands start without loading a store.
    from ackwire.store.files import OsFiles
    from ackwire.store.journal.recovery_report import UnusableStore
    from ackwire.store.offline import locked

    files = OsFiles()
    if new is None and not (data / "journal").is_dir():
        raise ConfigError(f"{data} is not a store: it has no directory journal")
    where = new or data
    try:
        if new is not None:
            files.make_directory(new)
        with (
            locked(files, where, holder()),
            tempfile.TemporaryDirectory(prefix="ackwire-store-") as scratch,
            ProgressLine() as progress,
        ):
            yield offline_journal(where, Path(scratch), report or progress), progress
    except (UnusableStore, StoreFailed) as error:
        raise ConfigError(f"the store cannot be used: {error}") from None
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise ConfigError(f"{error.filename or where}: {error.strerror or error}") from None


def offline_journal(data: Path, scratch: Path, progress: "Progress") -> "OfflineStore":
    """The journal in *data*, whose lock the caller holds."""
    from ackwire.store.files import OsFiles
    from ackwire.store.offline import OfflineStore
    from ackwire.wire.openwire.stored import OpenWireStoredForm

    return OfflineStore(
        OsFiles(),
        data,
        form=OpenWireStoredForm(),
        now_ms=SystemClock().now_ms,
        new_id=lambda: os.urandom(16),
        scratch=scratch,
        progress=progress,
        rehearse=_rehearse,
    )


# ---- databases -------------------------------------------------------------------------------------------------


@contextmanager
def database(
    name: str, table_prefix: str, *, may_be_new: bool = False, report: "Progress | None" = None
) -> "Iterator[tuple[OfflineDatabase, ProgressLine]]":
    """The database that the URI *name* says. Raises `ConfigError`."""
    from ackwire.store.sql.drivers import driver_for
    from ackwire.store.sql.errors import DatabaseAway, UnusableDatabase
    from ackwire.store.sql.file_lock import locked_file
    from ackwire.store.sql.offline import OfflineDatabase
    from ackwire.store.sql.schema import NAME_LENGTH_MAX
    from ackwire.wire.openwire.jdbc_rows import JdbcRows

    uri = parse_store_uri(name)
    if uri.warning is not None:
        warn(f"warning: {uri.warning}")
    if uri.scheme == "sqlite" and not may_be_new and not Path(uri.path).is_file():
        raise ConfigError(f"{uri.path} is not a store: there is no such file")
    driver = driver_for(uri, database_password(uri, ""), table_prefix)
    run_id = f"{os.urandom(16).hex()} {holder()}"[:NAME_LENGTH_MAX]
    try:
        with locked_file(uri, holder()), ProgressLine() as progress:
            now_ms = SystemClock().now_ms
            yield (
                OfflineDatabase(driver, JdbcRows, now_ms, run_id, table_prefix, progress=report or progress),
                progress,
            )
    except (UnusableDatabase, DatabaseAway, StoreFailed) as error:
        raise ConfigError(f"the store cannot be used: {error}") from None


def shown(name: str) -> str:
    """The name of a store as people may see it."""
    return mask_store(name)


# ---- interrupts ------------------------------------------------------------------------------------------------


@contextmanager
def interrupts_wait() -> Iterator[Callable[[], None]]:
    """Ctrl-C, SIGTERM and SIGHUP never come in the middle of a change: they raise `KeyboardInterrupt` when what this
    yields is called."""
    pressed: list[int] = []

    def check() -> None:
        if pressed:
            raise KeyboardInterrupt

    numbers = [it for it in _INTERRUPTS if signal.getsignal(it) is not signal.SIG_IGN]  # nohup ignores SIGHUP
    before = {it: signal.signal(it, lambda number, _: pressed.append(number)) for it in numbers}
    try:
        yield check
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

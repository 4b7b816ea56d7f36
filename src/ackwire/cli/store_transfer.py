"""`ackwire store export` and `import`, for journals and databases (SEMANTICS K2)."""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ackwire.cli.progress import ProgressLine
from ackwire.cli.store_access import database, directory_of, interrupts_wait, journal, shown, warn
from ackwire.config.store_uri import is_database
from ackwire.errors import ConfigError
from ackwire.util.plurals import counted

if TYPE_CHECKING:
    from ackwire.store.portable import Export, Given, Row, Source, Target

# ---- export ----------------------------------------------------------------------------------------------------


def run_export(args: argparse.Namespace) -> int:
    """Write all rows to a file."""
    from ackwire.cli.rows import format_of
    from ackwire.store.portable import Export
    from ackwire.wire.openwire.portrait import portrait

    form = format_of(args.file, args.format)
    if args.file == "-" and form == "parquet":
        raise ConfigError("Parquet cannot be written to standard output: name a file")
    if args.file != "-" and Path(args.file).exists():
        raise ConfigError(f"{args.file} exists already")
    with _source(args) as (source, progress):
        export = Export(source, portrait)
        _write(export, args.file, form)
        progress.clear()
    for line in export.unreadable:
        warn(line)
    warn(f"{counted(export.messages, 'message')}, {counted(export.rows_written, 'row')} in all")
    return 1 if export.unreadable else 0


@contextmanager
def _source(args: argparse.Namespace) -> "Iterator[tuple[Source, ProgressLine]]":
    from ackwire.store.portable import JournalSource

    if is_database(args.name):
        with database(args.name, args.table_prefix) as (offline, progress), offline.inspect() as found:
            yield found, progress
    else:
        with journal(directory_of(args.name)) as (store, progress), store.inspect() as inspection:
            yield JournalSource(inspection), progress


def _write(export: "Export", name: str, form: str) -> None:
    """All rows into the file, which appears when it is complete."""
    from ackwire.cli.rows import write_lines, write_parquet

    if name == "-":
        write_lines(export.rows(), sys.stdout)
        sys.stdout.flush()
        return
    unfinished = Path(f"{name}.unfinished")
    try:
        if form == "parquet":
            write_parquet(export.rows(), unfinished)
        else:
            with unfinished.open("w", encoding="ascii") as out:
                write_lines(export.rows(), out)
        with unfinished.open("rb") as written:
            os.fsync(written.fileno())
        unfinished.rename(name)
    finally:
        unfinished.unlink(missing_ok=True)


# ---- import ----------------------------------------------------------------------------------------------------


def run_import(args: argparse.Namespace) -> int:
    """Read a file into a store."""
    from ackwire.cli.rows import format_of
    from ackwire.store.portable import BadRow

    form = format_of(args.file, args.format)
    if args.file == "-" and form == "parquet":
        raise ConfigError("Parquet cannot be read from standard input: name a file")
    if args.file != "-" and not Path(args.file).is_file():
        raise ConfigError(f"{args.file} is not a file")
    try:
        with tempfile.TemporaryDirectory(prefix="ackwire-import-") as spool:
            path = _spooled(Path(spool)) if args.file == "-" else Path(args.file)
            return _import(args, path, form)
    except BadRow as error:
        raise ConfigError(f"{args.file}: {error}; nothing was imported") from None


def _spooled(directory: Path) -> Path:
    """Standard input as a file: it is read twice, to be sure of it before anything is changed."""
    path = directory / "stdin.jsonl"
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return path


def _import(args: argparse.Namespace, path: Path, form: str) -> int:
    """A new store appears when it is complete; a failure leaves nothing of it, and of a store that was there before
    all that it held and what was imported so far."""
    from ackwire.store.files import OsFiles
    from ackwire.store.leftovers import Leftovers

    if is_database(args.name):
        return _import_to_database(args, path, form)
    target = directory_of(args.name)
    leftovers = Leftovers(target)
    if not leftovers.is_new:
        with journal(target) as (offline, progress), interrupts_wait() as check:
            _read_once(path, form, check)
            with offline.opened() as opened:
                outcome = _imported_into(opened, progress, args, path, form, check)
            return _told(outcome, is_new=False)
    # A directory that is there may be a mounted disk, which cannot be renamed.
    place = target if target.exists() else target.with_name(f".{target.name}.import-{os.getpid()}")
    is_done = False
    try:
        with journal(target, place) as (offline, progress), interrupts_wait() as check:
            try:
                _read_once(path, form, check)
                with offline.opened() as opened:
                    outcome = _imported_into(opened, progress, args, path, form, check)
                if outcome.failure is None and place != target:
                    OsFiles().rename(place, target)
                is_done = outcome.failure is None
            finally:
                if not is_done and place == target:
                    leftovers.remove()  # while the lock is ours
    finally:
        if not is_done and place != target:
            shutil.rmtree(place, ignore_errors=True)
            leftovers.remove()
    return _told(outcome, is_new=True)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """How an import went."""

    counts: dict[str, int]
    reassigned: int
    failure: str | None = None
    """Why it has ended before its end."""


def _import_to_database(args: argparse.Namespace, path: Path, form: str) -> int:
    """What was imported before a failure stays: a database has no other place where it could grow meanwhile, so
    `store copy`, which has, is the way to fill a new one."""
    with database(args.name, args.table_prefix, may_be_new=True) as (offline, progress), interrupts_wait() as check:
        _read_once(path, form, check)
        with offline.opened() as opened:
            outcome = _imported_into(opened, progress, args, path, form, check)
    return _told(outcome, is_new=False)


def _given(path: Path, form: str, check: Callable[[], None]) -> "Iterator[Given]":
    from ackwire.store.portable import RowReader
    from ackwire.wire.openwire.stored import OpenWireStoredForm

    for it in RowReader(OpenWireStoredForm()).read(_rows(path, form)):
        check()
        yield it


def _read_once(path: Path, form: str, check: Callable[[], None]) -> None:
    """Read the whole file, so that a bad one changes nothing."""
    for _ in _given(path, form, check):
        pass


def _imported_into(
    target: "Target", progress: ProgressLine, args: argparse.Namespace, path: Path, form: str, check: Callable[[], None]
) -> _Outcome:
    from ackwire.store.portable import Full, Import, is_empty, refuse_what_is_there
    from ackwire.wire.openwire.portrait import restamped

    if not args.append and not is_empty(target.store):
        raise ConfigError(f"{shown(args.name)} holds messages or subscriptions: --append adds to them")
    all_bytes = refuse_what_is_there(target.store, _given(path, form, check))
    work = Import(target, restamped)
    done_bytes = 0

    def on_bytes(size_bytes: int) -> None:
        nonlocal done_bytes
        done_bytes += size_bytes
        progress("importing", done_bytes, all_bytes)

    failure: str | None = None
    try:
        work.run(_given(path, form, check), on_bytes)
    except (Full, KeyboardInterrupt) as error:
        failure = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
    progress.clear()
    return _Outcome(work.report.counts, work.report.reassigned, failure)


def _told(outcome: _Outcome, *, is_new: bool) -> int:
    """Say how it went; the exit code."""
    if outcome.failure is not None:
        rest = "nothing was imported" if is_new else f"what was imported is whole: {_imported(outcome.counts)}"
        warn(f"{outcome.failure}; {rest}")
        return 1
    warn(_imported(outcome.counts))
    if outcome.reassigned:
        warn(f"{counted(outcome.reassigned, 'message')} got another sequence: theirs had been used in this store")
    return 0


def _rows(path: Path, form: str) -> "Iterator[Row]":
    from ackwire.cli.rows import read_lines, read_parquet

    return read_parquet(path) if form == "parquet" else read_lines(path)


def _imported(counts: dict[str, int]) -> str:
    return f"imported: {', '.join(f'{count} of kind {kind}' for kind, count in counts.items()) or 'nothing'}"

"""`ackwire store`: look at a store that no broker uses, put it in order, take messages out and in (SEMANTICS K2, K7).

Exit codes: 0 sound or done; 1 damaged, something to do, or not everything could be done; 2 the store cannot be used: it
is not there, somebody else uses it, or an option is wrong. `check`, `explain`, `stats` and `export` change nothing.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ackwire.cli.progress import ProgressLine
from ackwire.config.store_uri import DATABASES, check_table_prefix
from ackwire.errors import ConfigError, StoreFailed
from ackwire.util.clock import SystemClock
from ackwire.util.logs import escape
from ackwire.util.plurals import counted

if TYPE_CHECKING:
    from ackwire.cli.config import Commands
    from ackwire.store.check import CheckReport, Finding
    from ackwire.store.contract import FileInfo, Kept, Place
    from ackwire.store.inspect import StoreInspection
    from ackwire.store.offline import OfflineStore
    from ackwire.store.portable import Export, Given, Row
    from ackwire.store.stats import StoreStats

_SHOWN_MAX: Final = 100
"""Findings that are listed for people; --json has all."""

_INTERRUPTS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_DIRECTORY_HELP: Final = "the directory of the store (store.data); no broker may use it"


def add_command(commands: "Commands") -> None:
    """Add `store` and its commands."""
    parser = commands.add_parser(
        "store",
        help="check, repair, explain, export and import the files of a stopped broker",
        description="Looks at the files of a journal store that no broker uses, and puts them in order.",
        allow_abbrev=False,
    )
    below = parser.add_subparsers(metavar="COMMAND", required=True, title="commands")
    check = _add(below, "check", _run_check, "read everything and say what is damaged; changes nothing")
    check.add_argument("--json", action="store_true", help="everything, for machines")
    repair = _add(below, "repair", _run_repair, "do what a start would do about damage, and tell what was lost")
    repair.add_argument("--yes", action="store_true", help="do it; without, only say what would be done")
    explain = _add(below, "explain", _run_explain, "what keeps each file alive; changes nothing")
    explain.add_argument("number", metavar="NUMBER", nargs="?", type=int, help="one file only")
    explain.add_argument("--json", action="store_true", help="everything, for machines")
    stats = _add(below, "stats", _run_stats, "totals; changes nothing")
    stats.add_argument("--json", action="store_true", help="everything, for machines")
    export = _add(below, "export", _run_export, "write all messages, subscriptions, jobs and transactions to a file")
    import_ = _add(below, "import", _run_import, "read what export has written into a new or empty store")
    for transfer in (export, import_):
        transfer.add_argument("file", metavar="FILE", help="the file; - is standard output or input")
        transfer.add_argument("--format", choices=("jsonl", "parquet"), help="default: by the name, else JSON lines")
    import_.add_argument("--append", action="store_true", help="add to what the store holds; nothing is overwritten")
    _add_schema(below)


def _add_schema(commands: "Commands") -> None:
    summary = "print the statements that create the tables of a database"
    parser = commands.add_parser("schema", help=summary, description=f"P{summary[1:]}.", allow_abbrev=False)
    parser.add_argument("database", choices=DATABASES, help="the kind of database")
    parser.add_argument("--table-prefix", metavar="TEXT", default="", help="in front of all names (sql.table_prefix)")
    parser.set_defaults(run=_run_schema)


def _run_schema(args: argparse.Namespace) -> int:
    from ackwire.store.sql.dialect import MARIADB, POSTGRESQL, SQLITE
    from ackwire.store.sql.schema import Tables, ddl

    if args.table_prefix:
        check_table_prefix(args.table_prefix)
    dialect = {"sqlite": SQLITE, "postgresql": POSTGRESQL, "mariadb": MARIADB}[args.database]
    for statement in ddl(dialect, Tables(args.table_prefix)):
        print(f"{statement};")
    return 0


def _add(
    commands: "Commands", name: str, run: Callable[[argparse.Namespace], int], summary: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.", allow_abbrev=False
    )
    parser.add_argument("directory", metavar="DIR", help=_DIRECTORY_HELP)
    parser.set_defaults(run=run)
    return parser


def _rehearse(inspection: "StoreInspection") -> "list[tuple[Kept, str]]":
    """What a start could not restore."""
    from ackwire.broker.rehearsal import rehearse
    from ackwire.store.rehearsal_store import RehearsalStore
    from ackwire.wire.openwire.editor import OpenWireEditor

    editor = OpenWireEditor("ID:rehearsal", "rehearsal", SystemClock())
    return rehearse(RehearsalStore(inspection), editor, inspection.now_ms())


@contextmanager
def _offline(args: argparse.Namespace, new: Path | None = None) -> "Iterator[tuple[OfflineStore, ProgressLine]]":
    """The store, locked; or the directory *new*, made if need be, where one is to be."""
    # Imported here, so that the other commands start without loading a store.
    from ackwire.store.files import OsFiles
    from ackwire.store.journal.recovery_report import UnusableStore
    from ackwire.store.offline import OfflineStore, locked
    from ackwire.wire.openwire.stored import OpenWireStoredForm

    data = new or Path(args.directory)
    files = OsFiles()
    if new is None and not (data / "journal").is_dir():
        raise ConfigError(f"{data} is not a store: it has no directory journal")
    holder = f"ackwire store, process {os.getpid()} on {socket.gethostname()}"
    try:
        if new is not None:
            files.make_directory(new)
        with (
            locked(files, data, holder),
            tempfile.TemporaryDirectory(prefix="ackwire-store-") as scratch,
            ProgressLine() as progress,
        ):
            yield (
                OfflineStore(
                    files,
                    data,
                    form=OpenWireStoredForm(),
                    now_ms=SystemClock().now_ms,
                    new_id=lambda: os.urandom(16),
                    scratch=Path(scratch),
                    progress=progress,
                    rehearse=_rehearse,
                ),
                progress,
            )
    except (UnusableStore, StoreFailed) as error:
        raise ConfigError(f"the store cannot be used: {error}") from None
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise ConfigError(f"{error.filename or data}: {error.strerror or error}") from None


@contextmanager
def _interrupts_wait() -> Iterator[Callable[[], None]]:
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


def _say(text: str) -> None:
    print(escape(text))


def _warn(text: str) -> None:
    print(escape(text), file=sys.stderr)


# ---- check -----------------------------------------------------------------------------------------------------


def _run_check(args: argparse.Namespace) -> int:
    from ackwire.store.check import check

    with _offline(args) as (offline, progress):
        with offline.inspect() as inspection:
            report = check(inspection)
        progress.clear()
        if args.json:
            print(json.dumps(_check_json(report), indent=2))
        else:
            _show_check(report)
    return 0 if report.is_sound else 1


def _show_check(report: "CheckReport") -> None:
    unknown = [it for it in report.findings if not it.is_known]
    for finding in unknown[:_SHOWN_MAX]:
        _say(f"{finding.kind.value}: {finding.what} -> repair would {finding.repair}")
    if len(unknown) > _SHOWN_MAX:
        _say(f"and {len(unknown) - _SHOWN_MAX} more: see --json")
    for finding in report.findings:
        if finding.is_known:
            _say(f"known: {finding.what}")
    for note in report.notes:
        _say(f"note: {note}")
    for line in _summary(report):
        _say(line)


def _summary(report: "CheckReport") -> Iterator[str]:
    from ackwire.store.explain import size_text

    size_bytes = sum(it.size_bytes for it in report.segments)
    records = sum(it.records for it in report.segments)
    damaged = sum(it.damaged_bytes for it in report.segments)
    torn = sum(it.torn_bytes for it in report.segments)
    yield (
        f"{counted(len(report.segments), 'segment')} ({size_text(size_bytes)}), {counted(records, 'record')}, "
        f"{counted(sum(report.messages.values()), 'message')}, {damaged} damaged bytes, {torn} torn bytes"
    )
    for place, messages in sorted(report.messages.items(), key=lambda it: (-it[1], repr(it[0]))):
        yield f"  {counted(messages, 'message')} in {place!r}"
    unknown = sum(not it.is_known for it in report.findings)
    yield "the store is sound" if report.is_sound else f"the store is damaged: {counted(unknown, 'finding')}"


def _check_json(report: "CheckReport") -> dict[str, Any]:
    return {
        "sound": report.is_sound,
        "findings": [_finding_json(it) for it in report.findings],
        "notes": report.notes,
        "segments": [
            {
                "number": it.number,
                "size_bytes": it.size_bytes,
                "records": it.records,
                "first_record": it.first_record,
                "last_record": it.last_record,
                "damaged_bytes": it.damaged_bytes,
                "torn_bytes": it.torn_bytes,
                "kinds": dict(it.kinds),
            }
            for it in report.segments
        ],
        "places": [{**_place_json(place), "messages": messages} for place, messages in report.messages.items()],
    }


def _finding_json(finding: "Finding") -> dict[str, Any]:
    return {
        "kind": finding.kind.value,
        "what": finding.what,
        "repair": finding.repair,
        "segment": finding.segment,
        "offset": finding.offset,
        "place": None if finding.place is None else _place_json(finding.place),
        "known": finding.is_known,
    }


def _place_json(place: "Place") -> dict[str, Any]:
    from ackwire.store.portable import place_to_row

    return place_to_row(place)


# ---- repair ----------------------------------------------------------------------------------------------------


def _run_repair(args: argparse.Namespace) -> int:
    from ackwire.store.check import check
    from ackwire.store.repair import needs_new_index, repair

    with _offline(args) as (offline, progress):
        with offline.inspect() as inspection:
            before = check(inspection)
        progress.clear()
        if before.is_sound:
            _say("the store is sound: there is nothing to repair")
            return 0
        for finding in [it for it in before.findings if not it.is_known][:_SHOWN_MAX]:
            _say(f"{finding.kind.value}: {finding.what}")
        if not args.yes:
            _show_plan(before, anew=needs_new_index(before))
            return 1
        with _interrupts_wait():
            report = repair(offline, before)
        progress.clear()
        for line in report.done:
            _say(f"done: {line}")
        _show_losses(report.lost.items(), "was", "were")
        _show_what_nobody_knows(before)
        for line in _summary(report.after):
            _say(line)
    return 0 if report.after.is_sound else 1


def _show_plan(before: "CheckReport", *, anew: bool) -> None:
    plans = dict.fromkeys(it.repair for it in before.findings if not it.is_known)
    if anew:
        plans["put the old index into the quarantine"] = None
    for plan in plans:
        _say(f"repair would {plan}")
    _show_losses(before.lost_by_place().items(), "is", "are")
    _show_what_nobody_knows(before)
    _say("nothing was changed: ackwire store repair DIR --yes does it")


def _show_losses(lost: "Iterable[tuple[Place, int]]", one: str, many: str) -> None:
    for place, messages in lost:
        _say(f"lost: {messages} message{f's {many}' if messages > 1 else f' {one}'} given up in {place!r}")


def _show_what_nobody_knows(before: "CheckReport") -> None:
    """Only the index knows what damaged bytes of the journal said: without it, silence would look like no loss."""
    if before.journal_is_damaged and not before.index_is_trusted:
        _say(
            "lost: what the damaged parts of the journal held is not known, because the index cannot be used: messages "
            "may be missing that are not counted here, and consumed ones may be there again"
        )


# ---- explain and stats -----------------------------------------------------------------------------------------


def _run_explain(args: argparse.Namespace) -> int:
    from ackwire.store.explain import explain

    with _offline(args) as (offline, progress), offline.inspect() as inspection:
        recovery = inspection.started().recovery
        reader = inspection.reader
        files = explain(
            recovery.catalog,
            active=recovery.segment,
            sent_ms=lambda _, sequence, entry: reader.sent_ms(entry, sequence),
        )
        progress.clear()
        chosen = [it for it in files if args.number is None or it.number == args.number]
        if args.number is not None and not chosen:
            raise ConfigError(f"the journal in {args.directory} has no file {args.number}")
        if args.json:
            print(json.dumps([_file_json(it) for it in chosen], indent=2))
        else:
            for file in chosen:
                _say(file.why)
    return 0


def _file_json(file: "FileInfo") -> dict[str, Any]:
    return {
        "number": file.number,
        "size_bytes": file.size_bytes,
        "live_messages": file.live_messages,
        "live_bytes": file.live_bytes,
        "oldest_ms": file.oldest_ms,
        "places": [{**_place_json(place), "messages": count, "size_bytes": size} for place, count, size in file.places],
        "state": dict(file.state),
        "removals": {str(about): count for about, count in file.removals},
        "why": file.why,
    }


def _run_stats(args: argparse.Namespace) -> int:
    from ackwire.store.stats import stats

    with _offline(args) as (offline, progress), offline.inspect() as inspection:
        found = stats(inspection)
        progress.clear()
        if args.json:
            print(json.dumps(_stats_json(found), indent=2))
        else:
            for line in _stats_lines(found):
                _say(line)
    return 0


def _stats_json(found: "StoreStats") -> dict[str, Any]:
    values = {name: getattr(found, name) for name in found.__slots__}
    return values | {
        "live_share": round(found.live_share, 4),
        "oldest_place": None if found.oldest_place is None else _place_json(found.oldest_place),
        "places": [
            {**_place_json(it.place), "messages": it.messages, "size_bytes": it.size_bytes} for it in found.places
        ],
    }


def _stats_lines(found: "StoreStats") -> Iterator[str]:
    from ackwire.store.explain import size_text, time_text
    from ackwire.store.index_files import IndexKind

    yield f"store     {found.store_id}, started {counted(found.epoch, 'time')}, last sequence {found.last_sequence}"
    yield (
        f"journal   {counted(found.segments, 'file')}, {size_text(found.journal_bytes)}, of which "
        f"{size_text(found.live_bytes)} ({found.live_share:.1%}) are alive; {counted(found.records, 'record')} ever"
    )
    yield f"index     {IndexKind(found.index_kind).title}, {size_text(found.index_bytes)}"
    yield f"messages  {found.messages}"
    for it in found.places:
        yield f"          {it.messages} ({size_text(it.size_bytes)}) in {it.place!r}"
    if found.oldest_ms is not None:
        yield f"oldest    sent {time_text(found.oldest_ms)}, in {found.oldest_place!r}"
    yield (
        f"besides   {counted(found.durables, 'durable subscription')}, {counted(found.jobs, 'scheduled job')}, "
        f"{counted(found.prepared, 'prepared transaction')}, {counted(found.producers, 'known producer')}, "
        f"{counted(found.commits, 'known commit')}"
    )
    if found.quarantined:
        yield f"damage    {counted(found.quarantined, 'line')} in quarantine/report.jsonl"


# ---- export ----------------------------------------------------------------------------------------------------


def _run_export(args: argparse.Namespace) -> int:
    from ackwire.cli.rows import format_of
    from ackwire.store.portable import Export, JournalSource
    from ackwire.wire.openwire.portrait import portrait

    form = format_of(args.file, args.format)
    if args.file == "-" and form == "parquet":
        raise ConfigError("Parquet cannot be written to standard output: name a file")
    if args.file != "-" and Path(args.file).exists():
        raise ConfigError(f"{args.file} exists already")
    with _offline(args) as (offline, progress), offline.inspect() as inspection:
        export = Export(JournalSource(inspection), portrait)
        _write(export, args.file, form)
        progress.clear()
    for line in export.unreadable:
        _warn(line)
    _warn(f"{counted(export.messages, 'message')}, {counted(export.rows_written, 'row')} in all")
    return 1 if export.unreadable else 0


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


def _run_import(args: argparse.Namespace) -> int:
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

    target = Path(args.directory)
    leftovers = Leftovers(target)
    if not leftovers.is_new:
        with _offline(args) as (offline, progress):
            return _told(_imported_into(offline, progress, args, path, form), is_new=False)
    # A directory that is there may be a mounted disk, which cannot be renamed.
    place = target if target.exists() else target.with_name(f".{target.name}.import-{os.getpid()}")
    is_done = False
    try:
        with _offline(args, place) as (offline, progress):
            try:
                outcome = _imported_into(offline, progress, args, path, form)
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


def _imported_into(
    offline: "OfflineStore", progress: ProgressLine, args: argparse.Namespace, path: Path, form: str
) -> _Outcome:
    from ackwire.store.portable import Full, Import, RowReader, is_empty, refuse_what_is_there
    from ackwire.wire.openwire.portrait import restamped

    def given() -> "Iterator[Given]":
        for it in RowReader(offline.form).read(_rows(path, form)):
            check_interrupt()
            yield it

    with _interrupts_wait() as check_interrupt:
        for _ in given():  # a bad file changes nothing
            pass
        with offline.opened() as opened:
            if not args.append and not is_empty(opened.store):
                raise ConfigError(f"{args.directory} holds messages or subscriptions: --append adds to them")
            all_bytes = refuse_what_is_there(opened.store, given())
            work = Import(opened, restamped)
            done_bytes = 0

            def on_bytes(size_bytes: int) -> None:
                nonlocal done_bytes
                done_bytes += size_bytes
                progress("importing", done_bytes, all_bytes)

            failure: str | None = None
            try:
                work.run(given(), on_bytes)
            except (Full, KeyboardInterrupt) as error:
                failure = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
        progress.clear()
    return _Outcome(work.report.counts, work.report.reassigned, failure)


def _told(outcome: _Outcome, *, is_new: bool) -> int:
    """Say how it went; the exit code."""
    if outcome.failure is not None:
        rest = "nothing was imported" if is_new else f"what was imported is whole: {_imported(outcome.counts)}"
        _warn(f"{outcome.failure}; {rest}")
        return 1
    _warn(_imported(outcome.counts))
    if outcome.reassigned:
        _warn(f"{counted(outcome.reassigned, 'message')} got another sequence: theirs had been used in this store")
    return 0


def _rows(path: Path, form: str) -> "Iterator[Row]":
    from ackwire.cli.rows import read_lines, read_parquet

    return read_parquet(path) if form == "parquet" else read_lines(path)


def _imported(counts: dict[str, int]) -> str:
    return f"imported: {', '.join(f'{count} of kind {kind}' for kind, count in counts.items()) or 'nothing'}"

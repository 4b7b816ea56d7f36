"""`ackwire store`: look at a store that no broker uses, put it in order, take messages out and in (SEMANTICS K2, K7).

Exit codes: 0 sound or done; 1 damaged, something to do, or not everything could be done; 2 the store cannot be used: it
is not there, somebody else uses it, or an option is wrong. `check`, `explain`, `stats` and `export` change nothing.

Here are the commands for a journal; `store_database.py` has those for a database, `store_transfer.py` export and
import, `store_copy.py` copies.
"""

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from ackwire.cli import store_copy, store_database
from ackwire.cli.store_access import check_name, directory_of, interrupts_wait, journal, say
from ackwire.cli.store_transfer import run_export, run_import
from ackwire.config.store_uri import DATABASES, check_table_prefix, is_database
from ackwire.errors import ConfigError
from ackwire.util.plurals import counted

if TYPE_CHECKING:
    from ackwire.cli.config import Commands
    from ackwire.store.check import CheckReport, Finding
    from ackwire.store.contract import FileInfo, Place
    from ackwire.store.stats import StoreStats

_SHOWN_MAX: Final = 100
"""Findings that are listed for people; --json has all."""

_DIGITS_MAX: Final = 19
"""Digits of the largest number that a file can have."""

_DIRECTORY_HELP: Final = "the directory of a journal (store.data), or the URI of a database; no broker may use it"

Run = Callable[[argparse.Namespace], int]


def add_command(commands: "Commands") -> None:
    """Add `store` and its commands."""
    parser = commands.add_parser(
        "store",
        help="check, repair, explain, export, import and copy the store of a stopped broker",
        description="Looks at a store that no broker uses, a journal or a database, and puts it in order.",
        allow_abbrev=False,
    )
    below = parser.add_subparsers(metavar="COMMAND", required=True, title="commands")
    check = _add(below, "check", _run_check, "read everything and say what is damaged; changes nothing")
    check.set_defaults(run_database=store_database.run_check)
    repair = _add(below, "repair", _run_repair, "do what a start would do about damage, and tell what was lost")
    repair.add_argument("--yes", action="store_true", help="do it; without, only say what would be done")
    repair.set_defaults(run_database=store_database.run_repair)
    explain = _add(below, "explain", _run_explain, "what keeps each file alive, or each row; changes nothing")
    explain.add_argument("what", metavar="WHAT", nargs="?", help="one file by its number, or one queue of a database")
    explain.set_defaults(run_database=store_database.run_explain)
    stats = _add(below, "stats", _run_stats, "totals; changes nothing")
    stats.set_defaults(run_database=store_database.run_stats)
    for shown in (check, explain, stats):
        shown.add_argument("--json", action="store_true", help="everything, for machines")
    export = _add(below, "export", run_export, "write all messages, subscriptions, jobs and transactions to a file")
    import_ = _add(below, "import", run_import, "read what export has written into a new or empty store")
    for transfer in (export, import_):
        transfer.add_argument("file", metavar="FILE", help="the file; - is standard output or input")
        transfer.add_argument("--format", choices=("jsonl", "parquet"), help="default: by the name, else JSON lines")
    import_.add_argument("--append", action="store_true", help="add to what the store holds; nothing is overwritten")
    store_copy.add_command(below)
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


def _add(commands: "Commands", name: str, run: Run, summary: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.", allow_abbrev=False
    )
    parser.add_argument("directory", metavar="DIR", nargs="?", help=_DIRECTORY_HELP)
    parser.add_argument("--store", metavar="URI", help="the same, as an option")
    parser.add_argument("--table-prefix", metavar="TEXT", default="", help="of a database (sql.table_prefix)")
    parser.set_defaults(run=_run_named, run_journal=run, run_database=run)
    return parser


def _run_named(args: argparse.Namespace) -> int:
    """Run the command for the kind of store that is named."""
    args.name = _name(args)
    check_name(args.name)
    if args.table_prefix:
        check_table_prefix(args.table_prefix)
    run: Run = args.run_database if is_database(args.name) else args.run_journal
    return run(args)


def _name(args: argparse.Namespace) -> str:
    """The store that is named, by the first argument or by --store."""
    given, named = args.directory, args.store
    if named is None:
        if given is None:
            raise ConfigError("the following arguments are required: DIR, or --store URI")
        return str(given)
    if given is not None:
        if "what" not in args or args.what is not None:
            raise ConfigError(f"name the store once: {given}, or --store")
        args.what = given  # the first argument is the only one
    return str(named)


# ---- check -----------------------------------------------------------------------------------------------------


def _run_check(args: argparse.Namespace) -> int:
    from ackwire.store.check import check

    with journal(directory_of(args.name)) as (offline, progress):
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
        say(f"{finding.kind.value}: {finding.what} -> repair would {finding.repair}")
    if len(unknown) > _SHOWN_MAX:
        say(f"and {len(unknown) - _SHOWN_MAX} more: see --json")
    for finding in report.findings:
        if finding.is_known:
            say(f"known: {finding.what}")
    for note in report.notes:
        say(f"note: {note}")
    for line in _summary(report):
        say(line)


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

    with journal(directory_of(args.name)) as (offline, progress):
        with offline.inspect() as inspection:
            before = check(inspection)
        progress.clear()
        if before.is_sound:
            say("the store is sound: there is nothing to repair")
            return 0
        for finding in [it for it in before.findings if not it.is_known][:_SHOWN_MAX]:
            say(f"{finding.kind.value}: {finding.what}")
        if not args.yes:
            _show_plan(before, anew=needs_new_index(before))
            return 1
        with interrupts_wait():
            report = repair(offline, before)
        progress.clear()
        for line in report.done:
            say(f"done: {line}")
        _show_losses(report.lost.items(), "was", "were")
        _show_what_nobody_knows(before)
        for line in _summary(report.after):
            say(line)
    return 0 if report.after.is_sound else 1


def _show_plan(before: "CheckReport", *, anew: bool) -> None:
    plans = dict.fromkeys(it.repair for it in before.findings if not it.is_known)
    if anew:
        plans["put the old index into the quarantine"] = None
    for plan in plans:
        say(f"repair would {plan}")
    _show_losses(before.lost_by_place().items(), "is", "are")
    _show_what_nobody_knows(before)
    say("nothing was changed: ackwire store repair DIR --yes does it")


def _show_losses(lost: "Iterable[tuple[Place, int]]", one: str, many: str) -> None:
    for place, messages in lost:
        say(f"lost: {messages} message{f's {many}' if messages > 1 else f' {one}'} given up in {place!r}")


def _show_what_nobody_knows(before: "CheckReport") -> None:
    """Only the index knows what damaged bytes of the journal said: without it, silence would look like no loss."""
    if before.journal_is_damaged and not before.index_is_trusted:
        say(
            "lost: what the damaged parts of the journal held is not known, because the index cannot be used: messages "
            "may be missing that are not counted here, and consumed ones may be there again"
        )


# ---- explain and stats -----------------------------------------------------------------------------------------


def _run_explain(args: argparse.Namespace) -> int:
    from ackwire.store.explain import explain

    with journal(directory_of(args.name)) as (offline, progress), offline.inspect() as inspection:
        recovery = inspection.started().recovery
        reader = inspection.reader
        files = explain(
            recovery.catalog,
            active=recovery.segment,
            sent_ms=lambda _, sequence, entry: reader.sent_ms(entry, sequence),
        )
        progress.clear()
        number = _file_number(args.what)
        chosen = [it for it in files if number is None or it.number == number]
        if not chosen and number is not None:
            raise ConfigError(f"the journal in {directory_of(args.name)} has no file {number}")
        if args.json:
            print(json.dumps([_file_json(it) for it in chosen], indent=2))
        else:
            for file in chosen:
                say(file.why)
    return 0


def _file_number(text: str | None) -> int | None:
    if text is None:
        return None
    digits = text.removesuffix(".log")
    if not digits.isascii() or not digits.isdecimal() or len(digits) > _DIGITS_MAX:
        raise ConfigError(f"{text} is no number of a file, such as 7")
    return int(digits)


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

    with journal(directory_of(args.name)) as (offline, progress), offline.inspect() as inspection:
        found = stats(inspection)
        progress.clear()
        if args.json:
            print(json.dumps(_stats_json(found), indent=2))
        else:
            for line in _stats_lines(found):
                say(line)
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

"""`ackwire store check`, `stats`, `explain` and `repair` for a database (SEMANTICS K2, K3)."""

import argparse
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NoReturn

from ackwire.cli.store_access import database, say
from ackwire.config.store_uri import parse_store_uri
from ackwire.errors import ConfigError
from ackwire.util.plurals import counted

if TYPE_CHECKING:
    from ackwire.store.sql.survey import DatabaseCheck, DatabaseStats, PlaceRows

_SHOWN_MAX: Final = 100
"""Findings that are listed for people; --json has all."""


def run_repair(args: argparse.Namespace) -> NoReturn:
    """Say who repairs a database."""
    raise ConfigError(
        f"{parse_store_uri(args.name)}: a database is repaired with its own tools and backups, not by this command; "
        '"ackwire store check" names the rows that cannot be served'
    )


def run_check(args: argparse.Namespace) -> int:
    """Read everything."""
    from ackwire.store.sql.survey import check_database

    with database(args.name, args.table_prefix) as (offline, progress):
        with offline.inspect() as inspection:
            report = check_database(inspection)
        progress.clear()
    if args.json:
        print(json.dumps(_check_json(report), indent=2))
    else:
        _show_check(report)
    return 0 if report.is_sound else 1


def _show_check(report: "DatabaseCheck") -> None:
    for finding in report.findings[:_SHOWN_MAX]:
        say(finding)
    if len(report.findings) > _SHOWN_MAX:
        say(f"and {len(report.findings) - _SHOWN_MAX} more: see --json")
    for note in report.notes:
        say(f"note: {note}")
    say(counted(report.messages.total(), "message"))
    for place, messages in sorted(report.messages.items(), key=lambda it: (-it[1], repr(it[0]))):
        say(f"  {counted(messages, 'message')} in {place!r}")
    findings = counted(len(report.findings), "finding")
    say("the store is sound" if report.is_sound else f"the store is damaged: {findings}")


def _check_json(report: "DatabaseCheck") -> dict[str, Any]:
    from ackwire.store.portable import place_to_row

    return {
        "sound": report.is_sound,
        "findings": report.findings,
        "notes": report.notes,
        "places": [{**place_to_row(place), "messages": messages} for place, messages in report.messages.items()],
    }


def run_explain(args: argparse.Namespace) -> int:
    """Say which rows wait for whom."""
    from ackwire.store.sql.survey import survey
    from ackwire.wire.openwire.id_text import transaction_text

    with database(args.name, args.table_prefix) as (offline, progress):
        with offline.inspect() as inspection:
            found = survey(inspection, transaction_text)
        progress.clear()
    chosen = [it for it in found.places if args.what is None or args.what in _names(it)]
    if args.what is not None and not chosen:
        raise ConfigError(f"{parse_store_uri(args.name)} has no rows for {args.what}")
    if args.json:
        print(json.dumps([_rows_json(it) for it in chosen], indent=2))
    else:
        for line in found.sentences() if args.what is None else (it.why for it in chosen):
            say(line)
    return 0


def _names(rows: "PlaceRows") -> tuple[str, ...]:
    """How the place may be named: `queue://orders` or `orders`."""
    text = repr(rows.place)
    return text, text.partition("://")[2] or text


def _rows_json(rows: "PlaceRows") -> dict[str, Any]:
    from ackwire.store.portable import place_to_row

    return {
        **place_to_row(rows.place),
        "rows": rows.rows,
        "size_bytes": rows.size_bytes,
        "oldest_ms": rows.oldest_ms,
        "waiting": rows.waiting,
        "acknowledged": dict(rows.acknowledged),
        "reserved": dict(rows.reserved),
        "last_acked": rows.last_acked,
        "why": rows.why,
    }


def run_stats(args: argparse.Namespace) -> int:
    """Print totals."""
    from ackwire.store.sql.survey import database_stats

    with database(args.name, args.table_prefix) as (offline, progress):
        with offline.inspect() as inspection:
            found = database_stats(inspection)
        progress.clear()
    if args.json:
        print(json.dumps(_stats_json(found), indent=2))
    else:
        for line in _stats_lines(found):
            say(line)
    return 0


def _stats_json(found: "DatabaseStats") -> dict[str, Any]:
    from ackwire.store.portable import place_to_row

    return {name: getattr(found, name) for name in found.__slots__} | {
        "oldest_place": None if found.oldest_place is None else place_to_row(found.oldest_place),
        "places": [{**place_to_row(it.place), "messages": it.rows, "size_bytes": it.size_bytes} for it in found.places],
    }


def _stats_lines(found: "DatabaseStats") -> Iterator[str]:
    from ackwire.store.explain import size_text, time_text

    prefix = f", tables {found.table_prefix}…" if found.table_prefix else ""
    yield f"store     {found.database}{prefix}, last sequence {found.last_sequence}"
    yield f"last run  {found.run_id or 'none'}, {'ended' if found.was_closed else 'did not end'} in good order"
    yield f"messages  {found.messages} ({size_text(found.message_bytes)})"
    for it in found.places:
        yield f"          {it.rows} ({size_text(it.size_bytes)}) in {it.place!r}"
    if found.oldest_ms is not None:
        yield f"oldest    sent {time_text(found.oldest_ms)}, in {found.oldest_place!r}"
    yield (
        f"besides   {counted(found.durables, 'durable subscription')}, {counted(found.jobs, 'scheduled job')}, "
        f"{counted(found.prepared, 'prepared transaction')}, {counted(found.producers, 'known producer')}, "
        f"{counted(found.commits, 'known commit')}"
    )

"""`ackwire store copy FROM TO`: all of a store into another of any kind, verified (SEMANTICS K2, K3, K7).

A copy that ends early leaves nothing that a broker would serve. A journal grows in a directory of its own below TO, and
gets its place when it is verified; a database has a schema version meanwhile that brokers refuse. The next copy to the
same TO removes what is left, and begins anew.

Exit codes: 0 copied, and verified by counts and checksums; 1 not or not all, the sentence says why; 2 one of the stores
cannot be used, or TO holds something.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ackwire.cli.copy_destinations import DatabaseDestination, Destination, JournalDestination, journal_place
from ackwire.cli.copy_progress import CopyProgress
from ackwire.cli.store_access import (
    check_name,
    database,
    directory_of,
    index_of,
    interrupts_wait,
    journal,
    say,
    shown,
    warn,
)
from ackwire.config.store_uri import check_table_prefix, is_database, parse_store_uri
from ackwire.util.plurals import counted

if TYPE_CHECKING:
    from ackwire.cli.config import Commands
    from ackwire.store.copying import Summary
    from ackwire.store.portable import Row, Source

_STORE_HELP: Final = "the directory of a journal, journal+leveldb:DIR, or the URI of a database"


def add_command(commands: "Commands") -> None:
    """Add `copy`."""
    parser = commands.add_parser(
        "copy",
        help="copy a store into another of any kind, and verify it",
        description="Copies all of a store that no broker uses into a new one of any kind: messages, subscriptions, "
        "jobs, transactions, cursors, and what is known of producers. At the end counts and checksums of both are "
        "compared. A copy that was interrupted is never served by a broker; run the command again, and it begins anew.",
        allow_abbrev=False,
    )
    parser.add_argument("source", metavar="FROM", help=f"{_STORE_HELP}; no broker may use it")
    parser.add_argument("target", metavar="TO", help=f"{_STORE_HELP}; it must hold nothing")
    parser.add_argument("--dry-run", action="store_true", help="read FROM, look at TO, and change nothing")
    parser.add_argument("--from-table-prefix", metavar="TEXT", default="", help="of a database FROM")
    parser.add_argument("--to-table-prefix", metavar="TEXT", default="", help="of a database TO")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    for name in (args.source, args.target):
        check_name(name)
    for prefix in (args.from_table_prefix, args.to_table_prefix):
        if prefix:
            check_table_prefix(prefix)
    with CopyProgress() as progress, interrupts_wait() as check:
        progress.begin("reading")
        with _source(args, progress) as source:
            if args.dry_run:
                _refuse_used(args, progress)
                return _rehearsed(source, args, progress, check)
            with _destination(args, progress) as destination:
                return _copied(source, destination, args, progress, check)


def _refuse_used(args: argparse.Namespace, progress: CopyProgress) -> None:
    """Raise `ConfigError` if TO holds something; make nothing."""
    name = args.target
    path = Path(parse_store_uri(name).path) if is_database(name) else directory_of(name)
    if (is_database(name) and not name.startswith("sqlite:")) or path.exists():
        with _destination(args, progress) as destination:
            destination.refuse_if_used()


# ---- both ends -------------------------------------------------------------------------------------------------


@contextmanager
def _source(args: argparse.Namespace, progress: CopyProgress) -> "Iterator[Source]":
    from ackwire.store.portable import JournalSource

    if is_database(args.source):
        with database(args.source, args.from_table_prefix, report=progress) as (offline, _), offline.inspect() as found:
            yield found
    else:
        with journal(directory_of(args.source), report=progress) as (store, _), store.inspect() as inspection:
            yield JournalSource(inspection)


@contextmanager
def _destination(args: argparse.Namespace, progress: CopyProgress) -> Iterator[Destination]:
    if is_database(args.target):
        with database(args.target, args.to_table_prefix, may_be_new=True, report=progress) as (offline, _):
            yield DatabaseDestination(offline, shown(args.target))
        return
    with (
        journal_place(directory_of(args.target)),
        tempfile.TemporaryDirectory(prefix="ackwire-copy-") as scratch,
    ):
        yield JournalDestination(directory_of(args.target), index_of(args.target), Path(scratch), progress)


# ---- the copy --------------------------------------------------------------------------------------------------


def _rehearsed(source: "Source", args: argparse.Namespace, progress: CopyProgress, check: Callable[[], None]) -> int:
    from ackwire.store.copying import summary_of

    progress.begin("reading")
    found = summary_of(source, lambda _: check())
    progress.clear()
    _warn_of_unreadable(found)
    say(f"would copy {_content(found)} to {shown(args.target)}; nothing was changed")
    return 1 if found.unreadable else 0


def _copied(
    source: "Source", there: Destination, args: argparse.Namespace, progress: CopyProgress, check: Callable[[], None]
) -> int:
    from ackwire.store.copying import TooLarge, copy, summary_of
    from ackwire.store.portable import BadRow, Full
    from ackwire.wire.openwire.portrait import restamped
    from ackwire.wire.openwire.stored import OpenWireStoredForm

    def on_row(_: "Row") -> None:
        check()

    there.refuse_if_used()
    if there.clear():
        warn("an interrupted copy was there: it is removed, and this one begins anew")
    try:
        progress.begin("copying")
        with there.opened() as target:
            original = copy(source, target, OpenWireStoredForm(), restamped, on_row)
        progress.begin("verifying")
        with there.inspected() as written:
            differences = list(original.differences(summary_of(written, on_row)))
    except (TooLarge, BadRow, Full, KeyboardInterrupt) as error:
        progress.clear()
        reason = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
        warn(f"{reason}; {shown(args.target)} has no copy: run the command again, and it begins anew")
        return 1
    progress.clear()
    _warn_of_unreadable(original)
    if differences:
        for difference in differences:
            warn(difference)
        warn(f"the copy is not the same, so no broker may use {shown(args.target)}")
        return 1
    there.release()
    say(f"copied {_content(original)} to {shown(args.target)}; counts and checksums of both are the same")
    return 1 if original.unreadable else 0


def _warn_of_unreadable(found: "Summary") -> None:
    for line in found.unreadable:
        warn(line)


def _content(found: "Summary") -> str:
    """What a store holds, for people."""
    from ackwire.store.explain import size_text

    nouns = {
        "durable": "durable subscription",
        "job": "scheduled job",
        "prepared": "prepared transaction",
        "cursor": "cursor",
        "staged": "staged part of a batch",
    }
    others = [counted(found.counts[kind], noun) for kind, noun in nouns.items() if found.counts.get(kind)]
    messages = f"{counted(found.messages, 'message')} ({size_text(found.message_bytes)})"
    return f"{', '.join([messages, *others])}, SHA-256 {found.checksum}"

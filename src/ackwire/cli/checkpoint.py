"""`ackwire checkpoint`: has a running broker's store catch up with its journal now."""

import argparse
from typing import TYPE_CHECKING, Final

from ackwire.cli.connecting import add_operator_options
from ackwire.cli.operating import EXIT_CODES, TIMEOUT_SECONDS, failed, is_done, no_answer, operation_client, show
from ackwire.operation import CHECKPOINT, VERB

if TYPE_CHECKING:
    from ackwire.cli.config import Commands

_EPILOG: Final = f"""\
examples:
  ackwire checkpoint                               before the database behind the journal is backed up

{EXIT_CODES}"""


def add_command(commands_parser: "Commands") -> None:
    """Add `checkpoint` to the command line."""
    parser = commands_parser.add_parser(
        "checkpoint",
        help="have a running broker move what waits in its journal to the database now",
        description="Begins a checkpoint: a journal in front of a database moves to it what still waits, and a journal "
        "alone brings its index up to date. The broker goes on meanwhile.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_operator_options(parser, timeout_seconds=TIMEOUT_SECONDS)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    with operation_client(args) as (broker, where):
        answer = broker.ask({VERB: CHECKPOINT})
        if answer is None:
            return no_answer(args, where)
        if not is_done(answer):
            return failed(answer, where)
        show(args, {"action": CHECKPOINT}, "a checkpoint has begun")
        return 0

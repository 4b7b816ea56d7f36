"""`ackwire config check FILE` and `ackwire config show`; and where the settings of any command come from.

The order is: defaults, then the file, then options on the command line. The file is that of --config, or of the
environment variable ACKWIRE_CONFIG, or `ackwire.toml` if it is in the working directory.
"""

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ackwire.config import Settings, load, problems, read_text, render, settings_file, with_setting
from ackwire.config.listener_uri import mask_secrets
from ackwire.config.settings_file import NAME, VARIABLE
from ackwire.config.store_uri import mask_store
from ackwire.errors import ConfigError

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[Any]

HTTP_ADDRESS: Final = "127.0.0.1:8161"
"""Where `--http` listens by itself; the port is that of ActiveMQ's console."""

_CONFIG_HELP: Final = f"a TOML file with settings; default: ${VARIABLE}, or {NAME} if it is here"

_OVERRIDES: Final = (
    ("--listen", "listen", "uris"),
    ("--data", "store", "data"),
    ("--store", "store", "kind"),
    ("--http", "http", "listen"),
    ("--audit", "audit", "directory"),
    ("--log-format", "log", "format"),
    ("--log-level", "log", "level"),
)
"""Which option replaces which setting."""


def add_settings_options(parser: argparse.ArgumentParser) -> None:
    """Give *parser* the options that `settings_from` reads."""
    parser.add_argument("--config", metavar="FILE", help=_CONFIG_HELP)
    parser.add_argument(
        "--listen",
        metavar="URI",
        action="append",
        help="where clients connect: tcp, nio, ssl or auto://host:port; may be given several times; port 0 "
        "takes any free port; default: tcp://127.0.0.1:61616",
    )
    parser.add_argument("--data", metavar="DIR", help="directory of the journal; default: ackwire-data")
    parser.add_argument(
        "--store",
        metavar="KIND",
        help="where messages are kept: journal (the default), memory, or a database: sqlite:///file, "
        "postgresql://user@host/database, mariadb://user@host/database",
    )
    parser.add_argument(
        "--http",
        metavar="HOST:PORT",
        nargs="?",
        const=HTTP_ADDRESS,
        help=f"answer HTTP requests too: health, metrics, data pipelines; without a value on {HTTP_ADDRESS}",
    )
    parser.add_argument("--audit", metavar="DIR", help="write what happens to every message to Parquet files in DIR")
    parser.add_argument("--log-format", metavar="FORMAT", help="text (the default) or json, to standard error")
    parser.add_argument("--log-level", metavar="LEVEL", help="debug, info (the default), warning or error")


def settings_from(args: argparse.Namespace) -> Settings:
    """The settings in force. Raises `ConfigError` naming the file and line, or the option."""
    file = settings_file.find(args.config)
    settings = Settings() if file is None else load(file)
    for option, table, key in _OVERRIDES:
        value = getattr(args, option.removeprefix("--").replace("-", "_"))
        if value is None:
            continue
        try:
            settings = with_setting(settings, table, key, value)
        except ConfigError as error:
            raise ConfigError(f"{option}: {error}") from None
    return settings


def add_command(commands: "Commands") -> None:
    """Add `config` and its two commands."""
    parser = commands.add_parser(
        "config", help="check a file of settings, or show the settings in force", allow_abbrev=False
    )
    below = parser.add_subparsers(metavar="COMMAND", required=True, title="commands")
    check = below.add_parser("check", help="name each problem of a file with its line", allow_abbrev=False)
    check.add_argument("file", metavar="FILE", nargs="?", help=f"default: ${VARIABLE}, or {NAME}")
    check.set_defaults(run=_run_check)
    show = below.add_parser(
        "show",
        help="print all settings in force as a TOML file, with units, defaults and reasons",
        description="Prints all settings in force as a TOML file, with units, defaults and reasons. "
        "Passwords in URIs show as ***.",
        allow_abbrev=False,
    )
    add_settings_options(show)
    show.set_defaults(run=_run_show)


def _run_check(args: argparse.Namespace) -> int:
    file = settings_file.find(args.file)
    if file is None:
        raise ConfigError(f"there is no {NAME} here; name the file to check")
    found = problems(read_text(file))
    for problem in found:
        print(f"{file}:{problem}", file=sys.stderr)
    if not found:
        print(f"{file}: ok")
    return 2 if found else 0


def _run_show(args: argparse.Namespace) -> int:
    settings = settings_from(args)
    shown = tuple(mask_secrets(uri) for uri in settings.listen.uris)
    store = replace(settings.store, kind=mask_store(settings.store.kind))
    print(render(replace(settings, listen=replace(settings.listen, uris=shown), store=store)), end="")
    return 0

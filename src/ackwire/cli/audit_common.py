"""What the commands of `ackwire audit` share: options, Spark, and lines that say how far it is."""

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Final

from ackwire.errors import ConfigError
from ackwire.util.logs import escape

if TYPE_CHECKING:
    from ackwire.cli.config import Commands

_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def add_command_to(
    commands: "Commands", name: str, run: Callable[[argparse.Namespace], int], summary: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.", allow_abbrev=False
    )
    parser.set_defaults(run=run)
    return parser


def add_master(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--master", help="where Spark runs: local[2], spark://host:7077; default: all cores of this machine"
    )


@contextmanager
def spark_installed() -> Iterator[None]:
    """Say how to install a package that is missing in the `with` block."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigError(f"{error.name} is not installed: pip install 'ackwire[spark]'") from None


@contextmanager
def spark_session(master: str | None, **conf: Any) -> Iterator[Any]:
    """A Spark session; *conf* as for `ackwire.spark.session.session`."""
    with spark_installed():
        from ackwire.spark.session import session

        say_progress("starting Spark")
        running = session("ackwire audit", master=master, **conf)
    try:
        yield running
    finally:
        running.stop()


def progress() -> Callable[[str], None]:
    """Says how far it is, with the seconds since now in front."""
    began = time.monotonic()
    return lambda text: say_progress(f"{time.monotonic() - began:5.1f} s  {text}")


def say_progress(text: str) -> None:
    print(escape(text), file=sys.stderr, flush=True)


def date_of(text: str) -> str:
    """An option's value that is a day."""
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no date like 2026-03-01") from None


def duration(text: str) -> timedelta:
    """An option's value that is a time."""
    match = re.fullmatch(r"(\d{1,9})([smhd])", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time like 90s, 30m, 1h or 2d")
    return timedelta(seconds=int(match[1]) * _UNIT_SECONDS[match[2]])

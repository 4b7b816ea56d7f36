"""Amounts on the command line: `5s`, `20/s`, `name:int=7`; and how they are shown.

Each reader raises `argparse.ArgumentTypeError`, so that it can be the `type` of an option.
"""

import argparse
import math
import re
from typing import Final

from ackwire.config.fields import did_you_mean
from ackwire.util.plurals import counted

_SECONDS_PER_UNIT: Final = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_PER_SECOND: Final = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_NUMBER: Final = r"([0-9]{1,15}(?:\.[0-9]{1,9})?)"
_DURATION: Final = re.compile(rf"{_NUMBER} ?([a-z]*)", re.ASCII)
_RATE: Final = re.compile(rf"{_NUMBER} ?(?:/ ?([a-z]+))?", re.ASCII)
_SECONDS_HIGHEST: Final = 100 * 365 * 86400.0


def seconds(text: str) -> float:
    """`500ms`, `30s`, `5min`, `2h`, `1d`; a number alone is seconds."""
    match = _DURATION.fullmatch(text)
    if match is None or match[2] not in _SECONDS_PER_UNIT:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write 500ms, 30s, 5min, 2h or 1d")
    number = float(match[1]) * _SECONDS_PER_UNIT[match[2]]
    if number > _SECONDS_HIGHEST:
        raise argparse.ArgumentTypeError(f"{text!r} is more than a hundred years")
    return number


def rate(text: str) -> float:
    """Messages per second: `20/s`, `30/min`, `100/h`; a number alone is per second."""
    match = _RATE.fullmatch(text)
    per = None if match is None else _PER_SECOND.get(match[2] or "")
    if match is None or per is None or not float(match[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no rate; write 20/s, 30/min or 100/h")
    return float(match[1]) / per


def whole(text: str) -> int:
    """A whole number from 1."""
    if re.fullmatch(r"[0-9]{1,12}", text, re.ASCII) is None or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1")
    return int(text)


def priority(text: str) -> int:
    """JMS's priorities."""
    if re.fullmatch(r"[0-9]", text, re.ASCII) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no priority; they go from 0 to 9, and 4 is usual")
    return int(text)


def pair(text: str) -> tuple[str, str]:
    """`name=value`; the value may be empty and may have `=` in it."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is no name=value")
    return name, value


def one_of(what: str, word: str, known: "tuple[str, ...] | list[str]") -> str:
    """*word*, if it is one of the *known*; the error names the nearest, or all of them."""
    if word not in known:
        hint = did_you_mean(word, known) or f"; known: {', '.join(known)}"
        raise argparse.ArgumentTypeError(f"unknown {what} {word!r}{hint}")
    return word


def seconds_text(number: float) -> str:
    """`0.31 s`, `12 s`, `3 min 20 s`, `2 h 5 min`."""
    if number < 9.95:
        return f"{number:.2g} s" if number >= 0.01 or not number else f"{number * 1000:.2g} ms"
    minutes, rest = divmod(round(number), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def rate_text(count: int, elapsed_seconds: float) -> str:
    """`39/s`, `0.5/s`; empty where there is nothing to divide."""
    if count == 0 or elapsed_seconds <= 0:
        return ""
    per_second = count / elapsed_seconds
    return f"{per_second:.2g}/s" if per_second < 10 else f"{math.floor(per_second)}/s"


def messages_text(count: int) -> str:
    return counted(count, "message")

"""Cron entries: the next time that matches `minute hour day month weekday` (SEMANTICS I1).

The fields are read as ActiveMQ reads them: `?` is `*`, and a step keeps the values that it divides, so `*/5` of the
days is 5, 10, …, not 1, 6, …. The rest is left to `cronsim`, which follows Debian's cron, changes of the clock in
spring and autumn included. Names (`MON`, `JAN`), which ActiveMQ does not know, are welcome.
"""

import os
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from ackwire.errors import BrokerError

_FIELDS: Final = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 6))
"""Name, lowest and highest value of each field."""

_LENGTH_MAX: Final = 256
"""Characters in one entry: all sixty minutes written out are 169."""

_LOCALTIME: Final = Path("/etc/localtime")


def local_zone() -> tzinfo:
    """The machine's time zone, with its rules: `TZ`, otherwise `/etc/localtime`, otherwise UTC."""
    name = os.environ.get("TZ", "").removeprefix(":")
    try:
        if name:
            return ZoneInfo(name)
        with _LOCALTIME.open("rb") as rules:
            return ZoneInfo.from_file(rules, key="localtime")
    except (OSError, ValueError, KeyError):
        return UTC


def next_time_ms(entry: str, after_ms: int, zone: tzinfo) -> int:
    """The first moment behind *after_ms* that *entry* names. Raises `BrokerError` if it is wrong or names none."""
    try:
        moment = next(CronSim(_as_activemq_reads(entry), datetime.fromtimestamp(after_ms / 1000, zone)))
    except CronSimError as error:
        raise _wrong(entry, str(error).lower()) from None
    except StopIteration:
        raise _wrong(entry, "there is no such day in the next 50 years") from None
    return round(moment.timestamp() * 1000)


def _as_activemq_reads(entry: str) -> str:
    if len(entry) > _LENGTH_MAX:
        raise BrokerError(f"a cron entry of {len(entry)} characters: the limit is {_LENGTH_MAX}")
    tokens = entry.split()
    if len(tokens) != len(_FIELDS):
        raise _wrong(entry, f"it has {len(tokens)} fields, and must have minute, hour, day, month and weekday")
    return " ".join(_field(entry, token, *field) for token, field in zip(tokens, _FIELDS, strict=True))


def _field(entry: str, token: str, name: str, lowest: int, highest: int) -> str:
    if token == "?":  # noqa: S105 – a token of the entry, not of a login
        return "*"
    parts = token.split(",")
    return ",".join(_stepped(entry, part, name, lowest, highest) if "/" in part else part for part in parts)


def _stepped(entry: str, part: str, name: str, lowest: int, highest: int) -> str:
    """`*/5` and `10-40/15`, written out."""
    base, _, step = part.partition("/")
    first, dash, last = (str(lowest), "-", str(highest)) if base in ("*", "?") else base.partition("-")
    numerals = (first, last if dash else first, step)
    if not all(numeral.isascii() and numeral.isdigit() for numeral in numerals) or int(step) == 0:
        raise _wrong(entry, f"bad {name} {part!r}")
    begin, end, divisor = map(int, numerals)
    if not lowest <= begin <= end <= highest:
        raise _wrong(entry, f"bad {name} {part!r}: it must be between {lowest} and {highest}")
    values = [str(value) for value in range(begin, end + 1) if value % divisor == 0]
    if not values:
        raise _wrong(entry, f"no {name} is a multiple of {divisor} in {part!r}")
    return ",".join(values)


def _wrong(entry: str, reason: str) -> BrokerError:
    return BrokerError(f"cron entry {entry!r} cannot be used: {reason}")

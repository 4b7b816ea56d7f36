"""Types of options: each reads, checks and shows the values of its kind.

A value comes from a TOML file (`read`), where numbers are numbers, or as text from a URI or from Spark (`read_text`).
Durations and sizes are plain numbers, or text with a unit: `"30 s"`, `"500 ms"`, `"64 KiB"`, `"1 GB"` (KB, MB, GB count
in thousands; KiB, MiB, GiB in 1024s), and for some sizes `"20 %"`. What cannot be used raises `Refused`, which says
what it must be; the caller knows the option's name and puts it in front.
"""

import json
import logging
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, Final

from ackwire.errors import ConfigError

_log = logging.getLogger(__name__)

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

_SHOWN_LENGTH_MAX: Final = 80
_SECONDS_PER_UNIT: Final = {"ms": Decimal("0.001"), "s": Decimal(1), "min": Decimal(60), "h": Decimal(3600)}
_BYTES_PER_UNIT: Final = {
    unit: Decimal(factor)
    for unit, factor in (
        ("B", 1), ("KB", 10**3), ("MB", 10**6), ("GB", 10**9), ("KiB", KIB), ("MiB", MIB), ("GiB", GIB),
    )
}  # fmt: skip


class Refused(ConfigError):
    """What is wrong with a value, an option or a URI; the caller says with which."""


class Type:
    """The type of an option. A value is shown so that it reads back as the same."""

    @property
    def takes(self) -> str:
        """In the tables of the guides: `true or false`, `ms`, `text`."""
        raise NotImplementedError

    @property
    def facts(self) -> str:
        """In a file of settings: range, unit, choices."""
        raise NotImplementedError

    def read(self, value: object) -> Any:
        """*value* of a TOML file. Raises `Refused`, saying what it must be."""
        raise NotImplementedError

    def read_text(self, text: str) -> Any:
        """*text* of a URI, or from Spark. Raises `Refused`, saying what it must be."""
        return self.read(text)

    def show(self, value: Any) -> str:
        """*value* for people and in URIs."""
        return str(value)

    def toml(self, value: Any) -> str:
        """*value* in a TOML file."""
        return toml_text(self.show(value))


class Switch(Type):
    takes = facts = "true or false"

    def read(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise Refused(f"must be true or false, and is {quoted(value)}")
        return value

    def read_text(self, text: str) -> bool:
        return self.read({"true": True, "false": False}.get(text.lower(), text))

    def show(self, value: Any) -> str:
        return "true" if value else "false"

    def toml(self, value: Any) -> str:
        return self.show(value)


@dataclass(frozen=True)
class Text(Type):
    """Text of at most so many characters; *check* raises `ConfigError` for one that will not do."""

    length_max: int = 0
    may_be_empty: bool = False
    check: Callable[[str], object] | None = None
    what: str = "text"
    must_print: bool = True
    takes = "text"

    @property
    def facts(self) -> str:
        return f"a {self.what}"

    def read(self, value: object) -> str:
        if not isinstance(value, str):
            raise Refused(f"must be text, and is {quoted(value)}")
        if not value and self.may_be_empty:
            return value
        if self.must_print and (not value or not value.isprintable()):
            raise Refused(f"must be printable text, and is {quoted(value)}")
        if not value:
            raise Refused("has no value")
        if self.length_max and len(value) > self.length_max:
            raise Refused(f"must have at most {self.length_max} characters, and has {len(value)}")
        if self.check:
            self.check(value)
        return value


@dataclass(frozen=True)
class Texts(Type):
    """Several texts, with commas between them."""

    item: Text
    takes = facts = "texts, with commas"

    def read_text(self, text: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in self.item.read(text).split(",") if part.strip())

    def show(self, value: Any) -> str:
        return ",".join(value)


@dataclass(frozen=True)
class Uris(Type):
    """A list of URIs, each of which *check* accepts or raises `ConfigError` for."""

    count_max: int
    check: Callable[[str], object]
    example: str
    count_min: int = 1
    takes = "URIs"
    facts = "a list of listener URIs"

    def read(self, value: object) -> tuple[str, ...]:
        if not isinstance(value, list | tuple):
            raise Refused(f'must be a list like ["{self.example}"], and is {quoted(value)}')
        uris = tuple(self.read_item(item) for item in value)
        if not self.count_min <= len(uris) <= self.count_max:
            raise Refused(f"must list from {self.count_min} to {self.count_max} URIs, and lists {len(uris)}")
        return uris

    def read_item(self, value: object) -> str:
        if not isinstance(value, str):
            raise Refused(f'must be text like "{self.example}", and is {quoted(value)}')
        self.check(value)
        return value

    def show(self, value: Any) -> str:
        return ", ".join(value)

    def toml(self, value: Any) -> str:
        return "[\n" + "".join(f"    {toml_text(uri)},\n" for uri in value) + "]"


@dataclass(frozen=True)
class Choice(Type):
    """One of several words, or the member of *enum* that has it as value."""

    choices: tuple[str, ...]
    enum: type[Enum] | None = None

    @property
    def takes(self) -> str:
        return " or ".join(self.choices)

    @property
    def facts(self) -> str:
        return f"choices: {', '.join(self.choices)}"

    def read(self, value: object) -> Any:
        if value not in self.choices:
            raise Refused(f"must be {' or '.join(map(quoted, self.choices))}, and is {quoted(value)}")
        return value if self.enum is None else self.enum(value)

    def read_text(self, text: str) -> Any:
        return self.read(text.lower() if text.lower() in self.choices else text)

    def show(self, value: Any) -> str:
        return str(value.value if isinstance(value, Enum) else value)


@dataclass(frozen=True)
class Number(Type):
    """A whole number. One above *highest* is taken for that if *clamped* has the name of the option for a warning."""

    lowest: int
    highest: int
    unit: str = "number"
    clamped: str = ""

    @property
    def takes(self) -> str:
        return self.unit

    @property
    def facts(self) -> str:
        return f"range: {self.lowest} to {self.highest}; unit: count"

    def read(self, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not self._fits(value):
            raise Refused(f"must be a whole number from {self.lowest} to {self.highest}, and is {quoted(value)}")
        if value > self.highest:
            _log.warning("option %s: %d is taken for %d, the highest", self.clamped, value, self.highest)
        return min(value, self.highest)

    def _fits(self, value: int) -> bool:
        return self.lowest <= value and (value <= self.highest or bool(self.clamped))

    def read_text(self, text: str) -> int:
        given = read_whole(text)
        return self.read(text if given is None else given)

    def toml(self, value: Any) -> str:
        return self.show(value)


@dataclass(frozen=True)
class Factor(Type):
    """A number with a fraction."""

    lowest: float = 0.0
    highest: float = math.inf
    takes = "number"

    @property
    def facts(self) -> str:
        return f"range: {self.lowest!r} to {self.highest!r}"

    def read(self, value: object) -> float:
        # Written so that NaN fails too.
        if isinstance(value, bool) or not isinstance(value, int | float) or not self.lowest <= value <= self.highest:
            limits = "such as 2 or 1.5" if self.highest == math.inf else f"from {self.lowest!r} to {self.highest!r}"
            raise Refused(f"must be a number {limits}, and is {quoted(value)}")
        return float(value)

    def read_text(self, text: str) -> float:
        is_number = re.fullmatch(r"[0-9]{1,9}(\.[0-9]{0,18})?(e-?[0-9]{1,2})?", text, re.IGNORECASE)
        return self.read(float(text) if is_number else text)

    def show(self, value: Any) -> str:
        return repr(float(value))

    def toml(self, value: Any) -> str:
        return self.show(value)


# ---- with units ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _WithUnit(Type):
    """A plain number in *unit*, or text with a unit."""

    lowest: float
    highest: float
    unit = ""
    units = _SECONDS_PER_UNIT
    examples = ""

    @property
    def takes(self) -> str:
        return self.unit

    @property
    def facts(self) -> str:
        return f"range: {self.show(self.lowest)} to {self.show(self.highest)}; unit of a plain number: {self.unit}"

    def _number(self, value: object) -> int | float | Decimal:
        """*value*, within the range."""
        number = self._of_text(value) if isinstance(value, str) else value
        if isinstance(number, bool) or not isinstance(number, int | float | Decimal):
            raise self._no_number(value)
        if not self.lowest <= number <= self.highest:
            raise self._outside(quoted(value))
        return number

    def _of_text(self, text: str) -> Decimal:
        number, unit = self._parts(text)
        if unit not in self.units:
            problem = f'unknown unit "{unit}"' if unit else "unit is missing"
            raise Refused(f"{problem} in {quoted(text)}; known units: {', '.join(self._known_units)}")
        return number * self.units[unit]

    @property
    def _known_units(self) -> list[str]:
        return [*self.units]

    def _parts(self, text: str) -> tuple[Decimal, str]:
        match = re.fullmatch(r"\s*(-?[0-9]{1,30}(?:\.[0-9]{1,30})?)\s*([A-Za-z]*|%)\s*", text, re.ASCII)
        if match is None:
            raise self._no_number(text)
        return Decimal(match[1]), match[2]

    def _outside(self, shown: str) -> Refused:
        return Refused(f"must be from {self.show(self.lowest)} to {self.show(self.highest)}, and is {shown}")

    def _no_number(self, value: object) -> Refused:
        example = f"text with a unit like {self.examples}"
        return Refused(f"must be a number of {self.unit}, or {example}, and is {quoted(value)}")


@dataclass(frozen=True)
class Seconds(_WithUnit):
    unit = "seconds"
    examples = '"500 ms" or "30 s"'

    def read(self, value: object) -> float:
        return float(self._number(value))

    def read_text(self, text: str) -> float:
        is_plain = re.fullmatch(r"\s*[0-9]{1,30}(\.[0-9]{1,30})?\s*", text, re.ASCII)
        return self.read(float(text) if is_plain else text)

    def show(self, value: Any) -> str:
        if value >= 3600 and value % 3600 == 0:
            return f"{int(value // 3600)} h"
        number = Decimal(repr(float(value)))
        unit = "ms" if 0 < number < 1 else "s"
        # By way of Decimal, because 0.07 * 1000 is no whole number of milliseconds in floating point.
        text = f"{number / _SECONDS_PER_UNIT[unit]:f}"
        return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {unit}"


class Whole(Enum):
    """What a percentage is a part of."""

    MEMORY = "the machine's memory"
    DISK = "the disk that holds the data directory"


class Share(int):
    """A size that was given as a percentage: the bytes it stands for, in whole MiB where it has one."""

    percent: Decimal
    total_bytes: int

    def __new__(cls, percent: Decimal | int, total_bytes: int) -> "Share":
        size_bytes = int(total_bytes * Decimal(percent) / 100)
        share = super().__new__(cls, size_bytes - size_bytes % MIB if size_bytes > MIB else size_bytes)
        share.percent = Decimal(percent)
        share.total_bytes = total_bytes
        return share

    def explained(self) -> str:
        """`20 % of 7.8 GiB`."""
        factor, unit = (GIB, "GiB") if self.total_bytes >= GIB else (MIB, "MiB")
        return f"{self.percent:f} % of {self.total_bytes / factor:.1f} {unit}"


@dataclass(frozen=True)
class Bytes(_WithUnit):
    """A size; where *percent* is above 0 it may also be a percentage, and by default it is this one."""

    percent: int = 0
    percent_of: Whole = Whole.MEMORY
    unit = "bytes"
    units = _BYTES_PER_UNIT
    examples = '"64 KiB" or "100 MiB"'

    @property
    def facts(self) -> str:
        return super().facts + ('; or a percentage like "70 %"' if self.percent else "")

    def read(self, value: object) -> int:
        number = self._number(value)
        if isinstance(number, float) or number != int(number):
            raise Refused(f"must be a whole number of bytes, and is {quoted(value)}")
        return int(number)

    def read_share(self, value: object, total_bytes: int) -> int:
        """`read`, with a percentage of *total_bytes*."""
        if not isinstance(value, str) or not self.percent or not value.rstrip().endswith("%"):
            return self.read(value)
        percent, _ = self._parts(value)
        if not 0 < percent <= 100:
            raise Refused(f'must be above 0 and at most "100 %", and is {quoted(value)}')
        share = Share(percent, total_bytes)
        if not self.lowest <= share <= self.highest:
            raise self._outside(f"{quoted(value)}, which is {share.explained()}")
        return share

    @property
    def _known_units(self) -> list[str]:
        return [*self.units, "%"] if self.percent else [*self.units]

    def _no_number(self, value: object) -> Refused:
        example = f'{self.examples} or "20 %"' if self.percent else self.examples
        return Refused(f"must be a number of bytes, or text with a unit like {example}, and is {quoted(value)}")

    def show(self, value: Any) -> str:
        for unit, factor in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
            if value >= factor and value % factor == 0:
                return f"{value // factor} {unit}"
        return f"{int(value)} B"

    def toml(self, value: Any) -> str:
        if isinstance(value, Share):  # as it was given: on another machine it is another size
            return toml_text(f"{value.percent.normalize():f} %")
        return super().toml(value)


@dataclass(frozen=True)
class Own(Type):
    """A text with rules of its own."""

    what: str
    reader: Callable[[str], Any]
    writer: Callable[[Any], str] = str

    @property
    def takes(self) -> str:
        return self.what

    def read_text(self, text: str) -> Any:
        return self.reader(text)

    def show(self, value: Any) -> str:
        return self.writer(value)


# ---- values in messages ----------------------------------------------------------------------------------------


def read_whole(text: str) -> int | None:
    """A whole number, None if *text* is none; the length is bounded because int() takes quadratic time."""
    return int(text) if re.fullmatch(r"-?[0-9]{1,19}", text) else None


def quoted(value: object) -> str:
    """*value* as it would stand in a TOML file, or nearly so; on one line, and cut off where it gets long."""
    if isinstance(value, str):
        return "".join(it if it.isprintable() else ascii(it)[1:-1] for it in toml_text(_cut(value)))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a table"
    try:
        return _cut(str(value))
    except ValueError:  # Python refuses to write numbers of more than 4300 digits
        return "a very long number"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_LENGTH_MAX else f"{text[:_SHOWN_LENGTH_MAX]}…"


def toml_text(text: str) -> str:
    # JSON's escapes are TOML's, except that TOML wants DEL escaped as well.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")

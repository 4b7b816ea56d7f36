"""Single values: from a TOML file to what a field takes, and back to text for people.

Durations and sizes are plain numbers in the unit that the name ends in, or text with a unit: `"30 s"`, `"500 ms"`,
`"64 KiB"`, `"1 GB"` (KB, MB, GB count in thousands; KiB, MiB, GiB in 1024s), and for some sizes `"20 %"`.
"""

import json
import re
from decimal import Decimal
from enum import Enum
from typing import Final

from ackwire.config.memory import Share
from ackwire.config.wholes import Wholes
from ackwire.errors import ConfigError
from ackwire.listener_uri import parse_address, parse_listener_uri
from ackwire.policy import check_match
from ackwire.rules import GIB, KIB, MIB, Kind, Rule

_SECONDS_PER_UNIT: Final = {"ms": Decimal("0.001"), "s": Decimal(1), "min": Decimal(60), "h": Decimal(3600)}
_BYTES_PER_UNIT: Final = {
    unit: Decimal(factor)
    for unit, factor in (
        ("B", 1), ("KB", 10**3), ("MB", 10**6), ("GB", 10**9), ("KiB", KIB), ("MiB", MIB), ("GiB", GIB),
    )
}  # fmt: skip


# ---- reading ---------------------------------------------------------------------------------------------------


def read_value(rule: Rule, value: object, wholes: Wholes) -> object:
    """*value* as the field takes it. Percentages are of *wholes*. Raises `ConfigError` saying what it must be."""
    match rule.kind:
        case Kind.LISTENERS:
            return _in_number(rule, _read_listeners(value))
        case Kind.CHOICE:
            return _read_choice(rule, value)
        case Kind.ADDRESS:
            return _read_address(rule, value)
        case Kind.SWITCH:
            if not isinstance(value, bool):
                raise ConfigError(f"must be true or false, and is {quoted(value)}")
            return value
        case Kind.TEXT | Kind.DIRECTORY | Kind.FILE | Kind.PATTERN | Kind.QUEUE_NAME:
            return _read_text(rule, value)
        case _:
            return _read_number(rule, value, wholes)


def _read_choice(rule: Rule, value: object) -> object:
    if value not in rule.choices:
        choices = " or ".join(f'"{choice}"' for choice in rule.choices)
        raise ConfigError(f"must be {choices}, and is {quoted(value)}")
    return value if rule.enum is None else rule.enum(value)


def _read_listeners(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise ConfigError(f'must be a list like ["tcp://127.0.0.1:61616"], and is {quoted(value)}')
    return tuple(read_listener(item) for item in value)


def read_listener(value: object) -> str:
    """One URI of a list. Raises `ConfigError`."""
    if not isinstance(value, str):
        raise ConfigError(f'must be text like "tcp://127.0.0.1:61616", and is {quoted(value)}')
    parse_listener_uri(value)
    return value


def _in_number(rule: Rule, uris: tuple[str, ...]) -> tuple[str, ...]:
    if not rule.lowest <= len(uris) <= rule.highest:
        raise ConfigError(f"must list from {rule.lowest} to {rule.highest} URIs, and lists {len(uris)}")
    return uris


def _read_text(rule: Rule, value: object) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"must be text, and is {quoted(value)}")
    if not value and rule.kind is Kind.FILE:
        return value  # the default place
    if not value and rule.may_be_empty:
        return value
    if not value or not value.isprintable():
        raise ConfigError(f"must be printable text, and is {quoted(value)}")
    if rule.highest and len(value) > rule.highest:
        raise ConfigError(f"must have at most {rule.highest} characters, and has {len(value)}")
    if rule.kind is Kind.PATTERN:
        check_match(value)
    if rule.kind is Kind.QUEUE_NAME and (value != value.strip() or re.search(r"[,?*>]|://", value)):
        raise ConfigError(f"must be a queue name without prefix, wildcards, options and commas, and is {quoted(value)}")
    return value


def _read_address(rule: Rule, value: object) -> str:
    if value == "":
        return ""
    address = _read_text(rule, value)
    parse_address(address)
    return address


def _read_number(rule: Rule, value: object, wholes: Wholes) -> int | float:
    number = value
    if isinstance(value, str) and rule.kind in (Kind.SECONDS, Kind.BYTES):
        number = _with_unit(rule, value, wholes)
    if isinstance(number, bool) or not isinstance(number, int | float | Decimal):
        raise ConfigError(f"must be {_example(rule)}, and is {quoted(value)}")
    # Written so that NaN fails too.
    if not rule.lowest <= number <= rule.highest:
        low, high = show(rule, rule.lowest), show(rule, rule.highest)
        stands_for = f", which is {show_share(number)}" if isinstance(number, Share) else ""
        raise ConfigError(f"must be from {low} to {high}, and is {quoted(value)}{stands_for}")
    if isinstance(number, Share):
        return number
    if rule.kind in (Kind.SECONDS, Kind.FACTOR):
        return float(number)
    if isinstance(number, float) or number != int(number):
        raise ConfigError(f"must be a whole number of {rule.unit}, and is {quoted(value)}")
    return int(number)


def _with_unit(rule: Rule, text: str, wholes: Wholes) -> Decimal | Share:
    units = _SECONDS_PER_UNIT if rule.kind is Kind.SECONDS else _BYTES_PER_UNIT
    match = re.fullmatch(r"\s*(-?[0-9]{1,30}(?:\.[0-9]{1,30})?)\s*([A-Za-z]*|%)\s*", text, re.ASCII)
    if match is None:
        raise ConfigError(f"must be {_example(rule)}, and is {quoted(text)}")
    number, unit = Decimal(match[1]), match[2]
    if unit == "%" and rule.percent:
        if not 0 < number <= 100:
            raise ConfigError(f'must be above 0 and at most "100 %", and is {quoted(text)}')
        return Share(number, wholes.of(rule.percent_of))
    if unit not in units:
        problem = f'unknown unit "{unit}"' if unit else "unit is missing"
        known = [*units, "%"] if rule.percent else units
        raise ConfigError(f"{problem} in {quoted(text)}; known units: {', '.join(known)}")
    return number * units[unit]


def _example(rule: Rule) -> str:
    if rule.kind in (Kind.COUNT, Kind.FACTOR):
        return "a whole number" if rule.kind is Kind.COUNT else "a number"
    example = '"500 ms" or "30 s"' if rule.kind is Kind.SECONDS else '"64 KiB" or "100 MiB"'
    if rule.percent:
        example += ' or "20 %"'
    return f"a number of {rule.unit}, or text with a unit like {example}"


def quoted(value: object) -> str:
    """*value* as it would stand in a TOML file, or nearly so; cut off where it gets long."""
    if isinstance(value, str):
        text = toml_text(value)
    elif isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, dict):
        text = "a table"
    else:
        try:
            text = str(value)
        except ValueError:  # Python refuses to write numbers of more than 4300 digits
            text = "a very long number"
    return text if len(text) <= 80 else f"{text[:77]}…"


# ---- showing ---------------------------------------------------------------------------------------------------


def toml(rule: Rule, value: object) -> str:
    """*value* as it stands in a file; `read_value` reads it back to the same value."""
    if rule.kind is Kind.LISTENERS:
        assert isinstance(value, tuple)
        return "[\n" + "".join(f"    {toml_text(uri)},\n" for uri in value) + "]"
    if isinstance(value, Share):
        return toml_text(f"{value.percent.normalize():f} %")  # as it was given: on another machine it is another size
    shown = show(rule, value)
    return shown if rule.kind in (Kind.COUNT, Kind.FACTOR, Kind.SWITCH) else toml_text(shown)


def toml_text(text: str) -> str:
    # JSON's escapes are TOML's, except that TOML wants DEL escaped as well.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def show(rule: Rule, value: object) -> str:
    """*value* for people, with its unit."""
    if rule.kind is Kind.LISTENERS and isinstance(value, tuple):
        return ", ".join(value)
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, int | float):
        return str(value)
    if rule.kind is Kind.SECONDS:
        return _show_seconds(value)
    if rule.kind is Kind.FACTOR:
        return repr(float(value))
    return _show_bytes(int(value)) if rule.kind is Kind.BYTES else str(int(value))


def share_comment(share: Share) -> str:
    """`1595 MiB (20 % of 7.8 GiB)`."""
    return f"{_show_bytes(share)} ({show_share(share)})"


def show_share(share: Share) -> str:
    """`20 % of 7.8 GiB`."""
    factor, unit = (GIB, "GiB") if share.total_bytes >= GIB else (MIB, "MiB")
    return f"{share.percent:f} % of {share.total_bytes / factor:.1f} {unit}"


def _show_seconds(value: float) -> str:
    if value >= 3600 and value % 3600 == 0:
        return f"{int(value // 3600)} h"
    number = Decimal(repr(float(value)))
    unit = "ms" if 0 < number < 1 else "s"
    # By way of Decimal, because 0.07 * 1000 is no whole number of milliseconds in floating point.
    text = f"{number / _SECONDS_PER_UNIT[unit]:f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {unit}"


def _show_bytes(value: int) -> str:
    for unit, factor in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if value >= factor and value % factor == 0:
            return f"{value // factor} {unit}"
    return f"{value} B"

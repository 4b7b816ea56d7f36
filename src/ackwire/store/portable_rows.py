"""Rows of an export, and how values are read from them.

A row is a dictionary with a `kind`. Its values are those that both JSON and Parquet can hold, and bytes, which are
base64 in JSON (`to_json`, `from_json`). What a row says is not to be trusted: everything is read by the functions
here, which raise `BadRow`.
"""

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from typing import Any, Final

from ackwire.errors import AckwireError
from ackwire.jms.destinations import Destination, parse_destination
from ackwire.store.contract import DurableKey, Place
from ackwire.util.sequence_runs import Runs

HEADER_KIND: Final = "ackwire-export"
"""The kind of the first row."""
END_KIND: Final = "end"
"""The kind of the last one."""
VERSION: Final = 2
"""Of the rows."""

BYTES_FIELDS: Final = frozenset({"frame", "transaction", "producer"})
"""Fields that hold bytes; `sends` holds a list of them."""

_I64_MAX: Final = (1 << 63) - 1

Row = dict[str, Any]


class BadRow(Exception):
    """A row that cannot be imported."""


# ---- places ----------------------------------------------------------------------------------------------------


def place_to_row(place: Place) -> Row:
    if isinstance(place, DurableKey):
        return {"client_id": place.client_id, "subscription": place.name}
    return {"destination": repr(place)}


def place_from_row(row: object) -> Place:
    if not isinstance(row, Mapping):
        raise BadRow(f"{row!r} is no place")
    destination = row.get("destination")
    if destination is not None:
        return destination_of(destination)
    return DurableKey(text_of(row, "client_id"), text_of(row, "subscription"))


def destination_of(text: object) -> Destination:
    if not isinstance(text, str) or "://" not in text:
        raise BadRow(f"{text!r} is not a destination such as queue://orders")
    try:
        return parse_destination(text)
    except AckwireError as error:
        raise BadRow(str(error)) from None


# ---- values ----------------------------------------------------------------------------------------------------


def text_of(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str):
        raise BadRow(f"{name} must be a text, and is {value!r}")
    return value


def optional_text_of(row: Mapping[str, Any], name: str) -> str | None:
    return None if row.get(name) is None else text_of(row, name)


def number_of(row: Mapping[str, Any], name: str) -> int:
    value = row.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not -_I64_MAX - 1 <= value <= _I64_MAX:
        raise BadRow(f"{name} must be a number of 64 bits, and is {value!r}")
    return value


def list_of(row: Mapping[str, Any], name: str) -> list[Any]:
    value = row.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadRow(f"{name} must be a list, and is {value!r}")
    return value


def runs_from_row(row: Mapping[str, Any], name: str) -> Runs:
    runs = tuple(list_of(row, name))
    if len(runs) % 2 or not all(isinstance(it, int) and 0 <= it <= _I64_MAX for it in runs):
        raise BadRow(f"{name} must be pairs of a sequence and how many follow it")
    return runs


def bytes_of(row: Mapping[str, Any], name: str) -> bytes:
    return as_bytes(row.get(name))


def as_bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise BadRow("bytes are missing")
    return value


# ---- JSON ------------------------------------------------------------------------------------------------------


def to_json(row: Row) -> Row:
    """*row* with base64 in place of bytes."""
    names = BYTES_FIELDS | {"sends"}
    return {name: _to_base64(value) if name in names else value for name, value in row.items()}


def _to_base64(value: bytes | list[bytes]) -> str | list[str]:
    if isinstance(value, list):
        return [b64encode(item).decode("ascii") for item in value]
    return b64encode(value).decode("ascii")


def from_json(row: object) -> Row:
    """A row as it was before `to_json`. Raises `BadRow`."""
    if not isinstance(row, dict):
        raise BadRow("a row is a JSON object")
    try:
        for name in BYTES_FIELDS & row.keys():
            row[name] = b64decode(row[name], validate=True)
        if "sends" in row:
            row["sends"] = [b64decode(item, validate=True) for item in row["sends"]]
    except (Base64Error, TypeError, ValueError):
        raise BadRow("what should be base64 is not") from None
    return row

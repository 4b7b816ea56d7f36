"""The golden frames of ActiveMQ 5.17.2 (tests/vectors/openwire), as typed values."""

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from ackwire.jms.types import Byte, Char, Float, Int, Long, Short, Value
from ackwire.wire.openwire.marshal import WireFormat
from ackwire.wire.openwire.structures import REGISTRY, StackFrame, Structure, Throwable

FOLDER: Final = Path(__file__).parents[3] / "vectors" / "openwire"
SIZE_PREFIX_BYTES: Final = 4

_PRIMITIVES: Final[dict[str, Any]] = {
    "boolean": bool,
    "byte": Byte,
    "short": Short,
    "integer": Int,
    "long": Long,
    "double": float,
    "float": Float,
    "string": str,
    "char": lambda code: Char(chr(code)),
    "byte_array": lambda value: bytes.fromhex(value["hex"]),
}


@dataclass(frozen=True)
class Vector:
    """One frame: what it says, and its bytes (size prefix included) in each encoding."""

    name: str
    version: int
    stack_traces: bool
    command: Structure | None
    loose: bytes
    tight: bytes
    properties: dict[str, Value] | None

    def wire_format(self, *, tight: bool) -> WireFormat:
        return WireFormat(self.version, tight=tight, stack_traces=self.stack_traces)

    def data(self, *, tight: bool) -> bytes:
        return self.tight if tight else self.loose


@dataclass(frozen=True)
class CacheSequence:
    """Frames that one peer sent one after another with its marshalling cache on."""

    name: str
    wire_format: WireFormat
    frames: tuple[tuple[bytes, Structure | None], ...]


@cache
def read_json(name: str) -> Any:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def snake_case(name: str) -> str:
    """`receivedByDFBridge` -> `received_by_df_bridge`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def structure_class(name: str) -> type[Structure]:
    return next(cls for cls in REGISTRY.values() if cls.__name__ == name)


def structure_from_json(type_name: str | None, fields: dict[str, Any] | None) -> Structure | None:
    if type_name is None or fields is None:
        return None
    values = {snake_case(key): _field_from_json(value) for key, value in fields.items() if key != "@type"}
    return structure_class(type_name)(**values)


def _field_from_json(value: Any) -> Any:
    match value:
        case {"hex": data}:
            return bytes.fromhex(data)
        case {"@type": type_name}:
            return structure_from_json(type_name, value)
        case {"class": _}:
            return _throwable_from_json(value)
        case list():
            return tuple(_field_from_json(item) for item in value)
        case _:
            return value


def _throwable_from_json(value: dict[str, Any] | None) -> Throwable | None:
    if value is None:
        return None
    return Throwable(
        value["class"],
        value["message"],
        tuple(StackFrame(*line) for line in value.get("stack", ())),
        _throwable_from_json(value.get("cause")),
    )


def _primitive_from_json(value: dict[str, Any]) -> Value:
    match value["t"]:
        case "null":
            return None
        case "map":
            return _map_from_json(value["v"])
        case "list":
            return [_primitive_from_json(item) for item in value["v"]]
        case kind:
            made: Value = _PRIMITIVES[kind](value["v"])
            return made


def _map_from_json(pairs: list[tuple[str, dict[str, Any]]]) -> dict[str, Value]:
    return {key: _primitive_from_json(value) for key, value in pairs}


@cache
def vectors() -> tuple[Vector, ...]:
    return tuple(
        Vector(
            name=entry["name"],
            version=entry["version"],
            stack_traces=entry["stack_trace_enabled"],
            command=structure_from_json(entry["type"], entry["fields"]),
            loose=bytes.fromhex(entry["loose"]),
            tight=bytes.fromhex(entry["tight"]),
            properties=_map_from_json(entry["decoded_properties"]) if "decoded_properties" in entry else None,
        )
        for entry in read_json("openwire-vectors.json")["vectors"]
    )


@cache
def cache_sequences() -> tuple[CacheSequence, ...]:
    return tuple(
        CacheSequence(
            name=entry["name"],
            wire_format=WireFormat(entry["version"], tight=entry["encoding"] == "tight", cache_size=1024),
            frames=tuple(
                (bytes.fromhex(frame["hex"]), structure_from_json(frame["type"], frame["fields"]))
                for frame in entry["frames"]
            ),
        )
        for entry in read_json("openwire-vectors.json")["cache_sequences"]
    )

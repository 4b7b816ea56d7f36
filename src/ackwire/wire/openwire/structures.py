"""How a structure of OpenWire is declared, and what the declaration says about the wire.

A structure is a slotted dataclass whose fields, in order, are the fields on the wire. The annotation of each field
says how it travels (`STRING`, `CACHED`, …) and in which protocol versions (`Since`, `Until`):

    @structure(12)
    class RemoveInfo(BaseCommand):
        object_id: Annotated[Structure | None, CACHED] = None
        last_delivered_sequence_id: Annotated[Long, Since(5)] = -2

Nothing else describes a structure: `marshal.py` reads and writes both encodings from `fields_of`.
"""

import types
import typing
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from typing import Annotated, Any, ClassVar, Final, TypeVar, dataclass_transform

VERSION_MIN: Final = 1
VERSION_MAX: Final = 12


class WireType(Enum):
    """How a field travels; the value names the methods of readers and writers."""

    BOOL = "bool"
    BYTE = "byte"
    INT = "int"
    LONG = "long"
    STRING = "string"
    BYTES = "bytes"
    MAGIC = "magic"
    NESTED = "nested"
    CACHED = "cached"
    ARRAY = "array"
    THROWABLE = "throwable"


@dataclass(frozen=True, slots=True)
class Since:
    """The first protocol version that has the field."""

    version: int


@dataclass(frozen=True, slots=True)
class Until:
    """The last protocol version that has the field."""

    version: int


class Structure:
    """The base of all structures. `TYPE_ID` is the type's number on the wire."""

    __slots__ = ()
    TYPE_ID: ClassVar[int]
    SINCE: ClassVar[int] = VERSION_MIN
    IS_VALUE: ClassVar[bool] = False
    """True for ids and destinations: compared by value, immutable, so they may stand in a marshalling cache."""
    MARSHALL_AWARE: ClassVar[bool] = False
    """True where tight encoding adds a bit when the structure is nested (openwire.md §3)."""

    # Shared, where each dataclass would have its own: to make those took a third of the time to import `commands`.

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and _values(self) == _values(other)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in _values(self).items())
        return f"{type(self).__qualname__}({values})"


def _values(structure: Structure) -> dict[str, object]:
    return {it.name: getattr(structure, it.name) for it in fields(structure)}  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class StackFrame:
    """One line of a Java stack trace."""

    class_name: str | None
    method: str | None
    file: str | None
    line: int


@dataclass(frozen=True, slots=True)
class Throwable:
    """A Java exception, as text. No class is ever built from it."""

    class_name: str | None
    message: str | None
    stack: tuple[StackFrame, ...] = ()
    cause: "Throwable | None" = None


Bool = Annotated[bool, WireType.BOOL]
Byte = Annotated[int, WireType.BYTE]
Int = Annotated[int, WireType.INT]
Long = Annotated[int, WireType.LONG]
String = Annotated[str | None, WireType.STRING]
Bytes = Annotated[bytes | None, WireType.BYTES]
Magic = Annotated[bytes, WireType.MAGIC]
Cause = Annotated[Throwable | None, WireType.THROWABLE]
NESTED: Final = WireType.NESTED
CACHED: Final = WireType.CACHED
ARRAY: Final = WireType.ARRAY

S = TypeVar("S", bound=Structure)

REGISTRY: Final[dict[int, type[Structure]]] = {}
"""Every structure by its type id: the only classes that received bytes can become."""


@dataclass_transform()
def structure(type_id: int, *, since: int = VERSION_MIN, frozen: bool = False) -> Callable[[type[S]], type[S]]:
    """Declare a class as the structure *type_id*; *frozen* ones are values."""

    def declare(cls: type[S]) -> type[S]:
        declared = base_structure(frozen=frozen)(cls)
        declared.TYPE_ID = type_id
        declared.SINCE = since
        declared.IS_VALUE = frozen
        assert type_id not in REGISTRY, f"type id {type_id} is declared twice"
        REGISTRY[type_id] = declared
        return declared

    return declare


@dataclass_transform()
def base_structure(*, frozen: bool = False) -> Callable[[type[S]], type[S]]:
    """Declare fields that several structures share; it has no type id of its own."""

    def declare(cls: type[S]) -> type[S]:
        return dataclass(slots=True, frozen=frozen, eq=frozen, repr=False)(cls)

    return declare


@dataclass(frozen=True, slots=True)
class Field:
    """One field as the wire has it."""

    name: str
    wire_type: WireType
    since: int
    until: int
    default: object
    accepts: type[Structure]
    """For nested structures and arrays: what the field may hold."""

    def in_version(self, version: int) -> bool:
        return self.since <= version <= self.until


_FIELDS: Final[dict[object, tuple[Field, ...]]] = {}


def fields_of(cls: type[Structure]) -> tuple[Field, ...]:
    """The fields of *cls* in wire order."""
    known = _FIELDS.get(cls)
    if known is None:
        known = _FIELDS[cls] = _declared_fields(cls)
    return known


def _declared_fields(cls: type[Structure]) -> tuple[Field, ...]:
    hints = typing.get_type_hints(cls, include_extras=True)
    return tuple(_field(entry.name, hints[entry.name], entry.default) for entry in fields(cls))  # type: ignore[arg-type]


def _field(name: str, hint: Any, default: object) -> Field:
    assert default is not MISSING, f"{name} needs a default: older versions do not carry every field"
    value_type, *marks = typing.get_args(hint)
    wire_type = next(mark for mark in marks if isinstance(mark, WireType))
    since = next((mark.version for mark in marks if isinstance(mark, Since)), VERSION_MIN)
    until = next((mark.version for mark in marks if isinstance(mark, Until)), VERSION_MAX)
    return Field(name, wire_type, since, until, default, _structure_in(value_type))


def _structure_in(hint: Any) -> type[Structure]:
    """The structure class inside `X | None` or `tuple[X | None, ...] | None`; `Structure` where there is none."""
    if typing.get_origin(hint) is None:
        return hint if issubclass(hint, Structure) else Structure
    found = (_structure_in(part) for part in typing.get_args(hint) if part not in (types.NoneType, Ellipsis))
    return next(found, Structure)

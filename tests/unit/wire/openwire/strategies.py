"""Hypothesis strategies for every structure, made from the declarations: declaring a new one covers it."""

from dataclasses import replace
from functools import cache
from typing import Any, Final

from hypothesis import strategies as st

from ackwire.jms.types import Byte, Char, Float, Int, Long, Short, Value
from ackwire.wire.openwire.structures import (
    REGISTRY,
    Field,
    StackFrame,
    Structure,
    Throwable,
    WireType,
    fields_of,
)

NESTING: Final = 2
"""How deep generated structures nest; ids and destinations inside the deepest do not count."""


def normalised(text: str) -> str:
    """*text* as Java would hold it: a pair of surrogates is one character."""
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")


TEXT: Final = st.one_of(
    st.sampled_from(
        ["", "a", "ID:host-40001-1700000000000-1:1", "\0", "a\0b", "é€", "\U0001f600", "\ud800x", "x\udfff"]
    ),
    st.text(st.characters(codec=None, categories=None), max_size=6).map(normalised),
)
SHORT_BYTES: Final = st.binary(max_size=12)


def integers(bits: int) -> st.SearchStrategy[int]:
    """Signed numbers of *bits* bits; the edges of the tight encoding's length classes come often."""
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    edges = (0, 1, -1, 0xFFFF, 0x10000, 0xFFFFFFFF, 0x100000000, low, high)
    return st.one_of(st.sampled_from([edge for edge in edges if low <= edge <= high]), st.integers(low, high))


_STACK_LINES: Final = st.builds(StackFrame, st.none() | TEXT, st.none() | TEXT, st.none() | TEXT, integers(32))


@cache
def throwables(causes: int = 2) -> st.SearchStrategy[Throwable | None]:
    cause = st.none() if causes == 0 else throwables(causes - 1)
    stack = st.lists(_STACK_LINES, max_size=2).map(tuple)
    return st.none() | st.builds(Throwable, st.none() | TEXT, st.none() | TEXT, stack, cause)


_SCALARS: Final[dict[WireType, st.SearchStrategy[Any]]] = {
    WireType.BOOL: st.booleans(),
    WireType.BYTE: integers(8),
    WireType.INT: integers(32),
    WireType.LONG: integers(64),
    WireType.STRING: st.none() | TEXT,
    WireType.BYTES: st.none() | SHORT_BYTES,
    WireType.MAGIC: st.just(b"ActiveMQ") | st.binary(min_size=8, max_size=8),
    WireType.THROWABLE: throwables(),
}


def structures(cls: type[Structure], nesting: int = NESTING) -> st.SearchStrategy[Any]:
    """Any *cls*."""
    return _structures(cls.TYPE_ID, nesting)


@cache
def _structures(type_id: int, nesting: int) -> st.SearchStrategy[Any]:
    cls = REGISTRY[type_id]
    return st.builds(cls, **{field.name: _values(field, nesting) for field in fields_of(cls)})


def _values(field: Field, nesting: int) -> st.SearchStrategy[Any]:
    if field.wire_type in _SCALARS:
        return _SCALARS[field.wire_type]
    nested = st.none() | _accepted_by(field.accepts, nesting)
    if field.wire_type is WireType.ARRAY:
        return st.none() | st.lists(nested, max_size=3).map(tuple)
    return nested


def _accepted_by(accepts: type[Structure], nesting: int) -> st.SearchStrategy[Any]:
    concrete = [cls for cls in REGISTRY.values() if issubclass(cls, accepts) and (cls.IS_VALUE or nesting > 0)]
    return st.one_of([st.deferred(lambda cls=cls: structures(cls, nesting - 1)) for cls in concrete])  # type: ignore[misc]


def as_seen_in(version: int, stack_traces: bool, value: Any) -> Any:
    """What of *value* reaches a peer: the fields of that version, and stack traces only if agreed on."""
    if isinstance(value, tuple):
        return tuple(as_seen_in(version, stack_traces, item) for item in value)
    if isinstance(value, Throwable) and not stack_traces:
        return Throwable(value.class_name, value.message)
    if not isinstance(value, Structure):
        return value
    seen = {
        field.name: as_seen_in(version, stack_traces, getattr(value, field.name))
        if field.in_version(version)
        else field.default
        for field in fields_of(type(value))
    }
    return replace(value, **seen)  # type: ignore[type-var]


def exists_in(version: int, value: Any) -> bool:
    """True if *value* and all that it holds in that version can be said in it."""
    if isinstance(value, tuple):
        return all(exists_in(version, item) for item in value)
    if not isinstance(value, Structure):
        return True
    return version >= value.SINCE and all(
        exists_in(version, getattr(value, field.name)) for field in fields_of(type(value)) if field.in_version(version)
    )


_PRIMITIVES: Final[st.SearchStrategy[Value]] = st.one_of(
    st.none(),
    st.booleans(),
    integers(8).map(Byte),
    st.integers(0, 0xFFFF).map(lambda code: Char(chr(code))),
    integers(16).map(Short),
    integers(32).map(Int),
    integers(64).map(Long),
    st.floats(allow_nan=False),
    st.floats(allow_nan=False, width=32).map(Float),
    TEXT,
    SHORT_BYTES,
)
STREAM_VALUES: Final = st.lists(_PRIMITIVES, max_size=6)
_NESTED_PRIMITIVES: Final[st.SearchStrategy[Value]] = st.recursive(
    _PRIMITIVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
PROPERTY_MAPS: Final = st.dictionaries(TEXT, _NESTED_PRIMITIVES, max_size=4)

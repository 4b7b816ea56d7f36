"""What tests need to know of compiled modules: their classes have no slots to list, and their constants no place."""

from typing import Final

import pytest

from ackwire.compilation import compiled_modules

IS_COMPILED: Final = bool(compiled_modules())

pure_only = pytest.mark.skipif(IS_COMPILED, reason="it changes what is fixed once it is compiled")


def attributes_of(kind: type) -> tuple[str, ...]:
    """The names of the attributes that every instance has."""
    compiled: tuple[str, ...] | None = getattr(kind, "__mypyc_attrs__", None)
    slots: tuple[str, ...] = compiled if compiled is not None else kind.__slots__  # type: ignore[attr-defined]
    return slots

"""Which modules of this installation are compiled: the same source, made into C by mypyc when the package was built."""

from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr
else:  # only the compiler needs the real one
    Class = TypeVar("Class", bound=type)

    def mypyc_attr(**_options: object) -> Callable[[Class], Class]:
        """Tells the compiler something about a class."""
        return lambda kind: kind


_PACKAGE: Final = Path(__file__).parent


HOW_TO_COMPILE: Final = (
    'ACKWIRE_COMPILE=1 pip install ".[broker]" in a copy of the sources, on a machine with a C compiler and Python\'s '
    "headers (Debian: gcc, python3-dev), or the wheel for this platform that `make wheel` builds"
)


def is_compiled() -> bool:
    """Whether the broker's modules are compiled: all are, or none."""
    queue = _PACKAGE / "broker" / "queue.py"
    return any(queue.with_suffix(suffix).exists() for suffix in EXTENSION_SUFFIXES)


def compiled_modules() -> list[str]:
    """Their names, in order; none if the package was installed without compiling."""
    found = [file for file in _PACKAGE.rglob("*.*") if file.name.endswith(tuple(EXTENSION_SUFFIXES))]
    return sorted(_module_name(file) for file in found)


def _module_name(file: Path) -> str:
    stem = file.relative_to(_PACKAGE.parent)
    return ".".join([*stem.parts[:-1], stem.name.partition(".")[0]])

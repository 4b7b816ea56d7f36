"""Find constructs that this project forbids: `python tools/check_forbidden.py [ROOT]`.

Two rules, checked on the syntax tree, aliases included:

* Nowhere does data become code: no pickle and its relatives, no eval or exec, no import by name.
* `ackwire.wire`, `ackwire.broker` and `ackwire.store` meet the outside only through what is passed in: no
  asyncio, no sockets, time from `ackwire.util.clock`, randomness from a seeded generator. That is what makes a
  whole run repeatable.

Prints `file:line: what, why` for each find and exits 1. Which layer may import which is import-linter's job
(see pyproject.toml).
"""

import ast
import builtins
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CHECKED: Final = ("src", "tests", "bench", "fuzz", "tools", "examples")
CORE: Final = ("src/ackwire/wire", "src/ackwire/broker", "src/ackwire/store")

DATA_AS_CODE: Final = "turns data into code"
IMPORT_BY_NAME: Final = "imports by name; write the import out"
CLOCK: Final = "take the time from ackwire.util.clock"
SEED: Final = "take randomness from a passed-in, seeded random.Random"

EVERYWHERE: Final = {
    **dict.fromkeys(
        ("pickle", "_pickle", "cPickle", "cloudpickle", "dill", "marshal", "shelve", "eval", "exec"),
        DATA_AS_CODE,
    ),
    **dict.fromkeys(("yaml.load", "yaml.full_load", "yaml.unsafe_load"), DATA_AS_CODE),
    **dict.fromkeys(
        ("__import__", "importlib.import_module", "importlib.__import__", "pkgutil.resolve_name", "runpy"),
        IMPORT_BY_NAME,
    ),
}
"""A dotted name, which stands for everything below it too, and why it stays out."""

IN_CORE: Final = {
    **dict.fromkeys(("asyncio", "socket", "selectors", "ssl"), "input and output belong to ackwire.server"),
    **dict.fromkeys(("time", "datetime.datetime.now", "datetime.datetime.utcnow"), CLOCK),
    **dict.fromkeys(("datetime.datetime.today", "datetime.date.today"), CLOCK),
    **dict.fromkeys(("random", "secrets", "os.urandom", "uuid.uuid1", "uuid.uuid4"), SEED),
}
"""The same, for the core only. `random.Random` with a seed is the one thing allowed of `random`."""


@dataclass(frozen=True, slots=True, order=True)
class Find:
    """One forbidden use."""

    path: Path
    line: int
    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.name}: {self.reason}"


def forbidden_in(source: str, path: Path, *, core: bool) -> list[Find]:
    """What *source* uses and should not, in line order; *core* adds the rules for wire, broker and store."""
    tree = ast.parse(source, filename=str(path))
    aliases = _aliases(tree)
    finds = set()
    for line, name in _names_used(tree, aliases):
        reason = _reason(name, EVERYWHERE) or (_reason(name, IN_CORE) if core else None)
        if reason and not (reason == SEED and name in ("random", "random.Random")):
            finds.add(Find(path, line, name, reason))
    if core:
        finds |= {Find(path, line, "random.Random()", SEED) for line in _unseeded(tree, aliases)}
    return sorted(finds)


def _aliases(tree: ast.AST) -> dict[str, str]:
    """Local name -> the absolute dotted name it was imported as."""
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:  # `import a.b` binds `a`
                top = name.name.partition(".")[0]
                aliases |= {name.asname: name.name} if name.asname else {top: top}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            aliases |= {name.asname or name.name: f"{node.module}.{name.name}" for name in node.names}
        elif isinstance(node, ast.ImportFrom):  # a neighbour: `from . import marshal` is not the stdlib's
            aliases |= {name.asname or name.name: f".{name.name}" for name in node.names}
    return aliases


def _names_used(tree: ast.AST, aliases: dict[str, str]) -> Iterator[tuple[int, str]]:
    """Each imported module or name, and each name or attribute read, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from ((node.lineno, _plain(f"{node.module}.{name.name}")) for name in node.names)
        elif isinstance(node, ast.Name | ast.Attribute) and (dotted := _dotted(node, aliases)):
            yield node.lineno, dotted


def _dotted(node: ast.expr, aliases: dict[str, str]) -> str | None:
    """`a.b.c` with `a` replaced by what it was imported as; None if `a` is neither imported nor built in."""
    if isinstance(node, ast.Name):
        name = aliases.get(node.id, node.id if hasattr(builtins, node.id) else None)
        return _plain(name) if name else None
    if isinstance(node, ast.Attribute) and (owner := _dotted(node.value, aliases)):
        return _plain(f"{owner}.{node.attr}")
    return None


def _plain(name: str) -> str:
    return name.removeprefix("builtins.")


def _reason(name: str, table: dict[str, str]) -> str | None:
    """Why *name*, or what it is part of, is in *table*."""
    parts = name.split(".")
    return next((table[n] for i in range(len(parts)) if (n := ".".join(parts[: i + 1])) in table), None)


def _unseeded(tree: ast.AST, aliases: dict[str, str]) -> Iterator[int]:
    """Lines of `random.Random()` without a seed."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    bare = (call for call in calls if not call.args and not call.keywords)
    return (call.lineno for call in bare if _dotted(call.func, aliases) == "random.Random")


def check_tree(root: Path) -> list[Find]:
    """Every find below *root*, with paths relative to it."""
    finds = []
    for path in sorted(path for folder in CHECKED for path in (root / folder).rglob("*.py")):
        relative = path.relative_to(root)
        core = any(relative.is_relative_to(folder) for folder in CORE)
        finds += forbidden_in(path.read_text(encoding="utf-8"), relative, core=core)
    return finds


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    finds = check_tree(root)
    for find in finds:
        print(find)
    return 1 if finds else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

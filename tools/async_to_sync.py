"""The blocking client: writes src/ackwire/client/sync from src/ackwire/client/aio, or checks that it is current.

python tools/async_to_sync.py                write every copy, and remove those whose source is gone
python tools/async_to_sync.py FILE …         only those of these files of client/aio
python tools/async_to_sync.py --check [FILE …]   exit 1 if a copy is out of date

`runtime.py` and `workers.py` are written by hand on both sides: they hold what is really different. Where a few lines
differ elsewhere, the source says so with markers, which work inside docstrings too:

    # [async only]                    these lines are dropped …
    await asyncio.sleep(0)
    # [end]                           … up to here
    import asyncio  # [async only]    this line is dropped
    # [sync only] time.sleep(0)       this line loses its marker, and so becomes code

The rest is replaced token by token, so that comments and layout stay; the tables below say what becomes what. Words in
docstrings, comments and strings follow `PROSE`. What cannot be translated, and what would be asynchronous still, is an
error with its line: a copy that is written is a blocking one.
"""

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from keyword import iskeyword
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCES: Final = "src/ackwire/client/aio"
COPIES: Final = "src/ackwire/client/sync"
BY_HAND: Final = ("runtime.py", "workers.py")
COMMAND: Final = "make sync_copy"

NAMES: Final = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "aiter": "iter",
    "anext": "next",
    "aclose": "close",
    "aclosing": "closing",
    "asynccontextmanager": "contextmanager",
    "enter_async_context": "enter_context",
    "push_async_callback": "callback",
    "AbstractAsyncContextManager": "AbstractContextManager",
    "AsyncContextManager": "ContextManager",
    "AsyncExitStack": "ExitStack",
    "AsyncGenerator": "Generator",
    "AsyncIterable": "Iterable",
    "AsyncIterator": "Iterator",
    "StopAsyncIteration": "StopIteration",
}
"""Whole names, in code, annotations and prose."""

MODULES: Final = {"ackwire.client.aio": "ackwire.client.sync"}
"""Dotted names, and what is below them, in code and prose."""

PROSE: Final = (
    (r"\bfrom ackwire import aio\b", "import ackwire"),
    (r"\backwire\.aio\b", "ackwire"),
    (r"(?<![\w.])aio\.(?=\w)", "ackwire."),
    (r"\basync (?=(?:def|with|for)\b)", ""),
    (r"\bawait (?=[\w.]+(?:\(|\.\w))", ""),
    (r"\bAwaitable\[([\w.]+)\]", r"\1"),
    (r"\bCoroutine\[Any, Any, ([\w.]+)\]", r"\1"),
    *((rf"\b{re.escape(module)}\b", replacement) for module, replacement in MODULES.items()),
    *((rf"(?<!\w){name}\b", replacement) for name, replacement in NAMES.items()),
)
"""Patterns, in docstrings, comments and strings, applied in this order."""

UNWRAPPED: Final = {"Awaitable": 0, "Coroutine": 2, "Opening": 0}
"""Names of types that become one of their parameters, and which."""

LEFT_OVER: Final = ("asyncio", "aio")
"""Names that no blocking module may use."""


class CannotTranslate(Exception):
    """The source says something that has no blocking form."""


@dataclass(frozen=True, slots=True, order=True)
class _Edit:
    """Characters *start* to *end* of the source become *text*."""

    start: int
    end: int
    text: str


# ---- the translation -------------------------------------------------------------------------------------------


def to_sync(source: str) -> str:
    """The blocking form of *source*, before it is formatted. Raises `CannotTranslate`."""
    chosen = _choose_lines(source)
    translated = _translate(chosen, annotations=_quoted_annotations(_parsed(chosen)))
    _refuse_left_overs(_parsed(translated))
    return translated


def _choose_lines(source: str) -> str:
    """Without the lines that are async only, and with those that are sync only."""
    lines: list[str] = []
    opened_at = 0
    for number, line in enumerate(source.splitlines(keepends=True), 1):
        text = line.strip()
        if text == "# [async only]":
            if opened_at:
                raise CannotTranslate(f"line {number}: [async only] inside the one of line {opened_at}")
            opened_at = number
        elif text == "# [end]":
            if not opened_at:
                raise CannotTranslate(f"line {number}: [end] without [async only]")
            opened_at = 0
        elif not opened_at and not text.endswith("# [async only]"):
            lines.append(re.sub(r"^(\s*)# \[sync only\] ?", r"\1", line))
    if opened_at:
        raise CannotTranslate(f"line {opened_at}: [async only] without [end]")
    return "".join(lines)


def _parsed(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except SyntaxError as error:
        line = source.splitlines()[(error.lineno or 1) - 1 :][:1]
        raise CannotTranslate(f"without its async lines it is no Python any more: {error.msg}: {line}") from None


def _quoted_annotations(tree: ast.Module) -> frozenset[tuple[int, int]]:
    """Where the strings start (line, column in bytes) that stand for types."""
    annotations: list[ast.expr | None] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            annotations.append(node.returns)
        elif isinstance(node, ast.arg | ast.AnnAssign):
            annotations.append(node.annotation)
    return frozenset(
        (node.lineno, node.col_offset)
        for annotation in annotations
        if annotation is not None
        for node in ast.walk(annotation)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _translate(source: str, annotations: frozenset[tuple[int, int]] = frozenset()) -> str:
    edits = sorted(_Tokens(source, annotations).edits())
    assert all(one.end <= other.start for one, other in pairwise(edits)), "edits overlap"
    for edit in reversed(edits):
        source = source[: edit.start] + edit.text + source[edit.end :]
    return source


class _Tokens:
    """The tokens of a source, and the edits that they need."""

    def __init__(self, source: str, annotations: frozenset[tuple[int, int]]) -> None:
        self._source = source
        self._annotations = annotations
        self._line_starts = [0]
        self._lines = source.splitlines(keepends=True)
        for line in self._lines:
            self._line_starts.append(self._line_starts[-1] + len(line))
        self._tokens = list(self._whole_strings(tokenize.generate_tokens(io.StringIO(source).readline)))

    def edits(self) -> Iterator[_Edit]:
        for index, token in enumerate(self._tokens):
            if token.type in (tokenize.STRING, tokenize.COMMENT):
                yield from self._prose(token)
            elif token.type != tokenize.NAME:
                continue
            elif token.string in ("async", "await"):
                yield _Edit(self._start(index), self._start(index + 1), "")
                yield from self._without_parentheses(index)
            elif token.string in UNWRAPPED and self._is(index + 1, "["):
                yield from self._unwrapped(index)
            elif token.string == "AsyncGenerator" and self._is(index + 1, "["):
                yield from self._generator(index)
            elif token.string in NAMES:
                yield _Edit(self._start(index), self._end(index), NAMES[token.string])
            elif replacement := self._module_copy(index):
                yield _Edit(self._start(index), self._end(index), replacement)

    def _whole_strings(self, tokens: Iterator[tokenize.TokenInfo]) -> Iterator[tokenize.TokenInfo]:
        """An f-string is one token up to Python 3.11, and many from 3.12 on: here it is always one."""
        opens, closes = getattr(tokenize, "FSTRING_START", None), getattr(tokenize, "FSTRING_END", None)
        for token in tokens:
            depth, last = int(token.type == opens), token
            while depth:
                last = next(tokens)
                depth += (last.type == opens) - (last.type == closes)
            if last is token:
                yield token
            else:
                text = self._source[self._offset(token.start) : self._offset(last.end)]
                yield tokenize.TokenInfo(tokenize.STRING, text, token.start, last.end, token.line)

    # ---- places ----

    def _offset(self, place: tuple[int, int]) -> int:
        line, column = place
        return self._line_starts[line - 1] + column

    def _start(self, index: int) -> int:
        return self._offset(self._tokens[index].start)

    def _end(self, index: int) -> int:
        return self._offset(self._tokens[index].end)

    def _is(self, index: int, text: str) -> bool:
        return 0 <= index < len(self._tokens) and self._tokens[index].string == text

    def _close_of(self, opening: int) -> int:
        """The bracket that closes the one at *opening*."""
        depth = 0
        for index in range(opening, len(self._tokens)):
            if self._tokens[index].type == tokenize.OP:
                depth += (self._tokens[index].string in "([{") - (self._tokens[index].string in ")]}")
                if depth == 0:
                    return index
        raise AssertionError("brackets are balanced in what was parsed")

    def _parameters(self, opening: int) -> list[tuple[int, int]]:
        """First and last token of each part between the commas in brackets."""
        closing = self._close_of(opening)
        parts: list[list[int]] = [[]]
        index = opening + 1
        while index < closing:
            if self._is(index, ","):
                parts.append([])
            elif self._tokens[index].type not in (tokenize.NL, tokenize.COMMENT):
                parts[-1].append(index)
                if self._tokens[index].string in ("(", "[", "{"):
                    index = self._close_of(index)
                    parts[-1].append(index)
            index += 1
        return [(part[0], part[-1]) for part in parts if part]  # none behind a comma at the end

    # ---- kinds of edits ----

    def _prose(self, token: tokenize.TokenInfo) -> Iterator[_Edit]:
        line, column = token.start
        start = self._offset(token.start)
        if (line, len(self._lines[line - 1][:column].encode())) in self._annotations:
            text = _translated_annotation(token.string)
        else:
            text = token.string
            for pattern, replacement in PROSE:
                text = re.sub(pattern, replacement, text)
        if text != token.string:
            yield _Edit(start, start + len(token.string), text)

    def _without_parentheses(self, index: int) -> Iterator[_Edit]:
        """`(await x.y()).z` needs none any more; those of a call and those around more than one thing stay."""
        opening = index - 1
        if not self._is(index, "await") or not self._is(opening, "(") or self._is_trailer(opening):
            return
        closing = self._close_of(opening)
        inner = self._tokens[index + 1]
        if inner.type != tokenize.NAME or iskeyword(inner.string):
            return
        place = index + 2
        while place < closing:
            if self._is(place, "."):
                place += 2
            elif self._is(place, "(") or self._is(place, "["):
                place = self._close_of(place) + 1
            else:
                return
        yield _Edit(self._start(opening), self._end(opening), " ")
        yield _Edit(self._start(closing), self._end(closing), "")

    def _is_trailer(self, opening: int) -> bool:
        """Whether the bracket belongs to what is before it: a call, the bases of a class, what is imported."""
        before = self._tokens[opening - 1]
        if before.type == tokenize.NAME:
            return not iskeyword(before.string) or before.string == "import"
        return before.type == tokenize.STRING or before.string in (")", "]", "}")

    def _unwrapped(self, index: int) -> Iterator[_Edit]:
        name = self._tokens[index].string
        parts = self._parameters(index + 1)
        if len(parts) != UNWRAPPED[name] + 1:
            line = self._tokens[index].start[0]
            raise CannotTranslate(f"line {line}: {name} has {len(parts)} parameters, not {UNWRAPPED[name] + 1}")
        first, last = parts[-1]
        yield _Edit(self._start(index), self._start(first), "")
        yield _Edit(self._end(last), self._end(self._close_of(index + 1)), "")

    def _generator(self, index: int) -> Iterator[_Edit]:
        """A blocking generator has a third parameter: what it returns."""
        yield _Edit(self._start(index), self._end(index), NAMES["AsyncGenerator"])
        parts = self._parameters(index + 1)
        if len(parts) != 2:
            line = self._tokens[index].start[0]
            raise CannotTranslate(f"line {line}: AsyncGenerator has {len(parts)} parameters, not 2")
        end = self._end(parts[-1][1])
        yield _Edit(end, end, ", None")

    def _module_copy(self, index: int) -> str | None:
        """What the last part of a module's name becomes."""
        for module, replacement in MODULES.items():
            words = re.split(r"(\.)", module)
            first = index - len(words) + 1
            if first >= 0 and [token.string for token in self._tokens[first : index + 1]] == words:
                return replacement.rpartition(".")[2]
        return None


def _translated_annotation(literal: str) -> str:
    """A type in quotes; the quotes are one character each, or three."""
    quotes = 3 if literal[:3] in ('"""', "'''") else 1
    return literal[:quotes] + _translate(literal[quotes:-quotes]).strip() + literal[-quotes:]


def _refuse_left_overs(tree: ast.Module) -> None:
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Await | ast.AsyncFunctionDef | ast.AsyncWith | ast.AsyncFor):
            raise CannotTranslate(f"line {line} of the copy is asynchronous still; take it out of the f-string")
        names = [name.name.split(".") for name in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module.split("."))
        if isinstance(node, ast.Name):
            names.append([node.id])
        for left in LEFT_OVER:
            if any(left in parts for parts in names):
                raise CannotTranslate(
                    f"line {line} of the copy uses {left}: mark the line [async only], or move it to runtime.py"
                )


# ---- files -----------------------------------------------------------------------------------------------------


def copy_of(source: Path, root: Path) -> str:
    """What the copy of the file *source* is to contain."""
    relative = source.relative_to(root)
    try:
        translated = to_sync(source.read_text(encoding="utf-8"))
    except CannotTranslate as error:
        raise CannotTranslate(f"{relative}: {error}") from None
    header = f"# generated from {relative.as_posix()} by tools/async_to_sync.py; change that\n"
    # Imports that only asynchronous code needed are gone with it; those of __init__.py are there to be found.
    rules = "I" if source.name == "__init__.py" else "I,F401,F811"
    name = str(_place_of(source, root))
    fixed = _ruff(header + translated, root, "check", "--fix", "--exit-zero", "--quiet", "--select", rules, name=name)
    return _ruff(fixed, root, "format", "--quiet", name=name)


def _ruff(text: str, root: Path, *arguments: str, name: str) -> str:
    command = [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", name, "-"]
    return subprocess.run(command, input=text, cwd=root, capture_output=True, text=True, check=True).stdout


def _place_of(source: Path, root: Path) -> Path:
    return root / COPIES / source.relative_to(root / SOURCES)


def sources_in(root: Path) -> list[Path]:
    """Every file that has a generated copy."""
    return sorted(path for path in (root / SOURCES).rglob("*.py") if path.name not in BY_HAND)


def orphans_in(root: Path) -> list[Path]:
    """Twins whose source is gone."""
    wanted = {_place_of(source, root) for source in sources_in(root)}
    copies = (path for path in (root / COPIES).rglob("*.py") if path.name not in BY_HAND)
    return sorted(path for path in copies if path not in wanted)


def write(root: Path, sources: Sequence[Path]) -> None:
    for source, text in [(source, copy_of(source, root)) for source in sources]:  # all, or none
        place = _place_of(source, root)
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists() or place.read_text(encoding="utf-8") != text:
            place.write_text(text, encoding="utf-8")


def out_of_date(root: Path, sources: Sequence[Path]) -> list[Path]:
    """The copies of *sources* that are missing or different."""
    places = ((_place_of(source, root), copy_of(source, root)) for source in sources)
    return [place for place, text in places if not place.exists() or place.read_text(encoding="utf-8") != text]


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a copy is out of date")
    parser.add_argument("files", nargs="*", type=Path, help=f"files of {SOURCES}; all of them if none is given")
    options = parser.parse_args(arguments)
    for file in options.files:
        if file.resolve() not in sources_in(root):
            parser.error(f"{file} is no file of {SOURCES} that has a generated copy")
    sources = [file.resolve() for file in options.files] or sources_in(root)
    orphans = [] if options.files else orphans_in(root)
    try:
        if not options.check:
            write(root, sources)
            for orphan in orphans:
                orphan.unlink()
            return 0
        stale = out_of_date(root, sources) + orphans
    except CannotTranslate as error:
        print(error, file=sys.stderr)
        return 1
    if stale:
        names = ", ".join(path.relative_to(root).as_posix() for path in stale)
        print(f"out of date: {names}\nrun {COMMAND}", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The line of each key in a TOML text: tomllib gives the values, and not where they are."""

import re
import tomllib
from collections.abc import Iterator

Path = tuple[str | int, ...]
"""Where a value stands: names of tables and keys, and positions in arrays, like `("listen", "uris", 0)`."""


class KeyLocator:
    """Finds the line of every table, key and array element in a text that tomllib has accepted.

    Because the text is known to be valid, it is enough to see where strings, arrays and inline tables end.
    """

    _BLANK = re.compile(r"(?:\s|#[^\n]*)*")
    _KEY_PART = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
    _STRING = re.compile(
        r'''"""(?:[^\\]|\\.)*?""""{0,2}|"(?:[^"\\\n]|\\.)*"'''
        r"""|'{3}.*?'{3}'{0,2}|'[^'\n]*'""",
        re.DOTALL,
    )
    _SCALAR = re.compile(r"[^,\]}#\n]+")

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._lines: dict[Path, int] = {}
        self._lengths: dict[Path, int] = {}
        """How many tables an array of tables has so far."""

    def scan(self) -> dict[Path, int]:
        """The line of each path, like `("listen", "uris", 0)`; the first one where a path occurs again."""
        table: Path = ()
        while self._next():
            if self._next() == "[":
                table = self._header()
            else:
                self._pair(table)
        return self._lines

    def _next(self) -> str:
        """The next character that is no space and no comment, not yet consumed; empty at the end."""
        self._take(self._BLANK)
        return self._text[self._position : self._position + 1]

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._position)
        assert match is not None, f"valid TOML is not understood at offset {self._position}"
        self._position = match.end()
        return match[0]

    def _note(self, path: Path) -> None:
        self._lines.setdefault(path, self._text.count("\n", 0, self._position) + 1)

    def _header(self) -> Path:
        brackets = 0
        while self._next() == "[":  # twice for an array of tables
            self._position += 1
            brackets += 1
        table = self._key(())
        if brackets > 1:
            index = self._lengths.get(table, 0)
            self._lengths[table] = index + 1
            table = (*table, index)
            self._note(table)
        while self._position < len(self._text) and self._text[self._position] in "] \t":
            self._position += 1
        return table

    def _key(self, prefix: Path) -> Path:
        """Consume a key, dotted or not; its path, every part of it noted."""
        path = prefix
        while True:
            self._next()
            start = self._position
            part = self._take(self._KEY_PART)
            # tomllib knows how to take quotes off.
            path = (*path, *tomllib.loads(f"{part} = 0"))
            self._lines.setdefault(path, self._text.count("\n", 0, start) + 1)
            if self._next() != ".":
                return path
            if path in self._lengths:  # a name below an array of tables belongs to the last one
                path = (*path, self._lengths[path] - 1)
            self._position += 1

    def _pair(self, prefix: Path) -> None:
        path = self._key(prefix)
        self._position += 1  # the equals sign
        self._value(path)

    def _value(self, path: Path) -> None:
        opening = self._next()
        self._note(path)
        if opening == "[":
            for index in self._items("]"):
                self._value((*path, index))
        elif opening == "{":
            for _ in self._items("}"):
                self._pair(path)
        else:
            self._take(self._STRING if opening in "\"'" else self._SCALAR)

    def _items(self, closing: str) -> Iterator[int]:
        """Consume brackets and commas; the caller consumes an item each time."""
        self._position += 1
        index = 0
        while self._next() != closing:
            yield index
            index += 1
            if self._next() == ",":
                self._position += 1
        self._position += 1

"""LIKE: `%` for any characters, `_` for one, everything else for itself; line ends are characters too.

The pattern is cut at each `%` into pieces of fixed length. The first and the last have their places; those between
are found leftmost, one after the other, which never needs a second try. So a pattern like 'a%a%a%…' takes one walk
through the text, where a regular expression with `.*` for each `%` would try every combination.

A search charges its steps (`effort.py`): linear in the text for a piece without `_`, and times the length of the piece
for one with `_`. When the selector has none left, the result is unknown.
"""

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from ackwire.selector.effort import charge

Matcher: TypeAlias = Callable[[str], bool | None]
"""None if the selector has no effort left for it."""
Piece: TypeAlias = list[str | None]  # characters, None for `_`

SEARCHED_HOLES_LENGTH_MAX: Final = 256
"""How long a piece with `_` may be that has no fixed place: its search takes so many steps for each character."""

_SHORT_SEARCH: Final = 16 * 1024
"""Characters of a text times those of a piece up to which `str.find` is used: it may take so many steps."""

_LITERAL_STEPS: Final = 2
"""For each character, of the search for a piece without `_`."""


class _Literal:
    """A piece without `_`."""

    __slots__ = ("_regex", "length", "steps", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.length = len(text)
        self.steps = _LITERAL_STEPS
        self._regex: re.Pattern[str] | None = None

    def is_at(self, text: str, position: int) -> bool:
        return text.startswith(self.text, position)

    def find(self, text: str, start: int, stop: int) -> int:
        if (stop - start) * self.length <= _SHORT_SEARCH:
            return text.find(self.text, start, stop)
        if self._regex is None:  # its search for plain characters is linear, whatever the text is
            self._regex = re.compile(re.escape(self.text))
        match = self._regex.search(text, start, stop)
        return match.start() if match else -1


class _Holes:
    """A piece with `_` in it."""

    __slots__ = ("_regex", "length", "steps")

    def __init__(self, piece: Piece) -> None:
        self.length = self.steps = len(piece)
        # Of fixed length and without choices: nothing to backtrack.
        self._regex = re.compile("".join("." if c is None else re.escape(c) for c in piece), re.DOTALL)

    def is_at(self, text: str, position: int) -> bool:
        return self._regex.match(text, position) is not None

    def find(self, text: str, start: int, stop: int) -> int:
        match = self._regex.search(text, start, stop)
        return match.start() if match else -1


def like_matcher(pattern: str, escape: str | None = None) -> Matcher:
    """A function that says whether a text is LIKE *pattern*; raises ValueError if that could take too long."""
    pieces = [_Holes(piece) if None in piece else _Literal("".join(map(str, piece))) for piece in _cut(pattern, escape)]
    if len(pieces) == 1:
        return _whole(pieces[0])
    first, *between, last = pieces
    between = [piece for piece in between if piece.length]
    if any(isinstance(piece, _Holes) and piece.length > SEARCHED_HOLES_LENGTH_MAX for piece in between):
        raise ValueError(f"more than {SEARCHED_HOLES_LENGTH_MAX} characters, one of them _, between two % of LIKE")
    if not between and isinstance(first, _Literal) and isinstance(last, _Literal):
        if not last.length:
            return lambda text: text.startswith(first.text)
        if not first.length:
            return lambda text: text.endswith(last.text)

    def matches(text: str) -> bool | None:
        position, stop = first.length, len(text) - last.length
        if position > stop or not first.is_at(text, 0) or not last.is_at(text, stop):
            return False
        for piece in between:
            if not charge((stop - position) * piece.steps):
                return None
            found = piece.find(text, position, stop)
            if found < 0:
                return False
            position = found + piece.length
        return True

    return matches


def _whole(piece: _Literal | _Holes) -> Matcher:
    length, is_at = piece.length, piece.is_at
    return lambda text: len(text) == length and is_at(text, 0)


def _cut(pattern: str, escape: str | None) -> list[Piece]:
    """The pieces between the `%`. An escape character counts only before `%`, `_` or itself, as in ActiveMQ."""
    pieces: list[Piece] = [[]]
    position = 0
    while position < len(pattern):
        c = pattern[position]
        if c == escape and pattern[position + 1 : position + 2] in ("%", "_", escape):
            position += 1
            pieces[-1].append(pattern[position])
        elif c == "%":
            pieces.append([])
        else:
            pieces[-1].append(None if c == "_" else c)
        position += 1
    return pieces

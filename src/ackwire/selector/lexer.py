"""Text into tokens, as the token manager of ActiveMQ's SelectorParser.jj cuts it.

Time is linear in the text. Two of ActiveMQ's habits are kept on purpose: a line comment needs its line end (without
one, `x = 5--3` is a subtraction), and a number ends where it can no longer go on (`x = 5AND y` is fine).
"""

import re
from collections.abc import Iterator
from typing import Final

from lark import Token

from ackwire.selector.types import Problem

KEYWORDS: Final = {
    "NOT": "_NOT",
    "AND": "_AND",
    "OR": "_OR",
    "BETWEEN": "_BETWEEN",
    "LIKE": "_LIKE",
    "ESCAPE": "_ESCAPE",
    "IN": "_IN",
    "IS": "_IS",
    "TRUE": "TRUE",
    "FALSE": "FALSE",
    "NULL": "NULL",
}
XPATH: Final = "XPATH"
NOT_OFFERED: Final = {
    XPATH: "XPATH is not offered in selectors, because it reads bodies; the operator of the broker can allow it "
    "(setting selectors.xpath)",
    "XQUERY": "XQUERY is not offered in selectors",
}

SYMBOLS: Final = {
    "=": "_EQUAL",
    "<>": "_NOT_EQUAL",
    "<": "LESS",
    "<=": "LESS_OR_EQUAL",
    ">": "GREATER",
    ">=": "GREATER_OR_EQUAL",
    "+": "PLUS",
    "-": "MINUS",
    "*": "TIMES",
    "/": "DIVIDE",
    "%": "MODULO",
    "(": "_OPEN",
    ")": "_CLOSE",
    ",": "_COMMA",
}

_TOKEN: Final = re.compile(
    r"""
      (?P<SPACE> [ \t\n\r\f]+ )
    | (?P<ID> [A-Za-z_$\x80-\U0010ffff] [A-Za-z0-9_$\x80-\U0010ffff]* )
    | (?P<FLOAT> [0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)? | \.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+ )
    | (?P<HEX> 0[xX][0-9a-fA-F]+ )
    | (?P<OCTAL> 0[0-7]* )
    | (?P<DECIMAL> [1-9][0-9]*[lL]? )
    | (?P<STRING> '[^']*(?:''[^']*)*' )
    | (?P<COMMENT> -- | /\* )
    | (?P<SYMBOL> <> | <= | >= | [=<>+\-*/%(),] )
    """,
    re.VERBOSE,
)
_LINE_END: Final = re.compile(r"[\n\r]")


def tokenise(text: str, start: int = 0, *, offers_xpath: bool = False) -> Iterator[Token]:
    """The tokens of *text* from offset *start*; raises `Problem` for what is none."""
    position, after_name = start, False
    last_ends = _LastEnds(text)
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise Problem(position, _what_is_wrong(text, position))
        kind, value, end = match.lastgroup, match.group(), match.end()
        if kind == "COMMENT":
            end = last_ends.comment_end(position)
            kind, value, end = ("SPACE", "", end) if end else ("SYMBOL", value[0], position + 1)
        if kind != "SPACE":
            token = Token(_token_type(kind, value, position, offers_xpath), value, start_pos=position)
            if after_name and token.type == "_OPEN":
                raise Problem(position, "functions are not offered in selectors")
            after_name = token.type == "ID"
            yield token
        position = end


def _token_type(kind: str | None, value: str, position: int, offers_xpath: bool) -> str:
    if kind == "SYMBOL":
        return SYMBOLS[value]
    if kind == "ID":
        return _word_type(value, position, offers_xpath)
    assert kind is not None  # every alternative has a name
    return kind


def _word_type(word: str, position: int, offers_xpath: bool) -> str:
    if not word.isascii():
        # Java's identifiers, a superset of ActiveMQ's. No keyword: upper() would make "ıs" one.
        if not word.replace("$", "_").isidentifier():
            raise Problem(position, f"{word[:40]!a} is not an identifier")
        return "ID"
    upper = word.upper()
    if offers_xpath and upper == XPATH:
        return "_XPATH"
    if upper in NOT_OFFERED:
        raise Problem(position, NOT_OFFERED[upper])
    return KEYWORDS.get(upper, "ID")


class _LastEnds:
    """The last possible ends of comments. Text behind them is not searched for an end again."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._last_line_end = max(text.rfind("\n"), text.rfind("\r"))
        self._last_closing = text.rfind("*/")

    def comment_end(self, position: int) -> int:
        """Where the comment that may begin at *position* ends, 0 if there is none."""
        if self._text[position] == "/":
            return self._text.index("*/", position + 2) + 2 if position + 2 <= self._last_closing else 0
        if position > self._last_line_end:
            return 0
        line_end = _LINE_END.search(self._text, position)
        assert line_end is not None
        return line_end.end()


def _what_is_wrong(text: str, position: int) -> str:
    if text[position] == "'":
        return "this string has no closing quote"
    if text[position] == '"':
        return "strings are written in single quotes"
    return f"unexpected character {text[position]!a}"

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
NOT_OFFERED: Final = frozenset({"XPATH", "XQUERY"})

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


def tokenise(text: str, start: int = 0) -> Iterator[Token]:
    """The tokens of *text* from offset *start*; raises `Problem` for what is none."""
    position, last_line_end = start, max(text.rfind("\n"), text.rfind("\r"))
    after_name = False
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise Problem(position, _what_is_wrong(text, position))
        kind, value, end = match.lastgroup, match.group(), match.end()
        if kind == "COMMENT":
            end = _comment_end(text, position, last_line_end)
            kind, value, end = ("SPACE", "", end) if end else ("SYMBOL", value[0], position + 1)
        if kind != "SPACE":
            token = Token(_token_type(kind, value, position), value, start_pos=position)
            if after_name and token.type == "_OPEN":
                raise Problem(position, "functions are not offered in selectors")
            after_name = token.type == "ID"
            yield token
        position = end


def _token_type(kind: str | None, value: str, position: int) -> str:
    if kind == "SYMBOL":
        return SYMBOLS[value]
    if kind == "ID":
        return _word_type(value, position)
    assert kind is not None  # every alternative has a name
    return kind


def _word_type(word: str, position: int) -> str:
    if not word.isascii():
        # Java's identifiers, a superset of ActiveMQ's. No keyword: upper() would make "ıs" one.
        if not word.replace("$", "_").isidentifier():
            raise Problem(position, f"{word[:40]!a} is not an identifier")
        return "ID"
    upper = word.upper()
    if upper in NOT_OFFERED:
        raise Problem(position, f"{upper} is not offered in selectors")
    return KEYWORDS.get(upper, "ID")


def _comment_end(text: str, position: int, last_line_end: int) -> int:
    """Where the comment at *position* ends, 0 if there is none."""
    if text[position] == "/":
        closing = text.find("*/", position + 2)
        return 0 if closing < 0 else closing + 2
    if position > last_line_end:  # asked first: a text of minus signs would be searched from each of them
        return 0
    line_end = _LINE_END.search(text, position)
    assert line_end is not None
    return line_end.end()


def _what_is_wrong(text: str, position: int) -> str:
    if text[position] == "'":
        return "this string has no closing quote"
    if text[position] == '"':
        return "strings are written in single quotes"
    return f"unexpected character {text[position]!a}"

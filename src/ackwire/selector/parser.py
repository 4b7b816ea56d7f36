"""compile_selector: from text to `Selector`.

Limits come before work: length first, then nesting. Time is linear in the text, an LALR parser over a linear lexer.
A long selector takes up to 200 ms: a broker must not stop for so long and reads it step by step (`reading_of`). It is
compiled once for all who have it at the same time.
"""

from collections.abc import Generator, Iterator
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, Final, cast
from weakref import WeakValueDictionary

from lark import Lark, Token, UnexpectedInput, UnexpectedToken
from lark.lexer import Lexer, LexerState

from ackwire.errors import InvalidSelector
from ackwire.selector.builder import Builder, Expression, condition_of
from ackwire.selector.effort import limited
from ackwire.selector.grammar import GRAMMAR
from ackwire.selector.lexer import KEYWORDS, tokenise
from ackwire.selector.types import SELECTOR_LENGTH_MAX, SELECTOR_TOKENS_MAX, Problem, Reading, Selector, XPathLimits

CACHED_LENGTH_MAX: Final = 1024
CACHED_COUNT_MAX: Final = 256
"""What the cache keeps: consumers share a few short selectors. A character takes about 160 bytes, so 42 MB at most."""

CONVERTING_PREFIX: Final = "convert_string_expressions:"
"""ActiveMQ's switch for properties that arrive as text (STOMP): '5' then compares with 5."""

EXCERPT_LENGTH: Final = 30

XPATH_COST: Final = 500
"""What XPATH counts for: with the default limits it takes up to 5 ms, instead of some microseconds."""
XPATHS_MAX: Final = 8
"""In one selector; each is read, and evaluated, on its own."""

_TOKENS_PER_STEP: Final = 32

_LIST_TOKENS: Final = frozenset({"STRING", "_COMMA"})
"""Not counted: a list behind IN may be long, and is read quickly."""
_COMPARISONS: Final = frozenset(
    {"_EQUAL", "_NOT_EQUAL", "LESS", "LESS_OR_EQUAL", "GREATER", "GREATER_OR_EQUAL", "_BETWEEN"}
)
_LITERALS: Final = frozenset({"STRING", "DECIMAL", "FLOAT", "HEX", "OCTAL", "TRUE", "FALSE"})


def compile_selector(text: str, xpath: XPathLimits | None = None) -> Selector:
    """Read a selector. Raises `InvalidSelector`, which says what is wrong and where, for a text that is none.

    An empty text is none either: that a consumer with a blank selector wants everything is the caller's rule.
    """
    if len(text) <= CACHED_LENGTH_MAX:
        return _compile_cached(text, xpath)
    reading = _Reading(text, xpath)
    while reading.goes_on():
        pass
    return reading.result()


def reading_of(text: str, xpath: XPathLimits | None = None) -> Reading | None:
    """How to read a long selector step by step; None for one that is read in a moment."""
    return _Reading(text, xpath) if len(text) > CACHED_LENGTH_MAX else None


class _Reading(Reading):
    """A long selector, step by step."""

    def __init__(self, text: str, xpath: XPathLimits | None = None) -> None:
        self._key = (text, xpath)
        self._selector = _in_use.get(self._key)
        self._steps = _steps(text, xpath)
        self._problem: str | None = None
        """What is wrong with it. Only the text: an exception refers to the frames that it has passed, and so to this
        reading and all its tokens, which would stay until the next collection."""

    def goes_on(self) -> bool:
        if self._selector is not None:
            return False
        try:
            next(self._steps)
        except StopIteration as end:
            self._selector = _in_use[self._key] = cast(Selector, end.value)
        except InvalidSelector as error:
            self._problem = str(error)
        else:
            return True
        return False

    def result(self) -> Selector:
        if self._problem is not None:
            raise InvalidSelector(self._problem)
        assert self._selector is not None, "it goes on"
        return self._selector


_in_use: "WeakValueDictionary[tuple[str, XPathLimits | None], Selector]" = WeakValueDictionary()
"""The long selectors that somebody has."""


def prepare() -> None:
    """Build the parser's tables at the start: they take 80 ms, which the first selector would wait for."""
    for prefix in ("", CONVERTING_PREFIX):
        _compile(f"{prefix}a = 1", None)


def _compile(text: str, xpath: XPathLimits | None) -> Selector:
    steps = _steps(text, xpath)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast(Selector, end.value)


def _steps(text: str, xpath: XPathLimits | None) -> Generator[None, None, Selector]:
    """Read a selector, a few tokens with each step."""
    if len(text) > SELECTOR_LENGTH_MAX:
        raise InvalidSelector(f"selector of {len(text)} characters; at most {SELECTOR_LENGTH_MAX} are allowed")
    converts_texts = text.startswith(CONVERTING_PREFIX)
    start = len(CONVERTING_PREFIX) if converts_texts else 0
    tokens: list[Token] = []
    parser = _parser(converts_texts=converts_texts, xpath=xpath).parse_interactive()
    try:
        for token in tokenise(text, start, offers_xpath=xpath is not None):
            tokens.append(token)
            if not len(tokens) % _TOKENS_PER_STEP:
                yield
        yield
        _check_count(tokens)
        for number, token in enumerate(tokens):
            parser.feed_token(token)
            if not (number + 1) % _TOKENS_PER_STEP:
                yield
        yield
        expression = cast(Expression, cast(Any, parser).feed_eof())
        yield
        condition = condition_of(expression)
    except Problem as problem:
        raise InvalidSelector(_describe(text, problem)) from None
    except UnexpectedInput as error:
        raise InvalidSelector(_describe(text, _problem_of(error, len(text)))) from None
    yield
    identifiers = frozenset(str(token) for token in tokens if token.type == "ID")
    yield
    test = limited(condition.test) if _may_take_long(tokens) else condition.test
    has_xpath = any(token.type == "_XPATH" for token in tokens)
    return Selector(text, identifiers, test, XPATH_COST if has_xpath else 1)


def _check_count(tokens: list[Token]) -> None:
    count = xpaths = 0
    for token in tokens:
        xpaths += token.type == "_XPATH"
        if xpaths > XPATHS_MAX:
            raise Problem(cast(int, token.start_pos), f"more than {XPATHS_MAX} XPATH are not allowed")
        count += token.type not in _LIST_TOKENS
        if count > SELECTOR_TOKENS_MAX:
            raise Problem(
                cast(int, token.start_pos), f"more than {SELECTOR_TOKENS_MAX} words, numbers and signs are not allowed"
            )


def _may_take_long(tokens: list[Token]) -> bool:
    """Whether something in it can charge for its effort: LIKE, XPATH, a sum, or a comparison with anything but a
    literal."""
    return any(
        token.type in ("_LIKE", "_XPATH", "PLUS") or (token.type in _COMPARISONS and following.type not in _LITERALS)
        for token, following in pairwise(tokens)
    )


_compile_cached = lru_cache(maxsize=CACHED_COUNT_MAX)(_compile)


class _NoLexer(Lexer):
    """Lark's lexer: there is nothing to do for it, the tokens are fed."""

    __future_interface__ = 2  # the signature of `lex`

    def __init__(self, _conf: object) -> None:
        pass

    def lex(self, lexer_state: LexerState, parser_state: object) -> Iterator[Token]:  # noqa: ARG002 – Lark's contract
        return iter(())


@cache
def _parser(*, converts_texts: bool, xpath: XPathLimits | None) -> Lark:
    # Made at the first selector, or by `prepare`.
    builder = Builder(converts_texts=converts_texts, xpath=xpath)
    return Lark(GRAMMAR, parser="lalr", lexer=_NoLexer, transformer=builder)


def _problem_of(error: UnexpectedInput, end: int) -> Problem:
    assert isinstance(error, UnexpectedToken)  # the lexer reports its own
    token = error.token
    if token.type == "$END":
        return Problem(end, "the selector ends too early")
    if token.upper() in KEYWORDS:
        return Problem(cast(int, token.start_pos), f"the keyword {token.upper()} cannot stand here")
    return Problem(cast(int, token.start_pos), f"unexpected {str(token)[:EXCERPT_LENGTH]!a}")


def _describe(text: str, problem: Problem) -> str:
    excerpt = text[problem.position : problem.position + EXCERPT_LENGTH]
    where = f', before "{excerpt}"' if excerpt else ", at its end"
    return f"invalid selector at character {problem.position + 1}{where}: {problem.text}"

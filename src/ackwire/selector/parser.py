"""compile_selector: from text to `Selector`.

Limits come before work: length first, then nesting. Time is linear in the text, an LALR parser over a linear lexer.
"""

from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, Final, cast

from lark import Lark, Token, UnexpectedInput, UnexpectedToken
from lark.lexer import Lexer, LexerState

from ackwire.errors import InvalidSelector
from ackwire.selector.builder import Builder, Expression, condition_of
from ackwire.selector.effort import limited
from ackwire.selector.grammar import GRAMMAR
from ackwire.selector.lexer import KEYWORDS, tokenise
from ackwire.selector.types import SELECTOR_LENGTH_MAX, SELECTOR_TOKENS_MAX, Problem, Selector, XPathLimits

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
    if len(text) > SELECTOR_LENGTH_MAX:
        raise InvalidSelector(f"selector of {len(text)} characters; at most {SELECTOR_LENGTH_MAX} are allowed")
    return _compile_cached(text, xpath) if len(text) <= CACHED_LENGTH_MAX else _compile(text, xpath)


def prepare() -> None:
    """Make the parser's tables ahead of the first selector: they take 80 ms, and with that nobody should be held up."""
    for prefix in ("", CONVERTING_PREFIX):
        _compile(f"{prefix}a = 1", None)


def _compile(text: str, xpath: XPathLimits | None) -> Selector:
    converts_texts = text.startswith(CONVERTING_PREFIX)
    start = len(CONVERTING_PREFIX) if converts_texts else 0
    try:
        tokens = list(tokenise(text, start, offers_xpath=xpath is not None))
        _check_count(tokens)
        condition = condition_of(_parse(tokens, converts_texts=converts_texts, xpath=xpath))
    except Problem as problem:
        raise InvalidSelector(_describe(text, problem)) from None
    except UnexpectedInput as error:
        raise InvalidSelector(_describe(text, _problem_of(error, len(text)))) from None
    identifiers = frozenset(str(token) for token in tokens if token.type == "ID")
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


class _Tokens(Lexer):
    """Lark's lexer: hands on tokens that are there already, the "text" that `_parse` gives."""

    __future_interface__ = 2  # the signature of `lex`

    def __init__(self, _conf: object) -> None:
        pass

    def lex(self, lexer_state: LexerState, parser_state: object) -> Iterator[Token]:  # noqa: ARG002 – Lark's contract
        return iter(cast(list[Token], lexer_state.text))


@cache
def _parser(*, converts_texts: bool, xpath: XPathLimits | None) -> Lark:
    # Made at the first selector, or by `prepare`.
    builder = Builder(converts_texts=converts_texts, xpath=xpath)
    return Lark(GRAMMAR, parser="lalr", lexer=_Tokens, transformer=builder)


def _parse(tokens: list[Token], *, converts_texts: bool, xpath: XPathLimits | None) -> Expression:
    # With a lexer of our own, Lark takes anything for text; with a transformer, it gives what that makes.
    return cast(Expression, _parser(converts_texts=converts_texts, xpath=xpath).parse(cast(Any, tokens)))


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

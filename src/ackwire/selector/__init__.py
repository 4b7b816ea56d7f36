"""JMS selectors: which messages a consumer wants (SEMANTICS A7, JMS 1.1 §3.8.1).

    selector = compile_selector("color = 'red' AND price > 10")   # raises InvalidSelector
    selector.matches(properties.get)                               # True, False; never raises

A selector is read once and becomes nested functions; nothing here knows what a message is, values come from the
function given to `matches`. The language and its results are ActiveMQ 5.17's, checked against the real one by
tests/vectors/selector; README.md lists where that differs from JMS, and where we differ from ActiveMQ.
"""

from ackwire.selector.types import SELECTOR_LENGTH_MAX, Lookup, Reading, Selector, XPathLimits

__all__ = [
    "SELECTOR_LENGTH_MAX",
    "Lookup",
    "Reading",
    "Selector",
    "XPathLimits",
    "compile_selector",
    "prepare",
    "reading_of",
]


def compile_selector(text: str, xpath: XPathLimits | None = None) -> Selector:
    """Read a selector. Raises `InvalidSelector`, which says what is wrong and where, for a text that is none.

    With the limits *xpath*, `XPATH '…'` is offered; otherwise it is refused.
    """
    from ackwire.selector import parser  # at the first selector: other commands start sooner without

    return parser.compile_selector(text, xpath)


def reading_of(text: str, xpath: XPathLimits | None = None) -> Reading | None:
    """How to read a long selector step by step; None for one that is read in a moment."""
    from ackwire.selector import parser

    return parser.reading_of(text, xpath)


def prepare() -> None:
    """Make what the first selector needs, ahead of it."""
    from ackwire.selector import parser

    parser.prepare()

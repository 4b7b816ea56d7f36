"""`XPATH '…'` in selectors: whether the XML in a message's body answers an XPath 1.0 expression with true.

As in ActiveMQ it is for text messages, and what is no XML does not match. Unlike there an expression that
cannot be evaluated is refused when the consumer is created, and the work for one message is bounded: the size of the
body, the nodes of the document, the steps of the evaluation. Beyond a bound the message does not match; that is logged
once for each expression. `xml_tree.py` says what is not read.
"""

import logging
from functools import lru_cache
from typing import Final

from ackwire.jms.names import BODY
from ackwire.selector.effort import FREE_STEPS, charge
from ackwire.selector.types import Lookup, Test, XPathLimits
from ackwire.selector.xml_tree import Node, NotXml, TooManyNodes, parse_xml
from ackwire.selector.xpath_parser import parse_xpath
from ackwire.selector.xpath_values import Context, Run, TooMuchWork, as_boolean

_STEP: Final = 600
"""What a step counts for among other efforts of a selector, whose steps take a nanosecond."""

_log = logging.getLogger(__name__)


def xpath_test(expression: str, limits: XPathLimits) -> Test:
    """The function that holds messages against *expression*. Raises `InvalidXPath`."""
    evaluate = parse_xpath(expression)
    was_told = False

    def tell(what: str) -> bool:
        nonlocal was_told
        if not was_told:
            was_told = True
            _log.warning("a message does not match XPATH %.200r: %s (setting [selectors]); told once", expression, what)
        return False

    def test(lookup: Lookup) -> bool:
        body = lookup(BODY)
        if not isinstance(body, str):
            return False
        if len(body) > limits.body_bytes_max:
            return tell(f"its body of {len(body)} is longer than xpath_body_bytes_max, {limits.body_bytes_max}")
        root = _document(body, limits.nodes_max)
        if isinstance(root, TooManyNodes):
            return tell(f"its document has more nodes than xpath_nodes_max, {limits.nodes_max}")
        if isinstance(root, NotXml):
            return False
        if not charge(FREE_STEPS + 1):
            return tell("other parts of the selector have taken too long")
        run = Run(limits.steps_max)
        try:
            return as_boolean(evaluate(Context(root, 1, 1, run)))
        except TooMuchWork:
            return tell(f"it takes more steps than xpath_steps_max, {limits.steps_max}")
        finally:
            charge((limits.steps_max - run.steps_left) * _STEP)

    return test


@lru_cache(maxsize=1)
def _document(body: str, nodes_max: int) -> Node | NotXml:
    """The document in *body*. All selectors see one message before the next one: it is parsed once."""
    try:
        return parse_xml(body, nodes_max)
    except NotXml as problem:
        return problem.with_traceback(None)

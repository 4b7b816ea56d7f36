"""The four types of XPath 1.0 and how they become each other (XPath 1.0 §3, §4).

A set of nodes is a list in document order. Every function that could take long charges the `Run`, which ends an
evaluation that does too much.
"""

import math
import re
from decimal import Decimal
from typing import Final, TypeAlias, final

from ackwire.selector.xml_tree import Kind, Node

Nodes: TypeAlias = list[Node]
XPathValue: TypeAlias = "Nodes | str | float | bool"

_NUMBER: Final = re.compile(r"[ \t\r\n]*(-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))[ \t\r\n]*")
_EXACT_INTEGERS: Final = 1e15
_CHARACTERS_PER_STEP: Final = 64


class TooMuchWork(Exception):
    """An evaluation has used up its steps."""


@final
class Run:
    """One evaluation: how much work it may still do."""

    __slots__ = ("steps_left",)

    def __init__(self, steps_max: int) -> None:
        self.steps_left = steps_max

    def charge(self, steps: int) -> None:
        """Count *steps* of work. Raises `TooMuchWork` beyond the limit."""
        self.steps_left -= steps
        if self.steps_left < 0:
            raise TooMuchWork

    def charge_text(self, text: str) -> str:
        """Count the work that *text* has made, and hand it on."""
        self.charge(1 + len(text) // _CHARACTERS_PER_STEP)
        return text


@final
class Context:
    """Where an expression is evaluated."""

    __slots__ = ("node", "position", "run", "size")

    def __init__(self, node: Node, position: int, size: int, run: Run) -> None:
        self.node = node
        self.position = position
        self.size = size
        self.run = run


def string_of_node(node: Node, run: Run) -> str:
    """The string-value: what is written in it and below it."""
    if node.kind is not Kind.ELEMENT and node.kind is not Kind.ROOT:
        return run.charge_text(node.value)
    run.charge(1 + node.last - node.order)
    return run.charge_text("".join(_texts(node)))


def _texts(node: Node) -> list[str]:
    found: list[str] = []
    waiting = [node]
    while waiting:
        it = waiting.pop()
        if it.kind is Kind.TEXT:
            found.append(it.value)
        waiting.extend(reversed(it.children))
    return found


def as_string(value: XPathValue, run: Run) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case float():
            return _string_of_number(value)
        case _:
            return string_of_node(value[0], run) if value else ""


def _string_of_number(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == int(number) and abs(number) < _EXACT_INTEGERS:
        return str(int(number))
    return format(Decimal(repr(number)), "f")


def as_number(value: XPathValue, run: Run) -> float:
    match value:
        case bool():
            return 1.0 if value else 0.0
        case float():
            return value
        case _:
            found = _NUMBER.fullmatch(as_string(value, run))
            return float(found[1]) if found else math.nan


def as_boolean(value: XPathValue) -> bool:
    if isinstance(value, float):
        return value != 0 and not math.isnan(value)
    return bool(value)


def in_order(nodes: Nodes, run: Run) -> Nodes:
    """*nodes* in document order, each once."""
    run.charge(len(nodes))
    found = {node.order: node for node in nodes}
    return [found[order] for order in sorted(found)]


def are_equal(left: XPathValue, right: XPathValue, run: Run, *, wanted: bool) -> bool:
    """`left = right`, or `left != right` if equality is not *wanted* (§3.4)."""
    if isinstance(left, list) and isinstance(right, list):
        lefts = {string_of_node(node, run) for node in left}
        rights = {string_of_node(node, run) for node in right}
        if wanted:
            return not lefts.isdisjoint(rights)
        return len(lefts | rights) > 1 and bool(lefts) and bool(rights)
    if isinstance(right, list):
        left, right = right, left
    if isinstance(left, list) and not isinstance(right, bool):
        return any(_equal(string_of_node(node, run), right, run) is wanted for node in left)
    return _equal(as_boolean(left) if isinstance(left, list) else left, right, run) is wanted


def _equal(left: XPathValue, right: XPathValue, run: Run) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return as_boolean(left) is as_boolean(right)
    if isinstance(left, float) or isinstance(right, float):
        return as_number(left, run) == as_number(right, run)
    return as_string(left, run) == as_string(right, run)


def is_less(left: XPathValue, right: XPathValue, run: Run, *, or_equal: bool) -> bool:
    """`left < right`, or `left <= right`: of sets, whether it is so for any two nodes (§3.4)."""
    lefts, rights = _numbers(left, right, run), _numbers(right, left, run)
    if not lefts or not rights:
        return False
    lowest, highest = min(lefts), max(rights)
    return lowest <= highest if or_equal else lowest < highest


def _numbers(value: XPathValue, other: XPathValue, run: Run) -> list[float]:
    """*value* as numbers to compare, NaN left out: it is less than nothing."""
    if isinstance(value, list) and not isinstance(other, bool):
        numbers = [as_number(string_of_node(node, run), run) for node in value]
    else:
        numbers = [as_number(as_boolean(value) if isinstance(value, list) else value, run)]
    return [number for number in numbers if not math.isnan(number)]

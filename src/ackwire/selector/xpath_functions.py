"""The functions of XPath 1.0 (§4). `id` finds nothing: without a DTD no attribute is an id."""

import math
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from ackwire.selector.xml_tree import Kind, Node
from ackwire.selector.xpath_values import (
    Context,
    Nodes,
    XPathValue,
    as_boolean,
    as_number,
    as_string,
    string_of_node,
)

Apply: TypeAlias = Callable[[Context, list[XPathValue]], XPathValue]

_SPACE: Final = " \t\r\n"


class Function(NamedTuple):
    """A function, how many arguments it takes, and whether it asks for the position among others."""

    apply: Apply
    least: int
    most: int
    is_positional: bool = False
    needs_nodes: bool = False
    """Its argument, if there is one, must be a set of nodes: the parser sees to it."""


def _nodes(value: XPathValue) -> Nodes:
    assert isinstance(value, list)
    return value


def _text(context: Context, arguments: list[XPathValue], index: int = 0) -> str:
    """An argument as text; the node itself where there is none."""
    if index < len(arguments):
        return as_string(arguments[index], context.run)
    return string_of_node(context.node, context.run)


def _count(_context: Context, arguments: list[XPathValue]) -> float:
    return float(len(_nodes(arguments[0])))


def _sum(context: Context, arguments: list[XPathValue]) -> float:
    return sum((as_number([node], context.run) for node in _nodes(arguments[0])), 0.0)


def _first(context: Context, arguments: list[XPathValue]) -> Node | None:
    if not arguments:
        return context.node
    nodes = _nodes(arguments[0])
    return nodes[0] if nodes else None


def _local_name(context: Context, arguments: list[XPathValue]) -> str:
    node = _first(context, arguments)
    return "" if node is None else node.local_name


def _name(context: Context, arguments: list[XPathValue]) -> str:
    node = _first(context, arguments)
    return "" if node is None else node.name


def _namespace_uri(context: Context, arguments: list[XPathValue]) -> str:
    node = _first(context, arguments)
    return "" if node is None else node.namespace


def _concat(context: Context, arguments: list[XPathValue]) -> str:
    return context.run.charge_text("".join(as_string(it, context.run) for it in arguments))


def _starts_with(context: Context, arguments: list[XPathValue]) -> bool:
    return _text(context, arguments).startswith(_text(context, arguments, 1))


def _contains(context: Context, arguments: list[XPathValue]) -> bool:
    return _text(context, arguments, 1) in context.run.charge_text(_text(context, arguments))


def _substring_before(context: Context, arguments: list[XPathValue]) -> str:
    before, found, _ = context.run.charge_text(_text(context, arguments)).partition(
        _text(context, arguments, 1) or "\0"
    )
    return before if found else ""


def _substring_after(context: Context, arguments: list[XPathValue]) -> str:
    text, mark = context.run.charge_text(_text(context, arguments)), _text(context, arguments, 1)
    return text.partition(mark)[2] if mark else text


def _substring(context: Context, arguments: list[XPathValue]) -> str:
    text = context.run.charge_text(_text(context, arguments))
    first = _rounded(as_number(arguments[1], context.run))
    end = math.inf if len(arguments) == 2 else first + _rounded(as_number(arguments[2], context.run))
    if math.isnan(first) or math.isnan(end):
        return ""
    start = max(1.0, min(first, float(len(text) + 1)))
    stop = max(start, min(end, float(len(text) + 1)))
    return text[int(start) - 1 : int(stop) - 1]


def _string_length(context: Context, arguments: list[XPathValue]) -> float:
    return float(len(_text(context, arguments)))


def _normalize_space(context: Context, arguments: list[XPathValue]) -> str:
    text = context.run.charge_text(_text(context, arguments))
    for space in _SPACE[1:]:
        text = text.replace(space, " ")
    return " ".join(filter(None, text.split(" ")))


def _translate(context: Context, arguments: list[XPathValue]) -> str:
    text = context.run.charge_text(_text(context, arguments))
    old, new = _text(context, arguments, 1), _text(context, arguments, 2)
    table: dict[int, str | None] = {}
    for index, character in enumerate(old):
        table.setdefault(ord(character), new[index] if index < len(new) else None)
    return text.translate(table)


def _lang(context: Context, arguments: list[XPathValue]) -> bool:
    wanted = _text(context, arguments).lower()
    node: Node | None = context.node
    while node is not None:
        context.run.charge(1)
        for attribute in node.attributes:
            if attribute.name == "xml:lang":
                return attribute.value.lower() == wanted or attribute.value.lower().startswith(wanted + "-")
        node = node.parent
    return False


def _number(context: Context, arguments: list[XPathValue]) -> float:
    return as_number(arguments[0] if arguments else [context.node], context.run)


def _rounded(number: float) -> float:
    return float(math.floor(number + 0.5)) if math.isfinite(number) else number


def _floor(context: Context, arguments: list[XPathValue]) -> float:
    number = _number(context, arguments)
    return float(math.floor(number)) if math.isfinite(number) else number


def _ceiling(context: Context, arguments: list[XPathValue]) -> float:
    number = _number(context, arguments)
    return float(math.ceil(number)) if math.isfinite(number) else number


FUNCTIONS: Final[dict[str, Function]] = {
    "last": Function(lambda context, _: float(context.size), 0, 0, True),
    "position": Function(lambda context, _: float(context.position), 0, 0, True),
    "count": Function(_count, 1, 1, needs_nodes=True),
    "id": Function(lambda _context, _arguments: [], 1, 1),
    "local-name": Function(_local_name, 0, 1, needs_nodes=True),
    "namespace-uri": Function(_namespace_uri, 0, 1, needs_nodes=True),
    "name": Function(_name, 0, 1, needs_nodes=True),
    "string": Function(_text, 0, 1),
    "concat": Function(_concat, 2, 256),
    "starts-with": Function(_starts_with, 2, 2),
    "contains": Function(_contains, 2, 2),
    "substring-before": Function(_substring_before, 2, 2),
    "substring-after": Function(_substring_after, 2, 2),
    "substring": Function(_substring, 2, 3),
    "string-length": Function(_string_length, 0, 1),
    "normalize-space": Function(_normalize_space, 0, 1),
    "translate": Function(_translate, 3, 3),
    "boolean": Function(lambda _context, arguments: as_boolean(arguments[0]), 1, 1),
    "not": Function(lambda _context, arguments: not as_boolean(arguments[0]), 1, 1),
    "true": Function(lambda _context, _arguments: True, 0, 0),
    "false": Function(lambda _context, _arguments: False, 0, 0),
    "lang": Function(_lang, 1, 1),
    "number": Function(_number, 0, 1),
    "sum": Function(_sum, 1, 1, needs_nodes=True),
    "floor": Function(_floor, 1, 1),
    "ceiling": Function(_ceiling, 1, 1),
    "round": Function(lambda context, arguments: _rounded(_number(context, arguments)), 1, 1),
}

NODE_TYPES: Final[dict[str, Kind | None]] = {
    "node": None,
    "text": Kind.TEXT,
    "comment": Kind.ROOT,  # comments are not in the tree; a root is no child of anything
    "processing-instruction": Kind.INSTRUCTION,
}

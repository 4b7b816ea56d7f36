"""XPath 1.0 expressions into functions (§3.7 says how text is cut into tokens).

What cannot be evaluated is refused here and not for each message: prefixes, which nothing declares (`local-name()` and
`namespace-uri()` find such elements), variables, the namespace axis, unknown functions.
"""

import math
import re
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias, final

from ackwire.selector.xml_tree import Kind, Node
from ackwire.selector.xpath_axes import AXES, Axis
from ackwire.selector.xpath_functions import FUNCTIONS, NODE_TYPES
from ackwire.selector.xpath_values import (
    Context,
    Nodes,
    XPathValue,
    are_equal,
    as_boolean,
    as_number,
    in_order,
    is_less,
)

LENGTH_MAX: Final = 2048
"""Characters of one expression, which is read within a few milliseconds."""

NESTING_MAX: Final = 32
"""Levels of parentheses, predicates and arguments; each is some twelve calls deep while it is read."""

_TOKEN: Final = re.compile(
    r"""[ \t\r\n]*(?:
      (?P<number> [0-9]+(?:\.[0-9]*)? | \.[0-9]+ )
    | (?P<literal> "[^"]*" | '[^']*' )
    | (?P<name> [^\W\d][\w.\-·]* (?: :(?!:) (?: \* | [^\W\d][\w.\-·]* ) )? )
    | (?P<symbol> // | :: | \.\. | <= | >= | != | [()\[\].@,/|+\-=<>*$] )
    )""",
    re.VERBOSE,
)
_XML: Final = "http://www.w3.org/XML/1998/namespace"
"""What the prefix `xml` always stands for."""
_OPERATOR_NAMES: Final = frozenset({"and", "or", "div", "mod"})
_BEFORE_OPERAND: Final = frozenset(
    ("@", "::", "(", "[", ",", "/", "//", "|", "+", "-", "=", "!=", "<", "<=", ">", ">=")
)
"""Behind these, `*` and the names of operators are names of nodes."""

Evaluate: TypeAlias = Callable[[Context], XPathValue]
_Binary: TypeAlias = Callable[[XPathValue, XPathValue, Context], XPathValue]


class InvalidXPath(Exception):
    """The text is no XPath expression that is offered; the message says why."""


class _Token(NamedTuple):
    kind: str
    text: str
    is_operator: bool


class _Expression(NamedTuple):
    evaluate: Evaluate
    is_positional: bool = False
    """Its value depends on the position among others, or may be a position."""
    is_nodes: bool = False


class _Step(NamedTuple):
    axis: Axis
    matches: Callable[[Node], bool]
    predicates: tuple[_Expression, ...] = ()


def parse_xpath(text: str) -> Evaluate:
    """Read an expression. Raises `InvalidXPath`."""
    if len(text) > LENGTH_MAX:
        raise InvalidXPath(f"{len(text)} characters: the limit is {LENGTH_MAX}")
    return _Parser(_tokens(text)).whole().evaluate


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at, end = 0, len(text.rstrip(" \t\r\n"))
    while at < end:
        match = _TOKEN.match(text, at, end)
        if match is None:
            raise InvalidXPath(f"unexpected {text[at : at + 10]!a}")
        kind, value, at = str(match.lastgroup), str(match[match.lastgroup or 0]), match.end()
        last = tokens[-1] if tokens else None
        after_operand = last is not None and not last.is_operator and last.text not in _BEFORE_OPERAND
        is_operator = after_operand and (value == "*" or (kind == "name" and value in _OPERATOR_NAMES))
        tokens.append(_Token(kind, value, is_operator))
    return tokens


@final
class _Parser:
    """Recursive descent, one method for each rule."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    # ---- tokens ------------------------------------------------------------------------------------------------

    def _is(self, *symbols: str, ahead: int = 0) -> bool:
        """Whether the next token is one of these symbols, or operators with a name."""
        at = self._at + ahead
        if at >= len(self._tokens):
            return False
        token = self._tokens[at]
        if token.text not in symbols or token.kind == "literal":
            return False
        return token.kind == "symbol" or token.is_operator

    def _skip(self, *symbols: str) -> bool:
        found = self._is(*symbols)
        self._at += found
        return found

    def _expect(self, symbol: str) -> None:
        if not self._skip(symbol):
            raise InvalidXPath(f'"{symbol}" is missing before {self._here()}')

    def _here(self) -> str:
        return repr(self._tokens[self._at].text) if self._at < len(self._tokens) else "the end"

    def _kind(self) -> str:
        return self._tokens[self._at].kind if self._at < len(self._tokens) else "end"

    def _take(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1].text

    # ---- operators ---------------------------------------------------------------------------------------------

    def whole(self) -> _Expression:
        expression = self._expression()
        if self._at < len(self._tokens):
            raise InvalidXPath(f"unexpected {self._here()}")
        return expression

    def _expression(self) -> _Expression:
        self._depth += 1
        if self._depth > NESTING_MAX:
            raise InvalidXPath(f"nested more than {NESTING_MAX} levels deep")
        parts = [self._and()]
        while self._skip("or"):
            parts.append(self._and())
        self._depth -= 1
        return parts[0] if len(parts) == 1 else _any_of(parts)

    def _and(self) -> _Expression:
        parts = [self._equality()]
        while self._skip("and"):
            parts.append(self._equality())
        return parts[0] if len(parts) == 1 else _all_of(parts)

    def _equality(self) -> _Expression:
        return self._chain(self._relation, "=", "!=")

    def _relation(self) -> _Expression:
        return self._chain(self._sum, "<", "<=", ">", ">=")

    def _sum(self) -> _Expression:
        return self._chain(self._product, "+", "-")

    def _product(self) -> _Expression:
        return self._chain(self._unary, "*", "div", "mod")

    def _chain(self, part: Callable[[], _Expression], *operators: str) -> _Expression:
        """*part*, then any number of *operators* and parts, from left to right."""
        first = part()
        rest: list[tuple[_Binary, Evaluate]] = []
        is_positional = first.is_positional
        is_number = False
        while self._is(*operators):
            operator = self._take()
            right = part()
            is_positional = is_positional or right.is_positional
            is_number = operator in ("+", "-", "*", "div", "mod")
            rest.append((_OPERATIONS[operator], right.evaluate))
        if not rest:
            return first
        evaluate_first = first.evaluate

        def evaluate(context: Context) -> XPathValue:
            value = evaluate_first(context)
            for operation, of_right in rest:
                context.run.charge(1)
                value = operation(value, of_right(context), context)
            return value

        return _Expression(evaluate, is_positional or is_number)

    def _unary(self) -> _Expression:
        signs = 0
        while self._skip("-"):
            signs += 1
        inner = self._union()
        if signs == 0:
            return inner
        factor = -1.0 if signs % 2 else 1.0
        return _Expression(lambda context: factor * as_number(inner.evaluate(context), context.run), True)

    def _union(self) -> _Expression:
        parts = [self._path()]
        while self._skip("|"):
            parts.append(self._path())
        if len(parts) == 1:
            return parts[0]
        for part in parts:
            if not part.is_nodes:
                raise InvalidXPath("only paths can be united with |")

        def evaluate(context: Context) -> XPathValue:
            return in_order([node for part in parts for node in _nodes_of(part, context)], context.run)

        return _Expression(evaluate, is_nodes=True)

    # ---- paths -------------------------------------------------------------------------------------------------

    def _path(self) -> _Expression:
        if self._begins_filter():
            start = self._filter()
            if not self._is("/", "//"):
                return start
            if not start.is_nodes:
                raise InvalidXPath(f"a value has no nodes below it, before {self._here()}")
            return _along(self._steps([]), start.evaluate)
        if self._is("//"):
            return _along(self._steps([]), _root)
        if self._skip("/"):
            if not self._begins_step():
                return _Expression(_root, is_nodes=True)
            return _along(self._steps([self._step()]), _root)
        return _along(self._steps([self._step()]), lambda context: [context.node])

    def _begins_filter(self) -> bool:
        if self._kind() in ("number", "literal") or self._is("(", "$"):
            return True
        return self._kind() == "name" and self._is("(", ahead=1) and self._tokens[self._at].text not in NODE_TYPES

    def _begins_step(self) -> bool:
        return self._kind() == "name" or self._is(".", "..", "@") or (self._kind() == "symbol" and self._text() == "*")

    def _text(self) -> str:
        return self._tokens[self._at].text if self._at < len(self._tokens) else ""

    def _steps(self, steps: list[_Step]) -> list[_Step]:
        """The steps behind those that were read, as long as there is / or //."""
        while self._is("/", "//"):
            is_deep = self._take() == "//"
            step = self._step()
            if is_deep and step.axis is AXES["child"] and not any(it.is_positional for it in step.predicates):
                step = step._replace(axis=AXES["descendant"])  # the same nodes, found once
            elif is_deep:
                steps.append(_Step(AXES["descendant-or-self"], _any_node))
            steps.append(step)
        return steps

    def _step(self) -> _Step:
        if self._skip("."):
            return _Step(AXES["self"], _any_node)
        if self._skip(".."):
            return _Step(AXES["parent"], _any_node)
        axis_name = "attribute" if self._skip("@") else "child"
        if self._kind() == "name" and self._is("::", ahead=1):
            axis_name = self._take()
            self._at += 1
        axis = AXES.get(axis_name)
        if axis is None:
            raise InvalidXPath(f'there is no axis "{axis_name}" here')
        matches = self._node_test(Kind.ATTRIBUTE if axis_name == "attribute" else Kind.ELEMENT)
        return _Step(axis, matches, self._predicates())

    def _node_test(self, principal: Kind) -> Callable[[Node], bool]:
        if self._kind() == "symbol" and self._text() == "*":
            self._at += 1
            return lambda node: node.kind is principal
        if self._kind() != "name":
            raise InvalidXPath(f"a name is missing before {self._here()}")
        name = self._take()
        if self._is("("):
            return self._type_test(name)
        if name.startswith("xml:"):
            local_name = name.removeprefix("xml:")
            return lambda node: node.kind is principal and node.local_name == local_name and node.namespace == _XML
        if ":" in name:
            raise InvalidXPath(f'nothing declares the prefix of "{name}": use local-name() and namespace-uri()')
        return lambda node: node.kind is principal and node.local_name == name and not node.namespace

    def _type_test(self, name: str) -> Callable[[Node], bool]:
        self._expect("(")
        target = self._take()[1:-1] if name == "processing-instruction" and self._kind() == "literal" else None
        self._expect(")")
        if name not in NODE_TYPES:
            raise InvalidXPath(f'"{name}()" cannot stand here')
        kind = NODE_TYPES[name]
        if kind is None:
            return _any_node
        return lambda node: node.kind is kind and (target is None or node.name == target)

    def _predicates(self) -> tuple[_Expression, ...]:
        found: list[_Expression] = []
        while self._skip("["):
            found.append(self._expression())
            self._expect("]")
        return tuple(found)

    # ---- what is no step ---------------------------------------------------------------------------------------

    def _filter(self) -> _Expression:
        primary = self._primary()
        predicates = self._predicates()
        if not predicates:
            return primary
        if not primary.is_nodes:
            raise InvalidXPath("only nodes can have a predicate")

        def evaluate(context: Context) -> XPathValue:
            return _filtered(_nodes_of(primary, context), predicates, context)

        return _Expression(evaluate, is_nodes=True)

    def _primary(self) -> _Expression:
        kind = self._kind()
        if kind == "number":
            number = float(self._take())
            return _Expression(lambda _context: number, True)
        if kind == "literal":
            text = self._take()[1:-1]
            return _Expression(lambda _context: text)
        if self._skip("("):
            inner = self._expression()
            self._expect(")")
            return inner
        if self._is("$"):
            raise InvalidXPath("there are no variables here")
        return self._call(self._take())

    def _call(self, name: str) -> _Expression:
        function = FUNCTIONS.get(name)
        if function is None:
            raise InvalidXPath(f'there is no function "{name}"')
        self._expect("(")
        arguments: list[_Expression] = []
        while not self._is(")"):
            if arguments:
                self._expect(",")
            arguments.append(self._expression())
        self._expect(")")
        if not function.least <= len(arguments) <= function.most:
            raise InvalidXPath(f'the function "{name}" does not take {len(arguments)} arguments')
        if function.needs_nodes and arguments and not arguments[0].is_nodes:
            raise InvalidXPath(f'the function "{name}" takes nodes, not a value')
        apply, evaluates = function.apply, [argument.evaluate for argument in arguments]

        def evaluate(context: Context) -> XPathValue:
            context.run.charge(1)
            return apply(context, [it(context) for it in evaluates])

        is_positional = name in _NUMERIC or function.is_positional or any(it.is_positional for it in arguments)
        return _Expression(evaluate, is_positional, is_nodes=name == "id")


_NUMERIC: Final = frozenset({"count", "string-length", "number", "sum", "floor", "ceiling", "round"})
"""Functions whose value, alone in a predicate, is a position."""


def _root(context: Context) -> XPathValue:
    node = context.node
    while node.parent is not None:
        node = node.parent
    return [node]


def _any_node(_node: Node) -> bool:
    return True


def _nodes_of(expression: _Expression, context: Context) -> Nodes:
    value = expression.evaluate(context)
    assert isinstance(value, list)  # the parser has seen to it
    return value


def _along(steps: list[_Step], start: Evaluate) -> _Expression:
    def evaluate(context: Context) -> XPathValue:
        nodes = start(context)
        assert isinstance(nodes, list)
        for step in steps:
            nodes = _one_step(nodes, step, context)
        return nodes

    return _Expression(evaluate, is_nodes=True)


def _one_step(nodes: Nodes, step: _Step, context: Context) -> Nodes:
    run, matches = context.run, step.matches
    found: Nodes = []
    for node in nodes:
        here: Nodes = []
        for it in step.axis(node):
            run.charge(1)
            if matches(it):
                here.append(it)
        found += _filtered(here, step.predicates, context) if step.predicates else here
    return in_order(found, run) if len(nodes) > 1 or step.predicates or not _is_forward(step.axis) else found


def _is_forward(axis: Axis) -> bool:
    return axis in _FORWARD


_FORWARD: Final = frozenset(AXES[name] for name in ("self", "child", "descendant", "descendant-or-self", "attribute"))


def _filtered(nodes: Nodes, predicates: tuple[_Expression, ...], context: Context) -> Nodes:
    for predicate in predicates:
        size = len(nodes)
        kept: Nodes = []
        for position, node in enumerate(nodes, start=1):
            context.run.charge(1)
            value = predicate.evaluate(Context(node, position, size, context.run))
            is_number = isinstance(value, float) and not isinstance(value, bool)
            if value == position if is_number else as_boolean(value):
                kept.append(node)
        nodes = kept
    return nodes


def _any_of(parts: list[_Expression]) -> _Expression:
    return _Expression(
        lambda context: any(as_boolean(part.evaluate(context)) for part in parts), any(it.is_positional for it in parts)
    )


def _all_of(parts: list[_Expression]) -> _Expression:
    return _Expression(
        lambda context: all(as_boolean(part.evaluate(context)) for part in parts), any(it.is_positional for it in parts)
    )


def _divided(left: float, right: float) -> float:
    if right != 0:
        return left / right
    return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left) * math.copysign(1, right)


def _remainder(left: float, right: float) -> float:
    return math.nan if right == 0 or math.isinf(left) else math.fmod(left, right)


def _arithmetic(operation: Callable[[float, float], float]) -> _Binary:
    return lambda left, right, context: operation(as_number(left, context.run), as_number(right, context.run))


_OPERATIONS: Final[dict[str, _Binary]] = {
    "=": lambda left, right, context: are_equal(left, right, context.run, wanted=True),
    "!=": lambda left, right, context: are_equal(left, right, context.run, wanted=False),
    "<": lambda left, right, context: is_less(left, right, context.run, or_equal=False),
    "<=": lambda left, right, context: is_less(left, right, context.run, or_equal=True),
    ">": lambda left, right, context: is_less(right, left, context.run, or_equal=False),
    ">=": lambda left, right, context: is_less(right, left, context.run, or_equal=True),
    "+": _arithmetic(lambda left, right: left + right),
    "-": _arithmetic(lambda left, right: left - right),
    "*": _arithmetic(lambda left, right: left * right),
    "div": _arithmetic(_divided),
    "mod": _arithmetic(_remainder),
}

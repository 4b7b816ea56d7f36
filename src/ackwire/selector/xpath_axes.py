"""The axes of XPath 1.0 (§2.2): from one node to others, nearest first. The namespace axis is left out."""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from ackwire.selector.xml_tree import Kind, Node

Axis: TypeAlias = Callable[[Node], Iterator[Node]]


def _self(node: Node) -> Iterator[Node]:
    yield node


def _child(node: Node) -> Iterator[Node]:
    return iter(node.children)


def _descendant(node: Node) -> Iterator[Node]:
    waiting = node.children[::-1]
    while waiting:
        it = waiting.pop()
        yield it
        waiting.extend(it.children[::-1])


def _descendant_or_self(node: Node) -> Iterator[Node]:
    yield node
    yield from _descendant(node)


def _parent(node: Node) -> Iterator[Node]:
    if node.parent is not None:
        yield node.parent


def _ancestor(node: Node) -> Iterator[Node]:
    while node.parent is not None:
        node = node.parent
        yield node


def _ancestor_or_self(node: Node) -> Iterator[Node]:
    yield node
    yield from _ancestor(node)


def _attribute(node: Node) -> Iterator[Node]:
    return iter(node.attributes)


def _following_sibling(node: Node) -> Iterator[Node]:
    if node.parent is not None and node.kind is not Kind.ATTRIBUTE:
        yield from (it for it in node.parent.children if it.order > node.order)


def _preceding_sibling(node: Node) -> Iterator[Node]:
    if node.parent is not None and node.kind is not Kind.ATTRIBUTE:
        yield from (it for it in reversed(node.parent.children) if it.order < node.order)


def _following(node: Node) -> Iterator[Node]:
    if node.kind is Kind.ATTRIBUTE and node.parent is not None:
        yield from _descendant(node.parent)
        node = node.parent
    for it in _ancestor_or_self(node):
        for sibling in _following_sibling(it):
            yield from _descendant_or_self(sibling)


def _preceding(node: Node) -> Iterator[Node]:
    if node.kind is Kind.ATTRIBUTE and node.parent is not None:
        node = node.parent
    for it in _ancestor_or_self(node):
        for sibling in _preceding_sibling(it):
            yield from reversed(list(_descendant_or_self(sibling)))


AXES: Final[dict[str, Axis]] = {
    "self": _self,
    "child": _child,
    "descendant": _descendant,
    "descendant-or-self": _descendant_or_self,
    "parent": _parent,
    "ancestor": _ancestor,
    "ancestor-or-self": _ancestor_or_self,
    "attribute": _attribute,
    "following-sibling": _following_sibling,
    "preceding-sibling": _preceding_sibling,
    "following": _following,
    "preceding": _preceding,
}

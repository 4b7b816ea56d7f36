"""XML into a tree, from strangers: no DTD, no entities but the five of XML, bounded in nodes and depth.

The tree is what XPath 1.0 sees: elements, attributes, text and processing instructions, in document order. Comments are
left out, as ActiveMQ's parser does. A document type declaration is refused before it is read, so nothing can be
declared, expanded or fetched.
"""

from enum import IntEnum
from typing import Any, Final, final
from xml.parsers import expat

DEPTH_MAX: Final = 200
"""Elements inside each other."""

_SEPARATOR: Final = "\x01"
"""Between namespace, name and prefix, as the parser reports them: a character that XML does not allow."""


class NotXml(Exception):
    """The text is no document that is read here; the message says why."""


class TooManyNodes(NotXml):
    """The document is larger than is allowed."""


class Kind(IntEnum):
    """What a node is."""

    ROOT = 0
    ELEMENT = 1
    ATTRIBUTE = 2
    TEXT = 3
    INSTRUCTION = 4


@final
class Node:
    """One node; `order` is its place in the document."""

    __slots__ = (
        "attributes",
        "children",
        "kind",
        "last",
        "local_name",
        "name",
        "namespace",
        "order",
        "parent",
        "value",
    )

    def __init__(self, kind: Kind, order: int, parent: "Node | None") -> None:
        self.kind = kind
        self.order = order
        self.parent = parent
        self.name = ""
        """As written, with its prefix."""
        self.local_name = ""
        self.namespace = ""
        self.value = ""
        self.children: list[Node] = []
        self.attributes: list[Node] = []
        self.last = order
        """The order of the last node below it."""


def parse_xml(text: str, nodes_max: int) -> Node:
    """The root of the document. Raises `NotXml` for anything else, and for more than *nodes_max* nodes."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise NotXml("it has half of a surrogate pair") from None
    parser = expat.ParserCreate("utf-8", _SEPARATOR)  # whatever the text says of itself: it is characters
    tree = _Tree(nodes_max)
    parser.namespace_prefixes = True
    parser.buffer_text = True
    parser.ordered_attributes = True
    parser.StartDoctypeDeclHandler = _refuse_doctype
    parser.StartElementHandler = tree.start
    parser.EndElementHandler = tree.end
    parser.CharacterDataHandler = tree.text
    parser.ProcessingInstructionHandler = tree.instruction
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise NotXml(f"it is no well-formed XML: {error}") from None
    tree.root.last = tree.count - 1
    return tree.root


def _refuse_doctype(*_args: Any) -> None:
    raise NotXml("it has a document type declaration, which is not read")


@final
class _Tree:
    """Grows while the parser reports."""

    def __init__(self, nodes_max: int) -> None:
        self._nodes_max = nodes_max
        self._depth = 0
        self.count = 0
        self.root = self._at = self._node(Kind.ROOT, None)

    def _node(self, kind: Kind, parent: Node | None) -> Node:
        if self.count >= self._nodes_max:
            raise TooManyNodes(f"it has more than {self._nodes_max} nodes")
        node = Node(kind, self.count, parent)
        self.count += 1
        return node

    def start(self, name: str, attributes: list[str]) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise NotXml(f"its elements are more than {DEPTH_MAX} levels deep")
        node = self._node(Kind.ELEMENT, self._at)
        _give_name(node, name)
        self._at.children.append(node)
        for at in range(0, len(attributes), 2):
            attribute = self._node(Kind.ATTRIBUTE, node)
            _give_name(attribute, attributes[at])
            attribute.value = attributes[at + 1]
            node.attributes.append(attribute)
        self._at = node

    def end(self, _name: str) -> None:
        self._depth -= 1
        self._at.last = self.count - 1
        parent = self._at.parent
        assert parent is not None
        self._at = parent

    def text(self, text: str) -> None:
        node = self._node(Kind.TEXT, self._at)
        node.value = text
        self._at.children.append(node)

    def instruction(self, target: str, data: str) -> None:
        node = self._node(Kind.INSTRUCTION, self._at)
        node.name = node.local_name = target
        node.value = data
        self._at.children.append(node)


def _give_name(node: Node, reported: str) -> None:
    """*reported* is `name`, or `namespace name`, or `namespace name prefix`, with the separator in between."""
    parts = reported.split(_SEPARATOR)
    if len(parts) == 1:
        node.name = node.local_name = reported
        return
    node.namespace, node.local_name = parts[0], parts[1]
    node.name = f"{parts[2]}:{parts[1]}" if len(parts) > 2 else parts[1]

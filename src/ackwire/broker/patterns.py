"""Finds the watchers of patterns that match a name, in a tree by levels of the name (SEMANTICS A8)."""

from collections.abc import Iterator
from typing import Final, Generic, TypeVar, final

_ONE_LEVEL: Final = "*"
_THE_REST: Final = ">"

W = TypeVar("W")


@final
class _Node(Generic[W]):
    """The patterns that agree on their first levels."""

    __slots__ = ("children", "ending", "open_ended")

    def __init__(self) -> None:
        self.children: dict[str, _Node[W]] = {}
        self.ending: dict[int, W] = {}
        """Those that end here, by their number."""
        self.open_ended: dict[int, W] = {}
        """Those that go on with `>`: they match whatever follows, also nothing."""

    @property
    def is_empty(self) -> bool:
        return not (self.children or self.ending or self.open_ended)


@final
class PatternTree(Generic[W]):
    """Watchers by pattern. `matches_pattern` in `jms/destinations.py` says what a pattern stands for."""

    def __init__(self) -> None:
        self._root: _Node[W] = _Node()
        self._next_number = 0

    def add(self, pattern: str, watcher: W) -> int:
        """Have *watcher* found for names that *pattern* stands for; returns the number to `remove` it with."""
        node = self._root
        levels, is_open = _levels_of(pattern)
        for level in levels:
            child = node.children.get(level)
            if child is None:
                child = node.children[level] = _Node()
            node = child
        number = self._next_number
        self._next_number = number + 1
        (node.open_ended if is_open else node.ending)[number] = watcher
        return number

    def remove(self, pattern: str, number: int) -> None:
        """Forget the watcher that was added under *number*."""
        levels, is_open = _levels_of(pattern)
        path = [self._root]
        for level in levels:
            path.append(path[-1].children[level])
        del (path[-1].open_ended if is_open else path[-1].ending)[number]
        for depth in range(len(levels) - 1, -1, -1):
            if not path[depth + 1].is_empty:
                break
            del path[depth].children[levels[depth]]

    def matching(self, name: str) -> list[W]:
        """The watchers whose pattern stands for *name*, in the order in which they came."""
        found: dict[int, W] = {}
        for watchers in self._watchers(name):
            found.update(watchers)
        return [found[number] for number in sorted(found)] if len(found) > 1 else list(found.values())

    def has_match(self, name: str) -> bool:
        """Whether the pattern of any watcher stands for *name*."""
        return next(self._watchers(name), None) is not None

    def _watchers(self, name: str) -> Iterator[dict[int, W]]:
        """The watchers on all paths through the tree that match *name*."""
        nodes = [self._root]
        for level in name.split("."):
            following: list[_Node[W]] = []
            for node in nodes:
                if node.open_ended:
                    yield node.open_ended
                for step in (level, _ONE_LEVEL):
                    child = node.children.get(step)
                    if child is not None:
                        following.append(child)
                    if level == _ONE_LEVEL:
                        break
            if not following:
                return
            nodes = following
        for node in nodes:
            if node.open_ended:
                yield node.open_ended
            if node.ending:
                yield node.ending


def _levels_of(pattern: str) -> tuple[list[str], bool]:
    """The levels before the first `>`, and whether there is one."""
    levels = pattern.split(".")
    if _THE_REST in levels:
        return levels[: levels.index(_THE_REST)], True
    return levels, False

"""The settings in force now: parts of the broker read them here when they need one, because a reload replaces them."""

from typing import final

from ackwire.config import Settings
from ackwire.selector import Reading, Selector, XPathLimits, compile_selector, reading_of


@final
class LiveSettings:
    """Holds the settings, and what is made by them."""

    __slots__ = ("current",)

    def __init__(self, settings: Settings) -> None:
        self.current = settings

    def compile_selector(self, text: str) -> Selector:
        """Read a selector, with what the settings allow in it. Raises `InvalidSelector`."""
        return compile_selector(text, self._xpath_limits())

    def reading_of(self, selector: str) -> Reading | None:
        """How to read a long selector step by step; None for one that takes no time."""
        return reading_of(selector, self._xpath_limits())

    def _xpath_limits(self) -> XPathLimits | None:
        limits = self.current.selectors
        if not limits.xpath:
            return None
        return XPathLimits(limits.xpath_body_bytes_max, limits.xpath_nodes_max, limits.xpath_steps_max)

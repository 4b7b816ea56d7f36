"""The settings in force now: parts of the broker read them here when they need one, because a reload replaces them."""

from typing import final

from ackwire.config import Settings
from ackwire.selector import Selector, XPathLimits, compile_selector


@final
class LiveSettings:
    """Holds the settings, and what is made by them."""

    __slots__ = ("current",)

    def __init__(self, settings: Settings) -> None:
        self.current = settings

    def compile_selector(self, text: str) -> Selector:
        """Read a selector, with what the settings allow in it. Raises `InvalidSelector`."""
        limits = self.current.selectors
        if not limits.xpath:
            return compile_selector(text)
        xpath = XPathLimits(limits.xpath_body_bytes_max, limits.xpath_nodes_max, limits.xpath_steps_max)
        return compile_selector(text, xpath)

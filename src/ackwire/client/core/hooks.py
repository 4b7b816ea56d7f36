"""Whom the core of a connection tells what happens: the application's side, and the engine that carries its bytes."""

from collections.abc import Callable
from typing import Protocol

from ackwire.client.errors import JMSError
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.negotiation import Agreement


class Hooks(Protocol):
    """Events for the application's side."""

    def interrupted(self, error: JMSError) -> None:
        """The link is lost and will be made again."""

    def resumed(self) -> None:
        """It is back, and everything is restored."""

    def failed(self, error: JMSError) -> None:
        """Something went wrong that no call was waiting for."""

    def has_room(self) -> None:
        """There is no longer too much that is not confirmed."""


class EngineHooks:
    """Events for the engine, which sets these functions."""

    def __init__(self) -> None:
        self.on_output: Callable[[], None] = _nothing
        """Called when there is something to send …"""
        self.on_much_output: Callable[[], None] = _nothing
        """… and when it has become so much that waiting for more is of no use."""
        self.on_agreed: Callable[[Agreement], None] = _ignore
        self.on_restored: Callable[[], None] = _nothing
        self.on_login_refused: Callable[[JMSError], None] = _ignore
        self.on_control: Callable[[commands.ConnectionControl], None] = _ignore
        self.on_broken: Callable[[JMSError], None] = _ignore
        """Called when the broker says that it cannot go on: the link is of no use any more."""


def _nothing() -> None:
    pass


def _ignore(_: object) -> None:
    pass

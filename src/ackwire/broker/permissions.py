"""Permissions: every operation of the broker asks here whether its principal may do it (`permit`).

Everything is allowed until a rule is given. What is asked for each message is asked once for each connection and
destination, and remembered with the connection (`Connection.may_send_to`) until `changed` is called.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias, final

from ackwire.errors import NotAuthorised
from ackwire.jms.destinations import Destination


class Proof(Enum):
    """How a principal was authenticated."""

    NONE = "nothing"
    """It says so, and nothing has verified it."""
    PASSWORD = "password"  # noqa: S105 - the kind of proof
    CERTIFICATE = "certificate"
    TOKEN = "token"  # noqa: S105 - the kind of proof
    PROCESS = "the broker's own process"


@dataclass(frozen=True, slots=True)
class Principal:
    """The user or program that acts."""

    name: str = ""
    """Empty: it gave none."""
    groups: frozenset[str] = frozenset()
    proof: Proof = Proof.NONE
    source: str = ""
    """Where it comes from: the address of the peer, or empty."""

    def __str__(self) -> str:
        who = self.name or "a client without a name"
        return f"{who} from {self.source}" if self.source else who


UNKNOWN: Final = Principal()
"""A client that has not said who it is."""
BROKER: Final = Principal("the broker", proof=Proof.PROCESS)
"""The broker itself, and programs that have it in their own process."""


class Action(Enum):
    """An action that needs a permission."""

    CONNECT = "connect"
    SEND = "send to"
    CONSUME = "consume from"
    BROWSE = "browse"
    CREATE = "create"
    DELETE = "delete"
    INSPECT = "inspect"
    """See how something stands: lists, `why`, metrics."""
    OPERATE = "operate"
    """What operators do with a destination and its messages: pause, purge, move and the like."""


Rule: TypeAlias = Callable[[Principal, Action, Destination | None], str | None]
"""Why an action is refused, or None. The destination is None for what concerns the whole broker."""


@final
class Permissions:
    """Decides who may do what."""

    __slots__ = ("_on_change", "_rule")

    def __init__(self, rule: Rule | None = None) -> None:
        """Without a *rule* everything is allowed."""
        self._rule = rule
        self._on_change: list[Callable[[], None]] = []

    def permit(self, principal: Principal, action: Action, where: Destination | None = None) -> None:
        """Raise `NotAuthorised` unless *principal* may do *action* with *where*, or with each part of a composite."""
        rule = self._rule
        if rule is None:
            return
        for part in (None,) if where is None else where.parts():
            reason = rule(principal, action, part)
            if reason is not None:
                what = "this broker" if part is None else repr(part)
                raise NotAuthorised(f"{principal} may not {action.value} {what}: {reason}")

    def use(self, rule: Rule | None) -> None:
        """Decide by another *rule* from now on."""
        self._rule = rule
        self.changed()

    def on_change(self, callback: Callable[[], None]) -> None:
        """Have *callback* called when an earlier decision may not hold any more."""
        self._on_change.append(callback)

    def changed(self) -> None:
        """An earlier decision may not hold any more: what was remembered is forgotten."""
        for callback in self._on_change:
            callback()

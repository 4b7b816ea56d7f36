"""The role of this broker, as a state machine without I/O.

    STARTING → WAITING → RECOVERING → MASTER → STEPPING_DOWN → WAITING …      and STOPPED

What grants mastership (`mastership.py`) and the application (`app.py`) report what happens; `Roles` says what follows.
Invariants: a broker serves only as MASTER; it is never MASTER without a grant; each grant has a higher epoch than the
one before it; after `lost` no step leads to MASTER but a new grant.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, final


class Role(Enum):
    """What a broker is at the moment; the value is the word that people and metrics see."""

    STARTING = "starting"
    WAITING = "slave"
    """Another broker is the master, or none can be."""
    RECOVERING = "recovering"
    """It is granted mastership, and opens the store."""
    MASTER = "master"
    STEPPING_DOWN = "stepping-down"
    """It serves no more, and lets go of the store."""
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Standing:
    """The role, and what belongs to it."""

    role: Role
    epoch: int
    """Of the grant that is in force, or was last; 0 if there was none, or if it has none."""
    since_ms: int
    """When the role began."""
    why: str
    """A sentence for people, lower case."""
    is_suspended: bool = False
    """Whether the grant is in doubt: then nothing is confirmed to anybody."""

    @property
    def word(self) -> str:
        """The role in one word."""
        return self.role.value


_HAS_GRANT: Final = frozenset((Role.RECOVERING, Role.MASTER))


class StaleGrant(Exception):
    """A grant whose epoch is not above that of the grant before it; the text says so."""


@final
class Roles:
    """Takes what happens, and says which role follows. Inputs that come too late for the role change nothing."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self.standing = Standing(Role.STARTING, 0, now_ms(), "it was just started")
        self._is_stopping = False
        self._observers: list[Callable[[Standing], None]] = []

    def observe(self, observer: Callable[[Standing], None]) -> None:
        """Have *observer* called with each new standing, once it is in force."""
        self._observers.append(observer)

    # ---- inputs ------------------------------------------------------------------------------------------------

    def waits(self, why: str) -> None:
        """It asks for mastership, or learns who has it."""
        if self.standing.role in (Role.STARTING, Role.WAITING):
            self._become(Role.WAITING, why)

    def granted(self, epoch: int, why: str) -> bool:
        """It is to be the master; False if it does not want that any more. Raises `StaleGrant`; an *epoch* of 0 says
        that the store itself counts."""
        standing = self.standing
        if standing.role not in (Role.STARTING, Role.WAITING):
            return False
        if epoch and epoch <= standing.epoch:
            raise StaleGrant(f"a grant of epoch {epoch} behind one of epoch {standing.epoch}")
        self._become(Role.RECOVERING, why, epoch=epoch or standing.epoch)
        return True

    def recovered(self, epoch: int | None = None) -> bool:
        """The store is open, and clients can be served; False if the grant is lost meanwhile. *epoch* is the store's
        own, if the grant has none."""
        if self.standing.role is not Role.RECOVERING:
            return False
        self._become(Role.MASTER, self.standing.why, epoch=epoch or self.standing.epoch)
        return True

    def suspended(self, why: str) -> bool:
        """The grant is in doubt; whether that makes a difference."""
        standing = self.standing
        if standing.role not in _HAS_GRANT or standing.is_suspended:
            return False
        self._set(replace(standing, is_suspended=True, why=why))
        return True

    def resumed(self, why: str) -> bool:
        """The grant is in force again; whether that makes a difference."""
        standing = self.standing
        if standing.role not in _HAS_GRANT or not standing.is_suspended:
            return False
        self._set(replace(standing, is_suspended=False, why=why))
        return True

    def lost(self, why: str) -> bool:
        """The grant is over; whether there was one."""
        if self.standing.role not in _HAS_GRANT:
            return False
        self._become(Role.STEPPING_DOWN, why)
        return True

    def released(self) -> None:
        """It has let go of the store, and could be granted mastership again."""
        if self.standing.role is Role.STEPPING_DOWN:
            self._become(Role.STOPPED if self._is_stopping else Role.WAITING, self.standing.why)

    def stop(self, why: str) -> None:
        """It is to end."""
        self._is_stopping = True
        if self.standing.role in _HAS_GRANT:
            self._become(Role.STEPPING_DOWN, why)
        elif self.standing.role is not Role.STEPPING_DOWN:
            self._become(Role.STOPPED, why)

    # ---- inside ------------------------------------------------------------------------------------------------

    def _become(self, role: Role, why: str, *, epoch: int | None = None) -> None:
        before = self.standing
        since_ms = before.since_ms if role is before.role else self._now_ms()
        is_suspended = before.is_suspended and role in _HAS_GRANT and before.role in _HAS_GRANT
        self._set(Standing(role, before.epoch if epoch is None else epoch, since_ms, why, is_suspended))

    def _set(self, standing: Standing) -> None:
        if standing != self.standing:
            self.standing = standing
            for observer in self._observers:
                observer(standing)

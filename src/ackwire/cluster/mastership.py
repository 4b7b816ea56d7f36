"""What grants mastership: a lock or an elector, behind one protocol.

`file_lock.py` is a lock in a shared folder, `sql_lease.py` a lease in a shared database, `zookeeper.py` an elector.
All callbacks run on the loop.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class MastershipLost(Exception):
    """This broker is the master no more; the text says why."""


@dataclass(frozen=True, slots=True)
class Grant:
    """This broker is to be the master."""

    epoch: int
    """Higher with each grant, whichever broker gets it; 0 if the store itself counts."""
    why: str
    """A sentence for people: what it was granted for."""


class Mastership(Protocol):
    """Grants mastership to one broker at a time. Used by one loop; may be acquired again after a release."""

    on_waiting: Callable[[str], None]
    """Called with a sentence that names the holder, whenever that changes while it waits."""
    on_suspended: Callable[[str], None]
    """Called when the grant is in doubt: nothing may be confirmed until `on_resumed` or `on_lost`."""
    on_resumed: Callable[[str], None]
    on_lost: Callable[[str], None]
    """Called once when a grant is over without a release. From then on nothing may be written, and no client
    answered."""

    async def acquire(self) -> Grant:
        """Wait for mastership. Raises `ConfigError` if it can never be granted; may be cancelled."""
        ...

    async def is_held(self) -> bool:
        """Whether the grant is in force, as far as that can be found out now: asked when the store has failed, which
        may be because another broker has taken it over."""
        ...

    async def release(self) -> None:
        """Give it back, or stop asking. Harmless if it is lost."""
        ...

    async def close(self) -> None:
        """The process ends: take no more part."""
        ...


def ignore(_: str) -> None:
    """The callbacks of a mastership before they are set."""

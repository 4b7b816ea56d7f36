"""Locks on a database server that end with the session that holds them, whatever happens to the broker."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar, final

from ackwire.util.socket_watchdog import WatchedSocket


class ServerSession(Protocol):
    """A session on a server."""

    @property
    def watched(self) -> WatchedSocket: ...

    def run(self, sql: str) -> None:
        """Execute one statement, inside the transaction that is open, if there is one."""
        ...

    def close(self) -> None: ...


_S = TypeVar("_S", bound=ServerSession)


def locked(session: _S, lock: Callable[[_S], None]) -> _S:
    """*session* after *lock*, which takes a lock on it; closed if that fails."""
    try:
        lock(session)
    except BaseException:
        session.close()
        raise
    return session


@final
class TransactionHold:
    """Implements `Hold` by a transaction that stays open on a session of its own."""

    def __init__(self, session: ServerSession, statements: Sequence[str]) -> None:
        """The last of *statements* takes the lock. Raises the driver's errors; then the session is closed."""
        self._session = locked(session, lambda it: _run_all(it, statements))

    @property
    def is_quiet(self) -> bool:
        return self._session.watched.is_quiet

    def check(self) -> None:
        self._session.run("SELECT 1")

    def close(self) -> None:
        self._session.close()


def _run_all(session: ServerSession, statements: Sequence[str]) -> None:
    for statement in statements:
        session.run(statement)

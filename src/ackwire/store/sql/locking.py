"""Waits for the locks of a database: a server may need a moment to notice that the last one who had them has gone."""

import threading
from collections.abc import Callable
from typing import Final, TypeVar

from ackwire.store.sql.driver import Session
from ackwire.store.sql.errors import Locked
from ackwire.util.clock import Clock

_SECONDS_MAX: Final = 5.0
_PAUSE_SECONDS: Final = 0.02

_T = TypeVar("_T")


def refuse_lease_of_activemq(session: Session, lease_query: str, description: str) -> None:
    """Raise `Locked` while an ActiveMQ with a LeaseDatabaseLocker is the master. Asked while our lock is held: it
    changes its lease in the table that is locked."""
    for name, left_ms in session.select(lease_query):
        seconds = max(1, round(left_ms / 1000))
        raise Locked(description, f'ActiveMQ broker "{name}", whose lease lasts {seconds} s more')


def wait_for_lock(take: Callable[[], _T], clock: Clock) -> _T:
    """What *take* returns, which takes a lock. Raises `Locked` if it is not free after a while."""
    began = clock.monotonic()
    attempts_left = round(_SECONDS_MAX / _PAUSE_SECONDS)
    while True:
        try:
            return take()
        except Locked:
            attempts_left -= 1
            if not attempts_left or clock.monotonic() - began > _SECONDS_MAX:
                raise
            threading.Event().wait(_PAUSE_SECONDS)

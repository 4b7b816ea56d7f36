"""The writer: executes transactions one after the other, and again after a database was away.

Called beside the loop, in one thread. Nothing is reported written before its commit has returned, or was found to have
happened: after a lost connection the state row tells, whose transaction number grows with each commit. Its guard also
ends this run as soon as another broker has begun one on the same database.
"""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar, final

from ackwire.store.sql.changes import Changes
from ackwire.store.sql.driver import Driver, Hold, Session
from ackwire.store.sql.errors import (
    DatabaseAway,
    DatabaseRefused,
    Diagnosis,
    Locked,
    Superseded,
    Trouble,
    UnusableDatabase,
)
from ackwire.store.sql.execution import Execution
from ackwire.store.sql.locking import refuse_lease_of_activemq
from ackwire.store.sql.statements import Statements
from ackwire.util.clock import Clock

_FIRST_PAUSE_SECONDS: Final = 0.05
_PAUSE_SECONDS_MAX: Final = 2.0
"""Pauses between attempts double from the first to the longest: a fail-over takes seconds, a deadlock no time."""

_HOLD_CHECK_SECONDS: Final = 5.0
"""How often the server is asked whether the lock is held, which costs a round trip. An end of the connection that has
come here is seen at once."""

CLOSING_SECONDS_MAX: Final = 5.0
"""How long a broker that stops waits for a database that is away."""

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


@final
class Attempts:
    """Repeats what a database refuses for a while: with pauses, until the time is up. One for each thread."""

    def __init__(self, driver: Driver, clock: Clock, seconds_max: float, closing: threading.Event) -> None:
        self._driver = driver
        self.clock = clock
        self._seconds_max = seconds_max
        self._closing = closing
        self.trouble: str | None = None
        """Why the database does nothing at the moment; read by the loop."""
        self._reported: set[str] = set()
        """What was logged since the database last answered."""
        self.count = 0
        """How often something was repeated."""
        self.away_since: float | None = None
        """Since when it has done nothing, by the monotonic clock; None while it does."""
        self.reconnects = 0
        """Sessions opened in the place of a lost one."""

    def run(self, attempt: Callable[[], _T], on_error: Callable[[Diagnosis], None]) -> _T:
        """What *attempt* returns, as soon as it does not fail; *on_error* is called after each failure. Raises
        `DatabaseAway`, `Superseded`, and errors that repeating does not cure."""
        began: float | None = None
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                result = attempt()
            except (Superseded, DatabaseAway):
                raise
            except Exception as error:
                if isinstance(error, UnusableDatabase) and not isinstance(error, Locked):
                    raise
                diagnosis = self._driver.diagnose(error)
                on_error(diagnosis)
                if diagnosis.trouble is Trouble.SUPERSEDED:
                    raise Superseded from error
                if diagnosis.trouble is Trouble.FATAL:
                    if diagnosis.is_unforeseen:
                        raise
                    raise DatabaseRefused(
                        f"{self._driver.description} has refused a transaction: {diagnosis.explanation}"
                    ) from error
                began = began or self.clock.monotonic()
                self._wait(began, pause, diagnosis)
                pause = min(2 * pause, _PAUSE_SECONDS_MAX)
            else:
                if self.trouble is not None:
                    _log.info("%s: the database answers again", self._driver.description)
                    self.trouble = self.away_since = None
                    self._reported.clear()
                return result

    def _wait(self, began: float, pause: float, diagnosis: Diagnosis) -> None:
        passed = self.clock.monotonic() - began
        limit = min(self._seconds_max, CLOSING_SECONDS_MAX) if self._closing.is_set() else self._seconds_max
        if passed + pause > limit:
            raise DatabaseAway(
                f"{self._driver.description} has not taken anything for {passed:.0f} s "
                f"(sql.reconnect_seconds_max is {self._seconds_max:g}): {diagnosis.explanation}"
            )
        self.count += 1
        self.away_since = began
        if diagnosis.sentence not in self._reported:
            self._reported.add(diagnosis.sentence)
            _log.warning("%s: %s; trying again", self._driver.description, diagnosis.sentence)
        self.trouble = f"the database {self._driver.description} takes nothing at the moment: {diagnosis.sentence}"
        self._closing.wait(pause)


@final
class Writer:
    """Implements `TransactionWriter` on a session of its own."""

    def __init__(
        self,
        driver: Driver,
        session: Session,
        hold: Hold,
        statements: Statements,
        execution: Execution,
        run_id: str,
        attempts: Attempts,
    ) -> None:
        self._driver = driver
        self._session: Session | None = session
        self._hold: Hold | None = hold
        self._checked = 0.0
        """When it was last seen that the lock is still held."""
        self._statements = statements
        self._execution = execution
        self._run_id = run_id
        self._attempts = attempts
        self.transactions = self.rows = 0
        """What was committed, for metrics."""

    @property
    def description(self) -> str:
        return self._driver.description

    @property
    def trouble(self) -> str | None:
        return self._attempts.trouble

    def write(self, changes: Changes) -> None:
        """See `TransactionWriter`."""
        made = self._execution.statements_of(changes)
        is_repeated = False

        def attempt() -> None:
            nonlocal is_repeated
            session = self._session
            if session is None:
                session = self._session = self._driver.connect(is_writer=True)
                self._attempts.reconnects += 1
                is_repeated = True
            self._check_hold(session)
            if is_repeated and self._has_committed(session, changes.number):
                return
            is_repeated = True
            session.transact(made)

        try:
            self._attempts.run(attempt, self._on_error)
            self.transactions += 1
            self.rows += sum(len(it.rows) for it in made[:-1])  # without the mark of the transaction
        finally:
            self._execution.release()

    def _check_hold(self, session: Session) -> None:
        """See that no other program can have taken the lock: its connection may be lost alone."""
        now = self._attempts.clock.monotonic()
        if self._hold is not None and self._hold.is_quiet and now - self._checked < _HOLD_CHECK_SECONDS:
            return
        try:
            if self._hold is None:
                self._hold = self._driver.hold(self._statements.lock_table)
                refuse_lease_of_activemq(session, self._statements.lease_of_activemq, self._driver.description)
            self._hold.check()
        except Exception:
            self._release_hold()
            raise
        self._checked = now

    def _release_hold(self) -> None:
        hold, self._hold = self._hold, None
        if hold is not None:
            with suppress(Exception):  # it may be lost
                hold.close()

    def _has_committed(self, session: Session, number: int) -> bool:
        """Whether the transaction of that number had committed before an error was seen."""
        run_id, last, *_ = session.select(self._statements.state)[0]
        if run_id != self._run_id:
            raise Superseded
        return bool(last == number)

    def _on_error(self, diagnosis: Diagnosis) -> None:
        session = self._session
        if session is None:
            return
        if diagnosis.trouble is Trouble.LOST:
            self._give_up_session()
            self._checked = 0.0
        else:
            with suppress(Exception):
                session.rollback()

    def _give_up_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with suppress(Exception):  # it may be lost, and nothing depends on it any more
                session.close()

    def close(self) -> None:
        self._give_up_session()
        self._release_hold()

"""Mastership by a lease on a shared database.

A slave looks at the lease once in a while and takes it when it is over or given back, and no ActiveMQ has the database.
The master renews it in a thread of its own, so that a busy loop does not lose it. By its own monotonic clock it stops
before the lease ends: what counts is when a renewal that succeeded was sent.

The last master may have been paused, or cut off from the server, with its sessions still open there, and their locks
too. They are ended by their name. That no transaction of it can commit any more is the work of `store.sql.lease`.
"""

import asyncio
import logging
import secrets
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, final

from ackwire.cluster.mastership import Grant, ignore
from ackwire.errors import ConfigError
from ackwire.store.sql.driver import LeasingDriver, Session
from ackwire.store.sql.errors import Locked, Trouble, UnusableDatabase
from ackwire.store.sql.lease import Lease, LeaseRow
from ackwire.store.sql.locking import refuse_lease_of_activemq
from ackwire.store.sql.schema import Tables
from ackwire.store.sql.statements import Statements
from ackwire.util.clock import Clock

_POLL_SECONDS: Final = 0.5
_RENEWALS: Final = 3
"""In the time of one lease."""
_RETRY_SECONDS: Final = 0.25
_MARGIN_SHARE: Final = 0.1
"""Of the lease: the master stops so much sooner than another can begin. For clocks that run at different speeds."""
_TAG_LENGTH: Final = 16

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """How this broker takes part."""

    name: str
    """For people: broker, process and machine."""
    uri: str
    """Where its clients connect."""
    lease_seconds: float
    table_prefix: str = ""
    create_tables: bool = True


@final
class SqlLease:
    """Implements `Mastership`."""

    def __init__(
        self, driver: LeasingDriver, terms: LeaseTerms, clock: Clock, make_run_id: Callable[[int], str]
    ) -> None:
        """*driver* has no tag: its sessions only look after the lease. *make_run_id* names the run of an epoch."""
        self.on_waiting: Callable[[str], None] = ignore
        self.on_suspended: Callable[[str], None] = ignore
        self.on_resumed: Callable[[str], None] = ignore
        self.on_lost: Callable[[str], None] = ignore
        self.run_id = ""
        """The run that the master writes as."""
        self.tag = ""
        """Of the sessions that it writes with."""
        self._terms = terms
        self._clock = clock
        self._make_run_id = make_run_id
        self._database = _Database(driver, terms)
        self._renewing: _Renewing | None = None

    async def acquire(self) -> Grant:
        """See `Mastership`."""
        assert self._renewing is None, "it is held"
        told: str | None = None
        while True:
            sent_at = self._clock.monotonic()
            holder = secrets.token_hex(16)
            try:
                found = await asyncio.to_thread(self._database.try_to_take, holder, self._make_run_id)
            except UnusableDatabase as error:
                raise ConfigError(f"the store cannot be shared: {error}") from None
            if isinstance(found, Taken):
                break
            if found != told:
                told = found
                self.on_waiting(found)
            await asyncio.sleep(_POLL_SECONDS)
        self.run_id, self.tag = found.run_id, tag_of(holder)
        self._renewing = _Renewing(self._database, found.epoch, holder, self._clock, sent_at, self._lost)
        self._renewing.start()
        return Grant(found.epoch, f"it has the lease of {self._database.description}")

    def _lost(self, renewing: "_Renewing", why: str) -> None:
        if renewing is self._renewing:
            self.on_lost(why)

    async def is_held(self) -> bool:
        """See `Mastership`. Not while an ActiveMQ has the database: then the store could not be opened."""
        renewing = self._renewing
        return renewing is not None and await asyncio.to_thread(self._database.is_held, renewing.epoch, renewing.holder)

    async def release(self) -> None:
        """See `Mastership`."""
        renewing, self._renewing = self._renewing, None
        if renewing is not None:
            await asyncio.to_thread(renewing.stop)

    async def close(self) -> None:
        """See `Mastership`: a release is enough."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A lease that was taken."""

    epoch: int
    run_id: str


@final
class _Database:
    """The session that looks after the lease; used by one thread at a time, and opened again when it was lost."""

    def __init__(self, driver: LeasingDriver, terms: LeaseTerms) -> None:
        names = Tables(terms.table_prefix)
        self._driver = driver
        self._terms = terms
        self._lease = Lease(driver.dialect, names)
        self._names = names
        self._lease_of_activemq = Statements(driver.dialect, names).lease_of_activemq
        self._session: Session | None = None
        self._guard = threading.Lock()

    @property
    def description(self) -> str:
        return self._driver.description

    @property
    def lease_seconds(self) -> float:
        return self._terms.lease_seconds

    # ---- a slave -----------------------------------------------------------------------------------------------

    def try_to_take(self, holder: str, make_run_id: Callable[[int], str]) -> Taken | str:
        """Take the lease; or say who has the database, or why it cannot be asked. Raises `UnusableDatabase`."""
        with self._guard:
            try:
                return self._try_to_take(self._opened(), holder, make_run_id)
            except Exception as error:
                return self._waits_for(error)

    def _waits_for(self, error: Exception) -> str:
        """What a slave waits for after *error*, which it raises if waiting does not help."""
        if isinstance(error, Locked):
            return str(error).partition(";")[0]
        diagnosis = self._driver.diagnose(error)
        self._forget_session()
        if isinstance(error, UnusableDatabase) or diagnosis.is_unforeseen:
            raise error
        if diagnosis.trouble is Trouble.FATAL:
            raise UnusableDatabase(f"{self.description}: {diagnosis.explanation}") from error
        return f"{self.description}: {diagnosis.sentence}"

    def _try_to_take(self, session: Session, holder: str, make_run_id: Callable[[int], str]) -> Taken | str:
        seen = self._row(session)
        if not seen.is_free:
            return _held_by(seen, self.description)
        is_expired = bool(seen.holder)
        if not is_expired:
            self._check_others(session)  # before anything is changed
        run_id = make_run_id(seen.epoch + 1)
        terms = self._terms
        lease_ms = round(terms.lease_seconds * 1000)
        if not self._lease.take(session, seen, holder, run_id, name=terms.name, uri=terms.uri, lease_ms=lease_ms):
            return _held_by(self._row(session), self.description)
        if is_expired:
            _log.warning("%s: the lease of %s is over: it has not renewed it", self.description, seen.name)
            self._driver.end_sessions(session, tag_of(seen.holder))
            try:
                self._check_others(session)
            except Locked:
                self._lease.release(session, seen.epoch + 1, holder)
                raise
        return Taken(seen.epoch + 1, run_id)

    def _check_others(self, session: Session) -> None:
        """Raise `Locked` while an ActiveMQ, or a broker of ours that does not share it, has the database."""
        tables = {str(table).upper() for table, _ in session.select(self._driver.dialect.columns)}
        if self._names.lock.upper() not in tables:
            return
        hold = self._driver.hold(self._names.lock)
        try:
            refuse_lease_of_activemq(session, self._lease_of_activemq, self.description)
        finally:
            hold.close()

    def _row(self, session: Session) -> LeaseRow:
        """The row of the lease; its table is made if it is missing."""
        if not self._lease.is_there(session):
            if not self._terms.create_tables:
                raise UnusableDatabase(
                    f"{self.description}: table {self._names.lease} is missing, and sql.create_tables is false; "
                    '"ackwire store schema" prints the statement that creates it'
                )
            try:
                session.transact(self._lease.create_statements())
            except Exception:
                session.rollback()
                if not self._lease.is_there(session):  # else another broker was quicker
                    raise
        row = self._lease.read(session)
        if row is None:
            raise UnusableDatabase(f"{self.description}: table {self._names.lease} is empty; it was changed by hand")
        return row

    # ---- the master --------------------------------------------------------------------------------------------

    def renew(self, epoch: int, holder: str) -> bool:
        """Renew the lease; False if it is another's. Raises the driver's errors."""
        with self._guard:
            try:
                return self._lease.renew(self._opened(), epoch, holder, round(self._terms.lease_seconds * 1000))
            except Exception:
                self._forget_session()
                raise

    def is_held(self, epoch: int, holder: str) -> bool:
        """Whether the lease is that broker's, and no other program has the database."""
        with self._guard:
            try:
                return self._lease.is_held(self._opened(), epoch, holder) and self._is_unlocked()
            except Exception:
                self._forget_session()
                return False

    def _is_unlocked(self) -> bool:
        try:
            self._check_others(self._opened())
        except Locked:
            return False
        return True

    def release(self, epoch: int, holder: str) -> None:
        """Give the lease back; if the database cannot be reached, it ends by itself."""
        with self._guard:
            try:
                self._lease.release(self._opened(), epoch, holder)
            except Exception as error:
                _log.warning("%s: the lease could not be given back: %s", self.description, error)
            self._forget_session()

    def explain(self, error: Exception) -> str:
        """What *error* of the driver means."""
        return self._driver.diagnose(error).sentence

    def _opened(self) -> Session:
        if self._session is None:
            self._session = self._driver.connect(is_writer=False)
        return self._session

    def _forget_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with suppress(Exception):  # it may be lost
                session.close()


@final
class _Renewing:
    """The thread that renews a lease, and the watch over when it ends."""

    def __init__(
        self,
        database: _Database,
        epoch: int,
        holder: str,
        clock: Clock,
        sent_at: float,
        on_lost: "Callable[[_Renewing, str], None]",
    ) -> None:
        self.epoch = epoch
        self.holder = holder
        self._database = database
        self._clock = clock
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._valid_seconds = database.lease_seconds * (1 - _MARGIN_SHARE)
        self._ends_at = sent_at + self._valid_seconds
        self._stopping = threading.Event()
        self._is_over = False
        self._trouble = "it was not renewed in time"
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._watch()

    def stop(self) -> None:
        """End the thread, and give the lease back. Called beside the loop."""
        self._is_over = True
        self._stopping.set()
        self._thread.join()
        self._database.release(self.epoch, self.holder)

    def _watch(self) -> None:
        """On the loop: notice the end of the lease while the thread waits for the server, or both were paused."""
        if self._is_over:
            return
        left = self._ends_at - self._clock.monotonic()
        if left <= 0:
            self._lose(f"the lease of {self._database.description} is over: {self._trouble}")
        else:
            self._loop.call_later(min(left, _POLL_SECONDS), self._watch)

    def _lose(self, why: str) -> None:
        if not self._is_over:
            self._is_over = True
            self._stopping.set()
            self._on_lost(self, why)

    def _run(self) -> None:
        pause = self._database.lease_seconds / _RENEWALS
        while not self._stopping.wait(pause):
            sent_at = self._clock.monotonic()
            try:
                is_held = self._database.renew(self.epoch, self.holder)
            except Exception as error:
                self._trouble = self._database.explain(error)
                pause = _RETRY_SECONDS
            else:
                if not is_held:
                    self._tell(f"another broker has the lease of {self._database.description}")
                    return
                self._ends_at = sent_at + self._valid_seconds
                pause = self._database.lease_seconds / _RENEWALS

    def _tell(self, why: str) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._lose, why)


def tag_of(holder: str) -> str:
    """The name of the sessions of the master that has this id."""
    return holder[:_TAG_LENGTH]


def _held_by(row: LeaseRow, description: str) -> str:
    where = f" at {row.uri}" if row.uri else ""
    return f"{row.name}{where} has the lease of {description}, epoch {row.epoch}"

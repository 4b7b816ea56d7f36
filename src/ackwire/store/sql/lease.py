"""The lease on a shared database: one row that says who is the master, until when, and how often that has changed.

The time is the server's. A grant raises the epoch and, in the same transaction, enters the new master's run in the
state row, which the guard of every transaction compares: so no transaction of the last master can commit from then on,
however long it was paused. All of this runs in one thread, with a session of its own.
"""

# ruff: noqa: S608 - all parts of a statement are constants and table names

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from ackwire.store.sql.dialect import Dialect
from ackwire.store.sql.driver import Session, Statement
from ackwire.store.sql.schema import Tables, lease_table


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """What the row says."""

    epoch: int
    holder: str
    """The id of the master's process, chosen by chance; empty if the lease was given back."""
    name: str
    uri: str
    left_ms: int
    """How long it lasts; not above 0 once it is over."""

    @property
    def is_free(self) -> bool:
        return not self.holder or self.left_ms <= 0


@final
class Lease:
    """The statements about the lease of one database."""

    def __init__(self, dialect: Dialect, names: Tables) -> None:
        self._dialect = dialect
        self._names = names
        sql, now = dialect.sql, dialect.now_ms
        lease, state = names.lease, names.state
        self._select = f"SELECT EPOCH, HOLDER, NAME, URI, ENDS_MS - {now} FROM {lease} WHERE ID = 1"
        self._take = sql(
            f"UPDATE {lease} SET EPOCH = ?, HOLDER = ?, NAME = ?, URI = ?, ENDS_MS = {now} + ? "
            f"WHERE ID = 1 AND EPOCH = ? AND (HOLDER = '' OR ENDS_MS <= {now})"
        )
        self._fence = sql(
            f"UPDATE {state} SET RUN_ID = ? WHERE ID = 1 AND EXISTS "
            f"(SELECT 1 FROM {lease} WHERE {lease}.ID = 1 AND EPOCH = ? AND HOLDER = ?)"
        )
        self._renew = sql(f"UPDATE {lease} SET ENDS_MS = {now} + ? WHERE ID = 1 AND EPOCH = ? AND HOLDER = ?")
        self._release = sql(f"UPDATE {lease} SET HOLDER = '', ENDS_MS = 0 WHERE ID = 1 AND EPOCH = ? AND HOLDER = ?")

    def is_there(self, session: Session) -> bool:
        """Whether the table was made."""
        return self._names.lease.upper() in self._tables(session)

    def create_statements(self) -> Sequence[Statement]:
        """Those that make the table."""
        return [Statement(it, [()]) for it in lease_table(self._dialect, self._names).ddl(self._dialect)]

    def read(self, session: Session) -> LeaseRow | None:
        """The row; None if there is none."""
        rows = session.select(self._select)
        return LeaseRow(*rows[0]) if rows else None

    def take(
        self, session: Session, seen: LeaseRow, holder: str, run_id: str, *, name: str, uri: str, lease_ms: int
    ) -> bool:
        """Take a lease that is free, with the next epoch, unless another broker was quicker."""
        epoch = seen.epoch + 1
        statements = [Statement(self._take, [(epoch, holder, name, uri, lease_ms, seen.epoch)])]
        if self._names.state.upper() in self._tables(session):
            statements.append(Statement(self._fence, [(run_id, epoch, holder)]))
        session.transact(statements)
        return self.is_held(session, epoch, holder)

    def renew(self, session: Session, epoch: int, holder: str, lease_ms: int) -> bool:
        """Make the lease last so long from now on; False if it is another broker's."""
        session.transact([Statement(self._renew, [(lease_ms, epoch, holder)])])
        return self.is_held(session, epoch, holder)

    def is_held(self, session: Session, epoch: int, holder: str) -> bool:
        """Whether the lease of that epoch is that broker's."""
        row = self.read(session)
        return row is not None and (row.epoch, row.holder) == (epoch, holder) and row.left_ms > 0

    def release(self, session: Session, epoch: int, holder: str) -> None:
        """Give it back, unless it is another broker's."""
        session.transact([Statement(self._release, [(epoch, holder)])])

    def _tables(self, session: Session) -> set[str]:
        return {str(table).upper() for table, _ in session.select(self._dialect.columns)}

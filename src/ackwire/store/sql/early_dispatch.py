"""The members of `EarlyDispatch`, which ask whether a message may leave before it is durable."""

from ackwire.store.sql.group_commit import GroupCommit


class SqlEarlyDispatch:
    """`SqlStore` inherits it."""

    _commit: GroupCommit

    def expect(self) -> None:
        """See `EarlyDispatch`."""
        self._commit.is_expected = True

    @property
    def is_awaited(self) -> bool:
        return self._commit.is_expected or self._commit.has_waiters

    @property
    def is_syncing(self) -> bool:
        return self._commit.in_flight is not None

    @property
    def durable_sequence(self) -> int:
        return self._commit.durable_sequence

"""Whether a store has failed, and why: from then on it promises nothing (SEMANTICS K7)."""

import errno
import logging
from collections.abc import Callable
from pathlib import Path
from typing import final

from ackwire.errors import StoreFailed

_log = logging.getLogger(__name__)


def is_disk_full(error: Exception | None) -> bool:
    """Whether *error* says that there is no space left."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


@final
class FailureState:
    """Good until `fail`; only a new start, which reads what is really there, makes it good again."""

    def __init__(self, data: Path, on_failed: Callable[[StoreFailed], None]) -> None:
        self._data = data
        self._on_failed = on_failed
        self.failure: StoreFailed | None = None
        self.tell_waiters: Callable[[StoreFailed], None] | None = None
        """Told at each failure: callers that wait for what will never be known."""

    def fail(self, what: str, error: Exception | None) -> StoreFailed:
        """Promise nothing any more, because the store could not do *what* to the journal."""
        failure = self.failure
        if failure is None:
            reason = "the disk is full: " if is_disk_full(error) else ""
            remedy = "there is space" if is_disk_full(error) else "the disk is in order"
            failure = self.failure = StoreFailed(
                f"the store in {self._data} has failed: {reason}it could not {what} the journal: {error}. Nothing more "
                f"is acknowledged; start the broker again when {remedy}"
            )
            _log.critical("%s", failure)
        self._tell(failure)
        return failure

    def fail_with(self, failure: StoreFailed) -> None:
        """Promise nothing any more, for a reason that has nothing to do with the journal."""
        if self.failure is None:
            self.failure = failure
            _log.critical("%s", failure)
            self._tell(failure)

    def _tell(self, failure: StoreFailed) -> None:
        self._on_failed(failure)
        if self.tell_waiters is not None:
            self.tell_waiters(failure)

    def require_good(self) -> None:
        """Raise the failure, if there is one."""
        if self.failure is not None:
            raise self.failure

"""Why attempts to connect failed, for the log and for the error that the application gets."""

import logging

from ackwire.client.errors import ConnectionFailedError, JMSError
from ackwire.client.failover import FailoverPlan, Uri

_log = logging.getLogger(__name__)


class AttemptFailures:
    """The last failure at each address since the connection was last usable."""

    def __init__(self, plan: FailoverPlan) -> None:
        self._plan = plan
        self._failures: dict[str, JMSError] = {}
        """By address."""
        self._logged: dict[str, str] = {}
        """By address: the last text that was logged."""

    def note(self, uri: Uri, error: JMSError) -> None:
        """Remember why an attempt failed; log the same reason for an address once."""
        self._failures[uri.address] = error
        if self._logged.get(uri.address) != str(error):
            self._logged[uri.address] = str(error)
            _log.info("an attempt failed: %s", error)
        if self._plan.is_worth_a_warning():
            _log.warning("no connection after %d attempts, trying on: %s", self._plan.rounds, self.reasons())

    def clear(self) -> None:
        """The connection is usable."""
        self._failures.clear()
        self._logged.clear()

    def reasons(self) -> str:
        return "; ".join(str(error) for error in self._failures.values())

    def summary(self) -> ConnectionFailedError:
        """One error that names every address and its failure."""
        if len(self._failures) == 1 and not self._plan.is_failover:
            (error,) = self._failures.values()
            return as_failure(error)
        rounds = self._plan.rounds
        attempts = "" if rounds <= 1 else f" after {rounds} attempts"
        failure = ConnectionFailedError(f"no broker can be reached{attempts}: {self.reasons() or 'no URI is known'}")
        failure.__cause__ = next(iter(self._failures.values()), None)
        return failure


def as_failure(error: JMSError) -> ConnectionFailedError:
    """*error* as the failure of an attempt to connect."""
    if isinstance(error, ConnectionFailedError):
        return error
    failure = ConnectionFailedError(str(error))
    failure.__cause__ = error
    return failure

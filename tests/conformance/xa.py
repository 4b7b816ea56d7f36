"""XA as a transaction manager sees it: a session's XAResource, driven by hand (G3)."""

import itertools
from collections.abc import Iterable
from typing import NamedTuple

from tests.conformance.jms import Connection, Jms, Session

# XAResource
NO_FLAGS = 0
JOIN = 0x200000
END_RECOVERY_SCAN = 0x800000
START_RECOVERY_SCAN = 0x1000000
SUCCESS = 0x4000000
VOTE_OK = 0
VOTE_READ_ONLY = 3

# XAException
XAER_NOTA = -4
XAER_PROTO = -6
XAER_RMFAIL = -7

_numbers = itertools.count(1)


class Xid(NamedTuple):
    """A transaction id: global part and branch, of the driver's own format."""

    global_id: str
    branch: str = "branch"

    @classmethod
    def fresh(cls, name: str) -> "Xid":
        return cls(f"{name}.{next(_numbers)}")


class XaSession(Session):
    """An XA session together with its resource."""

    def xa_start(self, xid: Xid, flags: int = NO_FLAGS) -> None:
        self._xa("start", xid, flags=flags)

    def xa_end(self, xid: Xid, flags: int = SUCCESS) -> None:
        self._xa("end", xid, flags=flags)

    def xa_prepare(self, xid: Xid) -> int:
        vote = self._xa("prepare", xid)
        assert isinstance(vote, int)
        return vote

    def xa_commit(self, xid: Xid, *, one_phase: bool = False) -> None:
        self._xa("commit", xid, one_phase=one_phase)

    def xa_rollback(self, xid: Xid) -> None:
        self._xa("rollback", xid)

    def xa_forget(self, xid: Xid) -> None:
        self._xa("forget", xid)

    def xa_recover(self, flags: int = START_RECOVERY_SCAN | END_RECOVERY_SCAN) -> list[Xid]:
        """The transactions that are prepared and wait for a decision."""
        return [Xid(global_id, branch) for _, global_id, branch in self._listed(flags)]

    def is_same_resource(self, other: "XaSession") -> bool:
        answer = self._driver.call("xa_is_same_resource", session=self._handle, other=other._handle)
        assert isinstance(answer, bool)
        return answer

    def _listed(self, flags: int) -> Iterable[tuple[int, str, str]]:
        answer: list[tuple[int, str, str]] = self._driver.call("xa_recover", session=self._handle, flags=flags)
        return answer

    def _xa(self, verb: str, xid: Xid, **arguments: object) -> object:
        answer: object = self._driver.call(
            f"xa_{verb}", session=self._handle, **{"global": xid.global_id, "branch": xid.branch}, **arguments
        )
        return answer


class XaConnection(Connection):
    """A connection of an `ActiveMQXAConnectionFactory`."""

    def xa_session(self) -> XaSession:
        return XaSession(self._driver, self._driver.call("xa_session", connection=self._handle))


def xa_connect(jms: Jms, url: str) -> XaConnection:
    return XaConnection(jms.driver, jms.driver.call("connect", url=url, start=True, xa=True))

"""A ZooKeeper for a simulated group: sessions that expire, watches that come late, an epoch that is only ever raised.

`Ensemble` is the server's side and never fails as a whole; `SimulatedElector` is a node's connection, which can be cut.
What the recipe of a real elector does on the nodes is done here by the ensemble, and not always well: it may choose a
node whose log is not the best, because what it knows of the logs may be old.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from ackwire.replication.elector import ElectorEvents, Joined, Standing
from ackwire.replication.lease import Lease
from tests.simulation.groups.scheduler import Process, Scheduler


@dataclass(eq=False)
class Session:
    """One session of a node, as the ensemble sees it."""

    elector: "SimulatedElector"
    heard_at: float
    standing: Standing
    resigned_at: float = -1.0
    is_over: bool = False


@dataclass
class Leader:
    epoch: int
    node_id: str
    address: str
    session: Session


@dataclass
class Ensemble:
    """What ZooKeeper keeps."""

    scheduler: Scheduler
    random: Random
    replicas: int
    timeout_seconds: float = 4.0
    epoch: int = 0
    group_id: str = "the-group"
    members: dict[str, str] = field(default_factory=dict)
    sessions: list[Session] = field(default_factory=list)
    leader: Leader | None = None
    better: str | None = None
    """Named by the one who resigned."""
    vacant_since: float = 0.0
    choice: Callable[[list[Session]], Session] | None = None
    slowest_seconds: float = 0.05

    def delay(self) -> float:
        if self.random.random() < 0.05:
            return self.random.random() * 2
        return self.random.random() * self.slowest_seconds

    # ---- sessions ----------------------------------------------------------------------------------------------

    def begin(self, elector: "SimulatedElector", standing: Standing) -> tuple[Session, Joined]:
        """A session begins: the node's entry is written, then the epoch is read."""
        node = standing.node_id
        if self.epoch == 0 and (node in self.members or len(self.members) < self.replicas):
            self.members[node] = standing.disk_id
        for session in self.sessions:
            if session.standing.node_id == node:
                self.expire(session)
        session = Session(elector, self.scheduler.now, standing)
        self.sessions.append(session)
        return session, Joined(self.group_id, self.epoch, self.members.get(node) == standing.disk_id)

    def expire(self, session: Session) -> None:
        session.is_over = True
        if self.leader is not None and self.leader.session is session:
            self._vacate()
        self.sessions = [it for it in self.sessions if it is not session]

    def _vacate(self) -> None:
        self.leader = None
        self.vacant_since = self.scheduler.now

    def tick(self) -> None:
        """Expire what was silent for too long; grant mastership where there is none."""
        for session in list(self.sessions):
            if self.scheduler.now - session.heard_at > self.timeout_seconds:
                self.expire(session)
        if self.leader is None and self.scheduler.now - self.vacant_since > 0.3:
            self._elect()
        self.scheduler.call_later(0.1, self.tick)

    # ---- election ----------------------------------------------------------------------------------------------

    def _elect(self) -> None:
        there = [it for it in self.sessions if self.members.get(it.standing.node_id) == it.standing.disk_id]
        if len(there) < self.replicas // 2 + 1:
            return
        candidates = [it for it in there if it.standing.may_vote]
        if not candidates:
            return
        chosen = self._choose(candidates)
        self.better = None
        self.epoch = max(self.epoch, *(it.standing.promised_epoch for it in self.sessions)) + 1
        standing = chosen.standing
        self.leader = Leader(self.epoch, standing.node_id, standing.address, chosen)
        epoch, members = self.epoch, dict(self.members)
        chosen.elector.notify(chosen, lambda events: events.on_granted(epoch, members))
        for session in self.sessions:
            if session is not chosen:
                self._tell(session)

    def _choose(self, candidates: list[Session]) -> Session:
        named = [it for it in candidates if it.standing.node_id == self.better]
        if named:
            return named[0]
        if self.random.random() < 0.3:
            return self.random.choice(candidates)
        return max(candidates, key=lambda it: (-it.resigned_at // 5, it.standing.end, it.standing.weight))

    def _tell(self, session: Session) -> None:
        leader = self.leader
        if leader is not None:
            session.elector.notify(
                session, lambda events: events.on_leader(leader.epoch, leader.node_id, leader.address)
            )

    # ---- requests ----------------------------------------------------------------------------------------------

    def announce(self, session: Session, standing: Standing) -> None:
        session.standing = standing
        if self.leader is not None and self.leader.session is not session:
            self._tell(session)

    def resign(self, session: Session, better: str | None) -> None:
        session.resigned_at = self.scheduler.now
        if self.leader is not None and self.leader.session is session:
            self._vacate()
            self.better = better

    def admit(self, node_id: str, disk_id: str, epoch: int) -> Exception | None:
        if epoch != self.epoch:
            return ValueError(f"epoch {self.epoch} was granted after {epoch}")
        if node_id not in self.members and len(self.members) >= self.replicas:
            return ValueError(f"the group has its {self.replicas} members")
        self.members[node_id] = disk_id
        return None


class SimulatedElector:
    """Implements `Elector`: the connection of one process with the ensemble."""

    def __init__(self, ensemble: Ensemble, process: Process, cut: set[str], node_id: str) -> None:
        self._ensemble = ensemble
        self._scheduler = ensemble.scheduler
        self._process = process
        self._cut = cut
        """Nodes that cannot reach the ensemble."""
        self._node_id = node_id
        self._session: Session | None = None
        self.lease = Lease(ensemble.timeout_seconds)
        self._heard_at = 0.0
        self._is_suspended = False
        self._standing: Standing | None = None
        self._notified_at = 0.0
        self._is_joining = False
        self.is_released = False
        self.events: ElectorEvents

    # ---- Elector -----------------------------------------------------------------------------------------------

    def announce(self, standing: Standing) -> None:
        is_first, self._standing = self._standing is None, standing
        if is_first:
            self._ping()
            return
        session = self._session
        if session is not None:
            self._request(lambda: self._ensemble.announce(session, standing))

    def resign(self, why: str, *, better: str | None = None) -> None:  # noqa: ARG002 - people want it
        session = self._session
        if session is not None:
            self._request(lambda: self._ensemble.resign(session, better))

    def admit(self, node_id: str, disk_id: str, epoch: int, done: Callable[[Exception | None], None]) -> None:
        if self._session is None:
            done(ValueError("there is no session"))
            return
        result: list[Exception | None] = []
        self._request(
            lambda: result.append(self._ensemble.admit(node_id, disk_id, epoch)),
            lambda: done(result[0]),
            lambda: done(ValueError("the connection was lost")),
        )

    def holds_until(self) -> float:
        return self.lease.holds_until

    def release(self) -> None:
        session, self._session = self._session, None
        self.is_released = True
        if session is not None:
            self._request(lambda: self._ensemble.expire(session))

    # ---- the connection ----------------------------------------------------------------------------------------

    def _request(
        self,
        action: Callable[[], object],
        answered: Callable[[], None] = lambda: None,
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        """Send a request of this session; the way there and the way back may be cut."""
        session, sent_at = self._session, self._process.monotonic()

        def arrive() -> None:
            if self._node_id in self._cut or (session is not None and session.is_over):
                self._scheduler.call_later(1, lambda: self._process.run(failed))
                return
            if session is not None:
                session.heard_at = self._scheduler.now
            action()
            self._scheduler.call_later(self._ensemble.delay(), lambda: self._process.run(back))

        def back() -> None:
            if self._node_id in self._cut:
                failed()
                return
            if session is not None and self._session is session:
                self._heard_at = self._process.monotonic()
                self.lease.answered(sent_at)
                self._resume()
            answered()

        self._scheduler.call_later(self._ensemble.delay(), arrive)

    def _resume(self) -> None:
        if self._is_suspended:
            self._is_suspended = False
            self.events.on_resumed()

    def _ping(self) -> None:
        if self.is_released:
            return
        timeout = self._ensemble.timeout_seconds
        self._process.call_later(timeout / 4, self._ping)
        if self._session is None:
            self._join()
            return
        if self._session.is_over and self._node_id not in self._cut:
            self._over()
            return
        if self._process.monotonic() - self._heard_at > timeout * 0.6 and not self._is_suspended:
            self._is_suspended = True
            self.events.on_suspended()
        self._request(lambda: None)

    def _over(self) -> None:
        """The ensemble has said that the session has expired."""
        self._session = None
        self._is_suspended = False
        self.lease.ended()
        self.events.on_lost("the session has expired")

    def _join(self) -> None:
        if self._is_joining or self._standing is None:
            return
        self._is_joining = True
        joined: list[tuple[Session, Joined, float]] = []

        def act() -> None:
            assert self._standing is not None
            joined.append((*self._ensemble.begin(self, self._standing), sent_at))

        def answered() -> None:
            self._is_joining = False
            self._session, found, _ = joined[0]
            if self._session.is_over:
                self._session = None
                return
            self._heard_at = self._process.monotonic()
            self.lease.answered(sent_at)
            self.events.on_joined(found)
            self._ensemble_tells()

        def failed() -> None:
            self._is_joining = False

        sent_at = self._process.monotonic()
        self._request(act, answered, failed)

    def _ensemble_tells(self) -> None:
        """The first look at who the leader is."""
        session = self._session
        if session is not None:
            self._request(lambda: self._ensemble.announce(session, session.standing))

    def notify(self, session: Session, tell: Callable[[ElectorEvents], None]) -> None:
        """A watch has fired: the node hears of it, in order, perhaps much later."""
        now = self._scheduler.now
        self._notified_at = max(self._notified_at, now + self._ensemble.delay())

        def arrive() -> None:
            if self._node_id in self._cut or self._is_joining:  # it comes when the connection is there
                self._scheduler.call_later(0.5, lambda: self._process.run(arrive))
            elif self._session is session and not session.is_over:
                tell(self.events)

        self._scheduler.call_later(self._notified_at - now, lambda: self._process.run(arrive))

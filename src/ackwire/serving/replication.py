"""Mastership of a replicated journal: a node of the group, with its files, its links and its elector.

The node (`replication.node`) decides. This module does for it what needs a store, a network or ZooKeeper, and tells the
application when to serve and when to stop: it implements `Host` for the one and `Mastership` for the other.
"""

import asyncio
import logging
import secrets
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, final

from ackwire.cluster.entries import Candidate, View
from ackwire.cluster.mastership import Grant, MastershipLost, ignore
from ackwire.cluster.status import GroupStanding, NodeStanding
from ackwire.cluster.zookeeper import ZooKeeperElector, ZooKeeperSettings
from ackwire.config import Settings
from ackwire.config.member_uri import bind_address, own_uri
from ackwire.errors import ConfigError, StoreFailed
from ackwire.opening.common import Opened, StoreFailure
from ackwire.opening.replicas import ReplicaFiles, secret_of
from ackwire.replication.identity import Identity, Link
from ackwire.replication.links import Links
from ackwire.replication.log import LogSource, ReplicaLog
from ackwire.replication.messages import Reason
from ackwire.replication.node import LinkHandler, Node, NodeRole
from ackwire.replication.quorum import CommitQuorum, SyncMode
from ackwire.server.turn import Turn
from ackwire.util.clock import Clock, SystemClock

_INCARNATION_BITS: Final = 60
_VIEW_SECONDS: Final = 3.0
"""How long ZooKeeper is waited for when operators ask."""

_log = logging.getLogger(__name__)


@final
class ReplicatedMastership:
    """Implements `Mastership` and `Host`."""

    def __init__(self, settings: Settings, turn: Turn) -> None:
        self.on_waiting: Callable[[str], None] = ignore
        self.on_suspended: Callable[[str], None] = ignore
        self.on_resumed: Callable[[str], None] = ignore
        self.on_lost: Callable[[str], None] = ignore
        self._settings = settings
        self._turn = turn
        self._clock: Clock = SystemClock()
        self._group: _Group | None = None
        self._served: Grant | None = None
        """A grant that no term has begun with yet."""
        self._trouble: Exception | None = None
        """Why this node cannot go on."""
        self._changed = asyncio.Event()
        self._stepped_down: Callable[[ReplicaLog], None] | None = None
        """The node waits for the end of the term."""
        self._lost_because = ""
        self._failure: StoreFailure | None = None
        """Of the store of the term."""

    @property
    def node(self) -> Node | None:
        """The node, once it was started."""
        return None if self._group is None else self._group.node

    # ---- operators ---------------------------------------------------------------------------------------------

    def standing(self) -> GroupStanding:
        """See `cluster.status.Group`."""
        return self._standing({}, {})

    async def full_standing(self) -> GroupStanding:
        """See `cluster.status.Group`."""
        if self._group is None:
            return self.standing()
        read: asyncio.Future[View | None] = asyncio.get_running_loop().create_future()
        self._group.elector.view(lambda view, _: None if read.done() else read.set_result(view))
        with suppress(TimeoutError):
            view = await asyncio.wait_for(read, _VIEW_SECONDS)
            if view is not None:
                return self._standing({it.standing.node_id: it for it in view.candidates}, view.members)
        return self.standing()

    def transfer(self, node_id: str) -> str | None:
        """See `cluster.status.Group`."""
        return "the node has not started yet" if self.node is None else self.node.hand_over(node_id)

    def _standing(self, candidates: Mapping[str, Candidate], members: Mapping[str, str]) -> GroupStanding:
        replication, name = self._settings.replication, self._settings_node
        group = self._group
        if group is None:
            return GroupStanding(
                name, "starting", 0, "", replication.replicas, replication.sync, 0, "it starts", (), ()
            )
        status = group.node.status()
        is_master = status.role is NodeRole.MASTER
        copies = {it.node_id: it for it in status.copies}
        known = {*group.members, *members, *candidates, *copies, name}
        nodes = []
        for node_id in sorted(known):
            copy, candidate = copies.get(node_id), candidates.get(node_id)
            is_own = node_id == name
            role = status.role.value if is_own else "master" if node_id == status.master else "not there"
            if copy is not None:
                role = copy.state
            elif candidate is not None and role == "not there":
                role = "there, and does not follow" if is_master else "there"
            end = status.end if is_own or candidate is None else candidate.standing.end
            nodes.append(
                NodeStanding(
                    node_id,
                    role,
                    copy.address if copy is not None else "" if candidate is None else candidate.standing.address,
                    "" if candidate is None else candidate.client_uri,
                    end.epoch if is_own or candidate is not None else 0,
                    copy.durable if copy is not None else end.number if is_own or candidate is not None else 0,
                    0 if copy is None else copy.lag_records,
                    counts=(is_own and is_master) or (copy is not None and copy.counts and copy.is_linked),
                )
            )
        missing = [it.node_id for it in nodes if is_master and not it.counts]
        return GroupStanding(
            name,
            status.role.value,
            status.epoch,
            status.master,
            replication.replicas,
            replication.sync,
            status.committed,
            status.why,
            nodes,
            missing,
        )

    # ---- Mastership --------------------------------------------------------------------------------------------

    async def acquire(self) -> Grant:
        """See `Mastership`."""
        if self._group is None:
            self._group = await self._started()
        while True:
            if self._trouble is not None:
                raise _for_people(self._trouble)
            grant, self._served = self._served, None
            if grant is not None:
                return grant
            self._changed.clear()
            await self._changed.wait()

    async def is_held(self) -> bool:
        """See `Mastership`: the node itself says when it is not."""
        return not self._lost_because

    async def release(self) -> None:
        """See `Mastership`: the term has let go of the store by now, and the node goes on as a copy."""

    async def close(self) -> None:
        """See `Mastership`."""
        group, self._group = self._group, None
        if group is not None:
            await group.close()

    async def _started(self) -> "_Group":
        group = _Group(self, self._settings, self._clock, self._turn)
        try:
            await group.start()
        except BaseException:
            await group.close()
            raise
        group.node.on_role = self._role_changed
        return group

    def _role_changed(self, role: NodeRole, why: str) -> None:
        if role in (NodeRole.FOLLOWER, NodeRole.CANDIDATE, NodeRole.TAKING_OVER):
            self.on_waiting(f"node {self._settings_node} is {role.value}: {why}")

    @property
    def _settings_node(self) -> str:
        return node_name(self._settings)

    # ---- the term ----------------------------------------------------------------------------------------------

    @contextmanager
    def opened(self) -> Iterator[Opened]:
        """The store of the master. At the end it becomes a copy again, if the node waits for that."""
        group, failure = self._group, StoreFailure()
        assert group is not None
        self._failure = failure
        store = group.files.store
        try:
            if store is None or self._lost_because:
                raise MastershipLost(self._lost_because or "the store is closed")
            yield Opened(store, failure, store.give_up, group.node.epoch)
        finally:
            self._failure = None
            group.files.abandon_store()
            self._become_copy()

    def _become_copy(self) -> None:
        stepped_down, self._stepped_down = self._stepped_down, None
        self._lost_because = ""
        if stepped_down is None or self._group is None:
            return

        def opened(copy: ReplicaLog | None, error: Exception | None) -> None:
            if copy is not None:
                stepped_down(copy)
            else:
                self.fail(error or StoreFailed("the journal cannot be opened as a copy"))

        self._group.files.reopen_copy(opened)

    def store_failed(self, error: StoreFailed) -> None:
        """The store, or the copy, can be used no more."""
        if self._failure is not None:
            self._failure.tell(error)
        if not self._lost_because and self._group is not None:
            self._group.node.fail(error)

    def unusable(self, why: str) -> None:
        """The set-up is wrong, which was found out late."""
        self._set_trouble(ConfigError(why))

    def _set_trouble(self, error: Exception) -> None:
        if self._trouble is None:
            self._trouble = error
            self._changed.set()
            if self._failure is not None:
                self.on_lost(str(error))

    # ---- Host --------------------------------------------------------------------------------------------------

    def dial(
        self, address: str, on_link: Callable[[Link], LinkHandler | None], on_failed: Callable[[Reason, str], None]
    ) -> None:
        """See `Host`."""
        assert self._group is not None
        self._group.links.dial(address, on_link, on_failed)

    def take_over(
        self,
        log: ReplicaLog,  # noqa: ARG002 - it is the copy that was opened here
        epoch: int,
        quorum: CommitQuorum,
        done: Callable[[LogSource | None, Exception | None], None],
    ) -> None:
        """See `Host`."""
        assert self._group is not None
        self._group.files.take_over(epoch, quorum, done)

    def serve(self, epoch: int) -> None:
        """See `Host`."""
        self._served = Grant(epoch, f"a quorum of the group has promised epoch {epoch}")
        self._changed.set()

    def suspended(self, is_suspended: bool) -> None:
        """See `Host`."""
        if is_suspended:
            self.on_suspended("the connection with ZooKeeper is lost")
        else:
            self.on_resumed("the connection with ZooKeeper is back")

    def step_down(self, why: str, done: Callable[[ReplicaLog], None]) -> None:
        """See `Host`."""
        self._stepped_down = done
        self._lost_because = why
        if self._group is not None:  # the term ends a turn later; a record of that turn would make this log the better
            self._group.files.freeze_store()
        if self._failure is not None:
            self.on_lost(why)
        elif self._served is not None or self._group is None:
            self._served = None
            self._let_go()
        else:  # a term is about to begin, and finds out; or there was none
            asyncio.get_running_loop().call_soon(self._let_go)

    def _let_go(self) -> None:
        """Become a copy again, unless a term does so."""
        if self._failure is None and self._stepped_down is not None and self._group is not None:
            self._group.files.abandon_store()
            self._become_copy()

    def fail(self, error: Exception) -> None:
        """See `Host`."""
        self._set_trouble(error)


@final
class _Group:
    """The parts of a node."""

    def __init__(self, host: ReplicatedMastership, settings: Settings, clock: Clock, turn: Turn) -> None:
        replication = settings.replication
        name = node_name(settings)
        self.members: Mapping[str, str] = {}
        """The disks that vote, by their nodes, as of the last grant to this one."""
        self._bind = bind_address(replication.bind)
        address = advertised(replication.advertise, self._bind)
        self.files = ReplicaFiles(settings, clock, turn, host.store_failed)
        zookeeper = ZooKeeperSettings(
            hosts=replication.zk_address,
            path=replication.zk_path,
            session_seconds=replication.zk_session_timeout_seconds,
            replicas=replication.replicas,
            node_id=name,
            client_uri=own_uri(settings.cluster.uri, settings.listen.uris),
            password=secret_of(replication.zk_password_file).decode(errors="replace"),
        )
        identity = Identity(
            name,
            address,
            secrets.randbits(_INCARNATION_BITS),
            replication.replicas,
            weight=replication.weight,
            mode=SyncMode(replication.sync),
        )
        self.elector = ZooKeeperElector(zookeeper, _Late(self), host.unusable)
        assert self.files.copy is not None
        self.node = Node(identity, self.files.state, self.files.copy, self.elector, host, clock=clock)
        server, client = _tls(settings)
        self.links = Links(
            secret_of(replication.secret_file), self.node.accepted, server_context=server, client_context=client
        )

    async def start(self) -> None:
        """Raises `ConfigError`."""
        mode = self.node.identity.mode
        if mode is not SyncMode.QUORUM_DISK:
            _log.warning("replication.sync is %s: %s", mode.value, _RISKS[mode])
        host, port = self._bind
        try:
            await self.links.listen(host, port)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ConfigError(f"replication.bind: {host}:{port}: {reason}") from None
        await self.elector.start()
        self.node.start()

    async def close(self) -> None:
        self.node.stop()
        with suppress(Exception):
            await self.links.close()
        await self.elector.close()
        self.files.close()


_RISKS: Final = {
    SyncMode.QUORUM_MEM: "a power cut of all nodes may lose what was answered",
    SyncMode.LOCAL_DISK: "a change of masters may lose what was answered",
}


class _Late:
    """Passes the events of the elector on to the node, which needs the elector to be made."""

    def __init__(self, group: _Group) -> None:
        self._group = group

    def on_granted(self, epoch: int, members: Mapping[str, str]) -> None:
        self._group.members = dict(members)
        self._group.node.on_granted(epoch, members)

    def on_members(self, members: Mapping[str, str]) -> None:
        self._group.members = dict(members)
        self._group.node.on_members(members)

    def __getattr__(self, name: str) -> Callable[..., None]:
        found: Callable[..., None] = getattr(self._group.node, name)
        return found


def node_name(settings: Settings) -> str:
    """The name of this node."""
    return settings.replication.node or settings.broker.name


def advertised(advertise: str, bind: tuple[str, int]) -> str:
    """host:port where other nodes reach this one."""
    if advertise:
        return advertise
    host, port = bind
    name = socket.gethostname() if host in ("0.0.0.0", "::") else host  # noqa: S104 - compared, not bound
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def _tls(settings: Settings) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    """Contexts for links that others make, and for our own; None without TLS. Raises `ConfigError`."""
    replication = settings.replication
    named = (replication.tls_certificate, replication.tls_key, replication.tls_ca)
    if not any(named):
        return None, None
    if not all(named):
        raise ConfigError("replication.tls_certificate, tls_key and tls_ca are needed together")
    contexts = []
    try:
        for purpose in (ssl.Purpose.CLIENT_AUTH, ssl.Purpose.SERVER_AUTH):
            context = ssl.create_default_context(purpose, cafile=Path(replication.tls_ca))
            context.load_cert_chain(replication.tls_certificate, replication.tls_key)
            context.verify_mode = ssl.CERT_REQUIRED
            contexts.append(context)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"replication: the files of TLS cannot be used: {error}") from None
    return contexts[0], contexts[1]


def _for_people(error: Exception) -> Exception:
    """What ends the process: 74 for a disk, 2 for a set-up."""
    if isinstance(error, ConfigError | StoreFailed):
        return error
    return StoreFailed(str(error)) if isinstance(error, OSError) else ConfigError(str(error))

"""ZooKeeper as the elector of a group; implements `Elector` with kazoo. What is kept there: `entries.py`.

Three threads meet here. The loop calls the methods of `Elector` and hears the events. A thread of its own asks
ZooKeeper, one question after the other, and does what they were asked for. Threads of kazoo tell of changes, of the
state of the connection and of answered beats; they never wait.

Every node looks at the same entries and finds the same choice. Only the node that is chosen acts: in one transaction it
raises the epoch by compare-and-set and enters itself as master, which fails if another node has done either. An answer
to that may be lost with the connection, so what counts is what the entries say afterwards.
"""

import asyncio
import logging
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, final

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    InvalidACLError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry
from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl

from ackwire.cluster.entries import (
    FORMAT,
    Candidate,
    Group,
    Master,
    View,
    choose,
    next_epoch,
    pack_epoch,
    pack_members,
    unpack_epoch,
    unpack_members,
)
from ackwire.cluster.loop_watch import LoopWatch
from ackwire.errors import ConfigError
from ackwire.replication.elector import ElectorEvents, Joined, Standing
from ackwire.replication.lease import Lease

_USER: Final = "ackwire"
"""The name behind the password; ZooKeeper wants one."""
_SETTLE_SECONDS: Final = 0.2
"""How long a choice waits for what other nodes tell of themselves when a master is gone."""
_BEATS: Final = 6
"""In the time of one session."""
_TOUCH_SHARE: Final = 0.25
"""Of the session: so much earlier may ZooKeeper's leader have heard of the session than the server that answers. It is
told twice a tick, and a session lasts two ticks at least."""
_CLOCK_SECONDS_MAX: Final = 30.0
"""How far the clock of this machine may be from ZooKeeper's: messages expire by it."""
_SESSIONS: Final = 2
"""After so many times that of a session nothing is left of one that has ended."""
_AGAIN_SECONDS: Final = 0.5
"""The pause before something that has failed is tried again."""

_log = logging.getLogger(__name__)

Job = Callable[[], None]


@dataclass(frozen=True, slots=True)
class ZooKeeperSettings:
    """How the group is reached, and what this node says of itself there."""

    hosts: str
    path: str
    session_seconds: float
    replicas: int
    node_id: str
    client_uri: str = ""
    password: str = ""
    connect_seconds: float = 20.0
    """How long a start tries."""
    hang_seconds: float = 30.0
    """A node whose loop hangs for so long, as it does in a sync that never ends, can be no master."""


def client_for(settings: ZooKeeperSettings) -> KazooClient:
    """A client that is not started; it connects anew without end."""
    forever = KazooRetry(max_tries=-1, delay=0.1, max_delay=1.0, backoff=2)
    secured: dict[str, Any] = {}
    if settings.password:
        secured = {
            "default_acl": [make_digest_acl(_USER, settings.password, all=True)],
            "auth_data": [("digest", f"{_USER}:{settings.password}")],
        }
    return KazooClient(
        hosts=settings.hosts,
        timeout=settings.session_seconds,
        connection_retry=forever,
        command_retry=KazooRetry(max_tries=0),
        **secured,
    )


def _tell_session_seconds(client: KazooClient, tell: Callable[[float], None]) -> None:
    """Have *tell* called, in a thread of kazoo, with how long a session lasts by the word of the server, whenever one
    was asked: it has a limit of its own. kazoo derives other times from that word, and does not keep it."""
    connection = client._connection
    connect = connection._connect

    def connected(*server: Any) -> Any:
        read_ms, connect_ms = connect(*server)
        tell(read_ms * 1.5 / 1000)
        return read_ms, connect_ms

    connection._connect = connected


@final
class ZooKeeperElector:
    """One node's connection with ZooKeeper."""

    def __init__(self, settings: ZooKeeperSettings, events: ElectorEvents, on_unusable: Callable[[str], None]) -> None:
        """*on_unusable* is called on the loop with a sentence when a set-up is wrong, after which nothing happens any
        more."""
        self._settings = settings
        self._events = events
        self._on_unusable = on_unusable
        self._loop = asyncio.get_running_loop()
        self._client = client_for(settings)
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="elector", daemon=True)
        self._incarnation = uuid.uuid4().int >> 68
        self._lease = Lease(settings.session_seconds * (1 - _TOUCH_SHARE))
        _tell_session_seconds(self._client, lambda seconds: self._tell(partial(self._session_lasts, seconds)))
        # -- of the loop
        self._is_suspended = False
        self._session_seconds = settings.session_seconds
        self._session = 0
        """The session that the node knows of; 0: none."""
        self._is_over = False
        self._beat_is_out = False
        self._watch = LoopWatch(settings.hang_seconds)
        # -- of the thread
        self._candidate: Candidate | None = None
        self._is_entered = False
        """Whether ZooKeeper has this node's entry as it is to be."""
        self._granted_epoch = 0
        """The last of this node."""
        self._entry = ""
        """The path of this node's candidate entry."""
        self._first_seen: dict[str, float] = {}
        """When entries were found first that another disk of this node has made."""
        self._joined_session = 0
        self._is_look_due = False
        self._vacant_since: float | None = None
        self._told: Master | None = None
        self._told_members: dict[str, str] = {}
        self._why = ""

    # ---- the beginning and the end -----------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect. Raises `ConfigError` if ZooKeeper cannot be reached or used."""
        self._client.add_listener(self._state_changed)
        try:
            await asyncio.to_thread(self._client.start, self._settings.connect_seconds)
            await asyncio.to_thread(self._prepare)
        except KazooTimeoutError:
            await self.close()
            raise ConfigError(
                f"ZooKeeper at {self._settings.hosts} cannot be reached: nothing has answered for "
                f"{self._settings.connect_seconds:g} s; check replication.zk_address"
            ) from None
        except ConfigError:
            await self.close()
            raise
        except KazooException as error:
            await self.close()
            raise ConfigError(self._explained(error)) from None
        self._thread.start()
        self._beat()

    async def close(self) -> None:
        """End the session, and with it all that this node has entered."""
        self._is_over = True
        if self._thread.is_alive():
            self._jobs.put(None)
            await asyncio.to_thread(self._thread.join)
        await asyncio.to_thread(self._stop_client)

    def _stop_client(self) -> None:
        with suppress(Exception):  # the connection may be lost
            self._client.stop()
        with suppress(Exception):
            self._client.close()

    def _prepare(self) -> None:
        """See that the group is the right one, and its entries are there. Raises `ConfigError` and kazoo's errors."""
        client, settings = self._client, self._settings
        try:
            parent = settings.path.rstrip("/").rpartition("/")[0]
            if parent:  # open to all: other groups, with other passwords, may be below it
                client.ensure_path(parent, acl=OPEN_ACL_UNSAFE)
            for name in ("candidates", "beats"):
                client.ensure_path(self._path(name))
            own = Group(uuid.uuid4().hex, settings.replicas)
            for name, data in (("group", own.pack()), ("epoch", pack_epoch(0)), ("disks", pack_members({}))):
                with suppress(NodeExistsError):
                    client.create(self._path(name), data)
            beat = self._path(f"beats/{settings.node_id}")
            client.ensure_path(beat)
            stat = client.set(beat, b"")
        except (NoAuthError, AuthFailedError, InvalidACLError):
            raise ConfigError(
                f"ZooKeeper at {settings.hosts} does not let this node write to {settings.path}; check "
                "replication.zk_password_file, or choose another replication.zk_path"
            ) from None
        self._check_group()
        self._check_clock(stat.mtime / 1000)

    def _check_group(self) -> None:
        group = self._group()
        settings = self._settings
        if group.format != FORMAT:
            raise ConfigError(
                f"the group at {settings.path} has format {group.format}, and this version of Ackwire has {FORMAT}; "
                "use one version for all nodes"
            )
        if group.replicas != settings.replicas:
            raise ConfigError(
                f"the group at {settings.path} has replication.replicas = {group.replicas}, and this node has "
                f"{settings.replicas}; all nodes must say the same"
            )

    def _check_clock(self, their_seconds: float) -> None:
        ahead = time.time() - their_seconds
        if abs(ahead) > _CLOCK_SECONDS_MAX:
            direction = "ahead of" if ahead > 0 else "behind"
            raise ConfigError(
                f"the clock of this machine is {abs(ahead):.0f} s {direction} that of ZooKeeper at "
                f"{self._settings.hosts}; messages expire by it, so set it"
            )

    def _explained(self, error: Exception) -> str:
        return f"ZooKeeper at {self._settings.hosts}, {self._settings.path}: {str(error) or type(error).__name__}"

    # ---- Elector, on the loop ----------------------------------------------------------------------------------

    def announce(self, standing: Standing) -> None:
        """See `Elector`."""
        self._submit(lambda: self._announce(standing))

    def resign(self, why: str, *, better: str | None = None) -> None:
        """See `Elector`."""
        _log.info("node %s gives mastership back: %s", self._settings.node_id, why)
        self._submit(lambda: self._resign(better or ""))

    def admit(self, node_id: str, disk_id: str, epoch: int, done: Callable[[Exception | None], None]) -> None:
        """See `Elector`."""

        def admit() -> None:
            error: Exception | None = None
            try:
                self._admit(node_id, disk_id, epoch)
            except Exception as raised:
                error = raised
            self._tell(lambda: done(error))

        self._submit(admit)

    def holds_until(self) -> float:
        """See `Elector`."""
        return self._lease.holds_until

    def release(self) -> None:
        """See `Elector`. The session ends with `close`."""
        self._submit(self._withdraw)

    def view(self, done: Callable[[View | None, str], None]) -> None:
        """Read all entries, for people; None with the reason if they cannot be read."""

        def read() -> None:
            try:
                view = self._view()
            except Exception as error:
                text = self._explained(error)
                self._tell(lambda: done(None, text))
            else:
                self._tell(lambda: done(view, ""))

        self._submit(read)

    @property
    def trouble(self) -> str:
        """Why no node is the master, as far as this node knows; empty if one is."""
        return self._why

    def _submit(self, job: Job) -> None:
        self._jobs.put(job)

    def _tell(self, event: Job) -> None:
        """Have *event* run on the loop."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(event)

    # ---- the connection ----------------------------------------------------------------------------------------

    def _state_changed(self, state: str) -> None:
        """Called by threads of kazoo."""
        self._tell(lambda: self._on_state(state))

    def _on_state(self, state: str) -> None:
        if self._is_over:
            return
        if state == KazooState.SUSPENDED:
            if self._session and not self._is_suspended:
                self._is_suspended = True
                self._events.on_suspended()
        elif state == KazooState.LOST:
            self._lose("the session with ZooKeeper has expired")
        else:
            self._submit(self._connected)

    def _lose(self, why: str) -> None:
        self._lease.ended()
        self._is_suspended = False
        if self._session:
            self._session = 0
            self._events.on_lost(why)

    def _joined(self, session: int, joined: Joined) -> None:
        """A session has begun: on the loop."""
        if self._is_over:
            return
        if self._session and self._session != session:
            self._lose("another session with ZooKeeper has begun")
        self._session = session
        self._events.on_joined(joined)
        self._submit(self._look_now)

    def _resumed(self, session: int) -> None:
        if self._session == session and self._is_suspended:
            self._is_suspended = False
            self._events.on_resumed()

    # ---- beats -------------------------------------------------------------------------------------------------

    def _session_lasts(self, seconds: float) -> None:
        asked = self._settings.session_seconds
        if seconds < min(asked, self._session_seconds):
            _log.warning("ZooKeeper lets a session last %g s, and %g s were asked for", seconds, asked)
        self._session_seconds = min(asked, seconds)
        self._lease.lasts(self._session_seconds * (1 - _TOUCH_SHARE))

    def _beat(self) -> None:
        """Write something every moment: what is answered had a session when it was sent."""
        if self._is_over:
            return
        self._watch.turn()
        self._loop.call_later(self._session_seconds / _BEATS, self._beat)
        # One at a time: kazoo notices that a server is silent only while it has nothing to send to it.
        if not self._session or self._is_suspended or self._beat_is_out:
            return
        session, sent_at = self._session, time.monotonic()

        def answered(result: Any) -> None:
            self._tell(lambda: self._on_beat(session, sent_at, is_good=result.successful()))

        self._beat_is_out = True
        try:
            self._client.set_async(self._path(f"beats/{self._settings.node_id}"), b"").rawlink(answered)
        except KazooException as error:
            self._beat_is_out = False
            _log.debug("a beat was not sent: %s", error)

    def _on_beat(self, session: int, sent_at: float, *, is_good: bool) -> None:
        self._beat_is_out = False
        if is_good and session == self._session:
            self._lease.answered(sent_at)

    # ---- the thread --------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (job := self._next_job()) is not None:
            try:
                job()
                self._see_whether_the_loop_hangs()
            except ConfigError as error:
                self._tell(partial(self._on_unusable, str(error)))
                return
            except KazooException as error:
                _log.warning("%s", self._explained(error))
                self._later(self._connected if not self._entry else self._look_now)
            except Exception:
                _log.exception("the elector of node %s has failed in one step", self._settings.node_id)
                self._later(self._look_now)

    def _next_job(self) -> Job | None:
        try:
            return self._jobs.get(timeout=self._watch.pause_seconds)
        except Empty:
            return _nothing

    def _see_whether_the_loop_hangs(self) -> None:
        """The session lasts while the loop hangs, because kazoo has threads of its own. Such a node answers no client,
        and would be the master for ever."""
        if self._watch.look(time.monotonic()):
            if self._watch.hangs:
                self._let_another_lead()
            else:
                self._enter_anew()
        elif self._watch.hangs:
            self._look_now()  # nothing else tries again while the loop cannot

    def _let_another_lead(self) -> None:
        """Called while the loop hangs. When it moves again, the first it hears is that its grant is over."""
        why = f"its loop has hung for {self._settings.hang_seconds:g} s"
        _log.error("node %s can be no master: %s", self._settings.node_id, why)
        self._tell(partial(self._hung, why))
        if self._candidate is not None:
            self._candidate = replace(self._candidate, resigned_epoch=self._granted_epoch)
        self._enter_anew()

    def _hung(self, why: str) -> None:
        self._lease.ended()
        if self._session and not self._is_over:
            self._events.on_lost(why)

    def _enter_anew(self) -> None:
        self._is_entered = False
        self._told = None
        self._look_now()

    def _packed(self, candidate: Candidate) -> bytes:
        """What ZooKeeper is to know of this node now."""
        if self._watch.hangs:
            candidate = replace(candidate, standing=replace(candidate.standing, may_vote=False))
        return candidate.pack()

    def _later(self, job: Job, seconds: float = _AGAIN_SECONDS) -> None:
        self._tell(lambda: None if self._is_over else _ignore(self._loop.call_later(seconds, self._submit, job)))

    @property
    def _client_session(self) -> int:
        """The id of kazoo's session; 0: there is none."""
        found = self._client.client_id
        return 0 if found is None else int(found[0])

    def _connected(self) -> None:
        """There is a connection: with the session that is known, or with a new one."""
        session = self._client_session
        if not session or not self._client.connected:
            return
        if session == self._joined_session and self._entry:
            self._tell(lambda: self._resumed(session))
            self._is_entered = False  # an answer may have been lost
            self._look_now()
        elif self._candidate is not None:
            self._join(session, self._candidate)

    def _join(self, session: int, candidate: Candidate) -> None:
        """Enter this node, then read what was granted: so no epoch is missed that was granted before."""
        self._entry, self._told, self._vacant_since = "", None, None
        self._check_group()
        if not self._is_alone(session, candidate):
            self._later(self._connected)
            return
        self._entry = self._own_entry(session) or self._create_entry(session, candidate)
        self._client.set(self._entry, self._packed(candidate))
        self._is_entered = True
        self._joined_session = session
        standing = candidate.standing
        epoch, members = self._epoch()[0], self._register(standing)
        joined = Joined(self._group().group_id, epoch, members.get(standing.node_id) == standing.disk_id)
        self._tell(lambda: self._joined(session, joined))

    def _is_alone(self, session: int, candidate: Candidate) -> bool:
        """Whether no other process is this node. What an earlier process has left is removed: it had the same disk, and
        only one process has a disk."""
        for path, other, owner in self._entries():
            if owner == session or other.standing.node_id != candidate.standing.node_id:
                continue
            if other.standing.disk_id != candidate.standing.disk_id:
                if not self._has_outlasted_a_session(path):
                    return False
                raise ConfigError(
                    f"another process is node {other.standing.node_id} of the group at {self._settings.path}: it is at "
                    f"{other.standing.address}, with another disk; give each node a replication.node of its own"
                )
            self._delete_of(owner, path)
            return False
        return True

    def _has_outlasted_a_session(self, entry: str) -> bool:
        """Whether an entry has been there for so long that there is a process behind it: that of a process which was
        killed, and whose disk was replaced, goes with its session."""
        now = time.monotonic()
        return now - self._first_seen.setdefault(entry, now) > _SESSIONS * self._settings.session_seconds

    def _delete_of(self, owner: int, entry: str) -> None:
        """Delete what an earlier process of this node has left, the grant first."""
        for path in (self._path("master"), entry):
            with suppress(NoNodeError):
                stat = self._client.exists(path)
                if stat is not None and stat.ephemeralOwner == owner:
                    self._client.delete(path)

    def _own_entry(self, session: int) -> str:
        """The entry that a request of this session has made whose answer was lost."""
        return next((path for path, _, owner in self._entries() if owner == session), "")

    def _create_entry(self, session: int, candidate: Candidate) -> str:
        try:
            made = self._client.create(self._path("candidates/c-"), candidate.pack(), ephemeral=True, sequence=True)
        except KazooException:
            found = self._own_entry(session)  # raises, too, while there is no connection
            if not found:
                raise
            return found
        return str(made)

    def _register(self, standing: Standing) -> dict[str, str]:
        """The disks that vote. In a group that never had a master each node enters its own."""
        while True:
            members, version = self._members()
            if members.get(standing.node_id) == standing.disk_id or self._epoch()[0]:
                return members
            if standing.node_id not in members and len(members) >= self._settings.replicas:
                raise ConfigError(
                    f"the group at {self._settings.path} has its {self._settings.replicas} nodes "
                    f"({', '.join(sorted(members))}), and {standing.node_id} is none of them"
                )
            with suppress(BadVersionError):
                self._client.set(
                    self._path("disks"), pack_members({**members, standing.node_id: standing.disk_id}), version
                )

    def _announce(self, standing: Standing) -> None:
        former = self._candidate
        if former is None:
            self._candidate = Candidate(standing, self._settings.client_uri, incarnation=self._incarnation)
            self._connected()
            return
        self._candidate = replace(former, standing=standing)
        self._is_entered = False
        if self._told is not None and self._told.node_id != standing.node_id:
            self._told = None  # it may have forgotten the master
        self._look_now()

    def _resign(self, better: str) -> None:
        if self._candidate is not None:
            self._candidate = replace(self._candidate, resigned_epoch=self._granted_epoch, better=better)
            self._is_entered = False
            self._look_now()

    def _withdraw(self) -> None:
        """Leave: the next master need not wait until the session is over."""
        entry, self._entry, self._candidate = self._entry, "", None
        self._give_master_back()
        if entry:
            with suppress(NoNodeError):
                self._client.delete(entry)

    def _give_master_back(self) -> None:
        stat = self._client.exists(self._path("master"))
        if stat is not None and stat.ephemeralOwner == self._client_session:
            with suppress(NoNodeError):
                self._client.delete(self._path("master"))

    def _admit(self, node_id: str, disk_id: str, epoch: int) -> None:
        """Raises `ValueError` if a higher epoch was granted, or the group has no place."""
        while True:
            granted, epoch_version = self._epoch()
            if granted != epoch:
                raise ValueError(f"epoch {granted} was granted after {epoch}")
            members, version = self._members()
            if members.get(node_id) == disk_id:
                return
            if node_id not in members and len(members) >= self._settings.replicas:
                raise ValueError(f"the group has its {self._settings.replicas} nodes: {', '.join(sorted(members))}")
            transaction = self._client.transaction()
            transaction.check(self._path("epoch"), epoch_version)
            transaction.set_data(self._path("disks"), pack_members({**members, node_id: disk_id}), version)
            if not any(isinstance(it, Exception) for it in transaction.commit()):
                return

    # ---- the election, in the thread ---------------------------------------------------------------------------

    def _changed(self, _: object) -> None:
        """A watch has fired; called by a thread of kazoo."""
        if not self._is_look_due:
            self._is_look_due = True
            self._submit(self._look_now)

    def _look_now(self) -> None:
        """Tell the node who is the master, or see to it that there is one."""
        self._is_look_due = False
        session, candidate = self._client_session, self._candidate
        if not self._entry or session != self._joined_session or candidate is None:
            return
        if not self._is_entered:
            self._client.set(self._entry, self._packed(candidate))
            self._is_entered = True
        master, owner = self._master(watch=self._changed)
        if master is not None:
            self._why, self._vacant_since = "", None
            if owner == session and master.epoch <= candidate.resigned_epoch:
                self._give_master_back()  # and the watch tells when that is done
                return
            if self._told != master:
                self._told = master
                self._tell_of(master, is_own=owner == session, session=session)
            elif owner == session:
                self._tell_of_members(session)
            return
        self._told = None
        view = self._view(watch=self._changed)
        self._see_vacancy(view)

    def _see_vacancy(self, view: View) -> None:
        candidate = self._candidate
        if view.master is not None or candidate is None:
            self._submit(self._look_now)
            return
        if not any(it.incarnation == self._incarnation for it in view.candidates):
            self._see_successor(candidate)
            return
        choice = choose(view)
        if not choice.node_id:
            missing = f"; missing: {', '.join(choice.missing)}" if choice.missing else ""
            self._say(f"no node can be the master: {choice.why_not}{missing}")
            self._vacant_since = None
            return
        if choice.node_id != candidate.standing.node_id:
            self._say(f"{choice.node_id} is to be the master")
            return
        now = time.monotonic()
        if self._vacant_since is None:
            self._vacant_since = now
        left = self._vacant_since + _SETTLE_SECONDS - now
        if left > 0 and not choice.is_named:
            self._later(self._look_now, left)
        else:
            self._grant(view, candidate)

    def _see_successor(self, candidate: Candidate) -> None:
        """This node's entry is gone, although its session lasts: a process with the same id has removed it."""
        node_id = candidate.standing.node_id
        raise ConfigError(
            f"another process is node {node_id} of the group at {self._settings.path} now; end one of the two, or give "
            "each node a replication.node of its own"
        )

    def _say(self, why: str) -> None:
        if why != self._why:
            self._why = why
            _log.info("%s", why)

    def _grant(self, view: View, candidate: Candidate) -> None:
        """Raise the epoch, and enter this node as master; if another node was quicker, look again."""
        self._vacant_since = None
        granted, version = self._epoch()
        if granted != view.epoch:
            self._submit(self._look_now)
            return
        standing = candidate.standing
        master = Master(next_epoch(view), standing.node_id, standing.address, candidate.client_uri)
        transaction = self._client.transaction()
        transaction.set_data(self._path("epoch"), pack_epoch(master.epoch), version)
        transaction.create(self._path("master"), master.pack(), ephemeral=True)
        results = transaction.commit()
        if any(isinstance(it, Exception) for it in results):
            _log.debug("epoch %d was not granted: %r", master.epoch, results)
        self._submit(self._look_now)

    def _tell_of(self, master: Master, *, is_own: bool, session: int) -> None:
        events = self._events
        if not is_own:
            self._on_loop(session, lambda: events.on_leader(master.epoch, master.node_id, master.address))
            return
        members, _ = self._members(self._changed)
        self._granted_epoch, self._told_members = master.epoch, members
        self._on_loop(session, lambda: events.on_granted(master.epoch, members))

    def _tell_of_members(self, session: int) -> None:
        """Tell the master when the disks that vote have changed."""
        members, _ = self._members(self._changed)
        if members != self._told_members:
            self._told_members = members
            self._on_loop(session, lambda: self._events.on_members(members))

    def _on_loop(self, session: int, event: Job) -> None:
        """Have *event* run on the loop, if the session still lasts there."""

        def run() -> None:
            if self._session == session and not self._is_over:
                event()

        self._tell(run)

    # ---- entries, in the thread --------------------------------------------------------------------------------

    def _path(self, name: str) -> str:
        return f"{self._settings.path.rstrip('/')}/{name}"

    def _group(self) -> Group:
        path = self._path("group")
        return Group.unpack(self._client.get(path)[0], path)

    def _epoch(self) -> tuple[int, int]:
        """The epoch, and the version of its entry."""
        path = self._path("epoch")
        data, stat = self._client.get(path)
        return unpack_epoch(data, path), stat.version

    def _members(self, watch: Callable[[object], None] | None = None) -> tuple[dict[str, str], int]:
        path = self._path("disks")
        data, stat = self._client.get(path, watch=watch)
        return unpack_members(data, path), stat.version

    def _master(self, watch: Callable[[object], None] | None = None) -> tuple[Master | None, int]:
        """The master, and the session that has entered it."""
        path = self._path("master")
        if self._client.exists(path, watch=watch) is None:
            return None, 0
        try:
            data, stat = self._client.get(path)
        except NoNodeError:
            return None, 0
        return Master.unpack(data, path), stat.ephemeralOwner

    def _entries(self, watch: Callable[[object], None] | None = None) -> Sequence[tuple[str, Candidate, int]]:
        """All candidates: path, content, session."""
        found = []
        for name in sorted(self._client.get_children(self._path("candidates"), watch=watch)):
            path = self._path(f"candidates/{name}")
            with suppress(NoNodeError):
                data, stat = self._client.get(path, watch=watch)
                found.append((path, Candidate.unpack(data, path), stat.ephemeralOwner))
        return found

    def _view(self, watch: Callable[[object], None] | None = None) -> View:
        """Everything. The epoch is read first: a grant that comes meanwhile makes the next one fail."""
        epoch, _ = self._epoch()
        members, _ = self._members(watch)
        candidates = [it for _, it, _ in self._entries(watch)]
        return View(self._group(), epoch, members, candidates, self._master()[0])


def _nothing() -> None:
    """The job of a thread that only looks around."""


def _ignore(_: object) -> None:
    """What a call returns is of no interest."""

"""The master's side of replication, from the grant of an epoch to its end, without I/O.

    COLLECTING    followers say hello, and with it promise the epoch; each tells where its log ends
    TAKING_OVER   a quorum has promised, and none of it has a better log: the store opens
    COMMITTING    the store has written a record of this epoch; a quorum must have it
    ESTABLISHED   it has: everything before it is committed too, and the store may serve
    ENDED

A hello of epoch E is a vote and a fence: its sender has promised, on disk, to follow no lower epoch. So when a quorum
has said hello, no older master can commit anything any more, and what it has committed is in one of the logs of the
quorum.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, Protocol

from ackwire.replication.copies import Copy, CopyState, CopyStatus
from ackwire.replication.identity import Identity, Link, Timing
from ackwire.replication.log import Chunk, LogEnd, LogSource
from ackwire.replication.messages import (
    VERSION,
    Ack,
    Bye,
    Heartbeat,
    Hello,
    Message,
    Reason,
    RefillAck,
    Welcome,
)
from ackwire.replication.quorum import CommitQuorum, SyncMode, quorum_of
from ackwire.util.clock import Clock

HAND_OVER_LAG_MAX: Final = 10_000
"""Records that a node may lack that is to be the next master: it has them in a moment."""


class LeaderState(Enum):
    """See the module."""

    COLLECTING = "collecting promises"
    TAKING_OVER = "taking over"
    COMMITTING = "committing"
    ESTABLISHED = "established"
    ENDED = "ended"


class LeaderEvents(Protocol):
    """What the leader tells its node."""

    def on_quorum_promised(self) -> None:
        """No older master can commit any more, and no log of the quorum is better: take over."""
        ...

    def on_better_log(self, node_id: str, end: LogEnd) -> None:
        """That node must be master in place of this one."""
        ...

    def on_established(self) -> None:
        """The store may serve."""
        ...

    def on_no_quorum(self, text: str) -> None:
        """Too few followers for too long."""
        ...

    def on_slow_disk(self, text: str, better: str) -> None:
        """The disk of this node holds everyone up, and that node's does not."""
        ...

    def on_damaged_log(self, text: str, better: str | None) -> None:
        """The log of this node cannot be read, and *better*, if there is one, has everything that is committed."""
        ...

    def on_higher_epoch(self, epoch: int, node_id: str) -> None:
        """A node has promised a higher epoch: this grant is over, whatever the elector has said."""
        ...

    def admit(self, node_id: str, disk_id: str, done: Callable[[Exception | None], None]) -> None:
        """Have the elector count on that disk."""
        ...


class Leader:
    """Counts promises, ships records, counts acknowledgements."""

    def __init__(
        self,
        identity: Identity,
        epoch: int,
        members: Mapping[str, str],
        *,
        group_id: str,
        end: LogEnd,
        store_id: bytes,
        quorum: CommitQuorum,
        clock: Clock,
        timing: Timing,
        events: LeaderEvents,
    ) -> None:
        self.epoch = epoch
        self.state = LeaderState.COLLECTING
        self._identity = identity
        self._members = dict(members)
        self._group_id = group_id
        self._end = end
        self._store_id = store_id
        self._quorum = quorum
        self._clock = clock
        self._timing = timing
        self._events = events
        self._others_needed = quorum_of(identity.replicas) - 1
        self._source: LogSource | None = None
        self.copies: dict[str, Copy] = {}
        """Of each node the last link, which may have ended."""
        self._promises: dict[str, LogEnd] = {}
        self._durable: dict[str, int] = {}
        """The last durable record of each copy that counts. It stays when the link ends: the disk has it still."""
        self._confirmed: dict[tuple[str, str], int] = {}
        """By node and disk: what that has acknowledged as durable in this epoch, whether it counted or not."""
        self._had_quorum_at = clock.monotonic()
        self._ticked_at = clock.monotonic()
        self._told_commit = 0
        self._disk_was_fine_at = clock.monotonic()
        self._disk_was_at = 0
        self.on_progress: Callable[[], None] | None = None
        """Called when a copy that counts has told more of itself, or has ended."""
        quorum.on_local = self._count

    def begin(self) -> None:
        """Without others, this node's own promise is the quorum."""
        self._decide()

    # ---- hello -------------------------------------------------------------------------------------------------

    def hello(self, link: Link, hello: Hello) -> Copy | None:
        """A follower has promised this epoch, or was mistaken: None if it is refused."""
        refusal = self._refusal(hello)
        if refusal is not None:
            reason, text = refusal
            link.send(Welcome(reason, self.epoch, b"", self._identity.node_id, text))
            link.close(reason, text)
            if reason is Reason.OTHER_EPOCH and hello.epoch > self.epoch and self._is_of_group(hello):
                self._events.on_higher_epoch(hello.epoch, hello.node_id)
            return None
        if self._has_lost(hello):
            self._durable.pop(hello.node_id, None)
            text = (
                f"{hello.node_id} ends at {tuple(hello.end)}, and had acknowledged record {self._confirmed_by(hello)}"
            )
            link.send(Welcome(Reason.LOST_RECORDS, self.epoch, b"", self._identity.node_id, text))
            link.close(Reason.LOST_RECORDS, text)
            return None
        former = self.copies.get(hello.node_id)
        if former is not None:
            former.break_off(Reason.DUPLICATE_NODE, f"{hello.node_id} has a newer link")
        copy = Copy(
            hello,
            link,
            timing=self._timing,
            committed=lambda: self._quorum.committed,
            on_ack=self._acked,
            on_unreadable=self._unreadable,
            is_strict=self._identity.mode is SyncMode.QUORUM_DISK,
            heard_at=self._clock.monotonic(),
        )
        self.copies[hello.node_id] = copy
        link.send(Welcome(Reason.NONE, self.epoch, self._store_id, self._identity.node_id, ""))
        self._see_what_is_left(copy)
        if self._source is not None:
            copy.align(self._source)
        else:
            self._decide()
        return copy

    def _confirmed_by(self, hello: Hello) -> int:
        return self._confirmed.get((hello.node_id, hello.disk_id), 0)

    def _has_lost(self, hello: Hello) -> bool:
        """Whether a copy that would vote lacks what it had on its disk, and does not know it: it writes that down from
        time to time only. The one who does know is the master that it has told."""
        return hello.may_vote and hello.end.number < self._confirmed_by(hello)

    def _unreadable(self, text: str) -> None:
        """A follower needs what is damaged here. Another node can send it, if that has everything."""
        if self.state is LeaderState.ESTABLISHED:
            heirs = [it for it in self.copies.values() if it.state is CopyState.FOLLOWING and self._is_voter(it)]
            able = [it for it in heirs if it.durable >= self._quorum.committed]
            best = max(able, key=lambda it: it.durable, default=None)
            self._events.on_damaged_log(text, None if best is None else best.node_id)

    def _see_what_is_left(self, copy: Copy) -> None:
        """A copy that counts has promised; one that has lost what it had acknowledged does not have it any more."""
        if self._is_voter(copy):
            self._promises[copy.node_id] = copy.hello.end
            durable = self._durable.get(copy.node_id, 0)
            self._durable[copy.node_id] = min(durable, copy.hello.end.number)
        else:
            self._durable.pop(copy.node_id, None)

    def members_are(self, members: Mapping[str, str]) -> None:
        """A member was removed: it does not count any more. One that is new counts when it was admitted."""
        for node_id in self._members.keys() - members.keys() - {self._identity.node_id}:
            del self._members[node_id]
            self._durable.pop(node_id, None)
            self._promises.pop(node_id, None)
            copy = self.copies.pop(node_id, None)
            if copy is not None:
                copy.break_off(Reason.NOT_A_MEMBER, f"{node_id} was removed from the group")

    def _is_of_group(self, hello: Hello) -> bool:
        return hello.group_id == self._group_id and hello.node_id in self._members

    def _refusal(self, hello: Hello) -> tuple[Reason, str] | None:
        """Why *hello* cannot be accepted."""
        name, mine = hello.node_id, self._identity
        if hello.version != VERSION:
            return Reason.OTHER_VERSION, f"{name} speaks version {hello.version} of the protocol, this node {VERSION}"
        if hello.group_id != self._group_id:
            return Reason.OTHER_GROUP, f"{name} belongs to group {hello.group_id}, this node to {self._group_id}"
        if hello.store_id and self._store_id and hello.store_id != self._store_id:
            return Reason.OTHER_STORE, f"the journal of {name} is not a copy of this group's"
        if hello.store_format != mine.store_format:
            text = f"{name} has journal format {hello.store_format}, this node {mine.store_format}"
            return Reason.OTHER_FORMAT, text
        if hello.replicas != mine.replicas:
            return Reason.OTHER_REPLICAS, f"{name} has replicas = {hello.replicas}, this node {mine.replicas}"
        if name == mine.node_id:
            return Reason.DUPLICATE_NODE, f"two nodes are called {name}"
        if name not in self._members and len(self._members) >= mine.replicas:
            text = f"{name} is not one of the {mine.replicas} members: {', '.join(sorted(self._members))}"
            return Reason.NOT_A_MEMBER, text
        if self.state is LeaderState.ENDED:
            return Reason.NOT_MASTER, f"{mine.node_id} is not the master"
        if hello.epoch != self.epoch:
            return Reason.OTHER_EPOCH, f"{name} follows epoch {hello.epoch}, and {mine.node_id} has {self.epoch}"
        return self._duplicate(hello)

    def _duplicate(self, hello: Hello) -> tuple[Reason, str] | None:
        former = self.copies.get(hello.node_id)
        if former is None or former.state is CopyState.ENDED:
            return None
        is_same = (former.hello.disk_id, former.hello.incarnation) == (hello.disk_id, hello.incarnation)
        if is_same or self._is_silent(former):
            return None
        where = f"at {former.hello.address} and at {hello.address}"
        return Reason.DUPLICATE_NODE, f"two nodes are called {hello.node_id}: {where}"

    def _is_silent(self, copy: Copy) -> bool:
        return self._clock.monotonic() - copy.heard_at > self._timing.dead_seconds

    def _is_voter(self, copy: Copy) -> bool:
        """Whether the group counts on that copy: the elector knows its disk, and the node knows of no loss."""
        return copy.may_vote and self._members.get(copy.node_id) == copy.hello.disk_id

    # ---- promises ----------------------------------------------------------------------------------------------

    def _decide(self) -> None:
        if self.state is not LeaderState.COLLECTING or len(self._promises) < self._others_needed:
            return
        if self._promises:
            best = max(self._promises, key=lambda node: self._promises[node])
            if self._is_better(self._promises[best]):
                self._events.on_better_log(best, self._promises[best])
                return
        self.state = LeaderState.TAKING_OVER
        self._events.on_quorum_promised()

    def _is_better(self, end: LogEnd) -> bool:
        """Whether a log that ends there may hold committed records that this node's lacks."""
        return end > self._end

    def took_over(self, source: LogSource) -> None:
        """The store stands at the end of its log, and is about to write the first record of this epoch."""
        assert self.state is LeaderState.TAKING_OVER, self.state
        self._quorum.first_own = source.end().number + 1
        self.state = LeaderState.COMMITTING
        self._source = source
        self._store_id = source.store_id
        source.on_chunk = self.written
        for copy in list(self.copies.values()):
            if copy.state is CopyState.WAITING:
                copy.align(source)
        self._count()

    # ---- records and acknowledgements --------------------------------------------------------------------------

    def written(self, chunk: Chunk) -> None:
        """The store has written *chunk*."""
        for copy in self.copies.values():
            copy.written(chunk)

    def receive(self, copy: Copy, message: Message) -> None:
        """A follower has sent *message*."""
        if self.copies.get(copy.node_id) is not copy or copy.state is CopyState.ENDED:
            return
        copy.heard_at = self._clock.monotonic()
        match message:
            case Ack():
                copy.acked(message)
            case RefillAck():
                copy.refill_acked(message)
            case Heartbeat():
                pass
            case Bye():
                copy.closed()
                copy.link.close(Reason.NONE, "")
            case _:
                text = f"a {type(message).__name__} from a follower"
                copy.break_off(Reason.BROKEN_PROTOCOL, text)

    def closed(self, copy: Copy) -> None:
        """Its link has ended."""
        copy.closed()
        if self.on_progress is not None:
            self.on_progress()

    def _acked(self, copy: Copy) -> None:
        disk = copy.node_id, copy.hello.disk_id
        self._confirmed[disk] = max(self._confirmed.get(disk, 0), copy.durable)
        if self._is_voter(copy):
            counted = copy.received if self._identity.mode is SyncMode.QUORUM_MEM else copy.durable
            self._durable[copy.node_id] = counted
            self._count()
            if self.on_progress is not None:
                self.on_progress()
        else:
            self._admit_if_due(copy)

    def _admit_if_due(self, copy: Copy) -> None:
        """Have the elector count on a copy that has everything."""
        if not self._is_voter(copy) and self._may_regain(copy):
            copy.is_asked_to_vote = True
            self._events.admit(copy.node_id, copy.hello.disk_id, lambda error: self._admitted(copy, error))

    def _may_regain(self, copy: Copy) -> bool:
        """Whether a copy without a vote has everything that was ever committed, its own share included."""
        return (
            self.state is LeaderState.ESTABLISHED
            and copy.state is CopyState.FOLLOWING
            and not copy.is_asked_to_vote
            and copy.durable >= self._quorum.committed
        )

    def _admitted(self, copy: Copy, error: Exception | None) -> None:
        if error is not None:
            copy.is_asked_to_vote = False  # the next tick asks again
        elif self.state is LeaderState.ESTABLISHED and copy.state is not CopyState.ENDED:
            self._members[copy.node_id] = copy.hello.disk_id
            copy.ask_to_vote(self._quorum.committed)

    def _count(self) -> None:
        if self.state not in (LeaderState.COMMITTING, LeaderState.ESTABLISHED):
            return
        if not self._quorum.count(self._durable.values(), self._others_needed):
            return
        if self.state is LeaderState.COMMITTING and self._quorum.is_established:
            self.state = LeaderState.ESTABLISHED
            self._events.on_established()
        self._quorum.release()

    # ---- as time passes ----------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Call it each `heartbeat_seconds`."""
        now = self._clock.monotonic()
        was_paused = now - self._ticked_at > self._timing.dead_seconds / 2
        self._ticked_at = now
        for copy in list(self.copies.values()):
            if copy.state is CopyState.ENDED:
                continue
            if was_paused:
                copy.heard_at = now  # what it has sent meanwhile is still to be read
            if self._is_silent(copy):
                copy.break_off(Reason.SILENT, f"nothing was heard of {copy.node_id} for {self._timing.dead_seconds} s")
            else:
                copy.push()
                self._admit_if_due(copy)
                copy.link.send(Heartbeat(self._commit_for(copy)))
        self._quorum.release()
        self._look_at_disk(now, was_paused=was_paused)
        self._look_for_quorum(now)

    def _commit_for(self, copy: Copy) -> int:
        """Only an aligned copy may apply what is committed: another may have other records under those numbers."""
        return self._quorum.committed if copy.state is CopyState.FOLLOWING else 0

    def _look_at_disk(self, now: float, *, was_paused: bool) -> None:
        """A sync that never ends is no error, and the session with the elector lasts all the same."""
        here = self._quorum.local_durable
        ranked = sorted(self._durable, key=lambda node: self._durable[node], reverse=True)[: self._others_needed]
        others = self._durable[ranked[-1]] if 0 < len(ranked) == self._others_needed else 0
        is_behind = self.state in (LeaderState.COMMITTING, LeaderState.ESTABLISHED) and here < others
        if was_paused or not is_behind or here != self._disk_was_at:
            self._disk_was_at, self._disk_was_fine_at = here, now
        elif now - self._disk_was_fine_at > self._timing.disk_seconds:
            self._disk_was_fine_at = now
            text = f"the disk of {self._identity.node_id} has taken nothing for {self._timing.disk_seconds:g} s"
            self._events.on_slow_disk(f"{text}, and {', '.join(ranked)} have up to record {others}", ranked[0])

    def _look_for_quorum(self, now: float) -> None:
        if self.state is LeaderState.ENDED:
            return
        there = [it for it in self.copies.values() if it.state is not CopyState.ENDED and self._is_voter(it)]
        if len(there) >= self._others_needed:
            self._had_quorum_at = now
        elif now - self._had_quorum_at > self._timing.quorum_seconds:
            self._had_quorum_at = now
            missing = sorted(self._members.keys() - {it.node_id for it in there} - {self._identity.node_id})
            self._events.on_no_quorum(f"no quorum for {self._timing.quorum_seconds} s: missing {', '.join(missing)}")

    # ---- for people --------------------------------------------------------------------------------------------

    @property
    def source_end(self) -> LogEnd | None:
        """Where the log ends; None before the store is open."""
        return None if self._source is None else self._source.end()

    def statuses(self) -> list[CopyStatus]:
        """Each follower that was there in this epoch."""
        end = self._end if self._source is None else self._source.end()
        return [
            CopyStatus(
                node_id=copy.node_id,
                address=copy.hello.address,
                state=copy.state.value,
                durable=copy.durable,
                lag_records=max(0, end.number - copy.durable),
                flight_bytes=copy.flight_bytes,
                counts=self._is_voter(copy),
                is_linked=copy.state is not CopyState.ENDED,
            )
            for copy in self.copies.values()
        ]

    def cannot_hand_over(self, node_id: str) -> str | None:
        """Why *node_id* cannot be the next master; None if it can, when it has everything."""
        copy = self.copies.get(node_id)
        if copy is None or copy.state is CopyState.ENDED or self._source is None:
            return f"{node_id} does not follow"
        if not self._is_voter(copy):
            return f"the group does not count on the copy of {node_id} yet"
        behind = self.lag_of(node_id)
        return f"{node_id} is {behind} records behind" if behind > HAND_OVER_LAG_MAX else None

    def lag_of(self, node_id: str) -> int:
        """How many records *node_id*, which follows, does not have on disk."""
        assert self._source is not None
        return self._source.end().number - self.copies[node_id].durable

    # ---- the end -----------------------------------------------------------------------------------------------

    def end(self, why: str) -> None:
        """The grant is over: nothing is confirmed and nothing is shipped from now on."""
        if self.state is LeaderState.ENDED:
            return
        self.state = LeaderState.ENDED
        self._quorum.end()
        if self._source is not None:
            self._source.on_chunk = None
            self._source = None
        for copy in self.copies.values():
            copy.break_off(Reason.NOT_MASTER, why)

"""The elector of a group, on a real ZooKeeper (L2)."""

import asyncio
import itertools
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace

import pytest
from kazoo.client import KazooClient

from ackwire.cluster.zookeeper import ZooKeeperElector, ZooKeeperSettings
from ackwire.errors import ConfigError
from ackwire.replication.elector import Joined, Standing
from ackwire.replication.log import LogEnd
from tests.helpers.databases import free_port
from tests.helpers.zookeeper import TICK_MS, ZooKeeperServer, running_zookeeper, zookeeper

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]

SESSION_SECONDS = 2.0
WAIT_SECONDS = 60.0

_paths = itertools.count(1)


@dataclass
class Heard:
    """Implements `ElectorEvents`."""

    joined: Joined | None = None
    leader: tuple[int, str] = (0, "")
    granted: int = 0
    members: Mapping[str, str] = field(default_factory=dict)
    suspended: int = 0
    resumed: int = 0
    lost: list[str] = field(default_factory=list)
    unusable: str = ""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def on_joined(self, joined: Joined) -> None:
        self.joined = joined
        self.changed.set()

    def on_leader(self, epoch: int, node_id: str, address: str) -> None:
        assert address == f"{node_id}:1"
        self.leader = (epoch, node_id)
        self.changed.set()

    def on_granted(self, epoch: int, members: Mapping[str, str]) -> None:
        self.granted, self.members = epoch, members
        self.changed.set()

    def on_members(self, members: Mapping[str, str]) -> None:
        self.members = members
        self.changed.set()

    def on_suspended(self) -> None:
        self.suspended += 1
        self.changed.set()

    def on_resumed(self) -> None:
        self.resumed += 1
        self.changed.set()

    def on_lost(self, why: str) -> None:
        self.lost.append(why)
        self.changed.set()

    def on_unusable(self, why: str) -> None:
        self.unusable = why
        self.changed.set()

    async def until(self, is_so: Callable[["Heard"], object]) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while not is_so(self):
                self.changed.clear()
                await self.changed.wait()


def settings(server: ZooKeeperServer, path: str, node_id: str, **others: object) -> ZooKeeperSettings:
    made = ZooKeeperSettings(server.address, path, SESSION_SECONDS, 3, node_id)
    return replace(made, **others)  # type: ignore[arg-type]


def standing(node_id: str, end: tuple[int, int] = (0, 0), **others: object) -> Standing:
    made = Standing(node_id, f"disk of {node_id}", f"{node_id}:1", LogEnd(*end), 0, True, 1)
    return replace(made, **others)  # type: ignore[arg-type]


class Group:
    """Electors of one group."""

    def __init__(self, server: ZooKeeperServer, stack: AsyncExitStack, path: str = "") -> None:
        self.server = server
        number = next(_paths)
        self.path = path or f"/tests-{number}/group-{number}"
        self._stack = stack

    async def start(self, node_id: str, **others: object) -> tuple[ZooKeeperElector, Heard]:
        """A node that is connected, and has said nothing of itself."""
        heard = Heard()
        elector = ZooKeeperElector(settings(self.server, self.path, node_id, **others), heard, heard.on_unusable)
        self._stack.push_async_callback(elector.close)
        await elector.start()
        return elector, heard

    async def join(
        self, node_id: str, end: tuple[int, int] = (0, 0), **others: object
    ) -> tuple[ZooKeeperElector, Heard]:
        elector, heard = await self.start(node_id)
        elector.announce(standing(node_id, end, **others))
        await heard.until(lambda it: it.joined)
        return elector, heard


def run(test: Callable[[Group], Awaitable[None]], server: ZooKeeperServer | None = None, path: str = "") -> None:
    async def wrapped() -> None:
        async with AsyncExitStack() as stack:
            await test(Group(server or zookeeper(), stack, path))

    asyncio.run(wrapped())


def test_L2_a_quorum_grants_mastership_to_the_best_log_and_tells_the_others() -> None:
    async def test(group: Group) -> None:
        _, a = await group.join("a", (1, 7))
        assert a.granted == 0
        _, b = await group.join("b", (1, 5))
        await a.until(lambda it: it.granted)
        await b.until(lambda it: it.leader == (1, "a"))
        assert a.members == {"a": "disk of a", "b": "disk of b"}
        _, c = await group.join("c", (9, 9))
        await c.until(lambda it: it.leader == (1, "a"))
        assert c.joined is not None
        assert (c.joined.epoch, c.joined.is_member) == (1, False)  # its disk may be new: the master admits it

    run(test)


def test_L2_the_epoch_grows_with_each_grant_and_beyond_every_promise() -> None:
    async def test(group: Group) -> None:
        first, a = await group.join("a", (1, 7))
        second, b = await group.join("b", (1, 5))
        await a.until(lambda it: it.granted)
        _, c = await group.join("c", (1, 7), promised_epoch=40)
        done: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        first.admit("c", "disk of c", a.granted, done.set_result)
        assert await done is None
        await a.until(lambda it: it.members.get("c") == "disk of c")
        await first.close()
        await c.until(lambda it: it.granted)
        assert c.granted == 41
        await b.until(lambda it: it.leader == (41, "c"))
        again: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        second.admit("d", "disk of d", 1, again.set_result)
        assert "epoch 41 was granted after 1" in str(await again)

    run(test)


def test_L2_one_who_resigns_names_a_better_node() -> None:
    async def test(group: Group) -> None:
        first, a = await group.join("a", (1, 7))
        _, b = await group.join("b", (1, 5))
        await a.until(lambda it: it.granted == 1)
        first.resign("b has more", better="b")
        await b.until(lambda it: it.granted == 2)
        await a.until(lambda it: it.leader == (2, "b"))

    run(test)


def test_L2_a_node_that_is_started_again_is_granted_before_its_old_session_is_over() -> None:
    async def test(group: Group) -> None:
        _, a = await group.join("a", (1, 7))
        _, b = await group.join("b", (1, 5))
        await a.until(lambda it: it.granted == 1)
        _, again = await group.join("a", (1, 7))
        await again.until(lambda it: it.granted == 2)
        await b.until(lambda it: it.leader == (2, "a"))
        await a.until(lambda it: it.unusable)  # it was not dead at all
        assert "another process is node a" in a.unusable

    run(test)


def test_L2_a_session_that_is_lost_ends_the_grant_and_another_begins() -> None:
    async def test(group: Group) -> None:
        elector, a = await group.join("a", (1, 7))
        _, b = await group.join("b", (1, 5))
        await a.until(lambda it: it.granted == 1)
        a.joined = None
        group.server.pause()
        try:
            await a.until(lambda it: it.suspended)
            held = elector.holds_until()
            await asyncio.sleep(0)
            assert elector.holds_until() == held
        finally:
            group.server.kill()
            await asyncio.to_thread(group.server.start)
        await a.until(lambda it: it.resumed or (it.lost and it.joined))
        await a.until(lambda it: it.granted or it.leader[0])
        await b.until(lambda it: it.granted or it.leader[0])

    with running_zookeeper() as server:
        run(test, server)


def test_L2_a_master_relies_on_the_session_that_zookeeper_has_given_and_not_on_a_longer_one_that_it_asked_for() -> None:
    given_seconds = 20 * TICK_MS / 1000

    async def test(group: Group) -> None:
        elector, heard = await group.start("a", session_seconds=1.6 * given_seconds)
        elector.announce(standing("a"))
        await heard.until(lambda it: it.joined)
        async with asyncio.timeout(WAIT_SECONDS):
            while elector.holds_until() == float("-inf"):
                await asyncio.sleep(0.05)
        assert elector.holds_until() < time.monotonic() + 0.8 * given_seconds

    run(test)


def test_L2_a_master_whose_loop_hangs_is_replaced_and_hears_of_it_first() -> None:
    """Its session lasts: kazoo's threads go on."""
    joined, granted, over = threading.Event(), threading.Event(), threading.Event()

    async def other(group: Group) -> None:
        _, b = await group.join("b", (1, 5))
        joined.set()
        await b.until(lambda it: it.granted == 2)
        granted.set()
        await asyncio.to_thread(over.wait, WAIT_SECONDS)

    async def test(group: Group) -> None:
        master, a = await group.start("a", hang_seconds=1.0)
        path = group.path
        process = threading.Thread(target=run, args=(other, zookeeper(), path))
        process.start()
        try:
            await asyncio.to_thread(joined.wait, WAIT_SECONDS)
            master.announce(standing("a", (1, 7)))
            await a.until(lambda it: it.granted == 1)
            assert granted.wait(WAIT_SECONDS)  # nothing of this loop runs meanwhile
            assert a.lost == []
            await a.until(lambda it: it.lost)
            assert a.lost == ["its loop has hung for 1 s"]
            await a.until(lambda it: it.leader == (2, "b"))
        finally:
            over.set()
            await asyncio.to_thread(process.join, WAIT_SECONDS)

    run(test)


def test_L2_a_node_that_was_killed_and_has_a_new_disk_waits_for_the_end_of_its_old_session() -> None:
    async def test(group: Group) -> None:
        elector, old = await group.join("a")
        new_elector, new = await group.start("a")
        new_elector.announce(standing("a", disk_id="another disk"))
        other, b = await group.start("b")
        other.announce(standing("b"))
        await b.until(lambda it: it.joined)  # what is asked is done in order
        await elector.close()  # its entry goes
        assert old.joined
        await new.until(lambda it: it.joined or it.unusable)
        assert new.unusable == ""

    run(test)


# ---- mistakes ------------------------------------------------------------------------------------------------------


async def refused(group: Group, **others: object) -> str:
    with pytest.raises(ConfigError) as error:
        await group.start("x", **others)
    return str(error.value)


def test_a_group_of_another_size_is_refused() -> None:
    async def test(group: Group) -> None:
        await group.start("a")
        said = await refused(group, replicas=5)
        assert "has replication.replicas = 3, and this node has 5; all nodes must say the same" in said

    run(test)


def test_a_zookeeper_that_cannot_be_reached_is_named() -> None:
    async def test(group: Group) -> None:
        hosts = f"127.0.0.1:{free_port()}"
        said = await refused(group, hosts=hosts, connect_seconds=0.5)
        assert said == (
            f"ZooKeeper at {hosts} cannot be reached: nothing has answered for 0.5 s; check replication.zk_address"
        )

    run(test)


def test_a_path_that_cannot_be_written_to_is_named() -> None:
    async def test(group: Group) -> None:
        await group.start("a", password="right")
        assert "does not let this node write to" in await refused(group)
        assert "check replication.zk_password_file" in await refused(group, password="wrong")
        await group.start("b", password="right")
        group.path = f"{group.path.rpartition('/')[0]}/beside-{next(_paths)}"
        await group.start("a", password="another")

    run(test)


def test_a_path_with_something_else_in_it_is_refused() -> None:
    async def test(group: Group) -> None:
        client = KazooClient(hosts=group.server.address)
        await asyncio.to_thread(client.start)
        await asyncio.to_thread(client.create, f"{group.path}/group", b"what is this", makepath=True)
        await asyncio.to_thread(client.stop)
        await asyncio.to_thread(client.close)
        assert f"has no entry of Ackwire at {group.path}/group" in await refused(group)

    run(test)


def test_two_processes_with_one_node_id_are_refused() -> None:
    async def test(group: Group) -> None:
        await group.join("a")
        other, heard = await group.start("a")
        other.announce(standing("a", disk_id="another disk"))
        await heard.until(lambda it: it.unusable)
        assert "another process is node a of the group" in heard.unusable

    run(test)


def test_a_fourth_node_is_refused_by_a_group_of_three() -> None:
    async def test(group: Group) -> None:
        for name in "abc":
            elector, _ = await group.start(name)
            elector.announce(standing(name, may_vote=False))
        await asyncio.sleep(0)
        fourth, heard = await group.start("d")
        for _ in range(3):
            fourth.announce(standing("d", may_vote=False))
        await heard.until(lambda it: it.unusable or it.joined)
        if heard.joined:  # it was quicker than one of the others, which is then the fourth
            return
        assert "has its 3 nodes (a, b, c), and d is none of them" in heard.unusable

    run(test)

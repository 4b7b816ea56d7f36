"""The kinds of fault. Each function strikes a group under load; `Group.restore` undoes it.

A fault leaves the clients' connections alone, except that clients give up on a master that has gone silent.
"""

import random
import time
from collections.abc import Callable
from typing import Final

from tests.cluster.faults.group import KEEPERS, SESSION_SECONDS, Broker, Group

_DISK_FULL_BYTES: Final = 0
Strike = Callable[[Group, random.Random], str]
"""Does harm, and says to whom."""


def _others(group: Group, broker: Broker) -> list[str]:
    return [name for name in group.brokers if name != broker.name]


def kill_master(group: Group, rng: random.Random) -> str:  # noqa: ARG001
    master = group.master()
    master.kill()
    return master.name


def kill_slave(group: Group, rng: random.Random) -> str:
    slave = rng.choice(group.slaves())
    slave.kill()
    return slave.name


def kill_all(group: Group, rng: random.Random) -> str:
    names = list(group.brokers)
    rng.shuffle(names)
    for name in names:
        group.brokers[name].kill()
    return ", ".join(names)


def pause_master(group: Group, rng: random.Random) -> str:
    """It wakes up after its session has ended, and another one is master."""
    master = group.master()
    master.pause()
    time.sleep(SESSION_SECONDS * rng.uniform(0.3, 2.0))
    return master.name


def pause_slave(group: Group, rng: random.Random) -> str:
    slave = rng.choice(group.slaves())
    slave.pause()
    return slave.name


def isolate_master(group: Group, rng: random.Random) -> str:  # noqa: ARG001
    """Nothing passes between it and all other hosts but its clients'."""
    master = group.master()
    master.is_cut_off = True
    group.network.part([master.name], [*_others(group, master), *KEEPERS])
    return master.name


def part_master_from_slaves(group: Group, rng: random.Random) -> str:  # noqa: ARG001
    """It keeps its session, and has no quorum."""
    master = group.master()
    group.network.part([master.name], _others(group, master))
    return master.name


def mute_master(group: Group, rng: random.Random) -> str:  # noqa: ARG001
    """It hears the slaves, which do not hear it."""
    master = group.master()
    for name in _others(group, master):
        group.network.cut(master.name, name)
    return master.name


def deafen_master(group: Group, rng: random.Random) -> str:  # noqa: ARG001
    """The slaves hear it; it does not hear them."""
    master = group.master()
    for name in _others(group, master):
        group.network.cut(name, master.name)
    return master.name


def part_master_from_keepers(group: Group, rng: random.Random) -> str:  # noqa: ARG001
    """It has its quorum, and loses its session."""
    master = group.master()
    master.is_cut_off = True
    group.network.part([master.name], KEEPERS)
    return master.name


def isolate_slave(group: Group, rng: random.Random) -> str:
    slave = rng.choice(group.slaves())
    group.network.part([slave.name], [*_others(group, slave), *KEEPERS])
    return slave.name


def kill_leading_keeper(group: Group, rng: random.Random) -> str:
    keeper = next((it for it in group.keepers.values() if it.is_leader), rng.choice(list(group.keepers.values())))
    keeper.kill()
    return keeper.name


def wipe_slave(group: Group, rng: random.Random) -> str:
    """Its disk is replaced by an empty one."""
    slave = rng.choice(group.slaves())
    slave.kill()
    slave.wipe()
    slave.start()
    return slave.name


def fill_disk_of_master(group: Group, rng: random.Random) -> str:  # noqa: ARG001
    master = group.master()
    master.fill_disk()
    return master.name


def fill_disk_of_slave(group: Group, rng: random.Random) -> str:
    slave = rng.choice(group.slaves())
    slave.fill_disk()
    return slave.name


def hand_over(group: Group, rng: random.Random) -> str:
    """An operator asks for it: `ackwire cluster transfer`."""
    slave = rng.choice(group.slaves())
    group.transfer_to(slave)
    return slave.name


KINDS: Final[dict[str, Strike]] = {
    strike.__name__: strike
    for strike in (
        kill_master,
        kill_slave,
        kill_all,
        pause_master,
        pause_slave,
        isolate_master,
        part_master_from_slaves,
        mute_master,
        deafen_master,
        part_master_from_keepers,
        isolate_slave,
        kill_leading_keeper,
        wipe_slave,
        fill_disk_of_master,
        fill_disk_of_slave,
        hand_over,
    )
}

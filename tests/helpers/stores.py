"""Every store that the contract suite and the store model run on, behind one handle."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from random import Random

from ackwire.store.contract import Store
from ackwire.store.memory import MemoryStore
from tests.helpers.background import ControlledBackground
from tests.helpers.simulated_disk import Call, SimulatedDisk
from tests.helpers.toy_store import Mistake, Recorded, ToyStore


class Crash(Enum):
    """How a run of a store ends when nobody closes it."""

    POWER_CUT = "power cut"
    REORDERED_POWER_CUT = "power cut, with unsynced sectors written in any order"
    PROCESS_KILL = "process kill"


class StoreFactory(ABC):
    """One store through its lives. Only the last store that was opened is in use."""

    is_durable: bool
    """Whether it keeps its promises beyond the process, and has a disk that can break."""

    @abstractmethod
    def open(self) -> Store:
        """Begin where the last life ended, with nothing at first."""

    @abstractmethod
    def close(self) -> None:
        """End it well."""

    @abstractmethod
    def stop(self, crash: Crash) -> None:
        """End it badly."""

    @abstractmethod
    def settle(self) -> None:
        """Let the background and the loop do all that waits."""

    @abstractmethod
    def break_disk(self) -> None:
        """From now on nothing can be written or synced."""

    def dispose(self) -> None:
        """Let go of what outlives the test: sessions of a database."""
        return

    def is_fatal(self, call: Call) -> bool:  # noqa: ARG002 - see `JournalSqlFactory`
        """Whether the store may not go on when a write or sync like *call* fails."""
        return True

    def step(self) -> None:
        """Let the background do one step of what waits, if it is under control."""
        self.settle()

    @property
    def disk(self) -> SimulatedDisk | None:
        """The disk it is on, if that is simulated."""
        return None

    def reopen(self) -> Store:
        """A clean stop and a new start."""
        self.close()
        return self.open()

    def crash(self, crash: Crash = Crash.POWER_CUT) -> Store:
        """A crash and a new start."""
        self.stop(crash)
        return self.open()


class MemoryFactory(StoreFactory):
    """A memory store lives as long as the process; a restart within it finds what was there (K6)."""

    is_durable = False

    def __init__(self) -> None:
        self._store = MemoryStore()

    def open(self) -> Store:
        return self._store

    def close(self) -> None:
        """Not the store: a restarted broker in the same process goes on with it."""

    def stop(self, crash: Crash) -> None:  # noqa: ARG002 - they are all the same to it
        self._store = MemoryStore()

    def settle(self) -> None:
        """Nothing ever waits."""

    def break_disk(self) -> None:
        raise NotImplementedError


class SimulatedFactory(StoreFactory):
    """A store on a simulated disk, with a background under control. *make* opens it."""

    is_durable = True

    def __init__(
        self,
        make: Callable[[SimulatedDisk, ControlledBackground], Store],
        *,
        disk: SimulatedDisk | None = None,
        background: ControlledBackground | None = None,
    ) -> None:
        self._make = make
        self._disk = disk or SimulatedDisk()
        self.background = background or ControlledBackground()
        self._store: Store | None = None

    @property
    def disk(self) -> SimulatedDisk:
        return self._disk

    def open(self) -> Store:
        self._store = self._make(self._disk, self.background)
        return self._store

    def close(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()
        assert not self._disk.open_paths, f"still open after close: {self._disk.open_paths}"
        assert not self._disk.locked_paths, f"still locked after close: {self._disk.locked_paths}"

    def stop(self, crash: Crash) -> None:
        self._store = None
        self.background.drop()
        match crash:
            case Crash.POWER_CUT:
                self._disk.power_cut()
            case Crash.REORDERED_POWER_CUT:
                self._disk.power_cut(reordered=True)
            case Crash.PROCESS_KILL:
                self._disk.process_kill()

    def settle(self) -> None:
        self.background.run_all()

    def step(self) -> None:
        self.background.step()

    def break_disk(self) -> None:
        self._disk.break_down()


def toy_factory(mistake: Mistake | None = None, *, seed: int = 0) -> SimulatedFactory:
    """The toy store; without a mistake it keeps the contract."""
    shelf: list[Recorded] = []
    return SimulatedFactory(
        lambda disk, background: ToyStore(disk, background, shelf, mistake),
        disk=SimulatedDisk(seed),
        background=ControlledBackground(Random(seed)),
    )

"""A memory store that behaves as one on disk: it keeps bytes, and what is loaded is a new message every time."""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from random import Random

from ackwire.jms.message import Message
from ackwire.store.contract import OnLoaded, Place
from ackwire.store.memory import MemoryStore
from ackwire.util.clock import Clock


class PagingStore(MemoryStore):
    """`load` makes messages of their bytes, by *restored* (`MessageEditor.restored`)."""

    pages = True

    def __init__(self, restored: Callable[[bytes], Message]) -> None:
        super().__init__()
        self._restored = restored
        self._room_callbacks: list[Callable[[], None]] = []
        self._full: str | None = None
        self.loads = 0
        """How often it was asked."""
        self.loaded = 0
        """How many messages it has made."""
        self.unreadable: set[int] = set()
        """Sequences that it cannot read."""
        self.purges = 0

    def load(self, place: Place, sequences: Sequence[int]) -> list[Message | None]:
        self.loads += 1
        self.loaded += len(sequences)
        kept = self._places.get(place, {})
        return [
            self._restored(kept[sequence].frame) if sequence in kept and sequence not in self.unreadable else None
            for sequence in sequences
        ]

    def purge(self, place: Place, last_sequence: int, kept: Collection[int]) -> None:
        self.purges += 1
        super().purge(place, last_sequence, kept)

    def full(self) -> str | None:  # type: ignore[override]
        return self._full

    def on_room(self, callback: Callable[[], None]) -> None:
        self._room_callbacks.append(callback)

    def set_full(self, reason: str | None) -> None:
        """Be full for *reason*, or have room again."""
        self._full = reason
        if reason is None:
            for callback in self._room_callbacks:
                callback()


class LateStore(PagingStore):
    """A store that answers a fetch after a while, in no certain order: *seed* decides."""

    def __init__(self, restored: Callable[[bytes], Message], clock: Clock, seed: int) -> None:
        super().__init__(restored)
        self._clock = clock
        self._random = Random(seed)

    def fetch(
        self,
        place: Place,
        sequences: Sequence[int],
        on_loaded: OnLoaded,
        on_failed: Callable[[], None] | None = None,
    ) -> None:
        del on_failed
        delay_seconds = self._random.choice((0.0, 0.0, 0.001, 0.1, 1.0))
        self._clock.call_later(delay_seconds, lambda: on_loaded(self.load(place, sequences)))


class HandStore(PagingStore):
    """A store whose fetches are answered by hand, the oldest first."""

    def __init__(self, restored: Callable[[bytes], Message]) -> None:
        super().__init__(restored)
        self.asked: deque[tuple[Place, list[int], OnLoaded]] = deque()
        self._on_failed: deque[Callable[[], None] | None] = deque()

    def fetch(
        self,
        place: Place,
        sequences: Sequence[int],
        on_loaded: OnLoaded,
        on_failed: Callable[[], None] | None = None,
    ) -> None:
        self.asked.append((place, list(sequences), on_loaded))
        self._on_failed.append(on_failed)

    def answer(self) -> list[int]:
        """Answer the oldest fetch with what is there now; the sequences that were asked for."""
        place, sequences, on_loaded = self.asked.popleft()
        self._on_failed.popleft()
        on_loaded(self.load(place, sequences))
        return sequences

    def fail(self) -> None:
        """Let the oldest fetch fail."""
        self.asked.popleft()
        on_failed = self._on_failed.popleft()
        assert on_failed is not None
        on_failed()

    def answer_all(self) -> None:
        """Answer until nothing is asked any more."""
        while self.asked:
            self.answer()


class FakeSpill:
    """A temp store in memory: `ackwire.store.contract.Spill`."""

    def __init__(self, bytes_max: int = 1 << 40) -> None:
        self.frames: dict[int, bytes] = {}
        self._bytes_max = bytes_max
        self._last_ticket = 0
        self._used_bytes = 0
        self.reads = 0

    def append(self, frame: bytes) -> int | None:
        if not self.has_room(len(frame)):
            return None
        self._last_ticket += 1
        self.frames[self._last_ticket] = frame
        self._used_bytes += len(frame)
        return self._last_ticket

    def read(self, ticket: int) -> bytes:
        self.reads += 1
        return self.frames[ticket]

    def free(self, ticket: int) -> None:
        self._used_bytes -= len(self.frames.pop(ticket))

    def has_room(self, size_bytes: int) -> bool:
        return self.used_bytes + size_bytes <= self._bytes_max

    @property
    def used_bytes(self) -> int:
        return self._used_bytes

    @property
    def bytes_max(self) -> int:
        return self._bytes_max

    def close(self) -> None:
        self.frames.clear()
        self._used_bytes = 0

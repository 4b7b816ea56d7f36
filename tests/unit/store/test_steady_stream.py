"""Records that never stop coming, and a disk that is slow: everything is answered, checkpoints end, nothing grows."""

from collections import deque
from collections.abc import Callable
from typing import final

import pytest

from ackwire.errors import StoreFailed
from ackwire.jms.message import Message
from ackwire.store.journal.journal_store import JournalStore
from ackwire.store.journal.options import JournalOptions, SyncPolicy
from ackwire.store.journal.pending_records import PendingRecord
from ackwire.util.clock import ManualClock, Timer
from ackwire.wire.openwire.stored import OpenWireStoredForm
from tests.helpers.journal import DATA
from tests.helpers.memory_index import IndexMedium, MemoryIndex
from tests.helpers.simulated_disk import SimulatedDisk
from tests.helpers.stored import Messages, Q

TURN = 1 / 1024  # sums of it are exact


class TurnClock(ManualClock):
    """Time goes on by turns of a loop: what is to be done without delay is done in the next one."""

    def call_later(self, delay_seconds: float, callback: Callable[[], None]) -> Timer:
        return super().call_later(max(delay_seconds, TURN), callback)


@final
class SlowThread:
    """Implements `Background`: each piece of work takes so many turns."""

    def __init__(self, turns: int) -> None:
        self._turns = turns
        self._left = 0
        self._work: deque[tuple[Callable[[], None], Callable[[Exception | None], None]]] = deque()

    def submit(self, work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        self._work.append((work, done))
        self._left = self._left or self._turns

    def turn(self) -> None:
        if self._work:
            self._left -= 1
            if self._left <= 0:
                self._do()

    def _do(self) -> None:
        work, done = self._work.popleft()
        work()
        self._left = self._turns
        done(None)

    def finish(self) -> None:
        while self._work:
            self._do()


class Stream:
    """A store on a slow disk, and what a loop does with it."""

    def __init__(self, *, sync_turns: int, index_turns: int = 5, sync: SyncPolicy = SyncPolicy.ALWAYS) -> None:
        self.clock = TurnClock()
        self.disk, self.medium = SimulatedDisk(0), IndexMedium()
        disk, medium = self.disk, self.medium
        self.writing, self.indexing = SlowThread(sync_turns), SlowThread(index_turns)
        self.failures: list[StoreFailed] = []
        self._turn_end: list[Callable[[], None]] = []
        self.store = JournalStore.open(
            disk,
            DATA,
            form=OpenWireStoredForm(),
            clock=self.clock,
            open_index=lambda fresh: MemoryIndex(disk, medium, fresh=fresh),
            options=JournalOptions(
                sync, 0.02, 1 << 20, free_bytes_min=0, checkpoint_seconds=0.1, checkpoint_bytes=30_000
            ),
            writing=self.writing,
            indexing=self.indexing,
            new_id=lambda: bytes(16),
            holder="a test",
            on_failed=self.failures.append,
            at_turn_end=self._at_turn_end,
        )
        self.writing.finish()
        self.indexing.finish()
        commit = self.store._commit
        commit._sync_seconds = 1.0  # the thread is to do all syncs
        self.checkpoints = 0
        self._after_checkpoint = self.store._checkpointing.on_done
        self.store._checkpointing.on_done = self._checkpoint_done
        self.written: list[list[PendingRecord]] = []
        """What each turn has written."""
        self._write, self.store._writer.write = self.store._writer.write, self._note  # type: ignore[method-assign]
        self._in_turn: list[PendingRecord] = []
        self.turns = 0
        self.messages = Messages()
        self.waiting = deque[Message]()
        """Messages that are not consumed."""
        self.messages_recorded: list[Message] = []
        self.unanswered: dict[int, int] = {}
        """By sequence: the turn in which it was sent."""
        self.waited_turns = 0
        """The longest that one sender had to."""

    def _at_turn_end(self, callback: Callable[[], None]) -> Timer:
        self._turn_end.append(callback)
        return self.clock.call_later(1e9, callback)

    def _checkpoint_done(self) -> None:
        self.checkpoints += 1
        if self._after_checkpoint is not None:
            self._after_checkpoint()

    def _note(self, records: list[PendingRecord]) -> None:
        self._in_turn += records
        self._write(records)

    def send(self, *, size_bytes: int = 10) -> Message:
        message = self.messages.make(text="x" * size_bytes)
        self.store.append(message, [Q])
        self.waiting.append(message)
        self.messages_recorded.append(message)
        self.unanswered[message.sequence] = self.turns
        self.store.when_durable(lambda: self._answered(message.sequence))
        return message

    def _answered(self, sequence: int) -> None:
        self.waited_turns = max(self.waited_turns, self.turns - self.unanswered.pop(sequence))

    def consume(self) -> None:
        self.store.remove(Q, self.waiting.popleft())

    def close(self) -> None:
        self.store.close()
        self._end_turn()
        assert not self.failures

    def _end_turn(self) -> None:
        due, self._turn_end = self._turn_end, []
        for callback in due:
            callback()

    def end_turn(self) -> None:
        self._end_turn()
        self.written.append(self._in_turn)
        self._in_turn = []
        self.turns += 1
        self.clock.advance(TURN)
        self.writing.turn()
        self.indexing.turn()


@pytest.mark.parametrize("sync", SyncPolicy)
@pytest.mark.parametrize("sync_turns", [1, 40])
@pytest.mark.parametrize("index_turns", [1, 150])
def test_everybody_is_answered_and_checkpoints_end(sync_turns: int, index_turns: int, sync: SyncPolicy) -> None:
    stream = Stream(sync_turns=sync_turns, index_turns=index_turns, sync=sync)
    most_waiting = most_writes = 0
    for _ in range(1500):
        for _ in range(3):
            stream.send()
        while len(stream.waiting) > 50:
            stream.consume()
        stream.end_turn()
        most_waiting = max(most_waiting, len(stream.store.buffer.records))
        most_writes = max(most_writes, len(stream.store._commit._writes))
    assert not stream.failures
    assert stream.checkpoints >= 1500 // (50 + 2 * (index_turns + 3 * sync_turns))
    assert stream.waited_turns <= 4 * sync_turns + 20
    assert most_waiting <= 3 * 3 * (sync_turns + 20)
    assert most_writes <= 3 * (sync_turns + 20)
    stream.close()
    assert not stream.unanswered


def test_senders_wait_for_an_index_that_is_far_behind() -> None:
    stream = Stream(sync_turns=1, index_turns=5000)
    stream.store._checkpointing.behind_max = 2000
    sent = 0
    while stream.store.full() is None and stream.turns < 4500:
        stream.send()
        sent += 1
        stream.end_turn()
    assert "behind" in str(stream.store.full())
    assert 2000 < sent < 4000
    while stream.checkpoints < 1:
        stream.end_turn()
    for _ in range(1100):  # a tick later
        stream.end_turn()
    assert stream.store.full() is None
    stream.close()

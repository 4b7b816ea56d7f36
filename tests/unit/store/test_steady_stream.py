"""Records that never stop coming, and a disk that is slow: everything is answered, checkpoints end, nothing grows."""

from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from itertools import pairwise
from typing import final

import pytest

from ackwire.errors import StoreFailed
from ackwire.jms.message import Message
from ackwire.store.journal.journal_store import JournalStore
from ackwire.store.journal.options import JournalOptions, SyncPolicy
from ackwire.store.journal.pending_records import PendingMessage, PendingRecord
from ackwire.store.journal.record import Flag
from ackwire.util.clock import ManualClock, Timer
from ackwire.wire.openwire.stored import OpenWireStoredForm
from tests.helpers.compilation import pure_only
from tests.helpers.journal import DATA, JournalFactory
from tests.helpers.memory_index import IndexMedium, MemoryIndex
from tests.helpers.simulated_disk import SimulatedDisk
from tests.helpers.stored import Messages, Q

pytestmark = pure_only  # it notes what a writer is given

TURN = 1 / 1024  # sums of it are exact
PORTION_RECORDS, PORTION_BYTES = 20, 20_000
PORTIONS_MAX = 8
"""How many times as much is written in a turn in which much more comes."""


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
        commit.portions.records, commit.portions.size_bytes = PORTION_RECORDS, PORTION_BYTES
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


@pytest.mark.parametrize("per_turn", [5, 30, 100, 300])
def test_senders_that_are_quicker_than_the_disk_leave_it_time(per_turn: int) -> None:
    """They send whenever they may: even so the buffer is written to its end, and all of them are answered."""
    stream = Stream(sync_turns=20)
    stream.store.buffer.full_above = stream.store.buffer.full_bytes = full_bytes = 1_000_000
    room: list[int] = []
    stream.store.on_room(lambda: room.append(stream.turns))
    sent = most_bytes = 0
    for _ in range(400):
        for _ in range(per_turn):
            if stream.store.full() is None:
                stream.send(size_bytes=2000)
                sent += 1
        while len(stream.waiting) > 2 * per_turn:
            stream.consume()
        most_bytes = max(most_bytes, stream.store.buffer.size_bytes)
        stream.end_turn()
    assert not stream.failures
    assert sent >= 400 * 5
    assert most_bytes <= full_bytes + 3000
    assert stream.waited_turns <= 200
    assert stream.checkpoints >= 3
    assert max(map(len, stream.written)) <= PORTIONS_MAX * PORTION_RECORDS + 3
    if room:
        assert all(later - earlier > 5 for earlier, later in pairwise(room)), "told once the buffer is empty"


# ---- portions ------------------------------------------------------------------------------------------------------


def held_up(messages: int, *, group: int = 1) -> tuple[Stream, list[Message]]:
    """A stream whose *messages*, in groups, wait behind a sync."""
    stream = Stream(sync_turns=50)
    stream.send()
    stream.end_turn()
    sent: list[Message] = []
    while len(sent) < messages:
        with stream.store.atomically() if group > 1 else nullcontext():
            sent += [stream.send() for _ in range(group)]
    stream.written.clear()
    return stream, sent


@pytest.mark.parametrize("group", [1, 7, 33])
def test_what_waits_behind_a_sync_is_written_in_portions_between_groups(group: int) -> None:
    stream, sent = held_up(500, group=group)
    while stream.unanswered:
        stream.end_turn()
    portions = [it for it in stream.written if it]
    assert len(portions) >= 10
    assert max(map(len, portions)) < PORTION_RECORDS + group
    sequences = [it.sequence for portion in portions for it in portion if isinstance(it, PendingMessage)]
    assert sequences == [it.sequence for it in sent]
    for portion in portions:
        assert not portion[0].flags & Flag.CONTINUES
        assert not portion[-1].flags & Flag.GOES_ON
    stream.close()


def test_many_bytes_are_a_portion_too() -> None:
    stream = Stream(sync_turns=50)
    stream.send()
    stream.end_turn()
    for _ in range(30):
        stream.send(size_bytes=PORTION_BYTES // 4)
    stream.written.clear()
    while stream.unanswered:
        stream.end_turn()
    assert max(map(len, stream.written)) == 4
    stream.close()


def test_waiters_and_marks_wait_for_the_last_portion_and_its_sync() -> None:
    stream = Stream(sync_turns=50)
    stream.send()
    stream.end_turn()
    durable: list[int] = []
    stream.store.observe_writes(lambda: len(stream.messages_recorded), durable.append)
    first = stream.messages_recorded[-1].sequence
    for _ in range(200):
        stream.send()
    on_medium = 0
    while stream.unanswered:
        if stream.store.buffer.records:
            assert not durable, "the mark is about records that are not written"
            assert len(stream.unanswered) >= 200
            assert stream.store.durability.durable_sequence <= first
        else:
            on_medium += 1
        stream.end_turn()
    assert on_medium >= 50, "a sync comes behind the last portion"
    assert durable == [201]
    stream.close()


def test_a_checkpoint_that_is_asked_for_between_portions_waits_for_the_last() -> None:
    stream, _ = held_up(300)
    stream.store.checkpoint()
    begun = stream.checkpoints
    stream.store.checkpoint()
    turns = 0
    while stream.store.buffer.records:
        assert stream.store._checkpointing._current is None
        stream.end_turn()
        turns += 1
    assert 10 <= turns < 50, "the sync that is under way does not hold it up"
    assert stream.store._checkpointing._current is not None
    while stream.checkpoints == begun or stream.unanswered:
        stream.end_turn()
    stream.close()


def test_a_message_consumed_between_portions_is_not_written_later() -> None:
    stream, sent = held_up(100)
    while not any(stream.written):
        stream.end_turn()
    left = len(stream.store.buffer.records)
    assert left >= PORTION_RECORDS
    for message in sent:
        stream.store.remove(Q, message)
    while stream.unanswered:
        stream.end_turn()
    written = [it for turn in stream.written for it in turn if isinstance(it, PendingMessage)]
    assert len(written) == len(sent) - left
    assert not stream.store.buffer.messages
    stream.close()
    assert not stream.failures


def test_a_store_that_is_closed_between_portions_writes_the_rest() -> None:
    stream, sent = held_up(100)
    while not any(stream.written):
        stream.end_turn()
    assert stream.store.buffer.records
    stream.close()
    assert not stream.unanswered
    again = JournalFactory()
    again._disk, again.medium = stream.disk, stream.medium
    assert {it.sequence for it in again.open().waiting(Q)} >= {it.sequence for it in sent}
    again.close()


def test_a_store_that_fails_between_portions_tells_all_who_wait() -> None:
    stream, _ = held_up(100)
    failed: list[StoreFailed] = []
    stream.store.when_durable(lambda: None, failed.append)
    while not any(stream.written):
        stream.end_turn()
    stream.disk.break_down()
    for _ in range(3):
        stream.end_turn()
    assert failed == [stream.store.failure]
    assert len(stream.unanswered) == 100
    stream.store.abandon()


# ---- those who wait -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_told_of_failure", [False, True])
def test_very_many_who_wait_for_a_sync_are_called_in_turns(is_told_of_failure: bool) -> None:
    stream, _ = held_up(1)
    store, called = stream.store, list[int]()
    store._commit.answers.per_turn = 30
    on_failed: Callable[[StoreFailed], None] | None = stream.failures.append if is_told_of_failure else None
    cancelled = [95, 400]
    callbacks = [partial(called.append, number) for number in range(500)]
    for callback in callbacks:
        store.when_durable(callback, on_failed)
    while not called:
        stream.end_turn()
    durability = store.durability
    assert durability.has_waiters
    for number in cancelled:
        assert store.cancel(callbacks[number])
    assert not store.cancel(callbacks[0]), "it was called"
    store.when_durable(partial(called.append, 500), on_failed)  # everything is durable: behind those who came before
    while len(called) < 499:
        before = len(called)
        stream.end_turn()
        assert 0 < len(called) - before <= 30
    assert called == [it for it in range(501) if it not in cancelled]
    assert not stream.store.durability.has_waiters
    store.when_durable(partial(called.append, 501), on_failed)
    assert called[-1] == 501, "now: none waits any more"
    stream.close()


def test_clients_that_wait_are_called_before_the_others() -> None:
    stream, _ = held_up(1)
    called: list[str] = []
    stream.store._commit.answers.per_turn = 30
    for _ in range(50):
        stream.store.when_durable(lambda: called.append("other"))
        stream.store.when_durable(lambda: called.append("client"), stream.failures.append)
    while len(called) < 100:
        stream.end_turn()
    assert called == ["client"] * 50 + ["other"] * 50
    stream.close()


def test_a_store_that_is_closed_calls_all_who_wait() -> None:
    stream, _ = held_up(1)
    called: list[int] = []
    stream.store._commit.answers.per_turn = 30
    for number in range(100):
        stream.store.when_durable(partial(called.append, number), stream.failures.append)
    while not called:
        stream.end_turn()
    assert len(called) < 100
    stream.close()
    assert called == list(range(100))
    assert not stream.unanswered


# ---- room ----------------------------------------------------------------------------------------------------------


def test_a_full_buffer_that_shrinks_before_it_is_written_tells_of_room() -> None:
    stream, room = Stream(sync_turns=50), list[str | None]()
    stream.store.buffer.full_above = stream.store.buffer.full_bytes = 100_000
    stream.store.on_room(lambda: room.append(stream.store.full()))
    stream.send()
    stream.end_turn()
    for _ in range(4):
        stream.send(size_bytes=40_000)
    assert "is slow" in str(stream.store.full())
    stream.store.remove(Q, stream.waiting.pop())
    stream.store.remove(Q, stream.waiting.pop())
    while stream.unanswered:
        stream.end_turn()
    stream.end_turn()
    assert room == [None]
    stream.close()


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

"""The seam for replication: with a quorum, what the local disk has is durable when enough other copies have it."""

from collections.abc import Callable

from ackwire.errors import StoreFailed
from ackwire.store.journal.group_commit import JournalEnd
from ackwire.store.journal.journal_store import JournalStore
from ackwire.store.journal.options import JournalOptions
from ackwire.util.clock import ManualClock
from ackwire.wire.openwire.stored import OpenWireStoredForm
from tests.helpers.background import ControlledBackground
from tests.helpers.journal import DATA
from tests.helpers.memory_index import IndexMedium, MemoryIndex
from tests.helpers.simulated_disk import SimulatedDisk
from tests.helpers.stored import Messages, Q


class Followers:
    """A `Quorum` that confirms when a test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[JournalEnd, Callable[[], None]]] = []

    def confirm(self, end: JournalEnd, confirmed: Callable[[], None]) -> None:
        self.asked.append((end, confirmed))

    def answer(self) -> None:
        """All copies have all that they were asked for."""
        asked, self.asked = self.asked, []
        for _, confirmed in asked:
            confirmed()


class Replicated:
    """A store with followers, whose syncs the loop does."""

    def __init__(self) -> None:
        self.followers = Followers()
        self.clock, self.disk = ManualClock(), SimulatedDisk(0)
        self.background = ControlledBackground()
        self.indexing = ControlledBackground()
        self.failures: list[StoreFailed] = []
        medium = IndexMedium()
        self.store = JournalStore.open(
            self.disk,
            DATA,
            form=OpenWireStoredForm(),
            clock=self.clock,
            open_index=lambda fresh: MemoryIndex(self.disk, medium, fresh=fresh),
            options=JournalOptions(segment_bytes=1 << 16, free_bytes_min=0, checkpoint_seconds=1e9),
            writing=self.background,
            indexing=self.indexing,
            new_id=lambda: bytes(16),
            holder="a test",
            on_failed=self.failures.append,
            quorum=self.followers,
        )
        for _ in ("the first record of the epoch", "the first checkpoint"):
            self.background.run_all()
            self.followers.answer()
        self.messages = Messages()
        self.answered: list[int] = []
        self.refused: list[int] = []

    def send(self, number: int) -> None:
        self.store.append(self.messages.make(), [Q])
        self.store.when_durable(lambda: self.answered.append(number), lambda _: self.refused.append(number))
        self.clock.advance(0)


def test_K1_no_sender_is_answered_before_the_quorum_confirms() -> None:
    play = Replicated()
    play.send(1)
    assert play.disk.calls[-1].operation in ("sync", "identity", "inodes"), "the local disk has it"
    assert (play.answered, play.store.durability.has_waiters) == ([], True)
    assert play.store.durability.durable_sequence == 0
    play.followers.answer()
    assert (play.answered, play.store.durability.has_waiters) == ([1], False)
    assert play.store.durability.durable_sequence == 1


def test_the_quorum_is_told_how_far_the_journal_goes() -> None:
    play = Replicated()
    play.send(1)
    play.send(2)
    first, second = (end for end, _ in play.followers.asked)
    assert first.epoch == second.epoch == 1
    assert first.number < second.number == play.store.journal.writer.last_number
    assert (second.segment, second.offset) == (play.store.journal.writer.segment, play.store.journal.writer.offset)


def test_one_confirmation_covers_all_that_came_before_it() -> None:
    play = Replicated()
    for number in (1, 2, 3):
        play.send(number)
    play.followers.asked[1][1]()
    assert play.answered == [1, 2]
    play.followers.asked[0][1]()
    assert play.answered == [1, 2]
    play.followers.asked[2][1]()
    assert play.answered == [1, 2, 3]


def test_one_who_asks_while_the_quorum_is_out_waits_for_it() -> None:
    play = Replicated()
    play.send(1)
    play.store.when_durable(lambda: play.answered.append(2))
    play.clock.advance(0)
    assert play.answered == []
    while play.followers.asked:
        play.followers.answer()
        play.background.run_all()
        play.clock.advance(0)
    assert play.answered == [1, 2]


def test_one_that_waits_for_the_quorum_can_be_cancelled() -> None:
    play = Replicated()
    play.store.append(play.messages.make(), [Q])
    callback = lambda: play.answered.append(1)  # noqa: E731 - the same object is cancelled
    play.store.when_durable(callback)
    play.clock.advance(0)
    assert play.store.cancel(callback)
    assert not play.store.durability.has_waiters
    play.followers.answer()
    assert play.answered == []


def test_K7_a_lost_quorum_is_told_to_all_who_wait_and_no_late_confirmation_answers_them() -> None:
    play = Replicated()
    play.send(1)
    play.store.fail("replicate", OSError("no quorum"))
    assert (play.answered, play.refused, len(play.failures)) == ([], [1], 1)
    play.followers.answer()
    assert play.answered == []


def test_the_index_waits_for_the_quorum_as_callers_do() -> None:
    play = Replicated()
    play.indexing.run_all()
    commits = count_commits(play)
    play.send(1)
    play.store.checkpoint()
    for _ in range(3):
        play.background.run_all()
        play.indexing.run_all()
        play.clock.advance(0)
    assert count_commits(play) == commits, "a position that is not confirmed may be truncated"
    play.followers.answer()
    play.indexing.run_all()
    assert count_commits(play) == commits + 1


def count_commits(play: Replicated) -> int:
    return sum(1 for call in play.disk.calls if call.operation == "commit")


def test_K1_while_the_quorum_is_silent_nothing_is_synced_and_asked_again() -> None:
    play = Replicated()
    play.send(1)
    syncs = [it.operation for it in play.disk.calls].count("sync")
    for _ in range(100):
        play.clock.advance(0.02)
        play.background.run_all()
    assert len(play.followers.asked) == 1
    assert [it.operation for it in play.disk.calls].count("sync") == syncs
    play.followers.answer()
    assert play.answered == [1]


def test_L2_a_frozen_store_writes_nothing_and_answers_nobody() -> None:
    play = Replicated()
    play.store.append(play.messages.make(), [Q])
    play.store.when_durable(lambda: play.answered.append(1), lambda _: play.refused.append(1))
    play.store.freeze()
    writes = [it.operation for it in play.disk.calls].count("write")
    for _ in range(10):
        play.clock.advance(0.02)
        play.background.run_all()
    assert [it.operation for it in play.disk.calls].count("write") == writes
    assert (play.answered, play.refused, play.failures) == ([], [], [])
    play.store.give_up(StoreFailed("another node is the master"))
    assert play.refused == [1]

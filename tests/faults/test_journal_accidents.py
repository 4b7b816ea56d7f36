"""One test for each way in which the journal store was once found wanting: crashes, compaction, restarts."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ackwire.errors import StoreFailed
from ackwire.jms.message import Message
from ackwire.store.blocks import BLOCK_MESSAGES, sealed, unsealed
from ackwire.store.contract import Place, Store
from ackwire.store.index import Table
from tests.helpers.journal import JournalFactory
from tests.helpers.simulated_disk import EIO, ENOSPC, Stopped
from tests.helpers.stored import D, E, Messages, Q, R, T, difference, durable, facts, kept
from tests.helpers.stores import Crash

SEGMENT_FILLED = 3000
"""Two messages of this size fill a segment of these tests, nearly."""


def segments(factory: JournalFactory) -> list[Path]:
    return [path for path in factory.disk.paths() if path.suffix == ".log"]


def promise(store: Store, factory: JournalFactory) -> None:
    promised: list[bool] = []
    store.when_durable(lambda: promised.append(True))
    factory.settle()
    assert promised


def append(store: Store, message: Message, *places: Place) -> Message:
    store.append(message, list(places))
    return message


def compact(store: Store, factory: JournalFactory, messages: Messages, victim: Path) -> None:
    """Have the journal go on in other segments, with nothing in them alive, until *victim* is given back."""
    for _ in range(8):
        message = append(store, messages.make(Q, "x" * SEGMENT_FILLED), Q)
        promise(store, factory)
        store.remove(Q, message)
    promise(store, factory)
    for _ in range(10):
        if not factory.disk.exists(victim):
            return
        factory.wait(1)
    raise AssertionError("no compaction")


# ---- what is removed before it was written ---------------------------------------------------------------------


@pytest.mark.parametrize("crash", Crash)
def test_message_replaced_in_one_place_can_be_removed_from_another_before_it_is_written(crash: Crash) -> None:
    """F3, A3: two durable subscriptions share it; one is to get it again later, the other has consumed it."""
    factory, messages = JournalFactory(), Messages()
    store = factory.open()
    store.add_durable(durable(D))
    store.add_durable(durable(E))
    message = append(store, messages.make(T), D, E)
    again = messages.replacement(message)
    with store.atomically():
        store.remove(E, message)
        store.append(again, [E])
    store.remove(D, message)
    promise(store, factory)
    found = kept(factory.crash(crash))
    assert found.messages == {E: [facts(again)]}


def test_count_does_not_go_back_when_what_is_purged_was_never_written() -> None:
    """J4."""
    factory, messages = JournalFactory(), Messages()
    store = factory.open()
    first = append(store, messages.make(Q), Q)
    promise(store, factory)
    second = append(store, messages.make(Q), Q)
    with store.atomically():
        store.remove(Q, first)
        store.append(messages.replacement(first), [Q])
    store.purge(Q, second.sequence, [])
    promise(store, factory)
    assert list(factory.crash().last_counts()) == [(second.origin.producer_key, 2)]


def test_group_that_never_happened_has_removed_nothing() -> None:
    """G2, J4: the producer has counted beyond the message, so it will not be sent again."""
    for seed in range(60):
        factory, messages = JournalFactory(2 * seed), Messages()
        store = factory.open()
        message = append(store, messages.make(Q), Q)
        later = append(store, messages.make(Q, "x" * 600), Q)
        with store.atomically():
            store.remove(Q, message)
            moved = append(store, messages.make(R, "x" * 600, producer="b"), R)
        store.when_durable(lambda: None)
        factory.disk.stop_at(2)
        with pytest.raises(Stopped):
            factory.settle()
        found = kept(factory.crash())
        there = {it.sequence for places in found.waiting.values() for it in places}
        if later.sequence in there:
            assert (message.sequence in there) != (moved.sequence in there), f"seed {seed}: {there}"


# ---- segments --------------------------------------------------------------------------------------------------


def test_group_over_two_segments_whose_first_half_was_lost_never_happened() -> None:
    """G2: also if segments between the two were cut off by an earlier start."""
    factory, messages = JournalFactory(), Messages()
    store = factory.open()
    append(store, messages.make(Q, "x" * 5000), Q)
    promise(store, factory)
    for _ in range(2):
        end = store._writer.offset  # type: ignore[attr-defined]
        with store.atomically():
            append(store, messages.make(R, "x" * 1000), R)
            append(store, messages.make(R, "x" * 5000), R)
        store.when_durable(lambda: None)
        factory.disk.stop_at(100)
        factory.clock.advance(0)
        factory.stop(Crash.PROCESS_KILL)
        # As a power cut may leave it: the second segment was written, the end of the first was not.
        first = factory.disk.contents(segments(factory)[0])
        factory.disk.overwrite(segments(factory)[0], end, bytes(len(first) - end))
        store = factory.open()
        assert set(kept(store).waiting) == {Q}


def test_crash_before_the_oldest_segment_is_deleted_leaves_no_segment_missing() -> None:
    """K2: those between it and the next one were removed on purpose, and the journal alone knows that."""
    factory, messages = JournalFactory(), Messages()
    store = factory.open()
    oldest = [append(store, messages.make(R, "x" * SEGMENT_FILLED), R) for _ in range(2)]
    promise(store, factory)
    compact(store, factory, messages, segments(factory)[0].with_name("0000000002.log"))
    factory.disk.fail("remove", times=1 << 60)
    for message in oldest:
        store.remove(R, message)
    promise(store, factory)
    factory.wait(10)
    factory.stop(Crash.PROCESS_KILL)
    numbers = [int(path.stem) for path in segments(factory)]
    assert numbers != list(range(numbers[0], numbers[-1] + 1)), "there is a gap"
    factory.lose_index()
    factory.open()
    assert factory.damages() == []


def test_start_that_cuts_off_segments_can_be_interrupted_anywhere() -> None:
    """G2: of several segments behind what was lost, none counts, whichever of them was removed first."""
    for nth in range(1, 40):
        factory, messages = JournalFactory(), Messages()
        store = factory.open()
        append(store, messages.make(Q, "x" * 5000), Q)
        promise(store, factory)
        end = store._writer.offset  # type: ignore[attr-defined]
        append(store, messages.make(R, "x" * 1000), R)
        for _ in range(3):
            append(store, messages.make(R, "x" * 5000), R)
        store.when_durable(lambda: None)
        factory.clock.advance(0)
        factory.stop(Crash.PROCESS_KILL)
        first = factory.disk.contents(segments(factory)[0])
        factory.disk.overwrite(segments(factory)[0], end, bytes(len(first) - end))
        factory.disk.stop_at(nth)
        try:
            factory.open()
        except Stopped:
            factory.stop(Crash.POWER_CUT)
            factory.open()
        assert factory.store is not None
        assert set(kept(factory.store).waiting) == {Q}, f"interrupted at call {nth}"


@pytest.mark.parametrize("seed", range(2))
def test_segments_that_are_full_are_closed(seed: int) -> None:
    """A file left open for each segment is one too many after a day."""
    factory, messages = JournalFactory(seed), Messages()
    store = factory.open()
    for _ in range(40):
        append(store, messages.make(Q, "x" * SEGMENT_FILLED), Q)
        promise(store, factory)
        factory.wait(1)
    assert len(segments(factory)) > 10
    assert len(factory.disk.open_paths) <= 3


def test_checkpoint_and_sync_of_one_segment_at_a_time_do_not_fail_the_store() -> None:
    """Both work with the same files, and one of them is done with a segment first."""
    for seed in range(1, 80, 2):
        factory, messages = JournalFactory(seed), Messages()
        store = factory.open()
        for _ in range(30):
            append(store, messages.make(Q, "x" * SEGMENT_FILLED), Q)
            store.when_durable(lambda: None)
            for _ in range(4):
                factory.step()
        assert factory.failures == [], f"seed {seed}"


@pytest.mark.parametrize("crash", Crash)
def test_first_start_can_be_interrupted_anywhere(crash: Crash) -> None:
    """There is nothing yet that could be lost."""
    for nth in range(1, 12):
        for seed in range(0, 20, 2):
            factory = JournalFactory(seed)
            factory.disk.stop_at(nth)
            try:
                factory.open()
                factory.settle()
            except Stopped:
                pass
            assert kept(factory.crash(crash)).waiting == {}


# ---- what is in the cache only ---------------------------------------------------------------------------------


def test_what_a_start_has_found_is_durable() -> None:
    """K1: a process was killed before it had synced; what the next one found outlives a power cut."""
    for seed in range(40):
        factory, messages = JournalFactory(seed), Messages()
        store = factory.open()
        for _ in range(5):
            append(store, messages.make(Q, "x" * SEGMENT_FILLED), Q)
        store.when_durable(lambda: None)
        factory.disk.stop_at(7)
        with pytest.raises(Stopped):
            factory.settle()
        found = kept(factory.crash(Crash.PROCESS_KILL))
        for crash in Crash:
            factory.wait(2)
            assert difference(kept(factory.crash(crash)), found) == "", f"seed {seed}, {crash}"


# ---- compaction ------------------------------------------------------------------------------------------------


def test_compaction_moves_both_records_of_a_message_that_was_replaced_in_one_place() -> None:
    """K2, F3."""
    factory, messages = JournalFactory(), Messages()
    store = factory.open()
    store.add_durable(durable(D))
    store.add_durable(durable(E))
    message = append(store, messages.make(T), D, E)
    again = messages.replacement(message)
    promise(store, factory)
    with store.atomically():
        store.remove(E, message)
        store.append(again, [E])
    promise(store, factory)
    first = segments(factory)[0]
    compact(store, factory, messages, first)
    store = factory.reopen()
    assert kept(store).messages == {D: [facts(message)], E: [facts(again)]}


def replaced_and_purged(store: Store, factory: JournalFactory, messages: Messages) -> Message:
    """A message of queue R that the index knows was replaced in its place, and what is older was purged."""
    older, message = append(store, messages.make(R), R), append(store, messages.make(R, "x" * 1000), R)
    promise(store, factory)
    factory.wait(3)
    again = messages.replacement(message)
    with store.atomically():
        store.remove(R, message)
        store.append(again, [R])
    promise(store, factory)
    store.purge(R, older.sequence, [])
    promise(store, factory)
    return again


def test_compaction_moves_a_message_that_was_replaced_before_a_purge() -> None:
    """K2, F3: it counts as alive."""
    factory, messages = JournalFactory(), Messages()
    store = factory.open()
    again = replaced_and_purged(store, factory, messages)
    first = segments(factory)[0]
    append(store, messages.make(Q), Q)  # so that there is something else in it that lives
    promise(store, factory)
    compact(store, factory, messages, first)
    assert [it and facts(it) for it in store.load(R, [again.sequence])] == [facts(again)]
    assert kept(factory.reopen()).messages[R] == [facts(again)]


def test_checkpoint_after_a_message_was_replaced_purged_around_and_consumed() -> None:
    """K2, F3: what a place holds of a segment is never less than nothing."""
    factory, messages = JournalFactory(), Messages()
    store = factory.open()
    again = replaced_and_purged(store, factory, messages)
    others = [append(store, messages.make(R), R).sequence for _ in range(2)]
    promise(store, factory)
    store.remove(R, again)
    promise(store, factory)
    factory.wait(3)
    assert [it.sequence for it in factory.reopen().waiting(R)] == others


def test_purge_that_compaction_writes_again_brings_nothing_back() -> None:
    """K2: what the older purge had kept, a younger one has taken."""
    factory, messages = JournalFactory(), Messages()
    store = factory.open()
    for _ in range(2):  # an older segment, which stays
        append(store, messages.make(R, "x" * SEGMENT_FILLED), R)
    made = [append(store, messages.make(Q, "x" * 1000), Q) for _ in range(3)]
    promise(store, factory)
    victim = segments(factory)[1]
    store.purge(Q, made[2].sequence, [made[0].sequence])
    promise(store, factory)
    append(store, messages.make(Q, "x" * 7000), R)
    promise(store, factory)
    factory.clock.advance(1)  # a checkpoint begins, and the index will know what is kept
    store.purge(Q, made[0].sequence, [])
    promise(store, factory)
    assert not factory.disk.exists(victim)
    assert Q not in kept(factory.crash()).waiting


def test_place_that_compaction_forgot_can_be_used_after_a_restart() -> None:
    """K2: ids of places are never used again, also if their own records are gone."""
    factory, messages = JournalFactory(), Messages()
    store = factory.open()
    append(store, messages.make(Q), Q)
    message = append(store, messages.make(R), R)
    promise(store, factory)
    store.remove(R, message)
    promise(store, factory)
    compact(store, factory, messages, segments(factory)[0])
    for _ in range(3):
        factory.stop(Crash.POWER_CUT)
        factory.lose_index()
        store = factory.open()
        message = append(store, messages.make(R), R)
        promise(store, factory)
        factory.stop(Crash.POWER_CUT)
        factory.lose_index()
        store = factory.open()
        assert message.sequence in [it.sequence for it in store.waiting(R)]


# ---- false alarms ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("crash", Crash)
def test_crash_after_compaction_is_no_damage(crash: Crash) -> None:
    """K2: the index is as good as before, and nothing is reported."""
    factory, messages = JournalFactory(), Messages()
    store = factory.open()
    kept_one = append(store, messages.make(Q), Q)
    promise(store, factory)
    first = segments(factory)[0]
    compact(store, factory, messages, first)
    store = factory.crash(crash)
    assert factory.damages() == []
    assert [it.sequence for it in store.waiting(Q)] == [kept_one.sequence]


def test_job_that_was_moved_by_compaction_is_no_damage() -> None:
    """I2, K2: its message is in a later record than one of its due times."""
    factory, messages = JournalFactory(), Messages()
    store = factory.open()
    job = messages.job()
    store.add_job(job)
    promise(store, factory)
    first = segments(factory)[0]
    filling = [append(store, messages.make(Q, "x" * 7600), Q)]
    later = replace(job, due_ms=5000)
    store.add_job(later)
    filling.append(append(store, messages.make(Q, "x" * 7600), Q))
    promise(store, factory)
    for message in filling:
        store.remove(Q, message)
    compact(store, factory, messages, first)
    factory.stop(Crash.POWER_CUT)
    factory.lose_index()
    store = factory.open()
    assert [it.due_ms for it in store.jobs()] == [5000]
    assert factory.damages() == []


def test_group_that_was_cut_off_is_no_damage_for_the_next_start() -> None:
    """K2: the numbers of its records are given again, or known to be free."""
    for seed in range(0, 40, 2):
        factory, messages = JournalFactory(seed), Messages()
        store = factory.open()
        with store.atomically():
            for _ in range(3):
                append(store, messages.make(Q, "x" * 700), Q)
        store.when_durable(lambda: None)
        factory.disk.stop_at(2)
        with pytest.raises(Stopped):
            factory.settle()
        factory.crash()
        factory.stop(Crash.POWER_CUT)
        factory.lose_index()
        factory.open()
        assert factory.damages() == [], f"seed {seed}"


# ---- faults ----------------------------------------------------------------------------------------------------


def test_disk_that_does_not_tell_its_free_space_stops_nothing() -> None:
    """B6: checkpoints go on, and no error comes out of a timer."""
    factory, messages = JournalFactory(), Messages()
    store = factory.open()
    factory.disk.fail("free_bytes", times=1000)
    append(store, messages.make(Q), Q)
    promise(store, factory)
    factory.wait(3)
    assert factory.medium.tables[Table.MESSAGES]


@pytest.mark.parametrize(
    ("error", "told", "remedy"),
    [
        (ENOSPC, "has failed: the disk is full: it could not write", "there is space"),
        (EIO, "has failed: it could not", ""),
    ],
)
def test_K7_a_producer_is_told_that_the_disk_is_full(error: int, told: str, remedy: str) -> None:
    factory, failed = JournalFactory(), list[StoreFailed]()
    store = factory.open()
    factory.disk.fail("write", times=1000, error=error)
    append(store, Messages().make(Q), Q)
    store.when_durable(lambda: None, failed.append)
    factory.settle()
    [failure] = failed
    assert told in str(failure)
    assert str(failure).endswith(remedy or "the disk is in order")


def test_segment_of_which_no_record_is_needed_goes_without_being_read() -> None:
    """Its messages have gone in their order, and nothing older is there that it could speak of."""
    factory, messages = JournalFactory(), Messages()
    store = factory.open()
    [oldest] = segments(factory)
    factory.disk.fail("read", times=1000)
    compact(store, factory, messages, oldest)
    assert not factory.failures


# ---- the index -------------------------------------------------------------------------------------------------


def test_K2_index_of_the_first_format_is_made_anew() -> None:
    """It had a row for each message, and did not say which format it is."""
    factory, messages = JournalFactory(), Messages()
    store = factory.open()
    made = [append(store, messages.make(Q), Q) for _ in range(3)]
    factory.close()
    [(key, data)] = factory.medium.tables[Table.META].items()
    position = json.loads(unsealed(key, data))
    del position["index_format"]
    factory.medium.tables[Table.META] = {key: sealed(key, json.dumps(position).encode())}
    found = kept(factory.open())
    assert found.messages == {Q: [facts(it) for it in made]}
    assert factory.damages() == ["the index is made anew: its format is 1, and this broker's is 2"]
    factory.close()
    assert kept(factory.open()) == found
    assert factory.damages() == []


def test_K2_checkpoint_does_not_put_its_seal_on_what_is_damaged() -> None:
    factory, messages = JournalFactory(), Messages()
    store = factory.open()
    made = [append(store, messages.make(Q), Q) for _ in range(3)]
    promise(store, factory)
    factory.wait(3)
    store.remove(Q, made[0])
    factory.medium.flip_bit(Table.MESSAGES, 0)
    factory.wait(3)
    assert [str(it) for it in factory.failures if "could not trust the index" in str(it)]
    found = kept(factory.crash(Crash.PROCESS_KILL))
    assert found.messages == {Q: [facts(it) for it in made[1:]]}


@pytest.mark.parametrize("is_late", [False, True])
def test_K2_purge_over_blocks_of_the_index_leaves_what_is_kept_and_what_came_later(is_late: bool) -> None:
    factory, messages = JournalFactory(), Messages()
    store = factory.open()
    made = [append(store, messages.make(Q), Q) for _ in range(5 * BLOCK_MESSAGES)]
    promise(store, factory)
    factory.wait(3)
    stay = [made[3], made[2 * BLOCK_MESSAGES], made[2 * BLOCK_MESSAGES + 1]]
    last = made[3 * BLOCK_MESSAGES + 7]
    if is_late:
        store.remove(Q, stay.pop(1))
    store.purge(Q, last.sequence, [it.sequence for it in stay])
    later = append(store, messages.make(Q), Q)
    promise(store, factory)
    factory.wait(3)
    left = [*stay, *made[3 * BLOCK_MESSAGES + 8 :], later]
    assert kept(factory.crash(Crash.PROCESS_KILL)).messages == {Q: [facts(it) for it in left]}
    assert factory.damages() == []

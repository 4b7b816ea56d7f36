"""How far a durable subscription is: the rows that the database would have tell the same as a plain set of messages."""

from hypothesis import given
from hypothesis import strategies as st

from ackwire.store.sql.progress import Progress
from ackwire.store.sql.sequence_set import SequenceSet

STEPS = st.lists(st.tuples(st.sampled_from(["take", "skip", "finish"]), st.integers(1, 30)), max_size=60)


class Rows:
    """`LAST_ACKED_ID` and `ACKWIRE_DONE`, as they follow from what a progress says has changed."""

    def __init__(self) -> None:
        self.ranges: dict[int, int] = {}

    def update(self, progress: Progress) -> None:
        for first, last in progress.changed_ranges.items():
            if last is None:
                self.ranges.pop(first, None)
            else:
                self.ranges[first] = last
        progress.changed_ranges = {}

    def pending(self, acked: int, topic: set[int]) -> set[int]:
        """What a start would find, of the messages that the topic has."""
        return {it for it in topic if it > acked and not any(a <= it <= b for a, b in self.ranges.items())}


@given(STEPS)
def test_K3_what_a_start_reads_is_what_is_pending(steps: list[tuple[str, int]]) -> None:
    """A3, K3: in any order, late messages included."""
    progress, rows, pending, topic = Progress(0, is_stored=True), Rows(), set[int](), set[int]()
    for verb, sequence in steps:
        if verb == "take" and sequence not in topic:
            topic.add(sequence)
            pending.add(sequence)
            progress.take(sequence)
        elif verb == "skip" and sequence not in topic:
            topic.add(sequence)
            progress.skip(sequence)
        elif verb == "finish":
            assert progress.finish(sequence) == (sequence in pending)
            pending.discard(sequence)
        rows.update(progress)
        assert set(progress.pending) == pending
        assert rows.pending(progress.acked, topic) == pending
        assert len(rows.ranges) <= len(pending), "there is at most one range behind each pending message"


@given(STEPS)
def test_K3_a_progress_that_was_read_goes_on_as_the_one_that_was_written(steps: list[tuple[str, int]]) -> None:
    half = len(steps) // 2
    progress, rows, topic = Progress(0, is_stored=True), Rows(), set[int]()

    def run(part: list[tuple[str, int]]) -> None:
        for verb, sequence in part:
            if verb != "finish":
                if sequence in topic:
                    continue
                topic.add(sequence)
            getattr(progress, verb)(sequence)
            rows.update(progress)

    run(steps[:half])
    expected, acked = set(progress.pending), progress.acked
    progress = Progress(acked, is_stored=True)
    for sequence in sorted(rows.pending(acked, topic)):
        progress.restore(sequence)
    for first, last in sorted(rows.ranges.items()):
        progress.restore_range(first, last)
    assert set(progress.pending) == expected
    run(steps[half:])
    assert rows.pending(progress.acked, topic) == set(progress.pending)


def test_messages_that_are_finished_in_order_leave_no_ranges() -> None:
    progress = Progress(0, is_stored=True)
    for sequence in range(1, 1001):
        progress.take(sequence)
    for sequence in range(1, 1001):
        assert progress.finish(sequence)
    assert (progress.acked, progress.changed_ranges) == (1000, {})


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 5000)), max_size=300))
def test_sequence_set_agrees_with_a_set(steps: list[tuple[bool, int]]) -> None:
    sequences, model = SequenceSet(), set[int]()
    for is_added, number in steps:
        if is_added:
            assert sequences.add(number) == (number not in model)
            model.add(number)
        else:
            assert sequences.remove(number) == (number in model)
            model.discard(number)
        assert (number in sequences) == (number in model)
        assert sequences.before(number) == max((it for it in model if it < number), default=None)
        assert sequences.after(number) == min((it for it in model if it > number), default=None)
    assert list(sequences) == sorted(model)
    assert (bool(sequences), len(sequences)) == (bool(model), len(model))


def test_large_sequence_set_is_split_and_stays_in_order() -> None:
    sequences = SequenceSet()
    for number in [*range(0, 10_000, 2), *range(1, 10_000, 2)]:
        sequences.add(number)
    assert list(sequences) == list(range(10_000))

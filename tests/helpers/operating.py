"""Carries out operations of `ackwire.broker.operations` in slices of the loop, as the broker does for operators."""

from collections.abc import Callable, Iterator

from ackwire.broker.fetching import Fetch, job_of
from ackwire.broker.operations import Counting
from ackwire.broker.queue import Queue
from ackwire.broker.slices import Slices
from ackwire.errors import BrokerError

_UNITS_PER_STEP = 16
"""What a step costs of a slice: a message is read, copied and recorded."""


def count_in_slices(
    slices: Slices, steps: Counting, on_done: Callable[[int], None], on_failed: Callable[[BrokerError], None]
) -> None:
    """Carry out *steps* a slice of the loop at a time, then report how many messages they concerned."""

    def steps_to_end() -> Iterator[Fetch | None]:
        try:
            count = yield from steps
        except BrokerError as error:
            on_failed(error)
        else:
            on_done(count)

    slices.start(job_of(steps_to_end(), slices, _UNITS_PER_STEP))


def purged(queue: Queue) -> int:
    """Purge *queue* without others in between; how many messages that were."""
    steps = queue.removal.purge()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return int(end.value)

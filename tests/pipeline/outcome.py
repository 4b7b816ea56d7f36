"""Whether a pipeline has kept its promise: each message at the far end exactly once, and nothing left on the way."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import ackwire
from tests.pipeline.job import MARK
from tests.pipeline.rig import FEEDER, SINK, SOURCE, Eyes, text_of

SHOWN_MAX = 10
RECEIVE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Arrived:
    """What was consumed from the sink."""

    numbers: list[int]
    broken: list[str]
    """Messages that are not what the pipeline makes of one."""


def consume_all(url: str) -> Arrived:
    """Take every message from the sink, as any client does."""
    arrived = Arrived([], [])
    with ackwire.connect(url) as connection, connection.session(transacted=True) as session:
        consumer = session.consumer(SINK)
        while (message := consumer.receive(RECEIVE_SECONDS)) is not None:
            _take(message, arrived)
            if len(arrived.numbers) % 1000 == 0:
                session.commit()
        session.commit()
    return arrived


def _take(message: ackwire.Message, arrived: Arrived) -> None:
    number = message.properties.get("number")
    is_right = isinstance(number, int) and message.body == MARK + text_of(number)
    if is_right and message.correlation_id == f"c-{number}":
        arrived.numbers.append(int(number))  # type: ignore[arg-type]
    else:
        arrived.broken.append(f"{message.body!r:.80} with number {number!r}")


def problems_of_numbers(numbers: Sequence[int], count: int) -> list[str]:
    """What is wrong if *numbers* should be 0 to *count* - 1, each once, in any order."""
    counts = Counter(numbers)
    found = []
    if missing := [number for number in range(count) if number not in counts]:
        found.append(f"{len(missing)} of {count} are lost: {_some(missing)}")
    if repeated := sorted(number for number, times in counts.items() if times > 1):
        found.append(f"{len(repeated)} came more than once: {_some(repeated)}")
    if strange := sorted(number for number in counts if not 0 <= number < count):
        found.append(f"{len(strange)} were never sent: {_some(strange)}")
    return found


def problems_of_what_is_left(eyes: Eyes, producer: str, count: int) -> list[str]:
    """What is wrong on the way: messages that are left, or a cursor that does not stand at the end."""
    found = []
    if left := eyes.messages_in(SOURCE):
        found.append(f"{left} messages are left on queue {SOURCE!r}")
    for name in (producer, FEEDER):
        if staged := eyes.sink(name).staged():
            found.append(f"messages of producer {name!r} are staged still, by batch: {staged}")
    cursor = eyes.cursor()
    if (cursor.committed, cursor.assigned) != (count, count):
        found.append(f"the cursor is at {cursor.committed} of {cursor.assigned}, and {count} were sent")
    return found


def _some(numbers: Iterable[int]) -> str:
    listed = list(numbers)
    return ", ".join(map(str, listed[:SHOWN_MAX])) + (" …" if len(listed) > SHOWN_MAX else "")

"""What the clients of `client_versus_stomp.py` are told to do, how it is measured, and how it is checked."""

import threading
import time
from dataclasses import dataclass
from typing import Final

BODY_BYTES: Final = 1024
NUMBER_DIGITS: Final = 8
PREFETCH: Final = 1000
"""The default of OpenWire clients, asked for with STOMP too."""
TIMEOUT_SECONDS: Final = 60.0

_FILLER: Final = "x" * (BODY_BYTES - NUMBER_DIGITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What to send, or what to receive."""

    do: str
    """`send` or `receive`."""
    queue: str
    count: int
    persistent: bool = False
    confirm: str = "last"
    """Of sent messages: `each` is waited for, `all` are confirmed but none is waited for, or only the `last`."""
    ack: str = "auto"
    """Or `individual`, or `ranges`: as auto, but one ack for many (jms.optimizeAcknowledge), which STOMP has not."""
    by: str = "listener"
    """Or `receive`, which stomp.py does not have."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What the work took."""

    seconds: float
    cpu_seconds: float
    """Of this process, all its threads."""


class Stopwatch:
    """From the moment it is made."""

    def __init__(self) -> None:
        self._cpu_started = time.process_time()
        self._started = time.perf_counter()

    def read(self) -> Measured:
        return Measured(time.perf_counter() - self._started, time.process_time() - self._cpu_started)


def text_of(number: int) -> str:
    return f"{number:0{NUMBER_DIGITS}d}{_FILLER}"


class Expectation:
    """The messages 1 to *count*, each once, in order, whole."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._seen = 0
        self._problem = ""
        self._done = threading.Event()

    def take(self, text: str | None) -> bool:
        """Whether this was the last."""
        self._seen = seen = self._seen + 1
        if text is None or len(text) != BODY_BYTES or int(text[:NUMBER_DIGITS]) != seen:
            self.fail(f"message {seen} is {text!r:.40}")
        if seen == self._count:
            self._done.set()
        return seen >= self._count

    def fail(self, problem: str) -> None:
        self._problem = self._problem or problem
        self._done.set()

    def wait(self) -> None:
        if not self._done.wait(TIMEOUT_SECONDS):
            raise AssertionError(f"{self._seen} messages of {self._count} after {TIMEOUT_SECONDS} s")
        self.check()

    def check(self) -> None:
        """Raises if anything was not as it should be."""
        if self._problem:
            raise AssertionError(self._problem)
        if self._seen != self._count:
            raise AssertionError(f"{self._seen} messages, and {self._count} were sent")

"""Ctrl-C, SIGTERM and SIGHUP (the terminal is gone), for work that must not be interrupted in the middle.

A signal must not interrupt the work between writing a message and acknowledging it. So a signal is only recorded, and
the work checks `pressed` at safe points; where it waits for input and nothing is under way, `raising` lets the signal
through as `KeyboardInterrupt`. A second Ctrl-C ends at once: what was not acknowledged is redelivered.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Final, Self

SAME_SIGNAL_SECONDS: Final = 0.25
"""Signals this close together are one: `timeout` and shells signal a process and then its whole group."""

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Use it in a `with`: the signals are as before afterwards."""

    def __init__(self) -> None:
        self.pressed = False
        self._pressed_at = 0.0
        self._is_raising = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            if number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue  # nohup
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    @contextmanager
    def raising(self) -> Iterator[None]:
        """While this waits, and does nothing else, a signal raises `KeyboardInterrupt`; also one that came before."""
        self._is_raising = True
        try:
            self.check()
            yield
        finally:
            self._is_raising = False

    def check(self) -> None:
        if self.pressed:
            raise KeyboardInterrupt

    def sleep(self, seconds: float) -> None:
        """Raises `KeyboardInterrupt` when a signal comes."""
        with self.raising():
            if seconds > 0:
                time.sleep(seconds)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        now = time.monotonic()
        if self.pressed:
            if now - self._pressed_at >= SAME_SIGNAL_SECONDS:
                print(f"ackwire: {signal.Signals(number).name} again: ending at once", file=sys.stderr, flush=True)
                os._exit(1)
            return
        self.pressed, self._pressed_at = True, now
        if self._is_raising:
            raise KeyboardInterrupt

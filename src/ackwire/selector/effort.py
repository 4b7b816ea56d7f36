"""How much work one selector may do on one message.

A selector has up to 64 Ki characters and a property may have millions, so a chain of LIKE could hold the event loop up
for seconds. Operations whose cost grows with a text charge their steps here; a step takes a nanosecond or less. When
the steps of one evaluation are used up, further charges are refused and the operation's result is unknown: the message
does not match. Short texts charge nothing. Steps are counted, not timed: the same message always has the same answer.
"""

import threading
from collections.abc import Callable
from typing import Any, Final

STEPS_MAX: Final = 4_000_000
"""For one message and one selector: up to 4 ms."""

FREE_STEPS: Final = 1024
"""An operation with fewer steps charges nothing."""


class _Account(threading.local):
    """One for each thread: brokers in one process (`vm:`) evaluate side by side."""

    left: int | None = None
    """None outside of an evaluation: then nothing is counted."""


_account: Final = _Account()


def charge(steps: int) -> bool:
    """Whether there is effort left for an operation of so many *steps*; then they are used up."""
    if steps <= FREE_STEPS or _account.left is None:
        return True
    _account.left -= steps
    return _account.left >= 0


def limited(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """*test* with a fresh account for each call."""

    def with_fresh_account(lookup: Any) -> bool:
        _account.left = STEPS_MAX
        try:
            return test(lookup)
        finally:
            _account.left = None

    return with_fresh_account

"""Work beside the loop: syncs and checkpoints block, so a thread does them.

A store hands over a piece of work and gets its outcome back where all its state lives: on the loop. Simulations decide
when that is, and tools wait for it on the spot.
"""

from collections.abc import Callable
from typing import Protocol, final


class Background(Protocol):
    """One thread's worth of work, carried out in order."""

    def submit(self, work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        """Run *work* elsewhere, then *done* on the loop, with what *work* raised."""
        ...

    def finish(self) -> None:
        """Return when all work is over and every *done* has run."""
        ...


@final
class OnTheSpot:
    """No background: the work is done when `submit` returns. For tools, and for tests that look at one step."""

    def submit(self, work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        try:
            work()
        except Exception as error:  # whatever it is, the store is to know
            done(error)
        else:
            done(None)

    def finish(self) -> None:
        """Nothing is ever left."""

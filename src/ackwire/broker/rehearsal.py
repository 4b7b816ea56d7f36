"""Rehearses a start: finds what a broker could not restore from a store, without starting one (SEMANTICS K2).

It runs the very code that a start runs (`restore.py`), on a store that records nothing, so it cannot judge
otherwise than a start would. No listener is opened, and no timer runs.
"""

from ackwire.broker.broker import Broker
from ackwire.broker.restore import describe
from ackwire.config import Settings
from ackwire.jms.message_editor import MessageEditor
from ackwire.store.contract import Kept, Store
from ackwire.util.clock import ManualClock


def rehearse(store: Store, editor: MessageEditor, now_ms: int) -> list[tuple[Kept, str]]:
    """What a start on *store* could not restore, each item with the reason."""
    broker = Broker(clock=ManualClock(now_ms), store=store, editor=editor, settings=Settings())
    failed: list[tuple[Kept, str]] = []

    def on_failed(kept: Kept, error: Exception) -> None:
        failed.append((kept, f"{describe(kept)} cannot be brought back: {type(error).__name__}: {error}"))

    broker.restoring.run(None, on_failed)
    return failed

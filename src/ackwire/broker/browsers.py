"""Queue browsers: show what is in queues without taking it (SEMANTICS A2)."""

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Final, final

from ackwire.broker.fetching import Fetch
from ackwire.broker.queue import Queue
from ackwire.broker.queue_view import Batch
from ackwire.broker.registry import Registry
from ackwire.broker.router import is_virtual_pattern
from ackwire.broker.session import Connection
from ackwire.broker.slices import Budget, Slices
from ackwire.broker.subscription import BrowserSubscription
from ackwire.broker.topic import Topic
from ackwire.jms.destinations import Destination, Kind
from ackwire.jms.message_editor import MessageEditor
from ackwire.selector import Selector

_MATCHED_AT_ONCE: Final = 8
"""Messages that a browser's selector is compared with before others may have their turn."""


@final
class Browsers:
    """Finds what browsers are to see, and shows it in slices."""

    def __init__(self, registry: Registry, editor: MessageEditor, slices: Slices) -> None:
        self._registry = registry
        self._editor = editor
        self._slices = slices

    def batches(
        self, connection: Connection, parts: tuple[Destination, ...], selector: Selector | None
    ) -> Iterator[Batch]:
        """The messages of *parts* that *selector* matches, in batches. Raises if one of them cannot be browsed."""
        snapshots = chain.from_iterable([self._of(part, connection) for part in parts])
        return self._matching(selector, snapshots)

    def _of(self, part: Destination, connection: Connection) -> Iterator[Batch]:
        """What is in a queue now, or in each queue that a pattern matches when its turn comes; in batches."""
        registry = self._registry
        if part.is_wildcard and part.kind is Kind.QUEUE and not is_virtual_pattern(part):
            return chain.from_iterable(map(_browse_found, registry.router.matching(part)))
        queue = registry.get_or_make(part, connection)
        return queue.view.browse() if isinstance(queue, Queue) else iter(())

    def _matching(self, selector: Selector | None, batches: Iterator[Batch]) -> Iterator[Batch]:
        """What *selector* matches, in small portions: it may be costly."""
        lookup = self._editor.lookup
        for batch in batches:
            if selector is None or isinstance(batch, Fetch):
                yield batch
                continue
            count = _MATCHED_AT_ONCE if selector.cost <= 1 else 1
            for start in range(0, len(batch), count):
                portion = batch[start : start + count]
                yield [message for message in portion if selector.matches(lookup(message))]

    def show(self, browser: BrowserSubscription) -> None:
        """Show *browser* more; a long search lets others have their turn in between, and a page-in as well."""
        if browser.is_continuing:
            return
        if browser.pump(self._slices.budget()):
            browser.is_continuing = True
            self._slices.start(partial(self._show_more, browser))
        else:
            self._show_when_arrived(browser)

    def _show_more(self, browser: BrowserSubscription, budget: Budget) -> bool:
        if browser.pump(budget):
            return True
        browser.is_continuing = False
        self._show_when_arrived(browser)  # this starts another job when they have
        return False

    def _show_when_arrived(self, browser: BrowserSubscription) -> None:
        """Go on when the messages that *browser* waits for have arrived, if it waits for some."""
        fetch = browser.take_fetch()
        if fetch is not None:
            browser.is_continuing = True
            fetch.when_arrived(partial(self._slices.start, partial(self._show_more, browser)))


def _browse_found(found: "tuple[Destination, Queue | Topic] | None") -> Iterator[Batch]:
    """What a browser of a pattern is shown of a destination; an empty batch for a look at others."""
    return found[1].view.browse() if found is not None and isinstance(found[1], Queue) else iter(([],))

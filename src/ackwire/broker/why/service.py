"""Questions that clients ask the broker by message: why is this message, producer, consumer, transaction stuck?

`ackwire.why.protocol` says what a question and its answer look like.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import final

from ackwire.broker.fetching import Fetch
from ackwire.broker.own_queues import ANSWER_CHARACTERS_MAX, Reply
from ackwire.broker.permissions import Action, Permissions, Principal
from ackwire.broker.why.broker_report import why_broker
from ackwire.broker.why.message_search import why_message
from ackwire.broker.why.reasons import (
    Steps,
    why_consumer,
    why_producer,
    why_queue,
    why_transaction,
)
from ackwire.broker.why.store_report import why_store
from ackwire.broker.why_view import BrokerView
from ackwire.errors import BrokerError, NotHere
from ackwire.jms.destinations import Kind, parse_destination
from ackwire.jms.types import Value
from ackwire.util.logs import escape
from ackwire.why.protocol import ANSWER, FOUND, NAME, SUBJECT, SUBJECTS


@final
class Questions:
    """Answers questions."""

    def __init__(self, view: BrokerView, permissions: Permissions) -> None:
        self._view = view
        self._permissions = permissions

    def answer(self, principal: Principal, properties: Mapping[str, Value], reply: Reply) -> Iterator[Fetch | None]:
        """Answer the question that *properties* are, in steps."""
        subject, name = str(properties.get(SUBJECT)), str(properties.get(NAME, ""))
        found, text = yield from self._text(principal, subject, name)
        reply({ANSWER: text, FOUND: found})

    def _text(self, principal: Principal, subject: str, name: str) -> Steps[tuple[bool, str]]:
        """Whether what is asked about exists, and the answer."""
        found = True
        try:
            self._permissions.permit(principal, Action.INSPECT)
            lines = yield from self._sentences(subject, name)
        except BrokerError as error:
            found = not isinstance(error, NotHere)
            lines = [str(error)]
        # Escaped one by one: a name that a client chose cannot end a line and add a sentence of its own.
        return found, "\n".join(map(escape, lines))[:ANSWER_CHARACTERS_MAX]

    def _sentences(self, subject: str, name: str) -> Steps[list[str]]:
        view = self._view
        in_steps: dict[str, Callable[[], Steps[list[str]]]] = {
            "queue": lambda: why_queue(view, parse_destination(name)),
            "topic": lambda: why_queue(view, parse_destination(name, default=Kind.TOPIC)),
            "message": lambda: why_message(view, name),
            "consumer": lambda: why_consumer(view, name),
            "file": lambda: why_store(view, name or None),
            "store": lambda: why_store(view, name or None),
        }
        at_once: dict[str, Callable[[], list[str]]] = {
            "producer": lambda: why_producer(view, name),
            "transaction": lambda: why_transaction(view, name or None),
            "broker": lambda: why_broker(view),
        }
        if subject in in_steps:
            return (yield from in_steps[subject]())
        if subject not in at_once:
            return [f"there is no subject {subject!r}; ask about one of: {', '.join(SUBJECTS)}"]
        return at_once[subject]() or ["no transaction is open"]

"""Questions that clients ask the broker by message: why is this message, producer, consumer, transaction stuck?

`ackwire.question` says what a question and its answer look like. The broker reads its queue of questions like any
consumer would, so asking costs the path of other messages nothing.
"""

import logging
from collections.abc import Callable, Generator, Iterator
from typing import Final, final

from ackwire.broker.acks import AckKind
from ackwire.broker.advisory import is_advisory
from ackwire.broker.connections import Connections
from ackwire.broker.consumption import Consumption
from ackwire.broker.publishing import Publisher
from ackwire.broker.queue import Queue
from ackwire.broker.reserved import is_reserved
from ackwire.broker.session import IMPLICIT_SESSION, Connection, Login
from ackwire.broker.slices import Budget, Job
from ackwire.broker.subscription import SubscriptionRequest
from ackwire.broker.view import BrokerView
from ackwire.broker.why import (
    SEARCHED_PER_STEP,
    search_message,
    why_consumer,
    why_file,
    why_producer,
    why_queue,
    why_transaction,
)
from ackwire.broker.why_broker import why_broker
from ackwire.destinations import Destination, Kind, parse_destination
from ackwire.errors import AckwireError, BrokerError, NotHere
from ackwire.logs import escape
from ackwire.message import Message
from ackwire.question import ANSWER, FOUND, NAME, QUESTIONS, SUBJECT, SUBJECTS

_ANSWER_CHARACTERS_MAX: Final = 60_000
"""An answer is one property."""

_PREFETCH: Final = 100

_log = logging.getLogger(__name__)


def _job(steps: Iterator[None]) -> Job:
    """*steps* in slices of the loop."""

    def work(budget: Budget) -> bool:
        return any(budget.spend(SEARCHED_PER_STEP) for _ in steps)

    return work


@final
class Questions:
    """The broker's own consumer of questions."""

    is_ready = True
    has_heard = False

    def __init__(
        self, view: BrokerView, connections: Connections, consumption: Consumption, publisher: Publisher
    ) -> None:
        self._view = view
        self._connections = connections
        self._consumption = consumption
        self._publisher = publisher
        self._consumer_id = f"{view.broker_id}:-1:1"
        self._connection: Connection | None = None

    def start(self) -> None:
        """Listen to questions from now on."""
        broker_id = self._view.broker_id
        self._connection = self._connections.connect(Login(broker_id, broker_id), self, is_broker=True)
        request = SubscriptionRequest(self._consumer_id, IMPLICIT_SESSION, QUESTIONS, _PREFETCH)
        self._consumption.subscribe(self._connection, request, self)

    # ---- what the broker asks of a client ----------------------------------------------------------------------

    def hold(self, held: bool) -> None:
        """It sends nothing that could wait."""

    def challenge(self, on_verdict: Callable[[bool], None]) -> None:
        """Its id is refused to clients, so this is never asked."""

    def close(self, reason: str) -> None:
        """Nobody has a reason."""

    def deliver(self, message: Message, group_first: bool) -> None:
        """Answer in turns of its own: the queue is in the middle of dispatching, and a search may be long."""
        del group_first
        self._view.slices.start(_job(self._answer(message)))

    def end_of_messages(self) -> None:
        """It never pulls."""

    def change_prefetch(self, prefetch: int) -> None:
        """Whatever it may hold is enough."""

    # ---- answering ---------------------------------------------------------------------------------------------

    def _answer(self, message: Message) -> Iterator[None]:
        try:
            yield from self._reply(message)
        except AckwireError as error:
            _log.warning("a question was not answered: %s", error)
        except Exception:
            _log.exception("a question could not be answered")
        assert self._connection is not None
        subscription = self._connection.subscriptions[self._consumer_id]
        self._consumption.acknowledge(subscription, AckKind.INDIVIDUAL, None, message.key, 1, None, None)

    def _reply(self, message: Message) -> Iterator[None]:
        editor = self._view.editor
        reply_to = editor.lookup(message)("JMSReplyTo")
        if not isinstance(reply_to, str) or self._view.flow.memory_is_full() is not None:
            return
        where = parse_destination(reply_to)
        if where.is_composite or is_reserved(where) or is_advisory(where):
            return  # an answer goes to the one who asked, and is no question
        properties = editor.properties(message)
        found, text = yield from self._text(str(properties.get(SUBJECT)), str(properties.get(NAME, "")))
        answer = editor.readdressed(message, where, properties={ANSWER: text, FOUND: found}, new_id=True)
        self._leave_out_of_audit(where)
        self._publisher.put(None, answer)

    def _leave_out_of_audit(self, where: Destination) -> None:
        """A temporary queue that was made for an answer is no place at which messages of users live."""
        queue = self._view.registry.router.get(where)
        if where.kind is Kind.TEMP_QUEUE and isinstance(queue, Queue) and not queue.enqueued:
            queue.audit = None

    def _text(self, subject: str, name: str) -> Generator[None, None, tuple[bool, str]]:
        """Whether what is asked about exists, and the answer."""
        found = True
        try:
            if subject == "message":
                lines = yield from search_message(self._view, name)
            else:
                lines = self._sentences(subject, name)
        except BrokerError as error:
            found = not isinstance(error, NotHere)
            lines = [str(error)]
        # Escaped one by one: a name that a client chose cannot end a line and add a sentence of its own.
        return found, "\n".join(map(escape, lines))[:_ANSWER_CHARACTERS_MAX]

    def _sentences(self, subject: str, name: str) -> list[str]:
        view = self._view
        answers: dict[str, Callable[[], list[str]]] = {
            "queue": lambda: why_queue(view, parse_destination(name)),
            "topic": lambda: why_queue(view, parse_destination(name, default=Kind.TOPIC)),
            "producer": lambda: why_producer(view, name),
            "consumer": lambda: why_consumer(view, name),
            "transaction": lambda: why_transaction(view, name or None),
            "file": lambda: why_file(view, name or None),
            "broker": lambda: why_broker(view),
        }
        if subject not in answers:
            return [f"there is no subject {subject!r}; ask about one of: {', '.join(SUBJECTS)}"]
        return answers[subject]() or ["no transaction is open"]

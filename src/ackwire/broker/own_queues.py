"""The queues that the broker itself reads: questions and operators' requests, each answered at its JMSReplyTo.

The broker reads them as a consumer, so sending and dispatch have no special case for them. Answers are made a slice of
the loop at a time.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias, final

from ackwire.broker.acknowledgement import Acknowledgement
from ackwire.broker.advisory import is_advisory
from ackwire.broker.connections import Connections
from ackwire.broker.fetching import Fetch, job_of
from ackwire.broker.in_flight import AckKind
from ackwire.broker.permissions import UNKNOWN, Principal
from ackwire.broker.publishing import Publisher
from ackwire.broker.queue import Queue
from ackwire.broker.reserved_names import is_reserved
from ackwire.broker.session import IMPLICIT_SESSION, Connection, Login, SubscriptionRequest
from ackwire.broker.subscriptions import Subscriptions
from ackwire.broker.why_view import BrokerView
from ackwire.errors import AckwireError
from ackwire.jms.destinations import Destination, Kind, parse_destination
from ackwire.jms.message import Message
from ackwire.jms.types import Value

ANSWER_CHARACTERS_MAX: Final = 60_000
"""An answer is one property."""

_PREFETCH: Final = 100
_UNITS_PER_STEP: Final = 64

Reply: TypeAlias = Callable[[Mapping[str, Value]], None]
"""Sends an answer with these properties."""
Answering: TypeAlias = Callable[[Principal, Mapping[str, Value], Reply], Iterator[Fetch | None]]
"""Answers a request of that principal with these properties, in steps."""

_log = logging.getLogger(__name__)


@final
class _Inbox:
    """Implements `ConsumerPort` for one queue."""

    def __init__(self, deliver: Callable[["_Inbox", Message], None], consumer_id: str, answering: Answering) -> None:
        self._deliver = deliver
        self.consumer_id = consumer_id
        self.answering = answering

    def deliver(self, message: Message, group_first: bool) -> None:
        """Answer in turns of its own: the queue is in the middle of dispatching, and a search may be long."""
        del group_first
        self._deliver(self, message)

    def end_of_messages(self) -> None:
        """It never pulls."""

    def change_prefetch(self, prefetch: int) -> None:
        """Whatever it may hold is enough."""


@final
class OwnQueues:
    """The broker's own connection, and its consumers of the queues that it answers."""

    is_ready = True
    has_received_all = False

    def __init__(
        self,
        view: BrokerView,
        connections: Connections,
        subscriptions: Subscriptions,
        acknowledgement: Acknowledgement,
        publisher: Publisher,
    ) -> None:
        self._view = view
        self._connections = connections
        self._subscriptions = subscriptions
        self._acknowledgement = acknowledgement
        self._publisher = publisher
        self._connection: Connection | None = None

    def start(self, answers: Mapping[Destination, Answering]) -> None:
        """Answer requests that are sent to these queues from now on."""
        broker_id = self._view.broker_id
        self._connection = self._connections.connect(Login(broker_id, broker_id), self, is_broker=True)
        for number, (where, answering) in enumerate(answers.items(), 1):
            inbox = _Inbox(self._take, f"{broker_id}:-1:{number}", answering)
            request = SubscriptionRequest(inbox.consumer_id, IMPLICIT_SESSION, where, _PREFETCH)
            self._subscriptions.subscribe(self._connection, request, inbox)

    # ---- what the broker asks of a client ----------------------------------------------------------------------

    def hold(self, held: bool) -> None:
        """It sends nothing that could wait."""

    def challenge(self, on_verdict: Callable[[bool], None]) -> None:
        """Its id is refused to clients, so this is never asked."""

    def close(self, reason: str) -> None:
        """Nothing ends it but the broker's own end."""

    # ---- answering ---------------------------------------------------------------------------------------------

    def _take(self, inbox: _Inbox, message: Message) -> None:
        slices = self._view.slices
        slices.start(job_of(self._answer(inbox, message), slices, _UNITS_PER_STEP))

    def _answer(self, inbox: _Inbox, message: Message) -> Iterator[Fetch | None]:
        try:
            yield from self._reply(inbox, message)
        except AckwireError as error:
            _log.warning("a request was not answered: %s", error)
        except Exception:
            _log.exception("a request could not be answered")
        assert self._connection is not None
        subscription = self._connection.subscriptions.get(inbox.consumer_id)
        if subscription is not None:
            self._acknowledgement.acknowledge(subscription, AckKind.INDIVIDUAL, None, message.key, 1, None, None)

    def _reply(self, inbox: _Inbox, message: Message) -> Iterator[Fetch | None]:
        editor = self._view.editor
        reply_to = editor.lookup(message)("JMSReplyTo")
        if not isinstance(reply_to, str) or self._view.flow.memory_is_full() is not None:
            return
        where = parse_destination(reply_to)
        if where.is_composite or is_reserved(where) or is_advisory(where):
            return  # an answer goes to the one who asked, and is no request
        self._leave_out_of_audit(where)

        def reply(properties: Mapping[str, Value]) -> None:
            self._publisher.put(None, editor.readdressed(message, where, properties=properties, new_id=True))

        yield from inbox.answering(self._principal(message), editor.properties(message), reply)

    def _principal(self, message: Message) -> Principal:
        """The sender of a request, by the connection id in its message, which adapters have checked."""
        sender = self._view.clients.by_connection_id(message.origin.connection_id or "")
        return UNKNOWN if sender is None else sender.principal

    def _leave_out_of_audit(self, where: Destination) -> None:
        """A temporary queue that was made for an answer is no place at which messages of users live."""
        queue = self._view.registry.router.get(where)
        if where.kind is Kind.TEMP_QUEUE and isinstance(queue, Queue) and not queue.contents.enqueued:
            queue.contents.audit = None

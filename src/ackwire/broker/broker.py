"""The broker: the verbs that adapters call. It knows no protocol and no socket.

Every verb runs to its end before the next one starts: one loop owns all of this, and there are no locks. A verb that
cannot be carried out raises a `BrokerError` and has changed nothing.

Who does what: `registry.py` knows the destinations, `intake.py` takes messages in, `consumption.py` serves consumers
and their acks, `transactor.py` carries out what belongs together, `scheduler.py` keeps what is meant for later; this
module is the front that adapters see.
"""

import logging
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import Final, final

from ackwire.broker.acks import AckKind
from ackwire.broker.advisory import Advisories
from ackwire.broker.auditing import Audit, DestinationPlace, Event
from ackwire.broker.census import Census
from ackwire.broker.clients import Clients
from ackwire.broker.consumption import LAST_DELIVERED_UNKNOWN, Consumption
from ackwire.broker.cursors import CURSOR_CLIENT_ID, Cursors, Row
from ackwire.broker.departures import Departures
from ackwire.broker.handover import Desk
from ackwire.broker.inactive import InactiveDestinations
from ackwire.broker.intake import Intake
from ackwire.broker.limits import FlowControl, HeldSend
from ackwire.broker.live_settings import LiveSettings
from ackwire.broker.loop_report import LoopReport
from ackwire.broker.paging import Pager
from ackwire.broker.placing import Placing
from ackwire.broker.questions import Questions
from ackwire.broker.queue import Queue
from ackwire.broker.receive_room import ReceiveRoom
from ackwire.broker.registry import Registry
from ackwire.broker.restore import restore
from ackwire.broker.scheduler import Scheduler
from ackwire.broker.session import ClientPort, Connection, ConnectionLimits, ConsumerPort, Login, Producer
from ackwire.broker.slices import Budget, Slices
from ackwire.broker.staging import Staging
from ackwire.broker.subscription import Subscription, SubscriptionRequest
from ackwire.broker.takeover import Claim, Takeovers
from ackwire.broker.transactions import Transaction
from ackwire.broker.transactor import Transactor
from ackwire.clock import Clock, Turns
from ackwire.config import Settings
from ackwire.destinations import Destination, Kind, is_unicode
from ackwire.editing import Advisory, MessageEditor
from ackwire.errors import AckwireError, BrokerError, InvalidClientId, StoreFailed, UnknownResource
from ackwire.message import Message
from ackwire.policy import Policies
from ackwire.selector import Selector
from ackwire.store.contract import FileFacts, Spill, Store

__all__ = ["LAST_DELIVERED_UNKNOWN", "Broker"]

_NAMED_MAX: Final = 3
"""Destinations that one line of the log names."""
_SWEEP_UNITS: Final = 8
"""What a step of the sweep costs of a slice: a message that expires may become a dead letter."""
_QUEUES_PER_STEP: Final = 8
"""Queues without anything to expire that are looked at in one step."""

_log = logging.getLogger(__name__)


@final
class Broker:
    """Connections, destinations, and what passes between them."""

    def __init__(
        self,
        *,
        clock: Clock,
        store: Store,
        editor: MessageEditor,
        settings: Settings,
        policies: Policies | None = None,
        temp: Spill | None = None,
        audit: Audit | None = None,
        turns: Turns | None = None,
        loop_report: Callable[[], LoopReport] | None = None,
    ) -> None:
        self.clock = clock
        self.slices = Slices(clock)
        """Long work, which lets others have their turn in between."""
        self.loop_report = loop_report
        """How the loop fares, where it is measured."""
        self.started_ms = clock.now_ms()
        self.turns = turns or Turns()
        """Of the loop that calls, if it knows them."""
        self.audit = audit
        """Is told what happens to every message, if anybody wants to know."""
        self.editor = editor
        self.broker_id = f"ID:{settings.broker.name}-{clock.now_ms()}"
        """This run of this broker, for clients that ask whom they talk to."""
        self._settings = LiveSettings(settings)
        self._store = store
        self.clients = Clients()
        self._is_sweeping = False
        self._takeovers = Takeovers(clock, self._replace)
        self.placing = Placing()
        self.advisories = Advisories(self, self.placing)
        self.flow = FlowControl(clock, settings.limits, store, temp, self._has_undecided_acks, self.placing)
        self.receive_room = ReceiveRoom(
            clock,
            bytes_max=settings.limits.receive_bytes_max,
            strangers_bytes_max=settings.handshake.receive_bytes_max,
            timeout_seconds=settings.connection.frame_timeout_seconds,
        )
        self.flow.on_stop(self.receive_room.close)
        self.pager = Pager(store, editor, self.flow, temp, clock)
        self.desk = Desk(store)
        self.registry = Registry(self, store, policies or Policies())
        self.intake = Intake(self, store)
        self.consumption = Consumption(self, store)
        self.transactor = Transactor(self, store)
        self.scheduler = Scheduler(self, store)
        self.cursors = Cursors(clock=clock, store=store, settings=self._settings, registry=self.registry)
        self.staging = Staging(self, store)
        self._inactive = InactiveDestinations(
            clock, self.slices, self.registry, self.clients, settings.destinations.inactive_sweep_seconds
        )
        self._departures = Departures(self.slices, self.consumption, self.registry, self.remove_producer)
        self._questions = Questions(self)
        self._census = Census(
            clock, self.registry, self.transactor.transactions, period_seconds=settings.audit.census_seconds
        )

    def _has_undecided_acks(self, connection: Connection) -> bool:
        return any(transaction.acks for transaction in self.transactor.transactions.of_connection(connection))

    @property
    def settings(self) -> Settings:
        return self._settings.current

    def compile_selector(self, text: str) -> Selector:
        """Read a selector, with what the settings allow in it. Raises `InvalidSelector`."""
        return self._settings.compile_selector(text)

    def reload(self, settings: Settings, policies: Policies) -> None:
        """Go by other settings from now on; only those of `config/reloading.py` differ from what they were."""
        self._settings.current = settings
        self.registry.use(policies)
        self.flow.use(settings.limits)

    # ---- connections -------------------------------------------------------------------------------------------

    def admit(
        self,
        login: Login,
        port: ClientPort,
        on_admitted: Callable[[Connection], None],
        on_refused: Callable[[BrokerError], None],
    ) -> Claim | None:
        """Admit a client, at once or when an old connection of the same client is found to be dead (`takeover.py`).

        Raises what `connect` raises. Returns the claim if the login has to wait: `withdraw` it when the client leaves.
        """
        holder = self.clients.by_connection_id(login.connection_id)
        if holder is None or not holder.is_of(login):
            on_admitted(self.connect(login, port))
            return None

        def proceed() -> None:
            try:
                connection = self.connect(login, port)
            except BrokerError as error:
                on_refused(error)
            else:
                on_admitted(connection)

        claim = Claim(proceed, on_refused)
        return claim if self._takeovers.begin(holder, claim) else None

    def withdraw(self, claim: Claim) -> None:
        """The client of *claim* has gone before it was admitted."""
        self._takeovers.withdraw(claim)

    def connect(self, login: Login, port: ClientPort) -> Connection:
        """Admit a client now. Raises `InvalidClientId` if its connection id or client id is in use."""
        connection_id, client_id, user = login.connection_id, login.client_id, login.user
        if not client_id:
            raise InvalidClientId("a connection needs a client id, and this one has none")
        if not is_unicode(connection_id + client_id + (user or "")):
            raise InvalidClientId(f"half a surrogate pair in {connection_id!r}, {client_id!r} or {user!r} is no text")
        if self.broker_id in (connection_id, client_id) and port is not self._questions:
            raise InvalidClientId(f"{self.broker_id} is the broker's own id")
        if client_id == CURSOR_CLIENT_ID:
            raise InvalidClientId(f"{client_id} is whose the subscriptions of cursors are; choose another client id")
        holder = self.clients.by_client_id(client_id)
        if holder is not None and holder.connection_id != connection_id:
            raise InvalidClientId(
                f"client id {client_id} is in use by connection {holder.connection_id}; "
                "close that one first or choose another id"
            )
        if self.clients.by_connection_id(connection_id) is not None:
            raise InvalidClientId(f"connection id {connection_id} is in use by another client; choose another id")
        limits = self.settings.connection
        connection = Connection(
            connection_id=connection_id,
            client_id=client_id,
            port=port,
            user=user,
            proof=login.proof,
            is_reconnect=login.is_reconnect,
            limits=ConnectionLimits(
                limits.sessions_max, limits.producers_max, limits.consumers_max, limits.destinations_max
            ),
        )
        self.clients.add(connection)
        self.intake.repetitions.greet(connection)
        self.advisories.connection_added(connection)
        return connection

    def _replace(self, old: Connection) -> None:
        self.disconnect(old)
        old.port.close("it does not answer, and its client has connected again")

    def disconnect(self, connection: Connection, last_delivered: int = LAST_DELIVERED_UNKNOWN) -> None:
        """Forget a client and all it announced; what it had not finished goes to others (D7)."""
        if not connection.is_open:
            return
        connection.is_open = False
        self.clients.remove(connection)
        self._report_dropped(connection, self.flow.end(connection))
        self._departures.close_connection(connection, last_delivered, self.transactor.roll_back_all)
        self.registry.forget_maker(connection)
        self.scheduler.forget_client(connection)
        self.advisories.connection_removed(connection)
        self._takeovers.left(connection)

    def _report_dropped(self, connection: Connection, dropped: list[HeldSend]) -> None:
        """Tell of sends that had no answer yet, and no space when their client left."""
        if not dropped:
            return
        size_bytes = sum(send.message.size_bytes for send in dropped)
        where = ", ".join(sorted({repr(send.message.destination) for send in dropped})[:_NAMED_MAX])
        _log.warning(
            "%r left while %d of its sends (%d bytes, to %s) waited for space, none of them answered: they are "
            "dropped, because memory, store or queue is above its limit by limits.blocked_bytes_max",
            connection, len(dropped), size_bytes, where,
        )  # fmt: skip
        if self.audit is not None:
            for send in dropped:
                place = DestinationPlace(repr(send.message.destination))
                self.audit.happened(Event.DROPPED, place, send.message, cause="its client left, and there was no space")

    def connections(self) -> list[Connection]:
        return self.clients.all()

    def remove_session(
        self, connection: Connection, session_id: int, last_delivered: int = LAST_DELIVERED_UNKNOWN
    ) -> None:
        """Close a session with its producers and consumers."""
        connection.require_session(session_id)
        self._departures.close_session(connection, session_id, last_delivered)
        connection.sessions.discard(session_id)

    def add_producer(self, connection: Connection, producer: Producer) -> None:
        """Announce a producer; its destination exists from then on."""
        self._departures.forestall(connection.connection_id, producer_id=producer.producer_id)
        known = producer.producer_id in connection.producers
        connection.require_session(producer.session_id)
        if producer.destination is not None and not producer.destination.is_composite:
            self.registry.get_or_make(producer.destination, connection)
        connection.add_producer(producer)
        if not known:
            self.clients.add_producer(producer)
            self.advisories.producer_added(producer)

    def remove_producer(self, connection: Connection, producer_id: str) -> None:
        """A producer is done."""
        producer = connection.producers.get(producer_id)
        connection.remove_producer(producer_id)
        if producer is not None:
            self.clients.remove_producer(producer)
            self.advisories.producer_removed(producer)

    def producer_count(self, where: Destination) -> int:
        return self.clients.producer_count(where)

    # ---- destinations ------------------------------------------------------------------------------------------

    def add_destination(self, connection: Connection, destination: Destination) -> None:
        """Create *destination*; it may exist already. A temporary one belongs to *connection*."""
        for part in destination.parts():
            self.registry.add(part, connection)

    def remove_destination(self, connection: Connection, destination: Destination) -> None:
        """Delete *destination* and all that is on it. Refused while it has consumers."""
        self.registry.remove(destination, connection)

    def destinations(self, kind: Kind) -> list[tuple[Destination, Connection | None]]:
        """Every destination of *kind* with its owner, advisory topics aside."""
        return self.registry.destinations(kind)

    def consumer_count(self, where: Destination) -> int:
        return self.registry.consumer_count(where)

    # ---- sending -----------------------------------------------------------------------------------------------

    def send(
        self,
        connection: Connection,
        message: Message,
        on_stored: Callable[[], None] | None = None,
        on_refused: Callable[[Message, BrokerError], None] | None = None,
    ) -> None:
        """Take a message. *on_stored* is called once it is as durable as it asked to be (B1)."""
        self.intake.send(connection, message, on_stored, on_refused)

    def has_listeners(self, topic: Destination) -> bool:
        """Whether anyone would get a message published on *topic* now."""
        return self.registry.has_listeners(topic)

    def publish_advisory(self, advisory: Advisory) -> None:
        """Publish something about the broker itself."""
        message = self.editor.advisory(advisory)
        topic = self.registry.advisory_topic(advisory.topic, advisory.destination)
        self.intake.publish(topic, message)
        if advisory.destination is not None:
            self.registry.forget_if_gone(topic, advisory.destination)

    def when_durable(self, callback: Callable[[], None], on_failed: Callable[[StoreFailed], None]) -> None:
        """Call *callback* once all that has happened so far is durable: then it may be answered."""
        self._store.when_durable(callback, on_failed)

    def files(self) -> list[FileFacts]:
        """The store's files and what keeps each."""
        return self._store.files()

    # ---- receiving ---------------------------------------------------------------------------------------------

    def subscribe(self, connection: Connection, request: SubscriptionRequest, port: ConsumerPort) -> Subscription:
        """Add a consumer. Messages may reach *port* before this returns."""
        self._departures.forestall(connection.connection_id, consumer_id=request.consumer_id)
        return self.consumption.subscribe(connection, request, port)

    def unsubscribe(self, subscription: Subscription, last_delivered: int = LAST_DELIVERED_UNKNOWN) -> None:
        """Remove a consumer. *last_delivered* is the sequence of the last message it saw, if that is known."""
        self.consumption.unsubscribe(subscription, last_delivered)

    def remove_durable(self, client_id: str, name: str) -> None:
        """End a durable subscription and drop what waits for it (A3)."""
        self.consumption.remove_durable(client_id, name)

    def subscription(self, connection: Connection, consumer_id: str) -> Subscription:
        """The consumer of that id, which *connection* announced."""
        subscription = connection.subscriptions.get(consumer_id)
        if subscription is None:
            raise UnknownResource(f"consumer {consumer_id} was never announced on {connection!r}")
        return subscription

    def acknowledge(
        self,
        subscription: Subscription,
        kind: AckKind,
        first: bytes | None,
        last: bytes,
        count: int,
        *,
        transaction_id: Hashable | None = None,
        cause: str | None = None,
    ) -> None:
        """Carry out an ack, or collect it in a transaction (E)."""
        transaction: Transaction | None = None
        if transaction_id is not None:
            transaction = self.transactor.transaction_for_work(subscription.connection, transaction_id)
            if transaction is None:
                return  # it has committed before: this is a repetition
        self.consumption.acknowledge(subscription, kind, first, last, count, transaction, cause)

    def pull(self, subscription: Subscription, timeout_ms: int) -> None:
        """Ask for one message: wait for ever (0), not at all (negative), or *timeout_ms* (C3)."""
        self.consumption.pull(subscription, timeout_ms)

    def set_prefetch(self, subscription: Subscription, prefetch: int) -> None:
        """Change how many messages a consumer may hold."""
        subscription.prefetch = self.consumption.capped_prefetch(subscription, prefetch)
        subscription.is_pull = subscription.prefetch == 0
        self.consumption.pump(subscription)

    def resume(self, connection: Connection) -> None:
        """The client takes messages again."""
        for subscription in list(connection.subscriptions.values()):
            self.consumption.pump(subscription)

    def browse_rows(self, where: Destination, after: int, to: int, limit: int) -> list[Row]:
        """Up to *limit* messages of a queue with sequences behind *after*, up to *to*, without taking them."""
        return self._existing_queue(where).look(after, to, limit)

    def browse_sequences(self, where: Destination) -> list[int]:
        """The sequences of all that `browse_rows` would show now, in order."""
        return self._existing_queue(where).sequences()

    def _existing_queue(self, where: Destination) -> Queue:
        queue = self.registry.router.get(where)
        if not isinstance(queue, Queue):
            raise UnknownResource(f"{where!r} does not exist, or is no queue")
        return queue

    # ---- time --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Bring back what the store has kept, and begin the work that time triggers."""
        untold = None if self.audit is None else self.audit.started(self._store.last_sequence())
        restore(self, self._store, untold)
        self.advisories.begin()
        self.scheduler.start()
        self.cursors.start()
        self.staging.start()
        self._inactive.start()
        if self.audit is not None:
            self._census.begin(self.audit)
        self.clock.call_later(self.settings.destinations.expiry_sweep_seconds, self._sweep)

    def stop(self) -> None:
        """All clients have gone, and no more will come: tell the store what only memory knows."""
        self._departures.finish()
        self.cursors.stop()
        self.staging.stop()
        for queue in self.registry.queues():
            queue.stop()
        if self.audit is not None:
            self._census.end(self.audit, self._store)

    def answer_questions(self) -> None:
        """Listen to clients that ask why (`questions.py`)."""
        self._questions.start()

    def _sweep(self) -> None:
        self.clock.call_later(self.settings.destinations.expiry_sweep_seconds, self._sweep)
        if not self._is_sweeping:
            self._is_sweeping = True
            steps = self._expire_all()
            self.slices.start(partial(self._go_on_sweeping, steps))

    def _go_on_sweeping(self, steps: Iterator[None], budget: Budget) -> bool:
        if any(budget.spend(_SWEEP_UNITS) for _ in steps):
            return True
        self._is_sweeping = False
        return False

    def _expire_all(self) -> Iterator[None]:
        """Remove what has expired everywhere, a little with each step."""
        for number, queue in enumerate(self.registry.queues()):
            try:
                yield from queue.expire_due(self.clock.now_ms())
            except AckwireError:
                _log.exception("expired messages of %r stay where they are for now", queue)
            if number % _QUEUES_PER_STEP == 0:
                yield

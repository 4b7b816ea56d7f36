"""The broker: the verbs that adapters call. It knows no protocol and no socket.

Every verb runs to its end before the next one starts: one loop owns all of this, and there are no locks. A verb that
cannot be carried out raises a `BrokerError` and has changed nothing.

`connections.py` admits clients, `registry.py` knows the destinations, `sending.py` takes messages in and
`publishing.py` puts them in their places, `subscriptions.py` adds and removes consumers, `acknowledgement.py` carries
out acks, `transaction_manager.py` carries out what belongs together, `scheduler.py` keeps what is meant for later.
This module makes these parts, each with what it uses, and is the front that adapters see. No part knows this module.
"""

import logging
from collections.abc import Callable, Hashable
from typing import Final, final

from ackwire.broker.acknowledgement import Acknowledgement
from ackwire.broker.advisory import Advisories
from ackwire.broker.advisory_replay import Replays
from ackwire.broker.auditing import Audit
from ackwire.broker.browsers import Browsers
from ackwire.broker.bulk_access import BulkAccess
from ackwire.broker.clients import Clients
from ackwire.broker.committed_sends import CommittedSends
from ackwire.broker.connections import Connections
from ackwire.broker.consumer_queues import ConsumerQueues
from ackwire.broker.cursors import Cursors
from ackwire.broker.dead_letters import DeadLetters
from ackwire.broker.destination_counts import DestinationCounter
from ackwire.broker.destination_events import BrokerEvents
from ackwire.broker.dispatch_gate import DispatchGate
from ackwire.broker.duplicates import Duplicates
from ackwire.broker.early_dispatch import EarlyDispatch, Policy
from ackwire.broker.expiry import ExpirySweep
from ackwire.broker.in_flight import AckKind
from ackwire.broker.inactive import InactiveDestinations
from ackwire.broker.limits import FlowControl
from ackwire.broker.live_settings import LiveSettings
from ackwire.broker.loop_report import LoopReport
from ackwire.broker.operation_requests import OperationRequests
from ackwire.broker.operations import Operations
from ackwire.broker.own_queues import OwnQueues
from ackwire.broker.paging import Pager
from ackwire.broker.permissions import BROKER, Action, Permissions, Principal
from ackwire.broker.placing import Placing
from ackwire.broker.publishing import Publisher
from ackwire.broker.pumping import Pump
from ackwire.broker.receive_room import ReceiveRoom
from ackwire.broker.registry import Registry
from ackwire.broker.restore import Restoring
from ackwire.broker.routing import Routing
from ackwire.broker.scheduler import Scheduler
from ackwire.broker.sending import Sending
from ackwire.broker.session import ClientPort, Connection, ConsumerPort, Login, Producer
from ackwire.broker.slices import SLICE_UNITS, Slices
from ackwire.broker.staging import Staging
from ackwire.broker.subscription import Subscription, SubscriptionRequest
from ackwire.broker.subscriptions import LAST_DELIVERED_UNKNOWN, Subscriptions
from ackwire.broker.takeover import Claim
from ackwire.broker.transaction_manager import TransactionManager
from ackwire.broker.transactions import Transaction, Transactions
from ackwire.broker.why.service import Questions
from ackwire.broker.why_view import BrokerView
from ackwire.config import Settings
from ackwire.config.policy import Policies
from ackwire.errors import BrokerError, StoreFailed, UnknownResource
from ackwire.jms.destinations import Destination, Kind
from ackwire.jms.message import Message
from ackwire.jms.message_editor import MessageEditor
from ackwire.operation import OPERATIONS
from ackwire.selector import Reading, Selector
from ackwire.store.contract import DurableKey, FileInfo, Spill, Store
from ackwire.util.clock import Clock, Turns
from ackwire.why.protocol import QUESTIONS

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
    """Connections, destinations, and what passes between them.

    It is long because its constructor builds every part, so that one can see in one place which part uses which.
    """

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
        group_report: Callable[[], list[str]] | None = None,
        gate: DispatchGate | None = None,
        early_dispatch: EarlyDispatch | None = None,
        slice_units: int = SLICE_UNITS,
        permissions: Permissions | None = None,
    ) -> None:
        self.clock = clock
        self.editor = editor
        self.broker_id = broker_id = f"ID:{settings.broker.name}-{clock.now_ms()}"
        """This run of this broker, for clients that ask whom they talk to."""
        self.audit = audit
        """Gets every event of every message, where the audit is on."""
        self.turns = turns or Turns()
        """Of the loop that calls, if it knows them."""
        self.slices = slices = Slices(clock, slice_units, turns)
        """Long work, which lets others have their turn in between."""
        self._store = store
        self._settings = live = LiveSettings(settings)
        self.clients = clients = Clients()
        self.permissions = permissions = permissions or Permissions()
        permissions.on_change(clients.forget_permissions)
        gate = gate or DispatchGate(store)
        self.early_dispatch = early_dispatch = early_dispatch or EarlyDispatch(
            store, self.turns, Policy(settings.store.early_dispatch), is_audited=audit is not None
        )
        placing = Placing()
        transactions = Transactions()
        duplicates = Duplicates(store)
        self.flow = flow = FlowControl(clock, settings.limits, store, temp, transactions.has_acks_of, placing, slices)
        self.receive_room = ReceiveRoom(
            clock,
            bytes_max=settings.limits.receive_bytes_max,
            strangers_bytes_max=settings.handshake.receive_bytes_max,
            timeout_seconds=settings.connection.frame_timeout_seconds,
        )
        flow.on_stop(self.receive_room.close)
        self.pager = Pager(store, editor, flow, temp, clock)
        self.advisories = advisories = Advisories(editor, placing, clients)
        self.registry = registry = Registry(
            clock=clock,
            store=store,
            editor=editor,
            settings=live,
            policies=policies or Policies(),
            advisories=advisories,
            pager=self.pager,
            gate=gate,
            slices=slices,
            audit=audit,
        )
        self.publisher = publisher = Publisher(
            clock=clock,
            store=store,
            editor=editor,
            placing=placing,
            registry=registry,
            advisories=advisories,
            audit=audit,
        )
        advisories.bind(registry, publisher)
        dead_letters = DeadLetters(editor, registry, publisher, advisories)
        self.queues_of_consumers = queues = ConsumerQueues()
        browsers = Browsers(registry, editor, slices)
        replays = Replays(slices)
        self.subscriptions = Subscriptions(
            clock=clock,
            store=store,
            editor=editor,
            settings=live,
            slices=slices,
            clients=clients,
            registry=registry,
            publisher=publisher,
            transactions=transactions,
            advisories=advisories,
            queues=queues,
            browsers=browsers,
            replays=replays,
            broker_id=broker_id,
            audit=audit,
        )
        self.pump = Pump(
            clock=clock,
            slices=slices,
            queues=queues,
            browsers=browsers,
            replays=replays,
            registry=registry,
            advisories=advisories,
        )
        self.acknowledgement = Acknowledgement(
            clock=clock,
            store=store,
            editor=editor,
            queues=queues,
            pump=self.pump,
            dead_letters=dead_letters,
            early_dispatch=early_dispatch,
        )
        registry.bind(BrokerEvents(advisories, dead_letters, transactions), self.subscriptions)
        self.scheduler = Scheduler(
            clock=clock,
            store=store,
            editor=editor,
            settings=live,
            flow=flow,
            dead_letters=dead_letters,
            publisher=publisher,
            gate=gate,
            audit=audit,
        )
        routing = Routing(registry, publisher, self.scheduler, audit)
        sends = CommittedSends(duplicates, routing, publisher, dead_letters)
        self.staging = Staging(
            clock=clock,
            store=store,
            settings=live,
            flow=flow,
            registry=registry,
            publisher=publisher,
            sends=sends,
        )
        self.transaction_manager = TransactionManager(
            clock=clock,
            store=store,
            transactions=transactions,
            flow=flow,
            slices=slices,
            routing=routing,
            publisher=publisher,
            sends=sends,
            staging=self.staging,
            gate=gate,
            operator=settings.broker.operator,
        )
        self.sending = Sending(
            clock=clock,
            store=store,
            editor=editor,
            settings=live,
            flow=flow,
            early_dispatch=early_dispatch,
            gate=gate,
            registry=registry,
            advisories=advisories,
            duplicates=duplicates,
            publisher=publisher,
            routing=routing,
            transactions=self.transaction_manager,
            permissions=permissions,
            audit=audit,
        )
        self.cursors = Cursors(clock=clock, slices=slices, store=store, settings=live, registry=registry)
        self._connections = Connections(
            clock=clock,
            settings=live,
            slices=slices,
            clients=clients,
            flow=flow,
            registry=registry,
            advisories=advisories,
            duplicates=duplicates,
            permissions=permissions,
            subscriptions=self.subscriptions,
            transaction_manager=self.transaction_manager,
            scheduler=self.scheduler,
            broker_id=broker_id,
            audit=audit,
        )
        self.restoring = Restoring(
            clock=clock,
            store=store,
            publisher=publisher,
            duplicates=duplicates,
            early_dispatch=early_dispatch,
            registry=registry,
            transaction_manager=self.transaction_manager,
            scheduler=self.scheduler,
            cursors=self.cursors,
            staging=self.staging,
        )
        self.view = BrokerView(
            broker_id=broker_id,
            started_ms=clock.now_ms(),
            clock=clock,
            store=store,
            editor=editor,
            live_settings=live,
            slices=slices,
            clients=clients,
            flow=flow,
            receive_room=self.receive_room,
            registry=registry,
            transactions=transactions,
            scheduler=self.scheduler,
            cursors=self.cursors,
            loop_report=loop_report,
            group_report=group_report,
        )
        self.operations = Operations(
            clock=clock,
            store=store,
            editor=editor,
            settings=live,
            flow=flow,
            registry=registry,
            publisher=publisher,
            dead_letters=dead_letters,
            clients=clients,
            connections=self._connections,
            permissions=permissions,
        )
        self._own_queues = OwnQueues(self.view, self._connections, self.subscriptions, self.acknowledgement, publisher)
        self._questions = Questions(self.view, permissions)
        self._requests = OperationRequests(clock, self.operations)
        self._expiry = ExpirySweep(clock, slices, registry, live)
        self._inactive = InactiveDestinations(
            clock, slices, registry, clients, settings.destinations.inactive_sweep_seconds
        )
        self._destination_counter = DestinationCounter(
            clock, registry, transactions, period_seconds=settings.audit.census_seconds
        )

    @property
    def settings(self) -> Settings:
        return self._settings.current

    def compile_selector(self, text: str) -> Selector:
        """Read a selector, with what the settings allow in it. Raises `InvalidSelector`."""
        return self._settings.compile_selector(text)

    def reading_of(self, selector: str) -> Reading | None:
        """How to read a long selector in slices, ahead of `compile_selector`; None for one that takes no time."""
        return self._settings.reading_of(selector)

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
        return self._connections.admit(login, port, on_admitted, on_refused)

    def withdraw(self, claim: Claim) -> None:
        """The client of *claim* has gone before it was admitted."""
        self._connections.withdraw(claim)

    def connect(self, login: Login, port: ClientPort) -> Connection:
        """Admit a client now. Raises `InvalidClientId` if its connection id or client id is in use."""
        return self._connections.connect(login, port)

    def disconnect(self, connection: Connection, last_delivered: int = LAST_DELIVERED_UNKNOWN) -> None:
        """Forget a client and all it announced; what it had not finished goes to others (D7)."""
        self._connections.disconnect(connection, last_delivered)

    def connections(self) -> list[Connection]:
        return self.clients.all()

    def remove_session(
        self, connection: Connection, session_id: int, last_delivered: int = LAST_DELIVERED_UNKNOWN
    ) -> None:
        """Close a session with its producers and consumers."""
        self._connections.remove_session(connection, session_id, last_delivered)

    def add_producer(self, connection: Connection, producer: Producer) -> None:
        """Announce a producer; its destination exists from then on."""
        self._connections.add_producer(connection, producer)

    def remove_producer(self, connection: Connection, producer_id: str) -> None:
        """A producer is done."""
        self._connections.remove_producer(connection, producer_id)

    # ---- destinations ------------------------------------------------------------------------------------------

    def add_destination(self, connection: Connection, destination: Destination) -> None:
        """Create *destination*; it may exist already. A temporary one belongs to *connection*."""
        self.permissions.permit(connection.principal, Action.CREATE, destination)
        for part in destination.parts():
            self.registry.add(part, connection)

    def remove_destination(self, connection: Connection, destination: Destination) -> None:
        """Delete *destination* and all that is on it. Refused while it has consumers."""
        self.permissions.permit(connection.principal, Action.DELETE, destination)
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
        self.sending.send(connection, message, on_stored, on_refused)

    def when_durable(self, callback: Callable[[], None], on_failed: Callable[[StoreFailed], None]) -> None:
        """Call *callback* once all that has happened so far is durable: then it may be answered."""
        self._store.when_durable(callback, on_failed)

    def files(self) -> list[FileInfo]:
        """The store's files and what keeps each."""
        return self._store.files()

    # ---- receiving ---------------------------------------------------------------------------------------------

    def subscribe(self, connection: Connection, request: SubscriptionRequest, port: ConsumerPort) -> Subscription:
        """Add a consumer. Messages may reach *port* before this returns."""
        return self._connections.subscribe(connection, request, port)

    def unsubscribe(self, subscription: Subscription, last_delivered: int = LAST_DELIVERED_UNKNOWN) -> None:
        """Remove a consumer. *last_delivered* is the sequence of the last message it saw, if that is known."""
        self.subscriptions.unsubscribe(subscription, last_delivered)

    def remove_durable(self, client_id: str, name: str, principal: Principal = BROKER) -> None:
        """End a durable subscription and drop what waits for it (A3)."""
        durable = self.registry.durables.get(DurableKey(client_id, name))
        if durable is not None:
            self.permissions.permit(principal, Action.DELETE, durable.record.destination)
        self.subscriptions.remove_durable(client_id, name)

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
            transaction = self.transaction_manager.transaction_for_work(subscription.connection, transaction_id)
            if transaction is None:
                return  # it has committed before: this is a repetition
        self.acknowledgement.acknowledge(subscription, kind, first, last, count, transaction, cause)

    def pull(self, subscription: Subscription, timeout_ms: int) -> None:
        """Ask for one message: wait for ever (0), not at all (negative), or *timeout_ms* (C3)."""
        self.pump.pull(subscription, timeout_ms)

    def set_prefetch(self, subscription: Subscription, prefetch: int) -> None:
        """Change how many messages a consumer may hold."""
        subscription.prefetch = self.subscriptions.capped_prefetch(subscription, prefetch)
        subscription.is_pull = subscription.prefetch == 0
        self.pump.pump(subscription)

    def resume(self, connection: Connection) -> None:
        """The client takes messages again."""
        for subscription in list(connection.subscriptions.values()):
            self.pump.pump(subscription)

    def bulk(self, principal: Principal) -> BulkAccess:
        """Cursors, staged batches and browsing, as *principal*."""
        return BulkAccess(principal, self.permissions, self.registry, self.cursors, self.staging)

    # ---- time --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Bring back what the store has kept, and begin the work that time triggers."""
        untold = None if self.audit is None else self.audit.started(self._store.last_sequence())
        self.restoring.run(untold)
        self.advisories.begin()
        self.scheduler.start()
        self.cursors.start()
        self.staging.start()
        self.transaction_manager.large.acks.start()
        self._inactive.start()
        if self.audit is not None:
            self._destination_counter.begin(self.audit)
        self._expiry.start()

    def stop(self) -> None:
        """All clients have gone, and no more will come: tell the store what only memory knows."""
        self._connections.stop()
        self.transaction_manager.large.stop()
        self.cursors.stop()
        self.staging.stop()
        for queue in self.registry.queues():
            queue.restart.stop()
        if self.audit is not None:
            self._destination_counter.end(self.audit, self._store)

    def answer_questions(self) -> None:
        """Listen to clients that ask why (`broker/why/service.py`), and to operators (`operation_requests.py`)."""
        self._own_queues.start({QUESTIONS: self._questions.answer, OPERATIONS: self._requests.answer})

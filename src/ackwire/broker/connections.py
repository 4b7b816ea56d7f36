"""Connects and disconnects clients, with the sessions and producers that they announce (SEMANTICS A1, D7)."""

import logging
from collections.abc import Callable
from typing import Final, final

from ackwire.broker.advisory import Advisories
from ackwire.broker.auditing import Audit, DestinationPlace, Event
from ackwire.broker.clients import Clients
from ackwire.broker.cursors import CURSOR_CLIENT_ID
from ackwire.broker.departures import Departures
from ackwire.broker.duplicates import Duplicates
from ackwire.broker.limits import BlockedSend, FlowControl
from ackwire.broker.live_settings import LiveSettings
from ackwire.broker.permissions import BROKER, Action, Permissions
from ackwire.broker.registry import Registry
from ackwire.broker.scheduler import Scheduler
from ackwire.broker.session import (
    ClientPort,
    Connection,
    ConnectionLimits,
    ConsumerPort,
    Login,
    Producer,
    Subscription,
    SubscriptionRequest,
)
from ackwire.broker.slices import Slices
from ackwire.broker.subscriptions import LAST_DELIVERED_UNKNOWN, Subscriptions
from ackwire.broker.takeover import Claim, Takeovers
from ackwire.broker.transaction_manager import TransactionManager
from ackwire.errors import BrokerError, InvalidClientId
from ackwire.jms.destinations import is_unicode
from ackwire.util.clock import Clock

_NAMED_MAX: Final = 3
"""Destinations that one line of the log names."""

_log = logging.getLogger(__name__)


@final
class Connections:
    """Admits clients, and removes what they leave behind."""

    def __init__(
        self,
        *,
        clock: Clock,
        settings: LiveSettings,
        slices: Slices,
        clients: Clients,
        flow: FlowControl,
        registry: Registry,
        advisories: Advisories,
        duplicates: Duplicates,
        permissions: Permissions,
        subscriptions: Subscriptions,
        transaction_manager: TransactionManager,
        scheduler: Scheduler,
        broker_id: str,
        audit: Audit | None,
    ) -> None:
        self._settings = settings
        self._clients = clients
        self._flow = flow
        self._registry = registry
        self._advisories = advisories
        self._duplicates = duplicates
        self._permissions = permissions
        self._subscriptions = subscriptions
        self._transaction_manager = transaction_manager
        self._scheduler = scheduler
        self._broker_id = broker_id
        self._audit = audit
        self._takeovers = Takeovers(clock, self._replace)
        self._departures = Departures(slices, subscriptions, registry, self.remove_producer)

    def stop(self) -> None:
        """All clients have gone, and no more will come: finish what is left of removing them."""
        self._departures.finish()

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
        holder = self._clients.by_connection_id(login.connection_id)
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

    def connect(self, login: Login, port: ClientPort, *, is_broker: bool = False) -> Connection:
        """Admit a client now. Raises `InvalidClientId` if its connection id or client id is in use.

        *is_broker*: it is the broker's own, which has the broker's id.
        """
        connection_id, client_id, user = login.connection_id, login.client_id, login.user
        if not client_id:
            raise InvalidClientId("a connection needs a client id, and this one has none")
        if not is_unicode(connection_id + client_id + (user or "")):
            raise InvalidClientId(f"half a surrogate pair in {connection_id!r}, {client_id!r} or {user!r} is no text")
        if self._broker_id in (connection_id, client_id) and not is_broker:
            raise InvalidClientId(f"{self._broker_id} is the broker's own id")
        if client_id == CURSOR_CLIENT_ID:
            raise InvalidClientId(f"{client_id} is whose the subscriptions of cursors are; choose another client id")
        holder = self._clients.by_client_id(client_id)
        if holder is not None and holder.connection_id != connection_id:
            raise InvalidClientId(
                f"client id {client_id} is in use by connection {holder.connection_id}; "
                "close that one first or choose another id"
            )
        if self._clients.by_connection_id(connection_id) is not None:
            raise InvalidClientId(f"connection id {connection_id} is in use by another client; choose another id")
        principal = BROKER if is_broker else login.principal
        self._permissions.permit(principal, Action.CONNECT)
        limits = self._settings.current.connection
        connection = Connection(
            connection_id=connection_id,
            client_id=client_id,
            port=port,
            principal=principal,
            user=user,
            proof=login.proof,
            is_reconnect=login.is_reconnect,
            limits=ConnectionLimits(
                limits.sessions_max, limits.producers_max, limits.consumers_max, limits.destinations_max
            ),
        )
        self._clients.add(connection)
        self._duplicates.greet(connection)
        self._advisories.connection_added(connection)
        return connection

    def end(self, connection: Connection, reason: str) -> None:
        """End a connection from the broker's side; what it had not finished goes to others."""
        self.disconnect(connection)
        connection.port.close(reason)

    def _replace(self, old: Connection) -> None:
        self.end(old, "it does not answer, and its client has connected again")

    def disconnect(self, connection: Connection, last_delivered: int = LAST_DELIVERED_UNKNOWN) -> None:
        """Forget a client and all it announced; what it had not finished goes to others (D7)."""
        if not connection.is_open:
            return
        connection.is_open = False
        self._clients.remove(connection)
        self._report_dropped(connection, self._flow.end(connection))
        self._departures.close_connection(connection, last_delivered, self._transaction_manager.roll_back_all)
        self._registry.forget_maker(connection)
        self._scheduler.forget_client(connection)
        self._advisories.connection_removed(connection)
        self._takeovers.left(connection)

    def _report_dropped(self, connection: Connection, dropped: list[BlockedSend]) -> None:
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
        if self._audit is not None:
            for send in dropped:
                place = DestinationPlace(repr(send.message.destination))
                self._audit.happened(
                    Event.DROPPED, place, send.message, cause="its client left, and there was no space"
                )

    # ---- what they announce ------------------------------------------------------------------------------------

    def remove_session(
        self, connection: Connection, session_id: int, last_delivered: int = LAST_DELIVERED_UNKNOWN
    ) -> None:
        """Close a session with its producers and consumers."""
        connection.require_session(session_id)
        self._departures.close_session(connection, session_id, last_delivered)
        connection.sessions.discard(session_id)

    def add_producer(self, connection: Connection, producer: Producer) -> None:
        """Announce a producer; its destination exists from then on."""
        if producer.destination is not None:
            self._permissions.permit(connection.principal, Action.SEND, producer.destination)
        self._departures.forestall(connection.connection_id, producer_id=producer.producer_id)
        known = producer.producer_id in connection.producers
        connection.require_session(producer.session_id)
        if producer.destination is not None and not producer.destination.is_composite:
            self._registry.get_or_make(producer.destination, connection)
        connection.add_producer(producer)
        if not known:
            self._clients.add_producer(producer)
            self._advisories.producer_added(producer)

    def remove_producer(self, connection: Connection, producer_id: str) -> None:
        """A producer is done."""
        producer = connection.producers.get(producer_id)
        connection.remove_producer(producer_id)
        if producer is not None:
            self._clients.remove_producer(producer)
            self._advisories.producer_removed(producer)

    def subscribe(self, connection: Connection, request: SubscriptionRequest, port: ConsumerPort) -> Subscription:
        """Add a consumer. Messages may reach *port* before this returns."""
        action = Action.BROWSE if request.browser else Action.CONSUME
        self._permissions.permit(connection.principal, action, request.destination)
        self._departures.forestall(connection.connection_id, consumer_id=request.consumer_id)
        return self._subscriptions.subscribe(connection, request, port)

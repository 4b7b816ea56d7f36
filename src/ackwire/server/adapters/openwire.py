"""OpenWire commands to broker verbs, and the broker's words back to OpenWire.

One function per command, found in one table. The parts: `openwire_login.py`, `openwire_sending.py`,
`openwire_consuming.py` and `openwire_transactions.py`; `openwire_client.py` is what they share. A verb that fails is
answered in the protocol's own terms in one place (`OpenWireClient.refuse`).
"""

import logging
from collections.abc import Callable
from typing import Any, Final

from ackwire.broker.advisory import is_advisory
from ackwire.broker.broker import Broker
from ackwire.broker.slices import GIVE_WAY_SECONDS
from ackwire.config import Settings
from ackwire.errors import AckwireError, BrokerError, RemoteProtocolError, Unsupported
from ackwire.jms.destinations import peer_destination
from ackwire.jms.message import Message
from ackwire.server.adapters.contract import AdaptedPeer, Adapter
from ackwire.server.adapters.openwire_client import OpenWireClient, given
from ackwire.server.adapters.openwire_consuming import Consuming
from ackwire.server.adapters.openwire_login import OpenWireLogin
from ackwire.server.adapters.openwire_sending import Sending
from ackwire.server.adapters.openwire_transactions import Transactions
from ackwire.util.clock import Clock
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.codec_fast import Ack, destination_from_wire
from ackwire.wire.openwire.negotiation import Agreement
from ackwire.wire.openwire.protocol import Event, OpenWireProtocol, Undeliverable
from ackwire.wire.openwire.structures import Structure

_SLOW_SECONDS: Final = GIVE_WAY_SECONDS
"""A command that takes so long is named if it holds up the loop, and the clock is looked at behind it."""

_log = logging.getLogger(__name__)


class OpenWireAdapter(Adapter):
    """One client's commands, carried out."""

    def __init__(
        self,
        *,
        peer: AdaptedPeer,
        protocol: OpenWireProtocol,
        broker: Broker,
        clock: Clock,
        settings: Settings,
        address: str,
    ) -> None:
        client = OpenWireClient(
            peer=peer, protocol=protocol, broker=broker, clock=clock, settings=settings, address=address
        )
        super().__init__(client, protocol)
        self._client = client
        self.sending = Sending(client)
        self.consuming = Consuming(client)
        self.login = OpenWireLogin(client, self.sending, self.consuming)
        self.transactions = Transactions(client)

    # ---- from the peer -----------------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        """Carry out one event. Raises `RemoteProtocolError` if it has no place here."""
        if type(event) is Message:
            self.sending.message(event)
        elif type(event) is Ack:
            self.consuming.ack(event)
        else:
            self._handle_rare(event)

    def _handle_rare(self, event: Event) -> None:
        """Carry out what is no plain message or ack, and remember it if it takes long."""
        clock = self._client.clock
        began = clock.monotonic()
        if isinstance(event, Undeliverable):
            self.sending.undeliverable(event)
        elif isinstance(event, commands.MessageAck):
            self.consuming.whole_ack(event)
        elif isinstance(event, Agreement):
            self._on_agreement(event)
        else:
            self._on_command(event)
        if clock.monotonic() - began >= _SLOW_SECONDS:
            self.slow_command = type(event).__name__

    def _on_agreement(self, agreement: Agreement) -> None:
        client = self._client
        client.peer.handshake_finished(
            agreement.inactivity_ms, agreement.inactivity_initial_delay_ms, agreement.tcp_no_delay
        )
        client.send(
            commands.BrokerInfo(
                broker_id=commands.BrokerId(client.broker.broker_id),
                broker_name=client.settings.broker.name,
                broker_url=None,
                peer_broker_infos=(),
            )
        )

    def _on_command(self, command: Any) -> None:
        if not isinstance(command, commands.BaseCommand):
            raise RemoteProtocolError(f"{type(command).__name__} is not a command")
        handler = _HANDLERS.get(type(command), OpenWireAdapter._on_unsupported)
        if self._client.connection is None and type(command) not in _BEFORE_LOGIN:
            raise RemoteProtocolError(f"{type(command).__name__} came before ConnectionInfo")
        client = self._client
        try:
            is_harmless = self._is_harmless(command)
            answered = handler(self, command)
        except BrokerError as error:
            client.refuse(error, command.command_id, command.response_required)
            return
        if not answered and command.response_required:
            if is_harmless:
                client.respond(command.command_id)
            else:
                client.respond_when_durable(command.command_id)

    def _is_harmless(self, command: commands.BaseCommand) -> bool:
        """Whether neither *command* nor anything before it changes what a store keeps: then its answer promises nothing
        and need not wait for a database that is away, and neither must one who asks why (`ackwire why`). After an ack
        any answer says that the ack is safe, too."""
        client = self._client
        if client.may_have_changed_store or isinstance(command, commands.ConnectionInfo):
            return False
        is_harmless = isinstance(command, (commands.SessionInfo, commands.RemoveInfo, commands.KeepAliveInfo))
        if isinstance(command, commands.ProducerInfo):
            is_harmless = self._is_kept_already(command.destination)
        elif isinstance(command, commands.ConsumerInfo):
            is_harmless = command.subscription_name is None and self._is_kept_already(command.destination)
        elif isinstance(command, commands.DestinationInfo):
            is_harmless = isinstance(command.destination, commands.ActiveMQTempDestination)
        client.may_have_changed_store = not is_harmless
        return is_harmless

    def _is_kept_already(self, where: commands.ActiveMQDestination | None) -> bool:
        """Whether a store has no need to record *where*: it does so already, or never will."""
        if where is None:
            return True
        destination = destination_from_wire(where, peer_destination)
        if destination.is_composite or destination.is_wildcard:
            return False
        is_known = self._client.broker.registry.router.get(destination) is not None
        return is_known or destination.kind.is_temporary or is_advisory(destination)

    # Handlers return True when they have answered (or will), None to have a plain Response sent for them.

    def _on_session_info(self, info: commands.SessionInfo) -> None:
        client = self._client
        session_id = given(info.session_id, "SessionInfo without a session id")
        client.check_own(session_id.connection_id)
        client.open_connection.add_session(session_id.value)

    def _on_remove_info(self, info: commands.RemoveInfo) -> None:
        client = self._client
        last_delivered = info.last_delivered_sequence_id
        match info.object_id:
            case commands.ConsumerId() as consumer_id:
                self.consuming.remove_consumer(consumer_id, last_delivered)
            case commands.ProducerId() as producer_id:
                self.sending.remove_producer(producer_id)
            case commands.SessionId() as session_id:
                client.check_own(session_id.connection_id)
                client.broker.remove_session(client.open_connection, session_id.value, last_delivered)
                self.consuming.forget_last()
            case commands.ConnectionId() as connection_id:
                client.check_own(connection_id.value)
                client.broker.disconnect(client.open_connection, last_delivered)
                self.consuming.forget_last()
            case other:
                raise RemoteProtocolError(f"RemoveInfo for a {type(other).__name__}")

    def _on_destination_info(self, info: commands.DestinationInfo) -> None:
        client = self._client
        destination = destination_from_wire(info.destination, peer_destination)
        if info.operation_type == commands.DestinationOperation.ADD:
            client.broker.add_destination(client.open_connection, destination)
        elif info.operation_type == commands.DestinationOperation.REMOVE:
            client.broker.remove_destination(client.open_connection, destination)
        else:
            raise Unsupported(f"operation {info.operation_type} of a DestinationInfo is unknown")

    def _on_keep_alive(self, info: commands.KeepAliveInfo) -> bool:
        client = self._client
        if info.response_required:
            client.send(commands.KeepAliveInfo(command_id=info.command_id))
        return True

    def _on_shutdown(self, _info: commands.ShutdownInfo) -> bool:
        client = self._client
        client.peer.close_quietly("the client has shut down")
        return True

    def _on_told(self, command: Any) -> None:
        """The client reports something that needs no action here."""
        client = self._client
        _log.debug("%s says %r", client.address, command)

    def _on_unsupported(self, command: Any) -> None:
        raise Unsupported(f"{type(command).__name__} is not offered by this broker")

    # ---- to the peer -------------------------------------------------------------------------------------------

    def send_keep_alive(self) -> None:
        self._client.send(commands.KeepAliveInfo())

    def send_shutdown(self) -> None:
        self._client.send(commands.ShutdownInfo())

    def send_connection_error(self, error: AckwireError) -> None:
        """Tell the client about an error that belongs to no command it waits for."""
        self._client.send_connection_error(error)

    def connection_lost(self) -> None:
        """The socket has gone: so has everything the client announced."""
        self.consuming.forget_last()
        super().connection_lost()


_BEFORE_LOGIN: Final = frozenset(
    {commands.ConnectionInfo, commands.ConnectionControl, commands.KeepAliveInfo, commands.ShutdownInfo}
)
"""All that a stranger may say. A failover client that reconnects begins with a ConnectionControl."""

_HANDLERS: Final[dict[type[Structure], Callable[[OpenWireAdapter, Any], bool | None]]] = {
    commands.ConnectionInfo: lambda adapter, info: adapter.login.connection_info(info),
    commands.SessionInfo: OpenWireAdapter._on_session_info,
    commands.ProducerInfo: lambda adapter, info: adapter.sending.producer_info(info),
    commands.ConsumerInfo: lambda adapter, info: adapter.consuming.consumer_info(info),
    commands.RemoveInfo: OpenWireAdapter._on_remove_info,
    commands.DestinationInfo: OpenWireAdapter._on_destination_info,
    commands.RemoveSubscriptionInfo: lambda adapter, info: adapter.consuming.remove_subscription(info),
    commands.TransactionInfo: lambda adapter, info: adapter.transactions.transaction_info(info),
    commands.MessagePull: lambda adapter, pull: adapter.consuming.pull(pull),
    commands.ConsumerControl: lambda adapter, control: adapter.consuming.consumer_control(control),
    commands.KeepAliveInfo: OpenWireAdapter._on_keep_alive,
    commands.ShutdownInfo: OpenWireAdapter._on_shutdown,
    commands.ConnectionControl: OpenWireAdapter._on_told,
    commands.ConnectionError: OpenWireAdapter._on_told,
    commands.FlushCommand: OpenWireAdapter._on_told,
    commands.Response: OpenWireAdapter._on_told,
}
"""Commands the broker understands; every other one is answered as unsupported."""

"""One OpenWire client, shared by the parts of its adapter: its answers, and what it owns."""

import logging
from collections.abc import Hashable
from functools import partial
from typing import Any, final

from ackwire.broker.broker import Broker
from ackwire.broker.subscription import Subscription
from ackwire.config import Settings
from ackwire.errors import AckwireError, BrokerError, NotAuthorised, RemoteProtocolError
from ackwire.server.adapters.contract import AdaptedClient, AdaptedPeer
from ackwire.server.adapters.openwire_errors import cut, throwable
from ackwire.util.clock import Clock
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.protocol import OpenWireProtocol
from ackwire.wire.openwire.structures import Structure

_log = logging.getLogger(__name__)


@final
class OpenWireClient(AdaptedClient):
    """The client at the other end of one OpenWire connection."""

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
        super().__init__(peer, broker, clock)
        self.protocol = protocol
        self.settings = settings
        self.address = address
        self.may_have_changed_store = False
        """Whether it has sent, acknowledged or asked for something that the store keeps."""

    # ---- answers -----------------------------------------------------------------------------------------------

    def send(self, command: Structure) -> None:
        """Tell the client *command*."""
        self.protocol.send(command)
        self.peer.output_waits()

    def respond(self, command_id: int) -> None:
        """The plain answer to a command."""
        self.protocol.send_response(command_id)
        self.peer.output_waits()

    def respond_when_durable(self, command_id: int) -> None:
        """Answer a command once all is on disk that it has changed."""
        on_failed = partial(self.refuse, command_id=command_id, response_required=True)
        self.broker.when_durable(partial(self.respond, command_id), on_failed)

    def refuse(self, error: BrokerError, command_id: int, response_required: bool) -> None:
        """An ExceptionResponse where the client waits for an answer, a ConnectionError where it does not."""
        _log.info("%s: refused: %s", self.address, cut(str(error)))
        if response_required:
            self.send(commands.ExceptionResponse(correlation_id=command_id, exception=throwable(error)))
        else:
            self.send_connection_error(error)

    def send_connection_error(self, error: AckwireError) -> None:
        """Tell the client about an error that belongs to no command it waits for."""
        if self.protocol.agreement is not None:
            self.send(commands.ConnectionError(exception=throwable(error)))

    def fail_transaction(self, transaction_id: Hashable, error: BrokerError) -> None:
        """Something in a transaction was refused: it can only be rolled back."""
        if self.connection is not None:
            self.broker.transaction_manager.fail(self.connection, transaction_id, str(error))

    # ---- what this client owns ---------------------------------------------------------------------------------

    def check_own(self, connection_id: str | None) -> None:
        """Raise `NotAuthorised` for ids that belong to another connection."""
        if connection_id != self.open_connection.connection_id:
            raise NotAuthorised(f"connection {connection_id} does not belong to this client")

    def subscription(self, consumer_id: commands.ConsumerId) -> Subscription:
        """The client's subscription with this id. Raises `UnknownResource`."""
        return self.broker.subscription(self.open_connection, str(consumer_id))


def given(value: Any, otherwise: str) -> Any:
    """*value*, which a command must have. Raises `RemoteProtocolError` with the text *otherwise*."""
    if value is None:
        raise RemoteProtocolError(otherwise)
    return value

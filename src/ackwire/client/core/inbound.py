"""What the broker says, and which part of the connection it is for."""

from ackwire.client.core.hooks import EngineHooks, Hooks
from ackwire.client.core.login import Login
from ackwire.client.core.members import Members
from ackwire.client.core.requests import Requests
from ackwire.client.core.temporaries import Temporaries
from ackwire.client.core.wire_link import WireLink
from ackwire.client.errors import ConnectionFailedError, JMSError, error_from_wire
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.client_decode import Dispatch, EndOfMessages
from ackwire.wire.openwire.negotiation import Agreement
from ackwire.wire.openwire.protocol import Event


class Inbound:
    """Passes each event of the wire protocol on."""

    def __init__(
        self,
        link: WireLink,
        requests: Requests,
        login: Login,
        members: Members,
        temporaries: Temporaries,
        hooks: Hooks,
        engine: EngineHooks,
        *,
        is_failover: bool,
    ) -> None:
        self._link = link
        self._requests = requests
        self._login = login
        self._members = members
        self._temporaries = temporaries
        self._hooks = hooks
        self._engine = engine
        self._is_failover = is_failover

    def on_event(self, event: Event) -> None:
        match event:
            case Dispatch():
                if not self._members.on_dispatch(event) and self._temporaries.is_watching(event.consumer_id):
                    self._temporaries.on_advisory(event)
            case EndOfMessages():
                self._members.on_end_of_messages(event.consumer_id)
            case commands.Response():
                self._requests.on_response(event)
            case commands.ProducerAck():
                self._members.on_producer_ack(event)
            case Agreement():
                self._link.agree(event)
                self._engine.on_agreed(event)
                self._login.go_on()
            case commands.KeepAliveInfo():
                if event.response_required:
                    self._link.write(commands.KeepAliveInfo(command_id=event.command_id))
            case commands.ConnectionError():
                self._on_connection_error(error_from_wire(event.exception))
            case commands.ConnectionControl():
                self._engine.on_control(event)
            case commands.ConsumerControl():
                self._members.on_consumer_control(event)
            case _:  # BrokerInfo, ShutdownInfo and the like: nothing to do
                pass

    def _on_connection_error(self, error: JMSError) -> None:
        self._link.last_error = error
        if not (self._is_failover and isinstance(error, ConnectionFailedError)):
            self._hooks.failed(error)

"""The login of an OpenWire client: admitted at once, later, or not at all."""

import os
from functools import partial
from hashlib import blake2b
from typing import Final, final

from ackwire.broker.session import Connection, Login
from ackwire.errors import BrokerError, RemoteProtocolError
from ackwire.server.adapters.openwire_client import OpenWireClient
from ackwire.server.adapters.openwire_consuming import Consuming
from ackwire.server.adapters.openwire_sending import Sending
from ackwire.wire.openwire import commands

_REFUSED_LOGIN_SECONDS: Final = 2.0
"""How long a client that was not admitted may stay, to read why; ActiveMQ's figure."""

_ID_LENGTH_MAX: Final = 1024
"""Characters in a connection id; it stands in every other id, and those are remembered."""

_PROOF_KEY: Final = os.urandom(32)
"""Of this run: digests of passwords are compared with each other, and are nowhere else."""


@final
class OpenWireLogin:
    """Carries out ConnectionInfo."""

    __slots__ = ("_client", "_consuming", "_sending")

    def __init__(self, client: OpenWireClient, sending: Sending, consuming: Consuming) -> None:
        self._client = client
        self._sending = sending
        self._consuming = consuming

    def connection_info(self, info: commands.ConnectionInfo) -> bool | None:
        client = self._client
        if client.connection is not None and client.connection.is_open:
            raise RemoteProtocolError("a second ConnectionInfo on the same socket, without a RemoveInfo for the first")
        if info.connection_id is None or not info.connection_id.value:
            raise RemoteProtocolError("ConnectionInfo without a connection id")
        if len(info.connection_id.value) > _ID_LENGTH_MAX:
            raise RemoteProtocolError(f"a connection id has over {_ID_LENGTH_MAX} characters, the limit")
        login = Login(
            connection_id=info.connection_id.value,
            client_id=info.client_id,
            user=info.user_name,
            proof=_proof(info.password),
            is_reconnect=info.failover_reconnect,
        )
        try:
            client.claim = client.broker.admit(
                login, client.peer, partial(self._admitted, info), partial(self._not_admitted, info)
            )
        except BrokerError as error:
            self._dismiss(error)
            raise
        if client.claim is not None:
            client.wait(info.command_id)
        return True

    def _admitted(self, info: commands.ConnectionInfo, connection: Connection) -> None:
        client = self._client
        client.connection = connection
        self._sending.forget_all()
        self._consuming.forget_last()
        client.peer.login_finished()
        if info.response_required:
            client.respond(info.command_id)
        if info.manageable:
            client.send(self._control(info))
        self._go_on(info)

    def _control(self, info: commands.ConnectionInfo) -> commands.ConnectionControl:
        """What a client is told of the brokers of the group, if there is one."""
        cluster = self._client.settings.cluster
        if not cluster.members:
            return commands.ConnectionControl()
        return commands.ConnectionControl(
            fault_tolerant=True,
            connected_brokers=",".join(cluster.members),
            # Who has just come from another broker stays: it would connect anew without end.
            rebalance_connection=cluster.rebalance and not info.failover_reconnect,
        )

    def _not_admitted(self, info: commands.ConnectionInfo, error: BrokerError) -> None:
        client = self._client
        self._dismiss(error)
        client.refuse(error, info.command_id, info.response_required)
        self._go_on(info)

    def _dismiss(self, error: BrokerError) -> None:
        client = self._client
        client.peer.close_later(_REFUSED_LOGIN_SECONDS, f"it was not admitted: {error}")

    def _go_on(self, info: commands.ConnectionInfo) -> None:
        """The login is decided: what the client has sent behind it is next."""
        client = self._client
        if client.claim is not None:
            client.claim = None
            client.go_on_behind(info.command_id)


def _proof(password: str | None) -> bytes:
    """What tells one password from another, and cannot be turned back into it."""
    if not password:
        return b""
    return blake2b(password.encode("utf-8", "surrogatepass"), key=_PROOF_KEY, digest_size=16).digest()

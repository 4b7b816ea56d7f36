"""What an OpenWire client sends: its producers, and the messages of all of them."""

from collections.abc import Callable
from functools import partial
from typing import final

from ackwire.broker.session import Producer
from ackwire.errors import BrokerError, NotAuthorised, RemoteProtocolError, UnknownResource
from ackwire.jms.destinations import peer_destination
from ackwire.jms.message import Message
from ackwire.server.adapters.openwire_client import OpenWireClient, given
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.codec_fast import destination_from_wire, producer_key, window_bytes
from ackwire.wire.openwire.layout import COMMAND_ID_AT, INT, RESPONSE_REQUIRED_AT
from ackwire.wire.openwire.protocol import Undeliverable


@final
class Sending:
    """Carries out ProducerInfo and messages."""

    __slots__ = ("_client", "_windowed_producers")

    def __init__(self, client: OpenWireClient) -> None:
        self._client = client
        self._windowed_producers: set[bytes] = set()

    def producer_info(self, info: commands.ProducerInfo) -> None:
        client = self._client
        producer_id = given(info.producer_id, "ProducerInfo without a producer id")
        client.check_own(producer_id.connection_id)
        destination = None if info.destination is None else destination_from_wire(info.destination, peer_destination)
        client.broker.add_producer(
            client.open_connection,
            Producer(str(producer_id), producer_id.session_id, destination, window_bytes=info.window_size),
        )
        if info.window_size > 0:
            self._windowed_producers.add(producer_key(producer_id))

    def remove_producer(self, producer_id: commands.ProducerId) -> None:
        client = self._client
        client.check_own(producer_id.connection_id)
        client.broker.remove_producer(client.open_connection, str(producer_id))
        self._windowed_producers.discard(producer_key(producer_id))

    def forget_all(self) -> None:
        """The client logs in anew."""
        self._windowed_producers.clear()

    # ---- messages: the hot path --------------------------------------------------------------------------------

    def message(self, message: Message) -> None:
        client = self._client
        connection = client.connection
        if connection is None:
            raise RemoteProtocolError("a message came before ConnectionInfo")
        frame = message.frame
        on_stored: Callable[[], None] | None = None
        if frame[RESPONSE_REQUIRED_AT]:
            command_id: int = INT.unpack_from(frame, COMMAND_ID_AT)[0]
            on_stored = partial(client.respond, command_id)
        elif message.origin.producer_key in self._windowed_producers:
            on_stored = partial(self._return_window, message)
        try:
            if not connection.is_open:
                raise UnknownResource(f"{connection!r} is closed")
            if message.origin.connection_id != connection.connection_id:
                raise NotAuthorised(f"producer of connection {message.origin.connection_id} is not this client's")
            if message.persistent:
                client.may_have_changed_store = True
            client.broker.send(connection, message, on_stored, self._refuse_send)
        except BrokerError as error:
            self._refuse_send(message, error)

    def undeliverable(self, event: Undeliverable) -> None:
        client = self._client
        if client.connection is None:
            raise RemoteProtocolError("a message came before ConnectionInfo")
        client.refuse(event.error, event.command_id, event.response_required)

    def _refuse_send(self, message: Message, error: BrokerError) -> None:
        client = self._client
        frame = message.frame
        if message.origin.transaction is not None:
            client.fail_transaction(message.origin.transaction, error)
        client.refuse(error, INT.unpack_from(frame, COMMAND_ID_AT)[0], frame[RESPONSE_REQUIRED_AT] != 0)

    def _return_window(self, message: Message) -> None:
        """Give a producer with a window its bytes back; one that gets a Response needs no ProducerAck (B4)."""
        client = self._client
        producer_id, size = window_bytes(message)
        client.send(commands.ProducerAck(producer_id=producer_id, size=size))

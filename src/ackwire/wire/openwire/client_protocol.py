"""The client's end of a connection: `OpenWireProtocol` with fast paths for what clients send and receive most.

Events are those of `OpenWireProtocol`, except that a MessageDispatch comes as `Dispatch`, or as `EndOfMessages` where
it carries no message, whatever the encoding on the wire.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from ackwire.wire.openwire import commands
from ackwire.wire.openwire.client_decode import DispatchDecoder, dispatch_from
from ackwire.wire.openwire.client_encode import AckTemplate
from ackwire.wire.openwire.frame_builder import OutgoingMessage
from ackwire.wire.openwire.layout import DISPATCH_TYPE
from ackwire.wire.openwire.limits import DEFAULT_LIMITS, WireLimits
from ackwire.wire.openwire.marshal import NULL_TYPE, WireFormat
from ackwire.wire.openwire.negotiation import Preferences
from ackwire.wire.openwire.protocol import HANDSHAKE_FRAME_BYTES_MAX, Event, OpenWireProtocol
from ackwire.wire.openwire.structures import Structure

RESPONSE_TYPE: Final = 30
_RESPONSE: Final = Struct(">BiBi")


class ClientProtocol(OpenWireProtocol):
    """One OpenWire connection, without the socket, as a client sees it."""

    def __init__(
        self,
        wants: Preferences,
        limits: WireLimits = DEFAULT_LIMITS,
        handshake_frame_bytes_max: int = HANDSHAKE_FRAME_BYTES_MAX,
    ) -> None:
        super().__init__(wants, limits, handshake_frame_bytes_max)
        self._dispatch_decoder = DispatchDecoder(limits)

    # ---- receiving ---------------------------------------------------------------------------------------------

    def _fast_events(self) -> Iterator[Event]:
        self._finished = True
        buffer, decoder = self._buffer, self._dispatch_decoder
        while (frame := buffer.next_frame(self._frame_bytes_max)) is not None:
            kind = frame[0] if frame else NULL_TYPE
            if kind == DISPATCH_TYPE:
                yield decoder.dispatch(frame)
            elif kind == RESPONSE_TYPE and len(frame) == _RESPONSE.size:
                _, command_id, response_required, correlation_id = _RESPONSE.unpack(frame)
                yield commands.Response(command_id, response_required != 0, correlation_id)
            elif frame != b"\0":  # the null command says nothing
                yield self._event_in(frame)
        self._finished = False

    def _has_short_ways(self, wire_format: WireFormat) -> bool:
        """Those of a client know no slots."""
        return wire_format.cache_size is None and super()._has_short_ways(wire_format)

    def _event_for(self, command: Structure | None) -> Event:
        event = super()._event_for(command)
        return dispatch_from(event) if isinstance(event, commands.MessageDispatch) else event

    # ---- sending -----------------------------------------------------------------------------------------------

    def send_message(self, message: OutgoingMessage, command_id: int, response_required: bool) -> None:
        """A message, for the first time or again."""
        if not self._is_fast:
            self.send(message.command(command_id, response_required))
            return
        fields = message.fields
        head = message.head(command_id, response_required)
        self._out += (head, fields)
        self.waiting_bytes += len(head) + len(fields)

    def send_ack(
        self,
        template: AckTemplate,
        command_id: int,
        ack_type: int,
        first_id: bytes | None,
        last_id: bytes,
        count: int,
        response_required: bool = False,
    ) -> None:
        """An ack without a cause. Ids are `Dispatch.encoded_id`, or `encoded_id` of a structure."""
        if self._is_fast:
            self._put(template.frame(command_id, response_required, ack_type, first_id, last_id, count))
        else:
            self.send(template.command(command_id, response_required, ack_type, first_id, last_id, count))

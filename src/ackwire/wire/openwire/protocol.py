"""One OpenWire connection, without the socket: frames in, events out, and the other way round.

The first frame from each side is a WireFormatInfo in the format that every connection starts with; from then on both
speak what was agreed. Events are

* `Agreement`, once, after the peer's WireFormatInfo;
* `Message`, in canonical form whatever the peer's encoding: the adapter reads command id and response flag from it;
* `Undeliverable` in its place, for a destination that cannot be;
* `Ack`, or the whole `MessageAck` where it belongs to a transaction or carries a cause;
* `Dispatch` and `EndOfMessages` for a MessageDispatch, on a client's side only (`client_protocol.py`);
* every other command as its structure.

Loose encoding, version 10 or later, takes the fast path, with a cache or without; everything else goes through the
plain codec.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final

from ackwire.compilation import mypyc_attr
from ackwire.errors import InvalidDestination, RemoteProtocolError
from ackwire.jms.destinations import peer_destination
from ackwire.jms.message import Message
from ackwire.wire.buffer import FrameBuffer
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.cached_decode import SlotReader
from ackwire.wire.openwire.cached_encode import Consumer, SlotWriter, put_dispatch
from ackwire.wire.openwire.client_decode import Dispatch, EndOfMessages
from ackwire.wire.openwire.codec_fast import (
    CANONICAL,
    FAST_VERSION_MIN,
    Ack,
    FastDecoder,
    UnusableDestination,
    ack_from,
    response_frame,
)
from ackwire.wire.openwire.layout import ACK_TYPE, FIRST_MESSAGE_TYPE, LAST_MESSAGE_TYPE, MESSAGE_TYPES, SIZE_BYTES
from ackwire.wire.openwire.limits import DEFAULT_LIMITS, WireLimits
from ackwire.wire.openwire.marshal import NULL_TYPE, Codec, Truncated, WireFormat
from ackwire.wire.openwire.negotiation import Agreement, Preferences, negotiate, offer
from ackwire.wire.openwire.structures import Structure
from ackwire.wire.protocol import WireProtocol


@dataclass(frozen=True, slots=True)
class Undeliverable:
    """A message whose destination cannot be: to be refused."""

    command_id: int
    response_required: bool
    error: InvalidDestination


Event = Agreement | Message | Undeliverable | Ack | Dispatch | EndOfMessages | Structure

HANDSHAKE_FRAME_BYTES_MAX: Final = 64 * 1024
"""A frame before login: handshake commands are small, and strangers get no more."""

_COMMAND_ID: Final = Struct(">i")


@mypyc_attr(allow_interpreted_subclasses=True)  # the simulation watches one
class OpenWireProtocol(WireProtocol):
    """Implements `WireProtocol` for OpenWire 1 to 12, for either side of a connection."""

    def __init__(
        self,
        wants: Preferences,
        limits: WireLimits = DEFAULT_LIMITS,
        handshake_frame_bytes_max: int = HANDSHAKE_FRAME_BYTES_MAX,
    ) -> None:
        super().__init__()
        self._wants = wants
        self._limits = limits
        self._buffer = FrameBuffer()
        self._frame_bytes_max = handshake_frame_bytes_max
        self._codec = Codec(WireFormat(), limits)
        self._canonical = Codec(CANONICAL, limits)
        self._fast_decoder = FastDecoder(limits, peer_destination)
        self._is_fast = False
        self._slot_reader: SlotReader | None = None
        self._slot_writer: SlotWriter | None = None
        self._finished = False
        self._out: list[bytes] = []
        self.agreement: Agreement | None = None
        self.send(offer(wants))

    # ---- receiving ---------------------------------------------------------------------------------------------

    def receive_data(self, data: bytes) -> None:
        """Take what the peer sent."""
        self._buffer.append(data)

    def receive_eof(self) -> None:
        """The peer will send no more. Raises `RemoteProtocolError` if that is in the middle of a frame."""
        if not self._finished and self._buffer.waiting_bytes:
            self._finished = True
            raise RemoteProtocolError(f"it left {self._buffer.waiting_bytes} bytes into a frame")

    @property
    def unfinished_bytes(self) -> int:
        """The size of the frame that has arrived in part; 0 if none has."""
        return self._buffer.unfinished_bytes

    @property
    def missing_bytes(self) -> int:
        """The bytes of that frame that have not arrived."""
        return self._buffer.missing_bytes

    @property
    def arrivals(self) -> int:
        """Changes when a frame is complete that was unfinished (`FrameBuffer.arrivals`)."""
        return self._buffer.arrivals

    def drop_received(self) -> None:
        """Discard the input: free the partly received frame, and ignore what the peer has sent."""
        self._finished = True
        self._buffer = FrameBuffer()

    def login_finished(self) -> None:
        """The peer has introduced itself: frames may have the agreed size from now on."""
        assert self.agreement is not None
        self._frame_bytes_max = self.agreement.frame_bytes_max

    def events(self) -> Iterator[Event]:
        """The events of all complete frames received so far."""
        if self._finished:
            return iter(())
        return self._fast_events() if self._is_fast else self._plain_events()

    def _plain_events(self) -> Iterator[Event]:
        self._finished = True  # until proven otherwise: an error ends it for good
        while not self._is_fast:
            event = self._next_event()
            if event is None:
                break
            yield event
        else:  # agreed just now
            yield from self._fast_events()
        self._finished = False

    def _fast_events(self) -> Iterator[Event]:
        """As `_plain_events` would yield them, with a fast path for the usual commands."""
        self._finished = True
        buffer = self._buffer
        while (frame := buffer.next_frame(self._frame_bytes_max)) is not None:
            kind = frame[0] if frame else NULL_TYPE
            if kind == ACK_TYPE:
                yield self._ack(frame)
            elif FIRST_MESSAGE_TYPE <= kind <= LAST_MESSAGE_TYPE:
                yield self._message(frame)
            elif frame != b"\0":  # the null command says nothing
                yield self._event_in(frame)
        self._finished = False

    def _next_event(self) -> Event | None:
        if not self._codec.wire_format.size_prefix:
            return self._next_unsized_event()
        frame = self._buffer.next_frame(self._frame_bytes_max)
        while frame == b"\0":  # the null command says nothing
            frame = self._buffer.next_frame(self._frame_bytes_max)
        return None if frame is None else self._event_in(frame)

    def _event_in(self, frame: bytes) -> Event:
        if not self._is_fast:
            return self._event_for(self._codec.decode(frame))
        if not frame:
            raise RemoteProtocolError("an empty frame")
        if frame[0] in MESSAGE_TYPES:
            return self._message(frame)
        if frame[0] == ACK_TYPE:
            return self._ack(frame)
        return self._event_for(self._codec.decode(frame))

    def _next_unsized_event(self) -> Event | None:
        """Without sizes, the only way to know that a command is whole is to read it."""
        while unread := self._buffer.unread():
            try:
                command, end = self._codec.decode_first(unread)
            except Truncated as truncated:
                if truncated.needed > self._frame_bytes_max:
                    raise
                self._buffer.wait_until(truncated.needed)
                return None
            self._buffer.skip(end)
            if command is not None:
                return self._event_for(command)
        return None

    def _event_for(self, command: Structure | None) -> Event:
        if self.agreement is None:
            return self._agree(command)
        if isinstance(command, commands.Message):
            # Encoded again in canonical form: versions, encodings and caches end here.
            return self._canonical_message(self._canonical.encode(command)[SIZE_BYTES:])
        if isinstance(command, commands.MessageAck):
            return ack_from(command)
        if command is None or isinstance(command, commands.WireFormatInfo):
            raise RemoteProtocolError(f"{type(command).__name__} has no place after the handshake")
        return command

    def _message(self, frame: bytes) -> Event:
        """A message as it comes on the fast path."""
        if self._slot_reader is None:
            return self._canonical_message(frame)
        message = self._slot_reader.message(frame)
        return self._event_for(self._codec.decode(frame)) if message is None else message

    def _ack(self, frame: bytes) -> Event:
        if self._slot_reader is None:
            return self._fast_decoder.ack(frame)
        ack = self._slot_reader.ack(frame)
        return self._event_for(self._codec.decode(frame)) if ack is None else ack

    def _canonical_message(self, frame: bytes) -> Message | Undeliverable:
        try:
            return self._fast_decoder.message(frame)
        except UnusableDestination as unusable:
            return Undeliverable(_COMMAND_ID.unpack_from(frame, 1)[0], frame[5] != 0, unusable.error)

    def _agree(self, command: Structure | None) -> Agreement:
        if not isinstance(command, commands.WireFormatInfo):
            raise RemoteProtocolError(f"the first command is {type(command).__name__}, not WireFormatInfo")
        self.agreement = negotiate(self._wants, command)
        wire_format = self.agreement.wire_format
        self._codec = Codec(wire_format, self._limits)
        self._is_fast = self._has_short_ways(wire_format)
        if self._is_fast and self._codec.receive_cache is not None and self._codec.send_cache is not None:
            self._slot_reader = SlotReader(self._codec.receive_cache, self._fast_decoder)
            self._slot_writer = SlotWriter(self._codec.send_cache)
        return self.agreement

    def _has_short_ways(self, wire_format: WireFormat) -> bool:
        """For messages, acks and dispatches."""
        return (
            wire_format.version >= FAST_VERSION_MIN
            and not wire_format.tight
            and wire_format.size_prefix
            and not wire_format.stack_traces
        )

    # ---- sending -----------------------------------------------------------------------------------------------

    def send(self, command: Structure) -> None:
        """Any command, through the plain codec."""
        self._put(self._codec.encode(command))

    def send_response(self, correlation_id: int) -> None:
        """The plain answer to a command that demanded one."""
        if self._is_fast:
            self._put(response_frame(correlation_id))
        else:
            self.send(commands.Response(correlation_id=correlation_id))

    def send_dispatch(self, consumer: Consumer, message: Message, out_time_ms: int, group_first: bool = False) -> None:
        """A message for *consumer*."""
        if self._slot_writer is not None:
            written = self._slot_writer.put(self._out, consumer, message, out_time_ms, group_first)
        elif self._is_fast:
            written = put_dispatch(self._out, consumer, message, out_time_ms, group_first)
        else:
            self.send(self._dispatch_structure(consumer, message, out_time_ms, group_first))
            return
        self.waiting_bytes += written

    def _dispatch_structure(
        self, consumer: Consumer, message: Message, out_time_ms: int, group_first: bool
    ) -> commands.MessageDispatch:
        body = self._canonical.decode(message.frame)
        assert isinstance(body, commands.Message)
        body.broker_out_time = out_time_ms
        body.group_first_for_consumer = group_first
        return commands.MessageDispatch(
            consumer_id=consumer.consumer_id,
            destination=body.destination,
            message=body,
            redelivery_counter=message.redelivery_counter,
        )

    def send_end_of_messages(self, consumer: Consumer) -> None:
        """Nothing (more) to come: a pull that found nothing, or the end of a browse."""
        self.send(commands.MessageDispatch(consumer_id=consumer.consumer_id))

    def _put(self, piece: bytes) -> None:
        self._out.append(piece)
        self.waiting_bytes += len(piece)

    def data_to_send(self) -> list[bytes]:
        """Take the pieces that are waiting to be written, in order."""
        pieces = self._out
        self._out = []
        self.waiting_bytes = 0
        return pieces

"""No client at all: a socket, messages that were encoded beforehand, acks with the least work there is.

What `client_versus_stomp.py` measures with it is what the broker can do for one connection. Messages are still checked,
by their number, and the broker has to confirm acks now and then.
"""

import itertools
import os
import queue
import socket
import threading
from collections.abc import Iterator
from typing import Final

from ackwire.jms.destinations import Kind, destination
from ackwire.wire.buffer import FrameBuffer
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.bodies import encode_text
from ackwire.wire.openwire.client_decode import Dispatch, DispatchDecoder
from ackwire.wire.openwire.codec_fast import CANONICAL, destination_to_wire
from ackwire.wire.openwire.commands import AckType
from ackwire.wire.openwire.frame_builder import FrameBuilder
from ackwire.wire.openwire.layout import DISPATCH_TYPE
from ackwire.wire.openwire.marshal import Codec
from bench.client_work import NUMBER_DIGITS, PREFETCH, Measured, Stopwatch, Work, text_of
from bench.load_client import RECEIVE_BYTES, SEND_BYTES, connect

_FRAME_BYTES_MAX: Final = 1024 * 1024
_TEXT_TYPE: Final = commands.ActiveMQTextMessage.TYPE_ID
_RESPONSE_TYPE: Final = commands.Response.TYPE_ID
_EXCEPTION_TYPE: Final = commands.ExceptionResponse.TYPE_ID
_UNCONFIRMED_MAX: Final = 256
"""Acks of some 110 bytes: with so many the broker is asked for an answer, and nothing is written before it comes."""
_LENGTH_BYTES: Final = 4
"""In front of the text in a body."""

_numbers: Final = itertools.count(1)
_codec: Final = Codec(CANONICAL)


class BareClient:
    """A loop around a socket."""

    def __init__(self, port: int) -> None:
        self._port = port

    def send(self, work: Work) -> Measured:
        peer = _Peer(self._port)
        producer_id = commands.ProducerId(peer.connection_id, 1, 1)
        peer.introduce(commands.ProducerInfo(producer_id=producer_id))
        template = FrameBuilder(producer_id, destination(Kind.QUEUE, work.queue))
        frames = [_message(template, number, work) for number in range(1, work.count + 1)]
        data = b"".join(frames)
        watch = Stopwatch()
        if work.confirm == "each":
            for frame in frames:
                peer.socket.sendall(frame)
                peer.await_responses(1)
        else:
            for start in range(0, len(data), SEND_BYTES):
                peer.socket.sendall(data[start : start + SEND_BYTES])
            peer.await_responses(work.count if work.confirm == "all" else 1)
        measured = watch.read()
        peer.socket.close()
        return measured

    def receive(self, work: Work) -> Measured:
        peer = _Peer(self._port)
        where = destination_to_wire(destination(Kind.QUEUE, work.queue))
        consumer_id = commands.ConsumerId(peer.connection_id, 1, 1)
        info = commands.ConsumerInfo(consumer_id=consumer_id, destination=where, prefetch_size=PREFETCH)
        watch = Stopwatch()
        peer.socket.sendall(_codec.encode(info))
        self._consume(peer, work)
        peer.put(_codec.encode(commands.RemoveInfo(response_required=True, object_id=consumer_id)), is_asking=True)
        peer.await_confirmations()
        measured = watch.read()
        peer.put(b"")
        peer.socket.close()
        return measured

    def _consume(self, peer: "_Peer", work: Work) -> None:
        ack_type = AckType.STANDARD if work.ack == "auto" else AckType.INDIVIDUAL
        threading.Thread(target=peer.write_outgoing, daemon=True).start()
        expected = unconfirmed = 0
        while expected < work.count:
            dispatches = peer.dispatches()
            for dispatch in dispatches:
                expected += 1
                assert _number(dispatch) == expected, f"message {expected} is {dispatch}"
            if dispatches:
                unconfirmed += len(dispatches)
                is_asking = unconfirmed >= _UNCONFIRMED_MAX
                peer.put(_acks(dispatches, ack_type, is_asking=is_asking), is_asking=is_asking)
                unconfirmed = 0 if is_asking else unconfirmed


def _acks(dispatches: list[Dispatch], ack_type: AckType, *, is_asking: bool) -> bytes:
    """One for each; the last one may ask for an answer."""
    last = dispatches[-1]
    frames = [
        it.channel.ack_template.frame(1, is_asking and it is last, ack_type, it.encoded_id, it.encoded_id, 1)
        for it in dispatches
    ]
    return b"".join(frames)


def _message(template: FrameBuilder, number: int, work: Work) -> bytes:
    content = encode_text(text_of(number))
    outgoing = template.message(_TEXT_TYPE, number, content, persistent=work.persistent)
    is_confirmed = work.confirm != "last" or number == work.count
    return outgoing.head(number, is_confirmed) + outgoing.fields


def _number(dispatch: Dispatch) -> int:
    assert dispatch.content is not None
    return int(dispatch.content[_LENGTH_BYTES : _LENGTH_BYTES + NUMBER_DIGITS])


class _Peer:
    """A connection with one session."""

    def __init__(self, port: int) -> None:
        self.connection_id = f"ID:bare-{os.getpid()}-{next(_numbers)}:1"
        login: list[commands.BaseCommand] = [
            commands.ConnectionInfo(
                command_id=1,
                response_required=True,
                connection_id=commands.ConnectionId(self.connection_id),
                client_id=self.connection_id,
            ),
            commands.SessionInfo(session_id=commands.SessionId(self.connection_id, 1)),
        ]
        self.socket: socket.socket = connect(port, login)
        self._outgoing: queue.SimpleQueue[tuple[bytes, bool]] = queue.SimpleQueue()
        self._unanswered = 0
        self._answers = threading.Semaphore(0)
        self._buffer = FrameBuffer()
        self._decoder = DispatchDecoder()

    def introduce(self, info: commands.BaseCommand) -> None:
        info.response_required = True
        self.socket.sendall(_codec.encode(info))
        self.await_responses(1)

    def await_responses(self, count: int) -> None:
        while count > 0:
            kinds = [frame[0] for frame in self._frames()]
            count -= kinds.count(_RESPONSE_TYPE)

    def dispatches(self) -> list[Dispatch]:
        """What came in one portion."""
        found: list[Dispatch] = []
        for frame in self._frames():
            if frame[0] == DISPATCH_TYPE:
                dispatch = self._decoder.dispatch(frame)
                if isinstance(dispatch, Dispatch):
                    found.append(dispatch)
            elif frame[0] == _RESPONSE_TYPE:
                self._unanswered -= 1
                self._answers.release()
            elif frame[0] == _EXCEPTION_TYPE:
                raise RuntimeError(f"the broker says: {_codec.decode(frame)}")
        return found

    def put(self, data: bytes, *, is_asking: bool = False) -> None:
        """Have *data* written, and what comes behind it not before an answer, if it *is_asking* for one."""
        self._unanswered += is_asking
        self._outgoing.put((data, is_asking))

    def await_confirmations(self) -> None:
        """Until all that was asked for is answered."""
        while self._unanswered:
            self.dispatches()

    def write_outgoing(self) -> None:
        """In a thread of its own: while ActiveMQ writes it does not read, so the writer must go on reading. When
        what it has not read fills its buffer, the kernel drops what comes beyond, with it the news that we have read,
        and both sides wait forever: so there is never more than a part of what the buffer holds."""
        is_asking = False
        while True:
            if is_asking:
                self._answers.acquire()
            data, is_asking = self._outgoing.get()
            if not data:
                return
            self.socket.sendall(data)

    def _frames(self) -> Iterator[bytes]:
        data = self.socket.recv(RECEIVE_BYTES)
        if not data:
            raise RuntimeError("the broker closed the connection")
        self._buffer.append(data)
        while (frame := self._buffer.next_frame(_FRAME_BYTES_MAX)) is not None:
            yield frame

"""The load for `loopback.py`, in a process of its own: one producer and one consumer on raw sockets.

Handshake and login go through `OpenWireProtocol`. After that only bytes are moved, because a client that decodes every
message costs more than the broker and would be what is measured: the producer writes frames encoded beforehand, the
consumer finds the message's number at its fixed place in each dispatch and puts it into an ack encoded beforehand.

    python -m bench.load_client PORT BROKER_PID MESSAGES REPETITIONS    prints a line of JSON per repetition
"""

import json
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from struct import Struct

import psutil

from ackwire.wire.openwire import commands
from ackwire.wire.openwire.marshal import Codec
from ackwire.wire.openwire.negotiation import Agreement, Preferences
from ackwire.wire.openwire.protocol import OpenWireProtocol
from ackwire.wire.openwire.structures import Structure
from bench import samples

WARM_UP_MESSAGES = 20_000
RECEIVE_BYTES = 256 * 1024
SEND_BYTES = 256 * 1024
TIMEOUT_SECONDS = 60.0
DISPATCH_TYPE = commands.MessageDispatch.TYPE_ID
MARKER = 0x01020304
"""A message number that is found again in encoded frames."""

_SIZE = Struct(">I")
_NUMBER = Struct(">q")


def main(arguments: Sequence[str]) -> None:
    port, broker_pid, messages, repetitions = map(int, arguments)
    broker = psutil.Process(broker_pid)
    producer = connect(port, samples.producer_login())
    consumer = Consumer(connect(port, samples.consumer_login()))
    run(producer, consumer, encoded_messages(range(1, WARM_UP_MESSAGES + 1)), WARM_UP_MESSAGES)
    for repetition in range(repetitions):
        first = WARM_UP_MESSAGES + repetition * messages + 1  # a number that comes again would be taken as a repetition
        data = encoded_messages(range(first, first + messages))
        cpu_before, started = cpu_seconds(broker), time.monotonic()
        run(producer, consumer, data, messages)
        seconds = time.monotonic() - started
        print(json.dumps({"seconds": seconds, "broker_cpu_seconds": cpu_seconds(broker) - cpu_before}), flush=True)


def cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def run(producer: socket.socket, consumer: "Consumer", data: bytes, count: int) -> None:
    """Send the *count* messages in *data* and return when the broker has handled the last ack."""
    sender = threading.Thread(target=send_all, args=(producer, data), daemon=True)
    sender.start()
    consumer.consume(count)
    sender.join()


def send_all(producer: socket.socket, data: bytes) -> None:
    view = memoryview(data)
    for start in range(0, len(data), SEND_BYTES):
        producer.sendall(view[start : start + SEND_BYTES])


def encoded_messages(numbers: range) -> bytes:
    return encoded(Codec(samples.LOOSE).encode(samples.text_message(MARKER)), numbers)


def encoded(template: bytes, numbers: range) -> bytes:
    """A frame for each of *numbers*, like *template*, whose number is `MARKER`."""
    frame = bytearray(template)
    place = frame.index(_NUMBER.pack(MARKER))
    out = bytearray()
    for number in numbers:
        _NUMBER.pack_into(frame, place, number)
        out += frame
    return bytes(out)


def connect(port: int, login: Sequence[Structure]) -> socket.socket:
    """A socket with a client that the broker knows; raises if it is refused."""
    connection = socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    protocol = OpenWireProtocol(Preferences(inactivity_ms=0))
    events = received_events(connection, protocol)
    connection.sendall(b"".join(protocol.data_to_send()))
    while not isinstance(next(events), Agreement):
        pass
    for command in login:
        protocol.send(command)
    connection.sendall(b"".join(protocol.data_to_send()))
    for _ in [command for command in login if getattr(command, "response_required", False)]:
        while not isinstance(event := next(events), commands.Response):
            pass
        if isinstance(event, commands.ExceptionResponse):
            raise RuntimeError(f"refused: {event.exception}")
    return connection


def received_events(connection: socket.socket, protocol: OpenWireProtocol) -> Iterator[object]:
    while data := connection.recv(RECEIVE_BYTES):
        protocol.receive_data(data)
        yield from protocol.events()
    raise RuntimeError("the broker closed the connection")


class Consumer:
    """Acknowledges each message, as a Java consumer in AUTO_ACKNOWLEDGE does."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        ack = Codec(samples.LOOSE).encode(samples.ack(MARKER))
        self._ack_pieces = ack.split(_NUMBER.pack(MARKER))  # the number stands in it twice
        message = samples.text_message(MARKER)
        dispatch = commands.MessageDispatch(consumer_id=samples.CONSUMER_ID, destination=samples.QUEUE, message=message)
        self._number_at = Codec(samples.LOOSE).encode(dispatch).index(_NUMBER.pack(MARKER))
        self._unread = b""

    def consume(self, count: int) -> None:
        """Receive and acknowledge *count* messages, and wait until the broker has seen it all."""
        while count > 0:
            numbers = [frame[self._number_at : self._number_at + 8] for frame in self._receive()]
            count -= len(numbers)
            self._connection.sendall(b"".join([number.join(self._ack_pieces) for number in numbers]))
        self._wait_for_broker()

    def _receive(self) -> list[bytes]:
        """The dispatches, size prefix included, that came in the next portion."""
        data = self._unread + self._read()
        dispatches = []
        position = 0
        while len(data) - position >= samples.SIZE_PREFIX_BYTES:
            end = position + samples.SIZE_PREFIX_BYTES + _SIZE.unpack_from(data, position)[0]
            if end > len(data):
                break
            if data[position + samples.SIZE_PREFIX_BYTES] == DISPATCH_TYPE:
                dispatches.append(data[position:end])
            position = end
        self._unread = data[position:]
        return dispatches

    def _wait_for_broker(self) -> None:
        """Commands are handled in order: when the keep-alive is answered, so is everything before it."""
        keep_alive = Codec(samples.LOOSE).encode(commands.KeepAliveInfo(response_required=True))
        self._connection.sendall(keep_alive)
        while len(self._unread) < len(keep_alive):
            self._unread += self._read()
        self._unread = b""

    def _read(self) -> bytes:
        data = self._connection.recv(RECEIVE_BYTES)
        if not data:
            raise RuntimeError("the broker closed the connection")
        return data


if __name__ == "__main__":
    main(sys.argv[1:])

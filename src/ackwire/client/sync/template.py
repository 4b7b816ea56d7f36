# generated from src/ackwire/client/aio/template.py by tools/async_to_sync.py; change that
"""`Template`: one line to send, to receive, or to ask (M9).

    template = Template("tcp://broker:61616")
    template.send("orders", "hello", properties={"region": "north"})
    message = template.receive("orders", timeout_seconds=5)
    answer = template.request("prices", "ACME")

It opens one connection when it is first used, and another when that has failed. Each call has a session to itself while
it lasts, so that any number of tasks may call; sessions are kept for the next call.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from ackwire.client.errors import ConnectionFailedError
from ackwire.client.message import Message
from ackwire.client.sending import Body, json_message
from ackwire.client.settings import read_destination
from ackwire.client.sync.closing import ClosedAtEnd
from ackwire.client.sync.connection import Connection, ConnectionFactory
from ackwire.client.sync.keeper import ConnectionKeeper
from ackwire.client.sync.producer import Producer
from ackwire.client.sync.session import Session
from ackwire.client.sync.workers import Lock
from ackwire.jms.destinations import Destination

SESSIONS_MAX: Final = 8
"""How many are kept while they are not in use."""
REQUEST_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class _Seat:
    """A session, for one call at a time."""

    connection: Connection
    session: Session
    producer: Producer


class Template(ClosedAtEnd):
    """Sends and receives with connections of *factory*, which may be a URL.

    Not for streams of messages: `receive` makes a consumer for each, which is slow, and takes one message from the
    broker, which is fair. The message is acknowledged when it is returned: if it must not be lost while it is being
    processed, use a listener.
    """

    def __init__(self, factory: ConnectionFactory | str, *, sessions_max: int = SESSIONS_MAX) -> None:
        self._keeper = ConnectionKeeper(factory)
        self._sessions_max = sessions_max
        self._lock = Lock("the list of sessions")
        self._free: list[_Seat] = []

    def send(self, destination: Destination | str, body: Body, **headers: Any) -> Message:
        """Send, and return the message with its id; *headers* as for `Producer.send`."""
        with self._seat() as seat:
            return seat.producer.send(body, destination=destination, **headers)

    def send_json(self, destination: Destination | str, value: Any, **headers: Any) -> Message:
        """Send *value* as JSON text, which `Message.json` reads; *headers* as for `Producer.send`."""
        return self.send(destination, json_message(value), **headers)

    def receive(
        self, destination: Destination | str, timeout_seconds: float, *, selector: str | None = None
    ) -> Message | None:
        """The next message, or None after *timeout_seconds*."""
        with self._seat() as seat, seat.session.consumer(_one_at_a_time(destination), selector) as consumer:
            return consumer.receive(timeout_seconds)

    def request(
        self, destination: Destination | str, body: Body, *, timeout_seconds: float = REQUEST_SECONDS, **headers: Any
    ) -> Message:
        """Send with a reply-to of its own and return the answer. Raises `RequestTimedOutError`."""
        with self._seat() as seat:
            return seat.session.request(destination, body, timeout_seconds=timeout_seconds, **headers)

    def close(self) -> None:
        """Close the connection; calls that are under way fail."""
        self._keeper.close()

    # ---- sessions --------------------------------------------------------------------------------------------------

    @contextmanager
    def _seat(self) -> Iterator[_Seat]:
        connection = self._keeper.connection()
        seat = self._taken(connection)
        try:
            yield seat
        except ConnectionFailedError:
            # It is unknown whether the broker has the message: sending it again is the caller's decision.
            self._keeper.failed(connection)
            raise
        finally:
            self._give_back(seat)

    def _taken(self, connection: Connection) -> _Seat:
        with self._lock:
            self._free = [seat for seat in self._free if seat.connection is connection and not seat.session.is_closed]
            if self._free:
                return self._free.pop()
        session = connection.session()
        return _Seat(connection, session, session.producer())

    def _give_back(self, seat: _Seat) -> None:
        with self._lock:
            if len(self._free) < self._sessions_max and not seat.session.is_closed:
                self._free.append(seat)
                return
        seat.session.close()


def _one_at_a_time(destination: Destination | str) -> str:
    """For a queue: the consumer asks for one message (C3), and takes none away from others that it does not return."""
    target = read_destination(destination)
    if target.destination.kind.is_queue and target.consumer.prefetch_size is None:
        target = replace(target, consumer=replace(target.consumer, prefetch_size=0))
    return str(target)

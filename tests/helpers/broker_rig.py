"""A broker core without sockets: a manual clock, a memory store, and clients that write down what they get.

    rig = BrokerRig()
    producer = rig.connect("producer")
    consumer = rig.consumer("queue://orders", prefetch=5)
    producer.send("queue://orders", "hello")
    assert consumer.texts == ["hello"]
    consumer.ack()
    rig.clock.advance(1.5)

Connections are clients of their own; a consumer without one gets a new one. Messages are made as a client makes them
and pass through the real decoder, so that the broker sees canonical frames.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Final, TypeAlias

from ackwire.broker.auditing import Audit
from ackwire.broker.broker import Broker
from ackwire.broker.in_flight import AckKind
from ackwire.broker.queue import Queue
from ackwire.broker.session import Connection, Login, Producer
from ackwire.broker.slices import SLICE_UNITS
from ackwire.broker.subscription import Subscription, SubscriptionRequest
from ackwire.config import Settings
from ackwire.config.policy import DestinationPolicy, Policies
from ackwire.errors import BrokerError
from ackwire.jms.destinations import Destination, Kind, destination, parse_destination
from ackwire.jms.message import Message
from ackwire.jms.types import Value
from ackwire.store.contract import Spill
from ackwire.store.memory import MemoryStore
from ackwire.util.clock import ManualClock, Turns
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.bodies import decode_text, encode_text
from ackwire.wire.openwire.codec_fast import CANONICAL, FastDecoder, destination_to_wire
from ackwire.wire.openwire.editor import OpenWireEditor
from ackwire.wire.openwire.marshal import Codec
from ackwire.wire.openwire.primitives import encode_map
from tests.helpers.paging_store import FakeSpill, PagingStore
from tests.helpers.recorded_audit import RecordedAudit
from tests.helpers.waiting import pending_in

SESSION: Final = 1
"""The session of every producer and consumer of a rig."""

Where: TypeAlias = str | Destination

RIGS: "Final[list[BrokerRig]]" = []
"""Those of the current test, for who wants to look at them at its end."""

_PLAIN: Final = Codec(CANONICAL)
_SIZE_PREFIX_BYTES: Final = 4


def named(where: Where) -> Destination:
    """`queue://orders`, or the destination itself."""
    return where if isinstance(where, Destination) else parse_destination(where)


def make_message(command: commands.Message, decoder: FastDecoder | None = None) -> Message:
    """The message that the broker makes of *command*."""
    return (decoder or FastDecoder()).message(_PLAIN.encode(command)[_SIZE_PREFIX_BYTES:])


def command_of(message: Message) -> commands.Message:
    """*message*, decoded: headers, body, everything."""
    command = _PLAIN.decode(message.frame)
    assert isinstance(command, commands.Message)
    return command


def text_of(message: Message) -> str | None:
    """The text of a text message."""
    return decode_text(command_of(message).content)


def contents(queue: Queue) -> list[Message]:
    """Every message of *queue* as a browser sees it; of a store that answers later, what waits."""
    found: list[Message] = []
    for batch in queue.view.browse():
        if not isinstance(batch, list):
            return list(pending_in(queue))
        found += batch
    return found


@dataclass(slots=True)
class FakeClientPort:
    """The server's end of a connection: remembers what the broker asked of it."""

    is_ready: bool = True
    has_received_all: bool = False
    is_held: bool = False
    closed: str | None = None
    is_there: bool = False
    """Whether the client answers when it is asked; the answer comes at once."""

    def challenge(self, on_verdict: Callable[[bool], None]) -> None:
        on_verdict(self.is_there)

    def hold(self, held: bool) -> None:
        self.is_held = held

    def close(self, reason: str) -> None:
        self.closed = reason


@dataclass(slots=True)
class FakeConsumerPort:
    """The server's end of a subscription: writes down what is delivered."""

    delivered: list[Message] = field(default_factory=list)
    group_firsts: list[bool] = field(default_factory=list)
    """For each delivery, whether it was the first of its group for this consumer."""
    ends: int = 0
    """How often it was told that there is nothing (more)."""
    prefetches: list[int] = field(default_factory=list)
    """What the broker changed its prefetch to."""

    def deliver(self, message: Message, group_first: bool) -> None:
        self.delivered.append(message)
        self.group_firsts.append(group_first)

    def end_of_messages(self) -> None:
        self.ends += 1

    def change_prefetch(self, prefetch: int) -> None:
        self.prefetches.append(prefetch)


class RigConsumer:
    """A consumer: what it got, and how it acknowledges."""

    def __init__(self, rig: "BrokerRig", client: "RigClient", request: SubscriptionRequest) -> None:
        self._broker = rig.broker
        self._editor = rig.editor
        self.client = client
        self.port = FakeConsumerPort()
        self.subscription: Subscription = rig.broker.subscribe(client.connection, request, self.port)

    @property
    def delivered(self) -> list[Message]:
        """Every message it was sent, in order."""
        return self.port.delivered

    @property
    def texts(self) -> list[str | None]:
        return [text_of(message) for message in self.delivered]

    def properties(self, index: int = -1) -> dict[str, Value]:
        """The properties of one of the messages it was sent."""
        return self._editor.properties(self.delivered[index])

    def ack(
        self,
        last: Message | None = None,
        *,
        first: Message | None = None,
        count: int = 1,
        kind: AckKind = AckKind.STANDARD,
        transaction: Hashable | None = None,
        cause: str | None = None,
    ) -> None:
        """Acknowledge *last*, by default the newest delivery; with *first* a range of *count*."""
        self._broker.acknowledge(
            self.subscription,
            kind,
            None if first is None else first.key,
            (last or self.delivered[-1]).key,
            count,
            transaction_id=transaction,
            cause=cause,
        )

    def ack_each(self, kind: AckKind = AckKind.INDIVIDUAL) -> None:
        """Acknowledge everything in flight, one by one."""
        in_flight: Any = getattr(self.subscription, "in_flight", ())
        for message in list(in_flight):
            self.ack(message, kind=kind)

    def pull(self, timeout_ms: int = 0) -> None:
        self._broker.pull(self.subscription, timeout_ms)

    def close(self, last_delivered: int | None = None) -> None:
        if last_delivered is None:
            self._broker.unsubscribe(self.subscription)
        else:
            self._broker.unsubscribe(self.subscription, last_delivered)


def logged_in(broker: Broker, login: Login, port: FakeClientPort) -> Connection:
    """The connection of *login*, which may have to replace another one; raises if it is refused."""
    admitted: list[Connection] = []
    refused: list[BrokerError] = []
    broker.admit(login, port, admitted.append, refused.append)
    if refused:
        raise refused[0]
    return admitted[0]


class RigClient:
    """A client: one connection, one session, one producer, any number of consumers and transactions."""

    def __init__(self, rig: "BrokerRig", name: str, *, is_reconnect: bool = False, **login: Any) -> None:
        self._rig = rig
        self._broker = rig.broker
        self.port = FakeClientPort()
        given: dict[str, Any] = {"connection_id": f"ID:{name}", "client_id": name, "is_reconnect": is_reconnect}
        self.connection: Connection = logged_in(rig.broker, Login(**(given | login)), self.port)
        self.connection.add_session(SESSION)
        self._numbers = count(1)
        self._counts = count(1)
        self._decoder = FastDecoder()
        self.use_another_producer(1)
        self.stored = 0
        """Sends that the broker has answered."""
        self.refused: list[Exception] = []
        """Sends that the broker refused after it had held them."""

    def use_another_producer(self, number: int) -> None:
        """Send as one that is announced now."""
        self._producer = commands.ProducerId(self.connection.connection_id, number, SESSION)
        self.producer_id = str(self._producer)
        self._broker.add_producer(self.connection, Producer(self.producer_id, SESSION, None))

    def produce_for(self, where: Where) -> None:
        """Announce another producer, for *where* alone."""
        producer_id = f"{self.connection.connection_id}:{SESSION}:{next(self._numbers) + 1000}"
        self._broker.add_producer(self.connection, Producer(producer_id, SESSION, named(where)))

    def message(
        self,
        where: Where,
        text: str | None = "x",
        *,
        properties: Mapping[str, Value] | None = None,
        transaction: commands.TransactionId | None = None,
        **headers: Any,
    ) -> Message:
        """A text message; *headers* are the fields of `commands.Message` (persistent, priority, expiration, …)."""
        headers.setdefault("persistent", True)
        headers.setdefault("priority", 4)
        headers.setdefault("timestamp", self._rig.clock.now_ms())
        if isinstance(headers.get("reply_to"), str | Destination):
            headers["reply_to"] = destination_to_wire(named(headers["reply_to"]))
        command = commands.ActiveMQTextMessage(
            producer_id=self._producer,
            destination=destination_to_wire(named(where)),
            transaction_id=transaction,
            message_id=commands.MessageId(None, self._producer, next(self._counts)),
            content=encode_text(text),
            marshalled_properties=encode_map(properties) if properties else None,
            **headers,
        )
        return make_message(command, self._decoder)

    def send(self, where: Where, text: str | None = "x", **options: Any) -> Message:
        """Send a message made as by `message`; the answer is the message."""
        message = self.message(where, text, **options)
        self.send_message(message)
        return message

    def send_message(self, message: Message) -> None:
        self._broker.send(self.connection, message, self._on_stored, lambda _, error: self.refused.append(error))

    def _on_stored(self) -> None:
        self.stored += 1

    def begin(self, number: int = 1) -> commands.TransactionId:
        """Open a local transaction."""
        transaction_id = commands.LocalTransactionId(number, commands.ConnectionId(self.connection.connection_id))
        self._broker.transaction_manager.begin(self.connection, transaction_id, is_xa=False)
        return transaction_id

    def commit(self, transaction_id: commands.TransactionId) -> None:
        self._broker.transaction_manager.commit(self.connection, transaction_id, lambda: None, one_phase=True)

    def roll_back(self, transaction_id: commands.TransactionId) -> None:
        self._broker.transaction_manager.roll_back(self.connection, transaction_id)

    def prepare(self, transaction_id: commands.TransactionId) -> int:
        """The answer to a prepare."""
        results: list[int] = []
        self._broker.transaction_manager.prepare(self.connection, transaction_id, results.append)
        return results[0]

    def consumer(self, where: Where, *, prefetch: int = 1000, **request: Any) -> RigConsumer:
        """A consumer; *request* are the fields of `SubscriptionRequest` (selector, exclusive, priority, …)."""
        consumer_id = f"{self.connection.connection_id}:{SESSION}:{next(self._numbers)}"
        return RigConsumer(
            self._rig, self, SubscriptionRequest(consumer_id, SESSION, named(where), prefetch, **request)
        )

    def temporary_queue(self, name: str = "1") -> Destination:
        """A temporary queue of this connection."""
        where = destination(Kind.TEMP_QUEUE, f"{self.connection.connection_id}:{name}")
        self._broker.add_destination(self.connection, where)
        return where

    def disconnect(self) -> None:
        self._broker.disconnect(self.connection)


class BrokerRig:
    """A broker with everything it needs. *settings* maps a table to the keys that differ from the defaults."""

    def __init__(
        self,
        *,
        settings: Mapping[str, Mapping[str, object]] | None = None,
        policies: tuple[DestinationPolicy, ...] = (),
        clock: ManualClock | None = None,
        store: MemoryStore | None = None,
        temp: Spill | None = None,
        audit: Audit | None = None,
        is_audited: bool = True,
        turns: Turns | None = None,
        slice_units: int = SLICE_UNITS,
    ) -> None:
        self.audit: Any = (audit or RecordedAudit()) if is_audited else None
        """What was told of every message; `audit.check(broker)` holds it against what is there."""
        self.clock = clock or ManualClock()
        self.store = store or MemoryStore()
        self.settings = _settings(settings or {})
        broker_id = f"ID:rig-{self.clock.now_ms()}"
        self.editor = OpenWireEditor(broker_id, "rig", self.clock)
        self.broker = Broker(
            clock=self.clock,
            store=self.store,
            editor=self.editor,
            settings=self.settings,
            policies=Policies(policies),
            temp=temp,
            audit=self.audit,
            turns=turns,
            slice_units=slice_units,
        )
        self.broker.start()
        self._names = count(1)
        RIGS.append(self)

    def connect(self, name: str | None = None, *, is_reconnect: bool = False, **login: Any) -> RigClient:
        """A client of its own; *login* are the fields of `Login` that differ from what its name says."""
        return RigClient(self, name or f"client-{next(self._names)}", is_reconnect=is_reconnect, **login)

    def consumer(self, where: Where, *, prefetch: int = 1000, **request: Any) -> RigConsumer:
        """A consumer on a connection of its own."""
        return self.connect().consumer(where, prefetch=prefetch, **request)

    def pending(self, where: Where) -> int:
        """How many messages wait in a queue."""
        made: Any = self.broker.registry.get_or_make(named(where))
        pending: int = made.view.pending_count
        return pending

    def restarted(self, after_seconds: float = 0.0) -> "BrokerRig":
        """Another broker on the same store, as after a restart; this one must not be used any more."""
        start_ms = self.clock.now_ms() + round(after_seconds * 1000)
        return BrokerRig(clock=ManualClock(start_ms), store=self.store, slice_units=self.broker.slices.units)


def paging_rig(
    memory_bytes_max: int,
    *,
    temp_bytes_max: int | None = None,
    policies: tuple[DestinationPolicy, ...] = (),
    is_audited: bool = True,
) -> tuple[BrokerRig, PagingStore, FakeSpill | None]:
    """A rig with little memory on a store that pages, and perhaps a temp store."""
    store = PagingStore(OpenWireEditor("ID:store", "store", ManualClock()).restored)
    temp = None if temp_bytes_max is None else FakeSpill(temp_bytes_max)
    limits = {"limits": {"memory_bytes_max": memory_bytes_max}}
    rig = BrokerRig(settings=limits, policies=policies, store=store, temp=temp, is_audited=is_audited)
    return rig, store, temp


def _settings(changes: Mapping[str, Mapping[str, object]]) -> Settings:
    settings = Settings()
    tables: dict[str, Any] = {table: replace(getattr(settings, table), **keys) for table, keys in changes.items()}
    return replace(settings, **tables)

"""The sessions, producers and consumers of a connection: what it needs of them, and which there are."""

from collections.abc import Callable
from typing import Protocol

from ackwire.client.core.requests import Requests
from ackwire.jms.destinations import Destination
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.client_decode import Channel, Dispatch


class Session(Protocol):
    """A session, as its connection sees it."""

    @property
    def value(self) -> int: ...

    def info(self) -> commands.SessionInfo: ...

    def wake(self) -> None: ...

    def restore(self) -> None:
        """Tell the broker of it, on a new link."""

    def restore_transaction(self) -> None:
        """Begin its transaction again, once the broker knows all producers and consumers."""

    def interrupted(self) -> None: ...

    def failed(self) -> None: ...

    def xa_decided(self, xid: commands.XATransactionId, *, committed: bool) -> None: ...


class Producer(Protocol):
    """A producer, as its connection sees it."""

    is_announced: bool
    """Whether the broker has agreed to it, so that it is announced again on a new link."""

    @property
    def producer_id(self) -> commands.ProducerId: ...

    def info(self) -> commands.ProducerInfo: ...

    def interrupted(self) -> None: ...

    def on_window_returned(self, size: int) -> None: ...


class Consumer(Protocol):
    """A consumer, as its connection sees it."""

    is_announced: bool
    """Whether the broker has agreed to it, so that it is announced again on a new link."""
    prefetch: int
    wake: Callable[[], None]

    @property
    def consumer_id(self) -> commands.ConsumerId: ...

    @property
    def destination(self) -> Destination: ...

    def info(self) -> commands.ConsumerInfo: ...

    def on_dispatch(self, dispatch: Dispatch) -> None: ...

    def on_end_of_messages(self) -> None: ...

    def closed_by_broker(self) -> None: ...


class Members:
    """What belongs to one connection."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self.sessions: dict[int, Session] = {}
        self._producers: dict[commands.ProducerId, Producer] = {}
        self._consumers: dict[commands.ConsumerId, Consumer] = {}
        self._last_channel: Channel | None = None
        self._last_consumer: Consumer | None = None
        """Whose the last dispatch was: usually the next one's too, and ids take time to compare."""

    def add_consumer(self, consumer: Consumer) -> None:
        self._consumers[consumer.consumer_id] = consumer

    def remove_consumer(self, consumer: Consumer) -> None:
        self._consumers.pop(consumer.consumer_id, None)
        self._last_channel = self._last_consumer = None

    def add_producer(self, producer: Producer) -> None:
        self._producers[producer.producer_id] = producer

    def remove_producer(self, producer: Producer) -> None:
        self._producers.pop(producer.producer_id, None)

    def remove_session(self, session: Session) -> None:
        self.sessions.pop(session.value, None)

    def consumes_from(self, where: Destination) -> bool:
        return any(consumer.destination == where for consumer in self._consumers.values())

    def xa_decided(self, xid: commands.XATransactionId, *, committed: bool) -> None:
        """A distributed transaction has ended: every session that had a part in it must know."""
        for session in list(self.sessions.values()):
            session.xa_decided(xid, committed=committed)

    # ---- what the broker says ----------------------------------------------------------------------------------

    def on_dispatch(self, dispatch: Dispatch) -> bool:
        """Give a message to its consumer; whether there is one."""
        if dispatch.channel is self._last_channel and self._last_consumer is not None:
            self._last_consumer.on_dispatch(dispatch)
            return True
        consumer = self._consumers.get(dispatch.consumer_id)
        if consumer is None:
            return False
        self._last_channel, self._last_consumer = dispatch.channel, consumer
        consumer.on_dispatch(dispatch)
        return True

    def on_end_of_messages(self, consumer_id: commands.ConsumerId) -> None:
        consumer = self._consumers.get(consumer_id)
        if consumer is not None:
            consumer.on_end_of_messages()

    def on_consumer_control(self, control: commands.ConsumerControl) -> None:
        consumer = self._consumers.get(control.consumer_id) if control.consumer_id is not None else None
        if consumer is None:
            return
        if control.close:
            consumer.closed_by_broker()
        else:
            consumer.prefetch = max(0, control.prefetch)

    def on_producer_ack(self, ack: commands.ProducerAck) -> None:
        producer = self._producers.get(ack.producer_id) if ack.producer_id is not None else None
        if producer is not None:
            producer.on_window_returned(ack.size)

    # ---- links -------------------------------------------------------------------------------------------------

    def interrupted(self) -> None:
        """The link is lost, and another one is being looked for."""
        for producer in self._producers.values():
            producer.interrupted()
        for session in list(self.sessions.values()):
            session.interrupted()

    def failed(self) -> None:
        """The connection is lost for good."""
        for session in list(self.sessions.values()):
            session.failed()

    def restore(self) -> None:
        """Tell the broker of all of them, on a new link."""
        for session in self.sessions.values():
            session.restore()
        for producer in self._producers.values():
            if producer.is_announced:
                self._announce_again(producer.info())
        for consumer in self._consumers.values():
            if consumer.is_announced:
                self._announce_again(consumer.info())
                consumer.wake()
        for session in self.sessions.values():
            session.restore_transaction()

    def _announce_again(self, command: commands.BaseCommand) -> None:
        self._requests.request(command, survives=False).then(self._requests.report)

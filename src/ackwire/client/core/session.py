"""One session: an ack mode, a transaction, and the producers and consumers that share them (A1, D, G)."""

import itertools
from collections.abc import Callable
from random import Random

from ackwire.client.core.connection import ConnectionCore
from ackwire.client.core.consumer import ConsumerCore
from ackwire.client.core.delivery import Delivery
from ackwire.client.core.modes import AckMode
from ackwire.client.core.producer import ProducerCore
from ackwire.client.core.reply import Reply
from ackwire.client.core.transaction import Transactions
from ackwire.client.errors import IllegalStateError
from ackwire.client.message import Message
from ackwire.client.options import ConsumerOptions, ProducerOptions, RedeliveryPolicy
from ackwire.jms.destinations import Destination
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.codec_fast import destination_to_wire
from ackwire.wire.openwire.structures import Structure


class SessionCore:
    """The state of one session."""

    def __init__(self, connection: ConnectionCore, value: int, ack_mode: AckMode, random: Random) -> None:
        self.connection = connection
        self.value = value
        self.ack_mode = ack_mode
        self._is_local = ack_mode is AckMode.SESSION_TRANSACTED
        self.random = random
        self.session_id = commands.SessionId(connection.connection_id.value, value)
        self.transactions = Transactions(self, connection)
        self.is_closed = False
        self.consumers: list[ConsumerCore] = []
        self.producers: list[ProducerCore] = []
        self._consumer_values = itertools.count(1)
        self._producer_values = itertools.count(1)
        self.on_wake: Callable[[], None] = _nothing
        """Called when something may have changed for one of the consumers."""

    @property
    def is_transacted(self) -> bool:
        """Whether what is done now belongs to a transaction, local or XA."""
        transactions = self.transactions
        return self._is_local or (transactions.transaction_id is not None and transactions.is_in_xa)

    def info(self) -> commands.SessionInfo:
        return commands.SessionInfo(session_id=self.session_id)

    def check_open(self) -> None:
        if self.is_closed:
            raise IllegalStateError("the session is closed")
        self.connection.link.check_usable()

    def wake(self) -> None:
        for consumer in self.consumers:
            consumer.wake()
        self.on_wake()

    # ---- producers and consumers -------------------------------------------------------------------------------

    def add_producer(
        self, where: Destination | None, options: ProducerOptions
    ) -> tuple[ProducerCore, Reply[Structure]]:
        """A new producer; it can send when the broker has agreed."""
        self.check_open()
        if where is not None and where.kind.is_temporary:
            self.connection.temporaries.check_not_gone(where)
        connection_options = self.connection.options
        window = options.window_bytes if options.window_bytes is not None else connection_options.producer_window_bytes
        is_async = options.dispatch_async if options.dispatch_async is not None else connection_options.dispatch_async
        producer_id = commands.ProducerId(
            self.session_id.connection_id, next(self._producer_values), self.session_id.value
        )
        producer = ProducerCore(self, producer_id, where, window, is_async)
        reply = self.connection.requests.request(producer.info())

        def answered(answer: Reply[Structure]) -> None:
            producer.is_announced = answer.error is None
            if answer.error is not None:
                self.remove_producer(producer)

        self.producers.append(producer)
        self.connection.members.add_producer(producer)
        reply.then(answered)
        return producer, reply

    def remove_producer(self, producer: ProducerCore) -> None:
        if producer in self.producers:
            self.producers.remove(producer)
        self.connection.members.remove_producer(producer)

    def add_consumer(
        self,
        where: Destination,
        prefetch: int,
        options: ConsumerOptions,
        policy: RedeliveryPolicy,
        *,
        selector: str | None = None,
        no_local: bool = False,
        subscription_name: str | None = None,
        is_browser: bool = False,
    ) -> tuple[ConsumerCore, Reply[Structure]]:
        """A new consumer; messages come as soon as the broker has agreed."""
        self.check_open()
        if where.kind.is_temporary:
            self.connection.temporaries.check_own(where)
        consumer_id = commands.ConsumerId(
            self.session_id.connection_id, self.session_id.value, next(self._consumer_values)
        )
        asked = self.connection.options
        limit = options.pending_message_limit_max
        info = commands.ConsumerInfo(
            consumer_id=consumer_id,
            browser=is_browser,
            destination=destination_to_wire(where),
            prefetch_size=prefetch,
            maximum_pending_message_limit=asked.prefetch.pending_message_limit_max if limit is None else limit,
            dispatch_async=asked.dispatch_async if options.dispatch_async is None else options.dispatch_async,
            selector=selector if selector is not None else options.selector,
            client_id=self.connection.client_id,
            subscription_name=subscription_name,
            no_local=no_local or bool(options.no_local),
            exclusive=asked.exclusive_consumer if options.exclusive is None else options.exclusive,
            retroactive=asked.use_retroactive_consumer if options.retroactive is None else options.retroactive,
            priority=options.priority or 0,
            optimized_acknowledge=self._is_optimized(is_browser),
        )
        consumer = ConsumerCore(self, info, where, policy)
        self.consumers.append(consumer)
        self.connection.members.add_consumer(consumer)
        reply = self.connection.requests.request(info)

        def answered(answer: Reply[Structure]) -> None:
            consumer.is_announced = answer.error is None
            if answer.error is not None:
                self.remove_consumer(consumer)

        reply.then(answered)
        return consumer, reply

    def _is_optimized(self, is_browser: bool) -> bool:
        return self.connection.options.optimize_acknowledge and self.ack_mode is AckMode.AUTO and not is_browser

    def remove_consumer(self, consumer: ConsumerCore) -> None:
        if consumer in self.consumers:
            self.consumers.remove(consumer)
        self.connection.members.remove_consumer(consumer)

    def leave_at_end(self, consumer: ConsumerCore) -> None:
        """*consumer* is closed, and leaves when the transaction that consumed from it is decided."""
        self.consumers.remove(consumer)
        self.transactions.leave_at_end(consumer)

    def unsubscribe(self, name: str) -> Reply[Structure]:
        """End a durable subscription (A3)."""
        self.check_open()
        return self.connection.requests.request(
            commands.RemoveSubscriptionInfo(
                connection_id=self.connection.connection_id,
                subscription_name=name,
                client_id=self.connection.client_id,
            )
        )

    # ---- acknowledging -----------------------------------------------------------------------------------------

    def acknowledge(self) -> list[Reply[Structure]]:
        """Everything that the session was given so far (D3); a transaction does so when it commits (D5)."""
        self.check_open()
        if self.is_transacted:
            return []
        return [reply for consumer in list(self.consumers) for reply in consumer.acknowledge()]

    def recover(self, cause: BaseException | None = None) -> None:
        """Give out again what was not acknowledged (F1); *cause* is what a dead letter names."""
        self.check_open()
        if self.is_transacted:
            raise IllegalStateError("a transacted session rolls back; recover is for the other modes")
        for consumer in list(self.consumers):
            consumer.roll_back(cause)

    # ---- links -------------------------------------------------------------------------------------------------

    def restore(self) -> None:
        self.connection.link.one_way(self.info())

    def restore_transaction(self) -> None:
        self.transactions.restore()

    def xa_decided(self, xid: commands.XATransactionId, *, committed: bool) -> None:
        """A distributed transaction has ended, in which this session may have had a part."""
        self.transactions.xa_decided(xid, committed=committed)

    def interrupted(self) -> None:
        for consumer in self.transactions.consumers():  # those too that are closed and wait for the decision
            consumer.interrupted()
        self.on_wake()

    def failed(self) -> None:
        """The connection is lost for good: calls that wait must know."""
        self.transactions.failed()
        self.wake()

    # ---- end ---------------------------------------------------------------------------------------------------

    def close(self) -> list[Reply[Structure]]:
        """Roll back, and leave with everything that belongs to it (D7)."""
        if self.is_closed:
            return []
        self.is_closed = True
        replies: list[Reply[Structure]] = []
        for consumer in list(self.consumers):
            consumer.prepare_to_close()
        if self.transactions.is_active and not self.transactions.is_in_xa:
            undone = self.transactions.abandon()
            if undone is not None:
                replies.append(undone)
        for consumer in list(self.consumers):
            consumer.leave_unanswered()
        for producer in list(self.producers):
            self.remove_producer(producer)
            producer.is_closed = True
        self.connection.members.remove_session(self)
        if self.connection.is_up:
            remove = commands.RemoveInfo(object_id=self.session_id)
            replies.append(self.connection.requests.request(remove, survives=False))
        self.on_wake()
        return replies

    # ---- what messages ask for ---------------------------------------------------------------------------------

    acknowledge_from_message: Callable[[Message], None]
    """Set by the public session: `Message.acknowledge` in CLIENT mode."""
    acknowledge_one: Callable[[ConsumerCore, Delivery], None]
    """The same in INDIVIDUAL mode."""
    reject_one: Callable[[ConsumerCore, Delivery, BaseException], None]
    """`Message.reject` in INDIVIDUAL mode."""


def _nothing() -> None:
    pass

"""Sessions: one order of work, one ack mode, one transaction at a time."""

import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ackwire.client.aio.browser import Browser
from ackwire.client.aio.closing import ClosedAtEnd
from ackwire.client.aio.consumer import Consumer
from ackwire.client.aio.owners import OwningConnection
from ackwire.client.aio.producer import Producer
from ackwire.client.aio.runtime import Opening, Waiter, opening
from ackwire.client.aio.session_listeners import SessionListeners
from ackwire.client.core.consumer import ConsumerCore
from ackwire.client.core.delivery import Delivery
from ackwire.client.core.modes import AckMode
from ackwire.client.core.reply import Reply
from ackwire.client.core.session import SessionCore
from ackwire.client.errors import (
    IllegalStateError,
    InvalidDestinationError,
    JMSError,
    RequestTimedOutError,
    TransactionRolledBackError,
    UnsupportedError,
    refused_consumer,
    was_refused,
)
from ackwire.client.message import Message
from ackwire.client.messages import BytesMessage, MapMessage, ObjectMessage, StreamMessage, TextMessage
from ackwire.client.options import ProducerOptions
from ackwire.client.sending import json_message
from ackwire.client.settings import REDELIVERY_GRACE_SECONDS, Where, policy_for, prefetch_for, read_destination
from ackwire.jms.destinations import Destination, Kind
from ackwire.jms.types import Value
from ackwire.wire.openwire.structures import Structure

REPLY_TIMEOUT_SECONDS: Final = 30.0


class Session(ClosedAtEnd):
    """Work in one order. Made by `Connection.session`; a session is for one task at a time."""

    def __init__(self, connection: OwningConnection, core: SessionCore) -> None:
        self.connection = connection
        self._core = core
        self._runtime = connection._runtime
        self._guard = connection._guard
        self._waiter = Waiter(self._guard)
        self._consumers: dict[ConsumerCore, Consumer] = {}
        self._listeners = SessionListeners(core, self._consumers, self._runtime, self._guard, self._waiter)
        core.on_wake = self._waiter.wake
        core.acknowledge_from_message = self._acknowledge_from_message
        core.acknowledge_one = self._acknowledge_one
        core.reject_one = self._reject_one

    @property
    def ack_mode(self) -> AckMode:
        return self._core.ack_mode

    @property
    def transacted(self) -> bool:
        return self._core.is_transacted

    @property
    def is_closed(self) -> bool:
        return self._core.is_closed

    # ---- producers and consumers -------------------------------------------------------------------------------

    def producer(self, destination: Where | None = None) -> Opening[Producer]:
        """A producer to *destination*; without one, each send names its own."""
        return opening(self._new_producer(destination))

    async def _new_producer(self, destination: Where | None) -> Producer:
        uri = None if destination is None else read_destination(destination)
        with self._guard:
            core, reply = self._core.add_producer(
                None if uri is None else uri.destination, uri.producer if uri is not None else ProducerOptions()
            )
            producer = Producer(self, core)
            try:
                await self._answer(reply, f"the producer to {uri.destination if uri else 'anywhere'!r}")
            except BaseException as error:
                if not was_refused(error):
                    core.close()
                raise
            return producer

    def consumer(self, destination: Where, selector: str | None = None, *, no_local: bool = False) -> Opening[Consumer]:
        """A consumer of *destination*, of those messages that match the *selector* (A7)."""
        return opening(self._new_consumer(destination, selector, no_local))

    async def _new_consumer(
        self,
        destination: Where,
        selector: str | None,
        no_local: bool,
        *,
        name: str | None = None,
        default: Kind = Kind.QUEUE,
    ) -> Consumer:
        uri = read_destination(destination, default)
        where = uri.destination
        options = self.connection.options
        is_auto = self.ack_mode is AckMode.AUTO
        prefetch = prefetch_for(
            options, uri.consumer, where, is_durable=name is not None, is_browser=False, is_auto=is_auto
        )
        policy = policy_for(self.connection.redelivery_policies, where, options.redelivery)
        with self._guard:
            core, reply = self._core.add_consumer(
                where,
                prefetch,
                uri.consumer,
                policy,
                selector=selector or None,
                no_local=no_local,
                subscription_name=name,
            )
            consumer = Consumer(self, core, selector)
            self._consumers[core] = consumer
            try:
                await self._answer(reply, f"the consumer of {where!r}")
            except BaseException as error:
                self._consumers.pop(core, None)
                if was_refused(error):
                    core.prepare_to_close()
                else:
                    core.close()
                meant = refused_consumer(error, selector or uri.consumer.selector)
                if meant is not error:
                    raise meant from error
                raise
            return consumer

    def durable_subscriber(
        self, topic: Where, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> Opening[Consumer]:
        """A subscriber whose subscription, *name* of this client id, outlives it (A3)."""
        return opening(self._new_durable(topic, name, selector, no_local))

    async def _new_durable(self, topic: Where, name: str, selector: str | None, no_local: bool) -> Consumer:
        where = read_destination(topic, Kind.TOPIC).destination
        if where.kind is not Kind.TOPIC:
            raise InvalidDestinationError(f"a durable subscription is one to a topic, and {where!r} is none")
        if not name:
            raise JMSError("a durable subscription needs a name")
        with self._guard:
            self._core.connection.check_named()
        return await self._new_consumer(topic, selector, no_local, name=name, default=Kind.TOPIC)

    async def shared_consumer(self, topic: Where, name: str, selector: str | None = None) -> Consumer:
        """Not offered by OpenWire: a queue, or a virtual topic, shares messages among consumers."""
        raise UnsupportedError(f"shared subscriptions ({name!r} to {topic!r}, {selector!r}) are not in OpenWire")

    async def shared_durable_consumer(self, topic: Where, name: str, selector: str | None = None) -> Consumer:
        """Not offered by OpenWire: a queue, or a virtual topic, shares messages among consumers."""
        return await self.shared_consumer(topic, name, selector)

    async def unsubscribe(self, name: str) -> None:
        """End the durable subscription *name*; it must not be in use."""
        with self._guard:
            await self._answer(self._core.unsubscribe(name), f"the end of subscription {name!r}")

    def browser(self, queue: Where, selector: str | None = None) -> Opening[Browser]:
        """A look at the messages of a queue, without consuming them."""
        return opening(self._new_browser(queue, selector))

    async def _new_browser(self, queue: Where, selector: str | None) -> Browser:
        uri = read_destination(queue)
        if not uri.destination.kind.is_queue:
            raise InvalidDestinationError(f"only queues can be browsed, not {uri.destination!r}")
        with self._guard:
            self._core.check_open()
        return Browser(self, uri, selector)

    async def temporary_queue(self) -> Destination:
        """A queue of this connection's own, gone when it closes (A8)."""
        return await self._temporary(Kind.TEMP_QUEUE)

    async def temporary_topic(self) -> Destination:
        """A topic of this connection's own, gone when it closes (A8)."""
        return await self._temporary(Kind.TEMP_TOPIC)

    async def _temporary(self, kind: Kind) -> Destination:
        with self._guard:
            self._core.check_open()
            where, reply = self._core.connection.temporaries.create(kind)
            try:
                await self._answer(reply, f"the making of {where!r}")
            except BaseException as error:
                if not was_refused(error):
                    self._core.connection.temporaries.discard(where)
                raise
            return where

    # ---- messages ----------------------------------------------------------------------------------------------

    def message(self) -> Message:
        """A message without a body."""
        return Message()

    def text_message(self, text: str | None = None) -> TextMessage:
        return TextMessage(text)

    def bytes_message(self, data: bytes = b"") -> BytesMessage:
        return BytesMessage(data)

    def map_message(self, entries: Mapping[str, Value] | None = None) -> MapMessage:
        return MapMessage(entries)

    def stream_message(self, values: Iterable[Value] = ()) -> StreamMessage:
        return StreamMessage(values)

    def object_message(self, data: bytes | None = None) -> ObjectMessage:
        return ObjectMessage(data)

    # ---- in one line -------------------------------------------------------------------------------------------

    async def send(self, destination: Where, body: Any, **headers: Any) -> Message:
        """Send one message; headers and times are those of `Producer.send`."""
        producer = await self.producer(destination)
        try:
            return await producer.send(body, **headers)
        finally:
            await producer.close()

    async def send_json(self, destination: Where, value: Any, **headers: Any) -> Message:
        """Send *value* as JSON text, which `Message.json` reads; headers and times are those of `Producer.send`."""
        return await self.send(destination, json_message(value), **headers)

    async def request(
        self,
        destination: Where,
        body: Any,
        *,
        timeout_seconds: float = REPLY_TIMEOUT_SECONDS,
        **headers: Any,
    ) -> Message:
        """Send a message and wait for the answer to it, on a temporary queue. Not in a transacted session."""
        if self._core.is_transacted:
            raise IllegalStateError("a request in a transaction is only sent when that commits: use another session")
        reply_to = await self.temporary_queue()
        try:
            async with self.consumer(reply_to) as consumer:
                request = await self.send(destination, body, reply_to=reply_to, **headers)
                answer = await consumer.receive(timeout_seconds)
            if answer is None:
                raise RequestTimedOutError(
                    f"no answer to {request.message_id} at {destination!s} within {timeout_seconds:g} s"
                )
            return answer
        finally:
            with self._guard:  # without waiting: whatever becomes of it, there is an answer or there is none
                self._core.connection.temporaries.discard(reply_to)

    # ---- acknowledging and transactions ------------------------------------------------------------------------

    async def acknowledge(self) -> None:
        """Acknowledge everything this session was given so far (CLIENT mode, D3)."""
        with self._guard:
            for reply in self._core.acknowledge():
                await self._answer(reply, "an acknowledgement")

    def _acknowledge_from_message(self, message: Message) -> None:
        del message  # it stands for all that came before it, and for some that came after
        with self._guard:
            self._report(self._core.acknowledge())

    def _acknowledge_one(self, consumer: ConsumerCore, delivery: Delivery) -> None:
        with self._guard:
            self._core.check_open()
            self._report(consumer.acknowledge_one(delivery))

    def _reject_one(self, consumer: ConsumerCore, delivery: Delivery, cause: BaseException) -> None:
        with self._guard:
            self._core.check_open()
            consumer.reject(delivery, cause)

    def _report(self, replies: list[Reply[Structure]]) -> None:
        """Acknowledging through a message does not wait; an error goes to `Connection.on_error`."""
        for reply in replies:
            # [sync only] self.connection._answer(reply, "an acknowledgement")
            # [async only]
            reply.then(self._core.connection.requests.report)
            # [end]

    async def recover(self, cause: BaseException | None = None) -> None:
        """Give out again what was not acknowledged, according to the redelivery policy (F1).

        A message that is given up becomes a dead letter that names *cause*: without one, the exception that is being
        handled.
        """
        cause = cause or sys.exception()
        with self._guard:
            self._core.recover(cause)

    async def commit(self) -> None:
        """Make everything of the transaction visible, or nothing (G1); then begin another.

        Raises `TransactionRolledBackError` if it could not commit: then it is rolled back. After `RequestTimedOutError`
        it may still do either: the session goes on when it has, and that it was rolled back goes to `on_error`.
        """
        with self._guard:
            self._core.check_open()
            await self._decided()
            if self._core.transactions.missing_redeliveries():
                await self._await_redeliveries()
            await self._decide(self._core.transactions.commit(), "the commit")

    async def rollback(self, cause: BaseException | None = None) -> None:
        """Undo everything of the transaction; what it consumed comes again (F1).

        A message that is given up becomes a dead letter that names *cause*: without one, the exception that is being
        handled.
        """
        cause = cause or sys.exception()
        with self._guard:
            self._core.check_open()
            await self._decided()
            await self._decide(self._core.transactions.roll_back(cause), "the rollback")

    async def _decide(self, decision: Reply[None], what: str) -> None:
        options = self.connection.options
        await self.connection._settle(decision, what, options.request_timeout_ms, "requestTimeout", is_kept=True)

    async def _decided(self) -> None:
        """Wait for the last decision, if its caller did not."""
        deciding = self._core.transactions.deciding
        if deciding is not None and not deciding.is_done:
            try:
                await self._decide(deciding, "the last commit")
            except RequestTimedOutError:
                raise
            except JMSError:  # its caller got the error, or `on_error` did
                pass

    async def _await_redeliveries(self) -> None:
        """After a reconnect: what was consumed must come again before it can be acknowledged."""
        transactions, connection = self._core.transactions, self._core.connection
        await self.connection._settle(
            connection.link.when_up(),
            "a reconnect for the commit",
            self.connection.options.request_timeout_ms,
            "requestTimeout",
        )
        asked_ms = self.connection.options.consumer_failover_redelivery_wait_ms
        clock = self._runtime.clock
        deadline = clock.monotonic() + (asked_ms / 1000 if asked_ms > 0 else REDELIVERY_GRACE_SECONDS)
        while transactions.missing_redeliveries() and clock.monotonic() < deadline:
            await self._waiter.wait(deadline - clock.monotonic())
        missing = transactions.missing_redeliveries()
        if missing:
            await self._decide(transactions.roll_back(), "the rollback")
            raise TransactionRolledBackError(
                f"rolled back: the connection was lost, and {missing} messages that the transaction had consumed did "
                "not come back to this consumer; jms.consumerFailoverRedeliveryWaitPeriod sets how long to wait"
            )

    async def _answer(self, reply: Reply[Structure], what: str) -> Structure:
        return await self.connection._answer(reply, what)

    # ---- end ---------------------------------------------------------------------------------------------------

    def _forget_consumer(self, core: ConsumerCore) -> None:
        self._consumers.pop(core, None)

    async def close(self) -> None:
        """Close the session and what was made from it: a transaction is rolled back, unacknowledged messages return."""
        await self._close(self.connection._close_timeout)

    async def _close(self, timeout_seconds: float) -> None:
        await self._listeners.stop(timeout_seconds)
        with self._guard:
            if self._core.is_closed:
                return
            deciding = self._core.transactions.deciding
            if deciding is not None:
                await self.connection._answer_or_not(deciding, "the last commit")
            replies = self._core.close()
            self._core.wake()
            self.connection._forget_session(self._core)
            self._consumers.clear()
            for reply in replies:
                await self.connection._answer_or_not(reply, "that the session is closed")

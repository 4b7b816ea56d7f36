"""The Python client in the simulation: its core, with no socket and no waiting, against the broker's.

As applications they do what users do; the core decides what goes over the wire, what is repeated after a reconnect, and
what the application is given again. Beyond what the ledger checks: what an application has acknowledged it is never
given again, and what it is given again has the redelivered flag, whatever happened to broker and network (J4).
"""

import itertools
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from ackwire.broker.in_flight import AckKind
from ackwire.client.core.connection import ConnectionCore
from ackwire.client.core.consumer import ConsumerCore
from ackwire.client.core.delivery import Delivery
from ackwire.client.core.modes import AckMode
from ackwire.client.core.producer import ProducerCore
from ackwire.client.core.reply import Reply
from ackwire.client.core.session import SessionCore
from ackwire.client.errors import (
    ConnectionFailedError,
    JMSError,
    ResourceAllocationError,
    TransactionRolledBackError,
)
from ackwire.client.message_headers import DeliveryMode
from ackwire.client.messages import TextMessage
from ackwire.client.options import ConsumerOptions, ProducerOptions, WireFormatOptions
from ackwire.client.uri import TcpUri, parse_broker_url
from ackwire.jms.destinations import parse_destination
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.codec_fast import message_key
from tests.simulation.audit import Violation
from tests.simulation.client import Client
from tests.simulation.ledger import Copy, Deed, Outcome, Sent

if TYPE_CHECKING:
    from tests.simulation.world import World

_STORE_FAILED = "Nothing more is acknowledged"
_TOLD = (_STORE_FAILED, "without confirmation may be lost")
"""What a client may hear of without having asked."""
_REDELIVERY_PATIENCE = 6
"""How often a commit is put off because messages have not come again."""


class CoreClient(Client):
    """A connection of the Python client, with `failover:`."""

    def __init__(self, world: "World", name: str) -> None:
        super().__init__(world, name, keeps_id=True)
        chance = self.random.random
        options = [
            f"jms.clientID={name}",
            f"jms.redeliveryPolicy.maximumRedeliveries={self.random.choice((1, 6, -1))}",
            f"jms.redeliveryPolicy.initialRedeliveryDelay={self.random.choice((0, 10, 1000))}",
            f"jms.redeliveryPolicy.redeliveryDelay={self.random.choice((0, 100))}",
            f"jms.optimizeAcknowledge={str(chance() < 0.4).lower()}",
            f"jms.sendAcksAsync={str(chance() < 0.7).lower()}",
            f"jms.nonBlockingRedelivery={str(chance() < 0.2).lower()}",
            f"jms.messagePrioritySupported={str(chance() < 0.2).lower()}",
            f"jms.watchTopicAdvisories={str(chance() < 0.3).lower()}",
        ]
        url = parse_broker_url(f"failover:(tcp://simulated:1)?{'&'.join(options)}")
        (uri,) = url.uris
        assert isinstance(uri, TcpUri)
        self._uri = uri
        self.core = ConnectionCore(url, url.connection, clock=world.clock, hooks=self, connection_id=f"ID:{name}")
        self.connection_id = str(self.core.connection_id)
        self.core.on_output = self._put
        self.core.on_login_refused = self._login_refused
        self.core.on_broken = self._broken
        self.core.login()
        self.core.start()
        self._is_refused = False
        self._pending: set[Reply[Any]] = set()

    # ---- what the core tells -----------------------------------------------------------------------------------

    def interrupted(self, error: JMSError) -> None:
        self.note(f"is interrupted: {error}")

    def resumed(self) -> None:
        self.note("is back")

    def has_room(self) -> None:
        pass

    def failed(self, error: JMSError) -> None:
        expected = isinstance(error, ResourceAllocationError) or any(it in str(error) for it in _TOLD)
        if not expected:
            raise Violation(f"{self.name} is told of an error: {error!r}")

    # ---- the link ----------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        wants = self.random.choice(self.world.client_preferences)
        wire_format = WireFormatOptions(
            version=wants.version, tight_encoding_enabled=wants.tight, cache_enabled=wants.cache
        )
        self.link = self.world.connect(self)
        self.core.transport_connected(replace(self._uri, wire_format=wire_format))

    def _put(self) -> None:
        data = b"".join(self.core.data_to_send())
        if self.link is not None:
            self.link.up += data

    def receive(self, data: bytes) -> None:
        link = self.link
        self.core.receive_data(data)
        if self.link is link:
            self._look()

    def _look(self) -> None:
        self.is_up = self.core.is_up
        if self._is_refused and self.link is not None:
            self._is_refused = False
            self.link.cut(0)

    def _broken(self, error: JMSError) -> None:
        self.note(f"hears: {error}")
        self._is_refused = True

    def _login_refused(self, error: JMSError) -> None:
        self.note(f"is not admitted: {error}")
        self.core.login()
        self._is_refused = True

    def connection_lost(self) -> None:
        self.note("has lost its connection")
        self.link = None
        self.is_up = False
        self.core.transport_lost(ConnectionFailedError("the link was cut"), final=False)

    def hang_up(self) -> None:
        assert self.link is not None
        self.core.link.one_way(commands.RemoveInfo(object_id=self.core.connection_id))
        self.core.link.one_way(commands.ShutdownInfo())
        self.link.close_by_client()
        self.connection_lost()

    # ---- work --------------------------------------------------------------------------------------------------

    def new_session(self, mode: AckMode) -> SessionCore:
        random = Random(self.random.random())
        return self.core.add_session(lambda core, value: SessionCore(core, value, mode, random))

    def waits_for(self, reply: Reply[Any]) -> Reply[Any]:
        self._pending.add(reply)
        reply.then(self._pending.discard)
        return reply

    @property
    def is_idle(self) -> bool:
        return self.is_up and not self._pending

    @property
    def is_quiet(self) -> bool:
        return not self._pending

    def is_refusal(self, error: BaseException) -> bool:
        """Whether the broker has said no, for good; a store that failed says nothing about what has happened."""
        if _STORE_FAILED in str(error) or _STORE_FAILED in str(error.__cause__):
            return False
        if not self.world.has_limits:
            raise Violation(f"{self.name} is refused: {error!r}")
        return True


class Sender:
    """A producer that enters what it sends in the ledger."""

    def __init__(self, client: CoreClient, session: SessionCore) -> None:
        self._client = client
        self.producer: ProducerCore
        self.producer, reply = session.add_producer(None, ProducerOptions())
        client.waits_for(reply)

    def make(self, where: str, deed: Deed, *, persistent: bool) -> Any:
        client, world = self._client, self._client.world
        number = client.random.randrange(4)
        message = TextMessage("x" * client.random.randrange(50))
        message.properties["n"] = number
        time_to_live_ms = client.random.randrange(20, 4000) if client.random.random() < 0.1 else 0
        mode = DeliveryMode.PERSISTENT if persistent else DeliveryMode.NON_PERSISTENT
        priority = client.random.choice((4, 4, 0, 9))
        outgoing = self.producer.stamp(message, parse_destination(where), mode, priority, time_to_live_ms, True)
        key = message_key(message.wire_id)
        assert key is not None
        world.ledger.sending(
            Sent(
                key,
                str(message.message_id),
                world.places_of(where),
                where if where.startswith("topic") else None,
                number,
                message.expiration,
                persistent,
                deed,
            )
        )
        client.note(f"sends {message.message_id} to {where} n={number} persistent={persistent} {deed.name}")
        return outgoing


class CoreProducer(CoreClient):
    """Sends with and without confirmation, several at a time, or in transactions."""

    def __init__(self, world: "World", name: str) -> None:
        super().__init__(world, name)
        self._is_transacted = self.random.random() < 0.4
        self._session = self.new_session(AckMode.SESSION_TRANSACTED if self._is_transacted else AckMode.AUTO)
        self._sender = Sender(self, self._session)
        self._where = self.random.sample(world.targets, 2)
        self._confirmed_share = self.random.random()
        self._numbers_of_transactions = itertools.count(1)
        self._deed: Deed | None = None
        self._has_sent_last = self._is_transacted

    def work(self) -> None:
        if not self._sender.producer.is_announced:
            return
        if self._is_transacted:
            self._work_in_transaction()
        elif not self.is_finishing and len(self._pending) < 4:
            self._send(confirmed=self.world.has_limits or self.random.random() < self._confirmed_share)
        elif self.is_finishing and not self._has_sent_last:
            self._has_sent_last = True
            self._send(confirmed=True)  # answered when those are taken, too, that nobody confirms

    def _send(self, *, confirmed: bool) -> None:
        deed = self.world.ledger.deed("a send", Outcome.SENT)
        deed.asked_at = self.world.step
        persistent = self.random.random() < 0.6
        outgoing = self._sender.make(self.random.choice(self._where), deed, persistent=persistent)
        if confirmed:
            reply = self.waits_for(self._sender.producer.send_confirmed(outgoing))
            reply.then(lambda answer: self._answered(answer, deed))
        else:
            self._sender.producer.send_unconfirmed(outgoing)

    def _answered(self, reply: Reply[Any], deed: Deed) -> None:
        if reply.error is None:
            deed.outcome = Outcome.DONE
        elif self.is_refusal(reply.error):
            deed.outcome = Outcome.VOID

    def _work_in_transaction(self) -> None:
        if self._pending:
            return
        if self._deed is None:
            if self.is_finishing:
                return
            self._deed = self.world.ledger.deed(f"{self.name}/{next(self._numbers_of_transactions)}", Outcome.OPEN)
        elif self.random.random() < 0.3 or self.is_finishing:
            self._decide(self._deed)
            return
        outgoing = self._sender.make(self.random.choice(self._where), self._deed, persistent=self.random.random() < 0.7)
        self._sender.producer.send_unconfirmed(outgoing)

    def _decide(self, deed: Deed) -> None:
        self._deed = None
        transactions = self._session.transactions
        if self.random.random() < 0.25:
            deed.outcome = Outcome.VOID
            self.note(f"rolls {deed.name} back")
            self.waits_for(transactions.roll_back())
            return
        deed.outcome = Outcome.SENT
        deed.asked_at = self.world.step
        self.note(f"commits {deed.name}")
        self.waits_for(transactions.commit()).then(lambda answer: self._answered(answer, deed))

    @property
    def is_idle(self) -> bool:
        return super().is_idle and self._deed is None and self._has_sent_last


class CoreConsumer(CoreClient):
    """Consumes in every mode; acknowledges, recovers, commits and rolls back; forwards in transactions."""

    def __init__(self, world: "World", name: str) -> None:
        super().__init__(world, name)
        self._mode = self.random.choice(tuple(AckMode))
        self._session = self.new_session(self._mode)
        self._where = self.random.choice(world.sources)
        self._prefetch = self.random.choice((0, 1, 2, 5, 100))
        self._consumer: ConsumerCore | None = None
        self._held: list[tuple[Copy, Delivery]] = []
        """Given to the application, and not acknowledged."""
        self._done: set[Copy] = set()
        self._seen: set[Copy] = set()
        self._deed: Deed | None = None
        self._numbers_of_transactions = itertools.count(1)
        self._patience = _REDELIVERY_PATIENCE
        self._sender = Sender(self, self._session) if self._mode is AckMode.SESSION_TRANSACTED else None

    def connection_lost(self) -> None:
        super().connection_lost()
        if self._mode is AckMode.DUPS_OK:  # its ranges were not sent: nothing is known to be done
            self._done.clear()

    def work(self) -> None:
        if self._pending:
            return
        if self._consumer is None:
            if not self.is_finishing:
                self._subscribe()
        elif self.is_finishing:
            self._finish()
        elif not self._receive():
            self._acknowledge_some()

    def _subscribe(self) -> None:
        self.note(f"consumes {self._where} {self._mode.name} prefetch={self._prefetch}")
        self._consumer, reply = self._session.add_consumer(
            parse_destination(self._where), self._prefetch, ConsumerOptions(), self.core.options.redelivery
        )
        self._watch_poison(self._consumer)
        self._session.acknowledge_from_message = lambda _: None
        self._session.acknowledge_one = lambda *_: None
        self.waits_for(reply)

    def _watch_poison(self, consumer: ConsumerCore) -> None:
        """The ledger must know what the core gives up on, by itself."""
        give_up = consumer.redelivery.give_up

        def watched(deliveries: list[Delivery], reason: str, cause: BaseException | None = None) -> None:
            deed = self.world.ledger.deed("giving up", Outcome.SENT)
            for delivery in deliveries:
                self.note(f"gives up on {self.world.ledger.text(_copy_of(delivery))}")
                self.world.ledger.acking(_copy_of(delivery), AckKind.POISON, deed)
            give_up(deliveries, reason, cause)

        consumer.redelivery.give_up = watched  # type: ignore[method-assign]

    def _receive(self) -> bool:
        consumer = self._consumer
        assert consumer is not None
        if consumer.is_pulling and not len(consumer) and not consumer.pulls.is_unanswered:
            consumer.pull(self.random.choice((-1, 0, 100)))
        delivery = consumer.take()
        if delivery is None:
            return False
        consumer.begin(delivery)
        copy = _copy_of(delivery)
        self._check(copy, delivery)
        self._held.append((copy, delivery))
        if self._mode is AckMode.SESSION_TRANSACTED:
            self._begin()
        elif self._mode in (AckMode.AUTO, AckMode.DUPS_OK):
            self._process(consumer, delivery)
        else:
            consumer.finish(delivery)
        return True

    def _check(self, copy: Copy, delivery: Delivery) -> None:
        text, counter = self.world.ledger.text(copy), delivery.redelivery_counter
        self.note(f"receives {text} counter={counter}")
        self.world.ledger.consumed(copy, counter)
        if copy in self._done:
            raise Violation(f"{self.name} is given {text} again, and has acknowledged it")
        if copy in self._seen and counter == 0:
            raise Violation(f"{self.name} is given {text} again, without the redelivered flag")
        self._seen.add(copy)

    def _process(self, consumer: ConsumerCore, delivery: Delivery) -> None:
        """As a listener that returns or raises."""
        if self.random.random() < 0.1:
            self.note("fails")
            self._held.clear()
            consumer.roll_back(ValueError("no"))
            return
        self._acked(AckKind.STANDARD)
        for reply in consumer.finish(delivery):
            self.waits_for(reply)

    def _acked(self, kind: AckKind, deed: Deed | None = None) -> None:
        deed = deed or self.world.ledger.deed("an ack", Outcome.SENT)
        for copy, _ in self._held:
            self.world.ledger.acking(copy, kind, deed)
            self._done.add(copy)
        self._held.clear()

    def _acknowledge_some(self) -> None:
        if not self._held:
            return
        match self._mode:
            case AckMode.SESSION_TRANSACTED:
                self._decide()
            case AckMode.CLIENT if self.random.random() < 0.2:
                self.note("recovers")
                self._held.clear()
                self._session.recover()
            case AckMode.CLIENT:
                self.note(f"acknowledges {len(self._held)}")
                self._acked(AckKind.STANDARD)
                for reply in self._session.acknowledge():
                    self.waits_for(reply)
            case AckMode.INDIVIDUAL:
                self._acknowledge_one()

    def _acknowledge_one(self) -> None:
        assert self._consumer is not None
        copy, delivery = self._held.pop(self.random.randrange(len(self._held)))
        # It may have been given again after a reconnect: the older one stands for both.
        self._held = [(other, again) for other, again in self._held if other != copy]
        if self.random.random() < 0.2:
            self.note(f"rejects {self.world.ledger.text(copy)}")
            self._consumer.reject(delivery, ValueError("no"))
            return
        held, self._held = self._held, [(copy, delivery)]
        self._acked(AckKind.INDIVIDUAL)
        self._held = held
        for reply in self._consumer.acknowledge_one(delivery):
            self.waits_for(reply)

    # ---- transactions ------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._deed is None:
            self._deed = self.world.ledger.deed(f"{self.name}/{next(self._numbers_of_transactions)}", Outcome.OPEN)
        assert self._sender is not None
        if self.random.random() < 0.3 and self._sender.producer.is_announced:
            outgoing = self._sender.make(self.random.choice(self.world.targets), self._deed, persistent=True)
            self._sender.producer.send_unconfirmed(outgoing)
        if self.random.random() < 0.4:
            self._decide()

    def _decide(self) -> None:
        deed, transactions = self._deed, self._session.transactions
        assert deed is not None
        if transactions.missing_redeliveries() and self._patience:
            self._patience -= 1
            return
        self._patience = _REDELIVERY_PATIENCE
        self._deed = None
        if transactions.missing_redeliveries() or self.random.random() < 0.25:
            deed.outcome = Outcome.VOID
            self.note(f"rolls {deed.name} back")
            self._held.clear()
            self.waits_for(transactions.roll_back())
            return
        copies = [copy for copy, _ in self._held]
        self.note(f"commits {deed.name}")
        deed.outcome = Outcome.SENT
        deed.asked_at = self.world.step
        self._acked(AckKind.STANDARD, deed)
        self.waits_for(transactions.commit()).then(lambda answer: self._decided(answer, deed, copies))

    def _decided(self, reply: Reply[Any], deed: Deed, copies: list[Copy]) -> None:
        if reply.error is None:
            deed.outcome = Outcome.DONE
            return
        self._done.difference_update(copies)
        was_lost = isinstance(reply.error, TransactionRolledBackError) and reply.error.__cause__ is None
        if was_lost or "had not happened" in str(reply.error) or self.is_refusal(reply.error):
            deed.outcome = Outcome.VOID

    # ---- the end -----------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        assert self._consumer is not None
        if self._deed is not None:
            self._decide()
            return
        self.note("closes its consumer")
        reply = self._consumer.close()
        self._consumer = None
        self._held.clear()
        if reply is not None:
            self.waits_for(reply)

    @property
    def is_idle(self) -> bool:
        return super().is_idle and self._consumer is None and self._deed is None


def _copy_of(delivery: Delivery) -> Copy:
    destination = delivery.dispatch.destination
    key = message_key(delivery.dispatch.message_id)
    assert destination is not None
    assert key is not None
    return f"queue://{destination.physical_name}", key

"""Clients of a simulation that consume: from queues, and from durable subscriptions."""

from collections import deque
from typing import TYPE_CHECKING, Any

from ackwire.broker.in_flight import AckKind
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.codec_fast import message_key
from ackwire.wire.openwire.commands import TransactionType
from ackwire.wire.openwire.structures import Structure, Throwable
from tests.simulation.audit import Violation
from tests.simulation.client import Client, SendingClient, destination_name, wire_destination
from tests.simulation.ledger import Copy, Deed, Durable, Outcome

if TYPE_CHECKING:
    from tests.simulation.world import World

XA_OK = 0


class Received:
    """A message in the hands of a client."""

    __slots__ = ("copy", "counter", "message_id", "sequence")

    def __init__(self, dispatch: commands.MessageDispatch, place: str) -> None:
        message = dispatch.message
        assert message is not None
        assert message.message_id is not None
        key = message_key(message.message_id)
        assert key is not None
        self.message_id = message.message_id
        self.copy: Copy = (place, key)
        self.counter = dispatch.redelivery_counter
        self.sequence = message.message_id.broker_sequence_id


class Consumer(SendingClient):
    """Consumes from queues or a durable subscription, in one of four modes; dies, closes, rolls back, gives up."""

    MODES: tuple[str, ...] = ("auto", "client", "individual", "transacted", "xa")

    def __init__(self, world: "World", name: str, *, mode: str | None = None, where: str | None = None) -> None:
        self.mode = mode or world.random.choice(self.MODES)
        # An XA client comes back as itself: only then is it sure what has become of its transaction.
        super().__init__(world, name, keeps_id=True if self.mode == "xa" else None)
        random = self.random
        self.where = where or random.choice(world.sources)
        self.prefetch = random.choice((0, 1, 2, 5, 100))
        self.selector = random.choice((None, None, "n = 1", "n > 1"))
        self.exclusive = random.random() < world.exclusive
        self.priority = random.choice((0, 0, 0, 5))
        self.forwards_to = random.choice((None, *world.targets)) if self.mode in ("transacted", "xa") else None
        self.subscription_name: str | None = None
        self.consumer: commands.ConsumerId | None = None
        self.inbox: deque[Received] = deque()
        self.held: list[Received] = []
        """Given to the application, not acknowledged."""
        self.acked: list[Received] = []
        """Acknowledged in the transaction."""
        self._newest_seen = -1
        self._delivered_told = 0
        self._is_pulling = False
        self._in_doubt: list[tuple[commands.TransactionId, Deed]] = []
        self._is_ending = False

    # ---- coming and going --------------------------------------------------------------------------------------

    def on_connected(self) -> None:
        super().on_connected()
        if self.mode == "xa":
            self.request(self.transaction_info(TransactionType.RECOVER), self._recovered)
        else:
            for transaction, deed in self._in_doubt:
                self._resolve(transaction, deed)
        self.subscribe()

    def on_lost(self) -> None:
        if self.deed is not None and self.deed.outcome is Outcome.OPEN and not self._is_ending:
            self.decide(self.deed, Outcome.VOID)
        if self.deed is not None and self._keeps_id and self.deed.outcome in (Outcome.OPEN, Outcome.SENT):
            assert self.transaction is not None
            if all(deed is not self.deed for _, deed in self._in_doubt):
                self._in_doubt.append((self.transaction, self.deed))
        self.transaction = self.deed = None
        self._is_ending = False
        self._forget_consumer()

    def _forget_consumer(self) -> None:
        self.consumer = None
        self.inbox.clear()
        self.held.clear()
        self.acked.clear()
        self._newest_seen = -1
        self._delivered_told = 0
        self._is_pulling = False

    def subscribe(self) -> None:
        self.consumer = commands.ConsumerId(self.connection_id, 1, next(self._numbers))
        self.note(f"subscribes to {self.where} {self.mode} prefetch={self.prefetch} {self.selector}")
        self.request(
            commands.ConsumerInfo(
                consumer_id=self.consumer,
                destination=wire_destination(self.where),
                prefetch_size=self.prefetch,
                selector=self.selector,
                exclusive=self.exclusive,
                priority=self.priority,
                subscription_name=self.subscription_name,
                dispatch_async=True,
            ),
            self.on_subscribed,
        )

    def on_subscribed(self, answer: Structure) -> None:
        self._expect_success(answer)

    def close_consumer(self) -> None:
        """Close it as a Java client does: with the last message that the application was given."""
        assert self.consumer is not None
        self.note(f"closes its consumer, last seen {self._newest_seen}")
        self.request(commands.RemoveInfo(object_id=self.consumer, last_delivered_sequence_id=self._newest_seen))
        self._forget_consumer()

    def close_session(self) -> None:
        self.note(f"closes its session, last seen {self._newest_seen}")
        self.tell(commands.RemoveInfo(object_id=self.session, last_delivered_sequence_id=self._newest_seen))
        self._forget_consumer()
        self.request(commands.SessionInfo(session_id=self.session))
        self.tell(commands.ProducerInfo(producer_id=self.producer))

    # ---- receiving ---------------------------------------------------------------------------------------------

    @property
    def place(self) -> str | None:
        """Where its messages are from, if that is not simply their destination."""
        return None

    def on_dispatch(self, dispatch: commands.MessageDispatch) -> None:
        if dispatch.consumer_id != self.consumer:
            return  # it has closed that one in the meantime
        self._is_pulling = False
        if dispatch.message is None:
            return
        assert dispatch.destination is not None
        place = self.place or destination_name(dispatch.destination)
        self.inbox.append(Received(dispatch, place))

    def work(self) -> None:
        if self._is_ending or self._waiting:
            return
        if self.is_finishing:
            self._finish()
            return
        chance = self.random.random()
        if self.consumer is None:
            if self.deed is not None and chance < 0.5:
                self._end_transaction()
            else:
                self.subscribe()
        elif chance < 0.02:
            self.close_consumer()
        elif chance < 0.03 and self.deed is None:
            self.close_session()
        elif chance < 0.035 and self.deed is None:
            self.hang_up()
        elif self.inbox:
            self._receive()
        elif self.prefetch == 0 and not self._is_pulling:
            self._pull()
        else:
            self._acknowledge_some()

    def _finish(self) -> None:
        """Give everything back."""
        if self.deed is not None:
            self._end_transaction()
        elif self.consumer is not None:
            self.close_consumer()

    @property
    def is_idle(self) -> bool:
        return super().is_idle and self.consumer is None and self.deed is None and not self._in_doubt

    def _pull(self) -> None:
        self._is_pulling = True
        timeout = self.random.choice((-1, 0, 100))
        self.note(f"pulls {timeout}")
        self.tell(
            commands.MessagePull(consumer_id=self.consumer, destination=wire_destination(self.where), timeout=timeout)
        )

    def _receive(self) -> None:
        """The application is given the next message."""
        received = self.inbox.popleft()
        self._newest_seen = max(self._newest_seen, received.sequence)
        self.note(f"receives {self.world.ledger.text(received.copy)} counter={received.counter}")
        self.world.ledger.consumed(received.copy, received.counter)
        self.held.append(received)
        if self.mode == "auto":
            self._ack_auto(received)
        elif self.mode in ("transacted", "xa"):
            self._work_in_transaction()
        elif self.random.random() < 0.4:
            self._acknowledge_some()

    def _ack_auto(self, received: Received) -> None:
        kind = AckKind.STANDARD
        if self.random.random() < 0.08 and not self.is_finishing:
            kind = AckKind.POISON
        self._ack([received], kind)

    def _acknowledge_some(self) -> None:
        if not self.held:
            return
        if self.mode == "client":
            if self.random.random() < 0.3 and self.prefetch and len(self.held) > self._delivered_told:
                self._tell_delivered()
            else:
                self._ack(list(self.held), AckKind.STANDARD)
        elif self.mode == "individual":
            kind = AckKind.INDIVIDUAL if self.random.random() < 0.9 else AckKind.POISON
            self._ack([self.random.choice(self.held)], kind)
        elif self.deed is not None:
            self._end_transaction()

    def _tell_delivered(self) -> None:
        self._delivered_told = len(self.held)
        self.tell(self._ack_command(self.held, AckKind.DELIVERED))

    def _ack_command(self, messages: list[Received], kind: AckKind, **options: Any) -> commands.MessageAck:
        # The first id may be left out where the range begins at the oldest message in flight.
        named = len(messages) > 1 and (messages[0] is not self.held[0] or self.random.random() < 0.5)
        return commands.MessageAck(
            destination=commands.ActiveMQQueue("any"),
            consumer_id=self.consumer,
            ack_type=int(kind),
            first_message_id=messages[0].message_id if named else None,
            last_message_id=messages[-1].message_id,
            message_count=len(messages),
            poison_cause=Throwable("java.lang.Throwable", "no") if kind is AckKind.POISON else None,
            **options,
        )

    def _ack(self, messages: list[Received], kind: AckKind) -> None:
        """An ack outside of transactions."""
        deed = self.world.ledger.deed("an ack", Outcome.SENT)
        command = self._ack_command(messages, kind)
        for received in messages:
            self.world.ledger.acking(received.copy, kind, deed)
            self.held.remove(received)
        self._delivered_told = 0
        self.note(f"acks {kind.name} {[self.world.ledger.text(r.copy) for r in messages]}")
        if self.random.random() < 0.3:
            self.request(command, lambda answer: self._acked(answer, deed))
        else:
            self.confirm_later(self.tell(command), deed)

    def _acked(self, answer: Structure, deed: Deed) -> None:
        self._expect_success(answer)
        deed.outcome = Outcome.DONE

    # ---- transactions ------------------------------------------------------------------------------------------

    def _work_in_transaction(self) -> None:
        if self.deed is None:
            self.begin(is_xa=self.mode == "xa")
        assert self.deed is not None
        if self.random.random() < 0.6:
            self._ack_in_transaction()
        if self.forwards_to is not None and self.random.random() < 0.6:
            self.tell(self.make(self.forwards_to, self.deed))
        if self.random.random() < 0.4:
            self._end_transaction()

    def _ack_in_transaction(self) -> None:
        if not self.held:
            return
        assert self.deed is not None
        command = self._ack_command(self.held, AckKind.STANDARD, transaction_id=self.transaction)
        for received in self.held:
            self.world.ledger.acking(received.copy, AckKind.STANDARD, self.deed)
        self.note(f"acks in {self.deed.name} {[self.world.ledger.text(r.copy) for r in self.held]}")
        self.acked += self.held
        self.held = []
        self.tell(command)

    def _end_transaction(self) -> None:
        deed = self.deed
        assert deed is not None
        if deed.outcome is not Outcome.OPEN:
            return
        self._ack_in_transaction()
        self._is_ending = True
        if self.random.random() < 0.3:
            self._roll_back(deed)
        elif self.mode == "xa" and self.random.random() < 0.8:
            self.tell(self.transaction_info(TransactionType.END))
            self.note(f"prepares {deed.name}")
            self.request(self.transaction_info(TransactionType.PREPARE), lambda answer: self._prepared(answer, deed))
        else:
            self._commit(deed, TransactionType.COMMIT_ONE_PHASE)

    def _prepared(self, answer: Structure, deed: Deed) -> None:
        if isinstance(answer, commands.ExceptionResponse) and self.world.has_limits:
            self._has_ended(deed, Outcome.VOID)
            return
        self._expect_success(answer)
        assert isinstance(answer, commands.IntegerResponse)
        if answer.result != XA_OK:
            self._has_ended(deed, Outcome.DONE)
            return
        deed.is_prepared = True
        if self.random.random() < 0.2:
            assert self.link is not None
            self.note("dies with a prepared transaction")
            self.link.cut(len(self.link.up))
        elif self.random.random() < 0.2:
            self._roll_back(deed)
        else:
            self._commit(deed, TransactionType.COMMIT_TWO_PHASE)

    def _commit(self, deed: Deed, kind: TransactionType) -> None:
        self.decide(deed, Outcome.SENT)

        def answered(answer: Structure) -> None:
            refused = isinstance(answer, commands.ExceptionResponse)
            if refused and not self.world.has_limits:
                raise Violation(f"{deed.name} fails to commit: {answer}")
            self._has_ended(deed, Outcome.VOID if refused else Outcome.DONE)

        self.request(self.transaction_info(kind), answered)

    def _roll_back(self, deed: Deed) -> None:
        self.note(f"rolls back {deed.name}")
        deed.is_prepared = False  # whether or not the answer arrives, it may be gone from now on

        def answered(answer: Structure) -> None:
            self._expect_success(answer)
            self._has_ended(deed, Outcome.VOID)
            self._redeliver_locally()

        self.request(self.transaction_info(TransactionType.ROLLBACK), answered)

    def _has_ended(self, deed: Deed, outcome: Outcome) -> None:
        self.decide(deed, outcome)
        if outcome is Outcome.DONE:
            self.acked = []
        elif self.acked:
            self._redeliver_locally()
        self.transaction = self.deed = None
        self._is_ending = False

    def _redeliver_locally(self) -> None:
        """After a rollback the client has its messages again, and gives them to the application once more."""
        again, self.acked = self.acked, []
        if not again:
            return
        for received in again:
            received.counter += 1
        self.held = list(again)
        if self.random.random() < 0.15:
            self._ack(again, AckKind.POISON)
            return
        self.tell(self._ack_command(again, AckKind.REDELIVERED))
        self.held = []
        self.inbox.extendleft(reversed(again))

    # ---- after a loss ------------------------------------------------------------------------------------------

    def _recovered(self, answer: Structure) -> None:
        """Every transaction that was prepared for certain must be listed; those that are not are gone."""
        assert isinstance(answer, commands.DataArrayResponse)
        listed = set(answer.data or ())
        for transaction, deed in self._in_doubt:
            if transaction in listed:
                deed.is_prepared = True
                if deed.outcome is Outcome.OPEN and self.random.random() < 0.4:
                    self._resolve(transaction, deed, TransactionType.ROLLBACK)
                else:
                    self._resolve(transaction, deed, TransactionType.COMMIT_TWO_PHASE)
            elif deed.outcome is Outcome.OPEN and deed.is_prepared:
                raise Violation(f"{deed.name} was prepared, and recover does not list it")
            elif deed.outcome is Outcome.OPEN:
                self.decide(deed, Outcome.VOID)
            else:
                self._resolve(transaction, deed)
        self._in_doubt = [(t, d) for t, d in self._in_doubt if d.outcome is not Outcome.VOID]

    def _resolve(
        self,
        transaction: commands.TransactionId,
        deed: Deed,
        kind: TransactionType = TransactionType.COMMIT_ONE_PHASE,
    ) -> None:
        """Commit once more, or roll back, what had no answer."""
        if kind is TransactionType.ROLLBACK:
            deed.is_prepared = False  # whether or not the answer arrives
        else:
            self.decide(deed, Outcome.SENT)

        def answered(answer: Structure) -> None:
            self._in_doubt = [(t, d) for t, d in self._in_doubt if d is not deed]
            if kind is TransactionType.ROLLBACK:
                self._expect_success(answer)
                self.decide(deed, Outcome.VOID)
            elif not isinstance(answer, commands.ExceptionResponse):
                self.decide(deed, Outcome.DONE)
            elif kind is TransactionType.COMMIT_TWO_PHASE:
                raise Violation(f"{deed.name} was prepared and cannot be resolved: {answer.exception}")
            elif self.mode != "xa":
                self.decide(deed, Outcome.VOID)
            elif deed.is_prepared:
                self.decide(deed, Outcome.DONE)  # it is gone, and only our commit can have ended it
            # Otherwise nobody can tell: a commit in one phase that is not known any more.

        self.request(self.transaction_info(kind, transaction), answered)

    def on_connection_error(self, error: commands.ConnectionError) -> None:
        if not self.world.has_limits:
            super().on_connection_error(error)


class SelfDraining(Consumer):
    """A consumer that at the end consumes all that waits for it, because no other can."""

    def __init__(self, world: "World", name: str, *, where: str | None = None) -> None:
        super().__init__(world, name, where=where)
        self.exclusive = False
        self._is_draining = False
        self._must_close = False

    def drain(self) -> None:
        """Consume all, with plain acks, until told to stop; what was given to the application goes back first."""
        self._is_draining = self._must_close = True

    def stop_draining(self) -> None:
        self._is_draining = False

    def _finish(self) -> None:
        if not self._is_draining or self.deed is not None:
            super()._finish()
        elif self._must_close and self.consumer is not None:
            self.close_consumer()
        elif self.consumer is None:
            self._must_close, self.mode = False, "auto"
            self.subscribe()
        elif self.inbox:
            self._receive()

    @property
    def _is_drained(self) -> bool:
        is_at_rest = self.is_up and not self._waiting and self.deed is None and not self._in_doubt
        return is_at_rest and not self._must_close and self.consumer is not None and not self.inbox

    @property
    def is_idle(self) -> bool:
        return self._is_drained if self._is_draining else super().is_idle

    @property
    def is_quiet(self) -> bool:
        return self._is_drained if self._is_draining else super().is_quiet


class DurableSubscriber(SelfDraining):
    """A durable subscriber: what is published while it is away waits for it."""

    def __init__(self, world: "World", name: str) -> None:
        super().__init__(world, name, where=world.random.choice(world.topics))
        self.subscription_name = "sub"
        self.prefetch = self.random.choice((1, 2, 100))
        self._place = f"durable:{name}"

    @property
    def place(self) -> str | None:
        return self._place

    def on_subscribed(self, answer: Structure) -> None:
        super().on_subscribed(answer)
        durable = self.world.ledger.durables
        wants = self.world.predicate(self.selector)
        durable.setdefault(self._place, Durable(self._place, self.where, wants, self.world.step))


class Drain(Client):
    """At the end: empties one queue and writes down what was in it."""

    def __init__(self, world: "World", name: str, where: str) -> None:
        super().__init__(world, name)
        self.where = where

    def on_connected(self) -> None:
        self._consumer = commands.ConsumerId(self.connection_id, 1, 1)
        info = commands.ConsumerInfo(
            consumer_id=self._consumer, destination=wire_destination(self.where), prefetch_size=1000
        )
        self.request(info)

    def work(self) -> None:
        pass

    @property
    def consumer_id(self) -> str:
        return str(self._consumer)

    def on_dispatch(self, dispatch: commands.MessageDispatch) -> None:
        assert dispatch.message is not None
        key = message_key(dispatch.message.message_id)
        assert key is not None
        ledger = self.world.ledger
        original = dispatch.message.original_destination
        if self.where.endswith("ActiveMQ.DLQ"):
            assert original is not None, "a dead letter says where it died"
            ledger.dead.setdefault(key, set()).add(destination_name(original))
        else:
            assert dispatch.destination is not None
            copy = (destination_name(dispatch.destination), key)
            ledger.drained[copy] = ledger.drained.get(copy, 0) + 1
        self.tell(
            commands.MessageAck(
                destination=dispatch.destination,
                consumer_id=self._consumer,
                ack_type=int(AckKind.STANDARD),
                last_message_id=dispatch.message.message_id,
                message_count=1,
            )
        )

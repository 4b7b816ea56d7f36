"""The clients of a simulation: each speaks OpenWire through our own protocol, and behaves as a Java client would.

Clients act when the simulation lets them, one command or so at a time, and never wait. What they do comes from the
simulation's random generator; what they claim goes into the ledger.
"""

import itertools
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ackwire.broker.acks import AckKind
from ackwire.values import Int, Long, Value
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.bodies import encode_text
from ackwire.wire.openwire.commands import TransactionType
from ackwire.wire.openwire.fast import message_key
from ackwire.wire.openwire.negotiation import Agreement, Preferences
from ackwire.wire.openwire.primitives import encode_map
from ackwire.wire.openwire.protocol import Event, OpenWireProtocol
from ackwire.wire.openwire.structures import Structure, Throwable
from tests.simulation.audit import Violation
from tests.simulation.ledger import Copy, Deed, Durable, Outcome, Sent
from tests.simulation.network import Link

if TYPE_CHECKING:
    from tests.simulation.world import World

Answer = Callable[[Structure], None]

_FAILED = "Nothing more is acknowledged"
"""Says that the store has failed: what had no answer yet may have happened or not."""

XA_OK = 0


def wire_destination(name: str) -> commands.ActiveMQDestination:
    kind, _, rest = name.partition("://")
    return commands.ActiveMQQueue(rest) if kind == "queue" else commands.ActiveMQTopic(rest)


class Client:
    """A connection that is lost and made again."""

    def __init__(self, world: "World", name: str, *, keeps_id: bool | None = None) -> None:
        self.world = world
        self.random = world.random
        self.name = name
        self.link: Link | None = None
        self.is_up = False
        self.is_finishing = False
        """The simulation comes to its end: leave nothing open."""
        self._was_up = False
        self._keeps_id = self.random.random() < 0.7 if keeps_id is None else keeps_id
        """Whether it comes back under the same connection id, as failover does."""
        self._incarnations = itertools.count(1)
        self.connection_id = f"{name}-{next(self._incarnations)}"
        self._command_ids = itertools.count(1)
        self._numbers = itertools.count(1)
        self._waiting: dict[int, tuple[Answer, bool]] = {}
        """What to do with the answer, and whether it says that all before it is durable."""
        self._unconfirmed: list[tuple[int, Deed]] = []
        """Acks and sends without an answer of their own: a later answer on the same link confirms them."""
        self._protocol = OpenWireProtocol(Preferences())
        self.session = commands.SessionId(self.connection_id, 1)

    # ---- connecting --------------------------------------------------------------------------------------------

    def act(self) -> None:
        """Do one thing."""
        if self.link is None:
            self._connect()
        elif self.is_up:
            self.work()

    def work(self) -> None:
        raise NotImplementedError

    @property
    def is_idle(self) -> bool:
        """Whether it has nothing left to do at the end."""
        return self.is_up and not self._waiting

    @property
    def is_quiet(self) -> bool:
        """Whether it waits for nothing and has nothing at hand."""
        return not self._waiting

    def _connect(self) -> None:
        if not self._keeps_id:
            self.connection_id = f"{self.name}-{next(self._incarnations)}"
        wants = self.random.choice(self.world.client_preferences)
        self._protocol = OpenWireProtocol(wants)
        self.link = self.world.connect(self)
        self.note(f"connects as {self.connection_id}")
        self.flush()

    def _log_in(self) -> None:
        self._protocol.login_finished()
        self.session = commands.SessionId(self.connection_id, 1)
        info = commands.ConnectionInfo(
            connection_id=commands.ConnectionId(self.connection_id),
            client_id=self.name,
            manageable=True,
            failover_reconnect=self._keeps_id and self._was_up,
        )
        self.request(info, self._logged_in)

    def _logged_in(self, answer: Structure) -> None:
        if isinstance(answer, commands.ExceptionResponse):
            # The broker still believes in an earlier connection: come back later.
            assert self.link is not None
            self.note("is not admitted")
            self.link.cut(0)
            return
        self.tell(commands.SessionInfo(session_id=self.session))
        self.is_up = self._was_up = True
        self.on_connected()

    def on_connected(self) -> None:
        """Announce what this client needs."""

    def connection_lost(self) -> None:
        self.note("has lost its connection")
        self.link = None
        self.is_up = False
        self._waiting.clear()
        self._unconfirmed.clear()
        self.on_lost()

    def on_lost(self) -> None:
        """Forget what died with the connection."""

    def hang_up(self) -> None:
        """Close the connection as a client does that is done."""
        assert self.link is not None
        self.tell(commands.RemoveInfo(object_id=commands.ConnectionId(self.connection_id)))
        self.tell(commands.ShutdownInfo())
        self.link.close_by_client()
        self.connection_lost()

    # ---- talking -----------------------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        self.world.note(f"{self.name} {text}")

    def tell(self, command: Any) -> int:
        """Send without asking for an answer."""
        command.command_id = next(self._command_ids)
        self._protocol.send(command)
        self.flush()
        return int(command.command_id)

    def request(self, command: Any, on_answer: Answer | None = None, *, confirms: bool = True) -> int:
        """Ask for an answer; *confirms* says whether it comes only when all before it is durable."""
        command.response_required = True
        command_id = self.tell(command)
        self._waiting[command_id] = (on_answer or self._expect_success, confirms)
        return command_id

    def confirm_later(self, command_id: int, deed: Deed) -> None:
        """*deed* has happened once a later command is answered."""
        self._unconfirmed.append((command_id, deed))

    def flush(self) -> None:
        data = b"".join(self._protocol.data_to_send())
        if self.link is not None:
            self.link.up += data

    def receive(self, data: bytes) -> None:
        link, protocol = self.link, self._protocol
        protocol.receive_data(data)
        for event in protocol.events():
            self._on_event(event)
            if self.link is not link:
                break  # it has left, and hears nothing more

    def _on_event(self, event: Event) -> None:
        match event:
            case commands.ExceptionResponse() | commands.ConnectionError() if _FAILED in str(event.exception):
                self._leave_failed_broker()
            case Agreement():
                self._log_in()
            case commands.MessageDispatch():
                self.on_dispatch(event)
            case commands.Response():
                self._on_answer(event)
            case commands.ConnectionError():
                self.on_connection_error(event)
            case commands.BrokerInfo() | commands.ConnectionControl() | commands.ShutdownInfo():
                pass
            case _:
                raise Violation(f"{self.name} receives {event!r}")

    def _leave_failed_broker(self) -> None:
        """The broker's store has failed (K7): nobody can tell what has happened, as after a lost connection."""
        assert self.link is not None
        self.note("hears that the store has failed")
        self.link.cut(0)

    def _on_answer(self, answer: commands.Response) -> None:
        on_answer, confirms = self._waiting.pop(answer.correlation_id, (None, False))
        if on_answer is None:
            raise Violation(f"{self.name} receives an answer to {answer.correlation_id}, which it did not ask")
        if confirms or not self.world.can_crash:
            self._confirm_up_to(answer.correlation_id)
        on_answer(answer)

    def _confirm_up_to(self, answered_id: int) -> None:
        still = []
        for command_id, deed in self._unconfirmed:
            if command_id > answered_id:
                still.append((command_id, deed))
            elif deed.outcome is Outcome.SENT:
                deed.outcome = Outcome.DONE
        self._unconfirmed = still

    def _expect_success(self, answer: Structure) -> None:
        if isinstance(answer, commands.ExceptionResponse):
            raise Violation(f"{self.name} is refused: {answer.exception}")

    def on_connection_error(self, error: commands.ConnectionError) -> None:
        raise Violation(f"{self.name} is told of an error: {error.exception}")

    def on_dispatch(self, dispatch: commands.MessageDispatch) -> None:
        raise Violation(f"{self.name} is no consumer and receives {dispatch!r}")


class SendingClient(Client):
    """A client with a producer and transactions."""

    def __init__(self, world: "World", name: str, **options: Any) -> None:
        super().__init__(world, name, **options)
        self._counts = itertools.count(1)
        self._transaction_numbers = itertools.count(1)
        self.transaction: commands.TransactionId | None = None
        self.deed: Deed | None = None
        """What is done in the transaction."""

    def on_connected(self) -> None:
        self.producer = commands.ProducerId(self.connection_id, 1, 1)
        self.tell(commands.ProducerInfo(producer_id=self.producer))

    def make(self, where: str, deed: Deed) -> commands.ActiveMQTextMessage:
        """A message for *where*, entered in the ledger."""
        count = next(self._counts)
        number = self.random.randrange(4)
        now_ms = self.world.clock.now_ms()
        expiration = now_ms + self.random.randrange(20, 4000) if self.random.random() < 0.1 else 0
        persistent = self.random.random() < 0.6
        properties: dict[str, Value] = {"n": Int(number)}
        delay_ms = self.random.choice((1, 50, 3000)) if self.random.random() < self.world.delayed else 0
        if delay_ms:  # the delay does not count as its life, and what is kept is kept for good
            expiration, persistent = 0, True
            properties["AMQ_SCHEDULED_DELAY"] = Long(delay_ms)
        group = f"g{self.random.randrange(3)}" if self.random.random() < self.world.grouped else None
        command = commands.ActiveMQTextMessage(
            producer_id=self.producer,
            destination=wire_destination(where),
            transaction_id=self.transaction,
            message_id=commands.MessageId(None, self.producer, count),
            group_id=group,
            group_sequence=-1 if group is not None and self.random.random() < 0.2 else 0,
            persistent=persistent,
            expiration=expiration,
            priority=self.random.choice((4, 4, 4, 0, 9)),
            timestamp=now_ms,
            content=encode_text("x" * self.random.randrange(50)),
            marshalled_properties=encode_map(properties),
        )
        key = message_key(command.message_id)
        assert key is not None
        self.world.ledger.sending(
            Sent(
                key,
                f"{self.connection_id}#{count}",
                self.world.places_of(where),
                where if where.startswith("topic") else None,
                number,
                expiration,
                persistent,
                deed,
                not_before_ms=now_ms + delay_ms if delay_ms else 0,
            )
        )
        kind = "persistent" if persistent else "non-persistent"
        self.note(f"sends #{count} to {where} n={number} group={group} {kind} delay={delay_ms} {deed.name}")
        return command

    # ---- transactions ------------------------------------------------------------------------------------------

    def begin(self, *, is_xa: bool = False) -> None:
        number = next(self._transaction_numbers)
        name = f"{'xa' if is_xa else 'tx'} {self.connection_id}/{number}"
        if is_xa:
            self.transaction = commands.XATransactionId(1, name.encode(), b"branch")
        else:
            self.transaction = commands.LocalTransactionId(number, commands.ConnectionId(self.connection_id))
        self.deed = self.world.ledger.deed(name, Outcome.OPEN)
        self.note(f"begins {name}")
        self.tell(self.transaction_info(TransactionType.BEGIN))

    def transaction_info(
        self, kind: TransactionType, transaction: commands.TransactionId | None = None
    ) -> commands.TransactionInfo:
        return commands.TransactionInfo(
            connection_id=commands.ConnectionId(self.connection_id),
            transaction_id=transaction or self.transaction,
            type=kind,
        )

    def decide(self, deed: Deed, outcome: Outcome) -> None:
        self.note(f"{deed.name}: {outcome.name}")
        deed.outcome = outcome
        if outcome is Outcome.SENT and not deed.asked_at:  # what counts is the first time it was asked for
            deed.asked_at = self.world.step


class Producer(SendingClient):
    """Sends: with an answer, without, or in transactions; repeats what was not answered when it comes back."""

    def __init__(self, world: "World", name: str) -> None:
        super().__init__(world, name)
        self._is_transacted = self.random.random() < 0.35
        self._sync_share = self.random.random()
        self._where = self.random.sample(world.targets, 2)
        self._unanswered: list[tuple[Any, Deed]] = []
        """The send, or the sends of the transaction whose commit, was not answered."""
        self._batch: list[tuple[Any, Deed]] = []

    def only_send_and_wait(self, where: list[str]) -> None:
        self._is_transacted, self._sync_share, self._where = False, 1.0, where

    def on_connected(self) -> None:
        super().on_connected()
        repeated, self._unanswered = self._unanswered, []
        if not repeated or not self._keeps_id:
            return
        self.note(f"repeats {len(repeated)} sends")
        if self._is_transacted:
            self.tell(self.transaction_info(TransactionType.BEGIN, repeated[0][0].transaction_id))
            for command, _ in repeated:
                self.tell(command)
            self._batch = repeated
            self.transaction = repeated[0][0].transaction_id
            self._commit(repeated[0][1])
        else:
            self._send_and_wait(*repeated[0])

    def on_lost(self) -> None:
        if self.deed is not None and self.deed.outcome is Outcome.OPEN:
            self.decide(self.deed, Outcome.VOID)
        self._batch = []
        self.transaction = self.deed = None

    def work(self) -> None:
        if self._waiting:
            return
        if self._is_transacted:
            self._work_in_transaction()
        elif not self.is_finishing:
            self._work_alone()

    def _work_alone(self) -> None:
        where = self.random.choice(self._where)
        deed = self.world.ledger.deed("a send", Outcome.SENT)
        deed.asked_at = self.world.step
        command = self.make(where, deed)
        if self.world.has_limits or self.random.random() < self._sync_share:
            self._send_and_wait(command, deed)
        else:
            self.confirm_later(self.tell(command), deed)

    def _send_and_wait(self, command: Any, deed: Deed) -> None:
        self._unanswered = [(command, deed)]

        def answered(answer: Structure) -> None:
            self._unanswered = []
            refused = isinstance(answer, commands.ExceptionResponse)
            if refused and not self.world.has_limits:
                raise Violation(f"{self.name}: a send is refused: {answer}")
            self.decide(deed, Outcome.VOID if refused else Outcome.DONE)

        self.request(command, answered, confirms=command.persistent)

    def _work_in_transaction(self) -> None:
        if self.deed is None:
            if not self.is_finishing:
                self.begin()
        elif not self.is_finishing and self.random.random() < 0.7:
            command = self.make(self.random.choice(self._where), self.deed)
            self._batch.append((command, self.deed))
            self.tell(command)
        elif self.random.random() < 0.75:
            self._commit(self.deed)
        else:
            self._roll_back(self.deed)

    def _commit(self, deed: Deed) -> None:
        self._unanswered = self._batch
        self.decide(deed, Outcome.SENT)
        self.deed = deed

        def answered(answer: Structure) -> None:
            self._unanswered, self._batch, self.deed = [], [], None
            if isinstance(answer, commands.ExceptionResponse) and not self.world.has_limits:
                raise Violation(f"{self.name}: {deed.name} fails to commit: {answer.exception}")
            self.decide(deed, Outcome.VOID if isinstance(answer, commands.ExceptionResponse) else Outcome.DONE)
            self.transaction = None

        self.request(self.transaction_info(TransactionType.COMMIT_ONE_PHASE), answered)

    def _roll_back(self, deed: Deed) -> None:
        self.decide(deed, Outcome.VOID)
        self.request(self.transaction_info(TransactionType.ROLLBACK))
        self._batch = []
        self.transaction = self.deed = None

    def on_connection_error(self, error: commands.ConnectionError) -> None:
        if not self.world.has_limits:
            super().on_connection_error(error)
        # A send of a transaction was refused: the commit will say so.


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

    MODES = ("auto", "client", "individual", "transacted", "xa")

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
        place = self.place or f"queue://{dispatch.destination.physical_name}"
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


class DurableSubscriber(Consumer):
    """A durable subscriber: what is published while it is away waits for it."""

    def __init__(self, world: "World", name: str) -> None:
        super().__init__(world, name, where=world.random.choice(world.topics))
        self.subscription_name = "sub"
        self.exclusive = False
        self.prefetch = self.random.choice((1, 2, 100))
        self._place = f"durable:{name}"
        self.is_draining = False

    @property
    def place(self) -> str | None:
        return self._place

    def on_subscribed(self, answer: Structure) -> None:
        super().on_subscribed(answer)
        durable = self.world.ledger.durables
        wants = self.world.predicate(self.selector)
        durable.setdefault(self._place, Durable(self._place, self.where, wants, self.world.step))

    def drain(self) -> None:
        """At the end: consume all that waits, with plain acks, until `is_draining` is taken back."""
        self.mode = "auto"
        self.is_draining = True

    def work(self) -> None:
        if not self.is_draining:
            super().work()
        elif self.consumer is None and not self._waiting:
            self.subscribe()
        elif self.inbox:
            self._receive()

    @property
    def is_quiet(self) -> bool:
        return super().is_quiet and self.consumer is not None and not self.inbox


class Subscriber(Client):
    """A non-durable topic subscriber."""

    def __init__(self, world: "World", name: str) -> None:
        super().__init__(world, name)
        self.where = self.random.choice(world.topics)
        self.prefetch = self.random.choice((1, 5, 1000))
        self.selector = self.random.choice((None, None, "n = 1", "n > 1"))
        self._since: int | None = None
        self._got: set[bytes] = set()
        self._newest: dict[bytes, int] = {}
        self._unacked: deque[commands.MessageDispatch] = deque()

    def on_connected(self) -> None:
        self._consumer = commands.ConsumerId(self.connection_id, 1, next(self._numbers))
        info = commands.ConsumerInfo(
            consumer_id=self._consumer,
            destination=wire_destination(self.where),
            prefetch_size=self.prefetch,
            selector=self.selector,
        )
        self.request(info, self._subscribed)

    def _subscribed(self, answer: Structure) -> None:
        self._expect_success(answer)
        self._since = self.world.step

    def on_lost(self) -> None:
        self._since = None
        self._got.clear()
        self._newest.clear()
        self._unacked.clear()

    def on_dispatch(self, dispatch: commands.MessageDispatch) -> None:
        assert dispatch.message is not None
        key = message_key(dispatch.message.message_id)
        assert key is not None
        sent = self.world.ledger.sent[key]
        if key in self._got:
            raise Violation(f"{self.name} gets {sent.text} twice from a topic")
        if not self.world.predicate(self.selector)(sent.number):
            raise Violation(f"{self.name} gets {sent.text}, which its selector does not want")
        count = int.from_bytes(key[-8:], signed=True)
        if not sent.not_before_ms:
            if count < self._newest.get(key[:-8], -1):
                raise Violation(f"{self.name} gets {sent.text} after a later one")
            self._newest[key[:-8]] = count
        self._got.add(key)
        self._unacked.append(dispatch)

    def work(self) -> None:
        if self._unacked:
            dispatch = self._unacked.popleft()
            assert dispatch.message is not None
            self.tell(
                commands.MessageAck(
                    destination=dispatch.destination,
                    consumer_id=self._consumer,
                    ack_type=int(AckKind.STANDARD),
                    last_message_id=dispatch.message.message_id,
                    message_count=1,
                )
            )

    @property
    def is_idle(self) -> bool:
        return super().is_idle and not self._unacked

    def settle(self) -> None:
        """Nothing that was published since it subscribed may be missing, but for what expired while it waited."""
        if self._since is None:
            return
        wants, now_ms = self.world.predicate(self.selector), self.world.clock.now_ms()
        for sent in self.world.ledger.sent.values():
            has_expired = 0 < sent.expiration <= now_ms
            expected = sent.topic == self.where and sent.deed.outcome is Outcome.DONE and wants(sent.number)
            if expected and not has_expired and sent.deed.asked_at > self._since and sent.key not in self._got:
                raise Violation(f"{self.name} never got {sent.text}, published after it subscribed")


class Browser(Client):
    """Looks through a queue, again and again, and takes nothing."""

    def __init__(self, world: "World", name: str) -> None:
        super().__init__(world, name)
        self._queue = self.random.choice(world.queues)
        self._consumer: commands.ConsumerId | None = None
        self._last: dict[int, int] = {}
        self._unacked: list[commands.MessageDispatch] = []

    def on_lost(self) -> None:
        self._consumer = None
        self._unacked.clear()

    def on_dispatch(self, dispatch: commands.MessageDispatch) -> None:
        if dispatch.consumer_id != self._consumer:
            return
        if dispatch.message is None:
            self.note("has seen everything")
            self.request(commands.RemoveInfo(object_id=self._consumer))
            self._consumer = None
            return
        assert dispatch.message.message_id is not None
        sequence = dispatch.message.message_id.broker_sequence_id
        level = dispatch.message.priority if self._queue in self.world.prioritized else 0
        if sequence <= self._last.get(level, 0):
            raise Violation(f"{self.name} is shown {sequence} after {self._last[level]}")
        self._last[level] = sequence
        self._unacked.append(dispatch)

    def work(self) -> None:
        if self._waiting:
            return
        if self._consumer is None and not self.is_finishing:
            self._last = {}
            self._unacked.clear()
            self._consumer = commands.ConsumerId(self.connection_id, 1, next(self._numbers))
            self.tell(
                commands.ConsumerInfo(
                    consumer_id=self._consumer,
                    destination=wire_destination(self._queue),
                    prefetch_size=self.random.choice((1, 3, 500)),
                    browser=True,
                )
            )
        elif self._unacked and self._consumer is not None:
            self._acknowledge()

    def _acknowledge(self) -> None:
        count = len(self._unacked)
        dispatch = self._unacked[-1]
        self._unacked.clear()
        assert dispatch.message is not None
        self.tell(
            commands.MessageAck(
                destination=dispatch.destination,
                consumer_id=self._consumer,
                ack_type=int(AckKind.STANDARD),
                last_message_id=dispatch.message.message_id,
                message_count=count,
            )
        )

    @property
    def is_idle(self) -> bool:
        return super().is_idle and self._consumer is None


class Drain(Client):
    """At the end: empties one queue and writes down what was in it."""

    def __init__(self, world: "World", name: str, where: str) -> None:
        super().__init__(world, name)
        self._where = where
        self.subscription_name: str | None = None

    def on_connected(self) -> None:
        self._consumer = commands.ConsumerId(self.connection_id, 1, 1)
        info = commands.ConsumerInfo(
            consumer_id=self._consumer, destination=wire_destination(self._where), prefetch_size=1000
        )
        self.request(info)

    def work(self) -> None:
        pass

    def on_dispatch(self, dispatch: commands.MessageDispatch) -> None:
        assert dispatch.message is not None
        key = message_key(dispatch.message.message_id)
        assert key is not None
        ledger = self.world.ledger
        original = dispatch.message.original_destination
        if self._where.endswith("ActiveMQ.DLQ"):
            assert original is not None, "a dead letter says where it died"
            kind = "queue" if isinstance(original, commands.ActiveMQQueue) else "topic"
            ledger.dead.setdefault(key, set()).add(f"{kind}://{original.physical_name}")
        else:
            copy = (self._where, key)
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

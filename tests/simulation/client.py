"""A client of a simulation: it speaks OpenWire through our own protocol, and behaves as a Java client would.

Clients act when the simulation lets them, one command or so at a time, and never wait. What they do comes from the
simulation's random generator; what they claim goes into the ledger. The kinds are in `producers.py`, `consumers.py`,
`subscribers.py` and `listeners.py`.
"""

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ackwire.jms.types import Int, Long, Value
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.bodies import encode_text
from ackwire.wire.openwire.codec_fast import message_key
from ackwire.wire.openwire.commands import TransactionType
from ackwire.wire.openwire.negotiation import Agreement, Preferences
from ackwire.wire.openwire.primitives import encode_map
from ackwire.wire.openwire.protocol import Event, OpenWireProtocol
from ackwire.wire.openwire.structures import Structure
from tests.simulation.audit import Violation
from tests.simulation.ledger import Deed, Outcome, Sent
from tests.simulation.network import Link

if TYPE_CHECKING:
    from tests.simulation.world import World

Answer = Callable[[Structure], None]

_FAILED = "Nothing more is acknowledged"
"""Says that the store has failed: what had no answer yet may have happened or not."""


_DESTINATIONS: dict[str, Callable[[str], commands.ActiveMQDestination]] = {
    "queue": commands.ActiveMQQueue,
    "topic": commands.ActiveMQTopic,
    "temp-queue": commands.ActiveMQTempQueue,
    "temp-topic": commands.ActiveMQTempTopic,
}


def wire_destination(name: str) -> commands.ActiveMQDestination:
    kind, _, rest = name.partition("://")
    return _DESTINATIONS[kind](rest)


def destination_name(destination: commands.ActiveMQDestination) -> str:
    kind = next(kind for kind, make in _DESTINATIONS.items() if type(destination) is make)
    return f"{kind}://{destination.physical_name}"


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
                where if "topic://" in where else None,
                number,
                expiration,
                persistent and not where.startswith("temp"),  # nothing outlives its owner there
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

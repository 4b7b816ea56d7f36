"""Clients of a simulation with temporary destinations: owners, who consume from them, and others that send there (A8).

A temporary destination ends with its owner's connection, and its messages with it. As long as its owner has it, every
message arrives; once its deletion was confirmed, nothing is accepted for it.
"""

import itertools
from typing import TYPE_CHECKING, Any

from ackwire.wire.openwire import commands
from ackwire.wire.openwire.commands import DestinationOperation
from ackwire.wire.openwire.structures import Structure
from tests.simulation.audit import Violation
from tests.simulation.client import Client, wire_destination
from tests.simulation.consumers import SelfDraining
from tests.simulation.ledger import Deed, Outcome, Temporary
from tests.simulation.producers import Producer
from tests.simulation.subscribers import Subscriber

if TYPE_CHECKING:
    from tests.simulation.world import World


class Ownership:
    """The one temporary destination that a client has at a time."""

    def __init__(self, client: Client, kind: str) -> None:
        self._client = client
        self._kind = kind
        self._numbers = itertools.count(1)
        self._number = next(self._numbers)
        self._temporary: Temporary | None = None

    @property
    def name(self) -> str:
        """The name of the one it has, or will have next."""
        return f"{self._kind}://{self._client.connection_id}:{self._number}"

    def make(self) -> None:
        """Announce it, if it is not there."""
        if self._temporary is not None:
            return
        made = self._temporary = Temporary(self.name, self._client.world.step)
        self._client.world.ledger.temporaries[made.name] = made
        self._client.note(f"makes {made.name}")

        def answered(answer: Structure) -> None:
            self._expect_success(answer)
            made.made_at = self._client.world.step

        self._client.request(self._info(DestinationOperation.ADD), answered)

    def delete(self) -> None:
        """Have it deleted, which has no consumer any more."""
        ended = self._temporary
        if ended is None:
            return
        self._client.note(f"deletes {ended.name}")

        def answered(answer: Structure) -> None:
            self._expect_success(answer)
            ended.is_gone = True

        self._client.request(self._info(DestinationOperation.REMOVE), answered)
        self._end()
        self._number = next(self._numbers)

    def lost(self) -> None:
        """The connection is gone, and it with it; failover makes one of the same name again, others another one."""
        self._end()
        if self._client.random.random() < 0.5:
            self._number = next(self._numbers)

    def _end(self) -> None:
        if self._temporary is not None:
            self._temporary.ended_at = self._client.world.step
            self._temporary = None

    def _info(self, operation: DestinationOperation) -> commands.DestinationInfo:
        return commands.DestinationInfo(
            connection_id=commands.ConnectionId(self._client.connection_id),
            destination=wire_destination(self.name),
            operation_type=int(operation),
        )

    def _expect_success(self, answer: Structure) -> None:
        if isinstance(answer, commands.ExceptionResponse):
            raise Violation(f"{self._client.name} may not make or delete {self.name}: {answer.exception}")


class TemporaryQueueOwner(SelfDraining):
    """Consumes from its own temporary queue, and makes another one now and then."""

    MODES = ("auto", "client", "individual", "transacted")

    def __init__(self, world: "World", name: str) -> None:
        super().__init__(world, name)
        self._owned = Ownership(self, "temp-queue")

    def subscribe(self) -> None:
        if self.random.random() < 0.5 and not self.is_finishing:
            self._owned.delete()
        self._owned.make()
        self.where = self._owned.name
        super().subscribe()

    def on_lost(self) -> None:
        self._owned.lost()
        super().on_lost()

    def drain(self) -> None:
        super().drain()
        self.selector, self.prefetch = None, 100


class TemporaryTopicOwner(Subscriber):
    """Subscribes to its own temporary topic."""

    def __init__(self, world: "World", name: str) -> None:
        super().__init__(world, name)
        self._owned = Ownership(self, "temp-topic")

    def on_connected(self) -> None:
        self._owned.make()
        self.where = self._owned.name
        super().on_connected()

    def on_lost(self) -> None:
        self._owned.lost()
        super().on_lost()


class TemporaryProducer(Producer):
    """Sends to the temporary destinations of others, and waits for each answer."""

    def __init__(self, world: "World", name: str) -> None:
        super().__init__(world, name)
        self.only_send_and_wait(world.targets)

    def _choose_where(self) -> str:
        known = list(self.world.ledger.temporaries.values())
        alive = [it.name for it in known if it.ended_at is None]
        if known and self.random.random() < 0.1:
            return self.random.choice(known).name
        return self.random.choice(alive) if alive else super()._choose_where()

    def on_answered(self, command: Any, deed: Deed, answer: Structure) -> None:
        """A temporary destination takes all as long as it is there for certain, and nothing once it is gone."""
        sent = self.world.ledger.sent[deed.sends[0]]
        temporary = self.world.ledger.temporaries.get(sent.topic or sent.places[0])
        if temporary is None:
            super().on_answered(command, deed, answer)
            return
        refused = isinstance(answer, commands.ExceptionResponse)
        if refused and temporary.is_there_since(deed.asked_at) and not self.world.has_limits:
            raise Violation(f"{self.name}: a send to {temporary.name} is refused, and it is there")
        is_gone = temporary.is_gone and temporary.ended_at is not None and temporary.ended_at < deed.asked_at
        if not refused and is_gone and not sent.not_before_ms:
            raise Violation(f"{self.name}: a send to {temporary.name} is accepted, and it was deleted")
        self.decide(deed, Outcome.VOID if refused else Outcome.DONE)

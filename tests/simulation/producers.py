"""Clients of a simulation that send."""

from typing import TYPE_CHECKING, Any

from ackwire.wire.openwire import commands
from ackwire.wire.openwire.commands import TransactionType
from ackwire.wire.openwire.structures import Structure
from tests.simulation.audit import Violation
from tests.simulation.client import SendingClient
from tests.simulation.ledger import Deed, Outcome

if TYPE_CHECKING:
    from tests.simulation.world import World


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
        deed = self.world.ledger.deed("a send", Outcome.SENT)
        deed.asked_at = self.world.step
        command = self.make(self._choose_where(), deed)
        if self.world.has_limits or self.random.random() < self._sync_share:
            self._send_and_wait(command, deed)
        else:
            self.confirm_later(self.tell(command), deed)

    def _choose_where(self) -> str:
        return self.random.choice(self._where)

    def _send_and_wait(self, command: Any, deed: Deed) -> None:
        self._unanswered = [(command, deed)]

        def answered(answer: Structure) -> None:
            self._unanswered = []
            self.on_answered(command, deed, answer)

        self.request(command, answered, confirms=command.persistent)

    def on_answered(self, command: Any, deed: Deed, answer: Structure) -> None:
        """A send that was waited for is answered."""
        refused = isinstance(answer, commands.ExceptionResponse)
        if refused and not self.world.has_limits:
            raise Violation(f"{self.name}: {command.message_id} is refused: {answer}")
        self.decide(deed, Outcome.VOID if refused else Outcome.DONE)

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

"""A reader and a writer in bulk for a broker rig: what the HTTP port does, without a port."""

from collections.abc import Iterable
from typing import Any

from ackwire.broker.cursors import CursorInfo, Row
from ackwire.errors import BrokerError
from ackwire.jms.message import Message
from tests.helpers.broker_rig import BrokerRig, RigClient, named, text_of


def raise_it(error: BrokerError) -> None:
    raise error


class Reader:
    """Reads a cursor."""

    def __init__(
        self,
        rig: BrokerRig,
        name: str = "c",
        where: str = "queue://q",
        selector: str | None = None,
        *,
        open: bool = True,
    ) -> None:
        self.rig = rig
        self.name = name
        if open:
            rig.broker.cursors.open(name, named(where), selector)

    @property
    def info(self) -> CursorInfo:
        return self.rig.broker.cursors.info(self.name)

    def latest(self, after: int = 0, limit: int = 1000) -> int:
        answers: list[int] = []
        self.rig.broker.cursors.latest(self.name, after, limit, answers.append, raise_it)
        for _ in range(1000):
            if answers:
                break
            self.rig.clock.advance(0)
        [answer] = answers
        return answer

    def rows(self, after: int, to: int) -> list[Row]:
        """Of a store that answers at once."""
        answers: list[list[Row]] = []
        self.rig.broker.cursors.rows(self.name, after, to, answers.append, raise_it)
        [rows] = answers
        return rows

    def texts(self, after: int, to: int) -> list[str | None]:
        rows = self.rows(after, to)
        assert [row[0] for row in rows] == list(range(after + 1, to + 1))
        return [text_of(self.rig.editor.restored(row[1])) for row in rows]

    def read(self, limit: int = 1000) -> list[str | None]:
        """All that there is behind what is committed."""
        after = self.info.committed
        return self.texts(after, self.latest(after, limit))

    def commit(self, to: int) -> int:
        answers: list[int] = []
        self.rig.broker.cursors.commit(self.name, to, answers.append, raise_it)
        self.rig.clock.advance(0)
        [answer] = answers
        return answer

    def close(self) -> None:
        answers: list[bool] = []
        self.rig.broker.cursors.close(self.name, lambda: answers.append(True), raise_it)
        for _ in range(1000):
            if answers:
                return
            self.rig.clock.advance(0)
        raise AssertionError(f"cursor {self.name} was not closed")


class Writer:
    """Stages and commits batches."""

    def __init__(self, rig: BrokerRig, producer: str = "w") -> None:
        self.rig = rig
        self.producer = producer
        self._client: RigClient = rig.connect(f"writer {producer}")

    def messages(self, texts: Iterable[str], where: str = "queue://q", **options: Any) -> list[Message]:
        made = [self._client.message(named(where), text, **options) for text in texts]
        first = self.rig.broker.staging.next_sequences(len(made))
        for sequence, message in enumerate(made, first):
            self.rig.editor.stamper.stamp(message, sequence, self.rig.clock.now_ms())
        return made

    def stage(self, texts: Iterable[str], part: str = "p", batch: int = 0, where: str = "queue://q") -> None:
        answers: list[bool] = []
        messages = self.messages(texts, where)
        self.rig.broker.staging.stage(self.producer, batch, part, messages, lambda: answers.append(True), raise_it)
        assert answers == [True]

    def commit(self, batch: int = 0, parts: Iterable[str] = ("p",)) -> bool:
        answers: list[bool] = []
        self.rig.broker.staging.commit(self.producer, batch, parts, answers.append, raise_it)
        [answer] = answers
        return answer

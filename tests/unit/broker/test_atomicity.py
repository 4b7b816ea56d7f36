"""A transaction reaches the store as one: everything it does is recorded between the same two marks."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ackwire.jms.message import Message
from ackwire.store.contract import Place
from ackwire.store.memory import MemoryStore
from tests.helpers.broker_rig import BrokerRig


class WatchedStore(MemoryStore):
    """Writes down what is recorded, and whether that was inside of `atomically`."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[tuple[str, bool]] = []
        self._depth = 0

    def append(self, message: Message, places: Sequence[Place]) -> None:
        self.records.append(("append", self._depth > 0))
        super().append(message, places)

    def remove(self, place: Place, message: Message) -> None:
        self.records.append(("remove", self._depth > 0))
        super().remove(place, message)

    @contextmanager
    def atomically(self) -> Iterator[None]:
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1


def test_G2_sends_and_acks_of_a_transaction_are_recorded_together() -> None:
    store = WatchedStore()
    rig = BrokerRig(store=store)
    client = rig.connect()
    message = client.send("queue://in")
    consumer = client.consumer("queue://in")
    transaction = client.begin()
    client.send("queue://out", transaction=transaction)
    consumer.ack(message, transaction=transaction)
    store.records.clear()
    client.commit(transaction)
    assert sorted(store.records) == [("append", True), ("remove", True)]


def test_G2_nothing_of_a_rolled_back_transaction_is_recorded() -> None:
    store = WatchedStore()
    rig = BrokerRig(store=store)
    client = rig.connect()
    transaction = client.begin()
    client.send("queue://out", transaction=transaction)
    client.roll_back(transaction)
    assert store.records == []

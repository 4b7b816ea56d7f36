"""What tests of stores share: messages as a broker has them, and what a store has kept, as values that compare."""

from collections.abc import Callable, Hashable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final, Protocol, TypeAlias

from ackwire.jms.destinations import Destination, parse_destination
from ackwire.jms.message import Message
from ackwire.store.contract import (
    DurableKey,
    DurableRecord,
    Place,
    PreparedTransaction,
    ScheduledJob,
    StateRecord,
    Store,
    WaitingMessage,
)
from ackwire.wire.openwire import commands
from tests.helpers.broker_rig import BrokerRig, RigClient, named

Q = parse_destination("queue://q")
R = parse_destination("queue://r")
T = parse_destination("topic://t")
D = DurableKey("client", "d")
E = DurableKey("client", "e")


def durable(key: DurableKey = D, selector: str | None = None, *, no_local: bool = False) -> DurableRecord:
    """A durable subscription to `T`."""
    return DurableRecord(key, T, selector, no_local)


def xa_id(number: int) -> commands.XATransactionId:
    return commands.XATransactionId(7, b"global %d" % number, b"branch")


def local_id(number: int) -> commands.LocalTransactionId:
    return commands.LocalTransactionId(number, commands.ConnectionId("ID:client"))


class Messages:
    """Makes messages as clients do, and gives them their place in the order as a broker does."""

    def __init__(self) -> None:
        self._rig = BrokerRig()
        self._clients: dict[str, RigClient] = {}
        self._sequences = count(1)

    def make(self, where: Destination | str = Q, text: str = "x", *, producer: str = "a", **options: Any) -> Message:
        """A message that has its sequence. *options* as in `RigClient.message`."""
        message = self.unstamped(where, text, producer=producer, **options)
        self.stamp(message)
        return message

    def unstamped(
        self, where: Destination | str = Q, text: str = "x", *, producer: str = "a", **options: Any
    ) -> Message:
        """A message that waits for its sequence: in a transaction, or for its time."""
        client = self._clients.get(producer)
        if client is None:
            client = self._clients[producer] = self._rig.connect(producer)
        return client.message(named(where), text, **options)

    def stamp(self, message: Message) -> None:
        self._rig.editor.stamper.stamp(message, next(self._sequences), self._rig.clock.now_ms())

    def numbered(self, sequence: int, text: str = "x") -> Message:
        """A message with that sequence."""
        message = self.unstamped(text=text)
        self._rig.editor.stamper.stamp(message, sequence, self._rig.clock.now_ms())
        return message

    def replacement(self, message: Message) -> Message:
        """The same message with other bytes: same key, same sequence."""
        again = self._rig.editor.readdressed(message, message.destination, properties={"again": True})
        self._rig.editor.stamper.stamp(again, message.sequence, self._rig.clock.now_ms())
        return again

    def job(self, job_id: str = "job", **changes: Any) -> ScheduledJob:
        """A scheduled job; *changes* are its fields."""
        job = ScheduledJob(job_id, self.unstamped(), 1000, 2000, 1000, 500, 3, "", True)
        return replace(job, **changes)


# ---- what a store has kept, as values --------------------------------------------------------------------------

Facts: TypeAlias = tuple[object, ...]


def facts(message: Message) -> Facts:
    """Everything of *message* that a store must give back; deliveries are counted from 0 again."""
    return (
        message.sequence,
        message.key,
        message.frame,
        message.destination,
        message.origin.producer_key,
        message.origin.transaction,
        message.persistent,
        message.priority,
        message.expiration,
        message.timestamp,
        message.properties_offset,
        message.group_id,
        message.group_sequence,
    )


def waiting_facts(message: Message) -> WaitingMessage:
    return WaitingMessage(message.sequence, message.expiration, message.priority, message.size_bytes)


def job_facts(job: ScheduledJob) -> Facts:
    return (facts(job.message), replace(job, message=None))  # type: ignore[arg-type]  # only to compare


def prepared_facts(transaction: PreparedTransaction, is_there: Callable[[Place, int], bool] | None = None) -> Facts:
    """Without acks of what is not there any more: a queue may be deleted before its messages' fate is decided."""
    acks = [it for it in transaction.acks if is_there is None or is_there(it[0], it[1].sequence)]
    return (
        transaction.transaction_id,
        tuple(map(facts, transaction.sends)),
        tuple((place, facts(message)) for place, message in acks),
    )


MADE: Final = frozenset(
    map(parse_destination, ("queue://made.1", "queue://made.2", "topic://made.1", "topic://made.2"))
)
"""Destinations that are made and removed, and in which no message ever is."""


@dataclass(frozen=True)
class Kept:
    """Everything that a store has kept, in a form that compares; empty places are no places, but for `MADE`."""

    destinations: frozenset[Destination]
    waiting: dict[Place, list[WaitingMessage]]
    messages: dict[Place, list[Facts | None]]
    durables: dict[DurableKey, DurableRecord]
    jobs: dict[str, Facts]
    prepared: dict[Hashable, Facts]
    last_counts: list[tuple[bytes, int]]
    commits: list[Hashable]
    notes: dict[str, StateRecord]
    dispatched_up_to: dict[Place, list[int]]
    """The sequences of those that may have reached consumers."""
    last_sequence: int


def kept(store: Store) -> Kept:
    """What *store* has kept. As a broker does, ask once, when it was just opened."""
    waiting = {place: list(store.waiting(place)) for place in _each_once(store.places())}
    waiting = {place: messages for place, messages in waiting.items() if messages}
    there = {(place, it.sequence) for place, messages in waiting.items() for it in messages}
    loaded = {place: store.load(place, [it.sequence for it in messages]) for place, messages in waiting.items()}
    return Kept(
        destinations=MADE & set(store.places()),
        waiting=waiting,
        messages={place: [it and facts(it) for it in messages] for place, messages in loaded.items()},
        durables={record.key: record for record in _each_once(store.durables())},
        jobs={job.job_id: job_facts(job) for job in store.jobs()},
        prepared={it.transaction_id: prepared_facts(it, lambda *ack: ack in there) for it in store.prepared()},
        last_counts=list(store.last_counts()),
        commits=list(store.commits()),
        notes={note.key: note for note in _each_once(store.state_records())},
        dispatched_up_to=only_dispatched(waiting, store.dispatched_up_to),
        last_sequence=store.last_sequence(),
    )


def only_dispatched(
    waiting: dict[Place, list[WaitingMessage]], up_to: Callable[[Place], int]
) -> dict[Place, list[int]]:
    found = {
        place: [it.sequence for it in messages if it.sequence <= up_to(place)] for place, messages in waiting.items()
    }
    return {place: sequences for place, sequences in found.items() if sequences}


def _each_once(things: Iterable[Any]) -> list[Any]:
    everything = list(things)
    assert len(everything) == len(set(everything)), f"twice: {everything}"
    return everything


def difference(found: Kept, expected: Kept) -> str:
    """What is not as it should be, field by field; empty if nothing is."""
    lines = []
    for name in Kept.__dataclass_fields__:
        there, should = getattr(found, name), getattr(expected, name)
        if there != should:
            lines.append(f"{name}: {_short(name, there)}, expected {_short(name, should)}")
    return "\n".join(lines)


def _short(name: str, value: Any) -> str:
    if name == "messages":
        return str({place: [it and it[0] for it in messages] for place, messages in value.items()})
    if name == "prepared":
        acks = {key: [(place, it[0]) for place, it in entry[2]] for key, entry in value.items()}
        return f"{acks} (place, sequence of acks), {[len(entry[1]) for entry in value.values()]} sends"
    if name == "jobs":
        return str({key: entry[1] for key, entry in value.items()})
    return str(value)


# ---- the model -------------------------------------------------------------------------------------------------


class Recorder(Protocol):
    """The verbs of `Store` that record, and nothing else: what a model needs to have."""

    def append(self, message: Message, places: list[Place], /) -> None: ...
    def remove(self, place: Place, message: Message, /) -> None: ...
    def purge(self, place: Place, last_sequence: int, kept: list[int], /) -> None: ...
    def remove_place(self, place: Place, /) -> None: ...
    def add_destination(self, destination: Destination, /) -> None: ...
    def add_durable(self, record: DurableRecord, /) -> None: ...
    def add_job(self, job: ScheduledJob, /) -> None: ...
    def remove_job(self, job_id: str, /) -> None: ...
    def prepare(self, transaction: PreparedTransaction, /) -> None: ...
    def decide(self, transaction_id: Hashable, /) -> None: ...
    def committed(self, transaction_id: Hashable, /) -> None: ...
    def put_state_record(self, note: StateRecord, /) -> None: ...
    def drop_state_record(self, key: str, /) -> None: ...
    def mark_dispatched(self, place: Place, sequence: int, /) -> None: ...
    def unmark_dispatched(self, place: Place, sequence: int, /) -> None: ...
    def atomically(self) -> AbstractContextManager[None]: ...


Verb: TypeAlias = Callable[[Recorder], None]
"""One thing that happens, done to a store or to a model."""

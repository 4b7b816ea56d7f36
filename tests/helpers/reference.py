"""The simplest thing that keeps what a store must keep: plain dictionaries, copied whole after each step."""

from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from ackwire.jms.destinations import Destination
from ackwire.jms.message import Message
from ackwire.store.contract import DurableKey, DurableRecord, Place, PreparedTransaction, ScheduledJob, StateRecord
from tests.helpers.stored import MADE, Kept, facts, job_facts, only_dispatched, prepared_facts, waiting_facts


class Reference:
    """Implements `Recorder`."""

    def __init__(self) -> None:
        self.destinations: set[Destination] = set()
        self.messages: dict[Place, dict[int, Message]] = {}
        self.durables: dict[DurableKey, DurableRecord] = {}
        self.jobs: dict[str, ScheduledJob] = {}
        self.prepared: dict[Hashable, PreparedTransaction] = {}
        self.counts: dict[bytes, int] = {}
        self.commits: list[Hashable] = []
        self.notes: dict[str, StateRecord] = {}
        self.dispatched_up_to: dict[Place, int] = {}
        self.last_sequence = 0

    def copy(self) -> "Reference":
        twin = Reference()
        twin.destinations = set(self.destinations)
        twin.messages = {place: dict(messages) for place, messages in self.messages.items()}
        twin.durables = dict(self.durables)
        twin.jobs = dict(self.jobs)
        twin.prepared = dict(self.prepared)
        twin.counts = dict(self.counts)
        twin.commits = list(self.commits)
        twin.notes = dict(self.notes)
        twin.dispatched_up_to = dict(self.dispatched_up_to)
        twin.last_sequence = self.last_sequence
        return twin

    def append(self, message: Message, places: list[Place]) -> None:
        for place in places:
            self.messages.setdefault(place, {})[message.sequence] = message
        self._count(message)
        self.last_sequence = max(self.last_sequence, message.sequence)

    def _count(self, message: Message) -> None:
        key = message.origin.producer_key
        count = self.counts.pop(key, message.producer_count)  # it goes to the end: heard of last
        self.counts[key] = max(count, message.producer_count)  # a message that is written again is no news

    def remove(self, place: Place, message: Message) -> None:
        self.messages.get(place, {}).pop(message.sequence, None)

    def purge(self, place: Place, last_sequence: int, kept: list[int]) -> None:
        there = self.messages.get(place, {})
        self.messages[place] = {n: message for n, message in there.items() if n > last_sequence or n in kept}

    def remove_place(self, place: Place) -> None:
        self.messages.pop(place, None)
        if isinstance(place, Destination):
            self.destinations.discard(place)
        self.dispatched_up_to.pop(place, None)
        if isinstance(place, DurableKey):
            self.durables.pop(place, None)

    def add_destination(self, destination: Destination) -> None:
        self.destinations.add(destination)

    def add_durable(self, record: DurableRecord) -> None:
        self.durables[record.key] = record

    def add_job(self, job: ScheduledJob) -> None:
        if job.job_id not in self.jobs:
            self._count(job.message)
        self.jobs[job.job_id] = job

    def remove_job(self, job_id: str) -> None:
        self.jobs.pop(job_id, None)

    def prepare(self, transaction: PreparedTransaction) -> None:
        self.prepared[transaction.transaction_id] = transaction

    def decide(self, transaction_id: Hashable) -> None:
        self.prepared.pop(transaction_id, None)

    def committed(self, transaction_id: Hashable) -> None:
        if transaction_id in self.commits:
            self.commits.remove(transaction_id)
        self.commits.append(transaction_id)

    def put_state_record(self, note: StateRecord) -> None:
        self.notes[note.key] = note

    def drop_state_record(self, key: str) -> None:
        self.notes.pop(key, None)

    def mark_dispatched(self, place: Place, sequence: int) -> None:
        self.dispatched_up_to[place] = max(sequence, self.dispatched_up_to.get(place, 0))
        self.last_sequence = max(sequence, self.last_sequence)

    def unmark_dispatched(self, place: Place, sequence: int) -> None:
        self.dispatched_up_to[place] = min(sequence, self.dispatched_up_to.get(place, 0))

    @contextmanager
    def atomically(self) -> Iterator[None]:
        yield

    def _has(self, place: Place, sequence: int) -> bool:
        return sequence in self.messages.get(place, {})

    def kept(self) -> Kept:
        """What a store that was opened in this state says."""
        there = {place: [m[n] for n in sorted(m)] for place, m in self.messages.items() if m}
        waiting = {place: [waiting_facts(it) for it in messages] for place, messages in there.items()}
        return Kept(
            destinations=MADE & self.destinations,
            waiting=waiting,
            messages={place: [facts(it) for it in messages] for place, messages in there.items()},
            durables=dict(self.durables),
            jobs={job_id: job_facts(job) for job_id, job in self.jobs.items()},
            prepared={key: prepared_facts(it, self._has) for key, it in self.prepared.items()},
            last_counts=list(self.counts.items()),
            commits=list(self.commits),
            notes=dict(self.notes),
            dispatched_up_to=only_dispatched(waiting, lambda place: self.dispatched_up_to.get(place, 0)),
            last_sequence=self.last_sequence,
        )

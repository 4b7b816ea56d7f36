"""What may happen to a store, what has, and what a new start may find then.

`Happenings` makes verbs as a broker would call them. `History` is the model: a list of states, one after each thing
that was recorded; a group is one thing. A promise is the number of a state. After a crash at any moment, what the store
has kept must be one of the states from the last promise on.

There is one exception, because a message that is removed before it was written need not be written: it may be missing
in states between the two. Nobody was promised anything about it, and somebody has consumed it. That does not hold for
what a group removes: if the group never happened, the message must be there, or never have been counted (J4).
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from ackwire.errors import StoreFailed
from ackwire.jms.message import Message
from ackwire.store.contract import (
    BatchRecord,
    CursorRecord,
    DurableKey,
    Place,
    PreparedTransaction,
    StagedRecord,
    StateRecord,
    Store,
)
from tests.helpers.reference import Reference
from tests.helpers.stored import MADE, D, E, Kept, Messages, Q, R, T, Verb, difference, durable, local_id, xa_id

PLACES: tuple[Place, ...] = (Q, R, D, E)
SIZES = (0, 10, 10, 200, 1000, 5000)

KINDS = (
    *("append", "append", "append", "append", "remove", "remove", "remove", "move", "replace", "purge", "remove_place"),
    *("add_durable", "add_job", "add_job", "remove_job", "prepare", "decide", "commit", "mark_dispatched"),
    *("note", "note", "drop_state_record"),
)
"""The methods of `Happenings`, more of those that are more frequent."""

ALL_KINDS = (*KINDS, "add_destination", "add_destination", "remove_destination")


NOTES: tuple[StateRecord, ...] = (
    CursorRecord("ä cursor", Q, Q, "n = 1", 0, 0, (), (7, 2)),
    CursorRecord("of a topic", D, T, None, 0, 0, (), ()),
    StagedRecord("spark", "part 1", 7, 1000, True, ((Q, (5, 3)), (D, (9, 1, 12, 4)))),
    BatchRecord("spark", 7, 2000),
)


def no_failure(failure: StoreFailed) -> None:
    raise AssertionError("nothing has failed") from failure


class History:
    """What was recorded and promised since the last start."""

    def __init__(self) -> None:
        self.states = [Reference()]
        self.promised = 0
        """The first of the states that a new start may find."""
        self.asked = 0
        self.told = 0
        self._life = 0
        self._consumed: list[set[tuple[Place, int]]] = [set()]
        """For each state, what was removed since the one before it, and not by a group."""
        self._wrong: list[str] = []
        """What was wrong with promises: whoever calls back may catch what a callback raises."""

    @property
    def state(self) -> Reference:
        return self.states[-1]

    def record(self, store: Store, verbs: list[Verb], *, ask: bool = False) -> None:
        """Have *verbs* happen as one thing; *ask* for a promise before the last of them."""
        self.check()
        if not verbs:
            return
        after = self.state.copy()
        for verb in verbs:
            verb(after)
        self._consumed.append(_there(self.state) - _there(after) if len(verbs) == 1 else set())
        self.states.append(after)  # even if everything stops before it is recorded, it may be found
        if len(verbs) == 1:
            verbs[0](store)
            return
        with store.atomically():
            for verb in verbs[:-1]:
                verb(store)
            if ask:
                self.ask(store, in_group=True)
            verbs[-1](store)

    def ask(
        self, store: Store, on_failed: Callable[[StoreFailed], None] = no_failure, *, in_group: bool = False
    ) -> None:
        """Ask for a promise about everything so far."""
        number, index, life = self.asked, len(self.states) - 1, self._life
        self.asked += 1
        at_once = True

        def promise() -> None:
            if life != self._life:
                self._wrong.append("a promise of an earlier life")
            elif number != self.told:
                self._wrong.append(f"promise {number} came when {self.told} was due")
            self.told += 1
            # Within a group it is kept at once only if nothing of the group was recorded yet.
            self.promised = max(self.promised, index - 1 if in_group and at_once else index)

        store.when_durable(promise, on_failed)
        at_once = False

    def check(self) -> None:
        """Raise what was wrong with a promise."""
        assert not self._wrong, self._wrong

    def close(self) -> None:
        """The store was closed well."""
        self.check()
        assert self.told == self.asked, "closed, and somebody still waits"
        self.promised = len(self.states) - 1

    def go_on_from(self, found: Kept) -> None:
        """A new start found this. It is durable by now: the next start finds it too."""
        self.check()
        problems = []
        for index in range(len(self.states) - 1, self.promised - 1, -1):
            state = self._without_pending(index, found)
            problem = difference(found, state.kept())
            if not problem:
                break
            problems.append(f"{problem}\n(state {index} of {len(self.states) - 1}, {self.promised} was promised)")
        else:
            raise AssertionError("no state since the last promise is like what was found:\n\n" + "\n\n".join(problems))
        self.states, self._consumed = [state], [set()]
        self.promised = self.asked = self.told = 0
        self._life += 1

    def _without_pending(self, index: int, found: Kept) -> Reference:
        """A state, but without messages that need not have been written and were not found.

        What is remembered of producers and commits may be in another order: compaction writes old ones again.
        """
        state, promised = self.states[index].copy(), self.states[self.promised]
        consumed = set[tuple[Place, int]]().union(*self._consumed[index + 1 :])
        for place, sequence in (consumed & _there(state)) - _found(found):
            if promised.messages.get(place, {}).get(sequence) is not state.messages[place][sequence]:
                del state.messages[place][sequence]
        least = _counts(state, dict(promised.counts))
        counts = dict(found.last_counts)
        if counts.keys() >= least.keys() and all(
            least.get(it, count) <= count <= state.counts.get(it, -1) for it, count in counts.items()
        ):
            state.counts = counts
        sequences = [sequence for _, sequence in _there(state)]
        if sorted(map(str, found.commits)) == sorted(map(str, state.commits)):
            state.commits = list(found.commits)
        if found.last_sequence >= max([promised.last_sequence, *sequences]):
            state.last_sequence = found.last_sequence  # never goes back from there
        return state


def _there(state: Reference) -> set[tuple[Place, int]]:
    return {(place, sequence) for place, messages in state.messages.items() for sequence in messages}


def _found(found: Kept) -> set[tuple[Place, int]]:
    return {(place, it.sequence) for place, messages in found.waiting.items() for it in messages}


def _counts(state: Reference, counts: dict[bytes, int]) -> dict[bytes, int]:
    """What must be known of producers: what was promised, and what the messages show that are there."""
    for message in (it for messages in state.messages.values() for it in messages.values()):
        key = message.origin.producer_key
        counts[key] = max(counts.get(key, message.producer_count), message.producer_count)
    return counts


class Happenings:
    """Makes what may happen next in a given state, as a broker would have it happen."""

    def __init__(self) -> None:
        self.messages = Messages()
        self._number = 0

    def make(self, kind: str, state: Reference, random: Random) -> list[Verb]:
        """Verbs of one thing of this *kind*; nothing if *state* has nothing that it could be done to."""
        made: list[Verb] = getattr(self, kind)(state, random)
        return made

    def make_several(self, kinds: list[str], state: Reference, random: Random) -> list[Verb]:
        """Verbs of several things, one after the other."""
        state = state.copy()
        verbs: list[Verb] = []
        for kind in kinds:
            made = self.make(kind, state, random)
            for verb in made:
                verb(state)
            verbs += made
        return verbs

    def append(self, state: Reference, random: Random) -> list[Verb]:
        message = self._message(random)
        places = [it for it in random.sample(PLACES, random.randrange(1, 4)) if _is_there(it, state)] or [Q]
        return [lambda it: it.append(message, places)]

    def remove(self, state: Reference, random: Random) -> list[Verb]:
        found = _pick_free(state, random)
        return [] if found is None else [_removal(*found)]

    def move(self, state: Reference, random: Random) -> list[Verb]:
        """A dead letter: it is there, and what it was is gone."""
        return [*self.append(state, random), *self.remove(state, random)]

    def replace(self, state: Reference, random: Random) -> list[Verb]:
        """Other bytes for a message that keeps its place."""
        found = _pick_free(state, random)
        if found is None:
            return []
        place, message = found
        again = self.messages.replacement(message)
        return [_removal(place, message), lambda it: it.append(again, [place])]

    def purge(self, state: Reference, random: Random) -> list[Verb]:
        place = random.choice(PLACES)
        there = sorted(state.messages.get(place, {}))
        undecided = {n for held, n in _undecided(state) if held == place}
        stay = [n for n in there if n in undecided or random.random() < 0.2]
        last = random.choice(there) if there else 5
        return [lambda it: it.purge(place, last, stay)]

    def remove_place(self, state: Reference, random: Random) -> list[Verb]:  # noqa: ARG002 - like the others
        place = random.choice(PLACES)
        return [lambda it: it.remove_place(place)]

    def add_destination(self, state: Reference, random: Random) -> list[Verb]:  # noqa: ARG002
        destination = random.choice(sorted(MADE, key=repr))
        return [lambda it: it.add_destination(destination)]

    def remove_destination(self, state: Reference, random: Random) -> list[Verb]:  # noqa: ARG002
        destination = random.choice(sorted(MADE, key=repr))
        return [lambda it: it.remove_place(destination)]

    def add_durable(self, state: Reference, random: Random) -> list[Verb]:  # noqa: ARG002
        record = durable(random.choice((D, E)), random.choice((None, "n = 1")), no_local=random.random() < 0.5)
        return [lambda it: it.add_durable(record)]

    def add_job(self, state: Reference, random: Random) -> list[Verb]:
        job_id = f"job {random.randrange(4)}"
        known = state.jobs.get(job_id)
        due = {"due_ms": random.randrange(10_000), "repeats_left": random.randrange(-1, 5)}
        job = self.messages.job(job_id, **due, **({} if known is None else {"message": known.message}))
        return [lambda it: it.add_job(job)]

    def remove_job(self, state: Reference, random: Random) -> list[Verb]:  # noqa: ARG002
        job_id = f"job {random.randrange(4)}"
        return [lambda it: it.remove_job(job_id)]

    def prepare(self, state: Reference, random: Random) -> list[Verb]:
        self._number += 1
        sends = tuple(self.messages.unstamped(random.choice((Q, R, T))) for _ in range(random.randrange(3)))
        acks = {(place, message.sequence): (place, message) for place, message in _free(state) if random.random() < 0.3}
        transaction = PreparedTransaction(xa_id(self._number), sends, tuple(acks.values()), "alice" if acks else "")
        return [lambda it: it.prepare(transaction)]

    def decide(self, state: Reference, random: Random) -> list[Verb]:
        """Commit or roll back a prepared transaction."""
        if not state.prepared:
            return []
        transaction = random.choice(list(state.prepared.values()))
        verbs: list[Verb] = [lambda it: it.decide(transaction.transaction_id)]
        if random.random() < 0.5:
            verbs += [_removal(*ack) for ack in transaction.acks]
            verbs += [self._delivery(message) for message in transaction.sends]
        return verbs

    def commit(self, state: Reference, random: Random) -> list[Verb]:
        """A local transaction."""
        transaction_id = local_id(random.randrange(6))
        return [lambda it: it.committed(transaction_id), *self.move(state, random)]

    def mark_dispatched(self, state: Reference, random: Random) -> list[Verb]:
        """Some of a place's messages may reach consumers; or it turns out that fewer have."""
        place = random.choice(PLACES)
        there = sorted(state.messages.get(place, {}))
        if not there:
            return []
        sequence = random.choice(there)
        if random.random() < 0.2:
            return [lambda it: it.unmark_dispatched(place, sequence)]
        return [lambda it: it.mark_dispatched(place, sequence)]

    def note(self, state: Reference, random: Random) -> list[Verb]:  # noqa: ARG002
        note = random.choice(NOTES)
        if isinstance(note, CursorRecord):
            runs = [random.randrange(1, 2**60) for _ in range(2 * random.choice((0, 1, 3, 200)))]
            note = replace(note, committed=random.randrange(2**50), held=tuple(runs))
        elif isinstance(note, BatchRecord):
            note = replace(note, batch=random.randrange(1000))
        return [lambda it: it.put_state_record(note)]

    def drop_state_record(self, state: Reference, random: Random) -> list[Verb]:  # noqa: ARG002
        key = random.choice(NOTES).key
        return [lambda it: it.drop_state_record(key)]

    def _message(self, random: Random) -> Message:
        return self.messages.make(
            random.choice((Q, T)),
            "x" * random.choice(SIZES),
            producer=random.choice("abc"),
            priority=random.randrange(10),
            expiration=random.choice((0, 1_900_000_000_000)),
        )

    def _delivery(self, message: Message) -> Verb:
        """A copy, because the prepared one may come back after a crash, without a sequence."""
        delivered = message.copy()
        self.messages.stamp(delivered)
        return lambda it: it.append(delivered, [Q])


def _is_there(place: Place, state: Reference) -> bool:
    return not isinstance(place, DurableKey) or place in state.durables


def _undecided(state: Reference) -> set[tuple[Place, int]]:
    return {(place, it.sequence) for transaction in state.prepared.values() for place, it in transaction.acks}


def _free(state: Reference) -> list[tuple[Place, Message]]:
    """What waits and is in no prepared transaction."""
    taken = _undecided(state)
    everything = [(place, messages[n]) for place, messages in state.messages.items() for n in sorted(messages)]
    return [(place, message) for place, message in everything if (place, message.sequence) not in taken]


def _pick_free(state: Reference, random: Random) -> tuple[Place, Message] | None:
    free = _free(state)
    return random.choice(free) if free else None


def _removal(place: Place, message: Message) -> Verb:
    return lambda it: it.remove(place, message)

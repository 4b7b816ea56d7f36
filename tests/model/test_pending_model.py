"""`PendingList` against a sorted list: whatever is appended, taken, paged, put back, compacted: both agree (H1, B6)."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ackwire.broker import pending
from ackwire.broker.pending import NO_LIMIT, Entry, PagedOut, PendingList
from ackwire.jms.message import Message
from ackwire.store.contract import WaitingMessage, WaitingMessages
from tests.helpers.broker_rig import BrokerRig

_TEMPLATE = BrokerRig().connect().message("queue://q")


def _message(sequence: int) -> Message:
    message = _TEMPLATE.copy()
    message.sequence = sequence
    message.expiration = _expiration(sequence)
    message.frame += bytes(sequence % 5)
    return message


def _expiration(sequence: int) -> int:
    return sequence * 7 % 50 if sequence % 3 == 0 else 0


def _shelved(message: Message, ticket: int) -> PagedOut:
    return PagedOut(message.sequence, message.expiration, message.priority, message.size_bytes, ticket)


class PendingModel(RuleBasedStateMachine):
    """The reference: a dict of what is there, by sequence, and what was taken out."""

    def __init__(self) -> None:
        super().__init__()
        self._compact_from = pending._COMPACT_FROM
        pending._COMPACT_FROM = 4  # type: ignore[misc]  # so that a few messages are enough to see it at work
        self.list = PendingList()
        self.there: dict[int, Message] = {}
        self.out: dict[int, Message] = {}
        self.paged: dict[int, int] = {}
        """The ticket of each message that is there and paged out."""
        self.count = 0
        self.mark = -(2**62)
        """A lane's position: everything before it was looked at."""
        self.looked_at: set[int] = set()

    def teardown(self) -> None:
        pending._COMPACT_FROM = self._compact_from  # type: ignore[misc]

    @rule(times=st.integers(1, 6))
    def append(self, times: int) -> None:
        for _ in range(times):
            self.count += 1
            message = _message(self.count)
            self.list.append(message)
            self.there[self.count] = message

    @rule()
    def take_first(self) -> None:
        found = self.list.next_from(-(2**62))
        assert (found is None) == (not self.there)
        if found is not None:
            self._take(min(self.there), *found)

    @rule(choice=st.integers(0, 100))
    def take_any(self, choice: int) -> None:
        if self.there:
            sequence = sorted(self.there)[choice % len(self.there)]
            position = self.list.position_of(sequence)
            assert position is not None
            self._take(sequence, position, self._entry(sequence))

    @rule()
    def look_at_next(self) -> None:
        """As a lane does whose selector wants nothing."""
        found = self.list.next_from(self.mark)
        unseen = [n for n in sorted(self.there) if n not in self.looked_at]
        assert (found is None) == (not unseen)
        if found is not None:
            assert found[0] == self.list.position_of(unseen[0])
            self.looked_at.add(unseen[0])
            self.mark = found[0] + 1

    @rule(choices=st.lists(st.integers(0, 100), min_size=1, max_size=5), shelved=st.booleans())
    def put_back(self, choices: list[int], shelved: bool) -> None:
        if not self.out:
            return
        chosen = {sorted(self.out)[choice % len(self.out)] for choice in choices}
        messages = [self.out.pop(sequence) for sequence in sorted(chosen, reverse=True)]
        tickets = {sequence: sequence * 2 for sequence in chosen} if shelved else {}
        foremost = self.list.put_back([_shelved(m, tickets[m.sequence]) if shelved else m for m in messages])
        self.there.update({message.sequence: message for message in messages})
        self.paged.update(tickets)
        found = self.list.next_from(foremost)
        assert found is not None
        assert found[0] == self.list.position_of(min(chosen))
        self.mark = min(self.mark, foremost)
        self.looked_at = {n for n in self.looked_at if n < min(chosen)}

    @rule()
    def what_is_out_is_not_found(self) -> None:
        for sequence in self.out:
            assert self.list.position_of(sequence) is None

    @rule()
    def compact(self) -> None:
        (self.mark,) = self.list.compact([self.mark])
        assert not self.list.is_sparse

    @rule()
    def clear(self) -> None:
        in_memory = [message for sequence, message in self.there.items() if sequence not in self.paged]
        detached = self.list.detach()
        assert (detached.sequences(), detached.paged_count) == (sorted(self.there), len(self.paged))
        assert [it for _, it in detached.last_entries(1 << 40)] == sorted(self.there)
        sequences, cleared = detached.drop_last(1 << 40)
        assert (sequences, cleared.messages) == (sorted(self.there), len(self.there))
        assert cleared.size_bytes == sum(message.size_bytes for message in self.there.values())
        assert cleared.in_memory_bytes == sum(message.size_bytes for message in in_memory)
        assert cleared.last_sequence >= max(self.there, default=0)
        assert sorted(cleared.tickets) == sorted(filter(None, self.paged.values()))
        self.there.clear()
        self.paged.clear()
        self.looked_at.clear()

    @rule(choice=st.integers(0, 100), stored=st.booleans())
    def page_out(self, choice: int, stored: bool) -> None:
        in_memory = sorted(self.there.keys() - self.paged.keys())
        if in_memory:
            sequence = in_memory[choice % len(in_memory)]
            self.paged[sequence] = 0 if stored else sequence * 2
            position = self.list.position_of(sequence)
            assert position is not None
            self.list.page_out(position, self.paged[sequence])

    @rule(count_max=st.integers(1, 4), bytes_max=st.integers(0, 1000))
    def page_in(self, count_max: int, bytes_max: int) -> None:
        """As a queue does that meets the first one: a batch, in order, none left out before the last."""
        if not self.paged:
            return
        first = self.list.position_of(min(self.paged))
        assert first is not None
        wanted = self.list.paged_from(first, count_max, bytes_max)
        assert [it.sequence for it in wanted] == sorted(self.paged)[: len(wanted)]
        assert 1 <= len(wanted) <= count_max
        assert len(wanted) == 1 or sum(it.size_bytes for it in wanted) <= bytes_max
        for it in wanted:
            assert it.entry == self.paged.pop(it.sequence)
            self.list.page_in(it.position, self.there[it.sequence])

    @rule(now_ms=st.integers(0, 60))
    def expiry_needs_no_message(self, now_ms: int) -> None:
        due = [sequence for sequence in sorted(self.there) if 0 < _expiration(sequence) <= now_ms]
        if not self.list.may_be_due(now_ms):
            assert due == []
        found: list[int] = []
        after: int | None = 0
        while after is not None:
            portion, after, _ = self.list.due(after, now_ms, 3)
            found += portion
        assert found == due

    @rule(count=st.integers(1, 5))
    def restore_is_as_good_as_append(self, count: int) -> None:
        """What a store has kept follows what is there: at a start that is nothing."""
        messages = [_message(self.count + n) for n in range(1, count + 1)]
        self.count += count
        facts = (WaitingMessage(m.sequence, m.expiration, m.priority, m.size_bytes) for m in messages)
        self.list.restore(WaitingMessages(facts))
        self.there.update({message.sequence: message for message in messages})
        self.paged.update({message.sequence: 0 for message in messages})

    def _entry(self, sequence: int) -> Entry:
        return self.paged[sequence] if sequence in self.paged else self.there[sequence]

    def _take(self, sequence: int, position: int, entry: Entry) -> None:
        assert entry == self._entry(sequence)
        assert self.list.take(position) == entry
        self.paged.pop(sequence, None)
        self.out[sequence] = self.there.pop(sequence)

    @invariant()
    def agrees(self) -> None:
        listed = self.list.between(0, NO_LIMIT, NO_LIMIT, NO_LIMIT)
        assert [(it.sequence, it.entry) for it in listed] == [(n, self._entry(n)) for n in sorted(self.there)]
        assert [it.size_bytes for it in listed] == [self.there[n].size_bytes for n in sorted(self.there)]
        assert len(self.list) == len(self.there)
        assert self.list.paged_count == len(self.paged)
        assert self.list.paged_bytes == sum(self.there[n].size_bytes for n in self.paged)
        assert [m.sequence for m in self.list.in_memory()] == sorted(self.there.keys() - self.paged.keys())


TestPendingModel = PendingModel.TestCase
TestPendingModel.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)

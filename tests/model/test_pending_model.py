"""`PendingList` against a sorted list: whatever is appended, taken, put back and compacted, both agree (H1)."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ackwire.broker import pending
from ackwire.broker.pending import PendingList
from ackwire.message import Message
from tests.helpers.broker_rig import BrokerRig

_TEMPLATE = BrokerRig().connect().message("queue://q")


def _message(sequence: int) -> Message:
    message = _TEMPLATE.copy()
    message.sequence = sequence
    return message


class PendingModel(RuleBasedStateMachine):
    """The reference: a dict of what is there, by sequence, and what was taken out."""

    def __init__(self) -> None:
        super().__init__()
        self._compact_from = pending._COMPACT_FROM
        pending._COMPACT_FROM = 4  # type: ignore[misc]  # so that a few messages are enough to see it at work
        self.list = PendingList()
        self.there: dict[int, Message] = {}
        self.out: dict[int, Message] = {}
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
            assert found[1].sequence == min(self.there)
            self._take(*found)

    @rule(choice=st.integers(0, 100))
    def take_any(self, choice: int) -> None:
        if self.there:
            sequence = sorted(self.there)[choice % len(self.there)]
            assert self.list.remove(self.there[sequence])
            self.out[sequence] = self.there.pop(sequence)

    @rule()
    def look_at_next(self) -> None:
        """As a lane does whose selector wants nothing."""
        found = self.list.next_from(self.mark)
        unseen = [n for n in sorted(self.there) if n not in self.looked_at]
        assert (found is None) == (not unseen)
        if found is not None:
            assert found[1].sequence == unseen[0]
            self.looked_at.add(found[1].sequence)
            self.mark = found[0] + 1

    @rule(choices=st.lists(st.integers(0, 100), min_size=1, max_size=5))
    def put_back(self, choices: list[int]) -> None:
        if not self.out:
            return
        chosen = {sorted(self.out)[choice % len(self.out)] for choice in choices}
        messages = [self.out.pop(sequence) for sequence in sorted(chosen, reverse=True)]
        foremost = self.list.put_back(messages)
        self.there.update({message.sequence: message for message in messages})
        found = self.list.next_from(foremost)
        assert found is not None
        assert found[1].sequence == min(chosen)
        self.mark = min(self.mark, foremost)
        self.looked_at = {n for n in self.looked_at if n < min(chosen)}

    @rule()
    def remove_what_is_not_there(self) -> None:
        for message in self.out.values():
            assert not self.list.remove(message)

    @rule()
    def compact(self) -> None:
        (self.mark,) = self.list.compact([self.mark])
        assert not self.list.is_sparse

    @rule()
    def clear(self) -> None:
        assert [m.sequence for m in self.list.clear()] == sorted(self.there)
        self.there.clear()
        self.looked_at.clear()

    def _take(self, position: int, message: Message) -> None:
        assert self.list.take(position) is message
        self.out[message.sequence] = self.there.pop(message.sequence)

    @invariant()
    def agrees(self) -> None:
        assert [message.sequence for message in self.list] == sorted(self.there)
        assert len(self.list) == len(self.there)


TestPendingModel = PendingModel.TestCase
TestPendingModel.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)

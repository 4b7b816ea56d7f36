"""Message groups: `JMSXGroupID` binds a group to one consumer while that lives (SEMANTICS H3)."""

from collections import OrderedDict
from typing import final

from ackwire.broker.subscription import QueueSubscription


@final
class MessageGroups:
    """Which consumer owns which group; the longest unused ones are forgotten beyond the limit."""

    __slots__ = ("_limit", "_owned", "_owners")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._owners: OrderedDict[str, QueueSubscription] = OrderedDict()
        self._owned: dict[QueueSubscription, set[str]] = {}
        """The groups of each consumer that has any."""

    def __len__(self) -> int:
        return len(self._owners)

    def owner(self, group_id: str) -> QueueSubscription | None:
        owner = self._owners.get(group_id)
        if owner is not None:
            self._owners.move_to_end(group_id)
        return owner

    def holder(self, group_id: str) -> QueueSubscription | None:
        """As `owner`, for those who only want to know: it does not count as use."""
        return self._owners.get(group_id)

    def count_of(self, owner: QueueSubscription) -> int:
        """How many groups *owner* has."""
        owned = self._owned.get(owner)
        return 0 if owned is None else len(owned)

    def assign(self, group_id: str, owner: QueueSubscription) -> bool:
        """Bind a group that has no owner; True if another one was forgotten for it."""
        self._owners[group_id] = owner
        owned = self._owned.get(owner)
        if owned is None:
            owned = self._owned[owner] = set()
        owned.add(group_id)
        if len(self._owners) <= self._limit:
            return False
        self._disown(*self._owners.popitem(last=False))
        return True

    def close(self, group_id: str) -> None:
        """The group has ended: its next message may go to anyone."""
        owner = self._owners.pop(group_id, None)
        if owner is not None:
            self._disown(group_id, owner)

    def _disown(self, group_id: str, owner: QueueSubscription) -> None:
        owned = self._owned[owner]
        owned.remove(group_id)
        if not owned:
            del self._owned[owner]

    def clear(self) -> None:
        """All groups are free."""
        self._owners.clear()
        self._owned.clear()

    def release(self, owner: QueueSubscription) -> None:
        """A consumer leaves: all its groups are free."""
        for group_id in self._owned.pop(owner, ()):
            del self._owners[group_id]

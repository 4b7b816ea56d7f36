"""What must be true of a group whatever happens; raises `GroupViolation`.

- A message that was answered is in the log of every later master, unless its removal was asked for.
- A removal that was answered is never undone.
- No message is answered in a lower epoch after a higher one began to serve.
- Logs are equal up to what is committed in them.
- A group of records is there whole, or not at all.
"""

from collections.abc import Iterable, Sequence


class GroupViolation(Exception):
    """The group has broken a promise."""


class Checker:
    """Hears of everything that clients ask, and are answered."""

    def __init__(self) -> None:
        self.asked: set[bytes] = set()
        self.stored: set[bytes] = set()
        """Messages whose send was answered."""
        self.removing: set[bytes] = set()
        """Messages whose removal was asked for."""
        self.removed: set[bytes] = set()
        """And answered."""
        self.groups: list[frozenset[bytes]] = []
        self.serving_epoch = 0
        self.answers = 0
        self.masters = 0
        self._committed: dict[int, object] = {}
        """The committed record of each number."""

    # ---- clients -----------------------------------------------------------------------------------------------

    def sending(self, messages: Sequence[bytes]) -> None:
        self.asked.update(messages)
        if len(messages) > 1:
            self.groups.append(frozenset(messages))

    def answered(self, epoch: int, *, sent: Iterable[bytes] = (), removed: Iterable[bytes] = ()) -> None:
        """A client was answered in *epoch*."""
        if epoch < self.serving_epoch:
            raise GroupViolation(f"epoch {epoch} answers although epoch {self.serving_epoch} has begun to serve")
        self.answers += 1
        self.stored.update(sent)
        self.removed.update(removed)

    # ---- masters -----------------------------------------------------------------------------------------------

    def serves(self, node_id: str, epoch: int, contents: set[bytes]) -> None:
        """A master begins to serve, with these messages."""
        if epoch <= self.serving_epoch:
            raise GroupViolation(f"{node_id} begins to serve epoch {epoch} after {self.serving_epoch}")
        self.serving_epoch = epoch
        self.masters += 1
        self.holds(node_id, contents)

    def holds(self, node_id: str, contents: set[bytes]) -> None:
        """*contents* are what a master has."""
        lost = self.stored - contents - self.removing
        if lost:
            raise GroupViolation(f"{node_id} has lost {len(lost)} answered messages, such as {min(lost)!r}")
        back = contents & self.removed
        if back:
            raise GroupViolation(f"{node_id} has {len(back)} messages again that were removed, such as {min(back)!r}")
        strange = contents - self.asked
        if strange:
            raise GroupViolation(f"{node_id} has messages that were never sent, such as {min(strange)!r}")
        for group in self.groups:
            there = group & contents
            if there and not (group - contents) <= self.removing:
                raise GroupViolation(f"{node_id} has {sorted(there)} of the group {sorted(group)}")

    # ---- logs --------------------------------------------------------------------------------------------------

    def committed(self, node_id: str, records: Iterable[tuple[int, object]]) -> None:
        """A node takes these records, by their numbers, for committed."""
        known = self._committed
        for number, record in records:
            if known.setdefault(number, record) != record:
                raise GroupViolation(
                    f"{node_id} has {record!r} as the committed record {number}, not {known[number]!r}"
                )

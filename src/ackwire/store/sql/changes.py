"""What one transaction will do: the final state of each row that has changed, by table and key.

Verbs change it while it fills. A row that is added and removed meanwhile is never written. Deletions of whole ranges
come first when it is executed, rows after them, so the order in which things were recorded does not matter: a range
takes away what is recorded here already, and leaves what is recorded later.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple, final

from ackwire.jms.message import Message
from ackwire.store.sql.frames import Frame, frame_size

ALL: Final = (1 << 63) - 1
"""Above every sequence."""


class PendingRow(NamedTuple):
    """A message as it was when it was recorded."""

    container: str
    """Its queue or topic; empty for a row of `ACKWIRE_MSGS`."""
    producer: str
    producer_count: int
    expiration: int
    priority: int
    frame: Frame
    tail_offset: int
    redeliveries: int
    is_new: bool
    """The database has no row with this key."""
    xid: str | None


def pending_row(
    message: Message,
    container: str,
    producer: str,
    *,
    is_new: bool,
    xid: str | None = None,
    frame: Frame | None = None,
) -> PendingRow:
    """The row of *message*; *frame* says where its bytes are, if they need not be in memory."""
    return PendingRow(
        container,
        producer,
        message.producer_count,
        message.expiration,
        message.priority,
        message.frame if frame is None else frame,
        message.tail_offset,
        message.redelivery_counter,
        is_new,
        xid,
    )


class ClearedRange(NamedTuple):
    """Messages that go at once: all up to a sequence, but for some."""

    last: int
    kept: frozenset[int]

    def covers(self, sequence: int) -> bool:
        return sequence <= self.last and sequence not in self.kept


class AckRow(NamedTuple):
    """A row of `ACTIVEMQ_ACKS`."""

    last_acked: int
    selector: str | None
    sub_dest: str
    container: str
    client_id: str
    name: str


class ExtraKey(NamedTuple):
    """The key of `ACKWIRE_MSGS`."""

    place_id: int
    sequence: int


@final
class Changes:
    """Filled by the verbs, executed by the writer, and asked by readers until it is committed."""

    __slots__ = (
        "acks_gone",
        "cleared",
        "cleared_extra",
        "commits",
        "counts",
        "decided",
        "deleted",
        "done",
        "done_gone",
        "extra",
        "frame_bytes",
        "is_open",
        "last_sequence",
        "new_acks",
        "number",
        "places",
        "records",
        "row_count",
        "rows",
        "single_priorities",
        "updated_acks",
        "xid_rows",
        "xids",
    )

    def __init__(self) -> None:
        self.rows: dict[int, PendingRow] = {}
        """`ACTIVEMQ_MSGS` by ID."""
        self.xid_rows: dict[str, list[int]] = {}
        """Those of them that belong to prepared transactions, by XID."""
        self.deleted: dict[str, dict[int, None]] = {}
        """Rows of it that are to be deleted, by container."""
        self.extra: dict[ExtraKey, PendingRow | None] = {}
        """`ACKWIRE_MSGS`; None: to be deleted."""
        self.cleared: dict[str, list[ClearedRange]] = {}
        """By container."""
        self.cleared_extra: dict[int, list[ClearedRange]] = {}
        """By place."""
        self.xids: dict[int, tuple[str, str]] = {}
        """Messages that a prepared transaction has acknowledged: ID → XID, container."""
        self.decided: dict[bytes, None] = {}
        """XIDs of transactions that are over, without their sign."""
        self.places: dict[int, tuple[bytes, int, bytes | None] | None] = {}
        self.acks_gone: list[tuple[str, str]] = []
        self.done_gone: list[int] = []
        self.single_priorities: list[tuple[str, str, str]] = []
        """Subscriptions of which rows for priorities above 0 go: container, client id, name."""
        self.new_acks: list[AckRow] = []
        self.updated_acks: list[AckRow] = []
        self.done: dict[tuple[int, str, int], int | None] = {}
        self.records: dict[int, tuple[int, bytes] | None] = {}
        self.counts: dict[int, tuple[bytes, int, int] | None] = {}
        self.commits: dict[int, bytes | None] = {}
        self.frame_bytes = 0
        """Of the messages in it, about."""
        self.row_count = 0
        """How often a row of a message was changed."""
        # Set when it is complete:
        self.number = 0
        self.last_sequence = 0
        self.is_open = True

    # ---- rows of ActiveMQ's table ----------------------------------------------------------------------------------

    def put_row(self, sequence: int, row: PendingRow) -> None:
        known = self.rows.get(sequence)
        was_there = self.deleted.get(row.container, {}).pop(sequence, 0) is None or (known and not known.is_new)
        self.rows[sequence] = row._replace(is_new=False) if was_there and row.is_new else row
        if row.xid is not None:
            self.xid_rows.setdefault(row.xid, []).append(sequence)
        self.frame_bytes += frame_size(row.frame)
        self.row_count += 1

    def delete_row(self, sequence: int, container: str) -> None:
        """Delete the row if it is one of *container*."""
        self.row_count += 1
        known = self.rows.get(sequence)
        if known is not None and known.container == container:
            del self.rows[sequence]
            if known.is_new:
                return
        self.deleted.setdefault(container, {})[sequence] = None

    def clear(self, container: str, last: int, kept: Collection[int] = ()) -> None:
        """Delete all rows of *container* up to *last*, but for those *kept*."""
        self.row_count += 1
        cleared = ClearedRange(last, frozenset(kept))
        for sequence in self._matching(container, cleared):
            self.delete_row(sequence, container)
        self.cleared.setdefault(container, []).append(cleared)

    def _matching(self, container: str, cleared: ClearedRange) -> list[int]:
        rows = [(it, row) for it, row in self.rows.items() if row.container == container and row.xid is None]
        return [it for it, row in rows if cleared.covers(it)]

    def decide(self, xid: bytes, signed: Sequence[str]) -> None:
        """A prepared transaction is over, whose XIDs with their signs are *signed*."""
        for text in signed:
            for sequence in self.xid_rows.pop(text, ()):
                self.rows.pop(sequence, None)
        for sequence in [it for it, (text, _) in self.xids.items() if text in signed]:
            del self.xids[sequence]
        self.decided[xid] = None

    # ---- rows of our own table -------------------------------------------------------------------------------------

    def put_extra(self, key: ExtraKey, row: PendingRow) -> None:
        self.extra[key] = row
        self.frame_bytes += frame_size(row.frame)
        self.row_count += 1

    def delete_extra(self, key: ExtraKey) -> None:
        self.extra[key] = None
        self.row_count += 1

    def clear_extra(self, place_id: int, last: int, kept: Collection[int] = ()) -> None:
        self.row_count += 1
        cleared = ClearedRange(last, frozenset(kept))
        for key in [it for it in self.extra if it.place_id == place_id and cleared.covers(it.sequence)]:
            self.extra[key] = None
        self.cleared_extra.setdefault(place_id, []).append(cleared)

    # ---- asked by readers ------------------------------------------------------------------------------------------

    def row_of(self, container: str, sequence: int) -> PendingRow | bool | None:
        """What it says of a message: its row, False for one that goes, None if nothing."""
        row = self.rows.get(sequence)
        if row is not None:
            return row if row.container == container else False
        is_gone = sequence in self.deleted.get(container, ()) or _covers(self.cleared.get(container, ()), sequence)
        return False if is_gone else None

    def extra_of(self, key: ExtraKey) -> PendingRow | bool | None:
        if key in self.extra:
            return self.extra[key] or False
        return False if _covers(self.cleared_extra.get(key.place_id, ()), key.sequence) else None


def _covers(ranges: Iterable[ClearedRange], sequence: int) -> bool:
    return any(it.covers(sequence) for it in ranges)

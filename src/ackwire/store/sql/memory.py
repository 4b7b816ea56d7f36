"""What is remembered of producers, transactions, jobs and state records: keys in memory, values in the database."""

from collections.abc import Hashable
from enum import IntEnum
from typing import final

from ackwire.store.sql.changes import Changes
from ackwire.store.sql.row_form import RowForm
from ackwire.util.lru import COMMITS_REMEMBERED, PRODUCERS_REMEMBERED, Recent


class RecordKind(IntEnum):
    """What a row of `ACKWIRE_RECORDS` tells."""

    JOB = 1
    PREPARED = 2
    STATE = 3
    JOURNAL = 4
    """The mark of a journal in front of the database (`journal_mark.py`)."""


@final
class Memory:
    """Numbers for the keys of rows, which may be too long for a key of a table."""

    def __init__(self, form: RowForm) -> None:
        self._form = form
        self.record_ids: dict[tuple[RecordKind, Hashable], int] = {}
        self._next_record = 1
        self.counts: Recent[bytes, int] = Recent(PRODUCERS_REMEMBERED, self._forget_count)
        self._slots: dict[bytes, int] = {}
        self._next_slot = 1
        self.commits: Recent[Hashable, None] = Recent(COMMITS_REMEMBERED, self._forget_commit)
        self._commit_numbers: dict[Hashable, int] = {}
        self._heard = 0
        """Counts what is remembered, so that its order is."""
        self._changes = Changes()
        """Those that a verb is about, while it remembers something new and so forgets something old."""
        self.crowded_topics: set[str] = set()
        """Topics with many subscriptions, one of which is further than before."""

    # ---- at a start ------------------------------------------------------------------------------------------------

    def restore_record(self, kind: RecordKind, key: Hashable, record_id: int) -> None:
        self.record_ids[kind, key] = record_id
        self._next_record = max(self._next_record, record_id + 1)

    def restore_count(self, slot: int, producer_key: bytes, count: int, heard: int) -> None:
        self._slots[producer_key] = slot
        self._next_slot = max(self._next_slot, slot + 1)
        self._heard = max(self._heard, heard)
        self.counts[producer_key] = count

    def restore_commit(self, heard: int, transaction_id: Hashable) -> None:
        self._commit_numbers[transaction_id] = heard
        self._heard = max(self._heard, heard)
        self.commits[transaction_id] = None

    # ---- while it runs ---------------------------------------------------------------------------------------------

    def put(self, changes: Changes, kind: RecordKind, key: Hashable, data: bytes) -> bool:
        """Record *data* under *key*; whether the key is new."""
        record_id = self.record_ids.get((kind, key))
        is_new = record_id is None
        if record_id is None:
            record_id = self.record_ids[kind, key] = self._next_record
            self._next_record += 1
        changes.records[record_id] = (int(kind), data)
        return is_new

    def drop(self, changes: Changes, kind: RecordKind, key: Hashable) -> None:
        record_id = self.record_ids.pop((kind, key), None)
        if record_id is not None:
            changes.records[record_id] = None

    def remember_count(self, changes: Changes, producer_key: bytes, count: int) -> None:
        last = self.counts.get(producer_key)
        count = count if last is None else max(count, last)
        slot = self._slots.get(producer_key)
        if slot is None:
            slot = self._slots[producer_key] = self._next_slot
            self._next_slot += 1
        self._heard += 1
        changes.counts[slot] = (producer_key, count, self._heard)
        self._changes = changes
        self.counts[producer_key] = count

    def _forget_count(self, producer_key: bytes) -> None:
        self._changes.counts[self._slots.pop(producer_key)] = None

    def remember_commit(self, changes: Changes, transaction_id: Hashable) -> None:
        before = self._commit_numbers.get(transaction_id)
        if before is not None:
            changes.commits[before] = None
        self._heard += 1
        self._commit_numbers[transaction_id] = self._heard
        changes.commits[self._heard] = self._form.transaction_to_bytes(transaction_id)
        self._changes = changes
        self.commits[transaction_id] = None

    def _forget_commit(self, transaction_id: Hashable) -> None:
        self._changes.commits[self._commit_numbers.pop(transaction_id)] = None

"""`Changes` as statements, in the order in which they are executed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import final

from ackwire.store.sql.changes import Changes, ExtraKey, PendingRow
from ackwire.store.sql.driver import Row, Statement, inserted
from ackwire.store.sql.frames import Frames
from ackwire.store.sql.made_rows import MadeRows
from ackwire.store.sql.row_form import RowForm
from ackwire.store.sql.statements import Statements
from ackwire.store.sql.xids import ACKNOWLEDGED, SENT, signed_xid


@final
class Execution:
    """Makes statements. Used by the thread that writes."""

    def __init__(self, statements: Statements, form: RowForm, frames: Frames, run_id: str) -> None:
        self._statements = statements
        self._form = form
        self._frames = frames
        self._run_id = run_id

    def statements_of(self, changes: Changes) -> list[Statement]:
        """All statements for *changes*; the mark of the transaction is the last one."""
        made = [
            *self._ranges(changes),
            *self._messages(changes),
            *self._subscriptions(changes),
            *self._state(changes),
        ]
        number = changes.number
        mark: Row = (self._run_id, number - 1, number, changes.last_sequence, int(changes.is_open))
        return [it for it in made if it.rows] + [Statement(self._statements.mark, [mark])]

    def release(self) -> None:
        """The statements that were made last are not needed any more."""
        self._frames.release()

    def _ranges(self, changes: Changes) -> Iterator[Statement]:
        sql = self._statements
        for container, ranges in changes.cleared.items():
            for it in ranges:
                yield sql.clear_container(container, it.last, it.kept)
        for place_id, ranges in changes.cleared_extra.items():
            for it in ranges:
                yield sql.clear_extra(place_id, it.last, it.kept)
        yield Statement(sql.delete_xid, [(signed_xid(SENT, it),) for it in changes.decided])
        yield Statement(sql.clear_xid, [(signed_xid(ACKNOWLEDGED, it),) for it in changes.decided])

    def _messages(self, changes: Changes) -> Iterator[Statement]:
        sql = self._statements
        for container, sequences in changes.deleted.items():
            yield from sql.delete_messages(container, list(sequences))
        rows = sorted(changes.rows.items())
        yield inserted(sql.insert_message, MadeRows([it for it in rows if it[1].is_new], self._row))
        yield inserted(sql.put_message, MadeRows([it for it in rows if not it[1].is_new], self._row))
        yield Statement(sql.set_xid, [(xid, it, container) for it, (xid, container) in changes.xids.items()])
        yield Statement(sql.delete_extra, [it for it, row in changes.extra.items() if row is None])
        kept = [(key, row) for key, row in changes.extra.items() if row is not None]
        yield inserted(sql.put_extra, MadeRows(kept, self._extra_row))

    def _extra_row(self, key: ExtraKey, row: PendingRow) -> Row:
        return *key, row.expiration, row.priority, self._packed(row)

    def _row(self, sequence: int, row: PendingRow) -> Row:
        priority = row.priority if row.container.startswith("queue:") else 0  # as ActiveMQ writes it for topics
        packed = self._packed(row)
        return sequence, row.producer, row.producer_count, row.container, row.expiration, priority, packed, row.xid

    def _packed(self, row: PendingRow) -> bytes:
        return self._form.pack(self._frames.read(row.frame), row.tail_offset, row.redeliveries)

    def _subscriptions(self, changes: Changes) -> Iterator[Statement]:
        sql = self._statements
        yield Statement(sql.delete_acks, changes.acks_gone)
        yield Statement(sql.clear_done, [(it,) for it in changes.done_gone])
        yield Statement(sql.delete_priorities, changes.single_priorities)
        yield Statement(sql.insert_ack, changes.new_acks)
        yield Statement(sql.update_ack, changes.updated_acks)
        yield Statement(sql.delete_done, [key for key, last in changes.done.items() if last is None])
        yield inserted(sql.put_done, [(*key, last) for key, last in changes.done.items() if last is not None])
        yield Statement(sql.delete_place, [(it,) for it, row in changes.places.items() if row is None])
        yield inserted(sql.put_place, [(it, *row) for it, row in changes.places.items() if row is not None])

    def _state(self, changes: Changes) -> Iterator[Statement]:
        sql = self._statements
        yield from sql.delete_records(_gone(changes.records))
        yield inserted(sql.put_record, [(it, *row) for it, row in changes.records.items() if row is not None])
        yield from sql.delete_counts(_gone(changes.counts))
        yield inserted(sql.put_count, [(it, *row) for it, row in changes.counts.items() if row is not None])
        yield from sql.delete_commits(_gone(changes.commits))
        yield inserted(sql.put_commit, [(it, row) for it, row in changes.commits.items() if row is not None])


def _gone(rows: Mapping[int, object]) -> Sequence[int]:
    return [number for number, row in rows.items() if row is None]

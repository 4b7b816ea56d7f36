"""Every statement of the store, once, made for a dialect and a table prefix. No other module contains SQL.

A row of `ACTIVEMQ_MSGS` with an `XID` that begins with the code of "-" is one that a prepared transaction has
acknowledged: it still waits. One that begins with the code of "+" is a send that is not decided.
"""

# ruff: noqa: S608 - all parts of a statement are constants and table names; values are always parameters

from collections.abc import Collection, Sequence
from typing import Final, final

from ackwire.store.sql.dialect import Dialect
from ackwire.store.sql.driver import Statement
from ackwire.store.sql.schema import Tables

PRIORITY_PREFIX_BYTES: Final = 1024
"""Of a message whose `PRIORITY` is 0 so much is read to find its own: the headers, usually."""

_WAITS: Final = "(XID IS NULL OR SUBSTR(XID, 1, 2) = 'LQ')"
"""Base64 of a minus sign begins with LQ."""


@final
class Statements:
    """The statements for one database."""

    def __init__(self, dialect: Dialect, names: Tables) -> None:
        self._dialect = dialect
        self._names = names
        self.lock_table = names.lock
        sql, same = dialect.sql, dialect.text_equals.format
        msgs, acks, places, extra = names.msgs, names.acks, names.places, names.extra
        subscription = f"{same('CLIENT_ID')} AND {same('SUB_NAME')}"

        # -- writing
        columns = ("MSGID_PROD", "MSGID_SEQ", "CONTAINER", "EXPIRATION", "PRIORITY", "MSG", "XID")
        self.insert_message = dialect.insert(msgs, ("ID", *columns), "isisiibs")
        self.put_message = dialect.upsert(msgs, ("ID",), columns, "isisiibs")
        self.set_xid = sql(f"UPDATE {msgs} SET XID = ? WHERE ID = ? AND {dialect.text_checked.format('CONTAINER')}")
        self.clear_xid = sql(f"UPDATE {msgs} SET XID = NULL WHERE {same('XID')}")
        self.delete_xid = sql(f"DELETE FROM {msgs} WHERE {same('XID')}")
        self.put_extra = dialect.upsert(extra, ("PLACE_ID", "SEQUENCE"), ("EXPIRATION", "PRIORITY", "MSG"), "iiiib")
        self.delete_extra = sql(f"DELETE FROM {extra} WHERE PLACE_ID = ? AND SEQUENCE = ?")
        self.put_place = dialect.upsert(places, ("PLACE_ID",), ("NAME", "DISPATCHED", "TERMS"), "ibib")
        self.delete_place = sql(f"DELETE FROM {places} WHERE PLACE_ID = ?")
        self.insert_ack = sql(
            f"INSERT INTO {acks} (LAST_ACKED_ID, SELECTOR, SUB_DEST, CONTAINER, CLIENT_ID, SUB_NAME, PRIORITY) "
            "VALUES (?, ?, ?, ?, ?, ?, 0)"
        )
        self.update_ack = sql(
            f"UPDATE {acks} SET LAST_ACKED_ID = ?, SELECTOR = ?, SUB_DEST = ?, XID = NULL "
            f"WHERE {same('CONTAINER')} AND {subscription} AND PRIORITY = 0"
        )
        self.delete_acks = sql(f"DELETE FROM {acks} WHERE {subscription}")
        self.delete_priorities = sql(
            f"DELETE FROM {acks} WHERE {same('CONTAINER')} AND {subscription} AND PRIORITY <> 0"
        )
        self.put_done = dialect.upsert(names.done, ("PLACE_ID", "CONTAINER", "FIRST_ID"), ("LAST_ID",), "isii")
        self.delete_done = sql(f"DELETE FROM {names.done} WHERE PLACE_ID = ? AND {same('CONTAINER')} AND FIRST_ID = ?")
        self.clear_done = sql(f"DELETE FROM {names.done} WHERE PLACE_ID = ?")
        self.put_record = dialect.upsert(names.records, ("RECORD_ID",), ("KIND", "DATA"), "iib")
        self.put_count = dialect.upsert(names.counts, ("SLOT",), ("PRODUCER", "LAST_COUNT", "HEARD"), "ibii")
        self.put_commit = dialect.upsert(names.commits, ("HEARD",), ("TRANSACTION_ID",), "ib")

        # -- the state row. A guard that does not match makes the number NULL, which the column refuses: so the whole
        # transaction fails, without a question whose answer would cost a round trip.
        guarded = "CASE WHEN RUN_ID = ? AND TRANSACTION_NUMBER = ? THEN ? END"
        self.mark = sql(
            f"UPDATE {names.state} SET TRANSACTION_NUMBER = {guarded}, LAST_SEQUENCE = ?, IS_OPEN = ? WHERE ID = 1"
        )
        self.begin_run = sql(
            f"UPDATE {names.state} SET RUN_ID = ?, TRANSACTION_NUMBER = 0, LAST_SEQUENCE = ?, IS_OPEN = 1, "
            "CRASHED_MS = ? WHERE ID = 1"
        )
        self.state = (
            f"SELECT RUN_ID, TRANSACTION_NUMBER, LAST_SEQUENCE, IS_OPEN, CRASHED_MS FROM {names.state} WHERE ID = 1"
        )

        # -- a copy that is under way, or was not finished: no broker takes such a schema version
        self.set_version = sql(f"UPDATE {names.state} SET SCHEMA_VERSION = ? WHERE ID = 1")
        self.set_crash = sql(f"UPDATE {names.state} SET CRASHED_MS = ? WHERE ID = 1")

        # -- what ActiveMQ's LeaseDatabaseLocker has written, while that counts
        now_ms = dialect.now_ms
        self.lease_of_activemq = (
            f"SELECT BROKER_NAME, TIME - {now_ms} FROM {names.lock} "
            f"WHERE ID = 1 AND BROKER_NAME IS NOT NULL AND TIME > {now_ms}"
        )

        # -- reading
        self.message_heads = sql(
            f"SELECT ID, CONTAINER, LENGTH(MSG), XID FROM {msgs} WHERE ID > ? AND {_WAITS} ORDER BY ID LIMIT ?"
        )
        self.places = f"SELECT PLACE_ID, NAME, DISPATCHED, TERMS FROM {places}"
        self.containers = f"SELECT DISTINCT CONTAINER FROM {msgs} WHERE {_WAITS}"
        self.acks = (
            "SELECT CONTAINER, CLIENT_ID, SUB_NAME, SUB_DEST, SELECTOR, LAST_ACKED_ID, PRIORITY, XID "
            f"FROM {acks} ORDER BY CONTAINER, CLIENT_ID, SUB_NAME, PRIORITY"
        )
        self.last_ids = f"SELECT (SELECT MAX(ID) FROM {msgs}), (SELECT MAX(LAST_ACKED_ID) FROM {acks})"
        self.first_id = f"SELECT MIN(ID) FROM {msgs}"
        self.topic_ids = sql(
            f"SELECT ID, PRIORITY FROM {msgs} WHERE {same('CONTAINER')} AND ID > ? AND {_WAITS} ORDER BY ID LIMIT ?"
        )
        self.done = f"SELECT PLACE_ID, CONTAINER, FIRST_ID, LAST_ID FROM {names.done} ORDER BY FIRST_ID"
        self.extra_places = f"SELECT DISTINCT PLACE_ID FROM {extra}"
        self.extra_totals = f"SELECT PLACE_ID, COUNT(*), SUM(LENGTH(MSG)) FROM {extra} GROUP BY PLACE_ID"
        self.size = f"SELECT SUM(LENGTH(MSG)) FROM {msgs}"
        self.last_extra = f"SELECT MAX(SEQUENCE) FROM {extra}"
        head = f"SUBSTR(MSG, 1, {PRIORITY_PREFIX_BYTES})"
        self.waiting = sql(
            f"SELECT ID, EXPIRATION, PRIORITY, LENGTH(MSG), CASE WHEN PRIORITY = 0 THEN {head} END FROM {msgs} "
            f"WHERE {same('CONTAINER')} AND ID > ? AND {_WAITS} ORDER BY ID LIMIT ?"
        )
        self.waiting_extra = sql(
            f"SELECT SEQUENCE, EXPIRATION, PRIORITY, LENGTH(MSG), NULL FROM {extra} "
            "WHERE PLACE_ID = ? AND SEQUENCE > ? ORDER BY SEQUENCE LIMIT ?"
        )
        self.pending = f"SELECT ID, XID, CONTAINER, MSG FROM {msgs} WHERE XID IS NOT NULL ORDER BY ID"
        self.records = f"SELECT RECORD_ID, KIND, DATA FROM {names.records} ORDER BY RECORD_ID"
        self.counts = f"SELECT SLOT, PRODUCER, LAST_COUNT, HEARD FROM {names.counts} ORDER BY HEARD"
        self.commits = f"SELECT HEARD, TRANSACTION_ID FROM {names.commits} ORDER BY HEARD"

    # ---- statements with lists of numbers --------------------------------------------------------------------------

    def delete_messages(self, container: str, ids: Sequence[int]) -> list[Statement]:
        """Delete messages of *container*."""
        same = self._dialect.text_checked.format("CONTAINER")
        before = f"DELETE FROM {self._names.msgs} WHERE {same} AND ID"
        made = self._dialect.with_numbers(before, ids)
        return [Statement(sql, [(container, *values)]) for sql, values in made]

    def delete_records(self, ids: Sequence[int]) -> list[Statement]:
        return self._each(f"DELETE FROM {self._names.records} WHERE RECORD_ID", ids)

    def delete_counts(self, slots: Sequence[int]) -> list[Statement]:
        return self._each(f"DELETE FROM {self._names.counts} WHERE SLOT", slots)

    def delete_commits(self, numbers: Sequence[int]) -> list[Statement]:
        return self._each(f"DELETE FROM {self._names.commits} WHERE HEARD", numbers)

    def clear_container(self, container: str, last_id: int, kept: Collection[int]) -> Statement:
        """Delete the messages of *container* up to *last_id* but for those *kept*, and for prepared sends."""
        same = self._dialect.text_equals.format("CONTAINER")
        sql = f"DELETE FROM {self._names.msgs} WHERE {same} AND ID <= ? AND {_WAITS}"
        return self._cleared(sql, "ID", (container, last_id), kept)

    def clear_extra(self, place_id: int, last_id: int, kept: Collection[int]) -> Statement:
        """The same for the messages of a place in `ACKWIRE_MSGS`."""
        sql = f"DELETE FROM {self._names.extra} WHERE PLACE_ID = ? AND SEQUENCE <= ?"
        return self._cleared(sql, "SEQUENCE", (place_id, last_id), kept)

    def _cleared(self, sql: str, column: str, values: tuple[object, ...], kept: Collection[int]) -> Statement:
        if not kept:
            return Statement(self._dialect.sql(sql), [values])
        # Numbers, and few: what is in flight while a queue is purged.
        listed = ", ".join(str(int(it)) for it in sorted(kept))
        return Statement(self._dialect.sql(f"{sql} AND {column} NOT IN ({listed})"), [values])

    def select_messages(self, container: str, ids: Sequence[int]) -> list[tuple[str, list[object]]]:
        """Queries for the bytes of messages of *container*."""
        same = self._dialect.text_checked.format("CONTAINER")
        query = f"SELECT ID, MSG FROM {self._names.msgs} WHERE {same} AND ID"
        return [(sql, [container, *values]) for sql, values in self._dialect.with_numbers(query, ids)]

    def select_any(self, ids: Sequence[int]) -> list[tuple[str, list[object]]]:
        """Queries for the bytes of messages, whatever their container."""
        return self._dialect.with_numbers(f"SELECT ID, MSG FROM {self._names.msgs} WHERE ID", ids)

    def select_extra(self, place_id: int, sequences: Sequence[int]) -> list[tuple[str, list[object]]]:
        query = f"SELECT SEQUENCE, MSG FROM {self._names.extra} WHERE PLACE_ID = ? AND SEQUENCE"
        return [(sql, [place_id, *values]) for sql, values in self._dialect.with_numbers(query, sequences)]

    def _each(self, before: str, numbers: Sequence[int]) -> list[Statement]:
        return [Statement(sql, [tuple(values)]) for sql, values in self._dialect.with_numbers(before, numbers)]

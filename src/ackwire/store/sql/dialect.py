"""The differences between databases, in one table each: types, upserts, lists of numbers, the catalog of columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

_LIST_LENGTHS: Final = (1, 8, 64, 512)
"""Placeholders in a list of numbers: few lengths, so that the database sees few different statements."""

_LIST_LENGTH_MAX: Final = 5000
"""Numbers in one value that is a list."""


_LISTS: Final = {"i": "bigint[]", "s": "text[]", "b": "bytea[]"}
"""Types of columns whose values travel as one list: integers, text, bytes."""


class ManyRows(NamedTuple):
    """The form of a statement for many rows at once: its values are lists, one for each column."""

    sql: str
    types: str
    """Of the columns, a letter each: integers (i), text (s), bytes (b)."""


class Insertion(NamedTuple):
    """A statement that inserts rows."""

    sql: str
    """For one row."""
    many: ManyRows | None


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one database spells what the store says."""

    name: str
    placeholder: str
    """What stands for a value: statements are written with a question mark."""
    key: str
    """The type of `ACTIVEMQ_MSGS.ID`."""
    text: str
    """The type of names, up to 250 characters. Two names are equal only if their characters are."""
    blob: str
    table_options: str
    """What follows the columns of a table."""
    has_on_conflict: bool
    """Whether it knows ON CONFLICT; otherwise it is ON DUPLICATE KEY."""
    takes_lists: bool
    """Whether one value may be a list of numbers."""
    text_equals: str
    """How a column with a name is compared."""
    text_checked: str
    """The same beside a key that finds the row, written so that no index on the name is used: it may find thousands."""
    columns: str
    """A query for table and column names of the schema in use."""
    now_ms: str
    """The server's clock at this moment, in milliseconds since 1970."""
    is_ddl_transactional: bool
    has_privileges: bool
    """Whether it grants a user some statements and not others."""

    def sql(self, statement: str) -> str:
        """*statement*, which is written with question marks, as the driver wants it."""
        return statement.replace("?", self.placeholder)

    def insert(self, table: str, columns: Sequence[str], types: str, then: str = "") -> Insertion:
        """A statement that inserts a row; *types* has a letter for each column (`ManyRows`)."""
        insert = f"INSERT INTO {table} ({', '.join(columns)})"
        one = self.sql(f"{insert} VALUES ({', '.join('?' * len(columns))}){then}")
        if not self.takes_lists:
            return Insertion(one, None)
        lists = ", ".join(f"?::{_LISTS[it]}" for it in types)
        many = f"{insert} SELECT * FROM unnest({lists}){then}"  # noqa: S608
        return Insertion(one, ManyRows(self.sql(many), types))

    def upsert(self, table: str, keys: Sequence[str], others: Sequence[str], types: str) -> Insertion:
        """The same for a row that replaces the one with the same key."""
        if self.has_on_conflict:
            changes = ", ".join(f"{it} = excluded.{it}" for it in others)
            then = f" ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {changes}"
        else:
            changes = ", ".join(f"{it} = VALUES({it})" for it in others)
            then = f" ON DUPLICATE KEY UPDATE {changes}"
        return self.insert(table, (*keys, *others), types, then)

    def with_numbers(self, before: str, numbers: Sequence[int], after: str = "") -> list[tuple[str, list[object]]]:
        """Statements `before IN (numbers) after` and their values, as few as possible."""
        if not numbers:
            return []
        if self.takes_lists:
            parts = [numbers[at : at + _LIST_LENGTH_MAX] for at in range(0, len(numbers), _LIST_LENGTH_MAX)]
            return [(self.sql(f"{before} = ANY(?){after}"), [list(part)]) for part in parts]
        made = []
        longest = _LIST_LENGTHS[-1]
        for start in range(0, len(numbers), longest):
            part = numbers[start : start + longest]
            length = next(it for it in _LIST_LENGTHS if it >= len(part))
            values: list[object] = [*part, *([part[0]] * (length - len(part)))]
            made.append((self.sql(f"{before} IN ({', '.join('?' * length)}){after}"), values))
        return made


SQLITE: Final = Dialect(
    name="SQLite",
    placeholder="?",
    key="INTEGER",
    text="VARCHAR(250)",
    blob="BLOB",
    table_options="",
    has_on_conflict=True,
    takes_lists=False,
    text_equals="{} = ?",
    text_checked="+{} = ?",
    columns="SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'",
    now_ms="CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
    is_ddl_transactional=True,
    has_privileges=False,
)

POSTGRESQL: Final = Dialect(
    name="PostgreSQL",
    placeholder="%s",
    key="BIGINT",
    text="VARCHAR(250)",
    blob="BYTEA",
    table_options="",
    has_on_conflict=True,
    takes_lists=True,
    text_equals="{} = ?",
    text_checked="{} || '' = ?",
    columns="SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema()",
    now_ms="CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
    is_ddl_transactional=True,
    has_privileges=True,
)

MARIADB: Final = Dialect(
    name="MariaDB",
    placeholder="%s",
    key="BIGINT",
    text="VARCHAR(250) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    blob="LONGBLOB",
    table_options=" ENGINE=InnoDB",
    has_on_conflict=False,
    takes_lists=False,
    # A table that ActiveMQ has made compares without regard to case: there this is right, but without an index.
    text_equals="{} = ? COLLATE utf8mb4_bin",
    text_checked="CONCAT({}, '') = ? COLLATE utf8mb4_bin",
    columns="SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = DATABASE()",
    now_ms="CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED)",
    is_ddl_transactional=False,
    has_privileges=True,
)

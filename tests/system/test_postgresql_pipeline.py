"""Transactions on a real PostgreSQL, as the driver of the store sends them (SEMANTICS K3, K7)."""

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest

from ackwire.store.sql.dialect import POSTGRESQL, Insertion
from ackwire.store.sql.driver import Row, Statement, inserted
from ackwire.store.sql.postgresql_pipeline import Pipeline, array_of, numbered, value_of
from tests.helpers.databases import postgresql

pytestmark = pytest.mark.system

PUT: Insertion = POSTGRESQL.upsert("things", ("n",), ("name", "data"), "isb")
INSERT: Insertion = POSTGRESQL.insert("things", ("n", "name", "data"), "isb")
DELETE = "DELETE FROM things WHERE n = ANY(%s)"


@pytest.fixture
def connection() -> Iterator["psycopg.Connection[Any]"]:
    server = postgresql()
    with server.connect(server.new_database().rpartition("/")[2]) as connection:
        connection.execute("CREATE TABLE things (n BIGINT PRIMARY KEY, name VARCHAR(10), data BYTEA)")
        yield connection


def rows_of(connection: "psycopg.Connection[Any]") -> list[Row]:
    return connection.execute("SELECT n, name, data FROM things ORDER BY n").fetchall()


@pytest.mark.parametrize("count", [1, 2, 999, 1000, 1001, 2500])
def test_K3_rows_of_every_kind_arrive_as_they_are(connection: "psycopg.Connection[Any]", count: int) -> None:
    rows: list[Row] = [(n - 7, None if n % 3 else f"ä{n}", None if n % 5 else bytes(n % 50)) for n in range(count)]
    pipeline = Pipeline(connection.pgconn)
    pipeline.transact([inserted(INSERT, rows)])
    assert rows_of(connection) == rows
    changed = [(n, "", b"\0\xff") for n, *_ in rows]
    pipeline.transact([inserted(PUT, changed), Statement(DELETE, [([rows[0][0], 10_000_000],)])])
    assert rows_of(connection) == changed[1:]


def test_K3_rows_that_are_larger_than_what_the_socket_takes_at_once(connection: "psycopg.Connection[Any]") -> None:
    rows: list[Row] = [(n, "x", bytes([n]) * (3 << 20 if n % 3 else 100_000)) for n in range(12)]
    Pipeline(connection.pgconn).transact([inserted(INSERT, rows)])
    assert rows_of(connection) == rows


def test_K7_after_an_error_nothing_has_happened_and_the_next_transaction_succeeds(
    connection: "psycopg.Connection[Any]",
) -> None:
    pipeline = Pipeline(connection.pgconn)
    for rows in ([(1, "one", b""), (1, "again", b"")], [(1, "too long" * 10, b"")]):
        with pytest.raises((psycopg.errors.UniqueViolation, psycopg.errors.StringDataRightTruncation)):
            pipeline.transact([inserted(PUT, [(7, "seven", b"")]), inserted(INSERT, rows)])
        connection.rollback()
        assert rows_of(connection) == []
    pipeline.transact([inserted(PUT, [(7, "seven", b"")]), inserted(INSERT, [(1, "one", b"")])])
    pipeline.transact([inserted(PUT, [(7, "seven", b"7")])])
    assert rows_of(connection) == [(1, "one", b""), (7, "seven", b"7")]


def test_K7_a_connection_that_was_cut_is_an_operational_error(connection: "psycopg.Connection[Any]") -> None:
    pipeline = Pipeline(connection.pgconn)
    pipeline.transact([inserted(PUT, [(1, "one", b"")])])
    postgresql().end_connection(connection.info.backend_pid)
    for _ in range(2):
        with pytest.raises(psycopg.OperationalError):
            pipeline.transact([inserted(PUT, [(2, "two", b"")])])


def test_K7_values_that_cannot_be_made_leave_no_half_transaction(connection: "psycopg.Connection[Any]") -> None:
    """Rows are made while they are sent, of what may turn out to be unreadable."""

    class Unreadable(Sequence[Row]):
        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: Any) -> Any:
            raise ZeroDivisionError

    name = connection.info.dbname
    with pytest.raises(ZeroDivisionError):
        Pipeline(connection.pgconn).transact([inserted(PUT, [(1, "one", b"")]), inserted(PUT, Unreadable())])
    with postgresql().connect(name) as other:
        assert rows_of(other) == []


def test_K3_more_statements_than_are_prepared(connection: "psycopg.Connection[Any]") -> None:
    made = [Statement(f"INSERT INTO things (n) SELECT {n} WHERE {n} <> %s", [(-1,)]) for n in range(450)]
    pipeline = Pipeline(connection.pgconn)
    for first in range(0, len(made), 150):
        pipeline.transact(made[first : first + 150])
    assert [n for n, *_ in rows_of(connection)] == list(range(450))


def test_placeholders_are_numbered() -> None:
    assert numbered("SELECT %s, %s::bigint[] WHERE x = %s") == b"SELECT $1, $2::bigint[] WHERE x = $3"
    assert numbered("BEGIN") == b"BEGIN"


def test_values_that_no_column_has_are_refused() -> None:
    with pytest.raises(AssertionError, match="float"):
        value_of(1.5)


def test_arrays_are_those_of_the_driver(connection: "psycopg.Connection[Any]") -> None:
    for type_, name, values in (
        ("i", "bigint[]", [1, -(1 << 63), None]),
        ("i", "bigint[]", [3]),
        ("s", "text[]", ["", "ä", None]),
        ("b", "bytea[]", [b"", b"\0", None]),
    ):
        query = f"SELECT ($1::{name})::text".encode()
        result = connection.pgconn.exec_params(query, [array_of(type_, values)], None, [1])
        [(theirs,)] = connection.execute(f"SELECT (%b::{name})::text", (values,)).fetchall()
        assert result.get_value(0, 0) == theirs.encode()

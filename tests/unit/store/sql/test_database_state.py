"""How a database stands, for metrics and for those who ask why (K3, K7)."""

from ackwire.admin.metrics import database_metrics
from ackwire.store.contract import DatabaseState
from tests.helpers.sql_factories import MemoryDriver
from tests.helpers.stored import Messages, Q
from tests.unit.store.sql.test_sql_store import opened, sync


def test_K3_transactions_and_rows_are_counted() -> None:
    store = opened(MemoryDriver())
    before = store.database()
    assert (before.is_reachable, before.reconnects) == (True, 0)
    store.append(Messages().make(Q), [Q])
    sync(store)
    after = store.database()
    assert after.transactions == before.transactions + 1
    assert after.rows_written > before.rows_written


def test_K7_metrics_say_that_a_database_is_away() -> None:
    lines = database_metrics(DatabaseState("PostgreSQL", 2.5, 3, 40, 500))
    samples = [it for it in lines if not it.startswith("#")]
    assert samples == [
        "ackwire_store_reachable 0",
        "ackwire_store_away_seconds 2.5",
        "ackwire_store_reconnects_total 3",
        "ackwire_store_transactions_total 40",
        "ackwire_store_rows_written_total 500",
    ]

"""Copies between journals and databases (SEMANTICS K2, K3): what is there, and what a copy must not do."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ackwire.config.store_uri import parse_store_uri
from ackwire.store.copying import Summary, TooLarge, copy
from ackwire.store.portable import Row
from ackwire.store.sql.drivers import driver_for
from ackwire.store.sql.errors import UnfinishedCopy
from ackwire.store.sql.offline import OfflineDatabase
from ackwire.wire.openwire.portrait import restamped
from ackwire.wire.openwire.stored import OpenWireStoredForm
from tests.helpers.databases import mariadb, postgresql
from tests.helpers.offline_stores import copied, offline_database, offline_sqlite, source_of, summary
from tests.helpers.sql_factories import wipe
from tests.helpers.store_on_disk import StoreOnDisk, offline_store, where
from tests.helpers.stored import kept


@pytest.fixture
def disk(tmp_path: Path) -> StoreOnDisk:
    """A journal with something of everything, and a message that two subscriptions have in two forms."""
    disk = StoreOnDisk(tmp_path / "data")
    with disk:
        disk.fill()
        shared = disk.send("topic://t", "twice", places=["c/s", "d/s"], properties={"n": 3})
        disk.store.remove(where("c/s"), shared)
        again = shared.copy()
        again.redelivery_counter = 2
        disk.store.append(again, [where("c/s")])
        disk.store.mark_dispatched(where("queue://orders"), 5)
        disk.settle()
    return disk


def server_database(uri: str) -> OfflineDatabase:
    driver = driver_for(parse_store_uri(uri), None)
    wipe(driver)
    return offline_database(driver)


DATABASES: dict[str, Callable[[Path], OfflineDatabase]] = {
    "sqlite": lambda folder: offline_sqlite(folder / "messages.db"),
    "postgresql": lambda _: server_database(postgresql().uri),
    "mariadb": lambda _: server_database(mariadb().uri),
}


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> OfflineDatabase:
    return DATABASES[request.param](tmp_path)


def test_K2_K3_a_journal_goes_to_a_database_and_back(
    disk: StoreOnDisk, database: OfflineDatabase, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    first = copied(offline_store(disk.data, scratch), database)
    assert (first.messages, first.counts["durable"], first.counts["job"], first.counts["prepared"]) == (21, 2, 1, 1)
    assert list(first.differences(summary(database))) == []
    copied(database, offline_store(tmp_path / "back", scratch))
    assert summary(offline_store(tmp_path / "back", scratch)).checksum == first.checksum
    with disk, StoreOnDisk(tmp_path / "back") as back:
        assert kept(back.store) == kept(disk.store)


def test_K3_acks_of_a_prepared_transaction_are_marked_where_activemq_looks(
    disk: StoreOnDisk, database: OfflineDatabase, tmp_path: Path
) -> None:
    copied(offline_store(disk.data, tmp_path / "scratch"), database)
    session = database.driver.connect(is_writer=False)
    rows = session.select("SELECT ID, CONTAINER FROM ACTIVEMQ_MSGS WHERE XID IS NOT NULL ORDER BY ID")
    session.close()
    assert rows == [(-1, "queue://paid"), (2, "queue://orders")]


def test_K2_a_copy_that_is_not_released_serves_nobody_and_begins_anew(
    disk: StoreOnDisk, database: OfflineDatabase, tmp_path: Path
) -> None:
    """K7: a broker that found half of the messages would serve them as if they were all."""
    here = offline_store(disk.data, tmp_path / "scratch")
    with source_of(here) as source, database.opened() as target:
        target.withhold()
        with pytest.raises(ZeroDivisionError):
            copy(source, target, OpenWireStoredForm(), restamped, interrupted_at("job"))
    with pytest.raises(UnfinishedCopy, match="begins anew"), database.opened():
        pass
    with pytest.raises(UnfinishedCopy), database.inspect():
        pass
    with database.inspect(is_copy_checked=True) as half:
        assert sum(1 for _ in half.heads()) > 0
    assert database.clear_unfinished()
    assert not database.clear_unfinished()
    assert summary(database).is_empty
    assert list(copied(here, database).differences(summary(database))) == []
    assert not database.clear_unfinished()
    assert not summary(database).is_empty


def interrupted_at(kind: str) -> Callable[[Row], None]:
    def check(row: Row) -> None:
        if row["kind"] == kind:
            raise ZeroDivisionError

    return check


def test_K2_an_inspection_changes_nothing(disk: StoreOnDisk, tmp_path: Path) -> None:
    database = offline_sqlite(tmp_path / "messages.db")
    copied(offline_store(disk.data, tmp_path / "scratch"), database)
    before = (tmp_path / "messages.db").read_bytes()
    summary(database)
    assert (tmp_path / "messages.db").read_bytes() == before


def test_K2_a_difference_is_named(disk: StoreOnDisk, database: OfflineDatabase, tmp_path: Path) -> None:
    first = copied(offline_store(disk.data, tmp_path / "scratch"), database)
    with database.opened() as target:
        place = where("queue://last")
        target.store.remove_many(place, [it.sequence for it in target.store.waiting(place)][:1])
        target.store.add_destination(where("queue://new"))  # type: ignore[arg-type]
        target.settle()
    found = list(first.differences(summary(database)))
    assert found[0].endswith("of kind message in the original, and 20 in the copy")
    assert "of kind place" in found[1]
    first.producers[b"another"] = 3
    assert "the copy knows less of 1 of" in list(first.differences(summary(database)))[-1]


def test_equal_numbers_with_other_bytes_have_another_checksum() -> None:
    summaries = [Summary(), Summary()]
    for number, it in enumerate(summaries):
        it.add({"kind": "message", "frame": bytes([number])})
    assert list(summaries[0].differences(summaries[1])) == ["the checksums of kind message are not the same"]
    assert summaries[0].checksum != summaries[1].checksum


def test_K3_a_message_that_the_database_does_not_take_is_named(disk: StoreOnDisk, tmp_path: Path) -> None:
    here, database = offline_store(disk.data, tmp_path / "scratch"), offline_sqlite(tmp_path / "messages.db")
    with source_of(here) as source, database.opened() as target:
        target.store.message_bytes_max = 100
        with pytest.raises(TooLarge, match=r"message 2 has .* bytes, and the database takes up to 100"):
            copy(source, target, OpenWireStoredForm(), restamped)

"""What keeps each file of the journal, and totals (SEMANTICS K2)."""

from pathlib import Path

from ackwire.store.explain import size_text, time_text
from ackwire.store.stats import stats
from tests.helpers.store_on_disk import START_MS, StoreOnDisk, offline_store, where


def test_K2_one_old_message_is_named_as_what_keeps_a_file(tmp_path: Path) -> None:
    disk = StoreOnDisk(tmp_path / "data")
    with disk:
        disk.send("queue://orders", "old")
        disk.clock.advance(0.5)
        for _ in range(30):
            disk.remove("queue://busy", disk.send("queue://busy", "x" * 100))
        first, *_, last = disk.store.files()
    assert first.why.startswith("0000000001.log (4 KiB, ")
    assert " is kept by 1 message of queue://orders, sent 2023-11-14 22:13:20 UTC" in first.why
    assert (first.live_messages, first.oldest_ms) == (1, START_MS)
    assert [(place, messages) for place, messages, _ in first.places] == [(where("queue://orders"), 1)]
    assert last.why.startswith(f"{last.number:010}.log (4 KiB, 0 B alive) is written to")
    assert "it tells of 1 producer" in last.why


def test_K2_removals_say_which_files_they_are_needed_for(tmp_path: Path) -> None:
    disk = StoreOnDisk(tmp_path / "data")
    with disk:
        messages = [disk.send("queue://orders", "x" * 200) for _ in range(20)]
        for message in messages[:3]:
            disk.remove("queue://orders", message)
        last = disk.store.files()[-1]
    assert last.removals == ((1, 3),)
    assert "it says that 3 messages of 0000000001.log are gone" in last.why


def test_K2_state_is_told_with_the_file_that_holds_it(tmp_path: Path) -> None:
    disk = StoreOnDisk(tmp_path / "data", segment_bytes=1 << 20)
    with disk:
        disk.fill()
        (file,) = disk.store.files()
    assert dict(file.state) == {
        "durable subscription": 2,
        "scheduled job": 1,
        "prepared transaction": 1,
        "place": 4,
        "producer": 1,
        "committed transaction": 1,
    }


def test_K2_many_places_are_counted(tmp_path: Path) -> None:
    disk = StoreOnDisk(tmp_path / "data", segment_bytes=1 << 20)
    with disk:
        for number in range(6):
            disk.send(f"queue://q{number}", "x" * (100 - number))
        (file,) = disk.store.files()
    assert "1 message of queue://q2 and 3 messages of 3 other places, the oldest sent" in file.why


def test_K2_stats_tell_everything_in_numbers(tmp_path: Path) -> None:
    disk = StoreOnDisk(tmp_path / "data")
    with disk:
        disk.fill()
    with offline_store(disk.data, tmp_path / "scratch").inspect() as inspection:
        found = stats(inspection)
    assert (found.messages, found.durables, found.jobs, found.prepared) == (20, 2, 1, 1)
    assert (found.producers, found.commits, found.epoch, found.quarantined) == (1, 1, 1, 0)
    assert found.journal_bytes == sum(path.stat().st_size for path in disk.segments())
    assert 0 < found.live_share < 1
    assert (found.oldest_ms, found.oldest_place) == (START_MS, where("queue://orders"))
    assert found.places[0].place == where("queue://orders")
    assert found.places[0].messages == 16


def test_sizes_are_for_people() -> None:
    sizes = (0, 1023, 1024, 1229, 32 << 20, 3 << 30, 5 << 40)
    assert [size_text(size) for size in sizes] == ["0 B", "1023 B", "1 KiB", "1.2 KiB", "32 MiB", "3 GiB", "5 TiB"]


def test_a_time_that_no_calendar_has_is_a_number() -> None:
    assert time_text(2**62) == f"at {2**62} ms"

"""Export and import are exact: what comes out of the new store is what came out of the old one (SEMANTICS K2)."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import UnionType
from typing import get_args, get_origin

import pytest

from ackwire.cli.rows import json_line, read_lines, read_parquet, write_lines, write_parquet
from ackwire.jms.types import Byte, Char, Float, Long, Short
from ackwire.store.catalog import StateValue
from ackwire.store.contract import BatchRecord, CursorRecord, StagedRecord
from ackwire.store.journal.record import RecordKind
from ackwire.store.offline import OfflineStore
from ackwire.store.portable import BadRow, Export, Import, JournalSource, Row, RowReader, is_empty, refuse_what_is_there
from ackwire.store.portable_state import CARRIED, NOT_CARRIED, RULE_OF_VALUE
from ackwire.wire.openwire.portrait import portrait, restamped
from tests.helpers.store_on_disk import StoreOnDisk, flip, offline_store, where


def exported(data: Path, tmp_path: Path) -> list[Row]:
    with offline_store(data, tmp_path / "scratch").inspect() as inspection:
        return list(Export(JournalSource(inspection), portrait).rows())


def imported(offline: OfflineStore, rows: Callable[[], Iterator[Row]]) -> Import:
    with offline.opened() as opened:
        refuse_what_is_there(opened.store, RowReader(offline.form).read(rows()))
        work = Import(opened, restamped)
        work.run(RowReader(offline.form).read(rows()))
        return work


@pytest.fixture
def disk(tmp_path: Path) -> StoreOnDisk:
    disk = StoreOnDisk(tmp_path / "data")
    with disk:
        disk.fill()
        redelivered = disk.message(
            "queue://odd",
            "\ud800 half a pair \u20ac",
            properties={"b": Byte(1), "s": Short(2), "l": Long(3), "f": Float(float("nan")), "c": Char("x")},
            correlation_id="c-1",
            type="kind",
            group_id="g",
            group_sequence=7,
            expiration=2**61,
        )
        redelivered.redelivery_counter = 5
        disk.store.append(redelivered, [redelivered.destination])
        disk.subscribe("odd \ud800", "name/with/slashes", "topic://t")
        disk.store.mark_dispatched(where("queue://orders"), 5)
        disk.store.mark_dispatched(where("c/s"), 25)
        disk.store.put_state_record(
            CursorRecord("reader", where("queue://odd"), redelivered.destination, "n = 1", 3, 2, (7, 1), ())
        )
        staged = disk.send("queue://odd", "staged")
        disk.store.put_state_record(
            StagedRecord("p", "part", 4, 5, False, ((staged.destination, (staged.sequence, 1)),))
        )
        disk.store.put_state_record(BatchRecord("p", 3, 1000))
        disk.settle()
        disk.crash()
    with disk:
        disk.send("queue://last", "after a crash")
    return disk


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_K2_a_round_trip_is_exact(disk: StoreOnDisk, tmp_path: Path, form: str) -> None:
    rows = exported(disk.data, tmp_path)
    path = tmp_path / f"all.{form}"
    if form == "parquet":
        write_parquet(rows, path)
    else:
        with path.open("w") as file:
            write_lines(rows, file)
    offline = offline_store(tmp_path / "new", tmp_path / "scratch")
    work = imported(offline, lambda: read_parquet(path) if form == "parquet" else read_lines(path))
    assert work.report.reassigned == 0
    again = exported(tmp_path / "new", tmp_path)
    assert list(map(json_line, again)) == list(map(json_line, rows))


def test_K2_every_kind_of_row_is_there(disk: StoreOnDisk, tmp_path: Path) -> None:
    rows = exported(disk.data, tmp_path)
    kinds = [row["kind"] for row in rows]
    assert kinds[0] == "ackwire-export"
    assert kinds[-1] == "end"
    assert {kind: kinds.count(kind) for kind in dict.fromkeys(kinds[1:-1])} == {
        "durable": 3,
        "place": 4,
        "message": 22,
        "job": 1,
        "prepared": 1,
        "cursor": 1,
        "staged": 1,
        "batch": 1,
        "crash": 1,
        "producer": 1,
        "commit": 1,
    }


def test_K2_a_message_is_told_with_headers_typed_properties_and_text(disk: StoreOnDisk, tmp_path: Path) -> None:
    (row,) = [row for row in exported(disk.data, tmp_path) if row.get("group_id") == "g"]
    assert row["places"] == [{"destination": "queue://odd"}]
    assert row["properties"] == {
        "b": {"byte": 1},
        "s": {"short": 2},
        "l": {"long": 3},
        "f": {"float": "nan"},
        "c": {"char": "x"},
    }
    assert (row["text"], row["body"]) == ("\ud800 half a pair \u20ac", "text")
    assert (row["redelivery_count"], row["correlation_id"], row["type"]) == (5, "c-1", "kind")
    assert (row["expiration_ms"], row["group_sequence"], row["persistent"]) == (2**61, 7, True)


def test_K2_a_message_of_two_subscriptions_is_one_row(disk: StoreOnDisk, tmp_path: Path) -> None:
    (row,) = [row for row in exported(disk.data, tmp_path) if row.get("text") == "for both"]
    assert row["places"] == [
        {"client_id": "c", "subscription": "s"},
        {"client_id": "d", "subscription": "s"},
    ]


def test_K2_the_imported_store_serves_what_the_old_one_held(disk: StoreOnDisk, tmp_path: Path) -> None:
    rows = exported(disk.data, tmp_path)
    imported(offline_store(tmp_path / "new", tmp_path / "scratch"), lambda: iter(rows))
    new = StoreOnDisk(tmp_path / "new")
    with disk, new:
        assert new.texts() == disk.texts()
        assert sorted(map(repr, new.store.durables())) == sorted(map(repr, disk.store.durables()))
        assert [job.job_id for job in new.store.jobs()] == ["job-1"]
        (prepared,) = new.store.prepared()
        assert len(prepared.sends) == 1
        assert [message.sequence for _, message in prepared.acks] == [2]
        assert new.store.last_counts() == disk.store.last_counts()
        assert new.store.commits() == disk.store.commits()


def test_K2_sequences_change_only_where_they_were_used(disk: StoreOnDisk, tmp_path: Path) -> None:
    left_out = ("job", "prepared", "cursor", "staged", "batch", "end")
    rows = [row for row in exported(disk.data, tmp_path) if row["kind"] not in left_out]
    rows.append({"kind": "end", "rows": len(rows) - 1})
    other = StoreOnDisk(tmp_path / "other")
    with other:
        for _ in range(10):
            other.send("queue://orders", "was here")
    work = imported(offline_store(other.data, tmp_path / "scratch"), lambda: iter(rows))
    again = [row for row in exported(other.data, tmp_path) if row["kind"] == "message"]
    sequences = [row["sequence"] for row in again]
    assert 0 < work.report.reassigned < 22
    assert sequences == sorted(set(sequences))
    assert [row["text"] for row in again] == ["was here"] * 10 + [r["text"] for r in rows if r["kind"] == "message"]
    assert all(row["arrived_ms"] for row in again)


def test_K2_a_prepared_transaction_follows_a_message_that_got_another_sequence(tmp_path: Path) -> None:
    disk, other = StoreOnDisk(tmp_path / "data"), StoreOnDisk(tmp_path / "other")
    with disk:
        message = disk.send("queue://orders", "acknowledged")
        disk.prepare(1, [], [("queue://orders", message)])
    with other:
        other.send("queue://orders", "was here")
    rows = exported(disk.data, tmp_path)
    imported(offline_store(other.data, tmp_path / "scratch"), lambda: iter(rows))
    with other:
        ((_, acknowledged),) = other.store.prepared()[0].acks
        assert acknowledged.sequence == 2


@pytest.mark.parametrize("kind", ["job", "prepared", "durable", "cursor", "staged", "batch"])
def test_K2_nothing_is_overwritten(disk: StoreOnDisk, tmp_path: Path, kind: str) -> None:
    rows = [row for row in exported(disk.data, tmp_path) if row["kind"] in ("ackwire-export", kind)]
    for row in rows:
        if "selector" in row:
            row["selector"] = "another = 1"
    rows.append({"kind": "end", "rows": len(rows) - 1})
    with pytest.raises(BadRow, match="is there already"):
        imported(offline_store(disk.data, tmp_path / "scratch"), lambda: iter(rows))


def test_a_store_is_empty_before_and_not_after(disk: StoreOnDisk, tmp_path: Path) -> None:
    new = StoreOnDisk(tmp_path / "new")
    with new:
        assert is_empty(new.store)
        message = new.send("queue://orders")
        assert not is_empty(new.store)
        new.remove("queue://orders", message)
        assert is_empty(new.store)
    with disk:
        assert not is_empty(disk.store)


def test_K7_a_message_that_cannot_be_read_is_left_out_and_told(disk: StoreOnDisk, tmp_path: Path) -> None:
    path, offset = disk.record_with(b"m004")
    flip(path, offset + 60)
    with offline_store(disk.data, tmp_path / "scratch").inspect() as inspection:
        export = Export(JournalSource(inspection), portrait)
        texts = [row.get("text") for row in export.rows()]
    assert "m004" * 12 not in texts
    (line,) = export.unreadable
    assert line.startswith(f"message 5 of queue://orders, at {offset} of segment {int(path.stem)}, is left out")


# ---- files that are not what they should be --------------------------------------------------------------------


def read(disk: StoreOnDisk, tmp_path: Path, lines: list[str]) -> None:
    path = tmp_path / "some.jsonl"
    path.write_text("\n".join(lines))
    offline = offline_store(disk.data, tmp_path / "scratch")
    for _ in RowReader(offline.form).read(read_lines(path)):
        pass


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: lines[:-1], "it was cut off"),
        (lambda lines: lines[:5] + lines[6:], "rows were written before it"),
        (lambda lines: lines[1:], "row 1: this is not an export of Ackwire"),
        (lambda _: ["{}"], "row 1: this is not an export of Ackwire"),
        (lambda _: [], "it was cut off: after 0 rows"),
        (lambda lines: [lines[0], "nonsense", *lines[1:]], "row 2: it is not JSON"),
        (lambda lines: [lines[0], "[]", *lines[1:]], "row 2: a row is a JSON object"),
        (lambda lines: [lines[0], '{"kind":"soup"}'], "row 2: rows of kind 'soup' are not known"),
        (lambda lines: [*lines, lines[1]], "something follows the end"),
        (lambda lines: [lines[0], '{"kind":"commit","transaction":"?"}'], "row 2: what should be base64 is not"),
        (lambda lines: [lines[0], '{"kind":"commit","transaction":7}'], "row 2: what should be base64 is not"),
        (lambda lines: [lines[0].replace('"version":2', '"version":3')], "it has version 3"),
        (lambda lines: [lines[0].replace('"last_sequence":', '"last":')], "last_sequence must be a number"),
    ],
)
def test_K2_a_file_that_is_not_whole_is_refused(
    disk: StoreOnDisk, tmp_path: Path, change: Callable[[list[str]], list[str]], said: str
) -> None:
    lines = list(map(json_line, exported(disk.data, tmp_path)))
    with pytest.raises(BadRow, match=said):
        read(disk, tmp_path, change(lines))


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("sequence", 99, "its frame has the sequence"),
        ("sequence", "1", "sequence must be a number"),
        ("redelivery_count", None, "redelivery_count must be a number"),
        ("places", [], "in no place"),
        ("redelivery_count", 1 << 31, "which no client could be told"),
        ("places", [{"destination": "orders"}], "is not a destination"),
        ("places", [{"client_id": 7}], "client_id must be a text"),
        ("frame", "AAAA", "its frame cannot be read"),
    ],
)
def test_K2_a_message_that_cannot_be_is_refused(
    disk: StoreOnDisk, tmp_path: Path, field: str, value: object, said: str
) -> None:
    header, *_ = rows = list(map(json_line, exported(disk.data, tmp_path)))
    message = next(json.loads(line) for line in rows if '"kind":"message"' in line)
    with pytest.raises(BadRow, match=f"row 2: .*{said}"):
        read(disk, tmp_path, [header, json.dumps(message | {field: value})])


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"kind": "cursor", "cursor": "c", "places": []}, "a cursor is in one place, and not in 0"),
        ({"kind": "cursor", "cursor": "c", "places": "queue"}, "places must be a list"),
        ({"kind": "cursor", "cursor": "c", "places": ["queue"]}, "'queue' is no place"),
        ({"kind": "staged", "batch_producer": "p", "part": 1}, "part must be a text"),
        ({"kind": "batch", "batch_producer": "p", "batch": True}, "batch must be a number"),
        ({"kind": "place", "destination": "queue://a"}, "dispatched_to must be a number"),
        ({"kind": ["job"]}, "rows of kind \\['job'\\] are not known"),
    ],
)
def test_K2_state_that_cannot_be_is_refused(disk: StoreOnDisk, tmp_path: Path, row: Row, said: str) -> None:
    header = json_line(exported(disk.data, tmp_path)[0])
    with pytest.raises(BadRow, match=f"row 2: {said}"):
        read(disk, tmp_path, [header, json.dumps(row)])


def test_K2_runs_of_a_cursor_are_pairs(disk: StoreOnDisk, tmp_path: Path) -> None:
    header, *others = exported(disk.data, tmp_path)
    cursor = next(row for row in others if row["kind"] == "cursor")
    with pytest.raises(BadRow, match="row 2: held must be pairs"):
        read(disk, tmp_path, [json_line(header), json_line(cursor | {"held": [7]})])


# ---- marks, cursors and batches --------------------------------------------------------------------------------


def test_K2_what_may_have_reached_a_consumer_says_so_in_the_new_store(tmp_path: Path) -> None:
    disk, new = StoreOnDisk(tmp_path / "data"), StoreOnDisk(tmp_path / "new")
    with disk:
        seen = disk.send("queue://orders", "dispatched, and not consumed")
        disk.send("queue://orders", "waits")
        disk.store.mark_dispatched(where("queue://orders"), seen.sequence)
        disk.settle()
    rows = exported(disk.data, tmp_path)
    imported(offline_store(new.data, tmp_path / "scratch"), lambda: iter(rows))
    with new:
        loaded = new.store.load(where("queue://orders"), [1, 2])
        assert [it.redelivery_counter for it in loaded if it is not None] == [1, 0]


def test_K2_marks_are_not_spread_to_messages_that_were_there(tmp_path: Path) -> None:
    """The place has messages of its own, with sequences of its own: what is imported says itself that it was seen."""
    disk, other = StoreOnDisk(tmp_path / "data"), StoreOnDisk(tmp_path / "other")
    with disk:
        for number in range(3):
            disk.send("queue://orders", f"{number}")
        disk.store.mark_dispatched(where("queue://orders"), 2)
        disk.settle()
    with other:
        other.send("queue://orders", "was here")
    rows = exported(disk.data, tmp_path)
    imported(offline_store(other.data, tmp_path / "scratch"), lambda: iter(rows))
    with other:
        loaded = other.store.load(where("queue://orders"), [1, 2, 3, 4])
        assert [it.redelivery_counter for it in loaded if it is not None] == [0, 1, 1, 0]


def test_K2_cursors_and_batches_follow_messages_that_got_other_sequences(tmp_path: Path) -> None:
    disk, other = StoreOnDisk(tmp_path / "data"), StoreOnDisk(tmp_path / "other")
    queue = where("queue://orders")
    with disk:
        message = disk.send("queue://orders", "read")
        disk.send("queue://orders", "staged")
        disk.store.put_state_record(CursorRecord("reader", queue, message.destination, None, 0, 0, (1, 1), (1, 1)))
        disk.store.put_state_record(StagedRecord("p", "part", 0, 0, False, ((queue, (2, 1)),)))
        disk.settle()
    with other:
        for _ in range(3):
            other.send("queue://orders", "was here")
    rows = exported(disk.data, tmp_path)
    imported(offline_store(other.data, tmp_path / "scratch"), lambda: iter(rows))
    with other:
        notes = {type(note): note for note in other.store.state_records()}
        assert notes[CursorRecord] == CursorRecord("reader", queue, message.destination, None, 0, 0, (4, 1), (4, 1))
        assert notes[StagedRecord] == StagedRecord("p", "part", 0, 0, False, ((queue, (5, 1)),))


def test_K2_a_message_that_was_changed_for_one_subscription_keeps_its_sequence(tmp_path: Path) -> None:
    """It has two rows: one for each form."""
    disk, new = StoreOnDisk(tmp_path / "data"), StoreOnDisk(tmp_path / "new")
    with disk:
        for client_id in "cd":
            disk.subscribe(client_id, "s", "topic://t")
        message = disk.send("topic://t", "for both", places=["c/s", "d/s"])
        again = message.copy()
        again.redelivery_counter = 3
        with disk.store.atomically():
            disk.store.remove(where("d/s"), message)
            disk.store.append(again, [where("d/s")])
        disk.settle()
    rows = exported(disk.data, tmp_path)
    assert [row["redelivery_count"] for row in rows if row["kind"] == "message"] == [0, 3]
    imported(offline_store(new.data, tmp_path / "scratch"), lambda: iter(rows))
    assert exported(new.data, tmp_path) == rows


def test_K2_sequences_that_were_used_are_not_given_again(tmp_path: Path) -> None:
    disk, new = StoreOnDisk(tmp_path / "data"), StoreOnDisk(tmp_path / "new")
    with disk:
        disk.remove("queue://orders", disk.send("queue://orders", "consumed"))
    rows = exported(disk.data, tmp_path)
    imported(offline_store(new.data, tmp_path / "scratch"), lambda: iter(rows))
    with new:
        assert new.store.last_sequence() == 1


# ---- versions and completeness ---------------------------------------------------------------------------------


def test_K2_an_export_of_the_first_version_is_read(disk: StoreOnDisk, tmp_path: Path) -> None:
    """It said of a message that was dispatched and not consumed that its redelivery count is true."""
    since = ("ackwire-export", "place", "crash", "cursor", "staged", "batch", "end")
    rows = [row for row in exported(disk.data, tmp_path) if row["kind"] not in since]
    first = next(row for row in rows if row["kind"] == "message")
    first["redelivery_count"] = True
    rows = [{"kind": "ackwire-export", "version": 1}, *rows, {"kind": "end", "rows": len(rows)}]
    path = tmp_path / "old.jsonl"
    path.write_text("\n".join(map(json_line, rows)))
    imported(offline_store(tmp_path / "new", tmp_path / "scratch"), lambda: read_lines(path))
    new = StoreOnDisk(tmp_path / "new")
    with new, disk:
        assert new.texts() == disk.texts()
        (loaded,) = new.store.load(where("queue://orders"), [first["sequence"]])
        assert loaded is not None
        assert loaded.redelivery_counter == 1


def test_every_kind_of_state_has_a_rule() -> None:
    """Whoever adds a kind says here how it is carried."""

    def members(value: object) -> Iterator[type]:
        for member in get_args(value) if isinstance(value, UnionType) else (value,):
            if isinstance(member, UnionType):
                yield from members(member)
            else:
                yield get_origin(member) or member

    assert set(members(StateValue)) == RULE_OF_VALUE.keys() | NOT_CARRIED
    assert set(CARRIED) == set(RecordKind)


def test_a_field_without_a_column_is_not_left_out_in_silence(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"fields without a column: .'colour'."):
        write_parquet([{"kind": "message", "colour": "red"}], tmp_path / "some.parquet")

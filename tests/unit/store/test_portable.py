"""Export and import are exact: what comes out of the new store is what came out of the old one (SEMANTICS K2)."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ackwire.cli.rows import json_line, read_lines, read_parquet, write_lines, write_parquet
from ackwire.store.contract import StagedNote
from ackwire.store.portable import BadRow, Export, Import, Row, RowReader, is_empty, refuse_what_is_there
from ackwire.store.workshop import Workshop
from ackwire.values import Byte, Char, Float, Long, Short
from ackwire.wire.openwire.portrait import portrait, restamped
from tests.helpers.store_on_disk import StoreOnDisk, flip, workshop


def exported(data: Path, tmp_path: Path) -> list[Row]:
    with workshop(data, tmp_path / "scratch").look() as look:
        return list(Export(look, portrait).rows())


def imported(shop: Workshop, rows: Callable[[], Iterator[Row]]) -> Import:
    with shop.opened() as opened:
        refuse_what_is_there(opened.store, RowReader(shop.form).read(rows()))
        work = Import(opened, restamped)
        work.run(RowReader(shop.form).read(rows()))
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
        disk.settle()
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
    shop = workshop(tmp_path / "new", tmp_path / "scratch")
    work = imported(shop, lambda: read_parquet(path) if form == "parquet" else read_lines(path))
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
        "message": 20,
        "job": 1,
        "prepared": 1,
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
    imported(workshop(tmp_path / "new", tmp_path / "scratch"), lambda: iter(rows))
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
    rows = [row for row in exported(disk.data, tmp_path) if row["kind"] not in ("job", "prepared", "end")]
    rows.append({"kind": "end", "rows": len(rows) - 1})
    other = StoreOnDisk(tmp_path / "other")
    with other:
        for _ in range(10):
            other.send("queue://orders", "was here")
    work = imported(workshop(other.data, tmp_path / "scratch"), lambda: iter(rows))
    again = [row for row in exported(other.data, tmp_path) if row["kind"] == "message"]
    sequences = [row["sequence"] for row in again]
    assert 0 < work.report.reassigned < 20
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
    imported(workshop(other.data, tmp_path / "scratch"), lambda: iter(rows))
    with other:
        ((_, acknowledged),) = other.store.prepared()[0].acks
        assert acknowledged.sequence == 2


@pytest.mark.parametrize("kind", ["job", "prepared", "durable"])
def test_K2_nothing_is_overwritten(disk: StoreOnDisk, tmp_path: Path, kind: str) -> None:
    rows = [row for row in exported(disk.data, tmp_path) if row["kind"] in ("ackwire-export", kind)]
    for row in rows:
        if "selector" in row:
            row["selector"] = "another = 1"
    rows.append({"kind": "end", "rows": len(rows) - 1})
    with pytest.raises(BadRow, match="is there already"):
        imported(workshop(disk.data, tmp_path / "scratch"), lambda: iter(rows))


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
    with workshop(disk.data, tmp_path / "scratch").look() as look:
        export = Export(look, portrait)
        texts = [row.get("text") for row in export.rows()]
    assert "m004" * 12 not in texts
    (line,) = export.unreadable
    assert line.startswith(f"message 5 of queue://orders, at {offset} of segment {int(path.stem)}, is left out")


# ---- files that are not what they should be --------------------------------------------------------------------


def read(disk: StoreOnDisk, tmp_path: Path, lines: list[str]) -> None:
    path = tmp_path / "some.jsonl"
    path.write_text("\n".join(lines))
    shop = workshop(disk.data, tmp_path / "scratch")
    for _ in RowReader(shop.form).read(read_lines(path)):
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
        (lambda lines: [lines[0].replace('"version":1', '"version":2')], "it has version 2"),
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


def test_K2_what_is_staged_and_not_committed_is_left_out(disk: StoreOnDisk, tmp_path: Path) -> None:
    """It is not there yet."""
    with disk:
        staged = disk.send("queue://odd", "staged")
        disk.store.put_note(StagedNote("p", "part", 0, 0, False, ((staged.destination, (staged.sequence, 1)),)))
        disk.settle()
    rows = exported(disk.data, tmp_path)
    assert [row for row in rows if row.get("text") == "staged"] == []
    assert [row["kind"] for row in rows].count("message") == 20

"""`ackwire store` as a user runs it, on real files (SEMANTICS K2, K7)."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.helpers.openwire_client import OpenWireClient, queue
from tests.helpers.processes import running_broker
from tests.helpers.store_on_disk import StoreOnDisk, every_index, flip, snapshot  # noqa: F401 - one is a fixture

pytestmark = pytest.mark.system
ACKWIRE = Path(sys.executable).with_name("ackwire")


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


def ackwire(*arguments: object, stdin: str = "") -> Outcome:
    argv = [str(ACKWIRE), *map(str, arguments)]
    done = subprocess.run(argv, capture_output=True, text=True, input=stdin, timeout=60, check=False)
    assert "Traceback" not in done.stderr
    return Outcome(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def disk(tmp_path: Path) -> StoreOnDisk:
    disk = StoreOnDisk(tmp_path / "data")
    with disk:
        disk.fill()
    return disk


@pytest.fixture
def damaged(disk: StoreOnDisk) -> StoreOnDisk:
    path, offset = disk.record_with(b"m004")
    flip(path, offset + 60)
    return disk


def test_K2_check_says_that_a_store_is_sound(disk: StoreOnDisk) -> None:
    before = snapshot(disk.data)
    code, out, err = ackwire("store", "check", disk.data)
    assert (code, err) == (0, "")
    assert "16 messages in queue://orders" in out
    assert out.endswith("the store is sound\n")
    assert snapshot(disk.data) == before


def test_K7_check_names_the_damage_and_what_repair_would_do(damaged: StoreOnDisk) -> None:
    before = snapshot(damaged.data)
    code, out, _ = ackwire("store", "check", damaged.data)
    assert code == 1
    assert "-> repair would copy the bytes to the quarantine" in out
    assert "message 5 of queue://orders" in out
    report = json.loads(ackwire("store", "check", damaged.data, "--json").out)
    assert report["sound"] is False
    assert [it["kind"] for it in report["findings"]] == ["journal", "message"]
    assert report["findings"][1]["place"] == {"destination": "queue://orders"}
    assert snapshot(damaged.data) == before


def test_K7_repair_does_nothing_without_yes_and_everything_with_it(damaged: StoreOnDisk) -> None:
    before = snapshot(damaged.data)
    code, out, _ = ackwire("store", "repair", damaged.data)
    assert code == 1
    assert "lost: 1 message is given up in queue://orders" in out
    assert "nothing was changed" in out
    assert snapshot(damaged.data) == before
    code, out, _ = ackwire("store", "repair", damaged.data, "--yes")
    assert code == 0
    assert "lost: 1 message was given up in queue://orders" in out
    assert ackwire("store", "check", damaged.data).code == 0
    assert ackwire("store", "repair", damaged.data).code == 0


def test_K7_repair_says_when_nobody_can_know_what_was_lost(damaged: StoreOnDisk) -> None:
    shutil.rmtree(damaged.data / "index")
    for options in ((), ("--yes",)):
        assert (
            "held is not known, because the index cannot be used"
            in ackwire("store", "repair", damaged.data, *options).out
        )


@pytest.mark.usefixtures("every_index")
def test_K2_a_damaged_index_is_rebuilt_by_repair(disk: StoreOnDisk) -> None:
    path = disk.index_file()
    flip(path, path.stat().st_size // 2)
    assert "has changed since the last stop" in ackwire("store", "check", disk.data).out
    assert ackwire("store", "repair", disk.data, "--yes").code == 0
    assert ackwire("store", "check", disk.data).code == 0
    assert json.loads(ackwire("store", "stats", disk.data, "--json").out)["index_kind"] == disk.index_kind.value


def test_K2_a_missing_index_is_rebuilt_by_repair(disk: StoreOnDisk) -> None:
    shutil.rmtree(disk.data / "index")
    assert ackwire("store", "check", disk.data).code == 1
    assert ackwire("store", "repair", disk.data, "--yes").code == 0
    assert ackwire("store", "check", disk.data).code == 0


@pytest.mark.usefixtures("every_index")
def test_K2_explain_and_stats_read_only(disk: StoreOnDisk) -> None:
    before = snapshot(disk.data)
    code, out, _ = ackwire("store", "explain", disk.data)
    assert (code, len(out.splitlines())) == (0, len(disk.segments()))
    assert "is kept by" in out
    (one,) = json.loads(ackwire("store", "explain", disk.data, "1", "--json").out)
    assert (one["number"], one["places"][0]["destination"]) == (1, "queue://orders")
    assert ackwire("store", "explain", disk.data, "77").code == 2
    said = ackwire("store", "stats", disk.data).out
    assert "messages  20" in said
    assert f"index     {disk.index_kind.title}, " in said
    totals = json.loads(ackwire("store", "stats", disk.data, "--json").out)
    assert (totals["messages"], totals["durables"], totals["epoch"]) == (20, 2, 1)
    assert snapshot(disk.data) == before


@pytest.mark.parametrize("name", ["all.jsonl", "all.parquet"])
def test_K2_export_and_import_are_exact(disk: StoreOnDisk, tmp_path: Path, name: str) -> None:
    before = snapshot(disk.data)
    assert ackwire("store", "export", disk.data, tmp_path / name).code == 0
    assert snapshot(disk.data) == before
    assert ackwire("store", "import", tmp_path / "new", tmp_path / name).code == 0
    first = ackwire("store", "export", disk.data, "-").out
    assert ackwire("store", "export", tmp_path / "new", "-").out == first
    assert ackwire("store", "check", tmp_path / "new").code == 0


@pytest.mark.parametrize("name", ["all.jsonl", "all.parquet"])
def test_K2_what_was_dispatched_and_not_consumed_is_carried(tmp_path: Path, name: str) -> None:
    """F1: it may have reached the consumer, and says so after the journey."""
    data = tmp_path / "data"
    listen, options = ["tcp://127.0.0.1:0"], ("--data", str(data))
    with (
        running_broker(listen, log_path=tmp_path / "broker.log", options=options) as broker,
        OpenWireClient.logged_in(broker.ports[0]) as client,
    ):
        client.send_text(queue("orders"), "seen", persistent=True)
        client.receive(client.subscribe(queue("orders"), prefetch_size=1))
    assert ackwire("store", "export", data, tmp_path / name).code == 0
    assert ackwire("store", "import", tmp_path / "new", tmp_path / name).code == 0
    first = ackwire("store", "export", data, "-").out
    assert ackwire("store", "export", tmp_path / "new", "-").out == first
    options = ("--data", str(tmp_path / "new"))
    with (
        running_broker(listen, log_path=tmp_path / "new.log", options=options) as broker,
        OpenWireClient.logged_in(broker.ports[0]) as client,
    ):
        assert client.receive(client.subscribe(queue("orders"))).redelivery_counter == 1


def test_K2_import_reads_standard_input_and_refuses_a_store_that_holds_something(
    disk: StoreOnDisk, tmp_path: Path
) -> None:
    text = ackwire("store", "export", disk.data, "-").out
    assert ackwire("store", "import", tmp_path / "new", "-", stdin=text).code == 0
    refused = ackwire("store", "import", tmp_path / "new", "-", stdin=text)
    assert (refused.code, "--append adds" in refused.err) == (2, True)
    some = [json.loads(line) for line in text.splitlines()]
    some = [row for row in some if row["kind"] in ("ackwire-export", "message")]
    lines = [*map(json.dumps, some), json.dumps({"kind": "end", "rows": len(some) - 1})]
    added = ackwire("store", "import", tmp_path / "new", "-", "--append", stdin="\n".join(lines))
    assert (added.code, "got another sequence" in added.err) == (0, True)
    assert json.loads(ackwire("store", "stats", tmp_path / "new", "--json").out)["messages"] == 40


def test_K2_a_file_that_was_cut_off_changes_nothing(disk: StoreOnDisk, tmp_path: Path) -> None:
    text = ackwire("store", "export", disk.data, "-").out
    outcome = ackwire("store", "import", tmp_path / "new", "-", stdin=text[: len(text) // 2])
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "nothing was imported" in outcome.err
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_K7_export_of_a_damaged_store_leaves_out_what_cannot_be_read(damaged: StoreOnDisk, tmp_path: Path) -> None:
    outcome = ackwire("store", "export", damaged.data, tmp_path / "all.jsonl")
    assert outcome.code == 1
    assert "message 5 of queue://orders" in outcome.err
    assert len((tmp_path / "all.jsonl").read_text().splitlines()) > 10
    assert ackwire("store", "export", damaged.data, tmp_path / "all.jsonl").code == 2, "it exists"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("check", "nowhere"), "is not a store"),
        (("export", "nowhere", "-", "--format", "parquet"), "cannot be written to standard output"),
        (("import", "nowhere", "missing.jsonl"), "is not a file"),
        (("check",), "required: DIR"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(arguments: tuple[str, ...], said: str) -> None:
    code, out, err = ackwire("store", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_K2_a_store_in_use_is_left_alone_and_the_running_broker_explains_its_files(tmp_path: Path) -> None:
    data = tmp_path / "data"
    options = ("--data", str(data))
    with running_broker(["tcp://127.0.0.1:0"], log_path=tmp_path / "broker.log", options=options) as broker:
        with OpenWireClient.logged_in(broker.ports[0]) as client:
            client.send_text(queue("orders"), "m")
        for command in (("check",), ("repair", "--yes"), ("explain",), ("stats",)):
            code, out, err = ackwire("store", command[0], data, *command[1:])
            assert (code, out) == (2, "")
            assert f"is in use by broker localhost, process {broker.process.pid} on " in err
        url = f"tcp://127.0.0.1:{broker.ports[0]}"
        code, out, _ = ackwire("why", "file", "--url", url)
        assert code == 0
        assert out.startswith("0000000001.log (32 MiB, ")
        assert ackwire("why", "file", "0000000001.log", "--url", url).out == out
        assert "has no file 9" in ackwire("why", "file", "9", "--url", url).out
    assert ackwire("store", "check", data).code == 0


def test_K5_a_broker_changes_its_index_and_keeps_its_messages(tmp_path: Path) -> None:
    """There and back: each time the index is made anew, and it is the only one."""
    data, config = tmp_path / "data", tmp_path / "ackwire.toml"
    for number, index in enumerate(("leveldb", "lmdb", "leveldb")):
        config.write_text(f'[store]\nindex = "{index}"\n')
        options = ("--data", str(data), "--config", str(config))
        log = tmp_path / f"broker-{number}.log"
        with (
            running_broker(["tcp://127.0.0.1:0"], log_path=log, options=options) as broker,
            OpenWireClient.logged_in(broker.ports[0]) as client,
        ):
            client.send_text(queue("orders"), f"m{number}", persistent=True)
        totals = json.loads(ackwire("store", "stats", data, "--json").out)
        assert (totals["index_kind"], totals["messages"], totals["quarantined"]) == (index, number + 1, 0)
        assert ackwire("store", "check", data).code == 0
        assert "ERROR" not in log.read_text()

"""The index of either kind (K5): it holds what a sorted dictionary would, and is made anew when it is of the other."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from ackwire.store.blocks import sealed
from ackwire.store.index import Changes, Index, OtherIndex, Table
from ackwire.store.index_files import IndexKind, content_files, kind_of
from ackwire.store.indexes import open_index
from tests.helpers.memory_index import IndexMedium, MemoryIndex
from tests.helpers.simulated_disk import SimulatedDisk
from tests.helpers.store_on_disk import StoreOnDisk, checked, offline_store

Content = dict[Table, dict[bytes, bytes]]
OTHER = {IndexKind.LMDB: IndexKind.LEVELDB, IndexKind.LEVELDB: IndexKind.LMDB}


def content(index: Index) -> Content:
    return {table: dict(index.items(table)) for table in Table}


def some_key(random: Random) -> bytes:
    return random.randbytes(random.choice((1, 2))) + bytes(random.randrange(3))


def some_changes(random: Random) -> Callable[[], Changes]:
    """The same changes each time it is called."""
    seed = random.random()

    def make() -> Changes:
        chance = Random(seed)
        changes = Changes()
        for table in Table:
            keys = [some_key(chance) for _ in range(chance.randrange(30))]
            changes.puts[table] = [(key, sealed(key, chance.randbytes(20))) for key in keys]
            changes.deletes[table] = [some_key(chance) for _ in range(chance.randrange(10))]
            changes.edits[table] = [(some_key(chance), lengthened) for _ in range(chance.randrange(10))]
            first, last = sorted((some_key(chance), some_key(chance)))
            if chance.random() < 0.3:
                changes.ranges.append((table, first, last, frozenset(keys[:5])))
        return changes

    return make


def lengthened(value: bytes | None) -> bytes | None:
    """An edit: nothing becomes something, and what is long goes."""
    if value is None:
        return b"new"
    return None if len(value) > 30 else value + b"longer"


@pytest.fixture(params=IndexKind, ids=lambda kind: kind.value)
def kind(request: pytest.FixtureRequest) -> IndexKind:
    kind: IndexKind = request.param
    return kind


@pytest.mark.parametrize("seed", range(5))
def test_K5_an_index_holds_what_a_dictionary_would(kind: IndexKind, tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    model: Index = MemoryIndex(SimulatedDisk(), IndexMedium())
    index = open_index(kind, tmp_path / "index")
    for _ in range(30):
        make = some_changes(random)
        before = content(model)
        for it in (model, index):
            it.commit(make())
        if random.random() < 0.8:
            assert content(index) == before, "as of the last refresh"
            for it in (model, index):
                it.refresh()
        table, first, last = random.choice(list(Table)), *sorted((some_key(random), some_key(random)))
        assert list(index.items(table, first, last)) == list(model.items(table, first, last))
        assert list(index.items(table, first)) == list(model.items(table, first))
        assert index.get(table, first) == model.get(table, first)
        if random.random() < 0.1:
            for it in (model, index):
                it.clear()
        if random.random() < 0.3:
            (index.close if random.random() < 0.5 else index.abandon)()
            index = open_index(kind, tmp_path / "index")
            model.refresh()
            assert content(index) == content(model)
    index.abandon()


def test_K5_many_rows_are_read_in_order(kind: IndexKind, tmp_path: Path) -> None:
    rows = [(b"%06d" % number, b"x" * (number % 50)) for number in range(5000)]
    index = open_index(kind, tmp_path / "index")
    index.commit(Changes(puts={Table.MESSAGES: rows, Table.COUNTS: rows[:3]}))
    index.refresh()
    assert list(index.items(Table.MESSAGES)) == rows
    assert list(index.items(Table.MESSAGES, b"000100", b"004000")) == rows[100:4001]
    assert list(index.items(Table.COUNTERS)) == [], "its name begins like another one's"
    assert index.size_bytes > 0
    index.close()


# ---- one kind after the other ----------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", ["closed", "killed"])
def test_K5_a_store_goes_on_with_another_index(kind: IndexKind, tmp_path: Path, stop: str) -> None:
    """K2: the index is made anew from the journal, which is no damage, and nothing of the old one is left."""
    texts: dict[str, list[str | None]] = {}
    disk = StoreOnDisk(tmp_path / "data", index=kind)
    for round_number in range(4):  # there and back again: an index that was left behind would be old by then
        with disk:
            assert disk.store.report.damages == []
            assert disk.store.report.is_rebuilt == (round_number > 0)
            assert disk.texts() == texts
            for number in range(20):
                message = disk.send("queue://a", f"{round_number}-{number}" + "x" * 200)
                if number % 2:
                    disk.remove("queue://a", message)
            disk.store.checkpoint()
            disk.settle()
            texts = disk.texts()
            if stop == "killed":
                disk.crash()
        assert kind_of(disk.data / "index") is disk.index_kind
        assert checked(offline_store(disk.data, tmp_path / "scratch")).findings == []
        disk.index_kind = OTHER[disk.index_kind]
    assert not (disk.data / "quarantine").exists()


def test_K5_an_index_with_files_of_the_other_kind_is_not_believed(kind: IndexKind, tmp_path: Path) -> None:
    """As an older version leaves it, which knows LMDB only: LevelDB's files would be those of an earlier time."""
    disk = StoreOnDisk(tmp_path / "data", index=kind)
    with disk:
        disk.send("queue://a", "first")
    other = open_index(OTHER[kind], tmp_path / "index")
    other.commit(Changes(puts={Table.META: [(b"checkpoint", b"{}")]}))
    other.close()
    for path in content_files(tmp_path / "index"):
        (disk.data / "index" / path.name).write_bytes(path.read_bytes())
    with pytest.raises(OtherIndex):
        open_index(kind, disk.data / "index")
    with disk:
        assert disk.texts() == {"queue://a": ["first"]}
    assert kind_of(disk.data / "index") is kind
    with disk:
        assert not disk.store.report.is_rebuilt


# ---- without plyvel --------------------------------------------------------------------------------------------


@pytest.fixture
def without_plyvel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plyvel", None)
    monkeypatch.delitem(sys.modules, "ackwire.store.leveldb_index", raising=False)


def test_K5_without_plyvel_one_sentence_says_what_to_do(tmp_path: Path) -> None:
    """In a process of its own: a compiled module is not loaded twice in one."""
    program = "import sys; sys.modules['plyvel'] = None; from ackwire.cli.main import main; sys.exit(main())"
    config = tmp_path / "ackwire.toml"
    config.write_text('[store]\nindex = "leveldb"\n')
    listen = ("--listen", "tcp://127.0.0.1:0")
    argv = ["serve", *listen, "--config", str(config), "--data", str(tmp_path / "data"), "--log-level", "warning"]
    done = subprocess.run([sys.executable, "-c", program, *argv], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert 'plyvel, which is not installed: pip install "ackwire[leveldb]"' in done.stderr
    assert list(tmp_path.iterdir()) == [config]


def test_K5_a_store_leaves_leveldb_where_plyvel_is_not_installed(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    disk = StoreOnDisk(tmp_path / "data", index=IndexKind.LEVELDB)
    with disk:
        disk.send("queue://a", "kept")
    request.getfixturevalue("without_plyvel")
    disk.index_kind = IndexKind.LMDB
    with disk:
        assert disk.texts() == {"queue://a": ["kept"]}

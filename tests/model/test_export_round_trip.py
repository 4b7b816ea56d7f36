"""Export, import, export again: the same rows, byte by byte, whatever a store holds (SEMANTICS K2).

Random stores, made of everything that a broker records, with restarts and crashes between. Each is carried as JSON
lines and as Parquet, and what the new store serves is what the old one serves.
"""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from ackwire.cli.rows import read_lines, read_parquet, write_lines, write_parquet
from ackwire.store.portable import Export, Import, JournalSource, RowReader, refuse_what_is_there
from ackwire.wire.openwire.portrait import portrait, restamped
from tests.helpers.reference import Reference
from tests.helpers.store_history import KINDS, Happenings
from tests.helpers.store_on_disk import StoreOnDisk, offline_store
from tests.helpers.stored import Kept, kept

IN_MEMORY = Path("/dev/shm")
"""Syncs cost nothing there; where it is missing, the test is slow."""

STEPS = (*KINDS, "count", "refuse", "restart", "crash")


def filled(folder: Path, steps: list[str], seed: int) -> StoreOnDisk:
    """A store to which all that has happened."""
    disk, state, happenings, random = StoreOnDisk(folder), Reference(), Happenings(), Random(seed)
    disk.__enter__()
    for step in steps:
        disk.clock.advance(0.01)
        match step:
            case "count":
                disk.store.remember_count(b"a producer that is gone %d" % random.randrange(3), random.randrange(100))
            case "refuse":
                disk.store.remember_count(b"refused a producer" + random.randbytes(8), random.randrange(3))
            case "restart":
                disk.store.close()
                disk.__enter__()
            case "crash":
                disk.settle()
                disk.crash()
                disk.__enter__()
            case _:
                for verb in happenings.make(step, state, random):
                    verb(disk.store)
                    verb(state)
    disk.settle()
    if seed % 2:
        disk.crash()
    else:
        disk.store.close()
    return disk


def export(data: Path, scratch: Path, form: str) -> Path:
    """The file that an export of *data* writes."""
    path = data.with_suffix(f".{form}")
    with offline_store(data, scratch).inspect() as inspection:
        export = Export(JournalSource(inspection), portrait)
        if form == "parquet":
            write_parquet(export.rows(), path)
        else:
            with path.open("w", encoding="ascii") as file:
                write_lines(export.rows(), file)
        assert not export.unreadable
    return path


def carried(path: Path, data: Path, scratch: Path) -> None:
    """Import *path* into a new store in *data*."""
    offline = offline_store(data, scratch)
    read = read_parquet if path.suffix == ".parquet" else read_lines
    with offline.opened() as opened:
        refuse_what_is_there(opened.store, RowReader(offline.form).read(read(path)))
        work = Import(opened, restamped)
        work.run(RowReader(offline.form).read(read(path)))
    assert work.report.reassigned == 0


def served(data: Path) -> Kept:
    disk = StoreOnDisk(data)
    with disk:
        return kept(disk.store)


@settings(max_examples=25, deadline=None)
@given(steps=st.lists(st.sampled_from(STEPS), max_size=60), seed=st.integers(0, 2**32))
def test_K2_an_export_of_an_import_is_the_same_byte_by_byte(steps: list[str], seed: int) -> None:
    with TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as name:
        folder = Path(name)
        scratch = folder / "scratch"
        scratch.mkdir()
        disk = filled(folder / "old", steps, seed)
        lines = export(disk.data, scratch, "jsonl")
        table = export(disk.data, scratch, "parquet")
        carried(lines, folder / "by_lines", scratch)
        carried(table, folder / "by_table", scratch)
        for new in ("by_lines", "by_table"):
            assert export(folder / new, scratch, "jsonl").read_bytes() == lines.read_bytes()
            assert export(folder / new, scratch, "parquet").read_bytes() == table.read_bytes()
        old = served(disk.data)
        assert served(folder / "by_lines") == old
        assert served(folder / "by_table") == old

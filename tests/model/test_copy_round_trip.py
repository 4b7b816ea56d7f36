"""Journal to SQLite and back to a journal: the same messages and state, whatever a store holds (SEMANTICS K2, K3)."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.offline_stores import copied, offline_sqlite, summary
from tests.helpers.store_on_disk import offline_store
from tests.model.test_export_round_trip import IN_MEMORY, STEPS, export, filled, served


@settings(max_examples=25, deadline=None)
@given(steps=st.lists(st.sampled_from(STEPS), max_size=60), seed=st.integers(0, 2**32))
def test_K2_K3_a_copy_to_a_database_and_back_holds_the_same(steps: list[str], seed: int) -> None:
    with TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as name:
        folder = Path(name)
        scratch = folder / "scratch"
        scratch.mkdir()
        disk = filled(folder / "old", steps, seed)
        database, back = offline_sqlite(folder / "messages.db"), offline_store(folder / "back", scratch)
        old = copied(offline_store(disk.data, scratch), database)
        between = summary(database)
        assert list(old.differences(between)) == []
        assert (old.checksum, old.producers) == (between.checksum, between.producers)
        assert list(copied(database, back).differences(summary(back))) == []
        lines = export(disk.data, scratch, "jsonl").read_bytes()
        assert export(folder / "back", scratch, "jsonl").read_bytes() == lines
        assert served(folder / "back") == served(disk.data)

"""The files: their columns, and that Spark can read them as they are."""

from pathlib import Path

import pyarrow.dataset as ds
import pyarrow.parquet as pq

from ackwire.tabular.audit_schema import AUDIT
from tests.helpers.broker_rig import BrokerRig
from tests.unit.audit.rigs import FileAudit


def one_file(tmp_path: Path, text: str = "orders") -> Path:
    files = FileAudit(tmp_path)
    rig = BrokerRig(clock=files.clock, audit=files.log)
    rig.consumer(f"queue://{text}")
    rig.connect("p").send(f"queue://{text}")
    files.close()
    (file,) = files.convert()
    return file


def test_a_file_has_the_columns_of_the_schema_with_plain_types(tmp_path: Path) -> None:
    schema = pq.ParquetFile(one_file(tmp_path)).schema_arrow
    assert [(it.name, it.type) for it in schema] == [(it.name, it.type) for it in AUDIT]


def test_files_are_found_by_date_and_hour(tmp_path: Path) -> None:
    file = one_file(tmp_path)
    assert file.parent == tmp_path / "events" / "date=2023-11-14" / "hour=22"
    assert file.name == "rig-1700000000000-000000000000001.parquet"
    table = ds.dataset(tmp_path / "events", partitioning="hive").to_table()
    assert set(table.column("date").to_pylist()) == {"2023-11-14"}


def test_a_name_that_has_no_utf8_form_does_not_stop_the_rest(tmp_path: Path) -> None:
    table = pq.ParquetFile(one_file(tmp_path, "a\ud800b")).read()
    assert "queue://a?b" in table.column("place").to_pylist()

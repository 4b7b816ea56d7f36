"""What the broker writes is what Spark is told to read."""

from ackwire.spark.audit.cleaning import EVENT_COLUMNS
from ackwire.tabular.audit_schema import AUDIT

SPARK = {"timestamp[us, tz=UTC]": "timestamp", "int64": "bigint", "int32": "int", "bool": "boolean"}


def test_the_columns_of_events_are_those_of_the_broker() -> None:
    assert ", ".join(f"{it.name} {SPARK.get(str(it.type), str(it.type))}" for it in AUDIT) == EVENT_COLUMNS

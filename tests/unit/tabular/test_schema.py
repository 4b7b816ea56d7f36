"""One schema, said in Arrow's words and in Spark's."""

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from ackwire.tabular.schema import DESCRIPTIONS, MESSAGE, SPARK_DDL


def test_spark_reads_the_same_names_and_types() -> None:
    in_spark = from_arrow_schema(MESSAGE)
    said = SPARK_DDL.lower().replace("`", "").replace(", string>", ",string>").split(", ")
    assert said == [f"{field.name} {field.dataType.simpleString()}" for field in in_spark]


def test_spark_hands_out_exactly_our_types() -> None:
    assert to_arrow_schema(from_arrow_schema(MESSAGE), timezone="UTC").equals(MESSAGE)


@pytest.mark.parametrize("field", list(MESSAGE), ids=MESSAGE.names)
def test_every_column_may_be_null_and_is_described(field: pa.Field) -> None:
    assert field.nullable
    assert DESCRIPTIONS[field.name]

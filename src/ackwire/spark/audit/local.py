"""Between the job and Spark: small tables that the job itself makes, and work on files that workers do in Python.

The tables go to Spark as Arrow: from a list of rows Spark would start Python processes to convert them, for seconds.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


SHARES_MAX: Final = 1000
"""Parts in which workers look at files."""


def local_rows(spark: "SparkSession", rows: Sequence[tuple[Any, ...]], columns: str) -> "DataFrame":
    """These rows; *columns* as in `a string, b bigint`."""
    schema = StructType.fromDDL(columns)
    assert isinstance(schema, StructType)
    arrow = to_arrow_schema(schema, timezone="UTC")
    arrays = [pa.array([row[n] for row in rows], field.type) for n, field in enumerate(arrow)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=arrow), schema)


def shares(files: Sequence[str], count: int) -> list[list[str]]:
    """The files in at most *count* parts, neighbours together."""
    size = max(1, -(-len(files) // count))
    return [list(files[it : it + size]) for it in range(0, len(files), size)]


def in_workers(spark: "SparkSession", do: Callable[[Sequence[str]], list[Any]], parts: list[list[str]]) -> list[Any]:
    """Run a function in Spark's workers, a part for each, and collect the results."""
    return spark.sparkContext.parallelize(parts, len(parts)).flatMap(do).collect() if parts else []

"""Spark: the data source `format("ackwire")`, and sessions with sane settings.

`spark.read.format("ackwire")` needs no import: Spark finds `pyspark_ackwire` by its name. `session` starts a Spark of
this machine, or the client of a cluster, and brings a Java along if there is none.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["session"]


def session(app_name: str = "ackwire", master: str | None = None, **conf: Any) -> "SparkSession":
    """A Spark session; see `ackwire.spark.session.session`."""
    # Not at the top: Spark's workers import this package for every task, and need no session.
    from ackwire.spark.session import session as start

    return start(app_name, master, **conf)

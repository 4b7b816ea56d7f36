"""What makes Spark find `format("ackwire")`: it looks for modules named `pyspark_…` with a `DefaultSource`."""

from ackwire.spark.source import AckwireSource as DefaultSource

__all__ = ["DefaultSource"]

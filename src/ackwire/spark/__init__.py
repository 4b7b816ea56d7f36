"""Spark: the data source `format("ackwire")`, and sessions with sane settings.

`spark.read.format("ackwire")` needs no import: Spark finds `pyspark_ackwire` by its name. `session.session` starts a
Spark of this machine, or the client of a cluster, and brings a Java along if there is none. Nothing is imported here:
Spark's workers import this package for every task.
"""

"""Options for JVMs of tests, which live for seconds: half of their time would go into loading and optimising code.

Without the optimising compiler Java reserves 48 MB for compiled code. Spark filled them with the sixth day of the audit
in one process: Java said that it stops compiling, and that day took twice the CPU time, the next one a third more.
So the usual 240 MB are asked for.
"""

from pathlib import Path
from typing import Final

SPARK_CLASSES: Final = Path(__file__).resolve().parents[2] / "build" / "spark-classes.jsa"
"""Spark's classes as Java has them in memory, made by `python -m tests.helpers.spark_classes` (`make test` does that).
With them a Spark starts in half of its CPU time. A Java that does not find them, or cannot use them, loads the jars."""

QUIET: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Not a word about classes that Java cannot use, or had better not keep."""

QUICK_SPARK: Final = f"-XX:TieredStopAtLevel=1 -XX:SharedArchiveFile={SPARK_CLASSES} {QUIET}"

QUICK_JAVA: Final = {"JAVA_TOOL_OPTIONS": f"{QUICK_SPARK} -XX:ReservedCodeCacheSize=240m"}

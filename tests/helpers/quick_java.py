"""An environment for JVMs of tests: half of their time would go into optimising code that runs for milliseconds.

Without the optimising compiler Java reserves 48 MB for compiled code. Spark filled them with the sixth day of the audit
in one process: Java said that it stops compiling, and that day took twice the CPU time, the next one a third more.
So the usual 240 MB are asked for.
"""

from typing import Final

QUICK_JAVA: Final = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"}

"""An environment for JVMs of tests: half of their time would go into optimising code that runs for milliseconds.

Without the optimising compiler Java reserves 48 MB for compiled code. Spark fills them after a few jobs, and Java then
stops compiling for good: later jobs take twice the processor time. So the usual 240 MB are asked for.
"""

from typing import Final

QUICK_JAVA: Final = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"}

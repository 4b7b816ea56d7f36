"""An environment for JVMs that live for one test: half of their time would go into optimising code that runs once."""

from typing import Final

QUICK_JAVA: Final = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}
